"""The adaptive regressor as River sees it: streams, windows, drifts, laws, late labels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from river import drift, evaluate, metrics
from river.datasets import synth
from test_adaptive_targets import slots

from river_mondrian import AdaptiveMondrianForestRegressor
from river_mondrian.posteriors.rebuilt.forest import RECENT


def stream(n, seed=0):
    """Make samples of which some lack values, with a feature that comes late, and levels."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        a, b, c = rng.random(3).tolist()
        x = {"a": a, "b": 50.0 * b, "c": c, "color": "red" if b > 0.6 else "blue"}
        if i < n // 3:
            del x["c"]
        if rng.random() < 0.2:
            del x["a"]
        found.append((x, 3.0 * a + (2.0 if b > 0.6 else 0.0) + 0.1 * rng.normal()))
    return found


def fed(data, **params):
    model = AdaptiveMondrianForestRegressor(**{"n_estimators": 4, "seed": 1} | params)
    for x, y in data:
        model.learn_one(x, y)
    return model


def error_of(model, data):
    return float(np.mean([abs(model.predict_one(x) - y) for x, y in data]))


# What it learns.


@pytest.mark.parametrize("unit", [1e-60, 1e-6, 1e6, 1e60])
def test_targets_have_any_units(unit):
    data = stream(400)
    one, other = fed(data), fed([(x, unit * y) for x, y in data])
    found = [other.predict_one(x) / unit for x, _ in data[:50]]
    np.testing.assert_allclose(found, [one.predict_one(x) for x, _ in data[:50]], rtol=1e-2)


@pytest.mark.parametrize("loss", ["absolute", "squared"])
def test_losses_are_those_that_are_asked_for(loss):
    """Of a skewed law the median and the mean are apart."""
    rng = np.random.default_rng(3)
    data = [({"a": a}, float(rng.exponential() ** 2)) for a in rng.random(3000)]
    model = fed(data[:1500], loss=loss)
    points = []
    for x, y in data[1500:]:
        points.append(model.predict_one(x))
        model.learn_one(x, y)
    targets = np.array([y for _, y in data[1500:]])
    median, mean = float(np.median(targets)), float(np.mean(targets))
    found = float(np.mean(points))
    nearer = abs(found - median) < abs(found - mean)
    assert nearer == (loss == "absolute")


# Laws.


def test_the_law_of_one_sample_has_its_mean():
    model = AdaptiveMondrianForestRegressor()
    model.learn_one({"a": 1.0}, 2.0)
    law = model.predict_one({"a": 1.0}, with_dist=True)
    assert law.mean == 2.0


# Series.


def walk(n):
    rng = np.random.default_rng(5)
    y = np.cumsum(rng.normal(size=n))
    return [({"a": float(rng.random())}, float(v)) for v in y]


@pytest.mark.parametrize("autoregressive", [False, True])
def test_labels_may_come_late(autoregressive):
    """Predictions are of what has been learned by then."""
    rows = [({"a": x["a"], "t": i}, y) for i, (x, y) in enumerate(walk(300))]
    model = fed([], autoregressive=autoregressive)
    metric = evaluate.progressive_val_score(iter(rows), model, metrics.MAE(), moment="t", delay=20)
    twin, waiting, errors = fed([], autoregressive=autoregressive), [], []
    for x, y in rows:
        while waiting and waiting[0][0] <= x["t"] - 20:
            _, old, target, point = waiting.pop(0)
            errors.append(abs(point - target))
            twin.learn_one(old, target)
        waiting.append((x["t"], x, y, twin.predict_one(x)))
    errors += [abs(point - target) for _, _, target, point in waiting]
    assert metric.get() == pytest.approx(np.mean(errors), rel=1e-9)


# Ways to learn.


# What is kept.


def test_the_window_is_bounded():
    model = AdaptiveMondrianForestRegressor(5, window=1000, seed=1)
    sizes = []
    for i, (x, y) in enumerate(synth.Friedman(seed=1).take(5000)):
        model.learn_one(x, y)
        trees = model._trees
        n = model.n_samples - trees.schedule.first
        assert n <= 1000
        assert trees.n_points <= 2000
        if i % 500 == 499 and i > 2000:
            sizes.append(model._raw_memory_usage)
    assert max(sizes) < 1.1 * min(sizes)
    roles = trees.trees.words["role"]
    starts = np.array(trees.schedule.starts)
    assert (starts[roles == RECENT] >= 5000 - 1000).all()
    for number, slot in enumerate(slots(trees)):
        assert trees.read(number)[0].n_samples == 5000 - trees.schedule.starts[slot]


def test_bytes_are_bounded():
    model = AdaptiveMondrianForestRegressor(5, max_bytes=3_000_000, seed=1)
    free = AdaptiveMondrianForestRegressor(5, seed=1)
    most = 0
    for x, y in synth.Friedman(seed=1).take(4000):
        model.learn_one(x, y)
        free.learn_one(x, y)
        most = max(most, model._raw_memory_usage)
    assert most < 3_000_000
    assert free._raw_memory_usage > 1.3 * most
    assert model._trees.schedule.first > 0


def turning(n, at):
    rng = np.random.default_rng(6)
    X = rng.random((n, 3))
    y = np.where(np.arange(n) < at, 10.0 * (X[:, 0] > 0.5), 10.0 * (X[:, 0] < 0.5)) + X[:, 1]
    return [
        ({"a": a, "b": b, "c": c}, float(t)) for (a, b, c), t in zip(X.tolist(), y, strict=True)
    ]


@pytest.mark.parametrize("detector", [None, drift.PageHinkley(threshold=5.0)])
def test_drifts_are_found(detector):
    data = turning(1600, 1000)
    model = fed(data, n_estimators=5, drift_detector=detector)
    assert model.drift_log
    n, kept = model.drift_log[-1]
    assert 1000 < n < 1200
    assert kept <= 400
    assert model._trees.schedule.first >= n - kept
    assert error_of(model, data[-100:]) < 2.0


# What can be read.


def test_explanations_add_up():
    data = stream(400)
    model = fed(data)
    for x, _ in data[:3]:
        found = model.explain_one(x)
        assert set(found) == set(model.feature_names)
        total = model.baseline + sum(found.values())
        assert total == pytest.approx(model.predict_one(x), abs=1e-9)
        assert found.get("a", 0.0) == 0.0 or "a" in x
    assert AdaptiveMondrianForestRegressor().explain_one({"a": 1.0}) == {}


def test_what_is_read_of_little():
    model = AdaptiveMondrianForestRegressor(3, seed=1)
    assert model.feature_importances == model.expert_weights == {}
    assert model.drift_log == []
    assert model.debug_one({"a": 1.0}) == "nothing has been learned yet"
    model.learn_one({"a": 1.0}, 2.0)
    assert model.feature_importances == {"a": 0.0}
    assert len(model.to_dataframe()) == 1
    assert "prediction 2" in model.debug_one({"a": 1.0})
    assert sum(model.expert_weights.values()) == pytest.approx(1.0)


def test_one_dimension_and_no_feature():
    model = AdaptiveMondrianForestRegressor(3, seed=1)
    for y in (1.0, 2.0, 3.0):
        model.learn_one({}, y)
    assert 0.0 < model.predict_one({}) < 4.0
    model.learn_one({"a": 1.0}, 2.0)
    assert math.isfinite(model.predict_one({"a": 1.0}))
