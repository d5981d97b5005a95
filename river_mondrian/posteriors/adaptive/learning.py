"""Learning a sample: the mixture and the paths down all trees its class, then the trees.

Statistics of a node are those of replaying its samples in order. A node that is inserted above
another takes over the other's.
"""

from __future__ import annotations

from ...compiling.kernels import inlined, kernel, merged, separate
from ...learners import discriminants, experts
from ...limits import LEAST_WEIGHT
from ...partitions.mondrian.extension import LANES, extend_trees
from ...partitions.mondrian.records import CLOSED, LEFT, NONE, RIGHT, START
from ...partitions.mondrian.scaling import store_values
from ...records import Array
from ...status import DONE, NO_POINT_ROOM, TOO_LARGE, WAITS
from .paths import path_of_grown, path_to
from .prediction import ensure_predicted
from .records import (
    ACCEPTED,
    IDLE,
    LEARNED,
    LONG,
    MIXED_IN,
    RECENT,
    REPLAYING,
    SPLITTING,
    AdaptiveForest,
    AdaptiveTree,
    PathEntry,
)
from .schedule import BUILD_EVERY
from .splitting import enqueue, new_statistics, split_all
from .weighting import update_weights

# Rows of either kind that a call may need in a tree.
ROOM = 64

# What a call may spend, in points, on the splits of one tree.
SPLIT_BUDGET = 400


@separate
def ensure_statistics(forest: AdaptiveForest, t: int, ref: int, p: int, backlog: int) -> None:
    """Give a row that is new on the path of point `p` the statistics of the samples before.

    The latest `backlog` samples before `p` have not been shown to the tree.
    """
    tree = forest.trees[t]
    node = tree.nodes.row(ref)
    if node.statistics_row != 0:
        return
    n_classes = forest.n_classes
    side = RIGHT
    if node.dim < 0:
        # A leaf's row of two points.
        q = node.first_point
        other = ~(forest.links_of(p)[t] if q == p else q)
    else:
        side = LEFT if node.right == ~p else RIGHT
        other = node.child(side)
    if other < 0:
        if (p - ~other) % forest.window_capacity > backlog:
            label, weight = forest.label_of(~other), forest.weight_of(~other)
            statistics = new_statistics(forest, tree, node)
            if node.dim >= 0:
                statistics.add_side(label, side, forest.class_capacity)
            statistics.add_sample(label, weight, True, n_classes)
        return
    below = tree.nodes.row(other).statistics(tree)
    if below:
        statistics = new_statistics(forest, tree, node)
        statistics.copy_from(below, side, forest.statistics_words, n_classes, forest.class_capacity)


@separate
def catch_up(forest: AdaptiveForest, t: int, p: int, backlog: int) -> None:
    """Give the rows that a tree has got by point `p` their statistics, while it is being shown.

    The point itself will be shown in its turn.
    """
    tree = forest.trees[t]
    path = forest.path_of(t)
    for i in range(path_to(forest, tree, forest.values_of(tree, p), path)):
        ref = path[i].ref
        if ref >= 0:
            node = tree.nodes.row(ref)
            if node.dim < 0 or node.left == ~p or node.right == ~p:
                ensure_statistics(forest, t, ref, p, backlog)


@separate
def update_path(
    forest: AdaptiveForest, t: int, p: int, path: Array[PathEntry], n: int, grown: bool
) -> None:
    """Add a point that is in the tree to the statistics on its path.

    `grown` tells that the tree has just been extended by it, so that rows may be new; else points
    come in order, and a row's statistics are new when its first point comes.
    """
    tree = forest.trees[t]
    label, weight = forest.label_of(p), forest.weight_of(p)
    for i in range(n):
        entry = path[i]
        ref, statistics = entry.ref, entry.statistics
        if ref < 0:
            return
        node = tree.nodes.known(entry.place)
        if not statistics:
            if grown:
                ensure_statistics(forest, t, ref, p, 0)
            if node.statistics_row == 0:
                new_statistics(forest, tree, node)
            statistics = node.statistics(tree)
        if i + 1 < n:
            side = LEFT if node.left == path[i + 1].ref else RIGHT
            statistics.add_side(label, side, forest.class_capacity)
        statistics.add_sample(label, weight, i > 0 or forest.root_forgets == 1, forest.n_classes)
        if node.dim < 0:
            enqueue(tree, ref)


# Learning a sample.


@merged
def _score(forest: AdaptiveForest, label: int, weight: float, is_new: bool) -> None:
    """Let the mixture learn the class of the sample predicted last.

    Of a class that is new the discriminants learn only: nothing can have foreseen it.
    """
    if not is_new:
        experts.learn(forest.experts, label, weight)
    discriminants.learn(forest.discriminants, forest.inputs, label, weight)


@merged
def _needs_room(forest: AdaptiveForest) -> int:
    """Return a tree that needs room before it learns, or NONE."""
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        if tree.role != IDLE and (
            tree.nodes.n_rows + ROOM > tree.nodes.capacity
            or tree.side_rows.n_rows + ROOM > tree.side_rows.capacity
        ):
            return t
    return NONE


@merged
def _takes(tree: AdaptiveTree) -> bool:
    """Tell whether a tree is extended; one that gathers its points gets this one in its turn."""
    role = tree.role
    return role in (LONG, RECENT, SPLITTING, REPLAYING)


@merged
def _store(forest: AdaptiveForest, label: int, weight: float, p: int) -> None:
    """Store the sample predicted last for all trees in use, and let its paths down them learn.

    The trees are to be extended by it then.
    """
    store_values(forest, forest.inputs, p)
    forest.keep_sample(p, label, weight)
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        tree.walk_point = p
        tree.walk_end = p + 1 if _takes(tree) else p
        tree.walk_ref = START
        tree.rows_before = tree.nodes.n_rows
        if tree.path_length > 0:
            update_weights(forest, forest.path_of(t), tree.path_length, label, weight, NONE)


@merged
def _update_all(forest: AdaptiveForest, p: int, backlog: int) -> None:
    """Update the statistics of the trees that have been extended by a point.

    `backlog` tells how many samples are yet to be shown to a tree that is being shown them.
    """
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        if tree.role in (LONG, RECENT):
            path, n = forest.path_of(t), tree.path_length
            # Without a new row the path is that of the prediction.
            if n == 0 or tree.nodes.n_rows != tree.rows_before:
                n = path_of_grown(forest, tree, forest.values_of(tree, p), path, n)
            update_path(forest, t, p, path, n, True)
        elif tree.role == REPLAYING:
            catch_up(forest, t, p, backlog)


@inlined
def _doubles(forest: AdaptiveForest) -> bool:
    """Tell whether the next sample doubles the number of samples, and the ranges follow them."""
    n = forest.n_samples
    return bool(forest.raw_values) and n & (n + 1) == 0


@inlined
def _lacks(forest: AdaptiveForest) -> int:
    """Return what the next sample lacks: NO_POINT_ROOM, a tree that needs room, or DONE."""
    if forest.n_samples % forest.window_capacity >= forest.points.capacity:
        return NO_POINT_ROOM
    needy = _needs_room(forest)
    return DONE if needy == NONE else needy


@separate
def learn_sample(forest: AdaptiveForest, label: int, weight: float, is_new: bool) -> None:
    """Learn the class of the sample predicted last, and count it: the mixture, then the trees.

    There is room for `ROOM` more rows in each tree. The forest is closed where it is time to go on
    with building.
    """
    n = forest.n_samples
    p = n % forest.window_capacity
    _score(forest, label, weight, is_new)
    forest.is_predicted = 0
    _store(forest, label, weight, p)
    extend_trees(forest, 0, forest.n_trees, LANES)
    _update_all(forest, p, n - forest.cursor)
    split_all(forest, SPLIT_BUDGET, p)
    forest.n_samples = n + 1
    forest.n_points = max(forest.n_points, p + 1)
    if n + 1 >= forest.quiet_until and (n + 1) % BUILD_EVERY == 0:
        forest.is_plan_due = 1
        forest.budget = forest.granted
        forest.version = CLOSED


@kernel
def learn(forest: AdaptiveForest, label: int, weight: float, is_new: bool) -> int:
    """Learn the class of the sample in the forest's `inputs`, and count it.

    A weight below LEAST_WEIGHT counts as that. Returns DONE; `TOO_LARGE - i` where the i-th input
    is, and nothing has changed; or WAITS, where the forest is closed and its owner has something to
    complete: building, or the sample itself, which counts among those that walk.
    """
    bad = ensure_predicted(forest, forest.inputs)
    if bad >= 0:
        return TOO_LARGE - bad
    weight = max(weight, LEAST_WEIGHT)
    overwritten = forest.n_samples - forest.window_capacity
    if _doubles(forest) or overwritten >= forest.oldest or _lacks(forest) != DONE:
        forest.stage = ACCEPTED
        forest.accepted = label
        forest.accepted_weight = weight
        forest.accepted_is_new = 1 if is_new else 0
        forest.n_walking = 1
        forest.version = CLOSED
        return WAITS
    learn_sample(forest, label, weight, is_new)
    return WAITS if forest.version == CLOSED else DONE


@kernel
def learn_accepted(forest: AdaptiveForest) -> int:
    """Learn the sample that has been accepted; only the mixture does where the sample doubles.

    Returns DONE, NO_POINT_ROOM or a tree that needs room for `ROOM` more rows, which may move what
    is noted of a prediction; then nothing has been learned.
    """
    label, weight = forest.accepted, forest.accepted_weight
    is_new = forest.accepted_is_new == 1
    doubles = _doubles(forest)
    if not doubles:
        lacks = _lacks(forest)
        if lacks != DONE:
            return lacks
    ensure_predicted(forest, forest.inputs)
    if doubles:
        _score(forest, label, weight, is_new)
        forest.is_predicted = 0
        forest.stage = MIXED_IN
        return DONE
    learn_sample(forest, label, weight, is_new)
    forest.n_walking = 0
    forest.stage = LEARNED
    return DONE
