"""Learners on feature maps as their users meet them: batches, copies, memory, bad input."""

from __future__ import annotations

import copy
import math
import pickle
import sys
from array import array

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from river import optim
from test_linear import NAMES, RATES, Scaled, frame, frozen, label, rows

from river_mondrian import (
    DualOGDClassifier,
    IsolationFeatures,
    MondrianFeatures,
    OGDClassifier,
    OGDRegressor,
    RidgeRegressor,
)
from river_mondrian.features.base import FeatureMap
from river_mondrian.learners.gradient_descent.weights import DescentWeights
from river_mondrian.maps.compiled import CompiledMap
from river_mondrian.maps.record import Sample
from river_mondrian.records import Memory
from river_mondrian.records.chunked_rows import ChunkedRows

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
    """Make samples of which features and classes appear late, with weights."""
    data = rows(n, seed)
    for i, x in enumerate(data):
        if i < 10 or i % 7 == 0:
            del x["a"]
    targets = [
        x.get("a", 0.0) if kind == "regression" else f"k{label({'a': 0, **x}, 2 + i // 80)}"
        for i, x in enumerate(data)
    ]
    return data, targets, np.random.default_rng(seed).uniform(0, 2, size=n).tolist()


def state(model):
    """Pickle part by part: equal parts may or may not be the same object to a whole one."""
    return {
        name: {k: pickle.dumps(v) for k, v in part.__getstate__().items()}
        if name in ("_current", "_next") and part is not None
        else pickle.dumps(part)
        for name, part in model.__dict__.items()
        if name not in ("_features", "features")
    } | {name: pickle.dumps(part) for name, part in model._features.__dict__.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cut", [0, 1, 90, 152, 250])
def test_batches_equal_single_samples_bit_for_bit(kind, cut):
    data, targets, weights = stream(kind, 320)
    one, many = build(kind), build(kind)
    for x, y, w in zip(data, targets, weights, strict=True):
        one.learn_one(x, y, w=w)
    for part in (slice(0, cut), slice(cut, None)):
        if data[part]:
            many.learn_many(frame(data[part]), targets[part], w=weights[part])
    assert state(one) == state(many)
    queries = frame(data)
    assert many.predict_many(queries).tolist() == [one.predict_one(x) for x in data]
    if kind in ("softmax", "focal", "dense"):
        single = pd.DataFrame([one.predict_proba_one(x) for x in data], columns=one.classes)
        got = many.predict_proba_many(queries)
        np.testing.assert_array_equal(got.to_numpy(), single.to_numpy())
        assert list(got.columns) == one.classes


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("model", ["softmax", "regression"])
def test_frames_come_back_as_they_went_in(kind, model):
    data, targets, _ = stream(model, 200)
    table = frame(data, kind)
    column = {"pandas": pd.Series, "polars": pl.Series, "pyarrow": pa.array}[kind]
    learner, reference = build(model), build(model)
    empty = pd.Series(list(learner.predict_many(table))).astype(object)
    assert len(empty) == 200
    if model == "softmax":
        assert all(getattr(v, "as_py", lambda v=v: v)() is None for v in empty)
    learner.learn_many(table, column(targets), w=0.5)
    for x, y in zip(data, targets, strict=True):
        reference.learn_one(x, y, w=0.5)
    predicted = learner.predict_many(table)
    assert (
        type(predicted)
        is {"pandas": pd.Series, "polars": pl.Series, "pyarrow": pa.ChunkedArray}[kind]
    )
    values = predicted.to_pylist() if kind == "pyarrow" else predicted.to_list()
    assert values == [reference.predict_one(x) for x in data]
    if kind == "pandas":
        assert predicted.index.equals(table.index)
    if model == "softmax":
        probabilities = learner.predict_proba_many(table)
        assert type(probabilities) is type(table)
        plain = probabilities if kind == "pandas" else probabilities.to_pandas()
        assert list(plain.columns) == reference.classes
        np.testing.assert_allclose(plain.sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copying", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
@pytest.mark.parametrize("n", [0, 1, 70, 151, 200])
def test_copies_continue_bit_for_bit(kind, copying, n):
    data, targets, weights = stream(kind, 300)
    model = build(kind)
    for x, y, w in zip(data[:n], targets[:n], weights[:n], strict=True):
        model.learn_one(x, y, w=w)
    other = copying(model)
    for x, y, w in zip(data[n:], targets[n:], weights[n:], strict=True):
        assert model.predict_one(x) == other.predict_one(x)
        model.learn_one(x, y, w=w)
        other.learn_one(x, y, w=w)
    assert state(model) == state(other)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 70, 151, 300])
def test_memory_is_counted_exactly(kind, n):
    model = build(kind)
    for x, y, _ in zip(*stream(kind, n), strict=True):
        model.learn_one(x, y)
    seen: dict[int, int] = {}

    def walk(part):
        if id(part) in seen:
            return
        if isinstance(part, np.ndarray):
            seen[id(part)] = part.nbytes
        elif isinstance(part, array):
            seen[id(part)] = sys.getsizeof(part)
        elif isinstance(part, Memory):
            walk(part.bytes)
            for piece in part.arrays.values():
                walk(piece)
        elif isinstance(part, DescentWeights | CompiledMap):
            seen[id(part)] = sys.getsizeof(part)
            for name, piece in part.__dict__.items():
                # What `chunked_rows` has.
                walk(None if name == "_shown" else piece)
        elif isinstance(part, ChunkedRows):
            walk_objects([part._tables, *part._tables])
            walk_objects(piece for table in part._tables for piece in table)
            walk_objects(chunk for chunks in part.chunks for chunk in chunks)
        elif type(part).__name__ in ("Pool", "SampleReader"):
            for piece in part.__dict__.values():
                walk(piece)
        elif type(part).__name__ == "FeatureIndex":
            walk_objects([part.names, part.places, *part.names])
        elif isinstance(part, FeatureMap):
            walk_objects([part, part.__dict__])
            for piece in part.__dict__.values():
                walk(piece)
        elif isinstance(part, Sample):
            walk(part.__dict__["bytes"])
        elif isinstance(part, tuple):
            for piece in part:
                walk(piece)

    def walk_objects(parts):
        for part in parts:
            seen[id(part), len(seen)] = sys.getsizeof(part)

    walk_objects([model, model.__dict__])
    if kind != "regression":
        walk_objects([model._labels, *model._labels])
    for part in model.__dict__.values():
        walk(part)
    assert model._raw_memory_usage == sum(seen.values())


def test_memory_does_not_grow_once_the_map_is_final():
    model = build("softmax")
    data, targets, _ = stream("softmax", 1500)
    sizes = []
    for i, (x, y) in enumerate(zip(data, targets, strict=True)):
        model.learn_one(x, targets[i % 100] if i > 100 else y)
        sizes.append(model._raw_memory_usage)
    assert len(set(sizes[160:])) == 1
    assert sizes[-1] < max(sizes)


def test_equal_seeds_equal_models_whatever_the_order_of_keys():
    models = [OGDClassifier(seed=5) for _ in range(3)]
    shuffler = np.random.default_rng(0)
    for x in rows(200):
        y = label(x, 3)
        models[0].learn_one(x, y)
        models[1].learn_one({k: x[k] for k in shuffler.permutation(NAMES).tolist()}, y)
        models[2].learn_one(x, y)
    assert state(models[0]) == state(models[1]) == state(models[2])
    clone = models[0].clone()
    assert clone.classes == [] and clone.predict_one({"a": 1.0}) is None


# Bad input and small cases.

BAD_SAMPLES = [
    ({"a": "text", "b": 1.0}, 0, 1.0, TypeError, "'a'.*'text'"),
    ({"a": 1.0, "b": math.inf}, 0, 1.0, ValueError, "'b'.*inf"),
    ({"a": 1.0, "b": 1.0, "c": -math.inf}, 0, 1.0, ValueError, "'c'.*-inf"),
    ({"a": 1.0, "b": 1e39}, "a new label", 1.0, ValueError, "'b'.*1e\\+39"),
    ({"a": 1.0}, 0, -1.0, ValueError, "weight.*-1"),
    ({"a": 1.0}, 0, math.nan, ValueError, "weight.*nan"),
    ({"a": 1.0}, 0, "heavy", TypeError, "weight.*'heavy'"),
]
BAD_LABELS = [
    ([1], TypeError, "hashable.*\\[1\\]"),
    (None, ValueError, "missing.*None"),
    (math.nan, ValueError, "missing.*nan"),
]
BAD_TARGETS = [
    ("high", TypeError, "number.*'high'"),
    (None, TypeError, "number.*None"),
    (math.nan, ValueError, "finite.*nan"),
    (-math.inf, ValueError, "finite.*-inf"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [0, 20, 152, 300])
def test_a_bad_sample_is_refused_and_changes_nothing(kind, n):
    model = build(kind)
    for x, y, w in zip(*stream(kind, n), strict=True):
        model.learn_one(x, y, w=w)
    before = state(model)
    good = 0.0 if kind == "regression" else "k0"
    cases = [
        (x, good if y == 0 or kind == "regression" else y, *rest) for x, y, *rest in BAD_SAMPLES
    ]
    bad_y = BAD_TARGETS if kind == "regression" else BAD_LABELS
    cases += [({"a": 1.0}, y, 1.0, error, message) for y, error, message in bad_y]
    for x, y, w, error, message in cases:
        with pytest.raises(error, match=message):
            model.learn_one(x, y, w=w)
        if n and {"a", "b"} <= x.keys():
            with pytest.raises(error, match=message):
                model.predict_one(x)
        assert state(model) == before


@pytest.mark.parametrize("kind", ["softmax", "regression"])
@pytest.mark.parametrize("n", [3, 300])
def test_a_bad_frame_is_refused_and_changes_nothing(kind, n):
    model = build(kind)
    data, targets, _ = stream(kind, 300)
    model.learn_many(frame(data[:n]), targets[:n])
    before = state(model)
    good, y = frame(rows(10)), targets[:10]
    what = "targets" if kind == "regression" else "labels"
    for X, labels, w, error, message in (
        (good, y[:9], 1.0, ValueError, f"10 rows.*9 {what}"),
        (good, [*y[:9], None], 1.0, (TypeError, ValueError), "None"),
        (good, y, [1.0] * 9, ValueError, "10 rows.*9 weights"),
        (good, y, -0.5, ValueError, "weight.*-0.5"),
        (good.assign(b="x"), y, 1.0, TypeError, "'b'.*'x'"),
        (good.assign(b=[1.0] * 9 + [math.inf]), y, 1.0, ValueError, "'b'.*inf.*row 9"),
        (good.set_axis(["a", "b", "b"], axis=1), y, 1.0, ValueError, "'b'.*more than once"),
    ):
        with pytest.raises(error, match=message):
            model.learn_many(X, labels, w=w)
    assert state(model) == before


@pytest.mark.parametrize(
    ("model", "params", "error", "message"),
    [
        (OGDClassifier, {"features": "anne"}, TypeError, "features.*'anne'"),
        (OGDClassifier, {"loss": "squared"}, ValueError, "loss.*'hinge'.*'squared'"),
        (OGDClassifier, {"loss": optim.losses.Squared()}, ValueError, "BinaryLoss"),
        (OGDRegressor, {"loss": optim.losses.Hinge()}, ValueError, "RegressionLoss"),
        (OGDClassifier, {"learning_rate": 0.0}, ValueError, "learning_rate.*0.0"),
        (OGDClassifier, {"learning_rate": math.inf}, ValueError, "learning_rate.*inf"),
        (OGDClassifier, {"learning_rate": "fast"}, ValueError, "learning_rate.*'fast'"),
        (OGDRegressor, {"learning_rate": optim.Adam()}, ValueError, "SGD or AdaGrad.*Adam"),
        (OGDClassifier, {"multiclass": "ovo"}, ValueError, "multiclass.*'ovo'"),
    ],
)
def test_a_bad_parameter_is_named(model, params, error, message):
    with pytest.raises(error, match=message):
        model(**params)


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


@pytest.mark.parametrize("kind", ["softmax", "forest"])
def test_a_weight_of_two_is_a_larger_gradient_and_one_of_zero_is_none(kind):
    data, targets, _ = stream(kind, 300)
    model = build(kind)
    for x, y in zip(data, targets, strict=True):
        model.learn_one(x, y)
    weights = weights_of(model)
    model.learn_one(data[0], targets[0], w=0.0)
    np.testing.assert_array_equal(weights_of(model), weights)
    once = copy.deepcopy(model)
    model.learn_one(data[1], "k1", w=2.0)
    once.learn_one(data[1], "k1")
    assert np.abs(weights_of(model) - weights).sum() > np.abs(weights_of(once) - weights).sum()


def weights_of(model):
    slots = model._current.slots
    return model._current.rows()[np.where(slots < 0, ~slots, slots)]


def test_extreme_targets_leave_predictions_finite():
    model = OGDRegressor(frozen(), learning_rate=5.0)
    for i in range(50):
        model.learn_one({"a": 0.0}, 1e120 * (-1) ** i)
        assert math.isfinite(model.predict_one({"a": 0.0}))


@pytest.mark.parametrize("n_pool", [4, 16, 300])
@pytest.mark.parametrize("name", ["classifier", "regressor", "ridge", "dual", "mondrian", "auto"])
def test_samples_are_counted(name, n_pool):
    features = IsolationFeatures(4, 4, pool_size=n_pool, seed=1)
    model = {
        "classifier": lambda: OGDClassifier(features),
        "regressor": lambda: OGDRegressor(features),
        "ridge": lambda: RidgeRegressor(features),
        "dual": lambda: DualOGDClassifier(features),
        "mondrian": lambda: OGDRegressor(MondrianFeatures(3, seed=1)),
        "auto": lambda: OGDClassifier(MondrianFeatures(3, "auto", seed=1)),
    }[name]()
    data, _, _ = stream("softmax", 300)
    assert model.n_samples == 0
    for n, x in enumerate(data, 1):
        model.learn_one(x, n % 3, w=float(n % 2))
        assert model.n_samples == n
        if n % 37 == 0:
            model = pickle.loads(pickle.dumps(model))
            assert model.n_samples == n
    if name != "dual":
        model.learn_many(pd.DataFrame(data[:50]), [0, 1] * 25)
        assert model.n_samples == 350
