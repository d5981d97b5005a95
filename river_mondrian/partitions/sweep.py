"""Mondrian partitions of given points. Cells are cut in the order of time, up to any lifetime.

A cell is cut only if its learned points differ (Balog et al. 2016, section 3.1). A cell is
therefore stored as a set of points. After a cut, the lower part keeps the cell's number, and the
upper part gets the next number. In section 4.1 of Balog et al. (2016), both parts get new numbers.
"""

import heapq
import math

import numpy as np

from ..compiling.kernels import always_inline, batch_kernel
from ..records import Array, Float64s, Floats, Int32s, Int64, Memory, Record


class Cell(Record):
    """A cell, with the ranges of its points in the `order` of a partition."""

    # Start and end of the learned points, and of the other points.
    start: Int64
    stop: Int64
    other_start: Int64
    other_stop: Int64
    partition: Int64


class Sweep(Record):
    """Points, and the cells of all partitions at one lifetime. Learned points come first."""

    # Numbers of points, of learned points, of features and of partitions.
    n_points: Int64
    n_learned: Int64
    n_dims: Int64
    n_partitions: Int64
    # Number of cells in all partitions together.
    n_cells: Int64
    # Features of each point (n_points rows of n_dims).
    points: Float64s
    # Targets of the learned points minus their mean.
    targets: Float64s
    # The cell of each point in each partition (n_points rows of n_partitions).
    cells: Int32s
    # The points of each partition, cell by cell; in a cell, learned points come first (n_partitions
    # rows of n_points).
    order: Int32s
    # The ranges of each cell's points in `order`.
    ranges: Array[Cell]
    # Buffers for a box (n_dims each).
    lower: Float64s
    upper: Float64s

    def row(self, i: int) -> Float64s:
        """Return the features of a point."""
        return self.points.part(self.n_dims * i, self.n_dims)

    def cells_of(self, i: int) -> Int32s:
        """Return the cell of a point in each partition."""
        return self.cells.part(self.n_partitions * i, self.n_partitions)

    def order_of(self, m: int) -> Int32s:
        """Return the points of a partition, cell by cell."""
        return self.order.part(self.n_points * m, self.n_points)


@batch_kernel
def draw_cut(
    sweep: Sweep, number: int, first: float, second: float, third: float
) -> tuple[float, int, float]:
    """Return the time to a cell's cut, the feature and the threshold, given three draws.

    The draws are uniform in [0, 1). The time is infinite if no learned points differ.
    """
    n_dims, lower, upper, cell = sweep.n_dims, sweep.lower, sweep.upper, sweep.ranges[number]
    # Find the box of the cell's learned points. The rate of cuts is the sum of the box's side
    # lengths.
    for d in range(n_dims):
        lower[d] = math.inf
        upper[d] = -math.inf
    order = sweep.order_of(cell.partition)
    for k in range(cell.start, cell.stop):
        x = sweep.row(order[k])
        for d in range(n_dims):
            lower[d] = min(lower[d], x[d])
            upper[d] = max(upper[d], x[d])
    rate = 0.0
    for d in range(n_dims):
        rate += upper[d] - lower[d]
    if not rate > 0.0:
        return math.inf, 0, 0.0
    # Each feature has an exponential clock, whose rate is the side length of the box in this
    # feature (Balog et al. 2016, section 2.2). The first ring has an exponential time, whose rate
    # is the sum of the sides. The first ring belongs to a feature with probability proportional to
    # the feature's side.
    left, feature = second * rate, 0
    for d in range(n_dims):
        if upper[d] > lower[d]:
            feature = d
            left -= upper[d] - lower[d]
            if left < 0.0:
                break
    threshold = lower[feature] + third * (upper[feature] - lower[feature])
    # Rounding may move the cut to the upper end, where no point is above the cut. The lower end is
    # a valid cut.
    if threshold >= upper[feature]:
        threshold = lower[feature]
    return -math.log1p(-first) / rate, feature, threshold


@always_inline
def divide(sweep: Sweep, m: int, start: int, stop: int, feature: int, threshold: float) -> int:
    """Move points with values up to `threshold` to the front; return the start of the others."""
    order = sweep.order_of(m)
    low, high = start, stop
    while low < high:
        if sweep.row(order[low])[feature] <= threshold:
            low += 1
        else:
            high -= 1
            moved = order[low]
            order[low] = order[high]
            order[high] = moved
    return low


@always_inline
def rename(sweep: Sweep, m: int, start: int, stop: int, new: int) -> None:
    """Assign the points at `start` to `stop` - 1 in a partition's order to the cell `new`."""
    order = sweep.order_of(m)
    for k in range(start, stop):
        sweep.cells_of(order[k])[m] = new


@batch_kernel
def cut(sweep: Sweep, number: int, feature: int, threshold: float) -> int:
    """Cut a cell in two, and return its partition. The upper part gets the next number."""
    new = sweep.n_cells
    cell, upper = sweep.ranges[number], sweep.ranges[new]
    m = cell.partition
    upper.partition = m
    middle = divide(sweep, m, cell.start, cell.stop, feature, threshold)
    upper.start, upper.stop = middle, cell.stop
    cell.stop = middle
    rename(sweep, m, upper.start, upper.stop, new)
    middle = divide(sweep, m, cell.other_start, cell.other_stop, feature, threshold)
    upper.other_start, upper.other_stop = middle, cell.other_stop
    cell.other_stop = middle
    rename(sweep, m, upper.other_start, upper.other_stop, new)
    sweep.n_cells = new + 1
    return m


class LifetimeSweep:
    """Partitions of points. Cells are cut one by one, in the order of the cuts' times.

    Parameters
    ----------
    X
        All points, shape (points, features). Learned points come first.
    y
        The targets of the learned points minus their mean.
    n_partitions
        Number of partitions.
    seed
        Random seed.

    """

    def __init__(self, X: Floats, y: Floats, n_partitions: int, seed: int | None) -> None:
        self.X, self.y = X, y
        # Number of partitions, and of cells of all partitions together.
        self.n_partitions = self.n_cells = n_partitions
        # Cuts have a separate random generator, so that cuts do not depend on the learner's draws.
        self._rng, self.rng = np.random.default_rng(seed).spawn(2)
        self._memory = Memory(Sweep)
        self.record = sweep = self._memory[0]
        sweep.n_points, sweep.n_dims = X.shape
        sweep.n_learned, sweep.n_partitions, sweep.n_cells = len(y), n_partitions, n_partitions
        cells = np.tile(np.arange(n_partitions, dtype=np.int32), (len(X), 1))
        order = np.tile(np.arange(len(X), dtype=np.int32), (n_partitions, 1))
        own = self._memory.own
        own("points", X.ravel())
        own("targets", y)
        own("cells", cells.ravel())
        own("order", order.ravel())
        own("lower", np.zeros(X.shape[1]))
        own("upper", np.zeros(X.shape[1]))
        self._ranges = Memory(Cell, 0)
        self._reserve(4 * n_partitions)
        whole = self._ranges.words[:n_partitions]
        whole["stop"] = whole["other_start"] = len(y)
        whole["other_stop"] = len(X)
        whole["partition"] = np.arange(n_partitions)
        self._due: list[tuple[float, int, int, float]] = []
        for cell in range(n_partitions):
            self._draw(cell, 0.0)

    def _reserve(self, n: int) -> None:
        """Reserve memory for `n` cells."""
        old = self._ranges
        self._ranges = Memory(Cell, n)
        self._ranges.words[: len(old)] = old.words
        self.record.ranges = self._ranges.array

    def _draw(self, cell: int, start: float) -> None:
        draws = self._rng.random(3).tolist()
        wait, feature, threshold = draw_cut.of()(self.record, cell, *draws)
        if wait < math.inf:
            heapq.heappush(self._due, (start + wait, cell, feature, threshold))

    @property
    def next_time(self) -> float:
        """Time of the next cut, or infinity."""
        return self._due[0][0] if self._due else math.inf

    def cut(self) -> tuple[int, int, int, float]:
        """Make the next cut, and return its partition, cell, feature and threshold."""
        due, number, feature, threshold = heapq.heappop(self._due)
        new = self.n_cells
        if new >= len(self._ranges):
            self._reserve(2 * new)
        partition = cut.of()(self.record, number, feature, threshold)
        self.n_cells = new + 1
        self._draw(number, due)
        self._draw(new, due)
        return partition, number, feature, threshold
