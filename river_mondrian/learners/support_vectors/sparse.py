"""Support vectors by their values that are not 0, under the Laplace or the Gaussian kernel."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import (
    check_array,
    check_number,
    check_numbering,
    check_starts,
    check_types,
    refuse,
)
from ...inputs import as_dict, check_names, check_value, ordered
from ...maps.similarity import KINDS, LAPLACE, StoredRows, weighted_sums
from ...records import Float64s, Int32s, Memory, owned
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
        # Room for a sample as a vector; zero between calls of kernels.
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
        stop = int(self.starts[self.n])
        used = {k: v for k, v in self.__dict__.items() if k not in ("_memory", "_record")}
        # Without the room for samples to come.
        used |= {"columns": self.columns[:stop], "values": self.values[:stop]}
        return used | {"starts": self.starts[: self.n + 1], "dense": np.zeros(len(self.places))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(owned(state))
        arrays = ("starts", "columns", "values", "dense")
        check_types(self, {"kind": int, "rate": float} | dict.fromkeys(arrays, np.ndarray))
        check_number(self, "kind", self.kind, 0, 1)
        check_numbering(self, "places", self.places)
        # A model without any support vector has none of its own.
        check_number(self, "n", self.n, 0, len(self.starts) - 1)
        n_entries = int(self.starts[self.n])
        check_starts(self, "starts", self.starts[: self.n + 1], n_entries)
        check_number(self, "the length of columns", len(self.columns), n_entries, 1 << 62)
        check_number(self, "the length of values", len(self.values), n_entries, 1 << 62)
        check_array(self, "columns", self.columns, np.int32, 0, max(0, len(self.places) - 1))
        if len(self.dense) < len(self.places) or self.dense.any():
            refuse(self, "dense", self.dense, "but it has a zero for each feature")
        self._make_record()

    def check(self, x: Mapping[Any, Any]) -> Values:
        """Check a mapping's values, and return those that are neither missing nor 0."""
        x = as_dict(x)
        check_names(x)
        values = ((name, check_value(name, value)) for name, value in x.items())
        return {name: value for name, value in values if value == value and value != 0.0}

    def sample(self, values: Values) -> Values:
        """Return a checked sample as it is."""
        return values

    def add(self, sample: Values) -> None:
        """Append a sample."""
        new = ordered(name for name in sample if name not in self.places)
        if new:
            numbers = range(len(self.places), len(self.places) + len(new))
            self.places = self.places | dict(zip(new, numbers, strict=True))
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

    def weighted_sums(
        self, sample: Values, coefficients: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the sum of coefficient times kernel over the support vectors, for each column."""
        out, known = np.empty(coefficients.shape[1]), self.places
        entries = [(known[name], value) for name, value in sample.items() if name in known]
        weighted_sums(
            self._record,
            Int32s.of(np.array([place for place, _ in entries], dtype=np.int32)),
            Float64s.of(np.array([value for _, value in entries], dtype=float)),
            len(entries),
            len(sample),
            self._size(sample),
            Float64s.of(coefficients),
            len(out),
            Float64s.of(out),
        )
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
