"""The kernels to which partitions tend, against closed forms, integrals and their twins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from test_directions import LEVEL, SEEDS, THREE, THREE_ROWS, learned, mapping

from river_mondrian import MondrianFeatures
from river_mondrian.arguments import laplace_transform

# Kernels.

LIFETIMES = {
    "fixed": 1.5,
    "gamma": stats.gamma(2.0, scale=0.8),
    "shifted": stats.gamma(1.5, loc=0.3, scale=0.5),
    "exponential": stats.expon(scale=1.2),
    "uniform": stats.uniform(0.5, 2.0),
    "half normal": stats.halfnorm(scale=1.5),
}


@pytest.mark.blas
@pytest.mark.parametrize("name", LIFETIMES)
@pytest.mark.parametrize("directions", [None, THREE, 60])
def test_partitions_have_the_limit_kernel(name, directions):
    X = np.random.default_rng(1).random((12, 2))
    pairs = [(0, 1), (2, 9), (10, 11)]
    for seed in SEEDS:
        features = learned(X, 1500, LIFETIMES[name], directions=directions, seed=seed)
        for i, j in pairs:
            x, y = mapping(X[i]), mapping(X[j])
            expected = features.limit_kernel(x, y)
            # The expectation with 60 random directions is above the limit by less than this.
            excess = 0.0 if directions != 60 else 0.01
            shared = round(1500 * features.kernel(x, y))
            level = LEVEL / (len(pairs) * len(SEEDS) * 2)
            low = stats.binomtest(shared, 1500, expected, "less").pvalue
            high = stats.binomtest(shared, 1500, min(expected + excess, 1.0), "greater").pvalue
            assert min(low, high) > level


@pytest.mark.blas
@pytest.mark.parametrize("d", [2, 3, 6])
def test_random_directions_tend_to_the_isotropic_kernel(d):
    rng = np.random.default_rng(d)
    x, y = rng.random((2, d))
    features = learned(np.array([x, y]), 4000, 1.0, directions=100, seed=1)
    expected = math.exp(-float(np.linalg.norm(x - y)))
    assert features.limit_kernel(mapping(x), mapping(y)) == pytest.approx(expected, rel=1e-12)
    shared = features.kernel(mapping(x), mapping(y))
    assert abs(shared - expected) < 0.005 + 4.0 * math.sqrt(0.25 / 4000)


@pytest.mark.parametrize("name", LIFETIMES)
def test_closed_forms_are_laplace_transforms(name):
    lifetime = LIFETIMES[name]
    for h in (0.0, 1e-9, 0.2, 3.0):
        found = laplace_transform(lifetime, h)
        if name == "fixed":
            assert found == math.exp(-1.5 * h)
        else:
            u = (np.arange(200_000) + 0.5) / 200_000
            assert found == pytest.approx(np.exp(-h * lifetime.ppf(u)).mean(), rel=1e-4)


def test_the_formulas_of_corollary_4_2():
    h = 0.7
    assert laplace_transform(stats.gamma(2.5, scale=1 / 3.0), h) == pytest.approx(
        (3 / (3 + h)) ** 2.5
    )
    expected = (math.exp(-0.5 * h) - math.exp(-2.0 * h)) / (h * 1.5)
    assert laplace_transform(stats.uniform(0.5, 1.5), h) == pytest.approx(expected)


@pytest.mark.blas
def test_the_limit_kernel_in_our_units():
    x, y = {"a": 0.2, "b": 0.9}, {"a": 0.5, "b": 0.4, "c": 7.0}
    gap = np.array([-0.3, 0.5])
    for directions, h in [
        (None, 0.8),
        (THREE, float(np.abs(THREE_ROWS @ gap).sum())),
        (5, float(np.linalg.norm(gap))),
    ]:
        features = MondrianFeatures(lifetime=1.5, directions=directions)
        assert features.limit_kernel(x, y) == pytest.approx(math.exp(-1.5 * h))
    with pytest.raises(ValueError, match="'a' must be finite"):
        features.limit_kernel({"a": math.inf}, y)
    with pytest.raises(ValueError, match="auto"):
        MondrianFeatures(lifetime="auto").limit_kernel(x, y)
