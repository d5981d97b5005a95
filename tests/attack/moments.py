"""Calls that cause rare events in a model."""

import functools
import inspect
import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
from common import has_probabilities
from river import base, drift

import river_mondrian as rm
from river_mondrian.posteriors.rebuilt.forest import IDLE, LONG, RECENT

from .detectors import EveryFew


def root(n):
    """Return a lifetime that grows with the number of samples."""
    return float(n) ** 0.5


def steps(n):
    """Return a lifetime that is infinite after 20 samples."""
    return 1.0 if n <= 20 else float("inf")


QUIET = {"n_candidates": 4, "drift_detector": drift.NoDrift(), "seed": 1}
KINDS = {
    "exact": (rm.MondrianForestClassifier, {"n_estimators": 2, "seed": 1}),
    "adaptive": (rm.AdaptiveMondrianForestClassifier, {"n_estimators": 3} | QUIET),
    "regressor": (rm.MondrianForestRegressor, {"n_estimators": 2, "seed": 1}),
    "adaptive regressor": (rm.AdaptiveMondrianForestRegressor, {"n_estimators": 4} | QUIET),
    "cuts": (rm.RandomCutForest, {"n_estimators": 2, "window": 40, "seed": 1}),
    "density": (rm.DensityForest, {"n_estimators": 3, "lifetime": 2.0, "seed": 1}),
}
ISOLATION = {"n_partitions": 4, "n_cells": 4, "pool_size": 16, "seed": 1}
OBLIQUE = {"n_partitions": 4, "lifetime": 4.0, "directions": 2, "seed": 1}
CELLS = rm.IsolationFeatures(**ISOLATION)
FOURIER = rm.RandomFourierFeatures(8, seed=1)
AUTO = rm.MondrianFeatures(3, "auto", seed=1)
LEARNERS = {
    "neighbors": (rm.NearestNeighborDetector, {"window": 40, "seed": 1}),
    "monitor": (rm.DriftMonitor, {"grace_period": 40, "seed": 1}),
    "alarms": (rm.Alarms, {"detector": rm.NearestNeighborDetector(window=40, seed=1)}),
    "isolation": (rm.IsolationFeatures, ISOLATION),
    "isolation trees": (rm.IsolationFeatures, ISOLATION | {"method": "iforest"}),
    "nystrom": (rm.NystromFeatures, {"n_landmarks": 12}),
    "binning": (rm.RandomBinningFeatures, {"n_partitions": 4, "lifetime": 0.5, "seed": 1}),
    "fourier": (rm.RandomFourierFeatures, {"n_components": 8, "seed": 1}),
    "mondrian": (rm.MondrianFeatures, {"n_partitions": 12, "lifetime": 6.0, "seed": 1}),
    "mondrian directions": (rm.MondrianFeatures, OBLIQUE),
    "ogd": (rm.OGDClassifier, {"features": CELLS, "loss": "log"}),
    "ogd ovr": (rm.OGDClassifier, {"features": CELLS, "loss": "log", "multiclass": "ovr"}),
    "ogd dense": (rm.OGDClassifier, {"features": rm.NystromFeatures(12), "learning_rate": 0.3}),
    "ogd auto": (rm.OGDClassifier, {"features": AUTO, "loss": "log"}),
    "ogd regressor": (rm.OGDRegressor, {"features": FOURIER, "loss": "huber"}),
    "ogd regressor auto": (rm.OGDRegressor, {"features": AUTO}),
    "ridge": (rm.RidgeRegressor, {"features": CELLS}),
    "ridge capped": (rm.RidgeRegressor, {"features": FOURIER, "max_columns": 6}),
    "ridge window": (rm.RidgeRegressor, {"features": rm.MondrianFeatures(**OBLIQUE), "window": 14}),
    "dual": (rm.DualOGDClassifier, {}),
    "dual cells": (rm.DualOGDClassifier, {"kernel": CELLS}),
}
KINDS |= LEARNERS


def samples(n, n_features=2, n_labels=3, first=0):
    """Return samples, labels and targets; labels shift every 400 samples, and 10 % are noise."""
    rng = np.random.default_rng(first)
    rows = rng.random((n, n_features))
    labels = np.floor(rows.sum(axis=1) * n_labels / n_features).astype(int) + np.arange(n) // 400
    labels = np.where(rng.random(n) < 0.1, rng.integers(n_labels, size=n), labels % n_labels)
    targets = rows.sum(axis=1) + 0.1 * rng.normal(size=n)
    found = [{f"x{j}": value for j, value in enumerate(row)} for row in rows.tolist()]
    return list(zip(found, labels.tolist(), targets.tolist(), strict=True))


@functools.cache
def _pool(n_labels):
    return samples(6000, n_labels=n_labels)


def arguments(model, sample):
    """Return the arguments with which a model learns a sample."""
    x, label, target = sample
    if isinstance(model, base.Classifier | rm.DriftMonitor):
        return x, label
    return (x, target) if isinstance(model, base.Regressor) else (x,)


def learns(x, label=None, w=None):
    """Return a call that lets a model learn a sample with a label or target, and a weight."""

    def call(model):
        sample = x, Y if label is None else label, 1.3
        model.learn_one(*arguments(model, sample), *(() if w is None else (w,)))

    return call


def forest(kind, n, n_labels=3, changes_at=None, levels=False, wild=(), **params):
    """Return a model that has learned `n` samples.

    From sample `changes_at` on, the features have other units; with `levels` there is also a
    categorical feature. The samples in `wild` have huge targets.
    """
    cls, usual = KINDS[kind]
    model = cls(**usual | params)
    for i, (x, label, target) in enumerate(_pool(n_labels)[:n]):
        if changes_at is not None and i >= changes_at:
            x = {name: 20.0 * value for name, value in x.items()}
            x |= {"color": "red"} if levels else {}
        model.learn_one(*arguments(model, (x, label, 1e30 if i in wild else target)))
    return model


X, Y, _ = samples(1, first=1)[0]
WIDE = X | {"z": 0.5, "w": 1.5}
FRAME = pd.DataFrame([x for x, _, _ in samples(12, n_features=3, first=2)])
FRAME.loc[:4, "x2"] = np.nan
FRAME["x3"] = [np.nan] * 7 + [1.0] * 5
WEIGHTS = [1.0 + (i > 4) * (i % 3) for i in range(12)]
ASKED = [*(x for x, _, _ in samples(3, first=8)), {"x0": 50.0, "x1": 1.0}]
LATER = samples(12, n_features=3, first=9)


def learn_rows(model, n):
    """Let a model learn the first rows of a frame; the eighth row has a new class."""
    rows = [arguments(model, sample)[1:] for sample in samples(12, n_features=3, first=2)[:n]]
    more = [[row[0] for row in rows], WEIGHTS[:n]] if isinstance(model, SUPERVISED) else []
    if more and n > 7 and isinstance(model, base.Classifier):
        more[0][7] = "new"
    model.learn_many(FRAME[:n], *more)


SUPERVISED = base.Classifier | base.Regressor
usual, features, missing = learns(X), learns(WIDE), learns({"x0": 0.3})
weight, level, nothing = learns(X, w=2.0), learns(X | {"z": "red"}), learns({})
of_class, class_and_features = learns(X, "new"), learns(WIDE, "new")
class_features_weight = learns(WIDE, "new", 0.5)


def resample(model):
    model.resample()


def forget(model):
    i = max(min(7, model.n_samples - 1), model.n_samples - (getattr(model, "window", None) or 1000))
    model.forget_one(*arguments(model, _pool(3)[i]))


def confirm(model):
    model.confirm(model.alarms[-1])


def dismiss(model):
    model.dismiss(model.alarms[-1])


MEANS = {"posterior": "mean"}
OFTEN_ALARMED = {"threshold": 0.8, "average": 4}
GROWING = MEANS | {"lifetime": root}
GIVEN = [{"x0": 1.0}, {"x1": 1.0}, {"x0": 1.0, "x1": -1.0}]
STARTS = {
    "first sample": (0, {}, usual),
    "second sample": (1, {}, usual),
    "doubling": (7, {}, usual),
    "usual": (21, {}, usual),
    "new features": (20, {}, features),
}
OF_TREES = STARTS | {
    "end of the warm-up": (255, {}, usual),
    "new features late": (260, {}, features),
    "no scaling": (20, {"scale": False}, features),
    "missing value": (300, {}, missing),
    "resample": (270, {}, resample),
}
OF_EXACT = OF_TREES | {
    "random directions": (15, {"directions": 3}, usual),
    "directions, new features": (300, {"directions": 3}, features),
    "full trees": (300, {"max_nodes": 7}, usual),
    "full window": (300, {"window": 40}, usual),
    "full window, new features": (300, {"window": 270}, features),
    "full window, weight": (300, {"window": 40}, weight),
    "forgetting": (300, {}, forget),
    "forgetting in the warm-up": (40, {}, forget),
    "forgetting the last one": (1, {}, forget),
}
CHANGED = {"changes_at": 300}
LEVELS = CHANGED | {"levels": True}
# By kind and name: the number of samples learned before the call, arguments of the model, and the
# call.
MOMENTS = {
    "exact": OF_EXACT
    | {
        "new class": (20, {}, of_class),
        "new class and features": (20, {}, class_and_features),
        "wider counts": (270, {"n_labels": 4}, of_class),
        "wider sets": (300, {"n_labels": 32}, of_class),
        "first weight": (30, {}, weight),
        "first weight late": (300, {}, weight),
        "first weight, class and features": (30, {}, class_features_weight),
        "widths looked at": (384, CHANGED, usual),
        "widths looked at, directions": (384, CHANGED | {"directions": 2}, usual),
        "widths looked at, category": (384, LEVELS, usual),
        "turn of the next tree, category": (438, LEVELS, usual),
        "first category while trees are drawn": (430, CHANGED, level),
        "new features while trees are drawn": (430, CHANGED | {"directions": 2}, features),
        "end of a renewal, category": (509, LEVELS, usual),
        "features that count as zero": (300, {"missing": "zero"}, features),
        "first category": (270, {}, level),
    },
    "adaptive": OF_TREES
    | {
        "watched": (21, {"drift_detector": EveryFew()}, usual),
        "new class": (20, {}, of_class),
        "new class and features": (20, {"drift_detector": None}, class_and_features),
        "wider statistics": (270, {"n_labels": 4}, of_class),
        "many classes": (270, {"n_labels": 128}, of_class),
        "first weight, class and features": (30, {}, class_features_weight),
        "features that count as zero": (20, {"missing": "zero"}, features),
    },
    "regressor": OF_EXACT
    | {
        "weight": (20, {}, weight),
        "first change": (63, {}, usual),
        "end of the warm-up, means": (255, MEANS, usual),
        "follows": (511, {}, usual),
        "third change": (1023, {}, usual),
        "given": (255, {"prior_variance": 0.5, "prior_rate": 1.0, "noise_variance": 0.1}, usual),
        "last change": (4095, {}, usual),
        "change, new features": (63, {}, features),
        "follows, new features": (511, {}, features),
        "lifetime": (20, GROWING, usual),
        "lifetime, doubling": (127, GROWING, usual),
        "lifetime, new features": (300, GROWING, features),
        "lifetime without end": (20, MEANS | {"lifetime": steps}, usual),
        "setting aside": (15, {"wild": (3,)}, usual),
        "setting aside, between": (19, {"wild": (2, 5, 6, 11, 15)}, usual),
        "setting aside, means": (31, MEANS | {"wild": range(7)}, usual),
        "setting aside, late": (447, {"wild": range(100), "scale": False}, usual),
        "new fences": (5119, {}, usual),
        "full window, fences": (319, {"window": 40}, usual),
    },
    "adaptive regressor": OF_TREES
    | {
        "weighted": (21, {}, weight),
        "wild": (300, {}, lambda m: m.learn_one(X, 1e30)),
        "watched": (21, {"drift_detector": EveryFew()}, usual),
        "new features late": (260, {"autoregressive": True}, features),
        "new level": (260, {}, level),
    },
    "cuts": STARTS
    | {
        "full window": (60, {}, usual),
        "full window, new features": (60, {}, features),
        "full window, category": (60, {}, level),
        "new features first": (0, {}, features),
        "renewal": (450, {"window": 300, "changes_at": 300}, usual),
        "missing value": (60, {}, missing),
        "no feature": (0, {}, nothing),
        "forget": (60, {"window": None}, forget),
        "forget the last one": (1, {}, forget),
        "resample": (60, {}, resample),
        "short of a shingle": (1, {"shingle": 3}, usual),
        "first shingle": (2, {"shingle": 3}, usual),
        "shingle": (60, {"shingle": 3}, usual),
        "shingle, new features": (60, {"shingle": 3}, features),
    },
    "density": STARTS
    | {
        "missing value": (20, {}, missing),
        "new features first": (0, {}, features),
        "no feature": (0, {}, nothing),
        "growing": (20, {"lifetime": None}, usual),
        "function": (20, {"lifetime": root}, usual),
        "function, new features": (20, {"lifetime": root}, features),
        "laplace": (20, {"method": "laplace"}, usual),
        "kernel": (20, {"method": "kernel"}, features),
        "mixed, renewal": (16, {"lifetime": "auto"}, usual),
        "mixed, new features": (20, {"lifetime": "auto"}, features),
        "window": (20, {"window": 5}, usual),
        "origin": (20, {"origin": {"x0": 0.0, "x1": 1.0}}, usual),
        "given directions": (5, {"directions": GIVEN}, usual),
        "random directions": (5, {"directions": 3}, usual),
        "random directions, growing": (5, {"directions": 3, "lifetime": root}, features),
    },
}

OF_LEARNERS = {f"{n} samples": (n, {}, usual) for n in (0, 1, 3, 15, 40)} | {
    "new features early": (5, {}, features),
    "new features late": (40, {}, features),
    "missing value": (40, {}, missing),
}
OF_CLASSES = {
    "second class": (20, {"n_labels": 1}, of_class),
    "third class early": (6, {"n_labels": 2}, of_class),
    "third class late, new features": (40, {"n_labels": 2}, class_and_features),
    "fourth class": (40, {}, of_class),
}
# The first 256 samples determine the scale of lifetimes here.
OF_AUTO = {
    "end of the start": (255, {}, usual),
    "new features at the end of the start": (255, {}, features),
    "new features after the start": (270, {}, features),
}
for _kind, (_cls, _given) in LEARNERS.items():
    MOMENTS[_kind] = OF_LEARNERS | (OF_CLASSES if issubclass(_cls, base.Classifier) else {})
    MOMENTS[_kind] |= OF_AUTO if "auto" in _kind else {}
    if _kind == "alarms":
        MOMENTS[_kind] |= {"alarm": (120, {}, learns({"x0": 50.0}))}
        MOMENTS[_kind] |= {"confirm": (130, OFTEN_ALARMED, confirm)}
        MOMENTS[_kind] |= {"dismiss": (130, OFTEN_ALARMED, dismiss)}
    if _kind == "monitor":
        MOMENTS[_kind] |= {"reference": (39, {}, usual), "reference, class": (39, {}, of_class)}
        MOMENTS[_kind] |= {"spacing": (100, {"spacing": 3}, features)}
    if hasattr(_cls, "forget_one") and "window" in _given:
        MOMENTS[_kind] |= {"forget": (20, {}, forget)}


# Rare events, which are recognised by changes of the state.


def summary(model):
    """Return the state that an event changes, or None before there are trees."""
    if isinstance(model, rm.DriftMonitor):
        return SimpleNamespace(phase=model._table.record.phase)
    is_cuts = isinstance(model, rm.RandomCutForest)
    trees = getattr(model._map, "trees", None) if hasattr(model, "_map") else model._trees
    if trees is None or isinstance(model, rm.DensityForest):
        return trees and SimpleNamespace(rows=trees.regions.nbytes, points=trees.samples.nbytes)
    return SimpleNamespace(
        rows=[tree.nodes.capacity for tree in trees.trees],
        points=trees.forest.points.capacity,
        values=b"".join(chunk.tobytes() for chunk in trees.points.chunks[0]) if is_cuts else None,
        schedule=getattr(trees, "schedule", None),
        n_drifts=len(getattr(model, "drift_log", ())),
        low_fence=trees.forest.fences.low if hasattr(trees.forest, "fences") else None,
    )


def begins(role):
    return lambda old, new: old.schedule.role == IDLE and new.schedule.role == role


def is_placed(role):
    return lambda old, new: (
        new.schedule.roles.count(role) > old.schedule.roles.count(role)
        or (old.schedule.role == role and new.schedule.ages != old.schedule.ages)
    )


def goes_on(old, new):
    before, after = old.schedule, new.schedule
    return before.role == LONG and after.role == LONG and after.ages == before.ages


def lets_go(old, new):
    return new.schedule.starts.count(2**62) > old.schedule.starts.count(2**62)


def grows(what):
    return lambda old, new: getattr(old, what) != getattr(new, what)


def drifts(old, new):
    return new.n_drifts > old.n_drifts


def turns(before, after):
    return lambda old, new: (old.phase, new.phase) == (before, after)


# With this grace period, the reference is full only after all evidence has been collected.
OFTEN = {"every": 20, "grace_period": 220}
OF_MONITOR = {
    "an alarm": (turns(1, 2), OFTEN),
    "the final version": (turns(2, 0), OFTEN),
    "a reference": (turns(0, 1), OFTEN),
    "the final version and a reference": (turns(2, 1), OFTEN | {"grace_period": 40}),
}
GROWTH = {"rows grow": (grows("rows"), {}), "points grow": (grows("points"), {})}
OF_ADAPTIVE = GROWTH | {
    "a tree of all samples begins": (begins(LONG), {"n_estimators": 8}),
    "a tree of all samples goes on": (goes_on, {"n_estimators": 8}),
    "a tree of all samples is placed": (is_placed(LONG), {}),
    "a recent tree begins": (begins(RECENT), {"n_estimators": 8}),
    "a recent tree is placed": (is_placed(RECENT), {}),
    "a drift": (drifts, {"drift_detector": EveryFew()}),
    "the window ends": (lambda old, new: new.schedule.first > old.schedule.first, {"window": 1000}),
}
HAPPENINGS = {
    "exact": GROWTH,
    "adaptive": OF_ADAPTIVE
    | {
        "a drift by ADWIN": (drifts, {"drift_detector": drift.ADWIN(grace_period=5)}),
        "samples are let go": (lets_go, {"window": 1000, "n_estimators": 2}),
        "bytes run out": (
            lambda old, new: new.schedule.max_samples < old.schedule.max_samples,
            {"max_bytes": 400_000},
        ),
    },
    "regressor": GROWTH
    | {"rows grow, means": (grows("rows"), MEANS), "rows grow, lifetime": (grows("rows"), GROWING)},
    "adaptive regressor": OF_ADAPTIVE
    | {"fences move": (grows("low_fence"), {"autoregressive": True})},
    "cuts": {
        "points grow": (grows("points"), {"window": None}),
        "a sample passes": (
            lambda old, new: old.values == new.values,
            {"window": 120, "max_samples": 30},
        ),
        "a sample enters": (grows("values"), {"window": 120, "max_samples": 30}),
    },
    "mondrian": GROWTH,
    "monitor": OF_MONITOR,
    "density": {
        "rows grow": (grows("rows"), {}),
        "rows grow, function": (grows("rows"), {"lifetime": root}),
        "points grow": (grows("points"), {"window": 1000}),
    },
}


@functools.cache
def happening(kind, name):
    """Return the pickle of a model one sample before an event, and the call that causes it."""
    happens, params = HAPPENINGS[kind][name]
    model, before = forest(kind, 100, **params), None
    for i, sample in enumerate(_pool(3)[100:], 100):
        before = before or summary(model)
        model.learn_one(*arguments(model, sample))
        known = summary(model)
        if i > 256 * hasattr(known, "schedule") and happens(before, known):
            state = pickle.dumps(forest(kind, i, **params))
            return state, lambda model, sample=sample: model.learn_one(*arguments(model, sample))
        before = known
    raise AssertionError(f"{name}: the event has not happened")


# Attributes and methods that read a model, and the arguments of the methods.

OF_X = ["predict_one", "raw_scores_one", "log_density_one", "debug_one", "explain_one"]
OF_FRAME = ["transform_many", "predict_many", "predict_proba_many", "score_many", "surprise_many"]
OF_NOTHING = ["feature_importances", "hyperparameters", "tail_weights", "baseline"]
OF_NOTHING += ["expert_weights", "drift_log", "recent_scores", "__getstate__"]
READINGS = dict.fromkeys([*OF_X, "decision_one"], (X,)) | {
    "score_one": ({"x0": 100.0, "x1": 0.0},),
    "transform_one": (WIDE | {"unknown": 1.0},),
    "to_dataframe": (0,),
    **dict.fromkeys(["predict_proba_one", "density_one"], (WIDE,)),
    **dict.fromkeys(OF_FRAME, (FRAME,)),
    **dict.fromkeys(OF_NOTHING, ()),
}


def read(model, name):
    """Call a reading method of a model, or read an attribute."""
    found = getattr(model, name)
    if callable(found):
        found(*READINGS[name])
        if "with_dist" in inspect.signature(found).parameters:
            found(*READINGS[name], with_dist=True)


def looks(model):
    """Return the visible state of a model, with the pickle of the model or of its trees."""
    names = "n_samples classes hyperparameters tail_weights recent_scores"
    seen = [getattr(model, name, None) for name in names.split()]
    asks = ["transform", "decision", "predict", "score", "raw_scores", "surprise", "predict_proba"]
    for name in asks[: None if has_probabilities(model) else -1]:
        if ask := getattr(model, f"{name}_one", None):
            seen.append([ask(x) for x in ASKED])
    is_cuts = isinstance(model, rm.RandomCutForest)
    state = model._trees if is_cuts else model
    return seen, model._past_now() if is_cuts else 0, pickle.dumps(state)


def go_on(model):
    for sample in LATER:
        if hasattr(model, "score_one"):
            model.score_one(sample[0])
        model.learn_one(*arguments(model, sample))
