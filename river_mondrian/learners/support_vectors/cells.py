"""Support vectors by their cells, under an isolation kernel."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...checks import check_number, check_types, refuse
from ...features.base import check_map
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

    @property
    def is_final(self) -> bool:
        """Whether the map is."""
        return self.features._is_final and self.features._map is self._map

    def parts(self) -> list[Any]:
        """Return the objects that `observe` and `add` change."""
        samples = [] if self._samples is None else [self._samples]
        return [*self.features._changing(), *samples, self]

    def __getstate__(self) -> dict[str, Any]:
        # Without the room for samples to come.
        return self.__dict__ | {"cells": self.cells[: self.n]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        check_types(self, {"features": IsolationFeatures, "cells": np.ndarray})
        check_types(self, {"_samples": (type(None), Pool), "_map": (type(None), CompiledMap)})
        self.cells = np.ascontiguousarray(self.cells)
        n_partitions: int = self.features.__dict__["n_partitions"]
        if self.cells.dtype != np.int32 or self.cells.shape[1:] != (n_partitions,):
            refuse(self, "the shape of cells", self.cells.shape, f"not {n_partitions} partitions")
        if type(self.n) is not int:
            refuse(self, "n", self.n, "but it is a number")
        check_number(self, "n", self.n, 0, len(self.cells))
        if self._map is not None:
            check_map(self, self._map, self.features)
            check_number(self, "n_out of the map", self._map.n_out, n_partitions, n_partitions)
        if self._samples is not None:
            self._samples.check(len(self.features._reader.index))
            check_number(self, "the number of samples", len(self._samples), self.n, self.n)

    def check(self, x: Mapping[Any, Any]) -> dict[Hashable, float]:
        """Check a mapping's values, and return those that are not missing."""
        return self.features._reader.index.read(x)

    def observe(self, values: Mapping[Hashable, float]) -> None:
        """Let the map learn from a checked sample."""
        self.features._observe(values)
        if self.features._map is not self._map:
            self._map = self.features._map
            if self._samples is not None and self._map is not None:
                self.cells = self._map.transform_stored(self._samples, 0, self.n)
            if self.features._is_final:
                self._samples = None

    def sample(self, values: dict[Hashable, float]) -> CellSample:
        """Map a checked sample."""
        features, entries = self.features, None
        if self._samples is not None:
            entries = features._reader.entries(values)
        return CellSample(entries, None if self._map is None else features._output(values).copy())

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
