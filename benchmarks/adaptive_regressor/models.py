"""Regressors of the comparison, and functions that return their predictions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from river import ensemble, forest, linear_model, neighbors, preprocessing, tree

import river_mondrian
from river_mondrian import MondrianForestRegressor

from ..data import Array
from ..regressor.peers import PEERS as EARLIER
from ..regressor.peers import predict_mixture

OURS = "AdaptiveMondrianForestRegressor"
ADAPTIVE, SQUARED, AUTOREGRESSIVE = "adaptive", "adaptive, squared", "adaptive, autoregressive"
LAST_VALUE = "last value"


class Model(NamedTuple):
    """Functions that create a regressor, and predict a point and (if possible) a distribution."""

    make: Callable[[int], Any]
    predict: Callable[[Any, dict[Any, float]], tuple[float, Any]]
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
        if not len(self.weights):
            return 0.0
        return float(self._row(x) @ self.weights)

    def learn_one(self, x: dict[Any, float], y: float) -> None:
        self.scaler.learn_one(x)
        row = self._row(x)
        if not len(self.moments):
            self.gram, self.moments = np.zeros((len(row), len(row))), np.zeros(len(row))
        self.gram = self.forgetting * self.gram + np.outer(row, row)
        self.moments = self.forgetting * self.moments + y * row
        # Rank-one updates of the inverse lose digits, so the inverse is computed again.
        self.weights = np.linalg.solve(self.gram + 1e-3 * np.eye(len(row)), self.moments)


def _point(model: Any, x: dict[Any, float]) -> tuple[float, Any]:
    return model.predict_one(x) or 0.0, None


def _law(model: Any, x: dict[Any, float]) -> tuple[float, Any]:
    """Return the point and the distribution that the adaptive regressor predicts."""
    return model.predict_one(x), model.predict_one(x, with_dist=True)


def _ours(seed: int, **options: Any) -> Any:
    return getattr(river_mondrian, OURS)(seed=seed, **options)


def _earlier(name: str) -> Model:
    make, predict = EARLIER[name]
    return Model(lambda seed: make(), predict, seeded=False)


def _scaled(model: Any) -> Any:
    return preprocessing.MinMaxScaler() | model


_UNDER_TEST: dict[str, Model] = {
    ADAPTIVE: Model(_ours, _law),
    SQUARED: Model(partial(_ours, loss="squared"), _point),
    AUTOREGRESSIVE: Model(partial(_ours, autoregressive=True), _law),
}
PEERS: dict[str, Model] = {
    "exact": Model(lambda seed: MondrianForestRegressor(seed=seed), predict_mixture),
    "exact, mean": Model(lambda seed: MondrianForestRegressor(posterior="mean", seed=seed), _point),
    "AMF, raw": Model(lambda seed: forest.AMFRegressor(seed=seed), _point),
    "AMF, scaled": Model(lambda seed: _scaled(forest.AMFRegressor(seed=seed)), _point),
    "ARF": Model(lambda seed: forest.ARFRegressor(seed=seed), _point),
    "ARF, scaled": Model(
        lambda seed: preprocessing.StandardScaler() | forest.ARFRegressor(seed=seed), _point
    ),
    "SRP of 3": Model(lambda seed: ensemble.SRPRegressor(n_models=3, seed=seed), _point),
    "HATR": Model(lambda seed: tree.HoeffdingAdaptiveTreeRegressor(seed=seed), _point),
    "HATR, scaled": Model(
        lambda seed: (
            preprocessing.StandardScaler() | tree.HoeffdingAdaptiveTreeRegressor(seed=seed)
        ),
        _point,
    ),
    "KNN": Model(
        lambda seed: (
            preprocessing.StandardScaler()
            | neighbors.KNNRegressor(engine=neighbors.LazySearch(window_size=1000))
        ),
        _point,
        seeded=False,
    ),
    "SGT": Model(
        lambda seed: preprocessing.TargetStandardScaler(_scaled(tree.SGTRegressor())),
        _point,
        seeded=False,
    ),
    "Bayesian linear": _earlier("Bayesian linear"),
    "gradient descent": Model(
        lambda seed: preprocessing.StandardScaler() | linear_model.LinearRegression(),
        _point,
        seeded=False,
    ),
    "RLS": Model(lambda seed: RecursiveLeastSquares(1.0), _point, seeded=False),
    "RLS, .998": Model(lambda seed: RecursiveLeastSquares(0.998), _point, seeded=False),
    LAST_VALUE: Model(lambda seed: LastValue(), _point, seeded=False),
}
# The package's other regressors are in the tables, but are no peers.
EARLIER_OURS = ("exact", "exact, mean")
# Largest (number of features, number of samples) of streams for the slowest model.
SLOW = {"SRP of 3": (60, 30_000), "KNN": (200, 30_000), "ARF": (200, 200_000)}
WITH_LAW = (ADAPTIVE, AUTOREGRESSIVE, "exact", "Bayesian linear")


def is_there() -> bool:
    """Return whether the adaptive regressor exists."""
    return OURS in river_mondrian.__all__


def models() -> dict[str, Model]:
    """Return all regressors, with the adaptive regressor if it exists."""
    return (_UNDER_TEST if is_there() else {}) | PEERS


# Mean absolute errors from an earlier study of the same streams. Three models are from CapyMOA
# 0.15.1: streaming gradient boosted regression (SGBR), and SOKNL and adaptive random forests (ARF)
# of 100 trees. The last model is the prototype of the adaptive regressor, with its log likelihood.
CAPYMOA = ("SGBR *", "SOKNL *", "ARF of 100 *")
STUDY: dict[str, tuple[float, float, float, float, float]] = {
    "TrumpApproval": (0.96, 0.575, 3.90, 0.301, -0.126),
    "ChickWeights": (22.6, 23.6, 26.4, 7.83, -3.749),
    "Friedman": (1.492, 1.926, 2.570, 0.928, -1.541),
    "FriedmanDrift gra": (1.681, 2.275, 2.811, 1.156, -1.798),
    "FriedmanDrift lea": (1.653, 2.095, 2.739, 1.130, -1.755),
    "Planes2D": (0.989, 0.959, 1.354, 0.871, -1.500),
    "Mv": (2.42, 3.12, 7.33, 0.817, -0.891),
    "bike_hour": (29.6, 65.1, 58.1, 27.9, -4.965),
    "california": (35_133, 42_442, 39_498, 31_915, -11.972),
    "kin8nm": (0.147, 0.162, 0.174, 0.109, 0.575),
    "cpu": (4.03, 3.82, 8.12, 1.861, -2.234),
}


def finite(value: float) -> float:
    """Return a prediction, or 0 if it is infinite or NaN."""
    return value if math.isfinite(value) else 0.0
