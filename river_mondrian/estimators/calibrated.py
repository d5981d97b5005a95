"""Calibrated intervals and sets of classes, for any regressor or classifier of River."""

from __future__ import annotations

import inspect
import math
import pickle
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np
from river import base, compose

from ..arguments import check_flag, check_integer, is_real, plain_key
from ..frames import list_values, native_frame, native_series, read_labels, read_targets, rows_of
from ..inputs import warn_user
from ..learners.late_labels import MANY_UNCLAIMED, Change, WaitingPredictions, key_of
from ..learners.quantile_tracking import (
    NO_ERRORS,
    Classes,
    Errors,
    Interval,
    Odds,
    ends_of,
    judge,
    judge_label,
    set_of,
)
from ..model import Model, Steps, new_lock
from ..predictive import PredictiveDistribution


def check_coverage(coverage: Any) -> None:
    """Raise an error unless a coverage is between 0 and 1."""
    if not (is_real(coverage) and 0.0 < coverage < 1.0):
        raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}")


def final_of(model: Any) -> Any:
    """Return the last step of a pipeline, or the model itself if it is not a pipeline."""
    while isinstance(model, compose.Pipeline):
        model = list(model.steps.values())[-1]
    return model


class _Wrapper(Model, base.Wrapper[Any], base.Estimator):
    """Arguments and state of `Calibrated`."""

    # Thresholds before the first label. All models share these objects, because an update returns
    # new thresholds.
    _UNTRACKED: ClassVar[Any] = None

    # `Calibrated` has no `__init__`, because type checkers would then ignore its `__new__`.
    def __init__(self, model: Any, by_class: bool = False, max_pending: int = 10_000) -> None:
        if not isinstance(final_of(model), (base.Regressor, base.Classifier)):
            raise TypeError(f"model must be a regressor or a classifier, got {model!r}")
        check_flag("by_class", by_class)
        check_integer("max_pending", max_pending, 1)
        final = final_of(model)
        self._lock = new_lock()
        self.model = model
        self.by_class = by_class
        self.max_pending = max_pending
        self._n_learned = 0
        self._waiting = WaitingPredictions()
        # Warnings are shown once, so shown warnings are stored.
        self._warned: set[str] = set()
        self._tracked: Any = self._UNTRACKED
        self._has_distribution = "with_dist" in inspect.signature(final.predict_one).parameters
        # Whether the model's `learn_one` accepts the state of an earlier prediction.
        self._learns_late = "remembered" in inspect.signature(final.learn_one).parameters


class Calibrated(_Wrapper):
    """Calibrated intervals or sets of classes, for a regressor or classifier.

    The wrapper compares the model's predictions with the labels, and corrects the width of
    intervals (`predict_interval_one`) or the size of sets of classes (`predict_set_one`). In the
    long run, the coverage of intervals and sets is thus at least about the requested coverage, on
    any stream (see the notes)[^1][^2]. Other predictions of the model do not change.

    Labels may come late. Each prediction, of a sample or of a frame's row, is stored until
    `learn_one` gets the label with the same `id`, or until the prediction is dropped (see
    `max_pending`). Without ids, `learn_one` finds the prediction of an equal sample, with the same
    values of the same features. `learn_one` then compares the label with the stored prediction. If
    a sample was not predicted, `learn_one` predicts it first. If labels come late,
    `AdaptiveMondrianForestRegressor` updates the weights of its experts with the errors of the
    stored predictions.

    Parameters
    ----------
    model
        A regressor or classifier of River or of this package, or a pipeline that ends in one of
        these. If a regressor's `predict_one` has the parameter `with_dist` and returns a
        distribution, the thresholds of intervals are multiplied by the width of this distribution.
        Otherwise, the thresholds are multiplied by the mean size of recent errors.
    by_class
        Whether sets have the requested coverage for each class separately. These sets are usually
        larger than with `by_class=False`.
    max_pending
        Largest number of predictions with ids that wait for their labels; beyond this number, the
        oldest are dropped. Of predictions without ids, about the latest `max_pending` are kept,
        until they expire.

    Notes
    -----
    Thresholds of errors or of probabilities are tracked for the coverages .5, .8, .9, .95 and .99,
    interpolated for other coverages, and extrapolated above .99. Intervals and sets never become
    smaller if the coverage is larger.

    For the tracked coverages, the following bounds hold on any sequence of samples. After T labels,
    the share of targets below the intervals is at most (1 - coverage) / 2 + 1,850 / T. The same
    bound holds for the share of targets above the intervals. Usually the excess over (1 - coverage)
    / 2 is far smaller. An end of an interval is infinite if the coverage cannot be reached with a
    finite end. At least the fraction coverage - 320 / T of T labels is in the predicted sets; first
    occurrences of a label are not counted. Late labels weaken these bounds. If labels come d
    samples late, the term 1,850 / T becomes 25 (d + 1) / T from d = 75 on. The term 320 / T becomes
    12 (d + 1) / T from d = 25 on. The coverage may exceed the requested coverage if errors or
    probabilities have few different values.

    Equal samples without ids may wait at the same time. A label belongs to the latest equal sample
    whose age is at least the shortest delay of all earlier labels, both counted in predictions, or
    to the oldest equal sample if none is old enough. A prediction without an id expires after 1,000
    further labels, or after twice the longest earlier delay, counted in labels, if this is more.

    Examples
    --------
    >>> from river import datasets
    >>> from river_mondrian import AdaptiveMondrianForestRegressor, Calibrated

    >>> model = Calibrated(AdaptiveMondrianForestRegressor(seed=1))
    >>> inside = 0
    >>> for x, y in datasets.TrumpApproval():
    ...     low, high = model.predict_interval_one(x, coverage=0.8)
    ...     inside += low <= y <= high
    ...     model.learn_one(x, y)
    >>> 0.78 < inside / 1001 < 0.82
    True

    >>> from river_mondrian import AdaptiveMondrianForestClassifier

    >>> model = Calibrated(AdaptiveMondrianForestClassifier(seed=1))
    >>> for x, y in datasets.ImageSegments().take(500):
    ...     model.learn_one(x, y)
    >>> y in model.predict_set_one(x, coverage=0.99)
    True

    References
    ----------
    [^1]: Gibbs, I. and Candès, E. (2021). Adaptive Conformal Inference Under Distribution Shift.
    Advances in Neural Information Processing Systems 34.
    [^2]: Angelopoulos, A. N., Barber, R. F. and Bates, S. (2024). Online conformal prediction with
    decaying step sizes. International Conference on Machine Learning 41.

    """

    @overload
    def __new__(cls, model: base.Regressor, *args: Any, **kwargs: Any) -> CalibratedRegressor: ...
    @overload
    def __new__(cls, model: base.Classifier, *args: Any, **kwargs: Any) -> CalibratedClassifier: ...
    @overload
    def __new__(cls, model: Any = None, *args: Any, **kwargs: Any) -> _CalibratedPipeline: ...
    def __new__(cls, model: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Return a `CalibratedRegressor` or a `CalibratedClassifier`, depending on the model."""
        kind: Any = cls
        if cls is Calibrated:
            is_regressor = isinstance(final_of(model), base.Regressor)
            kind = CalibratedRegressor if is_regressor else CalibratedClassifier
        return object.__new__(kind)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model

        yield {"model": linear_model.LinearRegression()}

    @staticmethod
    def _read(y: Any, n: int, like: Any) -> Any:
        """Return the targets or labels of the rows of a frame."""
        raise NotImplementedError

    @property
    def _wrapped_model(self) -> Any:
        return self.model

    @property
    def _raw_memory_usage(self) -> int:
        size = len(pickle.dumps((self._waiting, self._tracked)))
        return size + int(self.model._raw_memory_usage)

    def _predict(self, x: Mapping[Any, Any], point: Any = None) -> Any:
        """Return a new prediction of a sample; `point` is the model's prediction, or None."""
        raise NotImplementedError

    def _judged(self, predicted: Any, y: Any, delay: int) -> Any:
        """Return new thresholds, updated with a label that is `delay` samples late."""
        raise NotImplementedError

    def _interval(self, x: Mapping[Any, Any], id: Any, coverage: float) -> tuple[float, float]:
        """Return an interval that contains the target with the requested coverage."""
        raise TypeError(f"predict_interval_one needs a regressor, but the model is {self.model!r}")

    def _set(self, x: Mapping[Any, Any], id: Any, coverage: float, exact: bool) -> set[Hashable]:
        """Return a set of classes that contains the label with the requested coverage."""
        raise TypeError(f"predict_set_one needs a classifier, but the model is {self.model!r}")

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            warn_user(text)

    def _predicted(
        self, x: Mapping[Any, Any], id: Any, call: str | None = None, point: Any = None
    ) -> Any:
        """Return a prediction of a sample, and store it until the sample's label comes.

        `call` is the name of a method that is called once for each sample, or None (see `to_add`).
        """
        waiting = self._waiting
        if id is not None:
            key = plain_key(id, "id")
            predicted = self._predict(x, point)
            self._run_steps([waiting.to_add_id(key, predicted, self.max_pending)])
            return predicted
        try:
            key = key_of(x)
        except TypeError as error:
            predicted = self._predict(x, point)
            self._warn_once(
                f"a prediction is not stored until its label comes, because {error}, which cannot "
                "be compared: pass the same id to the methods that predict and learn the sample"
            )
            return predicted
        predicted = waiting.latest(key, self._n_learned)
        if predicted is None:
            predicted = self._predict(x, point)
        self._run_steps([waiting.to_add(key, predicted, call, self.max_pending)])
        return predicted

    def _claimed(self, x: Mapping[Any, Any], id: Any) -> tuple[Any, Change]:
        """Return a sample's stored prediction or None, and a function to remove the prediction."""
        if id is not None:
            return self._waiting.to_claim_id(plain_key(id, "id"), self._n_learned)
        try:
            return self._waiting.to_claim(key_of(x), self._n_learned)
        except TypeError:
            # A sample that cannot be compared has no key, so there is no stored prediction.
            return None, lambda: None

    def learn_one(self, x: Mapping[Any, Any], y: Any, id: Any = None, **kwargs: Any) -> None:
        """Update the thresholds and the model with a sample.

        Parameters
        ----------
        x
            A sample, with the same features and values as in its prediction.
        y
            The sample's target or label.
        id
            The id of the sample's prediction, if the prediction had an id.
        **kwargs
            Other arguments of the model's `learn_one`, for example a weight.

        """
        with self._lock:
            self._enter()
            stored, claim = self._claimed(x, id)
            predicted = self._predict(x) if stored is None else stored
            delay = self._n_learned - predicted.n_learned
            try:
                tracked = self._judged(predicted, y, delay)
            except (TypeError, ValueError):
                # The label may be invalid. The thresholds do not change, because only the model's
                # `learn_one`, called below, decides whether a label is valid.
                tracked = self._tracked
            if self._learns_late and delay > 0:
                kwargs["remembered"] = predicted.remembered
            final, n_learned = final_of(self.model), self._n_learned + 1
            n_before = getattr(final, "n_samples", None)
            is_learned = False

            def finish_if_learned() -> None:
                if is_learned or (n_before is not None and final.n_samples != n_before):
                    self._tracked, self._n_learned = tracked, n_learned
                    claim()

            self._pending = Steps([finish_if_learned])
            self.model.learn_one(x, y, **kwargs)
            is_learned = True
            finish_if_learned()
            self._pending = None
            if stored is None and self._waiting.are_unclaimed(self._n_learned):
                self._warn_once(
                    f"the last {MANY_UNCLAIMED} labels belong to no stored prediction. Pass the "
                    "same id, of the same type, to the methods that predict and learn a sample. If "
                    "a transformer changes the samples, write Calibrated(StandardScaler() | "
                    "model). If predicted samples have no labels, ignore this warning"
                )

    def predict_one(self, x: Mapping[Any, Any], id: Any = None, **kwargs: Any) -> Any:
        """Return the model's prediction.

        Parameters
        ----------
        x
            A sample.
        id
            An id of the sample, to find this prediction when the label comes: a string, an integer,
            or a tuple of strings and integers. A later prediction with the same id replaces this
            prediction.
        **kwargs
            Other arguments of the model's `predict_one`.

        Returns
        -------
        The model's prediction.

        """
        with self._lock:
            self._enter()
            predicted = self.model.predict_one(x, **kwargs)
            self._predicted(x, id, "predict_one", predicted)
            return predicted

    @staticmethod
    def _rows(X: Any, id: Any) -> tuple[Any, list[dict[Any, Any]], list[Any]]:
        """Return a frame, its rows and their ids; the rows omit a column of ids."""
        frame, rows = rows_of(X)
        if id is None:
            return frame, rows, [None] * len(rows)
        if isinstance(id, (str, int)):
            what, ids = f"column {id!r}", [row.pop(id, None) for row in rows]
        else:
            what, ids = "the id", list_values(id, len(rows), "ids", frame)
        return frame, rows, [plain_key(key, f"{what} in row {i}") for i, key in enumerate(ids)]

    def learn_many(self, X: Any, y: Any, id: Any = None, **kwargs: Any) -> None:
        """Learn the rows of a frame, in order, with the same result as `learn_one` on each row.

        If the model raises an error for a row, the rows before this row have been learned.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...;
            nulls and NaN are missing values.
        y
            The targets or labels of the rows, by position.
        id
            The ids of the rows' predictions: a list, or the name of a column of `X`.
        **kwargs
            Other arguments of the model's `learn_one`, the same for all rows.

        """
        frame, rows, ids = self._rows(X, id)
        for x, target, key in zip(rows, self._read(y, len(rows), frame), ids, strict=True):
            self.learn_one(x, target, key, **kwargs)

    def predict_many(self, X: Any, id: Any = None, **kwargs: Any) -> Any:
        """Predict the rows of a frame, with the same results as `predict_one` on each row.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...
        id
            Ids of the rows: a list, or the name of a column of `X`, which is then not a feature.
        **kwargs
            Other arguments of the model's `predict_one`.

        Returns
        -------
        The predictions: a series of the same library as `X`, or an array if `X` is an array. A
        pandas series has the index of `X`.

        """
        frame, rows, ids = self._rows(X, id)
        with self._lock:
            self._enter()
            predicted = [self.model.predict_one(x, **kwargs) for x in rows]
            # The frame's library may reject the predictions, so the series is created before any
            # prediction is stored.
            series = native_series(predicted, name=None, like=frame)
            for x, key, point in zip(rows, ids, predicted, strict=True):
                self._predicted(x, key, "predict_one", point)
        return series

    def predict_interval_one(
        self, x: Mapping[Any, Any], coverage: float = 0.9, id: Any = None
    ) -> tuple[float, float]:
        """Return an interval that contains the target with the requested coverage.

        Parameters
        ----------
        x
            A sample.
        coverage
            The requested share of targets inside their intervals, between 0 and 1.
        id
            An id of the sample, as for `predict_one`.

        Returns
        -------
        The lower and the upper end; both belong to the interval. Both ends are infinite before the
        first label, and if the model's prediction is not finite. Later, an end is infinite if no
        finite end reaches the coverage.

        Raises
        ------
        TypeError
            If the model is not a regressor.
        ValueError
            If the coverage is not between 0 and 1.

        """
        check_coverage(coverage)
        with self._lock:
            self._enter()
            return self._interval(x, id, coverage)

    def predict_set_one(
        self,
        x: Mapping[Any, Any],
        coverage: float = 0.9,
        exact: bool = False,
        id: Any = None,
    ) -> set[Hashable]:
        """Return a set of probable classes that contains the label with the requested coverage.

        Parameters
        ----------
        x
            A sample.
        coverage
            The requested share of labels that are in their sets, between 0 and 1.
        exact
            Whether a set may be empty. With `exact=False`, every set contains the most probable
            class. The coverage is then at least the model's accuracy, which may exceed the
            requested coverage.
        id
            An id of the sample, as for `predict_one`.

        Returns
        -------
        The classes. The set is empty if the model does not know any class yet, or if `exact` is
        true and no class is probable enough.

        Raises
        ------
        TypeError
            If the model is not a classifier.
        ValueError
            If the coverage is not between 0 and 1.

        """
        check_coverage(coverage)
        check_flag("exact", exact)
        with self._lock:
            self._enter()
            return self._set(x, id, coverage, exact)


class CalibratedRegressor(Calibrated, base.MiniBatchRegressor):
    """A `Calibrated` whose model is a regressor."""

    _UNTRACKED: ClassVar[Errors] = NO_ERRORS

    @staticmethod
    def _read(y: Any, n: int, like: Any) -> Any:
        return read_targets(y, n, like).tolist()

    def _predict(self, x: Mapping[Any, Any], point: Any = None) -> Interval:
        errors: Errors = self._tracked
        centre, scale = self._centre_and_scale(x, point)
        if not 0.0 < scale < math.inf:
            scale = errors.size
        # Storing the state costs memory, and is useful only for late targets. If no other sample
        # waits for its target, this sample's target is unlikely to be late.
        is_kept = self._learns_late and self._waiting
        remembered = final_of(self.model)._to_remember() if is_kept else None
        return Interval(self._n_learned, centre, scale, errors.thresholds, remembered)

    def _centre_and_scale(self, x: Mapping[Any, Any], point: Any) -> tuple[float, float]:
        """Return the model's point prediction, and the width of its distribution (0 if unknown)."""
        known: tuple[float, float]
        if hasattr(self.model, "_point_and_scale"):
            known = self.model._point_and_scale(x)
            return known
        if self._has_distribution:
            try:
                predicted = self.model.predict_one(x, with_dist=True)
            except (NotImplementedError, RuntimeError, ValueError):
                # Some models have no distribution before the first sample, or with some arguments,
                # so the width is unknown.
                predicted = None
            if isinstance(predicted, PredictiveDistribution):
                mean = predicted.mean
                sizes = np.hypot(predicted.scales, predicted.centres - mean)
                return mean, float(predicted.weights @ sizes)
            if predicted is not None:
                return predicted.mu, predicted.sigma
        if point is None:
            point = self.model.predict_one(x)
        return float(point or 0.0), 0.0

    def _judged(self, predicted: Interval, y: float, delay: int) -> Errors:
        return judge(self._tracked, predicted, float(y), delay)

    def _interval(self, x: Mapping[Any, Any], id: Any, coverage: float) -> tuple[float, float]:
        predicted = self._predicted(x, id)
        if self._tracked.n == 0 or not math.isfinite(predicted.centre):
            return -math.inf, math.inf
        return ends_of(predicted, coverage)


class CalibratedClassifier(Calibrated, base.MiniBatchClassifier):
    """A `Calibrated` whose model is a classifier."""

    _UNTRACKED: ClassVar[Mapping[Hashable, Odds]] = {}

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        from river import linear_model

        yield {"model": linear_model.LogisticRegression()}

    @staticmethod
    def _read(y: Any, n: int, like: Any) -> Any:
        return read_labels(y, n, like)

    def _predict(self, x: Mapping[Any, Any], point: Any = None) -> Classes:
        # `point` may be a label instead of probabilities.
        probabilities = point if isinstance(point, dict) else self.model.predict_proba_one(x)
        return Classes(self._n_learned, probabilities, self._tracked)

    def _judged(self, predicted: Classes, y: Hashable, delay: int) -> Mapping[Hashable, Odds]:
        tracked: Mapping[Hashable, Odds] = self._tracked
        return judge_label(tracked, predicted, y, self.by_class, delay)

    def _set(self, x: Mapping[Any, Any], id: Any, coverage: float, exact: bool) -> set[Hashable]:
        return set_of(self._predicted(x, id), coverage, self.by_class, exact)

    def predict_proba_one(self, x: Mapping[Any, Any], id: Any = None, **kwargs: Any) -> Any:
        """Return the model's probabilities of classes.

        Parameters
        ----------
        x
            A sample.
        id
            An id of the sample, as for `predict_one`.
        **kwargs
            Other arguments of the model's `predict_proba_one`.

        Returns
        -------
        The model's probabilities, by class.

        """
        with self._lock:
            self._enter()
            probabilities = self._predicted(x, id, "predict_proba_one").probabilities
            return self.model.predict_proba_one(x, **kwargs) if kwargs else dict(probabilities)

    def predict_proba_many(self, X: Any, id: Any = None, **kwargs: Any) -> Any:
        """Predict the probability of each class for the rows of a frame.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...
        id
            Ids of the rows, as for `predict_many`.
        **kwargs
            Other arguments of the model's `predict_proba_one`.

        Returns
        -------
        A frame of the same library as `X`, or an array if `X` is an array. The result has a column
        of probabilities for each class.

        """
        frame, rows, ids = self._rows(X, id)
        with self._lock:
            self._enter()
            predicted = [self.model.predict_proba_one(x, **kwargs) for x in rows]
            labels = dict.fromkeys(label for row in predicted for label in row)
            columns = {label: [row.get(label, 0.0) for row in predicted] for label in labels}
            result = native_frame(columns, like=frame)
            for x, key, row in zip(rows, ids, predicted, strict=True):
                self._predicted(x, key, "predict_proba_one", None if kwargs else row)
        return result


if TYPE_CHECKING:

    class _CalibratedPipeline(CalibratedRegressor, CalibratedClassifier):  # type: ignore[misc]
        """Type of a `Calibrated` whose model is a pipeline, with the methods of both classes."""
