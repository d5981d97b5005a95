"""Learning the class of a sample: the mixture, and the statistics of the trees.

Statistics of a node are those of replaying its samples in order. A node that is inserted above
another takes over the other's.
"""

from __future__ import annotations

from ...compiling.kernels import inlined, separate
from ...learners import discriminants, experts
from ...partitions.mondrian.records import LEFT, RIGHT
from ...records import Array
from ..rebuilt.paths import path_to
from .records import AdaptiveForest, StatisticsEntry
from .seen import NO_SIDE, add_sample, copy_statistics
from .splitting import enqueue, new_statistics
from .weighting import update_weights


@separate
def ensure_statistics(forest: AdaptiveForest, t: int, ref: int, p: int, backlog: int) -> None:
    """Give a row that is new on the path of point `p` the statistics of the samples before.

    The latest `backlog` samples before `p` have not been shown to the tree.
    """
    tree = forest.trees[t]
    node = tree.nodes.row(ref)
    if node.statistics_row != 0:
        return
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
            side = side if node.dim >= 0 else NO_SIDE
            add_sample(forest, tree, statistics, label, weight, True, side)
        return
    below = tree.nodes.row(other).statistics(tree)
    if below:
        statistics = new_statistics(forest, tree, node)
        copy_statistics(forest, tree, statistics, below, side)


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
    forest: AdaptiveForest, t: int, p: int, path: Array[StatisticsEntry], n: int, grown: bool
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
        side = NO_SIDE
        if i + 1 < n:
            side = LEFT if node.left == path[i + 1].ref else RIGHT
        forgets = i > 0 or forest.root_forgets == 1
        add_sample(forest, tree, statistics, label, weight, forgets, side)
        if node.dim < 0:
            enqueue(tree, ref)


# Learning a sample.


@inlined
def score(forest: AdaptiveForest) -> None:
    """Let the mixture learn the class of the accepted sample, which was predicted last.

    Of a class that is new the discriminants learn only: nothing can have foreseen it.
    """
    label, weight = forest.accepted, forest.accepted_weight
    if forest.accepted_is_new == 0:
        experts.learn(forest.experts, label, weight)
    discriminants.learn(forest.discriminants, forest.inputs, label, weight)


@separate
def replay(forest: AdaptiveForest, t: int, start: int, stop: int) -> int:
    """Show a tree the samples `start` to `stop` in order; returns where it stopped.

    It stops where a tree has no room for the statistics of a path.
    """
    tree, path = forest.trees[t], forest.path_of(t)
    for i in range(start, stop):
        p = i % forest.window_capacity
        n = path_to(forest, tree, forest.values_of(tree, p), path)
        if tree.side_rows.n_rows + n > tree.side_rows.capacity:
            return i
        label, weight = forest.label_of(p), forest.weight_of(p)
        update_weights(forest, tree, path, n, label, weight, p)
        update_path(forest, t, p, path, n, False)
    return stop
