"""Learners on a feature map that may be built anew while samples come."""

from __future__ import annotations

import abc
import sys
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from river import base

from ..arguments import CopiesDeeply
from ..features.base import FeatureMap
from ..inputs import check_target, check_weight, read_frame, read_targets, read_weights
from ..learners.weights import Weights
from ..maps.compiled import Array, CompiledMap
from ..status import DONE

# Stored samples that a call replays when the map is new.
REPLAY = 32

# Rows that are mapped at a time.
BLOCK = 4096

W = TypeVar("W", bound=Weights)


class FeatureLearner(CopiesDeeply, base.Estimator, Generic[W]):
    """A learner on a feature map that may be built anew.

    While the map collects the samples that it is built from, the learner keeps their targets. When
    there is a new map, weights for it begin at zero and learn those samples again, some in each
    call. Until they have caught up, predictions come from the map before.
    """

    def __init__(
        self,
        features: FeatureMap | None,
        default: Callable[[], FeatureMap],
        mixes: bool = False,
    ) -> None:
        if features is not None and not isinstance(features, FeatureMap):
            raise TypeError(
                f"features must be a feature map of this package or None, got {features!r}"
            )
        self.features = features
        self._features = default() if features is None else features._own_copy(mixes)
        self._current: W | None = None
        self._next: W | None = None
        # The samples to replay: those of the pool from the first that this learner has seen.
        self._pool = self._features._pool
        self._first = 0 if self._pool is None else len(self._pool)
        self._targets = array("d")
        self._weights = array("d")
        self._position = 0

    @abc.abstractmethod
    def _make_weights(self, compiled: CompiledMap) -> W:
        """Return what has learned nothing yet for a map."""

    def _kernel_target(self, target: float, weights: W) -> float:
        """Turn a target into the kernel's."""
        return target

    def _kernel_targets(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn targets into the kernel's."""
        return targets

    # Learning.

    def _learn(self, x: Mapping[Any, Any], target: float, weight: float) -> None:
        features = self._features
        stored = features._pool is not None
        features._observe(x)
        if stored:
            self._targets.append(target)
            self._weights.append(weight)
        compiled = features._map
        if compiled is None:
            return
        latest = self._next or self._current
        if latest is None or latest.compiled is not compiled:
            # A final map has not read the sample: one that is refused must begin nothing.
            features._check(x)
            self._begin(compiled)
        if stored and self._next is not None:
            self._replay()
            if self._next is None:
                return
        # What is stored will be replayed; what is not must be learned for both maps.
        learning = (self._current,) if stored else (self._current, self._next)
        for weights in learning:
            if weights is not None:
                self._learn_located(weights, x, target, weight)
        if self._next is not None and not stored:
            self._replay()

    def _learn_located(
        self, weights: W, x: Mapping[Any, Any], target: float, weight: float
    ) -> None:
        target = self._kernel_target(target, weights)
        compiled = weights.compiled
        # What the map has just learned need not be read again.
        sample = None if compiled.maps_learned else self._features._locate(x, compiled)
        status = weights.learn(sample, target, weight)
        if status != DONE:
            raise self._features._bad_input(status, x, compiled)

    def _begin(self, compiled: CompiledMap) -> None:
        """Begin with weights of zero for a new map."""
        weights = self._make_weights(compiled)
        if self._pool is None:
            self._current = weights
        else:
            self._next, self._position = weights, 0

    def _replay(self) -> None:
        """Learn some of the stored samples again; use the new weights once they know all."""
        weights, start = self._next, self._position
        assert weights is not None and self._pool is not None
        stop = min(start + REPLAY, len(self._targets))
        if stop > start:
            out = weights.compiled.transform_stored(
                self._pool, self._first + start, self._first + stop
            )
            targets = np.array(self._targets[start:stop])
            weights.learn_rows(
                out, self._kernel_targets(targets), np.array(self._weights[start:stop])
            )
        self._position = stop
        if stop == len(self._targets):
            self._current, self._next = weights, None
            if self._features._pool is None:
                self._pool, self._position = None, 0
                self._targets, self._weights = array("d"), array("d")

    @property
    def _steady(self) -> bool:
        """Whether rows may be mapped ahead of learning them."""
        return (
            self._features._is_final
            and self._next is None
            and self._current is not None
            and self._current.compiled is self._features._map
        )

    def _learn_row(
        self,
        names: Sequence[Hashable],
        row: NDArray[np.float64],
        target: float,
        weight: float,
    ) -> None:
        """Learn a row of a frame as a mapping."""
        self._learn(dict(zip(names, row.tolist(), strict=True)), target, weight)

    def _learn_rows(
        self,
        names: Sequence[Hashable],
        columns: NDArray[np.float64],
        targets: NDArray[np.float64],
        weights: NDArray[np.float64],
    ) -> None:
        """Learn rows whose targets are known."""
        start = 0
        while start < len(columns) and not self._steady:
            self._learn_row(names, columns[start], float(targets[start]), float(weights[start]))
            start += 1
        targets = self._kernel_targets(targets)
        while start < len(columns):
            stop = min(len(columns), start + BLOCK)
            assert self._current is not None
            compiled = self._current.compiled
            out, before = self._features._learn_outputs(names, columns[start:stop], compiled)
            self._learn_mapped(out, before, targets[start:stop], weights[start:stop])
            start = stop

    def _learn_mapped(
        self,
        out: Array,
        before: Array | None,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64],
    ) -> None:
        """Learn mapped rows; `before` is as for `FeatureMap._learn_outputs`."""
        assert self._current is not None
        self._current.learn_rows(out, targets, weights)

    # Predicting.

    def _blocks(
        self, names: Sequence[Hashable], columns: NDArray[np.float64], compiled: CompiledMap
    ) -> Iterator[tuple[slice, Array]]:
        """Map the rows of a frame, some at a time."""
        for start in range(0, len(columns), BLOCK):
            part = slice(start, min(start + BLOCK, len(columns)))
            yield part, self._features._outputs(names, columns[part], compiled)

    @property
    def _raw_memory_usage(self) -> int:
        size = sys.getsizeof(self) + sys.getsizeof(self.__dict__)
        size += sys.getsizeof(self._targets) + sys.getsizeof(self._weights)
        for features in (self.features, self._features):
            size += 0 if features is None else features._raw_memory_usage
        if self._pool is not None and self._features._pool is None:
            size += self._pool.nbytes
        for weights in (self._current, self._next):
            if weights is not None:
                size += weights.nbytes
                if weights.compiled is not self._features._map:
                    size += weights.compiled.nbytes
        return size


class TargetLearner(FeatureLearner[W], base.MiniBatchRegressor):
    """A learner of targets that are numbers."""

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn a sample.

        Parameters
        ----------
        x
            A mapping from feature to number.
        y
            The target, a number of at most 1e120 in size.
        w
            Weight of the sample's loss, from 0 to 1e30.

        Raises
        ------
        TypeError
            If a value or the target is no number.
        ValueError
            If a value is infinite or too large for single precision, or the target or the weight
            is out of range.

        """
        self._learn(x, check_target(y), check_weight(w))

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Learn the rows of a frame, in order.

        The result is that of `learn_one` on each row.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of numbers; nulls and NaN are missing.
        y
            The targets of its rows.
        w
            Weight of all rows, or their weights, from 0 to 1e30.

        Raises
        ------
        TypeError
            If a column or the targets hold something that is no number.
        ValueError
            If a value is infinite, a target or a weight out of range, a column doubled or a length
            wrong; nothing has been learned then.

        """
        _, names, columns = read_frame(X)
        targets = read_targets(y, len(columns))
        self._learn_rows(names, columns, targets, read_weights(w, len(columns)))
