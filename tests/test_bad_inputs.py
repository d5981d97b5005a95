"""Tests of the errors for bad inputs, as tables."""

import copy
import functools
import importlib
import math
from functools import partial

import narwhals.stable.v2 as narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from common import raises
from river import drift, metrics, optim, preprocessing
from scipy import stats

import river_mondrian as rm
from river_mondrian import checks, plot
from river_mondrian.distributed import KeyedModels, ShardedForest
from river_mondrian.frames import read_frame

X = pd.DataFrame({"a": np.arange(20.0), "b": np.arange(20.0)[::-1] % 7})
LABELS = pd.Series(["u", "v"] * 10)
TARGETS = pd.Series(np.arange(20.0))
GOOD = {"a": 1.0, "b": 2.0}


@functools.cache
def trained(name):
    model = getattr(rm, name)()
    y = [LABELS] if name.endswith("Classifier") else [TARGETS] if name.endswith("Regressor") else []
    model.learn_many(X, *y)
    return model


def pipeline():
    """Return a pipeline of a scaler and a model."""
    return preprocessing.StandardScaler() | trained(EXACT)


def call(name, method, *arguments, **more):
    """Return a call of a method of a trained model."""
    return lambda: getattr(copy.deepcopy(trained(name)), method)(*arguments, **more)


def learn(*arguments, **more):
    return call(EXACT, "learn_many", *arguments, **more)


def sharded(*arguments):
    """Return a call in which a sharded forest learns its first rows in this process."""
    return lambda: ShardedForest(rm.MondrianForestClassifier(2, seed=1)).learn_many(*arguments)


def path(*arguments, **more):
    return lambda: rm.lifetime_path(*arguments, **more)


def exact(*arguments):
    return lambda: rm.exact_density(*arguments)


def law(method, argument):
    return lambda: getattr(rm.PredictiveDistribution(*np.ones((3, 1))), method)(argument)


def draw(name, *arguments, **more):
    return lambda: getattr(plot, name)(*arguments, **more)


def draw_of(name, model, *arguments):
    return lambda: getattr(plot, name)(trained(model), *arguments)


def save(*arguments, **more):
    return lambda: rm.save(trained(EXACT), *arguments, **more)


PLANE = {"a": (0.0, 1.0), "b": (0.0, 1.0)}
EXACT, ADAPTIVE = "MondrianForestClassifier", "AdaptiveMondrianForestClassifier"
TARGET, ADAPTIVE_TARGET = "MondrianForestRegressor", "AdaptiveMondrianForestRegressor"
CUTS, DENSITY, ALARMS = "RandomCutForest", "DensityForest", "Alarms"
OGD, RIDGE, CELLS = "OGDClassifier", "RidgeRegressor", "MondrianFeatures"
LIST, DATES = list(LABELS), pd.DataFrame({"a": pd.date_range("2020", periods=20)})
# NumPy turns these times into whole numbers.
TIMES = [np.arange(20).astype(kind) for kind in ("M8[ns]", "m8[ns]", "m8[as]")]

# Calls and the messages of their errors, by type of the error. ARGUMENTS and tests/test_contract.py
# test constructors. tests/test_contract.py and tests/test_configurations.py test calls with one
# sample.
TYPE_ERRORS = [
    (call(EXACT, "debug_one", None), "a sample must be a mapping"),
    (call(EXACT, "explain_one", 3), "a sample must be a mapping"),
    # Frames.
    (learn(None, LABELS), "X must be a pandas, .* got NoneType"),
    (learn([GOOD], ["u"]), r"give pandas.DataFrame\(X\)"),
    (learn(X["a"], LABELS), r"one column: give X.to_frame\(\)"),
    (learn(pl.from_pandas(X).lazy(), LABELS), r"X is a lazy frame, .* give X.collect\(\)"),
    (learn(DATES, LABELS), "feature 'a' must be a number"),
    (call(EXACT, "predict_many", "abc"), "X must be a pandas, .* got str"),
    (call(CUTS, "score_many", {"a": [1.0]}), "X must be a pandas, .* got dict"),
    (call(CELLS, "gram", X, 3), "must be a pandas"),
    (path(None, TARGETS, 1.0), "X must be a pandas"),
    (path(X.assign(a="x"), TARGETS, 1.0), "'a'.*'x'"),
    # Labels, targets and weights of frames.
    (learn(X, LABELS.to_frame("y")), r"must be a series.* with the columns \['y'\]: give one of"),
    (learn(X, pa.table({"y": LIST})), r"got a Table with the columns \['y'\]"),
    (learn(X, pl.LazyFrame({"y": LIST})), r"got a LazyFrame: give one column of y.collect\(\)"),
    (learn(X, None), "labels must be a series.* got None"),
    (learn(X, "u" * 20), "labels must be a series.* got 'uuuu"),
    (learn(X, set(range(20))), "labels must be a series"),
    (learn(X, dict.fromkeys(range(20))), "labels must be a series"),
    (learn(X, np.array(LIST)[:, None]), r"labels .* one dimension, got one of the shape \(20, 1\)"),
    (learn(X, LABELS, w=np.zeros((20, 2))), "weights must be"),
    (call(ADAPTIVE_TARGET, "learn_many", X, lambda: 0), "targets must be a series"),
    (call(RIDGE, "learn_many", X, ["a"] * 20), "target must be a number.* in row 0"),
    (path(X, None, 1.0), "targets must be a series.* got None"),
    *[(learn(X, LABELS, w=times), "weight must be a number.* in row 0") for times in TIMES],
    *[(learn(times[:, None], LABELS), "feature 0 must be a number") for times in TIMES],
    *[(path(X, times, 1.0), "target must be a number.* in row 0") for times in TIMES],
    *[(sharded(X, LABELS, times), "weight must be a number.* in row 0") for times in TIMES],
    # Functions and files.
    (lambda: KeyedModels(lambda: "a", pipeline()), r"called by key\(x\), got .*: too many posit"),
    (lambda: rm.save(3, "model"), "save takes an estimator or a feature map"),
    (lambda: rm.save(optim.SGD(), "model"), "save takes an estimator or a feature map"),
    (
        lambda: rm.save(pipeline(), "model"),
        r"itself; KeyedModels have flush\(\)\), got a Pipeline$",
    ),
    (save("model", extra=3), "extra must be a dict or None"),
    (save(3), r"path must be a str or .* got 3 \(int\)"),
    (save(None), "path must be a str or a pathlib.Path"),
    (lambda: rm.load(["model"]), r"path must be a str or .* got \['model'\] \(list\)"),
    # Plots, whose errors name the class of a model.
    (draw_of("importances", DENSITY), "or a mapping, got a DensityForest$"),
    (draw("importances", 3), r"or a mapping, got 3 \(int\)"),
    (draw_of("density_map", EXACT, PLANE), f"density_one, got a {EXACT}$"),
    (draw_of("score_map", EXACT, PLANE), f"have score_one, got a {EXACT}$"),
    (draw_of("lifetimes", EXACT), f"a result of lifetime_path, got a {EXACT}$"),
    (draw_of("scores", EXACT), f"recent_scores, got a {EXACT}$"),
    (draw_of("weights", ADAPTIVE), "history must be a list or another"),
    (draw("progressive", {"a": 3}), "the curve of 'a' must be a list or another"),
    (draw("progressive", {"a": [(1, 0.5)]}, drifts=3), r"drifts must be .* got 3 \(int\)"),
    (
        draw("progressive", {"a": [{"Step": 1, "R": metrics.ClassificationReport()}]}),
        "the metric of 'a' has no single score, got a R",
    ),
    (draw("intervals", [], [], levels=0.9), r"levels must be a list .* got 0.9 \("),
    (draw("intervals", ["a"], [None]), r"targets must be numbers, got 'a' \(str\)"),
    (draw("intervals", [1.0], None), "distributions must be a list .* got N"),
    (draw("intervals", [1.0], [None], times=1), "times must be a list"),
    (draw("reliability", {"u": 1.0}, ["u"]), "predictions must be a list"),
    (draw("reliability", [{"u": 1.0}], None), "labels must be a list .* got None"),
    (draw("reliability", [{"u": "x"}], ["u"]), "probability of 'u' must be a number"),
    (draw("reliability", X, LABELS), r"give the rows of the DataFrame as dicts"),
]
ORDER = r"labels of the index of X in another order.*\.loc\[X.index\] to .*\.to_numpy\(\) to"
VALUE_ERRORS = [
    (learn(np.zeros(3), LABELS), "must have the shape"),
    (learn(X, LABELS[::-1]), ORDER),
    (learn(X, [None] * 20), "label .* in row 0"),
    (learn(X, LABELS, progress="yes"), "progress must be True or False, got 'yes'"),
    (call(TARGET, "learn_many", X, TARGETS[::-1]), "in another order"),
    (call(RIDGE, "learn_many", X, TARGETS[::-1]), "in another order"),
    (call("DriftMonitor", "learn_many", X[:1], [1, 2]), "1 rows but there are 2"),
    (sharded(X, LABELS[::-1]), "labels of the index of X in another order"),
    (sharded(X, LABELS, LABELS[::-1].index.to_series()), "the weights have the labels"),
    (lambda: rm.RandomCutForest(shingle=2).forget_one(GOOD), "needs shingle=1, got shingle=2"),
    # Trees and partitions.
    (call(EXACT, "debug_one", GOOD, tree="x"), "tree must be in 0..9, got 'x'"),
    (call(EXACT, "to_dataframe", tree=1.5), "tree must be in 0..9, got 1.5"),
    (call(EXACT, "cut_directions", tree=None), "tree must be in 0..9, got None"),
    (call(EXACT, "tree_widths", [1]), r"tree must be in 0..9, got \[1\]"),
    (call(EXACT, "level_places", "a", ["x"]), "feature 'a' is not a learned category"),
    (call(ADAPTIVE, "draw", 99), r"tree must be in 0..\d+, got 99"),
    (call(CELLS, "nodes", "x"), "partition must be in 0..49, got 'x'"),
    (call(CELLS, "cut_directions", -1), "partition must be in 0..49, got -1"),
    (call(CELLS, "draw_partition", 50), "partition must be in 0..49, got 50"),
    # Functions and distributions.
    (path(X, TARGETS, "x"), "lifetime_max must be a finite"),
    (
        call(DENSITY, "learn_one", dict.fromkeys(range(2049), 0.5)),
        "2048 features, got 2051",
    ),
    (call(DENSITY, "learn_many", np.zeros((1, 2049))), "at most 2048 features"),
    (path(np.array([[0.0, 1.0], [1.0, math.nan]]), [0.0, 1.0], 1.0), "feature 1 of X.*nan.*row 1"),
    (path(TARGETS.to_numpy(), TARGETS, 1.0), "must have the shape"),
    (path(X, TARGETS[:9], 1.0), "20 rows.*9 targets"),
    (path(X, [*TARGETS[:-1], math.inf], 1.0), "target.*inf"),
    (path(X[:0], [], 1.0), "no rows"),
    (path(X.to_numpy(), TARGETS, 1.0, X[["a"]].to_numpy(), TARGETS), "X_val"),
    (path(X, TARGETS, 1.0, X), "needs y_val"),
    (path(X, TARGETS, 1.0, None, TARGETS), "X_val is None"),
    (path(X, TARGETS, 1.0, seed="x"), "seed must be None or an"),
    (path(X, TARGETS, 1.0, X_test=X, y_test=TARGETS, prior=3), "frozen distribution .*, got 3"),
    (exact([1], [1], 1.0), "X must have two dimensions, got 1"),
    (exact([[0.0]], [0.0], 0.0), "lifetime"),
    (exact([[0.0]], [0.0, 1.0], 1.0), "1 features"),
    (exact(np.zeros((0, 1)), [0.0], 1.0), "at least one row"),
    (exact([[math.nan]], [0.0], 1.0), "finite, got nan"),
    (exact([[0.0]], [math.inf], 1.0), "finite, got inf"),
    (exact([[0.0]], {"a": 1.0}, 1.0), "frame"),
    (exact(X[["a"]], {"b": 1.0}, 1.0), "'a'"),
    (exact(X[["a"]], X[["b"]], 1.0), "'b'"),
    (law("quantile", "x"), "probability must be between 0 and 1, got 'x'"),
    (law("interval", 90), "level must be between 0 and 1, got 90"),
    (draw("intervals", [], [], levels=[90]), "levels must be .*, got 90"),
    (draw("reliability", [{"u": 2.0}], ["u"]), "must be from 0 to 1, got 2.0$"),
]
KEY_ERRORS = [
    (call(EXACT, "forget_one", GOOD, "w"), "no stored sample equals"),
]

# Bad arguments of constructors by class, and their errors. tests/test_contract.py has the arguments
# that all classes refuse.
ARGUMENTS = {
    EXACT: [
        ({"lifetime": stats.norm()}, "lifetime must not be negative.*-inf"),
        ({"directions": [{"a": 1.0}, ["b"]]}, "direction 1"),
        ({"directions": [{"a": math.nan}]}, "direction 0 must be finite, got nan for 'a'"),
        ({"directions": [{"a": 1.0}, {"a": 0.0}]}, "direction 1"),
        ({"window": 10, "max_nodes": 9}, "window=10 needs max_nodes=None"),
    ],
    TARGET: [
        ({"posterior": "mean", "lifetime": lambda: 1.0}, r"by lifetime\(n\), .*: too many posit"),
        ({"posterior": "mean", "lifetime": lambda n, d: 1.0}, r"lifetime\(n\), .*argument: 'd'"),
        ({"lifetime": math.sqrt}, "mean"),
        ({"window": 10, "max_nodes": 9}, "window=10 needs max_nodes=None"),
    ],
    ADAPTIVE: [
        ({"window": 10}, "window must be an integer >= 1000, got 10"),
        (
            {"drift_detector": drift.ADWIN},
            "drift_detector must be None or a drift detector of River",
        ),
    ],
    ADAPTIVE_TARGET: [({"window": 999}, "window must be an integer >= 1000, got 999")],
    DENSITY: [
        ({"lifetime": lambda *, n: 1.0}, r"must be called by lifetime\(n\), got"),
        ({"lifetime": 0.0}, "lifetime"),
        ({"lifetime": math.inf}, "lifetime"),
        ({"lifetime": True}, "lifetime"),
        ({"lifetime": stats.norm()}, "lifetime"),
        ({"method": "kernel", "directions": 3}, "method"),
        ({"directions": [{"a": 1.0, "b": 1.0}, {"a": 2.0, "b": 2.0}]}, "span the space of their 2"),
        ({"directions": [{name: 1.0} for name in "abcd"]}, "4 features"),
        ({"directions": [{"a": 1e200}]}, "at most 1e"),
        ({"max_nodes": 99}, "max_nodes"),
        ({"window": 5, "origin": {"a": 1.0}}, "window"),
        ({"max_nodes": 500, "origin": {"a": 1.0}}, "max_nodes"),
        ({"lifetime": 1.0, "origin": {}}, "origin must be a mapping"),
        ({"lifetime": 1.0, "origin": [1.0]}, "origin must be a mapping"),
        ({"lifetime": 1.0, "origin": {"a": math.nan}}, "feature 'a' must be finite at the origin"),
        ({"lifetime": 1.0, "origin": {"a": math.inf}}, "feature 'a' must be finite"),
        ({"lifetime": 1.0, "origin": {"a": "x"}}, "feature 'a' must be a number"),
        ({"directions": [GOOD, {"b": 1.0}], "origin": {"a": 1.0}}, r"features \['a', 'b'\]"),
    ],
    ALARMS: [
        ({"threshold": 0.0}, "threshold must be a finite number > 0, got 0.0"),
        ({"threshold": 1.5}, "threshold must be at most 1, got 1.5"),
        ({"budget": 1}, r"budget must be None or \(alarms, samples\), got 1"),
        ({"budget": (0, 10)}, "alarms of budget must be an integer >= 1, got 0"),
        ({"grace_period": 3}, "grace_period must be None or an integer >= 100, got 3"),
        ({"direction": {"a": "higher"}}, "direction of 'a' must be 'up' or 'down', got 'higher'"),
        ({"direction": "up"}, "direction must be None or a mapping, got 'up'"),
        ({"at_least": {"a": 0.0}}, "at_least of 'a' must be a finite number > 0, got 0.0"),
        ({"period": 1}, "period must be None or an integer >= 2, got 1"),
        ({"period": ("time", 0.0)}, "seconds of period must be a finite number > 0, got 0.0"),
        ({"calendar": "hour"}, "calendar must be None or a list of features, got 'hour'"),
        ({"detector": 3}, "detector must be an anomaly detector or a list, got 3"),
        ({"detector": []}, "detector must not be an empty list"),
    ],
    "DriftMonitor": [
        ({"kinds": kinds}, "kinds must be some of")
        for kinds in ("inputs", [], ["input"], ["inputs", "inputs"], None, 3)
    ],
    OGD: [({"loss": optim.losses.Squared()}, "BinaryLoss")],
    "OGDRegressor": [
        ({"loss": optim.losses.Hinge()}, "RegressionLoss"),
        ({"learning_rate": optim.Adam()}, "SGD or AdaGrad.*Adam"),
    ],
    CELLS: [({"directions": [{"a": 0.0}]}, "direction 0")],
    "NystromFeatures": [
        ({"n_landmarks": 5, "n_components": 6}, "n_components must be at most n_landmarks = 5"),
        ({"n_landmarks": 9, "pool_size": 8}, "pool_size must be None or an integer >= 9, got 8"),
    ],
    "IsolationFeatures": [({"method": "iforest", "metric": "cosine"}, "anne")],
    "RandomFourierFeatures": [({"n_components": 7}, "n_components must be even, got 7")],
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_wrong_arguments_are_named(name):
    for arguments, message in ARGUMENTS[name]:
        raises((TypeError, ValueError), message, partial(getattr(rm, name), **arguments))


TABLE = {TypeError: TYPE_ERRORS, ValueError: VALUE_ERRORS, KeyError: KEY_ERRORS}


@pytest.mark.parametrize(
    ("error", "make", "message"), [(error, *row) for error, rows in TABLE.items() for row in rows]
)
def test_what_is_wrong_is_named(error, make, message):
    raises(error, message, make)


def test_an_index_of_other_labels_is_no_matter():
    # The index was reset after the selection of rows, so labels match rows by position.
    rows, labels = X[5:15], LABELS[5:15].reset_index(drop=True)
    model, same = rm.MondrianForestClassifier(2, seed=1), rm.MondrianForestClassifier(2, seed=1)
    model.learn_many(rows, labels)
    for x, y in zip(rows.to_dict("records"), labels, strict=True):
        same.learn_one(x, y)
    assert model.predict_proba_many(X).equals(same.predict_proba_many(X))


USES = [("pandas", "pandas", call(EXACT, "to_dataframe"))]
USES += [("plot", "matplotlib", call(EXACT, "draw"))]


@pytest.mark.parametrize(("extra", "module", "use"), USES)
def test_what_is_not_installed_is_named(extra, module, use, monkeypatch):
    found = importlib.import_module

    def missing(name, *package):
        if name.partition(".")[0] == module:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found(name, *package)

    assert trained(EXACT).n_samples == 20
    monkeypatch.setattr(checks.importlib, "import_module", missing)
    raises(ModuleNotFoundError, rf"needs {module}.*\[{extra}\]", use)


EAGER = {"duckdb": ("df", "execute"), "dask": ("compute",), "pyspark": ("collect", "toPandas")}


@pytest.mark.parametrize("library", EAGER)
def test_errors_of_lazy_frames_name_calls_that_exist(library, monkeypatch):
    made = type("Lazy", (), dict.fromkeys(EAGER[library]))()
    lazy = narwhals.from_native(pl.LazyFrame())
    monkeypatch.setattr(narwhals, "from_native", lambda *args, **more: lazy)
    name = {"duckdb": "df", "dask": "compute", "pyspark": "toPandas"}[library]
    raises(TypeError, rf"give X\.{name}\(\)", lambda: read_frame(made))
