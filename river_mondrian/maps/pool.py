"""Samples in order of arrival, stored by their non-zero entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import check_array, check_ascending_rows, check_starts, check_types
from ..records import OwnsArrays, check_shapes
from ..records.chunked_rows import grown


class Pool(OwnsArrays):
    """Rows of (place, value) entries in single precision, as the parts of a CSR matrix."""

    def __init__(self) -> None:
        self._starts = np.zeros(2, dtype=np.int64)
        self._places = np.empty(0, dtype=np.int32)
        self._values = np.empty(0, dtype=np.float32)
        self.n = 0

    def __len__(self) -> int:
        return self.n

    def append(self, places: NDArray[np.int32], values: NDArray[np.float32]) -> None:
        """Add a row."""
        self.extend(places, values, np.array([0, len(places)]))

    def extend(
        self, places: NDArray[np.int32], values: NDArray[np.float32], starts: NDArray[np.int64]
    ) -> None:
        """Add the rows of a CSR matrix."""
        n = len(starts) - 1
        begin = int(self._starts[self.n])
        end = begin + int(starts[-1] - starts[0])
        self._places, self._values = grown(self._places, end), grown(self._values, end)
        self._starts = grown(self._starts, self.n + n + 1)
        self._places[begin:end] = places[starts[0] : starts[-1]]
        self._values[begin:end] = values[starts[0] : starts[-1]]
        self._starts[self.n + 1 : self.n + n + 1] = starts[1:] + (begin - int(starts[0]))
        self.n += n

    def csr(
        self, start: int, stop: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
        """Return the places, values and starts of some rows."""
        starts = self._starts[start : stop + 1]
        begin, end = int(starts[0]), int(starts[-1])
        return self._places[begin:end], self._values[begin:end], starts - begin

    def taken(self, rows: Sequence[int]) -> Pool:
        """Return a pool of some of the rows."""
        made = Pool()
        for row in rows:
            made.extend(*self.csr(row, row + 1))
        return made

    def dense(self, start: int, stop: int, width: int) -> NDArray[np.float64]:
        """Return some rows as an array, absent entries 0; places beyond `width` are left out."""
        places, values, starts = self.csr(start, stop)
        rows = np.repeat(np.arange(stop - start), np.diff(starts))
        array = np.zeros((stop - start, width))
        known = places < width
        array[rows[known], places[known]] = values[known]
        return array

    def __getstate__(self) -> dict[str, Any]:
        end = int(self._starts[self.n])
        return {
            "_starts": self._starts[: self.n + 1].copy(),
            "_places": self._places[:end].copy(),
            "_values": self._values[:end].copy(),
            "n": self.n,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        arrays = dict.fromkeys(("_starts", "_places", "_values"), np.ndarray)
        check_types(self, {"n": int} | arrays)
        check_starts(self, "_starts", self._starts, self._places.size)
        n_entries = (self._places.size,)
        check_shapes(self, {"_starts": (self.n + 1,), "_places": n_entries, "_values": n_entries})
        check_array(self, "_places", self._places, np.int32, 0, (1 << 31) - 1)
        check_ascending_rows(self, "_places", self._places, self._starts)
        largest = float(np.finfo(np.float32).max)
        check_array(self, "_values", self._values, np.float32, -largest, largest)

    def check(self, n_features: int) -> None:
        """Refuse stored samples that have more features than are known."""
        check_array(self, "_places", self._places, np.int32, 0, n_features - 1)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._starts.nbytes + self._places.nbytes + self._values.nbytes
