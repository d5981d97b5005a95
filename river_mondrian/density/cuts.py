"""The cuts on the sides of a pivot, as functions of its region's key.

On a side the places of cuts, told from the pivot, and their times after the region began form a
Poisson process of rate 1. It is drawn by blocks of places: the first is [0, b), each further one as
long as all before it. In a block a cut matters only where it is nearer to the pivot than those that
were earlier; so its first cut, the next that is nearer, and so on, have exponential times and
uniform places. The processes of all blocks are independent, and so are those of all sides.
"""

from __future__ import annotations

import math

from ..compiling.kernels import exact_inlined, exact_separate
from ..partitions.splitmix import mixed, state_after, uniform_of
from ..records import Float64s
from .regions import P

# What is drawn by a key: the key of the next block, time and place of a cut, the key of the next
# cut in the block, and from `PER_SIDE` on the key of each side.
NEXT_BLOCK = 0
CUT_TIME = 3
CUT_PLACE = 5
NEXT_KEY = 7
PER_SIDE = 8

# Length of the first block, in units of the inverse of the time at which the region began. Most
# samples of a region are some times farther from the pivot. Cuts that are farther than a sample
# are drawn in vain, and so are blocks in which there is no cut.
FIRST_BLOCK = 0.2

_PRECISION = 2.0**-52


@exact_inlined
def key_of(key: int, i: int) -> int:
    """Return the i-th output of splitmix64 that begins with a key."""
    return mixed(state_after(key, i + 1))


@exact_inlined
def uniform(key: int, i: int) -> float:
    """Return the i-th uniform of the open interval (0, 1) by a key."""
    return uniform_of(key_of(key, i))


@exact_inlined
def first_block(horizon: float, began: float) -> float:
    """Return the length of the first block on each side of a pivot."""
    if began > 0.0:
        return FIRST_BLOCK / began
    return 1.0 / horizon if horizon < math.inf else 1.0


@exact_inlined
def gap_of(rate: float, difference: float) -> float:
    """Return how far two values are apart that differ, in units of the rate of cuts."""
    return math.fabs(difference) * rate if rate > 0.0 else 1.0


@exact_inlined
def beyond(value: float, step: float) -> float:
    """Return the value plus a positive step, or what is next to it where rounding eats the step."""
    return max(value + step, value + math.fabs(value) * _PRECISION)


@exact_separate
def find_cut(
    partition: P, key: int, began: float, block: float, around: Float64s, z: Float64s, until: float
) -> None:
    """Let the cut on the way be the first one between a pivot and a point.

    The region has a key, and began at a time; the first blocks have a length. Where there is no cut
    before a time, the cut on the way has that.
    """
    cut, rates, n_dims = partition.cut, partition.rates, partition.n_dims
    cut.exists = 0
    best = until
    # Pivots that follow from an origin meet a point up to rounding.
    slack = _PRECISION if partition.origin else 0.0
    # Where they differ most a cut is likely to be early: fewer later ones are drawn then.
    first, most = 0, -1.0
    for j in range(n_dims):
        gap = math.fabs(z[j] - around[j]) * rates[j]
        if gap > most:
            first, most = j, gap
    for i in range(n_dims):
        # That one comes first, in place of the one of number 0.
        j = first if i == 0 else (0 if i == first else i)
        difference = z[j] - around[j]
        if math.fabs(difference) <= slack * math.fabs(around[j]):
            continue
        is_above = 1 if difference > 0.0 else 0
        gap = gap_of(rates[j], difference)
        own = block_key = key_of(key, PER_SIDE + 2 * j + is_above)
        share = uniform(own, CUT_TIME)
        lower, end = 0.0, block
        while True:
            top, time = end, began
            # -log(share) is at least 1 - share: mostly no logarithm is needed.
            while share > 1.0 - (top - lower) * (best - time):
                time -= math.log(share) / (top - lower)
                if time >= best:
                    break
                top = lower + uniform(own, CUT_PLACE) * (top - lower)
                if top < gap:
                    best = time
                    cut.exists = 1
                    cut.key = own
                    cut.dim = j
                    cut.is_above = is_above
                    cut.reach = top
                    break
                own = key_of(own, NEXT_KEY)
                share = uniform(own, CUT_TIME)
            if gap <= end:
                break
            own = block_key = key_of(block_key, NEXT_BLOCK)
            share = uniform(own, CUT_TIME)
            lower, end = end, 2.0 * end
    cut.time = best


@exact_inlined
def place_of_cut(partition: P, around: Float64s) -> float:
    """Return the place of the cut on the way in its dimension, by the pivot."""
    cut = partition.cut
    step = cut.reach / partition.rates[cut.dim]
    value = around[cut.dim]
    return beyond(value, step) if cut.is_above else -beyond(-value, step)


@exact_inlined
def go_beyond(partition: P) -> None:
    """Let the pivot on the way, if it follows from an origin, be that beyond the cut on the way.

    It is the old one's projection on the cut: a function of what was before the region began, and
    in its closure.
    """
    if partition.origin:
        partition.around[partition.cut.dim] = place_of_cut(partition, partition.around)


@exact_inlined
def nearest_cut(
    key: int, side: int, began: float, block: float, until: float, bound: float
) -> float:
    """Return how far from a pivot the nearest cut on a side is before a time, at most a bound.

    Sides are numbered 2 dim, below the pivot, and 2 dim + 1.
    """
    own = block_key = key_of(key, PER_SIDE + side)
    share = uniform(own, CUT_TIME)
    lower, end = 0.0, block
    while True:
        top, time = end, began
        while share > 1.0 - (top - lower) * (until - time):
            time -= math.log(share) / (top - lower)
            if time >= until:
                break
            top = lower + uniform(own, CUT_PLACE) * (top - lower)
            own = key_of(own, NEXT_KEY)
            share = uniform(own, CUT_TIME)
        if top < end or end >= bound:
            return min(top, bound)
        own = block_key = key_of(block_key, NEXT_BLOCK)
        share = uniform(own, CUT_TIME)
        lower, end = end, 2.0 * end
