"""Moments at which a random cut forest does more than learn a sample, each with the call to it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from river_mondrian import RandomCutForest
from river_mondrian.compiling.kernels import kernel
from river_mondrian.posteriors.displacement import CutForest


@kernel
def does_pass(forest: CutForest) -> int:
    """Tell whether the next sample does not enter."""
    return int(forest.passes())


def samples(n, n_features=2, first=0):
    """Return samples."""
    rows = np.random.default_rng(first).normal(size=(n, n_features)).tolist()
    names = [f"x{j}" for j in range(n_features)]
    return [dict(zip(names, row, strict=True)) for row in rows]


def forest(n, **params):
    """Return a forest that has learned so many samples."""
    model = RandomCutForest(**{"n_estimators": 2, "window": 40, "seed": 1} | params)
    for x in samples(n):
        model.learn_one(x)
    return model


def growing():
    """Return a forest one sample before its points have no room left."""
    model = forest(300, window=None)
    trees = model._trees
    for x in samples(5000, first=3):
        if trees.n_points == trees.forest.points.capacity:
            return model
        model.learn_one(x)
    raise AssertionError("no table has grown")


def full(passes):
    """Return a full forest whose next sample enters the trees, or passes."""
    model = forest(60, window=120, max_samples=30)
    for x in samples(100, first=4):
        if does_pass(model._trees.forest) == passes:
            return model
        model.learn_one(x)
    raise AssertionError("all do the same")


def in_renewal():
    """Return a forest whose trees are being drawn anew."""
    model = forest(300, window=300)
    for x in samples(1000, first=3):
        model.learn_one({name: 100.0 * value for name, value in x.items()})
        if model._trees.forest.phase != 0:
            return model
    raise AssertionError("nothing is renewed")


X = samples(1, first=1)[0]
FRAME = pd.DataFrame(samples(12, n_features=3, first=2))
FRAME.loc[:4, "x2"] = np.nan
FRAME["x3"] = [None] * 7 + ["red"] * 5


def learn(model):
    model.learn_one(X)


def learn_new(model):
    model.learn_one(X | {"z": 0.5, "y": 0.1})


# By name: what makes the model, and what is called.
MOMENTS = {
    "first sample": (lambda: forest(0), learn),
    "second sample": (lambda: forest(1), learn),
    "doubling": (lambda: forest(31), learn),
    "usual": (lambda: forest(37), learn),
    "full window": (lambda: forest(60), learn),
    "full window, new features": (lambda: forest(60), learn_new),
    "full window, category": (lambda: forest(60), lambda m: m.learn_one(X | {"z": "red"})),
    "a sample that passes": (lambda: full(True), learn),
    "a sample that passes, new features": (lambda: full(True), learn_new),
    "a sample that enters": (lambda: full(False), learn),
    "new features first": (lambda: forest(0), learn_new),
    "growth": (growing, learn),
    "renewal": (in_renewal, learn),
    "missing value": (lambda: forest(60), lambda m: m.learn_one({"x0": 0.3})),
    "no feature": (lambda: forest(0), lambda m: m.learn_one({})),
    "forget": (lambda: forest(60), lambda m: m.forget_one(samples(60)[30])),
    "forget the last one": (lambda: forest(1), lambda m: m.forget_one(samples(1)[0])),
    "resample": (lambda: forest(60), lambda m: m.resample()),
    "short of a shingle": (lambda: forest(1, shingle=3), learn),
    "first shingle": (lambda: forest(2, shingle=3), learn),
    "shingle": (lambda: forest(60, shingle=3), learn),
    "shingle, new features": (lambda: forest(60, shingle=3), learn_new),
}
READING = {
    "score_one": lambda m: m.score_one({"x0": 100.0, "x1": 0.0}),
    "score_one, unknown": lambda m: m.score_one(X | {"unknown": 1.0}),
    "score_many": lambda m: m.score_many(FRAME[["x0", "x1"]]),
    "raw_scores_one": lambda m: m.raw_scores_one(X),
    "explain_one": lambda m: m.explain_one(X),
    "recent_scores": lambda m: m.recent_scores,
    "pickle": lambda m: m.__getstate__(),
}
