"""Bad inputs and what is said of them: the table is for reading."""

import copy
import functools
import importlib
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from river import drift, optim, preprocessing
from scipy import stats

import river_mondrian as rm
from river_mondrian import checks, plot
from river_mondrian.distributed import KeyedModels, ShardedForest

X = pd.DataFrame({"a": np.arange(20.0), "b": np.arange(20.0)[::-1] % 7})
LABELS = pd.Series(["u", "v"] * 10)
TARGETS = pd.Series(np.arange(20.0))
GOOD = {"a": 1.0, "b": 2.0}


@functools.cache
def trained(name):
    model = getattr(rm, name)()
    if name == "DualOGDClassifier":
        for x, y in zip(X.to_dict("records"), LABELS, strict=True):
            model.learn_one(x, y)
    elif name.endswith("Classifier"):
        model.learn_many(X, LABELS)
    elif name.endswith("Regressor"):
        model.learn_many(X, TARGETS)
    else:
        model.learn_many(X)
    return model


def new(name, **arguments):
    """Make a model with arguments."""
    return lambda: getattr(rm, name)(**arguments)


def call(name, method, *arguments, **more):
    """Call a method of a model that has learned."""
    return lambda: getattr(copy.deepcopy(trained(name)), method)(*arguments, **more)


def sharded(*arguments):
    """Let a forest over several processes learn its first rows, which it does in this one."""
    return lambda: ShardedForest(rm.MondrianForestClassifier(2, seed=1)).learn_many(*arguments)


def pipeline():
    """Return a model with a step in front."""
    return preprocessing.StandardScaler() | trained(EXACT)


def forget_what_is_lacking():
    """Take out a sample that lacked a feature, whose mean has changed since."""
    model = rm.MondrianForestClassifier(1, directions=2, seed=1)
    rows = np.random.default_rng(1).random((300, 2))
    model.learn_many(rows, [0, 1] * 150)
    model.learn_one({0: 0.5}, 1)
    model.learn_many(rows + 1.0, [0, 1] * 150)
    model.forget_one({0: 0.5}, 1)


PLANE = {"a": (0.0, 1.0), "b": (0.0, 1.0)}
EXACT, ADAPTIVE = "MondrianForestClassifier", "AdaptiveMondrianForestClassifier"
TARGET, ADAPTIVE_TARGET = "MondrianForestRegressor", "AdaptiveMondrianForestRegressor"
NEIGHBORS, ALARMS = "NearestNeighborDetector", "Alarms"
CUTS, DENSITY, OGD, RIDGE = "RandomCutForest", "DensityForest", "OGDClassifier", "RidgeRegressor"
CELLS = "MondrianFeatures"

TABLE = [
    # At construction.
    (new(EXACT, n_estimators=0), ValueError, "n_estimators must be an integer >= 1, got 0"),
    (new("Calibrated", model=3), TypeError, "model must be a regressor or a classifier, got 3"),
    (new(EXACT, n_estimators="x"), ValueError, "n_estimators must be an integer >= 1, got 'x'"),
    (new(EXACT, lifetime=-1.0), ValueError, "lifetime must be a number >= 0"),
    (
        new(EXACT, prior_rate=math.inf),
        ValueError,
        "prior_rate must be None or a finite number > 0, got inf",
    ),
    (new(EXACT, missing="drop"), ValueError, 'missing must be "unknown" or "zero", got \'drop\''),
    (new(EXACT, seed=-1), ValueError, "seed must be None or an integer >= 0, got -1"),
    (new(EXACT, scale=None), ValueError, "scale must be True or False, got None"),
    (new(EXACT, window=0), ValueError, "window must be an integer >= 1, got 0"),
    (new(EXACT, ranges=[1]), ValueError, "ranges must be None or a mapping"),
    (new(EXACT, ranges={"a": (2, 1)}), ValueError, "the range of feature 'a' must be two finite"),
    (new(TARGET, posterior="x"), ValueError, "posterior must be"),
    (new(ADAPTIVE, window=10), ValueError, "window must be an integer >= 1000, got 10"),
    (
        new(ADAPTIVE, drift_detector=np.zeros(2)),
        ValueError,
        "drift_detector must be a drift detector",
    ),
    (new(ADAPTIVE_TARGET, n_estimators=None), ValueError, "n_estimators must be an integer"),
    (new(NEIGHBORS, n_neighbors=0), ValueError, "n_neighbors must be an integer >= 1, got 0"),
    (new(NEIGHBORS, max_samples=None), ValueError, "max_samples must be an integer >= 1"),
    (new(ALARMS, detector=3), TypeError, "detector must be an anomaly detector or a list, got 3"),
    (new(ALARMS, threshold=0.0), ValueError, "threshold must be a finite number > 0, got 0.0"),
    (new(ALARMS, budget=1), ValueError, r"budget must be None or \(alarms, samples\), got 1"),
    (new(CUTS, shingle=1.5), ValueError, "shingle must be an integer >= 1, got 1.5"),
    (new(DENSITY, method=[1]), ValueError, "method must be one of"),
    (new(DENSITY, lifetime="x"), ValueError, "lifetime must be a number >= 0 or a distribution"),
    (new(OGD, features=3), TypeError, "features must be a feature map of this package or None"),
    (new(OGD, loss="x"), ValueError, "loss must be one of"),
    (new(OGD, learning_rate="x"), ValueError, "learning_rate must be a finite number > 0"),
    (new(RIDGE, features="x"), TypeError, "features must be a feature map of this package"),
    (new("OGDRegressor", features=1), TypeError, "features must be a feature map of this package"),
    (new("DualOGDClassifier", kernel=3), ValueError, 'kernel must be "laplace" or "gaussian"'),
    (new("NystromFeatures", n_landmarks="x"), ValueError, "n_landmarks must be an integer >= 2"),
    (new("IsolationFeatures", method="x"), ValueError, "method must be"),
    (new("RandomBinningFeatures", n_partitions=0), ValueError, "must be an integer >= 1, got 0"),
    (new("RandomFourierFeatures", kernel="x"), ValueError, 'kernel must be "laplace"'),
    (
        new(TARGET, posterior="mean", lifetime=lambda: 1.0),
        TypeError,
        r"lifetime must be a function that is called by lifetime\(n\), got .*: too many positional",
    ),
    (
        new(TARGET, posterior="mean", lifetime=lambda n, d: 1.0),
        TypeError,
        r"called by lifetime\(n\), .*: missing a required argument: 'd'",
    ),
    (new(DENSITY, lifetime=lambda *, n: 1.0), TypeError, r"that is called by lifetime\(n\), got"),
    (
        lambda: KeyedModels(lambda: "a", rm.MondrianForestClassifier()),
        TypeError,
        r"key must be a function that is called by key\(x\), got .*: too many positional",
    ),
    # One sample: tests/test_contract.py and tests/test_configurations.py have more of all classes.
    (call(EXACT, "debug_one", None), TypeError, "a sample must be a mapping"),
    (call(EXACT, "explain_one", 3), TypeError, "a sample must be a mapping"),
    (call(EXACT, "forget_one", GOOD, "w"), KeyError, "no sample that is stored equals"),
    (forget_what_is_lacking, KeyError, "what a sample lacks is stored as the mean of when it was"),
    # Frames.
    (call(EXACT, "learn_many", None, LABELS), TypeError, "X must be a pandas, .* got NoneType"),
    (call(EXACT, "learn_many", [GOOD], ["u"]), TypeError, r"give pandas.DataFrame\(X\)"),
    (call(EXACT, "learn_many", X["a"], LABELS), TypeError, r"one column: give X.to_frame\(\)"),
    (
        call(EXACT, "learn_many", pl.from_pandas(X).lazy(), LABELS),
        TypeError,
        r"X is a lazy frame, .* give X.collect\(\)",
    ),
    (call(EXACT, "predict_many", "abc"), TypeError, "X must be a pandas, .* got str"),
    (call(EXACT, "learn_many", np.zeros(3), LABELS), ValueError, "must have the shape"),
    (
        call(EXACT, "learn_many", pd.DataFrame({"a": pd.date_range("2020", periods=20)}), LABELS),
        TypeError,
        "feature 'a' must be a number",
    ),
    (call(CUTS, "score_many", {"a": [1.0]}), TypeError, "X must be a pandas, .* got dict"),
    (call(DENSITY, "learn_many", 3), TypeError, "X must be a pandas"),
    (call(CELLS, "transform_many", None), TypeError, "X must be a pandas"),
    (call(CELLS, "gram", X, 3), TypeError, "must be a pandas"),
    # Labels, targets and weights of frames.
    (
        call(EXACT, "learn_many", X, LABELS.to_frame("y")),
        TypeError,
        r"labels must be a series.* with the columns \['y'\]: give one of these",
    ),
    (
        call(EXACT, "learn_many", X, pa.table({"y": list(LABELS)})),
        TypeError,
        r"got a Table with the columns \['y'\]",
    ),
    (
        call(EXACT, "learn_many", X, pl.LazyFrame({"y": list(LABELS)})),
        TypeError,
        r"got a LazyFrame: give one column of y.collect\(\)",
    ),
    (call(EXACT, "learn_many", X, None), TypeError, "labels must be a series.* got None"),
    (call(EXACT, "learn_many", X, "u" * 20), TypeError, "labels must be a series.* got 'uuuu"),
    (call(EXACT, "learn_many", X, set(range(20))), TypeError, "labels must be a series"),
    (call(EXACT, "learn_many", X, dict.fromkeys(range(20))), TypeError, "labels must be a series"),
    (
        call(EXACT, "learn_many", X, LABELS.to_numpy().reshape(-1, 1)),
        TypeError,
        r"labels must be .* one dimension, got one of the shape \(20, 1\)",
    ),
    (
        call(EXACT, "learn_many", X, LABELS[::-1]),
        ValueError,
        r"labels of the index of X in another order.*\.loc\[X.index\] if .*\.to_numpy\(\) if",
    ),
    (call(EXACT, "learn_many", X, [None] * 20), ValueError, "label .* in row 0"),
    (call(EXACT, "learn_many", X, LABELS, w=np.zeros((20, 2))), TypeError, "weights must be"),
    (call(EXACT, "forget_many", X, LABELS[::-1]), ValueError, "in another order"),
    (call(ADAPTIVE, "learn_many", X, LABELS[::-1]), ValueError, "in another order"),
    (call(TARGET, "learn_many", X, X), TypeError, "targets must be a series"),
    (call(TARGET, "learn_many", X, TARGETS[::-1]), ValueError, "in another order"),
    (call(ADAPTIVE_TARGET, "learn_many", X, lambda: 0), TypeError, "targets must be a series"),
    (call(OGD, "learn_many", X, LABELS.to_frame("y")), TypeError, "labels must be a series"),
    (call(OGD, "learn_many", X, LABELS[::-1]), ValueError, "in another order"),
    (call(RIDGE, "learn_many", X, ["a"] * 20), TypeError, "target must be a number.* in row 0"),
    (call(RIDGE, "learn_many", X, TARGETS[::-1]), ValueError, "in another order"),
    (sharded(X, LABELS[::-1]), ValueError, "labels of the index of X in another order"),
    (sharded(X, LABELS, LABELS[::-1].index.to_series()), ValueError, "the weights have the labels"),
    # Trees and partitions.
    (call(EXACT, "debug_one", GOOD, tree="x"), ValueError, "tree must be in 0..9, got 'x'"),
    (call(EXACT, "to_dataframe", tree=1.5), ValueError, "tree must be in 0..9, got 1.5"),
    (call(EXACT, "cut_directions", tree=None), ValueError, "tree must be in 0..9, got None"),
    (call(EXACT, "tree_widths", [1]), ValueError, r"tree must be in 0..9, got \[1\]"),
    (call(EXACT, "level_places", "a", ["x"]), ValueError, "feature 'a' is no category"),
    (call(ADAPTIVE, "draw", 99), ValueError, r"tree must be in 0..\d+, got 99"),
    (call(CELLS, "nodes", "x"), ValueError, "partition must be in 0..49, got 'x'"),
    (call(CELLS, "cut_directions", -1), ValueError, "partition must be in 0..49, got -1"),
    (call(CELLS, "draw_partition", 50), ValueError, "partition must be in 0..49, got 50"),
    # Functions, files and laws.
    (lambda: rm.lifetime_path(None, TARGETS, 1.0), TypeError, "X must be a pandas"),
    (lambda: rm.lifetime_path(X, None, 1.0), TypeError, "targets must be a series.* got None"),
    (lambda: rm.lifetime_path(X, TARGETS, "x"), ValueError, "lifetime_max must be a finite"),
    (lambda: rm.lifetime_path(X, TARGETS, 1.0, X_val=X), ValueError, "X_val needs y_val"),
    (lambda: rm.lifetime_path(X, TARGETS, 1.0, learners=3), ValueError, "learners must be some of"),
    (lambda: rm.lifetime_path(X, TARGETS, 1.0, seed="x"), ValueError, "seed must be None or an"),
    (
        lambda: rm.lifetime_path(X, TARGETS, 1.0, X_test=X, y_test=TARGETS, prior=3),
        ValueError,
        "prior must be a frozen distribution of scipy.stats, got 3",
    ),
    (lambda: rm.exact_density([1], [1], 1.0), ValueError, "X must have two dimensions, got 1"),
    (lambda: rm.save(3, "model"), TypeError, "save takes an estimator or a feature map"),
    (lambda: rm.save(trained(EXACT), "model", extra=3), TypeError, "extra must be a dict or None"),
    (lambda: rm.save(pipeline(), "model"), TypeError, r"each step by itself\), got a Pipeline$"),
    (lambda: rm.save(trained(EXACT), 3), TypeError, r"path must be a str or .* got 3 \(int\)"),
    (lambda: rm.save(trained(EXACT), None), TypeError, "path must be a str or a pathlib.Path"),
    (lambda: rm.load(0), TypeError, r"path must be a str or .* got 0 \(int\)"),
    (lambda: rm.load(["model"]), TypeError, r"path must be a str or .* got \['model'\] \(list\)"),
    # Pictures: models are told by their class.
    (lambda: plot.importances(trained(DENSITY)), TypeError, "to number, got a DensityForest$"),
    (lambda: plot.importances(3), TypeError, r"to number, got 3 \(int\)"),
    (lambda: plot.density_map(trained(EXACT), PLANE), TypeError, f"density_one, got a {EXACT}$"),
    (lambda: plot.score_map(trained(EXACT), PLANE), TypeError, f"have score_one, got a {EXACT}$"),
    (lambda: plot.lifetimes(trained(EXACT)), TypeError, f"path returns, got a {EXACT}$"),
    (lambda: plot.scores(trained(EXACT)), TypeError, f"a RandomCutForest, got a {EXACT}$"),
    (lambda: plot.weights(trained(ADAPTIVE)), TypeError, "history must be a list or another"),
    (lambda: plot.progressive({"a": 3}), TypeError, "the curve of 'a' must be a list or another"),
    (
        lambda: plot.progressive({"a": [(1, 0.5)]}, drifts=trained(EXACT)),
        TypeError,
        f"drifts must be .* got a {EXACT}$",
    ),
    (lambda: plot.intervals([], [], levels=0.9), TypeError, r"levels must be a list .* got 0.9 \("),
    (lambda: plot.intervals([], [], levels=[90]), ValueError, "levels must be .*, got 90"),
    (lambda: plot.intervals(["a"], [None]), TypeError, r"targets must be numbers, got 'a' \(str\)"),
    (lambda: plot.intervals([1.0], None), TypeError, "distributions must be a list .* got N"),
    (lambda: plot.intervals([1.0], [None], times=1), TypeError, "times must be a list"),
    (lambda: plot.reliability({"u": 1.0}, ["u"]), TypeError, "predictions must be a list"),
    (lambda: plot.reliability([{"u": 1.0}], None), TypeError, "labels must be a list .* got None"),
    (
        lambda: plot.reliability([{"u": "x"}], ["u"]),
        TypeError,
        "probability of 'u' must be a number",
    ),
    (lambda: plot.reliability([{"u": 2.0}], ["u"]), ValueError, "must be from 0 to 1, got 2.0$"),
    (lambda: plot.reliability(X, LABELS), TypeError, r"a DataFrame: give its rows, by to_dict\("),
    (
        lambda: rm.PredictiveDistribution(*np.ones((3, 1))).quantile("x"),
        ValueError,
        "probability must be between 0 and 1, got 'x'",
    ),
    (
        lambda: rm.PredictiveDistribution(*np.ones((3, 1))).interval(90),
        ValueError,
        "level must be between 0 and 1, got 90",
    ),
]

# Arguments of constructors, by class: what each has, and what is said of it.
ARGUMENTS = {
    EXACT: [
        ({"n_estimators": 2.5}, "n_estimators.*2.5"),
        ({"n_estimators": True}, "n_estimators.*True"),
        ({"lifetime": math.nan}, "lifetime.*nan"),
        ({"lifetime": "long"}, "lifetime must be.*'long'"),
        ({"lifetime": stats.norm()}, "lifetime must not be negative.*-inf"),
        ({"prior_rate": 0.0}, "prior_rate.*0"),
        ({"max_nodes": 0}, "max_nodes.*0"),
        ({"n_jobs": 0}, "n_jobs must be -1 or an integer >= 1, got 0"),
        ({"n_jobs": -2}, "n_jobs.*-2"),
        ({"n_jobs": -1.0}, "n_jobs.*-1.0"),
        ({"n_jobs": True}, "n_jobs.*True"),
        ({"directions": 0}, "at least 1"),
        ({"directions": True}, "directions must be"),
        ({"directions": 2.0}, "directions must be"),
        ({"directions": "ab"}, "directions must be"),
        ({"directions": []}, "empty"),
        ({"directions": [{"a": 1.0}, ["b"]]}, "direction 1"),
        ({"directions": [{"a": math.nan}]}, "direction 0 must have finite .* got nan for 'a'"),
        ({"directions": [{"a": 1.0}, {"a": 0.0}]}, "direction 1"),
        ({"ranges": {"a": (0.0, math.inf)}}, "feature 'a' must be two finite numbers"),
        ({"ranges": {"b": 3.0}}, "feature 'b' must be two finite numbers"),
        ({"ranges": {"b": (0.0, "1")}}, "feature 'b' must be two finite numbers"),
        ({"ranges": {"a": (0.0, 1.0)}, "scale": False}, "but scale is False"),
        ({"window": 2**63}, "window must be"),
        ({"window": 10, "max_nodes": 9}, "window=10 needs max_nodes=None"),
    ],
    TARGET: [
        ({"lifetime": math.sqrt}, "mean"),
        ({"tails": "heavy"}, "tails.*'heavy'"),
        ({"min_samples_split": 1}, "min_samples_split"),
        ({"prior_variance": 0.0}, "prior_variance"),
        ({"prior_rate": math.inf}, "prior_rate"),
        ({"noise_variance": -1.0}, "noise_variance"),
        ({"directions": 0}, "at least 1"),
        ({"ranges": {"a": (0.0, 1.0)}, "scale": False}, "but scale is False"),
        ({"window": 10, "max_nodes": 9}, "window=10 needs max_nodes=None"),
    ],
    ADAPTIVE: [
        ({"n_estimators": 0}, "n_estimators"),
        ({"n_candidates": 0}, "n_candidates"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"drift_detector": "page"}, "drift_detector"),
        ({"drift_detector": drift.ADWIN}, "drift_detector"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"ranges": {"a": (0.0, 1.0)}, "scale": False}, "but scale is False"),
    ],
    ADAPTIVE_TARGET: [
        ({"n_candidates": 0}, "n_candidates"),
        ({"loss": "hinge"}, 'loss must be "absolute" or "squared", got \'hinge\''),
        ({"autoregressive": 1.5}, "autoregressive must be True or False"),
        ({"window": 999}, "window"),
        ({"missing": "mean"}, "missing"),
    ],
    DENSITY: [
        ({"n_estimators": 0}, "n_estimators"),
        ({"lifetime": 0.0}, "lifetime"),
        ({"lifetime": math.inf}, "lifetime"),
        ({"lifetime": True}, "lifetime"),
        ({"lifetime": stats.norm()}, "lifetime"),
        ({"directions": 0}, "directions"),
        ({"method": "mean"}, "method"),
        ({"method": "kernel", "directions": 3}, "method"),
        ({"window": 2.5}, "window"),
        ({"max_nodes": 99}, "max_nodes"),
        ({"window": 5, "origin": {"a": 1.0}}, "window"),
        ({"max_nodes": 500, "origin": {"a": 1.0}}, "max_nodes"),
    ],
    CUTS: [
        ({"n_estimators": 0}, "n_estimators must be"),
        ({"window": 1 << 40}, "window must be at most"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"ranges": {"a": (2.0, 1.0)}}, "'a'"),
    ],
    ALARMS: [
        ({"threshold": 1.5}, "threshold must be at most 1, got 1.5"),
        ({"budget": (0, 10)}, "alarms of budget must be an integer >= 1, got 0"),
        ({"grace_period": 3}, "grace_period must be an integer >= 100, got 3"),
        ({"calendar": "hour"}, "calendar must be None or a list of features, got 'hour'"),
        ({"detector": []}, "detector must not be an empty list"),
    ],
    OGD: [
        ({"loss": optim.losses.Squared()}, "BinaryLoss"),
        ({"learning_rate": math.inf}, "learning_rate.*inf"),
        ({"multiclass": "ovo"}, "multiclass.*'ovo'"),
    ],
    "OGDRegressor": [
        ({"loss": optim.losses.Hinge()}, "RegressionLoss"),
        ({"learning_rate": optim.Adam()}, "SGD or AdaGrad.*Adam"),
    ],
    RIDGE: [
        ({"l2": 0.0}, "l2.*0.0"),
        ({"noise_variance": -1.0}, "noise_variance.*-1.0"),
        ({"fit_intercept": "yes"}, "fit_intercept.*'yes'"),
        ({"max_columns": 0}, "max_columns.*0"),
    ],
    "DualOGDClassifier": [
        ({"lifetime": 0.0}, "lifetime must be a finite number > 0, got 0.0"),
        ({"gamma": math.inf}, "gamma must be a finite number > 0, got inf"),
        ({"learning_rate": True}, "learning_rate must be a finite number > 0, got True"),
    ],
    CELLS: [
        ({"n_partitions": 2.0}, "n_partitions must be an integer >= 1"),
        ({"lifetime": 0.0}, "lifetime must be a finite number > 0, got 0.0"),
        ({"lifetime": "long"}, "lifetime must be a finite number > 0"),
        ({"directions": [{"a": 0.0}]}, "direction 0"),
    ],
    "NystromFeatures": [
        ({"n_landmarks": 5, "n_components": 6}, "n_components must be at most n_landmarks = 5"),
        ({"n_components": 0}, "n_components must be an integer >= 1, got 0"),
        ({"n_landmarks": 9, "pool_size": 8}, "pool_size must be at least n_landmarks = 9, got 8"),
        ({"pool_size": 9.0}, "pool_size must be an integer >= 2, got 9.0"),
        ({"lifetime": -1.0}, "lifetime must be a finite number > 0, got -1.0"),
    ],
    "IsolationFeatures": [
        ({"n_partitions": 0}, "n_partitions.*0"),
        ({"n_cells": 2.5}, "n_cells.*2.5"),
        ({"pool_size": True}, "pool_size.*True"),
        ({"device": "tpu"}, "device.*'tpu'"),
    ],
    "RandomBinningFeatures": [
        ({"lifetime": math.inf}, "lifetime must be a finite number > 0"),
        ({"n_partitions": 1.5}, "n_partitions must be an integer >= 1"),
    ],
    "RandomFourierFeatures": [
        ({"n_components": 7}, "n_components must be even, got 7"),
        ({"gamma": 0.0}, "gamma must be a finite number > 0, got 0.0"),
    ],
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_wrong_arguments_are_named(name):
    for arguments, message in ARGUMENTS[name]:
        with pytest.raises((TypeError, ValueError), match=message):
            getattr(rm, name)(**arguments)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[2])
def test_what_is_wrong_is_named(row):
    make, error, message = row
    with pytest.raises(error, match=message):
        make()


def test_an_index_of_other_labels_is_no_matter():
    # Labels that were made anew after rows have been chosen belong to these by their places.
    rows, labels = X[5:15], LABELS[5:15].reset_index(drop=True)
    model, same = rm.MondrianForestClassifier(2, seed=1), rm.MondrianForestClassifier(2, seed=1)
    model.learn_many(rows, labels)
    for x, y in zip(rows.to_dict("records"), labels, strict=True):
        same.learn_one(x, y)
    assert model.predict_proba_many(X).equals(same.predict_proba_many(X))


@pytest.mark.parametrize(
    ("extra", "module", "use"),
    [
        ("pandas", "pandas", lambda: trained(EXACT).to_dataframe()),
        ("plot", "matplotlib", lambda: trained(EXACT).draw()),
    ],
)
def test_what_is_not_installed_is_named(extra, module, use, monkeypatch):
    found = importlib.import_module

    def missing(name, *package):
        if name.partition(".")[0] == module:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return found(name, *package)

    use_first = trained(EXACT)
    assert use_first.n_samples == 20
    monkeypatch.setattr(checks.importlib, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match=rf"needs {module}.*\[{extra}\]"):
        use()


def test_the_table_has_all_classes():
    names = {name for name in rm.__all__ if isinstance(getattr(rm, name), type)}
    models = {EXACT, ADAPTIVE, TARGET, ADAPTIVE_TARGET, CUTS, DENSITY, OGD, RIDGE, CELLS}
    models |= {"OGDRegressor", "DualOGDClassifier", "NystromFeatures", "IsolationFeatures"}
    models |= {"RandomBinningFeatures", "RandomFourierFeatures", NEIGHBORS, ALARMS}
    assert names - models == {"Alarm", "Calibrated", "ModelFormatError", "PredictiveDistribution"}
    assert len(TABLE) > 80
