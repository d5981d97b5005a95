"""Samples, targets and names as people have them: mappings of any kind, numbers of any type."""

import collections
import copy
import datetime
import decimal
import gc
import inspect
import math
import os
import pickle
import sqlite3
import stat
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from river import base, compose, feature_extraction, feature_selection, preprocessing, stats
from test_contract import MODELS, answer
from test_contract import learn as learn_all

import river_mondrian as rm
from river_mondrian.distributed.keyed import KeyedClassifier


def learn(model, kind, x, y=1):
    learn_all(model, [(x, y if kind is None else kind(y))])


def kind_of(model):
    """Return a function from a number to a target, or None if there is no target."""
    if isinstance(model, base.Classifier):
        return int
    return float if isinstance(model, base.Regressor) else None


# Maps are within learners.
NAMES = [name for name, make in MODELS.items() if not hasattr(make(), "transform_one")]


@pytest.fixture(params=NAMES)
def learned(request):
    model = MODELS[request.param]()
    kind = kind_of(model)
    for i in range(30):
        learn(model, kind, {"a": i * 37 % 11 / 11, "b": i * 53 % 13 / 13}, i % 3)
    return model, kind


def row_of_a_database():
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    return connection.execute("select .5 as a, .25 as c").fetchone()


def test_any_mapping_is_read_as_its_dict(learned):
    model, kind = learned
    counted = collections.Counter({"c": 1, "d": 2})  # as many keys as known, other ones
    default = collections.defaultdict(float, {"a": 0.5, "c": 1.0})
    series = pd.Series({"a": 0.5, "c": 0.25})
    for x in (counted, default, row_of_a_database(), series):
        there = dict(x)
        assert answer(model, x) == answer(model, there)
        one, other = copy.deepcopy(model), copy.deepcopy(model)
        learn(one, kind, x)
        learn(other, kind, there)
        assert dict(x) == there  # no look-up has inserted a key
        question = {"a": 0.5, "b": 0.2, "c": 1, "d": 1}
        assert answer(one, question) == answer(other, question)


def test_missing_values_of_all_libraries_are_absent(learned):
    model, kind = learned
    expected = answer(model, {"b": 0.2})
    for missing in (None, math.nan, pd.NA, pd.NaT, np.datetime64("NaT"), decimal.Decimal("NaN")):
        assert answer(model, {"a": missing, "b": 0.2}) == expected
        learn(copy.deepcopy(model), kind, {"a": missing, "b": 0.3})


def test_numbers_of_any_type_are_features_targets_and_weights(learned):
    model, kind = learned
    for number in (decimal.Decimal("0.5"), np.array(0.5), np.float32(0.5), pa.scalar(0.5).as_py()):
        assert answer(model, {"a": number, "b": 0.2}) == answer(model, {"a": 0.5, "b": 0.2})
        if kind is float:
            one, other = copy.deepcopy(model), copy.deepcopy(model)
            one.learn_one({"a": 0.1, "b": 0.9}, number, w=number)
            other.learn_one({"a": 0.1, "b": 0.9}, 0.5, w=0.5)
            assert answer(one, {"a": 0.1, "b": 0.9}) == answer(other, {"a": 0.1, "b": 0.9})


@pytest.mark.parametrize(
    "value",
    [np.array([0.5]), 1j, b"1", [1.0], {}, object()],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_a_number_is_named(learned, value):
    model, _ = learned
    with pytest.raises(TypeError, match="'a' must be a number"):
        answer(model, {"a": value, "b": 0.2})


@pytest.mark.parametrize(
    "value",
    [
        datetime.datetime(2020, 1, 1),
        datetime.date(2020, 1, 1),
        datetime.time(13, 30),
        datetime.timedelta(1),
        pd.Timestamp("2020-01-01"),
        pd.Timedelta("1 day"),
        np.datetime64("2020-01-01"),
        np.timedelta64(1, "D"),
    ],
    ids=repr,
)
def test_an_error_for_a_time_tells_how_it_becomes_a_number(learned, value):
    model, kind = learned
    with pytest.raises(TypeError, match="'a' must be a number") as error:
        learn(model, kind, {"a": value, "b": 0.2})
    remedy = str(error.value).partition("such as ")[2]
    learn(model, kind, {"a": eval(remedy, {"value": value, "np": np}), "b": 0.2})


def test_targets_that_are_missing_or_not_numbers_are_refused():
    model = rm.MondrianForestRegressor(2, seed=1)
    for bad, error in ((pd.NA, ValueError), (None, TypeError), ("1.5", TypeError)):
        with pytest.raises(error, match="target"):
            model.learn_one({"a": 1.0}, bad)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_truth_values_and_0_and_1_are_the_same(name, is_first):
    """Whichever come first decide whether the feature is a category."""
    kinds = [[bool, int, float, np.bool_], [int, bool, np.float32, np.bool_]][not is_first]
    mixed, plain = MODELS[name](), MODELS[name]()
    for i in range(40):
        flag, b = i * 37 % 11 > 4, i * 53 % 13 / 13
        for model, kind in ((mixed, kinds[i % 4]), (plain, kinds[0])):
            learn(model, kind_of(model), {"a": kind(flag), "b": b}, i % 3)
    expected = answer(plain, {"a": kinds[0](True), "b": 0.5})
    assert all(answer(mixed, {"a": kind(True), "b": 0.5}) == expected for kind in kinds)
    if hasattr(plain, "predict_many"):
        many = [mixed.predict_many(pd.DataFrame({"a": [kind(1)], "b": [0.5]})) for kind in kinds]
        assert len({np.asarray(one).tolist()[0] for one in many}) == 1


@pytest.mark.parametrize("name", [math.nan, pd.NA], ids=str)
def test_a_missing_name_of_a_feature_is_refused(learned, name):
    model, kind = learned
    for one in (model, model.clone()):
        with pytest.raises(ValueError, match="name of a feature"):
            learn(one, kind, {"a": 1.0, name: 1.0})
    with pytest.raises(ValueError, match="name of a feature"):
        answer(model, {"a": 1.0, name: 1.0})


def test_a_frame_with_a_missing_name_is_refused():
    with pytest.raises(ValueError, match="name of a feature"):
        rm.MondrianForestRegressor(2, seed=1).learn_many(
            pd.DataFrame([[1.0, 2.0]], columns=["a", math.nan]), [1.0]
        )


@pytest.mark.parametrize(("text", "what"), [("3.5", "number"), ("2020-01-31 12:00", "date")])
def test_text_that_is_a_number_or_a_date_is_warned_of_once(text, what):
    model = rm.MondrianForestClassifier(2, seed=1)
    with pytest.warns(UserWarning, match=f"'a' begins with the text '{text}'.*{what}.*converters"):
        model.learn_one({"a": text, "b": "3 red"}, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn_one({"a": "4.5", "b": "red"}, 1)
        model.predict_one({"a": "4.5"})


@pytest.mark.parametrize("name", ["classifier", "adaptive", "random cuts", "nearest neighbors"])
def test_bags_of_words_are_warned_of_once(name):
    def bags(model, n_words):
        for i in range(90):
            x = {str(i * 31 % n_words + k): 1.0 for k in range(3)} | {f"new {i}": 1.0}
            learn(model, kind_of(model), x, i % 2)

    with pytest.warns(UserWarning, match=r'lacks most of the .* missing="zero"') as seen:
        bags(MODELS[name](), 60)
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bags(MODELS[name]().clone({"missing": "zero"}), 60)
        for i in range(90):
            # A feature comes now and then, and the others are there.
            learn(model := MODELS[name](), kind_of(model), dict.fromkeys("abc"[: i % 3 + 1], 1.0))


@pytest.mark.parametrize("kind", ["classifier", "adaptive", "ogd", "dual"])
def test_classes_that_are_fractions_are_warned_of(kind):
    model = MODELS[kind]()
    with pytest.warns(UserWarning, match=r"classes are all fractions, such as 0.1.*regressor"):
        for i in range(60):
            model.learn_one({"a": 1.0}, i + 0.1)
    model = MODELS[kind]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(60):
            model.learn_one({"a": 1.0}, float(i))


def test_no_property_raises(learned):
    """Of any class, before learning and after."""
    model, _ = learned
    for one in (model, model.clone()):
        assert inspect.getmembers(one)


def test_unknown_keywords_are_refused(learned):
    model, _ = learned
    for name in ("predict_one", "predict_proba_one", "score_one"):
        if hasattr(model, name):
            with pytest.raises(TypeError, match="other"):
                getattr(model, name)({"a": 0.5}, other=True)


def test_a_clone_with_attributes_is_a_deep_copy(learned):
    model, kind = learned
    x = {"a": 0.1, "b": 0.9}
    one, other = model.clone(include_attributes=True), copy.deepcopy(model)
    for made in (one, other):
        learn(made, kind, x, 2)
    assert answer(one, x) == answer(other, x)


def test_a_clone_with_attributes_takes_parameters():
    model = rm.MondrianForestClassifier(2, n_jobs=1, seed=1)
    model.learn_one({"a": 1.0}, "x")
    made = model.clone({"n_jobs": 2}, include_attributes=True)
    assert (made.n_jobs, made.predict_one({"a": 1.0})) == (2, "x")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_any_protocol_are_read(learned, protocol):
    model, kind = learned
    for one in (model, model.clone()):
        learn(pickle.loads(pickle.dumps(one, protocol)), kind, {"a": 0.1, "b": 0.9})
    made = pickle.loads(pickle.dumps(model, protocol))
    assert answer(made, {"a": 0.1, "b": 0.9}) == answer(model, {"a": 0.1, "b": 0.9})


@pytest.mark.skipif(os.name != "posix", reason="devices and pipes of POSIX")
def test_saving_replaces_files_alone_and_keeps_their_modes(tmp_path):
    model = rm.MondrianForestClassifier(2, seed=1)
    rm.save(model, "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    pipe, path = tmp_path / "pipe", tmp_path / "model"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        content = reader.submit(pipe.read_bytes)
        rm.save(model, pipe)
        path.write_bytes(content.result())
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    assert rm.load(path).n_estimators == 2
    # What shells call a pipe to a command.
    reading, writing = os.pipe()
    with ThreadPoolExecutor(1) as reader, open(reading, "rb") as file:
        content = reader.submit(file.read)
        rm.save(model, f"/dev/fd/{writing}")
        os.close(writing)
        path.write_bytes(content.result())
    assert rm.load(path).n_estimators == 2
    path.chmod(0o640)
    rm.save(model, path)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640


def test_a_loaded_model_is_freed_with_its_last_reference(learned, tmp_path):
    rm.save(learned[0], tmp_path / "model")
    gc.disable()
    try:
        model = rm.load(tmp_path / "model")
        alive = weakref.ref(model)
        del model
        assert alive() is None
    finally:
        gc.enable()


TRANSFORMERS = {
    "min-max": compose.Discard("category") | preprocessing.MinMaxScaler(),
    "max-abs": compose.Discard("category") | preprocessing.MaxAbsScaler(),
    "robust": compose.Discard("category") | preprocessing.RobustScaler(),
    "adaptive": compose.Discard("category") | preprocessing.AdaptiveStandardScaler(),
    "one-hot": compose.Select("category") | preprocessing.OneHotEncoder(),
    "ordinal": compose.Select("category") | preprocessing.OrdinalEncoder(),
    "discard": compose.Discard("category"),
    "types": compose.SelectType(float),
    "variance": compose.Discard("category") | feature_selection.VarianceThreshold(),
    "fourier": compose.Discard("category") | feature_extraction.RBFSampler(seed=1),
    "mean by category": feature_extraction.TargetAgg(by="category", how=stats.Mean()),
    "union": compose.Discard("category")
    | compose.TransformerUnion(preprocessing.StandardScaler(), preprocessing.MinMaxScaler()),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_of_river_go_along_with_a_model(name, tmp_path):
    step = TRANSFORMERS[name].clone()
    samples = [({"a": i / 5, "b": i % 3 / 2, "category": "xyz"[i % 3]}, i % 2) for i in range(20)]
    supervised = getattr(step, "_supervised", False)
    for x, y in samples:
        step.learn_one(x, float(y)) if supervised else step.learn_one(x)
    path = tmp_path / "model"
    rm.save(rm.MondrianForestClassifier(2, seed=1), path, extra={"step": step})
    _, extra = rm.load(path, with_extra=True)
    new = {"a": 7.0, "b": -1.0, "category": "w"}
    # The restored one transforms, and goes on learning, alike.
    for x in (samples[3][0], new):
        assert extra["step"].transform_one(x) == step.transform_one(x)
        for one in (step, extra["step"]):
            one.learn_one(x, 1.0) if supervised else one.learn_one(x)
    assert extra["step"].transform_one(new) == step.transform_one(new)


def test_integers_of_128_bits_and_decimals_are_read_from_frames():
    whole = pl.Series([1, 2, 3], dtype=pl.Int128)
    tenths = [decimal.Decimal("0.1"), None, decimal.Decimal("0.3")]
    made = []
    for X in (
        pl.DataFrame({"a": whole, "b": tenths}),
        pl.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0.1, None, 0.3]}),
    ):
        model = rm.MondrianForestRegressor(2, seed=1)
        model.learn_many(X, pl.Series(tenths).fill_null(2), w=whole)
        made.append(model.predict_many(X).to_list())
    assert made[0] == made[1]


def test_labels_of_equal_text_are_not_one_column():
    model = rm.MondrianForestClassifier(2, seed=1)
    model.learn_one({"a": 1.0}, 1)
    model.learn_one({"a": 2.0}, "1")
    for X in (pl.DataFrame({"a": [1.0]}), pa.table({"a": [1.0]})):
        with pytest.raises(ValueError, match="1 and '1' would be the same column"):
            model.predict_proba_many(X)
    assert model.predict_proba_many(pd.DataFrame({"a": [1.0]})).to_numpy().sum() == pytest.approx(1)


def test_keys_of_numpy_are_those_of_python():
    models = KeyedClassifier("user", rm.MondrianForestClassifier(2, seed=1))
    models.learn_one({"user": np.int64(3), "a": 1.0}, "x")
    models.learn_one({"user": np.str_("u"), "a": 1.0}, "y")
    assert models.predict_one({"user": 3, "a": 1.0}) == "x"
    assert models.predict_one({"user": "u", "a": 1.0}) == "y"
    assert models.get(np.int64(3)) is models.get(3)
    made = models.clone(include_attributes=True)
    assert made.predict_one({"user": 3, "a": 1.0}) == "x" and made.get(3) is not models.get(3)


def isolation(**params):
    return rm.IsolationFeatures(20, 8, pool_size=64, seed=1, **params)


# Models that do not scale, or that scale within the map.
FAR = {
    "exact": lambda: rm.MondrianForestClassifier(3, scale=False, seed=1),
    "exact, zero": lambda: rm.MondrianForestClassifier(3, scale=False, missing="zero", seed=1),
    "oblique": lambda: rm.MondrianForestClassifier(3, directions=3, scale=False, seed=1),
    "regressor": lambda: rm.MondrianForestRegressor(3, scale=False, seed=1),
    "adaptive": lambda: rm.AdaptiveMondrianForestClassifier(3, scale=False, seed=1),
    "adaptive regressor": lambda: rm.AdaptiveMondrianForestRegressor(3, scale=False, seed=1),
    "random cuts": lambda: rm.RandomCutForest(3, scale=False, seed=1),
    "nearest neighbors": lambda: rm.NearestNeighborDetector(scale=False, seed=1),
    "density": lambda: rm.DensityForest(5, seed=1),
    "mondrian": lambda: rm.OGDClassifier(rm.MondrianFeatures(10, 5.0, seed=1)),
    "mondrian, auto": lambda: rm.OGDClassifier(rm.MondrianFeatures(10, "auto", seed=1)),
    "isolation": lambda: rm.OGDClassifier(isolation()),
    "isolation, scaled": lambda: rm.OGDClassifier(isolation(scale=True)),
    "isolation, trees": lambda: rm.OGDClassifier(isolation(method="iforest", scale=True)),
    "nystrom": lambda: rm.OGDClassifier(rm.NystromFeatures(30, 15, lifetime=2.0, seed=1)),
    "dual": lambda: rm.DualOGDClassifier(isolation(), learning_rate=0.3),
}


@pytest.mark.parametrize("by_frames", [False, True], ids=["rows", "frames"])
@pytest.mark.parametrize("name", FAR)
def test_values_far_from_0_are_not_rounded_before_they_are_compared(name, by_frames):
    """Times of today count as times of 1970: what is learned depends on differences."""
    rng = np.random.default_rng(0)
    # Numbers that both have exactly.
    rows = np.round(rng.random((130, 2)) * 4096) / 4096
    labels = ((rows[:, 0] > 0.5) != (rows[:, 1] > 0.5)).tolist()
    found = []
    for start in (0.0, 1.7e9):
        model, X = FAR[name](), rows + np.array([start, 0.0])
        kind = kind_of(model)
        samples = [dict(zip("ab", row, strict=True)) for row in X.tolist()]
        if by_frames and hasattr(model, "learn_many"):
            y = () if kind is None else ([kind(label) for label in labels[:100]],)
            model.learn_many(pd.DataFrame(samples[:100]), *y)
        else:
            for x, label in zip(samples[:100], labels, strict=False):
                learn(model, kind, x, label)
        ask = {None: "score_one", int: "predict_one", float: "predict_one"}[kind]
        found.append([float(getattr(model, ask)(x)) for x in samples[100:]])
    # Rounding may move a few places across a cut.
    near, far = np.array(found)
    assert np.mean(np.abs(near - far) < 0.05) > 0.9
    assert np.ptp(near) > 0.1
