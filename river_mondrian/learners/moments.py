"""Means and variances of streams that hold against wild values and follow what changes.

A value more than 32 standard deviations from the mean does not count in it, and in the sum of
squares as 30 variances. While one of a hundred values is such, of whatever size, the variance is
1.4 times that of the others. Where all are, as after a change of units, it becomes 2^29 times as
large while the number of values doubles, until they count again. What is rare counts in full as
long as it comes once in 1,000 values.

Whenever the number of values has doubled, the variance of the later half is looked at. Where it is
less than a fifth of the variance of all, what was before is forgotten: wild values at the start,
larger units, or an earlier level. It is a quarter for a time stamp that grows steadily. The moments
of the later half are in rows of their own.
"""

from __future__ import annotations

from ..compiling.kernels import inlined
from ..records import Float64s

# Sum of squares above which something counts as varying.
VARIES = 1e-280
# A value whose squared distance from the mean is more variances counts as so many.
FAR = 1000.0
FAR_COUNTS = 30.0
# What is before the later half is forgotten where its variance is less by this factor, and it has
# at least so many values.
SHRUNK = 5.0
LEAST_LATER = 8.0


@inlined
def count_value(
    counts: Float64s, means: Float64s, squares: Float64s, place: int, value: float, weight: float
) -> bool:
    """Update the weight of values, their mean and the sum of squared deviations from it.

    By Welford 1962, with weights as West 1979 has them. Returns whether the value is not too far.
    """
    n, own = counts[place], squares[place]
    mean = means[place] if n > 0.0 else value
    before = value - mean
    counts[place] = n + weight
    if own > VARIES and before * before * n > FAR * own:
        squares[place] = own + weight * FAR_COUNTS * own / n
        return False
    moved = mean + weight * before / (n + weight)
    means[place] = moved
    squares[place] = own + weight * before * (value - moved)
    return True


@inlined
def end_half(counts: Float64s, means: Float64s, squares: Float64s, place: int, later: int) -> bool:
    """End the later half of the values, whose moments are at `later`.

    Returns whether what was before has been forgotten.
    """
    n, own = counts[later], squares[later]
    has_shrunk = SHRUNK * own * counts[place] < squares[place] * n
    forgets = has_shrunk and own > VARIES and n >= LEAST_LATER
    if forgets:
        counts[place], means[place], squares[place] = n, means[later], own
    counts[later] = 0.0
    squares[later] = 0.0
    return forgets
