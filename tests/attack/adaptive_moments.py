"""Moments at which an adaptive forest does more than learn a sample, and what is called then."""

from __future__ import annotations

import functools
import pickle

import numpy as np
from river import drift

from river_mondrian import AdaptiveMondrianForestClassifier
from river_mondrian.posteriors.rebuilt.forest import IDLE, LONG, RECENT

from .detectors import EveryFew
from .moments import FRAME, samples


def noisy(n, n_features=2, n_labels=3, first=0):
    """Return samples whose labels turn after each 400, some at random."""
    rng = np.random.default_rng(first + 1)
    found = samples(n, n_features, n_labels, first)
    return [
        (x, int(rng.integers(n_labels)) if rng.random() < 0.1 else (y + i // 400) % n_labels)
        for i, (x, y) in enumerate(found)
    ]


def forest(n, n_labels=3, weighted_from=None, **params):
    """Return a forest that has learned so many samples, of several weights from one on."""
    params = {
        "n_estimators": 3,
        "n_candidates": 4,
        "drift_detector": drift.NoDrift(),
        "seed": 1,
    } | params
    model = AdaptiveMondrianForestClassifier(**params)
    for i, (x, y) in enumerate(noisy(n, n_labels=n_labels)):
        is_weighted = weighted_from is not None and i >= weighted_from
        model.learn_one(x, y, 0.5 + i % 3 if is_weighted else 1.0)
    return model


X, Y = samples(1, first=1)[0]


def summary(model):
    """Return what tells that something has happened: the schedule, room, drifts."""
    trees = model._trees
    if trees is None:
        return None
    rows = [tree.nodes.capacity for tree in trees.trees]
    points = trees.forest.points.capacity
    return trees.schedule, rows, points, len(model.drift_log), trees.forest.class_capacity


def begins(role):
    return lambda old, new: old[0].role == IDLE and new[0].role == role


def is_placed(role):
    return lambda old, new: (
        new[0].roles.count(role) > old[0].roles.count(role)
        or (old[0].role == role and new[0].ages != old[0].ages)
    )


def goes_on(old, new):
    return old[0].role == LONG and new[0].role == LONG and new[0].ages == old[0].ages


def rows_grow(old, new):
    return old[1] != new[1] and old[0] == new[0]


def points_grow(old, new):
    return old[2] != new[2]


def drifts(old, new):
    return new[3] > old[3]


def window_ends(old, new):
    return new[0].first > old[0].first


def lets_go(old, new):
    return new[0].starts.count(2**62) > old[0].starts.count(2**62)


def shrinks(old, new):
    return new[0].max_samples < old[0].max_samples


# By name: what happens, and the forest to which it does.
HAPPENINGS = {
    "a drift by ADWIN": (drifts, {"drift_detector": drift.ADWIN(grace_period=5)}),
    "a tree of all samples begins": (begins(LONG), {"n_estimators": 8}),
    "a tree of all samples goes on": (goes_on, {"n_estimators": 8}),
    "a tree of all samples is placed": (is_placed(LONG), {}),
    "a recent tree begins": (begins(RECENT), {"n_estimators": 8}),
    "a recent tree is placed": (is_placed(RECENT), {}),
    "rows grow": (rows_grow, {}),
    "points grow": (points_grow, {}),
    "a drift": (drifts, {"drift_detector": EveryFew()}),
    "the window ends": (window_ends, {"window": 1000}),
    "samples are let go": (lets_go, {"window": 1000, "n_estimators": 2}),
    "bytes run out": (shrinks, {"max_bytes": 400_000}),
}


@functools.cache
def happening(name):
    """Return the pickle of a forest one sample before something happens, and that sample."""
    happens, params = HAPPENINGS[name]
    model, stream = forest(0, **params), noisy(6000)
    for i, (x, y) in enumerate(stream):
        known = summary(model)
        model.learn_one(x, y)
        if i > 256 and happens(known, summary(model)):
            return pickle.dumps(forest(i, **params)), (x, y)
    raise AssertionError(f"{name}: that has not happened")


# By name: what makes the model, and what is called.
MOMENTS = {
    "first sample": (lambda: forest(0), lambda m: m.learn_one(X, Y)),
    "second sample": (lambda: forest(1), lambda m: m.learn_one(X, Y)),
    "doubling": (lambda: forest(7), lambda m: m.learn_one(X, Y)),
    "watched": (lambda: forest(21, drift_detector=EveryFew()), lambda m: m.learn_one(X, Y)),
    "usual": (lambda: forest(21), lambda m: m.learn_one(X, Y)),
    "end of the warm-up": (lambda: forest(255), lambda m: m.learn_one(X, Y)),
    "new features late": (lambda: forest(260), lambda m: m.learn_one(X | {"z": 1.0, "w": 2.0}, Y)),
    "new class": (lambda: forest(20), lambda m: m.learn_one(X, "new")),
    "new class and feature": (
        lambda: forest(20, drift_detector=None),
        lambda m: m.learn_one(X | {"z": 0.5}, "new"),
    ),
    "wider statistics": (lambda: forest(270, n_labels=4), lambda m: m.learn_one(X, "new")),
    "many classes": (lambda: forest(270, n_labels=128), lambda m: m.learn_one(X, "new")),
    "no scaling": (lambda: forest(20, scale=False), lambda m: m.learn_one(X | {"z": 0.5}, Y)),
    "missing value": (lambda: forest(300), lambda m: m.learn_one({"x0": 0.3}, Y)),
    "resample": (lambda: forest(270), lambda m: m.resample()),
    "first weight, new class and feature": (
        lambda: forest(30),
        lambda m: m.learn_one(X | {"z": 0.5}, "new", 0.5),
    ),
}
READING = {
    "predict_one": lambda m: m.predict_one(X),
    "predict_proba_one": lambda m: m.predict_proba_one(X | {"unknown": 1.0}),
    "predict_many": lambda m: m.predict_proba_many(FRAME),
    "debug_one": lambda m: m.debug_one(X),
    "to_dataframe": lambda m: m.to_dataframe(0),
    "feature_importances": lambda m: m.feature_importances,
    "explain_one": lambda m: (m.baseline, m.explain_one(X)),
    "weights": lambda m: m.expert_weights,
    "drift_log": lambda m: m.drift_log,
    "pickle": lambda m: m.__getstate__(),
}
