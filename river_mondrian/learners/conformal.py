"""Changes of a stream, detected by bets against the exchangeability of its samples.

The first samples are stored. They are the *reference*, and determine score functions. A *channel*
is one score of each later sample. The channels of the inputs are:

- a value; for a category, whether the value is a level, for each level and for all other levels;
- dependence: the difference of a value from the mean value of the `N_NEAR` stored samples that are
  nearest in the other features; for a category, the number of these samples with another level;
- presence: whether the feature has a value;
- the number of features that the reference lacks.

The channels of y are its labels, like the levels of a category, or its value if y is a target. The
relation of y to the inputs has the number of the `N_VOTES` nearest stored samples with the sample's
label. For a target, it has the target minus the mean target of these samples, and the absolute
value of this difference.

Ranks. The cuts of a channel divide its scores into bins. After t samples, n_b scores were in bin b.
The rank of the next score, in bin b, is

    p = (sum_(a < b) n_a + V (n_b + 1)) / (t + 1),  V uniform.                                   (1)

If samples are exchangeable, then the ranks of a channel are independent and uniform (Vovk,
Gammerman and Shafer 2005). The channels share the number V of a sample. The relation is ranked only
among samples whose neighbours have the same most frequent label, or a mean target in the same third
of the means in the reference. So a change of the inputs alone hardly moves these ranks.

Bets. The factor e of a bettor is a density at p, which the bettor has chosen from earlier ranks. So
the mean of e is 1 for a uniform p. Let R <- (1 + R) e (Shiryaev and Roberts). Then R - t is a
martingale. The *evidence* of a channel is the mean R of its bettors. The evidence reaches B within
t samples with a probability of at most t / B (Doob). A kind of changes (inputs, labels, relation)
raises an alarm if the evidence of one of its channels reaches A times the number of its channels
times the number of kinds. So an alarm within t samples has a probability of at most t / A.

After an alarm, more evidence is collected, and the next reference is filled meanwhile.
"""

import math
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, Self

import numpy as np

from .. import records as rec
from ..arguments import ENTRY_DRAWS
from ..checks import check_equal, check_number, check_types, refuse
from ..compiling.kernels import always_inline, batch_kernel, kernel, link_by_name
from ..elementary import mixed, state_after, uniform_of
from ..inputs import FeatureIndex
from ..limits import DONE, LARGEST, LARGEST_TARGET, LARGEST_WINDOW, LEAST_LEVEL
from .learned import Learned

KINDS = ("inputs", "labels", "relation")
# Phases of a monitor. It fills its reference, watches for a change, or collects evidence.
FILLING, WATCHING, COLLECTING = 0, 1, 2
# Pending work after a call of the kernel: report an alarm, report the final version of an alarm, or
# renew the reference.
NOTHING, ALARM, FINAL, FULL = 0, 1, 2, 3
# Kinds of y.
UNKNOWN, LABEL, TARGET = 0, 1, 2

# Number of samples whose evidence is collected after an alarm.
N_COLLECTED = 200
# Largest numbers of features of a reference, of features with a channel for dependence, and of
# levels (or labels) with a channel.
MOST_FEATURES, MOST_DEPENDENT, MOST_LEVELS = 1024, 64, 64
# Number of neighbours that predict a feature, and that predict y.
N_NEAR, N_VOTES = 3, 7
# Largest term of a distance, and largest value, in standard deviations.
CAP, LARGEST_SCALED = 6.0, 1e30
# Numbers of cuts and bins. Cuts of counts.
N_CUTS, N_BINS = 31, 32
COUNT_CUTS = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 8.5, 11.5, 15.5, 22.5, 31.5, 63.5, 127.5, 255.5]

# Bettors. A memory of earlier ranks has their number, sums of two scores, and counts of ranks in
# cells. All are discounted by the factors `KEPT`. Three bettors use each memory.
KEPT = (1.0 - 1.0 / 32.0, 1.0 - 1.0 / 128.0, 1.0 - 1.0 / 1024.0)
N_MEMORIES, N_BETTORS = 3, 9
EDGES = [0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 1.0]
N_EDGES = len(EDGES)
N_NUMBERS = 2 + N_EDGES
# A memory begins with this number of uniform ranks.
PRIOR = 4.0
# Largest slope of a bet. Ranks below these are low.
STEEPEST, LOW, LOWEST = 0.9, 0.3, 0.1
MOST_EVIDENCE = 1e300
# Largest number of new features, or new labels, in a report.
MOST_NAMED = 10


class Monitor(rec.Record):
    """A reference, the ranks and bets of the samples since, and the next reference."""

    # The bar A of one channel, and the spacing. Random state of the numbers V.
    bar: rec.Float64 = rec.stored(rec.Bounds(0.0))
    spacing: rec.Int64 = rec.stored(rec.Bounds(1, LARGEST_WINDOW))
    v_state: rec.Int64
    phase: rec.Int64 = rec.stored(rec.Bounds(FILLING, COLLECTING))
    due: rec.Int64 = rec.stored(rec.Bounds(NOTHING, FULL))
    y_kind: rec.Int64 = rec.stored(rec.Bounds(UNKNOWN, TARGET))
    # Number of samples, and number of the sample that raised the latest alarm.
    n_samples: rec.Int64 = rec.stored(rec.Bounds(0))
    alarm_at: rec.Int64 = rec.stored(rec.Bounds(0))
    # The next reference: a row for each sample. A y is a target, or the number of a label.
    capacity: rec.Int64 = rec.stored(rec.Bounds(1, LARGEST_WINDOW))
    width: rec.Int64 = rec.stored(rec.Bounds(0, MOST_FEATURES))
    n_filled: rec.Int64 = rec.stored(rec.Bounds(0, LARGEST_WINDOW))
    filled: rec.Float64s = rec.sized("capacity", "width")
    filled_y: rec.Float64s = rec.sized("capacity")
    # The reference, with a column for each feature, in standard deviations. The first `n_labelled`
    # samples have a y. The distance of two levels is 0 for numeric features.
    n_held: rec.Int64 = rec.stored(rec.Bounds(0, LARGEST_WINDOW))
    n_labelled: rec.Int64 = rec.stored(rec.Bounds(0, LARGEST_WINDOW))
    n_inputs: rec.Int64 = rec.stored(rec.Bounds(0, MOST_FEATURES))
    held: rec.Float32s = rec.sized("n_inputs", "n_held")
    held_y: rec.Float64s = rec.sized("n_held", bounds=rec.Bounds(-LARGEST_TARGET, LARGEST_TARGET))
    centres: rec.Float64s = rec.sized("n_inputs")
    rates: rec.Float64s = rec.sized("n_inputs")
    level_rates: rec.Float64s = rec.sized("n_inputs")
    # Numbers of channels. The first channel of the values of each feature, and the number of its
    # levels. The features with a channel for dependence. The level of each channel.
    n_values: rec.Int64 = rec.stored(rec.Bounds(0))
    n_dependent: rec.Int64 = rec.stored(rec.Bounds(0, MOST_DEPENDENT))
    n_y: rec.Int64 = rec.stored(rec.Bounds(0, MOST_LEVELS + 1))
    n_relation: rec.Int64 = rec.stored(rec.Bounds(0, 2))
    firsts: rec.Int64s = rec.sized("n_inputs")
    n_levels: rec.Int64s = rec.sized("n_inputs", bounds=rec.Bounds(0, MOST_LEVELS))
    dependent: rec.Int64s = rec.sized("n_dependent", bounds=rec.Bounds(0, below="n_inputs"))
    levels: rec.Float64s = rec.sized("n_channels")
    # Cuts and counts of bins: a row for each channel, but for the relation a row for each label or
    # third. The thirds of the mean targets of neighbours.
    cuts: rec.Float64s = rec.sized("n_rows", N_CUTS)
    counts: rec.Int32s = rec.sized("n_rows", N_BINS)
    thirds: rec.Float64s = rec.sized(2)
    # The bar of each kind. Edges of the cells and memories of each channel. For each bettor: R, the
    # CUSUM of its bets, and the number of the sample at which this sum began.
    bars: rec.Float64s = rec.sized(len(KINDS))
    edges: rec.Float64s = rec.sized("n_channels", N_EDGES)
    memories: rec.Float64s = rec.sized("n_channels", N_MEMORIES, N_NUMBERS)
    evidence: rec.Float64s = rec.sized("n_channels", N_BETTORS)
    runs: rec.Float64s = rec.sized("n_channels", N_BETTORS)
    starts: rec.Int64s = rec.sized("n_channels", N_BETTORS)
    # The next sample, in its own units and in standard deviations; V; the ranks of the channels;
    # the distances of the stored samples, and the nearest of these with a y.
    vector: rec.Float64s = rec.transient("n_inputs")
    row: rec.Float32s = rec.transient("n_inputs")
    v: rec.Float64 = rec.transient()
    ranks: rec.Float64s = rec.transient("n_channels")
    distances: rec.Float64s = rec.transient("n_held")
    near: rec.Int64s = rec.transient(N_VOTES)

    def presence_at(self) -> int:
        """Return the channel of the presence of the first feature."""
        return self.n_values + self.n_dependent

    def y_at(self) -> int:
        """Return the first channel of y, after the number of features that the reference lacks."""
        return self.presence_at() + self.n_inputs + 1

    def relation_at(self) -> int:
        """Return the first channel of the relation."""
        return self.y_at() + self.n_y

    def n_channels(self) -> int:
        """Return the number of channels."""
        return self.relation_at() + self.n_relation

    def n_rows(self) -> int:
        """Return the number of rows of counts."""
        return self.relation_at() + max(self.n_y, 6)


@always_inline
def _term(x: float, held: float, level_rate: float) -> float:
    """Return a feature's part of the distance of two samples; missing values are NaN."""
    if x != x or held != held:
        return 0.0 if x != x and held != held else 1.0
    if level_rate > 0.0:
        return 0.0 if held == x else level_rate
    return min(abs(x - held), CAP)


@link_by_name
def find_near(m: Monitor, skipped: int) -> int:
    """Find the nearest stored samples with a y, except `skipped`; return their number."""
    n, n_near, distances, near = int(m.n_held), 0, m.distances, m.near
    for i in range(n):
        distances[i] = 0.0
    for j in range(m.n_inputs):
        x, rate, held = m.row[j], m.level_rates[j], m.held.part(n * j, n)
        for i in range(n):
            distances[i] += _term(x, held[i], rate)
    if skipped >= 0:
        distances[skipped] = math.inf
    for i in range(m.n_labelled):
        is_nearer = n_near < N_VOTES or distances[i] < distances[near[N_VOTES - 1]]
        if is_nearer and i != skipped:
            k = min(n_near, N_VOTES - 1)
            n_near = k + 1
            while k > 0 and distances[i] < distances[near[k - 1]]:
                near[k] = near[k - 1]
                k -= 1
            near[k] = i
    return n_near


@link_by_name
def dependence(m: Monitor, j: int) -> float:
    """Return the score of a feature's dependence on the other features; NaN if there is none."""
    x, rate, held = m.row[j], m.level_rates[j], m.held.part(m.n_held * j, m.n_held)
    first = second = third = math.inf
    a = b = c = -1
    for i in range(m.n_held):
        distance = m.distances[i] - _term(x, held[i], rate)
        if distance < third and held[i] == held[i]:
            third, c = distance, i
            if third < second:
                second, third, b, c = third, second, c, b
                if second < first:
                    first, second, a, b = second, first, b, a
    if x != x or c < 0:
        return math.nan
    if rate > 0.0:
        return (held[a] != x) + (held[b] != x) + (held[c] != x) + 0.0
    return x - (held[a] + held[b] + held[c]) / N_NEAR


@always_inline
def _mean_y(m: Monitor, n_near: int) -> float:
    total = 0.0
    for k in range(n_near):
        total += m.held_y[m.near[k]]
    return total / n_near


@link_by_name
def rank(m: Monitor, channel: int, row: int, score: float) -> None:
    """Rank a score among the earlier scores in a row of counts (Equation 1), and count it."""
    b, below, total, place = 0, 0, 0, N_BINS * row
    for k in range(N_CUTS * row, N_CUTS * (row + 1)):
        b += 1 if m.cuts[k] <= score else 0
    for k in range(N_BINS):
        n = m.counts[place + k]
        total += n
        below += n if k < b else 0
    m.ranks[channel] = (below + m.v * (m.counts[place + b] + 1.0)) / (total + 1.0)
    m.counts[place + b] += 1


@always_inline
def _rank_levels(m: Monitor, first: int, n: int, value: float) -> None:
    """Rank whether a value is each of `n` levels, and whether it is another level."""
    is_other = 1.0
    for c in range(first, first + n):
        is_same = 1.0 if m.levels[c] == value else 0.0
        is_other -= is_same
        rank(m, c, c, is_same)
    rank(m, first + n, first + n, is_other)


@always_inline
def _rank_inputs(m: Monitor, n_new: int) -> None:
    for j in range(m.n_inputs):
        x, first, presence = m.vector[j], m.firsts[j], m.presence_at() + j
        rank(m, presence, presence, 1.0 if x == x else 0.0)
        if x == x and m.n_levels[j] > 0:
            _rank_levels(m, first, m.n_levels[j], x)
        elif x == x:
            rank(m, first, first, x)
    for k in range(m.n_dependent):
        score, c = dependence(m, m.dependent[k]), m.n_values + k
        if score == score:
            rank(m, c, c, score)
    rank(m, m.y_at() - 1, m.y_at() - 1, float(n_new))


@always_inline
def _n_votes(m: Monitor, label: float, n_near: int) -> int:
    found = 0
    for k in range(n_near):
        found += 1 if m.held_y[m.near[k]] == label else 0
    return found


@always_inline
def _rank_relation(m: Monitor, y: float, n_near: int) -> None:
    c = m.relation_at()
    if m.y_kind == TARGET:
        mean = _mean_y(m, n_near)
        third = (1 if m.thirds[0] <= mean else 0) + (1 if m.thirds[1] <= mean else 0)
        rank(m, c, c + third, y - mean)
        rank(m, c + 1, c + 3 + third, abs(y - mean))
    elif y < m.n_y - 1.0:
        usual, most = 0.0, 0
        for k in range(n_near):
            label = m.held_y[m.near[k]]
            n = _n_votes(m, label, n_near)
            usual, most = (label, n) if n > most else (usual, most)
        rank(m, c, c + int(usual), float(_n_votes(m, y, n_near)))


@always_inline
def _rank_all(m: Monitor, y: float, n_new: int) -> None:
    """Rank the scores of the next sample; the rank of a channel without a score is NaN."""
    m.v, n_near = uniform_of(mixed(state_after(m.v_state, m.n_samples))), 0
    for c in range(m.n_channels()):
        m.ranks[c] = math.nan
    for j in range(m.n_inputs):
        x = m.vector[j]
        if m.level_rates[j] > 0.0:
            m.row[j] = x / LEAST_LEVEL - 1.0
        else:
            z = (x - m.centres[j]) * m.rates[j]
            m.row[j] = max(min(z, LARGEST_SCALED), -LARGEST_SCALED) if x == x else x
    if m.n_dependent + m.n_relation > 0:
        n_near = find_near(m, -1)
    _rank_inputs(m, n_new)
    if y == y and m.n_y > 0:
        if m.y_kind == TARGET:
            rank(m, m.y_at(), m.y_at(), y)
        else:
            _rank_levels(m, m.y_at(), int(m.n_y - 1), y)
        if n_near * m.n_relation > 0:
            _rank_relation(m, y, n_near)


@always_inline
def _slope(total: float, n: float, variance: float, least: float) -> float:
    """Return the slope of a bet on a score with mean 0; `n` earlier scores have the sum `total`."""
    return max(min(total / (variance * (n + PRIOR)), STEEPEST), least)


@always_inline
def _excess(p: float, low: float) -> float:
    """Return a score of a rank with mean 0, which is large for ranks below `low`."""
    return (1.0 / low if p < low else 0.0) - 1.0


@link_by_name
def bet(m: Monitor, c: int, is_low: bool) -> float:
    """Bet on a channel's rank, or only on low ranks; return the evidence."""
    p, total, cell, edges = m.ranks[c], 0.0, 0, m.edges.part(N_EDGES * c, N_EDGES)
    for k in range(1, N_EDGES - 1):
        cell += 1 if edges[k] <= p else 0
    for r in range(N_MEMORIES):
        memory = m.memories.part(N_NUMBERS * (N_MEMORIES * c + r), N_NUMBERS)
        n = memory[0]
        if is_low:
            cell, third = 0, _excess(p, LOWEST)
            first, second, variance, least = 1.0 - 2.0 * p, _excess(p, LOW), 1.0 / LOW - 1.0, 0.0
            e3 = 1.0 + _slope(memory[3], n, 1.0 / LOWEST - 1.0, 0.0) * third
        else:
            first, second, variance, least = (
                2.0 * p - 1.0,
                6.0 * p * (p - 1.0) + 1.0,
                0.2,
                -STEEPEST,
            )
            third, size = 1.0, edges[cell + 1] - edges[cell]
            e3 = (memory[3 + cell] / size + PRIOR) / (n + PRIOR)
        e1 = 1.0 + _slope(memory[1], n, 1.0 / 3.0, least) * first
        e2 = 1.0 + _slope(memory[2], n, variance, least) * second
        for k in range(N_NUMBERS):
            memory[k] *= KEPT[r]
        memory[0] += 1.0
        memory[1] += first
        memory[2] += second
        memory[3 + cell] += third
        for b in range(3):
            k, e = N_BETTORS * c + 3 * r + b, e1 if b == 0 else (e2 if b == 1 else e3)
            m.evidence[k] = min((1.0 + m.evidence[k]) * e, MOST_EVIDENCE)
            total += m.evidence[k] / N_BETTORS
            if m.runs[k] <= 1.0:
                m.runs[k], m.starts[k] = 1.0, m.n_samples
            m.runs[k] = min(m.runs[k] * e, MOST_EVIDENCE)
    return total


@always_inline
def _bet_all(m: Monitor, kind: int, first: int, end: int) -> bool:
    """Bet on the ranks of a kind; return whether the largest evidence reaches the bar."""
    most = 0.0
    for c in range(first, end):
        if m.ranks[c] == m.ranks[c]:
            most = max(most, bet(m, c, kind == 2 and m.y_kind == LABEL))
    return most >= m.bars[kind]


@kernel
def learn(m: Monitor, y_kind: int, y: float, filled_y: float, n_new: int) -> int:
    """Learn the next sample, with `n_new` features that the reference lacks.

    `y` is a target, or the number of a label in the reference; `filled_y` has the number in the
    next reference. Returns DONE, or the index of an input that is too large. If an input is too
    large, nothing changes.
    """
    for j in range(m.n_inputs if m.phase == WATCHING else 0):
        if m.n_levels[j] == 0 and abs(m.vector[j]) > LARGEST:
            return j
    m.y_kind = y_kind if y_kind != UNKNOWN else m.y_kind
    m.n_samples += 1
    if (m.n_samples - 1) % m.spacing != 0:
        return DONE
    if m.phase != WATCHING and m.n_filled < m.capacity:
        m.filled_y[m.n_filled] = filled_y
        m.n_filled += 1
    if m.phase != FILLING:
        _rank_all(m, y, n_new)
        y_at, relation_at = m.y_at(), m.relation_at()
        is_alarm = _bet_all(m, 0, 0, y_at)
        # With `|`, all kinds bet.
        is_alarm |= _bet_all(m, 1, y_at, relation_at)
        is_alarm |= _bet_all(m, 2, relation_at, m.n_channels())
        if m.phase == WATCHING and is_alarm:
            m.phase, m.due, m.alarm_at = COLLECTING, ALARM, m.n_samples
        elif m.phase == COLLECTING and m.n_samples - m.alarm_at == N_COLLECTED * m.spacing:
            m.phase, m.due = FILLING, FINAL
    if m.phase == FILLING and m.due == NOTHING and m.n_filled == m.capacity:
        m.due = FULL
    return DONE


@batch_kernel
def score_reference(m: Monitor, out: rec.Float64s) -> int:
    """Write scores of each stored sample among the others: a row of `out` for each score.

    The scores are the dependence of each feature, and then the mean y of the neighbours.
    """
    n = int(m.n_held)
    for i in range(n):
        for j in range(m.n_inputs):
            m.row[j] = m.held[n * j + i]
        n_near = find_near(m, i)
        for j in range(m.n_inputs):
            out[n * j + i] = dependence(m, j)
        out[n * m.n_inputs + i] = _mean_y(m, n_near) if n_near > 0 else math.nan
    return DONE


def cuts_of(scores: rec.Floats) -> rec.Floats:
    """Return cuts at quantiles of scores; a frequent score has a separate bin."""
    known, found = np.sort(scores[~np.isnan(scores)]), np.full(N_CUTS, np.inf)
    if len(known):
        quantiles = known[np.arange(1, N_BINS) * len(known) // N_BINS]
        values, n = np.unique(quantiles, return_counts=True)
        # Next to 0 is a subnormal number, which NumPy may report as an underflow.
        with np.errstate(under="ignore"):
            both = np.sort(np.append(values, np.nextafter(values[n > 1], np.inf)))
        found[: len(both)] = both
    return found


def _scaling(column: rec.Floats) -> tuple[float, float, float]:
    """Return a feature's centre, 1 / standard deviation, and distance of two levels."""
    known = column[~np.isnan(column)]
    if known[0] >= LEAST_LEVEL:
        shares = np.unique(known, return_counts=True)[1] / len(known)
        different = 0.5 * max(1.0 - float((shares * shares).sum()), 1e-9)
        return 0.0, 0.0, min(1.0 / math.sqrt(different), CAP)
    centre, most = float(known.mean()), float(np.ptp(known)) or 1.0
    # Squares of numbers up to 1 are finite.
    deviation = most * float(((known - centre) / most).std())
    return centre, 1.0 / deviation if deviation > 0.0 else 1.0, 0.0


class MonitorTable(Learned[Monitor]):
    """The owner of a reference and of the next reference.

    A change that needs more than one call of a kernel is made in a copy. The copy then replaces the
    table.

    Parameters
    ----------
    bar
        The bar A of one channel.
    spacing, capacity, kinds
        The parameters `spacing`, `grace_period` and `kinds` of the monitor.

    """

    _KIND = Monitor
    # Values may be missing.
    _HAS_NAN = True
    _DERIVED = Learned._DERIVED | {"vector"}

    def __init__(self, bar: float, spacing: int, capacity: int, kinds: tuple[str, ...]) -> None:
        super().__init__(bar=bar, spacing=spacing, capacity=capacity)
        self.kinds = kinds
        # Features and numbers of labels of the reference and of the next reference.
        self.features, self.next_features = FeatureIndex(), FeatureIndex()
        self.labels: dict[Hashable, int] = {}
        self.next_labels: dict[Hashable, int] = {}
        self.show()

    def seed(self, seed: int | None) -> None:
        """Set the random state."""
        seeds = np.random.SeedSequence(seed, spawn_key=(ENTRY_DRAWS,))
        self.record.v_state = int(seeds.generate_state(1, np.uint64).view(np.int64)[0])

    def show(self, predicted: rec.Floats | None = None) -> None:
        """Set the record's references to its arrays."""
        super().show()
        self.vector = self.memory.arrays["vector"]

    def __getstate__(self) -> dict[str, Any]:
        # Rows that are not filled are only buffers.
        state, n = super().__getstate__(), int(self.record.n_filled)
        rows = {name: self.learned[name].copy() for name in ("filled", "filled_y")}
        for array in rows.values():
            array[n:] = 0.0
        return state | {"learned": self.learned | rows}

    def _check(self) -> None:
        indices = dict.fromkeys(("features", "next_features"), FeatureIndex)
        check_types(self, {"kinds": tuple, "labels": dict, "next_labels": dict, **indices})
        m, n_levels, y = self.record, self.learned["n_levels"], self.learned["held_y"]
        check_equal(self, m, n_inputs=len(self.features), width=len(self.next_features))
        check_equal(self, m, n_values=int((n_levels + 1).sum()))
        check_number(self, "n_filled", m.n_filled, 0, m.capacity)
        check_number(self, "n_labelled", m.n_labelled, 0, m.n_held)
        if not np.array_equal(self.learned["firsts"], _firsts(n_levels)):
            refuse(self, "firsts", self.learned["firsts"], "but the levels need other channels")
        if m.y_kind == LABEL and len(y) and not 0.0 <= y.min() <= y.max() <= max(m.n_y - 1, 0):
            refuse(self, "held_y", y, f"but there are {m.n_y} labels")

    def widened(self, new: Mapping[Hashable, float], labels: dict[Hashable, int]) -> Self:
        """Return a copy whose next reference has new features, and the given labels."""
        is_collecting, filled = self.record.phase == COLLECTING, self.learned["filled"]
        copies = {k: array.copy() for k, array in self.learned.items() if is_collecting}
        features = self.next_features.with_more(new)
        copies["filled"] = np.full((len(filled), len(features)), np.nan)
        copies["filled"][:, : filled.shape[1]] = filled
        made = self.changed(copies, next_features=features, next_labels=labels)
        made.record.width = len(features)
        made.vector[:] = self.vector
        return made

    @property
    def is_filling(self) -> bool:
        """Whether the next sample is a sample of the next reference."""
        m = self.record
        is_used = m.n_samples % m.spacing == 0
        return bool(m.phase != WATCHING and is_used and m.n_filled < m.capacity)

    def renewed(self) -> Self:
        """Return a table that replaces the reference by the next reference."""
        old = self.record
        made = type(self)(old.bar, old.spacing, old.capacity, self.kinds)
        for name in ("v_state", "y_kind", "n_samples", "alarm_at"):
            setattr(made.record, name, getattr(old, name))
        made.features, made.labels = self.next_features, self.next_labels
        y = self.learned["filled_y"]
        # Samples with a y come first.
        order = np.argsort(np.isnan(y), kind="stable")
        made._describe(self.learned["filled"][order], y[order])
        return made

    def _describe(self, rows: rec.Floats, y: rec.Floats) -> None:
        """Set the score functions by the samples of a reference."""
        m, (n, d), kinds = self.record, rows.shape, {*self.kinds}
        places, is_target = self.features.category_places, m.y_kind == TARGET
        found = {j: Counter(rows[:, j][~np.isnan(rows[:, j])].tolist()) for j in places}
        frequent = {j: own.most_common(MOST_LEVELS) for j, own in found.items()}
        levels = [[level for level, _ in frequent.get(j, ())] for j in range(d)]
        m.phase, m.n_held, m.n_inputs, m.n_labelled = WATCHING, n, d, int((~np.isnan(y)).sum())
        m.n_values = d + sum(map(len, levels))
        m.n_dependent = min(d, MOST_DEPENDENT) if d > 1 and "inputs" in kinds else 0
        if m.n_labelled and kinds != {"inputs"}:
            m.n_y = 1 if is_target else len(self.labels) + 1
            m.n_relation = 1 + is_target if "relation" in kinds else 0
        self.learned = known = self._zeros()
        self.show()
        known["n_levels"][:] = [len(own) for own in levels]
        known["firsts"][:] = _firsts(known["n_levels"])
        known["held_y"][:] = np.nan_to_num(y)
        for j, column in enumerate(rows.T):
            centre, rate, known["level_rates"][j] = _scaling(column)
            known["centres"][j], known["rates"][j] = centre, rate
            scaled = np.clip((column - centre) * rate, -LARGEST_SCALED, LARGEST_SCALED)
            known["held"][j] = column / LEAST_LEVEL - 1.0 if levels[j] else scaled
        scores = np.zeros((d + 1, n))
        score_reference(m, rec.Float64s.of(scores.ravel()))
        # The features that are predicted best by the neighbours. The mean number of neighbours with
        # another level is compared with that of random samples.
        errors, usual = (_mean_size(array) for array in (scores[:-1], known["held"]))
        usual[places] = 2.0 * N_NEAR / known["level_rates"][places] ** 2
        ratios = np.where(usual > 0.0, errors / np.maximum(usual, 1e-9), 1.0)
        known["dependent"][:] = np.sort(np.argsort(ratios, kind="stable")[: m.n_dependent])
        self._set_channels(rows, y, scores, levels)

    def _set_channels(
        self, rows: rec.Floats, y: rec.Floats, scores: rec.Floats, levels: list[list[float]]
    ) -> None:
        """Set the cuts, the levels, the edges of cells and the bars of all channels."""
        m, known, is_target = self.record, self.learned, self.record.y_kind == TARGET
        cuts, edges, relation_at = known["cuts"], known["edges"], m.relation_at()
        cuts[:] = np.pad(COUNT_CUTS, (0, N_CUTS - len(COUNT_CUTS)), constant_values=np.inf)
        edges[:] = EDGES
        columns = list(zip(rows.T, known["firsts"].tolist(), levels, strict=True))
        numbers = [] if is_target else [float(k) for k in range(m.n_y - 1)]
        columns += [(y, m.y_at(), numbers)] if m.n_y else []
        for column, first, own in columns:
            for c, level in enumerate(own, first):
                share = (column == level).sum() / (~np.isnan(column)).sum()
                # Ranks of this level are in the last cell of positive size.
                known["levels"][c] = level
                edges[c, 1:] = [1.0 - np.clip(share, 0.005, 0.995), *[1.0] * (N_EDGES - 2)]
            cuts[first] = cuts[first] if own else cuts_of(column)
        for c, j in enumerate(known["dependent"].tolist(), m.n_values):
            cuts[c] = cuts[c] if levels[j] else cuts_of(scores[j])
        if is_target and m.n_relation:
            errors = y - scores[-1]
            known["thirds"][:] = np.nanquantile(scores[-1], [1.0 / 3.0, 2.0 / 3.0])
            third = (known["thirds"] <= scores[-1][:, np.newaxis]).sum(axis=1)
            for k in range(3):
                cuts[relation_at + k] = cuts_of(errors[third == k])
                cuts[relation_at + 3 + k] = cuts_of(np.abs(errors[third == k]))
        sizes = np.array([m.y_at(), m.n_y, m.n_relation]) * [kind in self.kinds for kind in KINDS]
        bars = m.bar * sizes * (sizes > 0).sum()
        known["bars"][:] = np.where(sizes > 0, bars, np.inf)

    def _channels(self) -> list[tuple[int, Hashable, str]]:
        """Return the kind, the feature or label, and the way of change, of each channel."""
        m, names, known = self.record, self.features.names, self.learned
        pairs = zip(names, known["n_levels"].tolist(), strict=True)
        found: list[tuple[int, Hashable, str]]
        found = [(0, name, "values") for name, n in pairs for _ in range(n + 1)]
        found += [(0, names[j], "dependence") for j in known["dependent"].tolist()]
        found += [*((0, name, "presence") for name in names), (0, None, "new")]
        is_target = m.y_kind == TARGET
        own = [(1, "target", "values")] if is_target else [(1, y, "values") for y in self.labels]
        found += [*own, (1, None, "new")][: m.n_y]
        return found + [(2, None, "")] * m.n_relation

    def report(self, is_final: bool) -> tuple[Any, ...]:
        """Return the fields of the report of the latest alarm.

        The log evidence of a report is log(R / t), because the mean of R / t is 1 after t samples
        without a change.
        """
        m, known, found = self.record, self.learned, self.learned["evidence"]
        starts = known["starts"][np.arange(len(found)), found.argmax(axis=1)].tolist()
        t = known["counts"][m.y_at() - 1].sum()
        with np.errstate(divide="ignore"):
            logs, bars = np.log(found.mean(axis=1) / t), np.log(known["bars"] / t)
        channels, order = self._channels(), np.argsort(-logs, kind="stable").tolist()
        tops: dict[int, int] = {}
        for c in order:
            tops.setdefault(channels[c][0], c)
        excess = {kind: logs[c] - bars[kind] for kind, c in tops.items()}
        kinds = sorted(excess, key=lambda kind: -excess[kind])
        # Since the alarm, the evidence may have fallen below all bars. Then the first kind is kept.
        kinds = [kind for kind in kinds if excess[kind] >= 0.0 or kind == kinds[0]]
        new = self._new_names() if is_final else ([], [], [])
        named: tuple[dict[Hashable, int], ...] = {}, {}, {}
        for c in order:
            kind, name, how = channels[c]
            if kind in kinds and logs[c] >= max(0.5 * logs[tops[kind]], 0.0):
                for one in new[kind] if how == "new" else [name]:
                    named[kind].setdefault(one, c)
        features, labels, _ = named
        return (
            int(m.alarm_at),
            starts[tops[kinds[0]]],
            tuple(KINDS[kind] for kind in kinds),
            {name: float(logs[c]) for name, c in features.items()},
            {name: channels[c][2] for name, c in features.items()},
            {name: starts[c] for name, c in features.items()},
            {name: float(logs[c]) for name, c in labels.items()},
            is_final,
        )

    def _new_names(self) -> tuple[list[Hashable], ...]:
        """Return the most frequent features and labels that only the next reference has."""
        rows, y = self.learned["filled"], self.learned["filled_y"][: self.record.n_filled]
        present = (~np.isnan(rows[: self.record.n_filled])).sum(axis=0).tolist()
        features = zip(self.next_features.names, present, strict=True)
        labels = ((label, int((y == k).sum())) for label, k in self.next_labels.items())
        found = []
        for counts, known in ((features, self.features.places), (labels, self.labels)):
            new = Counter({name: n for name, n in counts if name not in known})
            most = new.most_common(MOST_NAMED)
            found.append([name for name, n in most if 2 * n >= most[0][1]])
        return *found, []


def _firsts(n_levels: rec.Ints) -> rec.Ints:
    """Return the first channel of each feature, which has one channel more than levels."""
    found: rec.Ints = np.cumsum(n_levels + 1) - (n_levels + 1)
    return found


def _mean_size(rows: rec.Floats) -> rec.Floats:
    """Return the mean absolute value of each row, without NaN; 0 for a row without values."""
    known = ~np.isnan(rows)
    found: rec.Floats = np.where(known, np.abs(rows), 0.0).sum(axis=1, dtype=np.float64)
    return found / np.maximum(known.sum(axis=1), 1)
