"""Random binning features of the Laplace kernel."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ..arguments import check_integer, check_positive, check_seed
from ..changes import Snapshot, Steps
from ..frames import read_frame
from ..maps.binning import UNKNOWN, BinningMap
from ..maps.compiled import Array
from ..status import NO_ROOM
from .base import share_of_equals
from .kinds import ByFeature, CellFeatures


class RandomBinningFeatures(ByFeature, CellFeatures):
    """Random binning features of the Laplace kernel.

    A partition is a grid of random pitch and random shift in each feature[^1]. The share of
    partitions in which two samples fall into the same cell is an unbiased estimate of
    exp(-lifetime |x - y|_1), and 1 for a sample with itself. The grids take no notice of the data.

    A cell gets its column with the first sample that falls into it in `learn_one`. In a cell
    without one a sample has no feature, since no model downstream can know anything of it; `kernel`
    and `gram` do tell such cells apart.

    A feature of the input that is absent or NaN is 0. A feature may appear at any time: its grids
    are drawn by its name and the seed. Neither the order of keys nor the time at which they appear
    changes them, and 0 is in the same bin of each grid, so that the cells of earlier samples stay.

    Parameters
    ----------
    n_partitions
        Number of grids. The kernel's standard error is at most 0.5 / sqrt(n_partitions).
    lifetime
        Rate of the kernel, per unit of the features. The pitches' mean is 2 / lifetime.
    seed
        Random seed for reproducibility.

    Notes
    -----
    A cell is found by a 128-bit code, so that two may be taken for one with a probability below
    1e-20. Memory grows by some 50 to 100 bytes with each cell that is met, and by 16 `n_partitions`
    bytes with each feature of the input.

    Examples
    --------

    >>> from river import datasets, evaluate, linear_model, metrics, optim, preprocessing
    >>> from river_mondrian import RandomBinningFeatures

    >>> model = (
    ...     preprocessing.StandardScaler()
    ...     | RandomBinningFeatures(lifetime=1.0, seed=42)
    ...     | linear_model.LogisticRegression(optim.SGD(1.0))
    ... )
    >>> dataset = datasets.Bananas().take(2000)
    >>> metric = evaluate.progressive_val_score(dataset, model, metrics.Accuracy())
    >>> metric.get() > 0.8
    True

    >>> features = RandomBinningFeatures(n_partitions=1000, lifetime=2.0, seed=42)
    >>> features.learn_one({"a": 0.0, "b": 0.0})
    >>> round(features.kernel({"a": 0.1}, {"b": 0.1}), 1)  # exp(-0.4)
    0.7

    References
    ----------
    [^1]: Rahimi, A. and Recht, B. (2007). Random Features for Large-Scale Kernel Machines.
    Advances in Neural Information Processing Systems 20. Algorithm 2.

    """

    _map: BinningMap | None
    _grows = True

    def __init__(
        self, n_partitions: int = 100, lifetime: float = 1.0, seed: int | None = None
    ) -> None:
        check_integer("n_partitions", n_partitions, 1)
        check_positive("lifetime", lifetime)
        check_seed(seed)
        self.n_partitions = n_partitions
        self.lifetime = lifetime
        self.seed = seed
        super().__init__()

    def _make(self, seed: int) -> BinningMap:
        return BinningMap(seed, self.n_partitions, self.lifetime)

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Draw the grids of features that are new, and give the sample's new cells columns.

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
        with self._lock:
            if self._pending is not None:
                self._settle()
            if not self._knows(x):
                self._learn_new(self._reader.index.read(x))
                return
            assert self._map is not None
            sample = self._locate(x, self._map)
            bad = self._map.learn_in_room(sample)
            if bad == NO_ROOM:
                self._pending = Steps([partial(self._map.learn, sample)])
                self._settle()
            elif bad >= 0:
                raise self._bad_input(bad, x, self._map)

    def _observe(self, values: Mapping[Hashable, float]) -> list[Callable[[], object]]:
        super()._observe(values)
        return [partial(self._learn_observed, values)]

    def _learn_observed(self, values: Mapping[Hashable, float]) -> None:
        assert self._map is not None
        self._map.learn(self._locate(values, self._map))

    def _learn_rows(self, names: Sequence[Hashable], columns: NDArray[np.float64]) -> None:
        self._pending = Snapshot(self._changing())
        self._reader.add_columns(names, columns)
        self._know()
        assert self._map is not None
        self._pending = Steps([partial(self._map.learn_csr, *self._reader.csr(names, columns))])
        self._settle()

    def _observe_rows(self, names: Sequence[Hashable], columns: NDArray[np.float64]) -> None:
        assert self._map is not None
        self._map.learn_csr(*self._reader.csr(names, columns))

    def _known(self, out: Array) -> Array:
        known: Array = out[out != UNKNOWN]
        return known

    def _cells(self, columns: Array) -> Array:
        # Those that have not been met are -1.
        return super()._cells(columns) - 1

    def _csr(self, out: Array) -> scipy.sparse.csr_matrix:
        matrix = super()._csr(out)
        matrix.data[matrix.indices == UNKNOWN] = 0.0
        matrix.eliminate_zeros()
        return matrix

    def _codes(self, x: Mapping[Any, Any]) -> Array:
        self._ready()
        assert self._map is not None
        found, bad = self._map.codes(self._locate(x, self._map))
        if bad >= 0:
            raise self._bad_input(bad, x, self._map)
        return found

    def _codes_many(self, X: Any) -> Array:
        self._ready()
        assert self._map is not None
        _, names, columns = read_frame(X)
        return self._map.codes_csr(*self._reader.csr(names, columns))

    def _gram(self, first: Array, second: Array) -> NDArray[np.float64]:
        both = np.concatenate([first, second])
        cells, numbers = np.unique(both, return_inverse=True)
        numbers = numbers.reshape(both.shape)
        return share_of_equals(numbers[: len(first)], numbers[len(first) :], len(cells))
