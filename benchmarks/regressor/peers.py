"""Regressors of the comparison, and functions that return their predictions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from river import base, compose, conf, linear_model, preprocessing, tree
from river import forest as river_forest
from river import stats as river_stats

from river_mondrian import MondrianForestRegressor, PredictiveDistribution

GAUSSIAN = "Mondrian, gaussian"
NORMAL = "Mondrian, normal tails"
MEAN = "Mondrian, mean"
# The predicted mean of a target, and the predicted distribution, a 95 % interval or None.
Prediction = tuple[float, PredictiveDistribution | tuple[float, float] | None]


def _mean(model: Any, x: dict[Any, float]) -> Prediction:
    return model.predict_one(x), None


def predict_mixture(model: Any, x: dict[Any, float]) -> Prediction:
    mixture = model.predict_one(x, with_dist=True) if model.n_samples else None
    return (mixture.mean if mixture else 0.0), mixture


def _standardized(model: Any, x: dict[Any, float]) -> Prediction:
    found = model.predict_one(x, with_dist=True)
    one = np.ones(1)
    mean = model.moments.mean.get() + model.spread * found.mu
    return mean, PredictiveDistribution(one, one * mean, one * model.spread * found.sigma)


def _interval(model: Any, x: dict[Any, float]) -> Prediction:
    mean, interval = model.predict_one(x), model.predict_one(x, with_interval=True)
    return mean, (interval.lower, interval.upper)


def _scaled(model: base.Regressor) -> Any:
    return preprocessing.MinMaxScaler() | model


def _amf() -> base.Regressor:
    return river_forest.AMFRegressor(n_estimators=10, seed=1)


class _Started(river_forest.AMFRegressor):
    """AMF that predicts 0 before the first sample, as the jackknife requires."""

    def predict_one(self, x: dict[Any, float]) -> float:
        found = super().predict_one(x)
        return 0.0 if found is None else found


def _jackknife() -> Any:
    return conf.RegressionJackknife(_Started(n_estimators=10, seed=1), 0.95)


def make_ours(**kwargs: Any) -> MondrianForestRegressor:
    return MondrianForestRegressor(n_estimators=10, seed=1, **kwargs)


def _constant(x: dict[Any, float]) -> dict[str, float]:
    return {"one": 1.0}


class _OfStandardTargets:
    """A model that gets standardized targets, because it assumes noise of variance 1."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.moments = river_stats.Var()

    @property
    def spread(self) -> float:
        return math.sqrt(self.moments.get()) or 1.0

    def learn_one(self, x: dict[Any, float], y: float) -> None:
        self.moments.update(y)
        self.model.learn_one(x, (y - self.moments.mean.get()) / self.spread)

    def predict_one(self, x: dict[Any, float], with_dist: bool = False) -> Any:
        return self.model.predict_one(x, with_dist=with_dist)


def _bayesian() -> Any:
    inputs = preprocessing.StandardScaler() + compose.FuncTransformer(_constant)
    return _OfStandardTargets(inputs | linear_model.BayesianLinearRegression())


PEERS: dict[str, tuple[Callable[[], Any], Callable[[Any, dict[Any, float]], Prediction]]] = {
    GAUSSIAN: (make_ours, predict_mixture),
    f"{GAUSSIAN}, raw": (partial(make_ours, scale=False), predict_mixture),
    NORMAL: (partial(make_ours, tails="normal"), predict_mixture),
    f"{NORMAL}, raw": (partial(make_ours, tails="normal", scale=False), predict_mixture),
    MEAN: (partial(make_ours, posterior="mean"), _mean),
    f"{MEAN}, raw": (partial(make_ours, posterior="mean", scale=False), _mean),
    "AMF, scaled": (lambda: _scaled(_amf()), _mean),
    "AMF, raw": (_amf, _mean),
    "Jackknife(AMF, raw)": (_jackknife, _interval),
    "ARF": (lambda: river_forest.ARFRegressor(n_models=10, seed=1), _mean),
    "SGT": (lambda: _scaled(tree.SGTRegressor()), _mean),
    "Bayesian linear": (_bayesian, _standardized),
}
WITH_DENSITY = (GAUSSIAN, f"{GAUSSIAN}, raw", NORMAL, f"{NORMAL}, raw", "Bayesian linear")
