"""Regressors of the comparisons, and functions that return their predictions."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from river import base, compose, ensemble, forest, linear_model, neighbors, preprocessing, tree
from river import stats as river_stats

import river_mondrian as rm

from ..data import Array

ADAPTIVE, SQUARED, AUTOREGRESSIVE = "adaptive", "adaptive, squared", "adaptive, autoregressive"
LAST_VALUE, LINEAR = "last value", "Bayesian linear"
# A point with one of: a distribution, the ends of a 95 % interval, None.
Prediction = tuple[float, rm.PredictiveDistribution | tuple[float, float] | None]


class Model(NamedTuple):
    """Functions that create a regressor, and predict a point and (if possible) a distribution."""

    make: Callable[[int], Any]
    predict: Callable[[Any, dict[Any, float]], Prediction]
    seeded: bool = True


class LastValue:
    """Regressor that predicts the last learned target."""

    def __init__(self) -> None:
        self.last = 0.0

    def predict_one(self, x: dict[Any, float]) -> float:
        return self.last

    def learn_one(self, x: dict[Any, float], y: float) -> None:
        self.last = y


class RecursiveLeastSquares:
    """Linear model by recursive least squares with forgetting, on standardized features."""

    def __init__(self, forgetting: float) -> None:
        self.forgetting = forgetting
        self.scaler = preprocessing.StandardScaler()
        self.gram: Array = np.zeros((0, 0))
        self.moments: Array = np.zeros(0)
        self.weights: Array = np.zeros(0)

    def _row(self, x: dict[Any, float]) -> Array:
        return np.array([1.0, *self.scaler.transform_one(x).values()])

    def predict_one(self, x: dict[Any, float]) -> float:
        return float(self._row(x) @ self.weights) if len(self.weights) else 0.0

    def learn_one(self, x: dict[Any, float], y: float) -> None:
        self.scaler.learn_one(x)
        row = self._row(x)
        if not len(self.moments):
            self.gram, self.moments = np.zeros((len(row), len(row))), np.zeros(len(row))
        self.gram = self.forgetting * self.gram + np.outer(row, row)
        self.moments = self.forgetting * self.moments + y * row
        # Rank-one updates of an inverse lose digits, so the equations are solved at each sample.
        self.weights = np.linalg.solve(self.gram + 1e-3 * np.eye(len(row)), self.moments)


class _OfStandardTargets:
    """Wrapper that standardizes targets for a model that assumes noise of variance 1."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.moments = river_stats.Var()

    def learn_one(self, x: dict[Any, float], y: float) -> None:
        self.moments.update(y)
        spread = math.sqrt(self.moments.get()) or 1.0
        self.model.learn_one(x, (y - self.moments.mean.get()) / spread)

    def predict(self, x: dict[Any, float]) -> Prediction:
        found = self.model.predict_one(x, with_dist=True)
        one, spread = np.ones(1), math.sqrt(self.moments.get()) or 1.0
        mean = self.moments.mean.get() + spread * found.mu
        return mean, rm.PredictiveDistribution(one, one * mean, one * spread * found.sigma)


def _bayesian(seed: int) -> Any:
    inputs = preprocessing.StandardScaler() + compose.FuncTransformer(lambda x: {"one": 1.0})
    return _OfStandardTargets(inputs | linear_model.BayesianLinearRegression())


def point(model: Any, x: dict[Any, float]) -> Prediction:
    """Return the prediction of a model that predicts no distribution."""
    return model.predict_one(x) or 0.0, None


def law(model: Any, x: dict[Any, float]) -> Prediction:
    """Return the point and the distribution that a regressor of this package predicts."""
    found = model.predict_one(x, with_dist=True) if model.n_samples else None
    return (model.predict_one(x) if found else 0.0), found


def scaled(model: base.Regressor) -> Any:
    return preprocessing.MinMaxScaler() | model


def _standardized(model: base.Regressor) -> Any:
    return preprocessing.StandardScaler() | model


def _adaptive(seed: int, **options: Any) -> Any:
    return rm.AdaptiveMondrianForestRegressor(seed=seed, **options)


_BAYESIAN = Model(_bayesian, lambda model, x: model.predict(x), seeded=False)
_SGT = preprocessing.TargetStandardScaler
MODELS: dict[str, Model] = {
    ADAPTIVE: Model(_adaptive, law),
    SQUARED: Model(partial(_adaptive, loss="squared"), point),
    AUTOREGRESSIVE: Model(partial(_adaptive, autoregressive=True), law),
    "exact": Model(lambda seed: rm.MondrianForestRegressor(seed=seed), law),
    "exact, mean": Model(
        lambda seed: rm.MondrianForestRegressor(posterior="mean", seed=seed), point
    ),
    "AMF, raw": Model(lambda seed: forest.AMFRegressor(seed=seed), point),
    "AMF, scaled": Model(lambda seed: scaled(forest.AMFRegressor(seed=seed)), point),
    "ARF": Model(lambda seed: forest.ARFRegressor(seed=seed), point),
    "ARF, scaled": Model(lambda seed: _standardized(forest.ARFRegressor(seed=seed)), point),
    "SRP of 3": Model(lambda seed: ensemble.SRPRegressor(n_models=3, seed=seed), point),
    "HATR": Model(lambda seed: tree.HoeffdingAdaptiveTreeRegressor(seed=seed), point),
    "HATR, scaled": Model(
        lambda seed: _standardized(tree.HoeffdingAdaptiveTreeRegressor(seed=seed)), point
    ),
    "KNN": Model(
        lambda seed: _standardized(
            neighbors.KNNRegressor(engine=neighbors.LazySearch(window_size=1000))
        ),
        point,
        seeded=False,
    ),
    "SGT": Model(lambda seed: _SGT(scaled(tree.SGTRegressor())), point, seeded=False),
    LINEAR: _BAYESIAN,
    "gradient descent": Model(
        lambda seed: _standardized(linear_model.LinearRegression()), point, seeded=False
    ),
    "RLS": Model(lambda seed: RecursiveLeastSquares(1.0), point, seeded=False),
    "RLS, .998": Model(lambda seed: RecursiveLeastSquares(0.998), point, seeded=False),
    LAST_VALUE: Model(lambda seed: LastValue(), point, seeded=False),
}
# The package's own models and the last value do not count as rivals.
RIVALS = tuple(list(MODELS)[5:-1])
WITH_LAW = (ADAPTIVE, AUTOREGRESSIVE, "exact", LINEAR)
# Largest (number of features, number of samples) of streams for the slowest models.
SLOW = {"SRP of 3": (60, 30_000), "KNN": (200, 30_000), "ARF": (200, 200_000)}
