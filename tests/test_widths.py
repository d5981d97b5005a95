"""Widths of features: found from the first samples, unmoved by wild values, ready to be renewed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from naive.ranges import robust_range

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    MondrianForestClassifier,
    MondrianForestRegressor,
)
from river_mondrian.compiling.kernels import Kernel
from river_mondrian.partitions import ranges
from river_mondrian.partitions.mondrian import inputs, widths

FORESTS = {
    "exact": lambda **own: MondrianForestClassifier(**{"n_estimators": 5, "seed": 1} | own),
    "regressor": lambda **own: MondrianForestRegressor(**{"n_estimators": 3, "seed": 1} | own),
    "adaptive": lambda **own: AdaptiveMondrianForestClassifier(
        **{"n_estimators": 5, "seed": 1} | own
    ),
}
forests = pytest.mark.parametrize("kind", list(FORESTS))
FENCE = 100.0


def xor(n, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, 2))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int).tolist()


def learned(kind, X, y, **own):
    model = FORESTS[kind](**own)
    for row, label in zip(X.tolist(), y, strict=True):
        x = {name: v for name, v in zip("abcd", row, strict=False) if not math.isnan(v)}
        model.learn_one(x, label)
    return model


@forests
@pytest.mark.parametrize("missing", ["unknown", "zero"])
def test_widths_are_the_twins(kind, missing):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((256, 4)) * [1.0, 1e6, 1.0, 1.0]
    X[rng.random(X.shape) < 0.2] = math.nan
    X[:, 2] = rng.random(256) < 0.05
    X[:, 3] = 7.0
    model = learned(kind, X, xor(256)[1], missing=missing)
    columns = X if missing == "unknown" else np.nan_to_num(X)
    for name, column in zip("abcd", columns.T, strict=True):
        low, high = robust_range(column.tolist(), FENCE)
        expected = (high - low) or abs(low) or 1.0
        assert model.widths[name] == pytest.approx(expected, rel=1e-12)


@forests
@pytest.mark.parametrize("size", [1e3, 1e6, 1e12, 1e30])
@pytest.mark.parametrize("place", [16, 99, 200, 255])
def test_a_wild_value_sets_no_width(kind, size, place):
    X, y = xor(300)
    clean = learned(kind, X, y, n_estimators=1).widths
    X[place, 0] = size
    wild = learned(kind, X, y, n_estimators=1).widths
    assert wild["b"] == clean["b"] and wild["a"] == pytest.approx(clean["a"], rel=0.3)


@pytest.mark.parametrize("kind", ["exact", "adaptive"])
@pytest.mark.parametrize("size", [1e3, 1e30])
def test_a_wild_value_costs_no_accuracy(kind, size):
    right = {}
    for wild in (False, True):
        right[wild] = 0
        for seed in range(3):
            X, y = xor(2000, seed)
            if wild:
                X[99, 0] = size
            model = FORESTS[kind](seed=seed)
            for i, (row, label) in enumerate(zip(X.tolist(), y, strict=True)):
                x = dict(zip("ab", row, strict=True))
                right[wild] += i >= 500 and model.predict_one(x) == label
                model.learn_one(x, label)
    # The draws are others: two standard deviations of a difference are less.
    assert abs(right[True] - right[False]) / 4500 < 0.015


def test_widths_of_models_that_do_not_scale():
    assert MondrianForestClassifier().widths == {}
    model = MondrianForestClassifier(3, scale=False, seed=1)
    model.learn_one({"a": 5.0}, 0)
    assert model.widths == {"a": 1.0}
    model = MondrianForestClassifier(3, seed=1)
    model.learn_one({"a": 5.0, "color": "red"}, 0)
    assert model.widths == {"a": 5.0, "color": 1.0}


@pytest.mark.parametrize("kind", ["exact", "regressor"])
def test_nothing_is_left_to_compile_for_a_renewal_after_the_warmup(kind):
    modules = widths, inputs, ranges
    kernels = [one for part in modules for one in vars(part).values() if isinstance(one, Kernel)]
    for kernel in kernels:
        kernel._compiled.clear()
    FORESTS[kind]().warmup()
    before = [len(kernel._compiled) for kernel in kernels]
    X, y = xor(600)
    X[300:] *= 10.0
    model = learned(kind, X, y)
    assert model._trees.forest.renewed == model.n_estimators
    assert sum(before) > 0
    assert [len(kernel._compiled) for kernel in kernels] == before
