"""What all feature maps share, and what the learners of `linear` may ask of them.

A `FeatureMap` is the River transformer. It reads mappings and frames (`inputs.SampleReader`) and
holds, once it can map at all, a `CompiledMap`: the map as it stands, with a record through which
kernels call it (see `kernels.maps`). There are two kinds. A *cell map* puts a sample into exactly
one cell of each of `n_out` partitions, each cell a column with the value 1 / sqrt(n_out). A *dense
map* gives each of `n_out` columns a value.

To add a map, write its kernel `f(record, x, out)` in plain Python over `kernels.memory`, a
`CompiledMap` that names it and lays out its record, and a `FeatureMap` that makes the latter.

What a learner does with a map, on a copy of its own, for each labelled sample:

1. `_observe(x)` lets the map learn; it does nothing once a map that collects points is full.
2. If `_map` is another object than before, columns have got new meanings: the learner begins again
   from zero weights, replays the labelled samples that `_pool` holds (a few per call, by
   `CompiledMap.transform_stored`), and predicts by the old map until it has caught up. A map whose
   `_map` never changes needs no replay and may have `_pool` None. `CompiledMap.n_columns` may grow
   at any time: the weights of a new column are zero.
3. `_locate(x, compiled)` writes the sample where kernels read it, and one call of the learner's
   kernel with the addresses of the learner's record, the map's record, and the sample maps,
   predicts and updates.

Batches go through `_learn_outputs`, by default `_observe_rows` and `_outputs` (the outputs of all
rows), and the learner's kernel runs over those.
"""

from __future__ import annotations

import abc
import copy
import math
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from river import base
from river.utils.dataframe import sparse_to_native_frame, to_native_frame
from scipy import sparse

from ..inputs import SampleReader, read_frame, too_large
from ..kernels import maps
from ..kernels.memory import address_of
from .pool import Pool

Array = NDArray[Any]


class CompiledMap(abc.ABC):
    """A map as it stands, for kernels: a record of words and the function that reads them.

    Parameters
    ----------
    number
        Number of the build; the names of columns carry it.
    n_out
        Partitions of a cell map, columns of a dense one.
    n_columns
        Columns so far.
    n_inputs
        Features that are read.
    dense
        Whether the outputs are values rather than cells.
    sparse
        Whether samples are read by their entries rather than as vectors.
    n_words
        Words that the map adds to the record, from `maps.OWN` on.

    """

    # What `_finish` derives from the rest.
    _DERIVED: ClassVar[frozenset[str]] = frozenset({"address", "out", "out_address"})
    # Words of the record that hold addresses.
    _ADDRESSES: ClassVar[Sequence[int]] = ()
    # Lifetimes whose outputs lie one after the other; a learner chooses by its loss.
    n_lifetimes = 1

    def __init__(
        self,
        number: int,
        n_out: int,
        n_columns: int,
        n_inputs: int,
        dense: bool,
        sparse: bool = False,
        n_words: int = 0,
    ) -> None:
        self.number = number
        self.record = np.zeros(maps.OWN + n_words, dtype=np.int64)
        self.record[maps.N_OUT] = n_out
        self.record[maps.N_COLUMNS] = n_columns
        self.record[maps.DENSE] = dense
        self.record[maps.N_INPUTS] = n_inputs
        self.record[maps.SPARSE] = sparse
        self.record.view(np.float64)[maps.VALUE] = 1.0 if dense else 1.0 / math.sqrt(n_out)

    @abc.abstractmethod
    def _function(self) -> Callable[..., int]:
        """Return the Python function `f(record, x, out)` that is compiled to map a sample."""

    @abc.abstractmethod
    def _bind(self) -> None:
        """Write the addresses of the map's arrays to the record."""

    @abc.abstractmethod
    def names(self, columns: Sequence[int]) -> list[str]:
        """Return the names of columns."""

    def advance(self) -> bool:
        """Do a bounded part of the work that building takes; True once the map is ready."""
        return True

    def _finish(self) -> None:
        """Derive what kernels need; called once the arrays are there, and again when they move."""
        self.record[maps.FUNCTION] = address_of(self._function())
        self.out = np.zeros(self.n_out, dtype=self.dtype)
        self.out_address = int(self.out.ctypes.data)
        self.address = int(self.record.ctypes.data)
        self._bind()

    def __getstate__(self) -> dict[str, Any]:
        state = {k: v for k, v in self.__dict__.items() if k not in self._DERIVED}
        state["record"] = self.record.copy()
        state["record"][[maps.FUNCTION, *self._ADDRESSES]] = 0
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.ready:
            self._finish()

    @property
    def ready(self) -> bool:
        """Whether the map has been built."""
        return True

    def _word(self, word: int) -> int:
        """Return a word of the record; faster than by its index."""
        found: int = self.record.item(word)
        return found

    @property
    def n_out(self) -> int:
        """Outputs per sample."""
        return self._word(maps.N_OUT)

    @property
    def n_columns(self) -> int:
        """Columns so far."""
        return self._word(maps.N_COLUMNS)

    @property
    def n_inputs(self) -> int:
        """Features that are read."""
        return self._word(maps.N_INPUTS)

    @property
    def dense(self) -> bool:
        """Whether the outputs are values rather than cells."""
        return bool(self._word(maps.DENSE))

    @property
    def sparse(self) -> bool:
        """Whether samples are read by their entries."""
        return bool(self._word(maps.SPARSE))

    @property
    def value(self) -> float:
        """The value of a cell's column."""
        return float(self.record.view(np.float64)[maps.VALUE])

    @property
    def maps_learned(self) -> bool:
        """Whether `out` holds the outputs of the sample that the feature map has just learned."""
        return False

    @property
    def lifetimes(self) -> list[float]:
        """The lifetimes that a learner mixes; none where there is nothing to choose."""
        return []

    @property
    def dtype(self) -> type[np.generic]:
        """Type of the outputs."""
        return np.float64 if self.dense else np.int32

    def transform_rows(self, values: NDArray[np.float64]) -> tuple[Array, int]:
        """Map rows of at least `n_inputs` values; returns the outputs, and -1 or a bad input.

        A bad input is given as row * `n_inputs` + place.
        """
        values = np.ascontiguousarray(values)
        out = np.empty((len(values), self.n_out), dtype=self.dtype)
        bad = maps.map_rows(
            self.address, values.ctypes.data, values.shape[1], len(values), out.ctypes.data
        )
        return out, int(bad)

    def transform_csr(
        self, places: NDArray[np.int32], values: NDArray[np.float64], starts: NDArray[np.int64]
    ) -> tuple[Array, int]:
        """Map the rows of a CSR matrix; returns like `transform_rows`."""
        places, values = np.ascontiguousarray(places), np.ascontiguousarray(values)
        starts = np.ascontiguousarray(starts)
        out = np.empty((len(starts) - 1, self.n_out), dtype=self.dtype)
        sample = np.zeros(3, dtype=np.int64)
        bad = maps.map_sparse_rows(
            self.address,
            sample.ctypes.data,
            places.ctypes.data,
            values.ctypes.data,
            starts.ctypes.data,
            len(out),
            out.ctypes.data,
        )
        return out, int(bad)

    def transform_stored(self, pool: Pool, start: int, stop: int) -> Array:
        """Map samples of a pool."""
        if self.sparse:
            places, values, starts = pool.csr(start, stop)
            return self.transform_csr(places, values.astype(np.float64), starts)[0]
        return self.transform_rows(pool.dense(start, stop, max(1, self.n_inputs)))[0]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = (value for value in self.__dict__.values() if isinstance(value, np.ndarray))
        return sys.getsizeof(self) + sum(array.nbytes for array in arrays)


def share_of_equals(first: Array, second: Array, n: int) -> NDArray[np.float64]:
    """Return the share of columns in which each row of an array equals each row of another.

    The numbers in them are less than `n`, and of one column only.
    """

    def matrix(rows: Array) -> sparse.csr_matrix:
        starts = np.arange(0, rows.size + 1, rows.shape[1])
        return sparse.csr_matrix((np.ones(rows.size), rows.ravel(), starts), (len(rows), n))

    shared: NDArray[np.float64] = (matrix(first) @ matrix(second).T).toarray()
    shared /= first.shape[1]
    return shared


class FeatureMap(base.MiniBatchTransformer):
    """Base of the feature maps.

    A subclass calls `__init__` after it has stored its arguments, and sets `_map` when it can.
    """

    def __init__(self) -> None:
        self._reader = SampleReader()
        self._map: CompiledMap | None = None
        self._pool: Pool | None = None

    @abc.abstractmethod
    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Learn from a sample."""

    def learn_many(self, X: Any) -> None:
        """Learn from the rows of a frame; the result is that of `learn_one` on each row.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of numbers; nulls and NaN are missing.

        Raises
        ------
        TypeError
            If a column holds something that is no number.
        ValueError
            If a value is infinite or too large, or a column is doubled; nothing has been learned
            then.

        """
        _, names, columns = read_frame(X)
        if len(columns):
            self._learn_rows(names, columns)

    def _learn_rows(self, names: Sequence[Hashable], columns: NDArray[np.float64]) -> None:
        """Learn from the rows of a frame."""
        self._observe_rows(names, columns)

    # What learners use, too.

    @property
    def _settled(self) -> bool:
        """Whether `_map` is there and will not be replaced by another."""
        return self._map is not None and self._pool is None

    def _observe(self, x: Mapping[Any, Any]) -> None:
        """Let the map learn from a sample that a learner is about to learn."""
        self.learn_one(x)

    def _observe_rows(self, names: Sequence[Hashable], columns: NDArray[np.float64]) -> None:
        """Let the map learn from the rows of a frame that a learner is about to learn.

        It is called where `_settled` only: before, a learner feeds the rows one by one.
        """

    def _learn_outputs(
        self, names: Sequence[Hashable], columns: NDArray[np.float64], compiled: CompiledMap
    ) -> tuple[Array, Array | None]:
        """Learn from the rows of a frame, and map each as it was learned.

        The second array has their outputs from before they were learned, where there are several
        lifetimes.
        """
        self._observe_rows(names, columns)
        return self._outputs(names, columns, compiled), None

    def _check(self, x: Mapping[Any, Any]) -> None:
        """Raise the error for a value that is no number, infinite, or too large."""
        self._reader.index.read(x)

    def _locate(self, x: Mapping[Any, Any], compiled: CompiledMap) -> int:
        """Write a sample where a map's kernel reads it; returns the address."""
        return self._reader.read_sparse(x) if compiled.sparse else self._reader.read(x)

    def _bad_input(self, place: int, x: Mapping[Any, Any], compiled: CompiledMap) -> ValueError:
        """Return the error for the input that a kernel refused."""
        name = self._reader.index.names[place]
        return too_large(name, x[name])

    def _outputs(
        self, names: Sequence[Hashable], columns: NDArray[np.float64], compiled: CompiledMap
    ) -> Array:
        """Map the rows of a frame; raises ValueError where a value is too large."""
        if compiled.sparse:
            out, bad = compiled.transform_csr(*self._reader.csr(names, columns))
        else:
            out, bad = compiled.transform_rows(self._reader.arrange(names, columns))
        if bad >= 0:
            row, place = divmod(bad, compiled.n_inputs)
            name = self._reader.index.names[place]
            raise too_large(name, float(columns[row, list(names).index(name)]))
        return out

    # Whether a learner's loss is to choose among lifetimes.
    _auto = False

    def _own_copy(self, mixes: bool = False) -> FeatureMap:
        """Return the copy that a learner learns with, which may or may not mix lifetimes."""
        if self._auto and not mixes:
            raise ValueError(
                'lifetime="auto" is chosen by the loss of OGDClassifier or OGDRegressor only'
            )
        return copy.deepcopy(self)

    # One sample.

    def _ready(self) -> CompiledMap:
        if self._map is None:
            raise RuntimeError(
                f"{type(self).__name__} cannot map yet: it has to learn samples first"
            )
        return self._map

    def _output(self, x: Mapping[Any, Any]) -> Array:
        compiled = self._ready()
        bad = maps.map_one(compiled.address, self._locate(x, compiled), compiled.out_address)
        if bad >= 0:
            raise self._bad_input(bad, x, compiled)
        return compiled.out

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Map a sample.

        Parameters
        ----------
        x
            A mapping from feature to number; features that are not known are ignored.

        Returns
        -------
        A mapping from the names of columns to values, only those of the sample's cells for a map
        of cells. Empty before the map can map.

        Raises
        ------
        TypeError
            If a value is no number.
        ValueError
            If a value is infinite or too large for single precision.

        """
        compiled = self._map
        if compiled is None:
            return {}
        out = self._output(x)
        if compiled.dense:
            return dict(zip(compiled.names(range(len(out))), out.tolist(), strict=True))
        return dict.fromkeys(compiled.names(self._known(out).tolist()), compiled.value)

    # Many samples.

    def _read(self, X: Any) -> tuple[Any, Array]:
        """Read a frame; returns it as a narwhals one with its rows' outputs."""
        frame, names, columns = read_frame(X)
        return frame, self._outputs(names, columns, self._ready())

    def _known(self, out: Array) -> Array:
        """Return the cells among outputs that have a column, in one dimension."""
        return out.ravel()

    def _csr(self, out: Array) -> sparse.csr_matrix:
        compiled = self._ready()
        if compiled.dense:
            return sparse.csr_matrix(out)
        n, t = out.shape
        return sparse.csr_matrix(
            (np.full(n * t, compiled.value), out.ravel(), np.arange(0, n * t + 1, t)),
            shape=(n, compiled.n_columns),
        )

    def transform_many(self, X: Any) -> Any:
        """Map the rows of a frame.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of numbers; nulls and NaN are missing.

        Returns
        -------
        A frame of the same kind (and pandas index). For a map of cells it has only the columns
        that are not zero in all rows, as sparse columns where pandas is the kind.

        Raises
        ------
        TypeError
            If a column holds something that is no number.
        ValueError
            If a value is infinite or too large, or a column is doubled.

        """
        if self._map is None:
            frame, _, _ = read_frame(X)
            return to_native_frame({}, like=frame)
        compiled = self._map
        frame, out = self._read(X)
        if compiled.dense:
            columns = compiled.names(range(compiled.n_columns))
            return to_native_frame(dict(zip(columns, out.T, strict=True)), like=frame)
        present = np.unique(self._known(out))
        matrix = self._csr(out)[:, present]
        return sparse_to_native_frame(matrix, columns=compiled.names(present.tolist()), like=frame)

    def to_csr(self, X: Any) -> sparse.csr_matrix:
        """Map the rows of a frame to a SciPy matrix, as scikit-learn's linear models take it.

        Returns
        -------
        A matrix with a row per row and a column per column of the map, so that matrices of
        different frames fit together while the map stays the same.

        Raises
        ------
        RuntimeError
            If the map cannot map yet.

        """
        return self._csr(self._read(X)[1])

    def gram(self, X: Any, Y: Any = None) -> NDArray[np.float64]:
        """Return the kernel of each row of a frame with each row of another.

        Parameters
        ----------
        X
            A frame.
        Y
            Another frame; None stands for the first.

        Returns
        -------
        An array with a row per row of `X` and a column per row of `Y`. For a map of cells each is
        a count over the number of partitions; for a dense map BLAS computes them, whose last digits
        depend on the processor and on the number of rows.

        Raises
        ------
        RuntimeError
            If the map cannot map yet.

        """
        first = self._told_apart_many(X)
        return self._gram(first, first if Y is None else self._told_apart_many(Y))

    def _told_apart_many(self, X: Any) -> Array:
        """Return what the kernel compares of the rows of a frame."""
        return self._read(X)[1]

    def _gram(self, first: Array, second: Array) -> NDArray[np.float64]:
        """Return the kernels of rows, by what is compared of them."""
        if self._ready().dense:
            product: NDArray[np.float64] = first @ second.T
            return product
        return share_of_equals(first, second, self._ready().n_columns)

    @property
    def _raw_memory_usage(self) -> int:
        size = sys.getsizeof(self) + sys.getsizeof(self.__dict__) + self._reader.nbytes
        size += 0 if self._map is None else self._map.nbytes
        return size + (0 if self._pool is None else self._pool.nbytes)


class CellFeatures(FeatureMap):
    """Base of the maps of cells."""

    def _cells(self, columns: Array) -> Array:
        """Turn columns into what numbers the cells of each partition."""
        return columns.astype(np.int64)

    def kernel(self, x: Mapping[Any, Any], y: Mapping[Any, Any]) -> float:
        """Return the share of partitions in which two samples fall into the same cell.

        Raises
        ------
        RuntimeError
            If the map cannot map yet.

        """
        return float((self._told_apart(x) == self._told_apart(y)).mean())

    def _told_apart(self, x: Mapping[Any, Any]) -> Array:
        """Return what tells a sample's cells from others."""
        return self._output(x).copy()

    def cells_one(self, x: Mapping[Any, Any]) -> NDArray[np.int64]:
        """Return the cell of each partition in which a sample falls.

        Parameters
        ----------
        x
            A mapping from feature to number.

        Returns
        -------
        The numbers of the cells, shape (n_partitions,).

        Raises
        ------
        RuntimeError
            If the map cannot map yet.

        """
        return self._cells(self._output(x))

    def cells_many(self, X: Any) -> NDArray[np.int64]:
        """Return the cells in which the rows of a frame fall.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of numbers.

        Returns
        -------
        The numbers of the cells, shape (n_rows, n_partitions).

        Raises
        ------
        RuntimeError
            If the map cannot map yet.

        """
        return self._cells(self._read(X)[1])


class Pooled(FeatureMap):
    """A map that is built from its first `pool_size` samples.

    It is built early and again whenever their number has doubled, so that it is useful from the
    second sample on. Building may be spread over calls (`CompiledMap.advance`); until it is done
    the map stays as it was. Samples that come while the last map is built are stored for learners.
    """

    pool_size: int

    def __init__(self) -> None:
        super().__init__()
        self._pool = Pool()
        self._next: CompiledMap | None = None
        self._n_builds = 0

    @abc.abstractmethod
    def _begin(self, number: int, pool: Pool) -> CompiledMap:
        """Begin a map of all samples of a pool; `advance` does the work."""

    @property
    def frozen(self) -> bool:
        """Whether the map is final."""
        return self._pool is None

    def _until_build(self) -> int:
        """Return how many samples may be stored up to the one that makes the map begin anew."""
        assert self._pool is not None
        n = len(self._pool)
        return max(1, min(self.pool_size, 1 << max(1, n.bit_length())) - n)

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Store a sample while the map is being built.

        Parameters
        ----------
        x
            A mapping from feature to number. NaN is the same as an absent key.

        Raises
        ------
        TypeError
            If a value is no number.
        ValueError
            If a value is infinite or too large for single precision.

        """
        if self._pool is None:
            return
        self._pool.append(*self._reader.entries(x))
        self._begin_where_due()
        self._advance()

    def _learn_rows(self, names: Sequence[Hashable], columns: NDArray[np.float64]) -> None:
        start = 0
        while start < len(columns) and self._pool is not None:
            stop = start + 1
            if self._next is None:
                stop = min(len(columns), start + self._until_build())
            self._store(names, columns[start:stop])
            self._begin_where_due()
            self._advance()
            start = stop

    def _store(self, names: Sequence[Hashable], columns: NDArray[np.float64]) -> None:
        assert self._pool is not None
        self._reader.add_columns(names, columns)
        places, values, starts = self._reader.csr(names, columns)
        self._pool.extend(places, values.astype(np.float32), starts)

    def _begin_where_due(self) -> None:
        assert self._pool is not None
        n = len(self._pool)
        if n == self.pool_size or (2 <= n < self.pool_size and n & (n - 1) == 0):
            self._next = self._begin(self._n_builds, self._pool)
            self._n_builds += 1

    def _advance(self) -> None:
        assert self._pool is not None
        if self._next is not None and self._next.advance():
            self._map, self._next = self._next, None
            if len(self._pool) >= self.pool_size:
                self._pool = None

    @property
    def _raw_memory_usage(self) -> int:
        return super()._raw_memory_usage + (0 if self._next is None else self._next.nbytes)
