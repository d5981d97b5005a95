"""Learners on feature maps against their twin and River's, and as their users meet them."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from naive import ogd as naive
from river import linear_model, optim

from river_mondrian import IsolationFeatures, OGDClassifier, OGDRegressor
from river_mondrian.compiling.kernels import exact_separate
from river_mondrian.estimators.feature_learner import REPLAY
from river_mondrian.features.base import FeatureMap
from river_mondrian.limits import LARGEST
from river_mondrian.maps.record import CompiledMap, MapRecord, Outputs, Sample

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


def frame(data, kind="pandas"):
    plain = pd.DataFrame(data, index=np.arange(len(data))[::-1] * 3)
    if kind == "pandas":
        return plain
    return pl.DataFrame(plain) if kind == "polars" else pa.Table.from_pandas(plain, None, False)


def frozen(n=100, **params):
    features = IsolationFeatures(n_partitions=20, n_cells=10, pool_size=n, seed=1, **params)
    features.learn_many(frame(rows(n, seed=9)))
    while not features.frozen:
        features.learn_one({})
    return features


class Scaled(FeatureMap):
    """A dense map whose columns are the features, times 0.5; it grows as features appear."""

    def _start(self):
        self._map = _Scaled(0, len(self._reader.index))
        self._pool = None

    def learn_one(self, x):
        values = self._reader.index.read(x)
        self._reader.add(values)
        if self._map is None:
            self._start()
        self._map.grow(len(self._reader.index))

    def learn_many(self, X):
        raise AssertionError("a learner calls _observe_rows")

    def _observe_rows(self, names, columns):
        self._reader.add_columns(names, columns)
        self._map.grow(len(self._reader.index))


class _Scaled(CompiledMap):
    def __init__(self, number, n):
        super().__init__(number, n_out=n, n_columns=n, n_inputs=n, dense=True, sparse=False)
        self._finish()

    def grow(self, n):
        if n > self.n_out:
            self.record.n_out = self.record.n_columns = self.record.n_inputs = n
            self._finish()

    def _transform(self):
        return halve

    def _bind(self):
        pass

    def names(self, columns):
        return [f"column {c}" for c in columns]


@exact_separate
def halve(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    values, out = sample.values, outputs.values
    for place in range(record.n_inputs):
        if abs(values[place]) > LARGEST:
            return place
    for place in range(record.n_inputs):
        value = values[place]
        out[place] = 0.5 * value if value == value else 0.0
    return -1


# The algorithm.


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(
    "loss",
    ["log", optim.losses.Hinge(0.5), optim.losses.Log(3.0, 0.5), optim.losses.BinaryFocalLoss()],
    ids=["log", "hinge", "weighted", "focal"],
)
@pytest.mark.parametrize("dense", [False, True])
def test_two_classes_are_rivers_linear_model_on_the_mapped_sample(rate, loss, dense):
    features = Scaled() if dense else frozen()
    reference = linear_model.LogisticRegression(
        optimizer=_river_optimizer(rate),
        loss=optim.losses.Log() if loss == "log" else loss,
        intercept_lr=0.0,
    )
    model = OGDClassifier(features, loss=loss, learning_rate=RATES[rate])
    rng = np.random.default_rng(0)
    for x in rows(200):
        y, w = bool(label(x, 2)), float(rng.uniform(0, 2))
        if dense:
            features.learn_one(x)
        mapped = features.transform_one(x)
        if not isinstance(loss, optim.losses.Hinge) and len(model.classes) == 2:
            expected = reference.predict_proba_one(mapped)
            assert model.predict_proba_one(x) == pytest.approx(expected, rel=1e-6)
        if len(model.classes) == 2 and abs(reference._raw_dot_one(mapped)) > 1e-9:
            assert model.predict_one(x) == (reference._raw_dot_one(mapped) > 0.0)
        model.learn_one(x, y, w=w)
        reference.learn_one(mapped, y, w=w)
    for x in rows(50, seed=1):
        expected = reference._raw_dot_one(features.transform_one(x))
        model._score(x)
        assert model._current.scores[0] == pytest.approx(expected, rel=1e-6, abs=1e-9)


def _river_optimizer(rate):
    given = RATES[rate]
    return given.clone() if isinstance(given, optim.base.Optimizer) else optim.SGD(given)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(
    "loss",
    [
        "squared",
        optim.losses.EpsilonInsensitiveHinge(0.2),
        optim.losses.Huber(0.3),
        optim.losses.Quantile(0.8),
        optim.losses.Poisson(),
    ],
    ids=["squared", "epsilon", "huber", "quantile", "poisson"],
)
def test_regression_is_rivers_linear_model_on_the_mapped_sample(rate, loss):
    features = frozen()
    reference = linear_model.LinearRegression(
        optimizer=_river_optimizer(rate),
        loss=optim.losses.Squared() if loss == "squared" else loss,
        intercept_lr=0.0,
    )
    model = OGDRegressor(features, loss=loss, learning_rate=RATES[rate])
    assert model.predict_one({"a": 0.0}) == model._rule.loss.mean_func(0.0)
    for x in rows(200):
        mapped = features.transform_one(x)
        assert model.predict_one(x) == pytest.approx(reference.predict_one(mapped), abs=1e-8)
        y = abs(x["a"]) + x["b"] ** 2
        model.learn_one(x, y, w=0.7)
        # River's loss takes 2y - 1 for the target.
        doubled = isinstance(loss, optim.losses.EpsilonInsensitiveHinge)
        reference.learn_one(mapped, (y + 1.0) / 2.0 if doubled else y, w=0.7)


@pytest.mark.parametrize("multiclass", ["softmax", "ovr"])
@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.parametrize(("rate", "adagrad"), [(0.37, False), (0.4, True)])
def test_classes_that_appear_are_learned_as_by_the_twin(multiclass, loss, rate, adagrad):
    features = frozen()
    twin = naive.OGD(loss, lambda step: rate, adagrad, multiclass == "softmax")
    model = OGDClassifier(
        features, loss, optim.AdaGrad(rate) if adagrad else rate, multiclass=multiclass
    )
    names = []
    for i, x in enumerate(rows(300)):
        y = f"class {label(x, 2 + i // 60)}"
        if y not in names:
            names.append(y)
            if len(names) > 2:
                twin.add_class()
        mapped = features.transform_one(x)
        model.learn_one(x, y)
        twin.learn(mapped, float(names.index(y)))
        model._score(x)
        np.testing.assert_allclose(model._current.scores, twin.scores(mapped), atol=1e-9)
        best = int(np.argmax(twin.scores(mapped))) if len(names) > 2 else None
        assert best is None or model.predict_one(x) == names[best]
    assert len(names) == 6 == len(model.classes)


@pytest.mark.parametrize("first", [True, False])
def test_the_positive_class_is_true(first):
    """A weight for positives is one for True, whichever is seen first."""
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
    # Builds at 2, 4, ..., 64 and 100 samples; the last two take 3 and 4 calls to replay.
    assert builds[:4] == [None, 0, 0, 1]
    assert builds[62:66] == [4, 4, 4, 5]
    assert builds[99:] == [5, 5, 5, 6]


def test_trees_that_take_calls_to_grow_lose_no_sample(monkeypatch):
    monkeypatch.setattr("river_mondrian.partitions.isolation.GROWTH", 100)
    data = rows(300)
    features = IsolationFeatures(20, 10, method="iforest", pool_size=100, seed=1)
    model = OGDRegressor(features, learning_rate=optim.SGD(1e-6))
    for x in data:
        features.learn_one(x)
        model.learn_one(x, 1.0)
    assert features.frozen and model._next is None
    # So small a rate makes weights count samples.
    count = sum(features.kernel(data[0], x) for x in data)
    assert model.predict_one(data[0]) / 2e-6 == pytest.approx(count, rel=1e-3)


@pytest.mark.parametrize("dense", [False, True])
def test_features_are_copied_and_may_have_learned(dense):
    features = Scaled() if dense else frozen()
    before = pickle.dumps(features.__dict__)
    model = OGDClassifier(features, seed=1)
    for x in rows(50):
        model.learn_one({**x, "d": 1.0}, label(x, 2))
    assert pickle.dumps(features.__dict__) == before
    half = IsolationFeatures(10, pool_size=100, seed=0)
    half.learn_many(frame(rows(70)))
    model = OGDClassifier(half)
    for x in rows(60, seed=1):
        model.learn_one(x, x["a"] > 0.0)
    assert model._features.frozen
    assert model._pool is None
    hits = sum(model.predict_one(x) == (x["a"] > 0.0) for x in rows(100, seed=2))
    assert hits > 75


# Batches, frames, copies, memory.


def build(kind, pool_size=150):
    features = IsolationFeatures(20, 16, pool_size=pool_size, seed=2)
    if kind == "regression":
        return OGDRegressor(features)
    if kind == "dense":
        return OGDClassifier(Scaled(), "log", optim.schedulers.InverseScaling(0.4))
    if kind == "focal":
        return OGDClassifier(features, optim.losses.BinaryFocalLoss(), multiclass="ovr")
    if kind == "forest":
        features = IsolationFeatures(20, 16, "iforest", pool_size, seed=2)
        return OGDClassifier(features, "hinge", 0.5, multiclass="ovr")
    return OGDClassifier(features, "log", optim.AdaGrad(RATES["schedule"]))


KINDS = ["softmax", "forest", "focal", "regression", "dense"]


def stream(kind, n, seed=0):
    """Return samples with late features and classes, and with weights."""
    data = rows(n, seed)
    for i, x in enumerate(data):
        if i < 10 or i % 7 == 0:
            del x["a"]
    targets = [
        x.get("a", 0.0) if kind == "regression" else f"k{label({'a': 0, **x}, 2 + i // 80)}"
        for i, x in enumerate(data)
    ]
    return data, targets, np.random.default_rng(seed).uniform(0, 2, size=n).tolist()


# Bad input and small cases.


def test_the_hinge_loss_gives_no_probabilities():
    model = OGDClassifier(loss="hinge", seed=1)
    for _ in range(2):
        for predict, x in ((model.predict_proba_one, {}), (model.predict_proba_many, frame([{}]))):
            with pytest.raises(NotImplementedError, match="log"):
                predict(x)
        model.learn_one({"a": 1.0}, "x")


def test_before_there_is_a_map():
    model = OGDClassifier(loss="log", seed=1)
    assert model.predict_one({"a": 1.0}) is None
    assert model.predict_proba_one({"a": 1.0}) == {}
    model.learn_one({"a": 1.0}, "x")
    assert model.predict_one({"a": 1.0}) == "x"
    assert model.predict_proba_one({"a": 1.0}) == {"x": 1.0}
    assert model.predict_many(frame(rows(2))).tolist() == ["x", "x"]
    model.learn_one({}, "y")
    assert math.isclose(sum(model.predict_proba_one({}).values()), 1.0)
    model = OGDClassifier(IsolationFeatures(seed=1, n_cells=4, pool_size=64), "log")
    for _ in range(100):
        model.learn_one({"a": 1.0}, "only")
    assert model.predict_one({"a": -1.0}) == "only"
    assert model.predict_many(frame(rows(2))).tolist() == ["only", "only"]
    regressor = OGDRegressor()
    assert regressor.predict_one({"a": 1.0}) == 0.0
    assert regressor.predict_many(frame(rows(2))).tolist() == [0.0, 0.0]


def weights_of(model):
    slots = model._current.slots
    return model._current.rows()[np.where(slots < 0, ~slots, slots)]
