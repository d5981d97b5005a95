"""Learning a sample: the mixture and the paths down all trees its class, then the trees.

Statistics of a node are those of replaying its samples in order. A node that is inserted above
another takes over the other's.
"""

from __future__ import annotations

from ...compiling.kernels import kernel, merged, separate
from ...learners import discriminants, experts
from ...partitions.mondrian.extension import LANES, extend_trees
from ...partitions.mondrian.records import LEFT, NONE, RIGHT, START
from ...partitions.mondrian.scaling import store_values
from ...records import Array
from ...status import BUILDING_DUE, NO_POINT_ROOM, RIGHT_CLASS, TOO_LARGE, WAITS, WRONG_CLASS
from ..labels.hnsp import most_probable
from .paths import path_of_grown, path_to
from .prediction import ensure_predicted
from .records import (
    IDLE,
    LONG,
    RECENT,
    REPLAYING,
    SPLITTING,
    AdaptiveForest,
    AdaptiveTree,
    PathEntry,
)
from .splitting import enqueue, new_statistics, split_all
from .weighting import update_weights

# Rows of either kind that a call may need in a tree.
ROOM = 64

# What a call may spend, in points, on the splits of one tree.
SPLIT_BUDGET = 400

# How many samples there are to a call that goes on with building.
BUILD_EVERY = 4


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
            label = forest.label_of(~other)
            statistics = new_statistics(forest, tree, node)
            if node.dim >= 0:
                statistics.add_side(label, side)
            statistics.add_sample(label, True, n_classes)
        return
    below = tree.nodes.row(other).statistics(tree)
    if below:
        statistics = new_statistics(forest, tree, node)
        statistics.copy_from(below, side, forest.statistics_words, n_classes)


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
    label = forest.label_of(p)
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
            statistics.add_side(label, LEFT if node.left == path[i + 1].ref else RIGHT)
        statistics.add_sample(label, i > 0 or forest.root_forgets == 1, forest.n_classes)
        if node.dim < 0:
            enqueue(tree, ref)


# Learning a sample.


@merged
def _score(forest: AdaptiveForest, label: int, is_new: bool) -> bool:
    """Let the mixture learn the class of the sample predicted last; tells whether it was right.

    Of a class that is new the discriminants learn only: nothing can have foreseen it.
    """
    if not is_new:
        experts.learn(forest.experts, label)
    discriminants.learn(forest.discriminants, forest.inputs, label)
    return not is_new and most_probable(forest.experts.mixed, forest.n_classes) == label


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
def _store(forest: AdaptiveForest, label: int, p: int) -> None:
    """Store the sample predicted last for all trees in use, and let its paths down them learn.

    The trees are to be extended by it then.
    """
    store_values(forest, forest.inputs, p)
    forest.points.row(p).label = label
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        tree.walk_point = p
        tree.walk_end = p + 1 if _takes(tree) else p
        tree.walk_ref = START
        tree.rows_before = tree.nodes.n_rows
        if tree.path_length > 0:
            update_weights(forest, forest.path_of(t), tree.path_length, label, NONE)


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


@separate
def learn_sample(forest: AdaptiveForest, label: int, is_new: bool, stores: bool) -> int:
    """Learn the class of the sample in the forest's `inputs`: the mixture, then the trees.

    The trees learn it, and it is counted, where `stores`. Returns RIGHT_CLASS or WRONG_CLASS, as it
    would have been predicted, plus BUILDING_DUE; `TOO_LARGE - i` where the i-th input is;
    NO_POINT_ROOM; or a tree that needs room for `ROOM` more rows, which may move what is noted
    of a prediction. In the last three cases nothing has been learned.
    """
    n = forest.n_samples
    p = n % forest.window_capacity
    if stores:
        if p >= forest.points.capacity:
            return NO_POINT_ROOM
        needy = _needs_room(forest)
        if needy != NONE:
            return needy
    bad = ensure_predicted(forest)
    if bad >= 0:
        return TOO_LARGE - bad
    status = RIGHT_CLASS if _score(forest, label, is_new) else WRONG_CLASS
    forest.is_predicted = 0
    if stores:
        _store(forest, label, p)
        extend_trees(forest, 0, forest.n_trees, LANES)
        _update_all(forest, p, n - forest.cursor)
        split_all(forest, SPLIT_BUDGET, p)
        forest.n_samples = n + 1
        forest.n_points = max(forest.n_points, p + 1)
        if (n + 1) % BUILD_EVERY == 0:
            status += BUILDING_DUE
    return status


@kernel
def learn(forest: AdaptiveForest, label: int, is_new: bool) -> int:
    """Learn as `learn_sample` does; WAITS where that is to be prepared.

    So it is while ranges may change, and where the point overwrites another one.
    """
    if bool(forest.raw_values) or forest.n_samples >= forest.window_capacity:
        return WAITS
    return learn_sample(forest, label, is_new, True)


@kernel
def learn_prepared(forest: AdaptiveForest, label: int, is_new: bool, stores: bool) -> int:
    """Learn as `learn_sample` does."""
    return learn_sample(forest, label, is_new, stores)
