"""The map of random binning features, which owns grids and the table of cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..checks import LARGEST_RATE, LEAST_RATE, check_array, check_number, check_types, refuse
from ..records import Array as Records
from ..records import Float64s, Int32s, Int64s
from ..status import NO_ROOM
from . import binning
from .binning import BinningRecord, Slot
from .compiled import Transform
from .record import Sample
from .row_per_feature import RowPerFeature

SMALLEST_TABLE = 256

# Cells that one call of a kernel finds, so that a signal has not to wait for long.
CELLS = 200_000


class BinningMap(RowPerFeature):
    """Random grids and the cells in them that have been met.

    Parameters
    ----------
    seed
        Seed of all grids.
    n_partitions
        Number of grids.
    lifetime
        Rate of the Laplace kernel.

    """

    KIND = BinningRecord
    _DERIVED: ClassVar[frozenset[str]] = RowPerFeature._DERIVED | {"_next_table"}
    record: BinningRecord
    # While the table grows.
    _next_table: NDArray[np.int64] | None = None

    def __init__(self, seed: int, n_partitions: int, lifetime: float) -> None:
        super().__init__(seed, n_partitions, 1, False, width=2 * (n_partitions + 1))
        self.lifetime = float(lifetime)
        self.table = np.zeros((SMALLEST_TABLE, Slot.SIZE // 8), dtype=np.int64)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        rows = (max(len(self.rows), self.n_inputs), 2 * (self.n_out + 1))
        return {"rows": rows, "table": (len(self.table), Slot.SIZE // 8)}

    def _check(self) -> None:
        super()._check()
        check_types(self, {"lifetime": float, "table": np.ndarray})
        check_number(self, "lifetime", self.lifetime, LEAST_RATE, LARGEST_RATE)
        check_number(self, "n_columns", self.n_columns, 1, 1 << 31)
        check_number(self, "is_dense", self.record.is_dense, 0, 0)

    def _check_content(self) -> None:
        n = len(self.table)
        if n < SMALLEST_TABLE or n & (n - 1):
            refuse(self, "the length of the table", n, "but it is a power of two")
        columns = self.table[:, -1]
        check_array(self, "table", columns, np.int64, 0, self.n_columns - 1)
        # A search ends at a slot that is empty.
        n_used = int(np.count_nonzero(columns))
        check_number(self, "the number of used slots", n_used, 0, n // 2)
        check_number(self, "n_columns", self.n_columns, n_used + 1, n_used + 1)

    def _transform(self) -> Transform:
        return binning.bin_sample

    def _bind(self) -> None:
        self.record.grids = Float64s.of(self.rows)
        self._end_growth()
        self.record.table = _slots(self.table)
        self.record.n_slots = len(self.table)

    def _draw(self, rng: np.random.Generator, row: NDArray[np.float64]) -> None:
        t = self.n_out
        pitches = rng.gamma(2.0, 1.0 / self.lifetime, t)
        row[: 2 * t : 2] = pitches
        row[1 : 2 * t : 2] = pitches * rng.random(t)
        row.view(np.uint64)[2 * t :] = rng.integers(1 << 64, size=2, dtype=np.uint64)

    def _grow(self) -> None:
        """Make the table of cells twice as long."""
        self._end_growth()
        n_slots, width = self.table.shape
        table = self._next_table = np.zeros((2 * n_slots, width), dtype=np.int64)
        binning.move_cells(self.record, _slots(table), len(table))
        self._end_growth()

    def _end_growth(self) -> None:
        """Keep the table that kernels use, which is the next one once they have moved the cells."""
        table = self._next_table
        if table is not None:
            if self.record.n_slots == len(table):
                self.table = table
            self._next_table = None

    def __getstate__(self) -> dict[str, Any]:
        self._end_growth()
        return super().__getstate__()

    def learn(self, sample: Sample) -> int:
        """Give the new cells of a sample columns; returns DONE or a bad input.

        It may be done again.
        """
        bad = binning.learn_one(self.record, sample)
        while bad == NO_ROOM:
            self._grow()
            bad = binning.learn_one(self.record, sample)
        return bad

    def learn_in_room(self, sample: Sample) -> int:
        """Do what `learn` does, or return NO_ROOM, in which case nothing has changed."""
        return binning.learn_one(self.record, sample)

    def learn_csr(
        self, places: NDArray[np.int32], values: NDArray[np.float64], starts: NDArray[np.int64]
    ) -> None:
        """Give the new cells of the rows of a CSR matrix columns; all values have to be finite.

        It may be done again.
        """
        matrix = Int32s.of(places), Float64s.of(values), Int64s.of(starts)
        row, n, most = 0, len(starts) - 1, max(1, CELLS // self.n_out)
        while row < n:
            stop = min(n, row + most)
            row = binning.learn_rows(self.record, *matrix, row, stop)
            if row < stop:
                self._grow()

    def add_cells_of(self, other: BinningMap) -> NDArray[np.int64]:
        """Give the cells that another map of the same grids has met columns.

        Returns the columns here, by the columns there.
        """
        cells = other.table[other.table[:, -1] != binning.UNKNOWN]
        cells = np.ascontiguousarray(cells[np.argsort(cells[:, -1])])
        found, start = np.zeros(len(cells), dtype=np.int64), 0
        while start < len(cells):
            numbers = start, len(cells), Int64s.of(found)
            start = binning.add_known(self.record, _slots(cells), *numbers)
            if start < len(cells):
                self._grow()
        return np.append(binning.UNKNOWN, found)

    def codes(self, sample: Sample) -> tuple[NDArray[np.int64], int]:
        """Return what tells a sample's cells from others, met or not, and DONE or a bad input."""
        found = np.empty(self.n_out, dtype=np.int64)
        return found, binning.codes_of_one(self.record, sample, Int64s.of(found))

    def codes_csr(
        self, places: NDArray[np.int32], values: NDArray[np.float64], starts: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return `codes` of the checked rows of a CSR matrix."""
        found = np.empty((len(starts) - 1, self.n_out), dtype=np.int64)
        matrix = Int32s.of(places), Float64s.of(values), Int64s.of(starts)
        binning.codes_of_rows(self.record, *matrix, len(found), Int64s.of(found))
        return found

    def names(self, columns: Sequence[int]) -> list[str]:
        """Return the names of columns."""
        return [f"binning_{column - 1}" for column in columns]


def _slots(table: NDArray[np.int64]) -> Records[Slot]:
    """Return the rows of an array as slots."""
    return Records.of_kind(Records[Slot], table.ctypes.data, len(table))
