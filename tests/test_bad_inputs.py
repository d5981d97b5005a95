"""Bad inputs and their errors: the table is for reading."""

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
    """Let a forest over several processes learn its first rows, which it learns in this one."""
    return lambda: ShardedForest(rm.MondrianForestClassifier(2, seed=1)).learn_many(*arguments)


def pipeline():
    """Return a model with a step in front."""
    return preprocessing.StandardScaler() | trained(EXACT)


def forget_what_is_lacking():
    """Remove a sample that lacked a feature whose mean has changed since."""
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
    # At construction; more in ARGUMENTS, and in tests/test_contract.py what all classes share.
    (new("Calibrated", model=3), TypeError, "model must be a regressor or a classifier, got 3"),
    (
        new(TARGET, posterior="mean", lifetime=lambda: 1.0),
        TypeError,
        r"lifetime must be called by lifetime\(n\), got .*: too many positional",
    ),
    (
        new(TARGET, posterior="mean", lifetime=lambda n, d: 1.0),
        TypeError,
        r"called by lifetime\(n\), .*: missing a required argument: 'd'",
    ),
    (new(DENSITY, lifetime=lambda *, n: 1.0), TypeError, r"must be called by lifetime\(n\), got"),
    (
        lambda: KeyedModels(lambda: "a", rm.MondrianForestClassifier()),
        TypeError,
        r"key must be called by key\(x\), got .*: too many positional",
    ),
    # One sample: tests/test_contract.py and tests/test_configurations.py have more of all classes.
    (call(EXACT, "debug_one", None), TypeError, "a sample must be a mapping"),
    (call(EXACT, "explain_one", 3), TypeError, "a sample must be a mapping"),
    (call(EXACT, "forget_one", GOOD, "w"), KeyError, "no sample that is stored equals"),
    (forget_what_is_lacking, KeyError, "what a sample lacks is stored as the mean of that time"),
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
    (call(TARGET, "learn_many", X, TARGETS[::-1]), ValueError, "in another order"),
    (call(ADAPTIVE_TARGET, "learn_many", X, lambda: 0), TypeError, "targets must be a series"),
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
    # Functions, files and distributions.
    (lambda: rm.lifetime_path(None, TARGETS, 1.0), TypeError, "X must be a pandas"),
    (lambda: rm.lifetime_path(X, None, 1.0), TypeError, "targets must be a series.* got None"),
    (lambda: rm.lifetime_path(X, TARGETS, "x"), ValueError, "lifetime_max must be a finite"),
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
    # Pictures: errors name a model by its class.
    (lambda: plot.importances(trained(DENSITY)), TypeError, "or a mapping, got a DensityForest$"),
    (lambda: plot.importances(3), TypeError, r"or a mapping, got 3 \(int\)"),
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
    (lambda: plot.reliability(X, LABELS), TypeError, r"give the rows of the DataFrame as dicts"),
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

# Bad arguments of constructors by class, and their errors.
ARGUMENTS = {
    EXACT: [
        ({"lifetime": -1.0}, "lifetime must be a number >= 0"),
        ({"lifetime": math.nan}, "lifetime.*nan"),
        ({"lifetime": "long"}, "lifetime must be.*'long'"),
        ({"lifetime": stats.norm()}, "lifetime must not be negative.*-inf"),
        ({"prior_rate": 0.0}, "prior_rate.*0"),
        ({"prior_rate": math.inf}, "prior_rate must be None or a finite number > 0, got inf"),
        ({"max_nodes": 0}, "max_nodes.*0"),
        ({"directions": [{"a": 1.0}, ["b"]]}, "direction 1"),
        ({"directions": [{"a": math.nan}]}, "direction 0 must be finite, got nan for 'a'"),
        ({"directions": [{"a": 1.0}, {"a": 0.0}]}, "direction 1"),
        ({"window": 0}, "window must be None or an integer >= 1, got 0"),
        ({"window": 2**63}, "window must be"),
        ({"window": 10, "max_nodes": 9}, "window=10 needs max_nodes=None"),
    ],
    TARGET: [
        ({"lifetime": math.sqrt}, "mean"),
        ({"posterior": "x"}, "posterior must be"),
        ({"tails": "heavy"}, "tails.*'heavy'"),
        ({"prior_variance": 0.0}, "prior_variance"),
        ({"prior_rate": math.inf}, "prior_rate"),
        ({"noise_variance": -1.0}, "noise_variance"),
        ({"window": 10, "max_nodes": 9}, "window=10 needs max_nodes=None"),
    ],
    ADAPTIVE: [
        ({"window": 10}, "window must be an integer >= 1000, got 10"),
        ({"drift_detector": "page"}, "drift_detector must be None or one of River's"),
        ({"drift_detector": drift.ADWIN}, "drift_detector must be None or one of River's"),
    ],
    ADAPTIVE_TARGET: [
        ({"loss": "hinge"}, 'loss must be "absolute" or "squared", got \'hinge\''),
        ({"window": 999}, "window"),
    ],
    DENSITY: [
        ({"lifetime": "x"}, "lifetime must be a number >= 0 or a distribution"),
        ({"lifetime": 0.0}, "lifetime"),
        ({"lifetime": math.inf}, "lifetime"),
        ({"lifetime": True}, "lifetime"),
        ({"lifetime": stats.norm()}, "lifetime"),
        ({"method": [1]}, "method must be one of"),
        ({"method": "kernel", "directions": 3}, "method"),
        ({"directions": [{"a": 1.0, "b": 1.0}, {"a": 2.0, "b": 2.0}]}, "span the space of their 2"),
        ({"directions": [{name: 1.0} for name in "abcd"]}, "4 features"),
        ({"directions": [{"a": 1e200}]}, "at most 1e"),
        ({"window": 2.5}, "window"),
        ({"max_nodes": 99}, "max_nodes"),
        ({"window": 5, "origin": {"a": 1.0}}, "window"),
        ({"max_nodes": 500, "origin": {"a": 1.0}}, "max_nodes"),
    ],
    CUTS: [({"window": 1 << 40}, "window must be at most")],
    ALARMS: [
        ({"threshold": 0.0}, "threshold must be a finite number > 0, got 0.0"),
        ({"threshold": 1.5}, "threshold must be at most 1, got 1.5"),
        ({"budget": 1}, r"budget must be None or \(alarms, samples\), got 1"),
        ({"budget": (0, 10)}, "alarms of budget must be an integer >= 1, got 0"),
        ({"grace_period": 3}, "grace_period must be an integer >= 100, got 3"),
        ({"calendar": "hour"}, "calendar must be None or a list of features, got 'hour'"),
        ({"detector": 3}, "detector must be an anomaly detector or a list, got 3"),
        ({"detector": []}, "detector must not be an empty list"),
    ],
    OGD: [
        ({"features": 3}, "features must be a feature map of this package"),
        ({"loss": "x"}, "loss must be one of"),
        ({"loss": optim.losses.Squared()}, "BinaryLoss"),
        ({"learning_rate": "x"}, "learning_rate must be a finite number > 0"),
        ({"learning_rate": math.inf}, "learning_rate.*inf"),
        ({"multiclass": "ovo"}, "multiclass.*'ovo'"),
    ],
    "OGDRegressor": [
        ({"loss": optim.losses.Hinge()}, "RegressionLoss"),
        ({"learning_rate": optim.Adam()}, "SGD or AdaGrad.*Adam"),
        ({"window": 10}, "window"),
    ],
    RIDGE: [
        ({"features": "x"}, "features must be a feature map of this package"),
        ({"noise_variance": -1.0}, "noise_variance.*-1.0"),
        ({"window": 0}, "window"),
        ({"window": 1 << 40}, "window"),
    ],
    "DualOGDClassifier": [
        ({"kernel": 3}, 'kernel must be "laplace" or "gaussian"'),
        ({"lifetime": 0.0}, "lifetime must be a finite number > 0, got 0.0"),
        ({"gamma": math.inf}, "gamma must be a finite number > 0, got inf"),
        ({"learning_rate": True}, "learning_rate must be a finite number > 0, got True"),
    ],
    CELLS: [
        ({"lifetime": 0.0}, "lifetime must be a finite number > 0, got 0.0"),
        ({"lifetime": "long"}, "lifetime must be a finite number > 0"),
        ({"directions": [{"a": 0.0}]}, "direction 0"),
    ],
    "NystromFeatures": [
        ({"n_landmarks": "x"}, "n_landmarks must be an integer >= 2"),
        ({"n_landmarks": 5, "n_components": 6}, "n_components must be at most n_landmarks = 5"),
        ({"n_components": 0}, "n_components must be None or an integer >= 1, got 0"),
        ({"n_landmarks": 9, "pool_size": 8}, "pool_size must be None or an integer >= 9, got 8"),
        ({"pool_size": 9.0}, "pool_size must be None or an integer >= 100, got 9.0"),
        ({"lifetime": -1.0}, "lifetime must be a finite number > 0, got -1.0"),
    ],
    "IsolationFeatures": [
        ({"method": "x"}, "method must be"),
        ({"metric": "angle"}, "metric"),
        ({"method": "iforest", "metric": "cosine"}, "anne"),
        ({"pool_size": True}, "pool_size.*True"),
        ({"device": "tpu"}, "device.*'tpu'"),
    ],
    "RandomBinningFeatures": [({"lifetime": math.inf}, "lifetime must be a finite number > 0")],
    "RandomFourierFeatures": [
        ({"kernel": "x"}, 'kernel must be "laplace"'),
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
    # Labels whose index was reset after rows were chosen match the rows by position.
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
    others = {"Alarm", "Calibrated", "ModelFormatError", "PredictiveDistribution"}
    assert names - set(ARGUMENTS) == {*others, "NearestNeighborDetector"}
