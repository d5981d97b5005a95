"""Linear models on the cells of a sweep: what they predict, and what learners have in common."""

from __future__ import annotations

import abc
import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ...compiling.kernels import batch_kernel
from ...partitions.sweep import LifetimeSweep, Sweep
from ...records import Float64, Float64s, Memory, Record

Array = NDArray[np.float64]
F = TypeVar("F", bound="Fit")


class Fit(Record):
    """A linear model on the cells of all partitions."""

    # The ridge: variance of the noise over the prior variance of a weight.
    delta2: Float64
    # Weight of each cell.
    weights: Float64s
    # What is predicted of the target of each point, less the mean target.
    predicted: Float64s


@batch_kernel
def predict(sweep: Sweep, fit: Fit) -> None:
    """Predict all points from the weights."""
    n_partitions, weights, predicted = sweep.n_partitions, fit.weights, fit.predicted
    # A point's features are 1 / sqrt(M) in its M cells (equation 2).
    scale = 1.0 / math.sqrt(n_partitions)
    for i in range(sweep.n_points):
        cells = sweep.cells_of(i)
        total = 0.0
        for m in range(n_partitions):
            total += weights[cells[m]]
        predicted[i] = scale * total


@batch_kernel
def sum_by_cell(sweep: Sweep, values: Float64s, sums: Float64s) -> None:
    """Write Phi^T values: by cell the sums of features times values of the learned points."""
    n_partitions = sweep.n_partitions
    scale = 1.0 / math.sqrt(n_partitions)
    for c in range(sweep.n_cells):
        sums[c] = 0.0
    for i in range(sweep.n_learned):
        cells = sweep.cells_of(i)
        for m in range(n_partitions):
            sums[cells[m]] += scale * values[i]


class SweepLearner(abc.ABC):
    """A learner that follows the cuts of a sweep.

    A weight times `unit` is what its cell says of the target less its mean: predictions are means
    of that over a point's cells.
    """

    unit = 1.0

    def __init__(self, sweep: LifetimeSweep, delta2: float) -> None:
        self.sweep, self.delta2 = sweep, delta2
        self.predicted: Array = np.zeros(len(sweep.X))
        self.weights: Array = np.zeros(sweep.n_partitions)
        self.fit: Fit

    def make_fit(self, kind: type[F]) -> Memory[F]:
        """Return memory of a fit that has the weights and predictions so far."""
        memory = Memory(kind)
        self.fit = memory[0]
        self.fit.delta2 = self.delta2
        self.fit.weights = Float64s.of(self.weights)
        self.fit.predicted = Float64s.of(self.predicted)
        return memory

    def set_weights(self, weights: Array) -> None:
        """Take other weights, with room for more cells perhaps."""
        self.weights = weights
        self.fit.weights = Float64s.of(weights)

    def inherit_weight(self, cell: int) -> None:
        """Give the upper part of a cell that has been cut the cell's weight (section 4.2.2)."""
        new = self.sweep.n_cells - 1
        if new >= len(self.weights):
            self.set_weights(np.concatenate([self.weights, np.zeros(len(self.weights))]))
        self.weights[new] = self.weights[cell]

    @abc.abstractmethod
    def follow(self, cell: int) -> None:
        """Follow the cut of a cell that has just been made."""

    @abc.abstractmethod
    def finish_step(self) -> None:
        """Predict all points after one cut or several."""
