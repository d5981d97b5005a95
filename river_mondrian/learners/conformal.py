"""Changes of a stream, detected by bets against the exchangeability of its samples.

The first samples are stored as the *reference*, which determines score functions. A *channel* is
one score of each later sample. The channels of the inputs are:

- a value; for a category, an indicator of each of the `MOST_LEVELS` most frequent levels, and an
  indicator of all other levels;
- dependence: a value minus its mean over the `N_NEAR` stored samples that are nearest in the other
  features; for a category, the number of these samples with another level;
- presence: whether the feature has a value;
- the number of features that the reference lacks.

The channels of y are its labels, like the levels of a category, or its value if y is a target. The
channel of the relation of y to the inputs counts the samples with the same label among the
`N_VOTES` nearest stored samples. For a target, the relation has two channels: the target minus the
mean target of these samples, and the absolute value of this difference.

Ranks. The cuts of a channel divide its scores into bins. After t samples, n_b scores were in bin b.
The rank of the next score, in bin b, is

    p = (sum_(a < b) n_a + V (n_b + 1)) / (t + 1),  V uniform.                                   (1)

If samples are exchangeable, then the ranks of a channel are independent and uniform (Vovk,
Gammerman and Shafer 2005). The channels share the number V of a sample. The relation is ranked only
among samples whose neighbours have the same most frequent label. For a target, the neighbours' mean
must be in the same third of the reference's means. So a change of only the inputs hardly moves
these ranks.

Bets. From earlier ranks, a bettor chooses a density. Its factor e is this density at p, so the mean
of e is 1 for a uniform p. Let R <- (1 + R) e (Shiryaev and Roberts). Then R - t is a martingale.
The *evidence* of a channel is the mean R of its bettors. The evidence reaches B within t samples
with a probability of at most t / B (Doob). Let a kind of changes (inputs, labels, relation) have c
channels. The kind raises an alarm if the evidence of a channel reaches A times c times the number
of kinds. So an alarm within t samples has a probability of at most t / A.

After an alarm, the monitor collects more evidence, and fills the next reference meanwhile.
"""

import math

from .. import records as rec
from ..compiling.kernels import always_inline, batch_kernel, kernel, link_by_name
from ..elementary import mixed, state_after, uniform_of
from ..limits import DONE, LARGEST, LARGEST_TARGET, LARGEST_WINDOW, LEAST_LEVEL

CHANGES = ("inputs", "labels", "relation")
# Phases: the monitor fills its reference, watches for a change, or collects evidence.
FILLING, WATCHING, COLLECTING = 0, 1, 2
# Pending work after a call of the kernel: report an alarm, report its final version, or renew the
# reference.
NO_WORK, ALARM, FINAL, FULL = 0, 1, 2, 3
# Kinds of y.
UNKNOWN_Y, LABEL, TARGET = 0, 1, 2

# Number of samples whose evidence is collected after an alarm.
N_COLLECTED = 200
# Largest numbers of features in a reference, of features with a channel for dependence, and of
# levels or labels with a channel.
MOST_WATCHED, MOST_DEPENDENT, MOST_LEVELS = 1024, 64, 64
# Number of neighbours that predict a feature, and that predict y.
N_NEAR, N_VOTES = 3, 7
# Largest term of a distance, and largest value, in standard deviations.
LARGEST_TERM, LARGEST_SCALED = 6.0, 1e30
# Numbers of cuts and bins.
N_CUTS, N_BINS = 31, 32

# A memory stores the number of earlier ranks, sums of two scores, and counts of ranks in cells. The
# factors `DISCOUNTS` discount all of these. Three bettors use each memory.
DISCOUNTS = (1.0 - 1.0 / 32.0, 1.0 - 1.0 / 128.0, 1.0 - 1.0 / 1024.0)
N_RANK_MEMORIES, N_BETTORS = 3, 9
EDGES = [0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 1.0]
N_EDGES = len(EDGES)
N_NUMBERS = 2 + N_EDGES
# A memory begins with this number of uniform ranks.
PRIOR_RANKS = 4.0
# Largest slope of a bet. Two bounds below which ranks are low.
STEEPEST, LOW, LOWEST_RANK = 0.9, 0.3, 0.1
MOST_EVIDENCE = 1e300


class Monitor(rec.Record):
    """A reference, the ranks and bets of later samples, and the next reference."""

    # The factor A of the evidence that raises an alarm. One sample in `spacing` is used. Random
    # state of the numbers V.
    bar: rec.Float64 = rec.stored(rec.Bounds(0.0))
    spacing: rec.Int64 = rec.stored(rec.Bounds(1, LARGEST_WINDOW))
    v_state: rec.Int64
    phase: rec.Int64 = rec.stored(rec.Bounds(FILLING, COLLECTING))
    due: rec.Int64 = rec.stored(rec.Bounds(NO_WORK, FULL))
    y_kind: rec.Int64 = rec.stored(rec.Bounds(UNKNOWN_Y, TARGET))
    # Number of samples, and number of the sample that raised the latest alarm.
    n_samples: rec.Int64 = rec.stored(rec.Bounds(0))
    alarm_at: rec.Int64 = rec.stored(rec.Bounds(0))
    # The next reference: a row for each sample. A y is a target, or the number of a label.
    capacity: rec.Int64 = rec.stored(rec.Bounds(1, LARGEST_WINDOW))
    width: rec.Int64 = rec.stored(rec.Bounds(0, MOST_WATCHED))
    n_filled: rec.Int64 = rec.stored(rec.Bounds(0, LARGEST_WINDOW))
    filled: rec.Float64s = rec.sized("capacity", "width")
    filled_y: rec.Float64s = rec.sized("capacity")
    # The reference, with a column for each feature, in standard deviations. The first `n_labelled`
    # samples have a y. `level_rates` has the distance of two levels, and 0 for numeric features.
    n_held: rec.Int64 = rec.stored(rec.Bounds(0, LARGEST_WINDOW))
    n_labelled: rec.Int64 = rec.stored(rec.Bounds(0, LARGEST_WINDOW))
    n_inputs: rec.Int64 = rec.stored(rec.Bounds(0, MOST_WATCHED))
    held: rec.Float32s = rec.sized("n_inputs", "n_held")
    held_y: rec.Float64s = rec.sized("n_held", bounds=rec.Bounds(-LARGEST_TARGET, LARGEST_TARGET))
    centres: rec.Float64s = rec.sized("n_inputs")
    rates: rec.Float64s = rec.sized("n_inputs")
    level_rates: rec.Float64s = rec.sized("n_inputs")
    # Numbers of channels. For each feature: the first channel of its values, and the number of its
    # levels. The features with a channel for dependence. The level of each channel.
    n_values: rec.Int64 = rec.stored(rec.Bounds(0))
    n_dependent: rec.Int64 = rec.stored(rec.Bounds(0, MOST_DEPENDENT))
    n_y: rec.Int64 = rec.stored(rec.Bounds(0, MOST_LEVELS + 1))
    n_relation: rec.Int64 = rec.stored(rec.Bounds(0, 2))
    firsts: rec.Int64s = rec.sized("n_inputs")
    n_levels: rec.Int64s = rec.sized("n_inputs", bounds=rec.Bounds(0, MOST_LEVELS))
    dependent: rec.Int64s = rec.sized("n_dependent", bounds=rec.Bounds(0, below="n_inputs"))
    levels: rec.Float64s = rec.sized("n_channels")
    # Cuts and counts of bins: a row for each channel. Instead, the relation has a row for each
    # label, or for each channel and third. Bounds of the thirds of the neighbours' mean targets.
    cuts: rec.Float64s = rec.sized("n_rows", N_CUTS)
    counts: rec.Int32s = rec.sized("n_rows", N_BINS)
    thirds: rec.Float64s = rec.sized(2)
    # The evidence at which each kind raises an alarm. The edges of cells and the memories of each
    # channel. For each bettor: R, the product of its latest factors, and the number of the sample
    # at which this product began. As in CUSUM, the product begins again at 1 once it is at most 1.
    bars: rec.Float64s = rec.sized(len(CHANGES))
    edges: rec.Float64s = rec.sized("n_channels", N_EDGES)
    memories: rec.Float64s = rec.sized("n_channels", N_RANK_MEMORIES, N_NUMBERS)
    evidence: rec.Float64s = rec.sized("n_channels", N_BETTORS)
    runs: rec.Float64s = rec.sized("n_channels", N_BETTORS)
    starts: rec.Int64s = rec.sized("n_channels", N_BETTORS)
    # The next sample in its own units, and in standard deviations.
    vector: rec.Float64s = rec.transient("n_inputs")
    row: rec.Float32s = rec.transient("n_inputs")
    # The next sample's random number V, and the ranks of its scores in the channels.
    v: rec.Float64 = rec.transient()
    ranks: rec.Float64s = rec.transient("n_channels")
    # The distances from the next sample to the stored samples, and the nearest of them with a y.
    distances: rec.Float64s = rec.transient("n_held")
    near: rec.Int64s = rec.transient(N_VOTES)

    def presence_at(self) -> int:
        """Return the first channel for the presence of a feature."""
        return self.n_values + self.n_dependent

    def y_at(self) -> int:
        """Return the first channel of y, which follows the channel of new features."""
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
    """Return the term of one feature in the distance of two samples; missing values are NaN."""
    if x != x or held != held:
        return 0.0 if x != x and held != held else 1.0
    if level_rate > 0.0:
        return 0.0 if held == x else level_rate
    return min(abs(x - held), LARGEST_TERM)


@link_by_name
def find_near(m: Monitor, skipped: int) -> int:
    """Find the nearest stored samples that have a y and are not `skipped`; return their number."""
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
    """Return the score of a feature's dependence on the other features; NaN if it has no score."""
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
    """Rank a score among the earlier scores in a row of counts (Equation 1); count the score."""
    b, below, total, start = 0, 0, 0, N_BINS * row
    for k in range(N_CUTS * row, N_CUTS * (row + 1)):
        b += 1 if m.cuts[k] <= score else 0
    for k in range(N_BINS):
        n = m.counts[start + k]
        total += n
        below += n if k < b else 0
    m.ranks[channel] = (below + m.v * (m.counts[start + b] + 1.0)) / (total + 1.0)
    m.counts[start + b] += 1


@always_inline
def _rank_levels(m: Monitor, first: int, n: int, value: float) -> None:
    """Rank the indicators of `n` levels at a value, and the indicator of all other levels."""
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
    n = 0
    for k in range(n_near):
        n += 1 if m.held_y[m.near[k]] == label else 0
    return n


@always_inline
def _rank_relation(m: Monitor, y: float, n_near: int) -> None:
    c = m.relation_at()
    if m.y_kind == TARGET:
        mean = _mean_y(m, n_near)
        third = (1 if m.thirds[0] <= mean else 0) + (1 if m.thirds[1] <= mean else 0)
        rank(m, c, c + third, y - mean)
        rank(m, c + 1, c + 3 + third, abs(y - mean))
    elif y < m.n_y - 1.0:
        usual, n_usual = 0.0, 0
        for k in range(n_near):
            label = m.held_y[m.near[k]]
            n = _n_votes(m, label, n_near)
            usual, n_usual = (label, n) if n > n_usual else (usual, n_usual)
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
    return max(min(total / (variance * (n + PRIOR_RANKS)), STEEPEST), least)


@always_inline
def _excess(p: float, low: float) -> float:
    """Return a score with mean 0 for a uniform rank `p`; the score is large if `p` < `low`."""
    return (1.0 / low if p < low else 0.0) - 1.0


@link_by_name
def bet(m: Monitor, c: int, is_low: bool) -> float:
    """Bet on a channel's rank, or only on low ranks, and return the channel's evidence."""
    p, total, cell, edges = m.ranks[c], 0.0, 0, m.edges.part(N_EDGES * c, N_EDGES)
    for k in range(1, N_EDGES - 1):
        cell += 1 if edges[k] <= p else 0
    for r in range(N_RANK_MEMORIES):
        memory = m.memories.part(N_NUMBERS * (N_RANK_MEMORIES * c + r), N_NUMBERS)
        n = memory[0]
        if is_low:
            cell, third = 0, _excess(p, LOWEST_RANK)
            first, second, variance, least = 1.0 - 2.0 * p, _excess(p, LOW), 1.0 / LOW - 1.0, 0.0
            e3 = 1.0 + _slope(memory[3], n, 1.0 / LOWEST_RANK - 1.0, 0.0) * third
        else:
            first, second, variance, least = (
                2.0 * p - 1.0,
                6.0 * p * (p - 1.0) + 1.0,
                0.2,
                -STEEPEST,
            )
            third, size = 1.0, edges[cell + 1] - edges[cell]
            e3 = (memory[3 + cell] / size + PRIOR_RANKS) / (n + PRIOR_RANKS)
        e1 = 1.0 + _slope(memory[1], n, 1.0 / 3.0, least) * first
        e2 = 1.0 + _slope(memory[2], n, variance, least) * second
        for k in range(N_NUMBERS):
            memory[k] *= DISCOUNTS[r]
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
    """Bet on the ranks of a kind; return whether the largest evidence raises an alarm."""
    evidence = 0.0
    for c in range(first, end):
        if m.ranks[c] == m.ranks[c]:
            evidence = max(evidence, bet(m, c, kind == 2 and m.y_kind == LABEL))
    return evidence >= m.bars[kind]


@kernel
def learn(m: Monitor, y_kind: int, y: float, filled_y: float, n_new: int) -> int:
    """Learn the next sample, with `n_new` features that the reference lacks.

    `y` is a target, or the number of a label in the reference; `filled_y` is y for the next
    reference. Return DONE. If an input is too large while the monitor watches for a change, return
    the input's index and change nothing. In other phases, the caller checks the inputs.
    """
    for j in range(m.n_inputs if m.phase == WATCHING else 0):
        if m.n_levels[j] == 0 and abs(m.vector[j]) > LARGEST:
            return j
    m.y_kind = y_kind if y_kind != UNKNOWN_Y else m.y_kind
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
        # `|=` is used instead of `or`, because every kind must bet on its ranks.
        is_alarm |= _bet_all(m, 1, y_at, relation_at)
        is_alarm |= _bet_all(m, 2, relation_at, m.n_channels())
        if m.phase == WATCHING and is_alarm:
            m.phase, m.due, m.alarm_at = COLLECTING, ALARM, m.n_samples
        elif m.phase == COLLECTING and m.n_samples - m.alarm_at == N_COLLECTED * m.spacing:
            m.phase, m.due = FILLING, FINAL
    if m.phase == FILLING and m.due == NO_WORK and m.n_filled == m.capacity:
        m.due = FULL
    return DONE


@batch_kernel
def score_reference(m: Monitor, out: rec.Float64s) -> int:
    """Score each stored sample against the other stored samples, and write the scores to `out`.

    `out` has a row for the dependence of each feature, and a last row for the neighbours' mean y.
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
