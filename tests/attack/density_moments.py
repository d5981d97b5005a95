"""Moments at which a density forest does more than learn a sample, each with the call to it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from river_mondrian import DensityForest


def samples(n, n_features=2, first=0):
    """Return samples."""
    rows = np.random.default_rng(first).normal(size=(n, n_features)).tolist()
    names = [f"x{j}" for j in range(n_features)]
    return [dict(zip(names, row, strict=True)) for row in rows]


def root(n):
    """A lifetime that grows with the number of samples."""
    return float(n) ** 0.5


def forest(n, **params):
    """Return a forest that has learned so many samples."""
    model = DensityForest(**{"n_estimators": 3, "lifetime": 2.0, "seed": 1} | params)
    for x in samples(n):
        model.learn_one(x)
    return model


X = samples(1, first=1)[0]
FRAME = pd.DataFrame(samples(12, n_features=3, first=2))
FRAME.loc[:4, "x2"] = np.nan
FRAME["x3"] = [np.nan] * 7 + [1.0] * 5
GIVEN = [{"x0": 1.0}, {"x1": 1.0}, {"x0": 1.0, "x1": -1.0}]


def learn(model):
    model.learn_one(X)


def learn_new(model):
    model.learn_one(X | {"z": 0.5, "y": 0.1})


# By name: what makes the model, and what is called.
MOMENTS = {
    "first sample": (lambda: forest(0), learn),
    "second sample": (lambda: forest(1), learn),
    "usual": (lambda: forest(20), learn),
    "missing value": (lambda: forest(20), lambda m: m.learn_one({"x0": 0.3})),
    "new features": (lambda: forest(20), learn_new),
    "new features first": (lambda: forest(0), learn_new),
    "no feature": (lambda: forest(0), lambda m: m.learn_one({})),
    "growing": (lambda: forest(20, lifetime=None), learn),
    "growing, first sample": (lambda: forest(0, lifetime=None), learn),
    "function": (lambda: forest(20, lifetime=root), learn),
    "function, new features": (lambda: forest(20, lifetime=root), learn_new),
    "laplace": (lambda: forest(20, method="laplace"), learn),
    "kernel": (lambda: forest(20, method="kernel"), learn_new),
    "mixed, renewal": (lambda: forest(16, lifetime="auto"), learn),
    "mixed, new features": (lambda: forest(20, lifetime="auto"), learn_new),
    "window": (lambda: forest(20, window=5), learn),
    "origin": (lambda: forest(20, origin={"x0": 0.0, "x1": 1.0}), learn),
    "given directions": (lambda: forest(5, directions=GIVEN), learn),
    "given directions, first": (lambda: forest(0, directions=GIVEN), learn),
    "random directions": (lambda: forest(5, directions=3), learn),
    "random directions, first": (lambda: forest(0, directions=3), learn),
    "random directions, growing": (lambda: forest(5, directions=3, lifetime=root), learn_new),
}
READING = {
    "log_density_one": lambda m: m.log_density_one(X),
    "density_one": lambda m: m.density_one(X | {"unknown": 1.0}),
    "score_one": lambda m: m.score_one({"x0": 100.0, "x1": 0.0}),
    "score_many": lambda m: m.score_many(FRAME),
    "surprise_many": lambda m: m.surprise_many(FRAME),
    "density_many": lambda m: m.density_many(FRAME),
    "feature_names": lambda m: m.feature_names,
    "pickle": lambda m: m.__getstate__(),
}
