"""Moments at which a forest does more than learn a sample, each with the call that comes to it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from river_mondrian import MondrianForestClassifier


def samples(n, n_features=2, n_labels=3, first=0):
    """Return samples with labels that follow from the features."""
    rng = np.random.default_rng(first)
    rows = rng.random((n, n_features))
    names = [f"x{j}" for j in range(n_features)]
    labels = np.floor(rows.sum(axis=1) * n_labels / n_features).astype(int).tolist()
    return [
        (dict(zip(names, row, strict=True)), y)
        for row, y in zip(rows.tolist(), labels, strict=True)
    ]


def forest(n, n_labels=3, **params):
    """Return a forest that has learned so many samples."""
    model = MondrianForestClassifier(**{"n_estimators": 2, "seed": 1} | params)
    for x, y in samples(n, n_labels=n_labels):
        model.learn_one(x, y)
    return model


def renewing(n, category=False, **params):
    """Return a forest whose units have changed after 300 samples, of more in all."""
    model = forest(300, **params)
    for x, y in samples(n - 300, first=5):
        x = {name: 20.0 * value for name, value in x.items()}
        model.learn_one(x | {"color": "red"} if category else x, y)
    return model


X, Y = samples(1, first=1)[0]
FRAME = pd.DataFrame([x for x, _ in samples(20, n_features=3, first=2)])
LABELS = [y for _, y in samples(20, n_features=3, first=2)]
LABELS[7] = "new"


def full():
    """Return a forest one sample before its rows or its points have no room left."""
    model = forest(300)
    stream = iter(samples(5000, first=3))
    trees = model._trees
    while trees.n_points < trees.forest.points.capacity:
        model.learn_one(*next(stream))
    return model


def short_of_rows():
    """Return a forest of which a tree needs more rows, and the sample that needs them."""
    model = forest(300)
    trees = model._trees
    for x, y in samples(20_000, first=4):
        rows = [tree.nodes.capacity for tree in trees.trees]
        before = model.__class__.__new__(model.__class__)
        before.__setstate__(model.__getstate__())
        model.learn_one(x, y)
        if rows != [tree.nodes.capacity for tree in trees.trees]:
            return before, (x, y)
    raise AssertionError("no tree has grown")


# By name: what makes the model, and what is called.
MOMENTS = {
    "first sample": (lambda: forest(0), lambda m: m.learn_one(X, Y)),
    "second sample": (lambda: forest(1), lambda m: m.learn_one(X, Y)),
    "doubling": (lambda: forest(7), lambda m: m.learn_one(X, Y)),
    "usual": (lambda: forest(20), lambda m: m.learn_one(X, Y)),
    "end of the warm-up": (lambda: forest(255), lambda m: m.learn_one(X, Y)),
    "new feature": (lambda: forest(20), lambda m: m.learn_one(X | {"z": 0.5}, Y)),
    "new features late": (lambda: forest(260), lambda m: m.learn_one(X | {"z": 1.0, "w": 2.0}, Y)),
    "new class": (lambda: forest(20), lambda m: m.learn_one(X, "new")),
    "new class and feature": (lambda: forest(20), lambda m: m.learn_one(X | {"z": 0.5}, "new")),
    "wider counts": (lambda: forest(270, n_labels=4), lambda m: m.learn_one(X, "new")),
    "wider sets": (lambda: forest(300, n_labels=32), lambda m: m.learn_one(X, "new")),
    "growth of points": (full, lambda m: m.learn_one(X, Y)),
    "random directions": (lambda: forest(15, directions=3), lambda m: m.learn_one(X, Y)),
    "directions, new feature": (
        lambda: forest(300, directions=3),
        lambda m: m.learn_one(X | {"z": 0.5}, Y),
    ),
    "no scaling": (lambda: forest(20, scale=False), lambda m: m.learn_one(X | {"z": 0.5}, Y)),
    "full trees": (lambda: forest(300, max_nodes=7), lambda m: m.learn_one(X, Y)),
    "missing value": (lambda: forest(300), lambda m: m.learn_one({"x0": 0.3}, Y)),
    "resample": (lambda: forest(270), lambda m: m.resample()),
    "widths looked at": (lambda: renewing(384), lambda m: m.learn_one(X, Y)),
    "widths looked at, directions": (
        lambda: renewing(384, directions=2),
        lambda m: m.learn_one(X, Y),
    ),
    "widths looked at, category": (lambda: renewing(384, True), lambda m: m.learn_one(X, Y)),
    "turn of the next tree, category": (lambda: renewing(438, True), lambda m: m.learn_one(X, Y)),
    "first category while trees are drawn anew": (
        lambda: renewing(430),
        lambda m: m.learn_one(X | {"color": "red"}, Y),
    ),
    "new feature while trees are drawn anew, directions": (
        lambda: renewing(430, directions=2),
        lambda m: m.learn_one(X | {"z": 0.5}, Y),
    ),
    "end of a renewal, category": (lambda: renewing(509, True), lambda m: m.learn_one(X, Y)),
    "full window": (lambda: forest(300, window=40), lambda m: m.learn_one(X, Y)),
    "full window, new feature": (
        lambda: forest(300, window=270),
        lambda m: m.learn_one(X | {"z": 0.5}, "new"),
    ),
    "full window, first weight": (
        lambda: forest(300, window=40),
        lambda m: m.learn_one(X, Y, 2.0),
    ),
    "forgetting": (lambda: forest(300), lambda m: m.forget_one(*samples(20)[7])),
    "forgetting in the warm-up": (lambda: forest(40), lambda m: m.forget_one(*samples(20)[7])),
    "forgetting the last one": (lambda: forest(1), lambda m: m.forget_one(*samples(1)[0])),
}
READING = {
    "predict_one": lambda m: m.predict_one(X),
    "predict_proba_one": lambda m: m.predict_proba_one(X | {"unknown": 1.0}),
    "predict_many": lambda m: m.predict_proba_many(FRAME),
    "debug_one": lambda m: m.debug_one(X),
    "to_dataframe": lambda m: m.to_dataframe(0),
    "feature_importances": lambda m: m.feature_importances,
    "explain_one": lambda m: (m.baseline, m.explain_one(X)),
    "pickle": lambda m: m.__getstate__(),
}
