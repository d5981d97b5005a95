"""Tests of categories: positions of levels, their distribution, accepted and refused values."""

import datetime
import decimal
import enum
import fractions
import itertools
import math
import os
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from common import Adaptive, Exact, Targets, answer, fed, raises, run
from naive import levels as naive
from river import base, compose, preprocessing
from scipy import stats

import river_mondrian as rm
from river_mondrian.distributed import KeyedModels
from river_mondrian.inputs import FeatureIndex
from river_mondrian.limits import LEAST_LEVEL
from river_mondrian.partitions.mondrian.transforms import Categories, place_of
from river_mondrian.values import level_of, number_of

pytestmark = pytest.mark.covering

COLORS = ("red", "green", "blue", "violet")
FORESTS = {
    "exact": lambda **more: Exact(**{"n_estimators": 3, "seed": 1} | more),
    "weights": lambda **more: Exact(**{"n_estimators": 3, "seed": 1} | more),
    "gaussian": lambda **more: Targets(**{"n_estimators": 3, "seed": 1} | more),
    "mean": lambda **more: Targets(**{"n_estimators": 3, "posterior": "mean", "seed": 1} | more),
    "adaptive": lambda: Adaptive(3, n_candidates=4, seed=1),
}
MODELS = FORESTS | {
    "ogd": lambda: rm.OGDClassifier(rm.MondrianFeatures(5, lifetime=3.0, seed=1), loss="log"),
    "auto": lambda: rm.OGDClassifier(rm.MondrianFeatures(5, lifetime="auto", seed=1), loss="log"),
    "ridge": lambda: rm.RidgeRegressor(rm.MondrianFeatures(5, lifetime=3.0, seed=1)),
}


def samples(n, seed=0, missing=0.1):
    """Return samples of two categories and a number, with targets that depend on them."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        color, is_new, size = COLORS[rng.integers(4)], bool(rng.integers(2)), float(rng.random())
        y = int((color in ("red", "blue")) ^ is_new ^ (size > 0.7))
        x = {"color": color, "is_new": is_new, "size": size}
        if rng.random() < missing:
            x[("color", "is_new", "size")[rng.integers(3)]] = None
        found.append((x, y))
    return found


def learn(name, model, pairs):
    """Let a model learn samples (with weights for the name "weights"); return the model."""
    weights = (1.0, 1.5, 2.0) if name == "weights" else (1.0,)
    return fed(model, [(*pair, w) for pair, w in zip(pairs, itertools.cycle(weights))])


# Places.


@pytest.mark.parametrize("level", ["red", "", "naïve \U0001f980", True, False, 7, 2.5])
@pytest.mark.parametrize("feature", [0, 1, 9])
def test_places_are_the_twins(level, feature):
    states = np.array([5, -3, 2**62], dtype=np.int64)
    categories = Categories(states)
    places, keys = categories.finish(), naive.keys(states)
    found = [np.float32(place_of(places, t, feature, level_of(level))) for t in range(3)]
    assert found == [naive.place(key, feature, level) for key in keys]


def test_places_are_uniform_and_independent(seed):
    """Positions are uniform over levels, trees and features; each of 7 tests has level 1e-4."""
    states = np.random.default_rng(seed).integers(-(2**63), 2**63, 300)
    categories = Categories(states)
    places = categories.finish()
    at = itertools.product(range(300), (0, 1), map(level_of, map(str, range(12))))
    grid = np.array([place_of(places, *one) for one in at]).reshape(300, 2, 12)
    assert stats.kstest(grid.ravel(), "uniform").pvalue > 1e-4
    # Pairs of positions: for two levels of a feature, for two features, and for two trees.
    pairs = (grid[:, :, :-1], grid[:, :, 1:]), (grid[:, 0], grid[:, 1]), (grid[:-1], grid[1:])
    for first, second in ((one.ravel(), other.ravel()) for one, other in pairs):
        cells = np.histogram2d(first, second, 4, [[0, 1], [0, 1]])[0]
        assert stats.chisquare(cells.ravel()).pvalue > 1e-4
        assert stats.spearmanr(first, second).pvalue > 1e-4


@pytest.mark.parametrize("kind", ["exact", "weights", "gaussian", "mean", "features"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_tree_is_that_of_its_places_as_numbers(kind, seed):
    """Positions computed by the reference, given as numbers, lead to equal results bit for bit."""
    states = np.random.SeedSequence(seed).generate_state(1, dtype=np.uint64).view(np.int64)
    (key,) = naive.keys(states)
    places = {"color": 0, "is_new": 1}

    def as_numbers(x):
        known = {name: value for name, value in x.items() if value is not None}
        own = {k: naive.place(key, places[k], known[k]) for k in places.keys() & known.keys()}
        return known | own

    is_map = kind == "features"
    make = rm.MondrianFeatures if is_map else FORESTS[kind]
    params = {"n_partitions": 1, "lifetime": 5.0} if is_map else {"n_estimators": 1, "scale": False}
    levels, numbers = (make(**params, seed=seed) for _ in range(2))
    # The first sample has all features, which fixes their order.
    for i, (x, y) in enumerate(samples(2, seed, missing=0.0) + samples(400, seed)):
        if i > 0:
            assert answer(levels, x) == answer(numbers, as_numbers(x))
        for model, known in ((levels, x), (numbers, as_numbers(x))):
            if is_map:
                model.learn_one(known)
            else:
                learn(kind, model, [(known, y)])


# Frames.


def frames(pairs):
    """Return frames of the samples, by backend and column types."""
    rows = [x for x, _ in pairs]
    plain = pd.DataFrame(rows).astype({"size": float})
    columns = {name: [x[name] for x in rows] for name in rows[0]}
    polars = {
        name: pl.DataFrame(columns, schema_overrides={"color": kind} if kind else None)
        for name, kind in {"p": None, "enums": pl.Enum(COLORS), "texts": pl.Categorical}.items()
    }
    typed = plain.astype({"color": "category", "is_new": "boolean"})
    return {"pandas": plain, "typed": typed, "arrow": polars["p"].to_arrow()} | polars


FRAMES = frames(samples(300))


@pytest.mark.parametrize("backend", FRAMES)
@pytest.mark.parametrize("name", MODELS)
def test_frames_are_learned_and_predicted_as_mappings(name, backend):
    pairs = samples(300)
    model, by_frame = MODELS[name](), MODELS[name]()
    learn("" if name == "weights" else name, model, pairs)
    frame = FRAMES[backend]
    by_frame.learn_many(frame, [y for _, y in pairs])
    for x, _ in pairs[:20]:
        assert answer(by_frame, x) == answer(model, x)
    many = np.asarray(by_frame.predict_many(frame)).tolist()
    one = [model.predict_one(x) for x, _ in pairs]
    if name in ("gaussian", "mean", "ridge"):
        # The tolerance allows batches to add numbers in another order.
        assert many == pytest.approx(one, rel=1e-9, abs=1e-12)
    else:
        assert many == one


def test_a_value_is_one_level_whichever_way_it_comes(recwarn):
    """Frames, mappings, wrappers and shards agree on the level of a value, and on its category."""
    values, labels = [0, 1, 2.5, 1], ["zero", "one", "two", "one"]
    typed = pd.DataFrame({"a": pd.Series(values, dtype="category")})
    texts = pd.DataFrame({"a": pd.Series(list(map(str, values)), dtype="category")})
    ways = {
        "mappings": [{"a": one} for one in values],
        "integers": [{"a": one} for one in (False, np.uint8(1), fractions.Fraction(5, 2), True)],
        "floats": [{"a": one} for one in (-0.0, np.float32(1), np.array(2.5), decimal.Decimal(1))],
    }
    frames = {
        "typed": typed,
        "numbers": pd.DataFrame({"a": values}),
        "nullable": pd.DataFrame({"a": pd.Series(values, dtype="Float32")}),
        "objects": pd.DataFrame({"a": pd.Series([False, True, 2.5, True], dtype=object)}),
        "polars": pl.DataFrame({"a": map(float, values)}),
        "arrow": pa.table({"a": pa.array(map(float, values)).dictionary_encode()}),
    }
    for make in (Exact, Adaptive, lambda: rm.Calibrated(Exact(seed=1))):
        models = [make(), make()]
        models[0].learn_many(pd.concat([typed] * 9, ignore_index=True), labels * 9)
        models[1].learn_many(texts.rename(columns=str), labels)
        calibrated = rm.Calibrated(models[0])
        for rows in ways.values():
            assert [models[0].predict_one(x) for x in rows] == labels
        for frame in frames.values():
            for model in (models[0], calibrated):
                assert np.asarray(model.predict_many(frame)).tolist() == labels
        # A missing value turns a column of integers into a column of floats.
        gap = pd.DataFrame({"a": pd.Series([1, None], dtype="category")})
        assert models[0].predict_many(gap).tolist()[0] == "one"
        assert answer(models[1], {"a": 1}) != answer(models[1], {"a": "1"})
    assert not recwarn.list


def test_numbers_of_a_frame_are_learned_as_the_levels_of_its_mappings():
    """After a truth value, the numbers of a column are levels, as they are in mappings."""
    values = [True, 0.0, 7, None, 2.5]
    model, by_frame = Exact(seed=1), Exact(seed=1)
    for one, y in zip(values, "abcde", strict=True):
        model.learn_one({"a": one}, y)
    by_frame.learn_many(pd.DataFrame({"a": pd.Series(values, dtype=object)}), list("abcde"))
    for one in (*values, 1, False, "7"):
        assert answer(model, {"a": one}) == answer(by_frame, {"a": one})


WRAPPERS = {
    "pipeline": lambda model: rm.Calibrated(compose.Discard("k") | model),
    "keys": lambda model: rm.Calibrated(KeyedModels("k", model)),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("values", [[1, 0], [1.5, 0.0], [decimal.Decimal(1), 0], ["1", "0"]])
def test_values_of_typed_columns_are_levels_behind_wrappers(wrapper, values, recwarn):
    X = pd.DataFrame({"k": "one", "a": pd.Categorical(np.array(values * 3, dtype=object))})
    model = WRAPPERS[wrapper](Exact(seed=1))
    model.learn_many(X, list("yn") * 3)
    inner = model.model.get("one") if wrapper == "keys" else model.model["MondrianForestClassifier"]
    same = Exact(seed=1)
    same.learn_many(X[["a"]], list("yn") * 3)
    assert inner.level_places("a", values) == same.level_places("a", values)
    for a in values:
        assert model.predict_one({"k": "one", "a": a}) == same.predict_one({"a": a})
    alarms = rm.Alarms(compose.Discard("k") | rm.RandomCutForest(2, seed=1))
    alarms.learn_many(X)
    assert alarms._views[0]["RandomCutForest"]._features.categories == {"a"}
    assert not recwarn.list


class Color(enum.Enum):
    RED = 1
    BLUE = 2


DAY = datetime.datetime(2024, 5, 6, 7, 8, 9, 10)
ZONE = datetime.timezone(datetime.timedelta(hours=2))
# Levels that are equal, in groups.
EQUAL = [
    ["1", np.str_("1")],
    [1, True, 1.0, np.int8(1), np.float16(1.0), decimal.Decimal("1.00"), enum.IntEnum("N", "A").A],
    [2**53 + 1, np.int64(2**53 + 1), decimal.Decimal(2**53 + 1)],
    [0.1, decimal.Decimal.from_float(0.1), fractions.Fraction(0.1), np.array(0.1)],
    [decimal.Decimal("0.1")],
    [math.inf, decimal.Decimal("Infinity")],
    [DAY, pd.Timestamp(DAY), np.datetime64(DAY), np.datetime64(DAY, "ns")],
    [pd.Timestamp(DAY) + pd.Timedelta(1, "ns")],
    [
        DAY.replace(tzinfo=datetime.UTC),
        DAY.replace(tzinfo=ZONE) + datetime.timedelta(hours=2),
        pd.Timestamp(DAY, tz="UTC").tz_convert("Asia/Tokyo"),
    ],
    [datetime.date(2024, 5, 1), datetime.datetime(2024, 5, 1), np.datetime64("2024-05")],
    [datetime.time(7, 8), datetime.time(7, 8, fold=1)],
    [datetime.timedelta(hours=36), pd.Timedelta("36h"), np.timedelta64(36, "h")],
    [pd.Interval(0, 1), pd.Interval(0.0, 1.0, "right")],
    [pd.Interval(0, 1, "left")],
    [pd.Period("2024-05", "M"), pd.Period("2024-05-06", "M")],
    [pd.Period("2024-05-01", "D")],
    [0, 0.0, decimal.Decimal("0E-20000")],
    [pd.Interval(pd.Timestamp(DAY), pd.Timestamp(DAY) + pd.Timedelta(1))],
    [Color.RED],
    [Color.BLUE],
    [(1, "a"), (1.0, np.str_("a"))],
    [("1", "a")],
    [(1, ("a",))],
    [("a", "b"), ("a", "b")],
    [("a b",)],
]


def test_equal_values_are_one_level_and_others_are_not():
    codes = [[float(level_of(one)) for one in group] for group in EQUAL]
    for group, own in zip(EQUAL, codes, strict=True):
        assert len(set(own)) == 1, group
    assert len({own[0] for own in codes}) == len(EQUAL)
    level = pickle.loads(pickle.dumps(level_of("red")))
    assert level == level_of("red") and level.level == "red"


@pytest.mark.parametrize("gap", [math.nan, None, pd.NA, pd.NaT, np.datetime64("NaT", "s")], ids=str)
def test_arrays_without_axes_may_be_missing(gap):
    for kind in {object, np.array(gap).dtype}:
        value = np.array(gap, dtype=kind)
        assert math.isnan(level_of(value)) and math.isnan(number_of(value))


def test_levels_are_the_same_in_every_process():
    text = "import test_categories as t; print([float(t.level_of(one[0])) for one in t.EQUAL])"
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    found, _ = run("-c", text, PYTHONHASHSEED="7", TZ="Asia/Tokyo", PYTHONPATH=path)
    assert found.strip() == str([float(level_of(group[0])) for group in EQUAL])


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("group", [EQUAL[6], EQUAL[9], EQUAL[11], EQUAL[12], EQUAL[15], EQUAL[17]])
def test_values_of_all_types_are_levels_of_categorical_columns(name, group):
    """A categorical column may have these values at any time.

    A mapping may have these values only after the feature has become a category.
    """
    other = ("b", 2) if isinstance(group[0], tuple) else "other"
    column = np.fromiter([group[0], other, None] * 5, dtype=object)
    frame = pd.DataFrame({"a": pd.Categorical(column)})
    model, labels = MODELS[name](), [0, 1, 1] * 5
    raises(TypeError, "feature 'a' must be a number", lambda: model.learn_one({"a": group[0]}, 0))
    model.learn_many(frame, labels)
    for one in group:
        assert answer(model, {"a": one}) == answer(model, {"a": group[0]})
        model.learn_one({"a": one}, 0)
    if hasattr(model, "level_places"):
        assert len({*model.level_places("a", group).values()}) == 1


@pytest.mark.parametrize(
    "value",
    [b"red", 1j, Color, [1], (None,), (math.nan,), np.timedelta64(2, "Y"), {1}, np.array([1.0])],
)
def test_other_values_are_no_levels(value):
    raises(TypeError, "exponent", lambda: level_of(decimal.Decimal("1e99999999999")))
    model = fed(Exact(), [({"a": "red", "b": 0.5}, 0)])
    raises(
        TypeError,
        "feature 'a' must be a level of a category",
        lambda: model.learn_one({"a": value, "b": 0.5}, 0),
        lambda: model.predict_one({"a": value}),
        lambda: model.predict_many(pd.DataFrame({"a": pd.Series([value], dtype=object)})),
    )


def test_other_classes_get_the_values_of_frames():
    """Codes of levels are internal: detectors, pipelines and subclasses never see them."""
    seen = []

    class Watching(base.AnomalyDetector):
        def learn_one(self, x):
            seen.append(x)

        def score_one(self, x):
            seen.append(x)
            return 0.5

    rows = [{"a": 0.5, "b": "red", "c": True}, {"b": "blue"}, {"a": 1.0, "c": False}]
    frame = pd.DataFrame(rows).astype({"b": "category", "c": "boolean"})
    rm.Alarms(Watching()).learn_many(frame)
    assert seen[::2] == rows
    seen.clear()
    rm.Alarms(preprocessing.OneHotEncoder() | Watching()).learn_many(frame)
    names = ["a_0_5", "a_1_0", "b_blue", "b_red", "c_False", "c_True"]
    assert {str(name).replace(".", "_") for x in seen for name in x} == set(names)


@pytest.mark.parametrize("make", [Exact, Adaptive, rm.RandomCutForest, rm.NearestNeighborDetector])
def test_subclasses_never_see_codes(make):
    class Watching(type(make(seed=1))):
        def learn_one(self, x, *given):
            assert set(x.values()) <= {"red", "blue"}
            super().learn_one(x, *given)

    frame = pd.DataFrame({"b": ["red", "blue"]})
    model = Watching(seed=1)
    model.learn_many(frame, *([[0, 1]] if isinstance(model, base.Classifier) else []))
    assert model.n_samples == 2


def test_long_levels_are_not_kept():
    """The cache of levels holds short values only, so memory does not grow with long texts."""
    model = Exact(2, seed=1)
    for y in range(2):
        model.learn_one({"a": "short", "b": 1.0}, y)
    # Learning a new level compiles kernels, and the memory of compilation must not be traced.
    model.learn_one({"a": "other", "b": 1.0}, 0)
    tracemalloc.start()
    for i in range(50):
        model.learn_one({"a": f"{i} " * 10_000, "b": 1.0}, 0)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 500_000


# Kinds.


LEVEL, NUMBER = "a level of a category", "a number"


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("feature", "value", "kind"),
    [("color", b"red", LEVEL), ("is_new", b"no", LEVEL), ("size", "big", NUMBER)],
)
def test_a_change_of_kind_is_an_error_that_names_it(name, feature, value, kind):
    model = learn(name, MODELS[name](), samples(40))
    before = pickle.dumps(model)
    bad = {"color": "red", "is_new": True, "size": 0.5} | {feature: value}
    raises(
        TypeError,
        rf"feature '{feature}' must be {kind}.*got {value!r}",
        lambda: model.learn_one(bad, 1),
        lambda: model.predict_one(bad),
        lambda: model.learn_many(pd.DataFrame([bad | {"size": 0.1}, bad]), [0, 1]),
        lambda: model.predict_many(pl.DataFrame([bad])),
    )
    assert pickle.dumps(model) == before


def test_a_column_of_numbers_and_levels_is_refused():
    for column, message in (
        ([0.5, None, "red"], "a number, got 'red' .* in row 2"),
        (["red", None, b"blue"], "a level .* got b'blue' .* in row 2"),
        (pd.Series([1j, 2j, 1j], dtype="category"), r"a level .* got 1j \(complex\) in row 0"),
    ):
        with pytest.raises(TypeError, match=f"feature 'a' must be {message}"):
            Exact().learn_many(pd.DataFrame({"a": column}), [0, 1, 0])


DIRECTED = rm.MondrianFeatures(3, directions=2, seed=1), rm.IsolationFeatures(4, 4, seed=1)
NUMBERS = [Exact(2, directions=2, seed=1), Targets(2, directions=[{"a": 1.0}], seed=1)]
NUMBERS += map(rm.OGDClassifier, DIRECTED)


@pytest.mark.parametrize("model", NUMBERS)
def test_what_cannot_take_levels_says_so(model):
    raises(
        TypeError,
        r"feature 'a' must be a number, got 'red' \(str\)",
        lambda: model.learn_one({"a": "red"}, 1),
        lambda: model.learn_many(pd.DataFrame({"a": ["red"]}), [1]),
    )
    model.learn_one({"a": True}, 1)


@pytest.mark.parametrize("name", FORESTS)
def test_a_number_as_large_as_a_code_is_refused(name):
    model, size = learn(name, FORESTS[name](), samples(40)), 2.0**200 * 1.25
    raises(
        ValueError,
        "feature 'size' must be finite",
        lambda: model.learn_one({"color": "red", "size": size}, 0),
        lambda: model.predict_one({"color": "red", "size": size}),
        lambda: model.learn_many(pd.DataFrame({"size": [size]}), [0]),
    )


# Streams.


@pytest.mark.parametrize("name", [*MODELS])
def test_levels_of_features_that_are_not_known_are_ignored(name):
    model = MODELS[name]()
    learn(name, model, [({"size": x["size"] or 0.0}, y) for x, y in samples(40)])
    for x in ({"size": 0.4, "new": "red"}, {"new": True, "size": 0.4}):
        assert answer(model, x) == answer(model, {"size": 0.4})
        many = np.asarray(model.predict_many(pd.DataFrame([x])))
        assert many[0] == pytest.approx(model.predict_one({"size": 0.4}))


def test_limit_kernels_need_one_kind():
    kernel = rm.MondrianFeatures(3).limit_kernel
    raises(TypeError, "'a' must be a number, got 'red'", lambda: kernel({"a": 1.0}, {"a": "red"}))
    assert kernel({"a": 1.0}, {"a": True}) == kernel({"a": True}, {"a": 1.0}) == 1.0


# Frames of trees.


@pytest.mark.parametrize("name", ["exact", "adaptive", "gaussian"])
def test_cuts_of_levels_can_be_read(name):
    """The path by a tree's frame and the positions of levels ends at the leaf of `debug_one`."""
    model = learn(name, FORESTS[name](), samples(400, missing=0.0))
    for tree in range(2):
        frame = model.to_dataframe(tree)
        for x, _ in samples(20, 2, missing=0.0):
            levels = {k: model.level_places(k, [x[k]], tree)[x[k]] for k in ("color", "is_new")}
            node, lines = 0, model.debug_one(x, tree).splitlines()[1:]
            while not frame.is_leaf[node]:
                feature, line = frame.feature[node], lines.pop(0)
                goes_left = bool((x | levels)[feature] <= frame.threshold[node])
                assert line.strip().startswith(repr(feature))
                assert (" <= " in line) is goes_left
                node = frame.left[node] if goes_left else frame.right[node]
            assert "leaf" in lines[0]
    raises(ValueError, "'size' is not a learned", lambda: model.level_places("size", ["red"]))


@pytest.mark.parametrize("lifetime", [0.7, 3.0, stats.gamma(2.0), stats.uniform(1.0, 2.0)])
def test_kernel_of_levels_is_the_limit(lifetime, seed):
    """Of 2,000 partitions, the number that do not separate two samples is binomial (level 1e-5)."""
    n = 2000
    features = rm.MondrianFeatures(n, lifetime=lifetime, seed=seed)
    base = {"color": "red", "kind": "a", "size": 0.2}
    changes = {"color": "blue"}, {"color": "blue", "kind": "b"}, {"color": "blue", "size": 0.5}
    others = [base | more for more in changes]
    fed(features, [base, *others])
    for x in others:
        expected = features.limit_kernel(base, x)
        found = round(features.kernel(base, x) * n)
        assert stats.binomtest(found, n, expected).pvalue > 1e-5
    assert features.kernel(base, base) == features.limit_kernel(base, base) == 1.0


def test_a_wrong_row_of_a_later_block_is_named():
    features = FeatureIndex().with_more({"a": 1.0, "b": 2.0})
    columns = np.zeros((5, 2))
    columns[3, 1] = LEAST_LEVEL
    raises(TypeError, r"'b'.* in row 2051", lambda: features.agree(["a", "b"], columns, 2048))
