"""Distances from a sample to stored samples, whose inputs are columns in single precision.

A distance is a sum of terms, one for each input. The functions `add_...` add the terms of one or
four inputs to the distances to all samples of a range. So loops run over contiguous columns, and
can use vector units.
"""

import math
from typing import Any, TypeVar

import numpy as np

from ..compiling.kernels import always_inline
from ..limits import LARGEST, LEAST_LEVEL
from ..records import Float32s, Float64s, Int32s

# A term that is not squared grows logarithmically beyond this difference of two values, in units of
# the input's width.
CAP = 10.0

# Arrays of distances.
Distances = TypeVar("Distances", Float32s, Float64s)


@always_inline
def stored_value(value: float, origin: float, is_level: bool) -> float:
    """Return the stored form of a value: its difference from the input's origin, clipped.

    The bounds are +-LARGEST. A level of a category is stored as code / LEAST_LEVEL - 1. An absent
    category has the value 0 if `missing` is "zero". The value 0 becomes a separate level, -1.
    """
    if is_level:
        return value / LEAST_LEVEL - 1.0
    # The negated comparison is true for NaN, so NaN is not clipped and stays missing.
    if not abs(value - origin) > LARGEST:
        return value - origin
    return LARGEST if value > origin else -LARGEST


@always_inline
def add_levels(
    distances: Distances,
    missing: Int32s,
    values: Float32s,
    n: int,
    value: Any,
    term: Any,
) -> None:
    """Add `term` to distances where a category has another level, and count missing values."""
    for i in range(n):
        gap = abs(value - values[i])
        distances[i] += term if gap > 0.0 else 0.0
        missing[i] += 0 if gap == gap else 1


@always_inline
def _term(gap: Any, rate: Any, is_squared: bool) -> Any:
    scaled = gap * rate
    return scaled * scaled if is_squared else abs(scaled)


@always_inline
def add_squares(distances: Float32s, values: Float32s, n: int, value: Any, rate: Any) -> None:
    """Add the squared terms of a numerical input without missing values to `n` distances."""
    for i in range(n):
        distances[i] = distances[i] + _term(np.float32(value - values[i]), rate, True)


@always_inline
def add_four_squares(
    distances: Float32s,
    own: tuple[Float32s, Float32s, Float32s, Float32s],
    n: int,
    values: tuple[Any, Any, Any, Any],
    rates: tuple[Any, Any, Any, Any],
) -> None:
    """Add the squared terms of four inputs (`add_squares`), with one access to each distance."""
    a, b, c, d = own
    for i in range(n):
        first = _term(np.float32(values[0] - a[i]), rates[0], True)
        second = _term(np.float32(values[1] - b[i]), rates[1], True)
        third = _term(np.float32(values[2] - c[i]), rates[2], True)
        fourth = _term(np.float32(values[3] - d[i]), rates[3], True)
        distances[i] = distances[i] + ((first + second) + (third + fourth))


@always_inline
def add_numbers(
    distances: Distances,
    missing: Int32s,
    values: Float32s,
    n: int,
    value: Any,
    rate: Any,
    is_squared: bool,
) -> None:
    """Add a numerical input's terms to `n` distances.

    The term of a difference d is (rate d)^2 if `is_squared`, or infinite beyond LARGEST. Otherwise
    the term is a = |rate d|, or CAP (1 + log(a / CAP)) if a > `CAP`. Terms have the type of `rate`.
    A missing value adds nothing to a distance. `missing` counts missing values.
    """
    # `is_squared` is a constant of each caller, so the compiler removes the branch.
    limit, zero = LARGEST if is_squared else CAP, rate - rate
    # The count has the type of the terms, because vector units then process both in one loop.
    one, n_beyond = zero + np.float32(1.0), zero
    for i in range(n):
        term = _term(np.float32(value - values[i]), rate, is_squared)
        # The negated comparison is true for NaN, because missing values also need the second loop.
        is_beyond = not term <= limit
        distances[i] = distances[i] + (zero if is_beyond else term)
        n_beyond = n_beyond + (one if is_beyond else zero)
    for i in range(n if n_beyond > 0.0 else 0):
        term = _term(np.float32(value - values[i]), rate, is_squared)
        if term > limit:
            distances[i] = (
                math.inf if is_squared else distances[i] + CAP * (1.0 + math.log(term / CAP))
            )
        elif not term <= limit:
            missing[i] += 1
