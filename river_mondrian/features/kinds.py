"""Base classes of cell maps, maps with random numbers per feature, and maps built from a pool."""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import arguments, samples
from ..inputs import Floats, as_dict
from ..maps.record import Array, CompiledMap, Pool, RowPerFeature, Sample
from ..model import Snapshot, locked
from .base import FeatureMap


class CellFeatures(FeatureMap):
    """Base class of the cell maps."""

    def _cells(self, columns: Array) -> Array:
        """Convert columns to numbers of cells within partitions."""
        return columns.astype(np.int64)

    @locked
    def kernel(self, x: Mapping[Any, Any], y: Mapping[Any, Any]) -> float:
        """Return the share of partitions in which two samples fall into the same cell.

        Parameters
        ----------
        x, y
            Mappings from feature to number, or to a level if the map accepts levels.

        Returns
        -------
        The share, from 0 to 1: the kernel of the samples.

        Raises
        ------
        RuntimeError
            If the map cannot map yet.

        """
        # Equation 2 of Ting, Wells and Washio (2021), for any partitions.
        return float((self._codes(x) == self._codes(y)).mean())

    def _codes(self, x: Mapping[Any, Any]) -> Array:
        """Return a code of a sample's cell in each partition; codes of different cells differ."""
        return self._output(x).copy()

    @locked
    def cells_one(self, x: Mapping[Any, Any]) -> NDArray[np.int64]:
        """Return the cell of a sample in each partition.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level if the map accepts levels.

        Returns
        -------
        An array with the number of each cell, shape (n_partitions,).

        Raises
        ------
        RuntimeError
            If the map cannot map yet.

        """
        return self._cells(self._output(x))

    @locked
    def cells_many(self, X: Any, *, progress: bool = False) -> NDArray[np.int64]:
        """Return the cells of the rows of a frame.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...;
            nulls and NaN are missing values.
        progress
            Whether to show the number of mapped rows on stderr, with tqdm if it is installed, else
            as text. The result does not depend on `progress`.

        Returns
        -------
        An array with the number of each cell, shape (n_rows, n_partitions).

        Raises
        ------
        RuntimeError
            If the map cannot map yet.

        """
        return self._cells(self._read(X, progress)[1])


class ByFeature(FeatureMap):
    """Base class of maps that draw random numbers for each feature."""

    seed: int | None

    @abc.abstractmethod
    def _make(self, seed: int) -> RowPerFeature:
        """Return a new map without features."""

    def _know(self) -> RowPerFeature:
        """Create the map if there is none, add the reader's new features, and return the map."""
        if self._map is None:
            self._map = self._make(arguments.draw_seed(self.seed))
            self._map._finish()
        if self._map.n_inputs < len(self._reader.index):
            self._map.add(self._reader.index.names)
        return self._map

    def _locate(self, x: Mapping[Any, Any], compiled: CompiledMap) -> Sample:
        return self._reader.read_ordered(x)

    def _knows(self, x: Mapping[Any, Any]) -> bool:
        return self._map is not None and self._reader.knows(x)

    def _observe(self, values: Mapping[Hashable, float]) -> list[Callable[[], object]]:
        self._reader.add(values)
        self._know()
        return []

    def _learn_rows(self, names: Sequence[Hashable], columns: Floats) -> None:
        self._pending = Snapshot(self._changing())
        self._reader.add_columns(names, columns)
        self._know()
        self._pending = None

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Draw the random numbers of new features.

        Parameters
        ----------
        x
            A mapping from feature to number. NaN is the same as an absent key.

        Raises
        ------
        TypeError
            If a value is not a number.
        ValueError
            If a value is infinite or too large for single precision.

        """
        with self._lock:
            if self._pending is not None:
                self._settle()
            values = self._reader.index.read(x)
            if not self._knows(values):
                self._learn_new(values)


class Pooled(FeatureMap):
    """Base class of maps that are built from the first `_n_pooled` samples.

    The map is rebuilt each time the number of samples has doubled, so it is useful from the second
    sample on. A build may be spread over calls (`CompiledMap.advance`), which use the old map until
    the build ends. Samples that arrive during the last build are stored, because learners replay
    these samples.
    """

    _IN_SNAPSHOT = (*FeatureMap._IN_SNAPSHOT, "_next", "_n_builds", "_entropy")
    pool_size: Any
    seed: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._reader = samples.SampleReader(shifts=True)
        self._pool = Pool()
        self._next: CompiledMap | None = None
        self._n_builds = 0
        self._entropy = self.seed

    @property
    def _n_pooled(self) -> int:
        return self.pool_size

    @abc.abstractmethod
    def _begin(self, number: int, pool: Pool) -> CompiledMap:
        """Return a map to be built from a pool; `CompiledMap.advance` completes the build."""

    @property
    @locked
    def frozen(self) -> bool:
        """Whether the map is final: later samples change neither its columns nor their meaning."""
        return self._pool is None

    def _changing(self) -> list[Any]:
        objects = (self._reader, self._pool, self._next, self)
        return [item for item in objects if item is not None]

    def _knows(self, x: Mapping[Any, Any]) -> bool:
        return self._pool is None

    def _new_rows(self, names: Sequence[Hashable], columns: Floats) -> set[int]:
        return set()

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Store a sample and continue the build of the map; do nothing if the map is final.

        Parameters
        ----------
        x
            A mapping from feature to number. NaN is the same as an absent key.

        Raises
        ------
        TypeError
            If a value is not a number.
        ValueError
            If a value is infinite or too large for single precision.

        """
        with self._lock:
            self._settle()
            if self._pool is None:
                as_dict(x)
                return
            self._learn_new(self._reader.index.read(x))

    def _observe(self, values: Mapping[Hashable, float]) -> list[Callable[[], object]]:
        if self._pool is not None:
            self._reader.add(values)
            self._pool.append(*self._reader.entries(values))
            self._build_on()
        return []

    def _learn_rows(self, names: Sequence[Hashable], columns: Floats) -> None:
        start = 0
        while start < len(columns) and self._pool is not None:
            stop = start + 1
            if self._next is None:
                # The next build begins at a known number of samples, so the rows up to this number
                # are learned at once.
                n = len(self._pool)
                until = max(1, min(self._n_pooled, 1 << max(1, n.bit_length())) - n)
                stop = min(len(columns), start + until)
            self._pending = Snapshot(self._changing())
            self._reader.add_columns(names, columns[start:stop])
            indices, values, starts = self._reader.csr(names, columns[start:stop])
            self._pool.extend(indices, values.astype(np.float32), starts)
            self._build_on()
            self._pending = None
            start = stop

    def _build_on(self) -> None:
        """Begin the next build if it is due, and perform a part of the build."""
        n = len(self._pool)
        if n == self._n_pooled or (2 <= n < self._n_pooled and n & (n - 1) == 0):
            self._next = self._begin(self._n_builds, self._pool)
            self._n_builds += 1
        if self._next is not None and self._next.advance():
            self._map, self._next = self._next, None
            if len(self._pool) >= self._n_pooled:
                self._pool = None
