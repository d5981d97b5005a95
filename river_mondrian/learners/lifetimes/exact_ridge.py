"""Exact Bayesian ridge regression at all lifetimes of a sweep (Balog et al. 2016, section 4.2.1).

Let Phi be the features of the learned points, with a row per point and a column per cell. Let
delta2 be the ridge. The learner keeps the inverse and the log determinant of the smaller of two
matrices. Predictions need the inverse. The marginal likelihood also needs the determinant.

With fewer cells than learned points, the smaller matrix is A = Phi^T Phi + delta2 I (`Primal`). For
targets y, the weights are A^-1 Phi^T y. A cut removes a row and a column from A, and appends two
rows and two columns. The paper updates a Cholesky factor. This module updates the inverse: a
rank-one step removes the cell, and bordering by two columns inserts its parts.

Otherwise, the smaller matrix is K = Phi Phi^T + delta2 I, the kernels of the points (`Dual`).
Predictions are Phi Phi^T K^-1 y, because A^-1 Phi^T = Phi^T K^-1.
"""

import math
import sys

import numpy as np
import scipy

from ...compiling.kernels import always_inline, batch_kernel, inline_in_source
from ...partitions.sweep import Cell, LifetimeSweep, Sweep
from ...records import Float64s, Floats, Int64
from ..ridge.posterior import log_of_residual
from .fitting import Fit, SweepLearner, predict, sum_by_cell


class PrimalRidge(Fit):
    """The inverse of the regularised second moments of the cells."""

    # Capacity for cells.
    columns: Int64
    # A^-1, in rows of length `columns`. Each cell has a row and a column; later rows and columns
    # are unused.
    inverse: Float64s
    # Residuals of the normal equations, one for each cell: Phi^T (y - Phi w) - delta2 w.
    gap: Float64s
    # Arrays for a cut. `small_moments` and `large_moments` are the second moments of the smaller
    # and the larger part with the cells of other partitions. `small_column` and `large_column` are
    # these moments times the inverse without the cut cell. `removed` is the cut cell's row of the
    # inverse.
    small_moments: Float64s
    large_moments: Float64s
    small_column: Float64s
    large_column: Float64s
    removed: Float64s


@batch_kernel
def second_moments(sweep: Sweep, delta2: float, A: Float64s) -> None:
    """Write A = Phi^T Phi + delta2 I, shape (cells, cells)."""
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
    """Predict all points, and write the residuals of the normal equations.

    Return the largest absolute residual.
    """
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


@always_inline
def moments_with_others(sweep: Sweep, cell: Cell, n: int, moments: Float64s) -> None:
    """Write a cell's second moments with the first `n` cells, 0 for cells of its partition."""
    m, n_partitions = cell.partition, sweep.n_partitions
    order = sweep.order_of(m)
    for c in range(n):
        moments[c] = 0.0
    for k in range(cell.start, cell.stop):
        cells = sweep.cells_of(order[k])
        for partition in range(n_partitions):
            if partition != m:
                moments[cells[partition]] += 1.0 / n_partitions


@always_inline
def take_out(ridge: PrimalRidge, number: int, n: int, diagonal: float) -> float:
    """Write the parts' columns times the inverse without the cell, and return the cell's pivot.

    Let p be the column of cell c in A^-1. Then the inverse without the cell is A^-1 - p p^T / p_c.
    The pivot is p_c. `diagonal` is the cell's diagonal element of A.
    """
    u, v, p = ridge.small_column, ridge.large_column, ridge.removed
    columns, inverse, small_moments = ridge.columns, ridge.inverse, ridge.small_moments
    removed = inverse.part(columns * number, columns)
    for j in range(n):
        p[j] = removed[j]
        u[j] = 0.0
    for k in range(n):
        entry = small_moments[k]
        if entry != 0.0:
            row = inverse.part(columns * k, columns)
            for j in range(n):
                u[j] += entry * row[j]
    # The cell's column of A is the sum of both parts' columns and the diagonal element. A^-1 times
    # this column is a unit vector.
    for j in range(n):
        v[j] = -u[j] - diagonal * p[j]
    v[number] += 1.0
    pivot = p[number]
    by_u, by_v = u[number] / pivot, v[number] / pivot
    for j in range(n):
        u[j] -= by_u * p[j]
        v[j] -= by_v * p[j]
    u[number] = v[number] = 0.0
    return pivot


Parts = tuple[int, int]
Complement = tuple[float, float, float]


@inline_in_source
def update_weights(
    sweep: Sweep, ridge: PrimalRidge, number: int, parts: Parts, q: Complement
) -> None:
    """Update the weights for a cut, using the inverse of the parts' Schur complement."""
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


@always_inline
def update_inverse(ridge: PrimalRidge, n: int, pivot: float, parts: Parts, q: Complement) -> None:
    """Remove a cell from the inverse and insert its parts, in one pass.

    Let B be the inverse without the cell, a and b the parts' columns in A, and U = [u v] = B [a b].
    Let Q be the inverse of the parts' Schur complement. Then the bordered inverse is [[B + U Q U^T,
    -U Q], [-Q U^T, Q]].
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
        row[small] = of_small[j] = -q_uu * u[j] - q_uv * v[j]
        row[large] = of_large[j] = -q_uv * u[j] - q_vv * v[j]
    of_small[small], of_large[large] = q_uu, q_vv
    of_small[large] = of_large[small] = q_uv


@batch_kernel
def split_primal(sweep: Sweep, ridge: PrimalRidge, number: int) -> float:
    """Update weights and inverse for the cut of cell `number`; return the change of ln det A."""
    # The upper part is the new cell, whose number is the number of cells before the cut.
    n = sweep.n_cells - 1
    n_partitions, delta2, ranges = sweep.n_partitions, ridge.delta2, sweep.ranges
    lower, upper = ranges[number], ranges[n]
    n_lower, n_upper = lower.stop - lower.start, upper.stop - upper.start
    small, large = (number, n) if n_lower <= n_upper else (n, number)
    first, second = ridge.small_moments, ridge.large_moments
    u, v = ridge.small_column, ridge.large_column
    moments_with_others(sweep, ranges[small], n, first)
    moments_with_others(sweep, ranges[large], n, second)
    # A point's feature is 1 / sqrt(M), and its square is 1 / M.
    diagonal = (n_lower + n_upper) / n_partitions + delta2
    pivot = take_out(ridge, number, n, diagonal)
    n_small, n_large = min(n_lower, n_upper), max(n_lower, n_upper)
    # The Schur complement of the parts is [[s, off], [off, t]]. `off` begins at 0, because the
    # parts share no point.
    s, t, off = n_small / n_partitions + delta2, n_large / n_partitions + delta2, 0.0
    for j in range(n):
        s -= first[j] * u[j]
        t -= second[j] * v[j]
        off -= second[j] * u[j]
    determinant = s * t - off * off
    q = t / determinant, s / determinant, -off / determinant
    update_weights(sweep, ridge, number, (small, large), q)
    update_inverse(ridge, n, pivot, (small, large), q)
    # det A times the pivot is the determinant without the cell. The new det A is this product times
    # the determinant of the parts' Schur complement.
    return math.log(pivot) + math.log(determinant)


class DualRidge(Fit):
    """The inverse of the regularised kernels of the learned points."""

    # K^-1, shape (learned points, learned points).
    inverse: Float64s
    # K^-1 y.
    dual: Float64s
    # Arrays for a cut: sums of the inverse's rows over the points of the lower and the upper part.
    lower_sums: Float64s
    upper_sums: Float64s


@batch_kernel
def regularised_kernels(sweep: Sweep, delta2: float, K: Float64s) -> None:
    """Write K: the share of partitions in which two points share a cell, plus delta2 I."""
    n, n_partitions = sweep.n_learned, sweep.n_partitions
    for i in range(n):
        cells = sweep.cells_of(i)
        for k in range(i):
            others = sweep.cells_of(k)
            same = 0
            for m in range(n_partitions):
                same += 1 if cells[m] == others[m] else 0
            K[n * i + k] = K[n * k + i] = same / n_partitions
        K[n * i + i] = 1.0 + delta2


@always_inline
def sum_rows(sweep: Sweep, ridge: DualRidge, cell: Cell, sums: Float64s) -> float:
    """Sum the inverse's rows over a cell's points, and return the sum of `dual` over the points."""
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
    """Update the inverse for the cut of cell `number`, and return the change of ln det K.

    The kernel of two points in different parts of the cell decreases by 1 / M. With the indicator
    vectors e and f of the points in each part, K becomes K - (e f^T + f e^T) / M.
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
    # Let W = [e f] and C = -[[0, 1], [1, 0]] / M. By Woodbury's identity, the inverse becomes K^-1
    # - K^-1 W S^-1 W^T K^-1. Here S = C^-1 + W^T K^-1 W = [[uu, uv - M], [uv - M, vv]]. `q_uu`,
    # `q_vv` and `q_uv` are the elements of -S^-1.
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


# Bounds on residuals of the solved equations, divided by the largest absolute value of a centred
# target. If a residual is above REFINE, a refinement step follows. If a residual is above REBUILD,
# the inverse is recomputed.
REFINE = 1e-11
REBUILD = 1e-8


def invert(A: Floats) -> tuple[Floats, float]:
    """Return the inverse and the log determinant of a positive definite matrix."""
    factor, _ = scipy.linalg.lapack.dpotrf(A, lower=1)
    inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=1)
    lower, log_determinant = np.tril(inverse, -1), 2.0 * float(np.log(factor.diagonal()).sum())
    return lower + lower.T + np.diag(inverse.diagonal()), log_determinant


class Primal:
    """The inverse of A, the cells' second moments: computed once, then updated at each cut."""

    def __init__(self, learner: SweepLearner) -> None:
        self.learner, self.sweep = learner, learner.sweep
        sweep, n, n_learned = self.sweep, self.sweep.n_cells, len(self.sweep.y)
        size = max(n + 1, min(n_learned, n * 5 // 4 + 64))
        A, self.inverse, self.gap = np.zeros((n, n)), np.zeros((size, size)), np.zeros(size)
        second_moments.of()(sweep.record, learner.delta2, Float64s.of(A))
        self.inverse[:n, :n], self.log_determinant = invert(A)
        self.memory = learner.make_fit(PrimalRidge)
        self.memory[0].columns = size
        self.memory.own("inverse", self.inverse)
        self.memory.own("gap", self.gap)
        for name in ("small_moments", "large_moments", "small_column", "large_column", "removed"):
            self.memory.own(name, np.zeros(size))
        sum_by_cell.of()(sweep.record, Float64s.of(sweep.y), Float64s.of(self.gap))
        learner.set_weights(self.inverse @ self.gap)

    @property
    def is_full(self) -> bool:
        """Whether there are more cells than the capacity, or at least as many cells as points."""
        n = self.sweep.n_cells
        return n > len(self.gap) or n >= len(self.sweep.y)

    def split(self, cell: int) -> None:
        """Update the inverse, the weights and the log determinant after the cut of `cell`."""
        self.log_determinant += split_primal.of()(self.sweep.record, self.memory[0], cell)

    def find_gap(self) -> float:
        """Predict all points, and return the largest absolute residual of the normal equations."""
        return find_gap.of()(self.sweep.record, self.memory[0])

    def refine(self) -> None:
        """Reduce the residuals of the normal equations by one refinement step."""
        n = self.sweep.n_cells
        self.learner.weights[:n] += self.inverse[:n, :n] @ self.gap[:n]

    @property
    def size(self) -> int:
        """Number of rows of A."""
        return self.sweep.n_cells

    @property
    def penalty(self) -> float:
        """Sum of the squared weights."""
        return float(np.square(self.learner.weights).sum())


class Dual:
    """The inverse of K, the points' kernels: computed once, then updated at each cut."""

    is_full = False

    def __init__(self, learner: SweepLearner) -> None:
        self.learner, self.sweep = learner, learner.sweep
        sweep, n = self.sweep, len(self.sweep.y)
        K = np.zeros((n, n))
        regularised_kernels.of()(sweep.record, learner.delta2, Float64s.of(K))
        inverse, self.log_determinant = invert(K)
        self.inverse = np.ascontiguousarray(inverse)
        self.dual, self.gap = self.inverse @ sweep.y, np.zeros(n)
        self.memory = learner.make_fit(DualRidge)
        self.memory.own("inverse", self.inverse)
        self.memory.own("dual", self.dual)
        for name in ("lower_sums", "upper_sums"):
            self.memory.own(name, np.zeros(n))

    def split(self, cell: int) -> None:
        """Update the inverse, K^-1 y and the log determinant after the cut of `cell`."""
        self.log_determinant += split_dual.of()(self.sweep.record, self.memory[0], cell)

    def find_gap(self) -> float:
        """Predict all points, and return the largest absolute residual of the equations K a = y."""
        sweep, learner = self.sweep, self.learner
        if sweep.n_cells > len(learner.weights):
            learner.set_weights(np.zeros(sweep.n_cells * 5 // 4))
        # The weights Phi^T K^-1 y.
        sum_by_cell.of()(sweep.record, Float64s.of(self.dual), self.memory[0].weights)
        predict.of()(sweep.record, learner.fit)
        self.gap = sweep.y - learner.predicted[: self.size] - learner.delta2 * self.dual
        return float(np.abs(self.gap).max())

    def refine(self) -> None:
        """Reduce the residuals of the equations K a = y by one refinement step."""
        self.dual += self.inverse @ self.gap

    @property
    def size(self) -> int:
        """Number of rows of K."""
        return len(self.sweep.y)

    @property
    def penalty(self) -> float:
        """Sum of the squared weights, y^T K^-1 Phi Phi^T K^-1 y."""
        return float(self.dual @ self.learner.predicted[: self.size])


class RidgeLearner(SweepLearner):
    """Exact ridge regression that follows cuts, with the inverse of `Primal` or of `Dual`."""

    def __init__(self, sweep: LifetimeSweep, delta2: float, noise_variance: float | None) -> None:
        super().__init__(sweep, delta2)
        self.unit = math.sqrt(sweep.n_partitions)
        self.noise_variance = noise_variance
        self.scale = max(float(np.abs(sweep.y).max()), sys.float_info.min)
        self.solver: Primal | Dual
        self._rebuild()
        self.finish_step()

    def _rebuild(self) -> None:
        """Compute the inverse from scratch."""
        self.solver = Primal(self) if self.sweep.n_cells < len(self.sweep.y) else Dual(self)

    def follow(self, cell: int) -> None:
        """Update the inverse for the latest cut, which has split `cell`."""
        if self.solver.is_full:
            self._rebuild()
        else:
            self.solver.split(cell)

    def finish_step(self) -> None:
        """Predict all points; reduce the residuals, or recompute the inverse, if they are large."""
        error = self.solver.find_gap() / self.scale
        if error > REBUILD:
            self._rebuild()
            error = self.solver.find_gap() / self.scale
        if error > REFINE:
            self.solver.refine()
            self.solver.find_gap()

    @property
    def log_likelihood(self) -> float:
        """Log density of the targets (Balog et al. 2016, section 4.2.1).

        The noise has variance s^2, and the prior variance of weights is s^2 / delta2. The result is
        `log_of_residual` at |y - Phi w|^2 + delta2 |w|^2, minus ln det(A / delta2) / 2. For `Dual`,
        det(K / delta2) replaces det(A / delta2), because both have the same value.
        """
        y, solver = self.sweep.y, self.solver
        fitted = self.predicted[: len(y)]
        residual = float(np.square(y - fitted).sum()) + self.delta2 * solver.penalty
        determinant = solver.log_determinant - solver.size * math.log(self.delta2)
        return log_of_residual(residual, len(y), self.noise_variance) - 0.5 * determinant
