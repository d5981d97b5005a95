"""Changes of a stream, detected by bets against the exchangeability of its samples.

The first samples are stored: they are the *reference*. The reference determines score functions. A
*channel* is one score of each later sample: a value, the difference of a value from the values of
the nearest stored samples (dependence), whether a value is present, the number of features that the
reference lacks, a label or target, or the number of neighbours with the sample's label (relation).

Ranks. The cuts of a channel divide its scores into bins. After t samples, n_b scores were in bin b.
The rank of the next score, in bin b, is

    p = (sum_(a < b) n_a + V (n_b + 1)) / (t + 1),  V uniform.                                   (1)

If the samples are exchangeable, then the ranks of a channel are independent and uniform (Vovk,
Gammerman and Shafer 2005). All channels share the number V of a sample.

Bets. The factor e of a bettor is a density at p, which the bettor has chosen from earlier ranks.
For a uniform p the mean of e is 1. Let R <- (1 + R) e (Shiryaev and Roberts). Then R - t is a
martingale, also for the mean R of several bettors, which is the channel's *evidence*. So the
evidence reaches a bar B within t samples with a probability of at most t / B (Doob). A kind of
channels (inputs, labels, relation) raises an alarm if its largest evidence reaches A times the
number of its channels times the number of kinds. Then an alarm within t samples has a probability
of at most t / A.

After an alarm, the evidence of `N_COLLECTED` more samples is added. The next reference is filled
meanwhile. Levels of a category, and labels, have a channel each. The relation is ranked only
among samples whose neighbours have the same most frequent label, or a mean target in the same third
of the reference's means. So a change of the inputs alone hardly moves these ranks.

A channel for the presence of a feature has the same history as all others until the feature is
absent for the first time. Until then, one shared channel stands for it.
"""

import math
import warnings
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any, Self

import numpy as np

from ..arguments import ENTRY_DRAWS
from ..checks import check_number, check_types, refuse
from ..compiling.kernels import batch_kernel, inlined, kernel, separate
from ..elementary import mixed, state_after, uniform_of
from ..inputs import FeatureIndex
from ..limits import DONE, LARGEST, LARGEST_TARGET, LARGEST_WINDOW, LEAST_LEVEL
from ..records import (
    Bounds,
    Float32s,
    Float64,
    Float64s,
    Floats,
    Int32s,
    Int64,
    Int64s,
    Ints,
    Record,
    Singles,
    sized,
    stored,
    transient,
)
from .learned import Learned

KINDS = ("inputs", "labels", "relation")
# Phases of a monitor: it fills its reference, watches for a change, or collects evidence.
FILLING, WATCHING, COLLECTING = 0, 1, 2
# What Python has to do after a call: report an alarm, report its final version, or make a new
# reference from the filled one.
NOTHING, ALARM, FINAL, FULL = 0, 1, 2, 3
# The kinds of y.
UNKNOWN, LABEL, TARGET = 0, 1, 2

# Number of samples whose evidence is collected after an alarm.
N_COLLECTED = 200
# Largest numbers of features of a reference that is filled, of features with channels, of features
# with a channel for dependence, and of levels or labels with a channel.
MOST_FILLED, MOST_FEATURES, MOST_DEPENDENT, MOST_LEVELS = 4096, 1024, 64, 64
# Number of neighbours that predict a feature, and that predict y.
N_NEAR, N_VOTES = 3, 7
# Largest term of a distance, in standard deviations.
CAP = 6.0
N_CUTS = 31
N_BINS = N_CUTS + 1
# Cuts for counts: of features that the reference lacks, and of neighbours.
COUNT_CUTS = [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 7.5, 10.5, 15.5, 22.5, 31.5, 45.5, 63.5, 127.5, 255.5]

# Bettors: each remembers ranks for some number of samples. A memory is the number of ranks, two
# sums, and counts of ranks in cells, all discounted.
KEPT = (1.0 - 1.0 / 32.0, 1.0 - 1.0 / 128.0, 1.0 - 1.0 / 1024.0)
N_MEMORIES, N_BETS = 3, 3
N_BETTORS = N_MEMORIES * N_BETS
EDGES = [0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 1.0]
N_CELLS = 8
N_EDGES = N_CELLS + 1
N_NUMBERS = 3 + N_CELLS
# Number of uniform ranks that a memory holds at first, for the first two bets and for cells.
PRIOR, CELL_PRIOR = 4.0, 4.0
# Largest slope of a bet.
STEEPEST = 0.9
# One-sided bettors bet on ranks below these.
LOW, LOWEST = 0.3, 0.1
# Evidence above this is divided by this.
SCALE = 2.0**512
LONGEST_RUN = 1e300
# Bound of values in standard deviations.
LARGEST_SCALED = 1e30
# Largest number of new features, or labels, of a report.
MOST_NAMED = 10


class Monitor(Record):
    """A reference, and the ranks and the evidence of the samples since; the next reference."""

    # The parameters: the bar A of one channel, and the spacing. Random state of the numbers V.
    bar: Float64 = stored(Bounds(0.0))
    spacing: Int64 = stored(Bounds(1, LARGEST_WINDOW))
    v_state: Int64
    phase: Int64 = stored(Bounds(FILLING, COLLECTING))
    due: Int64 = stored(Bounds(NOTHING, FULL))
    y_kind: Int64 = stored(Bounds(UNKNOWN, TARGET))
    # Number of samples, of samples since the alarm, and the number of the alarm's sample.
    n_samples: Int64 = stored(Bounds(0))
    n_collected: Int64 = stored(Bounds(0, N_COLLECTED))
    alarm_at: Int64 = stored(Bounds(0))
    # The next reference: a row for each sample. Values of y are targets, or numbers of labels.
    capacity: Int64 = stored(Bounds(1, LARGEST_WINDOW))
    width: Int64 = stored(Bounds(0, 2 * MOST_FILLED))
    n_filled: Int64 = stored(Bounds(0, LARGEST_WINDOW))
    filled: Float64s = sized("capacity", "width")
    filled_y: Float64s = sized("capacity")
    # The reference, with a column for each feature, in standard deviations. Numbers of labels are
    # -1 if there is no y, and 0 for targets.
    n_held: Int64 = stored(Bounds(0, LARGEST_WINDOW))
    n_inputs: Int64 = stored(Bounds(0, MOST_FEATURES))
    held: Float32s = sized("n_inputs", "n_held")
    labels: Int64s = sized("n_held", bounds=Bounds(-1, MOST_LEVELS))
    targets: Float64s = sized("n_held", bounds=Bounds(-LARGEST_TARGET, LARGEST_TARGET))
    centres: Float64s = sized("n_inputs")
    rates: Float64s = sized("n_inputs")
    # Distance of two levels; 0 for numbers.
    level_rates: Float64s = sized("n_inputs")
    # Channels. First channel and number of levels of each feature; the features with a channel for
    # dependence; and the level of each channel.
    n_values: Int64 = stored(Bounds(0))
    n_dependent: Int64 = stored(Bounds(0, MOST_DEPENDENT))
    n_y: Int64 = stored(Bounds(0, MOST_LEVELS + 1))
    n_relation: Int64 = stored(Bounds(0, 2))
    firsts: Int64s = sized("n_inputs", bounds=Bounds(0, below="n_channels"))
    n_levels: Int64s = sized("n_inputs", bounds=Bounds(0, MOST_LEVELS))
    dependent: Int64s = sized("n_dependent", bounds=Bounds(0, below="n_inputs"))
    levels: Float64s = sized("n_channels")
    # Cuts and counts of bins. The relation has a row for each label or third, the other channels
    # have one row each.
    cuts: Float64s = sized("n_rows", N_CUTS)
    counts: Int32s = sized("n_rows", N_BINS, bounds=Bounds(0))
    thirds: Float64s = sized(2)
    # Edges of the cells in which ranks are counted, from 0 to 1.
    edges: Float64s = sized("n_channels", N_EDGES, bounds=Bounds(0.0, 1.0))
    # Whether each feature has been absent.
    is_apart: Int64s = sized("n_inputs", bounds=Bounds(0, 1))
    # The bar of each kind. For each bettor: R, its CUSUM, and the sample at which that began.
    bars: Float64s = sized(3, bounds=Bounds(0.0))
    evidence: Float64s = sized("n_channels", N_BETTORS, bounds=Bounds(0.0))
    runs: Float64s = sized("n_channels", N_BETTORS, bounds=Bounds(0.0))
    starts: Int64s = sized("n_channels", N_BETTORS, bounds=Bounds(0))
    memories: Float64s = sized("n_channels", N_MEMORIES, N_NUMBERS)
    # The number 1 of R <- (1 + R) e, and how often it has been divided by `SCALE`.
    ones: Float64s = sized("n_channels", bounds=Bounds(0.0, 1.0))
    n_scaled: Int64s = sized("n_channels", bounds=Bounds(0))
    # The next sample, in its own units and in standard deviations; V; ranks; distances; and the
    # nearest stored samples.
    vector: Float64s = transient("n_inputs")
    row: Float32s = transient("n_inputs")
    v: Float64 = transient()
    ranks: Float64s = transient("n_channels")
    distances: Float64s = transient("n_held")
    near: Int64s = transient(N_VOTES)
    near_distances: Float64s = transient(N_VOTES)
    candidates: Int64s = transient("n_held")
    n_candidates: Int64 = transient()

    def presence_at(self) -> int:
        """Return the channel of the presence of the first feature."""
        return self.n_values + self.n_dependent

    def y_at(self) -> int:
        """Return the first channel of y, after those of presence and of new features."""
        return self.presence_at() + self.n_inputs + 2

    def relation_at(self) -> int:
        """Return the first channel of the relation."""
        return self.y_at() + self.n_y

    def n_channels(self) -> int:
        """Return the number of channels."""
        return self.relation_at() + self.n_relation

    def n_rows(self) -> int:
        """Return the number of rows of counts."""
        return self.relation_at() + max(self.n_y, 6)


# Distances and neighbours.


@inlined
def _term(x: float, held: float, level_rate: float) -> float:
    """Return a feature's part of the distance of two samples; missing values are NaN."""
    if x != x:
        return 0.0 if held != held else 1.0
    if level_rate > 0.0:
        return 0.0 if held == x else level_rate
    gap = abs(x - held)
    # With `not`, the condition is true for NaN.
    return gap if gap <= CAP else (CAP if gap == gap else 1.0)


@inlined
def _insert(near: Int64s, distances: Float64s, n: int, most: int, i: int, distance: float) -> int:
    """Insert a stored sample into the `n` nearest so far, and return their new number."""
    k = n
    if n == most:
        if not distance < distances[n - 1]:
            return n
        k = n - 1
    while k > 0 and distance < distances[k - 1]:
        near[k], distances[k] = near[k - 1], distances[k - 1]
        k -= 1
    near[k], distances[k] = i, distance
    return min(n + 1, most)


@separate
def find_neighbors(m: Monitor, skipped: int) -> int:
    """Find the nearest stored samples with y, except `skipped`; return their number.

    The candidates are the stored samples that may be among the nearest if one feature is left out.
    """
    n = int(m.n_held)
    distances = m.distances
    for i in range(n):
        distances[i] = 0.0
    for j in range(m.n_inputs):
        x, rate, held = m.row[j], m.level_rates[j], m.held.part(n * j, n)
        for i in range(n):
            distances[i] += _term(x, held[i], rate)
    if skipped >= 0:
        distances[skipped] = math.inf
    n_near = 0
    for i in range(n):
        if m.labels[i] >= 0 and i != skipped:
            n_near = _insert(m.near, m.near_distances, n_near, N_VOTES, i, distances[i])
    most = m.near_distances[N_NEAR - 1] + CAP if n_near >= N_NEAR else LARGEST
    n_candidates = 0
    for i in range(n):
        if distances[i] <= most:
            m.candidates[n_candidates] = i
            n_candidates += 1
    m.n_candidates = n_candidates
    return n_near


@separate
def dependence(m: Monitor, j: int, most: float) -> float:
    """Return the difference of a value from the mean of the nearest samples in other features.

    For a category, return the number of these samples with the same level. NaN if there is none.
    If the nearest candidates are farther than `most`, all stored samples are candidates.
    """
    x, rate, held = m.row[j], m.level_rates[j], m.held.part(m.n_held * j, m.n_held)
    a = b = c = -1
    for is_last in range(2):
        first = second = third = math.inf
        a = b = c = -1
        for k in range(m.n_held if is_last else m.n_candidates):
            i = k if is_last else m.candidates[k]
            distance = m.distances[i] - _term(x, held[i], rate)
            if distance < third and held[i] == held[i]:
                third, c = distance, i
                if third < second:
                    second, third, b, c = third, second, c, b
                    if second < first:
                        first, second, a, b = second, first, b, a
        if third <= most:
            break
    if x != x or c < 0:
        return math.nan
    if rate > 0.0:
        return (held[a] == x) + (held[b] == x) + (held[c] == x) + 0.0
    return x - (held[a] + held[b] + held[c]) / N_NEAR


@inlined
def _mean_target(m: Monitor, n_near: int) -> float:
    total = 0.0
    for k in range(n_near):
        total += m.targets[m.near[k]]
    return total / n_near


# Ranks.


@separate
def rank(m: Monitor, channel: int, row: int, score: float) -> None:
    """Rank a score among the earlier scores in a row of counts (Equation 1), and count it."""
    b = 0
    for k in range(N_CUTS * row, N_CUTS * (row + 1)):
        b += 1 if m.cuts[k] <= score else 0
    below, total, place = 0, 0, N_BINS * row
    for k in range(N_BINS):
        n = m.counts[place + k]
        total += n
        below += n if k < b else 0
    m.ranks[channel] = (below + m.v * (m.counts[place + b] + 1.0)) / (total + 1.0)
    m.counts[place + b] += 1


@inlined
def _rank_levels(m: Monitor, first: int, n: int, value: float) -> None:
    """Rank whether a value equals each of `n` levels, and whether it is another level."""
    is_other = 1.0
    for c in range(first, first + n):
        is_same = 1.0 if m.levels[c] == value else 0.0
        is_other -= is_same
        rank(m, c, c, is_same)
    rank(m, first + n, first + n, is_other)


@inlined
def _copy_presence(m: Monitor, channel: int, shared: int) -> None:
    """Copy the history of a feature that has always been present."""
    for k in range(N_BINS):
        m.counts[N_BINS * channel + k] = m.counts[N_BINS * shared + k]
    for k in range(N_BETTORS):
        to, of = N_BETTORS * channel + k, N_BETTORS * shared + k
        m.evidence[to], m.runs[to], m.starts[to] = m.evidence[of], m.runs[of], m.starts[of]
    n = N_MEMORIES * N_NUMBERS
    for k in range(n):
        m.memories[n * channel + k] = m.memories[n * shared + k]
    m.ones[channel], m.n_scaled[channel] = m.ones[shared], m.n_scaled[shared]


@inlined
def _rank_inputs(m: Monitor, n_new: int) -> None:
    """Rank values, their presence, and the number of features that the reference lacks."""
    presence = m.presence_at()
    shared = presence + m.n_inputs
    for j in range(m.n_inputs):
        x, first = m.vector[j], m.firsts[j]
        if x != x and m.is_apart[j] == 0:
            _copy_presence(m, presence + j, shared)
            m.is_apart[j] = 1
        if m.is_apart[j] == 1:
            rank(m, presence + j, presence + j, 1.0 if x == x else 0.0)
        if x != x:
            continue
        if m.n_levels[j] > 0:
            _rank_levels(m, first, m.n_levels[j], x)
        else:
            rank(m, first, first, x)
    rank(m, shared, shared, 1.0)
    rank(m, shared + 1, shared + 1, float(n_new))


@inlined
def _scale(m: Monitor) -> None:
    """Write the next sample to `row`, in the units of the stored samples."""
    for j in range(m.n_inputs):
        x = m.vector[j]
        if m.level_rates[j] > 0.0:
            m.row[j] = x / LEAST_LEVEL - 1.0
        else:
            z = (x - m.centres[j]) * m.rates[j]
            m.row[j] = max(min(z, LARGEST_SCALED), -LARGEST_SCALED) if x == x else x


@inlined
def _rank_dependence(m: Monitor, n_near: int) -> None:
    most = m.near_distances[N_NEAR - 1] if n_near >= N_NEAR else -1.0
    for k in range(m.n_dependent):
        score, c = dependence(m, m.dependent[k], most), m.n_values + k
        if score == score:
            rank(m, c, c, score)


@inlined
def _votes_of(m: Monitor, label: int, n_near: int) -> int:
    """Return the number of neighbours with a label."""
    found = 0
    for k in range(n_near):
        found += 1 if m.labels[m.near[k]] == label else 0
    return found


@inlined
def _rank_relation(m: Monitor, y: float, n_near: int) -> None:
    """Rank votes for a label, or the difference of a target from the mean of its neighbours."""
    c = m.relation_at()
    if m.y_kind == TARGET:
        mean = _mean_target(m, n_near)
        third = (1 if m.thirds[0] <= mean else 0) + (1 if m.thirds[1] <= mean else 0)
        rank(m, c, c + third, y - mean)
        rank(m, c + 1, c + 3 + third, abs(y - mean))
    elif y < m.n_y - 1.0:
        usual, most = 0, 0
        for k in range(n_near):
            n = _votes_of(m, m.labels[m.near[k]], n_near)
            if n > most:
                usual, most = m.labels[m.near[k]], n
        rank(m, c, c + usual, float(_votes_of(m, int(y), n_near)))


# Bets.


@inlined
def _slope(total: float, n: float, variance: float, least: float) -> float:
    """Return the slope of a bet on a score with mean 0, of which `n` scores had a sum `total`."""
    return max(min(total / (variance * (n + PRIOR)), STEEPEST), least)


@separate
def bet(m: Monitor, c: int, is_low: bool) -> float:
    """Let a channel's bettors bet on its rank; return the evidence.

    If `is_low`, they bet on low ranks only.
    """
    p, one, total = m.ranks[c], m.ones[c], 0.0
    cell = 0
    edges = m.edges.part(N_EDGES * c, N_EDGES)
    for k in range(1, N_CELLS):
        cell += 1 if edges[k] <= p else 0
    for r in range(N_MEMORIES):
        memory = m.memories.part(N_NUMBERS * (N_MEMORIES * c + r), N_NUMBERS)
        n = memory[0]
        if is_low:
            first, second = 1.0 - 2.0 * p, (1.0 / LOW if p < LOW else 0.0) - 1.0
            third = (1.0 / LOWEST if p < LOWEST else 0.0) - 1.0
            e0 = 1.0 + _slope(memory[1], n, 1.0 / 3.0, 0.0) * first
            e1 = 1.0 + _slope(memory[2], n, 1.0 / LOW - 1.0, 0.0) * second
            e2 = 1.0 + _slope(memory[3], n, 1.0 / LOWEST - 1.0, 0.0) * third
        else:
            first, second, third = 2.0 * p - 1.0, 6.0 * p * (p - 1.0) + 1.0, 0.0
            e0 = 1.0 + _slope(memory[1], n, 1.0 / 3.0, -STEEPEST) * first
            e1 = 1.0 + _slope(memory[2], n, 1.0 / 5.0, -STEEPEST) * second
            size = edges[cell + 1] - edges[cell]
            e2 = (memory[3 + cell] / size + CELL_PRIOR) / (n + CELL_PRIOR)
        for k in range(N_NUMBERS):
            memory[k] *= KEPT[r]
        memory[0] += 1.0
        memory[1] += first
        memory[2] += second
        if is_low:
            memory[3] += third
        else:
            memory[3 + cell] += 1.0
        for b in range(N_BETS):
            k, e = N_BETTORS * c + N_BETS * r + b, e0 if b == 0 else (e1 if b == 1 else e2)
            m.evidence[k] = (one + m.evidence[k]) * e
            total += m.evidence[k]
            if m.runs[k] <= 1.0:
                m.runs[k], m.starts[k] = 1.0, m.n_samples
            m.runs[k] = min(m.runs[k] * e, LONGEST_RUN)
    if total > SCALE:
        m.ones[c] = one / SCALE
        m.n_scaled[c] += 1
        for k in range(N_BETTORS * c, N_BETTORS * (c + 1)):
            m.evidence[k] /= SCALE
    return total / N_BETTORS


@inlined
def _bet_all(m: Monitor, kind: int, first: int, end: int) -> bool:
    """Let the bettors of a kind bet; return whether its evidence reaches its bar."""
    is_low = kind == 2 and m.y_kind == LABEL
    most = 0.0
    for c in range(first, end):
        if m.ranks[c] == m.ranks[c]:
            most = max(most, bet(m, c, is_low))
    return most >= m.bars[kind]


@kernel
def learn(m: Monitor, y_kind: int, y: float, filled_y: float, n_new: int) -> int:
    """Learn the next sample, with `n_new` features that the reference lacks.

    `y` is a target or the number of a label in the reference, and `filled_y` in the next reference.
    Returns DONE, or the index of an input that is too large, and then nothing changes.
    """
    for j in range(m.n_inputs if m.phase == WATCHING else 0):
        if m.n_levels[j] == 0 and abs(m.vector[j]) > LARGEST:
            return j
    m.y_kind = y_kind if y_kind != UNKNOWN else m.y_kind
    m.n_samples += 1
    if (m.n_samples - 1) % m.spacing != 0:
        return DONE
    is_filling = m.phase != WATCHING
    if m.phase != FILLING:
        m.v = uniform_of(mixed(state_after(m.v_state, m.n_samples)))
        for c in range(m.n_channels()):
            m.ranks[c] = math.nan
        n_near = 0
        if m.n_dependent + m.n_relation > 0:
            _scale(m)
            n_near = find_neighbors(m, -1)
        _rank_inputs(m, n_new)
        _rank_dependence(m, n_near)
        if y == y and m.n_y > 0:
            if m.y_kind == TARGET:
                rank(m, m.y_at(), m.y_at(), y)
            else:
                _rank_levels(m, m.y_at(), int(m.n_y - 1), y)
            if n_near > 0 and m.n_relation > 0:
                _rank_relation(m, y, n_near)
        y_at, relation_at = m.y_at(), m.relation_at()
        is_alarm = _bet_all(m, 0, 0, y_at)
        # With `|`, all kinds bet.
        is_alarm |= _bet_all(m, 1, y_at, relation_at)
        is_alarm |= _bet_all(m, 2, relation_at, m.n_channels())
        if m.phase == COLLECTING:
            m.n_collected += 1
            if m.n_collected == N_COLLECTED:
                m.phase, m.due = FILLING, FINAL
        elif is_alarm:
            m.phase, m.due, m.n_collected, m.alarm_at = COLLECTING, ALARM, 0, m.n_samples
    if is_filling and m.n_filled < m.capacity:
        m.filled_y[m.n_filled] = filled_y
        m.n_filled += 1
    if m.phase == FILLING and m.due == NOTHING and m.n_filled == m.capacity:
        m.due = FULL
    return DONE


@batch_kernel
def score_reference(m: Monitor, out: Float64s) -> int:
    """Write the scores of each stored sample among the others, one row of `out` per score.

    The scores are the dependence of each feature, and then the mean target of the neighbours.
    """
    n = int(m.n_held)
    for i in range(n):
        for j in range(m.n_inputs):
            m.row[j] = m.held[n * j + i]
        n_near = find_neighbors(m, i)
        most = m.near_distances[N_NEAR - 1] if n_near >= N_NEAR else -1.0
        for j in range(m.n_inputs):
            out[n * j + i] = dependence(m, j, most)
        out[n * m.n_inputs + i] = _mean_target(m, n_near) if n_near > 0 else math.nan
    return DONE


# The owner of a monitor.


def cuts_of(scores: Floats) -> Floats:
    """Return cuts at quantiles of scores; a frequent score has a bin of its own."""
    known = np.sort(scores[~np.isnan(scores)])
    found = np.full(N_CUTS, np.inf)
    if len(known):
        quantiles = known[np.arange(1, N_BINS) * len(known) // N_BINS]
        values, counts = np.unique(quantiles, return_counts=True)
        both = np.sort(np.append(values, np.nextafter(values[counts > 1], np.inf)))
        found[: len(both)] = both
    return found


class MonitorTable(Learned[Monitor]):
    """The owner of a reference, and of the next reference.

    A change that needs more than one call of a kernel is made in a copy, which then replaces the
    table.

    Parameters
    ----------
    every, spacing, grace_period
        The parameters of the monitor.
    kinds
        The kinds of changes that raise an alarm.
    seed
        Random seed.

    """

    _KIND = Monitor
    # Values may be missing.
    _HAS_NAN = True
    _DERIVED = Learned._DERIVED | {"vector", "strange"}

    def __init__(
        self, every: float, spacing: int, grace_period: int, kinds: tuple[str, ...], seed: int | None
    ) -> None:
        super().__init__(bar=every / spacing, spacing=spacing, capacity=grace_period)
        seeds = np.random.SeedSequence(seed, spawn_key=(ENTRY_DRAWS,))
        self.record.v_state = int(seeds.generate_state(1, np.uint64).view(np.int64)[0])
        self.kinds = kinds
        # Features and labels of the reference, and of the next reference. A label is mapped to its
        # number.
        self.features = self.next_features = FeatureIndex()
        self.labels: dict[Hashable, int] = {}
        self.next_labels: dict[Hashable, int] = {}
        self.show()

    def show(self, predicted: Floats | None = None) -> None:
        """Set the record's references to its arrays."""
        super().show()
        # The next sample, and those of its features and labels that the reference lacks.
        self.vector = self.memory.arrays["vector"]
        self.strange: tuple[list[Hashable], list[Hashable]] = [], []

    def __getstate__(self) -> dict[str, Any]:
        # Rows that are not filled are only buffers.
        state, n = super().__getstate__(), int(self.record.n_filled)
        state["learned"] = learned = dict(self.learned)
        for name in ("filled", "filled_y"):
            learned[name] = learned[name].copy()
            learned[name][n:] = 0.0
        return state

    def _check(self) -> None:
        check_types(self, {"kinds": tuple, "labels": dict, "next_labels": dict})
        check_types(self, {"features": FeatureIndex, "next_features": FeatureIndex})
        m, n_levels = self.record, self.learned["n_levels"]
        check_number(self, "n_inputs", m.n_inputs, len(self.features), len(self.features))
        check_number(self, "width", m.width, len(self.next_features), 2 * MOST_FILLED)
        check_number(self, "n_filled", m.n_filled, 0, m.capacity)
        if not np.array_equal(self.learned["firsts"], _firsts(n_levels)):
            refuse(self, "firsts", self.learned["firsts"], "but the levels need other channels")
        check_number(self, "n_values", m.n_values, *[int((n_levels + 1).sum())] * 2)

    def learn(self, y_kind: int, y: float, filled_y: float, n_new: int) -> int:
        """Learn the sample in `vector` and in the next row of `filled`."""
        return learn(self.record, y_kind, y, filled_y, n_new)

    @property
    def next_row(self) -> Floats:
        """The next row of the reference that is filled; empty if it is full."""
        row: Floats = self.learned["filled"][int(self.record.n_filled) :][:1].ravel()
        return row

    def widened(self, new: Mapping[Hashable, float], label: Hashable) -> Self:
        """Return a copy whose next reference has new features and a new label."""
        features, labels = self.next_features.with_more(new), self.next_labels
        if label is not None and label not in labels:
            labels = {**labels, label: len(labels)}
        is_collecting = self.record.phase == COLLECTING
        copies = {k: v.copy() for k, v in self.learned.items() if is_collecting and k != "filled"}
        made = self.changed(copies, next_features=features, next_labels=labels)
        if len(features) > made.record.width:
            filled = self.learned["filled"]
            made.record.width = 1 << (len(features) - 1).bit_length()
            wider = np.full((len(filled), int(made.record.width)), np.nan)
            wider[:, : filled.shape[1]] = filled
            made.learned["filled"] = wider
        made.show()
        return made

    # A new reference.

    def renewed(self) -> Self:
        """Return a table whose reference is the one that has been filled."""
        old, index = self.record, self.next_features
        made = type(self)(1.0, int(old.spacing), int(old.capacity), self.kinds, 0)
        for name in ("bar", "v_state", "y_kind", "n_samples", "alarm_at"):
            setattr(made.record, name, getattr(old, name))
        rows, y = self.learned["filled"][:, : len(index)], self.learned["filled_y"]
        # The features that most samples have.
        n_present = (~np.isnan(rows)).sum(axis=0)
        kept = np.sort(np.argsort(-n_present, kind="stable")[:MOST_FEATURES])
        kept = kept[n_present[kept] > 0]
        rows, values = rows[:, kept], np.nanmax(rows[:, kept], axis=0, initial=-np.inf)
        firsts = {index.names[j]: v for j, v in zip(kept.tolist(), values.tolist(), strict=True)}
        made.features = made.next_features = FeatureIndex().with_more(firsts)
        names, y_known = list(self.next_labels), y[~np.isnan(y)]
        if old.y_kind == LABEL:
            most = Counter(y_known.tolist()).most_common(MOST_LEVELS)
            made.labels = {names[int(k)]: i for i, (k, _) in enumerate(most)}
            numbers = np.array([made.labels.get(name, len(most)) for name in names] + [-1])
            y = numbers[np.where(np.isnan(y), -1, y).astype(np.int64)].astype(np.float64)
            y[y < 0.0] = np.nan
        made._describe(rows, y)
        return made

    def _describe(self, rows: Floats, y: Floats) -> None:
        """Set the score functions by the samples of the reference."""
        m, n, d = self.record, *rows.shape
        m.phase, m.n_held, m.n_inputs, m.width = WATCHING, n, d, d
        is_category = np.isin(np.arange(d), self.features.category_places)
        levels = [_frequent(rows[:, j]) if is_category[j] else [] for j in range(d)]
        n_levels = np.array([len(found) for found in levels], np.int64)
        m.n_values = int((n_levels + 1).sum())
        has_y, is_target = ~np.isnan(y), m.y_kind == TARGET
        if has_y.any() and {"labels", "relation"} & {*self.kinds}:
            m.n_y = 1 if is_target else len(self.labels) + 1
            m.n_relation = (2 if is_target else 1) if "relation" in self.kinds else 0
        centres, rates, level_rates = np.array([_scaling(rows[:, j]) for j in range(d)]).reshape(d, 3).T
        scaled = np.clip((rows - centres) * rates, -LARGEST_SCALED, LARGEST_SCALED)
        held = np.where(is_category, rows / LEAST_LEVEL - 1.0, scaled).astype(np.float32)
        known_y = np.nan_to_num(y)
        reference = {
            "held": np.ascontiguousarray(held.T),
            "labels": np.where(has_y | ~has_y.any(), 0 if is_target else known_y, -1).astype(np.int64),
            "targets": known_y,
            "centres": centres.copy(),
            "rates": rates.copy(),
            "level_rates": level_rates.copy(),
            "n_levels": n_levels,
            "firsts": _firsts(n_levels),
        }
        self.learned = self._zeros() | reference
        self.show()
        scores = np.zeros((d + 1, n))
        score_reference(m, Float64s.of(scores.ravel()))
        dependent = self._dependent(held, scores)
        m.n_dependent = len(dependent)
        self.learned = self._zeros() | reference | {"dependent": dependent}
        self._cut(rows, y, scores, levels)
        self.show()

    def _dependent(self, held: Singles, scores: Floats) -> Ints:
        """Return the features that are predicted best by the nearest samples in other features."""
        if "inputs" not in self.kinds or held.shape[1] < 2:
            return np.zeros(0, np.int64)
        with warnings.catch_warnings():
            # A feature may have no values to compare.
            warnings.simplefilter("ignore", RuntimeWarning)
            errors = np.nanmean(np.abs(scores[:-1]), axis=1)
            usual = np.nanmean(np.abs(held - np.nanmean(held, axis=0)), axis=0)
        for j in self.features.category_places:
            shares = np.unique(held[:, j], return_counts=True)[1] / len(held)
            errors[j], usual[j] = 1.0 - errors[j] / N_NEAR, 1.0 - (shares * shares).sum()
        ratios = np.nan_to_num(errors / np.maximum(usual, 1e-9), nan=np.inf)
        return np.sort(np.argsort(ratios, kind="stable")[:MOST_DEPENDENT])

    def _cut(self, rows: Floats, y: Floats, scores: Floats, levels: list[list[float]]) -> None:
        """Set the cuts, the levels and the bars of all channels."""
        m, known = self.record, self.learned
        known["ones"][:] = 1.0
        known["edges"][:] = EDGES
        cuts, firsts, is_number = known["cuts"], known["firsts"], known["n_levels"] == 0
        cuts[:] = np.pad(COUNT_CUTS, (0, N_CUTS - len(COUNT_CUTS)), constant_values=np.inf)
        for j, found in enumerate(levels):
            known["levels"][firsts[j] : firsts[j] + len(found)] = found
            for k, level in enumerate(found):
                known["edges"][firsts[j] + k] = _edges_of((rows[:, j] == level).mean())
            if is_number[j]:
                cuts[firsts[j]] = cuts_of(rows[:, j])
        for k, j in enumerate(known["dependent"].tolist()):
            if is_number[j]:
                cuts[m.n_values + k] = cuts_of(scores[j])
        at, y_at = m.relation_at(), m.y_at()
        if m.y_kind == TARGET:
            if m.n_y:
                cuts[y_at] = cuts_of(y)
            errors = y - scores[-1]
            known["thirds"][:] = np.nanquantile(scores[-1], [1 / 3, 2 / 3]) if m.n_relation else 0.0
            third = (known["thirds"] <= scores[-1][:, None]).sum(axis=1)
            for k in range(3 if m.n_relation else 0):
                cuts[at + k] = cuts_of(errors[third == k])
                cuts[at + 3 + k] = cuts_of(np.abs(errors[third == k]))
        else:
            known["levels"][y_at:at] = np.arange(at - y_at)
            for k in range(at - y_at):
                known["edges"][y_at + k] = _edges_of((y == k).mean())
        sizes = {"inputs": y_at, "labels": at - y_at, "relation": m.n_channels() - at}
        n_kinds = sum(sizes[kind] > 0 for kind in self.kinds)
        for k, kind in enumerate(KINDS):
            is_chosen = kind in self.kinds and sizes[kind] > 0
            known["bars"][k] = m.bar * sizes[kind] * n_kinds if is_chosen else np.inf

    # Reports.

    def report(self, is_final: bool) -> tuple[Any, ...]:
        """Return the fields of the report of the latest alarm.

        The log evidence of a report is log(R / t), because the mean of R / t is 1 after t samples
        without a change.
        """
        m, found = self.record, self.learned["evidence"]
        starts = self.learned["starts"][np.arange(len(found)), found.argmax(axis=1)]
        with np.errstate(divide="ignore"):
            logs = np.log(found.mean(axis=1)) + self.learned["n_scaled"] * math.log(SCALE)
        ends, tops = [0, m.y_at(), m.relation_at(), m.n_channels()], {}
        for k, kind in enumerate(KINDS):
            excess = logs[ends[k] : ends[k + 1]] - math.log(self.learned["bars"][k])
            if len(excess):
                tops[kind] = float(excess.max()), ends[k] + int(excess.argmax())
        order = sorted(tops, key=lambda kind: -tops[kind][0])
        # Since the alarm, the evidence may have fallen below all bars. Then the first kind is kept.
        kinds = tuple(kind for kind in order if tops[kind][0] >= 0.0 or kind == order[0])
        logs -= math.log(self.learned["counts"][m.y_at() - 2].sum())
        new, new_labels = self._new_names() if is_final else self.strange
        inputs = self._channels_of_inputs(new) if "inputs" in kinds else []
        outputs = self._channels_of_y(new_labels) if "labels" in kinds else []
        features, labels = (_strongest(channels, logs) for channels in (inputs, outputs))
        return (
            int(m.alarm_at),
            int(starts[tops[kinds[0]][1]]),
            kinds,
            {name: float(logs[c]) for name, (_, c) in features.items()},
            {name: how for name, (how, _) in features.items()},
            {name: int(starts[c]) for name, (_, c) in features.items()},
            {name: float(logs[c]) for name, (_, c) in labels.items()},
            is_final,
        )

    def _channels_of_y(self, new: list[Hashable]) -> list[tuple[Hashable, str, int]]:
        """Return the labels of the reference and new labels, with the numbers of channels."""
        m = self.record
        names = list(self.labels) if m.y_kind == LABEL else ["target"]
        found = [(name, "values", m.y_at() + k) for k, name in enumerate(names)]
        return found + [(name, "new", m.relation_at() - 1) for name in new]

    def _channels_of_inputs(self, new: list[Hashable]) -> list[tuple[Hashable, str, int]]:
        """Return the features of the reference and new features, with the names of channels."""
        m, names, found = self.record, self.features.names, []
        presence = m.presence_at()
        shared = presence + len(names)
        for j, name in enumerate(names):
            first, n = int(self.learned["firsts"][j]), int(self.learned["n_levels"][j])
            found += [(name, "values", first + k) for k in range(n + 1)]
            is_apart = self.learned["is_apart"][j] == 1
            found.append((name, "presence", presence + j if is_apart else shared))
        for k, j in enumerate(self.learned["dependent"].tolist()):
            found.append((names[j], "dependence", m.n_values + k))
        return found + [(name, "new", shared + 1) for name in new]

    def _new_names(self) -> tuple[list[Hashable], list[Hashable]]:
        """Return the most frequent new features and labels of the next reference."""
        n, index = int(self.record.n_filled), self.next_features
        counts = (~np.isnan(self.learned["filled"][:n, : len(index)])).sum(axis=0).tolist()
        features = {
            name: k for name, k in zip(index.names, counts, strict=True) if name not in self.features.places
        }
        labels = Counter(self.learned["filled_y"][:n].tolist())
        new = {
            name: labels[k] for name, k in self.next_labels.items() if name not in self.labels
        }
        return _most_frequent(features), _most_frequent(new)


def _edges_of(share: float) -> Floats:
    """Return the edges for a level with a share of the samples: ranks of the level are a cell."""
    return np.array([0.0, 1.0 - min(max(share, 0.005), 0.995)] + [1.0] * (N_CELLS - 1))


def _firsts(n_levels: Ints) -> Ints:
    """Return the first channel of each feature: numbers have one, and categories one more."""
    found: Ints = np.cumsum(n_levels + 1) - (n_levels + 1)
    return found


def _frequent(column: Floats) -> list[float]:
    """Return the most frequent levels of a category."""
    known = column[~np.isnan(column)].tolist()
    return [level for level, _ in Counter(known).most_common(MOST_LEVELS)]


def _most_frequent(counts: dict[Hashable, int]) -> list[Hashable]:
    """Return the names with at least half of the largest count, at most `MOST_NAMED`."""
    most = max(counts.values(), default=0)
    found = sorted((name for name in counts if 2 * counts[name] >= max(most, 1)), key=lambda name: -counts[name])
    return found[:MOST_NAMED]


def _scaling(column: Floats) -> tuple[float, float, float]:
    """Return the centre, the rate and the distance of two levels of a feature."""
    known = column[~np.isnan(column)]
    if len(known) and known[0] >= LEAST_LEVEL:
        shares = np.unique(known, return_counts=True)[1] / len(known)
        different = max(1.0 - float((shares * shares).sum()), 1e-9)
        return 0.0, 0.0, min(1.0 / math.sqrt(0.5 * different), CAP)
    # The largest gap is divided out, so that squares are finite.
    centre = float(known.mean())
    gaps = np.abs(known - centre)
    most = float(gaps.max()) or 1.0
    deviation = most * math.sqrt(float(np.mean((gaps / most) ** 2)))
    return centre, 1.0 / deviation if deviation > 0.0 else 1.0, 0.0


def _strongest(
    found: list[tuple[Hashable, str, int]], logs: Floats
) -> dict[Hashable, tuple[str, int]]:
    """Return each name's strongest channel, largest first, if it has half of the largest evidence."""
    best: dict[Hashable, tuple[str, int]] = {}
    for name, how, c in sorted(found, key=lambda one: -logs[one[2]]):
        best.setdefault(name, (how, c))
    least = 0.5 * max((logs[c] for _, c in best.values()), default=0.0)
    return {name: own for name, own in best.items() if logs[own[1]] >= max(least, 0.0)}
