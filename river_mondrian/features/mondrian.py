"""Mondrian features of the Laplace kernel."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..arguments import check_positive
from ..cells import CellNode, CellTrees
from ..inputs import check_integer, ordered, read_frame
from ..kernels import cells, maps
from .base import Array, CellFeatures, CompiledMap


class _MondrianMap(CompiledMap):
    _DERIVED: ClassVar[frozenset[str]] = CompiledMap._DERIVED | {"room"}
    _ADDRESSES: ClassVar[Sequence[int]] = (cells.FOREST, cells.ROW, cells.REFS)

    def __init__(self, n_partitions: int, lifetimes: Sequence[float], seed: int | None) -> None:
        super().__init__(0, n_partitions * len(lifetimes), 0, 0, False, n_words=cells.N_OWN)
        self.trees = CellTrees(n_partitions, lifetimes, seed)
        self.maps_learned = len(lifetimes) == 1
        self._finish()

    def _function(self) -> Callable[..., int]:
        return cells.find_cells

    def _bind(self) -> None:
        self.room = np.zeros(3 * len(self.trees.trees), dtype=np.int64)
        self.record[cells.REFS] = self.room.ctypes.data
        self.record[cells.FOREST] = self.trees.address
        self.record[cells.ROW] = self.trees.row_address

    def add_dims(self, first_values: NDArray[np.float64]) -> None:
        """Add features, each with the first value that was seen in it."""
        self.trees.add_dims(first_values)
        self.record[maps.N_INPUTS] = self.trees.n_dims
        self._bind()

    def learn(self, values: int) -> int:
        """Extend the partitions by a sample; returns -1 or a bad input's place."""
        bad = self.trees.learn(values, self.out_address)
        self.record[maps.N_COLUMNS] = self.trees.n_columns
        return bad

    def names(self, columns: Sequence[int]) -> list[str]:
        owners = self.trees.owners[np.asarray(columns, dtype=np.int64)]
        return [f"mondrian_{t}_{cell}" for t, cell in owners.tolist()]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return super().nbytes + self.trees.nbytes


class MondrianFeatures(CellFeatures):
    """Mondrian features of the Laplace kernel.

    Each partition is a Mondrian process on the smallest box around the samples, cut at the
    lifetime: a box is cut at a rate that is the sum of its sides, in a feature chosen by its side
    and at a uniform place, and so are the two parts[^1]. The share of partitions in which two
    samples fall into the same cell is an unbiased estimate of exp(-lifetime |x - y|_1)[^2], and 1
    for a sample with itself.

    `learn_one` extends the partitions by the conditional Mondrian process: their law is at all
    times that of partitions drawn in batch for the same samples. Each sample has one cell per
    partition, with the value 1 / sqrt(n_partitions). A new cell is a new column,
    `"mondrian_{partition}_{cell}"`; the columns of earlier samples stay as they are.

    Nothing is rescaled: the lifetime is per unit of the features.

    Parameters
    ----------
    n_partitions
        Number of partitions. The kernel's standard error is at most 0.5 / sqrt(n_partitions).
    lifetime
        Rate of the kernel, per unit of the features: time at which partitions stop being cut.
    seed
        Random seed for reproducibility.

    Notes
    -----
    `transform_one` changes nothing. At a place where no sample has been learned it gives the cell
    in which the walk down each partition ends, as if the place were not cut off from the samples of
    that cell.

    A feature that is absent or NaN is missing: it adds no distance to a box, and at a cut on it the
    walk goes to the child that is nearer in the other features, the larger one where both are as
    near. So `kernel` is the Laplace kernel of samples that lack nothing.

    A sample takes time proportional to the partitions and their depth. Memory grows with the cells
    only, by 50 to 100 bytes and 8 to 12 bytes per feature of the input with each, or more where a
    sample opens a cell in few of many partitions: 4 bytes for each partition.

    Examples
    --------

    >>> from river import datasets, evaluate, linear_model, metrics, optim, preprocessing
    >>> from river_mondrian import MondrianFeatures

    >>> model = (
    ...     preprocessing.StandardScaler()
    ...     | MondrianFeatures(lifetime=1.0, seed=42)
    ...     | linear_model.LogisticRegression(optim.SGD(1.0))
    ... )
    >>> dataset = datasets.Bananas().take(2000)
    >>> metric = evaluate.progressive_val_score(dataset, model, metrics.Accuracy())
    >>> metric.get() > 0.8
    True

    >>> features = MondrianFeatures(n_partitions=1000, lifetime=2.0, seed=42)
    >>> features.learn_one({"a": 0.1, "b": 0.0})
    >>> features.learn_one({"a": 0.0, "b": 0.1})
    >>> round(features.kernel({"a": 0.1, "b": 0.0}, {"a": 0.0, "b": 0.1}), 1)  # exp(-0.4)
    0.7

    References
    ----------
    [^1]: Lakshminarayanan, B., Roy, D. M. and Teh, Y. W. (2014). Mondrian Forests: Efficient Online
    Random Forests. Advances in Neural Information Processing Systems 27. Algorithms 1 to 4.
    [^2]: Balog, M., Lakshminarayanan, B., Ghahramani, Z., Roy, D. M. and Teh, Y. W. (2016). The
    Mondrian Kernel. Uncertainty in Artificial Intelligence 32. Sections 3 and 5, Proposition 1.

    """

    _map: _MondrianMap | None

    def __init__(
        self, n_partitions: int = 50, lifetime: float = 1.0, seed: int | None = None
    ) -> None:
        check_integer("n_partitions", n_partitions, 1)
        check_positive("lifetime", lifetime)
        self.n_partitions = n_partitions
        self.lifetime = lifetime
        self.seed = seed
        super().__init__()

    def _add(self, values: Mapping[Hashable, float]) -> _MondrianMap:
        """Add those of the features that are new; returns the map, made at first use."""
        if self._map is None:
            self._map = _MondrianMap(self.n_partitions, [float(self.lifetime)], self.seed)
        new = ordered(name for name in values if name not in self._reader.index.places)
        if new:
            self._reader.add(new)
            self._map.add_dims(np.array([values[name] for name in new]))
        return self._map

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Extend the partitions by a sample.

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
        compiled = self._map
        if compiled is None or not self._reader.knows(x):
            compiled = self._add(self._reader.index.read(x))
        bad = compiled.learn(self._locate(x, compiled))
        if bad >= 0:
            raise self._bad_input(bad, x, compiled)

    def learn_many(self, X: Any) -> None:
        """Extend the partitions by the rows of a frame; the result is that of `learn_one` on each.

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
            self._observe_rows(names, columns)

    def _observe_rows(self, names: Sequence[Hashable], columns: NDArray[np.float64]) -> None:
        for compiled, rows in self._parts(names, columns):
            for row in _addresses(rows):
                compiled.learn(row)

    def _learn_outputs(
        self, names: Sequence[Hashable], columns: NDArray[np.float64], compiled: CompiledMap
    ) -> Array:
        # Row by row: where a sample lacks values, its cell may be another after later ones.
        outs = []
        for own, rows in self._parts(names, columns):
            outs.append(np.empty((len(rows), own.n_out), dtype=np.int32))
            for row, out in zip(_addresses(rows), outs[-1], strict=True):
                own.learn(row)
                if not own.maps_learned:
                    maps.map_one(own.address, row, own.out_address)
                out[:] = own.out
        return np.concatenate(outs)

    def _parts(
        self, names: Sequence[Hashable], columns: NDArray[np.float64]
    ) -> Iterator[tuple[_MondrianMap, NDArray[np.float64]]]:
        """Yield the rows of a frame in parts, each with the map that knows their features."""
        known = ~np.isnan(columns)
        new = [i for i, name in enumerate(names) if name not in self._reader.index.places]
        first = {i: int(known[:, i].argmax()) for i in new if known[:, i].any()}
        starts = sorted({0, *first.values()})
        for start, stop in itertools.pairwise([*starts, len(columns)]):
            own = self._add(
                {names[i]: float(columns[start, i]) for i, row in first.items() if row == start}
            )
            yield own, self._reader.arrange(names, columns[start:stop])

    def _cells(self, columns: Array) -> Array:
        compiled = self._map
        assert compiled is not None
        numbers: NDArray[np.int64] = compiled.trees.owners[columns, 1].astype(np.int64)
        return numbers

    def nodes(self, partition: int) -> list[CellNode]:
        """Return the nodes of a partition's tree in preorder, with their boxes, cuts and times.

        Parameters
        ----------
        partition
            Number of the partition.

        Returns
        -------
        Nodes whose features are in the order in which they were met. Before any learning there
        are none.

        """
        return [] if self._map is None else self._map.trees.read(partition)


def _addresses(array: Array) -> range:
    """Return the addresses of an array's rows."""
    start, step = int(array.ctypes.data), array.strides[0]
    return range(start, start + step * len(array), step)
