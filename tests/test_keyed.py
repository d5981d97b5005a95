"""Tests of models by key: packed and stored models predict like ready models."""

import copy
import math
import random
import re

import numpy as np
import pytest
from common import fed, raises, restored
from river import base, compose, evaluate, linear_model, metrics, preprocessing

import river_mondrian as rm
from river_mondrian.distributed import KeyedModels
from river_mondrian.distributed.model_store import ENTRY_BYTES

KINDS = {
    "classifier": lambda: rm.MondrianForestClassifier(3, seed=1),
    "regressor": lambda: rm.MondrianForestRegressor(3, seed=1),
    "detector": lambda: rm.DensityForest(5, 1.0, seed=1),
    "pipeline": lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(),
}
kinds = pytest.mark.parametrize("name", KINDS)


def stream(n, n_keys, seed=0):
    rng = random.Random(seed)
    for _ in range(n):
        # Some keys are frequent, most are rare.
        key = int(n_keys * rng.random() ** 3)
        yield {"user": key, "a": rng.random(), "b": rng.random()}, float(rng.random() < 0.5)


def answer(model, x):
    is_detector = isinstance(model, base.AnomalyDetector)
    return model.score_one(x) if is_detector else model.predict_one(x)


@kinds
@pytest.mark.parametrize(("n_ready", "bounded"), [(1, False), (4, True)])
def test_each_key_has_its_own_model(name, n_ready, bounded, tmp_path):
    # A regressor needs more than the usual bound, and all detectors together need less.
    most = {"regressor": 60_000, "detector": 25_000}.get(name, 40_000)
    bound = {"max_bytes": most, "folder": str(tmp_path), "trusted": name == "pipeline"}
    keyed = KeyedModels("user", KINDS[name](), n_ready=n_ready, **(bound if bounded else {}))
    alone = {}
    for x, y in stream(150, 12):
        own, rest = alone.setdefault(x["user"], KINDS[name]()), {"a": x["a"], "b": x["b"]}
        assert answer(keyed, x) == answer(own, rest)
        fed(keyed, [(x, y)])
        fed(own, [(rest, y)])
        assert keyed.counts["ready"] <= n_ready
    assert not bounded or keyed._raw_memory_usage <= most
    if bounded and name != "pipeline":
        assert any(tmp_path.rglob("*")) and len(keyed) < len(alone)
    assert bounded or len(keyed) == len(alone)
    for other in (copy.deepcopy(keyed), restored(keyed), keyed):
        for key, own in alone.items():
            x = {"a": 0.3, "b": 0.6}
            assert answer(other, x | {"user": key}) == answer(own, x)


@kinds
def test_a_stream_is_taken_up_from_the_folder(name, tmp_path):
    params = {"folder": str(tmp_path), "trusted": name == "pipeline", "n_ready": 2}
    first, second = (KeyedModels("user", KINDS[name](), **params) for _ in range(2))
    fed(first, stream(60, 8))
    assert first.flush() == len(first)
    assert first.flush() == 0
    for model in (first, second):
        fed(model, stream(30, 8, 1))
    for key in range(8):
        x = {"user": key, "a": 0.4, "b": 0.5}
        assert answer(second, x) == answer(first, x)
    assert 0 < second.flush() <= 8


def of_classifiers(**params):
    return KeyedModels("user", KINDS["classifier"](), **params)


def test_bytes_are_those_of_the_models():
    keyed, packed = of_classifiers(n_ready=100), of_classifiers(n_ready=1)
    for model in (keyed, packed):
        fed(model, stream(200, 20))
    sizes = [keyed.get(key)._raw_memory_usage + ENTRY_BYTES for key in range(20) if keyed.get(key)]
    # The bytes of a model are counted again when its number of samples has doubled.
    assert 0.5 * sum(sizes) < keyed._raw_memory_usage <= sum(sizes)
    assert packed.memory_usage == packed._raw_memory_usage > 0
    assert packed._raw_memory_usage < 0.7 * keyed._raw_memory_usage


def test_what_cannot_be_learned_makes_no_model():
    keyed = of_classifiers()
    with pytest.raises(ValueError, match="feature 'user' is the key, but the sample lacks it"):
        keyed.learn_one({"a": 1.0}, 1)
    for key in (None, 1.5, True, ["x"], (1, None), np.datetime64(1, "ns")):
        with pytest.raises(TypeError, match="a key must be a string, an integer or a tuple"):
            keyed.learn_one({"user": key, "a": 1.0}, 1)
    with pytest.raises(ValueError, match="feature 'a' must be finite"):
        keyed.learn_one({"user": 1, "a": float("inf")}, 1)
    assert len(keyed) == 0
    # The string and the integer are different keys.
    fed(keyed, [({"user": 1, "a": 1.0}, "x"), ({"user": "1", "a": 1.0}, "y")])
    assert [keyed.predict_one({"user": key, "a": 1.0}) for key in (1, "1", 2)] == ["x", "y", None]


def test_arguments():
    pipeline, scaler = KINDS["pipeline"](), preprocessing.StandardScaler()
    raises(ValueError, "max_bytes needs a folder", lambda: of_classifiers(max_bytes=1000))
    raises(ValueError, "by pickle, which exec", lambda: KeyedModels("user", pipeline, folder="x"))
    raises(ValueError, "name of a feature or a func", lambda: KeyedModels(3, KINDS["classifier"]()))
    raises(TypeError, "a classifier, regressor or detector", lambda: KeyedModels("user", scaler))
    names = "key, model, max_bytes, folder, trusted, n_ready"
    message = f"KeyedModels has the arguments {names}, got redy"
    raises(TypeError, message, lambda: of_classifiers(redy=10))
    raises(ValueError, "flush needs a folder", lambda: of_classifiers().flush())


def test_a_function_is_a_key_and_models_are_river_estimators():
    keyed = KeyedModels(lambda x: (x["user"] % 2, "odd"), KINDS["classifier"]())
    evaluate.progressive_val_score(stream(50, 9), keyed, metrics.Accuracy())
    assert len(keyed) == 2
    assert len(keyed.clone()) == 0
    assert type(keyed.clone()) is type(keyed)
    pipeline = compose.Discard("b") | KeyedModels("user", KINDS["regressor"]())
    evaluate.progressive_val_score(stream(50, 9), pipeline, metrics.MAE())
    assert len(pipeline["KeyedRegressor"]) > 1


def test_predictions_of_a_key_wait_for_their_labels(tmp_path):
    def made():
        prototype = rm.Calibrated(rm.MondrianForestRegressor(2, seed=1))
        return KeyedModels("user", prototype, folder=str(tmp_path), max_bytes=1, n_ready=1)

    keyed = made()
    alone = {user: rm.Calibrated(rm.MondrianForestRegressor(2, seed=1)) for user in "ab"}
    for t in range(200):
        x, user = {"a": t / 200}, "ab"[t % 2]
        expected = alone[user].predict_interval_one(x, 0.8, id=t)
        assert keyed.predict_interval_one(x | {"user": user}, 0.8, id=t) == expected
        if t == 100:
            keyed.flush()
            keyed = made()
        for late in [t] if t < 60 else [t - 10] if t >= 70 else []:
            x, user = {"a": late / 200}, "ab"[late % 2]
            keyed.learn_one(x | {"user": user}, math.sin(late), id=late)
            alone[user].learn_one(x, math.sin(late), id=late)
    assert [len(keyed.get(user)._waiting) for user in "ab"] == [5, 5]


def test_labels_may_come_later_than_the_first_predictions_of_a_key():
    model, alone = (rm.Calibrated(linear_model.LinearRegression()) for _ in range(2))
    keyed = KeyedModels("user", model)
    raises(ValueError, "coverage must", lambda: keyed.predict_interval_one({"user": 1, "a": 1}, 2))
    assert len(keyed) == 0
    for t in range(400):
        x = {"a": t / 400}
        found = keyed.predict_interval_one(x | {"user": 1})
        assert found == alone.predict_interval_one(x)
        if t >= 150:
            x, y = {"a": (t - 150) / 400}, math.sin(t)
            keyed.learn_one(x | {"user": 1}, y)
            alone.learn_one(x, y)
    assert len(keyed.get(1)._waiting) == 150
    assert not keyed.get(1)._warned


def union_of(transformer):
    return (transformer + compose.Select("a")) | linear_model.LinearRegression()


# A model, a model of the same kind with other arguments, and a model of another kind.
FOLDERS = {
    "Pipeline(StandardScaler, LinearRegression)": (
        preprocessing.StandardScaler() | linear_model.LinearRegression(),
        preprocessing.StandardScaler() | linear_model.LinearRegression(l2=0.1),
        preprocessing.MinMaxScaler() | linear_model.LinearRegression(),
    ),
    "Pipeline(TransformerUnion(StandardScaler, Select), LinearRegression)": (
        union_of(preprocessing.StandardScaler()),
        union_of(preprocessing.StandardScaler(with_std=False)),
        union_of(preprocessing.MinMaxScaler()),
    ),
    "Alarms(NearestNeighborDetector)": (
        rm.Alarms(rm.NearestNeighborDetector()),
        rm.Alarms(rm.NearestNeighborDetector(n_neighbors=3)),
        rm.Alarms(rm.DensityForest()),
    ),
    "Alarms(NearestNeighborDetector, DensityForest)": (
        rm.Alarms([rm.NearestNeighborDetector(), rm.DensityForest()]),
        rm.Alarms([rm.NearestNeighborDetector(), rm.DensityForest(3)]),
        rm.Alarms([rm.NearestNeighborDetector()]),
    ),
    "CalibratedRegressor(LinearRegression)": (
        rm.Calibrated(linear_model.LinearRegression()),
        rm.Calibrated(linear_model.LinearRegression(), max_pending=5),
        rm.Calibrated(linear_model.PARegressor()),
    ),
}


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_folder_with_models_of_another_kind_is_refused(kind, tmp_path):
    def made(model):
        return KeyedModels("user", model, folder=str(tmp_path), trusted=True)

    first, same, other = FOLDERS[kind]
    keyed = made(first)
    fed(keyed, [({"user": 1, "a": 1.0}, 1.0)])
    keyed.flush()
    made(same)
    # The last step alone is another kind, too.
    for wrong in (other, linear_model.LinearRegression()):
        raises(ValueError, f"has a {re.escape(kind)}, but", lambda m=wrong: made(m))


def test_a_file_of_another_key_is_refused(tmp_path):
    keyed, other = (of_classifiers(folder=str(tmp_path)) for _ in range(2))
    fed(keyed, [({"user": 1, "a": 1.0}, 1)])
    keyed.flush()
    wrong = other._store.path_of(2)
    wrong.parent.mkdir(exist_ok=True)
    wrong.write_bytes(other._store.path_of(1).read_bytes())
    with pytest.raises(ValueError, match="has the model of 1 instead of 2"):
        other.predict_one({"user": 2, "a": 1.0})
