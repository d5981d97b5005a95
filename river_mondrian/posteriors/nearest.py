"""Expected distance of a sample to the nearest sample in a random subset of held samples.

The detector stores n *held* samples. Let D_1 <= D_2 <= ... <= D_n be the distances of a sample x to
these samples. Let each held sample be in a random subset with probability q, independently of the
other samples. The r-th nearest sample is the nearest sample of the subset if the subset contains
this sample and none of the r - 1 nearer samples. The probability of this event is q (1 - q)^(r -
1). Given that the subset is not empty, the expected distance of x to the nearest sample in the
subset is

    score(x) = sum_r q (1 - q)^(r - 1) D_r / sum_r q (1 - q)^(r - 1),  r = 1, ..., n.           (1)

In the isolation kernel (Ting, Wells and Washio 2021, Section 4.2, aNNE), the samples of a random
subset are the centres of Voronoi cells. With subsets drawn as above, (1) is the mean distance of x
to the centre of the cell of x over infinitely many partitions. So (1) has no sampling error. With q
= 1/k, the mean of r is about k if n is much larger than k. So roughly the k nearest neighbours
determine the score. Nearer neighbours have larger weights. In general, q is min(1/2, max(1/k,
2/n)). So q is 1/k only if k and n/k are at least 2.

The sums in (1) end when the remaining terms have a total weight of at most `REST`.

The distance of x and y is the sum over features j of |x_j - y_j| / width_j. A term a > `CAP` is
replaced by CAP (1 + log(a / CAP)). The user may set the width of a numeric feature. Otherwise, the
width is the standard deviation of the feature's held values, or 1 if all held values are equal. For
the width, values are clipped at `CLIPPED` interquartile ranges beyond the quartiles, unless the
quartiles are equal. Two different levels of a category have the distance 1. The width of a category
is sqrt(P / 2), where P is the share of pairs of samples with different levels, or 1 if P is 0.
Likewise, the variance of a numeric feature is half the mean squared difference of two values. A
feature that is missing in x or y adds the mean of the other features' terms.

A shingle is a sample together with the `shingle` - 1 samples before it. The columns of a shingle
are the features of the sample, then the features of the previous sample, and so on.
"""

import copy
import math
from collections.abc import Hashable, Mapping
from typing import Any, Self

import numpy as np

from .. import records as rec
from .. import threads
from ..arguments import ENTRY_DRAWS
from ..checks import check_number, check_types, refuse
from ..compiling.kernels import always_inline, batch_kernel, kernel, link_by_name
from ..elementary import mixed, sort, state_after, uniform_of
from ..inputs import FeatureIndex
from ..learners.columns import CAP, add_levels, add_numbers, stored_value
from ..learners.learned import Learned
from ..limits import DONE, LARGEST, LARGEST_WINDOW, LEAST_LEVEL
from .displacement import KEPT, LEAST_HELD, RecentScores, RecentScoresRecord, add_score, rank_of

# Largest total weight of the omitted terms in equation (1) above.
REST = 1e-4
# For widths, values are clipped at this many interquartile ranges beyond the quartiles.
CLIPPED = 3.0
# Widths are renewed after this many stored samples, and when the number of held samples becomes a
# power of 2 from 4 on, below `capacity`.
RENEWED_AFTER = 64
# A sample is unusual if its score has at least this rank (see `_is_skipped`).
UNUSUAL = 0.9
# Rows are near to other rows if their distance is at most this quantile of recent scores.
USUAL = 0.95
# Number of intervals for sorting distances.
N_BUCKETS = 256
# Indices of the score, and of the rank of the score among recent scores.
RAW, RANK, N_READINGS = 0, 1, 2
# Bounds of a rate, 1 / width. With larger rates, distances might overflow.
RATES = rec.Bounds(0.0, 1e200)


class NeighborTableRecord(rec.Record):
    """The ring buffer of held samples, the widths, and buffers for the distances to a sample."""

    # The user's parameters (see `NeighborTable`).
    n_neighbors: rec.Int64 = rec.stored(rec.Bounds(1, LARGEST_WINDOW))
    capacity: rec.Int64 = rec.stored(rec.Bounds(1, LARGEST_WINDOW))
    shingle: rec.Int64 = rec.stored(rec.Bounds(1, LARGEST_WINDOW))
    entering: rec.Float64 = rec.stored(rec.Bounds(0.0, 1.0))
    skips: rec.Int64 = rec.stored(rec.Bounds(0, 1))
    # Numbers of features, columns, held samples, learned samples, and samples that have entered
    # since widths were set. Index of the oldest held sample. Random state of the draws for
    # entering.
    n_inputs: rec.Int64
    n_columns: rec.Int64 = rec.derived()
    n_held: rec.Int64 = rec.stored(rec.Bounds(0, LARGEST_WINDOW))
    n_samples: rec.Int64
    n_entered: rec.Int64
    oldest: rec.Int64 = rec.stored(rec.Bounds(0, below="capacity"))
    entry_state: rec.Int64
    ranks: RecentScoresRecord
    # Values of the held samples, minus the origins. Each column is contiguous (`learners.columns`).
    held: rec.Float32s = rec.sized("shingle", "n_inputs", "capacity")
    # For each held sample: the number of samples learned before it.
    numbers: rec.Int64s = rec.sized("capacity")
    origins: rec.Float64s = rec.sized("n_inputs", bounds=rec.Bounds(-LARGEST, LARGEST))
    # Rates of each feature. `rates` is 1 / width of a numeric feature, and 0 for a category.
    # `level_rates` is 1 / width of a category, capped like a term, and 0 for a numeric feature. If
    # the user has set the width of a feature, `given_rates` is 1 / width, and is used if the
    # feature is numeric. Otherwise `given_rates` is 0.
    rates: rec.Float64s = rec.sized("n_inputs", bounds=RATES)
    level_rates: rec.Float64s = rec.sized("n_inputs", bounds=RATES)
    given_rates: rec.Float64s = rec.sized("n_inputs", bounds=RATES)
    # The latest samples, with the next sample in the last row. The last scored sample, the score of
    # this sample, and the number of learned samples when this sample was scored.
    recent: rec.Float64s = rec.sized("shingle", "n_inputs")
    noted_inputs: rec.Float64s = rec.transient("n_inputs")
    noted_score: rec.Float64 = rec.transient()
    noted_at: rec.Int64 = rec.transient()
    # Buffers for one sample: its columns, its distances to the held samples, the number of missing
    # columns for each distance, sorted distances, and the number of distances in each interval.
    row: rec.Float32s = rec.transient("n_columns")
    distances: rec.Float64s = rec.transient("capacity")
    missing: rec.Int32s = rec.transient("capacity")
    ordered: rec.Float64s = rec.transient("capacity")
    counts: rec.Int32s = rec.transient(N_BUCKETS)
    # q and the number of terms in equation (1) above for the last scored sample.
    chance: rec.Float64 = rec.transient()
    n_terms: rec.Int64 = rec.transient()


@always_inline
def _capped(term: float) -> float:
    return term if term <= CAP else CAP * (1.0 + math.log(term / CAP))


@always_inline
def _convert(table: NeighborTableRecord, rows: rec.Float64s, last: int, row: rec.Float32s) -> int:
    """Write row `last` of inputs and the previous rows to `row`, in the form of a held sample.

    Returns DONE, or the index of an input that is too large.
    """
    n = table.n_inputs
    for ago in range(table.shingle):
        for j in range(n):
            value = rows[n * (last - ago) + j]
            is_level = table.level_rates[j] > 0.0
            if not is_level and abs(value) > LARGEST:
                return j
            row[n * ago + j] = stored_value(value, table.origins[j], is_level)
    return DONE


@always_inline
def _add_terms(table: NeighborTableRecord, ago: int, j: int) -> None:
    """Add a column's terms to the distances to all held samples, and count missing terms."""
    n, column = table.n_held, table.n_inputs * ago + j
    values, value = table.held.part(table.capacity * column, n), table.row[column]
    distances, missing, rate = table.distances, table.missing, table.rates[j]
    if table.level_rates[j] > 0.0:
        add_levels(distances, missing, values, n, value, table.level_rates[j])
    else:
        add_numbers(distances, missing, values, n, value, rate, False)


@always_inline
def _sort_lowest(table: NeighborTableRecord, n: int, k: int) -> None:
    """Write `n` numbers of `distances` to `ordered`, beginning with the `k` smallest in order.

    The numbers are first assigned to intervals of equal length between the smallest number d and d
    + 2 (mean - d). Then only the intervals with the `k` smallest numbers are sorted.
    """
    distances, ordered, counts = table.distances, table.ordered, table.counts
    low, total = distances[0], 0.0
    for i in range(n):
        low = min(low, distances[i])
        total += distances[i]
    spread = 2.0 * (total / n - low)
    scale = (N_BUCKETS - 1) / spread if spread > 0.0 else 0.0
    for b in range(N_BUCKETS):
        counts[b] = 0
    for i in range(n):
        b = int(min((distances[i] - low) * scale, N_BUCKETS - 1.0))
        counts[b] = counts[b] + 1
    # Replace each interval's count by the interval's first index in `ordered`.
    size, needed = 0, 0
    for b in range(N_BUCKETS):
        needed = size + counts[b] if size < k else needed
        counts[b], size = size, size + counts[b]
    # All intervals are written, although few are needed, since a branch would often be
    # mispredicted.
    for i in range(n):
        b = int(min((distances[i] - low) * scale, N_BUCKETS - 1.0))
        ordered[counts[b]] = distances[i]
        counts[b] = counts[b] + 1
    sort(ordered, needed)


@link_by_name
def score_of(table: NeighborTableRecord) -> float:
    """Return the score of the sample in `row`, or 0 if there are no samples to compare.

    The score is equation (1) of the module. The function is compiled only once, so that its sums
    are rounded equally in all kernels.
    """
    n, n_missing, n_columns = int(table.n_held), 0, table.n_columns
    for i in range(n):
        table.distances[i], table.missing[i] = 0.0, 0
    for ago in range(table.shingle):
        for j in range(table.n_inputs):
            _add_terms(table, ago, j)
    for i in range(n):
        n_missing += table.missing[i]
    if n_missing > 0:
        n = 0
        for i in range(table.n_held):
            n_shared = n_columns - table.missing[i]
            if n_shared > 0:
                table.distances[n] = table.distances[i] * (n_columns / n_shared)
                n += 1
    if n == 0:
        return 0.0
    # The probability with which the random subset contains each held sample.
    q = min(0.5, max(1.0 / table.n_neighbors, 2.0 / table.n_held))
    k = min(n, math.ceil(math.log(REST) / math.log1p(-q)))
    table.chance, table.n_terms = q, k
    _sort_lowest(table, n, k)
    weight, weights, total = q, 0.0, 0.0
    for r in range(k):
        total += weight * table.ordered[r]
        weights += weight
        weight *= 1.0 - q
    return total / weights


@always_inline
def _quantile(ordered: rec.Float64s, n: int, share: float) -> float:
    """Return a quantile of sorted numbers, by linear interpolation."""
    place = share * (n - 1)
    i = int(place)
    above = ordered[min(i + 1, n - 1)]
    return ordered[i] + (place - i) * (above - ordered[i])


@always_inline
def _width_of_numbers(ordered: rec.Float64s, n: int) -> float:
    """Return the width of sorted numbers (see the docstring of the module)."""
    q1, q3 = _quantile(ordered, n, 0.25), _quantile(ordered, n, 0.75)
    low, high = ordered[0], ordered[n - 1]
    if q3 > q1:
        low, high = q1 - CLIPPED * (q3 - q1), q3 + CLIPPED * (q3 - q1)
    mean, variance = 0.0, 0.0
    for i in range(n):
        mean += min(max(ordered[i], low), high) / n
    for i in range(n):
        variance += (min(max(ordered[i], low), high) - mean) ** 2 / n
    return math.sqrt(variance)


@always_inline
def _width_of_levels(ordered: rec.Float64s, n: int) -> float:
    """Return the width of sorted levels (see the docstring of the module)."""
    same, run = 0.0, 0.0
    for i in range(n):
        run = run + 1.0 if i > 0 and ordered[i] == ordered[i - 1] else 1.0
        # The square of the length n of a run is the sum of the first n odd numbers.
        same += 2.0 * run - 1.0
    return math.sqrt(0.5 * (1.0 - same / (float(n) * n)))


@link_by_name
def set_widths(table: NeighborTableRecord) -> None:
    """Set the rates of all features, from given widths or from the held samples."""
    for j in range(table.n_inputs):
        n = 0
        for i in range(table.n_held):
            value = table.held[table.capacity * j + i]
            if value == value:
                table.distances[n] = value
                n += 1
        if n > 0:
            _sort_lowest(table, n, n)
        if table.level_rates[j] > 0.0:
            width = _width_of_levels(table.ordered, n) if n > 0 else 0.0
            table.level_rates[j] = _capped(1.0 / width if width > 0.0 else 1.0)
        elif table.given_rates[j] > 0.0:
            table.rates[j] = table.given_rates[j]
        else:
            width = _width_of_numbers(table.ordered, n) if n > 0 else 0.0
            table.rates[j] = 1.0 / width if width > 0.0 else 1.0
    table.n_entered = 0


@always_inline
def _is_noted(table: NeighborTableRecord) -> bool:
    """Return whether the score of the last scored sample is still valid for the next sample."""
    if table.noted_at != table.n_samples:
        return False
    start = table.n_inputs * (table.shingle - 1)
    for j in range(table.n_inputs):
        # NaN differs from itself, so a sample with a missing value is always scored again.
        if table.recent[start + j] != table.noted_inputs[j]:
            return False
    return True


@kernel
def score_one(table: NeighborTableRecord, out: rec.Float64s) -> int:
    """Write the score and the rank of the next sample.

    Returns DONE, or the index of an input that is too large.
    """
    last = int(table.shingle - 1)
    bad = _convert(table, table.recent, last, table.row)
    if bad == DONE:
        out[RAW] = table.noted_score if _is_noted(table) else score_of(table)
        out[RANK] = rank_of(table.ranks, out[RAW])
        table.noted_score = out[RAW]
        table.noted_at = table.n_samples
        for j in range(table.n_inputs):
            table.noted_inputs[j] = table.recent[table.n_inputs * last + j]
    return bad


@batch_kernel
def score_rows(table: NeighborTableRecord, rows: rec.Float64s, n: int, out: rec.Float64s) -> int:
    """Write the scores and ranks of `n` rows, which follow `shingle` - 1 earlier rows."""
    for r in range(n):
        _convert(table, rows, r + int(table.shingle - 1), table.row)
        score = score_of(table)
        out[N_READINGS * r + RAW] = score
        out[N_READINGS * r + RANK] = rank_of(table.ranks, score)
    return DONE


@always_inline
def _is_skipped(table: NeighborTableRecord, score: float) -> bool:
    """Return whether the next sample is skipped: only its score is unusual, not the previous score.

    Successive unusual samples indicate a changed distribution, so only the first of them is
    skipped. Without `skips`, no sample is skipped.
    """
    ranks = table.ranks
    if table.skips == 0 or rank_of(ranks, score) < UNUSUAL:
        return False
    return rank_of(ranks, ranks.scores[(ranks.next_score - 1) % KEPT]) < UNUSUAL


@always_inline
def _learn(table: NeighborTableRecord, is_noted: bool) -> int:
    """Learn the next sample, and return DONE, or the index of an input that is too large."""
    bad = _convert(table, table.recent, int(table.shingle - 1), table.row)
    if bad != DONE:
        return bad
    for i in range(table.n_inputs * (table.shingle - 1)):
        table.recent[i] = table.recent[i + table.n_inputs]
    if table.n_samples < table.shingle - 1:
        table.n_samples = table.n_samples + 1
        return DONE
    is_skipped = False
    if table.n_held >= min(LEAST_HELD, table.capacity):
        score = table.noted_score if is_noted else score_of(table)
        is_skipped = _is_skipped(table, score)
        add_score(table.ranks, score)
    bits = mixed(state_after(table.entry_state, table.n_samples))
    if not is_skipped and (table.n_held < table.capacity or uniform_of(bits) < table.entering):
        # If there is no room, replace the oldest sample.
        place = (table.oldest + table.n_held) % table.capacity
        if table.n_held < table.capacity:
            table.n_held = table.n_held + 1
        else:
            table.oldest = (place + 1) % table.capacity
        for column in range(table.n_columns):
            table.held[table.capacity * column + place] = table.row[column]
        table.numbers[place] = table.n_samples
        table.n_entered = table.n_entered + 1
        n = int(table.n_held)
        is_power = n >= 4 and n & (n - 1) == 0 and table.n_held < table.capacity
        if is_power or table.n_entered >= RENEWED_AFTER:
            set_widths(table)
    table.n_samples = table.n_samples + 1
    return DONE


@kernel
def learn_one(table: NeighborTableRecord) -> int:
    """Learn the next sample, and store the score that the sample had before learning.

    No score is stored while fewer than `LEAST_HELD` samples, and fewer than `capacity`, are held.
    Returns DONE, or the index of an input that is too large. If an input is too large, nothing
    changes.
    """
    return _learn(table, _is_noted(table))


@batch_kernel
def learn_rows(table: NeighborTableRecord, rows: rec.Float64s, n: int) -> int:
    """Learn `n` rows of checked inputs, and return DONE."""
    n_inputs, start = table.n_inputs, table.n_inputs * (table.shingle - 1)
    for r in range(n):
        for j in range(n_inputs):
            table.recent[start + j] = rows[n_inputs * r + j]
        _learn(table, False)
    return DONE


@kernel
def renew(table: NeighborTableRecord) -> int:
    """Set the rates of all features (see `set_widths`), and return DONE."""
    set_widths(table)
    return DONE


class NeighborTable(Learned[NeighborTableRecord]):
    """The owner of the held samples and their features.

    A change that needs more than one call of a kernel is made in a copy (`copied`, `widened`,
    `without`). The copy then replaces the table.

    Parameters
    ----------
    n_neighbors
        Number k of neighbours, which determines q in equation (1) of the module.
    capacity
        Largest number of held samples.
    shingle
        Number of successive samples in a shingle.
    entering
        Probability that a sample enters if `capacity` samples are held.
    skips
        Whether isolated unusual samples are skipped.
    missing
        The meaning of an absent feature (see the detector's parameter `missing`).
    seed
        Random seed.

    """

    _KIND = NeighborTableRecord
    # Values may be missing, so arrays may contain NaN.
    _HAS_NAN = True
    _DERIVED = Learned._DERIVED | {"vector", "out", "_out"}

    def __init__(
        self,
        n_neighbors: int,
        capacity: int,
        shingle: int,
        entering: float,
        skips: bool,
        missing: Any,
        seed: int | None,
    ) -> None:
        super().__init__(
            n_neighbors=n_neighbors,
            capacity=capacity,
            shingle=shingle,
            entering=entering,
            skips=skips,
        )
        self.features, self.scores = FeatureIndex(missing), RecentScores()
        seeds = np.random.SeedSequence(seed, spawn_key=(ENTRY_DRAWS,))
        self.record.entry_state = int(seeds.generate_state(1, np.uint64).view(np.int64)[0])
        self.show()

    def show(self, predicted: rec.Floats | None = None) -> None:
        """Set the record's references to its arrays, and discard the last scored sample."""
        record = self.record
        record.n_columns, record.ranks = record.n_inputs * record.shingle, self.scores.record
        super().show()
        record.noted_at = -1
        # The next sample.
        self.vector = self.learned["recent"][-1]
        self.out = np.zeros(N_READINGS)
        self._out = rec.Float64s.of(self.out)

    def __getstate__(self) -> dict[str, Any]:
        # The last row is only a buffer for the next sample.
        recent = self.learned["recent"].copy()
        recent[-1] = np.nan
        return super().__getstate__() | {"learned": self.learned | {"recent": recent}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if np.isinf(self.held).any():
            refuse(self, "held", self.held, "but all values should be finite or missing")

    def _check(self) -> None:
        check_types(self, {"features": FeatureIndex, "scores": RecentScores})
        record, n = self.record, len(self.features)
        check_number(self, "n_inputs", record.n_inputs, n, n)
        check_number(self, "n_held", record.n_held, 0, record.capacity)

    def copied(self) -> Self:
        """Return an independent copy."""
        copies = {name: array.copy() for name, array in self.learned.items()}
        return self.changed(copies, scores=copy.deepcopy(self.scores))

    # Changed copies.

    def widened(self, new: Mapping[Hashable, float], widths: Mapping[Hashable, float]) -> Self:
        """Return a copy with new features, given their first values and the known widths.

        The origin of a numeric feature is the feature's first value. New features are absent in the
        held samples.
        """
        values = np.array(list(new.values()), dtype=np.float64)
        are_levels = values >= LEAST_LEVEL
        origins = np.where(are_levels, 0.0, values)
        known = np.array([widths.get(name, 0.0) for name in new])
        rates = np.divide(1.0, known, out=np.zeros(len(known)), where=known > 0.0)
        rates = np.minimum(rates, RATES.most)
        features = self.features.with_more(new)
        gaps = features.gaps[len(self.features) :]
        absent = np.where(are_levels, gaps - 1.0, gaps - origins)
        plain = np.where(rates > 0.0, rates, 1.0)
        shape = len(self.recent), len(new), self.held.shape[-1]
        held = np.broadcast_to(absent.astype(np.float32)[:, np.newaxis], shape)
        added = {
            "recent": np.tile(gaps, (len(self.recent), 1)),
            "origins": origins,
            "given_rates": rates,
            "level_rates": np.where(are_levels, 1.0, 0.0),
            "rates": np.where(are_levels, 0.0, plain),
        }
        arrays = {k: np.concatenate([self.learned[k], rows], axis=-1) for k, rows in added.items()}
        arrays["held"] = np.concatenate([self.held, held], axis=1)
        widened = self.copied()
        widened.features, widened.learned = features, widened.learned | arrays
        widened.record.n_inputs = len(widened.features)
        widened.show()
        renew(widened.record)
        return widened

    def without(self, places: Any) -> Self:
        """Return a copy without some held samples.

        `places` has the indices of these samples among the held samples, oldest first.
        """
        copied = self.copied()
        rest = np.delete(self.samples, places, axis=0)
        copied.held.reshape(-1, copied.held.shape[-1])[:, : len(rest)] = rest.T
        copied.learned["numbers"][: len(rest)] = np.delete(self.numbers, places)
        copied.record.oldest, copied.record.n_held = 0, len(rest)
        renew(copied.record)
        return copied

    # Readings.

    @property
    def held(self) -> rec.Singles:
        """The ring buffer of held samples, shape (shingle, features, capacity)."""
        return self.learned["held"]

    @property
    def recent(self) -> rec.Floats:
        """The latest samples. The last row is the next sample."""
        return self.learned["recent"]

    @property
    def samples(self) -> rec.Singles:
        """The held samples minus the origins, oldest first, shape (samples, columns)."""
        order = self._order
        return self.held[..., order].reshape(int(self.record.n_columns), len(order)).T

    @property
    def numbers(self) -> Any:
        """For each held sample, the number of samples learned before it, oldest first."""
        return self.learned["numbers"][self._order]

    @property
    def _order(self) -> Any:
        table = self.record
        return (int(table.oldest) + np.arange(int(table.n_held))) % int(table.capacity)

    @property
    def columns(self) -> list[Hashable]:
        """The names of columns: features, or pairs (feature, samples ago) for shingles."""
        names, shingle = self.features.names, int(self.record.shingle)
        if shingle == 1:
            return list(names)
        return [(name, ago) for ago in range(shingle) for name in names]

    @property
    def row(self) -> rec.Singles:
        """The last scored sample, in the form of a held sample."""
        return self.memory.arrays["row"]

    def score(self) -> int:
        """Write the score and the rank of the sample in `vector` to `out`.

        Returns the result of `score_one`.
        """
        return score_one(self.record, self._out)

    def learn(self) -> int:
        """Learn the sample in `vector`, and return the status of `learn_one`."""
        return learn_one(self.record)

    def learn_rows(self, rows: rec.Floats) -> None:
        """Learn rows of checked inputs."""
        learn_rows(self.record, rec.Float64s.of(np.ascontiguousarray(rows)), len(rows))

    def score_rows(self, rows: rec.Floats, n_jobs: int) -> rec.Floats:
        """Return the scores and ranks of rows of checked inputs, shape (n, N_READINGS).

        The first `shingle` - 1 rows only complete the shingles of the other rows, and are not
        scored.
        """
        n_before = len(self.recent) - 1
        n = len(rows) - n_before
        out = np.zeros((n, N_READINGS))

        def part(start: int, stop: int) -> None:
            reader, block = self.reader(), rec.Float64s.of(rows[start : stop + n_before])
            score_rows(reader[0], block, stop - start, rec.Float64s.of(out[start:stop]))

        ends = np.linspace(0, n, 1 + (n_jobs if n >= 2 * n_jobs else 1)).astype(int).tolist()
        threads.share(part, ends)
        return out

    def explained(self) -> rec.Floats:
        """Return each column's contribution to the score of the last scored sample."""
        terms = self._terms(self.samples)
        if not len(terms):
            return np.zeros(len(self.row))
        nearest = np.argsort(terms.sum(axis=1), kind="stable")[: self.record.n_terms]
        weights = (1.0 - self.record.chance) ** np.arange(len(nearest))
        return weights @ terms[nearest] / weights.sum()

    def _terms(self, samples: rec.Singles) -> rec.Floats:
        """Return, by column, the terms of the last scored sample's distances to samples.

        Samples that share no column with the last scored sample are omitted.
        """
        # Differences are in single precision, so that they equal the differences in `add_numbers`.
        row = self.row
        gaps = np.abs(row - samples).astype(np.float64)
        terms = self._terms_of(gaps, int(self.record.shingle))
        n_shared = (~np.isnan(gaps)).sum(axis=1)
        shared = n_shared[n_shared > 0, np.newaxis]
        shared_terms: rec.Floats = np.nan_to_num(terms[n_shared > 0]) * (len(row) / shared)
        return shared_terms

    def _terms_of(self, gaps: rec.Floats, shingle: int) -> rec.Floats:
        """Return distance terms, given differences by column. Missing values have NaN terms."""
        terms = gaps * np.tile(self.learned["rates"], shingle)
        far = terms > CAP
        terms[far] = CAP * (1.0 + np.log(terms[far] / CAP))
        return np.where(gaps > 0.0, terms + np.tile(self.learned["level_rates"], shingle), terms)

    def are_near(self, rows: rec.Floats, others: rec.Floats) -> bool:
        """Return whether rows of inputs are as near to other rows as samples usually are.

        The rows' mean distance to the nearest other row is compared with a quantile of the recent
        scores. These scores are distances of samples to the nearest held samples. Two rows with
        different missing features are not near.
        """
        scores, distances = self.scores.latest, []
        for row in rows:
            terms = self._terms_of(np.abs(others - row), 1)
            terms[np.isnan(others) != np.isnan(row)] = np.inf
            distances.append(np.nansum(terms, axis=1).min())
        usual = float(np.quantile(scores, USUAL)) if len(scores) else 0.0
        return float(np.mean(distances)) <= usual / float(self.record.shingle)

    def neighbors(self) -> dict[Hashable, rec.Floats]:
        """Return each numeric feature's values in the samples nearest to the last scored sample.

        Only samples with a value of the feature count, and the feature itself does not count in
        their distances. All samples at the distance of the k-th nearest sample are included. A
        feature is omitted if no held sample has a value of the feature. A feature is also omitted
        if such a sample shares no column with the last scored sample.
        """
        n, values, samples = int(self.record.n_inputs), {}, self.samples
        is_near = ~np.isnan(self.row - samples).all(axis=1)
        terms = self._terms(samples).reshape(-1, int(self.record.shingle), n).sum(axis=1)
        # Sums of the terms before, and after, each feature. Subtracting the feature's term from the
        # sum of all terms would add rounding errors, so equal distances might differ.
        before = np.cumsum(np.pad(terms, ((0, 0), (1, 0))), axis=1)
        after = np.cumsum(np.pad(terms, ((0, 0), (0, 1)))[:, ::-1], axis=1)[:, ::-1]
        for j, name in enumerate(self.features.names):
            has_value = ~np.isnan(samples[:, j])
            is_known = has_value.any() and is_near[has_value].all()
            if name in self.features.categories or not is_known:
                continue
            distances = (before[:, j] + after[:, j + 1])[has_value[is_near]]
            k = min(int(self.record.n_neighbors), len(distances)) - 1
            near = samples[has_value, j][distances <= np.partition(distances, k)[k]]
            values[name] = near + self.learned["origins"][j]
        return values
