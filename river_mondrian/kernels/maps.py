"""How kernels use a feature map of which they know nothing but a record of 64-bit words.

A map is a function over a record. Its address is in the record, so that a learner's kernel maps,
predicts and updates in one call from Python, and neither is compiled for the other.

The function `map(record, x, out)` reads a sample at `x` and writes `N_OUT` outputs at `out`: the
columns of its cells (int32, each with the value `VALUE`), or the values of all columns of a dense
map (float64). It returns -1, or the place of the first input that is not finite in single
precision; it writes nothing else, so that it is safe to call for predictions. NaN is a missing
input.

A sample is a float64 vector of `N_INPUTS` values (`SPARSE` = 0), or three words: the number of
entries, the address of their places (int32, in any order, each place once; negative ones and those
from `N_INPUTS` on are ignored) and the address of their values (float64).
"""

from __future__ import annotations

import math

import numpy as np

from .memory import (
    FARTHEST,
    LARGEST,
    call3,
    exact_inlined,
    exact_kernel,
    f64,
    i32,
    i64,
    put_f32,
    put_i64,
)

# Words of a map's record; the map's own words follow.
FUNCTION = 0
N_OUT = 1
N_COLUMNS = 2
DENSE = 3
VALUE = 4
N_INPUTS = 5
SPARSE = 6
# Where there are several lifetimes: the address of the outputs of the sample that the map has
# learned last from before it did, or 0.
BEFORE = 7
OWN = 8

# Words of a sparse sample.
ENTRIES = 0
PLACES = 1
VALUES = 2


@exact_inlined
def entry(record: int, x: int, j: int) -> tuple[int, float]:
    """Return the place and the value of a sparse sample's j-th entry, 0.0 if it is not to count."""
    place, value = i32(i64(x, PLACES), j), f64(i64(x, VALUES), j)
    if place < 0 or place >= i64(record, N_INPUTS) or math.isnan(value):
        value = 0.0
    return place, value


@exact_inlined
def put_row(sample: int, places: int, values: int, starts: int, row: int) -> None:
    """Write the three words of a sparse sample: a row of a CSR matrix."""
    start = i64(starts, row)
    put_i64(sample, ENTRIES, i64(starts, row + 1) - start)
    put_i64(sample, PLACES, places + 4 * start)
    put_i64(sample, VALUES, values + 8 * start)


@exact_kernel
def map_one(record: int, x: int, out: int) -> int:
    """Map a sample; returns -1, or the place of a bad input."""
    return call3(i64(record, FUNCTION), record, x, out)


@exact_kernel
def map_rows(record: int, x: int, width: int, n: int, out: int) -> int:
    """Map `n` rows of `width` float64 values.

    Returns -1, or row * `N_INPUTS` + place of the first bad input.
    """
    word = 8 if i64(record, DENSE) else 4
    for row in range(n):
        bad: int = call3(i64(record, FUNCTION), record, x, out)
        if bad >= 0:
            return row * i64(record, N_INPUTS) + bad
        x += 8 * width
        out += word * i64(record, N_OUT)
    return -1


@exact_kernel
def map_sparse_rows(
    record: int, sample: int, places: int, values: int, starts: int, n: int, out: int
) -> int:
    """Map rows of a CSR matrix (int32 places, float64 values, int64 starts).

    `sample` is room for the three words of a sparse sample. Returns like `map_rows`.
    """
    word = 8 if i64(record, DENSE) else 4
    for row in range(n):
        put_row(sample, places, values, starts, row)
        bad: int = call3(i64(record, FUNCTION), record, sample, out)
        if bad >= 0:
            return row * i64(record, N_INPUTS) + bad
        out += word * i64(record, N_OUT)
    return -1


@exact_inlined
def scaled(value: float, factor: float) -> float:
    """Round a value to single precision before and after scaling, and end it at `FARTHEST`."""
    value = np.float64(np.float32(value)) * factor
    return np.float64(np.float32(min(max(value, -FARTHEST), FARTHEST)))


@exact_inlined
def read_vector(record: int, x: int, factors: int, row: int) -> int:
    """Write a vector to a row of float32, scaled, with 0 for NaN; returns like a map."""
    for place in range(i64(record, N_INPUTS)):
        value = f64(x, place)
        if math.fabs(value) > LARGEST:
            return place
        put_f32(row, place, scaled(value, f64(factors, place)) if value == value else 0.0)
    return -1


@exact_inlined
def bad_entry(record: int, x: int) -> int:
    """Return the place of an entry that is not finite in single precision, or -1."""
    places, values = i64(x, PLACES), i64(x, VALUES)
    for e in range(i64(x, ENTRIES)):
        if 0 <= i32(places, e) < i64(record, N_INPUTS) and math.fabs(f64(values, e)) > LARGEST:
            return i32(places, e)
    return -1
