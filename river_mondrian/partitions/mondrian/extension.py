"""Online extension of trees: Algorithms 3, 4 and 10 of Lakshminarayanan et al. 2014.

If no values are missing and the tree is not full, an extended tree has the distribution of a tree
sampled from all its points. A *walk* is the descent of a new point from the root of a tree to the
place where the point is inserted. Several trees are walked in lock-step, so that the cache misses
of different trees overlap. If a tree needs memory, the walks stop before the next change of this
tree. The walks continue when the caller has reserved memory and calls again.
"""

import math

from ...compiling.kernels import (
    always_inline,
    batch_kernel,
    cold,
    helper,
    inline_in_source,
    kernel,
    link_by_name,
)
from ...limits import DONE, TOO_LARGE
from ...records import Float32s, Float64s, Int64, Record, array_buffer, inline, prefetch
from . import forgetting, sampling
from .box_vectors import MOST_PARTS
from .boxes import distance_outside, gap, hold, make_box, values_of, write_box
from .constants import COMPLETE, EMPTY, LEFT, NEVER, NONE, PAUSED, RIGHT, START, UNLIMITED
from .records import LANES, F, Forest, Layout, Node, Point, Tree, layout_of
from .sampling import exponential, exponential_before, uniform, uniform_cut
from .scaling import find_too_large, set_scaling, store_inputs, store_rows, write_scaled


class Lane(Record):
    """A tree that is walked in lock-step, and the state of its walk."""

    number: Int64
    tree: Tree
    # The record of the current node (none if the current leaf has no row), and the walk's point.
    node: Node
    point: Point
    # Number of light nodes that the walk has passed, and the distances to all light nodes on the
    # path.
    n_light: Int64
    rates: Float64s = inline(MOST_PARTS)


class LaneAt(Record):
    """A lane whose walk has not ended."""

    lane: Lane


_buffer_of_lanes = array_buffer(Lane, LANES)
_buffer_of_active = array_buffer(LaneAt, LANES)


@link_by_name
def insert_parent(
    forest: Forest, tree: Tree, t: int, ref: int, p: int, time: float, rate: float
) -> None:
    """Insert a cut between point `p` and the box of `ref`, `time` after the parent's cut.

    The function implements lines 4 to 9 of Algorithm 4 (Lakshminarayanan et al. 2014).
    """
    x = tree.walk_values
    j = sampling.new_row(forest, tree)
    node = tree.nodes.row(j)
    n_samples = 2 if ref < 0 else tree.nodes.row(ref).n_samples + 1
    if n_samples > forest.light_size:
        node.take_box(forest, tree)
    capacity, n_dims = forest.dim_capacity, forest.n_dims
    box = _copied_box(forest, tree, node, ref)
    lower, upper = box.part(0, capacity), box.part(capacity, capacity)

    # Line 4: the dimension, with probability proportional to the point's distance in this
    # dimension.
    threshold = uniform(tree) * rate
    dim = 0
    passed = 0.0
    for d in range(n_dims):
        outside = gap(x[d], lower[d], upper[d])
        if outside > 0.0:
            dim = d
            passed += outside
            if passed > threshold:
                break
    # Line 5: the cut between the box and the point.
    v = x[dim]
    if v > upper[dim]:
        cut = uniform_cut(tree, upper[dim], v)
        own_side = RIGHT
    else:
        cut = uniform_cut(tree, v, lower[dim])
        own_side = LEFT
    if node.has_box(forest):
        hold(x, lower, upper, n_dims)

    # Lines 6 to 9: insert the new node between `ref` and the parent of `ref`. The point becomes a
    # leaf.
    other_side = LEFT + RIGHT - own_side
    node.dim = dim
    node.cut = cut
    node.delta = time
    node.set_child(own_side, ~p)
    node.set_child(other_side, ref)
    node.n_samples = n_samples
    node.inherit(forest, tree, other_side, ref)
    node.inherit(forest, tree, own_side, ~p)
    cut_time = tree.walk_time + time
    if ref >= 0:
        old = tree.nodes.row(ref)
        if old.dim >= 0:
            old.delta = max(old.delta - time, 0.0)
            cut_time = old.latest_above(cut_time)
    node.set_time(cut_time)
    node.take_over(forest, tree, t, ref)
    sampling.link_to_parent(tree, j)
    tree.n_splits = tree.n_splits + 1


@inline_in_source
def _copied_box(forest: Forest, tree: Tree, node: Node, ref: int) -> Float32s:
    """Copy the box at a reference to the new node, or to the tree's buffer; return the copy."""
    box = node.box(forest, tree) if node.has_box(forest) else tree.buffer
    if ref >= 0 and tree.nodes.row(ref).has_box(forest):
        old = tree.nodes.row(ref).box(forest, tree)
        for i in range(2 * forest.dim_capacity):
            box[i] = old[i]
    else:
        write_box(forest, tree, ref, box)
    return box


@always_inline
def _has_room(forest: Forest, tree: Tree, n: int) -> bool:
    """Return whether a tree has room for `n` more rows and boxes."""
    if forest.light_size > 0 and tree.boxes.n_rows + n > tree.boxes.capacity:
        return False
    return tree.nodes.n_rows + n <= tree.nodes.capacity


@always_inline
def _cuts_off(forest: Forest, tree: Tree, t: int, ref: int, p: int) -> bool:
    """Draw a cut between a point and a leaf, and insert the cut if it is within the lifetime.

    The function implements lines 1 to 9 of Algorithm 4 at a leaf. Returns whether the cut was
    inserted.
    """
    rate = sampling.distance_to(forest, tree, ref, tree.walk_values)
    if rate > 0.0:
        time = exponential(tree, rate)
        if time < tree.lifetime - tree.walk_time:
            insert_parent(forest, tree, t, ref, p, time, rate)
            return True
    return False


@helper
def _add_to_leaf(forest: Forest, tree: Tree, j: int, p: int) -> None:
    """Add point `p` to a leaf, and to the leaf's list of points if the tree keeps points."""
    if forest.keeps_points(tree):
        sampling.put_point(forest, tree, j, p)
    else:
        sampling.grow_leaf(forest, tree, j, p)


@inline_in_source
def _extend_point(forest: Forest, t: int, q: int, p: int) -> None:
    """Extend a tree by point `p` at a leaf that contains only point `q`."""
    tree = forest.trees[t]
    may_split = tree.n_splits < forest.max_splits
    paused = forest.points.row(p).pauses_with(forest, forest.points.row(q))
    if not paused and may_split and _cuts_off(forest, tree, t, ~q, p):
        return
    j = sampling.new_leaf(forest, tree)
    node = tree.nodes.row(j)
    node.take_over(forest, tree, t, ~q)
    if forest.lists_points():
        sampling.put_point(forest, tree, j, q)
    else:
        sampling.grow_leaf(forest, tree, j, q)
    if not paused:
        node.dim = COMPLETE
    if not forest.keeps_points(tree):
        node.count_point(forest, tree, forest.points.row(p))
    _add_to_leaf(forest, tree, j, p)
    sampling.link_to_parent(tree, j)


@inline_in_source
def _extend_leaf(forest: Forest, t: int, ref: int, p: int) -> bool:
    """Extend a tree by point `p` at a leaf with a row, and return whether there was room.

    The function implements Algorithm 10 if the leaf is paused, otherwise Algorithm 4. If the tree
    has no room for more rows, the caller reserves room and repeats the call.
    """
    tree = forest.trees[t]
    node = tree.nodes.row(ref)
    count = node.n_samples
    may_split = tree.n_splits < forest.max_splits
    point = forest.points.row(p)
    if node.dim == PAUSED and may_split:
        ends = node.ends_pause(forest, point)
        samples = ends or count >= forest.hide_limit
        if samples:
            # If values are missing, leaves of fewer than two points may have rows, so twice as many
            # rows are reserved.
            need = (count + 1) * (1 + forest.has_missing)
            if not _has_room(forest, tree, need):
                tree.rows_needed = need
                return False
        sampling.put_point(forest, tree, ref, p)
        if samples:
            forest.sample_leaf(t, ref, tree.walk_time, sampling.ALL if ends else 1)
        return True

    if may_split and _cuts_off(forest, tree, t, ref, p):
        return True
    node.dim = COMPLETE
    node.count_point(forest, tree, point)
    _add_to_leaf(forest, tree, ref, p)
    return True


@link_by_name
def extend_end(forest: F, t: int) -> bool:
    """Extend a tree at the end of a walk, and return whether there was room.

    The walk ends at an empty tree, at a leaf of one point without a row, or at a leaf with a row.
    If the tree has no room for `rows_needed` more rows, the tree is unchanged, and the call can be
    repeated.
    """
    tree = forest.trees[t]
    ref, p = tree.walk_ref, tree.walk_point
    if ref == EMPTY:
        tree.root = ~p
        return True
    if ref < 0:
        _extend_point(forest, t, ~ref, p)
        return True
    return _extend_leaf(forest, t, ref, p)


@always_inline
def _start_walk(forest: Forest, tree: Tree) -> bool:
    """Set the walk to the root, and return whether the tree has room for another cut."""
    tree.walk_ref = tree.root
    tree.walk_parent = NONE
    tree.walk_time = 0.0
    tree.rows_needed = 2
    return _has_room(forest, tree, 2) and tree.side_rows.n_rows < tree.side_rows.capacity


@always_inline
def _place_lane(forest: Forest, tree: Tree, lane: Lane) -> None:
    """Set a lane to the current node of its tree's walk."""
    ref = tree.walk_ref
    lane.node = tree.nodes.row(ref) if ref >= 0 else tree.nodes.none()
    lane.point = forest.points.row(tree.walk_point)
    if forest.walks_row == 1:
        tree.walk_values = forest.row.part(tree.first_value, forest.dim_capacity)
    else:
        tree.walk_values = values_of(forest, tree, tree.walk_point, tree.value_buffer)
    lane.n_light = 0


@always_inline
def _corners(forest: Forest, layout: Layout, tree: Tree, node: Node) -> tuple[Float32s, Float32s]:
    """Return the lower and the upper corner of a node's box."""
    if layout.light_size > 0:
        return node.lower(forest, tree), node.upper(forest, tree)
    # Without light nodes, the node's row contains the box, so the corners need no look-up.
    lower = Float32s(node, layout.box_word, layout.capacity)
    return lower, Float32s(node, layout.box_word + layout.capacity, layout.capacity)


@inline_in_source
def _distance(
    forest: Forest, layout: Layout, tree: Tree, lane: Lane, node: Node, x: Float32s
) -> float:
    """Return the distance of a walk's point `x` from the box of the current node.

    The box of a light node is computed from the node's points (see `boxes`).
    """
    if layout.light_size == 0:
        lower, upper = _corners(forest, layout, tree, node)
        return distance_outside(x, lower, upper, layout.n_dims)
    if node.has_box(forest) or layout.has_missing == 1:
        return forest.distance_to_light(forest, tree, tree.walk_ref, x)
    if lane.n_light == 0:
        forest.distances_down(forest, tree, tree.walk_ref, x, 0, lane.rates)
    lane.n_light = lane.n_light + 1
    return lane.rates[lane.n_light - 1]


@inline_in_source
def _extend_box(
    forest: Forest, layout: Layout, tree: Tree, node: Node, x: Float32s, rate: float
) -> None:
    """Extend the box of the current node by a walk's point `x`, whose distance is `rate`.

    A light node has no box. A node that is no longer light gets a box.
    """
    if layout.light_size > 0 and not node.has_box(forest):
        if node.n_samples < layout.light_size:
            return
        make_box(forest, tree, tree.walk_ref)
    # With missing values, the box is also extended if the distance is 0. The first value in a
    # dimension adds no distance, but sets the bounds.
    if rate > 0.0 or layout.has_missing == 1:
        lower, upper = _corners(forest, layout, tree, node)
        hold(x, lower, upper, layout.n_dims)


@inline_in_source
def _step(forest: Forest, layout: Layout, tree: Tree, lane: Lane) -> bool:
    """Move a walk to a child, or insert a cut above the node; return whether the walk continues.

    The function implements Algorithm 4 (Lakshminarayanan et al. 2014) at an internal node.
    """
    node, x = tree.nodes.cast(lane.node), tree.walk_values
    # Lines 1 to 3: draw the time of a cut that separates the point from the box.
    rate = _distance(forest, layout, tree, lane, node, x)
    time = math.inf
    if rate > 0.0 and tree.n_splits < layout.max_splits:
        time = exponential_before(tree, rate, node.delta)
    # Lines 4 to 9: insert the cut above the node.
    if time < node.delta:
        insert_parent(forest, tree, lane.number, tree.walk_ref, tree.walk_point, time, rate)
        return False
    # Line 11: extend the box.
    _extend_box(forest, layout, tree, node, x, rate)
    # Lines 12 to 14: move to the child.
    node.n_samples = node.n_samples + 1
    side = sampling.side_of(forest, tree, node, x)
    node.pass_point(forest, side, forest.points.cast(lane.point))
    tree.walk_time = node.end_time(tree.walk_time)
    tree.walk_parent = tree.walk_ref
    tree.walk_side = side
    child = node.child(side)
    tree.walk_ref = child
    if child >= 0:
        below = tree.nodes.row(child)
        prefetch(below, layout.node_words)
        lane.node = below
    else:
        lane.node = tree.nodes.none()
        forest.prefetch_values(tree, forest.points.row(~child))
    return True


@always_inline
def _look_ahead(forest: Forest, lane: Lane) -> None:
    """Prefetch the data outside the node's row that the lane's next step reads."""
    if lane.node:
        tree = forest.trees.cast(lane.tree)
        tree.nodes.cast(lane.node).look_ahead(forest, tree)


@inline_in_source
def _advance(forest: Forest, layout: Layout, lane: Lane) -> int:
    """Move a lane by one node. Return 0 after the last point, -1 if room is lacking, else 1."""
    tree = forest.trees.cast(lane.tree)
    if lane.node and lane.node.dim >= 0:
        if _step(forest, layout, tree, lane):
            return 1
    elif not extend_end(forest, lane.number):
        return -1
    # The walk has ended, so the walk of the lane's next point begins.
    tree.walk_point = tree.walk_point + 1
    if tree.walk_point == tree.walk_end:
        return 0
    if not _start_walk(forest, tree):
        tree.walk_ref = START
        return -1
    _place_lane(forest, tree, lane)
    return 1


@link_by_name
def extend_trees(forest: F, first: int, last: int, n_lanes: int) -> int:
    """Extend the trees `first` to `last` - 1 by completing their walks.

    A tree learns the points `walk_point` to `walk_end` - 1, in order. `n_lanes` trees, at most
    `LANES`, are walked in lock-step. If a tree has no room for more rows, returns the tree's index.
    The caller then reserves room and calls again. Otherwise returns DONE.
    """
    layout = layout_of(forest)
    lanes, active = _buffer_of_lanes(), _buffer_of_active()
    for start in range(first, last, n_lanes):
        n_active = 0
        for t in range(start, min(start + n_lanes, last)):
            tree = forest.trees[t]
            if tree.walk_point < tree.walk_end:
                # A walk that has stopped for lack of room continues at its current node.
                if tree.walk_ref == START and not _start_walk(forest, tree):
                    tree.walk_ref = START
                    return t
                own = lanes[n_active]
                own.number = t
                own.tree = tree
                active[n_active].lane = own
                _place_lane(forest, tree, own)
                n_active += 1
        while n_active > 0:
            still = 0
            if layout.light_size > 0:
                for i in range(n_active):
                    _look_ahead(forest, lanes.cast(active[i].lane))
            for i in range(n_active):
                lane = lanes.cast(active[i].lane)
                goes_on = _advance(forest, layout, lane)
                if goes_on < 0:
                    return lane.number
                if goes_on == 1:
                    active[still].lane = lane
                    still += 1
            n_active = still
    return DONE


@batch_kernel
def extend(forest: F, first: int, last: int, n_lanes: int) -> int:
    """Call `extend_trees` from Python."""
    return extend_trees(forest, first, last, n_lanes)


@always_inline
def set_walks(forest: Forest, first: int, last: int) -> None:
    """Start the walks of points `first` to `last` - 1 in every tree that gets the points."""
    # In a window, the point may have the number of a forgotten point. If the spare tree contained
    # the forgotten point, the spare tree gets the new point, because the spare tree contains the
    # points with the first numbers.
    for t in range(forest.n_holding(first)):
        tree = forest.trees[t]
        tree.walk_point = first
        tree.walk_end = last
        tree.walk_ref = START
    forest.first_walking = first
    forest.n_walking = last - first


@batch_kernel
def begin_rows(forest: F, rows: Float64s, n: int, first: int) -> None:
    """Store `n` rows of checked inputs as points from `first` on, and start the points' walks."""
    store_rows(forest, rows, n, first)
    set_walks(forest, first, first + n)


@always_inline
def extend_by_row(forest: Forest, n_trees: int) -> int:
    """Extend trees by a point with the values `Forest.row`; return `extend_trees`'s result."""
    forest.walks_row = 1
    status = extend_trees(forest, 0, n_trees, LANES)
    # If a walk has stopped for lack of room, it later reads the stored point, because the row may
    # have changed.
    forest.walks_row = 0
    return status


@always_inline
def extend_by_point(forest: Forest, p: int) -> int:
    """Extend every tree by the stored point `p` (Algorithm 3); return `extend_trees`'s result."""
    set_walks(forest, p, p + 1)
    if forest.has_columns == 1:
        return extend_trees(forest, 0, forest.n_holding(p), LANES)
    # Trees without columns share the values, so the values are computed only once.
    write_scaled(forest, forest.row, forest.inputs_in(forest.points.row(p)))
    return extend_by_row(forest, forest.n_holding(p))


@always_inline
def learn_point(forest: Forest, inputs: Float64s, p: int) -> int:
    """Store the inputs of a sample as point `p`, and extend every tree by the point (Algorithm 3).

    The point's other fields are already stored. Returns the result of `extend_trees`. If input i is
    too large, returns `TOO_LARGE - i` and changes no tree.
    """
    bad = find_too_large(forest, inputs)
    if bad >= 0:
        return TOO_LARGE - bad
    store_inputs(forest, inputs, p)
    return extend_by_point(forest, p)


@always_inline
def must_wait(forest: Forest) -> bool:
    """Return whether the next sample needs memory for its point, new ranges or a check of widths.

    During the warm-up, ranges are computed again at `Forest.next_fit` samples. Later, widths are
    checked at `Renewal.next_check`.
    """
    n = forest.n_points
    lacks_room = min(n, forest.window - 1) >= forest.points.capacity
    return n + 1 == forest.next_fit or forest.n_samples >= forest.renewal.next_check or lacks_room


@always_inline
def count_walked(forest: Forest) -> None:
    """Count the samples that have just extended all trees.

    Once every tree is full, samples are no longer stored, except during the warm-up and a renewal
    of widths.
    """
    n = forest.n_walking
    forest.n_samples = forest.n_samples + n
    if forest.renewal.is_running == 1:
        forest.renewal.n_owed = forest.renewal.n_owed + n
    if forest.is_full == 0:
        if forest.window != UNLIMITED:
            for p in range(forest.first_walking, forest.first_walking + n):
                forgetting.link_arrivals(forest, forest.last_arrival, p)
                forgetting.link_arrivals(forest, p, NONE)
        forest.n_points = forest.n_points + n
        is_steady = forest.next_fit == NEVER and forest.renewal.is_running == 0
        if forest.max_splits != UNLIMITED and is_steady:
            forest.is_full = 1
            for t in range(forest.n_trees):
                if forest.trees[t].n_splits < forest.max_splits:
                    forest.is_full = 0
    forest.n_walking = 0


@kernel
def lacks_rows(forest: F, n: int) -> int:
    """Return the index of a tree that is not full and lacks room for `n` rows, or DONE.

    If `n` is larger than half of a tree's capacity, room for half of the capacity is enough.
    """
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        is_full = tree.n_splits >= forest.max_splits
        if not is_full and not _has_room(forest, tree, min(n, tree.nodes.capacity // 2)):
            return t
    return DONE


@kernel
def count(forest: F) -> None:
    """Call `count_walked` from Python."""
    count_walked(forest)


@kernel
@cold
def end_warm_up(forest: F, next_check: int) -> None:
    """End the warm-up, and set the number of samples at the first check of widths."""
    forest.next_fit = NEVER
    forest.renewal.next_check = next_check
    count_walked(forest)


@batch_kernel
def finish(forest: F) -> int:
    """Continue all walks, and count the samples if all end; return `extend_trees`'s result."""
    status = extend_trees(forest, 0, forest.n_with_nodes(), LANES)
    if status == DONE:
        count_walked(forest)
    return status


@always_inline
def fit(forest: Forest, scaling: Float64s, n: int, next_fit: int) -> None:
    """Store the sample in `inputs` as point `n` - 1, and set the scaling of the first `n` points.

    Afterwards the caller builds the trees from these samples. The next fit is at `next_fit`
    samples.
    """
    set_scaling(forest, scaling, n - 1)
    store_inputs(forest, forest.inputs, n - 1)
    forest.next_fit = next_fit


@kernel
@cold
def rebuild(forest: F, scaling: Float64s, n: int, next_fit: int) -> None:
    """Call `fit`, and build the trees from the first `n` samples.

    The points' other fields are already stored. The call counts the last point as learned. The
    caller has reserved room for the points, and for the rows that `sampling.build` needs.
    """
    fit(forest, scaling, n, next_fit)
    sampling.build(forest, 0, forest.n_trees, n)
    forest.first_walking = n - 1
    forest.n_walking = 1
    count_walked(forest)
