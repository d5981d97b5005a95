"""Linear classification and regression on a feature map by online gradient descent."""

from __future__ import annotations

import abc
import itertools
import sys
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray
from river import base, optim

from .. import limits, model
from ..checks import check_number, check_numbering, check_types, refuse
from ..features.base import FeatureMap
from ..frames import Block, mapping_of, native_series, read_labels
from ..inputs import Floats, check_label, check_weight, warn_of_numbers
from ..learners.gradient_descent.weights import DescentWeights, Rule
from ..maps.record import CompiledMap, Sample
from ..progress import Progress
from .feature_learner import FeatureLearner, TargetLearner
from .labels import ClassifiesRows


class OnlineGradientDescent(FeatureLearner):
    """Base class of `OGDClassifier` and `OGDRegressor`, linear models on a feature map."""

    # Losses by name.
    _LOSSES: ClassVar[dict[str, type[optim.losses.Loss]]]
    # Default learning rate of AdaGrad, chosen on the data sets a9a, covertype and letter for
    # classification, and california, kin8nm and cpu for regression.
    _RATE: ClassVar[float]
    # Whether words of texts have their own weights, in addition to the weights of columns.
    linear = False
    # Base class of the River losses that the model accepts.
    _KIND: ClassVar[type[optim.losses.Loss]]

    _MIXES = True
    loss: Any
    learning_rate: Any
    multiclass: str = "ovr"

    def __post_init__(self) -> None:
        loss, names = self.loss, ", ".join(map(repr, self._LOSSES))
        is_named = isinstance(loss, str) and loss in self._LOSSES
        if not is_named and not isinstance(loss, self._KIND):
            kind = self._KIND.__name__
            raise ValueError(f"loss must be one of {names} or a {kind} of River, got {loss!r}")
        super().__post_init__()
        # Numbers of the words that have their own weights: first the map's features, then later
        # words. The attribute is None until the map is final. Words are never removed, because zero
        # weights do not change a score.
        self._words: dict[Hashable, int] | None = None
        of_river = self._LOSSES[loss]() if is_named else loss
        rate = optim.AdaGrad(self._RATE) if self.learning_rate is None else self.learning_rate
        self._rule = Rule(of_river, rate, self.multiclass == "softmax")
        if self._features._auto and not self._rule.native:
            raise ValueError(f'lifetime="auto" takes a loss by its name or kind, got {loss!r}')

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        check_types(self, {"_rule": Rule})
        if self._words is not None:
            check_numbering(self, "_words", self._words)
            names = self._features._reader.index.names
            if list(self._words)[: len(names)] != names:
                refuse(self, "_words", names, "but they should begin with the map's features")
        for weights in (self._current, self._next):
            if weights is not None:
                n = self._n_scores
                check_number(self, "n_scores", len(weights.scores), n, n)

    @property
    @abc.abstractmethod
    def _n_scores(self) -> int:
        """Number of scores of a sample."""

    def _make_weights(self, compiled: CompiledMap) -> DescentWeights:
        has_words = self.linear and compiled.reads_text
        return DescentWeights(self._rule, compiled, self._n_scores, has_words)

    def _locate(self, x: Mapping[Any, Any], weights: DescentWeights, learns: bool) -> Sample:
        if not weights.has_words:
            return super()._locate(x, weights, learns)
        reader, words = self._features._reader, self._words
        if words is not None:
            return reader.read_text(x, words, learns)
        # Until the map has collected the samples for its construction, words are the map's
        # features, because later features could still join the map.
        if learns and self._features._pool is None:
            words = self._words = reader.index.index_of.copy()
            return reader.read_text(x, words, True)
        return reader.read_text(x, reader.index.index_of, False)

    @property
    def _steady(self) -> bool:
        # Each row may have new words, which change the weights' size, so rows are learned one by
        # one.
        return super()._steady and self._current is not None and not self._current.has_words

    @property
    @model.locked
    def lifetimes(self) -> dict[float, float]:
        """The share of each lifetime in predictions; empty unless the map's lifetime is "auto"."""
        if self._current is None:
            return {}
        shares = self._current.shares.tolist()
        return dict(zip(self._current.compiled.lifetimes, shares, strict=False))

    def _score(self, x: Mapping[Any, Any]) -> int:
        """Write a sample's scores to `self._current.scores`; return the best class's number."""
        weights = self._current
        status, best = weights.score(self._locate(x, weights, False))
        if status != limits.DONE:
            raise self._features._bad_input(status, x)
        return best

    def _scores(self, X: Any, progress: bool) -> tuple[Any, Floats]:
        """Return `X` as a narwhals frame or an array, and the scores of the rows."""
        frame, names, columns = self._features._read_frame(X)
        weights = self._current
        if weights is None:
            return frame, np.zeros((len(columns), self._n_scores))
        scores = np.empty((len(columns), len(weights.scores)))
        if weights.has_words:
            with Progress(progress, len(columns)) as shown:
                for i, row in enumerate(columns):
                    self._score(mapping_of(names, row))
                    scores[i] = weights.scores
                    shown.reach(i + 1)
            return frame, scores
        for piece, out in self._blocks(names, columns, progress):
            scores[piece] = weights.score_rows(out)
        return frame, scores

    @property
    def _raw_memory_usage(self) -> int:
        size = super()._raw_memory_usage
        if self._words is not None:
            # The size of the map includes the map's features, so only later words are added.
            later = itertools.islice(self._words, len(self._features._reader.index), None)
            size += sys.getsizeof(self._words) + sum(map(sys.getsizeof, later))
        return size


@dataclass(eq=False, repr=False)
class OGDRegressor(OnlineGradientDescent, TargetLearner):
    """Online gradient descent regressor on a feature map.

    The map and the weights are learned as in `OGDClassifier`[^1]. The score is the prediction, or
    its logarithm with River's `Poisson` loss.

    Parameters
    ----------
    features
        A feature map of this package. A copy of the map learns with the model. None means
        `IsolationFeatures()`.
    loss
        "squared", whose derivative is twice the error; "epsilon_insensitive" or "huber", both with
        epsilon = 0.1; or a `RegressionLoss` of River's `optim.losses`. Only epsilon is taken from
        River's `EpsilonInsensitiveHinge`, because River's formula is for targets 0 and 1.
    learning_rate
        A number for constant steps, or a scheduler, `optim.SGD` or `optim.AdaGrad` of River. None
        means `optim.AdaGrad(0.1)`.
    seed
        Random seed of the default features. Other feature maps have their own seed.

    Notes
    -----
    Steps are in units of the target, which should have a standard deviation of about 1 (see
    `preprocessing.TargetStandardScaler`). With the squared loss, a constant learning rate of 0.5
    moves the prediction of a learned sample of weight 1 onto its target, if the map's kernel k(x,
    x) is 1.

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

    features: FeatureMap | None = None
    loss: Any = "squared"
    learning_rate: Any = None
    seed: int | None = None

    _LOSSES: ClassVar[dict[str, type[optim.losses.Loss]]] = {
        "squared": optim.losses.Squared,
        "epsilon_insensitive": optim.losses.EpsilonInsensitiveHinge,
        "huber": optim.losses.Huber,
    }
    _KIND = optim.losses.RegressionLoss
    _RATE = 0.1

    @property
    def _n_scores(self) -> int:
        return 1

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Predict the target of a sample.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level if the map accepts levels; unknown
            features are ignored.

        Returns
        -------
        The prediction; before the first sample, the prediction for the score 0.

        """
        with self._lock:
            self._settle()
            score = 0.0
            if self._current is not None:
                self._score(x)
                score = float(self._current.scores[0])
            return float(self._rule.loss.mean_func(score))

    @model.locked
    def predict_many(self, X: Any, *, progress: bool = False) -> Any:
        """Predict the targets of the rows of a frame.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...;
            nulls and NaN are missing values.
        progress
            Whether to show the number of predicted rows on stderr, with tqdm if it is installed,
            else as text. The result does not depend on `progress`.

        Returns
        -------
        The predictions: a series of the same library as `X`, or an array if `X` is an array. A
        pandas series has the index of `X`.

        """
        frame, scores = self._scores(X, progress)
        return native_series(self._rule.loss.mean_func(scores[:, 0]), name=None, like=frame)


@dataclass(eq=False, repr=False)
class OGDClassifier(ClassifiesRows, OnlineGradientDescent, base.MiniBatchClassifier):
    """Online gradient descent classifier on a feature map.

    The classifier is a linear model on the outputs of `features`, learned one sample at a time.
    With the isolation kernel (the default), the hinge loss and a constant learning rate, the
    algorithm for two classes is IK-OGD[^1]. Once the cells of a sample are found, predicting and
    learning take time proportional to the numbers of partitions and scores, but independent of the
    numbers of cells and learned samples. In contrast, kernel machines with support vectors become
    slower with each support vector.

    For two classes, there is one score, and its sign determines the prediction. When a third class
    appears, each class gets its own score, and the choice between the first two classes does not
    change.

    A map that depends on samples, such as `IsolationFeatures`, is first built from few samples and
    rebuilt later, so the model is useful from the first samples on. After each rebuild, new weights
    learn the stored samples again, 32 in each call.

    Parameters
    ----------
    features
        A feature map of this package. A copy of the map learns with the model. None means
        `IsolationFeatures()`.
    loss
        Loss of a score, with two classes or with `multiclass="ovr"`: "log", "hinge" as in [^1], or
        a `BinaryLoss` of River's `optim.losses`. With two classes, the positive class is True if
        the classes include True, and otherwise the class that was seen second.
    learning_rate
        A number for constant steps (0.5 in [^1]), or a scheduler, `optim.SGD` or `optim.AdaGrad` of
        River. None means `optim.AdaGrad(0.5)`.
    multiclass
        Method for more than two classes. "softmax" minimizes the cross-entropy of all scores, and
        ignores `loss`. "ovr" (one versus rest) learns each class against all others by `loss`,
        which is faster.
    linear
        Whether words of texts have their own weights, in addition to the weights of cells. The
        score is then the sum of a linear model on words and a kernel machine on the map, which
        learns the remaining error. The option applies only to `IsolationFeatures` on sparse
        samples. Samples are sparse if there are 256 or more features, and a sample has fewer than a
        tenth of these features on average.
    seed
        Random seed of the default features. Other feature maps have their own seed.

    Notes
    -----
    A map with cells, such as `IsolationFeatures`, outputs 1 / sqrt(n_partitions) for each cell of
    the sample, so the kernel k(x, x) is 1. There is no intercept. On a map with cells, weights of
    cells replace the intercept, because the outputs of each partition add up to a constant.

    All columns that have been updated only by the same one sample share a row of weights. Cells
    with one sample thus take almost no memory. Other columns take 8 bytes per score, or 16 with
    AdaGrad if words have no weights.

    If m of n learned texts contain a word, the word's input is sqrt(value) (log((1 + n) / (1 + m))
    + 1). The inputs of a text are divided by their norm. Values may be counts or tf-idf.

    With words, AdaGrad has one rate for each column and each word, instead of one rate for each
    weight. The rate depends on the norm of the derivatives for all classes. Rates of words are
    multiplied by log2(number of classes). A word takes 8 bytes per score if at least two samples
    contain the word, and otherwise almost no memory. New words are learned at any time, so memory
    grows with the vocabulary.

    Probabilities need the log loss, or another loss of River that defines probabilities. A hinge
    loss defines no probabilities.

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

    features: FeatureMap | None = None
    loss: Any = "log"
    learning_rate: Any = None
    multiclass: str = "softmax"
    linear: bool = True
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.multiclass not in ("softmax", "ovr"):
            raise ValueError(f'multiclass must be "softmax" or "ovr", got {self.multiclass!r}')
        super().__post_init__()
        self._positive = 1

    _LOSSES: ClassVar[Any] = {"hinge": optim.losses.Hinge, "log": optim.losses.Log}
    _KIND = optim.losses.BinaryLoss
    _READ_Y = staticmethod(read_labels)
    _IN_SNAPSHOT = (*OnlineGradientDescent._IN_SNAPSHOT, "_labels", "_positive")
    _RATE = 0.5

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        check_number(self, "_positive", self._positive, 0, 1)

    @property
    def _n_scores(self) -> int:
        return 1 if len(self._labels) < 3 else len(self._labels)

    def _add_label(self, y: Hashable) -> float:
        """Add a label; return its number as a target."""
        warn_of_numbers(self._labels)
        number = len(self._labels)
        self._labels = self._labels | {y: number}
        if number == 0:
            self._positive = 0 if isinstance(y, (bool, np.bool_)) and y else 1
        if number > 1:
            for weights in (self._current, self._next):
                if weights is not None:
                    weights.add_classes(number + 1, self._positive)
        return float(number)

    def _kernel_target(self, target: Any) -> Any:
        return target if self._n_scores > 1 else 1.0 * (target == self._positive)

    def learn_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn a sample.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level if the map accepts levels.
        y
            A label: any hashable object except None and NaN.
        w
            Weight of the sample, from 0 to 1e30. The sample's gradient is multiplied by the weight.

        Raises
        ------
        TypeError
            If the map does not accept the type of a value, the weight is not a number, or the label
            is not hashable.
        ValueError
            If a value is infinite or too large for single precision, the label is missing, or the
            weight is out of range.

        """
        with self._lock:
            self._settle()
            weight = check_weight(w)
            try:
                number = self._labels.get(y)
            except TypeError:
                number = None
            if number is None:
                check_label(y)
                self._learn_new(x, partial(self._add_label, y), weight, True)
            else:
                self._learn(x, float(number), weight)

    def _learn_rows(self, rows: Block) -> None:
        # A new label adds a class to the weights, so its row is learned alone.
        labels, start = rows.y, 0
        while start < len(rows):
            label = labels[start]
            if label not in self._labels:
                add = partial(self._add_label, label)
                self._learn_new(rows.mapping(start), add, float(rows.w[start]), True)
                start += 1
                continue
            known = itertools.takewhile(self._labels.__contains__, labels[start:])
            numbers = np.array([self._labels[label] for label in known], dtype=np.float64)
            stop = start + len(numbers)
            super()._learn_rows(replace(rows.part(start, stop), y=numbers))
            start = stop

    def predict_one(self, x: Mapping[Any, Any]) -> Any:  # type: ignore[override]
        """Predict the label with the largest score.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level if the map accepts levels; unknown
            features are ignored.

        Returns
        -------
        A label; None before the first sample.

        """
        with self._lock:
            self._settle()
            if not self._labels:
                return None
            if self._current is None:
                return next(iter(self._labels))
            best = self._score(x)
            if self._n_scores == 1:
                best = min(best if self._positive == 1 else 1 - best, len(self._labels) - 1)
            return next(itertools.islice(self._labels, best, None))

    def _check_probabilities(self) -> None:
        # River expects this error from a classifier without probabilities.
        if isinstance(self._rule.loss, optim.losses.Hinge):
            raise NotImplementedError('the hinge loss gives no probabilities: use loss="log"')

    def _probabilities(self, scores: Floats) -> Floats:
        """Convert rows of scores to probabilities by class."""
        n_classes = len(self._labels)
        if n_classes < 2:
            return np.ones((len(scores), n_classes))
        if n_classes > 2 and self._rule.softmax:
            return scipy.special.softmax(scores, axis=1)
        with np.errstate(over="ignore"):
            mean = self._rule.loss.mean_func(scores)
        if n_classes == 2:
            mean = np.hstack([1.0 - mean, mean] if self._positive == 1 else [mean, 1.0 - mean])
        total = mean.sum(axis=1, keepdims=True)
        even = np.full_like(mean, 1.0 / n_classes)
        return np.divide(mean, total, out=even, where=total > 0.0)

    def predict_proba_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:  # type: ignore[override]
        """Predict the probability of each label that has been seen.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level if the map accepts levels; unknown
            features are ignored.

        Returns
        -------
        A mapping from label to probability; empty before the first sample.

        Raises
        ------
        NotImplementedError
            If the loss is the hinge loss.

        """
        with self._lock:
            self._settle()
            self._check_probabilities()
            scores = np.zeros((1, self._n_scores))
            if self._current is not None:
                self._score(x)
                scores[0] = self._current.scores
            return dict(zip(self._labels, self._probabilities(scores)[0].tolist(), strict=True))

    def _predict_rows(self, X: Any, progress: bool) -> tuple[Any, Floats]:
        self._check_probabilities()
        frame, scores = self._scores(X, progress)
        return frame, self._probabilities(scores)

    def _best(self, X: Any, progress: bool) -> tuple[Any, NDArray[np.int64]]:
        frame, scores = self._scores(X, progress)
        best = scores.argmax(axis=1)
        if self._n_scores == 1 and self._current is not None:
            best = (scores[:, 0] > 0.0).astype(np.int64)
            best = np.minimum(best if self._positive == 1 else 1 - best, len(self._labels) - 1)
        return frame, best
