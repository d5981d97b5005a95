"""Linear models on the outputs of feature maps, learned by online gradient descent."""

from __future__ import annotations

import abc
import copy
import math
import sys
from array import array
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from river import base, optim
from river.utils.dataframe import to_native_frame, to_native_series
from scipy import special

from .arena import Arena, grown
from .arguments import is_real
from .features.base import Array, CompiledMap, FeatureMap
from .features.isolation import IsolationFeatures
from .inputs import (
    check_label,
    check_target,
    check_weight,
    read_frame,
    read_labels,
    read_targets,
    read_weights,
)
from .kernels import maps, ogd
from .learners.weights import Weights

# Stored samples that a call replays when the map is new.
REPLAY = 32

# Rows that are mapped at a time.
BLOCK = 4096

# Losses that the kernel knows, with the attributes that are their parameters.
NATIVE: dict[type[optim.losses.Loss], tuple[int, tuple[str, ...]]] = {
    optim.losses.Hinge: (ogd.HINGE, ("threshold",)),
    optim.losses.Log: (ogd.LOG, ("weight_pos", "weight_neg")),
    optim.losses.Squared: (ogd.SQUARED, ()),
    optim.losses.EpsilonInsensitiveHinge: (ogd.EPSILON_INSENSITIVE, ("eps",)),
    optim.losses.Huber: (ogd.HUBER, ("epsilon",)),
}


class _Rule:
    """A loss and a learning rate, as the kernel takes them.

    Parameters
    ----------
    loss
        A loss of River's.
    learning_rate
        A number, or a scheduler, SGD or AdaGrad of River's.
    softmax
        Whether several scores share one loss, the cross-entropy.

    """

    def __init__(self, loss: Any, learning_rate: Any, softmax: bool) -> None:
        self.loss = copy.deepcopy(loss)
        self.softmax = softmax
        self.native = type(loss) in NATIVE
        self.stride, self.eps, rate = 1, 0.0, learning_rate
        if isinstance(rate, optim.base.Optimizer):
            if type(rate) not in (optim.SGD, optim.AdaGrad):
                raise ValueError(
                    "of River's optimizers, learning_rate may be SGD or AdaGrad, "
                    f"got {type(rate).__name__}"
                )
            if isinstance(rate, optim.AdaGrad):
                self.stride, self.eps = 2, float(rate.eps)
            rate = rate.lr
        if isinstance(rate, optim.schedulers.Constant):
            rate = rate.learning_rate
        self.schedule: optim.base.Scheduler | None = None
        if isinstance(rate, optim.base.Scheduler):
            self.schedule, rate = copy.deepcopy(rate), 0.0
        elif not (is_real(rate) and 0.0 < rate < math.inf):
            raise ValueError(
                "learning_rate must be a finite number > 0, or a scheduler, SGD or AdaGrad of "
                f"River's, got {learning_rate!r}"
            )
        self.rate = float(rate)

    def code(self, n_scores: int) -> tuple[int, Sequence[float]]:
        """Return the number and the parameters of the kernel's loss, -1 if Python has it."""
        if n_scores > 1 and self.softmax:
            return ogd.SOFTMAX, ()
        if not self.native:
            return -1, ()
        number, names = NATIVE[type(self.loss)]
        return number, [float(getattr(self.loss, name)) for name in names]


W = TypeVar("W", bound=Weights)


class _Weights(Weights):
    """Weights for the columns of a compiled map.

    Parameters
    ----------
    rule
        How they are learned.
    compiled
        The map.
    n_scores
        Scores to begin with.

    """

    def __init__(self, rule: _Rule, compiled: CompiledMap, n_scores: int) -> None:
        self.rule = rule
        self.compiled = compiled
        self.arena = Arena(1, 2 * rule.stride * n_scores)
        self.arena.reserve(0, 1)
        self.scores = np.zeros(n_scores)
        self.slots = np.zeros(1, dtype=np.int32)
        self.record = np.zeros(ogd.N_WORDS, dtype=np.int64)
        self.record[ogd.N_SLOTS] = 1
        # The shares of lifetimes, the mean loss, and the number of samples it is over.
        self.shares = np.zeros(compiled.n_lifetimes + 2)
        self.shares[:-2] = 1.0 / compiled.n_lifetimes
        self._bind()

    def _bind(self) -> None:
        n_scores, n_lifetimes = len(self.scores), len(self.shares) - 2
        self.room = np.zeros(n_lifetimes + n_scores)
        self.record[ogd.N_LIFETIMES] = n_lifetimes
        self.record[ogd.SHARES] = self.shares.ctypes.data
        self.record[ogd.ROOM] = self.room.ctypes.data
        self.gradients = np.zeros(n_scores)
        loss, parameters = self.rule.code(n_scores)
        self._bind_slots()
        self.record[ogd.N_SCORES] = n_scores
        self.record[ogd.STRIDE] = self.rule.stride
        self.record[ogd.LOSS] = loss
        self.in_kernel = loss >= 0
        self.record[ogd.SCORES] = self.scores.ctypes.data
        self.record[ogd.GRADIENTS] = self.gradients.ctypes.data
        reals = self.record.view(np.float64)
        reals[ogd.RATE], reals[ogd.EPS] = self.rule.rate, self.rule.eps
        reals[ogd.FIRST : ogd.FIRST + len(parameters)] = parameters
        self.address = int(self.record.ctypes.data)

    def __getstate__(self) -> dict[str, Any]:
        steps = int(self.record[ogd.STEPS])
        return {
            "rule": self.rule,
            "compiled": self.compiled,
            "n_scores": len(self.scores),
            # Without the room for columns to come.
            "slots": self.slots[: self.compiled.n_columns].copy(),
            "weights": self.arena.pack([self.record.item(ogd.N_SLOTS)]),
            "shares": self.shares,
            "steps": steps,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.rule, self.compiled, self.slots, self.shares = (
            state[name] for name in ("rule", "compiled", "slots", "shares")
        )
        self.arena, self.scores = Arena.unpack(state["weights"]), np.zeros(state["n_scores"])
        self.record = np.zeros(ogd.N_WORDS, dtype=np.int64)
        self.record[ogd.STEPS] = state["steps"]
        self.record[ogd.N_SLOTS] = len(state["weights"]["rows"][0])
        self._bind()

    def separate(self, n_scores: int, positive: int) -> None:
        """Make a score per class of the single one of two classes, or add classes."""
        old, stride = len(self.scores), self.rule.stride
        # The single score has the place of the first and of the second class.
        starts = (0, 1) if old == 1 else (0,)
        moves = [
            (2 * old * part, 2 * (n_scores * part + start), 2 * old)
            for part in range(stride)
            for start in starts
        ]
        self.arena.relayout(2 * stride * n_scores, moves)
        if old == 1:
            # The difference of two softmax scores is the single score.
            for chunk in self.arena.chunks[0]:
                weights = chunk.view(np.float64)
                weights[:, :2] *= 0.5 if self.rule.softmax else 1.0
                weights[:, 1 - positive] *= -1.0
        self.scores = np.zeros(n_scores)
        self._bind()

    def _bind_slots(self) -> None:
        self.record[ogd.SLOTS] = self.slots.ctypes.data
        self.record[ogd.WEIGHTS] = self.arena.addresses[0]
        self.record[ogd.CAPACITY] = self.arena.capacities[0]

    def _make_room(self) -> None:
        """Know the map's new columns, and make room for those that a sample may move."""
        compiled = self.compiled
        n_columns, n_slots = compiled.n_columns, self.record.item(ogd.N_SLOTS) + compiled.n_out
        if n_columns > len(self.slots) or n_slots > self.arena.capacities[0]:
            self.slots = grown(self.slots, n_columns)
            self.arena.reserve(0, n_slots)
            self._bind_slots()

    def _set_rate(self) -> None:
        if self.rule.schedule is not None:
            rate = self.rule.schedule.get(int(self.record[ogd.STEPS]))
            self.record.view(np.float64)[ogd.RATE] = rate

    def _differentiate(self, target: float, weight: float) -> None:
        """Write the gradients of a loss that the kernel does not know."""
        derive = self.rule.loss.gradient
        if len(self.scores) == 1:
            y = bool(target) if isinstance(self.rule.loss, optim.losses.BinaryLoss) else target
            self.gradients[0] = weight * derive(y_true=y, y_pred=float(self.scores[0]))
        else:
            self.gradients[:] = [
                weight * derive(y_true=k == target, y_pred=s)
                for k, s in enumerate(self.scores.tolist())
            ]

    def learn(self, x: int, target: float, weight: float) -> int:
        """Learn the sample at an address; returns -1, or the place of a bad input."""
        compiled = self.compiled
        self._make_room()
        self._set_rate()
        if self.in_kernel and x == 0:
            ogd.learn_out(self.address, compiled.address, compiled.out_address, target, weight)
        elif self.in_kernel:
            bad: int = ogd.learn_one(
                self.address, compiled.address, x, compiled.out_address, target, weight
            )
            return bad
        else:
            bad = maps.map_one(compiled.address, x, compiled.out_address) if x else -1
            if bad >= 0:
                return bad
            ogd.score_out(self.address, compiled.address, compiled.out_address)
            self._differentiate(target, weight)
            ogd.update(self.address, compiled.address, compiled.out_address)
        return -1

    def learn_rows(
        self,
        out: Array,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64],
        before: Array | None = None,
    ) -> None:
        """Learn mapped rows; `before` is as for `FeatureMap._learn_outputs`."""
        compiled = self.compiled
        if self.in_kernel:
            rates = np.full(len(out), self.rule.rate)
            if self.rule.schedule is not None:
                done = int(self.record[ogd.STEPS])
                rates[:] = [self.rule.schedule.get(done + i) for i in range(len(out))]
            start = 0
            while start < len(out):
                self._make_room()
                start = ogd.learn_rows(
                    self.address,
                    compiled.address,
                    out.ctypes.data,
                    len(out),
                    targets.ctypes.data,
                    weights.ctypes.data,
                    rates.ctypes.data,
                    0 if before is None else before.ctypes.data,
                    start,
                )
            return
        for row, target, weight in zip(out, targets.tolist(), weights.tolist(), strict=True):
            self._set_rate()
            self._make_room()
            ogd.score_out(self.address, compiled.address, row.ctypes.data)
            self._differentiate(target, weight)
            ogd.update(self.address, compiled.address, row.ctypes.data)

    def score(self, x: int) -> int:
        """Write the sample's scores; returns the best class, or ~place of a bad input."""
        compiled = self.compiled
        self._make_room()
        best: int = ogd.score_one(self.address, compiled.address, x, compiled.out_address)
        return best

    def score_rows(self, out: Array) -> NDArray[np.float64]:
        """Return the scores of mapped rows."""
        self._make_room()
        scores = np.empty((len(out), len(self.scores)))
        ogd.score_rows(
            self.address, self.compiled.address, out.ctypes.data, len(out), scores.ctypes.data
        )
        return scores

    @property
    def nbytes(self) -> int:
        """Bytes held, without the map."""
        arrays = (self.record, self.scores, self.gradients, self.shares, self.room, self.slots)
        return sys.getsizeof(self) + self.arena.nbytes + sum(part.nbytes for part in arrays)


class Learner(base.Estimator, Generic[W]):
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
            # A final map has not looked at the sample: one that is refused must begin nothing.
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
        address = 0 if compiled.maps_learned else self._features._locate(x, compiled)
        bad = weights.learn(address, target, weight)
        if bad >= 0:
            raise self._features._bad_input(bad, x, compiled)

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
            self._features._settled
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


class TargetLearner(Learner[W], base.MiniBatchRegressor):
    """A learner of targets that are numbers."""

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn a sample.

        Parameters
        ----------
        x
            A mapping from feature to number.
        y
            A finite number.
        w
            Weight of the sample's loss, from 0 to 1e30.

        Raises
        ------
        TypeError
            If a value or the target is no number.
        ValueError
            If a value is infinite or too large for single precision, the target is not finite, or
            the weight is out of range.

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
            If a value is infinite, a target not finite, a weight out of range, a column doubled or
            a length wrong; nothing has been learned then.

        """
        _, names, columns = read_frame(X)
        targets = read_targets(y, len(columns))
        self._learn_rows(names, columns, targets, read_weights(w, len(columns)))


class _OGD(Learner[_Weights]):
    """Online gradient descent on a feature map."""

    # Losses by name.
    _LOSSES: ClassVar[dict[str, type[optim.losses.Loss]]]
    # Rate of AdaGrad by default, measured on a9a, covertype and letter, and on california, kin8nm
    # and cpu.
    _RATE: ClassVar[float]
    # What the losses of River's that fit are.
    _KIND: ClassVar[type[optim.losses.Loss]]

    def __init__(
        self,
        features: FeatureMap | None,
        loss: Any,
        learning_rate: Any,
        softmax: bool,
        seed: int | None,
    ) -> None:
        if not isinstance(loss, self._KIND) and not (
            isinstance(loss, str) and loss in self._LOSSES
        ):
            raise ValueError(
                f"loss must be one of {', '.join(map(repr, self._LOSSES))} or a "
                f"{self._KIND.__name__} of River's, got {loss!r}"
            )
        super().__init__(features, lambda: IsolationFeatures(seed=seed), mixes=True)
        self.loss = loss
        self.learning_rate = learning_rate
        self.seed = seed
        self._rule = _Rule(
            self._LOSSES[loss]() if isinstance(loss, str) else loss,
            optim.AdaGrad(self._RATE) if learning_rate is None else learning_rate,
            softmax,
        )
        if self._features._auto and not self._rule.native:
            raise ValueError(
                f'lifetime="auto" takes a loss by its name, or one of that kind, got {loss!r}'
            )

    @property
    @abc.abstractmethod
    def _n_scores(self) -> int:
        """Scores that the targets known so far take."""

    def _make_weights(self, compiled: CompiledMap) -> _Weights:
        return _Weights(self._rule, compiled, self._n_scores)

    def _learn_mapped(
        self,
        out: Array,
        before: Array | None,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64],
    ) -> None:
        assert self._current is not None
        self._current.learn_rows(out, targets, weights, before)

    @property
    def lifetimes(self) -> dict[float, float]:
        """Each lifetime with its share of the predictions, where the lifetime is "auto"."""
        if self._current is None:
            return {}
        shares = self._current.shares[:-2].tolist()
        return dict(zip(self._current.compiled.lifetimes, shares, strict=False))

    def _score(self, x: Mapping[Any, Any]) -> int:
        """Write the scores of a sample to those of the current weights; returns the best class."""
        weights = self._current
        assert weights is not None
        best = weights.score(self._features._locate(x, weights.compiled))
        if best < 0:
            raise self._features._bad_input(~best, x, weights.compiled)
        return best

    def _scores(self, X: Any) -> tuple[Any, NDArray[np.float64]]:
        """Read a frame; returns it as a narwhals one with the scores of its rows."""
        frame, names, columns = read_frame(X)
        weights = self._current
        if weights is None:
            return frame, np.zeros((len(columns), self._n_scores))
        scores = np.empty((len(columns), len(weights.scores)))
        for part, out in self._blocks(names, columns, weights.compiled):
            scores[part] = weights.score_rows(out)
        return frame, scores


class OGDClassifier(_OGD, base.MiniBatchClassifier):
    """Online gradient descent classifier on a feature map.

    A linear model on the outputs of `features`, learned one sample at a time. On the isolation
    kernel, the default, this is IK-OGD[^1]: predicting and learning take time proportional to the
    number of partitions, whatever the number of cells and however much has been learned, while
    kernel machines with support vectors become slower with each mistake.

    Two classes have one score, and the sign of it decides. Where a third class appears, each class
    gets a score of its own, the two first ones such that they predict as before.

    A map that is built anew while samples come (see `IsolationFeatures`) gets weights that learn
    the stored samples once more, 32 of them in each call, so that the model is useful from the
    first samples on.

    Parameters
    ----------
    features
        A feature map of this package. It is copied, and the copy learns along. None stands for
        `IsolationFeatures()`.
    loss
        Loss of the score of two classes: "hinge", "log", or a `BinaryLoss` of River's
        `optim.losses`. The positive class is True, or the one of the two that was seen second.
    learning_rate
        A number for constant steps (0.5 in the paper), or a scheduler, `optim.SGD` or
        `optim.AdaGrad` of River's. None stands for `optim.AdaGrad(0.5)`.
    multiclass
        How more than two classes are learned: "softmax" by the cross-entropy of all scores,
        whatever `loss` is, or "ovr", each class against the rest by `loss`, which is faster.
    seed
        Random seed of the default features. Features that are given have their own.

    Notes
    -----
    The outputs of a map of cells are 1 / sqrt(n_partitions) in the sample's cells, so that the
    kernel of a sample with itself is 1. There is no intercept: the cells of each partition add up
    to a constant.

    Columns that only one sample has moved share its weights, so that cells with one sample take
    next to no memory. The others take 8 bytes per class (or one score), 16 with AdaGrad.

    Probabilities are there with `loss="log"` or another loss of River's that is made for them, and
    with none of the hinge type.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from river_mondrian import IsolationFeatures, OGDClassifier

    >>> model = preprocessing.StandardScaler() | OGDClassifier(
    ...     IsolationFeatures(n_cells=16, pool_size=256, seed=42)
    ... )
    >>> dataset = datasets.Bananas().take(2000)
    >>> metric = evaluate.progressive_val_score(dataset, model, metrics.Accuracy())
    >>> metric.get() > 0.8
    True

    References
    ----------
    [^1]: Ting, K. M., Wells, J. R. and Washio, T. (2021). Isolation Kernel: The X Factor in
    Efficient and Effective Large Scale Online Kernel Learning. Data Mining and Knowledge
    Discovery 35. Algorithm 2.

    """

    _LOSSES: ClassVar[dict[str, type[optim.losses.Loss]]] = {
        "hinge": optim.losses.Hinge,
        "log": optim.losses.Log,
    }
    _KIND = optim.losses.BinaryLoss
    _RATE = 0.5

    def __init__(
        self,
        features: FeatureMap | None = None,
        loss: Any = "hinge",
        learning_rate: Any = None,
        multiclass: str = "softmax",
        seed: int | None = None,
    ) -> None:
        if multiclass not in ("softmax", "ovr"):
            raise ValueError(f'multiclass must be "softmax" or "ovr", got {multiclass!r}')
        super().__init__(features, loss, learning_rate, multiclass == "softmax", seed)
        self.multiclass = multiclass
        self._labels: dict[Hashable, int] = {}
        self._positive = 1

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def classes(self) -> list[Any]:
        """The labels seen so far, in order of appearance."""
        return list(self._labels)

    @property
    def _n_scores(self) -> int:
        return 1 if len(self._labels) < 3 else len(self._labels)

    def _add_label(self, y: Hashable) -> int:
        number = self._labels[y] = len(self._labels)
        if number == 0:
            self._positive = 0 if isinstance(y, (bool, np.bool_)) and y else 1
        if number > 1:
            for weights in (self._current, self._next):
                if weights is not None:
                    weights.separate(number + 1, self._positive)
        return number

    def _kernel_target(self, target: float, weights: _Weights) -> float:
        return target if len(weights.scores) > 1 else float(target == self._positive)

    def _kernel_targets(self, targets: NDArray[np.float64]) -> NDArray[np.float64]:
        return targets if self._n_scores > 1 else (targets == self._positive).astype(np.float64)

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn a sample.

        Parameters
        ----------
        x
            A mapping from feature to number.
        y
            A label: anything hashable but None and NaN.
        w
            Weight of the sample, from 0 to 1e30: what its gradient is multiplied by.

        Raises
        ------
        TypeError
            If a value is no number or the label is not hashable.
        ValueError
            If a value is infinite or too large for single precision, the label is missing, or the
            weight is out of range.

        """
        weight = check_weight(w)
        try:
            number = self._labels.get(y)
        except TypeError:
            number = None
        if number is None:
            check_label(y)
            self._features._check(x)
            number = self._add_label(y)
        self._learn(x, float(number), weight)

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Learn the rows of a frame, in order.

        The result is that of `learn_one` on each row.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of numbers; nulls and NaN are missing.
        y
            The labels of its rows.
        w
            Weight of all rows, or their weights, from 0 to 1e30.

        Raises
        ------
        TypeError
            If a column holds something that is no number or a label is not hashable.
        ValueError
            If a value is infinite, a label missing, a weight out of range, a column doubled or a
            length wrong; nothing has been learned then.

        """
        _, names, columns = read_frame(X)
        labels = read_labels(y, len(columns))
        weights = read_weights(w, len(columns))
        start = 0
        while start < len(labels):
            if labels[start] not in self._labels:
                self._add_label(labels[start])
            stop = start + 1
            while stop < len(labels) and labels[stop] in self._labels:
                stop += 1
            numbers = np.array([self._labels[k] for k in labels[start:stop]], dtype=np.float64)
            self._learn_rows(names, columns[start:stop], numbers, weights[start:stop])
            start = stop

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> Any:
        """Predict the label with the largest score; None before any learning."""
        if not self._labels:
            return None
        if self._current is None:
            return next(iter(self._labels))
        best = self._score(x)
        if self._n_scores == 1:
            best = min(best if self._positive == 1 else 1 - best, len(self._labels) - 1)
        for label, number in self._labels.items():
            if number == best:
                return label
        raise AssertionError("a class without a label")

    def _check_probabilities(self) -> None:
        # River's contract for a classifier without probabilities.
        if isinstance(self._rule.loss, optim.losses.Hinge):
            raise NotImplementedError(
                'the hinge loss gives no probabilities: use loss="log" for them'
            )

    def _probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn rows of scores into probabilities by class."""
        n_classes = len(self._labels)
        if n_classes < 2:
            return np.ones((len(scores), n_classes))
        if n_classes > 2 and self._rule.softmax:
            softmax: NDArray[np.float64] = special.softmax(scores, axis=1)
            return softmax
        with np.errstate(over="ignore"):
            mean = self._rule.loss.mean_func(scores)
        if n_classes == 2:
            mean = np.hstack([1.0 - mean, mean] if self._positive == 1 else [mean, 1.0 - mean])
        total = mean.sum(axis=1, keepdims=True)
        even = np.full_like(mean, 1.0 / n_classes)
        divided: NDArray[np.float64] = np.divide(mean, total, out=even, where=total > 0.0)
        return divided

    def predict_proba_one(self, x: Mapping[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Predict the probability of each label seen so far.

        Parameters
        ----------
        x
            A mapping from feature to number; unknown features are ignored.

        Returns
        -------
        A mapping from label to probability; empty before any learning.

        Raises
        ------
        NotImplementedError
            If the loss is the hinge loss.

        """
        self._check_probabilities()
        scores = np.zeros((1, self._n_scores))
        if self._current is not None:
            self._score(x)
            scores[0] = self._current.scores
        return dict(zip(self._labels, self._probabilities(scores)[0].tolist(), strict=True))

    def predict_proba_many(self, X: Any) -> Any:
        """Predict the probability of each label for the rows of a frame.

        Returns
        -------
        A frame of the same kind (and pandas index) with a column per label; no column before any
        learning.

        Raises
        ------
        NotImplementedError
            If the loss is the hinge loss.

        """
        self._check_probabilities()
        frame, scores = self._scores(X)
        columns = dict(zip(self._labels, self._probabilities(scores).T, strict=True))
        return to_native_frame(columns, like=frame)

    def predict_many(self, X: Any) -> Any:
        """Predict the label with the largest score for the rows of a frame.

        Returns
        -------
        A series of the same kind (and pandas index); None per row before any learning.

        """
        frame, scores = self._scores(X)
        classes = self.classes
        if not classes:
            return to_native_series([None] * len(scores), name=None, like=frame)
        if self._current is None:
            best = np.zeros(len(scores), dtype=np.int64)
        elif self._n_scores > 1:
            best = scores.argmax(axis=1)
        else:
            best = (scores[:, 0] > 0.0).astype(np.int64)
            best = np.minimum(best if self._positive == 1 else 1 - best, len(classes) - 1)
        return to_native_series([classes[k] for k in best.tolist()], name=None, like=frame)

    @property
    def _raw_memory_usage(self) -> int:
        size = super()._raw_memory_usage + sys.getsizeof(self._labels)
        return size + sum(sys.getsizeof(label) for label in self._labels)


class OGDRegressor(_OGD, TargetLearner[_Weights]):
    """Online gradient descent regressor on a feature map.

    `OGDClassifier` says how the map and the weights are learned; this predicts the score itself.

    Parameters
    ----------
    features
        A feature map of this package. It is copied, and the copy learns along. None stands for
        `IsolationFeatures()`.
    loss
        "squared" (whose derivative is twice the error), "epsilon_insensitive" and "huber" (with
        0.1 for epsilon), or a `RegressionLoss` of River's `optim.losses`. Of River's
        `EpsilonInsensitiveHinge` only its epsilon is used: in itself, it is for targets 0 and 1.
    learning_rate
        A number for constant steps, or a scheduler, `optim.SGD` or `optim.AdaGrad` of River's.
        None stands for `optim.AdaGrad(0.1)`.
    seed
        Random seed of the default features. Features that are given have their own.

    Notes
    -----
    Steps are in units of the target, which should vary by about 1 (see
    `preprocessing.TargetStandardScaler`). With the squared loss, a constant learning rate of 0.5
    moves the prediction of the sample that is learned onto its target.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from river_mondrian import IsolationFeatures, OGDRegressor

    >>> model = preprocessing.StandardScaler() | preprocessing.TargetStandardScaler(
    ...     OGDRegressor(IsolationFeatures(n_cells=16, pool_size=256, seed=42))
    ... )
    >>> metric = evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    >>> metric.get() < 1.0
    True

    References
    ----------
    [^1]: Ting, K. M., Wells, J. R. and Washio, T. (2021). Isolation Kernel: The X Factor in
    Efficient and Effective Large Scale Online Kernel Learning. Data Mining and Knowledge
    Discovery 35. Algorithm 2.

    """

    _LOSSES: ClassVar[dict[str, type[optim.losses.Loss]]] = {
        "squared": optim.losses.Squared,
        "epsilon_insensitive": optim.losses.EpsilonInsensitiveHinge,
        "huber": optim.losses.Huber,
    }
    _KIND = optim.losses.RegressionLoss
    _RATE = 0.1

    def __init__(
        self,
        features: FeatureMap | None = None,
        loss: Any = "squared",
        learning_rate: Any = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(features, loss, learning_rate, False, seed)

    @property
    def _n_scores(self) -> int:
        return 1

    def predict_one(self, x: Mapping[Any, Any], **kwargs: Any) -> float:
        """Predict the target; what a score of 0 stands for before any learning."""
        score = 0.0
        if self._current is not None:
            self._score(x)
            score = float(self._current.scores[0])
        return float(self._rule.loss.mean_func(score))

    def predict_many(self, X: Any) -> Any:
        """Predict the targets of the rows of a frame.

        Returns
        -------
        A series of the same kind (and pandas index).

        """
        frame, scores = self._scores(X)
        return to_native_series(self._rule.loss.mean_func(scores[:, 0]), name=None, like=frame)
