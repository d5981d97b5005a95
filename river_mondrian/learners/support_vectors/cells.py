"""Support vectors by their cells, under an isolation kernel."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...features.isolation import IsolationFeatures
from ...maps.compiled import CompiledMap
from ...maps.pool import Pool
from ...maps.similarity import weighted_shares
from ...records import Float64s, Int32s, OwnsArrays
from ...records.chunked_rows import grown
from .supports import SupportVectors


class CellSample(NamedTuple):
    """A sample: its entries while the map may change, and its cells once there is a map."""

    entries: tuple[NDArray[np.int32], NDArray[np.float32]] | None
    cells: NDArray[np.int32] | None


class CellSupports(OwnsArrays, SupportVectors[CellSample]):
    """Support vectors under an isolation kernel.

    The samples themselves are kept until the map is final, and get other cells when it is rebuilt.

    Parameters
    ----------
    features
        The map; a copy of it learns.

    """

    def __init__(self, features: IsolationFeatures) -> None:
        self.features = features._own_copy()
        self.cells = np.zeros((0, features.n_partitions), dtype=np.int32)
        self._map: CompiledMap | None = None
        self._samples: Pool | None = None if features._is_final else Pool()

    def observe(self, x: Mapping[Any, Any]) -> None:
        """Let the map learn from a sample."""
        self.features._observe(x)
        if self.features._map is not self._map:
            self._map = self.features._map
            if self._samples is not None and self._map is not None:
                self.cells = self._map.transform_stored(self._samples, 0, self.n)
            if self.features._is_final:
                self._samples = None

    def read(self, x: Mapping[Any, Any]) -> CellSample:
        """Check a sample and map it."""
        entries = None
        if self._samples is not None:
            entries = self.features._reader.entries(x, learn=False)
        return CellSample(entries, None if self._map is None else self.features._output(x).copy())

    def add(self, sample: CellSample) -> None:
        """Append a sample."""
        if self._samples is not None and sample.entries is not None:
            self._samples.append(*sample.entries)
        self.cells = grown(self.cells, self.n + 1)
        if sample.cells is not None:
            self.cells[self.n] = sample.cells
        self.n += 1

    def weighted_sums(
        self, sample: CellSample, coefficients: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the sum of coefficient times kernel over the support vectors, for each column."""
        out = np.zeros(coefficients.shape[1])
        if sample.cells is not None:
            weighted_shares(
                Int32s.of(sample.cells),
                Int32s.of(self.cells),
                self.n,
                self.cells.shape[1],
                Float64s.of(coefficients),
                len(out),
                Float64s.of(out),
            )
        return out

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        size = sys.getsizeof(self) + sys.getsizeof(self.__dict__) + sys.getsizeof(self.cells)
        size += self.features._raw_memory_usage
        return size + (0 if self._samples is None else self._samples.nbytes)
