"""Kernels between a vector and stored sparse rows, and sums over support vectors."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .memory import inlined, kernel

# Kernels of two vectors: exp(-rate |x - y|_1) and exp(-rate |x - y|_2^2).
LAPLACE = 0
GAUSSIAN = 1


@inlined
def similarity(
    i: int,
    n_nonzero: int,
    kind: int,
    rate: float,
    size: float,
    x: NDArray[np.float64],
    starts: NDArray[np.int64],
    places: NDArray[np.int32],
    values: NDArray[np.float64],
) -> float:
    """Return the kernel of a vector and the i-th row.

    `x` is dense, with `n_nonzero` values that are not 0 and the norm `size` (squared for the
    Gaussian); both cover features that no row has, too. Only the places where the row is not 0
    are visited: what `x` has elsewhere is its norm less what it has here, and nothing, without
    any rounding, where all of it is here.
    """
    apart, here, met = 0.0, 0.0, 0
    if kind == LAPLACE:
        for j in range(starts[i], starts[i + 1]):
            there = x[places[j]]
            apart += abs(there - values[j])
            here += abs(there)
            met += there != 0.0
    else:
        for j in range(starts[i], starts[i + 1]):
            there = x[places[j]]
            apart += (there - values[j]) * (there - values[j])
            here += there * there
            met += there != 0.0
    if met < n_nonzero:
        apart += max(size - here, 0.0)
    return math.exp(-rate * apart)


@kernel
def similarities(
    n_rows: int,
    n_nonzero: int,
    kind: int,
    rate: float,
    size: float,
    x: NDArray[np.float64],
    starts: NDArray[np.int64],
    places: NDArray[np.int32],
    values: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Write the kernel of a vector and each row to `out`."""
    for i in range(n_rows):
        out[i] = similarity(i, n_nonzero, kind, rate, size, x, starts, places, values)


@kernel
def sum_over_rows(
    n_rows: int,
    n_nonzero: int,
    kind: int,
    rate: float,
    size: float,
    x: NDArray[np.float64],
    starts: NDArray[np.int64],
    places: NDArray[np.int32],
    values: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Write each class's sum of coefficient times kernel over the rows to `out`."""
    n_classes = len(out)
    for k in range(n_classes):
        out[k] = 0.0
    for i in range(n_rows):
        alike = similarity(i, n_nonzero, kind, rate, size, x, starts, places, values)
        for k in range(n_classes):
            out[k] += coefficients[i, k] * alike


@kernel
def sum_over_cells(
    n_rows: int,
    cells: NDArray[np.int32],
    rows: NDArray[np.int32],
    coefficients: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Write each class's sum of coefficient times share of equal cells over the rows to `out`."""
    n_classes, t = len(out), len(cells)
    for k in range(n_classes):
        out[k] = 0.0
    for i in range(n_rows):
        equal = 0
        for j in range(t):
            equal += cells[j] == rows[i, j]
        alike = equal / t
        for k in range(n_classes):
            out[k] += coefficients[i, k] * alike
