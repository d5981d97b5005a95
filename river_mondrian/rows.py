"""Samples stored by their values that are not 0, and their kernels with a new one."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arena import grown
from .inputs import check_value, ordered
from .maps.similarity import KINDS, LAPLACE, StoredRows, weighted_sums
from .records import Float64s, Int32s, Int64s, Memory


class SparseRows:
    """A growing list of samples under the Laplace or the Gaussian kernel.

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
        self.places: dict[Hashable, int] = {}
        self.n = 0
        self.starts = np.zeros(1, dtype=np.int64)
        self.columns = np.zeros(0, dtype=np.int32)
        self.values = np.zeros(0)
        self.dense = np.zeros(0)
        self._bind()

    def _bind(self) -> None:
        """Let kernels know the arrays."""
        self._memory = Memory(StoredRows)
        record = self._memory[0]
        record.kind, record.rate = self.kind, self.rate
        record.starts = Int64s.of(self.starts)
        record.places = Int32s.of(self.columns)
        record.values = Float64s.of(self.values)
        record.vector = Float64s.of(self.dense)
        record.n_rows = self.n

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_memory"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._bind()

    def __len__(self) -> int:
        return self.n

    def observe(self, x: Mapping[Any, Any]) -> None:
        """Do nothing: these kernels learn nothing."""

    def read(self, x: Mapping[Any, Any]) -> dict[Hashable, float]:
        """Check a mapping's values; returns those that are neither missing nor 0."""
        values = ((name, check_value(name, value)) for name, value in x.items())
        return {name: value for name, value in values if value == value and value != 0.0}

    def add(self, values: Mapping[Hashable, float]) -> None:
        """Append a sample, given by `read`."""
        for name in ordered(name for name in values if name not in self.places):
            self.places[name] = len(self.places)
        self.dense = grown(self.dense, len(self.places))
        row = sorted((self.places[name], value) for name, value in values.items())
        start = int(self.starts[self.n])
        stop = start + len(row)
        self.starts = grown(self.starts, self.n + 2)
        self.columns = grown(self.columns, stop)
        self.values = grown(self.values, stop)
        self.starts[self.n + 1] = stop
        self.columns[start:stop] = [place for place, _ in row]
        self.values[start:stop] = [value for _, value in row]
        self.n += 1
        self._bind()

    def _size(self, values: Mapping[Hashable, float]) -> float:
        # Exact sums, so that the order of the keys does not matter.
        if self.kind == LAPLACE:
            return math.fsum(map(abs, values.values()))
        return math.fsum(value * value for value in values.values())

    def _spread(self, values: Mapping[Hashable, float]) -> list[int]:
        """Write a sample to the dense vector; returns the places to clear after use."""
        found = [self.places[name] for name in values if name in self.places]
        self.dense[found] = [value for name, value in values.items() if name in self.places]
        return found

    def weighted_sums(
        self, values: Mapping[Hashable, float], coefficients: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the sum of coefficient times kernel over the rows, for each column."""
        out = np.empty(coefficients.shape[1])
        spread = self._spread(values)
        weighted_sums(
            self._memory[0],
            len(values),
            self._size(values),
            Float64s.of(coefficients),
            len(out),
            Float64s.of(out),
        )
        self.dense[spread] = 0.0
        return out

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = (self.starts, self.columns, self.values, self.dense)
        return (
            sys.getsizeof(self)
            + sys.getsizeof(self.__dict__)
            + sum(sys.getsizeof(array) for array in arrays)
            + self._memory.bytes.nbytes
            + sys.getsizeof(self.places)
            + sum(sys.getsizeof(name) for name in self.places)
        )
