"""Tests of learners on feature maps: reference, River's learners, and the public interface."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from common import fed
from naive import ogd as naive
from river import linear_model, optim

from river_mondrian import IsolationFeatures, OGDClassifier, OGDRegressor, RandomFourierFeatures
from river_mondrian.estimators.feature_learner import REPLAY

NAMES = ["a", "b", "c"]
RATES = {
    "constant": 0.3,
    "schedule": optim.schedulers.InverseScaling(0.7, 0.4),
    "sgd": optim.SGD(optim.schedulers.InverseScaling(0.7, 0.4)),
    "adagrad": optim.AdaGrad(0.4),
    "adagrad schedule": optim.AdaGrad(optim.schedulers.InverseScaling(0.7, 0.1)),
}


def rows(n, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return [dict(zip(NAMES, row, strict=True)) for row in X.tolist()]


def label(x, n_classes):
    return int((x["a"] ** 2 + 2 * x["b"]) // 0.8) % n_classes


def frame(data):
    return pd.DataFrame(data, index=np.arange(len(data))[::-1] * 3)


def frozen(n=100, **params):
    features = IsolationFeatures(n_partitions=20, n_cells=10, pool_size=n, seed=1, **params)
    features.learn_many(frame(rows(n, seed=9)))
    while not features.frozen:
        features.learn_one({})
    return features


# The algorithm.


def dense():
    return fed(RandomFourierFeatures(6, seed=1), rows(1))


def reference_of(kind, rate, loss):
    """Return River's linear model with the same optimizer and loss."""
    given = RATES[rate]
    optimizer = given.clone() if isinstance(given, optim.base.Optimizer) else optim.SGD(given)
    return kind(optimizer=optimizer, loss=loss, intercept_lr=0.0)


LOSSES = {
    "log": optim.losses.Log(),
    "hinge": optim.losses.Hinge(0.5),
    "weighted": optim.losses.Log(3.0, 0.5),
    "focal": optim.losses.BinaryFocalLoss(),
}


@pytest.mark.covering
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("make", [frozen, dense])
def test_two_classes_are_rivers_linear_model_on_the_mapped_sample(rate, loss, make):
    features = make()
    reference = reference_of(linear_model.LogisticRegression, rate, LOSSES[loss])
    given = "log" if loss == "log" else LOSSES[loss]
    model = OGDClassifier(features, loss=given, learning_rate=RATES[rate])
    rng = np.random.default_rng(0)
    for x in rows(200):
        y, w, mapped = bool(label(x, 2)), float(rng.uniform(0, 2)), features.transform_one(x)
        if len(model.classes) == 2:
            if loss != "hinge":
                expected = reference.predict_proba_one(mapped)
                assert model.predict_proba_one(x) == pytest.approx(expected, rel=1e-6)
            raw = reference._raw_dot_one(mapped)
            assert abs(raw) <= 1e-9 or model.predict_one(x) == (raw > 0.0)
        model.learn_one(x, y, w=w)
        reference.learn_one(mapped, y, w=w)
    for x in rows(50, seed=1):
        expected = reference._raw_dot_one(features.transform_one(x))
        model._score(x)
        assert model._current.scores[0] == pytest.approx(expected, rel=1e-6, abs=1e-9)


TARGET_LOSSES = {
    "squared": optim.losses.Squared(),
    "epsilon": optim.losses.EpsilonInsensitiveHinge(0.2),
    "huber": optim.losses.Huber(0.3),
    "quantile": optim.losses.Quantile(0.8),
    "poisson": optim.losses.Poisson(),
}


@pytest.mark.covering
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("loss", TARGET_LOSSES)
def test_regression_is_rivers_linear_model_on_the_mapped_sample(rate, loss):
    features = frozen()
    reference = reference_of(linear_model.LinearRegression, rate, TARGET_LOSSES[loss])
    given = "squared" if loss == "squared" else TARGET_LOSSES[loss]
    model = OGDRegressor(features, loss=given, learning_rate=RATES[rate])
    assert model.predict_one({"a": 0.0}) == model._rule.loss.mean_func(0.0)
    for x in rows(200):
        mapped = features.transform_one(x)
        assert model.predict_one(x) == pytest.approx(reference.predict_one(mapped), abs=1e-8)
        y = abs(x["a"]) + x["b"] ** 2
        model.learn_one(x, y, w=0.7)
        # River's loss converts a target y to 2y - 1.
        reference.learn_one(mapped, (y + 1.0) / 2.0 if loss == "epsilon" else y, w=0.7)


@pytest.mark.parametrize("multiclass", ["softmax", "ovr"])
@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.parametrize(("rate", "adagrad"), [(0.37, False), (0.4, True)])
def test_classes_that_appear_are_learned_as_by_the_twin(multiclass, loss, rate, adagrad):
    features, names = frozen(), []
    twin = naive.OGD(loss, lambda step: rate, adagrad, multiclass == "softmax")
    optimizer = optim.AdaGrad(rate) if adagrad else rate
    model = OGDClassifier(features, loss, optimizer, multiclass=multiclass)
    for i, x in enumerate(rows(300)):
        y, mapped = f"class {label(x, 2 + i // 60)}", features.transform_one(x)
        if y not in names:
            names.append(y)
            if len(names) > 2:
                twin.add_class()
        model.learn_one(x, y)
        twin.learn(mapped, float(names.index(y)))
        model._score(x)
        scores = twin.scores(mapped)
        np.testing.assert_allclose(model._current.scores, scores, atol=1e-9)
        assert len(names) <= 2 or model.predict_one(x) == names[int(np.argmax(scores))]
    assert len(names) == 6 == len(model.classes)


@pytest.mark.parametrize("first", [True, False])
def test_the_positive_class_is_true(first):
    """The weight of positives applies to True, whichever label comes first."""
    model = OGDClassifier(frozen(), optim.losses.Log(weight_pos=50.0), learning_rate=0.1)
    for i in range(100):
        model.learn_one({"a": 0.0}, (i % 2 == 0) == first)
    assert model.predict_proba_one({"a": 0.0})[True] > 0.9


@pytest.mark.parametrize("method", ["anne", "iforest"])
@pytest.mark.parametrize("n", [105, 110, 160])
def test_weights_for_the_final_map_learn_the_stored_samples_again(method, n):
    data = rows(n)
    features = IsolationFeatures(20, 10, method=method, pool_size=100, seed=1)
    model = OGDRegressor(features, learning_rate=0.3)
    for x in data:
        features.learn_one(x)
        model.learn_one(x, x["a"] * x["b"])
    assert features.frozen and model._next is None and model._pool is None
    twin = naive.OGD("squared", lambda step: 0.3, adagrad=False)
    order = naive.order_of_learning(n, 100, REPLAY)
    assert sorted(order) == list(range(n))
    for i in order:
        twin.learn(features.transform_one(data[i]), data[i]["a"] * data[i]["b"])
    for x in data:
        assert model.predict_one(x) == pytest.approx(twin.scores(features.transform_one(x))[0])


def test_predictions_come_from_the_map_before_until_the_replay_has_caught_up():
    data = rows(103)
    model = OGDRegressor(IsolationFeatures(20, 10, pool_size=100, seed=1))
    builds = []
    for x in data:
        model.learn_one(x, x["a"])
        builds.append(None if model._current is None else model._current.compiled.number)
    # The map is built at 2, 4, ..., 64 and 100 samples. The last two replays take 3 and 4 calls.
    assert builds[:4] == [None, 0, 0, 1]
    assert builds[62:66] == [4, 4, 4, 5]
    assert builds[99:] == [5, 5, 5, 6]


def test_trees_that_take_calls_to_grow_lose_no_sample(monkeypatch):
    monkeypatch.setattr("river_mondrian.partitions.isolation.ENTRIES_OF_CALL", 100)
    data, features = rows(300), IsolationFeatures(20, 10, "iforest", 100, seed=1)
    model = fed(OGDRegressor(features, learning_rate=optim.SGD(1e-6)), [(x, 1.0) for x in data])
    fed(features, data)
    assert features.frozen and model._next is None
    # With such a small rate, weights are proportional to numbers of samples.
    count = sum(features.kernel(data[0], x) for x in data)
    assert model.predict_one(data[0]) / 2e-6 == pytest.approx(count, rel=1e-3)


@pytest.mark.parametrize("make", [frozen, dense])
def test_features_are_copied_and_may_have_learned(make):
    features = make()
    before = pickle.dumps(features.__dict__)
    fed(OGDClassifier(features, seed=1), [({**x, "d": 1.0}, label(x, 2)) for x in rows(50)])
    assert pickle.dumps(features.__dict__) == before


# Bad input and small cases.


def test_the_hinge_loss_gives_no_probabilities():
    model = OGDClassifier(loss="hinge", seed=1)
    for _ in range(2):
        for predict, x in ((model.predict_proba_one, {}), (model.predict_proba_many, frame([{}]))):
            with pytest.raises(NotImplementedError, match="log"):
                predict(x)
        model.learn_one({"a": 1.0}, "x")


def test_features_may_be_in_mid_growth():
    half = IsolationFeatures(10, pool_size=100, seed=0)
    half.learn_many(frame(rows(70)))
    model = fed(OGDClassifier(half), [(x, x["a"] > 0.0) for x in rows(60, seed=1)])
    assert model._features.frozen and model._pool is None
    assert sum(model.predict_one(x) == (x["a"] > 0.0) for x in rows(100, seed=2)) > 75


def test_before_there_is_a_map():
    model = OGDClassifier(loss="log", seed=1)
    assert (model.predict_one({"a": 1.0}), model.predict_proba_one({"a": 1.0})) == (None, {})
    model.learn_one({"a": 1.0}, "x")
    assert model.predict_one({"a": 1.0}) == "x"
    assert model.predict_proba_one({"a": 1.0}) == {"x": 1.0}
    assert model.predict_many(frame(rows(2))).tolist() == ["x", "x"]
    model.learn_one({}, "y")
    assert math.isclose(sum(model.predict_proba_one({}).values()), 1.0)
    model = OGDClassifier(IsolationFeatures(seed=1, n_cells=4, pool_size=64), "log")
    fed(model, [({"a": 1.0}, "only")] * 100)
    assert model.predict_one({"a": -1.0}) == "only"
    assert model.predict_many(frame(rows(2))).tolist() == ["only", "only"]
    assert OGDRegressor().predict_one({"a": 1.0}) == 0.0
    assert OGDRegressor().predict_many(frame(rows(2))).tolist() == [0.0, 0.0]


def weights_of(model):
    slots = model._current.slots
    return model._current.rows()[np.where(slots < 0, ~slots, slots)]
