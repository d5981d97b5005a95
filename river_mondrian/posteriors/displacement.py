"""Random cut forests: trees, and displacement scores.

A random cut tree (Guha et al. 2016, Definition 1) cuts the box of its samples in a dimension that
is drawn in proportion to the sides, at a uniform place, until each sample is alone: it is a
Mondrian tree without a lifetime. So its trees are those of `partitions.mondrian`, with samples
taken out as well as put in, and its nodes keep nothing else.

Full trees may take a part of the samples only, each with the same probability, so that they hold a
random part of more samples than they have room for. These are drawn without a look at the trees.
"""

from __future__ import annotations

import math
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..arguments import ENTRY_DRAWS
from ..checks import check_number, check_types
from ..compiling.kernels import batch_kernel, inlined, kernel, separate
from ..elementary import mixed, state_after, uniform_of
from ..learners.learned import Learned
from ..limits import DONE, TOO_LARGE, WAITS
from ..partitions.mondrian import extension
from ..partitions.mondrian.extension import must_wait
from ..partitions.mondrian.inputs import find_too_large, scale
from ..partitions.mondrian.reading import NodeView, Path, gaps_from, traced
from ..partitions.mondrian.records import Forest
from ..partitions.mondrian.stored import next_point
from ..partitions.mondrian.tree_memory import Partitions
from ..partitions.mondrian.trees import MondrianTrees
from ..partitions.mondrian.walks import Prediction, Walk, predict_rows
from ..partitions.mondrian.widths import learn_next
from ..records import (
    Bounds,
    Float32s,
    Float64,
    Float64s,
    Int64,
    Memory,
    Record,
    sized,
    stored,
    transient,
)

# Where a score stands among those of the samples learned last.
#
# The rank of v among the sorted scores s_1 <= ... <= s_m is i / (m + 1) at v = s_i, the mean of
# these where several are equal, and linear in between. It is linear from 0 to s_1, too. Beyond
# s_m it is 1 - (s_m / v) / (m + 1), or 1 - 1/2 / (m + 1) if s_m is 0. So a rank is from 0 to less
# than 1.


# Number of scores that are kept.
KEPT = 4096


class Ranks(Record):
    """The scores of the samples learned last, each before it was learned: in a ring, and sorted."""

    scores: Float64s = sized(KEPT)
    ranked: Float64s
    # How many there are, and where the next one is written.
    n_scores: Int64 = stored(Bounds(0, KEPT))
    next_score: Int64 = stored(Bounds(0, KEPT - 1))


@inlined
def _n_below(ranked: Float64s, n: int, value: float) -> int:
    """Return how many of `n` sorted numbers are less than a value."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if ranked[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def rank_of(ranks: Ranks, value: float) -> float:
    """Return the rank of a score of 0 or more, 0 if there are no others."""
    ranked, n = ranks.ranked, int(ranks.n_scores)
    if n == 0:
        return 0.0
    below = _n_below(ranked, n, value)
    if below == n:
        largest = ranked[n - 1]
        return 1.0 - (largest / value if largest > 0.0 else 0.5) / (n + 1)
    if ranked[below] == value:
        last = below
        while last + 1 < n and ranked[last + 1] == value:
            last += 1
        return (0.5 * (below + last) + 1.0) / (n + 1)
    start = ranked[below - 1] if below > 0 else 0.0
    return (below + (value - start) / (ranked[below] - start)) / (n + 1)


@inlined
def add_score(ranks: Ranks, value: float) -> None:
    """Add the score of a sample that is learned; past `KEPT` the oldest one goes."""
    scores, ranked = ranks.scores, ranks.ranked
    n, place = int(ranks.n_scores), int(ranks.next_score)
    # The place in the order of the score that goes, or the end; scores in between move on by one.
    hole = n
    if n == KEPT:
        hole = _n_below(ranked, n, scores[place])
    else:
        ranks.n_scores = n + 1
    target = _n_below(ranked, n, value)
    if target > hole:
        for i in range(hole, target - 1):
            ranked[i] = ranked[i + 1]
        ranked[target - 1] = value
    else:
        for i in range(hole, target, -1):
            ranked[i] = ranked[i - 1]
        ranked[target] = value
    scores[place] = value
    ranks.next_score = (place + 1) % KEPT


class RecentScores(Learned[Ranks]):
    """The memory of scores and of their order."""

    _KIND = Ranks

    def __init__(self) -> None:
        super().__init__()
        self.show()

    def show(self, predicted: NDArray[np.float64] | None = None) -> None:
        """Let the record refer to the scores, and to these in order."""
        super().show()
        ranked, n = np.zeros(KEPT), int(self.record.n_scores)
        ranked[:n] = np.sort(self.learned["scores"][:n])
        self.memory.own("ranked", ranked)

    def _check(self) -> None:
        n = self.record.n_scores
        if n < KEPT:
            check_number(self, "next_score", self.record.next_score, n, n)

    @property
    def latest(self) -> NDArray[np.float64]:
        """The scores of the samples learned last, in the order of learning."""
        scores = np.roll(self.learned["scores"], -int(self.record.next_score))
        return scores[KEPT - int(self.record.n_scores) :]


# `noted_at` where no score is noted.
NOTHING_NOTED = -1


class CutForest(Forest):
    """A forest of random cut trees."""

    # Relative displacements.
    ranks: Ranks
    horizon: Float64 = stored(Bounds(math.inf))
    # The probability with which a sample enters full trees, from what state that is drawn, and how
    # many samples have not entered.
    entering: Float64
    entry_state: Int64
    n_passed: Int64
    # The sample that was scored last, its score, and after how many changes that was.
    noted_inputs: Float64s
    noted_score: Float64 = transient()
    noted_at: Int64 = transient()

    def passes(self) -> bool:
        """Tell whether the next sample is not to enter the trees, which are full.

        It is the same however often it is asked, until the sample has been learned.
        """
        if self.n_points < self.window:
            return False
        n_learned = int(self.n_samples + self.n_passed)
        return uniform_of(mixed(state_after(self.entry_state, n_learned))) >= self.entering

    def n_changes(self) -> int:
        """Return how many samples have been learned or forgotten."""
        return self.n_samples + self.n_forgotten

    def may_forget(self) -> bool:
        """Tell that samples may be forgotten."""
        return True


C = TypeVar("C", bound=CutForest)


# How much a sample changes the trees that it is put in: displacement, depth, density.
#
# Where a sample x is put into a tree, the samples beside a node above it move one cut further
# down (Guha et al. 2016, Section 3). The collusive displacement of x is the largest number of
# these for each sample on its own side (Definition 4, over the subtrees that x is in): the
# maximum, over the nodes v from its leaf up to below the root, of
#
#     |sibling of v| / |v|, x among the samples of v.
#
# Guha et al. put x in and take it out again. Here nothing is put in: a walk knows with what
# probability x branches off at each node of its path (`partitions.mondrian.walks`), and so the
# expectation over all places where it may. Let n_1, n_2, ... be the numbers of samples at the
# nodes of the path. Where x branches off above node j, its leaf is beside n_j samples, and the
# subtrees further up, i <= j, have n_i + 1 samples beside n_(i-1) - n_i. Where x ends in a leaf
# of samples that equal it, only these are there.


# What is written of a sample. Means over trees: of its displacement; of the logarithm of 1 + that,
# relative to that of a sample apart from all others; of the number of cuts above it; and of the
# share of the samples in its cell at a lifetime. And its rank among the samples learned last.
DISPLACEMENT = 0
RELATIVE = 1
DEPTH = 2
DENSITY = 3
RANK = 4
N_READINGS = 5

# Samples held, from which on scores are kept, or the window's where that is smaller: of few samples
# each stands out.
LEAST_HELD = 32

# At it the share of the samples in a cell is, on average, the mean of exp(-2 |x - y|_1) over them.
DENSITY_LIFETIME = 2.0


class Scores(Prediction):
    """What the trees say of samples, a row of `N_READINGS` for each."""

    readings: Float64s

    def add_walk(self, forest: Forest, t: int, walk: Walk, row: int) -> None:
        """Add what tree `t` says of the `row`-th sample."""
        own = self.readings.part(N_READINGS * row, N_READINGS)
        add_readings(CutForest(forest), t, walk, own)


@separate
def add_readings(forest: C, t: int, walk: Walk, out: Float64s) -> None:
    """Add what a walk says, over all places where its sample may branch off."""
    tree = forest.trees[t]
    # The largest displacement by the subtrees above, and the number of samples there.
    most, n_above = 0.0, 0
    # Time above the step, and the number of samples of the cell at `DENSITY_LIFETIME`.
    time, n_in_cell = 0.0, 0.0
    displaced, log_displaced, depth = 0.0, 0.0, 0.0
    for i in range(1, walk.depth + 1):
        step = walk.path[i]
        n = 1 if step.ref < 0 else tree.nodes.row(step.ref).n_samples
        if i > 1:
            most = max(most, (n_above - n) / (n + 1.0))
        eta = step.eta
        if time <= DENSITY_LIFETIME < time + step.span:
            n_in_cell = n * step.reach * math.exp(-eta * (DENSITY_LIFETIME - time))
        time += step.span
        if eta > 0.0:
            found, branches_off = max(most, float(n)), step.reach * (1.0 - step.stays)
            displaced += branches_off * found
            log_displaced += branches_off * math.log1p(found)
            depth += branches_off * i
        n_above = n
    ends = walk.reach
    out[DISPLACEMENT] = out[DISPLACEMENT] + displaced + ends * most
    out[RELATIVE] = out[RELATIVE] + log_displaced + ends * math.log1p(most)
    out[DEPTH] = out[DEPTH] + depth + ends * (walk.depth - 1)
    out[DENSITY] = out[DENSITY] + n_in_cell


@inlined
def _read(forest: CutForest, rows: Float32s, n: int, scores: Scores) -> None:
    """Write what the trees, which hold a sample, say of `n` rows of values."""
    out, n_held = scores.readings, float(forest.n_held())
    for i in range(N_READINGS * n):
        out[i] = 0.0
    predict_rows(forest, rows, n, scores)
    for r in range(n):
        own = out.part(N_READINGS * r, N_READINGS)
        own[DISPLACEMENT] = own[DISPLACEMENT] / forest.n_trees
        own[RELATIVE] = own[RELATIVE] / (forest.n_trees * math.log1p(n_held))
        own[DEPTH] = own[DEPTH] / forest.n_trees
        own[DENSITY] = own[DENSITY] / (forest.n_trees * n_held)
        own[RANK] = rank_of(forest.ranks, own[RELATIVE])


@batch_kernel
def score_rows(forest: C, rows: Float32s, n: int, scores: Scores) -> None:
    """Write what the trees, which hold a sample, say of `n` rows of values."""
    _read(forest, rows, n, scores)


@inlined
def _score_before(forest: CutForest, scores: Scores) -> float:
    """Return the score of the sample in `inputs`, which is learned next; NaN of the first ones."""
    if forest.n_held() < min(LEAST_HELD, forest.window):
        return math.nan
    # Whether the sample is the one that was scored last, by the present trees.
    is_noted = forest.noted_at == forest.n_changes()
    for d in range(forest.n_inputs):
        # A missing value differs from itself: such a sample is scored again.
        is_noted = is_noted and forest.inputs[d] == forest.noted_inputs[d]
    if is_noted:
        return forest.noted_score
    scale(forest, forest.row, forest.inputs)
    _read(forest, forest.row, 1, scores)
    return scores.readings[RELATIVE]


@kernel
def score_one(forest: C, scores: Scores) -> int:
    """Write what the trees, which hold a sample, say of the one in `inputs`.

    Returns DONE, or the input that is too large.
    """
    bad = scale(forest, forest.row, forest.inputs)
    if bad < 0:
        _read(forest, forest.row, 1, scores)
        # A stream scores a sample and then learns it: noting the score saves a third of the time.
        for d in range(forest.n_inputs):
            forest.noted_inputs[d] = forest.inputs[d]
        forest.noted_score = scores.readings[RELATIVE]
        forest.noted_at = forest.n_changes()
    return bad


@kernel
def learn_one(forest: C, scores: Scores) -> int:
    """Learn the sample in `inputs`, in place of the oldest one where the window is full.

    Its score is kept, by the trees before they learn it, whether it enters them or not. Returns as
    `renewal.learn_next` does, or WAITS.
    """
    passes = forest.passes()
    if not passes and must_wait(forest):
        return WAITS
    bad = find_too_large(forest, forest.inputs)
    if bad >= 0:
        return TOO_LARGE - bad
    score = _score_before(forest, scores)
    if passes:
        status = DONE
        forest.n_passed = forest.n_passed + 1
    else:
        status = learn_next(forest, forest.inputs, next_point(forest, forest.inputs))
    # NaN of the first samples.
    if score == score:
        add_score(forest.ranks, score)
    return status


@kernel
def rebuild(forest: C, scaling: Float64s, n: int, scores: Scores) -> None:
    """Build the trees anew as `rebuilding.rebuild` does, and keep the last sample's score."""
    score = _score_before(forest, scores)
    extension.rebuild(forest, scaling, n)
    if score == score:
        add_score(forest.ranks, score)


class CutTrees(MondrianTrees[CutForest, NodeView]):
    """Random cut trees over the latest samples, and the scores of these.

    Parameters
    ----------
    partitions
        Arguments of trees of all kinds.
    entering
        The probability with which a sample enters full trees.

    """

    _FOREST = CutForest
    _RENEWS: ClassVar[bool] = True
    _DERIVED: ClassVar[frozenset[str]] = MondrianTrees._DERIVED | {
        *("out", "memory", "noted", "version_now", "_own"),
    }

    def __init__(self, partitions: Partitions, entering: float) -> None:
        # Of the samples learned last.
        self.scores = RecentScores()
        super().__init__(partitions)
        self.forest.entering = entering
        # The trees draw from others.
        seeds = np.random.SeedSequence(partitions.seed, spawn_key=(ENTRY_DRAWS,))
        self.forest.entry_state = int(seeds.generate_state(1, np.uint64).view(np.int64)[0])

    def _finish(self) -> None:
        super()._finish()
        forest = self.forest
        # The record's version, which is that of the trees where nothing is to be settled.
        self.version_now = self.shared.word("version")
        forest.ranks = self.scores.record
        self.noted = np.full(self.inputs.shape[1], np.nan)
        forest.noted_inputs = Float64s.of(self.noted)
        forest.noted_at = NOTHING_NOTED
        self.out = np.empty(N_READINGS)
        self.memory = Memory(Scores)
        self.memory.own("readings", self.out)
        # Found quicker than in its memory, for each sample.
        self._own = self.memory[0]

    def _show(self) -> None:
        super()._show()
        # Trees may be built anew next.
        self.forest.noted_at = NOTHING_NOTED

    def _check_kind(self) -> None:
        check_types(self, {"scores": RecentScores})

    @property
    def n_begun(self) -> int:
        """Number of samples that have been learned, or are on their way down the trees."""
        return super().n_begun + int(self.forest.n_passed)

    # Learning.

    def open(self) -> None:
        """Let kernels take calls for one sample, once there is a sample and no change under way."""
        if not self.is_empty:
            super().open()

    def learn(self) -> int:
        """Learn the sample in `inputs`.

        Returns DONE, or the input whose value is too large; then nothing has changed.
        """
        learn = self._learn_one
        if learn is None:
            learn = self._learn_one = learn_one.of(CutForest)
        status = learn(self.forest, self._own)
        if status == DONE:
            return DONE
        return self.learn_rest(status, lambda: learn(self.forest, self._own), lambda p: None)

    def _rebuild(self, n: int, scaling: Float64s) -> None:
        rebuild(self.forest, scaling, n, self._own)

    # What they say of samples. They hold one.

    def score(self) -> int:
        """Write to `out` what is said of the sample in `inputs`.

        Returns DONE, or the input whose value is too large.
        """
        predict = self._predict_one
        if predict is None:
            predict = self._predict_one = score_one.of(CutForest)
        bad: int = predict(self.forest, self._own)
        return bad

    def score_rows(self, inputs: NDArray[np.float64], n_jobs: int) -> NDArray[np.float64]:
        """Return what is said of rows of checked inputs, shape (n, N_READINGS)."""
        return self._predict_rows(score_rows, Scores, "readings", inputs, N_READINGS, n_jobs)

    def explain(self, inputs: NDArray[np.float64]) -> tuple[int, NDArray[np.float64]]:
        """Return what each feature adds to the relative displacement of a sample of these inputs.

        The first result is DONE, or the input whose value is too large.
        """
        bad, paths, values = traced(self.forest, inputs)
        found = np.zeros(self.n_inputs)
        for path in paths:
            self._add_parts(path, values, found)
        return bad, found / (self.n_trees * math.log1p(self.forest.n_held()))

    def _add_parts(self, path: Path, values: NDArray[np.float32], out: NDArray[np.float64]) -> None:
        """Add what each feature adds to the logarithm of 1 + displacement on a path.

        The displacement of the sample's own leaf is of the features in which it is outside of the
        node's box, by the distances there: the rates at which a cut parts it from the node. That of
        a subtree further up is of the feature whose cut is above the subtree.
        """
        forest, tree = self.forest, self.trees[path.tree]
        x = values[int(tree.first_value) :][: int(forest.n_dims)]
        refs = path.refs.tolist()
        most, dim_of_most, n_above = 0.0, -1, 0
        for i, (ref, weight) in enumerate(zip(refs, path.leaves.tolist(), strict=True)):
            n = 1 if ref < 0 else int(tree.nodes.row(ref).n_samples)
            if i > 0 and (n_above - n) / (n + 1.0) > most:
                most, dim_of_most = (n_above - n) / (n + 1.0), int(tree.nodes.row(refs[i - 1]).dim)
            if weight > 0.0 and n >= most:
                gaps = gaps_from(forest, path.tree, ref, x)
                out += weight * math.log1p(n) * gaps / gaps.sum()
            elif weight > 0.0:
                out[dim_of_most] += weight * math.log1p(most)
            n_above = n
        if dim_of_most >= 0:
            out[dim_of_most] += float(path.reach[-1] * path.stays[-1]) * math.log1p(most)
