"""Exact Bayesian ridge regression along a sweep, with its marginal likelihood (section 4.2.1)."""

from __future__ import annotations

import math
import sys

import numpy as np
import scipy
from numpy.typing import NDArray

from ...partitions.sweep import LifetimeSweep
from ...records import Float64s
from ..ridge.likelihood import log_of_residual
from .dual import DualRidge, find_weights, regularised_kernels, split_dual
from .fit import SweepLearner, predict, sum_by_cell
from .primal import PrimalRidge, find_gap, second_moments, split_primal

Array = NDArray[np.float64]

# How far the normal equations may be off before a step of refinement, and before the inverse is
# computed anew, in units of the largest target.
REFINE = 1e-11
REBUILD = 1e-8


def invert(A: Array) -> tuple[Array, float]:
    """Return the inverse of a positive definite matrix and the logarithm of its determinant."""
    factor, _ = scipy.linalg.lapack.dpotrf(A, lower=1)
    inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=1)
    lower = np.tril(inverse, -1)
    return lower + lower.T + np.diag(inverse.diagonal()), 2.0 * float(
        np.log(factor.diagonal()).sum()
    )


class Primal:
    """The inverse of the cells' second moments, computed anew for the cells that there are."""

    def __init__(self, learner: SweepLearner) -> None:
        self.learner, self.sweep = learner, learner.sweep
        sweep, n, n_learned = self.sweep, self.sweep.n_cells, len(self.sweep.y)
        room = max(n + 1, min(n_learned, n * 5 // 4 + 64))
        A = np.zeros((n, n))
        second_moments.of()(sweep.record, learner.delta2, Float64s.of(A))
        self.inverse: Array = np.zeros((room, room))
        self.inverse[:n, :n], self.log_determinant = invert(A)
        self.gap: Array = np.zeros(room)
        self.memory = learner.make_fit(PrimalRidge)
        self.memory[0].columns = room
        self.memory.own("inverse", self.inverse)
        self.memory.own("gap", self.gap)
        rows = ("small_moments", "large_moments", "small_column", "large_column", "removed")
        for name in rows:
            self.memory.own(name, np.zeros(room))
        sum_by_cell.of()(sweep.record, Float64s.of(sweep.y), Float64s.of(self.gap))
        learner.set_weights(self.inverse @ self.gap)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for the latest cell, or it makes as many as learned points."""
        n = self.sweep.n_cells
        return n > len(self.gap) or n >= len(self.sweep.y)

    def split(self, cell: int) -> None:
        """Follow a cut."""
        self.log_determinant += split_primal.of()(self.sweep.record, self.memory[0], cell)

    def find_gap(self) -> float:
        """Predict all points; returns the largest of what the normal equations lack."""
        return find_gap.of()(self.sweep.record, self.memory[0])

    def refine(self) -> None:
        """Take a step towards what the normal equations lack."""
        n = self.sweep.n_cells
        self.learner.weights[:n] += self.inverse[:n, :n] @ self.gap[:n]

    @property
    def size(self) -> int:
        """Number of rows of the matrix."""
        return self.sweep.n_cells

    @property
    def penalty(self) -> float:
        """Sum of the squared weights."""
        return float(np.square(self.learner.weights).sum())


class Dual:
    """The inverse of the points' kernels, computed anew for the cells that there are."""

    is_full = False

    def __init__(self, learner: SweepLearner) -> None:
        self.learner, self.sweep = learner, learner.sweep
        sweep, n = self.sweep, len(self.sweep.y)
        K = np.zeros((n, n))
        regularised_kernels.of()(sweep.record, learner.delta2, Float64s.of(K))
        inverse, self.log_determinant = invert(K)
        self.inverse: Array = np.ascontiguousarray(inverse)
        self.dual: Array = self.inverse @ sweep.y
        self.gap: Array = np.zeros(n)
        self.memory = learner.make_fit(DualRidge)
        self.memory.own("inverse", self.inverse)
        self.memory.own("dual", self.dual)
        for name in ("lower_sums", "upper_sums"):
            self.memory.own(name, np.zeros(n))

    def split(self, cell: int) -> None:
        """Follow a cut."""
        self.log_determinant += split_dual.of()(self.sweep.record, self.memory[0], cell)

    def find_gap(self) -> float:
        """Predict all points; returns the largest of what the equations K a = y lack."""
        sweep, learner = self.sweep, self.learner
        if sweep.n_cells > len(learner.weights):
            learner.set_weights(np.zeros(sweep.n_cells * 5 // 4))
        find_weights.of()(sweep.record, self.memory[0])
        predict.of()(sweep.record, learner.fit)
        fitted = learner.predicted[: self.size]
        self.gap = sweep.y - fitted - learner.delta2 * self.dual
        return float(np.abs(self.gap).max())

    def refine(self) -> None:
        """Take a step towards what the equations lack."""
        self.dual += self.inverse @ self.gap

    @property
    def size(self) -> int:
        """Number of rows of the matrix."""
        return len(self.sweep.y)

    @property
    def penalty(self) -> float:
        """Sum of the squared weights, y^T K^-1 Phi Phi^T K^-1 y."""
        return float(self.dual @ self.learner.predicted[: self.size])


class RidgeLearner(SweepLearner):
    """Exact ridge regression that follows cuts, with an inverse of the smaller matrix."""

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
        is_primal = self.sweep.n_cells < len(self.sweep.y)
        self.solver = Primal(self) if is_primal else Dual(self)

    def follow(self, cell: int) -> None:
        """Follow a cut that has just been made."""
        if self.solver.is_full:
            self._rebuild()
        else:
            self.solver.split(cell)

    def finish_step(self) -> None:
        """Predict all points, as exactly as if learned from scratch."""
        error = self.solver.find_gap() / self.scale
        if error > REBUILD:
            self._rebuild()
            error = self.solver.find_gap() / self.scale
        if error > REFINE:
            self.solver.refine()
            self.solver.find_gap()

    @property
    def log_likelihood(self) -> float:
        """Log density of the targets (section 4.2.1).

        Over noise of variance s^2 and weights of variance s^2 / delta2 it is that of the residual
        |y - Phi w|^2 + delta2 |w|^2 less half of ln det(A / delta2), where A may be K as well.
        """
        y, solver = self.sweep.y, self.solver
        fitted = self.predicted[: len(y)]
        residual = float(np.square(y - fitted).sum()) + self.delta2 * solver.penalty
        determinant = solver.log_determinant - solver.size * math.log(self.delta2)
        return log_of_residual(residual, len(y), self.noise_variance) - 0.5 * determinant
