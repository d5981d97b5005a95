"""The map of random binning features, which owns grids and the table of cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..records import Array as Records
from ..records import Float64s, Int32s, Int64s
from ..status import NO_ROOM
from . import binning
from .binning import BinningRecord, Slot
from .compiled import Transform
from .record import Sample
from .row_per_feature import RowPerFeature

SMALLEST_TABLE = 256


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
    record: BinningRecord

    def __init__(self, seed: int, n_partitions: int, lifetime: float) -> None:
        super().__init__(seed, n_partitions, 1, False, width=2 * (n_partitions + 1))
        self.lifetime = float(lifetime)
        self.table = np.zeros((SMALLEST_TABLE, Slot.SIZE // 8), dtype=np.int64)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        rows = (max(len(self.rows), self.n_inputs), 2 * (self.n_out + 1))
        return {"rows": rows, "table": (len(self.table), Slot.SIZE // 8)}

    def _transform(self) -> Transform:
        return binning.bin_sample

    def _bind(self) -> None:
        self.record.grids = Float64s.of(self.rows)
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
        old = self.table
        self.table = np.zeros((2 * len(old), old.shape[1]), dtype=np.int64)
        self._bind()
        binning.move_cells(_slots(old), len(old), self.record)

    def learn(self, sample: Sample) -> int:
        """Give the new cells of a sample columns; returns DONE or a bad input."""
        bad = binning.learn_one(self.record, sample)
        while bad == NO_ROOM:
            self._grow()
            bad = binning.learn_one(self.record, sample)
        return bad

    def learn_csr(
        self, places: NDArray[np.int32], values: NDArray[np.float64], starts: NDArray[np.int64]
    ) -> None:
        """Give the new cells of the rows of a CSR matrix columns; all values have to be finite."""
        matrix = Int32s.of(places), Float64s.of(values), Int64s.of(starts)
        row, n = 0, len(starts) - 1
        while row < n:
            row = binning.learn_rows(self.record, *matrix, row, n)
            if row < n:
                self._grow()

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
