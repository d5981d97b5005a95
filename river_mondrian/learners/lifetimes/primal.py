"""Exact ridge regression along a sweep by the inverse of the cells' second moments.

It is for fewer cells than learned points. With A = Phi^T Phi + delta2 I the weights are
A^-1 Phi^T y (section 4.2.1). A cut takes a row and a column out of A and appends two. The paper
follows that by a Cholesky factor, here the inverse itself is updated: a rank-one step takes the
cell out, and bordering by two columns puts its parts in.
"""

from __future__ import annotations

import math

from ...compiling.kernels import batch_kernel, inlined, merged
from ...partitions.sweep import Cell, Sweep
from ...records import Float64s, Int64
from .fit import Fit, predict


class PrimalRidge(Fit):
    """The inverse of the regularised second moments of the cells."""

    # Number of cells for which there is room.
    columns: Int64
    # A^-1 (rows of `columns`, of which as many are used as there are cells).
    inverse: Float64s
    # By cell, what the normal equations lack: Phi^T (y - Phi w) - delta2 w.
    gap: Float64s
    # Of a cut (one row each): second moments of the smaller and of the larger part with the cells
    # of other partitions; the inverse times these without the cell; the cell's row of the inverse.
    small_moments: Float64s
    large_moments: Float64s
    small_column: Float64s
    large_column: Float64s
    removed: Float64s


@batch_kernel
def second_moments(sweep: Sweep, delta2: float, A: Float64s) -> None:
    """Write A = Phi^T Phi + delta2 I (rows of the number of cells)."""
    n_partitions, n_cells = sweep.n_partitions, sweep.n_cells
    for k in range(n_cells * n_cells):
        A[k] = 0.0
    for i in range(sweep.n_learned):
        cells = sweep.cells_of(i)
        for m in range(n_partitions):
            row = A.part(n_cells * cells[m], n_cells)
            for k in range(n_partitions):
                row[cells[k]] += 1.0 / n_partitions
    for c in range(n_cells):
        A[n_cells * c + c] += delta2


@batch_kernel
def find_gap(sweep: Sweep, ridge: PrimalRidge) -> float:
    """Predict all points and write what the normal equations lack; returns the largest of it."""
    n_partitions, n_cells = sweep.n_partitions, sweep.n_cells
    weights, gap, predicted = ridge.weights, ridge.gap, ridge.predicted
    targets, delta2 = sweep.targets, ridge.delta2
    scale = 1.0 / math.sqrt(n_partitions)
    predict(sweep, ridge)
    for c in range(n_cells):
        gap[c] = -delta2 * weights[c]
    for i in range(sweep.n_learned):
        cells = sweep.cells_of(i)
        error = scale * (targets[i] - predicted[i])
        for m in range(n_partitions):
            gap[cells[m]] += error
    largest = 0.0
    for c in range(n_cells):
        largest = max(largest, abs(gap[c]))
    return largest


@inlined
def moments_with_others(sweep: Sweep, cell: Cell, n: int, moments: Float64s) -> None:
    """Write the second moments of a cell with the first `n` ones, those of other partitions."""
    m, n_partitions = cell.partition, sweep.n_partitions
    order = sweep.order_of(m)
    for c in range(n):
        moments[c] = 0.0
    for k in range(cell.start, cell.stop):
        cells = sweep.cells_of(order[k])
        for other in range(n_partitions):
            if other != m:
                moments[cells[other]] += 1.0 / n_partitions


@inlined
def take_out(sweep: Sweep, ridge: PrimalRidge, number: int, n: int, diagonal: float) -> float:
    """Find the columns of both parts without the cell; returns the inverse's pivot.

    With p the cell's column of A^-1, the inverse without the cell is A^-1 - p p^T / p_c. `diagonal`
    is the cell's element of A.
    """
    u, v, p = ridge.small_column, ridge.large_column, ridge.removed
    columns, inverse, small_moments = ridge.columns, ridge.inverse, ridge.small_moments
    own = inverse.part(columns * number, columns)
    for j in range(n):
        p[j] = own[j]
        u[j] = 0.0
    for k in range(n):
        entry = small_moments[k]
        if entry != 0.0:
            row = inverse.part(columns * k, columns)
            for j in range(n):
                u[j] += entry * row[j]
    # The cell's column of A is the sum of both parts' and its own diagonal, and A^-1 times that a
    # unit vector.
    for j in range(n):
        v[j] = -u[j] - diagonal * p[j]
    v[number] += 1.0
    pivot = p[number]
    by_u, by_v = u[number] / pivot, v[number] / pivot
    for j in range(n):
        u[j] -= by_u * p[j]
        v[j] -= by_v * p[j]
    u[number] = 0.0
    v[number] = 0.0
    return pivot


@merged
def update_weights(
    sweep: Sweep,
    ridge: PrimalRidge,
    number: int,
    parts: tuple[int, int],
    q: tuple[float, float, float],
) -> None:
    """Update the weights for a cut, by the inverse of the parts' Schur complement."""
    n, (small, large), (q_uu, q_vv, q_uv) = sweep.n_cells - 1, parts, q
    u, v, p = ridge.small_column, ridge.large_column, ridge.removed
    first, second, weights = ridge.small_moments, ridge.large_moments, ridge.weights
    by_p = weights[number] / p[number]
    r_u, r_v = 0.0, 0.0
    for j in range(n):
        weights[j] -= by_p * p[j]
    weights[number] = 0.0
    for j in range(n):
        r_u -= first[j] * weights[j]
        r_v -= second[j] * weights[j]
    lower, upper = sweep.ranges[small], sweep.ranges[large]
    order, targets = sweep.order_of(lower.partition), sweep.targets
    scale = 1.0 / math.sqrt(sweep.n_partitions)
    for k in range(lower.start, lower.stop):
        r_u += scale * targets[order[k]]
    for k in range(upper.start, upper.stop):
        r_v += scale * targets[order[k]]
    w_u, w_v = q_uu * r_u + q_uv * r_v, q_uv * r_u + q_vv * r_v
    for j in range(n):
        weights[j] -= w_u * u[j] + w_v * v[j]
    weights[small] = w_u
    weights[large] = w_v


@inlined
def update_inverse(
    ridge: PrimalRidge,
    n: int,
    pivot: float,
    parts: tuple[int, int],
    q: tuple[float, float, float],
) -> None:
    """Take a cell out of the inverse and put both parts in, in one pass.

    With B the inverse without the cell and U = [u v] = B [a b], the bordered inverse is
    [[B + U Q U^T, -U Q], [-Q U^T, Q]], where Q is that of the parts' Schur complement.
    """
    (small, large), (q_uu, q_vv, q_uv) = parts, q
    u, v, p = ridge.small_column, ridge.large_column, ridge.removed
    columns, inverse = ridge.columns, ridge.inverse
    for i in range(n):
        row = inverse.part(columns * i, columns)
        x = -p[i] / pivot
        a, b = q_uu * u[i] + q_uv * v[i], q_uv * u[i] + q_vv * v[i]
        for j in range(n):
            row[j] += x * p[j] + a * u[j] + b * v[j]
    of_small = inverse.part(columns * small, columns)
    of_large = inverse.part(columns * large, columns)
    for j in range(n):
        row = inverse.part(columns * j, columns)
        a, b = -q_uu * u[j] - q_uv * v[j], -q_uv * u[j] - q_vv * v[j]
        row[small] = a
        of_small[j] = a
        row[large] = b
        of_large[j] = b
    of_small[small] = q_uu
    of_large[large] = q_vv
    of_small[large] = q_uv
    of_large[small] = q_uv


@batch_kernel
def split_primal(sweep: Sweep, ridge: PrimalRidge, number: int) -> float:
    """Follow the latest cut, of the cell of this number; returns the change of ln det A."""
    # The upper part has the last number, which is the number of cells there were before.
    n = sweep.n_cells - 1
    n_partitions, delta2, ranges = sweep.n_partitions, ridge.delta2, sweep.ranges
    lower, upper = ranges[number], ranges[n]
    n_lower, n_upper = lower.stop - lower.start, upper.stop - upper.start
    small, large = (number, n) if n_lower <= n_upper else (n, number)
    first, second = ridge.small_moments, ridge.large_moments
    u, v = ridge.small_column, ridge.large_column
    moments_with_others(sweep, ranges[small], n, first)
    moments_with_others(sweep, ranges[large], n, second)
    # A point's feature is 1 / sqrt(M), its square 1 / M.
    diagonal = (n_lower + n_upper) / n_partitions + delta2
    pivot = take_out(sweep, ridge, number, n, diagonal)
    n_small, n_large = min(n_lower, n_upper), max(n_lower, n_upper)
    # The Schur complement [[s, off], [off, t]] of both parts, which share no point.
    s, t, off = n_small / n_partitions + delta2, n_large / n_partitions + delta2, 0.0
    for j in range(n):
        s -= first[j] * u[j]
        t -= second[j] * v[j]
        off -= second[j] * u[j]
    determinant = s * t - off * off
    q = t / determinant, s / determinant, -off / determinant
    update_weights(sweep, ridge, number, (small, large), q)
    update_inverse(ridge, n, pivot, (small, large), q)
    # det A without the cell is det A times the pivot; with the parts, that times their complement.
    return math.log(pivot) + math.log(determinant)
