"""Exact ridge regression along a sweep by the inverse of the points' kernels.

It is for more cells than learned points. With K = Phi Phi^T + delta2 I predictions are
Phi Phi^T K^-1 y, as A^-1 Phi^T = Phi^T K^-1.
"""

from __future__ import annotations

import math

from ...compiling.kernels import batch_kernel, inlined
from ...partitions.sweep import Cell, Sweep
from ...records import Float64s
from .fit import Fit, sum_by_cell


class DualRidge(Fit):
    """The inverse of the regularised kernels of the learned points."""

    # K^-1 (rows of the number of learned points).
    inverse: Float64s
    # K^-1 y.
    dual: Float64s
    # Of a cut: sums of the inverse's rows over the points of the lower and of the upper part.
    lower_sums: Float64s
    upper_sums: Float64s


@batch_kernel
def regularised_kernels(sweep: Sweep, delta2: float, K: Float64s) -> None:
    """Write K: the share of partitions in which two points are in one cell (section 3.1)."""
    n, n_partitions = sweep.n_learned, sweep.n_partitions
    for i in range(n):
        cells = sweep.cells_of(i)
        for k in range(i):
            others = sweep.cells_of(k)
            same = 0
            for m in range(n_partitions):
                same += 1 if cells[m] == others[m] else 0
            K[n * i + k] = same / n_partitions
            K[n * k + i] = K[n * i + k]
        K[n * i + i] = 1.0 + delta2


@batch_kernel
def find_weights(sweep: Sweep, ridge: DualRidge) -> None:
    """Write the weights Phi^T K^-1 y."""
    sum_by_cell(sweep, ridge.dual, ridge.weights)


@inlined
def sum_rows(sweep: Sweep, ridge: DualRidge, cell: Cell, sums: Float64s) -> float:
    """Sum the inverse's rows over a cell's points; returns the sum of their duals."""
    n, inverse, dual = sweep.n_learned, ridge.inverse, ridge.dual
    order = sweep.order_of(cell.partition)
    for j in range(n):
        sums[j] = 0.0
    total = 0.0
    for k in range(cell.start, cell.stop):
        i = order[k]
        total += dual[i]
        row = inverse.part(n * i, n)
        for j in range(n):
            sums[j] += row[j]
    return total


@batch_kernel
def split_dual(sweep: Sweep, ridge: DualRidge, number: int) -> float:
    """Follow the latest cut, of the cell of this number; returns the change of ln det K.

    The kernels between points of its two parts fall by 1 / M: with the indicators e and f of both
    parts, K becomes K - (e f^T + f e^T) / M.
    """
    n, n_partitions = sweep.n_learned, sweep.n_partitions
    lower, upper = sweep.ranges[number], sweep.ranges[sweep.n_cells - 1]
    order = sweep.order_of(lower.partition)
    inverse, dual, u, v = ridge.inverse, ridge.dual, ridge.lower_sums, ridge.upper_sums
    dual_u = sum_rows(sweep, ridge, lower, u)
    dual_v = sum_rows(sweep, ridge, upper, v)
    uu, uv, vv = 0.0, 0.0, 0.0
    for k in range(lower.start, lower.stop):
        uu += u[order[k]]
        uv += v[order[k]]
    for k in range(upper.start, upper.stop):
        vv += v[order[k]]
    # Woodbury's identity with W = [e f] and C = -[[0, 1], [1, 0]] / M: the inverse becomes
    # K^-1 - K^-1 W S^-1 W^T K^-1 with S = C^-1 + W^T K^-1 W = [[uu, uv - M], [uv - M, vv]].
    # What follows has -S^-1.
    off = n_partitions - uv
    determinant = uu * vv - off * off
    q_uu, q_vv, q_uv = -vv / determinant, -uu / determinant, -off / determinant
    x, z = q_uu * dual_u + q_uv * dual_v, q_uv * dual_u + q_vv * dual_v
    for j in range(n):
        dual[j] += x * u[j] + z * v[j]
    for i in range(n):
        row = inverse.part(n * i, n)
        a, b = q_uu * u[i] + q_uv * v[i], q_uv * u[i] + q_vv * v[i]
        for j in range(n):
            row[j] += a * u[j] + b * v[j]
    # det(K + W C W^T) / det K = det S det C, and det C = -1 / M^2.
    return math.log(-determinant / n_partitions**2)
