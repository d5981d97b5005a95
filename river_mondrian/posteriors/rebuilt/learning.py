"""Learning a sample: what mixes the predictions learns it, then the trees.

A kind's kernel accepts the sample and calls `accept`. What needs more than the kernel is left to
the owner of the trees, who goes on by `stage`.
"""

from __future__ import annotations

from ...compiling.kernels import inlined, kernel, merged, separate
from ...limits import DONE, NO_POINT_ROOM, WAITS
from ...partitions.mondrian.extension import LANES, extend_trees
from ...partitions.mondrian.inputs import store_values
from ...partitions.mondrian.records import CLOSED, NONE
from .paths import path_of_grown
from .records import (
    ACCEPTED,
    IDLE,
    LEARNED,
    LONG,
    MIXED_IN,
    RECENT,
    REPLAYING,
    SPLITTING,
    R,
    RebuiltForest,
    RebuiltTree,
)
from .schedule import BUILD_EVERY
from .splitting import split_all

# Rows of either kind that a call may need in a tree; kinds may need more beside the nodes.
ROOM = 64


@merged
def _needs_room(forest: RebuiltForest) -> int:
    """Return a tree that needs room before it learns, or NONE."""
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        if tree.role != IDLE and (
            tree.nodes.n_rows + ROOM > tree.nodes.capacity
            or tree.side_rows.n_rows + forest.side_room > tree.side_rows.capacity
        ):
            return t
    return NONE


@merged
def _takes(tree: RebuiltTree) -> bool:
    """Tell whether a tree is extended; one that gathers its points gets this one in its turn."""
    role = tree.role
    return role in (LONG, RECENT, SPLITTING, REPLAYING)


@merged
def _store(forest: RebuiltForest, p: int) -> None:
    """Store the sample predicted last for all trees in use, and let its paths down them learn.

    The trees are to be extended by it then.
    """
    store_values(forest, forest.inputs, p)
    forest.keep_sample(p)
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        tree.walk_point = p
        tree.walk_end = p + 1 if _takes(tree) else p
        tree.rows_before = tree.nodes.n_rows
        forest.begin_walk(t, p)


@merged
def _update_all(forest: RebuiltForest, p: int, backlog: int) -> None:
    """Update what the trees know that have been extended by a point.

    `backlog` tells how many samples are yet to be shown to a tree that is being shown them.
    """
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        if tree.role in (LONG, RECENT):
            path, n = forest.path_of(t), tree.path_length
            # Without a new row the path is that of the prediction.
            if n == 0 or tree.nodes.n_rows != tree.rows_before:
                n = path_of_grown(forest, tree, forest.values_of(tree, p), path, n)
            forest.update_tree(t, p, n)
        elif tree.role in (SPLITTING, REPLAYING):
            forest.catch_up(t, p, backlog)


@inlined
def _doubles(forest: RebuiltForest) -> bool:
    """Tell whether the next sample doubles the number of samples, and the ranges follow them."""
    n = forest.n_samples
    return bool(forest.raw_values) and n & (n + 1) == 0


@inlined
def _lacks(forest: RebuiltForest) -> int:
    """Return what the next sample lacks: NO_POINT_ROOM, a tree that needs room, or DONE."""
    if forest.n_samples % forest.window_capacity >= forest.points.capacity:
        return NO_POINT_ROOM
    needy = _needs_room(forest)
    return DONE if needy == NONE else needy


@separate
def learn_sample(forest: R) -> None:
    """Learn the accepted sample, which has been predicted, and count it.

    There is room for `ROOM` more rows in each tree. The forest is closed where it is time to go on
    with building.
    """
    n = forest.n_samples
    p = n % forest.window_capacity
    forest.score()
    forest.is_predicted = 0
    _store(forest, p)
    extend_trees(forest, 0, forest.n_trees, LANES)
    _update_all(forest, p, n - forest.cursor)
    split_all(forest, p)
    forest.n_samples = n + 1
    forest.n_points = max(forest.n_points, p + 1)
    if n + 1 >= forest.quiet_until and (n + 1) % BUILD_EVERY == 0:
        forest.is_plan_due = 1
        forest.budget = forest.granted
        forest.version = CLOSED


@inlined
def accept(forest: RebuiltForest) -> int:
    """Learn and count the sample in the forest's `inputs`, which has been predicted.

    A kind keeps the rest of it. Returns DONE; or WAITS, where the forest is closed and its owner
    has something to complete: building, a drift, or the sample itself, which counts among those
    that walk.
    """
    overwritten = forest.n_samples - forest.window_capacity
    if _doubles(forest) or overwritten >= forest.oldest or _lacks(forest) != DONE:
        forest.stage = ACCEPTED
        forest.n_walking = 1
        forest.version = CLOSED
        return WAITS
    learn_sample(forest)
    if forest.kept > 0:
        forest.version = CLOSED
    return WAITS if forest.version == CLOSED else DONE


@kernel
def learn_accepted(forest: R) -> int:
    """Learn the sample that has been accepted; only the mixture does where the sample doubles.

    Returns DONE, NO_POINT_ROOM or a tree that needs room for `ROOM` more rows, which may move what
    is noted of a prediction; then nothing has been learned.
    """
    doubles = _doubles(forest)
    if not doubles:
        lacks = _lacks(forest)
        if lacks != DONE:
            return lacks
    forest.predict_inputs(forest.inputs)
    if doubles:
        forest.score()
        forest.is_predicted = 0
        forest.stage = MIXED_IN
        return DONE
    learn_sample(forest)
    forest.n_walking = 0
    forest.stage = LEARNED
    return DONE
