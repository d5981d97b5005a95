"""Tests of the adaptive regressor's public interface: streams, drifts and late targets."""

import common
import numpy as np
import pytest
from common import AdaptiveTargets, progressive, restored
from river.datasets import synth
from test_adaptive_forest import stream as of_classes

from river_mondrian.posteriors.rebuilt.forest import LONG, RECENT
from river_mondrian.progress import Progress


def stream(n):
    """Return samples; a feature and a level are missing in some of them."""
    found = []
    for x, _ in of_classes(n):
        y = 3.0 * x.get("a", 0.5) + x["b"] / 25.0
        found.append((x | ({"color": "red"} if x["b"] > 30.0 else {}), y))
    return found


def fed(data, **params):
    return common.fed(AdaptiveTargets(**{"n_estimators": 4, "seed": 1} | params), data)


@pytest.mark.parametrize("unit", [1e-60, 1e-6, 1e6, 1e60])
def test_targets_have_any_units(unit):
    data = stream(400)
    one, other = fed(data), fed([(x, unit * y) for x, y in data])
    found = [other.predict_one(x) / unit for x, _ in data[:50]]
    np.testing.assert_allclose(found, [one.predict_one(x) for x, _ in data[:50]], rtol=1e-2)


@pytest.mark.parametrize(("unit", "weight"), [(1.0, 1e30), (1e120, 1.0), (1e100, 1e25)])
def test_largest_targets_and_weights_lead_to_numbers(unit, weight):
    """The model can be restored, and predicts numbers."""
    model, data = AdaptiveTargets(4, seed=1), stream(300)
    largest = max(abs(y) for _, y in data)
    for i, (x, y) in enumerate(data):
        model.learn_one(x, unit * (y / largest), weight if i % 3 else 1.0)
    copy = restored(model)
    for x, _ in data[:20]:
        assert np.isfinite(copy.predict_one(x, with_dist=True).interval(0.9)).all()
        assert copy.predict_one(x) == model.predict_one(x)


def test_the_window_is_bounded():
    model = AdaptiveTargets(5, window=1000, seed=1)
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
    for number, slot in enumerate(trees.schedule.of_role(LONG)):
        assert trees.reader.read(number)[0].n_samples == 5000 - starts[slot]


def test_progress_counts_rows_whose_distributions_are_known(monkeypatch):
    model, laws, reached = fed(stream(60)), [], []
    distribution_of = type(model._trees).distribution_of
    monkeypatch.setattr(
        type(model._trees), "distribution_of", lambda *a: laws.append(1) or distribution_of(*a)
    )
    monkeypatch.setattr(Progress, "reach", lambda self, done: reached.append((done, len(laws))))
    model.predict_many(np.ones((1030, 1)), with_dist=True, progress=True)
    assert reached == [(1024, 1024), (1030, 1030)]


def test_what_is_read_of_little():
    model = AdaptiveTargets(3, seed=1)
    assert model.feature_importances == model.expert_weights == {}
    assert model.drift_log == []
    assert model.debug_one({"a": 1.0}) == "nothing has been learned yet"
    model.learn_one({"a": 1.0}, 2.0)
    assert model.feature_importances == {"a": 0.0}
    assert len(model.to_dataframe()) == 1
    assert "prediction 2" in model.debug_one({"a": 1.0})
    assert sum(model.expert_weights.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("loss", ["absolute", "squared"])
def test_losses_are_those_that_are_asked_for(loss):
    """The median and the mean of a skewed distribution differ."""
    rng = np.random.default_rng(3)
    y = rng.exponential(size=3000) ** 2
    data = [({"a": a}, t) for a, t in zip(rng.random(3000).tolist(), y.tolist(), strict=True)]
    found = np.mean(progressive(fed(data[:1500], loss=loss), data[1500:]))
    nearer = abs(found - np.median(y[1500:])) < abs(found - np.mean(y[1500:]))
    assert nearer == (loss == "absolute")


def test_the_latest_targets_predict_where_that_is_wanted():
    rng = np.random.default_rng(5)
    y = np.cumsum(rng.normal(size=1500))
    data = [({"a": float(rng.random())}, target) for target in y.tolist()]
    models = [fed([], autoregressive=flag) for flag in (False, True)]
    plain, lagged = (np.abs(progressive(model, data) - y)[100:].mean() for model in models)
    assert lagged < 1.1 * np.abs(np.diff(y[99:])).mean()
    assert lagged < 0.7 * plain
