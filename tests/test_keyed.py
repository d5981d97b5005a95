"""Models by key: packed models and models in a folder predict like ready ones."""

import copy
import pickle
import random

import pytest
from river import base, compose, linear_model, metrics, preprocessing, stats

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
        # Some keys come often, most rarely.
        key = int(n_keys * rng.random() ** 3)
        yield {"user": key, "a": rng.random(), "b": rng.random()}, float(rng.random() < 0.5)


def learn(model, samples):
    for x, y in samples:
        if isinstance(model, base.AnomalyDetector):
            model.learn_one(x)
        else:
            model.learn_one(x, y)


def answer(model, x):
    is_detector = isinstance(model, base.AnomalyDetector)
    return model.score_one(x) if is_detector else model.predict_one(x)


@kinds
@pytest.mark.parametrize(("n_ready", "bounded"), [(1, False), (4, True)])
def test_each_key_has_its_own_model(name, n_ready, bounded, tmp_path):
    # A regressor alone takes more than the others' bound, and all detectors take less.
    most = {"regressor": 60_000, "detector": 25_000}.get(name, 40_000)
    bound = {"max_bytes": most, "folder": str(tmp_path), "trusted": name == "pipeline"}
    keyed = KeyedModels("user", KINDS[name](), n_ready=n_ready, **(bound if bounded else {}))
    alone = {}
    samples = list(stream(150, 12))
    for x, y in samples:
        own = alone.setdefault(x["user"], KINDS[name]())
        rest = {"a": x["a"], "b": x["b"]}
        assert answer(keyed, x) == answer(own, rest)
        learn(keyed, [(x, y)])
        learn(own, [(rest, y)])
        assert keyed.counts["ready"] <= n_ready
    if bounded:
        assert keyed._raw_memory_usage <= most
        if name != "pipeline":
            assert any(tmp_path.rglob("*")) and len(keyed) < len(alone)
    else:
        assert len(keyed) == len(alone)
    for other in (copy.deepcopy(keyed), pickle.loads(pickle.dumps(keyed)), keyed):
        for key, own in alone.items():
            x = {"a": 0.3, "b": 0.6}
            assert answer(other, x | {"user": key}) == answer(own, x)


@kinds
def test_a_stream_is_taken_up_from_the_folder(name, tmp_path):
    arguments = {"folder": str(tmp_path), "trusted": name == "pipeline", "n_ready": 2}
    first = KeyedModels("user", KINDS[name](), **arguments)
    learn(first, stream(60, 8))
    assert first.flush() == len(first)
    assert first.flush() == 0
    second = KeyedModels("user", KINDS[name](), **arguments)
    for model in (first, second):
        learn(model, stream(30, 8, 1))
    for key in range(8):
        x = {"user": key, "a": 0.4, "b": 0.5}
        assert answer(second, x) == answer(first, x)
    assert 0 < second.flush() <= 8


def test_bytes_are_those_of_the_models():
    keyed = KeyedModels("user", KINDS["classifier"](), n_ready=100)
    learn(keyed, stream(200, 20))
    sizes = [keyed.get(key)._raw_memory_usage + ENTRY_BYTES for key in range(20) if keyed.get(key)]
    # Bytes are counted again when a model has learned twice as many samples.
    assert 0.5 * sum(sizes) < keyed._raw_memory_usage <= sum(sizes)
    packed = KeyedModels("user", KINDS["classifier"](), n_ready=1)
    learn(packed, stream(200, 20))
    assert packed.memory_usage == packed._raw_memory_usage > 0
    assert packed._raw_memory_usage < 0.7 * keyed._raw_memory_usage


def test_what_cannot_be_learned_makes_no_model():
    keyed = KeyedModels("user", KINDS["classifier"]())
    with pytest.raises(ValueError, match="feature 'user' is the key, but the sample lacks it"):
        keyed.learn_one({"a": 1.0}, 1)
    for key in (None, 1.5, True, ["x"], (1, None)):
        with pytest.raises(TypeError, match="a key must be a string, an integer or a tuple"):
            keyed.learn_one({"user": key, "a": 1.0}, 1)
    with pytest.raises(ValueError, match="feature 'a' must be finite"):
        keyed.learn_one({"user": 1, "a": float("inf")}, 1)
    assert len(keyed) == 0
    # The string and the integer are two keys.
    keyed.learn_one({"user": 1, "a": 1.0}, "x")
    keyed.learn_one({"user": "1", "a": 1.0}, "y")
    assert [keyed.predict_one({"user": key, "a": 1.0}) for key in (1, "1", 2)] == ["x", "y", None]


def test_arguments(tmp_path):
    model = KINDS["classifier"]()
    with pytest.raises(ValueError, match="max_bytes needs a folder"):
        KeyedModels("user", model, max_bytes=1000)
    with pytest.raises(ValueError, match="Pipeline is stored by pickle, which executes"):
        KeyedModels("user", KINDS["pipeline"](), folder=str(tmp_path))
    with pytest.raises(ValueError, match="key must be the name of a feature or a function"):
        KeyedModels(3, model)
    with pytest.raises(TypeError, match="model must be a classifier, regressor or detector"):
        KeyedModels("user", preprocessing.StandardScaler())
    with pytest.raises(ValueError, match="models are saved to a folder"):
        KeyedModels("user", model).flush()


def test_a_function_is_a_key_and_models_are_river_estimators():
    keyed = KeyedModels(lambda x: (x["user"] % 2, "odd"), KINDS["classifier"]())
    metric = metrics.Accuracy()
    for x, y in stream(50, 9):
        metric.update(y, keyed.predict_one(x))
        keyed.learn_one(x, y)
    assert len(keyed) == 2
    assert len(keyed.clone()) == 0
    assert type(keyed.clone()) is type(keyed)
    pipeline = compose.Discard("b") | KeyedModels("user", KINDS["regressor"]())
    mean = stats.Mean()
    for x, y in stream(50, 9):
        mean.update(pipeline.predict_one(x))
        pipeline.learn_one(x, y)
    assert len(pipeline["KeyedRegressor"]) > 1


def test_a_file_of_another_key_is_refused(tmp_path):
    keyed = KeyedModels("user", KINDS["classifier"](), folder=str(tmp_path))
    keyed.learn_one({"user": 1, "a": 1.0}, 1)
    keyed.flush()
    other = KeyedModels("user", KINDS["classifier"](), folder=str(tmp_path))
    wrong = other._store.path_of(2)
    wrong.parent.mkdir(exist_ok=True)
    wrong.write_bytes(other._store.path_of(1).read_bytes())
    with pytest.raises(ValueError, match="has the model of 1 instead of 2"):
        other.predict_one({"user": 2, "a": 1.0})
