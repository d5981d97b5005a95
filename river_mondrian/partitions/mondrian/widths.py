"""Renewal of widths: trees are redrawn with new widths, in small steps as samples are learned.

1. When the number of samples reaches `Renewal.next_check`, the kernel that learns stops
   (`extension.must_wait`). `MondrianTrees.learn_closed` then calls `check_widths`, which compares
   the trees' widths with the widths of recent samples.
2. If a width is invalid, `begin_renewal` writes new widths to the other scaling (see `scaling`).
3. `extension.count_walked` adds each learned sample to `Renewal.n_owed`. `learn_next` then calls
   `continue_renewal`, which redraws the trees with this scaling. `_begin_redraw` clears the spare
   tree, `_extend_spare` extends the spare tree, and `_replace_tree` swaps both trees.
4. When all trees are redrawn, the other scaling becomes the current scaling (`_end_renewal`).

Points store inputs, so a renewal changes no input. Adaptive forests share `check_widths`,
`begin_renewal` and `_end_renewal`. Adaptive forests check widths after a sample is learned, in the
calls that continue rebuilds of trees (`RebuiltTrees._continue_builds`). In place of step 3,
`RebuiltTrees._continue_renewal` schedules a rebuild of all trees
(`posteriors/rebuilt/rebuilt_trees.py`).

Exact forests redraw the trees one after another. A spare tree is extended by all stored points in
order (Algorithms 3 and 4), a few points for each learned sample. When the spare tree has all
points, it replaces the tree that is being redrawn. If no values are missing and the tree is not
full, a tree extended by points has the distribution of a tree sampled from these points
(Lakshminarayanan et al. 2014, section 4.1). The time of a renewal depends only on inputs and
numbers of samples. So each of these trees always has the distribution of a tree sampled with its
widths.

A shard of a forest (`shards`) follows the whole forest's schedule. While another shard's tree is
redrawn, points are counted, but extend no tree.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...compiling.kernels import always_inline, batch_kernel, cold, helper, kernel, link_by_name
from ...elementary import mixed, state_after
from ...limits import DONE
from ...records import Float64s, Floats, Int32s, Ints
from ...values import quiet
from ..ranges import known_ranges
from . import extension, sampling
from .constants import CLOSED, NEVER, START
from .records import F, Forest, Tree
from .scaling import scaling_by

# Values up to this many interquartile ranges beyond the quartiles determine the range of a feature.
# The number is large, because long tails are common, and trees are less accurate if tails are
# outside the range.
FENCE = 100.0


# Kernels.

# Points that the spare tree gets for each learned sample, divided by the number of trees in the
# whole forest. With 4, all trees are redrawn when the number of samples has grown by about a third.
# If there are few samples per tree, a renewal takes longer, because the redraw of a tree takes at
# least one sample.
POINTS_PER_SAMPLE_AND_TREE = 4

# Widths are checked again when the number of samples has grown by the factor CHECK_RATIO. After a
# renewal, the factor is RENEWAL_RATIO. A RENEWAL_RATIO below 4/3 requires a larger
# POINTS_PER_SAMPLE_AND_TREE, because a renewal begins only after the previous renewal has ended.
CHECK_RATIO = 1.5
RENEWAL_RATIO = 1.5


@always_inline
def use_scaling(forest: Forest, tree: Tree, scaling: int) -> None:
    """Set the scaling of a tree that has no nodes."""
    tree.scaling = scaling
    if forest.has_own_columns == 0:
        tree.first_value = forest.dim_capacity * scaling


@kernel
@cold
def begin_renewal(forest: F, scaling: Float64s) -> None:
    """Begin to redraw all trees with another scaling, shape (2, input_capacity)."""
    renewal, other = forest.renewal, 1 - forest.scaling
    capacity = forest.input_capacity
    for d in range(capacity):
        forest.offsets(other)[d] = scaling[d]
        forest.factors(other)[d] = scaling[capacity + d]
    renewal.is_running = 1
    renewal.is_scheduled = 0
    renewal.tree = 0
    renewal.n_owed = 0
    renewal.is_extending = 0
    renewal.began_at = forest.n_samples
    renewal.next_check = NEVER
    oblique = forest.oblique
    if oblique:
        oblique.keep_means(oblique)
    _begin_redraw(forest)


@always_inline
def _begin_redraw(forest: Forest) -> None:
    """Begin to redraw the next tree. If this shard contains the tree, clear the spare tree."""
    forest.renewal.n_spare_points = 0
    # Adaptive forests rebuild all trees on a schedule, without an additional spare tree.
    if forest.n_slots == forest.n_trees or not forest.is_redrawing():
        return
    old, spare = forest.trees[forest.redrawn_tree()], forest.spare()
    sampling.clear_tree(spare)
    spare.lifetime = old.lifetime
    # The spare tree has a separate random stream, independent of the old tree's draws.
    state = state_after(old.renewal_state, 1)
    spare.renewal_state = state
    spare.random_state = mixed(state)
    use_scaling(forest, spare, 1 - forest.scaling)
    spare.succeed(forest, old)


@kernel
@cold
def restart_redraw(forest: F) -> None:
    """Restart the redraw of the current tree, if any, after the spare tree's rows were removed."""
    if forest.renewal.is_running == 1:
        _begin_redraw(forest)
        forest.renewal.is_extending = 0


@link_by_name
def continue_renewal(forest: F) -> int:
    """Continue the renewal for `Renewal.n_owed` samples, and return `_extend_spare`'s result."""
    status = _extend_spare(forest)
    if status == DONE:
        if forest.is_redrawing():
            forest.update_drawn()
        _count_extended(forest)
    return status


@helper
def _extend_spare(forest: F) -> int:
    """Extend the spare tree by some points for each owed sample.

    While another shard's tree is redrawn, these points are only counted. Returns DONE, or the spare
    tree's index if the tree has no room for more rows. After the caller has reserved room, the next
    call continues the walk.
    """
    renewal = forest.renewal
    if renewal.is_running == 0:
        return DONE
    n, t = forest.n_points, forest.n_trees
    spare = forest.trees[t]
    if renewal.is_extending == 0:
        start, pace = renewal.n_spare_points, POINTS_PER_SAMPLE_AND_TREE * forest.n_all_trees
        stop = min(start + pace * renewal.n_owed, n)
        if forest.has_columns == 1:
            for p in range(start, stop):
                forest.write_spare_column(forest, p)
        spare.walk_point = start if forest.is_redrawing() else stop
        spare.walk_end = stop
        spare.walk_ref = START
        renewal.is_extending = 1
    return (
        extension.extend_trees(forest, t, t + 1, 1) if spare.walk_point < spare.walk_end else DONE
    )


@helper
def _count_extended(forest: F) -> None:
    """Count the points of the spare tree. If the tree has all points, begin the next redraw.

    After the last tree, the renewal ends.
    """
    renewal = forest.renewal
    if renewal.is_running == 1:
        renewal.n_spare_points = forest.spare().walk_end
        if renewal.n_spare_points == forest.n_points:
            if forest.is_redrawing():
                _replace_tree(forest)
            renewal.tree = renewal.tree + 1
            if renewal.tree < forest.n_all_trees:
                _begin_redraw(forest)
            else:
                # With a window, trees contain at most `window` samples, so the interval between
                # checks stops growing.
                more = int((RENEWAL_RATIO - 1.0) * min(renewal.began_at, forest.window))
                _end_renewal(forest, max(forest.n_samples, renewal.began_at + more))
    renewal.is_extending = 0
    renewal.n_owed = 0


@always_inline
def _replace_tree(forest: Forest) -> None:
    """Swap the records of the redrawn tree and of the spare tree."""
    n_words = forest.tree_words
    words = Int32s(forest.trees[forest.redrawn_tree()], 0, n_words)
    others = Int32s(forest.spare(), 0, n_words)
    for i in range(n_words):
        word = words[i]
        words[i] = others[i]
        others[i] = word


@always_inline
def _end_renewal(forest: Forest, next_check: int) -> None:
    """Make the other scaling the current scaling. All trees have been redrawn with this scaling."""
    forest.scaling = 1 - forest.scaling
    forest.renewal.is_running = 0
    forest.renewal.next_check = next_check
    oblique = forest.oblique
    if oblique:
        oblique.change_scaling(oblique)


@kernel
@cold
def end_renewal(forest: F, next_check: int) -> None:
    """End a renewal of an adaptive forest (see `_end_renewal`)."""
    _end_renewal(forest, next_check)


@batch_kernel
def continue_owed(forest: F) -> int:
    """Call `continue_renewal` from Python."""
    return forest.continue_renewal(forest)


@always_inline
def learn_next(forest: Forest, inputs: Float64s, p: int) -> int:
    """Learn a sample as point `p`, and count the sample once all trees contain the point.

    If a tree has no room for more rows, the forest is closed. Then `MondrianTrees.complete`
    finishes all walks, and continues the renewal.
    """
    status = extension.learn_point(forest, inputs, p)
    if status == DONE:
        extension.count_walked(forest)
        if forest.renewal.n_owed > 0:
            status = forest.continue_renewal(forest)
    if status >= 0:
        forest.version = CLOSED
    return status


# Checks of widths.

# Number of samples for a check of widths, and for a measurement of new widths. The second number is
# larger, because small sets of samples often lack the extreme values of a feature.
N_CHECKED = 256
N_MEASURED = 1024

# A width is invalid if the measured width differs by a factor above FACTOR. If the interquartile
# ranges can be compared, they must also differ by a factor above FACTOR_OF_SPREAD. The width alone
# is not enough: with long tails, a few values determine the width. The interquartile range alone is
# not enough: over few integer values, this range may double by chance.
FACTOR = 2.0
FACTOR_OF_SPREAD = 1.7
# NEAR_FENCE replaces FENCE for features whose interquartile range has shrunk, so that earlier
# values do not determine the range.
NEAR_FENCE = 10.0
# A width is renewed only if at least this fraction of the samples determine the range of the
# feature (`KnownRanges.known`). Fewer than N_CHECKED samples count as N_CHECKED samples.
EVIDENCE = 1 / 32


def _differ(one: Floats, other: Floats, factor: float) -> NDArray[np.bool_]:
    """Return a mask of the pairs in which one value is more than `factor` times the other."""
    return (one > factor * other) | (other > factor * one)


class Measured(NamedTuple):
    """Scaling measured on samples, and two masks: inputs with enough values, and invalid widths."""

    scaling: Floats
    are_known: NDArray[np.bool_]
    are_over: NDArray[np.bool_]


@quiet
def measure(rows: Floats, rows_then: Floats, n: int, given: Floats, factors: Floats) -> Measured:
    """Measure widths on samples, and compare them with the widths of the trees.

    Parameters
    ----------
    rows
        Recent samples, shape (samples, inputs).
    rows_then
        Samples before the last renewal or of the warm-up, of the same shape. Rows of NaN if there
        are fewer samples.
    n
        Number of rows of `rows` that are samples.
    given
        Known ranges, shape (2, inputs); NaN if a range is not known.
    factors
        Factors of the trees' current scaling, shape (inputs,).

    """
    # Both sets of samples are passed in one call, which is faster than two calls.
    both = np.hstack([rows, rows_then])
    (low, _), (high, _), (known, known_then), (spread, spread_then) = (
        values.reshape(2, -1) for values in known_ranges(both, FENCE)
    )
    least = EVIDENCE * max(n, N_CHECKED)
    # Two interquartile ranges of 0 cannot be compared.
    is_known = (known_then >= least) & ((spread_then > 0.0) | (spread > 0.0))
    has_shrunk = is_known & (spread_then > FACTOR_OF_SPREAD * spread)
    if has_shrunk.any():
        near_low, near_high, *_ = known_ranges(rows, NEAR_FENCE)
        low = np.where(has_shrunk, near_low, low)
        high = np.where(has_shrunk, near_high, high)
    by_ranges, are_known = scaling_by(given, low, high), known >= least
    are_over = are_known & _differ(factors, by_ranges[1], FACTOR)
    are_over &= ~is_known | _differ(spread_then, spread, FACTOR_OF_SPREAD)
    return Measured(by_ranges, are_known, are_over)


def mostly_recent(n: int, n_rows: int) -> Ints:
    """Return `n_rows` indices below `n`, half of them in the last 30 %."""
    return (n * np.sqrt((np.arange(n_rows) + 0.5) / n_rows)).astype(np.int64)
