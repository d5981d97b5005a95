"""From raw values to those that trees cut: scaling, and the lift to cut directions.

Inputs are scaled to float32. With cut directions they are scaled in float64 and lifted by U first
(O'Reilly and Tran, Theorem 3.1: an axis-aligned partition of U x is an oblique one of x). A missing
input counts as the mean of those learned so far then, and a direction is missing where all of its
inputs are.
"""

from __future__ import annotations

import math

from .access import point_at
from .layout import (
    DIM_CAPACITY,
    HAS_MISSING,
    INPUT_CAPACITY,
    LIFT,
    N_DIMS,
    N_INPUTS,
    N_VALUES,
    SCALING,
    WARM_UP,
)
from .memory import (
    FARTHEST,
    LARGEST,
    call2,
    call3,
    called,
    f32,
    f64,
    i64,
    inlined,
    kernel,
    put_f32,
    put_f64,
    put_i64,
)

# Words of a lift's record: how many sets of directions there are, whether each direction has an
# input at all, and the addresses of the coefficients, shape (sets, inputs, directions), of the
# number, mean, least and largest of each input's values so far, shape (inputs, 4), of room for a
# sample's scaled inputs and a set's lifted values, and of the two kernels that are compiled only
# where there are directions.
N_SETS = 0
WHOLE = 1
COEFFICIENTS = 2
MOMENTS = 3
INPUTS = 4
LIFTED = 5
LIFT_INTO = 6
ADD_TO_MOMENTS = 7
N_LIFT = 8
MOMENTS_WIDTH = 4


@inlined
def clipped(v: float) -> float:
    """Return a value that float32 holds; NaN stays."""
    # Comparisons that NaN passes through.
    v = FARTHEST if v > FARTHEST else v
    return -FARTHEST if v < -FARTHEST else v


@inlined
def has_input(coefficients: int, values: int, n_inputs: int, n_dims: int, r: int) -> bool:
    """Tell whether a direction has an input that is there."""
    for d in range(n_inputs):
        v = f64(values, d)
        if v == v and f64(coefficients, d * n_dims + r) != 0.0:
            return True
    return False


@called
def lift_into(forest: int, target: int, values: int) -> int:
    """Scale float64 values and lift them by all sets; returns as `scale_into` does.

    Called by address.
    """
    lift = i64(forest, LIFT)
    inputs, lifted, moments = i64(lift, INPUTS), i64(lift, LIFTED), i64(lift, MOMENTS)
    n_inputs, n_dims = i64(forest, N_INPUTS), i64(forest, N_DIMS)
    capacity = i64(forest, INPUT_CAPACITY)
    offsets = i64(forest, SCALING)
    factors = offsets + 8 * capacity
    bad = -1
    lacks = i64(lift, WHOLE) == 0
    for d in range(n_inputs):
        raw = f64(values, d)
        if abs(raw) > LARGEST and bad < 0:
            bad = d
        v = (raw - f64(offsets, d)) * f64(factors, d)
        if v != v:
            lacks = True
            v = f64(moments, MOMENTS_WIDTH * d + 1)
        put_f64(inputs, d, v)
    for s in range(i64(lift, N_SETS)):
        coefficients = i64(lift, COEFFICIENTS) + 8 * n_dims * capacity * s
        for r in range(n_dims):
            put_f64(lifted, r, 0.0)
        for d in range(n_inputs):
            v = f64(inputs, d)
            row = coefficients + 8 * n_dims * d
            for r in range(n_dims):
                put_f64(lifted, r, f64(lifted, r) + f64(row, r) * v)
        for r in range(n_dims):
            v = f64(lifted, r)
            if lacks and not has_input(coefficients, values, n_inputs, n_dims, r):
                v = math.nan
            put_f32(target, s * n_dims + r, clipped(v))
    return bad


@called
def add_to_moments(forest: int, values: int) -> int:
    """Let a learned sample's inputs, just scaled, join the moments; returns 0.

    Called by address.
    """
    lift = i64(forest, LIFT)
    inputs = i64(lift, INPUTS)
    for d in range(i64(forest, N_INPUTS)):
        if f64(values, d) == f64(values, d):
            v = f64(inputs, d)
            own = i64(lift, MOMENTS) + 8 * MOMENTS_WIDTH * d
            n = f64(own, 0) + 1.0
            put_f64(own, 0, n)
            put_f64(own, 1, f64(own, 1) + (v - f64(own, 1)) / n)
            put_f64(own, 2, v if n == 1.0 else min(f64(own, 2), v))
            put_f64(own, 3, v if n == 1.0 else max(f64(own, 3), v))
    return 0


@inlined
def scale_into(forest: int, target: int, values: int) -> int:
    """Write what trees cut of float64 values; returns -1, or the first input that is too large.

    Scaled values end at `FARTHEST`. Dimensions for which there is only room are missing.
    """
    lift = i64(forest, LIFT)
    if lift != 0:
        return call3(i64(lift, LIFT_INTO), forest, target, values)
    bad = -1
    n_dims = i64(forest, N_DIMS)
    capacity = i64(forest, DIM_CAPACITY)
    offsets = i64(forest, SCALING)
    factors = offsets + 8 * capacity
    for d in range(n_dims):
        raw = f64(values, d)
        if abs(raw) > LARGEST and bad < 0:
            bad = d
        put_f32(target, d, clipped((raw - f64(offsets, d)) * f64(factors, d)))
    for d in range(n_dims, capacity):
        put_f32(target, d, math.nan)
    return bad


@kernel
def too_large(forest: int, values: int) -> int:
    """Return the first of a sample's inputs that single precision does not hold, -1 for none."""
    for d in range(i64(forest, N_INPUTS)):
        if abs(f64(values, d)) > LARGEST:
            return d
    return -1


@kernel
def fit(forest: int, values: int, n: int, first: int) -> None:
    """Scale the inputs from `first` on by their ranges over `n` rows of values.

    An input that has not varied has no range: its magnitude stands in, or 1 where that is 0.
    """
    capacity = i64(forest, INPUT_CAPACITY)
    offsets = i64(forest, SCALING)
    factors = offsets + 8 * capacity
    for d in range(first, i64(forest, N_INPUTS)):
        low = math.inf
        high = -math.inf
        for i in range(n):
            # Comparisons with NaN are false.
            v = f64(values, i * capacity + d)
            low = v if v < low else low
            high = v if v > high else high
        if low > high:
            low = high = 0.0
        factor = 1.0 / (high - low)
        if not math.isfinite(factor):
            factor = 1.0 / abs(low)
        put_f64(offsets, d, low)
        put_f64(factors, d, factor if math.isfinite(factor) else 1.0)


@inlined
def has_missing(forest: int, x: int) -> bool:
    """Tell whether a row of what trees cut has a missing value."""
    # With several sets of directions, each lacks what the first lacks.
    for d in range(i64(forest, N_DIMS)):
        if f32(x, d) != f32(x, d):
            return True
    return False


@inlined
def store_values(forest: int, values: int, point: int) -> int:
    """Write what trees cut of a learned sample's values as a point's; returns as `scale_into`.

    While the ranges may change, the values themselves are kept, too.
    """
    raw = i64(forest, WARM_UP)
    if raw != 0:
        n_inputs = i64(forest, N_INPUTS)
        row = raw + 8 * i64(forest, INPUT_CAPACITY) * point
        for d in range(n_inputs):
            put_f64(row, d, f64(values, d))
    x = point_at(forest, point)
    bad = scale_into(forest, x, values)
    if bad < 0:
        if has_missing(forest, x):
            put_i64(forest, HAS_MISSING, 1)
        lift = i64(forest, LIFT)
        if lift != 0:
            call2(i64(lift, ADD_TO_MOMENTS), forest, values)
    return bad


@kernel
def store(forest: int, values: int, n: int, first: int) -> None:
    """Write `n` rows of checked values as points `first`, `first + 1`, ..."""
    for i in range(n):
        store_values(forest, values + 8 * i64(forest, INPUT_CAPACITY) * i, first + i)


@kernel
def scale_rows(forest: int, targets: int, values: int, n: int) -> None:
    """Write what trees cut of `n` rows of checked values."""
    for i in range(n):
        target = targets + 4 * i64(forest, N_VALUES) * i
        scale_into(forest, target, values + 8 * i64(forest, INPUT_CAPACITY) * i)
