"""Random cut forests: trees, and displacement scores.

A random cut tree (Guha et al. 2016, Definition 1) cuts the box of its samples until only equal
samples are together. The dimension of a cut is drawn with probability proportional to the box's
side. The position of a cut is uniform within the side. So the tree is a Mondrian tree without a
lifetime (`partitions.mondrian`). Nodes store no statistics besides the number of samples.

If the trees are full, each new sample enters only with the probability `entering`. If this
probability is below 1, the trees contain a random subset of a longer section of the stream. The
draws for entering do not depend on the trees.
"""

import math
from typing import ClassVar, TypeVar

import numpy as np

from .. import arguments, checks
from .. import records as rec
from ..compiling.kernels import always_inline, batch_kernel, kernel, link_by_name
from ..elementary import mixed, state_after, uniform_of
from ..learners.learned import Learned
from ..limits import DONE, TOO_LARGE, WAITS
from ..partitions.mondrian import extension, forgetting, tree_store, trees, widths
from ..partitions.mondrian.extension import must_wait
from ..partitions.mondrian.readers import TreeReader
from ..partitions.mondrian.reading import Path, gaps_from, traced
from ..partitions.mondrian.records import Forest
from ..partitions.mondrian.sampling import SampledForest
from ..partitions.mondrian.scaling import find_too_large, scale
from ..partitions.mondrian.walks import Prediction, Walk, predict_rows

# The rank of a score among the scores of recently learned samples.
#
# The rank of v among the sorted scores s_1 <= ... <= s_m is i / (m + 1) at v = s_i. For equal
# scores, the rank is the mean of these fractions. For s_i < v < s_(i+1), with s_0 = 0, the rank is
# interpolated linearly between i / (m + 1) and (i + 1) / (m + 1). For v > s_m, the rank is 1 - (s_m
# / v) / (m + 1). If s_m is 0, 1/2 replaces s_m / v. So 0 <= rank < 1, unless the rank is rounded to
# 1.


# Largest number of stored scores.
KEPT = 4096
# Score in place of a removed score. It ranks below all scores.
REMOVED = -1.0


class RecentScoresRecord(rec.Record):
    """The scores of recent samples, in a ring buffer and in sorted order.

    A sample's score is computed before the sample is learned.
    """

    scores: rec.Float64s = rec.sized(KEPT)
    ranked: rec.Float64s
    # Number of scores, and the index of the next score in the ring buffer.
    n_scores: rec.Int64 = rec.stored(rec.Bounds(0, KEPT))
    next_score: rec.Int64 = rec.stored(rec.Bounds(0, KEPT - 1))


@always_inline
def _n_below(ranked: rec.Float64s, n: int, value: float) -> int:
    """Return the number of elements below a value among the first `n` sorted numbers."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if ranked[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@always_inline
def rank_of(ranks: RecentScoresRecord, value: float) -> float:
    """Return the rank of a nonnegative score, or 0 if no scores are stored."""
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


@always_inline
def add_score(ranks: RecentScoresRecord, value: float) -> None:
    """Add the score of a learned sample, and drop the oldest score if `KEPT` scores are stored."""
    scores, ranked = ranks.scores, ranks.ranked
    n, place = int(ranks.n_scores), int(ranks.next_score)
    # Index of the dropped score in `ranked`, or `n` if no score is dropped. Scores between `hole`
    # and the new score's index move by one.
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


class RecentScores(Learned[RecentScoresRecord]):
    """The owner of the scores of recent samples."""

    _KIND = RecentScoresRecord

    def __init__(self) -> None:
        super().__init__()
        self.show()

    def show(self, predicted: rec.Floats | None = None) -> None:
        """Set the record's references to the scores, and to the sorted scores."""
        super().show()
        ranked, n = np.zeros(KEPT), int(self.record.n_scores)
        ranked[:n] = np.sort(self.learned["scores"][:n])
        self.memory.own("ranked", ranked)

    def _check(self) -> None:
        n = self.record.n_scores
        if n < KEPT:
            checks.check_number(self, "next_score", self.record.next_score, n, n)

    def remove(self, first: int, last: int) -> None:
        """Remove the scores from `first` to `last` samples ago (0 is the latest sample)."""
        ago = np.arange(first, min(last + 1, int(self.record.n_scores)))
        self.learned["scores"][(int(self.record.next_score) - 1 - ago) % KEPT] = REMOVED
        self.show()

    @property
    def latest(self) -> rec.Floats:
        """The scores of recently learned samples, in the order of learning."""
        scores = np.roll(self.learned["scores"], -int(self.record.next_score))
        scores = scores[KEPT - int(self.record.n_scores) :]
        return scores[scores != REMOVED]


# Value of `noted_at` if `noted_score` is not set.
NOTHING_NOTED = -1


class CutForest(SampledForest):
    """A forest of random cut trees."""

    # The relative displacements of recent samples, which determine ranks.
    ranks: RecentScoresRecord
    horizon: rec.Float64 = rec.stored(rec.Bounds(math.inf))
    # Probability that a sample enters full trees, random state of the draws for entering, and
    # number of samples that have not entered.
    entering: rec.Float64
    entry_state: rec.Int64
    n_passed: rec.Int64
    # The last scored sample, the score of this sample, and the result of `n_changes` when this
    # sample was scored.
    noted_inputs: rec.Float64s
    noted_score: rec.Float64 = rec.transient()
    noted_at: rec.Int64 = rec.transient()

    def passes(self) -> bool:
        """Return whether the trees are full and the next sample does not enter the trees.

        Repeated calls return the same result until a sample has been learned or forgotten.
        """
        if self.n_points < self.window:
            return False
        n_learned = int(self.n_samples + self.n_passed)
        return uniform_of(mixed(state_after(self.entry_state, n_learned))) >= self.entering

    def n_changes(self) -> int:
        """Return the number of samples that have entered plus the number of forgotten samples."""
        return self.n_samples + self.n_forgotten

    def may_forget(self) -> bool:
        """Return True, because random cut forests may forget samples."""
        return True


C = TypeVar("C", bound=CutForest)


# Scores of a sample: displacement, depth and density.
#
# The insertion of a sample x moves the samples in the sibling of x down by one cut (Guha et al.
# 2016, Section 3). Let v be a node on the path from the leaf of x up to the children of the root.
# Let |v| be the number of samples of v. The collusive displacement of x (Definition 4) is the
# maximum over v of
#
# |sibling of v| / |v|.
#
# Guha et al. insert x and remove x again. This module does not insert x. Instead, it computes the
# probability that x branches off at each node of its path (`partitions.mondrian.walks`). The
# expectation over all insertion points follows from these probabilities. Let n_1, n_2, ... be the
# numbers of samples at the nodes of the path, from the root. If x branches off above node j, a new
# node takes the position j, and the sibling of the leaf of x has n_j samples. So for each i <= j,
# the i-th node on the path of x has n_i + 1 samples. For i > 1, the sibling of this node has
# n_(i-1) - n_i samples. If x ends in a leaf of equal samples, the leaf of x contains these samples.
# The maximum is then over the nodes of the path below the root.


# Indices of a sample's *readings*, the five scores of a sample. All readings except RANK are means
# over trees. DISPLACEMENT: the collusive displacement. RELATIVE: log(1 + displacement), divided by
# the value for a sample that branches off at the root. DEPTH: the number of cuts above the sample.
# DENSITY: the share of the trees' samples in the sample's cell at `DENSITY_LIFETIME`. RANK: the
# rank of RELATIVE among recent scores.
DISPLACEMENT = 0
RELATIVE = 1
DEPTH = 2
DENSITY = 3
RANK = 4
N_READINGS = 5

# Scores are stored if the trees hold at least this number of samples, or if the window is full.
# Among fewer samples, every sample would be anomalous.
LEAST_HELD = 32

# DENSITY is the share of samples in the cell at this lifetime. The expected share of the samples in
# the cell of x is the mean of exp(-2 |x - y|_1) over the samples y.
DENSITY_LIFETIME = 2.0


class Scores(Prediction):
    """The readings of each sample: scores from `DISPLACEMENT` to `RANK`."""

    readings: rec.Float64s

    def add_walk(self, forest: Forest, t: int, walk: Walk, row: int) -> None:
        """Add the readings of the `row`-th sample from tree `t`."""
        readings = self.readings.part(N_READINGS * row, N_READINGS)
        add_readings(CutForest(forest), t, walk, readings)


@link_by_name
def add_readings(forest: C, t: int, walk: Walk, out: rec.Float64s) -> None:
    """Add a tree's readings to `out`: expectations over the sample's insertion points."""
    tree = forest.trees[t]
    # Largest displacement at the visited nodes, and number of samples of the parent.
    largest, n_above = 0.0, 0
    # Time at the beginning of the step, and expected number of samples in the sample's cell at
    # `DENSITY_LIFETIME`.
    time, n_in_cell = 0.0, 0.0
    displaced, log_displaced, depth = 0.0, 0.0, 0.0
    for i in range(1, walk.depth + 1):
        step = walk.path[i]
        n = 1 if step.ref < 0 else tree.nodes.row(step.ref).n_samples
        if i > 1:
            largest = max(largest, (n_above - n) / (n + 1.0))
        eta = step.eta
        if time <= DENSITY_LIFETIME < time + step.span:
            n_in_cell = n * step.reach * math.exp(-eta * (DENSITY_LIFETIME - time))
        time += step.span
        if eta > 0.0:
            displacement, branches_off = max(largest, float(n)), step.reach * (1.0 - step.stays)
            displaced += branches_off * displacement
            log_displaced += branches_off * math.log1p(displacement)
            depth += branches_off * i
        n_above = n
    ends = walk.reach
    out[DISPLACEMENT] = out[DISPLACEMENT] + displaced + ends * largest
    out[RELATIVE] = out[RELATIVE] + log_displaced + ends * math.log1p(largest)
    out[DEPTH] = out[DEPTH] + depth + ends * (walk.depth - 1)
    out[DENSITY] = out[DENSITY] + n_in_cell


@always_inline
def _read(forest: CutForest, rows: rec.Float32s, n: int, scores: Scores) -> None:
    """Write the readings of `n` rows of values (see `Scores`). The trees must hold a sample."""
    out, n_held = scores.readings, float(forest.n_held())
    for i in range(N_READINGS * n):
        out[i] = 0.0
    predict_rows(forest, rows, n, scores)
    for r in range(n):
        readings = out.part(N_READINGS * r, N_READINGS)
        readings[DISPLACEMENT] = readings[DISPLACEMENT] / forest.n_trees
        readings[RELATIVE] = readings[RELATIVE] / (forest.n_trees * math.log1p(n_held))
        readings[DEPTH] = readings[DEPTH] / forest.n_trees
        readings[DENSITY] = readings[DENSITY] / (forest.n_trees * n_held)
        readings[RANK] = rank_of(forest.ranks, readings[RELATIVE])


@batch_kernel
def score_rows(forest: C, rows: rec.Float32s, n: int, scores: Scores) -> None:
    """Write the readings of `n` rows of values (see `Scores`). The trees must hold a sample."""
    _read(forest, rows, n, scores)


@always_inline
def _score_before(forest: CutForest, scores: Scores) -> float:
    """Return the score of the sample in `inputs` before learning, or NaN for the first samples."""
    if forest.n_held() < min(LEAST_HELD, forest.window):
        return math.nan
    # If the current trees have just scored this sample, the stored score is reused.
    is_noted = forest.noted_at == forest.n_changes()
    for d in range(forest.n_inputs):
        # NaN differs from itself, so a sample with a missing value is always scored again.
        is_noted = is_noted and forest.inputs[d] == forest.noted_inputs[d]
    if is_noted:
        return forest.noted_score
    scale(forest, forest.row, forest.inputs)
    _read(forest, forest.row, 1, scores)
    return scores.readings[RELATIVE]


@kernel
def score_one(forest: C, scores: Scores) -> int:
    """Write the readings of the sample in `inputs` (see `Scores`). The trees must hold a sample.

    Returns DONE, or the index of an input that is too large.
    """
    bad = scale(forest, forest.row, forest.inputs)
    if bad < 0:
        _read(forest, forest.row, 1, scores)
        # Most samples are scored and then learned. Storing the score saves a third of the time that
        # scoring and learning take.
        for d in range(forest.n_inputs):
            forest.noted_inputs[d] = forest.inputs[d]
        forest.noted_score = scores.readings[RELATIVE]
        forest.noted_at = forest.n_changes()
    return bad


@kernel
def learn_one(forest: C, scores: Scores) -> int:
    """Learn the sample in `inputs`, unless the trees are full and the sample does not enter.

    In a full window, a sample that enters replaces the oldest sample. The score before learning is
    stored even if the sample does not enter, except for the first samples. Returns DONE, WAITS,
    `TOO_LARGE - i` if the i-th input is too large, or the result of `widths.learn_next`.
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
        status = widths.learn_next(
            forest, forest.inputs, forgetting.next_point(forest, forest.inputs)
        )
    # The first samples' scores are NaN, and are not stored.
    if score == score:
        add_score(forest.ranks, score)
    return status


@kernel
def rebuild(forest: C, scaling: rec.Float64s, n: int, next_fit: int, scores: Scores) -> None:
    """Rebuild the trees with `extension.rebuild`, and store the last sample's score.

    The score comes from the trees before the rebuild. The first samples' scores are not stored.
    """
    score = _score_before(forest, scores)
    extension.rebuild(forest, scaling, n, next_fit)
    if score == score:
        add_score(forest.ranks, score)


class CutReader(TreeReader):
    """A reader of `CutTrees`."""

    def explain(self, inputs: rec.Floats) -> tuple[int, rec.Floats]:
        """Return each feature's contribution to the relative displacement of a sample.

        The first result is DONE, or the index of an input that is too large.
        """
        bad, paths, values = traced(self.forest, inputs)
        total = np.zeros(self.store.n_inputs)
        for path in paths:
            self._add_parts(path, values, total)
        return bad, total / (self.store.n_trees * math.log1p(self.forest.n_held()))

    def _add_parts(self, path: Path, values: rec.Singles, out: rec.Floats) -> None:
        """Add to `out` each feature's contribution to log(1 + displacement) on a path.

        The displacement is a maximum over the nodes on the sample's path, including the sample's
        new leaf. If the new leaf reaches the maximum, the logarithm is divided among the features.
        A feature's share is proportional to the sample's distance along this feature from the box
        of the new leaf's sibling. This distance is the rate of cuts between the sample and the box.
        If only another node reaches the maximum, the logarithm is assigned to the feature of the
        cut above this node.
        """
        forest, tree = self.forest, self.store.trees[path.tree]
        x = values[int(tree.first_value) :][: int(forest.n_dims)]
        refs = path.refs.tolist()
        largest, its_dim, n_above = 0.0, -1, 0
        for i, (ref, weight) in enumerate(zip(refs, path.leaves.tolist(), strict=True)):
            n = 1 if ref < 0 else int(tree.nodes.row(ref).n_samples)
            if i > 0 and (n_above - n) / (n + 1.0) > largest:
                largest, its_dim = (n_above - n) / (n + 1.0), int(tree.nodes.row(refs[i - 1]).dim)
            if weight > 0.0 and n >= largest:
                gaps = gaps_from(forest, path.tree, ref, x)
                out += weight * math.log1p(n) * gaps / gaps.sum()
            elif weight > 0.0:
                out[its_dim] += weight * math.log1p(largest)
            n_above = n
        if its_dim >= 0:
            out[its_dim] += float(path.reach[-1] * path.stays[-1]) * math.log1p(largest)


class CutTrees(trees.MondrianTrees[CutForest]):
    """Random cut trees over a window of samples, and the scores of recent samples.

    Parameters
    ----------
    partitions
        Number, lifetime and other arguments of the trees (`tree_store.Partitions`).
    entering
        Probability that a sample enters full trees.

    """

    _FOREST = CutForest
    _READER = CutReader
    _RENEWS: ClassVar[bool] = True
    _DERIVED: ClassVar[frozenset[str]] = trees.MondrianTrees._DERIVED | {
        *("out", "memory", "noted", "_own"),
    }

    def __init__(self, partitions: tree_store.Partitions, entering: float) -> None:
        # The scores of recently learned samples.
        self.scores = RecentScores()
        super().__init__(partitions)
        self.forest.entering = entering
        # The draws for entering have a separate seed, so that they are independent of the trees'
        # draws.
        seeds = np.random.SeedSequence(partitions.seed, spawn_key=(arguments.ENTRY_DRAWS,))
        self.forest.entry_state = int(seeds.generate_state(1, np.uint64).view(np.int64)[0])

    def _finish(self) -> None:
        super()._finish()
        forest = self.forest
        forest.ranks = self.scores.record
        self.noted = np.full(self.inputs.shape[1], np.nan)
        forest.noted_inputs = rec.Float64s.of(self.noted)
        forest.noted_at = NOTHING_NOTED
        self.out = np.empty(N_READINGS)
        self.memory = rec.Memory(Scores)
        self.memory.own("readings", self.out)
        # A direct reference is stored, because it is faster for each sample than `memory[0]`.
        self._own = self.memory[0]

    def _refresh(self) -> None:
        super()._refresh()
        # The stored score is discarded, because the trees may be rebuilt next.
        self.forest.noted_at = NOTHING_NOTED

    def _check_kind(self) -> None:
        checks.check_types(self, {"scores": RecentScores})

    @property
    def n_begun(self) -> int:
        """Number of samples that have been learned, or whose walks have begun."""
        return super().n_begun + int(self.forest.n_passed)

    # Learning.

    def open(self) -> None:
        """Open the trees to kernel calls for one sample, unless the trees are empty.

        During a change, the trees stay closed.
        """
        if not self.is_empty:
            super().open()

    def learn(self) -> int:
        """Learn the sample in `inputs`.

        Returns DONE, or the index of an input that is too large. If an input is too large, nothing
        changes.
        """
        learn = learn_one.of(CutForest)
        status = learn(self.forest, self._own)
        if status == DONE:
            return DONE
        return self.learn_rest(status, lambda: learn(self.forest, self._own), lambda p: None)

    def _rebuild(self, n: int, scaling: rec.Float64s) -> None:
        rebuild(self.forest, scaling, n, self._following_fit(n), self._own)

    # Readings. The trees must hold at least one sample.

    def score(self) -> int:
        """Write the readings of the sample in `inputs` to `out` (see `Scores`).

        Returns DONE, or the index of an input that is too large.
        """
        return score_one.of(CutForest)(self.forest, self._own)

    def score_rows(self, inputs: rec.Floats, n_jobs: int) -> rec.Floats:
        """Return the readings of rows of checked inputs (see `Scores`), shape (n, N_READINGS)."""
        return self._predict_rows(score_rows, Scores, "readings", inputs, N_READINGS, n_jobs)
