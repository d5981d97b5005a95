"""Where a score stands among those of the samples learned last.

The rank of v among the sorted scores s_1 <= ... <= s_m is i / (m + 1) at v = s_i, the mean of these
where several are equal, and linear in between. It is linear from 0 to s_1, too. Beyond s_m it is
1 - (s_m / v) / (m + 1), or 1 - 1/2 / (m + 1) if s_m is 0. So a rank is from 0 to less than 1.
"""

from __future__ import annotations

from ..compiling.kernels import inlined
from ..records import Bounds, Float64s, Int64, Record, stored

# Number of scores that are kept.
KEPT = 4096


class Ranks(Record):
    """The scores of the samples learned last, each before it was learned: in a ring, and sorted."""

    EMBEDDED = True

    scores: Float64s
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
