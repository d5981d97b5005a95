"""Tests of NumPy arrays in all `*_many`: they equal frames with the columns 0, 1, ..."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from common import raises
from river import base

import river_mondrian as rm
from tests.test_contract import MODELS, SUPERVISED

MANY = [name for name, make in MODELS.items() if hasattr(make(), "learn_many")]
READING = ["predict", "predict_proba", "transform", "score", "density", "log_density", "surprise"]
READING = [f"{name}_many" for name in READING]


def rows(n, first=0):
    return np.random.default_rng(first).normal(size=(n, 3))


def learn(model, X, labels):
    if isinstance(model, SUPERVISED):
        is_class = isinstance(model, base.Classifier)
        model.learn_many(X, labels if is_class else rows(len(labels), 5)[:, 0])
    else:
        model.learn_many(X)


@pytest.fixture(params=MANY)
def pair(request):
    """Return a model that has learned an array, and a model that has learned a frame."""
    X, labels = rows(60), np.where(rows(60)[:, 0] > 0.0, "a", "b")
    of_array, of_frame = MODELS[request.param](), MODELS[request.param]()
    learn(of_array, X, labels)
    learn(of_frame, pd.DataFrame(X), pd.Series(labels))
    return of_array, of_frame


def test_every_class_that_takes_frames_is_here():
    assert set(MODELS) - set(MANY) == {"dual"}


def test_an_array_is_learned_as_a_frame(pair):
    of_array, of_frame = pair
    assert pickle.dumps(of_array) == pickle.dumps(of_frame)


def test_an_array_gives_an_array(pair):
    of_array, of_frame = pair
    X, n_read = rows(7, 1), 0
    for name in READING:
        if not hasattr(of_array, name) or getattr(of_array, "loss", None) == "hinge":
            continue
        found = getattr(of_array, name)(X)
        wanted = getattr(of_frame, name)(pd.DataFrame(X))
        if not isinstance(found, np.ndarray):
            # A feature map returns all columns for an array. For a frame, the map returns only the
            # columns with values other than 0.
            assert found.shape[1] >= wanted.shape[1]
            found = found[:, np.unique(found.indices)].toarray()
        assert isinstance(found, np.ndarray)
        assert found.dtype == np.float64 or found.dtype.kind == "U"
        assert found.tolist() == wanted.to_numpy().tolist()
        n_read += 1
    # `Alarms` scores one sample at a time, and `DriftMonitor` has no predictions.
    assert n_read > 0 or isinstance(of_array, (rm.Alarms, rm.DriftMonitor))


@pytest.mark.parametrize("name", MANY)
def test_before_any_learning(name):
    model, X = MODELS[name](), rows(4)
    for reading in set(READING) & set(dir(model)):
        found = getattr(model, reading)(X)
        assert isinstance(found, np.ndarray)
        assert len(found) == 4


# NumPy would convert labels of mixed types, so their type is object.
LABELS = [("U", ["a", "b"]), ("i", [3, 4]), ("b", [False, True]), ("O", [(1, 2), (3, 4)])]
LABELS += [("O", pair) for pair in ([1, "a"], [True, 2], [2**63, -1], ["a\0", "b"], [2**64, 1])]


@pytest.mark.parametrize(("kind", "given"), LABELS)
def test_labels_come_back_as_they_are(kind, given):
    model = rm.MondrianForestClassifier(3, seed=1)
    X = np.array([[0.0], [1.0]] * 10)
    model.learn_many(X, given * 10)
    found = model.predict_many(X[:2])
    assert found.dtype.kind == kind
    assert [(type(label), label) for label in found.tolist()] == [(type(k), k) for k in given]


MIXED = pd.DataFrame({0: ["u", "v", None], 1: [1.5, None, 2.0]}, dtype=object)


@pytest.mark.parametrize(
    ("given", "like"),
    [
        (MIXED.to_numpy(), MIXED),
        (np.array([["u"], ["v"]]), pd.DataFrame([["u"], ["v"]])),
        (np.array([[True], [False]]), pd.DataFrame([[True], [False]])),
        (np.array([[1], [2]], dtype=np.uint8), pd.DataFrame([[1.0], [2.0]])),
        (np.ma.masked_equal([[7, 1], [2, 7]], 7), pd.DataFrame([[np.nan, 1.0], [2.0, np.nan]])),
        (np.asfortranarray(rows(18))[::2], pd.DataFrame(rows(18)[::2])),
        (np.empty((0, 2)), pd.DataFrame(np.empty((0, 2)))),
        (pd.DataFrame({0: pd.array([1, None])}), pd.DataFrame({0: [1.0, np.nan]})),
        (pl.DataFrame({"0": [1.5, None, np.nan]}), pd.DataFrame({"0": [1.5, np.nan, np.nan]})),
        (pa.table({"0": [1, None, 3]}), pd.DataFrame({"0": [1.0, np.nan, 3.0]})),
    ],
)
def test_kinds_of_arrays(given, like):
    models = [rm.MondrianForestClassifier(3, seed=1) for _ in range(2)]
    for model, X in zip(models, (given, like), strict=True):
        model.learn_many(X, list("abcdefghi")[: len(X)])
    assert pickle.dumps(models[0]) == pickle.dumps(models[1])


@pytest.mark.covering
@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (rows(3)[0], ValueError, r"an array must have the shape \(samples, features\), got \(3,\)"),
        (rows(3)[None], ValueError, r"\(samples, features\), got \(1, 3, 3\)"),
        (rows(3) * 1j, TypeError, r"feature 0 must be a number, got .*\(complex\)"),
        (rows(3) * np.inf, ValueError, "feature 0 must be finite in single precision, got -?inf"),
        (np.full((2, 2), 1e300), ValueError, "feature 0 must be finite .*, got 1e.300 in row 0"),
        (np.array([[{}]]), TypeError, r"feature 0 must be a number, got \{\} \(dict\)"),
    ],
)
def test_bad_arrays(pair, X, error, message):
    before = pickle.dumps(pair[0])
    raises(error, message, lambda: learn(pair[0], X, ["a"] * len(X)))
    assert pickle.dumps(pair[0]) == before
