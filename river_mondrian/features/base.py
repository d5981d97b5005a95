"""The base class of feature maps, and the interface that learners use.

A `FeatureMap` is a River transformer that reads mappings and frames (`samples.SampleReader`). Once
a `FeatureMap` can map samples, it has a `CompiledMap`: the current map, with a record that kernels
use to call the map (see `maps.record`). A map is a cell map or a dense map. A *cell map* puts a
sample into exactly one cell of each of t partitions. Each known cell is a column, whose value is 1
/ sqrt(t). A *dense map* has a value in each of `n_out` columns.

To add a map, write a class of records, and a kernel that maps a sample with a record of this class
(see `compiling.kernels.link_by_name`). Then write a subclass of `CompiledMap` for the record and
the kernel, and a subclass of `FeatureMap` that creates this `CompiledMap`.

A learner has its own copy of a map, and takes these steps for each labelled sample:

1. If `_knows(x)` is false, `_observe` changes the map for the sample: it adds new features, or
   points for the next build. `_observe` replaces arrays, or appends to arrays without changing
   earlier elements, so that an interrupted learner can restore the objects that `_changing`
   returns. `_observe` returns functions that the learner calls after the sample counts as learned.
   If the map `_grows`, these functions extend the map by the sample. If `_knows(x)` is true and the
   map `_grows`, `_map.learn` extends the map by the sample.
2. If `_observe` has replaced `_map`, columns have new meanings. The learner starts again from zero
   weights, and replays the labelled samples in `_pool`, a few per call
   (`CompiledMap.transform_stored`). Until the replay is complete, the learner predicts with the old
   map. A `FeatureMap` that never replaces `_map` needs no replay, so its `_pool` may be None.
   `CompiledMap.n_columns` may grow at any time: the weights of a new column are zero.
3. `_locate(x, compiled)` writes the sample to memory that kernels read. One call of the learner's
   kernel maps the sample, predicts, and updates the weights. The kernel's arguments are the records
   of the learner, the map, the sample and the outputs.

For a batch, `_observe_rows` updates the map, `_outputs` returns the outputs of all rows, and the
learner's kernel runs over these outputs. If a map learns row by row, `_rows` returns the rows as
samples. Rows with new features (`_new_rows`) are learned one by one, by the steps above.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy
from river import base

from .. import checks, samples
from ..frames import Frame, native_frame, read_frame
from ..inputs import Floats, too_large
from ..maps.record import Array, CompiledMap, Pool, Sample
from ..model import Model, Snapshot, Steps, locked
from ..progress import in_pieces, pieces


def share_of_equals(first: Array, second: Array, n: int) -> Floats:
    """Return the share of columns with equal elements, for all pairs of rows of two arrays.

    The elements are integers below `n`. Each integer occurs in one column only.
    """

    # Equation 2 of Ting, Wells and Washio (2021), for all pairs of rows.
    def matrix(rows: Array) -> scipy.sparse.csr_matrix:
        starts = np.arange(0, rows.size + 1, rows.shape[1])
        return scipy.sparse.csr_matrix((np.ones(rows.size), rows.ravel(), starts), (len(rows), n))

    shared: Floats = (matrix(first) @ matrix(second).T).toarray()
    shared /= first.shape[1]
    return shared


def check_map(owner: object, compiled: Any, features: FeatureMap, may_grow: bool = False) -> None:
    """Raise an error unless a stored object is a map, with at most as many inputs as `features`.

    If `may_grow` is False, an unfinished map is an error, too.
    """
    if not isinstance(compiled, features._MAPS) or not (compiled.ready or may_grow):
        checks.refuse(owner, "a map", compiled, "but it is unfinished, or of another kind")
    n = len(features._reader.index)
    checks.check_number(owner, "n_inputs of a map", compiled.n_inputs, 0, n)


@dataclass(eq=False, repr=False)
class FeatureMap(Model, base.MiniBatchTransformer):
    """Base class of the feature maps.

    A subclass is a dataclass whose fields are its parameters. A subclass sets `_map` as soon as
    samples can be mapped.
    """

    _IN_SNAPSHOT: ClassVar[tuple[str, ...]] = ("_map", "_pool")
    # Classes that `_map` may have, because their kernels read the samples that `_locate` writes.
    _MAPS: ClassVar[tuple[type[CompiledMap], ...]] = (CompiledMap,)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._reader = samples.SampleReader()
        self._map: Any = None
        self._pool: Any = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for name in ("_map", "_next"):
            compiled = self.__dict__.get(name)
            if compiled is not None:
                check_map(self, compiled, self, name == "_next")
        checks.check_types(self, {"_pool": (type(None), Pool)})
        if self._pool is not None:
            self._pool.check(len(self._reader.index))

    @abc.abstractmethod
    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Learn from a sample."""

    @locked
    def learn_many(self, X: Any, *, progress: bool = False) -> None:
        """Learn from the rows of a frame, with the same result as `learn_one` on each row.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...;
            nulls and NaN are missing values.
        progress
            Whether to show the number of learned rows on stderr, with tqdm if it is installed, else
            as text. The result does not depend on `progress`. After Ctrl-C, each row has been
            learned completely or not at all.

        Raises
        ------
        TypeError
            If the map does not accept the type of a value.
        ValueError
            If a value is infinite or too large, or a column occurs twice. In this case, nothing is
            learned.

        """
        _, names, columns = self._read_frame(X)
        for piece in pieces(len(columns), progress):
            self._learn_rows(names, columns[piece])

    def _learn_rows(self, names: Sequence[Hashable], columns: Floats) -> None:
        """Learn from the rows of a frame."""
        self._observe_rows(names, columns)

    # Attributes and methods that learners use.

    @property
    def _is_final(self) -> bool:
        """Whether `_map` exists and will not be replaced."""
        return self._map is not None and self._pool is None

    # Whether each learned sample changes the map, even if the map knows all features.
    _grows = False

    # Whether features may be categories.
    _takes_levels = False

    def _read_values(self, x: Mapping[Any, Any]) -> dict[Hashable, float]:
        """Check a mapping, and return its values that are not missing, with levels as codes."""
        return self._reader.index.read(x, self._takes_levels)

    def _read_frame(self, X: Any) -> Frame:
        """Return a frame's values after checking that columns have the types of their features."""
        return read_frame(X, self._reader.index if self._takes_levels else None)

    def _changing(self) -> list[Any]:
        """Return the objects that `_observe` may change."""
        return [item for item in (self._reader, self._pool, self._map, self) if item is not None]

    def _knows(self, x: Mapping[Any, Any]) -> bool:
        """Return whether a sample needs no call of `_observe`."""
        return False

    def _observe(self, values: Mapping[Hashable, float]) -> list[Callable[[], object]]:
        """Change the map for a checked sample before the sample is learned.

        If the map `_grows`, the returned functions extend the map by the sample.
        """
        self.learn_one(values)
        return []

    def _learn_new(self, values: Mapping[Hashable, float]) -> None:
        """Learn a checked sample that changes the map."""
        self._pending = Snapshot(self._changing())
        steps = self._observe(values)
        # After this assignment, the sample counts as learned, because an interrupted call is
        # completed.
        self._pending = Steps(steps)
        self._settle()

    def _rows(self, names: Sequence[Hashable], columns: Floats) -> Iterator[Sample] | None:
        """Return a frame's rows as samples if the map learns row by row, else None."""
        return None

    def _new_rows(self, names: Sequence[Hashable], columns: Floats) -> set[int]:
        """Return the numbers of the rows that have a new feature."""
        return set(self._reader.index.first_rows(names, columns).values())

    def _observe_rows(self, names: Sequence[Hashable], columns: Floats) -> None:
        """Update the map with the rows of a frame, before a learner learns the rows.

        Learners call this method if `_is_final` is true. Otherwise, learners observe the rows one
        by one.
        """

    def _locate(self, x: Mapping[Any, Any], compiled: CompiledMap) -> Sample:
        """Write a sample to the record that a map's kernel reads; return the record."""
        if compiled.sparse:
            return self._reader.read_sparse(x)
        return self._reader.read(x, self._takes_levels)

    def _bad_input(self, index: int, x: Mapping[Any, Any]) -> ValueError:
        """Return the error for an input that a kernel rejected as too large."""
        name = self._reader.index.names[index]
        return too_large(name, x[name])

    def _outputs(self, names: Sequence[Hashable], columns: Floats, compiled: CompiledMap) -> Array:
        """Return the outputs of a frame's rows; raise ValueError if a value is too large."""
        if compiled.sparse:
            out, bad = compiled.transform_csr(*self._reader.csr(names, columns))
        else:
            out, bad = compiled.transform_rows(self._reader.arrange(names, columns))
        if bad >= 0:
            row, index = divmod(bad, compiled.n_inputs)
            name = self._reader.index.names[index]
            raise too_large(name, float(columns[row, list(names).index(name)]))
        return out

    # Whether learners mix several lifetimes of the map, with weights that depend on the loss.
    _auto = False

    def _own_copy(self, mixes: bool = False) -> FeatureMap:
        """Return a copy for a learner, which mixes lifetimes if `mixes` is true."""
        return copy.deepcopy(self)

    # One sample.

    def _ready(self) -> CompiledMap:
        if self._map is None:
            raise RuntimeError(f"{type(self).__name__} has to learn samples first")
        return self._map

    def _output(self, x: Mapping[Any, Any]) -> Array:
        compiled = self._ready()
        bad = compiled.transform(self._locate(x, compiled))
        if bad >= 0:
            raise self._bad_input(bad, x)
        return compiled.out

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Map a sample.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level if the map accepts levels; unknown
            features are ignored.

        Returns
        -------
        A mapping from the names of columns to values. A cell map returns only the columns of the
        sample's cells. The mapping is empty if the map cannot map yet.

        Raises
        ------
        TypeError
            If the map does not accept the type of a value.
        ValueError
            If a value is infinite or too large for single precision.

        """
        with self._lock:
            if self._pending is not None:
                self._settle()
            compiled = self._map
            if compiled is None:
                return {}
            out = self._output(x)
            if compiled.dense:
                return dict(zip(compiled.names(range(len(out))), out.tolist(), strict=True))
            value = float(compiled.record.value)
            return dict.fromkeys(compiled.names(self._known(out).tolist()), value)

    # Many samples.

    def _read(self, X: Any, progress: bool = False) -> tuple[Any, Array]:
        """Read a frame or array; return the narwhals frame or the array, and the rows' outputs."""
        frame, names, columns = self._read_frame(X)
        ready = self._ready()
        return frame, in_pieces(lambda rows: self._outputs(names, rows, ready), columns, progress)

    def _known(self, out: Array) -> Array:
        """Return the cells with a column, as a one-dimensional array."""
        return out.ravel()

    def _csr(self, out: Array) -> scipy.sparse.csr_matrix:
        compiled = self._ready()
        if compiled.dense:
            return scipy.sparse.csr_matrix(out)
        n, t = out.shape
        starts = np.arange(0, n * t + 1, t)
        entries = np.full(n * t, compiled.record.value), out.ravel(), starts
        return scipy.sparse.csr_matrix(entries, shape=(n, compiled.n_columns))

    @locked
    def transform_many(self, X: Any, *, progress: bool = False) -> Any:
        """Map the rows of a frame.

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
        For a frame, a frame of the same library, with the pandas index of `X`. For an array, an
        array, or, if the map is a cell map, the sparse matrix that `to_csr` returns. There are no
        columns if the map cannot map yet. If the map is a cell map, a frame omits columns in which
        all rows are 0, and its columns are sparse in pandas.

        Raises
        ------
        TypeError
            If the map does not accept the type of a value.
        ValueError
            If a value is infinite or too large, or a column occurs twice.

        """
        if self._map is None:
            return native_frame({}, like=self._read_frame(X)[0])
        compiled = self._map
        frame, out = self._read(X, progress)
        if compiled.dense:
            columns = compiled.names(range(compiled.n_columns))
            return native_frame(dict(zip(columns, out.T, strict=True)), like=frame)
        if isinstance(frame, np.ndarray):
            # The columns of an array have no names, so positions identify columns, and no column is
            # omitted.
            return self._csr(out)
        present = np.unique(self._known(out))
        matrix = self._csr(out)[:, present]
        from river.utils.dataframe import sparse_to_native_frame

        return sparse_to_native_frame(matrix, columns=compiled.names(present.tolist()), like=frame)

    @locked
    def to_csr(self, X: Any) -> scipy.sparse.csr_matrix:
        """Map the rows of a frame to a sparse SciPy matrix, e.g. for scikit-learn's linear models.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...;
            nulls and NaN are missing values.

        Returns
        -------
        A matrix with a row for each row of `X` and a column for each column of the map. Matrices of
        different frames have the same columns if the map has not changed.

        Raises
        ------
        RuntimeError
            If the map cannot map yet.

        """
        return self._csr(self._read(X)[1])

    @locked
    def gram(self, X: Any, Y: Any = None) -> Floats:
        """Return the kernel of each row of a frame with each row of another frame.

        Parameters
        ----------
        X
            A frame or array, as for `transform_many`.
        Y
            Another frame or array; None means `X`.

        Returns
        -------
        An array with a row for each row of `X` and a column for each row of `Y`. For a cell map,
        each value is the share of partitions in which both rows fall into the same cell. For a
        dense map, BLAS computes the values, so their last digits depend on the processor and on the
        number of rows.

        Raises
        ------
        RuntimeError
            If the map cannot map yet.

        """
        first = self._codes_many(X)
        return self._gram(first, first if Y is None else self._codes_many(Y))

    def _codes_many(self, X: Any) -> Array:
        """Return the outputs or codes of a frame's rows, as `_gram` compares them."""
        return self._read(X)[1]

    def _gram(self, first: Array, second: Array) -> Floats:
        """Return the kernel matrix of the rows in two results of `_codes_many`."""
        if self._ready().dense:
            return first @ second.T
        return share_of_equals(first, second, self._ready().n_columns)
