"""Tests of the accepted samples, targets and names: any mapping, numbers of any type."""

import collections
import copy
import datetime
import decimal
import enum
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
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from common import answer, fed, raises
from river import base, compose, feature_extraction, feature_selection, preprocessing, stats
from test_configurations import CONFIGURATIONS
from test_contract import MODELS

import river_mondrian as rm
from river_mondrian.distributed.keyed import KeyedClassifier
from river_mondrian.inputs import FeatureIndex
from river_mondrian.learners import references
from river_mondrian.samples import SampleReader

pytestmark = pytest.mark.covering


def learn(model, x, y=1):
    kind = kind_of(model)
    fed(model, [(x, y if kind is None else kind(y))])


def kind_of(model):
    """Return a function from a number to a target of the model, or None without targets."""
    if isinstance(model, base.Classifier):
        return int
    return float if isinstance(model, base.Regressor) else None


# Feature maps are tested as parts of learners.
NAMES = [name for name, make in MODELS.items() if not hasattr(make(), "transform_one")]


def taught(model, x, y=1):
    """Return a copy of a model that has learned a sample."""
    model = copy.deepcopy(model)
    learn(model, x, y)
    return model


@pytest.fixture(params=NAMES)
def model(request):
    made = MODELS[request.param]()
    for i in range(30):
        learn(made, {"a": i * 37 % 11 / 11, "b": i * 53 % 13 / 13}, i % 3)
    return made


@pytest.mark.parametrize("kind", ["M8[ns]", "m8[ns]", "m8[as]"])
def test_times_that_numpy_turns_into_whole_numbers_are_refused(model, kind):
    """Times are also refused beside numbers, and as arrays without axes."""
    time = np.array(5, dtype=kind)
    before = pickle.dumps(model)
    for x in ({"a": time[()], "b": 0.5}, {"a": 1, "b": time[()]}, {"b": time}, {"a": time, "b": 0}):
        raises(
            TypeError,
            "must be a number, got",
            lambda x=x: learn(model, x),
            lambda x=x: answer(model, x),
        )
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("first", [(), (0.5,)], ids=["alone", "after a float"])
def test_reading_large_numbers_of_low_precision_does_not_warn(kind, first):
    x = dict(enumerate([*first, *[np.finfo(kind).max] * 3]))
    reader = SampleReader()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for missing in ("unknown", "zero"):
            index = FeatureIndex(missing).with_more(dict.fromkeys(x, 0.0))
            assert index.pack(x) == np.array([*x.values()], dtype=float).tobytes()
        reader.read_sparse(x)


DENSITIES = [name for name in CONFIGURATIONS if "density" in name and name not in MODELS]


@pytest.mark.parametrize("name", [*NAMES, *DENSITIES])
def test_results_do_not_depend_on_how_numpy_reports_errors(name):
    """A program may call `numpy.seterr`. Widths and references are renewed in the meantime."""
    model, rng = CONFIGURATIONS[name](), np.random.default_rng(0)
    x, names = {"a": 0.3, "b": 1e30}, ["explain_one", "feature_importances", "widths", "debug_one"]
    names += ["log_density_one", "raw_score_one", "raw_scores_one", "baseline"]

    def answers():
        found = [getattr(model, name) for name in names if hasattr(model, name)]
        return str([answer(model, x), *(one(x) if callable(one) else one for one in found)])

    with np.errstate(all="raise"):
        for a, b, c in rng.random((300, 3)).tolist():
            learn(model, {"a": a, "b": b * 1e-310, "c": (c < 0.1) * 1e-45})
        assert all(map(math.isfinite, numbers_of(answer(model, {"a": 0.5, "b": 1e-310}))))
        for more in ({"b": None, "c": 1e-30}, {"b": 1e30, "c": 1e-30}, {"a": 1e-42, "b": 1.0}):
            learn(model, {"a": 0.1} | more)
        found = answers()
        assert np.isfinite(references.cuts_of(np.zeros(9))).any()
    assert answers() == found


@pytest.mark.parametrize("by_frames", [False, True], ids=["rows", "frames"])
@pytest.mark.parametrize("name", [*NAMES, *DENSITIES])
def test_samples_without_values_come_at_any_time(name, by_frames):
    """Sensors may start late, and may stop; predictions are possible at all times."""
    model = CONFIGURATIONS[name]()
    gap, values = [{}] * 260, [{"a": i * 37 % 11 / 11, "b": i * 53 % 13 / 13} for i in range(30)]
    for samples in (gap[:16], gap, values, gap[:20], values):
        if by_frames and hasattr(model, "learn_many"):
            frame, kind = pd.DataFrame(samples, columns=["a", "b"], dtype=float), kind_of(model)
            model.learn_many(frame, *([] if kind is None else [[kind(1)] * len(samples)]))
        else:
            for x in samples:
                learn(model, x)
        for x in ({}, values[0]):
            assert all(map(math.isfinite, numbers_of(answer(model, x))))


def numbers_of(found):
    return [one for one in found.values() if isinstance(one, float)]


def row_of_a_database():
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    return connection.execute("select .5 as a, .25 as c").fetchone()


def test_any_mapping_is_read_as_its_dict(model):
    # As many keys as known features, but other keys.
    counted = collections.Counter({"c": 1, "d": 2})
    default = collections.defaultdict(float, {"a": 0.5, "c": 1.0})
    series = pd.Series({"a": 0.5, "c": 0.25})
    question = {"a": 0.5, "b": 0.2, "c": 1, "d": 1}
    for x in (counted, default, row_of_a_database(), series):
        there = dict(x)
        assert answer(model, x) == answer(model, there)
        assert answer(taught(model, x), question) == answer(taught(model, there), question)
        assert dict(x) == there  # Lookups have not inserted keys.


def test_missing_values_of_all_libraries_are_absent(model):
    expected = answer(model, {"b": 0.2}), answer(taught(model, {"b": 0.3}), {"a": 0.1})
    for gap in (None, math.nan, pd.NA, pd.NaT, np.datetime64("NaT", "s"), decimal.Decimal("NaN")):
        other = taught(model, {"a": gap, "b": 0.3})
        assert (answer(model, {"a": gap, "b": 0.2}), answer(other, {"a": 0.1})) == expected


def test_numbers_of_any_type_are_features_targets_and_weights(model):
    x = {"a": 0.1, "b": 0.9}
    for number in (decimal.Decimal("0.5"), np.array(0.5), np.float32(0.5), pa.scalar(0.5).as_py()):
        assert answer(model, {"a": number, "b": 0.2}) == answer(model, {"a": 0.5, "b": 0.2})
        if kind_of(model) is float:
            one, other = copy.deepcopy(model), copy.deepcopy(model)
            one.learn_one(x, number, w=number)
            other.learn_one(x, 0.5, w=0.5)
            assert answer(one, x) == answer(other, x)


@pytest.mark.parametrize("value", [np.array([0.5]), 1j, b"1", [1.0], {}, object()], ids=type)
def test_what_is_not_a_number_is_named(model, value):
    raises(TypeError, "'a' must be a number", lambda: answer(model, {"a": value, "b": 0.2}))


TIMES = [datetime.datetime(2020, 1, 1), datetime.date(2020, 1, 1), datetime.time(13, 30)]


TIMES += [datetime.timedelta(1), pd.Timestamp("2020-01-01"), pd.Timedelta("1 day")]


TIMES += [np.datetime64("2020-01-01"), np.timedelta64(1, "D")]


@pytest.mark.parametrize("value", TIMES, ids=repr)
def test_an_error_for_a_time_tells_how_it_becomes_a_number(model, value):
    with pytest.raises(TypeError, match="'a' must be a number") as error:
        learn(model, {"a": value, "b": 0.2})
    remedy = str(error.value).partition("such as ")[2]
    learn(model, {"a": eval(remedy, {"value": value, "np": np}), "b": 0.2})


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_truth_values_and_0_and_1_are_the_same(name, is_first):
    """The first value decides whether the feature is a category."""
    kinds = [[bool, int, float, np.bool_], [int, bool, np.float32, np.bool_]][not is_first]
    mixed, plain = MODELS[name](), MODELS[name]()
    for i in range(40):
        flag, b = i * 37 % 11 > 4, i * 53 % 13 / 13
        for model, kind in ((mixed, kinds[i % 4]), (plain, kinds[0])):
            learn(model, {"a": kind(flag), "b": b}, i % 3)
    expected = answer(plain, {"a": kinds[0](True), "b": 0.5})
    assert all(answer(mixed, {"a": kind(True), "b": 0.5}) == expected for kind in kinds)
    if hasattr(plain, "predict_many"):
        many = [mixed.predict_many(pd.DataFrame({"a": [kind(1)], "b": [0.5]})) for kind in kinds]
        assert len({np.asarray(one).tolist()[0] for one in many}) == 1


@pytest.mark.parametrize("name", [math.nan, pd.NA], ids=str)
def test_a_missing_name_of_a_feature_is_refused(model, name):
    x = {"a": 1.0, name: 1.0}
    calls = [lambda: learn(model, x), lambda: learn(model.clone(), x), lambda: answer(model, x)]
    if hasattr(model, "score_many"):
        calls.append(lambda: model.score_many(pd.DataFrame([x])))
    elif hasattr(model, "predict_many"):
        calls.append(lambda: model.predict_many(pd.DataFrame([x])))
    raises(ValueError, "name of a feature", *calls)


@pytest.mark.parametrize(("text", "what"), [("3.5", "number"), ("2020-01-31 12:00", "date")])
def test_text_that_is_a_number_or_a_date_is_warned_of_once(text, what):
    model = compose.Discard("c") | rm.MondrianForestClassifier(2, seed=1)
    message = f"'a' begins with the text '{text}'.*{what}.*converters"
    with pytest.warns(UserWarning, match=message) as seen:
        model.learn_one({"a": text, "b": "3 red"}, 1)
    assert seen[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        model.learn_one({"a": "4.5", "b": "red"}, 1)
        model.predict_one({"a": "4.5"})
    frame, labels = pd.DataFrame({"a": [None, text], "b": ["3 red", "4"]}), pd.Series([0, 1])
    for model in (rm.MondrianForestClassifier(2, seed=1), rm.AdaptiveMondrianForestClassifier(2)):
        with pytest.warns(UserWarning, match=message) as seen:
            model.learn_many(frame, labels)
        assert [one.filename for one in seen] == [__file__]
        with warnings.catch_warnings(action="error"):
            model.learn_many(frame, labels)
            model.predict_many(frame)
            model.clone().learn_many(frame.astype("category"), labels)


@pytest.mark.parametrize("name", ["classifier", "adaptive", "random cuts", "nearest neighbors"])
def test_bags_of_words_are_warned_of_once(name):
    def bags(model):
        for i in range(90):
            x = {str(i * 31 % 60 + k): 1.0 for k in range(3)} | {f"new {i}": 1.0}
            learn(model, x, i % 2)

    with pytest.warns(UserWarning, match=r'lacks most of the .* missing="zero"') as seen:
        bags(MODELS[name]())
    assert len(seen) == 1
    with warnings.catch_warnings(action="error"):
        bags(MODELS[name]().clone({"missing": "zero"}))
        model = MODELS[name]()
        for i in range(90):
            # One feature is sometimes absent.
            learn(model, dict.fromkeys("abc"[: i % 3 + 1], 1.0))


@pytest.mark.parametrize("kind", ["classifier", "adaptive", "ogd", "dual"])
def test_classes_that_are_fractions_are_warned_of(kind):
    with pytest.warns(UserWarning, match=r"classes are all fractions, such as 0.1.*regressor"):
        fed(MODELS[kind](), [({"a": 1.0}, i + 0.1) for i in range(60)])
    with warnings.catch_warnings(action="error"):
        fed(MODELS[kind](), [({"a": 1.0}, float(i)) for i in range(60)])


def test_no_property_raises(model):
    """All public classes are tested, before and after learning."""
    assert inspect.getmembers(model) and inspect.getmembers(model.clone())


def test_unknown_keywords_are_refused(model):
    for name in ("predict_one", "predict_proba_one", "score_one"):
        if hasattr(model, name):
            with pytest.raises(TypeError, match="other"):
                getattr(model, name)({"a": 0.5}, other=True)


def test_a_clone_with_attributes_is_a_deep_copy(model):
    x = {"a": 0.1, "b": 0.9}
    expected = answer(taught(model, x, 2), x)
    assert answer(taught(model.clone(include_attributes=True), x, 2), x) == expected


def test_a_clone_with_attributes_takes_parameters():
    model = fed(rm.MondrianForestClassifier(2, n_jobs=1, seed=1), [({"a": 1.0}, "x")])
    made = model.clone({"n_jobs": 2}, include_attributes=True)
    assert (made.n_jobs, made.predict_one({"a": 1.0})) == (2, "x")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_any_protocol_are_read(model, protocol):
    x = {"a": 0.1, "b": 0.9}
    made = pickle.loads(pickle.dumps(model, protocol))
    assert answer(made, x) == answer(model, x)
    for one in (made, pickle.loads(pickle.dumps(model.clone(), protocol))):
        learn(one, x)


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
    # Shells pass such paths of pipes to commands.
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


def test_a_loaded_model_is_freed_with_its_last_reference(model, tmp_path):
    rm.save(model, tmp_path / "model")
    gc.disable()
    try:
        alive = weakref.ref(rm.load(tmp_path / "model"))
        assert alive() is None
    finally:
        gc.enable()


NUMBERS = compose.Discard("category")


TRANSFORMERS = {
    "min-max": NUMBERS | preprocessing.MinMaxScaler(),
    "max-abs": NUMBERS | preprocessing.MaxAbsScaler(),
    "robust": NUMBERS | preprocessing.RobustScaler(),
    "adaptive": NUMBERS | preprocessing.AdaptiveStandardScaler(),
    "one-hot": compose.Select("category") | preprocessing.OneHotEncoder(),
    "ordinal": compose.Select("category") | preprocessing.OrdinalEncoder(),
    "discard": NUMBERS,
    "types": compose.SelectType(float),
    "variance": NUMBERS | feature_selection.VarianceThreshold(),
    "fourier": NUMBERS | feature_extraction.RBFSampler(seed=1),
    "mean by category": feature_extraction.TargetAgg(by="category", how=stats.Mean()),
    "union": NUMBERS | (preprocessing.StandardScaler() + preprocessing.MinMaxScaler()),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_of_river_go_along_with_a_model(name, tmp_path):
    step = TRANSFORMERS[name].clone()

    def teach(step, x, y):
        step.learn_one(x, *([y] if getattr(step, "_supervised", False) else []))

    for i in range(20):
        x = {"a": i / 5, "b": i % 3 / 2, "category": "xyz"[i % 3]}
        teach(step, x, float(i % 2))
    rm.save(rm.MondrianForestClassifier(2, seed=1), tmp_path / "model", extra={"step": step})
    same = rm.load(tmp_path / "model", with_extra=True)[1]["step"]
    # The restored model returns the same results, even after more samples.
    for new in (x, {"a": 7.0, "b": -1.0, "category": "w"}, x):
        assert same.transform_one(new) == step.transform_one(new)
        for one in (step, same):
            teach(one, new, 1.0)


def test_integers_of_128_bits_and_decimals_are_read_from_frames():
    whole = pl.Series([1, 2, 3], dtype=pl.Int128)
    tenths = [decimal.Decimal("0.1"), None, decimal.Decimal("0.3")]
    made = []
    for columns in ({"a": whole, "b": tenths}, {"a": [1.0, 2.0, 3.0], "b": [0.1, None, 0.3]}):
        model, X = rm.MondrianForestRegressor(2, seed=1), pl.DataFrame(columns)
        model.learn_many(X, pl.Series(tenths).fill_null(2), w=whole)
        made.append(model.predict_many(X).to_list())
    assert made[0] == made[1]


def test_labels_of_equal_text_are_not_one_column():
    model = fed(rm.MondrianForestClassifier(2, seed=1), [({"a": 1.0}, 1), ({"a": 2.0}, "1")])
    for X in (pl.DataFrame({"a": [1.0]}), pa.table({"a": [1.0]})):
        with pytest.raises(ValueError, match="1 and '1' would be the same column"):
            model.predict_proba_many(X)
    assert model.predict_proba_many(pd.DataFrame({"a": [1.0]})).to_numpy().sum() == pytest.approx(1)


def test_keys_of_numpy_are_those_of_python():
    models = KeyedClassifier("user", rm.MondrianForestClassifier(2, seed=1))
    for key, y in ((np.int64(3), "x"), (np.str_("u"), "y")):
        models.learn_one({"user": key, "a": 1.0}, y)
    assert [models.predict_one({"user": key, "a": 1.0}) for key in (3, "u")] == ["x", "y"]
    assert models.get(np.int64(3)) is models.get(3)
    made = models.clone(include_attributes=True)
    assert made.predict_one({"user": 3, "a": 1.0}) == "x" and made.get(3) is not models.get(3)


def isolation(**params):
    return rm.IsolationFeatures(20, 8, pool_size=64, seed=1, **params)


# Models that do not scale features, or scale features within the map.
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
    """Learning depends on differences only, so timestamps are learned like values near 0."""
    rng = np.random.default_rng(0)
    # With both offsets, float64 represents these values exactly.
    rows = np.round(rng.random((130, 2)) * 4096) / 4096
    labels = ((rows[:, 0] > 0.5) != (rows[:, 1] > 0.5)).tolist()
    found = []
    for start in (0.0, 1.7e9):
        model, X = FAR[name](), pd.DataFrame(rows + np.array([start, 0.0]), columns=["a", "b"])
        kind, samples = kind_of(model), X.to_dict("records")
        if by_frames and hasattr(model, "learn_many"):
            model.learn_many(X[:100], *([] if kind is None else [[*map(kind, labels[:100])]]))
        else:
            for x, label in zip(samples[:100], labels, strict=False):
                learn(model, x, label)
        ask = model.score_one if kind is None else model.predict_one
        found.append([float(ask(x)) for x in samples[100:]])
    # Rounding may move a few values across a cut.
    near, far = np.array(found)
    assert np.mean(np.abs(near - far) < 0.05) > 0.9
    assert np.ptp(near) > 0.1


ZONED = datetime.datetime(2024, 5, 6, tzinfo=datetime.UTC)
Word = enum.Enum("Word", ["A", "B"])
TIMES = [(np.timedelta64(1, "ns"), np.timedelta64(2, "ns"))]
TIMES += [(np.datetime64("2024-05-06", "ns"), np.datetime64("2024-05-07", "ns"))]
LABELS = [(1, 2.5), (1, "a"), ((1, 2), (3,)), (True, 2), (None,), ("a", "b"), (2**70, 1)]
LABELS += [(ZONED,), (ZONED, ZONED.replace(tzinfo=None))]


@pytest.mark.parametrize("labels", [*LABELS, *TIMES, (Word.A, Word.B)], ids=repr)
@pytest.mark.parametrize("make", [pl.DataFrame, pa.table, pd.DataFrame, None])
def test_frames_get_their_labels_back(make, labels):
    """A column holds the labels themselves, or the call is refused before it predicts."""
    model = rm.MondrianForestClassifier(2, seed=1)
    rows = {"a": [0.1, 0.9] * 3}
    for x, y in zip(rows["a"], labels * 6, strict=False):
        if y is not None:
            model.learn_one({"a": x}, y)
    X = np.array(rows["a"])[:, None] if make is None else make(rows)
    expected = [model.predict_one({"a": x}) for x in rows["a"]] if make else None
    if make is pa.table and labels not in (("a", "b"), (None,), (ZONED,)):
        with mock.patch.object(model, "_predict_rows") as predict:
            raises(TypeError, "pyarrow cannot hold the labels", lambda: model.predict_many(X))
        assert not predict.called
        return
    found = model.predict_many(X)
    found = found.to_pylist() if make is pa.table else found.to_list() if make else None
    assert found == expected
    if make is pl.DataFrame:
        assert [*map(type, found)] == [*map(type, expected)]
