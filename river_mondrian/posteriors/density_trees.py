"""The trees of a density forest, as their owner in Python has them."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..limits import LARGEST
from ..partitions.polytopes import log_polytope_volume
from ..partitions.unbounded.cells import Cell
from ..partitions.unbounded.dimensions import add_dimension
from ..partitions.unbounded.records import NONE, Sample, Tree
from ..records import (
    FLOAT64,
    INT32,
    ChunkedRows,
    Float64s,
    Memory,
    Part,
    RowLayout,
    TableState,
    check_shapes,
    owned,
)
from ..records.arrays import CHUNK_ROWS
from ..records.chunked_rows import PackedRows
from ..status import DONE, NO_ROOM
from . import density as kernels
from . import merging_density as merging
from .checking_density import check_cells, check_numbers, check_records
from .density import CellEstimate, DensityNode, DensityPartition

_NODE_LAYOUT = RowLayout(DensityNode)

# Numbers that a kernel may go through at once, so that it returns within some tenths of a second,
# and those of a row in a tree, besides its values; rows of oblique trees that are learned at once.
MOST_WORK = 1 << 22
ROW_WORK = 20
OBLIQUE_ROWS = 16

# Estimators by name.
ESTIMATORS = {"forest": kernels.FOREST, "laplace": kernels.LAPLACE, "kernel": kernels.KERNEL}


class DensityTrees:
    """The trees of a density forest.

    Parameters
    ----------
    lifetimes
        The trees' lifetimes, one each.
    seed
        Seed of the trees' keys.
    n_inputs
        Number of features.
    directions
        Matrices of cut directions, shape (trees, directions, features), or (1, ...) where all
        trees have the same; None for the axes.
    stores_samples
        Whether samples are stored, which a growing lifetime needs.
    estimator
        Name of the estimator (`ESTIMATORS`).

    Attributes
    ----------
    vector
        Room for the values of the sample that is learned or predicted, one per feature.
    corners
        The lower and the upper corner of each root's cell, shape (trees, 2, dimensions).
    cell
        Those of the cell on the way.
    estimates
        What each tree contributes to the last estimate.

    """

    def __init__(
        self,
        lifetimes: NDArray[np.float64],
        seed: int,
        n_inputs: int,
        directions: NDArray[np.float64] | None,
        stores_samples: bool,
        estimator: str,
    ) -> None:
        n_trees = len(lifetimes)
        self.directions = directions
        self.memory = Memory(DensityPartition)
        forest = self.memory[0]
        forest.n_trees = n_trees
        forest.n_dims = n_inputs if directions is None else directions.shape[1]
        forest.n_inputs = n_inputs
        forest.stores_samples = stores_samples
        forest.estimator = ESTIMATORS[estimator]
        self.trees = Memory(Tree, n_trees)
        keys = np.random.default_rng(seed).integers(1 << 64, size=n_trees, dtype=np.uint64)
        self.trees.words["root"] = NONE
        self.trees.words["key_above"] = keys.view(np.int64)
        self.trees.words["lifetime"] = lifetimes
        self.corners = np.zeros((n_trees, 2, forest.n_dims))
        self.means, self.n_values = np.zeros(n_inputs), np.zeros(n_inputs)
        self.nodes = ChunkedRows(1, _NODE_LAYOUT.words)
        self.samples = ChunkedRows(1, self._sample_layout().words)
        self._finish()

    def _sample_layout(self) -> RowLayout:
        """Return what a stored sample's row is."""
        forest = self.memory[0]
        values = Part("values", FLOAT64, forest.n_inputs)
        return RowLayout(Sample, (values, Part("links", INT32, forest.n_trees)))

    def _finish(self) -> None:
        """Make the buffers, and let the record refer to all arrays."""
        forest = self.forest = self.memory[0]
        n_dims = forest.n_dims
        self.vector = np.full(forest.n_inputs, np.nan)
        self.along, self.stored_along = np.zeros(n_dims), np.zeros(n_dims)
        self.cell = np.zeros((2, n_dims))
        self.estimates = Memory(CellEstimate, forest.n_trees)
        if self.directions is not None:
            self.memory.own("directions", self.directions.reshape(-1))
            forest.directions_step = 0 if len(self.directions) == 1 else self.directions[0].size
        self.memory.own("inputs", self.vector)
        for name in ("along", "stored_along", "means", "n_values"):
            self.memory.own(name, getattr(self, name))
        forest.trees, forest.estimates = self.trees.array, self.estimates.array
        _refer(forest.cell, self.cell)
        for tree, corners in zip(self.trees, self.corners, strict=True):
            _refer(tree.cell, corners)
        # What is used for each sample; finding it takes as long as learning in a tree.
        self._learn_one: Callable[[kernels.DensityPartition, float], int] | None = None
        self._log_density_one: Callable[[kernels.DensityPartition, bool], float] | None = None
        self._first_tree = self.trees[0]
        self.is_unfinished = self.memory.word("is_unfinished")
        self._node_table, self._sample_table = forest.nodes, forest.samples
        self._show()
        self._reserve(0)

    def _show(self) -> None:
        """Tell kernels where rows are."""
        self.nodes.show(0, self._node_table)
        self.samples.show(0, self._sample_table)

    def _reserve(self, n_nodes: int) -> None:
        """Make room for more nodes, and for another sample."""
        table, nodes = self._node_table, self.nodes
        nodes.grow(0, table, table.n_rows + n_nodes)
        if self.forest.stores_samples:
            rows, samples = self._sample_table, self.samples
            samples.grow(0, rows, rows.n_rows + 1)

    def begin(self, origin: list[float]) -> None:
        """Begin all trees at an origin, before any sample."""
        self._reserve(len(self.trees))
        self.vector[:] = origin
        self.means[:] = origin
        merging.begin_trees(self.forest)

    @property
    def n_samples(self) -> int:
        """Number of samples learned, with one that was short of room."""
        return self.forest.n_samples + (self.forest.next_tree > 0)

    @property
    def n_inputs(self) -> int:
        """Number of features."""
        return self.forest.n_inputs

    @property
    def lifetime(self) -> float:
        """Lifetime of the first tree, and of all where it is not random."""
        return float(self._first_tree.lifetime)

    # Learning.

    def learn(self, lifetime: float = math.nan) -> int:
        """Learn the sample in `vector`, at a lifetime or at the trees' own.

        Returns `DONE`, or the first input that is bad; nothing is learned then. What has been
        interrupted is to be settled before.
        """
        learn_one = self._learn_one
        if learn_one is None:
            learn_one = self._learn_one = kernels.learn_one.of()
        found = learn_one(self.forest, lifetime)
        if found == DONE and self.directions is None:
            return DONE
        if found == NO_ROOM and not self.forest.is_unfinished:
            self._reserve_sample()
            found = learn_one(self.forest, lifetime)
        if found < 0:
            self.settle()
            return DONE
        return found

    def learn_many(
        self, rows: NDArray[np.float64], lifetimes: NDArray[np.float64] | None = None
    ) -> None:
        """Learn checked rows, whose gaps are filled, at a lifetime each or at the trees' own."""
        if self.directions is not None:
            for i, row in enumerate(rows):
                self.vector[:] = row
                self.learn(math.nan if lifetimes is None else float(lifetimes[i]))
            return
        n_before, start = self.n_samples, 0
        while start < len(rows):
            given = Float64s(0) if lifetimes is None else Float64s.of(lifetimes[start:])
            arguments = self.forest, Float64s.of(rows[start:]), len(rows) - start, given
            if kernels.learn_rows.of()(*arguments) == NO_ROOM and not self.forest.is_unfinished:
                self._reserve_sample()
            if self.forest.is_unfinished:
                self.settle()
            start = self.n_samples - n_before

    def _reserve_sample(self) -> None:
        self.close()
        self._reserve(0)
        self.forest.is_unfinished = 0

    @property
    def rows_at_once(self) -> int:
        """How many rows a kernel may take, so that it returns soon."""
        if self.directions is not None:
            return OBLIQUE_ROWS
        return max(1, MOST_WORK // (len(self.trees) * (ROW_WORK + self.n_inputs)))

    def add_samples_of(self, other: DensityTrees) -> None:
        """Learn the samples of trees of the same partition, which store none."""
        self._reserve(other.forest.nodes.n_rows)
        more = other.n_values / np.maximum(self.n_values + other.n_values, 1.0)
        self.means += more * (other.means - self.means)
        self.n_values += other.n_values
        merging.add_counts(self.forest, other.forest)

    # What an interrupted call has left.

    def close(self) -> None:
        """Note that something has begun, so that `settle` is called before anything else."""
        self.forest.is_unfinished = 1

    def settle(self) -> None:
        """Finish what has begun."""
        forest = self.forest
        self._show()
        while kernels.go_on(forest) == NO_ROOM:
            self._reserve(CHUNK_ROWS)
        if forest.lacks_volumes:
            for t in self._unknown_volumes():
                kernels.keep_volume.of()(forest, t, self._log_volume(t))
            forest.lacks_volumes = 0
        forest.is_unfinished = 0

    def copied(self) -> DensityTrees:
        """Return a copy, which may be changed while these trees stay as they are."""
        state = self.__getstate__()
        for name, value in state.items():
            is_table = isinstance(value, TableState)
            state[name] = PackedRows(value.rows) if is_table else copy.deepcopy(value)
        made = type(self).__new__(type(self))
        made.__setstate__(state)
        return made

    def add_input(self, value: float) -> None:
        """Add a feature that all samples so far have with one value.

        Trees whose feature has been added in part are of no use: this is for a copy.
        """
        forest = self.forest
        n_trees, n_dims = forest.n_trees, forest.n_dims
        ends = np.zeros((n_trees, 2, 1))
        for t in range(n_trees):
            out = Float64s.of(ends[t])
            self._reserve(add_dimension(forest, t, value, out, False))
            add_dimension(forest, t, value, out, True)
        self.corners = np.concatenate([self.corners, ends], axis=2)
        self.means = np.append(self.means, value)
        self.n_values = np.append(self.n_values, float(self.n_samples))
        # A value takes two words.
        start = 2 * n_dims
        moves = [(0, 0, start), (start, start + 2, n_trees)]
        self.samples = self.samples.relaid(start + 2 + n_trees, moves)
        for chunk in self.samples.chunks[0]:
            chunk[:, start : start + 2] = np.array([value]).view(np.int32)
        forest.n_dims = forest.n_inputs = n_dims + 1
        self._finish()

    # Prediction.

    def log_density(self, is_floored: bool) -> float:
        """Return the log of the density at the sample in `vector`, whose gaps are filled.

        Where it is 0 and to be floored, each tree's last cell that holds samples counts as if it
        held one. It is NaN where an input is bad.
        """
        if self.directions is None:
            log_density_one = self._log_density_one
            if log_density_one is None:
                log_density_one = self._log_density_one = kernels.log_density_one.of()
            return log_density_one(self.forest, is_floored)
        if any(abs(value) > LARGEST for value in self.vector.tolist()):
            return math.nan
        estimates = self.estimates.words
        for t in self._unknown_volumes():
            estimates["log_volume"][t] = self._log_volume(t)
        found = kernels.combine_estimates(self.forest)
        if is_floored and found == -math.inf:
            for t in range(len(self.trees)):
                kernels.reveal_last_cell(self.forest, t)
                estimates["count"][t] = 1.0
                estimates["log_volume"][t] = self._log_volume(t)
            found = kernels.combine_estimates(self.forest)
        return found

    def log_densities(
        self, rows: NDArray[np.float64], out: NDArray[np.float64], is_floored: bool
    ) -> None:
        """Write the logs of the density at checked rows of values, whose gaps are filled."""
        if self.directions is None:
            most = self.rows_at_once
            for start in range(0, len(rows), most):
                part = rows[start : start + most]
                places = Float64s.of(out[start : start + most])
                kernels.log_densities(self.forest, Float64s.of(part), len(part), is_floored, places)
            return
        for i, row in enumerate(rows):
            self.vector[:] = row
            out[i] = self.log_density(is_floored)

    def _unknown_volumes(self) -> Iterator[int]:
        """Inspect each tree; yield those whose cell, which `cell` is then, has no volume yet."""
        for t in range(len(self.trees)):
            kernels.estimate_by_tree.of()(self.forest, t)
            if math.isnan(self.estimates.words["log_volume"][t]):
                yield t

    def _log_volume(self, t: int) -> float:
        """Return the log of the volume of a tree's cell on the way, which holds the sample."""
        assert self.directions is not None
        directions = self.directions[min(t, len(self.directions) - 1)]
        lower, upper = self.cell
        return log_polytope_volume(directions, lower, upper, self.along)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "memory": self.memory,
            "trees": self.trees,
            "directions": self.directions,
            "corners": self.corners,
            "means": self.means,
            "n_values": self.n_values,
            "nodes": TableState(self.nodes, [self.forest.nodes.n_rows], _NODE_LAYOUT),
            "samples": TableState(
                self.samples, [self.forest.samples.n_rows], self._sample_layout()
            ),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = owned(state)
        self.memory, self.trees = state["memory"], state["trees"]
        self.directions, self.corners = state["directions"], state["corners"]
        self.means, self.n_values = state["means"], state["n_values"]
        check_records(self)
        forest = self.memory[0]
        n_inputs, n_dims = forest.n_inputs, forest.n_dims
        shapes = {"corners": (forest.n_trees, 2, n_dims), "means": (n_inputs,)}
        if self.directions is not None:
            shapes["directions"] = (len(self.directions), n_dims, n_inputs)
        check_shapes(self, shapes | {"n_values": (n_inputs,)})
        nodes, samples = state["nodes"], state["samples"]
        self.nodes = nodes.restored(_NODE_LAYOUT)
        self.samples = samples.restored(self._sample_layout())
        (forest.nodes.n_rows,), (forest.samples.n_rows,) = nodes.counts, samples.counts
        check_numbers(self)
        self._finish()
        check_cells(self)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        size = sys.getsizeof(self) + sys.getsizeof(self.__dict__)
        arrays = (self.corners, self.cell)
        size += sum(sys.getsizeof(array) for array in arrays)
        size += self.memory.nbytes + self.trees.nbytes + self.estimates.nbytes
        return size + self.nodes.nbytes + self.samples.nbytes


def _refer(cell: Cell, corners: NDArray[np.float64]) -> None:
    """Let a cell refer to its corners, a row each."""
    cell.n_dims = corners.shape[1]
    cell.lower, cell.upper = Float64s.of(corners[0]), Float64s.of(corners[1])
