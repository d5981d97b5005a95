"""Renewal of widths: trees are redrawn with new widths, step by step while samples are learned.

1. When the number of samples reaches `Forest.next_look`, the kernel that learns stops
   (`extension.must_wait`). `MondrianTrees.learn_next` then calls `FollowingTrees.look_at_widths`,
   which compares the trees' widths with the widths of recent samples.
2. If the widths differ, `begin` writes the new widths to the other frame (see `scaling`). The phase
   becomes DRAWING.
3. For each learned sample, the kernel calls `do_owed`, which redraws the trees.
4. When all trees are redrawn, the phase becomes REBASING. Then `rebase` converts the remainders of
   the points, if any, to the new frame (see `scaling`). Afterwards the phase is STEADY again.

Adaptive forests follow the same steps on their own schedule (`RebuiltTrees._renew_widths` in
`posteriors/rebuilt/rebuilt_trees.py`): each tree changes to the new frame at its next scheduled
rebuild.

Exact forests redraw the trees one after another. A spare tree is extended by all stored points in
order (Algorithms 3 and 4), a few points for each learned sample. When the spare tree has all
points, it replaces the tree that is being redrawn. A tree extended by points has the distribution
of a tree sampled from these points (Lakshminarayanan et al. 2014, section 4.1). The time of a
renewal depends only on inputs and numbers of samples. So each tree always has the distribution of a
tree sampled with its widths.

A part of a forest (`parts`) follows the whole forest's schedule. While another part's tree is
redrawn, points are counted and converted, but extend no tree.
"""

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...compiling.kernels import batch_kernel, helper, inlined, kernel, separate, set_entries
from ...elementary import mixed, state_after
from ...limits import DONE
from ...records import ChunkedRows, Float64s, Floats, Int32s, Ints
from ..ranges import Rounding, known_ranges, robust_ranges
from . import extension, sampling
from .constants import CLOSED, DRAWING, NEVER, NONE, REBASING, START, STEADY
from .records import F, Forest
from .scaling import GrowingTrees, bring, move, rebase
from .tree_memory import TABLES, WARM_UP, AnyForest

# Values up to this many interquartile ranges beyond the quartiles determine the range of a feature.
# The number is large: long tails are common, and trees are less accurate if tails are outside the
# range.
FENCE = 100.0


# Kernels.

# Number of points by which the spare tree is extended for each sample and each tree of the whole
# forest. Therefore all trees are redrawn before the number of samples has grown by a third.
TAKEN = 4

# Number of points that are rebased (see `scaling.rebase`) for each learned sample.
REBASED = 64

# Widths are checked again when the number of samples has grown by the factor LOOK_RATIO. After a
# renewal, the factor is RENEWAL_RATIO. A ratio below 4/3 needs a larger TAKEN, since a renewal can
# begin only when the previous renewal has redrawn all trees.
LOOK_RATIO = 1.5
RENEWAL_RATIO = 1.5


@inlined
def _begin_tree(forest: Forest) -> None:
    """Begin to redraw the next tree, and clear the spare tree if this part has the next tree."""
    forest.taken = 0
    if forest.has_frames == 0:
        # The spare tree's column still has the values for the previous tree.
        forest.n_moved = 0
    # Adaptive forests have no spare tree, since they rebuild all trees on a schedule.
    if forest.n_slots == forest.n_trees or not forest.draws():
        return
    old, spare = forest.trees[forest.turn()], forest.trees[forest.n_trees]
    sampling.clear_tree(spare)
    spare.lifetime = old.lifetime
    # The spare tree has a separate random stream, independent of the old tree's draws.
    state = state_after(old.renewal_state, 1)
    spare.renewal_state = state
    spare.random_state = mixed(state)
    spare.frame = 1 - forest.frame
    if forest.has_frames == 1:
        spare.first_value = forest.dim_capacity * spare.frame
    spare.succeed(forest, old)


@kernel
def begin(forest: F, frame: Float64s) -> None:
    """Begin to redraw all trees in another frame of offsets and factors, shape (2, inputs)."""
    other = 1 - forest.frame
    capacity = forest.input_capacity
    for d in range(capacity):
        forest.offsets(other)[d] = frame[d]
        forest.factors(other)[d] = frame[capacity + d]
    forest.phase = DRAWING
    forest.renewed = 0
    forest.n_moved = 0
    forest.owed = 0
    forest.is_taking = 0
    forest.renewed_at_sample = forest.n_samples
    forest.next_look = NEVER
    oblique = forest.oblique
    if oblique:
        oblique.keep_means(oblique)
    _begin_tree(forest)


@kernel
def bring_some(forest: F, most: int, next_look: int) -> None:
    """Call `move` or `rebase` for up to `most` points.

    The renewal ends when all points are rebased.
    """
    if forest.phase == REBASING:
        _rebase_some(forest, most, next_look)
    else:
        for p in range(forest.n_moved, min(forest.n_moved + most, forest.n_points)):
            move(forest, p)
    forest.owed = 0


@kernel
def begin_rebasing(forest: F) -> None:
    """Begin to rebase the points' remainders, after all trees were redrawn in the other frame."""
    _begin_rebasing(forest)


@kernel
def begin_again(forest: F) -> None:
    """Restart the redraw of the current tree, if any, after the spare tree's rows were removed."""
    if forest.phase == DRAWING:
        _begin_tree(forest)
        forest.is_taking = 0


@helper
def _take_points(forest: F) -> int:
    """Extend the spare tree by some points for each owed sample (see `Forest.owed`).

    While another part's tree is redrawn, these points are only counted. Returns DONE, or the spare
    tree's index if the tree has no room for more rows. After the caller has reserved room, the next
    call continues the walk.
    """
    if forest.phase != DRAWING:
        return DONE
    n, t = forest.n_points, forest.n_trees
    spare = forest.trees[t]
    if forest.is_taking == 0:
        stop = min(forest.taken + TAKEN * forest.n_all_trees * forest.owed, n)
        for p in range(forest.n_moved, stop):
            move(forest, p)
        spare.walk_point = forest.taken if forest.draws() else stop
        spare.walk_end = stop
        spare.walk_ref = START
        forest.is_taking = 1
    return (
        extension.extend_trees(forest, t, t + 1, 1) if spare.walk_point < spare.walk_end else DONE
    )


@inlined
def _begin_rebasing(forest: Forest) -> None:
    """Begin to rebase the points' remainders, after all trees were redrawn in the other frame."""
    forest.phase = REBASING
    forest.frame = 1 - forest.frame
    forest.taken = 0
    oblique = forest.oblique
    if oblique:
        oblique.change_frame(oblique)


@inlined
def _rebase_some(forest: Forest, most: int, next_look: int) -> None:
    """Rebase up to `most` points. The renewal ends when all points are rebased."""
    stop = min(forest.taken + most, forest.n_points)
    for p in range(forest.taken, stop):
        rebase(forest, p)
    forest.taken = stop
    if stop == forest.n_points:
        forest.phase = STEADY
        forest.next_look = next_look


@helper
def _finish_owed(forest: F) -> None:
    """Complete the renewal's work for `Forest.owed` samples, after the spare tree was extended."""
    if forest.phase == DRAWING:
        forest.taken = forest.trees[forest.n_trees].walk_end
        if forest.taken == forest.n_points:
            if forest.draws():
                # The spare tree replaces the tree: swap the two records.
                n_words = forest.tree_words
                words = Int32s(forest.trees[forest.turn()], 0, n_words)
                others = Int32s(forest.trees[forest.n_trees], 0, n_words)
                for i in range(n_words):
                    kept = words[i]
                    words[i] = others[i]
                    others[i] = kept
            forest.renewed = forest.renewed + 1
            if forest.renewed < forest.n_all_trees:
                _begin_tree(forest)
            else:
                _begin_rebasing(forest)
    elif forest.phase == REBASING:
        then = forest.renewed_at_sample
        # With a window, trees contain at most `window` samples, so the interval between checks
        # stops growing.
        more = int((RENEWAL_RATIO - 1.0) * min(then, forest.window))
        _rebase_some(forest, REBASED * forest.owed, max(forest.n_samples, then + more))
    forest.is_taking = 0
    forest.owed = 0


@separate
def do_owed(forest: F) -> int:
    """Proceed with the renewal for `Forest.owed` samples; return the result of `_take_points`."""
    status = _take_points(forest)
    if status == DONE:
        if forest.draws():
            forest.update_drawn()
        _finish_owed(forest)
    return status


@batch_kernel
def go_on(forest: F) -> int:
    """Call `do_owed` from Python."""
    return forest.do_owed(forest)


@inlined
def learn_next(forest: Forest, inputs: Float64s, p: int) -> int:
    """Learn a sample as point `p`, and count the sample once all trees contain the point.

    If a tree has no room for more rows, the forest is closed. Then `MondrianTrees.complete`
    finishes all walks, and the renewal's work for `Forest.owed` samples.
    """
    status = extension.learn_point(forest, inputs, p)
    if status == DONE:
        extension.count_walked(forest)
        if forest.owed > 0:
            status = forest.do_owed(forest)
    if status >= 0:
        forest.version = CLOSED
    return status


# Checks of widths.

# Numbers of samples on which widths are checked, and on which new widths are measured. The second
# number is larger, because small sets of samples often lack the extreme values of a feature.
LOOKED_AT = 256
MEASURED = 1024

# A width is invalid if the measured width differs by a factor above FACTOR, and the interquartile
# range by a factor above FACTOR_OF_SPREAD. Both conditions are needed. With long tails, a few
# values determine the width. If a feature has few integer values, its interquartile range is
# usually an integer, and may double by chance.
FACTOR = 2.0
FACTOR_OF_SPREAD = 1.7
# NEAR_FENCE replaces FENCE for features whose interquartile range has shrunk, so that earlier
# values do not determine the range.
NEAR_FENCE = 10.0
# A width is renewed only if at least this fraction of the samples determine the range of the
# feature (`KnownRanges.known`).
EVIDENCE = 1 / 32
# Largest errors of stored inputs, relative to widths and to offsets. Inputs are known to about 48
# bits of the largest earlier width, which is at most 4,096 times the present width.
ROUNDED = 2.0**-36
EXACT = 2.0**-50


def _differ(one: Floats, other: Floats, factor: float) -> NDArray[np.bool_]:
    """Return a mask of the pairs in which one value is more than `factor` times the other."""
    return (one > factor * other) | (other > factor * one)


class _Found(NamedTuple):
    """Scaling measured on samples, and two masks: inputs with enough values, and invalid widths."""

    scaling: Floats
    are_known: NDArray[np.bool_]
    are_over: NDArray[np.bool_]


class FollowingTrees(GrowingTrees[AnyForest]):
    """The memory of trees that are redrawn if widths become invalid."""

    # Whether `enter` checks widths. Adaptive forests check widths on their own schedule.
    _LOOKS_AT_ONCE: ClassVar[bool] = True

    def _finish(self) -> None:
        super()._finish()
        if self.forest.phase != STEADY:
            self._show_renewal()

    def _show_renewal(self) -> None:
        """Compile the kernels that learning calls while trees are redrawn."""
        set_entries(self.forest, bring)
        # Adaptive forests have their own schedule and never call `do_owed`.
        if self._LOOKS_AT_ONCE:
            set_entries(self.forest, do_owed)

    def enter(self) -> None:
        """Close the trees, complete or undo an interrupted change, and check widths if due.

        An interrupt after the check of widths changes no prediction.
        """
        super().enter()
        if self._LOOKS_AT_ONCE:
            self.look_at_widths()

    def look_at_widths(self) -> None:
        """Begin to redraw the trees if their widths differ from the widths of past samples.

        The decision depends only on inputs and numbers of samples. So the distribution of trees
        that are not redrawn is unchanged.
        """
        forest, n = self.forest, self.n_samples
        if n < forest.next_look:
            return
        if forest.phase == STEADY and self.remainders.capacities[0] > 0:
            self._drop_spare()
        if forest.is_full:
            # A full forest stores no samples, so widths are not checked again.
            forest.next_look = NEVER
            return
        scaling = self.scaling
        if self._find(LOOKED_AT).are_over.any():
            found, scaling = self._find(MEASURED), scaling.copy()
            # All trees are redrawn, so widths that are less than 1 / FACTOR of the measured width
            # are renewed, too.
            are_wider = found.are_known & (FACTOR * found.scaling[1] < scaling[1, : self.n_inputs])
            places = np.flatnonzero(found.are_over | are_wider)
            scaling[:, places] = found.scaling[:, places]
        if (scaling != self.scaling).any():
            self._begin_renewal(scaling)
        else:
            forest.next_look = n + math.ceil((LOOK_RATIO - 1.0) * self._n_held())

    def _n_held(self) -> int:
        """Return the number of samples in the trees."""
        return self.forest.n_held()

    def _find(self, n_rows: int) -> _Found:
        """Return the scaling measured on `n_rows` stored samples, and the invalid widths."""
        places, places_then = self._places_to_look_at(n_rows)
        # One call is faster than a call for each set of samples.
        both = np.hstack([self._inputs_at(own, n_rows) for own in (places, places_then)])
        rounding = self._rounding()
        found = known_ranges(both, FENCE, rounding)
        (low, _), (high, _), (known, known_then), (spread, spread_then) = (
            values.reshape(2, -1) for values in found
        )
        least = EVIDENCE * max(len(places), LOOKED_AT)
        # Two interquartile ranges of 0 cannot be compared.
        is_known = (known_then >= least) & ((spread_then > 0.0) | (spread > 0.0))
        has_shrunk = is_known & (spread_then > FACTOR_OF_SPREAD * spread)
        if has_shrunk.any():
            near = known_ranges(both, NEAR_FENCE, rounding)
            low = np.where(has_shrunk, near.low[: self.n_inputs], low)
            high = np.where(has_shrunk, near.high[: self.n_inputs], high)
        by_ranges, are_known = self._scaling_by(low, high), known >= least
        are_over = are_known & _differ(self.scaling[1, : self.n_inputs], by_ranges[1], FACTOR)
        are_over &= ~is_known | _differ(spread_then, spread, FACTOR_OF_SPREAD)
        return _Found(by_ranges, are_known, are_over)

    def _rounding(self) -> Rounding:
        """Return bounds on the rounding errors of inputs of recent and of earlier samples."""
        offsets, factors = np.tile(self.scaling[:, : self.n_inputs], 2)
        return Rounding(offsets, 1.0 / factors, ROUNDED, EXACT * np.abs(offsets))

    def _places_to_look_at(self, n_rows: int) -> tuple[Ints, Ints]:
        """Return indices of mostly recent samples, and of samples before the last renewal.

        If samples have been forgotten, stored samples are not in order of arrival. The first array
        then has evenly spaced, distinct indices, and the second array is empty.
        """
        n, forest = self.n_points, self.forest
        if forest.n_forgotten > 0:
            return n * np.arange(min(n_rows, n)) // max(n, 1), np.zeros(0, np.int64)
        then = int(forest.renewed_at_sample) or WARM_UP
        return self._recent_places(n, n_rows), self._recent_places(then, n_rows)

    @staticmethod
    def _recent_places(n: int, n_rows: int) -> Ints:
        """Return `n_rows` indices below `n`, half of them in the last 30 %."""
        return (n * np.sqrt((np.arange(n_rows) + 0.5) / n_rows)).astype(np.int64)

    def _begin_renewal(self, scaling: Floats) -> None:
        """Begin to redraw all trees with another scaling."""
        # The kernel `scaling.move` needs this memory.
        self.remainders.reserve(0, self.points.capacities[0])
        self.remainders.show(0, self.forest.remainders)
        self._show_renewal()
        begin.of(self._FOREST)(self.forest, Float64s.of(scaling.reshape(-1)))

    def _drop_spare(self) -> None:
        """Free the memory that redraws of trees use."""
        for t in range(self.n_trees, len(self.trees)):
            spare = self.trees[t]
            spare.free_row = spare.free_box = spare.free_side_row = NONE
            for name in TABLES:
                table, record = self.__dict__[name], getattr(spare, name)
                record.n_rows = 0
                table.clear(spare.slot)
                table.show(spare.slot, record)
        self.remainders = ChunkedRows(1, self.remainders.width, False)
        self.remainders.show(0, self.forest.remainders)

    def _do_owed(self) -> None:
        """Proceed with the renewal for `Forest.owed` samples, and reserve room if necessary."""
        if self.forest.owed == 0:
            return
        while (needy := go_on.of(self._FOREST)(self.forest)) >= 0:
            self._reserve_rows(needy, self.trees[needy].rows_needed)

    def _samples_to_event(self) -> int:
        """Return the number of samples until a tree is redrawn or widths are checked."""
        forest, n = self.forest, self.n_samples
        if forest.phase == STEADY:
            return int(forest.next_look) - n
        is_drawing = forest.phase == DRAWING
        pace = TAKEN * forest.n_all_trees if is_drawing else REBASED
        return max(1, -(-(self.n_points - int(forest.taken)) // (pace - 1)))

    def _frames_of_trees(self) -> list[list[int]]:
        """Return the frames that each tree with nodes may use."""
        forest = self.shared[0]
        frame, n_renewed = int(forest.frame), 0
        if forest.phase == DRAWING:
            n_renewed = min(max(int(forest.turn()), 0), self.n_trees)
        found = [[1 - frame]] * n_renewed + [[frame]] * (self.n_trees - n_renewed)
        return found + [[1 - frame]] * (self.n_drawn - self.n_trees)

    def _fitted_scaling(self, n: int) -> Float64s:
        """Return the scaling from the robust ranges of the first `n` samples of the warm-up."""
        assert self.warm_up is not None
        rows = self.warm_up[:n, : self.n_inputs]
        found = self.scaling.copy()
        found[:, : self.n_inputs] = self._scaling_by(*robust_ranges(rows, FENCE))
        # Places of levels are in (0, 1), so they need no scaling.
        found[:, self.category_places] = [[0.0], [1.0]]
        return Float64s.of(found)
