"""Moments at which a regressor does more than learn a sample, each with the call to it."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pandas as pd

from river_mondrian import MondrianForestRegressor


def samples(n, n_features=2, first=0):
    """Return samples with targets that follow from the features, and noise."""
    rng = np.random.default_rng(first)
    rows = rng.random((n, n_features))
    targets = rows.sum(axis=1) + 0.1 * rng.normal(size=n)
    names = [f"x{j}" for j in range(n_features)]
    return [
        (dict(zip(names, row, strict=True)), y)
        for row, y in zip(rows.tolist(), targets.tolist(), strict=True)
    ]


def root(n):
    """A lifetime that grows with the number of samples."""
    return float(n) ** 0.5


@functools.cache
def _state(n, params):
    model = MondrianForestRegressor(**{"n_estimators": 2, "seed": 1} | dict(params))
    for x, y in samples(n):
        model.learn_one(x, y)
    return pickle.dumps(model)


def regressor(n, **params):
    """Return a regressor that has learned so many samples."""
    return pickle.loads(_state(n, tuple(params.items())))


def spoilt(n, places, **params):
    """Return a regressor that has learned so many samples, some of them with a wild target."""
    model = MondrianForestRegressor(n_estimators=2, seed=1, **params)
    for i, (x, y) in enumerate(samples(n)):
        model.learn_one(x, 1e30 if i in places else y)
    return model


X, Y = samples(1, first=1)[0]
FRAME = pd.DataFrame([x for x, _ in samples(12, n_features=3, first=2)])
FRAME.loc[:4, "x2"] = np.nan
TARGETS = [y for _, y in samples(12, n_features=3, first=2)]
WEIGHTS = [1.0 + i % 3 for i in range(12)]


def steps(n):
    """A lifetime that has no end from some number of samples on."""
    return 1.0 if n <= 20 else float("inf")


def full():
    """Return a regressor one sample before its points have no room left."""
    model = regressor(300)
    stream = iter(samples(5000, first=3))
    trees = model._trees
    while trees.n_points < trees.forest.points.capacity:
        model.learn_one(*next(stream))
    return model


def short_of_rows(**params):
    """Return a regressor of which a tree needs more rows, and the sample that needs them."""
    model = regressor(300, **params)
    trees = model._trees
    for x, y in samples(20_000, first=4):
        rows = [tree.nodes.capacity for tree in trees.trees]
        before = pickle.dumps(model)
        model.learn_one(x, y)
        if rows != [tree.nodes.capacity for tree in trees.trees]:
            return pickle.loads(before), (x, y)
    raise AssertionError("no tree has grown")


def learn(model):
    model.learn_one(X, Y)


MEANS = {"posterior": "mean"}
GROWING = MEANS | {"lifetime": root}

# By name: what makes the model, and what is called.
MOMENTS = {
    "first sample": (lambda: regressor(0), learn),
    "first sample, weight": (lambda: regressor(0), lambda m: m.learn_one(X, Y, 2.0)),
    "second sample": (lambda: regressor(1), learn),
    "doubling": (lambda: regressor(7), learn),
    "doubling, means": (lambda: regressor(7, **MEANS), learn),
    "usual": (lambda: regressor(20), learn),
    "law": (lambda: regressor(21), learn),
    "weight": (lambda: regressor(20), lambda m: m.learn_one(X, Y, 3)),
    "first choice": (lambda: regressor(63), learn),
    "end of the warm-up": (lambda: regressor(255), learn),
    "end of the warm-up, means": (lambda: regressor(255, **MEANS), learn),
    "follows": (lambda: regressor(511), learn),
    "third choice": (lambda: regressor(1023), learn),
    "given hyperparameters": (
        lambda: regressor(255, prior_variance=0.5, prior_rate=1.0, noise_variance=0.1),
        learn,
    ),
    "last choice": (lambda: regressor(4095), learn),
    "choice without scaling": (lambda: regressor(63, scale=False), learn),
    "new feature": (lambda: regressor(20), lambda m: m.learn_one(X | {"z": 0.5}, Y)),
    "new feature, doubling": (lambda: regressor(63), lambda m: m.learn_one(X | {"z": 0.5}, Y)),
    "new feature, late": (lambda: regressor(511), lambda m: m.learn_one(X | {"z": 0.5}, Y)),
    "growth of points": (full, learn),
    "directions": (lambda: regressor(15, directions=3), learn),
    "directions, new feature": (
        lambda: regressor(300, directions=3),
        lambda m: m.learn_one(X | {"z": 0.5}, Y),
    ),
    "full trees": (lambda: regressor(300, max_nodes=7), learn),
    "full trees, doubling": (lambda: regressor(511, max_nodes=7), learn),
    "missing value": (lambda: regressor(300), lambda m: m.learn_one({"x0": 0.3}, Y)),
    "lifetime": (lambda: regressor(20, **GROWING), learn),
    "lifetime, first sample": (lambda: regressor(0, **GROWING), learn),
    "lifetime, doubling": (lambda: regressor(127, **GROWING), learn),
    "lifetime, new feature": (
        lambda: regressor(300, **GROWING),
        lambda m: m.learn_one(X | {"z": 0.5}, Y),
    ),
    "lifetime without end": (lambda: regressor(20, lifetime=steps, **MEANS), learn),
    "setting aside": (lambda: spoilt(15, [3]), learn),
    "setting aside, between": (lambda: spoilt(19, [2, 5, 6, 11, 15]), learn),
    "setting aside, means": (lambda: spoilt(31, [*range(7)], **MEANS), learn),
    "setting aside, late": (lambda: spoilt(447, [*range(100)], scale=False), learn),
    "new fences": (lambda: regressor(5119), learn),
    "resample": (lambda: regressor(270), lambda m: m.resample()),
    "full window": (lambda: regressor(300, window=40), learn),
    "full window, new feature": (
        lambda: regressor(300, window=270),
        lambda m: m.learn_one(X | {"z": 0.5}, Y),
    ),
    "full window, fences": (lambda: regressor(319, window=40), learn),
    "forgetting": (lambda: regressor(300), lambda m: m.forget_one(*samples(300)[7])),
    "forgetting in the warm-up": (lambda: regressor(40), lambda m: m.forget_one(*samples(40)[7])),
    "forgetting the last one": (lambda: regressor(1), lambda m: m.forget_one(*samples(1)[0])),
}
READING = {
    "predict_one": lambda m: m.predict_one(X),
    "distribution": lambda m: m.predict_one(X | {"unknown": 1.0}, with_dist=True),
    "predict_mixture_one": lambda m: m.predict_mixture_one(X),
    "predict_many": lambda m: m.predict_many(FRAME, with_dist=True),
    "hyperparameters": lambda m: (m.hyperparameters, m.tail_weights),
    "debug_one": lambda m: m.debug_one(X),
    "to_dataframe": lambda m: m.to_dataframe(0),
    "feature_importances": lambda m: m.feature_importances,
    "explain_one": lambda m: (m.baseline, m.explain_one(X)),
    "pickle": lambda m: m.__getstate__(),
}
