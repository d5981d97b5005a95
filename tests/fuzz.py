"""Call all public estimators except wrappers with random events.

Also call two public functions with random arrays. Only documented errors may be raised.

With `RIVER_MONDRIAN_CHECKS=1` a wrong index inside a kernel raises an error.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from common import fed, has_probabilities, restored
from river import base, drift
from scipy import stats

import river_mondrian as rm

STRANGE = [math.nan, math.inf, -math.inf, 1e38, -1e38, 1e39, 1e-45, "text", None, 10**400, [], 1j]
NAMES = ["a", "b", "c", "d", 1, (2, 3), "late", "later"]
FOREST_CLASSIFIERS = (rm.MondrianForestClassifier, rm.AdaptiveMondrianForestClassifier)
FORESTS = (*FOREST_CLASSIFIERS, rm.MondrianForestRegressor, rm.AdaptiveMondrianForestRegressor)
# Supervised forests from which samples can be removed.
EXACT = (rm.MondrianForestClassifier, rm.MondrianForestRegressor)
CELL_MAPS = (rm.IsolationFeatures, rm.MondrianFeatures, rm.RandomBinningFeatures)
MAPS = (*CELL_MAPS, rm.NystromFeatures, rm.RandomFourierFeatures)
# Classes that store some of the samples.
HOLDERS = (rm.NearestNeighborDetector, rm.RandomCutForest)
UNSUPERVISED = (*MAPS, rm.Alarms, rm.DensityForest, *HOLDERS)

Random = random.Random
Row = dict[Any, Any]


# Values of arguments. Arguments in `SIZES` are always drawn, and other arguments are sometimes
# drawn.
SIZES = {"n_estimators": [1, 2, 5], "n_candidates": [1, 5, 20], "n_partitions": [1, 5, 20]}
SIZES |= {"n_cells": [2, 4], "pool_size": [4, 64, 200], "n_landmarks": [2, 5, 20]}
SIZES |= {"n_components": [None, 1, 2, 20]}
CHOICES = SIZES | {
    "lifetime": [math.inf, 0.0, 0.5, 5.0, 20.0, stats.gamma(2.0), math.sqrt, None, "auto"],
    "max_nodes": [None, None, 1, 7, 101],
    "max_bytes": [None, 1, 400_000],
    "max_columns": [50, 2000],
    "max_samples": [512, 1, 15],
    "window": [None, None, 1, 20, 300, 1000],
    "shingle": [1, 1, 4],
    "directions": [None, None, 1, 5, [{"a": 1.0, "b": -2.0}, {"late": 1e-3, 1: 5.0}]],
    **dict.fromkeys(["scale", "rescale"], (True, True, False)),
    **dict.fromkeys(
        ["split_pure", "autoregressive", "fit_intercept", "skip_anomalies"], (False, True)
    ),
    "missing": ["unknown", "zero"],
    "n_jobs": [1, 2],
    "drift_detector": [None, drift.NoDrift(), drift.PageHinkley(threshold=3)],
    "posterior": ["gaussian", "mean"],
    "prior_rate": [None, 1e-6, 1e-3, 10.0, 1e6],
    "prior_variance": [None, 1e-3],
    "noise_variance": [None, 1e-9, 0.1, 1e9],
    "min_samples_split": [2, 3, 10],
    "loss": ["absolute", "squared", "hinge", "log", "huber", "epsilon_insensitive"],
    "multiclass": ["softmax", "ovr"],
    "learning_rate": [0.1, 1.0],
    "l2": [1e-6, 0.01, 1.0],
    "method": [None, "forest", "laplace", "kernel", "anne", "iforest"],
    "kernel": ["laplace", "gaussian"],
    "n_neighbors": [1, 4, 16],
    "every": [1, 50, 10_000],
    "spacing": [1, 1, 3],
    "grace_period": [16, 40],
    "kinds": [["inputs", "labels", "relation"], ["inputs"], ["relation"]],
}


def drawn(cls: Any, rng: Random) -> Any:
    """Draw a model of a class; contradictory arguments are drawn again."""
    names = inspect.signature(cls).parameters
    while True:
        given = {
            name: rng.choice(CHOICES[name])
            for name in names
            if name in SIZES or (name in CHOICES and rng.random() < 0.5)
        }
        if "features" in names:
            given["features"] = drawn(rng.choice(MAPS), rng)
        if cls is rm.DualOGDClassifier and rng.random() < 0.3:
            given["kernel"] = drawn(rm.IsolationFeatures, rng)
        if "seed" in names:
            given["seed"] = rng.randrange(1000)
        with contextlib.suppress(TypeError, ValueError):
            return cls(**given)


# The largest number of events of a model, which bounds the time; other classes have 400.
MOST = dict.fromkeys(FORESTS, 3000) | dict.fromkeys(HOLDERS, 1000)
MOST |= {rm.DensityForest: 100, rm.DualOGDClassifier: 100}
CLASSES = [
    cls
    for name in rm.__all__
    if isinstance(cls := getattr(rm, name), type)
    and issubclass(cls, base.Estimator)
    # Wrappers are excluded, because they have no kernels.
    and not issubclass(cls, base.Wrapper)
]


# Events.


def categories_of(model: Any, rng: Random) -> set[Any]:
    """Draw the names of categorical features, if a model accepts categories."""
    features = getattr(model, "features", None)
    own = features if isinstance(features, rm.MondrianFeatures) else model
    takes_levels = isinstance(own, (*FORESTS, rm.MondrianFeatures, *HOLDERS))
    has_directions = getattr(own, "directions", None) is not None
    return set(rng.sample(NAMES, rng.randrange(4)) if takes_levels and not has_directions else ())


def draw_sample(
    rng: Random, n_names: int, n_labels: int, categories: set[Any], units: Row
) -> tuple[Row, Any]:
    x: Row = {}
    for name in NAMES[:n_names]:
        chance = rng.random()
        if chance < 0.85 and name in categories:
            x[name] = rng.choice(["red", "blue", "", True, False, f"{rng.randrange(1000)}"])
        elif chance < 0.85:
            x[name] = units.get(name, 1.0) * rng.choice([rng.gauss(0.0, 1.0), rng.randrange(3)])
        elif chance < 0.851:
            x[name] = rng.choice(STRANGE)
        elif chance < 0.9:
            x[name] = math.nan
    if rng.random() < 0.002:
        # The unit of a feature changes, which renews its width.
        units[rng.choice(NAMES)] = rng.choice([1e-3, 1.0, 50.0])
    y = rng.randrange(n_labels)
    if rng.random() < 0.001:
        return x, rng.choice([None, math.nan, [], {}, "text", 1e300])
    return x, y


# Weights of the samples of some models.
WEIGHTS = (1.0, 1.0, 0.0, 0.3, 2, 1e-20, 7.5, 1e25)


def learn(model: Any, x: Row, y: Any) -> None:
    y = bool(y) if isinstance(model, rm.DualOGDClassifier) and y is not None else y
    fed(model, [(x, y, weight_of(model, x))])


def weight_of(model: Any, x: Row) -> float:
    """Return the weight with which a model learns a sample; it is 1 for most models."""
    is_weighted = isinstance(model, FOREST_CLASSIFIERS) and model.n_estimators % 2 == 0
    return WEIGHTS[len(repr(x)) % len(WEIGHTS)] if is_weighted else 1.0


def forget(model: Any, sample: tuple[Row, Any]) -> None:
    """Remove a sample from a model that has learned it."""
    x, y = sample
    w = weight_of(model, x)
    try:
        model.forget_one(x, *(() if isinstance(model, HOLDERS) else (y, w)))
    except KeyError:
        # The sample has left the window, or it is stored in another form.
        is_held = not isinstance(model, rm.NearestNeighborDetector) and model.window is None
        assert not is_held or w == 0.0 or model.directions is not None, sample


def can_forget(model: Any) -> bool:
    """Return whether samples may be removed from a model."""
    if isinstance(model, HOLDERS):
        return bool(model.shingle == 1)
    return isinstance(model, EXACT) and model.max_nodes is None


def learn_block(model: Any, samples: list[tuple[Row, Any]]) -> None:
    frame = pd.DataFrame([x for x, _ in samples])
    if hasattr(model, "learn_many"):
        y = [] if isinstance(model, UNSUPERVISED) else [[y for _, y in samples]]
        model.learn_many(frame, *y)


def assert_probabilities(p: dict[Any, float]) -> None:
    assert not p or math.isclose(sum(p.values()), 1.0, abs_tol=1e-9), p
    assert all(0.0 <= value <= 1.0 for value in p.values()), p


def check(model: Any, x: Row, rng: Random) -> None:
    """Check the results of a model for a sample that it has just learned."""
    if isinstance(model, MAPS):
        mapped = model.transform_one(x)
        assert all(map(math.isfinite, mapped.values()))
        if isinstance(model, CELL_MAPS) and mapped:
            assert min(mapped.values()) > 0.0
            assert 0.0 <= model.kernel(x, x) <= 1.0 + 1e-9
    elif isinstance(model, rm.DriftMonitor):
        assert all(max(one.began, one.sample) <= model.n_samples for one in model.log)
        assert all(math.isfinite(e) for one in model.log for e in one.features.values())
    elif isinstance(model, base.AnomalyDetector):
        score = model.score_one(x)
        assert 0.0 <= score <= 1.0
        if isinstance(model, rm.DensityForest):
            assert model.density_one(x) >= 0.0
        if isinstance(model, rm.NearestNeighborDetector):
            score = model.raw_score_one(x)
            assert math.isfinite(score) and score >= 0.0, score
        if isinstance(model, HOLDERS) and model.feature_names and rng.random() < 0.2:
            total = sum(model.explain_one(x).values())
            assert math.isclose(total, score, rel_tol=1e-5, abs_tol=1e-9), total
    elif isinstance(model, base.Classifier) and has_probabilities(model):
        assert_probabilities(model.predict_proba_one(x))
    elif isinstance(model, base.Classifier):
        assert model.predict_one(x) is not None
    else:
        mean = model.predict_one(x)
        assert math.isfinite(mean), mean
        if getattr(model, "posterior", "") == "gaussian" and rng.random() < 0.2:
            mixture = model.predict_one(x, with_dist=True)
            assert math.isclose(mixture.weights.sum(), 1.0, abs_tol=1e-9)
            assert (mixture.scales >= 0.0).all()


def drive(model: Any, n: int, rng: Random) -> Counter[str]:
    """Apply `n` random events to a model; return the counts of events."""
    seen: Counter[str] = Counter()
    n_labels = rng.choice([1, 2, 2, 5, 100])
    categories, units = categories_of(model, rng), Row()
    known: list[tuple[Row, Any]] = []
    for i in range(n):
        n_names = 4 if i < 150 or rng.random() < 0.9 else 8
        x, y = draw_sample(rng, n_names, n_labels, categories, units)
        if rng.random() < 0.05:
            y = 0
        try:
            if rng.random() < 0.01:
                size = rng.randrange(40)
                block = [draw_sample(rng, 4, n_labels, categories, units) for _ in range(size)]
                learn_block(model, block)
            else:
                learn(model, x, y)
                check(model, x, rng)
                known.append((x, y))
                if can_forget(model) and rng.random() < 0.1:
                    forget(model, known.pop(rng.randrange(len(known))))
            seen["learned"] += 1
        except (TypeError, ValueError):
            seen["refused"] += 1
        if rng.random() < 0.002 and not isinstance(model, rm.DensityForest):
            model = restored(model)
        can_resample = isinstance(model, FORESTS) and not getattr(model, "max_nodes", 0)
        if can_resample and rng.random() < 0.001:
            model.resample()
    return seen


def call_functions(rng: Random) -> Counter[str]:
    """Call `exact_density` and `lifetime_path` with small random arrays."""
    numbers = np.random.default_rng(rng.randrange(1000))
    n, d = rng.choice([1, 2, 30]), rng.choice([1, 3])
    X = numbers.normal(size=(n, d))
    if rng.random() < 0.1:
        X[0, 0] = rng.choice([math.nan, math.inf])
    y = X.sum(axis=1)
    given = {"n_partitions": rng.choice([1, 3]), "seed": rng.randrange(1000), "progress": False}
    try:
        found = rm.exact_density(X, X[:1], rng.choice([0.5, 5.0, -1.0]))
        assert np.all(np.asarray(found) >= 0.0)
        path = rm.lifetime_path(X, y, rng.choice([0.1, 1.0]), X_test=X, y_test=y, **given)
        for kinds in path.errors.values():
            assert all(np.isfinite(values).all() for values in kinds.values())
    except (TypeError, ValueError):
        return Counter(refused=1)
    return Counter(learned=1)


def run(events: int, seed: int) -> dict[str, Counter[str]]:
    """Apply random events to models of all classes in turn; return the counts by class."""
    rng = random.Random(seed)
    seen: dict[str, Counter[str]] = {cls.__name__: Counter() for cls in CLASSES}
    seen["functions"] = Counter()
    n = 0
    while n < events:
        for cls in CLASSES:
            most = MOST.get(cls, 400)
            n_events = rng.choice([5, most // 10, most // 3, most])
            seen[cls.__name__] += drive(drawn(cls, rng), n_events, rng) + Counter(models=1)
            n += n_events
        seen["functions"] += call_functions(rng)
    return seen


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for name, counts in run(arguments.events, arguments.seed).items():
        print(f"{name:35}", *(f"{kind} {count}" for kind, count in sorted(counts.items())))
