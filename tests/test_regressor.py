"""Tests of the regressor's public interface: data of all kinds, bad input, copies, frames."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from common import fed, raises
from scipy import stats

from river_mondrian import MondrianForestRegressor, PredictiveDistribution

NAMES = ["a", "b", "c", "d"]


def make_data(n, seed=0, dims=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, dims))
    return X, 10.0 + np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


def rows(X, names=NAMES):
    return [dict(zip(names, row, strict=False)) for row in X.tolist()]


def made(X, y, n_estimators=4, **params):
    """Return a regressor that has learned rows."""
    model = MondrianForestRegressor(n_estimators, **{"seed": 7} | params)
    return fed(model, zip(rows(X), y.tolist(), strict=True))


def test_targets_in_any_unit():
    X, y = make_data(600)
    euros, cents = made(X, y), made(X, 100.0 * y - 5e4)
    for x in rows(make_data(50, seed=1)[0]):
        a, b = euros.predict_one(x, with_dist=True), cents.predict_one(x, with_dist=True)
        assert b.mean == pytest.approx(100.0 * a.mean - 5e4, abs=1e-6)
        assert b.var == pytest.approx(1e4 * a.var, rel=2e-9)


def test_before_learning_and_with_one_sample():
    model = MondrianForestRegressor(seed=1)
    assert model.hyperparameters == {}
    model.learn_one({"a": 1.0}, 5.0)
    assert model.predict_one({"a": 2.0}) == 5.0
    assert model.predict_one({"a": 2.0}, with_dist=True).interval(0.9) == (5.0, 5.0)
    model.learn_one({}, 7.0)
    assert 5.0 < model.predict_one({"a": 2.0}) < 7.0


def mixture(*columns):
    return PredictiveDistribution(*map(np.array, columns))


@pytest.mark.blas
def test_a_mixture_of_points():
    points = mixture([0.25, 0.75], [1.0, 2.0], [0.0, 0.0])
    assert (points.cdf(0.9), points.cdf(1.0), points.quantile(0.2)) == (0.0, 0.25, 1.0)
    assert points.quantile(0.5) == pytest.approx(2.0)
    assert (points.log_pdf(2.0), points.log_pdf(1.5)) == (math.inf, -math.inf)
    assert points.crps(2.0) == pytest.approx(0.25 * 1.0 - 0.25 * 0.75)
    three = mixture([0.3, 0.4, 0.3], [-1.0, 0.0, 1.0], [0.0, 0.0, 0.0])
    assert three.quantile(0.5) == pytest.approx(0.0, abs=1e-9)
    empty = mixture([0.0, 1.0], [0.0, 1.0], [0.0, 1.0])
    assert empty.log_pdf(0.0) == pytest.approx(stats.norm.logpdf(0.0, 1.0))


@pytest.mark.parametrize("at, beyond", [(1.0, 1.0), (1.0, 5.0), (math.nan, 5.0)])
def test_a_lifetime_that_falls_is_refused(at, beyond):
    def lifetime(n):
        return 5.0 if n < 10 else at if n == 10 else beyond

    words = r"lifetime\(10\).*nan" if math.isnan(at) else r"fall.*n = 10"
    X, y = make_data(400)
    model = made(X[:9], y[:9], lifetime=lifetime, posterior="mean")
    before = pickle.dumps(model._trees)
    raises(ValueError, words, lambda: model.learn_one(rows(X)[9], 1.0))
    raises(ValueError, words, lambda: model.learn_many(pd.DataFrame(X[9:], columns=NAMES), y[9:]))
    assert pickle.dumps(model._trees) == before and model.n_samples == 9


def test_reading_stops_at_the_lifetime():
    X, y = make_data(300)
    model = made(X, y, 1, lifetime=lambda n: 1.5, posterior="mean")
    frame = model.to_dataframe()
    assert (frame.time[~frame.is_leaf] < 1.5).all()
    assert (frame.time[frame.is_leaf] == 1.5).all()
    assert frame[frame.is_leaf].n_samples.sum() == 300
    assert 2 < len(frame) < 300
    for x in rows(X[:20]):
        assert f"mean {model.predict_one(x):.6g} (" in model.debug_one(x)


def test_means_have_no_distribution():
    model = made(*make_data(9), posterior="mean")
    for predict, x in ((model.predict_one, {"a": 1.0}), (model.predict_many, pd.DataFrame([{}]))):
        with pytest.raises(ValueError, match="distribution"):
            predict(x, with_dist=True)


def test_a_lifetime_that_ends_at_infinity():
    X, y = make_data(100)
    params = {"lifetime": lambda n: 3.0 if n < 50 else math.inf, "posterior": "mean", "seed": 7}
    one, many = made(X, y, **params), MondrianForestRegressor(4, **params)
    many.learn_many(pd.DataFrame(X, columns=NAMES), y)
    for t in range(4):
        pd.testing.assert_frame_equal(one.to_dataframe(t), many.to_dataframe(t), check_exact=True)
    assert [one.predict_one(x) for x in rows(X)] == [many.predict_one(x) for x in rows(X)]
