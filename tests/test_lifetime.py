"""Tests of the sweep over lifetimes against dense matrices, and of its public interface."""

import copy
import math
import re

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from common import raises
from naive import lifetime as naive
from scipy import stats

from river_mondrian import lifetime_path
from river_mondrian.learners.lifetimes.fitting import GradientLearner
from river_mondrian.partitions.sweep import LifetimeSweep

pytestmark = pytest.mark.blas

M = 8


def data(n=60, n_val=20, n_test=15, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n + n_val + n_test, 2))
    y = 5.0 + np.sin(6.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=len(X))
    parts = np.split(np.arange(len(X)), [n, n + n_val])
    return [(X[part], y[part]) for part in parts]


SETS = "train", "validation", "test"


def sweep(lifetime_max=12.0, **kwargs):
    train, val, test = data()
    kwargs = {"n_partitions": M, "l2": 1e-2, "seed": 1} | kwargs
    return lifetime_path(*train, lifetime_max, *val, *test, **kwargs)


def rmse(found, y):
    return math.sqrt(np.mean((found - y) ** 2))


@pytest.mark.parametrize(("l2", "noise"), [(1e-2, 1e-2), (1e-4, 0.3), (1.0, None)])
def test_every_lifetime_is_a_fit_by_dense_matrices(l2, noise):
    path = sweep(l2=l2, noise_variance=noise)
    X, y = data()[0]
    mean = y.mean()
    assert path.n_cells[-1] > 3 * len(y)
    # Without a noise variance, likelihoods are relative to the likelihood at time 0.
    start = naive.features(X, path.cuts[:0], M)
    for step in range(0, len(path.lifetimes), 20):
        cuts = path.cuts[:step]
        assert path.n_cells[step] == M + step
        Phi = naive.features(X, cuts, M)
        for learner, fit in (("ridge", naive.ridge), ("forest", naive.forest)):
            weights = fit(Phi, y - mean, l2)
            expected = [rmse(naive.features(Z, cuts, M) @ weights + mean, z) for Z, z in data()]
            found = [path.errors[learner][kind][step] for kind in SETS]
            assert found == pytest.approx(expected, rel=1e-8, abs=1e-10)
        found = path.log_marginal_likelihood[step]
        if noise is not None:
            density = naive.log_density(Phi, y - mean, l2, noise)
        else:
            found -= path.log_marginal_likelihood[0]
            density = _integrated(Phi, y - mean, l2) - _integrated(start, y - mean, l2)
        assert found == pytest.approx(density, rel=1e-8, abs=1e-8)


def test_updates_are_exact_without_refinement(monkeypatch):
    """The inverse must not be rebuilt, because this would hide errors of updates."""
    for name in ("REFINE", "REBUILD"):
        name = f"river_mondrian.learners.lifetimes.exact_ridge.{name}"
        monkeypatch.setattr(name, math.inf)
    path = sweep(learners=["ridge"], l2=0.1, noise_variance=0.1)
    X, y = data()[0]
    for step in (40, len(path.cuts)):
        Phi = naive.features(X, path.cuts[:step], M)
        fitted = Phi @ naive.ridge(Phi, y - y.mean(), 0.1) + y.mean()
        assert path.errors["ridge"]["train"][step] == pytest.approx(rmse(fitted, y), rel=1e-8)
        density = naive.log_density(Phi, y - y.mean(), 0.1, 0.1)
        assert path.log_marginal_likelihood[step] == pytest.approx(density, rel=1e-8)


def _integrated(Phi, y, delta2):
    """Return the log of the density, integrated over the noise variance, up to a constant."""
    K = np.eye(len(y)) + Phi @ Phi.T / delta2
    return -0.5 * (np.linalg.slogdet(K)[1] + len(y) * math.log(y @ np.linalg.solve(K, y)))


@pytest.mark.parametrize("passes", [0.3, 1.0, 2.5])
def test_gradient_descent_is_the_twins(passes):
    X, y = data()[0]
    y = y - y.mean()
    sweep = LifetimeSweep(X, y, M, 1)
    learner = GradientLearner(sweep, 0.5, passes, 0.4)
    cuts = []
    for _ in range(40):
        cuts.append(sweep.cut())
        learner.follow(cuts[-1][1])
    rng = copy.deepcopy(sweep.rng)
    visits = np.concatenate([rng.permutation(len(y)) for _ in range(3)])[: round(passes * len(y))]
    Phi, n_cells = naive.features(X, cuts, M), sweep.n_cells
    expected = naive.descend(Phi, y, 0.5, learner.weights[:n_cells], visits, 0.4)
    learner.finish_step()
    np.testing.assert_allclose(learner.weights[:n_cells], expected, rtol=1e-9)
    np.testing.assert_allclose(learner.predicted, Phi @ expected, rtol=1e-9, atol=1e-12)


def test_parts_begin_with_the_weight_of_their_cell():
    """With a tiny learning rate, predictions stay as at time 0."""
    path = sweep(learners=["sgd"], learning_rate=1e-12)
    for kind, (_, y) in zip(SETS, data(), strict=True):
        constant = rmse(data()[0][1].mean(), y)
        np.testing.assert_allclose(path.errors["sgd"][kind], constant, rtol=1e-6)


def test_the_cuts_are_those_of_mondrian_processes(seed):
    """The first cut has the distributions of section 2.2 (Balog et al. 2016).

    The test compares the time, the feature and the position of the cut.
    """
    X, n = np.random.default_rng(seed).random((20, 2)) * [1.0, 3.0], 600
    path = lifetime_path(X, np.zeros(20), 20.0, n_partitions=n, learners=["forest"], seed=seed)
    # The lower part of a cut cell keeps the number of the cell. So the first cut of a partition is
    # the first cut of the cell with the partition's number.
    numbers, places = np.unique(path.cuts["cell"], return_index=True)
    places = places[numbers < n]
    assert len(places) == n
    firsts, times = path.cuts[places], path.lifetimes[1:][places]
    low, reach = X.min(axis=0), np.ptp(X, axis=0)
    on_first = int((firsts["feature"] == 0).sum())
    chances = [
        stats.kstest(times, stats.expon(scale=1.0 / reach.sum()).cdf).pvalue,
        stats.binomtest(on_first, n, reach[0] / reach.sum()).pvalue,
    ]
    for d in range(2):
        found = firsts["threshold"][firsts["feature"] == d]
        chances.append(stats.kstest(found, stats.uniform(low[d], reach[d]).cdf).pvalue)
    assert min(chances) > 0.01 / (3 * 4)


def test_the_posterior_and_the_average_over_it():
    """The reference computes all predictions of Supplement B at once."""
    prior = stats.gamma(2.0, scale=2.0)
    path = sweep(learners=["ridge"], noise_variance=0.01, prior=prior, lifetime_max=4.0)
    (X, y), _, (X_test, _) = data()
    stops = np.append(path.lifetimes[1:], 4.0)
    logs = path.log_marginal_likelihood + np.log(prior.cdf(stops) - prior.cdf(path.lifetimes))
    shares = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    np.testing.assert_allclose(path.posterior(prior), shares, rtol=1e-9)
    expected = np.zeros(len(X_test))
    for step in np.flatnonzero(shares > 1e-12):
        cuts = path.cuts[:step]
        weights = naive.ridge(naive.features(X, cuts, M), y - y.mean(), 1e-2)
        expected += shares[step] * (naive.features(X_test, cuts, M) @ weights + y.mean())
    np.testing.assert_allclose(path.test_prediction, expected, rtol=1e-9)
    raises(ValueError, "no mass", lambda: path.posterior(stats.uniform(50.0, 1.0)))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_are_read_by_name(kind):
    train, val, _ = data()
    X, X_val = (kind({"a": X[:, 0], "b": X[:, 1]}) for X, _ in (train, val))
    path = lifetime_path(*train, 5.0, *val, n_partitions=M, seed=1)
    arguments = X, pd.Series(train[1]), 5.0, X_val[["b", "a"]], val[1]
    same = lifetime_path(*arguments, n_partitions=M, seed=1)
    for learner, errors in path.errors.items():
        np.testing.assert_array_equal(errors["validation"], same.errors[learner]["validation"])


@pytest.mark.parametrize("lifetime_max", [0.5, 12.0])
def test_weights_predict_at_the_terminal_lifetime(lifetime_max):
    path = sweep(lifetime_max, sgd_passes=0.2)
    (_, y), _, (X_test, y_test) = data()
    for learner, errors in path.errors.items():
        weights = path.weights[learner]
        found = y.mean() + naive.features(X_test, path.cuts, M) @ weights / math.sqrt(M)
        assert rmse(found, y_test) == pytest.approx(errors["test"][-1], rel=1e-9)


def test_steps_of_several_cuts_are_some_of_the_lifetimes():
    params = {"learners": ["ridge", "forest"], "prior": stats.expon(scale=3)}
    fine, coarse = sweep(**params), sweep(**params, cuts_per_step=7)
    np.testing.assert_array_equal(coarse.cuts, fine.cuts)
    last = len(fine.lifetimes) - 1
    steps = sorted({*range(0, last, 7), last})
    np.testing.assert_array_equal(coarse.lifetimes, fine.lifetimes[steps])
    np.testing.assert_array_equal(coarse.n_cells, fine.n_cells[steps])
    for learner in params["learners"]:
        for kind, found in coarse.errors[learner].items():
            np.testing.assert_allclose(found, fine.errors[learner][kind][steps], rtol=1e-8)
    found, expected = (one.log_marginal_likelihood for one in (coarse, fine))
    np.testing.assert_allclose(found, expected[steps], rtol=1e-8)
    np.testing.assert_allclose(coarse.test_prediction, fine.test_prediction, rtol=0.05)


def test_what_a_path_gives():
    mpl.use("Agg")
    path = sweep(lifetime_max=3.0)
    frame = path.to_frame()
    assert len(frame) == len(path.lifetimes) == len(path.cuts) + 1
    assert {"lifetime", "ridge_test", "sgd_train", "forest_validation"} <= set(frame.columns)
    assert (np.diff(path.lifetimes) > 0.0).all() and path.lifetimes[-1] <= 3.0
    assert (np.diff(path.seconds) >= 0.0).all()
    assert path.best("forest") == path.lifetimes[frame["forest_validation"].argmin()]
    top = frame["log_marginal_likelihood"].argmax()
    assert path.best(by="marginal") == path.lifetimes[top]
    assert len(path.plot().get_lines()) == 9
    forest = sweep(lifetime_max=3.0, learners=["forest"])
    assert "log_marginal_likelihood" not in forest.to_frame()
    for call in (lambda: forest.best(by="marginal"), lambda: forest.posterior(stats.expon())):
        raises(ValueError, "no ridge", call)
    raises(ValueError, "'ridge'", lambda: forest.best())


def test_points_that_do_not_differ_and_targets_that_do_not():
    path = lifetime_path(np.ones((5, 2)), np.arange(5.0), 10.0, n_partitions=3, seed=1)
    assert path.lifetimes.tolist() == [0.0]
    X = np.random.default_rng(0).random((10, 2))
    path = lifetime_path(X, np.full(10, 7.0), 5.0, n_partitions=3, seed=1)
    for errors in path.errors.values():
        np.testing.assert_allclose(errors["train"], 0.0, atol=1e-12)


BAD = [("lifetime_max", 0.0), ("l2", -1.0), ("noise_variance", 0.0), ("n_partitions", 0)]
BAD += [("learners", "ridge"), ("learners", ["svm"]), ("sgd_passes", 0.0), ("learning_rate", 2.0)]


@pytest.mark.parametrize("name, value", BAD)
def test_a_bad_parameter_is_named(name, value):
    with pytest.raises(ValueError, match=f"{name}.*{re.escape(repr(value).strip('[]'))}"):
        sweep(**{name: value})


def test_bad_priors_are_named():
    raises(ValueError, r"prior.*ridge", lambda: sweep(prior=stats.expon(), learners=["sgd"]))
    raises(ValueError, "no mass", lambda: sweep(prior=stats.uniform(50.0, 1.0), learners=["ridge"]))
