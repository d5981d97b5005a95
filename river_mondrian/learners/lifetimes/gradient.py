"""Stochastic gradient descent along a sweep, from where it was before a cut (section 4.2.2)."""

from __future__ import annotations

import math

import numpy as np

from ...compiling.kernels import batch_kernel
from ...partitions.sweep import LifetimeSweep, Sweep
from ...records import Int64s
from .fit import Fit, SweepLearner, predict


@batch_kernel
def descend(sweep: Sweep, fit: Fit, visits: Int64s, n: int, rate: float, decrease: float) -> None:
    """Learn `n` points in the order of their visits, by a rate that decreases with each.

    A cell's ridge is shared by its points.
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
        # Half of the gradient of (y - w phi)^2 + sum_c delta2 / n_c w_c^2, over a point's cells:
        # summed over all points the penalty is that of equation 3.
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
        """Visit points, and predict all."""
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
        """Give both parts of a cell its weight."""
        self.inherit_weight(cell)
