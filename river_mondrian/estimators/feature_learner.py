"""Base classes of linear models on a feature map that may be rebuilt."""

from __future__ import annotations

import abc
import sys
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from river import base

from .. import inputs, limits
from ..checks import check_number, check_types, refuse
from ..features.base import FeatureMap, check_map
from ..features.kernel_maps import IsolationFeatures
from ..frames import Block, read_block, read_targets
from ..learners.ridge.posterior import Weights
from ..maps.record import Array, CompiledMap, Pool, Sample
from ..model import Model, Snapshot, locked
from ..progress import Progress, pieces

# Number of stored samples that a call replays for a new map. The bound limits the time of a call.
REPLAY = 32

# Number of rows that are mapped at once. The bound limits the memory for outputs.
MAPPED_ROWS = 4096
# Number of rows that are learned at once, if the map learns each block before the weights do.
GROWING_MAPPED_ROWS = 256


class Ahead(tuple[Any, Sample, float, float]):
    """Pending update of the weights with a sample that the map has learned."""

    __slots__ = ()

    def settle(self) -> None:
        """Update the weights with the sample, if only the map has learned the sample."""
        weights, sample, target, weight = self
        compiled = weights.compiled
        compiled.complete()
        if compiled.record.is_ahead:
            weights.learn(sample, target, weight, compiled.maps_learned)


class FeatureLearner(Model, base.Estimator):
    """Base class of learners on a feature map that may be rebuilt.

    While a map collects samples for its construction, the learner stores the samples' targets. The
    weights of a new map begin at zero and learn the collected samples again, one block per call.
    Until the new weights have learned these samples, predictions use the previous map.
    """

    _REHEARSED: ClassVar[Mapping[str, Any]] = {"features": IsolationFeatures(pool_size=512)}
    _IN_SNAPSHOT: ClassVar[tuple[str, ...]] = ("_current", "_next", "_position")

    features: FeatureMap | None
    seed: int | None
    # Whether predictions are a mixture over the lifetimes of a map, with weights that depend on
    # losses.
    _MIXES: ClassVar[bool] = False
    # Function that reads the labels or targets of a frame's rows.
    _READ_Y: ClassVar[Any] = staticmethod(read_targets)
    # Arguments of the default map.
    _DEFAULTS: ClassVar[Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        features = self.features
        if features is not None and not isinstance(features, FeatureMap):
            raise TypeError(f"features must be a feature map of this package, got {features!r}")
        if features is None:
            self._features: FeatureMap = IsolationFeatures(**self._DEFAULTS, seed=self.seed)
        else:
            self._features = features._own_copy(self._MIXES)
        self._current: Any = None
        self._next: Any = None
        # The map is built from the samples in its pool. The learner replays only samples from index
        # `_first` on, because the map learned the earlier samples before this learner copied the
        # map.
        self._pool = self._features._pool
        self._first = 0 if self._pool is None else len(self._pool)
        self._targets = array("d")
        self._weights = array("d")
        self._position = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        check_types(self, {"_features": FeatureMap, "_pool": (type(None), Pool)})
        weights = (type(None), Weights)
        check_types(self, {"_current": weights, "_next": weights})
        for stored in (self._current, self._next):
            if stored is not None:
                check_map(self, stored.compiled, self._features)
        n = len(self._targets)
        check_number(self, "the number of weights", len(self._weights), n, n)
        check_number(self, "_position", self._position, 0, n)
        check_number(self, "_first", self._first, 0, 1 << 62)
        if self._pool is not None:
            self._pool.check(len(self._features._reader.index))
            check_number(self, "the number of targets", n, 0, len(self._pool) - self._first)
        elif self._next is not None:
            refuse(self, "_pool", None, "but there are samples to learn again")

    @abc.abstractmethod
    def _make_weights(self, compiled: CompiledMap) -> Weights:
        """Return new weights for a map."""

    def _kernel_target(self, target: Any) -> Any:
        """Convert a target, or an array of targets, to the form that kernels read."""
        return target

    @property
    @locked
    def n_samples(self) -> int:
        """Number of samples learned."""
        if self._current is not None:
            return self._current.n_learned
        n_stored = len(self._targets)
        if self._next is None:
            return n_stored
        # The new weights have learned `_position` replayed samples, which are also stored samples
        # and must not be counted twice.
        return n_stored + self._next.n_learned - self._position

    # Learning.

    def _learn(self, x: Mapping[Any, Any], target: float, weight: float) -> None:
        """Learn a sample, after the caller has completed any interrupted call."""
        features, weights = self._features, self._current
        is_ready = weights is not None and weights.compiled is features._map
        if not is_ready or self._next is not None or not features._knows(x):
            self._learn_new(x, lambda: target, weight)
            return
        target = self._kernel_target(target)
        sample = self._locate(x, weights, True)
        if features._grows:
            status = self._learn_ahead(weights, sample, target, weight)
        else:
            status = weights.learn(sample, target, weight)
        if status != limits.DONE:
            raise features._bad_input(status, x)

    def _locate(self, x: Mapping[Any, Any], weights: Any, learns: bool) -> Sample:
        """Return a sample as a record for kernels, which learn the sample if `learns` is true."""
        return self._features._locate(x, weights.compiled)

    def _learn_ahead(self, weights: Any, sample: Sample, target: float, weight: float) -> int:
        """Update the map and the weights with a sample; return DONE or the index of a bad input."""
        compiled = weights.compiled
        self._pending = Ahead((weights, sample, target, weight))
        bad = compiled.learn(sample)
        if bad < 0:
            # If the map computes a sample's outputs when it learns the sample, the weights reuse
            # the outputs.
            weights.learn(sample, target, weight, compiled.maps_learned)
        self._pending = None
        return bad

    def _learn_new(
        self, x: Any, find_target: Callable[[], float], weight: float, is_new: bool = False
    ) -> None:
        """Learn a sample that has new features or a new label, or that triggers a rebuild.

        `find_target` returns the sample's target. If `is_new` is true, `find_target` may also
        change the learner, for example add a label.
        """
        features = self._features
        values = features._read_values(x)
        self._pending = Snapshot(self._changing(is_new))
        target, stored = find_target(), self._stores
        steps = features._observe(values)
        self._run_steps([*steps, *self._plan(values, target, weight, stored)])

    @property
    def _stores(self) -> bool:
        """Whether the next sample is stored, so that a new map's weights can learn it again."""
        return self._features._pool is not None

    def _store(self, n: int, values: Mapping[Any, float], target: float, weight: float) -> None:
        """Store a sample as number `n`, counted from 0, unless the sample is already stored."""
        for numbers, value in ((self._targets, target), (self._weights, weight)):
            if len(numbers) == n:
                numbers.append(value)
        # If the map shares the pool, it may already have stored the inputs. A repeated step may
        # find that the pool has been dropped.
        if self._pool is not None and len(self._pool) == self._first + n:
            self._pool.append(*self._features._reader.entries(values))

    def _changing(self, is_new: bool) -> list[Any]:
        """Return the objects that may change before a sample is learned."""
        learners = [w for w in (self._current, self._next) if is_new and w is not None]
        return [*self._features._changing(), *learners, self]

    def _plan(
        self, values: Mapping[Hashable, float], target: float, weight: float, stored: bool
    ) -> list[Callable[[], object]]:
        """Return the steps to learn a sample that the map has observed.

        Each step checks a count, so that repeating a completed step has no effect. The last steps
        set attributes of the learner.
        """
        steps: list[Callable[[], object]] = []
        n_stored = len(self._targets)
        if stored:
            steps.append(partial(self._store, n_stored, values, target, weight))
            n_stored += 1
        compiled = self._features._map
        latest = self._next or self._current
        if compiled is not None and (latest is None or latest.compiled is not compiled):
            # Weights belong to the outputs of one map, so a new map needs new weights, which begin
            # at zero.
            if self._pool is None:
                self._current = self._make_weights(compiled)
            else:
                self._next, self._position = self._make_weights(compiled), 0
        learning = [self._current]
        end: dict[str, Any] = {}
        if self._next is not None:
            stop = min(self._position + REPLAY, n_stored)
            # If the sample is stored, the new weights learn it in a replay, and must not learn it
            # twice. Otherwise, the weights of both maps learn the sample now.
            replay = partial(self._replay, self._next, self._position, stop)
            if stored:
                steps.append(partial(replay, self._next.n_learned))
                learning = [] if stop == n_stored else learning
            else:
                learning.append(self._next)
            end |= self._after_replay(self._next, stop, n_stored)
        for fit in learning:
            if fit is not None:
                steps.append(partial(self._learn_once, fit, fit.n_learned, values, target, weight))
        if self._next is not None and not stored:
            steps.append(partial(replay, self._next.n_learned + 1))
        return [*steps, *(partial(setattr, self, *item) for item in end.items())]

    def _learn_once(self, weights: Any, n: int, x: Any, target: float, weight: float) -> None:
        """Learn a checked sample, if the weights have learned exactly `n` samples."""
        if weights.n_learned == n:
            sample, target = self._locate(x, weights, True), self._kernel_target(target)
            # If the map computes a sample's outputs when it learns the sample, the weights reuse
            # the outputs.
            weights.learn(sample, target, weight, weights.compiled.maps_learned)

    def _replay(self, weights: Any, start: int, stop: int, n_before: int) -> None:
        """Learn stored samples from `start` to `stop` again, unless they have been replayed."""
        start += weights.n_learned - n_before
        if start < stop:
            targets = self._kernel_target(np.array(self._targets[start:stop]))
            by = np.array(self._weights[start:stop])
            weights.learn_stored(self._pool, self._first + start, targets, by)

    def _after_replay(self, weights: Any, stop: int, n_stored: int) -> dict[str, Any]:
        """Return attributes to set after a replay; the last replay makes new weights current."""
        if stop < n_stored:
            return {"_position": stop}
        used: dict[str, Any] = {"_current": weights, "_next": None, "_position": stop}
        if self._features._pool is None:
            used |= {"_pool": None, "_position": 0}
            used |= {"_targets": array("d"), "_weights": array("d")}
        return used

    @property
    def _steady(self) -> bool:
        """Whether a block of rows may be mapped first and learned afterwards."""
        is_ready = self._current is not None and self._current.compiled is self._features._map
        return is_ready and self._next is None and self._features._is_final

    def _learn_rows(self, rows: Block) -> None:
        """Learn rows with known labels and known or new features."""
        new, start = self._features._new_rows(rows.names, rows.columns), 0
        limit = GROWING_MAPPED_ROWS if self._features._grows else MAPPED_ROWS
        while start < len(rows):
            if start in new or not self._steady:
                self._learn(rows.mapping(start), float(rows.y[start]), float(rows.w[start]))
                start += 1
                continue
            stop = min(len(rows), start + limit, *(row for row in new if row > start))
            self._learn_block(rows.part(start, stop))
            start = stop

    def _learn_block(self, block: Block) -> None:
        """Learn rows without new features with the current map."""
        current = self._current
        samples = self._features._rows(block.names, block.columns)
        if samples is not None:
            numbers = self._kernel_target(block.y).tolist(), block.w.tolist()
            for sample, target, weight in zip(samples, *numbers, strict=True):
                self._learn_ahead(current, sample, target, weight)
            return
        learn = partial(self._learn_outputs, current.n_learned, block)
        if self._features._grows:
            # An interrupted call may leave a growing map with more learned rows than the weights,
            # so the call must be completed. If the map does not grow, a kernel learns each row
            # completely.
            self._run_steps([learn])
        else:
            learn()

    def _learn_outputs(self, n_before: int, block: Block) -> None:
        """Map all rows, and learn the rows that the weights have not learned."""
        done = self._current.n_learned - n_before
        if done < len(block):
            self._features._observe_rows(block.names, block.columns)
            out = self._features._outputs(block.names, block.columns, self._current.compiled)
            targets = self._kernel_target(block.y[done:])
            self._current.learn_rows(out[done:], targets, block.w[done:])

    @locked
    def learn_many(self, X: Any, y: Any, w: Any = 1.0, *, progress: bool = False) -> None:
        """Learn the rows of a frame, in order, with the same result as `learn_one` on each row.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...
            Values are numbers, or levels if the map accepts levels; nulls and NaN are missing
            values.
        y
            The labels or targets of the rows, by position.
        w
            Weight of all rows, or one weight per row, from 0 to 1e30.
        progress
            Whether to show the number of learned rows on stderr, with tqdm if it is installed, else
            as text. The result does not depend on `progress`. After Ctrl-C, each row has been
            learned completely or not at all.

        Raises
        ------
        TypeError
            If the map does not accept the type of a value, a target or weight is not a number, or a
            label is not hashable.
        ValueError
            If a value, label, target or weight is invalid, a column occurs twice, or lengths
            differ. The same error is raised if `X` and `y` have the same pandas index in different
            orders. In all these cases, nothing is learned.

        """
        rows = read_block(self._features._read_frame(X), y, w, self._READ_Y)
        for piece in pieces(len(rows), progress):
            self._learn_rows(rows.part(piece.start, piece.stop))

    # Predicting.

    def _blocks(
        self, names: Sequence[Hashable], columns: inputs.Floats, progress: bool
    ) -> Iterator[tuple[slice, Array]]:
        """Yield slices of a frame's rows, and the map's outputs for these rows."""
        with Progress(progress, len(columns)) as shown:
            for start in range(0, len(columns), MAPPED_ROWS):
                piece = slice(start, min(start + MAPPED_ROWS, len(columns)))
                yield piece, self._features._outputs(names, columns[piece], self._current.compiled)
                shown.reach(piece.stop)

    @property
    def _raw_memory_usage(self) -> int:
        size = super()._raw_memory_usage
        size += sys.getsizeof(self._targets) + sys.getsizeof(self._weights)
        if self._features._pool is not None:
            # The pool is subtracted, because the size of the map, added below, includes the pool.
            size -= self._features._pool.nbytes
        for features in (self.features, self._features):
            size += 0 if features is None else features._raw_memory_usage
        for weights in (self._current, self._next):
            if weights is not None and weights.compiled is not self._features._map:
                size += weights.compiled.nbytes
        return size


class TargetLearner(FeatureLearner, base.MiniBatchRegressor):
    """Base class of the regressors on a feature map."""

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn a sample.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level if the map accepts levels.
        y
            The target, a number from -1e120 to 1e120.
        w
            Weight of the sample's loss, from 0 to 1e30.

        Raises
        ------
        TypeError
            If the map does not accept the type of a value, or the target or the weight is not a
            number.
        ValueError
            If a value is infinite or too large for single precision, or the target or the weight
            is out of range.

        """
        with self._lock:
            self._settle()
            self._learn(x, inputs.check_target(y), inputs.check_weight(w))
