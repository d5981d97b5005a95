"""Where a score stands among those of the samples learned last.

The rank of v among the sorted scores s_1 <= ... <= s_m is i / (m + 1) at v = s_i, the mean of these
where several are equal, and in between on a straight line. From 0 to s_1 it is on one, too, and
beyond s_m it is 1 - (s_m / v) / (m + 1). So it is from 0 to 1, and of two scores neither of which
is among those of before the larger one has the larger rank.
"""

from __future__ import annotations

from ...compiling.kernels import inlined
from ...records import Float64s
from .records import CutForest

# Scores that are kept.
KEPT = 4096


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
def rank_of(forest: CutForest, value: float) -> float:
    """Return the rank of a score of 0 or more, 0 where there are no others."""
    ranked, n = forest.ranked, int(forest.n_scores)
    if n == 0:
        return 0.0
    below = _n_below(ranked, n, value)
    if below == n:
        return 1.0 - ranked[n - 1] / value / (n + 1)
    if ranked[below] == value:
        last = below
        while last + 1 < n and ranked[last + 1] == value:
            last += 1
        return (0.5 * (below + last) + 1.0) / (n + 1)
    start = ranked[below - 1] if below > 0 else 0.0
    return (below + (value - start) / (ranked[below] - start)) / (n + 1)


@inlined
def add_score(forest: CutForest, value: float) -> None:
    """Add the score of a sample that is learned; past `KEPT` the oldest one goes."""
    scores, ranked = forest.scores, forest.ranked
    n, place = int(forest.n_scores), int(forest.next_score)
    # The place in the order of what goes, or the end; what is between moves on by one.
    hole = n
    if n == KEPT:
        hole = _n_below(ranked, n, scores[place])
    else:
        forest.n_scores = n + 1
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
    forest.next_score = (place + 1) % KEPT
