"""The Mondrian forest along a sweep: each partition is fitted on its own."""

from __future__ import annotations

from ...compiling.kernels import batch_kernel, inlined
from ...partitions.sweep import LifetimeSweep, Sweep
from ...records import Int32s
from .fit import Fit, SweepLearner


@inlined
def move(fit: Fit, order: Int32s, start: int, stop: int, step: float) -> None:
    """Move the predictions of points that lie side by side in the order of a partition."""
    predicted = fit.predicted
    for k in range(start, stop):
        i = order[k]
        predicted[i] = predicted[i] + step


@batch_kernel
def refit(sweep: Sweep, fit: Fit, number: int, share: float) -> None:
    """Fit the weight of a cell, and move the predictions of its points.

    A prediction is the mean over partitions, of which each has a `share`.
    """
    cell = sweep.ranges[number]
    order, targets, weights = sweep.order_of(cell.partition), sweep.targets, fit.weights
    total = 0.0
    for k in range(cell.start, cell.stop):
        total += targets[order[k]]
    # The least of sum (y - w)^2 + delta2 w^2 (section 6.2, before equation 4).
    new = total / (cell.stop - cell.start + fit.delta2)
    step = share * (new - weights[number])
    weights[number] = new
    move(fit, order, cell.start, cell.stop, step)
    move(fit, order, cell.other_start, cell.other_stop, step)


class ForestLearner(SweepLearner):
    """Means of the cells' targets, shrunk to 0, whose average over partitions predicts."""

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
        """Do nothing: each cut has moved the predictions."""
