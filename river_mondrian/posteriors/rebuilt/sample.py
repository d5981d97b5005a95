"""Learning of a sample, first by the mixture of predictions, then by the trees.

`learn` accepts a sample, and `learn_sample` updates the mixture and the trees. A subclass of
`RebuiltForest` stores the label or the target. `RebuiltTrees` completes the steps that kernels
cannot, including allocations, and continues from `Pending.stage`.
"""

from ...compiling.kernels import always_inline, cold, inline_in_source, kernel, link_by_name
from ...learners.drift import NOBODY, watch
from ...limits import DONE, LEAST_WEIGHT, NO_POINT_ROOM, TOO_LARGE, WAITS
from ...partitions.mondrian import extension, scaling
from ...partitions.mondrian.constants import CLOSED, NONE, START
from ...partitions.mondrian.extension import count_walked, extend_by_row
from ...records import Float64s
from . import forest as rebuilt
from .forest import R, ensure_predicted
from .schedule import BUILD_EVERY
from .splits import SPLIT_BUDGET, split_queued

# Largest number of node rows that a call needs in a tree, and the default for side rows.
ROWS_OF_CALL = 64


@always_inline
def _fits_ranges(forest: R) -> bool:
    """Return whether ranges are fitted when the next sample is learned.

    During the warm-up, ranges are fitted when the number of samples becomes a power of 2.
    """
    return forest.n_points + 1 == forest.next_fit


@always_inline
def _lacks_memory(forest: R) -> int:
    """Return DONE, NO_POINT_ROOM, or the number of a tree without rows for the next sample."""
    if forest.n_samples % forest.window_capacity >= forest.points.capacity:
        return NO_POINT_ROOM
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        is_used = tree.role != rebuilt.IDLE
        if is_used and tree.lacks_rows(ROWS_OF_CALL, forest.build.side_rows_of_call):
            return t
    return DONE


@inline_in_source
def _begin_walks(forest: R, p: int) -> None:
    """Update the weights on each tree's path, and begin the walks of point `p`."""
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        is_split = tree.role in (rebuilt.SPLITTING, rebuilt.REPLAYING)
        tree.walk_ref, tree.walk_point = START, p
        # Trees that predict, split or replay add point `p` now. A tree that is gathering points
        # adds the point later.
        tree.walk_end = p + 1 if tree.predicts() or is_split else p
        tree.rows_before = tree.nodes.n_rows
        forest.learn_stops(t)
        forest.begin_walk(t, p)


@inline_in_source
def _update_trees(forest: R, p: int) -> None:
    """Update the statistics on the path of point `p`, which has extended the trees."""
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        if tree.predicts():
            path, length = forest.path_of(t), tree.path_length
            # If no node was added, the path of the prediction is still valid.
            if length == 0 or tree.nodes.n_rows != tree.rows_before:
                x = forest.row.part(tree.first_value, forest.dim_capacity)
                length = rebuilt.path_of_grown(forest, tree, x, path, length)
            forest.update_tree(t, p, length)
        elif tree.role in (rebuilt.SPLITTING, rebuilt.REPLAYING):
            forest.catch_up(t, p, forest.n_samples - forest.build.cursor)


@link_by_name
def learn_sample(forest: R) -> None:
    """Learn the accepted sample, which has been predicted, and count the sample.

    Each tree must have memory for `ROWS_OF_CALL` more rows. If a build must continue now, the
    forest's version becomes CLOSED.
    """
    n = forest.n_samples
    p = n % forest.window_capacity
    forest.score()
    forest.predicted.is_current = 0
    scaling.store_inputs(forest, forest.inputs, p)
    forest.keep_sample(p)
    _begin_walks(forest, p)
    extend_by_row(forest, forest.n_trees)
    _update_trees(forest, p)
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        if tree.queue != NONE and tree.predicts():
            split_queued(forest, t, SPLIT_BUDGET, p)
    forest.n_samples = n + 1
    forest.n_points = max(forest.n_points, p + 1)
    if n + 1 >= forest.pending.plan_from and (n + 1) % BUILD_EVERY == 0:
        forest.pending.is_planning_due = 1
        forest.build.budget = forest.build.budget_of_call
        forest.version = CLOSED


@kernel
def error_of(forest: R) -> float:
    """Return the prediction error for the sample in `inputs`, whose label or target is set.

    If the i-th input is too large, return `TOO_LARGE - i`.
    """
    bad = ensure_predicted(forest, forest.inputs)
    return float(TOO_LARGE - bad) if bad >= 0 else forest.error()


@kernel
def learn(forest: R, y: float, weight: float, is_new: bool, n_to_keep: int) -> int:
    """Learn the label or the target of the sample in `inputs`, and count the sample.

    Weights below LEAST_WEIGHT are raised to LEAST_WEIGHT. If an external detector has detected a
    drift, `n_to_keep` is the number of samples that the detector would keep, otherwise 0. Returns
    DONE, or `TOO_LARGE - i` if the i-th input is too large. If an input is too large, nothing has
    changed. Returns WAITS if `RebuiltTrees` must complete a build, the adaptation to a drift, or
    the learning of the sample. While the sample is not completely learned, `n_walking` is 1.
    """
    bad = ensure_predicted(forest, forest.inputs)
    if bad >= 0:
        return TOO_LARGE - bad
    forest.take(y, max(weight, LEAST_WEIGHT), is_new)
    if forest.errors.detector != NOBODY:
        error = forest.error()
        if error >= 0.0:
            n_samples = forest.n_samples + 1
            forest.pending.n_to_keep = watch(forest.errors, error, n_to_keep, n_samples)
    overwritten = forest.n_samples - forest.window_capacity
    if _fits_ranges(forest) or overwritten >= forest.oldest or _lacks_memory(forest) != DONE:
        forest.pending.stage = rebuilt.ACCEPTED
        forest.n_walking = 1
        forest.version = CLOSED
        return WAITS
    learn_sample(forest)
    if forest.pending.n_to_keep > 0:
        forest.version = CLOSED
    return WAITS if forest.version == CLOSED else DONE


@kernel
@cold
def learn_accepted(forest: R) -> int:
    """Learn the accepted sample.

    If ranges are fitted at this sample (see `_fits_ranges`), only the mixture learns the sample.
    Returns DONE, NO_POINT_ROOM, or the number of a tree that needs memory for `ROWS_OF_CALL` more
    rows. If memory is missing, nothing has been learned. An allocation may have moved rows to which
    the last prediction refers, so the sample may be predicted again.
    """
    fits_ranges = _fits_ranges(forest)
    needy = DONE if fits_ranges else _lacks_memory(forest)
    if needy != DONE:
        return needy
    ensure_predicted(forest, forest.inputs)
    if fits_ranges:
        forest.score()
        forest.predicted.is_current = 0
        forest.pending.stage = rebuilt.MIXED_IN
        return DONE
    learn_sample(forest)
    forest.n_walking = 0
    forest.pending.stage = rebuilt.LEARNED
    return DONE


@kernel
@cold
def fit(forest: R, scaling: Float64s, next_fit: int) -> None:
    """Store and count the accepted sample, and set another scaling of all samples.

    There must be memory for the sample's point. Afterwards the caller must rebuild the trees. The
    next fit is at `next_fit` samples.
    """
    n = forest.n_samples + 1
    forest.keep_sample(n - 1)
    extension.fit(forest, scaling, n, next_fit)
    forest.n_walking = 1
    count_walked(forest)
    forest.predicted.is_current = 0
    forest.pending.stage = rebuilt.REBUILD_DUE
