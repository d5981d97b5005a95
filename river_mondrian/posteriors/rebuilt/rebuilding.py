"""Building a tree anew from the samples of the window, a part at a time.

The tree gathers its points in one leaf, is split, and then, where its kind needs that, is shown the
points in order, so that what it knows is that of a tree that has been there from the first of them
on.
"""

from __future__ import annotations

from ...compiling.kernels import kernel, merged
from ...limits import BUDGET_SPENT, DONE, NO_ROOM
from ...partitions.mondrian import extension
from ...partitions.mondrian.extension import count_walked
from ...partitions.mondrian.inputs import write_column
from ...partitions.mondrian.records import DRAWING, NONE
from ...partitions.mondrian.sampling import clear_tree, new_leaf, put_point
from ...records import Float64s
from .learning import ROOM
from .records import (
    BUILT,
    DEEPEST,
    GATHERING,
    REPLAYING,
    RESCALED,
    SPLITTING,
    R,
    RebuiltForest,
    RebuiltTree,
)
from .splitting import split_queued

# To show a point to a tree costs as much as to split so many.
REPLAY_COST = 12

# Rows for which room is made at once where a tree is being built.
GROWTH = 4 * ROOM

# What a kernel that builds a tree at once may spend, so that it comes back soon.
PART = 1 << 17


@kernel
def begin(forest: R, t: int, first: int, dim_weights: Float64s) -> None:
    """Begin to build a tree from the samples from `first` on; it is empty then.

    Its cuts are drawn by these weights of the dimensions.
    """
    tree = forest.trees[t]
    clear_tree(tree)
    tree.n_splits = 0
    tree.queue = NONE
    # Under the other widths once all points have been brought to these.
    is_moved = forest.phase == DRAWING and forest.n_moved == forest.n_points
    tree.frame = 1 - forest.frame if is_moved else forest.frame
    if forest.has_frames == 1:
        tree.first_value = forest.dim_capacity * tree.frame
    tree.root = new_leaf(forest, tree)
    tree.role = GATHERING
    forest.is_predicted = 0
    forest.cursor = forest.built_from = first
    forest.rows_needed = GROWTH
    n_dims = forest.n_dims
    gains = forest.gains.part(n_dims * t, n_dims)
    for d in range(n_dims):
        gains[d] = 0.0
        forest.dim_weights[d] = dim_weights[d]


@merged
def _gather(forest: RebuiltForest, tree: RebuiltTree, t: int, start: int, stop: int) -> None:
    """Put the samples `start` to `stop` into the root of a tree that is being built."""
    # What was here before may have been under other widths.
    is_renewed = forest.keeps_inputs == 1 and forest.renewed_at_sample > 0
    for i in range(start, stop):
        p = i % forest.window_capacity
        if is_renewed:
            point = forest.points.row(p)
            own = forest.values_in(tree, point)
            write_column(forest, own, forest.inputs_in(point), t, tree.frame)
        put_point(forest, tree, t, tree.root, p)


@merged
def _build(forest: RebuiltForest, t: int) -> int:
    """Go on with building a tree as `go_on` does."""
    tree, n = forest.trees[t], forest.n_samples
    if tree.role == BUILT:
        return DONE
    room = forest.rows_needed
    if tree.nodes.n_rows + room > tree.nodes.capacity:
        return NO_ROOM
    if tree.side_rows.n_rows + max(room, forest.side_room) > tree.side_rows.capacity:
        return NO_ROOM
    forest.rows_needed = GROWTH
    while forest.budget > 0:
        budget, cursor = forest.budget, forest.cursor
        if tree.role == GATHERING:
            stop = min(n, cursor + budget)
            _gather(forest, tree, t, cursor, stop)
            forest.budget = budget - (stop - cursor)
            forest.cursor = stop
            if stop == n:
                forest.enqueue_built(t, tree.root)
                tree.role = SPLITTING
        elif tree.role == SPLITTING:
            budget = split_queued(forest, t, budget, NONE)
            forest.budget = budget
            if tree.queue == NONE:
                if not forest.replays():
                    tree.role = BUILT
                    return DONE
                tree.role = REPLAYING
                forest.cursor = forest.built_from
            elif budget > 0:
                return NO_ROOM
        else:
            stop = min(n, cursor + budget // REPLAY_COST + 1)
            done = forest.replay(t, cursor, stop)
            left = budget - REPLAY_COST * (done - cursor)
            # Stopped for lack of room it goes on to the same `stop`: what is learned in a call does
            # not depend on the room that there was.
            forest.budget = max(left, 1) if done < stop else left - 1
            forest.cursor = done
            if done == n:
                tree.role = BUILT
                return DONE
            if done < stop:
                if done == cursor:
                    # Its path is long.
                    forest.rows_needed = DEEPEST
                return NO_ROOM
    return BUDGET_SPENT


@kernel
def go_on(forest: R, t: int) -> int:
    """Go on with building a tree by the forest's budget; what is left of it the forest has then.

    Returns BUDGET_SPENT; DONE, and the tree is BUILT; or NO_ROOM, at once where there is not room
    for `rows_needed` rows of either kind, later where that has not been enough.
    """
    return _build(forest, t)


@kernel
def go_on_at_once(forest: R, t: int) -> int:
    """Go on with building a tree as `go_on` does, by a budget of its own."""
    kept = forest.budget
    forest.budget = PART
    status = _build(forest, t)
    forest.budget = kept
    return status


@kernel
def rescale(forest: R, scaling: Float64s) -> None:
    """Scale all samples anew, the accepted one among them, and count that.

    Its inputs are among the raw values, and there is room for its point. The trees are to be built
    anew then.
    """
    n = forest.n_samples + 1
    forest.keep_sample(n - 1)
    extension.rescale(forest, scaling, n)
    forest.n_walking = 1
    count_walked(forest)
    forest.is_predicted = 0
    forest.stage = RESCALED
