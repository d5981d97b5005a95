"""Moments at which feature maps, and learners on them, do more than learn a sample."""

from __future__ import annotations

import pickle

import pandas as pd

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
)

from .judging import Judge
from .moments import samples

ASKED = [x for x, _ in samples(3, first=8)]
LATER = samples(12, n_features=3, first=9)
X, Y = samples(1, first=1)[0]
WIDE = X | {"z": 0.5, "w": 1.5}

# Rows to learn at once; features and classes come in the middle.
ROWS = pd.DataFrame([x for x, _ in samples(20, n_features=3, first=2)])
ROWS.loc[:4, "x2"] = None
LABELS = [y for _, y in samples(20, n_features=3, first=2)]
LABELS[7] = "new"
TARGETS = [float(y) for _, y in samples(20, n_features=3, first=2)]

MAPS = {
    "anne": lambda: IsolationFeatures(4, 4, pool_size=16, seed=1),
    "iforest": lambda: IsolationFeatures(4, 4, method="iforest", pool_size=16, seed=1),
    "nystrom": lambda: NystromFeatures(12),
    "binning": lambda: RandomBinningFeatures(4, lifetime=0.5, seed=1),
    "fourier": lambda: RandomFourierFeatures(8, seed=1),
    "mondrian": lambda: MondrianFeatures(12, lifetime=6.0, seed=1),
    "mondrian directions": lambda: MondrianFeatures(4, lifetime=4.0, seed=1, directions=2),
}
LEARNERS = {
    "ogd anne": lambda: OGDClassifier(MAPS["anne"](), seed=1),
    "ogd iforest log": lambda: OGDClassifier(MAPS["iforest"](), loss="log", multiclass="ovr"),
    "ogd nystrom": lambda: OGDClassifier(MAPS["nystrom"](), learning_rate=0.3),
    "ogd binning": lambda: OGDClassifier(MAPS["binning"](), loss="log"),
    "ogd regressor anne": lambda: OGDRegressor(MAPS["anne"]()),
    "ogd regressor fourier": lambda: OGDRegressor(MAPS["fourier"](), loss="huber"),
    "ridge anne": lambda: RidgeRegressor(MAPS["anne"]()),
    "ridge binning": lambda: RidgeRegressor(MAPS["binning"](), fit_intercept=False),
    "ridge fourier": lambda: RidgeRegressor(MAPS["fourier"](), max_columns=6),
    "ridge window anne": lambda: RidgeRegressor(MAPS["anne"](), window=10),
    "ridge window mondrian": lambda: RidgeRegressor(MAPS["mondrian directions"](), window=14),
    "ogd mondrian": lambda: OGDClassifier(MAPS["mondrian"]()),
    "ogd mondrian auto": lambda: OGDClassifier(MondrianFeatures(3, "auto", seed=1), loss="log"),
    "ridge mondrian": lambda: RidgeRegressor(MAPS["mondrian directions"]()),
    "regressor mondrian auto": lambda: OGDRegressor(MondrianFeatures(3, "auto", seed=1)),
    "dual laplace": lambda: DualOGDClassifier(),
    "dual isolation": lambda: DualOGDClassifier(MAPS["anne"]()),
}


def is_map(model):
    return hasattr(model, "transform_one")


def is_regressor(model):
    return isinstance(model, (OGDRegressor, RidgeRegressor))


def learn(model, x, y):
    """Let a model learn a sample: a map learns no label, and a regressor a number."""
    if is_map(model):
        model.learn_one(x)
    else:
        model.learn_one(x, float(hash(y) % 7) if is_regressor(model) else y)


def learn_rows(model, n):
    """Let a model learn the first rows of a frame."""
    rows = ROWS.iloc[:n]
    if is_map(model):
        model.learn_many(rows)
    elif isinstance(model, DualOGDClassifier):
        for x, y in zip(rows.to_dict("records"), LABELS, strict=False):
            model.learn_one(x, y)
    else:
        model.learn_many(rows, (TARGETS if is_regressor(model) else LABELS)[:n])


def answers(model):
    if is_map(model):
        return [model.transform_one(x) for x in ASKED]
    if isinstance(model, OGDClassifier):
        proba = model.loss != "hinge"
        return [(model.predict_proba_one if proba else model.predict_one)(x) for x in ASKED]
    if isinstance(model, DualOGDClassifier):
        return [model.decision_one(x) for x in ASKED]
    return [model.predict_one(x) for x in ASKED]


def looks(model):
    """Return what can be seen of a model; its pickle holds all that it has learned."""
    return answers(model), getattr(model, "classes", None), pickle.dumps(model)


def go_on(model):
    for x, y in LATER:
        learn(model, x, y)


JUDGE = Judge(looks, go_on, every=61)


def learned(make, n, n_labels=2):
    """Return a model that has learned so many samples."""
    model = make()
    for x, y in samples(n, n_labels=n_labels):
        learn(model, x, y)
    return model


# Numbers of samples before which something else happens: the first ones, a map that is built (8,
# 16), the last samples that are stored, a replay of 32 samples and what follows it.
COUNTS = [0, 1, 3, 15, 40]

# By name: how many samples the model has learned, of how many classes, and what is learned then.
MOMENTS = {
    **{f"{n} samples": (n, 2, X, Y) for n in COUNTS},
    "new features early": (5, 2, WIDE, Y),
    "new features late": (40, 2, WIDE, Y),
    "missing value": (40, 2, {"x0": 0.3}, Y),
    "second class": (20, 1, X, "new"),
    "third class early": (6, 2, X, "new"),
    "third class late": (40, 2, WIDE, "new"),
    "fourth class": (40, 3, X, "new"),
}


# The same where the first 256 samples are the scale of lifetimes.
MOMENTS_OF_START = {
    "end of the start": (255, 2, X, Y),
    "new feature at the end of the start": (255, 2, WIDE, Y),
    "first class at the end of the start": (255, 1, X, "new"),
    "after the start": (270, 2, X, Y),
    "new features after the start": (270, 2, WIDE, Y),
}


def call_of(moment):
    _, _, x, y = (MOMENTS | MOMENTS_OF_START)[moment]
    return lambda model: learn(model, x, y)


def _capacities(model, table):
    """Return for how many rows there is room in a table of each of a model's trees."""
    trees = (model._map if is_map(model) else model._features._map).trees
    if table == "points":
        return [trees.forest.points.capacity]
    return [tree.nodes.capacity for tree in trees.trees]


def before_growth(make, table, n):
    """Return a pickle of a model, and the sample with which one of its tables grows."""
    model = learned(make, n)
    for x, y in samples(5000, first=3):
        state = pickle.dumps(model)
        before, after = pickle.loads(state), pickle.loads(state)
        learn(after, x, y)
        if _capacities(before, table) != _capacities(after, table):
            return state, x, y
        learn(model, x, y)
    raise AssertionError(f"{table} have not grown")
