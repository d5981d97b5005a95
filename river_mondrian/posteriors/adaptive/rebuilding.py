"""Building a tree anew from the samples of the window, a part at a time.

The tree gathers its points in one leaf, is split, and then is shown the points in order, so that
its statistics are those of a tree that has been there from the first of them on.
"""

from __future__ import annotations

from ...compiling.kernels import kernel, merged
from ...partitions.mondrian.leaves import new_leaf, put_point
from ...partitions.mondrian.records import NONE
from ...status import BUDGET_SPENT, DONE, NO_PATH_ROOM, NO_ROOM
from .learning import update_path
from .paths import path_to
from .records import GATHERING, REPLAYING, SPLITTING, AdaptiveForest, AdaptiveTree
from .splitting import enqueue_mixed, split_queued
from .weighting import update_weights

# To show a point to a tree costs as much as to split so many.
REPLAY_COST = 12


@kernel
def begin(forest: AdaptiveForest, t: int) -> None:
    """Empty a tree that is going to be built from points."""
    tree = forest.trees[t]
    tree.nodes.n_rows = 0
    tree.side_rows.n_rows = 0
    tree.n_splits = 0
    tree.queue = NONE
    tree.root = new_leaf(forest, tree)
    tree.role = GATHERING
    n_dims = forest.n_dims
    gains = forest.gains.part(n_dims * t, n_dims)
    for d in range(n_dims):
        gains[d] = 0.0


@merged
def _gather(forest: AdaptiveForest, tree: AdaptiveTree, t: int, start: int, stop: int) -> None:
    """Put the samples `start` to `stop` into the root of a tree that is being built."""
    node = tree.nodes.row(tree.root)
    for i in range(start, stop):
        put_point(forest, tree, t, node, i % forest.window_capacity)


@merged
def _replay(forest: AdaptiveForest, tree: AdaptiveTree, t: int, start: int, stop: int) -> int:
    """Show a tree the samples `start` to `stop` in order; returns where it stopped.

    It stops where a tree has no room for the statistics of a path.
    """
    path = forest.path_of(t)
    for i in range(start, stop):
        p = i % forest.window_capacity
        n = path_to(forest, tree, forest.values_of(tree, p), path)
        if tree.side_rows.n_rows + n > tree.side_rows.capacity:
            return i
        update_weights(forest, path, n, forest.label_of(p), p)
        update_path(forest, t, p, path, n, False)
    return stop


@kernel
def go_on(forest: AdaptiveForest, t: int, budget: int, room: int) -> int:
    """Go on with building a tree of all samples by a budget, what is left of which the forest has.

    Returns BUDGET_SPENT or DONE; or NO_ROOM, at once where there is not room for so many rows
    of either kind, later where that has not been enough; or NO_PATH_ROOM.
    """
    tree, n = forest.trees[t], forest.n_samples
    forest.budget = budget
    if tree.nodes.n_rows + room > tree.nodes.capacity:
        return NO_ROOM
    if tree.side_rows.n_rows + room > tree.side_rows.capacity:
        return NO_ROOM
    while forest.budget > 0:
        budget, cursor = forest.budget, forest.cursor
        if tree.role == GATHERING:
            stop = min(n, cursor + budget)
            _gather(forest, tree, t, cursor, stop)
            forest.budget = budget - (stop - cursor)
            forest.cursor = stop
            if stop == n:
                enqueue_mixed(forest, t, tree.root)
                tree.role = SPLITTING
        elif tree.role == SPLITTING:
            budget = split_queued(forest, t, budget, NONE)
            forest.budget = budget
            if tree.queue == NONE:
                tree.role = REPLAYING
                forest.cursor = forest.built_from
            elif budget > 0:
                return NO_ROOM
        else:
            stop = min(n, cursor + budget // REPLAY_COST + 1)
            done = _replay(forest, tree, t, cursor, stop)
            forest.budget = budget - REPLAY_COST * (done - cursor) - 1
            forest.cursor = done
            if done == n:
                return DONE
            if done < stop:
                return NO_ROOM if done > cursor else NO_PATH_ROOM
    return BUDGET_SPENT
