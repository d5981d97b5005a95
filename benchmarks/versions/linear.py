"""Configurations of feature maps and of models on feature maps (see `forests`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from river import optim
from scipy import stats

from river_mondrian import (
    DualOGDClassifier,
    IsolationFeatures,
    MondrianFeatures,
    NystromFeatures,
    OGDClassifier,
    OGDRegressor,
    RandomBinningFeatures,
    RandomFourierFeatures,
    RidgeRegressor,
    lifetime_path,
)

from ..data import Array, Stream
from . import readings as r
from . import streams as s

Configuration = Callable[[int], Array]

DIRECTIONS = [{"x0": 1.0, "x1": 0.5}, {"x1": -1.0, "x2": 1.0}, {"x0": 0.7}]


def _anne(**arguments: Any) -> IsolationFeatures:
    return IsolationFeatures(
        **{"n_partitions": 20, "n_cells": 16, "pool_size": 256, "seed": 1} | arguments
    )


def _trees(**arguments: Any) -> IsolationFeatures:
    return _anne(method="iforest", **arguments)


def _mondrian(lifetime: Any = 3.0, **arguments: Any) -> MondrianFeatures:
    return MondrianFeatures(20, lifetime, seed=1, **arguments)


def _map(model: Any, samples: Stream, say: r.Say = r.cells, **steps: Any) -> Array:
    points = [x for x, _ in samples[: len(samples) // 8]]

    def kernels(model: Any) -> Iterable[float]:
        outputs = [model.kernel(x, y) for x, y in zip(points, points[::-1], strict=True)]
        return outputs if hasattr(model, "kernel") else []

    end = kernels if hasattr(model, "cells_one") else (lambda model: [])
    return r.run(model, samples, say, steps.get("steps"), end, supervised=False)


def _map_frames(model: Any, samples: Stream) -> Array:
    model.learn_many(r.frame(samples)[0])
    X = r.frame(samples[::3])[0]
    matrix = model.to_csr(X)
    found = [*matrix.data, *matrix.indices, *matrix.indptr, *model.gram(X[:50], X[50:]).ravel()]
    return np.array([*map(float, found), *r.as_array(model.transform_many(X))])


MAPS: dict[str, Configuration] = {
    "isolation, anne": lambda n: _map(_anne(), s.unit(n, 5)),
    "isolation, anne, scaled": lambda n: _map(_anne(scale=True), s.labelled(n, 9)),
    "isolation, anne, a pool of 1,024": lambda n: _map(
        _anne(n_cells=64, pool_size=1024), s.unit(2 * n, 3)
    ),
    "isolation, anne, 54 features": lambda n: _map(_anne(scale=True), s.wide(n)),
    "isolation, anne, text": lambda n: _map(_anne(), s.text(n)),
    "isolation, anne, missing": lambda n: _map(_anne(), s.holes(s.unit(n, 5))),
    "isolation, anne, frames": lambda n: _map_frames(_anne(), s.unit(n, 5)),
    "isolation, trees": lambda n: _map(_trees(), s.unit(n, 5)),
    "isolation, trees, scaled, missing": lambda n: _map(
        _trees(scale=True), s.holes(s.labelled(n, 5))
    ),
    "isolation, trees, text": lambda n: _map(_trees(), s.text(n)),
    "isolation, trees, frames": lambda n: _map_frames(_trees(), s.unit(n, 5)),
    "isolation, pickled and copied": lambda n: _map(
        _anne(), s.unit(n, 4), steps={0.1: r.pickled, 0.5: r.copied, 0.6: r.pickled}
    ),
    "mondrian": lambda n: _map(_mondrian(), s.unit(n, 4)),
    "mondrian, missing, late features": lambda n: _map(
        _mondrian(), s.late_features(s.holes(s.unit(n, 5)))
    ),
    "mondrian, directions": lambda n: _map(_mondrian(directions=6), s.unit(n, 3)),
    "mondrian, given directions": lambda n: _map(_mondrian(directions=DIRECTIONS), s.unit(n, 3)),
    "mondrian, lifetime from a distribution": lambda n: _map(
        _mondrian(stats.expon(scale=3.0)), s.unit(n, 4), steps={0.5: r.pickled}
    ),
    "mondrian, frames": lambda n: _map_frames(_mondrian(), s.unit(n, 4)),
    "binning": lambda n: _map(RandomBinningFeatures(20, 2.0, seed=1), s.unit(n, 4)),
    "binning, frames": lambda n: _map_frames(RandomBinningFeatures(20, 2.0, seed=1), s.unit(n, 4)),
    "fourier, gaussian": lambda n: _map(RandomFourierFeatures(40, seed=1), s.unit(n, 5), r.mapped),
    "fourier, laplace, late features": lambda n: _map(
        RandomFourierFeatures(40, "laplace", 2.0, seed=1),
        s.late_features(s.holes(s.unit(n, 5))),
        r.mapped,
    ),
    "fourier, frames": lambda n: _map_frames(RandomFourierFeatures(40, seed=1), s.unit(n, 5)),
    "nystrom, laplace": lambda n: _map(NystromFeatures(60), s.unit(n, 5), r.mapped),
    "nystrom, gaussian, text": lambda n: _map(
        NystromFeatures(60, 10, "gaussian", gamma=0.05), s.text(n), r.mapped
    ),
    "nystrom, frames": lambda n: _map_frames(NystromFeatures(60), s.unit(n, 5)),
}


def _shares(model: Any) -> Iterable[float]:
    return [part for pair in model.lifetimes.items() for part in pair]


def _classify(features: Any, samples: Stream, say: r.Say = r.both, **arguments: Any) -> Array:
    steps, weights = arguments.pop("steps", None), arguments.pop("weights", None)
    model = OGDClassifier(features, **{"loss": "log", "seed": 1} | arguments)
    return r.run(model, samples, say, steps, _shares, weights)


def _classify_frames(features: Any, samples: Stream, weights: Any = None) -> Array:
    def say(model: Any, X: Any) -> list[Any]:
        return [model.predict_proba_many(X), model.predict_many(X)]

    return r.run_frames(OGDClassifier(features, loss="log"), samples, say, weights=weights)


def _regress(features: Any, samples: Stream, **arguments: Any) -> Array:
    steps, weights = arguments.pop("steps", None), arguments.pop("weights", None)
    model = OGDRegressor(features, **{"seed": 1} | arguments)
    return r.run(model, samples, r.label, steps, _shares, weights)


OGD: dict[str, Configuration] = {
    "hinge": lambda n: _classify(None, s.unit(2 * n, 4, 2), r.label, loss="hinge"),
    "log": lambda n: _classify(_anne(), s.unit(n, 4, 2)),
    "log, True and False": lambda n: _classify(
        _anne(), s.relabelled(s.unit(n, 4, 2), [True, False])
    ),
    "softmax, 5 classes": lambda n: _classify(_anne(), s.unit(n, 5, 5)),
    "softmax, late classes": lambda n: _classify(_anne(), s.late_classes(s.unit(n, 5, 40))),
    "one against the rest, 5 classes": lambda n: _classify(
        _anne(), s.unit(n, 5, 5), multiclass="ovr"
    ),
    "hinge, one against the rest": lambda n: _classify(
        _anne(), s.unit(n, 5, 5), r.label, loss="hinge", multiclass="ovr"
    ),
    "constant steps": lambda n: _classify(_anne(), s.unit(n, 4, 2), learning_rate=0.5),
    "SGD with a schedule, weights": lambda n: _classify(
        _anne(),
        s.unit(n, 4),
        learning_rate=optim.SGD(optim.schedulers.InverseScaling(0.5)),
        weights=s.weights(n),
    ),
    "a loss of River's": lambda n: _classify(
        _anne(), s.unit(n, 4, 2), r.label, loss=optim.losses.Hinge(0.5)
    ),
    "isolation trees": lambda n: _classify(_trees(), s.unit(n, 4)),
    "isolation, text": lambda n: _classify(_anne(), s.text(n)),
    "mondrian": lambda n: _classify(_mondrian(), s.unit(n, 4)),
    "mondrian, auto": lambda n: _classify(_mondrian("auto"), s.unit(n, 3)),
    "mondrian, auto, hinge, two classes": lambda n: _classify(
        _mondrian("auto"), s.holes(s.unit(n, 3, 2), 0.1), r.label, loss="hinge"
    ),
    "fourier": lambda n: _classify(RandomFourierFeatures(40, seed=1), s.unit(n, 4)),
    "binning": lambda n: _classify(RandomBinningFeatures(20, 2.0, seed=1), s.unit(n, 4, 2)),
    "nystrom": lambda n: _classify(NystromFeatures(60), s.unit(n, 4)),
    "pickled and copied": lambda n: _classify(
        _anne(), s.unit(n, 4), steps={0.1: r.pickled, 0.3: r.copied, 0.8: r.pickled}
    ),
    "frames": lambda n: _classify_frames(_anne(), s.unit(n, 4)),
    "frames, mondrian, weights": lambda n: _classify_frames(
        _mondrian(), s.unit(n, 4), s.weights(n)
    ),
    "squared": lambda n: _regress(_anne(), s.targets(n, 4)),
    "epsilon-insensitive, weights": lambda n: _regress(
        _anne(), s.targets(n, 4), loss="epsilon_insensitive", weights=s.weights(n)
    ),
    "huber, mondrian": lambda n: _regress(_mondrian(), s.targets(n, 4), loss="huber"),
    "squared, mondrian, auto": lambda n: _regress(
        _mondrian("auto"), s.targets(n, 3), steps={0.1: r.pickled, 0.6: r.pickled}
    ),
    "squared, fourier, constant steps": lambda n: _regress(
        RandomFourierFeatures(40, seed=1), s.targets(n, 4), learning_rate=0.2
    ),
}


def _ridge(features: Any, samples: Stream, **arguments: Any) -> Array:
    steps, weights = arguments.pop("steps", None), arguments.pop("weights", None)
    model = RidgeRegressor(features, **{"l2": 0.1, "seed": 1} | arguments)

    def end(model: Any) -> Iterable[float]:
        return [model.log_marginal_likelihood, model.n_columns]

    return r.run(model, samples, r.dist, steps, end, weights)


def _ridge_frames(n: int) -> Array:
    def say(model: Any, X: Any) -> list[Any]:
        return [model.predict_many(X), model.predict_many(X, with_dist=True)]

    return r.run_frames(RidgeRegressor(_mondrian(2.0)), s.targets(n, 3), say)


RIDGE: dict[str, Configuration] = {
    "isolation": lambda n: _ridge(_anne(n_partitions=8, n_cells=8), s.targets(n, 4)),
    "mondrian, weights": lambda n: _ridge(
        _mondrian(2.0), s.targets(n // 2, 3), weights=s.weights(n // 2)
    ),
    "fourier, given noise": lambda n: _ridge(
        RandomFourierFeatures(40, seed=1), s.targets(n, 4), noise_variance=0.05
    ),
    "nystrom, no intercept, pickled": lambda n: _ridge(
        NystromFeatures(60), s.targets(n, 4), fit_intercept=False, steps={0.6: r.pickled}
    ),
    "binning, few columns": lambda n: _ridge(
        RandomBinningFeatures(10, 2.0, seed=1), s.targets(n, 3), max_columns=60
    ),
    "frames": lambda n: _ridge_frames(n // 2),
}


DUAL: dict[str, Configuration] = {
    "laplace": lambda n: r.run(
        DualOGDClassifier(lifetime=2.0), s.unit(n, 4), r.decision, {0.5: r.pickled}
    ),
    "gaussian, two classes": lambda n: r.run(
        DualOGDClassifier("gaussian", gamma=3.0), s.unit(n, 4, 2), r.decision
    ),
    "laplace, text, weights": lambda n: r.run(
        DualOGDClassifier(lifetime=0.1), s.text(n), r.decision, weights=s.weights(n)
    ),
    "isolation, late classes": lambda n: r.run(
        DualOGDClassifier(_anne()), s.late_classes(s.unit(n, 4, 5)), r.decision
    ),
}


def _path(n: int, **arguments: Any) -> Array:
    rng = np.random.default_rng(1)
    X = rng.random((n, 2))
    y = np.sin(6.0 * X[:, 0]) + 0.1 * rng.normal(size=n)
    a, b = n // 2, 3 * n // 4
    path = lifetime_path(
        *(X[:a], y[:a], 8.0, X[a:b], y[a:b], X[b:], y[b:]),
        **{"n_partitions": 8, "l2": 0.1, "progress": False, "seed": 1} | arguments,
    )
    parts = [path.lifetimes, path.n_cells, path.log_marginal_likelihood]
    parts += [path.cuts[name] for name in ("partition", "cell", "feature", "threshold")]
    parts += [values for errors in path.errors.values() for values in errors.values()]
    parts += list(path.weights.values())
    if path.test_prediction is not None:
        parts.append(path.test_prediction)
    return np.concatenate([np.asarray(part, dtype=float).ravel() for part in parts])


PATH: dict[str, Configuration] = {
    "all learners": lambda n: _path(n // 4, prior=stats.expon(scale=3.0)),
    "ridge, given noise": lambda n: _path(
        n // 3, learners=("ridge",), noise_variance=0.01, cuts_per_step=5
    ),
    "forest and descent, few visits": lambda n: _path(
        n // 2, learners=("sgd", "forest"), sgd_passes=0.3, cuts_per_step=3
    ),
}

GROUPS = {"map": MAPS, "OGD": OGD, "ridge": RIDGE, "dual": DUAL, "path": PATH}
