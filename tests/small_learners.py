"""Small learners and what they predict, for tests that run them in several modes."""

from __future__ import annotations

import math

import numpy as np
from river import optim

from river_mondrian import (
    DualOGDClassifier,
    IsolationFeatures,
    OGDClassifier,
    OGDRegressor,
    RandomFourierFeatures,
    RidgeRegressor,
)
from river_mondrian.compiling.kernels import exact_separate
from river_mondrian.features.base import FeatureMap
from river_mondrian.maps.record import CompiledMap, MapRecord, Outputs, Sample

N_SAMPLES = 40
N_CLASSES = 4


class Grids(FeatureMap):
    """The cells of two grids, of which the learner chooses one."""

    _auto = True

    def __init__(self):
        super().__init__()
        self._map = _Grids()

    def learn_one(self, x):
        self._reader.add(self._reader.index.read(x))


class _Grids(CompiledMap):
    n_lifetimes = 2

    def __init__(self):
        super().__init__(0, n_out=4, n_columns=32, n_inputs=2, dense=False)
        self._finish()

    def _transform(self):
        return find_cells

    def _bind(self):
        pass

    @property
    def lifetimes(self):
        return [1.0, 2.0]

    def names(self, columns):
        return [str(c) for c in columns]


@exact_separate
def find_cells(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    cells, values = outputs.cells, sample.values
    for i in range(record.n_out):
        width = 1.0 if i < 2 else 0.5
        cells[i] = 8 * i + math.floor(values[i % 2] / width) % 8
    return -1


def isolation(method="anne"):
    return IsolationFeatures(4, 4, method=method, pool_size=16, seed=1)


def fourier():
    return RandomFourierFeatures(6, seed=1)


LEARNERS = {
    "hinge": lambda: OGDClassifier(isolation(), loss="hinge"),
    "log": lambda: OGDClassifier(isolation("iforest"), "log", 0.3),
    "one against the rest": lambda: OGDClassifier(isolation(), "log", multiclass="ovr"),
    "foreign": lambda: OGDClassifier(isolation(), optim.losses.BinaryFocalLoss(), multiclass="ovr"),
    "dense": lambda: OGDClassifier(fourier(), "log"),
    "lifetimes": lambda: OGDClassifier(Grids(), "log"),
    "squared": lambda: OGDRegressor(isolation(), "squared", 0.2),
    "epsilon": lambda: OGDRegressor(isolation(), "epsilon_insensitive"),
    "huber of lifetimes": lambda: OGDRegressor(Grids(), "huber"),
    "ridge": lambda: RidgeRegressor(isolation()),
    "dense ridge": lambda: RidgeRegressor(fourier(), fit_intercept=False),
    "capped ridge": lambda: RidgeRegressor(isolation(), max_columns=5),
    "ridge of a window": lambda: RidgeRegressor(isolation(), window=9),
    "dense ridge of a window": lambda: RidgeRegressor(fourier(), window=9),
    "laplace": lambda: DualOGDClassifier("laplace"),
    "gaussian": lambda: DualOGDClassifier("gaussian"),
    "cells": lambda: DualOGDClassifier(isolation()),
}


def predictions(model, x):
    if isinstance(model, DualOGDClassifier):
        return list(model.decision_one(x).values())
    if isinstance(model, RidgeRegressor):
        found = model.predict_one(x, with_dist=True)
        return [model.predict_one(x), found.mu, found.sigma]
    if isinstance(model, OGDRegressor):
        return [model.predict_one(x)]
    model.predict_one(x)
    return [] if model._current is None else model._current.scores.tolist()


def results():
    """Return what each learner predicts of each sample before it learns it."""
    X = np.random.default_rng(0).normal(size=(N_SAMPLES, 2))
    found = {}
    for name, make in LEARNERS.items():
        model, rows = make(), []
        for i, (a, b) in enumerate(X.tolist()):
            x = {"a": a, "b": b}
            rows.append(predictions(model, x))
            target = a * b
            if not isinstance(model, OGDRegressor | RidgeRegressor):
                # The third class appears half way.
                target = int(abs(3.0 * a + b)) % (2 if i < N_SAMPLES // 2 else N_CLASSES)
            model.learn_one(x, target)
        found[name] = rows
    return found
