"""Configurations of the forests, whose predictions are compared between versions.

Each configuration takes a number of samples and returns all outputs of the model as float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from river import drift
from scipy import stats

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    DensityForest,
    MondrianForestClassifier,
    MondrianForestRegressor,
    exact_density,
)

from ..data import Array, Stream
from . import readings as r
from . import streams as s

Configuration = Callable[[int], Array]

DIRECTIONS = [{"x0": 1.0, "x1": 0.5}, {"x1": -1.0, "x2": 1.0}, {"x0": 0.7}, {"x2": 0.3}]
FLAT = [{"x0": 1.0, "x1": 1.0}, {"x0": 1.0, "x1": -1.0}, {"x1": 1.5}]
LABELS = ["a", ("b", 1), 2, 3.5, True, frozenset({"c"}), b"d"]


def _classifier(samples: Stream, say: r.Say = r.proba, **arguments: Any) -> Array:
    steps, end = arguments.pop("steps", None), arguments.pop("end", lambda model: [])
    model = MondrianForestClassifier(**{"n_estimators": 5, "seed": 1} | arguments)
    return r.run(model, samples, say, steps, end)


def _classify_frames(samples: Stream, make: Callable[[Any], Any], **arguments: Any) -> Array:
    model = MondrianForestClassifier(n_estimators=5, seed=1, **arguments)
    return r.run_frames(model, samples, _many, make)


def _many(model: Any, X: Any) -> list[Any]:
    return [model.predict_proba_many(X), model.predict_many(X)]


def _same(X: Any) -> Any:
    return X


def _polars(X: Any) -> Any:
    return pl.from_pandas(X.reset_index(drop=True))


def _arrow(X: Any) -> Any:
    return _polars(X).to_arrow()


def _odd(n: int) -> Stream:
    """Return samples with constant, huge, tiny, integer and sparse features, some repeated."""
    samples = s.labelled(n, 3)
    return [
        (
            {
                "constant": 7.0,
                "huge": x["x0"] * 1e30,
                "tiny": x["x1"] * 1e-30,
                "whole": float(round(10.0 * x["x2"])),
                "rare": float(i % 97 == 0),
            },
            y,
        )
        for i, (x, y) in enumerate(sample for sample in samples for _ in (0, 1))
    ][:n]


EXACT: dict[str, Configuration] = {
    "1 feature": lambda n: _classifier(s.labelled(n, 1)),
    "2 features": lambda n: _classifier(s.labelled(n, 2), n_estimators=10),
    "3 features, ties": lambda n: _classifier(s.labelled(n, 3, decimals=1)),
    "7 features": lambda n: _classifier(s.labelled(n, 7)),
    "8 features": lambda n: _classifier(s.labelled(n, 8), r.both),
    "9 features": lambda n: _classifier(s.labelled(n, 9)),
    "16 features, 26 classes": lambda n: _classifier(s.labelled(n, 16, 26)),
    "54 features, 7 classes": lambda n: _classifier(s.wide(n)),
    "100 trees": lambda n: _classifier(s.labelled(n // 2, 4), n_estimators=100),
    "1 tree": lambda n: _classifier(s.labelled(n, 4), n_estimators=1),
    "pure blocks split": lambda n: _classifier(s.labelled(n, 5), split_pure=True),
    "lifetime 4": lambda n: _classifier(s.labelled(n, 5), lifetime=4.0),
    "lifetime 4, pure blocks split": lambda n: _classifier(
        s.labelled(n, 5), lifetime=4.0, split_pure=True
    ),
    "lifetime from a distribution": lambda n: _classifier(
        s.labelled(n, 5), lifetime=stats.expon(scale=5.0)
    ),
    "lifetime 0": lambda n: _classifier(s.labelled(n // 2, 5), lifetime=0.0),
    "gamma 3": lambda n: _classifier(s.labelled(n, 5), prior_rate=3.0),
    "max_nodes 101": lambda n: _classifier(s.labelled(n, 5), max_nodes=101),
    "max_nodes 31, missing": lambda n: _classifier(s.holes(s.labelled(n, 5)), max_nodes=31),
    "not scaled": lambda n: _classifier(s.unit(n, 5), scale=False),
    "12 random directions": lambda n: _classifier(s.labelled(n, 5), directions=12, end=r.trees),
    "given directions": lambda n: _classifier(
        s.labelled(n, 3), directions=DIRECTIONS, lifetime=20.0, end=r.trees
    ),
    "directions, missing, late features": lambda n: _classifier(
        s.late_features(s.holes(s.labelled(n, 4), 0.15)), directions=6
    ),
    "directions, not scaled, max_nodes": lambda n: _classifier(
        s.unit(n, 3), directions=DIRECTIONS, scale=False, max_nodes=61
    ),
    "missing": lambda n: _classifier(s.holes(s.labelled(n, 5))),
    "missing, lifetime 6": lambda n: _classifier(s.holes(s.labelled(n, 5)), lifetime=6.0),
    "missing, 16 features, 26 classes": lambda n: _classifier(s.holes(s.labelled(n, 16, 26))),
    "mostly missing": lambda n: _classifier(s.holes(s.labelled(n, 20), 0.9)),
    "late features": lambda n: _classifier(s.late_features(s.labelled(n, 9))),
    "late classes": lambda n: _classifier(s.late_classes(s.labelled(n, 4, 12))),
    "40 classes": lambda n: _classifier(s.labelled(n, 6, 40)),
    "90 classes, late": lambda n: _classifier(s.late_classes(s.labelled(n, 6, 90))),
    "one class first": lambda n: _classifier(s.one_class_first(s.labelled(n, 5))),
    "one class, lifetime 5": lambda n: _classifier(
        s.one_class_first(s.labelled(n, 5)), lifetime=5.0
    ),
    "resampled": lambda n: _classifier(
        s.labelled(n, 5), steps={0.2: r.resampled, 0.7: r.resampled}
    ),
    "resampled, missing": lambda n: _classifier(
        s.holes(s.labelled(n, 5)), steps={0.7: r.resampled}
    ),
    "pickled and copied": lambda n: _classifier(
        s.labelled(n, 5), steps={0.1: r.pickled, 0.5: r.copied, 0.8: r.pickled}
    ),
    "trees as read": lambda n: _classifier(s.labelled(n, 5), end=r.trees),
    "trees as read, missing, resampled": lambda n: _classifier(
        s.holes(s.labelled(n, 5)), steps={0.9: r.resampled}, end=r.trees
    ),
    "labels of all kinds": lambda n: _classifier(
        s.relabelled(s.labelled(n, 4, len(LABELS)), LABELS), r.both
    ),
    "labels True and False": lambda n: _classifier(
        s.relabelled(s.labelled(n, 4, 2), [True, False]), r.both
    ),
    "odd features": lambda n: _classifier(_odd(n)),
    "frames, pandas": lambda n: _classify_frames(s.labelled(n, 5), _same),
    "frames, two threads": lambda n: _classify_frames(s.labelled(n, 16, 26), _same, n_jobs=2),
    "frames, polars, missing": lambda n: _classify_frames(s.holes(s.labelled(n, 5)), _polars),
    "frames, arrow, directions": lambda n: _classify_frames(
        s.labelled(n, 4), _arrow, directions=8, n_jobs=2
    ),
}


def _regressor(samples: Stream, say: r.Say = r.label, **arguments: Any) -> Array:
    steps, end = arguments.pop("steps", None), arguments.pop("end", _hyperparameters)
    weights = arguments.pop("weights", None)
    model = MondrianForestRegressor(**{"n_estimators": 5, "seed": 1} | arguments)
    return r.run(model, samples, say, steps, end, weights)


def _hyperparameters(model: Any) -> Iterable[float]:
    return [*model.hyperparameters.values(), *model.tail_weights.values()]


def _regress_frames(samples: Stream, weights: list[float] | None = None, **kwargs: Any) -> Array:
    model = MondrianForestRegressor(n_estimators=5, seed=1, n_jobs=2, **kwargs)

    def say(model: Any, X: Any) -> list[Any]:
        return [model.predict_many(X), model.predict_many(X, with_dist=True)]

    return r.run_frames(model, samples, say, weights=weights)


REGRESSOR: dict[str, Configuration] = {
    "gaussian": lambda n: _regressor(s.targets(n, 5), r.dist),
    "gaussian, mixtures": lambda n: _regressor(s.targets(n, 3), r.mixture),
    "gaussian, normal tails": lambda n: _regressor(s.targets(n, 5), r.dist, tails="normal"),
    "gaussian, given hyperparameters": lambda n: _regressor(
        s.targets(n, 4), r.dist, prior_variance=1.0, prior_rate=0.1, noise_variance=0.05
    ),
    "gaussian, lifetime 5": lambda n: _regressor(s.targets(n, 4), r.dist, lifetime=5.0),
    "gaussian, weights": lambda n: _regressor(
        s.targets(n, 4), r.dist, weights=s.weights(n), tails="learned"
    ),
    "gaussian, large targets": lambda n: _regressor(s.targets(n, 4, scale=1e6), r.dist),
    "gaussian, missing, late features": lambda n: _regressor(
        s.late_features(s.holes(s.targets(n, 6))), r.dist
    ),
    "gaussian, max_nodes": lambda n: _regressor(s.targets(n, 4), r.dist, max_nodes=101),
    "gaussian, directions": lambda n: _regressor(
        s.targets(n, 3), r.dist, directions=DIRECTIONS, end=r.trees
    ),
    "gaussian, 21 features, not scaled": lambda n: _regressor(
        s.targets(n, 21), r.dist, scale=False
    ),
    "gaussian, blocks of 10": lambda n: _regressor(s.targets(n, 4), min_samples_split=10),
    "gaussian, trees as read": lambda n: _regressor(
        s.targets(n, 4),
        steps={0.4: r.pickled, 0.6: r.resampled, 0.8: r.copied},
        end=r.trees,
    ),
    "gaussian, frames": lambda n: _regress_frames(s.holes(s.targets(n, 4), 0.1)),
    "gaussian, frames, weights": lambda n: _regress_frames(s.targets(n, 4), s.weights(n)),
    "mean": lambda n: _regressor(s.targets(n, 5), posterior="mean"),
    "mean, missing": lambda n: _regressor(s.holes(s.targets(n, 5)), posterior="mean"),
    "mean, lifetime 4, weights": lambda n: _regressor(
        s.targets(n, 5), posterior="mean", lifetime=4.0, weights=s.weights(n)
    ),
    "mean, lifetime from a distribution": lambda n: _regressor(
        s.targets(n, 3), posterior="mean", lifetime=stats.gamma(3.0)
    ),
    "mean, lifetime that grows": lambda n: _regressor(
        s.targets(n, 3), posterior="mean", lifetime=partial(_grown, 1 / 5)
    ),
    "mean, lifetime that grows, directions": lambda n: _regressor(
        s.targets(n, 3), posterior="mean", lifetime=partial(_grown, 1 / 3), directions=5
    ),
    "mean, max_nodes, blocks of 5": lambda n: _regressor(
        s.targets(n, 5), posterior="mean", max_nodes=101, min_samples_split=5
    ),
    "mean, trees as read": lambda n: _regressor(
        s.targets(n, 4), posterior="mean", steps={0.5: r.pickled}, end=r.trees
    ),
    "mean, frames": lambda n: r.run_frames(
        MondrianForestRegressor(5, posterior="mean", seed=1),
        s.targets(n, 4),
        lambda model, X: [model.predict_many(X)],
    ),
}


def _grown(power: float, n: int) -> float:
    return 2.0 * math.pow(n, power)


def _adaptive(samples: Stream, say: r.Say = r.proba, **arguments: Any) -> Array:
    steps = arguments.pop("steps", None)
    model = AdaptiveMondrianForestClassifier(**{"n_estimators": 5, "seed": 1} | arguments)
    return r.run(model, samples, say, steps, _found)


def _found(model: Any) -> Iterable[Any]:
    drifts = [number for drift in model.drift_log for number in drift]
    gains = model._trees.gains.ravel().tolist()
    return [*model.expert_weights.values(), *gains, *drifts, *r.trees(model)]


ADAPTIVE: dict[str, Configuration] = {
    "2 features": lambda n: _adaptive(s.labelled(n, 2, 2), n_estimators=10),
    "8 features": lambda n: _adaptive(s.labelled(n, 8), r.both),
    "16 features, 26 classes": lambda n: _adaptive(s.labelled(n, 16, 26)),
    "54 features, 7 classes": lambda n: _adaptive(s.wide(n)),
    "40 classes": lambda n: _adaptive(s.labelled(n, 5, 40)),
    "80 classes, late": lambda n: _adaptive(s.late_classes(s.labelled(n, 5, 80))),
    "missing": lambda n: _adaptive(s.holes(s.labelled(n, 6))),
    "late features": lambda n: _adaptive(s.late_features(s.labelled(n, 6))),
    "drift": lambda n: _adaptive(s.swapped(s.labelled(2 * n, 5, 4))),
    "drift, another detector": lambda n: _adaptive(
        s.swapped(s.labelled(2 * n, 5)), drift_detector=drift.PageHinkley(threshold=10.0)
    ),
    "no detector": lambda n: _adaptive(s.swapped(s.labelled(n, 5)), drift_detector=drift.NoDrift()),
    "window": lambda n: _adaptive(s.labelled(3 * n, 4), window=1000, n_estimators=3),
    "max_bytes": lambda n: _adaptive(s.labelled(2 * n, 4), max_bytes=400_000),
    "no change": lambda n: _adaptive(s.sticky(s.labelled(n, 4)), autoregressive=True),
    "1 candidate": lambda n: _adaptive(s.labelled(n, 5), n_candidates=1),
    "not scaled, 2 trees": lambda n: _adaptive(s.unit(n, 5), n_estimators=2, scale=False),
    "recent trees": lambda n: _adaptive(s.labelled(3 * n, 3), n_estimators=4),
    "odd features": lambda n: _adaptive(_odd(n)),
    "labels of all kinds": lambda n: _adaptive(
        s.relabelled(s.labelled(n, 4, len(LABELS)), LABELS), r.both
    ),
    "pickled, copied, resampled": lambda n: _adaptive(
        s.labelled(n, 5), steps={0.1: r.pickled, 0.45: r.copied, 0.7: r.resampled, 0.8: r.pickled}
    ),
    "frames": lambda n: r.run_frames(
        AdaptiveMondrianForestClassifier(5, seed=1), s.holes(s.labelled(n, 4), 0.1), _many
    ),
}


def _density(samples: Stream, steps: Mapping[float, r.Step] | None = None, **kwargs: Any) -> Array:
    model = DensityForest(**{"n_estimators": 10, "seed": 1} | kwargs)
    return r.run(model, samples, r.density, steps, supervised=False)


def _exact_density(n: int) -> Array:
    rng = np.random.default_rng(1)
    X, x = rng.random((n, 3)), rng.random((n // 4, 3))
    return np.concatenate([exact_density(X, x, lifetime) for lifetime in (0.5, 3.0, 40.0)])


def _density_frames(model: Any, X: Any) -> list[Any]:
    return [model.log_density_many(X), model.density_many(X)]


DENSITY: dict[str, Configuration] = {
    "default lifetime": lambda n: _density(s.unit(n, 3)),
    "1 feature": lambda n: _density(s.unit(n, 1), lifetime=20.0),
    "lifetime 3": lambda n: _density(s.unit(n, 4), lifetime=3.0),
    "lifetime from a distribution": lambda n: _density(
        s.unit(n, 2), lifetime=stats.gamma(4.0), n_estimators=20
    ),
    "lifetime that grows": lambda n: _density(
        s.unit(n, 2), lifetime=partial(_grown, 1 / 3), steps={0.5: r.pickled}
    ),
    "laplace": lambda n: _density(s.unit(n, 5), method="laplace", lifetime=3.0),
    "kernel": lambda n: _density(s.unit(n, 9), method="kernel", lifetime=2.0),
    "missing, late features": lambda n: _density(
        s.late_features(s.holes(s.unit(n, 5))), lifetime=2.0
    ),
    "given directions": lambda n: _density(
        s.unit(n // 4, 2), directions=FLAT, lifetime=3.0, n_estimators=3
    ),
    "random directions": lambda n: _density(
        s.unit(n // 8, 3), directions=4, lifetime=2.0, n_estimators=2
    ),
    "pickled and copied": lambda n: _density(
        s.unit(n, 3), lifetime=4.0, steps={0.3: r.pickled, 0.6: r.copied}
    ),
    "frames": lambda n: r.run_frames(
        DensityForest(10, seed=1), s.unit(n, 3), _density_frames, supervised=False
    ),
    "closed form": _exact_density,
}

GROUPS = {"exact": EXACT, "regressor": REGRESSOR, "adaptive": ADAPTIVE, "density": DENSITY}
