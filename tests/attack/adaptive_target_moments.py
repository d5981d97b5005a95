"""Moments at which an adaptive regressor does more than learn a sample, and what is called then."""

from __future__ import annotations

import functools
import pickle

from river_mondrian import AdaptiveMondrianForestRegressor
from river_mondrian.posteriors.rebuilt.forest import LONG, RECENT

from .adaptive_moments import begins, drifts, goes_on, is_placed, shrinks, window_ends
from .detectors import EveryFew
from .target_moments import FRAME, samples


def regressor(n, **params):
    """Return a regressor that has learned so many samples."""
    params = {"n_estimators": 4, "n_candidates": 4, "seed": 1} | params
    model = AdaptiveMondrianForestRegressor(**params)
    for x, y in samples(n):
        model.learn_one(x, y)
    return model


X, Y = samples(1, first=1)[0]


def summary(model):
    """Return what tells that something has happened: the schedule, room, drifts, fences."""
    trees = model._trees
    if trees is None:
        return None
    rows = [tree.nodes.capacity for tree in trees.trees]
    points = trees.forest.points.capacity
    fences = trees.forest.low_fence, trees.forest.high_fence
    return trees.schedule, rows, points, len(model.drift_log), fences


def fences_move(old, new):
    return old[4] != new[4]


# By name: what happens, and the regressor to which it does.
HAPPENINGS = {
    "a tree of all samples begins": (begins(LONG), {"n_estimators": 8}),
    "a tree of all samples goes on": (goes_on, {"n_estimators": 8}),
    "a tree of all samples is placed": (is_placed(LONG), {}),
    "a recent tree begins": (begins(RECENT), {"n_estimators": 8}),
    "a recent tree is placed": (is_placed(RECENT), {}),
    "fences move": (fences_move, {"autoregressive": True}),
    "a drift": (drifts, {"drift_detector": EveryFew()}),
    "the window ends": (window_ends, {"window": 1000}),
    "bytes run out": (shrinks, {"max_bytes": 1_700_000}),
}


@functools.cache
def happening(name):
    """Return the pickle of a model one sample before something happens, and that sample."""
    happens, params = HAPPENINGS[name]
    model, stream = regressor(0, **params), samples(6000)
    for i, (x, y) in enumerate(stream):
        known = summary(model)
        model.learn_one(x, y)
        if i > 256 and happens(known, summary(model)):
            before = regressor(0, **params)
            for earlier in stream[:i]:
                before.learn_one(*earlier)
            return pickle.dumps(before), (x, y)
    raise AssertionError(f"{name}: that has not happened")


# By name: what makes the model, and what is called.
MOMENTS = {
    "first sample": (lambda: regressor(0), lambda m: m.learn_one(X, Y)),
    "second sample": (lambda: regressor(1), lambda m: m.learn_one(X, Y)),
    "doubling": (lambda: regressor(7), lambda m: m.learn_one(X, Y)),
    "usual": (lambda: regressor(21), lambda m: m.learn_one(X, Y)),
    "weighted": (lambda: regressor(21), lambda m: m.learn_one(X, Y, 2.5)),
    "wild": (lambda: regressor(300), lambda m: m.learn_one(X, 1e30)),
    "watched": (lambda: regressor(21, drift_detector=EveryFew()), lambda m: m.learn_one(X, Y)),
    "end of the warm-up": (lambda: regressor(255), lambda m: m.learn_one(X, Y)),
    "new feature": (lambda: regressor(20), lambda m: m.learn_one(X | {"z": 0.5}, Y)),
    "new features late": (
        lambda: regressor(260, autoregressive=True),
        lambda m: m.learn_one(X | {"z": 1.0, "w": 2.0}, Y),
    ),
    "new level": (lambda: regressor(260), lambda m: m.learn_one(X | {"z": "red"}, Y)),
    "no scaling": (lambda: regressor(20, scale=False), lambda m: m.learn_one(X | {"z": 0.5}, Y)),
    "missing value": (lambda: regressor(300), lambda m: m.learn_one({"x0": 0.3}, Y)),
    "resample": (lambda: regressor(270), lambda m: m.resample()),
}
READING = {
    "predict_one": lambda m: m.predict_one(X | {"unknown": 1.0}),
    "law": lambda m: m.predict_one(X, with_dist=True).interval(0.9),
    "predict_many": lambda m: m.predict_many(FRAME, with_dist=True),
    "debug_one": lambda m: m.debug_one(X),
    "to_dataframe": lambda m: m.to_dataframe(0),
    "feature_importances": lambda m: m.feature_importances,
    "explain_one": lambda m: (m.baseline, m.explain_one(X)),
    "weights": lambda m: m.expert_weights,
    "pickle": lambda m: m.__getstate__(),
}
