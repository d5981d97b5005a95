"""Rebuilding of a tree from the samples of the window, in parts.

The tree gathers its points in one leaf, which is then split. In a forest over classes, the tree
then replays the points in order. So the statistics equal the statistics of a tree that has learned
the points one by one. Each stage continues within a budget of points, which `build_part` passes
from stage to stage.
"""

from ...compiling.kernels import cold, inline_in_source, kernel
from ...partitions.mondrian import sampling, scaling, widths
from ...partitions.mondrian.constants import NONE
from ...records import Float64s
from . import forest as rebuilt
from .forest import R
from .sample import ROWS_OF_CALL
from .splits import split_queued

# Cost of replaying a point, relative to the cost per point of a split.
REPLAY_COST = 12

# Usual number of rows in a reservation for a tree that is being built.
GROWTH = 4 * ROWS_OF_CALL

# Budget of each kernel call for a tree that is built before other work. The bound makes kernels
# return soon.
PART = 1 << 17


@kernel
@cold
def begin(forest: R, t: int, first: int, dim_weights: Float64s) -> None:
    """Clear a tree, and begin to build the tree from the samples from `first` on.

    `dim_weights` are the weights of the dimensions in draws of cuts.
    """
    tree = forest.trees[t]
    sampling.clear_tree(tree)
    tree.queue = NONE
    # During a renewal of widths, new trees have the new widths.
    current = forest.scaling
    widths.use_scaling(forest, tree, 1 - current if forest.renewal.is_running == 1 else current)
    tree.root = sampling.new_leaf(forest, tree)
    tree.role = rebuilt.GATHERING
    forest.predicted.is_current = 0
    forest.build.cursor = forest.build.first = first
    forest.build.rows_needed = GROWTH
    n_dims = forest.n_dims
    gains = forest.cuts.gains.part(n_dims * t, n_dims)
    for d in range(n_dims):
        gains[d] = 0.0
        forest.cuts.dim_weights[d] = dim_weights[d]


@inline_in_source
def _gather(forest: R, t: int, budget: int) -> int:
    """Add samples to a tree's root, at the cost 1 per point; return the remaining budget."""
    tree, build, n = forest.trees[t], forest.build, forest.n_samples
    # Columns are computed again, since the previous tree in this slot may have had another scaling.
    is_renewed = forest.has_columns == 1 and forest.renewal.began_at > 0
    start, stop = build.cursor, min(n, build.cursor + budget)
    for i in range(start, stop):
        p = i % forest.window_capacity
        if is_renewed:
            scaling.write_column(forest, tree, t, forest.points.row(p))
        sampling.put_point(forest, tree, tree.root, p)
    build.cursor = stop
    if stop == n:
        forest.enqueue_built(t, tree.root)
        tree.role = rebuilt.SPLITTING
    return budget - (stop - start)


@inline_in_source
def _split(forest: R, t: int, budget: int) -> int:
    """Split a tree's leaves, at the cost 1 per point of a leaf; return the remaining budget."""
    tree, build = forest.trees[t], forest.build
    left = split_queued(forest, t, budget, NONE)
    if tree.queue == NONE:
        tree.role = rebuilt.REPLAYING if forest.replays() else rebuilt.BUILT
        build.cursor = build.first
    return left


@inline_in_source
def _replay(forest: R, t: int, budget: int) -> int:
    """Replay samples, at the cost `REPLAY_COST` per point, and return the remaining budget.

    The number of samples that a call replays must not depend on the capacity of tables. So after a
    stop for lack of rows, the remaining budget is at least 1, and the call is repeated.
    """
    tree, build, n = forest.trees[t], forest.build, forest.n_samples
    start, stop = build.cursor, min(n, build.cursor + budget // REPLAY_COST + 1)
    build.cursor = done = forest.replay(t, start, stop)
    left = budget - REPLAY_COST * (done - start)
    if done < stop:
        if done == start:
            # The sample may have a long path, so reserve rows for the longest path.
            build.rows_needed = rebuilt.DEEPEST
        return max(left, 1)
    if done == n:
        tree.role = rebuilt.BUILT
    return left - 1


@kernel
def build_part(forest: R, t: int, budget: int) -> int:
    """Continue to build a tree within a budget, and return the remaining budget.

    If the remaining budget is positive and the tree is not BUILT, the tree needs room for
    `Build.rows_needed` more rows. The cost is subtracted from the budget of the call,
    `Build.budget`.
    """
    tree, build, left = forest.trees[t], forest.build, budget
    needed = build.rows_needed
    if tree.lacks_rows(needed, max(needed, build.side_rows_of_call)):
        return left
    build.rows_needed = GROWTH
    if tree.role == rebuilt.GATHERING:
        left = _gather(forest, t, left)
    if tree.role == rebuilt.SPLITTING and left > 0:
        left = _split(forest, t, left)
    if tree.role == rebuilt.REPLAYING and left > 0:
        left = _replay(forest, t, left)
    build.budget = max(build.budget - (budget - left), 0)
    return left
