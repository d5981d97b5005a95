"""The trees of a density forest, as their owner in Python has them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arena import Arena
from ..partitions.polytopes import log_polytope_volume
from ..partitions.unbounded.cells import Cell
from ..partitions.unbounded.dimensions import add_dimension
from ..partitions.unbounded.records import NONE, Sample, Tree
from ..records import Float64s, Memory, Table
from ..records.arrays import CHUNK_ROWS
from ..status import DONE, NO_ROOM
from . import density as kernels
from .density import CellEstimate, DensityNode, DensityPartition

# Estimators by name.
ESTIMATORS = {"forest": kernels.FOREST, "laplace": kernels.LAPLACE, "kernel": kernels.KERNEL}

_WORD_BYTES = 4
_NO_LIFETIMES = Float64s(0)


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
    result
        Where `log_density` writes.
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
        self.nodes = Arena(1, DensityNode.SIZE // _WORD_BYTES)
        self.samples = Arena(1, 2 * n_inputs + n_trees)
        self._finish()

    def _finish(self) -> None:
        """Make the buffers, and let the record refer to all arrays."""
        forest = self.forest = self.memory[0]
        n_dims = forest.n_dims
        self.vector, self.result = np.full(forest.n_inputs, np.nan), np.zeros(1)
        self.along, self.stored_along = np.zeros(n_dims), np.zeros(n_dims)
        self.cell = np.zeros((2, n_dims))
        self.estimates = Memory(CellEstimate, forest.n_trees)
        self._sample, self._result = Float64s.of(self.vector), Float64s.of(self.result)
        if self.directions is not None:
            self.memory.own("directions", self.directions.reshape(-1))
            forest.directions_step = 0 if len(self.directions) == 1 else self.directions[0].size
        for name in ("along", "stored_along", "means", "n_values"):
            self.memory.own(name, getattr(self, name))
        forest.trees, forest.estimates = self.trees.array, self.estimates.array
        _refer(forest.cell, self.cell)
        for tree, corners in zip(self.trees, self.corners, strict=True):
            _refer(tree.cell, corners)
        self._reserve(0)

    def _reserve(self, n_nodes: int) -> None:
        """Make room for more nodes, and for another sample."""
        forest = self.forest
        _reserve(forest.nodes, self.nodes, forest.nodes.n_rows + n_nodes)
        if forest.stores_samples:
            _reserve(forest.samples, self.samples, forest.samples.n_rows + 1)

    @property
    def n_samples(self) -> int:
        """Number of samples learned."""
        return self.forest.n_samples

    @property
    def lifetime(self) -> float:
        """Lifetime of the first tree, and of all where it is not random."""
        return float(self.trees[0].lifetime)

    # Learning.

    def learn(self, lifetime: float | None = None) -> int:
        """Learn the sample in `vector`, at a lifetime or at the trees' own.

        Returns `DONE`, or the first input that is bad; nothing is learned then.
        """
        if lifetime is None:
            return self._learn_rows(self._sample, 1, _NO_LIFETIMES)
        self.result[0] = lifetime
        return self._learn_rows(self._sample, 1, self._result)

    def learn_many(
        self, rows: NDArray[np.float64], lifetimes: NDArray[np.float64] | None = None
    ) -> None:
        """Learn checked rows, whose gaps are filled, at a lifetime each or at the trees' own."""
        if self.directions is None:
            given = _NO_LIFETIMES if lifetimes is None else Float64s.of(lifetimes)
            self._learn_rows(Float64s.of(rows), len(rows), given)
            return
        for i, row in enumerate(rows):
            self.vector[:] = row
            self.learn(None if lifetimes is None else float(lifetimes[i]))

    def _learn_rows(self, rows: Float64s, n: int, lifetimes: Float64s) -> int:
        learn_rows = kernels.learn_rows.of()
        while (found := learn_rows(self.forest, rows, n, lifetimes)) == NO_ROOM:
            self._reserve(CHUNK_ROWS)
        if found == DONE and self.directions is not None:
            for t in self._unknown_volumes():
                kernels.keep_volume.of()(self.forest, t, self._sample, self._log_volume(t))
        return found

    def add_input(self, value: float) -> None:
        """Add a feature that all samples so far have with one value."""
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
        self.samples.relayout(start + 2 + n_trees, [(0, 0, start), (start, start + 2, n_trees)])
        for chunk in self.samples.chunks[0]:
            chunk[:, start : start + 2] = np.array([value]).view(np.int32)
        forest.n_dims = forest.n_inputs = n_dims + 1
        self._finish()

    # Prediction.

    def log_density(self, is_floored: bool) -> int:
        """Write the log of the density at the sample in `vector`, whose gaps are filled.

        Where it is 0 and to be floored, each tree's last cell that holds samples counts as if it
        held one. Returns `DONE`, or the first input that is bad.
        """
        if self.directions is not None:
            self.result[0] = self._log_density_oblique(is_floored)
            return DONE
        log_densities = kernels.log_densities.of()
        return log_densities(self.forest, self._sample, 1, is_floored, self._result)

    def log_densities(self, rows: NDArray[np.float64], out: NDArray[np.float64]) -> None:
        """Write the logs of the density at checked rows of values, whose gaps are filled."""
        if self.directions is None:
            given = Float64s.of(rows), len(rows), False, Float64s.of(out)
            kernels.log_densities.of()(self.forest, *given)
            return
        for i, row in enumerate(rows):
            self.vector[:] = row
            out[i] = self._log_density_oblique(False)

    def _log_density_oblique(self, is_floored: bool) -> float:
        estimates = self.estimates.words
        for t in self._unknown_volumes():
            estimates["log_volume"][t] = self._log_volume(t)
        found = kernels.combine_estimates(self.forest)
        if is_floored and found == -math.inf:
            for t in range(len(self.trees)):
                kernels.reveal_last_cell.of()(self.forest, t, self._sample)
                estimates["count"][t] = 1.0
                estimates["log_volume"][t] = self._log_volume(t)
            found = kernels.combine_estimates(self.forest)
        return found

    def _unknown_volumes(self) -> Iterator[int]:
        """Inspect each tree; yield those whose cell, which `cell` is then, has no volume yet."""
        for t in range(len(self.trees)):
            kernels.estimate_by_tree.of()(self.forest, t, self._sample)
            if math.isnan(self.estimates[t].log_volume):
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
            "nodes": self.nodes.pack([self.forest.nodes.n_rows]),
            "samples": self.samples.pack([self.forest.samples.n_rows]),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.memory, self.trees = state["memory"], state["trees"]
        self.directions, self.corners = state["directions"], state["corners"]
        self.means, self.n_values = state["means"], state["n_values"]
        self.nodes, self.samples = Arena.unpack(state["nodes"]), Arena.unpack(state["samples"])
        forest = self.memory[0]
        forest.nodes.n_rows = len(state["nodes"]["rows"][0])
        forest.samples.n_rows = len(state["samples"]["rows"][0])
        self._finish()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        size = sys.getsizeof(self) + sys.getsizeof(self.__dict__)
        arrays = (self.vector, self.result, self.corners, self.cell)
        size += sum(sys.getsizeof(array) for array in arrays)
        size += self.memory.nbytes + self.trees.nbytes + self.estimates.nbytes
        return size + self.nodes.nbytes + self.samples.nbytes


def _refer(cell: Cell, corners: NDArray[np.float64]) -> None:
    """Let a cell refer to its corners, a row each."""
    cell.n_dims = corners.shape[1]
    cell.lower, cell.upper = Float64s.of(corners[0]), Float64s.of(corners[1])


def _reserve(table: Table[DensityNode] | Table[Sample], arena: Arena, n_rows: int) -> None:
    """Make room for so many rows of a table."""
    arena.reserve(0, n_rows)
    table.chunks, table.capacity = arena.addresses[0], arena.capacities[0]
    table.row_bytes = _WORD_BYTES * arena.width
