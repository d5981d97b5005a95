"""The feature map of Mondrian partitions: the cells of a sample, at one lifetime or at several."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...checks import check_number, check_types
from ...maps.compiled import Array, CompiledMap, Transform, outputs_of
from ...maps.record import Outputs, Sample
from ...partitions.mondrian.tree_memory import Partitions
from ...records import Int32s, Memory
from ...status import DONE, TOO_LARGE, WAITS
from . import mapping, numbering
from .trees import CellTrees


class MondrianMap(CompiledMap):
    """Mondrian partitions as a feature map, at one lifetime or at several of one hierarchy."""

    KIND = mapping.MondrianRecord
    _DERIVED: ClassVar[frozenset[str]] = CompiledMap._DERIVED | {
        "descents",
        "before",
        "_before",
        "_cells_before",
        "_outputs_before",
        "_learn_one",
    }
    SAVED = ("memory", "descents")
    record: mapping.MondrianRecord
    # From its first use on.
    _learn_one: Callable[[mapping.MondrianRecord, Sample, Outputs], int] | None = None

    def __init__(self, partitions: Partitions, lifetimes: Sequence[float] | None = None) -> None:
        n_partitions = partitions.n_trees
        self.n_lifetimes = 1 if lifetimes is None else len(lifetimes)
        super().__init__(0, n_partitions * self.n_lifetimes, 0, 0, False)
        self.trees = CellTrees(partitions, lifetimes)
        self.record.value = 1.0 / math.sqrt(n_partitions)
        self._finish()

    def _check(self) -> None:
        check_types(self, {"n_lifetimes": int, "trees": CellTrees})
        forest, record = self.trees.forest, self.record
        for name, value, expected in (
            ("n_lifetimes", self.n_lifetimes, forest.n_lifetimes),
            ("n_out", record.n_out, forest.n_trees * forest.n_lifetimes),
            ("n_columns", record.n_columns, forest.n_columns),
            ("n_inputs", record.n_inputs, forest.n_inputs),
            ("is_dense", record.is_dense, 0),
            ("is_sparse", record.is_sparse, 0),
        ):
            check_number(self, name, value, expected, expected)

    def _transform(self) -> Transform:
        return mapping.find_cells

    def _finish(self) -> None:
        super()._finish()
        self.before = np.zeros_like(self.out[: None if self.n_lifetimes > 1 else 0])
        self._before = outputs_of(self.before)
        # Made once: that takes as long as a call.
        self._cells_before, self._outputs_before = Int32s.of(self.before), self._before[0]

    def _bind(self) -> None:
        self.descents = Memory(mapping.Descent, len(self.trees.trees))
        self.record.descents = self.descents.array
        self.record.forest = self.trees.forest

    def add_inputs(self, names: Sequence[Hashable], first_values: NDArray[np.float64]) -> None:
        """Add features, each with the first value that was seen of it.

        From then on `complete` lets them stay, and `trees.settle` undoes what is the trees'.
        """
        self.trees.begin_change()
        self.trees.add_inputs(names, first_values)
        self.record.n_inputs = self.trees.n_inputs
        self._bind()

    def learn(self, sample: Sample) -> int:
        """Extend the partitions by a sample; returns DONE or a bad input's place.

        Where it is interrupted `complete` ends it, if it has begun.
        """
        learn_one = self._learn_one
        if learn_one is None:
            learn_one = self._learn_one = numbering.learn_one.of()
        if self.n_lifetimes > 1 and self.trees.n_samples > 0:
            self._map_one(self.record, sample, self._outputs_before)
            self.record.before = self._cells_before
            # Where the sample opens no cell, it has those that the walk has found.
            self.out[:] = self.before
        status = learn_one(self.record, sample, self.outputs)
        if status == WAITS:
            self.trees.make_room()
            status = learn_one(self.record, sample, self.outputs)
        if status >= 0:
            return self._go_on()
        return status if status == DONE else TOO_LARGE - status

    def complete(self) -> int:
        """End what `add_inputs` or an interrupted `learn` has begun; returns DONE."""
        self.trees.keep_change()
        return self._go_on()

    def _go_on(self) -> int:
        """Let the walks of a sample end, where there are such."""
        trees = self.trees
        while (needy := numbering.complete(self.record, self.outputs)) >= 0:
            trees.make_rows(needy)
        trees.open()
        return DONE

    def settle(self) -> None:
        """Complete what an interrupted call has left."""
        self.complete()

    def forget_before(self) -> None:
        """Say that no sample has just been learned."""
        self.record.before = Int32s(0)

    @property
    def maps_learned(self) -> bool:
        """Whether `out` holds the cells of the sample that has just been learned."""
        return self.n_lifetimes == 1 or bool(self.record.before)

    @property
    def lifetimes(self) -> list[float]:
        """The lifetimes where there are several; empty where there is one."""
        found: list[float] = self.trees.lifetimes[0].tolist()
        return found if self.n_lifetimes > 1 else []

    def transform_stored(self, pool: Any, start: int, stop: int) -> Array:
        """Map samples of the start of a stream."""
        rows = np.full((stop - start, max(1, self.n_inputs)), np.nan)
        for row, values in zip(rows, pool.rows[start:stop], strict=True):
            known = values[: len(row)]
            row[: len(known)] = known
        return self.transform_rows(rows)[0]

    def names(self, columns: Sequence[int]) -> list[str]:
        """Return the names of columns."""
        owners = self.trees.owners[np.asarray(columns, dtype=np.int64)]
        return [f"mondrian_{t}_{cell}" for t, cell in owners.tolist()]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return super().nbytes + self.trees.nbytes
