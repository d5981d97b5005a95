"""Ranks of numbers among the latest ones that were met."""

from __future__ import annotations

from ..compiling.kernels import exact_inlined, exact_separate
from ..records import Float64s, Int64, Record

# How many are kept.
N_RECENT = 512


class Ranks(Record):
    """The latest numbers, in the order of their coming and in that of their size."""

    EMBEDDED = True

    # Numbers met so far.
    n_met: Int64
    recent: Float64s
    ordered: Float64s


@exact_inlined
def place_of(ranks: Ranks, n: int, value: float) -> int:
    """Return how many of `n` numbers are below a value."""
    ordered = ranks.ordered
    low, high = 0, n
    while low < high:
        middle = (low + high) >> 1
        if ordered[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@exact_separate
def meet(ranks: Ranks, value: float) -> None:
    """Keep a number, in place of the oldest one if there are enough."""
    ordered = ranks.ordered
    slot = ranks.n_met % N_RECENT
    n = min(ranks.n_met, N_RECENT)
    if n == N_RECENT:
        n -= 1
        for i in range(place_of(ranks, N_RECENT, ranks.recent[slot]), n):
            ordered[i] = ordered[i + 1]
    at = place_of(ranks, n, value)
    for i in range(n, at, -1):
        ordered[i] = ordered[i - 1]
    ordered[at] = value
    ranks.recent[slot] = value
    ranks.n_met += 1


@exact_separate
def rank_of(ranks: Ranks, value: float) -> float:
    """Return the share of the kept numbers that are below a value, within (0, 1).

    It increases with the value: linearly between two numbers, and beyond all of them by the
    distance to the last, in units of its distance to the median and one.
    """
    ordered = ranks.ordered
    n = min(ranks.n_met, N_RECENT)
    if n == 0:
        return 0.5
    k = place_of(ranks, n, value)
    if k == 0:
        part = 1.0 / (1.0 + ordered[0] - value)
    elif k == n:
        beyond = value - ordered[n - 1]
        part = beyond / (1.0 + beyond + ordered[n - 1] - ordered[n >> 1])
    else:
        part = (value - ordered[k - 1]) / (ordered[k] - ordered[k - 1])
    return (float(k) + part) / (float(n) + 1.0)
