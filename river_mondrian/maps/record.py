"""The record of a feature map, and the kernels that map samples.

A map's record has the address of the kernel that maps a sample. So one call from Python maps a
sample, predicts and updates weights, and a learner's kernel is not compiled for each map.
"""

from __future__ import annotations

import abc
import hashlib
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import checks
from ..compiling.kernels import batch_kernel, helper, kernel, set_entries
from ..limits import DONE, FARTHEST, LARGEST
from ..records import Float32s, Float64, Float64s, Int32s, Int64, Int64s, Memory, Record
from ..records.memory import OwnsArrays, grown
from ..records.numba_types import array_buffer
from ..records.record import entry, transient

# The compiler must not reorder sums, because batches and single samples must have equal results.
ORDERED_SUMS = True


class Sample(Record):
    """A sample for maps: a vector, or the entries of a sparse vector.

    Maps do not accept infinite values, or values that are too large for single precision. A NaN
    entry is ignored.
    """

    # A vector of `n_inputs` values, NaN if missing; empty for a sparse sample.
    values: Float64s
    # Number of a sparse sample's entries, which may be less than the length of the arrays.
    n_entries: Int64
    # Input of each entry, in any order without repeats. Negative and unknown inputs are ignored.
    indices: Int32s
    # Values of the entries.
    entries: Float64s


class Outputs(Record):
    """The outputs of a map for a sample: cells, or the values of all columns."""

    # Cell map: the column of the sample's cell in each partition, at each lifetime.
    cells: Int32s
    # Dense map: the value in each of `n_out` columns.
    values: Float64s


class MapRecord(Record):
    """A feature map; each subclass adds fields.

    `transform` maps a sample and returns DONE. If an input is infinite or too large for single
    precision, `transform` returns the first such input, and the outputs are undefined. `transform`
    changes no state of the map, so predictions may call `transform`.
    """

    transform: Callable[[MapRecord, Sample, Outputs], int] = entry()
    # Number of outputs of a sample: partitions times lifetimes of a cell map, or columns of a dense
    # map.
    n_out: Int64
    # Current number of columns.
    n_columns: Int64
    # Whether outputs are values rather than cells.
    is_dense: Int64
    # Value of a sample in the column of its cell.
    value: Float64
    # Number of known inputs, numbered from 0.
    n_inputs: Int64
    # Whether samples are read by their entries rather than as vectors.
    is_sparse: Int64
    # With several lifetimes: the last learned sample's cells before the map learned the sample. The
    # array is empty if the map has learned no sample after the learner's last sample.
    before: Int32s = transient()
    # Whether the map has learned a sample that its learner has not learned yet.
    is_ahead: Int64 = transient()


@helper
def read_entry(record: MapRecord, sample: Sample, j: int) -> tuple[int, float]:
    """Return the input and the value of a sparse sample's j-th entry, 0 for an ignored value."""
    index, value = sample.indices[j], sample.entries[j]
    if index < 0 or index >= record.n_inputs or math.isnan(value):
        value = 0.0
    return index, value


@helper
def bad_entry(record: MapRecord, sample: Sample) -> int:
    """Return the first input whose entry is too large for single precision, or DONE.

    Infinite entries are too large. NaN and unknown inputs are ignored.
    """
    indices, entries = sample.indices, sample.entries
    for e in range(sample.n_entries):
        if 0 <= indices[e] < record.n_inputs and math.fabs(entries[e]) > LARGEST:
            return indices[e]
    return DONE


@helper
def scaled(value: float, factor: float) -> float:
    """Round a value to single precision, scale it, clip it to `FARTHEST`, and round the result."""
    value = np.float64(np.float32(value)) * factor
    return np.float64(np.float32(min(max(value, -FARTHEST), FARTHEST)))


@helper
def read_vector(record: MapRecord, sample: Sample, factors: Float64s, row: Float32s) -> int:
    """Write a scaled vector to a row, with 0 for missing values.

    Return DONE or the index of an invalid input.
    """
    values = sample.values
    for index in range(record.n_inputs):
        value = values[index]
        if math.fabs(value) > LARGEST:
            return index
        row[index] = scaled(value, factors[index]) if value == value else 0.0
    return DONE


_buffer_of_sample = array_buffer(Sample, 1)
_buffer_of_outputs = array_buffer(Outputs, 1)


@kernel
def map_one(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a sample, and return DONE or the first input that is too large for single precision."""
    return record.transform(record, sample, outputs)


@helper
def move_outputs(record: MapRecord, outputs: Outputs, row: int, target: Outputs) -> None:
    """Make `target` refer to a row's outputs among the outputs of all rows."""
    n = record.n_out
    if record.is_dense:
        target.values = outputs.values.part(n * row, n)
    else:
        target.cells = outputs.cells.part(n * row, n)


@helper
def move_entries(
    sample: Sample, indices: Int32s, entries: Float64s, starts: Int64s, row: int
) -> None:
    """Make a sparse sample refer to a row of a CSR matrix."""
    start = starts[row]
    n = starts[row + 1] - start
    sample.n_entries = n
    sample.indices = indices.part(start, n)
    sample.entries = entries.part(start, n)


@batch_kernel
def map_rows(record: MapRecord, values: Float64s, width: int, n: int, outputs: Outputs) -> int:
    """Map `n` rows of `width` values each.

    Return DONE, or row * `n_inputs` + input of the first value that is too large for single
    precision.
    """
    sample, target = _buffer_of_sample()[0], _buffer_of_outputs()[0]
    for row in range(n):
        sample.values = values.part(width * row, width)
        move_outputs(record, outputs, row, target)
        bad = record.transform(record, sample, target)
        if bad >= 0:
            return row * record.n_inputs + bad
    return DONE


@batch_kernel
def map_sparse_rows(
    record: MapRecord, indices: Int32s, entries: Float64s, starts: Int64s, n: int, outputs: Outputs
) -> int:
    """Map `n` rows of a CSR matrix, and return the same as `map_rows`."""
    sample, target = _buffer_of_sample()[0], _buffer_of_outputs()[0]
    for row in range(n):
        move_entries(sample, indices, entries, starts, row)
        move_outputs(record, outputs, row, target)
        bad = record.transform(record, sample, target)
        if bad >= 0:
            return row * record.n_inputs + bad
    return DONE


# Owners of a map's record and arrays. `Pool` stores the samples that maps are built from.
# `CompiledMap` is the base of all maps, and `RowPerFeature` the base of maps with random numbers
# for each feature.


Array = NDArray[Any]

# Arrays of a CSR matrix: the indices and values of its entries, and the start of each row.
Indices = NDArray[np.int32]
Values = NDArray[np.float64]
Starts = NDArray[np.int64]

# Bound on the numbers of outputs, columns and inputs of stored maps, far above those of real maps.
MOST_OUT = 1 << 31
Transform = Callable[[MapRecord, Sample, Outputs], int]


class Pool(OwnsArrays):
    """Samples as the rows of a growing CSR matrix, in single precision."""

    def __init__(self) -> None:
        self._starts = np.zeros(2, dtype=np.int64)
        self._indices = np.empty(0, dtype=np.int32)
        self._values = np.empty(0, dtype=np.float32)
        self.n = 0

    def __len__(self) -> int:
        return self.n

    def append(self, indices: NDArray[np.int32], values: NDArray[np.float32]) -> None:
        """Add a row."""
        self.extend(indices, values, np.array([0, len(indices)]))

    def extend(self, indices: Indices, values: NDArray[np.float32], starts: Starts) -> None:
        """Add the rows of a CSR matrix."""
        n = self.n + len(starts) - 1
        begin, first, last = int(self._starts[self.n]), int(starts[0]), int(starts[-1])
        end = begin + last - first
        self._indices, self._values = grown(self._indices, end), grown(self._values, end)
        self._starts = grown(self._starts, n + 1)
        self._indices[begin:end] = indices[first:last]
        self._values[begin:end] = values[first:last]
        self._starts[self.n + 1 : n + 1] = starts[1:] + (begin - first)
        self.n = n

    def csr(self, start: int, stop: int) -> tuple[Indices, NDArray[np.float32], Starts]:
        """Return the indices, values and starts of the rows `start` to `stop` - 1."""
        starts = self._starts[start : stop + 1]
        begin, end = int(starts[0]), int(starts[-1])
        return self._indices[begin:end], self._values[begin:end], starts - begin

    def taken(self, rows: Sequence[int]) -> Pool:
        """Return a pool of the given rows."""
        pool = Pool()
        for row in rows:
            pool.extend(*self.csr(row, row + 1))
        return pool

    def dense(self, start: int, stop: int, width: int) -> NDArray[np.float64]:
        """Return the rows `start` to `stop` - 1 as a dense array of `width` columns."""
        indices, values, starts = self.csr(start, stop)
        rows = np.repeat(np.arange(stop - start), np.diff(starts))
        array = np.zeros((stop - start, width))
        known = indices < width
        array[rows[known], indices[known]] = values[known]
        return array

    def __getstate__(self) -> dict[str, Any]:
        end = int(self._starts[self.n])
        return {
            "_starts": self._starts[: self.n + 1].copy(),
            "_indices": self._indices[:end].copy(),
            "_values": self._values[:end].copy(),
            "n": self.n,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        checks.check_types(self, {"n": int})
        n_entries = (np.size(self._indices),)
        arrays = {
            "_starts": (np.int64, (self.n + 1,)),
            "_indices": (np.int32, n_entries, 0, (1 << 31) - 1),
            "_values": (np.float32, n_entries, -LARGEST, LARGEST),
        }
        checks.check_arrays(self, arrays)
        checks.check_starts(self, "_starts", self._starts, *n_entries)
        checks.check_ascending_rows(self, "_indices", self._indices, self._starts)

    def check(self, n_features: int) -> None:
        """Raise an error if stored samples have unknown features."""
        checks.check_array(self, "_indices", self._indices, np.int32, 0, n_features - 1)


class CompiledMap(OwnsArrays, abc.ABC):
    """The owner of a map's record and arrays.

    A subclass sets `KIND`, and implements `_transform`, `_bind` and `names`. `_transform` returns
    the kernel that maps a sample. `_bind` sets the record's references to the map's arrays. `names`
    returns the names of columns.

    Parameters
    ----------
    number
        Number of the build, counted from 0. If a feature map is built several times, the names of
        columns contain this number.
    n_out
        Number of outputs per sample: partitions times lifetimes of a cell map, or columns of a
        dense map.
    n_columns
        Current number of columns.
    n_inputs
        Number of features to read.
    dense
        Whether the outputs are values rather than cells.
    sparse
        Whether samples are read by their entries rather than as vectors.

    """

    # The class of the map's record.
    KIND: ClassVar[type[MapRecord]] = MapRecord
    # Attributes that `_finish` and `_set_record` derive from the other attributes.
    _DERIVED: ClassVar[frozenset[str]] = frozenset(
        {"record", "out", "outputs", "_results", "_map_one"}
    )
    # Number of lifetimes, whose outputs are stored one after another. A learner mixes lifetimes by
    # its loss.
    n_lifetimes = 1

    record: MapRecord

    def __init__(
        self, number: int, n_out: int, n_columns: int, n_inputs: int, dense: bool, sparse: bool
    ) -> None:
        self.number = number
        self.memory: Memory[Any] = Memory(self.KIND)
        self._set_record()
        record = self.record
        record.n_out, record.n_columns, record.n_inputs = n_out, n_columns, n_inputs
        record.is_dense, record.is_sparse = int(dense), int(sparse)
        # With the value 1 / sqrt(n_out), the dot product of two samples' columns is the kernel. In
        # Section 5.1 of Ting et al. (2021), columns have the value 1, and the kernel is the product
        # divided by t, the number of partitions.
        record.value = 1.0 if dense else 1.0 / math.sqrt(n_out)

    def _set_record(self) -> None:
        self.record = self.memory[0]

    @abc.abstractmethod
    def _transform(self) -> Transform:
        """Return the kernel that maps a sample."""

    @abc.abstractmethod
    def _bind(self) -> None:
        """Set the record's references to the map's arrays."""

    @abc.abstractmethod
    def names(self, columns: Sequence[int]) -> list[str]:
        """Return the names of columns."""

    def advance(self) -> bool:
        """Do a bounded part of the build, and return whether the map is ready."""
        return True

    def _finish(self) -> None:
        """Set derived attributes, after construction and whenever arrays move."""
        set_entries(self.record, transform=self._transform())
        self.out = np.zeros(self.n_out, dtype=self.dtype)
        self._results = outputs_of(self.out)
        self.outputs = self._results[0]
        # The compiled kernel is stored, because a look-up takes as long as a call.
        self._map_one = map_one.of()
        self._bind()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        checks.check_types(self, {"number": int, "memory": Memory})
        if not issubclass(self.memory.kind, self._kinds()) or len(self.memory) != 1:
            checks.refuse(self, "memory", self.memory.kind.__name__, "but it is of another kind")
        self._set_record()
        bounds = dict.fromkeys(("n_out", "n_columns", "n_inputs"), MOST_OUT)
        for name, largest in (bounds | {"is_dense": 1, "is_sparse": 1}).items():
            checks.check_number(self, name, getattr(self.record, name), 0, largest)
        self._check()
        if self.ready:
            self._finish()

    def _kinds(self) -> tuple[type[MapRecord], ...]:
        """Return the possible classes of a stored map's record."""
        return (self.KIND,)

    def _check(self) -> None:
        """Raise an error if a stored map's attributes are inconsistent or out of range."""

    @property
    def ready(self) -> bool:
        """Whether the map has been built."""
        return True

    @property
    def n_out(self) -> int:
        """Number of outputs per sample."""
        return self.record.n_out

    @property
    def n_columns(self) -> int:
        """Current number of columns."""
        return self.record.n_columns

    @property
    def n_inputs(self) -> int:
        """Number of features to read."""
        return self.record.n_inputs

    @property
    def dense(self) -> bool:
        """Whether the outputs are values rather than cells."""
        return bool(self.record.is_dense)

    @property
    def sparse(self) -> bool:
        """Whether samples are read by their entries."""
        return bool(self.record.is_sparse)

    @property
    def reads_text(self) -> bool:
        """Whether samples have few of very many features, like the words of texts."""
        return False

    def learn(self, sample: Sample) -> int:
        """Learn a sample if the map grows, and return DONE or an invalid input's index."""
        return DONE

    def complete(self) -> int:
        """Complete an interrupted `learn`, and return DONE."""
        return DONE

    @property
    def maps_learned(self) -> bool:
        """Whether `out` holds the outputs of the sample that the feature map has just learned."""
        return False

    @property
    def lifetimes(self) -> list[float]:
        """Lifetimes that a learner mixes; empty for a map with one lifetime."""
        return []

    @property
    def dtype(self) -> type[np.generic]:
        """Type of the outputs."""
        return np.float64 if self.dense else np.int32

    def transform(self, sample: Sample) -> int:
        """Map a sample to `out`, and return DONE or the first invalid input's index."""
        return self._map_one(self.record, sample, self.outputs)

    def transform_rows(self, values: NDArray[np.float64]) -> tuple[Array, int]:
        """Return the outputs of rows of `n_inputs` or more values, and `map_rows`'s result."""
        values = np.ascontiguousarray(values)
        n, width = values.shape
        out = np.empty((n, self.n_out), dtype=self.dtype)
        return out, map_rows(self.record, Float64s.of(values), width, n, outputs_of(out)[0])

    def transform_csr(self, indices: Indices, values: Values, starts: Starts) -> tuple[Array, int]:
        """Map the rows of a CSR matrix, and return the same as `transform_rows`."""
        indices, values, starts = map(np.ascontiguousarray, (indices, values, starts))
        out = np.empty((len(starts) - 1, self.n_out), dtype=self.dtype)
        outputs = outputs_of(out)
        matrix = Int32s.of(indices), Float64s.of(values), Int64s.of(starts)
        return out, map_sparse_rows(self.record, *matrix, len(out), outputs[0])

    def transform_stored(self, pool: Pool, start: int, stop: int) -> Array:
        """Return the outputs of samples `start` to `stop` - 1 of a pool."""
        if self.sparse:
            indices, values, starts = pool.csr(start, stop)
            return self.transform_csr(indices, values.astype(np.float64), starts)[0]
        return self.transform_rows(pool.dense(start, stop, max(1, self.n_inputs)))[0]


def outputs_of(out: Array) -> Memory[Outputs]:
    """Return the memory of a record that refers to an array of cells or values."""
    memory = Memory(Outputs)
    if out.dtype == np.int32:
        memory[0].cells = Int32s.of(out)
    else:
        memory[0].values = Float64s.of(out)
    return memory


class RowPerFeature(CompiledMap):
    """A map with a row of random numbers for each feature.

    The seed and the feature's name determine the row.

    Parameters
    ----------
    seed
        Seed of all rows.
    n_out, n_columns, dense
        As for `CompiledMap`.

    """

    def __init__(self, seed: int, n_out: int, n_columns: int, dense: bool) -> None:
        super().__init__(0, n_out, n_columns, 0, dense, sparse=True)
        self.seed = seed
        self.rows = np.zeros((1, self._width(n_out)))

    @staticmethod
    @abc.abstractmethod
    def _width(n_out: int) -> int:
        """Return the length of a row."""

    def __getstate__(self) -> dict[str, Any]:
        # Rows that are reserved for further features are not saved, because they contain no data.
        return super().__getstate__() | {"rows": self.rows[: self.n_inputs].copy()}

    def _check(self) -> None:
        checks.check_types(self, {"seed": int, "rows": np.ndarray})
        checks.check_equal(self, self.record, is_sparse=1)
        checks.check_number(self, "n_out", self.n_out, 1, 2 * self.rows.size)
        shape = max(len(self.rows), self.n_inputs), self._width(self.n_out)
        checks.check_arrays(self, {"rows": (np.float64, shape)})

    @abc.abstractmethod
    def _draw(self, rng: np.random.Generator, row: NDArray[np.float64]) -> None:
        """Draw the row of a feature."""

    def add(self, names: Sequence[Hashable]) -> None:
        """Draw the rows of features that have no row yet."""
        n = self.n_inputs
        self.rows = grown(self.rows, len(names))
        for name, row in zip(names[n:], self.rows[n:], strict=False):
            # The key is a hash of the seed and the name, because a feature's row must not depend on
            # other features.
            text = f"{self.seed} {'str' if isinstance(name, str) else 'other'} {name}"
            digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
            key = int.from_bytes(digest.digest(), "little")
            self._draw(np.random.Generator(np.random.Philox(key=key)), row)
        self.record.n_inputs = len(names)
        self._bind()
