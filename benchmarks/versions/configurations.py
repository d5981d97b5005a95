"""Models and streams whose predictions are compared between versions."""

import copy
import inspect
import math
import pickle
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import river_mondrian as rm
from river_mondrian import PredictiveDistribution

from ..data import Array
from . import streams as s

DIRECTIONS = [{"x0": 1.0, "x1": 0.5}, {"x1": -1.0, "x2": 1.0}, {"x0": 0.7}, {"x2": 0.3}]
Make = Callable[..., Any]


def _of(name: str, *given: Any, **options: Any) -> Make:
    """Return a function that creates a model; the base version may lack the class."""
    kind_of = {"seed": 1} if name not in ("NystromFeatures", "Alarms", "DualOGDClassifier") else {}
    return lambda: getattr(rm, name)(*given, **kind_of, **options)


def _on(name: str, features: Make, **options: Any) -> Make:
    """Return a function that creates a model on a feature map."""
    return lambda: _of(name, features(), **options)()


def exact(**options: Any) -> Make:
    return _of("MondrianForestClassifier", 5, **options)


def regressor(**options: Any) -> Make:
    return _of("MondrianForestRegressor", 5, **options)


def adaptive(**options: Any) -> Make:
    return _of("AdaptiveMondrianForestClassifier", 5, **options)


def numeric(**options: Any) -> Make:
    return _of("AdaptiveMondrianForestRegressor", 5, **options)


def density(**options: Any) -> Make:
    return _of("DensityForest", 10, **options)


def isolation(**options: Any) -> Make:
    return _of("IsolationFeatures", 20, 16, pool_size=256, **options)


def mondrian(lifetime: Any = 3.0, **options: Any) -> Make:
    return _of("MondrianFeatures", 20, lifetime, **options)


def _grown(n: int) -> float:
    return 2.0 * math.pow(n, 0.2)


fourier = _of("RandomFourierFeatures", 40)
binning = _of("RandomBinningFeatures", 20, 2.0)
nystrom = _of("NystromFeatures", 60)
trees = isolation(method="iforest")

# By name: a function that creates the model, and a function from a number of samples to a stream.
CONFIGURATIONS: dict[str, tuple[Make, s.Source]] = {
    "exact, 1 feature": (exact(), s.labelled(1)),
    "exact, ties": (exact(), s.labelled(3, decimals=1)),
    "exact, 16 features, 26 classes": (exact(n_jobs=2), s.labelled(16, 26)),
    "exact, 150 features": (exact(), s.labelled(150)),
    "exact, 200 classes": (exact(), s.labelled(6, 200)),
    "exact, split_pure, lifetime": (exact(split_pure=True, lifetime=4.0), s.labelled(5)),
    "exact, random lifetime": (exact(lifetime=stats.expon(scale=5.0)), s.labelled(5)),
    "exact, max_nodes": (exact(max_nodes=101), s.holes(s.labelled(5))),
    "exact, window": (exact(window=300), s.labelled(5)),
    "exact, not scaled": (exact(scale=False, prior_rate=3.0), s.unit(5)),
    "exact, missing": (exact(), s.holes(s.labelled(5))),
    "exact, mostly missing": (exact(), s.holes(s.labelled(20), 0.9)),
    "exact, late": (exact(), s.late(s.labelled(9, 12))),
    "exact, odd": (exact(), s.odd),
    "exact, words": (exact(missing="zero"), s.text),
    "exact, directions": (exact(directions=12), s.late(s.labelled(4))),
    "exact, given directions": (
        exact(directions=DIRECTIONS, lifetime=20.0),
        s.holes(s.labelled(3)),
    ),
    "regressor": (regressor(), s.targets(5)),
    "regressor, normal tails": (regressor(tails="normal"), s.targets(21)),
    "regressor, given parameters": (
        regressor(prior_variance=1.0, prior_rate=0.1, noise_variance=0.05),
        s.targets(4),
    ),
    "regressor, large targets": (regressor(lifetime=5.0, min_samples_split=10), s.targets(4, 1e6)),
    "regressor, missing": (regressor(max_nodes=101), s.holes(s.targets(6))),
    "regressor, directions": (regressor(directions=DIRECTIONS), s.targets(3)),
    "regressor, mean": (regressor(posterior="mean"), s.holes(s.targets(5))),
    "regressor, mean, growing lifetime": (
        regressor(posterior="mean", lifetime=_grown),
        s.targets(3),
    ),
    "adaptive, 8 features": (adaptive(), s.labelled(8)),
    "adaptive, 16 features, 26 classes": (adaptive(), s.labelled(16, 26)),
    "adaptive, 150 classes, late": (adaptive(), s.late(s.labelled(5, 150))),
    "adaptive, missing": (adaptive(), s.holes(s.labelled(6))),
    "adaptive, odd": (adaptive(), s.odd),
    "adaptive, words": (adaptive(missing="zero"), s.text),
    "adaptive, drift": (adaptive(), s.times(2.0, s.swapped(s.labelled(5, 4)))),
    "adaptive, window": (adaptive(window=1000), s.times(2.0, s.labelled(4))),
    "adaptive, max_bytes": (adaptive(max_bytes=400_000), s.labelled(4)),
    "adaptive, autoregressive": (adaptive(autoregressive=True, n_candidates=1), s.labelled(4)),
    "adaptive targets": (numeric(), s.targets(5)),
    "adaptive targets, missing": (numeric(), s.holes(s.targets(5))),
    "adaptive targets, squared": (numeric(loss="squared", autoregressive=True), s.targets(4, 1e6)),
    "adaptive targets, window": (numeric(window=1000), s.targets(3)),
    "density": (density(), s.unit(3)),
    "density, missing": (density(lifetime=2.0), s.late(s.holes(s.unit(5)))),
    "density, laplace": (density(method="laplace", lifetime=3.0), s.unit(5)),
    "density, kernel": (density(method="kernel", lifetime=2.0), s.unit(9)),
    "density, directions": (density(directions=4, lifetime=2.0), s.times(0.125, s.unit(3))),
    "random cuts": (_of("RandomCutForest", 10, 256), s.holes(s.labelled(5))),
    "nearest": (_of("NearestNeighborDetector"), s.holes(s.labelled(5))),
    "alarms": (_of("Alarms"), s.labelled(3)),
    "isolation": (isolation(), s.holes(s.unit(5))),
    "isolation, scaled": (isolation(scale=True), s.labelled(54)),
    "isolation, words": (isolation(), s.text),
    "isolation trees": (trees, s.holes(s.unit(5))),
    "isolation trees, words": (trees, s.text),
    "mondrian": (mondrian(), s.late(s.holes(s.unit(5)))),
    "mondrian, directions": (mondrian(directions=6), s.unit(3)),
    "mondrian, random lifetime": (mondrian(stats.expon(scale=3.0)), s.unit(4)),
    "fourier": (fourier, s.late(s.unit(5))),
    "fourier, laplace": (_of("RandomFourierFeatures", 40, "laplace", 2.0), s.holes(s.unit(5))),
    "binning": (binning, s.unit(4)),
    "nystrom": (nystrom, s.text),
    "OGD, log, isolation": (_on("OGDClassifier", isolation(), loss="log"), s.unit(4)),
    "OGD, hinge, two classes": (_on("OGDClassifier", trees, loss="hinge"), s.unit(4, 2)),
    "OGD, ovr, late": (_on("OGDClassifier", mondrian(), multiclass="ovr"), s.late(s.unit(5, 40))),
    "OGD, constant steps": (_on("OGDClassifier", fourier, learning_rate=0.5), s.unit(4)),
    "OGD, default, words": (_of("OGDClassifier"), s.text),
    "OGD, auto": (_on("OGDClassifier", mondrian("auto")), s.unit(3)),
    "OGD targets": (_on("OGDRegressor", isolation()), s.targets(4)),
    "OGD targets, huber": (_on("OGDRegressor", mondrian("auto"), loss="huber"), s.targets(3)),
    "ridge, isolation": (_on("RidgeRegressor", isolation(), l2=0.1), s.targets(4)),
    "ridge, mondrian": (_on("RidgeRegressor", mondrian(1.0), window=300), s.targets(3)),
    "ridge, binning": (_on("RidgeRegressor", binning, max_columns=60), s.targets(3)),
    "dual": (_of("DualOGDClassifier", lifetime=2.0), s.unit(4)),
    "dual, words": (_of("DualOGDClassifier", lifetime=0.1), s.text),
}


def _densities(n: int) -> Iterable[Any]:
    rng = np.random.default_rng(1)
    X, x = rng.random((n, 3)), rng.random((n // 4, 3))
    return (rm.exact_density(X, x, lifetime) for lifetime in (0.5, 3.0, 40.0))


def _path(n: int) -> Iterable[Any]:
    rng, half = np.random.default_rng(1), n // 4
    X = rng.random((2 * half, 2))
    y = np.sin(6.0 * X[:, 0]) + 0.1 * rng.normal(size=len(X))
    parts = X[:half], y[:half], 8.0, X[half:], y[half:]
    path = rm.lifetime_path(*parts, n_partitions=8, l2=0.1, progress=False, seed=1)
    yield from (path.lifetimes, path.n_cells, path.log_marginal_likelihood, path.errors)
    yield path.weights


# Functions without a model, from a number of samples to results.
FUNCTIONS: dict[str, Callable[[int], Iterable[Any]]] = {
    "exact density": _densities,
    "lifetime path": _path,
}
# Configurations whose calls are timed.
TIMED = ("exact, 16 features, 26 classes", "exact, missing", "regressor", "regressor, mean")
TIMED += ("adaptive, 16 features, 26 classes", "adaptive targets", "density", "random cuts")
TIMED += ("nearest", "isolation", "isolation trees", "mondrian", "binning", "fourier", "nystrom")
TIMED += ("OGD, log, isolation", "OGD, default, words", "ridge, mondrian")

CALLS = ("predict_proba_one", "predict_one", "score_one", "log_density_one", "transform_one")
BATCHES = ("predict_proba_many", "predict_many", "log_density_many", "transform_many", "cells_many")


def flat(value: Any) -> Iterable[float]:
    """Return an output as numbers: None becomes NaN, and other objects become checksums."""
    if isinstance(value, Mapping):
        yield from flat(repr(list(value)))
        yield from (number for one in value.values() for number in flat(one))
    elif isinstance(value, PredictiveDistribution):
        y = value.mean + 0.3
        yield from (value.mean, value.var, value.cdf(y), value.log_pdf(y))
    elif isinstance(value, pd.DataFrame | pd.Series | np.ndarray):
        yield from (number for one in np.asarray(value).ravel().tolist() for number in flat(one))
    elif isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        yield float(value)
    else:
        yield math.nan if value is None else float(zlib.crc32(repr(value).encode()))


def answer(call: Callable[..., Any], *given: Any, **options: Any) -> list[float]:
    """Return the result of a call as numbers; an error becomes a checksum of its class."""
    try:
        return list(flat(call(*given, **options)))
    except (ValueError, KeyError, ArithmeticError, NotImplementedError) as error:
        return list(flat(type(error)))


def said(model: Any, x: Mapping[Any, Any]) -> list[float]:
    """Return all predictions for a sample."""
    found = []
    for call in (getattr(model, name) for name in CALLS if hasattr(model, name)):
        found += answer(call, x)
        if "with_dist" in inspect.signature(call).parameters:
            found += answer(call, x, with_dist=True)
    return found


def learner(model: Any) -> Callable[[Any, Any], None]:
    """Return the call that learns a sample and its label."""
    if "y" in inspect.signature(model.learn_one).parameters:
        learn: Callable[[Any, Any], None] = model.learn_one
        return learn
    return lambda x, y: model.learn_one(x)


def outputs(name: str, n: int) -> Array:
    """Return all outputs of a configuration as float64.

    Each sample is predicted and then learned. During the run, the model is pickled and copied,
    and resampled if it has `resample`. At the end, batches and distant samples are predicted.
    If the model has `to_dataframe`, the nodes of the first tree are read.
    """
    if name in FUNCTIONS:
        return np.array([number for one in FUNCTIONS[name](n) for number in flat(one)])
    make, of_length = CONFIGURATIONS[name]
    model, samples = make(), of_length(n)
    found: list[float] = []
    for i, (x, y) in enumerate(samples):
        if i == 4 * n // 10:
            model = copy.deepcopy(pickle.loads(pickle.dumps(model)))
        if i == 7 * n // 10 and hasattr(model, "resample"):
            model.resample()
        found += said(model, x)
        learner(model)(x, y)
    far = {k: 3.0 * v for k, v in samples[0][0].items() if isinstance(v, float)}
    for x in (far, {}, {"unknown": 1.0}):
        found += said(model, x)
    frame = pd.DataFrame([x for x, _ in samples[::5]])
    for batch in (getattr(model, each) for each in BATCHES if hasattr(model, each)):
        found += answer(batch, frame)
    if hasattr(model, "to_dataframe"):
        found += flat(model.to_dataframe(0))
    return np.array(found)
