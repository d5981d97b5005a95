"""`PivotTrees`, trees of regions with their memory and density estimates."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import records as rec
from ..checks import LARGEST_SIZE, check_array, check_arrays, check_number, refuse
from ..limits import LARGEST, NO_ROOM
from ..records.memory import PackedRows
from ..restored import Edges, Rows, check_numbers, check_references
from ..values import quiet
from . import mixture as kernels
from .mixture import CellEstimate, PivotForest
from .regions import NONE, PivotTree, Region, StoredSample
from .walks import room_for_faces

# Checks of restored trees of regions.
#
# Kernels follow links between regions and between samples, and search for cuts up to a time or a
# distance. In damaged trees, a kernel might never end. So chains of links must not repeat rows, and
# numbers must be within bounds that end each search.


# Largest absolute value of restored features, with a tolerance for rounding.
_MOST = 1.001 * LARGEST
# For each array: the name of the field with the array's length, and the bounds of its numbers.
_ARRAYS = {
    "means": ("n_inputs", -_MOST, _MOST),
    "n_values": ("n_inputs", 0.0, 1e300),
    "constants": ("n_inputs", -_MOST, _MOST),
    "rates": ("n_dims", 0.0, 1.001e100),
    "log_weights": ("n_shares", -1e300, 1e300),
    "parts": ("n_shares", 0.0, 1e300),
    "medians": ("n_shares", -1e300, 1e300),
    "spreads": ("n_shares", 0.0, 1e300),
}
# Names of the arrays with one number per level.
_BY_LEVEL = [name for name, (size, _, _) in _ARRAYS.items() if size == "n_shares"]


def check_records(owner: Any) -> None:
    """Check the records of restored trees and the numbers in their arrays.

    Parameters
    ----------
    owner
        The restored `PivotTrees`, whose attributes have been set.

    Raises
    ------
    ModelFormatError
        If a record or an array is damaged.

    """
    if owner.memory.kind is not PivotForest or owner.trees.kind is not PivotTree:
        refuse(owner, "trees", owner.trees.kind.__name__, "but PivotTree is expected")
    if len(owner.memory) != 1 or len(owner.trees) == 0:
        refuse(owner, "n_trees", len(owner.trees), "but there must be at least one")
    forest, sets = owner.memory[0], owner.directions
    check_number(owner, "n_trees", forest.n_trees, len(owner.trees), len(owner.trees))
    forest.n_shares = len(LEVELS) if forest.adapts else 1
    arrays: dict[str, Any] = {
        name: (np.float64, (getattr(forest, size),), least, most)
        for name, (size, least, most) in _ARRAYS.items()
    }
    if owner.origin is not None:
        arrays["origin"] = np.float64, (forest.n_inputs,), -_MOST, _MOST
    if sets is None:
        check_number(owner, "n_dims", forest.n_dims, forest.n_inputs, forest.n_inputs)
    else:
        n_sets = forest.n_trees if np.shape(sets)[:1] == (forest.n_trees,) else 1
        shape = n_sets, forest.n_dims, forest.n_inputs
        arrays["directions"] = np.float64, shape, -1e100, 1e100
    check_arrays(owner, arrays)
    check_numbers("forest", Rows.of_memory(owner.memory))
    check_numbers("tree", Rows.of_memory(owner.trees))
    if forest.renews_at:
        # A renewal is due when the number of learned samples equals `renews_at`, so a smaller
        # number would never be reached. A renewal learns the queued samples, so a queue is
        # required.
        check_number(owner, "renews_at", forest.renews_at, forest.n_learned, LARGEST_SIZE)
        if not (forest.adapts and forest.queues):
            refuse(owner, "renews_at", forest.renews_at, "but trees like these are never renewed")


def check_regions(owner: Any) -> None:
    """Check the regions and samples of restored trees.

    Parameters
    ----------
    owner
        The restored `PivotTrees`, whose attributes and rows have been set.

    Raises
    ------
    ModelFormatError
        If a link, a count or another number is wrong.

    """
    forest, n_trees = owner.forest, len(owner.trees)
    n_regions, n_stored = int(forest.regions.n_rows), int(forest.samples.n_rows)
    regions = Rows.of_table(rec.RowLayout(Region), n_regions, owner.regions)
    samples = Rows.of_table(owner._sample_layout(), n_stored, owner.samples)
    check_array(owner, "values", samples.column("values"), np.float64, -_MOST, _MOST)
    rows = {"trees": Rows.of_memory(owner.trees), "regions": regions}
    followed = check_references("forest", rows)
    rows = {"forest": Rows.of_memory(owner.memory), "regions": regions}
    unused = check_references("forest", rows).met("regions")
    used = followed.met("regions")
    if (used == unused).any() or unused.sum() != forest.n_unused_regions:
        refuse(owner, "n_unused_regions", forest.n_unused_regions, "but other rows are unused")
    # `check_references` numbers the rows of both tables consecutively, and trees come first.
    above = followed.parents["regions"] - n_trees
    names = ("time", "n_samples", "pivot", "next")
    times, sizes, pivots, following = (regions.column(name) for name in names)
    roots = owner.trees.words["root"]
    roots = roots[roots != NONE]
    n = int(forest.n_samples)
    if (n > 0 and len(roots) < n_trees) or (sizes[roots] != n).any():
        refuse(owner, "n_samples", n, "but the roots of the trees have other numbers")
    if (following[roots] != NONE).any() or (times[roots] != 0.0).any():
        refuse(owner, "roots", roots.tolist(), "but regions of the whole space were never cut off")
    cut_off = used & (above >= 0)
    before = times[np.maximum(above, 0)] if n_regions else times
    is_later = (times > 0.0) & (times >= before) & (times < math.inf)
    if (cut_off & ~is_later).any() or (used & (sizes < 1)).any():
        refuse(owner, "regions", "wrong", "since one was cut off too early, or has no samples")
    _check_samples(owner, samples, pivots[used])


def _check_samples(owner: Any, samples: Rows, pivots: Any) -> None:
    """Raise an error if a stored sample has a wrong number of uses."""
    forest, links = owner.forest, samples.column("links")
    if owner.origin is not None:
        check_array(owner, "pivots", pivots, np.int32, NONE, NONE)
        pivots = pivots[:0]
    check_array(owner, "pivots", pivots, np.int32, 0, samples.n - 1)
    rows = {"forest": Rows.of_memory(owner.memory), "samples": samples}
    edges = [Edges("samples", "link", rec.Ref("samples"), links[:, 1])]
    queued, unused = (
        check_references("forest", rows, edges, chain=chain).met("samples")
        for chain in ("queue", "unused")
    )
    uses = np.bincount(pivots, minlength=samples.n) + queued
    n = int(forest.n_samples) if forest.queues else 0
    numbers = queued.sum(), forest.n_queued, unused.sum()
    if numbers != (n, n, forest.n_unused_samples) or (unused == (uses > 0)).any():
        refuse(owner, "n_queued", forest.n_queued, "but counts of queued or unused samples differ")
    if (links[:, 0] != uses).any():
        refuse(owner, "a stored sample", "wrong", "since its number of uses differs")
    last = queued & (links[:, 1] == NONE)
    if np.flatnonzero(last).tolist() != ([] if forest.newest == NONE else [forest.newest]):
        refuse(owner, "newest", forest.newest, "but it is not the last sample of the queue")


_REGION_LAYOUT = rec.RowLayout(Region)

# Estimators by name.
ESTIMATORS = {"forest": kernels.FOREST, "laplace": kernels.LAPLACE, "kernel": kernels.KERNEL}

# Largest number of units of work in one kernel call, which then takes a few tenths of a second. In
# each tree, a row costs `ROW_WORK` units plus one unit for each value. The volume of an oblique
# cell costs `VOLUME_WORK` units.
MOST_WORK = 1 << 22
ROW_WORK = 20
VOLUME_WORK = 1000

# Largest lifetime of a mixture, and all lifetimes as shares of the largest lifetime. Lifetimes
# refer to features divided by their widths (see `ENDS`). Each lifetime is half of the next
# lifetime. At the smallest lifetime, samples share cells even with a million features.
LARGEST_LEVEL = 64.0
LEVELS = 2.0 ** np.arange(-26, 1)

# Numbers of samples after which all rates are renewed. After the last renewal, a rate changes only
# if the rate is 0 and the feature's value is no longer constant.
RENEWALS = (16, 64, 256)

# A feature's width is the distance between these quantiles of its values, unless the quantiles are
# equal (see `_rates_of`).
ENDS = (0.05, 0.95)


class PivotTrees(rec.OwnsArrays):
    """Trees of regions, with density estimates.

    Parameters
    ----------
    lifetimes
        The lifetime of each tree; None if several lifetimes are mixed and features' rates are
        estimated from the samples.
    n_trees
        Number of trees.
    seed
        Seed of the trees' keys.
    n_inputs
        Number of features.
    grows
        Whether lifetimes grow with the number of samples.
    estimator
        Name of the estimator (`ESTIMATORS`).
    window, max_nodes
        Largest numbers of samples and of regions in the trees; None sets no limit.
    directions
        Matrices of cut directions, shape (trees, directions, features), or (1, ...) if all trees
        have the same directions; None for the axes.
    origin
        The features' values at the origin; None if pivots are samples. With an origin, `window` and
        `max_nodes` are None, and lifetimes do not grow.

    Attributes
    ----------
    vector
        Values of the sample to be learned or predicted, shape (n_inputs,).
    cell
        The lower and the upper corner of the current cell, shape (2, dimensions).
    estimates
        Each tree's contribution to the last estimate.

    """

    def __init__(
        self,
        lifetimes: rec.Floats | None,
        n_trees: int,
        seed: int,
        n_inputs: int,
        grows: bool,
        estimator: str,
        window: int | None,
        max_nodes: int | None,
        directions: rec.Floats | None = None,
        origin: list[float] | None = None,
    ) -> None:
        self.directions = directions
        self.origin = None if origin is None else np.array(origin)
        self.memory = rec.Memory(PivotForest)
        forest = self.memory[0]
        forest.n_trees, forest.n_inputs = n_trees, n_inputs
        forest.n_dims = n_inputs if directions is None else directions.shape[1]
        forest.estimator = ESTIMATORS[estimator]
        forest.window, forest.max_nodes = window or 0, max_nodes or 0
        forest.adapts = lifetimes is None
        forest.renews_at = RENEWALS[0] if forest.adapts else 0
        forest.queues = bool(forest.window or forest.max_nodes or forest.adapts)
        forest.unused_region = forest.unused_sample = NONE
        forest.oldest = forest.newest = NONE
        self.trees = rec.Memory(PivotTree, n_trees)
        keys = np.random.default_rng(seed).integers(1 << 64, size=n_trees, dtype=np.uint64)
        words = self.trees.words
        words["key"], words["root"] = keys.view(np.int64), NONE
        words["lifetime"] = LARGEST_LEVEL if lifetimes is None else lifetimes
        words["horizon"] = math.inf if grows else words["lifetime"]
        self.shares = LEVELS if forest.adapts else np.ones(1)
        forest.n_shares = len(self.shares)
        for name in _BY_LEVEL:
            setattr(self, name, np.zeros(forest.n_shares))
        self.means = np.zeros(n_inputs) if origin is None else np.array(origin)
        self.n_values = np.zeros(n_inputs)
        self.constants = np.zeros(n_inputs)
        self.rates = np.zeros(n_inputs) if forest.adapts else np.ones(forest.n_dims)
        self.regions = rec.ChunkedRows(1, _REGION_LAYOUT.words)
        self.samples = rec.ChunkedRows(1, self._sample_layout().words)
        self._finish()

    def _sample_layout(self) -> rec.RowLayout:
        """Return the layout of a stored sample's row."""
        values = rec.Section("values", rec.FLOAT64, self.memory[0].n_inputs)
        return rec.RowLayout(StoredSample, (values, rec.Section("links", rec.INT32, 2)))

    def _finish(self) -> None:
        """Create the buffers, and set the addresses of all arrays in the record."""
        forest = self.forest = self.memory[0]
        n_inputs, n_dims, n_levels = forest.n_inputs, forest.n_dims, forest.n_shares
        self.vector = np.full(n_inputs, np.nan)
        self.cell = np.zeros((2, n_dims))
        self.estimates = rec.Memory(CellEstimate, forest.n_trees)
        self.memory.own("inputs", self.vector)
        for name in ("shares", *_ARRAYS):
            self.memory.own(name, getattr(self, name))
        if self.directions is not None:
            self.memory.own("directions", self.directions.reshape(-1))
            forest.directions_step = 0 if len(self.directions) == 1 else self.directions[0].size
            self.memory.own("faces", np.zeros(room_for_faces(n_dims)))
        if self.origin is not None:
            self.memory.own("origin", self.origin)
        for name, n in (("along", n_dims), ("around", n_dims), ("complete", n_inputs)):
            self.memory.own(name, np.zeros(n))
        for name in ("counts", "totals", "log_levels"):
            self.memory.own(name, np.zeros(n_levels))
        forest.trees, forest.estimates = self.trees.array, self.estimates.array
        forest.cell.lower, forest.cell.upper = map(rec.Float64s.of, self.cell)
        # Compiled kernels are stored as attributes, because looking them up for each sample would
        # take as long as learning the sample in one tree.
        self._learn_one: Callable[[PivotForest, float], int] | None = None
        self._read_one: Callable[[PivotForest, int], float] | None = None
        self._first_tree = self.trees[0]
        self.is_unfinished = self.memory.word("is_unfinished")
        self._region_table, self._sample_table = forest.regions, forest.samples
        self._show()
        self._reserve()

    def _show(self) -> None:
        """Pass the addresses of rows to kernels."""
        self.regions.show(0, self._region_table)
        self.samples.show(0, self._sample_table)

    def _reserve(self, n_regions: int = 0) -> None:
        """Allocate memory for another sample, and for at least `n_regions` regions."""
        regions, samples = self._region_table, self._sample_table
        self.regions.grow(0, regions, regions.n_rows + max(self.forest.n_trees, n_regions))
        self.samples.grow(0, samples, samples.n_rows + 1)

    @property
    def n_samples(self) -> int:
        """Number of learned samples."""
        return self.forest.n_learned

    @property
    def n_inputs(self) -> int:
        """Number of features."""
        return self.forest.n_inputs

    @property
    def lifetime(self) -> float:
        """Lifetime of the first tree, and of all trees unless lifetimes are random."""
        return float(self._first_tree.lifetime)

    # Learning.

    def learn(self, lifetime: float = math.nan) -> int:
        """Learn the sample in `vector` at a lifetime; with NaN, each tree keeps its lifetime.

        Return `DONE` if the sample has been learned. Otherwise, return the index of the first
        invalid input, or `WAITS` if the trees must be renewed first.
        """
        learn_one = self._learn_one
        if learn_one is None:
            learn_one = self._learn_one = kernels.learn_one.of()
        status = learn_one(self.forest, lifetime)
        if status == NO_ROOM:
            self._make_room()
            status = learn_one(self.forest, lifetime)
        return status

    def learn_many(self, rows: rec.Floats, lifetimes: rec.Floats | None = None) -> None:
        """Learn checked rows, at most `rows_until_renewal` rows.

        `lifetimes` contains the lifetime for each row, shape (rows,). If `lifetimes` is None, each
        tree keeps its lifetime.
        """
        n_before, start = self.n_samples, 0
        while start < len(rows):
            horizons = rec.Float64s(0) if lifetimes is None else rec.Float64s.of(lifetimes[start:])
            arguments = self.forest, rec.Float64s.of(rows[start:]), len(rows) - start, horizons
            if kernels.learn_rows.of()(*arguments) == NO_ROOM:
                self._make_room()
            start = self.n_samples - n_before

    def _make_room(self) -> None:
        self.close()
        self._reserve(self.forest.n_missing)
        self.forest.is_unfinished = 0

    @property
    def rows_at_once(self) -> int:
        """Largest number of rows in one kernel call, bounded so that the call returns soon."""
        return min(self._rows_at_once, self.rows_until_renewal or sys.maxsize)

    @property
    def _rows_at_once(self) -> int:
        work = ROW_WORK + self.n_inputs + (0 if self.directions is None else VOLUME_WORK)
        return max(1, MOST_WORK // (len(self.trees) * work))

    @property
    def rows_until_renewal(self) -> int | None:
        """Number of rows to learn before the trees are renewed; None without further renewals."""
        forest = self.forest
        return forest.renews_at - forest.n_learned if forest.renews_at else None

    def add_samples_of(self, other: PivotTrees) -> None:
        """Add the samples of other trees that have the same origin, keys and lifetimes."""
        self._reserve(other.forest.regions.n_rows)
        share = other.n_values / np.maximum(self.n_values + other.n_values, 1.0)
        self.means += share * (other.means - self.means)
        self.n_values += other.n_values
        kernels.add_samples(self.forest, other.forest)

    # Interrupted calls.

    def close(self) -> None:
        """Record that a change has begun, so that the next call runs `settle` first."""
        self.forest.is_unfinished = 1

    def settle(self) -> None:
        """Finish an interrupted change."""
        self._show()
        self.forest.is_unfinished = 0

    def copied(self) -> PivotTrees:
        """Return a copy that can be changed independently."""
        state = self.__getstate__()
        for name, value in state.items():
            is_table = isinstance(value, rec.TableState)
            state[name] = PackedRows(value.rows) if is_table else copy.deepcopy(value)
        copied = type(self).__new__(type(self))
        copied.__setstate__(state)
        return copied

    def add_inputs(self, values: rec.Floats) -> None:
        """Add features, which count as the given values in all earlier samples."""
        forest, ones = self.forest, np.ones(len(values))
        n_inputs = forest.n_inputs
        self.means = np.append(self.means, values)
        self.constants = np.append(self.constants, values)
        self.n_values = np.append(self.n_values, float(self.n_samples) * ones)
        self.rates = np.append(self.rates, (0.0 if forest.adapts else 1.0) * ones)
        # A value is a 64-bit float, so it takes two words of 32 bits.
        start, end = 2 * n_inputs, 2 * (n_inputs + len(values))
        self.samples = self.samples.resized(end + 2, [(0, 0, start), (start, end, 2)])
        for chunk in self.samples.chunks[0]:
            chunk[:, start:end] = values.view(np.int32)
        forest.n_inputs = forest.n_dims = n_inputs + len(values)
        self._finish()

    @quiet
    def renewed(self) -> PivotTrees:
        """Return new trees that have learned the queued samples.

        The rates of the new trees are estimated from the queued samples.
        """
        forest = self.forest
        queued = self._queued()
        # Without features, samples have no values, so the number of columns is set explicitly.
        rows = np.reshape(queued, (len(queued), forest.n_dims))
        estimator = next(name for name, number in ESTIMATORS.items() if number == forest.estimator)
        bounds = forest.window, forest.max_nodes
        renewed = type(self)(None, forest.n_trees, 0, forest.n_dims, False, estimator, *bounds)
        renewed.trees.words["key"] = self.trees.words["key"]
        renewed.constants[:] = rows[0]
        renewed.rates[:] = _rates_of(rows)
        later = [n for n in RENEWALS if n > forest.n_learned]
        new = renewed.forest
        new.renews_at = 0
        new.queues = bool(new.window or new.max_nodes or later)
        renewed.learn_many(np.ascontiguousarray(rows))
        new.n_learned, new.renews_at = forest.n_learned, later[0] if later else 0
        renewed.means[:], renewed.n_values[:] = self.means, self.n_values
        return renewed

    def _queued(self) -> list[rec.Floats]:
        """Return the samples that can be removed, oldest first."""
        rows, row = [], self.forest.oldest
        while row != NONE:
            sample = self._sample_table.row(row)
            rows.append(np.array(sample.values(self.forest).view()))
            row = int(sample.links(self.forest)[1])
        return rows

    # Prediction.

    def read(self, reading: int) -> float:
        """Return the log density or score of the sample in `vector`; NaN if an input is invalid.

        Parameters
        ----------
        reading
            One of `LOG_DENSITY`, `FLOORED` and `SCORE` (`mixture.reading_of`).

        """
        read_one = self._read_one
        if read_one is None:
            read_one = self._read_one = kernels.read_one.of()
        return read_one(self.forest, reading)

    def read_many(self, rows: rec.Floats, out: rec.Floats, reading: int) -> None:
        """Write the log density or score of each checked row to `out`."""
        limit = self._rows_at_once
        for start in range(0, len(rows), limit):
            block, target = rows[start : start + limit], out[start : start + limit]
            arguments = rec.Float64s.of(block), len(block), reading, rec.Float64s.of(target)
            kernels.read_rows(self.forest, *arguments)

    def __getstate__(self) -> dict[str, Any]:
        layout = self._sample_layout()
        return {name: getattr(self, name) for name in _ARRAYS} | {
            "memory": self.memory,
            "trees": self.trees,
            "directions": self.directions,
            "origin": self.origin,
            "regions": rec.TableState(self.regions, [self.forest.regions.n_rows], _REGION_LAYOUT),
            "samples": rec.TableState(self.samples, [self.forest.samples.n_rows], layout),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = rec.owned(state)
        self.memory, self.trees = state["memory"], state["trees"]
        for name in (*_ARRAYS, "directions", "origin"):
            setattr(self, name, state[name])
        check_records(self)
        forest = self.memory[0]
        self.shares = LEVELS if forest.adapts else np.ones(1)
        regions, samples = state["regions"], state["samples"]
        self.regions = regions.restored(_REGION_LAYOUT)
        self.samples = samples.restored(self._sample_layout())
        (forest.regions.n_rows,), (forest.samples.n_rows,) = regions.counts, samples.counts
        self._finish()
        check_regions(self)


def _rates_of(rows: rec.Floats) -> rec.Floats:
    """Return each feature's rate of cuts, which is 1 / width.

    The width of a feature is the distance between the quantiles `ENDS`. If the two quantiles are
    equal, the width is the mean distance from the median, over the values that differ from the
    median. The rate is 0 if all values of the feature are equal.
    """
    low, high = np.quantile(rows, ENDS, axis=0)
    widths = high - low
    for k in np.flatnonzero(widths == 0.0).tolist():
        apart = np.abs(rows[:, k] - np.median(rows[:, k]))
        widths[k] = apart[apart > 0.0].mean() if (apart > 0.0).any() else math.inf
    return np.asarray(1.0 / np.maximum(widths, 1e-100))
