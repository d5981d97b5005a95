"""Tests of predictive distributions against numerical integrals."""

import itertools
import math
import pickle

import numpy as np
import pytest
from common import fed, raises
from hypothesis import given, settings
from hypothesis import strategies as st
from river import proba
from scipy import integrate, special, stats

import river_mondrian as rm
from river_mondrian.distributed import ShardedForest


def drawn(seed, n=4):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(n))
    scales = np.exp(rng.normal(size=n))
    centres = np.full(n, rng.normal())
    return rm.PredictiveDistribution(weights, centres, scales, rng.choice([3.0, 9.0, np.inf], n))


def naive_cdf(law, y):
    parts = zip(law.weights, law.scales, law.freedoms, strict=True)
    return math.fsum(
        w * (stats.norm if math.isinf(v) else stats.t(v)).cdf((y - law.mode) / s)
        for w, s, v in parts
    )


@pytest.mark.parametrize("seed", range(4))
def test_its_functions_agree(seed):
    law = drawn(seed)
    for y in law.mode + np.array([-5.0, -0.3, 0.0, 1e-3, 2.0, 40.0]):
        assert law.cdf(y) == pytest.approx(naive_cdf(law, y), rel=1e-9)
        slope = (law.cdf(y + 1e-5) - law.cdf(y - 1e-5)) / 2e-5
        assert law.pdf(y) == law(y) == pytest.approx(slope, rel=1e-4, abs=1e-9)

    def square(t):
        x = math.sinh(t)
        return 2.0 * x**2 * law(law.mode + x) * math.cosh(t)

    # Tails decrease with the third power, so the rest of the integral is 1e-5 of the variance.
    second = integrate.quad(square, 0.0, math.asinh(1e5 * law.scales.max()), limit=400)[0]
    assert law.var == pytest.approx(second, rel=1e-3)
    assert law.mean == pytest.approx(law.mode) and law.median == law.mode


@given(st.integers(0, 2**20), st.floats(1e-6, 1.0 - 1e-6))
@settings(max_examples=60)
def test_quantiles_are_the_inverse(seed, probability):
    law = drawn(seed)
    assert law.cdf(law.quantile(probability)) == pytest.approx(probability, rel=1e-6)
    low, high = law.interval(0.8)
    assert law.cdf(high) - law.cdf(low) == pytest.approx(0.8, abs=1e-9)


@pytest.mark.parametrize("away", [0.0, 0.4, -3.0, 200.0])
def test_the_score_is_its_integral(seed, away):
    law = drawn(seed)
    y = law.mode + away

    def gap(t):
        x = law.mode + math.sinh(t)
        return (naive_cdf(law, x) - (x >= y)) ** 2 * math.cosh(t)

    end, place = math.asinh(1e4 * law.scales.max()), math.asinh(away)
    parts = ((-end, place), (place, end))
    expected = sum(integrate.quad(gap, a, b, limit=400)[0] for a, b in parts)
    assert law.crps(y) == pytest.approx(expected, rel=1e-5)


def test_samples_follow_it():
    law, rng = drawn(7), np.random.default_rng(0)
    levels = [law.cdf(law.sample(rng)) for _ in range(2000)]
    # A Kolmogorov-Smirnov test at level 1e-4.
    assert stats.kstest(levels, "uniform").pvalue > 1e-4


def test_a_point_is_allowed_to_be_narrow():
    law = rm.PredictiveDistribution(np.ones(1), np.ones(1), np.full(1, 1e-290), np.full(1, 3.0))
    assert law.cdf(0.9) == pytest.approx(0.0)
    assert law.crps(1.5) == pytest.approx(0.5)
    assert math.isfinite(law.log_pdf(2.0))


def test_a_component_of_weight_0_has_no_variance():
    weights, centres = np.array([0.5, 0.5, 0.0]), np.array([-1.0, 1.0, 9.0])
    freedoms = np.array([math.inf, math.inf, 1.0])
    assert rm.PredictiveDistribution(weights, centres, np.ones(3), freedoms).var == 2.0


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, math.nan])
def test_levels_are_checked(value):
    law = drawn(0)
    raises(ValueError, "probability", lambda: law.quantile(value))
    raises(ValueError, "level", lambda: law.interval(value))


def fourier(**params):
    return rm.RidgeRegressor(rm.RandomFourierFeatures(8, seed=1), **params)


REGRESSORS = {
    "exact": lambda: rm.MondrianForestRegressor(3, seed=1),
    "adaptive": lambda: rm.AdaptiveMondrianForestRegressor(3, seed=1),
    "ridge": fourier,
    "ridge, known noise": lambda: fourier(noise_variance=0.2),
    "sharded": lambda: ShardedForest(rm.MondrianForestRegressor(3, seed=1), n_shards=1),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_all_regressors_return_one_class(name):
    model, x = REGRESSORS[name](), {"a": 0.5}
    before = model.predict_one(x, with_dist=True)
    assert before.mean == before.median == before.mode == model.predict_one(x) == 0.0
    assert before.var == math.inf and before.interval(0.5) == (-math.inf, math.inf)
    assert before.log_pdf(1.0) == -math.inf and before.crps(1.0) == math.inf
    fed(model, [({"a": i / 30}, math.sin(i) + i) for i in range(30)])
    found = model.predict_one(x, with_dist=True)
    assert type(found) is type(before) is rm.PredictiveDistribution
    assert isinstance(found, proba.base.ContinuousDistribution)
    assert found.n_samples == 30
    if name != "adaptive":
        assert found.mean == pytest.approx(model.predict_one(x))
    low, high = found.interval(0.9)
    assert low < found.median < high and low < found.mode < high
    assert found.pdf(found.mode) >= max(found.pdf(y) for y in np.linspace(low, high, 201)) - 1e-12
    assert found.sample(3) == found.sample(np.random.default_rng(3))
    assert repr(found).startswith("PredictiveDistribution(mean=") and "\n" not in repr(found)
    for learn in (found.update, found.revert):
        with pytest.raises(TypeError, match="the model learns"):
            learn(1.0)
    assert pickle.loads(pickle.dumps(found, 0)).quantile(0.3) == found.quantile(0.3)


def test_ridge_regression_predicts_by_the_t_distribution():
    """The predictive density is exactly the ratio of marginal likelihoods."""
    rng, model = np.random.default_rng(0), fourier()
    for i in range(40):
        x, y = {"a": rng.normal(), "b": rng.normal()}, rng.normal()
        before = model.log_marginal_likelihood
        found = model.predict_one(x, with_dist=True)
        model.learn_one(x, y)
        if i > 1:
            gained = model.log_marginal_likelihood - before
            assert found.log_pdf(y) == pytest.approx(gained, rel=1e-8)
            assert found.freedoms.tolist() == [i - 1.0]


ONE, TWO, T = np.ones(1), np.array([0.5, 0.5]), np.array([3.0, math.inf])
LAWS = {
    "normal point": rm.PredictiveDistribution(ONE, 3 * ONE, 0 * ONE),
    "t point": rm.PredictiveDistribution(ONE, 3 * ONE, 0 * ONE, 29 * ONE),
    "points": rm.PredictiveDistribution(TWO, np.array([3.0, 5.0]), 0 * TWO),
    "point and t": rm.PredictiveDistribution(TWO, 3 * ONE.repeat(2), np.array([1.0, 0.0]), T),
    "tiny": rm.PredictiveDistribution(TWO, 3 * ONE.repeat(2), np.array([1e-320, 1.0]), T),
    "tiny normals": rm.PredictiveDistribution(TWO, np.array([3.0, 5.0]), 1e-310 * TWO),
    "huge": rm.PredictiveDistribution(TWO, 3 * ONE.repeat(2), np.array([1e200, 1.0]), T),
    "unknown": rm.PredictiveDistribution(ONE, 3 * ONE, math.inf * ONE),
}


@pytest.mark.parametrize("name", LAWS)
def test_points_and_tiny_scales_have_all_methods(name):
    """No method fails, even if a program makes NumPy raise errors."""
    law = LAWS[name]
    with np.errstate(all="raise"):
        assert not math.isnan(law.mean + law.mode + law.var)
        for y in (3.0, 4.0, -1e120):
            assert law.crps(y) >= 0.0
            assert law.pdf(y) >= 0.0 and not math.isnan(law.log_pdf(y))
            assert 0.0 <= law.cdf(y) <= 1.0
        low, high = law.interval(0.9)
        assert low <= law.median <= high
        assert repr(law) and not math.isnan(law.sample(0))
    if name.endswith("point"):
        assert law.crps(4.0) == 1.0 and law.crps(3.0) == 0.0
        assert (low, high, law.sample()) == (3.0, 3.0, 3.0)


@pytest.mark.parametrize("v", [3.0, 5.0, 50.0, 200.0])
@pytest.mark.parametrize("tail", [1e-300, 1e-308, 5e-324])
def test_extreme_quantiles_of_t_distributions(v, tail):
    """The logarithm of the tail is exact in terms of a hypergeometric function."""
    z = rm.PredictiveDistribution(ONE, 0 * ONE, ONE, v * ONE).quantile(tail)
    assert z < 0.0
    far, a = math.hypot(1.0, z / math.sqrt(v)), v / 2.0
    w = far**-2
    found = -v * math.log(far) + 0.5 * math.log1p(-w) - special.betaln(a, 0.5) - math.log(v)
    found += math.log(special.hyp2f1(a + 0.5, 1.0, a + 1.0, w))
    assert found == pytest.approx(math.log(tail), rel=1e-6)
    for name in ("t point", "point and t"):
        assert LAWS[name].quantile(tail) <= 3.0


def test_the_widest_interval():
    level = math.nextafter(1.0, 0.0)
    assert LAWS["points"].interval(level) == (3.0, 5.0)
    law = rm.PredictiveDistribution(TWO, np.array([-4.0, 4.0]), ONE.repeat(2))
    low, high = law.interval(level)
    assert low == pytest.approx(-high) and low == law.quantile(0.5 - level / 2.0)


def test_the_score_of_a_point_and_a_distribution():
    """The score is the integral of (F(x) - 1{x >= y})^2, where F jumps at the point."""
    law, y = LAWS["point and t"], 4.0

    def square(x):
        return (law.cdf(x) - (x >= y)) ** 2

    ends = (-1e3, -10.0, 3.0, y, 10.0, 1e3)
    parts = (integrate.quad(square, *both, limit=400)[0] for both in itertools.pairwise(ends))
    assert law.crps(y) == pytest.approx(sum(parts), rel=1e-4)


def test_constant_targets_are_scored():
    model = rm.RidgeRegressor(rm.RandomFourierFeatures(6, seed=1))
    fed(model, [({"a": i / 30}, 3.0) for i in range(30)])
    assert model.predict_one({"a": 0.5}, with_dist=True).crps(4.0) == pytest.approx(1.0)
