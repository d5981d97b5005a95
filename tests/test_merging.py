"""Tests that merged models of parts of the samples equal the model of all samples."""

import copy
import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from common import raises
from scipy import stats

import river_mondrian as rm
from river_mondrian import DensityForest, RidgeRegressor, load, merge, save

ORIGIN = {"a": 0.3, "b": -1.0}
NAMES = list(ORIGIN)
TRIANGLE = [{"a": 1.0}, {"b": 2.0}, {"a": 0.5, "b": 0.5}]

DENSITIES = {
    "fixed": lambda: DensityForest(8, 2.0, seed=1, origin=ORIGIN),
    "random": lambda: DensityForest(8, stats.gamma(2.0), seed=1, origin=ORIGIN),
    "laplace": lambda: DensityForest(8, 0.5, method="laplace", seed=1, origin=ORIGIN),
    "kernel": lambda: DensityForest(8, 2.0, method="kernel", seed=1, origin=ORIGIN),
    "given directions": lambda: DensityForest(4, 1.0, directions=TRIANGLE, origin=ORIGIN, seed=1),
    "random directions": lambda: DensityForest(4, 1.0, directions=3, origin=ORIGIN, seed=1),
}


def rows(n, seed, spread=1.0):
    return pd.DataFrame(np.random.default_rng(seed).normal(0.0, spread, (n, 2)), columns=NAMES)


def densities(model, frame):
    return model.log_density_many(frame).tolist()


@pytest.mark.parametrize("name", DENSITIES)
def test_densities_of_parts_are_those_of_all(name, tmp_path):
    # The second part is far wider, and the third is elsewhere, so both have new cells.
    frames = [rows(60, 1), rows(40, 2, 5.0), rows(30, 3, 0.1) + 30.0]
    asked = pd.concat([*frames, rows(50, 4, 10.0)])
    parts = [DENSITIES[name]() for _ in frames]
    for model, frame in zip(parts, frames, strict=True):
        model.learn_many(frame)
    for order in itertools.permutations(range(3)):
        whole, merged = DENSITIES[name](), DENSITIES[name]()
        for i in order:
            before = pickle.dumps(parts[i])
            merged = merge(merged, parts[i])
            assert pickle.dumps(parts[i]) == before
            whole.learn_many(frames[i])
        assert merged.n_samples == whole.n_samples
        assert densities(merged, asked) == densities(whole, asked)
        # The merged model continues to learn, and so does its copy from a file.
        save(merged, tmp_path / "merged")
        for model in (same := load(tmp_path / "merged"), merged, whole):
            model.learn_many(rows(20, 5, 20.0))
        assert densities(merged, asked) == densities(same, asked) == densities(whole, asked)
    assert merge(merged, DENSITIES[name]()).n_samples == merged.n_samples


def test_an_origin_names_the_features():
    model = DensityForest(3, 1.0, seed=1, origin=ORIGIN)
    assert model.feature_names == NAMES
    assert model.density_one({"a": 0.1}) == 0.0
    model.learn_one({"a": 0.1, "b": 0.2, "c": 5.0})
    assert model.feature_names == model.clone().feature_names == NAMES
    same = copy.deepcopy(model)
    same.learn_one({"c": 1.0})
    # A sample without both features counts as if it had their current means.
    model.learn_one({"a": 0.1, "b": 0.2})
    assert densities(same, rows(5, 1)) == densities(model, rows(5, 1))


def density(frame=None, **changes):
    params = {"n_estimators": 3, "lifetime": 1.0, "seed": 1, "origin": ORIGIN}
    model = DensityForest(**params | changes)
    model.learn_many(rows(5, 1) if frame is None else frame)
    return model


def test_densities_that_do_not_add_up():
    for change, match in (
        ({"origin": None}, "trees without an origin begin at the first sample"),
        ({"seed": None}, "without a seed each model draws its own partition"),
        ({"lifetime": None}, "the lifetime must be a number"),
    ):
        with pytest.raises(ValueError, match=match):
            merge(density(**change), density(**change))
    for change in ({"seed": 2}, {"lifetime": 2.0}, {"n_estimators": 4}, {"method": "kernel"}):
        with pytest.raises(ValueError, match=f"but {next(iter(change))} is"):
            merge(density(), density(**change))
    lacking = rows(5, 1).where(rows(5, 2) < 0.5)[["a"]].fillna(0.0)
    raises(ValueError, "a sample lacked 'b'", lambda: merge(density(), density(lacking)))
    with pytest.raises(TypeError, match="only DensityForest and RidgeRegressor"):
        merge(rm.MondrianForestClassifier(), rm.MondrianForestClassifier())
    raises(TypeError, "models of one class", lambda: merge(density(), RidgeRegressor()))


def pooled():
    features = rm.IsolationFeatures(6, 4, pool_size=40, seed=1)
    features.learn_many(rows(60, 9))
    return features


def fourier(seed=1):
    return rm.RandomFourierFeatures(12, seed=seed)


def binning(n=4):
    return rm.RandomBinningFeatures(n, seed=1)


RIDGES = {
    "fourier": lambda: RidgeRegressor(fourier()),
    "known noise": lambda: RidgeRegressor(fourier(), noise_variance=0.5, l2=0.3),
    "no intercept": lambda: RidgeRegressor(binning(5), fit_intercept=False),
    "binning": lambda: RidgeRegressor(rm.RandomBinningFeatures(8, 2.0, seed=1)),
    "pool": lambda: RidgeRegressor(pooled()),
}


def learn_targets(model, frame, seed=0):
    noise = np.random.default_rng(seed).normal(0.0, 0.1, len(frame))
    targets = 1000.0 + np.sin(frame.sum(axis=1).to_numpy()) + noise
    weights = np.linspace(0.0, 2.0, len(frame))
    model.learn_many(frame, targets, weights)


@pytest.mark.blas
@pytest.mark.parametrize("name", RIDGES)
def test_ridges_of_parts_are_those_of_all(name, tmp_path):
    frames = [rows(80, 1), rows(60, 2, 3.0).assign(c=1.5), rows(50, 3)[["b", "a"]]]
    if name == "pool":
        frames[1] = frames[1][NAMES]
    asked = rows(40, 4, 2.0).assign(c=0.5)
    parts = [RIDGES[name]() for _ in frames]
    for i, frame in enumerate(frames):
        learn_targets(parts[i], frame, i)
    for order in itertools.permutations(range(3)):
        whole, merged = RIDGES[name](), RIDGES[name]()
        for i in order:
            merged = merge(merged, parts[i])
            learn_targets(whole, frames[i], i)
        save(merged, tmp_path / "merged")
        for model in (load(tmp_path / "merged"), merged):
            # The matrix is A + delta2 I, with elements up to 190, the number of samples. The
            # condition number amplifies rounding errors to a small multiple of 2e-16 * 190 / 0.01,
            # relative to the targets' spread.
            found, expected = (m.predict_many(asked, with_dist=True) for m in (model, whole))
            np.testing.assert_allclose(found["mean"], expected["mean"], rtol=0.0, atol=1e-9)
            np.testing.assert_allclose(found["variance"], expected["variance"], rtol=1e-9)
            assert model.log_marginal_likelihood == pytest.approx(
                whole.log_marginal_likelihood, rel=1e-9, abs=1e-7
            )
            assert (model.n_samples, model.n_columns) == (whole.n_samples, whole.n_columns)
        # Both models continue to learn.
        for model in (merged, whole):
            learn_targets(model, rows(30, 5, 4.0), 5)
        found, expected = (m.predict_many(asked) for m in (merged, whole))
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-9)


@pytest.mark.blas
def test_ridges_that_do_not_add_up():
    growing, other_pool = rm.MondrianFeatures(4, seed=1), rm.IsolationFeatures(6, 4, pool_size=40)
    for one, other, params, match in (
        (fourier(2), fourier(1), {}, "the features have different arguments"),
        (fourier(None), fourier(None), {}, "without a seed"),
        (fourier(), binning(), {}, "the features are of different classes"),
        (growing, growing, {}, "MondrianFeatures depend on the order"),
        (None, None, {}, "IsolationFeatures are drawn from samples"),
        (fourier(), fourier(), {"window": 9}, r"no common order.*window=9"),
        (pooled(), other_pool, {}, "drawn from sam"),
        (binning(), binning(), {"max_columns": 5}, "more than max_columns=5 columns"),
    ):
        models = RidgeRegressor(one, **params), RidgeRegressor(other, **params)
        for model in models:
            learn_targets(model, rows(30, 30))
        with pytest.raises(ValueError, match=match):
            merge(*models)
    with pytest.raises(ValueError, match=r"but l2 is 0.01 and 0.1"):
        merge(RidgeRegressor(fourier()), RidgeRegressor(fourier(), l2=0.1))
