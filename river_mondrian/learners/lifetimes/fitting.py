"""Linear models on the cells of a sweep over lifetimes: predictions, a base class and two learners.

Sections and equations refer to Balog et al. (2016).
"""

import abc
import math
from typing import TypeVar

import numpy as np

from ...compiling.kernels import always_inline, batch_kernel
from ...partitions.sweep import LifetimeSweep, Sweep
from ...records import Float64, Float64s, Floats, Int32s, Int64s, Memory, Record

F = TypeVar("F", bound="Fit")


class Fit(Record):
    """A linear model on the cells of all partitions."""

    # The ridge: variance of the noise divided by the prior variance of a weight.
    delta2: Float64
    # Weight of each cell.
    weights: Float64s
    # Predicted target of each point, minus the mean target.
    predicted: Float64s


@batch_kernel
def predict(sweep: Sweep, fit: Fit) -> None:
    """Predict all points from the weights."""
    n_partitions, weights, predicted = sweep.n_partitions, fit.weights, fit.predicted
    # A point's features are 1 / sqrt(M) in its M cells (Balog et al. 2016, equation 2).
    scale = 1.0 / math.sqrt(n_partitions)
    for i in range(sweep.n_points):
        cells = sweep.cells_of(i)
        total = 0.0
        for m in range(n_partitions):
            total += weights[cells[m]]
        predicted[i] = scale * total


@batch_kernel
def sum_by_cell(sweep: Sweep, values: Float64s, sums: Float64s) -> None:
    """Write Phi^T `values`: each cell's sum of features times values over learned points."""
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

    The weight of a cell, times `unit`, is a prediction of the target minus the mean target. The
    prediction of a point is the mean over its cells.
    """

    unit = 1.0

    def __init__(self, sweep: LifetimeSweep, delta2: float) -> None:
        self.sweep, self.delta2 = sweep, delta2
        self.predicted: Floats = np.zeros(len(sweep.X))
        self.weights: Floats = np.zeros(sweep.n_partitions)
        self.fit: Fit

    def make_fit(self, kind: type[F]) -> Memory[F]:
        """Return the memory of a new fit with the current weights and predictions."""
        memory = Memory(kind)
        self.fit = memory[0]
        self.fit.delta2 = self.delta2
        self.fit.weights = Float64s.of(self.weights)
        self.fit.predicted = Float64s.of(self.predicted)
        return memory

    def set_weights(self, weights: Floats) -> None:
        """Replace the array of weights, for example with a longer array."""
        self.weights = weights
        self.fit.weights = Float64s.of(weights)

    def inherit_weight(self, cell: int) -> None:
        """Copy the weight of a cut cell to its upper part (Balog et al. 2016, section 4.2.2)."""
        new = self.sweep.n_cells - 1
        if new >= len(self.weights):
            self.set_weights(np.concatenate([self.weights, np.zeros(len(self.weights))]))
        self.weights[new] = self.weights[cell]

    @abc.abstractmethod
    def follow(self, cell: int) -> None:
        """Update the learner for the latest cut, which has split `cell`."""

    @abc.abstractmethod
    def finish_step(self) -> None:
        """Predict all points after one or several cuts."""


# Stochastic gradient descent along a sweep. After a cut, the descent continues from the current
# weights (Balog et al. 2016, section 4.2.2).


@batch_kernel
def descend(sweep: Sweep, fit: Fit, visits: Int64s, n: int, rate: float, decrease: float) -> None:
    """Learn `n` points in the order of `visits`, with a rate that decreases at each visit.

    The penalty of a cell is divided among its points.
    """
    n_partitions, targets, weights = sweep.n_partitions, sweep.targets, fit.weights
    ranges, delta2 = sweep.ranges, fit.delta2
    scale = 1.0 / math.sqrt(n_partitions)
    for visit in range(n):
        i = visits[visit]
        cells = sweep.cells_of(i)
        total = 0.0
        for m in range(n_partitions):
            total += weights[cells[m]]
        # The step is proportional to minus half of the gradient of (y - w phi)^2 + sum_c delta2 /
        # n_c w_c^2. The sum is over the point's cells c, and n_c is the number of points in cell c.
        # The penalties of all points add up to the penalty of equation 3 (Balog et al. 2016).
        slope = scale * (targets[i] - scale * total)
        for m in range(n_partitions):
            number = cells[m]
            cell = ranges[number]
            ridge = delta2 / (cell.stop - cell.start)
            weights[number] += rate * (slope - ridge * weights[number])
        rate -= decrease


class GradientLearner(SweepLearner):
    """Stochastic gradient descent with a rate that falls to 0 over the visits of a step."""

    def __init__(self, sweep: LifetimeSweep, delta2: float, passes: float, rate: float) -> None:
        super().__init__(sweep, delta2)
        self.memory = self.make_fit(Fit)
        self.unit = math.sqrt(sweep.n_partitions)
        self.passes, self.rate = passes, rate
        self.order = np.zeros(len(sweep.y), dtype=np.int64)
        self.visits = Int64s.of(self.order)
        self.finish_step()

    def finish_step(self) -> None:
        """Visit points in random order, and predict all points."""
        sweep, n = self.sweep, len(self.sweep.y)
        n_visits = max(1, round(self.passes * n))
        left, decrease = n_visits, self.rate / n_visits
        while left > 0:
            self.order[:] = sweep.rng.permutation(n)
            n_visited = min(n, left)
            rate = left * decrease
            descend.of()(sweep.record, self.fit, self.visits, n_visited, rate, decrease)
            left -= n_visited
        predict.of()(sweep.record, self.memory[0])

    def follow(self, cell: int) -> None:
        """Set the weights of both parts of a cell to the cell's weight."""
        self.inherit_weight(cell)


# The Mondrian forest along a sweep: each partition is fitted separately.


@always_inline
def move(fit: Fit, order: Int32s, start: int, stop: int, step: float) -> None:
    """Add `step` to the predictions of points `start` to `stop` - 1 in a partition's order."""
    predicted = fit.predicted
    for k in range(start, stop):
        predicted[order[k]] += step


@batch_kernel
def refit(sweep: Sweep, fit: Fit, number: int, share: float) -> None:
    """Fit the weight of a cell, and update the predictions of the cell's points.

    A prediction is the mean over partitions. `share` is 1 / (number of partitions).
    """
    cell = sweep.ranges[number]
    order, targets, weights = sweep.order_of(cell.partition), sweep.targets, fit.weights
    total = 0.0
    for k in range(cell.start, cell.stop):
        total += targets[order[k]]
    # The new weight w minimizes sum (y - w)^2 + delta2 w^2 (Balog et al. 2016, section 6.2, before
    # equation 4).
    new = total / (cell.stop - cell.start + fit.delta2)
    step = share * (new - weights[number])
    weights[number] = new
    move(fit, order, cell.start, cell.stop, step)
    move(fit, order, cell.other_start, cell.other_stop, step)


class ForestLearner(SweepLearner):
    """A learner that averages the cells' mean targets, shrunk towards 0, over the partitions."""

    def __init__(self, sweep: LifetimeSweep, delta2: float) -> None:
        super().__init__(sweep, delta2)
        self.memory = self.make_fit(Fit)
        for cell in range(sweep.n_partitions):
            self._refit(cell)

    def _refit(self, cell: int) -> None:
        refit.of()(self.sweep.record, self.memory[0], cell, 1.0 / self.sweep.n_partitions)

    def follow(self, cell: int) -> None:
        """Fit both parts of a cell."""
        self.inherit_weight(cell)
        self._refit(cell)
        self._refit(self.sweep.n_cells - 1)

    def finish_step(self) -> None:
        """Do nothing: the predictions have been updated at each cut."""
