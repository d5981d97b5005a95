"""Exact ridge regression against its dense twin, and as its users meet it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from naive.ridge import Ridge
from river import proba
from scipy import stats
from test_linear import Scaled, frame, frozen, rows

from river_mondrian import IsolationFeatures, RandomFourierFeatures, RidgeRegressor

MAPS = {
    "cells": frozen,
    "dense": Scaled,
    "fourier": lambda: RandomFourierFeatures(30, seed=1),
}
SETTINGS = {
    "default": {},
    "no intercept": {"fit_intercept": False},
    "noise": {"noise_variance": 0.3, "l2": 1e-3},
    "paper": {"noise_variance": 1e-2, "fit_intercept": False},
    "capped": {"max_columns": 2},
}
# Each setting, and each map by the default.
PAIRS = [
    ("cells", "default"),
    ("dense", "default"),
    ("fourier", "default"),
    ("dense", "no intercept"),
    ("fourier", "noise"),
    ("cells", "paper"),
    ("cells", "capped"),
]


def stream(n, seed=0):
    """Make samples of which a feature is late, with targets and weights, some of them 0."""
    data = rows(n, seed)
    for i, x in enumerate(data):
        if i < 10 or i % 7 == 0:
            del x["c"]
    rng = np.random.default_rng(seed)
    targets = [100.0 + math.sin(3 * x["a"]) + x["b"] + 0.1 * rng.normal() for x in data]
    return data, targets, (rng.uniform(0.2, 2, size=n) * (rng.random(n) > 0.1)).tolist()


def learned(model, data, targets, weights):
    for x, y, w in zip(data, targets, weights, strict=True):
        model.learn_one(x, y, w=w)
    return model


@pytest.mark.blas
@pytest.mark.parametrize(("features", "setting"), PAIRS)
def test_the_posterior_is_that_of_dense_matrices(features, setting):
    params = SETTINGS[setting]
    shared = MAPS[features]()
    data, targets, weights = stream(120)
    queries = rows(20, seed=5)
    for n in (1, 2, 5, 40, 120):
        model = learned(RidgeRegressor(shared, **params), data[:n], targets[:n], weights[:n])
        own = model._features
        twin = Ridge(
            [own.transform_one(x) for x in data[:n]],
            targets[:n],
            weights[:n],
            model.l2,
            model.fit_intercept,
            model.max_columns,
        )
        assert model.n_columns == len(twin.columns)
        freedom = len(twin.y) - model.fit_intercept
        noise = params.get("noise_variance")
        for x in queries:
            mapped = own.transform_one(x)
            expected = twin.mean(mapped)
            assert model.predict_one(x) == pytest.approx(expected, rel=1e-8, abs=1e-8)
            predicted = model.predict_one(x, with_dist=True)
            assert isinstance(predicted, proba.Gaussian)
            assert predicted.mu == model.predict_one(x)
            if noise is None and freedom <= 2:
                assert predicted.sigma == math.inf
                continue
            scale = noise
            if noise is None:
                posterior = model.noise_posterior
                # The predictive t by the moments of the normal-inverse-gamma.
                scale = posterior.mean()
                assert posterior.args[0] == freedom / 2
            assert predicted.sigma**2 == pytest.approx(scale * twin.variance(mapped), rel=1e-7)
        if noise is not None:
            density = twin.log_density(noise) if freedom else 0.0
            assert model.log_marginal_likelihood == pytest.approx(density, rel=1e-8, abs=1e-8)
        elif freedom and n in (5, 40):
            assert model.log_marginal_likelihood == pytest.approx(twin.marginal(), abs=1e-6)


@pytest.mark.blas
def test_the_density_is_the_gaussian_of_the_kernel():
    """As the paper has it: noise of variance delta2 and weights of variance 1, no intercept."""
    data, targets, _ = stream(150)
    features = frozen()
    model = RidgeRegressor(features, 1e-2, noise_variance=1e-2, fit_intercept=False)
    learned(model, data, targets, [1.0] * 150)
    K = features.gram(frame(data)) + 1e-2 * np.eye(150)
    expected = stats.multivariate_normal(np.zeros(150), K).logpdf(targets)
    assert model.log_marginal_likelihood == pytest.approx(expected, rel=1e-8)


def test_densities_of_prediction_add_up_to_the_marginal_likelihood():
    data, targets, weights = stream(60)
    model, total = RidgeRegressor(frozen(), noise_variance=0.2), 0.0
    for x, y, w in zip(data, targets, weights, strict=True):
        if model._current is not None and model._current.n_samples and w > 0.0:
            predicted = model.predict_one(x, with_dist=True)
            variance = predicted.sigma**2 + 0.2 / w - 0.2
            total += stats.norm(predicted.mu, math.sqrt(variance)).logpdf(y)
        model.learn_one(x, y, w=w)
    assert model.log_marginal_likelihood == pytest.approx(total, rel=1e-9)


@pytest.mark.blas
@pytest.mark.parametrize("features", ["cells", "fourier"])
def test_it_stays_exact_over_many_updates(features):
    n = 30_000
    data, targets, _ = stream(n)
    table = frame(data)
    model = RidgeRegressor(MAPS[features](), l2=1e-4)
    model.learn_many(table, targets)
    own = model._features
    Phi = own.to_csr(table).toarray()
    Phi = np.hstack([np.ones((n, 1)), Phi[:, (Phi != 0.0).any(axis=0)]])
    penalty = np.sqrt(1e-4) * np.eye(Phi.shape[1])
    penalty[0] = 0.0
    expected, residual, *_ = np.linalg.lstsq(
        np.vstack([Phi, penalty]), np.r_[targets, np.zeros(len(penalty))], rcond=None
    )
    got = model.predict_many(table).to_numpy()
    np.testing.assert_allclose(got, Phi @ expected, rtol=0.0, atol=1e-8)
    assert model._current.residual == pytest.approx(residual[0], rel=1e-8)


def test_nothing_depends_on_the_units_of_the_target():
    data, targets, _ = stream(200)
    one, other = RidgeRegressor(frozen()), RidgeRegressor(frozen())
    for x, y in zip(data, targets, strict=True):
        one.learn_one(x, y)
        other.learn_one(x, 1000.0 * (y - 7.0))
    for x in rows(20, seed=3):
        first, second = (m.predict_one(x, with_dist=True) for m in (one, other))
        assert second.mu == pytest.approx(1000.0 * (first.mu - 7.0), rel=1e-9)
        assert second.sigma == pytest.approx(1000.0 * first.sigma, rel=1e-9)
    gap = other.log_marginal_likelihood - one.log_marginal_likelihood
    assert gap == pytest.approx(-199 * math.log(1000.0), rel=1e-9)


def test_the_order_of_samples_does_not_matter():
    data, targets, weights = stream(150)
    first = learned(RidgeRegressor(frozen()), data, targets, weights)
    second = learned(RidgeRegressor(frozen()), data[::-1], targets[::-1], weights[::-1])
    assert first.log_marginal_likelihood == pytest.approx(second.log_marginal_likelihood, rel=1e-9)
    for x in rows(20, seed=4):
        assert first.predict_one(x) == pytest.approx(second.predict_one(x), rel=1e-9)


def test_intervals_cover():
    """The predictive distribution is calibrated where the model is true."""
    inside, n = 0, 400
    features = frozen()
    rng = np.random.default_rng(0)
    weights = {}
    model = RidgeRegressor(features, l2=0.25)
    for i, x in enumerate(rows(n + 200)):
        mapped = features.transform_one(x)
        mean = sum(v * weights.setdefault(c, 4.0 * rng.normal()) for c, v in mapped.items())
        y = mean + 2.0 * rng.normal()
        if i >= 200:
            predicted = model.predict_one(x, with_dist=True)
            inside += abs(y - predicted.mu) < stats.norm.ppf(0.95) * predicted.sigma
        model.learn_one(x, y)
    low, high = stats.binom(n, 0.9).ppf([0.005, 0.995])
    assert low <= inside <= high


def test_a_map_that_is_built_anew_learns_the_stored_samples_again():
    data, targets, weights = stream(160)
    model = RidgeRegressor(IsolationFeatures(20, 8, pool_size=100, seed=1))
    learned(model, data, targets, weights)
    assert model._features.frozen and model._next is None
    again = learned(RidgeRegressor(model._features), data, targets, weights)
    assert model.log_marginal_likelihood == pytest.approx(again.log_marginal_likelihood, rel=1e-9)
    for x in data:
        assert model.predict_one(x) == pytest.approx(again.predict_one(x), rel=1e-9)


# Batches, frames, copies, memory.


def test_a_cap_bounds_memory_and_keeps_what_there_is_exact():
    data, targets, weights = stream(400)
    model = RidgeRegressor(frozen(), max_columns=25)
    sizes = []
    for x, y, w in zip(data, targets, weights, strict=True):
        model.learn_one(x, y, w=w)
        sizes.append(model._raw_memory_usage)
    assert model.n_columns == 25
    assert len(set(sizes[50:])) == 1


# Bad input.


def test_before_there_is_enough():
    model = RidgeRegressor(seed=1)
    assert model.predict_one({"a": 1.0}) == 0.0
    assert model.predict_one({"a": 1.0}, with_dist=True).sigma == math.inf
    assert (model.n_columns, model.log_marginal_likelihood) == (0, 0.0)
    assert model.predict_many(frame(rows(2))).tolist() == [0.0, 0.0]
    for _ in range(2):
        assert model.noise_posterior is None
        model.learn_one({"a": 1.0}, 5.0, w=0.0)
    assert RidgeRegressor(noise_variance=1.0).noise_posterior is None
    for _ in range(5):
        model.learn_one({"a": 1.0}, 5.0)
    predicted = model.predict_one({"a": 1.0}, with_dist=True)
    assert predicted.mu == pytest.approx(5.0) and predicted.sigma == pytest.approx(0.0, abs=1e-9)
