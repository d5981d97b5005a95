"""Tests of guarantees of all classes, in configurations that run different code.

Features, classes and weights other than 1 come late, and values are missing.
"""

import copy
import itertools
import math
import pickle
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from common import Adaptive, AdaptiveTargets, Exact, Targets, fed, has_probabilities, raises
from river import base, optim
from scipy import stats
from test_contract import MODELS, SUPERVISED
from test_isolation import arrays_of

import river_mondrian as rm
from river_mondrian.partitions.mondrian import trees
from river_mondrian.posteriors.targets import components

pytestmark = pytest.mark.covering

CELLS = rm.IsolationFeatures(4, 4, pool_size=100, seed=1)
TREES = rm.IsolationFeatures(4, 4, "iforest", 100, seed=1)
FOURIER = rm.RandomFourierFeatures(6, seed=1)
ZEROS = {"a": "zero", ("b", 1): "zero"}
CORNER = dict.fromkeys("abcd", 0.1)
TRIANGLE = [{"a": 1.0}, {"b": 1.0}, {"a": 0.7, "b": -0.7}]
FOCAL = optim.losses.BinaryFocalLoss()
CONFIGURATIONS = MODELS | {
    "classifier, unpaused": lambda: Exact(3, lifetime=3.0, prior_rate=5.0, split_pure=True, seed=1),
    "classifier, bounded": lambda: Exact(3, max_nodes=41, scale=False, missing=ZEROS, seed=1),
    "classifier, oblique": lambda: Exact(3, lifetime=stats.gamma(2.0), directions=3, seed=1),
    "adaptive, one model": lambda: Adaptive(3, 3, autoregressive=True, missing="zero", seed=1),
    "regressor, bounded": lambda: Targets(
        3, max_nodes=51, min_samples_split=5, tails="normal", seed=1
    ),
    "means, growing": lambda: Targets(3, lifetime=math.sqrt, posterior="mean", seed=1),
    "adaptive regressor, autoregressive": lambda: AdaptiveTargets(
        3, n_candidates=3, autoregressive=True, seed=1
    ),
    "kernel density": lambda: rm.DensityForest(3, lifetime=3.0, method="kernel", seed=1),
    "density, growing": lambda: rm.DensityForest(3, lifetime=None, max_nodes=900, seed=1),
    "density, directions": lambda: rm.DensityForest(2, 2.0, window=25, directions=TRIANGLE, seed=1),
    "density, origin": lambda: rm.DensityForest(3, 2.0, "forest", origin=CORNER, seed=1),
    "shingles": lambda: rm.RandomCutForest(
        3, window=50, max_samples=20, shingle=3, scale=False, missing={"": "zero"}, seed=1
    ),
    "neighbors, shingles": lambda: rm.NearestNeighborDetector(window=60, shingle=2, seed=1),
    "isolation, trees": lambda: rm.IsolationFeatures(4, 4, "iforest", 100, scale=True, seed=1),
    "isolation, cosine": lambda: rm.IsolationFeatures(4, 4, pool_size=100, metric="cosine", seed=1),
    "nystrom, gaussian": lambda: rm.NystromFeatures(8, 4, kernel="gaussian"),
    "fourier, laplace": lambda: rm.RandomFourierFeatures(6, kernel="laplace", seed=1),
    "ogd, one against the rest": lambda: rm.OGDClassifier(TREES, "hinge", 0.5, multiclass="ovr"),
    "ogd, foreign": lambda: rm.OGDClassifier(CELLS, FOCAL, multiclass="ovr"),
    "ogd, lifetimes": lambda: rm.OGDClassifier(rm.MondrianFeatures(4, "auto", seed=1), "log"),
    "ogd, dense": lambda: rm.OGDRegressor(FOURIER),
    "ridge, window": lambda: rm.RidgeRegressor(CELLS, window=25),
    "ridge, dense": lambda: rm.RidgeRegressor(FOURIER, fit_intercept=False),
    "dual, cells": lambda: rm.DualOGDClassifier(CELLS),
}
N = 320
READINGS = ["predict", "predict_proba", "score", "density", "log_density", "surprise"]
READINGS += ["transform", "cells", "explain"]
MAPS = rm.NystromFeatures, rm.RandomFourierFeatures, rm.RandomBinningFeatures, rm.IsolationFeatures


def named(names):
    """Return a parametrization by configurations, with a mark for configurations that call BLAS."""
    through_blas = {n for n in names if isinstance(CONFIGURATIONS[n](), MAPS) or "dense" in n}
    marks = {name: [pytest.mark.blas] if name in through_blas else [] for name in names}
    return pytest.mark.parametrize("name", [pytest.param(n, marks=marks[n]) for n in names])


configurations = named(CONFIGURATIONS)
of_frames = named([n for n in CONFIGURATIONS if "dual" not in n])


def make_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4)) * (rng.random((N, 4)) < 0.9)
    # The last feature comes late, and values are missing.
    X[:61, 3] = 0.0
    return [{k: v for k, v in zip("abcd", row, strict=True) if v != 0.0} for row in X.tolist()]


ROWS = make_rows()
SUMS = [sum(x.values()) for x in ROWS]
# The third class comes late.
LABELS = [f"class {int(y > 0.0) + (i > 90 and y > 1.0)}" for i, y in enumerate(SUMS)]
WEIGHTS = [(0.5, 1.0, 2.5)[i % 3] if i > 120 else 1.0 for i in range(N)]
FRAME = pd.DataFrame(ROWS, columns=list("abcd"), index=np.arange(N)[::-1] * 3)


def targets(model):
    return LABELS if isinstance(model, base.Classifier) else SUMS


def learn(model, first=0, last=N):
    samples = zip(ROWS, targets(model), WEIGHTS, strict=True)
    return fed(model, itertools.islice(samples, first, last))


def learn_frame(model, frame, first=0, last=N):
    if isinstance(model, SUPERVISED):
        model.learn_many(frame[first:last], targets(model)[first:last], w=WEIGHTS[first:last])
    else:
        y = [targets(model)[first:last]] if isinstance(model, rm.DriftMonitor) else []
        model.learn_many(frame[first:last], *y)
    return model


def readings(model, suffix="one"):
    """Return the names of the methods that read a model."""
    names = [name for name in READINGS if hasattr(model, f"{name}_{suffix}")]
    return [name for name in names if name != "predict_proba" or has_probabilities(model)]


def says(model, x):
    return [getattr(model, f"{name}_one")(x) for name in readings(model)]


def equal(one, other):
    return repr(one) == repr(other)


def state(model, folder):
    """Return a model's state as bytes: its file, or a pickle if files cannot hold the model."""
    if isinstance(model, rm.RandomCutForest):
        # Earlier samples are mappings, whose order does not matter. Pickling the model completes
        # pending work. Parts are pickled separately, because a pickle may share equal objects.
        own = pickle.loads(pickle.dumps(model))._trees
        parts = () if own is None else own.__getstate__().values()
        past = repr([sorted(x.items()) for x in model._past_now()])
        return b"".join(map(pickle.dumps, parts)) + past.encode()
    path = folder / "state"
    try:
        rm.save(model, path)
    except ValueError:
        return pickle.dumps(pickle.loads(pickle.dumps(model)))
    return path.read_bytes()


def of_rows(found):
    """Return the results for rows in the form of the methods for one sample."""
    if isinstance(found, pd.DataFrame):
        return [{k: v for k, v in row.items() if v != 0.0} for row in found.to_dict("records")]
    return found.tolist()


def without_zeros(found):
    if isinstance(found, dict):
        return {k: v for k, v in found.items() if v != 0.0}
    return found.tolist() if isinstance(found, np.ndarray) else found


@of_frames
def test_batches_equal_single_samples_bit_for_bit(name, tmp_path, monkeypatch):
    # Frames have more rows than one block.
    monkeypatch.setattr(trees, "LEARNED_ROWS", 37)
    one = learn(CONFIGURATIONS[name]())
    expected = state(one, tmp_path)
    # The rows of a frame of shingles follow one another.
    methods = [] if "shingle" in name else readings(one, "many")
    single = {m: [without_zeros(getattr(one, f"{m}_one")(x)) for x in ROWS] for m in methods}
    jobs = [{"n_jobs": 1}, {"n_jobs": 3}] if "n_jobs" in one._get_params() else [{}]
    for n_jobs in jobs:
        for cuts in ((0, N), (0, 1, 100, N), (0, 255, 256, 300, N)):
            many = CONFIGURATIONS[name]()
            many.mutate(n_jobs)
            for first, last in itertools.pairwise(cuts):
                learn_frame(many, FRAME, first, last)
            many.mutate(jobs[0])
            assert state(many, tmp_path) == expected
        many.mutate(n_jobs)
        for method in methods:
            found = getattr(many, f"{method}_many")(FRAME)
            if isinstance(found, pd.DataFrame | pd.Series):
                assert found.index.equals(FRAME.index)
            assert of_rows(found) == single[method], method


LAWS = ["regressor", "regressor, bounded", "ridge", "ridge, dense", "adaptive regressor"]


@pytest.mark.parametrize("name", LAWS)
def test_rows_have_the_laws_of_single_samples(name, monkeypatch):
    # Mixtures outgrow their initial number of components.
    monkeypatch.setattr(components, "FIRST_COMPONENTS", 1)
    model = learn(CONFIGURATIONS[name]())
    for frame in (FRAME, pl.from_pandas(FRAME)):
        found = model.predict_many(frame, with_dist=True)
        assert type(found) is type(frame)
        laws = [model.predict_one(x, with_dist=True) for x in ROWS]
        points = found["prediction" if "prediction" in found.columns else "mean"].to_list()
        assert points == [model.predict_one(x) for x in ROWS]
        variances = [law.var for law in laws]
        np.testing.assert_allclose(found["variance"].to_numpy(), variances, rtol=1e-9)


@of_frames
def test_frames_come_back_as_they_went_in(name, tmp_path):
    model = learn_frame(CONFIGURATIONS[name](), FRAME)
    for frame in (pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME, preserve_index=False)):
        other = CONFIGURATIONS[name]()
        for method in readings(other, "many"):
            if method != "cells":
                assert len(getattr(other, f"{method}_many")(frame[:3])) in (0, 3)
        assert state(learn_frame(other, frame), tmp_path) == state(model, tmp_path)
        for method in readings(model, "many"):
            expected = getattr(model, f"{method}_many")(FRAME)
            found = getattr(model, f"{method}_many")(frame)
            if isinstance(expected, pd.DataFrame):
                assert type(found) is type(frame)
                assert [str(k) for k in expected.columns] == list(found.to_pandas().columns)
                found = found.to_pandas()
            np.testing.assert_array_equal(np.asarray(found), np.asarray(expected), err_msg=method)


@configurations
@pytest.mark.parametrize("n", [0, 1, 5, 99, 256, 300])
def test_copies_go_on_bit_for_bit(name, n, tmp_path):
    model = learn(CONFIGURATIONS[name](), 0, n)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    if name != "means, growing":
        rm.save(model, tmp_path / "model")
        copies.append(rm.load(tmp_path / "model"))
    for i in range(n, N):
        if n and i % 7 == 0:
            expected = says(model, ROWS[i])
            assert all(equal(says(one, ROWS[i]), expected) for one in copies)
        for one in (model, *copies):
            learn(one, i, i + 1)
    expected = state(model, tmp_path)
    assert all(state(one, tmp_path) == expected for one in copies)


@configurations
def test_memory_is_that_of_all_arrays(name):
    """Python objects add some kilobytes to the arrays."""
    model = learn(CONFIGURATIONS[name]())
    arrays = sum(arrays_of(model, ()).values())
    assert 0 < model._raw_memory_usage - arrays < 0.02 * arrays + 16_000


@configurations
def test_the_order_of_keys_does_not_matter_and_reading_changes_nothing(name, tmp_path):
    one, other = CONFIGURATIONS[name](), CONFIGURATIONS[name]()
    for i, x in enumerate(ROWS):
        y = (targets(one)[i],) if isinstance(one, SUPERVISED) else ()
        one.learn_one(x, *y)
        other.learn_one(dict(reversed(x.items())), *y)
        if i in (3, 100, N - 1):
            before = state(one, tmp_path)
            assert equal(says(one, x), says(other, dict(reversed(x.items()))))
            says(one, {"a": 0.5, "unknown": 1.0})
            says(one, {})
            assert state(one, tmp_path) == before == state(other, tmp_path)


BAD_VALUES = [
    ({"a": ["text"], "b": 1.0}, TypeError, "'a'.*'text'"),
    ({"a": 1.0, "b": -math.inf}, ValueError, "'b'.*-inf"),
    ({"a": 1.0, "b": 1e39}, ValueError, "'b'.*1e\\+39"),
    ({"a": 1.0, "b": 10**400}, ValueError, "'b'.*1000"),
    ({"a": 1.0, "b": 1j}, TypeError, "'b'.*1j"),
    ({"b": 2.0, "c": 3.0, "d": 1.0, "a": math.inf}, ValueError, "'a'.*inf"),
    ({"new": math.inf, "a": 1.0}, ValueError, "'new'"),
]
BAD_LABELS = [([1], TypeError, r"hashable.*\[1\]"), (None, ValueError, "missing.*None")]
BAD_LABELS += [(math.nan, ValueError, "missing.*nan")]
BAD_TARGETS = [("high", TypeError, "target.*'high'"), (None, TypeError, "target.*None")]
BAD_TARGETS += [(y, ValueError, f"target.*{y}") for y in (math.nan, -math.inf, pd.NA)]
BAD_TARGETS += [(y, ValueError, "the target must be") for y in (10**400, 1e121)]
BAD_WEIGHTS = [("heavy", TypeError, "weight.*'heavy'"), (None, TypeError, "weight.*None")]
BAD_WEIGHTS += [(w, ValueError, f"weight.*{w}") for w in (-1.0, math.nan, math.inf)]
BAD_WEIGHTS += [(1e31, ValueError, r"weight.*1e\+31")]


def frozen(model):
    """Return whether a feature map no longer learns."""
    return getattr(model, "frozen", False) is True


@configurations
@pytest.mark.parametrize("n", [0, 20, 300])
def test_what_is_refused_changes_nothing(name, n, tmp_path):
    model = learn(CONFIGURATIONS[name](), 0, n)
    before = state(model, tmp_path)
    is_supervised = isinstance(model, SUPERVISED)
    y = targets(model)[:1] if is_supervised else []
    # A map ignores features that its points lack.
    has_map = frozen(model) or "features" in model._get_params()
    for x, error, message in BAD_VALUES[: -1 if has_map else None]:
        if not frozen(model):
            raises(error, message, partial(model.learn_one, x, *y))
        for method in readings(model) if n and "new" not in x else ():
            raises(error, message, partial(getattr(model, f"{method}_one"), x))
    if is_supervised:
        bad = BAD_LABELS if isinstance(model, base.Classifier) else BAD_TARGETS
        for target, error, message in bad:
            raises(error, message, partial(model.learn_one, {"a": 1.0}, target))
        for weight, error, message in BAD_WEIGHTS:
            raises(error, message, partial(model.learn_one, {"a": 1.0}, *y, w=weight))
    assert state(model, tmp_path) == before


@of_frames
@pytest.mark.parametrize("n", [3, 300])
def test_a_frame_that_is_refused_changes_nothing(name, n, tmp_path):
    model = learn(CONFIGURATIONS[name](), 0, n)
    before = state(model, tmp_path)
    good = FRAME[-10:].fillna(0.5)
    infinite = good["b"].where(np.arange(10) < 9, math.inf)
    for frame, error, message in (
        (good.assign(b=[{}] * 10), TypeError, "'b'"),
        (good.assign(b=infinite), ValueError, "'b'.*inf.*row 9"),
        (good.set_axis(["a", "b", "b", "c"], axis=1), ValueError, "'b'.*more than once"),
    ):
        y = [targets(model)[-10:]] if isinstance(model, SUPERVISED) else []
        if not frozen(model):
            raises(error, message, partial(model.learn_many, frame, *y))
        for method in readings(model, "many"):
            raises(error, message, partial(getattr(model, f"{method}_many"), frame))
    if isinstance(model, SUPERVISED):
        y = targets(model)[-10:]
        for labels, weights, error, message in (
            (y[:9], None, ValueError, "10 rows.*9 (labels|targets)"),
            ([*y[:9], None], None, (TypeError, ValueError), "None"),
            (y, [1.0] * 9, ValueError, "10 rows.*9 weights"),
            (y, [-0.5] * 10, ValueError, "weight.*-0.5"),
        ):
            with pytest.raises(error, match=message):
                model.learn_many(good, labels, **({} if weights is None else {"w": weights}))
    assert state(model, tmp_path) == before


FORGETTING = ["classifier", "classifier, oblique", "regressor", "means", "random cuts"]
FORGETTING += ["nearest neighbors", "ridge, window"]


@named(FORGETTING)
@pytest.mark.parametrize("n", [0, 300])
def test_what_is_not_held_cannot_be_forgotten(name, n, tmp_path):
    model = learn(CONFIGURATIONS[name](), 0, n)
    # This is the latest sample with all features.
    i = max(i for i in range(n or N) if len(ROWS[i]) == 4)
    x, y, w = ROWS[i], targets(model)[i], WEIGHTS[i]
    near = x | {"a": x["a"] * (1.0 + 1e-6)}
    others = [(near, y, w), ({"a": x["a"]}, y, w), ({}, y, w)]
    # A frozen map ignores new features.
    others += [] if "ridge" in name else [(x | {"new": 1.0}, y, w)]
    bad = [(x | {"a": "red"}, y, w), (x | {"a": math.inf}, y, w)]
    if isinstance(model, SUPERVISED):
        other = "class 1" if y == "class 0" else "class 0"
        others += [(x, other if isinstance(y, str) else y + 1.0, w), (x, y, 2.0 * w), (x, y, 0.0)]
        bad += [(x, None, w), (x, y, -1.0)]
    before = state(model, tmp_path)

    def forget(x, y, w):
        model.forget_one(x, *((y, w) if isinstance(model, SUPERVISED) else ()))

    for sample in others if n else [(x, y, w)]:
        raises(KeyError, r"no stored sample equals", partial(forget, *sample))
    for sample in bad if n else ():
        raises((TypeError, ValueError), r"'a'|None|-1", partial(forget, *sample))
    if hasattr(model, "forget_many") and n:
        for X in (pd.DataFrame([x, x]), pd.DataFrame([x, x | {"a": x["a"] + 1e-12}])):
            with pytest.raises(KeyError, match=r"row 0 is to be forgotten 2 times|row 1"):
                model.forget_many(X, [y, y], [w, w])
    assert state(model, tmp_path) == before
    if n:
        # A feature without a value is ignored.
        forget(x | {"never seen": math.nan}, y, w)
        raises(KeyError, None, lambda: forget(x, y, w))
