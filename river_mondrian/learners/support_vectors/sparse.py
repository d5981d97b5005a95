"""Support vectors by their values that are not 0, under the Laplace or the Gaussian kernel."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...inputs import check_mapping, check_value, ordered
from ...maps.similarity import KINDS, LAPLACE, StoredRows, weighted_sums
from ...records import Float64s, Memory, owned
from ...records.chunked_rows import grown
from .supports import SupportVectors

Values = dict[Hashable, float]


class SparseSupports(SupportVectors[Values]):
    """Support vectors under the Laplace or the Gaussian kernel: the rows of a CSR matrix.

    Parameters
    ----------
    kernel
        "laplace" for exp(-rate |x - y|_1) or "gaussian" for exp(-rate |x - y|_2^2).
    rate
        Rate of the kernel.

    """

    def __init__(self, kernel: str, rate: float) -> None:
        self.kind = KINDS[kernel]
        self.rate = float(rate)
        # Columns of the features.
        self.places: dict[Hashable, int] = {}
        self.starts = np.zeros(1, dtype=np.int64)
        self.columns = np.zeros(0, dtype=np.int32)
        self.values = np.zeros(0)
        # A sample as a vector; zero between calls.
        self.dense = np.zeros(0)
        self._make_record()

    def _make_record(self) -> None:
        self._memory = Memory(StoredRows)
        self._record = self._memory[0]
        self._record.kind, self._record.rate = self.kind, self.rate
        self._refer()

    def _refer(self) -> None:
        """Let the record refer to the arrays that are new, and know how many rows there are."""
        arrays: dict[str, NDArray[Any]] = {
            "starts": self.starts,
            "places": self.columns,
            "values": self.values,
            "vector": self.dense,
        }
        for name, array in arrays.items():
            if self._memory.arrays.get(name) is not array:
                self._memory.own(name, array)
        self._record.n_rows = self.n

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_memory", "_record")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(owned(state))
        self._make_record()

    def observe(self, x: Mapping[Any, Any]) -> None:
        """Do nothing: these kernels learn nothing."""

    def read(self, x: Mapping[Any, Any]) -> Values:
        """Check a mapping's values; returns those that are neither missing nor 0."""
        check_mapping(x)
        values = ((name, check_value(name, value)) for name, value in x.items())
        return {name: value for name, value in values if value == value and value != 0.0}

    def add(self, sample: Values) -> None:
        """Append a sample."""
        for name in ordered(name for name in sample if name not in self.places):
            self.places[name] = len(self.places)
        self.dense = grown(self.dense, len(self.places))
        row = sorted((self.places[name], value) for name, value in sample.items())
        start = int(self.starts[self.n])
        stop = start + len(row)
        self.starts = grown(self.starts, self.n + 2)
        self.columns = grown(self.columns, stop)
        self.values = grown(self.values, stop)
        self.starts[self.n + 1] = stop
        self.columns[start:stop] = [place for place, _ in row]
        self.values[start:stop] = [value for _, value in row]
        self.n += 1
        self._refer()

    def _size(self, sample: Values) -> float:
        # Exact sums, so that the order of the keys does not matter.
        if self.kind == LAPLACE:
            return math.fsum(map(abs, sample.values()))
        return math.fsum(value * value for value in sample.values())

    def _spread(self, sample: Values) -> list[int]:
        """Write a sample to the vector; returns the places to clear after use."""
        found = [self.places[name] for name in sample if name in self.places]
        self.dense[found] = [value for name, value in sample.items() if name in self.places]
        return found

    def weighted_sums(
        self, sample: Values, coefficients: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the sum of coefficient times kernel over the support vectors, for each column."""
        out = np.empty(coefficients.shape[1])
        spread = self._spread(sample)
        weighted_sums(
            self._record,
            len(sample),
            self._size(sample),
            Float64s.of(coefficients),
            len(out),
            Float64s.of(out),
        )
        self.dense[spread] = 0.0
        return out

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = (self.starts, self.columns, self.values, self.dense, self._memory.bytes)
        return (
            sys.getsizeof(self)
            + sys.getsizeof(self.__dict__)
            + sum(sys.getsizeof(array) for array in arrays)
            + sys.getsizeof(self.places)
            + sum(sys.getsizeof(name) for name in self.places)
        )
