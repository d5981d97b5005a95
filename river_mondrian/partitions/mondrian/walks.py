"""Walks: descents of samples from the root to a leaf, for predictions with any posterior.

At each node a walk stores the sample's distance from the box, and the probability that the sample
has branched off above. The formulas are Equations 5 and 6 of Lakshminarayanan et al. (2014). At the
end, `Prediction.add_walk` applies the posterior to the walk. Each posterior has a subclass of
`Prediction`.
"""

import math
from typing import TypeVar

from ... import records as rec
from ...compiling.kernels import always_inline, inline_in_source, link_by_name
from ...records.numba_types import new_int64s
from . import boxes, scaling
from .box_vectors import MOST_PARTS
from .constants import LEFT, RIGHT
from .records import LANES, F, Forest, Layout, Tree, layout_of
from .sampling import distance_to, mass_below

# Weights below this number are skipped, because they are lost to rounding in float64 sums.
NEGLIGIBLE = 1e-17

# Initial capacity of a walk, in steps.
FIRST_DEPTH = 64

# Least weight of a branch that is followed at a missing value.
LEAST_WEIGHT = 0.02
MOST_BRANCHES = int(1.0 / LEAST_WEIGHT) + 2


class Step(rec.Record):
    """A node on a walk's path, and the distance, time and probabilities at this node."""

    ref: rec.Int64
    # The row of the node or of the point.
    row: rec.Record
    # Distance of the sample from the node's box: the rate of branching off (eta in Equation 5 of
    # Lakshminarayanan et al. 2014).
    eta: rec.Float64
    # Time from the parent's cut to the node's cut or, at a leaf, to the tree's lifetime or the
    # horizon.
    span: rec.Float64
    # Probability of reaching the node without branching off above.
    reach: rec.Float64
    # Probability of having branched off above.
    above: rec.Float64
    # Probability of not branching off at this node, exp(-eta span); not set if eta is 0.
    stays: rec.Float64


class Walk(rec.Record):
    """The walk of a sample down a tree."""

    # Number of steps. The path begins with step 1.
    depth: rec.Int64
    # Time of the parent's cut.
    time: rec.Float64
    tree: Tree
    # `reach` and `above` of the next step.
    reach: rec.Float64
    above: rec.Float64
    # Capacity for steps. The path is moved to larger memory if it has more steps.
    capacity: rec.Int64
    sample: rec.Float32s
    path: rec.Array[Step]
    # Depth of the first light node on the path, or 0 if there is none. `etas`: the distances from
    # the boxes of this node and of all later nodes.
    light_depth: rec.Int64
    etas: rec.Float64s = rec.inline(MOST_PARTS)


class Branch(rec.Record):
    """An unvisited side of a cut, if the sample's value in the cut dimension is missing."""

    ref: rec.Int64
    depth: rec.Int64
    # Time of the cut, and weight of the branch.
    time: rec.Float64
    reach: rec.Float64


class Prediction(rec.Record):
    """A prediction. The walk down each tree adds a term. Each posterior has a subclass."""

    def add_walk(self, forest: Forest, t: int, walk: Walk, row: int) -> None:
        """Add the prediction of tree `t` for the sample with index `row`, whose walk has ended."""


P = TypeVar("P", bound=Prediction)

_buffer_of_walks = rec.array_buffer(Walk, LANES)
_buffer_of_steps = rec.array_buffer(Step, LANES * FIRST_DEPTH)
# The walks that have not ended.
_buffer_of_active = rec.words_buffer(rec.Int64s, LANES)
_buffer_of_branches = rec.array_buffer(Branch, MOST_BRANCHES)


@always_inline
def _descend(forest: Forest, walk: Walk, ref: int) -> None:
    """Move a walk to a child."""
    tree = forest.trees.cast(walk.tree)
    depth = walk.depth + 1
    walk.depth = depth
    step = walk.path[depth]
    step.ref = ref
    if ref >= 0:
        node = tree.nodes.row(ref)
        rec.prefetch(node, forest.node_words)
        step.row = node
    else:
        point = forest.points.row(~ref)
        forest.prefetch_values(tree, point)
        step.row = point


@always_inline
def _start(forest: Forest, tree: Tree, x: rec.Float32s, walk: Walk) -> None:
    """Start a sample's walk at a tree's root."""
    walk.depth = 0
    walk.light_depth = 0
    walk.time = 0.0
    walk.tree = tree
    walk.reach = 1.0
    walk.above = 0.0
    walk.sample = x
    _descend(forest, walk, tree.root)


@always_inline
def _look_ahead(forest: Forest, walk: Walk) -> None:
    """Prefetch the data outside the node's row that the walk's next step reads."""
    step = walk.path[walk.depth]
    if step.ref >= 0:
        tree = forest.trees.cast(walk.tree)
        tree.nodes.cast(step.row).look_ahead(forest, tree)


@inline_in_source
def _eta_of_wide(forest: Forest, walk: Walk, lacks_nothing: bool) -> float:
    """Return the distance of the sample from the current node's box; the node may be light."""
    step = walk.path[walk.depth]
    tree = forest.trees.cast(walk.tree)
    is_light = step.ref >= 0 and not tree.nodes.cast(step.row).has_box(forest)
    if lacks_nothing and (is_light or walk.light_depth > 0):
        if walk.light_depth == 0:
            walk.light_depth = walk.depth
            forest.distances_down(forest, tree, step.ref, walk.sample, 1, walk.etas)
        return walk.etas[walk.depth - walk.light_depth]
    return forest.distance_to_light(forest, tree, step.ref, walk.sample)


@always_inline
def _step(forest: Forest, layout: Layout, walk: Walk, lacks_nothing: bool) -> bool:
    """Store the distance and probabilities of the current node; return whether the path continues.

    If no value is missing (`lacks_nothing`), the walk has a single path.
    """
    step = walk.path[walk.depth]
    tree = forest.trees.cast(walk.tree)
    is_row = step.ref >= 0
    if layout.light_size > 0:
        eta = _eta_of_wide(forest, walk, lacks_nothing)
    elif is_row:
        lower = rec.Float32s(step.row, layout.box_word, layout.capacity)
        upper = rec.Float32s(step.row, layout.box_word + layout.capacity, layout.capacity)
        eta = boxes.distance_outside(walk.sample, lower, upper, layout.n_dims)
    else:
        point = forest.points.cast(step.row)
        eta = boxes.distance_to_point(forest, tree, point, walk.sample)
    time = walk.time
    horizon = forest.horizon - time
    node = tree.nodes.cast(step.row)
    goes_on = is_row and node.dim >= 0 and not node.hides(forest) and node.delta < horizon
    span = node.delta if goes_on else min(tree.lifetime - time, horizon)
    reach = walk.reach
    step.eta = eta
    step.span = span
    step.reach = reach
    step.above = walk.above
    if eta > 0.0:
        # Equation 5: the probability of branching off is 1 - exp(-eta span).
        stays = math.exp(-eta * span)
        step.stays = stays
        walk.above = walk.above + reach * (1.0 - stays)
        walk.reach = reach * stays
    walk.time = time + span
    return goes_on


@link_by_name
def walk_in_lockstep(
    forest: F,
    rows: rec.Float32s,
    first: int,
    by_tree: int,
    n: int,
    walks: rec.Array[Walk],
    active: rec.Int64s,
) -> int:
    """Descend `n` trees with one row or, if `by_tree` is 0, one tree with `n` rows, in lock-step.

    Returns the number of unfinished walks, whose paths have more than `FIRST_DEPTH` - 2 nodes. The
    first elements of `active` are the indices of these walks.
    """
    for i in range(n):
        tree = forest.trees[first + i * by_tree]
        begin = forest.n_values * i * (1 - by_tree) + tree.first_value
        active[i] = i
        _start(forest, tree, rows.part(begin, forest.dim_capacity), walks[i])
    layout = layout_of(forest)
    n_active = n
    for _ in range(FIRST_DEPTH - 2):
        still = 0
        if layout.light_size > 0:
            for a in range(n_active):
                _look_ahead(forest, walks[active[a]])
        for a in range(n_active):
            walk = walks[active[a]]
            if _step(forest, layout, walk, True):
                node = forest.trees.cast(walk.tree).nodes.cast(walk.path[walk.depth].row)
                v = walk.sample[node.dim]
                _descend(forest, walk, node.child(LEFT if v <= node.cut else RIGHT))
                active[still] = active[a]
                still += 1
        n_active = still
        if n_active == 0:
            break
    return n_active


@inline_in_source
def _left_share(forest: Forest, tree: Tree, left: int, right: int, x: rec.Float32s) -> float:
    """Return the left child's share of a walk if the value in the cut dimension is missing."""
    to_left = distance_to(forest, tree, left, x)
    to_right = distance_to(forest, tree, right, x)
    if to_left != to_right:
        return 1.0 if to_left < to_right else 0.0
    mass_left = mass_below(forest, tree, left)
    return mass_left / (mass_left + mass_below(forest, tree, right))


@inline_in_source
def _follow(forest: Forest, walk: Walk, branches: rec.Array[Branch], n_waiting: int) -> int:
    """Continue a walk to its end, and return the new number of waiting branches.

    At a cut on a missing value, the walk follows the child with the nearer box. If both boxes are
    equally near, the children share the walk's weight in proportion to the weights of their
    samples. If a child's weight would be below `LEAST_WEIGHT`, the other child gets all of the
    weight.
    """
    layout = layout_of(forest)
    tree = forest.trees.cast(walk.tree)
    while _step(forest, layout, walk, False):
        if walk.depth + 2 >= walk.capacity:
            # Move the path to memory with twice the capacity.
            longer = rec.new_array(Step, 2 * walk.capacity)
            for i in range(walk.capacity):
                rec.copy_record(walk.path[i], longer[i])
            if walk.capacity > FIRST_DEPTH:
                rec.release(walk.path)
            walk.path = longer
            walk.capacity = 2 * walk.capacity
        node = tree.nodes.cast(walk.path[walk.depth].row)
        v = walk.sample[node.dim]
        share = 1.0 if v <= node.cut else 0.0
        if v != v:
            share = _left_share(forest, tree, node.left, node.right, walk.sample)
        side = LEFT if share >= 0.5 else RIGHT
        share = min(share, 1.0 - share)
        reach = walk.reach
        if reach * share >= LEAST_WEIGHT and n_waiting < MOST_BRANCHES:
            branch = branches[n_waiting]
            branch.ref = node.child(LEFT + RIGHT - side)
            branch.depth = walk.depth
            branch.time = walk.time
            branch.reach = reach * share
            n_waiting += 1
            walk.reach = reach * (1.0 - share)
        _descend(forest, walk, node.child(side))
    return n_waiting


@link_by_name
def finish(forest: F, t: int, walk: Walk, prediction: P, row: int) -> None:
    """Continue a walk along all branches, and add each branch to the prediction."""
    branches, buffer = _buffer_of_branches(), walk.path
    n_waiting = 0
    while True:
        n_waiting = _follow(forest, walk, branches, n_waiting)
        prediction.add_walk(forest, t, walk, row)
        if n_waiting == 0:
            break
        n_waiting -= 1
        branch = branches[n_waiting]
        # An earlier branch has already added the terms of the steps above, so their weight is 0.
        for j in range(1, branch.depth + 1):
            step = walk.path[j]
            step.reach = 0.0
            step.above = 0.0
        walk.depth = branch.depth
        walk.time = branch.time
        walk.reach = branch.reach
        walk.above = 0.0
        _descend(forest, walk, branch.ref)
    if walk.capacity > FIRST_DEPTH:
        rec.release(walk.path)
        walk.path = buffer
        walk.capacity = FIRST_DEPTH


@inline_in_source
def _predict_by_rows(
    forest: Forest, rows: rec.Float32s, n: int, first: int, prediction: Prediction
) -> None:
    """Add the predictions of the trees from `first` on; rows without NaN descend in lock-step."""
    walks, active = _begin_paths(_buffer_of_walks(), _buffer_of_steps()), _buffer_of_active()
    width = forest.n_values
    lacking = new_int64s(n)
    for r in range(n):
        lacking[r] = scaling.has_missing(forest, rows.part(width * r, width))
    for t in range(first, forest.n_trees):
        tree = forest.trees[t]
        r = 0
        while r < n:
            lanes = 0
            while lanes < LANES and r + lanes < n and lacking[r + lanes] == 0:
                lanes += 1
            n_alone = 1
            if lanes > 0:
                part = rows.part(width * r, width * lanes)
                n_alone = walk_in_lockstep(forest, part, t, 0, lanes, walks, active)
            else:
                x = rows.part(width * r + tree.first_value, forest.dim_capacity)
                _start(forest, tree, x, walks[0])
                active[0] = 0
                lanes = 1
            n_finished = 0
            for i in range(lanes):
                if n_finished < n_alone and active[n_finished] == i:
                    n_finished += 1
                    finish(forest, t, walks[i], prediction, r + i)
                else:
                    prediction.add_walk(forest, t, walks[i], r + i)
            r += lanes
    rec.release(lacking)


@always_inline
def _begin_paths(walks: rec.Array[Walk], steps: rec.Array[Step]) -> rec.Array[Walk]:
    """Assign memory for the first steps to the walks, and return the walks."""
    for i in range(LANES):
        walks[i].capacity = FIRST_DEPTH
        walks[i].path = steps.part(FIRST_DEPTH * i, FIRST_DEPTH)
    return walks


@link_by_name
def predict_row(forest: F, row: rec.Float32s, prediction: P) -> int:
    """Add the trees' predictions for a row to a prediction, with several trees in lock-step.

    Returns the number of trees whose predictions have been added. `predict_rows` adds the other
    predictions. If a value is missing, no prediction is added. If a path needs more memory, the
    predictions of this group of trees and of later trees are not added.
    """
    if scaling.has_missing(forest, row):
        return 0
    walks, active = _begin_paths(_buffer_of_walks(), _buffer_of_steps()), _buffer_of_active()
    for first in range(0, forest.n_trees, LANES):
        n_walks = min(LANES, forest.n_trees - first)
        if walk_in_lockstep(forest, row, first, 1, n_walks, walks, active) > 0:
            return first
        for i in range(n_walks):
            prediction.add_walk(forest, first + i, walks[i], 0)
    return forest.n_trees


@link_by_name
def predict_rows(forest: F, rows: rec.Float32s, n: int, prediction: P) -> None:
    """Add the trees' predictions for `n` rows of values to a prediction.

    A batch of rows descends one tree after another, so that the tree stays in the cache. A single
    row descends several trees in lock-step. In both cases the trees' terms are added in the same
    order. A row with missing values descends alone. A row whose path has more than `FIRST_DEPTH` -
    2 nodes descends alone from there.
    """
    n_done = predict_row(forest, rows, prediction) if n == 1 else 0
    if n_done < forest.n_trees:
        _predict_by_rows(forest, rows, n, n_done, prediction)
