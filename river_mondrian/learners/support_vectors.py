"""Support vectors: stored samples, and weighted sums of their kernels with a new sample.

`SparseSupports` has the Laplace or the Gaussian kernel, and stores only values other than 0.
`CellSupports` stores the cells of an isolation kernel.
"""

import abc
import math
import sys
from collections.abc import Hashable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..checks import check_array, check_number, check_numbering, check_starts, check_types, refuse
from ..features import base, kernel_maps
from ..inputs import as_dict, check_names, check_value, ordered
from ..maps.dense import KERNELS, LAPLACE_KERNEL, StoredRows, weighted_shares, weighted_sums
from ..maps.record import CompiledMap, Pool
from ..records import Float64s, Floats, Int32s, Memory, OwnsArrays, Singles
from ..records.memory import grown

S = TypeVar("S")


class SupportVectors(OwnsArrays, abc.ABC, Generic[S]):
    """Stored samples of type `S`, and their kernel."""

    # Number of support vectors.
    n = 0

    def __len__(self) -> int:
        return self.n

    @property
    def is_final(self) -> bool:
        """Whether the kernel is final: later samples do not change it."""
        return True

    def objects(self) -> list[Any]:
        """Return the objects whose attributes `observe` and `add` replace or extend."""
        return [self]

    @abc.abstractmethod
    def check(self, x: Mapping[Any, Any]) -> dict[Hashable, float]:
        """Check a mapping's values, and return the values that the kernel uses."""

    def observe(self, values: Mapping[Hashable, float]) -> None:
        """Update the kernel with a checked sample."""

    @abc.abstractmethod
    def sample(self, values: dict[Hashable, float]) -> S:
        """Return a checked sample in its stored form."""

    @abc.abstractmethod
    def add(self, sample: S) -> None:
        """Append a sample."""

    @abc.abstractmethod
    def weighted_sums(self, sample: S, coefficients: Floats) -> Floats:
        """Return sum_i coefficients_ik kernel(sample, support vector i) for each column k.

        The sum is f(x) in line 3 of Algorithm 1 (Ting et al. 2021), with coefficients alpha c. The
        next call may overwrite the returned array.
        """


class CellSample(NamedTuple):
    """A sample's entries (until the map is final), and its cells (once the map exists)."""

    entries: tuple[NDArray[np.int32], Singles] | None
    cells: NDArray[np.int32] | None


class CellSupports(SupportVectors[CellSample]):
    """Support vectors under an isolation kernel.

    Samples are stored until the map is final. Each rebuild of the map recomputes the cells of the
    stored samples.

    Parameters
    ----------
    features
        The feature map. The support vectors update a copy of the map.

    """

    # The size of the map is counted in `features`, which owns the map.
    _BORROWED = frozenset({"_map"})

    def __init__(self, features: kernel_maps.IsolationFeatures) -> None:
        self.n = 0
        self.features = features._own_copy()
        self.cells = np.zeros((0, features.n_partitions), dtype=np.int32)
        self._map: CompiledMap | None = None
        self._samples: Pool | None = None if features._is_final else Pool()

    @property
    def is_final(self) -> bool:
        """Whether the map is final."""
        return self.features._is_final and self.features._map is self._map

    def objects(self) -> list[Any]:
        """Return the objects whose attributes `observe` and `add` replace or extend."""
        samples = [] if self._samples is None else [self._samples]
        return [*self.features._changing(), *samples, self]

    def __getstate__(self) -> dict[str, Any]:
        # Leave out spare capacity.
        return self.__dict__ | {"cells": self.cells[: self.n]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        check_types(
            self, {"features": kernel_maps.IsolationFeatures, "cells": np.ndarray, "n": int}
        )
        check_types(self, {"_samples": (type(None), Pool), "_map": (type(None), CompiledMap)})
        self.cells = np.ascontiguousarray(self.cells)
        n_partitions: int = self.features.__dict__["n_partitions"]
        if self.cells.dtype != np.int32 or self.cells.shape[1:] != (n_partitions,):
            refuse(self, "the shape of cells", self.cells.shape, f"not {n_partitions} partitions")
        check_number(self, "n", self.n, 0, len(self.cells))
        if self._map is not None:
            base.check_map(self, self._map, self.features)
            check_number(self, "n_out of the map", self._map.n_out, n_partitions, n_partitions)
        if self._samples is not None:
            self._samples.check(len(self.features._reader.index))
            check_number(self, "the number of samples", len(self._samples), self.n, self.n)

    def check(self, x: Mapping[Any, Any]) -> dict[Hashable, float]:
        """Check a mapping's values, and return the values that are not missing."""
        return self.features._reader.index.read(x)

    def observe(self, values: Mapping[Hashable, float]) -> None:
        """Update the map with a checked sample."""
        self.features._observe(values)
        if self.features._map is not self._map:
            self._map = self.features._map
            if self._samples is not None and self._map is not None:
                self.cells = self._map.transform_stored(self._samples, 0, self.n)
            if self.features._is_final:
                self._samples = None

    def sample(self, values: dict[Hashable, float]) -> CellSample:
        """Return the entries and the cells of a checked sample."""
        features = self.features
        entries = None if self._samples is None else features._reader.entries(values)
        return CellSample(entries, None if self._map is None else features._output(values).copy())

    def add(self, sample: CellSample) -> None:
        """Append a sample."""
        if self._samples is not None and sample.entries is not None:
            self._samples.append(*sample.entries)
        self.cells = grown(self.cells, self.n + 1)
        if sample.cells is not None:
            self.cells[self.n] = sample.cells
        self.n += 1

    def weighted_sums(self, sample: CellSample, coefficients: Floats) -> Floats:
        """Return sum_i coefficients_ik kernel(sample, support vector i) for each column k."""
        out = np.zeros(coefficients.shape[1])
        if sample.cells is not None:
            cells = Int32s.of(sample.cells), Int32s.of(self.cells)
            sizes = self.n, self.cells.shape[1], len(out)
            weighted_shares(*cells, sizes, Float64s.of(coefficients), Float64s.of(out))
        return out

    @property
    def nbytes(self) -> int:
        """Memory of the support vectors and of the feature map, in bytes."""
        return super().nbytes + self.features._raw_memory_usage


Values = dict[Hashable, float]


class SparseSupports(SupportVectors[Values]):
    """Support vectors under the Laplace or the Gaussian kernel, stored as rows of a CSR matrix.

    Parameters
    ----------
    kernel
        "laplace" for exp(-rate |x - y|_1) or "gaussian" for exp(-rate |x - y|_2^2).
    rate
        Rate of the kernel.

    """

    _DERIVED = frozenset({"_memory", "_sums"})

    def __init__(self, kernel: str, rate: float) -> None:
        self.n = 0
        self.kind, self.rate = KERNELS[kernel], float(rate)
        # Column of each feature.
        self.index_of: dict[Hashable, int] = {}
        self.starts = np.zeros(1, dtype=np.int64)
        self.columns = np.zeros(0, dtype=np.int32)
        self.values = np.zeros(0)
        # Buffer for a sample as a dense vector. Kernels reset it to zero before they return.
        self.dense = np.zeros(0)
        self._make_record()

    def _make_record(self) -> None:
        self._memory, self._sums = Memory(StoredRows), np.zeros(0)
        self._memory[0].kind, self._memory[0].rate = self.kind, self.rate
        self._refer()

    def _refer(self) -> None:
        """Set the record's references to new arrays, and its number of rows."""
        arrays: dict[str, NDArray[Any]] = {"starts": self.starts, "indices": self.columns}
        for name, array in (arrays | {"values": self.values, "vector": self.dense}).items():
            if self._memory.arrays.get(name) is not array:
                self._memory.own(name, array)
        self._memory[0].n_rows = self.n

    def __getstate__(self) -> dict[str, Any]:
        stop = int(self.starts[self.n])
        # Leave out spare capacity.
        used = {"columns": self.columns[:stop], "values": self.values[:stop]}
        used |= {"starts": self.starts[: self.n + 1], "dense": np.zeros(len(self.index_of))}
        return super().__getstate__() | used

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        arrays = dict.fromkeys(("starts", "columns", "values", "dense"), np.ndarray)
        check_types(self, {"kind": int, "rate": float, "n": int, **arrays})
        check_number(self, "kind", self.kind, 0, 1)
        check_numbering(self, "index_of", self.index_of)
        check_number(self, "n", self.n, 0, len(self.starts) - 1)
        n_entries = int(self.starts[self.n])
        check_starts(self, "starts", self.starts[: self.n + 1], n_entries)
        for name, array in (("columns", self.columns), ("values", self.values)):
            check_number(self, f"the length of {name}", len(array), n_entries, 1 << 62)
        check_array(self, "columns", self.columns, np.int32, 0, max(0, len(self.index_of) - 1))
        if len(self.dense) < len(self.index_of) or self.dense.any():
            refuse(self, "dense", self.dense, "but it should have a zero for each feature")
        self._make_record()

    def check(self, x: Mapping[Any, Any]) -> Values:
        """Check a mapping's values, and return the values that are neither missing nor 0."""
        x = as_dict(x)
        check_names(x)
        values = ((name, check_value(name, value)) for name, value in x.items())
        return {name: value for name, value in values if value == value and value != 0.0}

    def sample(self, values: Values) -> Values:
        """Return a checked sample unchanged."""
        return values

    def add(self, sample: Values) -> None:
        """Append a sample."""
        new = ordered(name for name in sample if name not in self.index_of)
        if new:
            numbers = range(len(self.index_of), len(self.index_of) + len(new))
            self.index_of = self.index_of | dict(zip(new, numbers, strict=True))
        self.dense = grown(self.dense, len(self.index_of))
        row = sorted((self.index_of[name], value) for name, value in sample.items())
        start = int(self.starts[self.n])
        stop = start + len(row)
        self.starts = grown(self.starts, self.n + 2)
        self.columns = grown(self.columns, stop)
        self.values = grown(self.values, stop)
        self.starts[self.n + 1] = stop
        self.columns[start:stop] = [index for index, _ in row]
        self.values[start:stop] = [value for _, value in row]
        self.n += 1
        self._refer()

    def _size(self, sample: Values) -> float:
        # `fsum` rounds only the result, so the sum does not depend on the order of the keys.
        if self.kind == LAPLACE_KERNEL:
            return math.fsum(map(abs, sample.values()))
        return math.fsum(value * value for value in sample.values())

    def weighted_sums(self, sample: Values, coefficients: Floats) -> Floats:
        """Return sum_i coefficients_ik kernel(sample, support vector i) for each column k."""
        rows, known, n = self._memory[0], self.index_of, coefficients.shape[1]
        if len(self._sums) != n:
            self._memory.own("sums", np.zeros(n))
            rows.n_columns = n
            # `_sums` is assigned last. Otherwise the call after an interruption would not allocate.
            self._sums = self._memory.arrays["sums"]
        pairs = [(known[name], value) for name, value in sample.items() if name in known]
        indices = np.array([index for index, _ in pairs], dtype=np.int32)
        values = np.array([value for _, value in pairs], dtype=float)
        entries = Int32s.of(indices), Float64s.of(values), len(pairs)
        size = self._size(sample)
        weighted_sums(rows, entries, len(sample), size, Float64s.of(coefficients))
        return self._sums

    @property
    def nbytes(self) -> int:
        """Memory of the support vectors, in bytes."""
        return super().nbytes + sum(map(sys.getsizeof, (self.index_of, *self.index_of)))
