"""Laplace and Gaussian kernels between a sample and stored sparse rows, and what sums them.

The rows are the parts of a CSR matrix: starts (int64), places (int32) and values (float64).
"""

from __future__ import annotations

import math

from .maps import ENTRIES, N_OUT, OWN, bad_entry, entry
from .memory import exact_inlined, exact_kernel, f64, i32, i64, put_f64

# Kernels of two vectors: exp(-rate |x - y|_1) and exp(-rate |x - y|_2^2).
LAPLACE = 0
GAUSSIAN = 1

# Words of the record of a map that projects its kernels with all rows: the kind, the rate (a
# float64), the number of rows, and the addresses of a vector of zeros with a place for each
# feature, of the rows, and of the columns' coefficients (float64, a row per row).
KIND = OWN
RATE = OWN + 1
N_ROWS = OWN + 2
VECTOR = OWN + 3
STARTS = OWN + 4
ROW_PLACES = OWN + 5
ROW_VALUES = OWN + 6
COEFFICIENTS = OWN + 7
N_WORDS = 8


@exact_inlined
def similarity(
    i: int,
    n_nonzero: int,
    kind: int,
    rate: float,
    size: float,
    x: int,
    starts: int,
    places: int,
    values: int,
) -> float:
    """Return the kernel of a vector and the i-th row.

    `x` is dense, with `n_nonzero` values that are not 0 and the norm `size` (squared for the
    Gaussian); both may cover features that no row has, too. Only the places where the row is not
    0 are visited: what `x` has elsewhere is its norm less what it has here, and nothing, without
    any rounding, where all of it is here.
    """
    apart, here, met = 0.0, 0.0, 0
    for j in range(i64(starts, i), i64(starts, i + 1)):
        there = f64(x, i32(places, j))
        gap = there - f64(values, j)
        apart += abs(gap) if kind == LAPLACE else gap * gap
        here += abs(there) if kind == LAPLACE else there * there
        met += there != 0.0
    if met < n_nonzero:
        apart += max(size - here, 0.0)
    return math.exp(-rate * apart)


@exact_kernel
def sum_over_rows(
    n_rows: int,
    n_nonzero: int,
    kind: int,
    rate: float,
    size: float,
    x: int,
    starts: int,
    places: int,
    values: int,
    coefficients: int,
    n_columns: int,
    out: int,
) -> None:
    """Write each column's sum of coefficient times kernel over the rows to `out`."""
    for k in range(n_columns):
        put_f64(out, k, 0.0)
    for i in range(n_rows):
        alike = similarity(i, n_nonzero, kind, rate, size, x, starts, places, values)
        row = coefficients + 8 * n_columns * i
        for k in range(n_columns):
            put_f64(out, k, f64(out, k) + f64(row, k) * alike)


@exact_kernel
def sum_over_cells(
    cells: int, rows: int, n_rows: int, t: int, coefficients: int, n_columns: int, out: int
) -> None:
    """Write each column's sum of coefficient times share of equal cells over the rows to `out`."""
    for k in range(n_columns):
        put_f64(out, k, 0.0)
    for _ in range(n_rows):
        equal = 0
        for j in range(t):
            equal += i32(cells, j) == i32(rows, j)
        alike = equal / t
        for k in range(n_columns):
            put_f64(out, k, f64(out, k) + f64(coefficients, k) * alike)
        rows += 4 * t
        coefficients += 8 * n_columns


def project(record: int, x: int, out: int) -> int:
    """Map a sample, its places in ascending order, to the sums over its kernels with the rows."""
    bad = bad_entry(record, x)
    if bad >= 0:
        return bad
    kind, vector = i64(record, KIND), i64(record, VECTOR)
    n_nonzero, size = 0, 0.0
    for j in range(i64(x, ENTRIES)):
        place, value = entry(record, x, j)
        if value != 0.0:
            put_f64(vector, place, value)
            n_nonzero += 1
            size += abs(value) if kind == LAPLACE else value * value
    sum_over_rows(
        i64(record, N_ROWS),
        n_nonzero,
        kind,
        f64(record, RATE),
        size,
        vector,
        i64(record, STARTS),
        i64(record, ROW_PLACES),
        i64(record, ROW_VALUES),
        i64(record, COEFFICIENTS),
        i64(record, N_OUT),
        out,
    )
    for j in range(i64(x, ENTRIES)):
        place, value = entry(record, x, j)
        if value != 0.0:
            put_f64(vector, place, 0.0)
    return -1
