"""Sums over support vectors: sparse rows under a distance kernel, cells under a partition's."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .memory import kernel

# Kernels of two vectors: exp(-rate |x - y|_1) and exp(-rate |x - y|_2^2).
LAPLACE = 0
GAUSSIAN = 1


@kernel
def sum_over_rows(
    n_supports: int,
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
    """Write each class's sum of coefficient times kernel over sparse supports to `out`.

    `x` is dense, with `n_nonzero` values that are not 0 and the norm `size` (squared for the
    Gaussian); both cover features that no support has, too. Only the places where a support is
    not 0 are visited: what `x` has elsewhere is its norm less what it has here, and nothing,
    without any rounding, where all of it is here.
    """
    n_classes = len(out)
    for k in range(n_classes):
        out[k] = 0.0
    for i in range(n_supports):
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
        similarity = math.exp(-rate * apart)
        for k in range(n_classes):
            out[k] += coefficients[i, k] * similarity


@kernel
def sum_over_cells(
    n_supports: int,
    cells: NDArray[np.int32],
    supports: NDArray[np.int32],
    coefficients: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Write each class's sum of coefficient times share of equal cells over supports to `out`."""
    n_classes, t = len(out), len(cells)
    for k in range(n_classes):
        out[k] = 0.0
    for i in range(n_supports):
        equal = 0
        for j in range(t):
            equal += cells[j] == supports[i, j]
        similarity = equal / t
        for k in range(n_classes):
            out[k] += coefficients[i, k] * similarity
