"""Laplace and Gaussian kernels between a sample and stored sparse rows, and what sums them."""

from __future__ import annotations

import math

from ..compiling.kernels import exact_inlined, exact_kernel
from ..records import Float64, Float64s, Int32s, Int64, Int64s, Record, transient

# Kernels of two vectors: exp(-rate |x - y|_1) and exp(-rate |x - y|_2^2).
LAPLACE = 0
GAUSSIAN = 1
KINDS = {"laplace": LAPLACE, "gaussian": GAUSSIAN}


class StoredRows(Record):
    """Rows of a CSR matrix under a kernel."""

    # LAPLACE or GAUSSIAN.
    kind: Int64
    # Rate of the kernel.
    rate: Float64
    n_rows: Int64
    # Where each row's entries begin.
    starts: Int64s
    # Features and values of the entries.
    places: Int32s
    values: Float64s
    # A sample as a vector, with a place for each feature; zero but for the length of a call.
    vector: Float64s = transient()


@exact_inlined
def similarity(rows: StoredRows, i: int, n_nonzero: int, size: float) -> float:
    """Return the kernel of the vector and the i-th row.

    The vector has `n_nonzero` values that are not 0, and the norm `size` (squared for the
    Gaussian); both may cover features that no row has, too. Only the places where the row is not
    0 are visited: what the vector has elsewhere is its norm less what it has here, and nothing,
    without any rounding, where all of it is here.
    """
    kind, vector, places, values = rows.kind, rows.vector, rows.places, rows.values
    apart, here, met = 0.0, 0.0, 0
    for j in range(rows.starts[i], rows.starts[i + 1]):
        there = vector[places[j]]
        gap = there - values[j]
        apart += abs(gap) if kind == LAPLACE else gap * gap
        here += abs(there) if kind == LAPLACE else there * there
        met += there != 0.0
    if met < n_nonzero:
        apart += max(size - here, 0.0)
    return math.exp(-rows.rate * apart)


@exact_inlined
def sum_over_rows(
    rows: StoredRows,
    n_nonzero: int,
    size: float,
    coefficients: Float64s,
    n_columns: int,
    out: Float64s,
) -> None:
    """Write each column's sum of coefficient times kernel over the rows."""
    for k in range(n_columns):
        out[k] = 0.0
    for i in range(rows.n_rows):
        alike = similarity(rows, i, n_nonzero, size)
        row = coefficients.part(n_columns * i, n_columns)
        for k in range(n_columns):
            out[k] = out[k] + row[k] * alike


@exact_kernel
def weighted_sums(
    rows: StoredRows,
    places: Int32s,
    values: Float64s,
    n_entries: int,
    n_nonzero: int,
    size: float,
    coefficients: Float64s,
    n_columns: int,
    out: Float64s,
) -> None:
    """Write each column's sum of coefficient times kernel over the rows.

    The sample has `n_entries` at places that rows may have, and `n_nonzero` in all.
    """
    vector = rows.vector
    for j in range(n_entries):
        vector[places[j]] = values[j]
    sum_over_rows(rows, n_nonzero, size, coefficients, n_columns, out)
    for j in range(n_entries):
        vector[places[j]] = 0.0


@exact_kernel
def weighted_shares(
    cells: Int32s,
    rows: Int32s,
    n_rows: int,
    n_partitions: int,
    coefficients: Float64s,
    n_columns: int,
    out: Float64s,
) -> None:
    """Write each column's sum of coefficient times share of equal cells over rows of cells."""
    for k in range(n_columns):
        out[k] = 0.0
    for i in range(n_rows):
        own = rows.part(n_partitions * i, n_partitions)
        equal = 0
        for j in range(n_partitions):
            equal += cells[j] == own[j]
        alike = equal / n_partitions
        row = coefficients.part(n_columns * i, n_columns)
        for k in range(n_columns):
            out[k] = out[k] + row[k] * alike
