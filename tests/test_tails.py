"""The learned law of targets against its twin, and what it is for: intervals that hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from naive import gaussian as naive
from naive import tails as twin
from scipy import stats
from test_gaussian import dense, draw, grow, kernel_moments

from river_mondrian import MondrianForestRegressor
from river_mondrian.compiling.kernels import kernel
from river_mondrian.posteriors.targets import scale_mixture

# Every test of a law uses this level, divided by how many comparisons it makes.
LEVEL = 0.01


@kernel
def is_used(n: int) -> bool:
    return scale_mixture.is_used(n)


def parts(trees, X, y, w, x):
    """Return the components of a prediction by the dense twin, and the targets' variance."""
    scale, lifetime = 2.0 * trees.hyperparameters["prior_variance"], float(trees.trees[0].lifetime)
    found = []
    for t in range(trees.n_trees):
        tree = dense(trees, t, X, y, w)
        for weight, mean, variance in naive.mixture(tree, x, scale, lifetime, kernel_moments):
            found.append((weight / trees.n_trees, mean, variance))
    mean = np.average(y, weights=w)
    return found, float(np.average((y - mean) ** 2, weights=w))


@pytest.mark.blas
@pytest.mark.parametrize("params", [{}, {"lifetime": 1.5, "min_samples_split": 3}])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_weights_and_the_distribution_are_the_twins(params, seed):
    X, y = draw(120, seed)
    rng = np.random.default_rng(seed)
    # Far out, and within the fences.
    y[rng.integers(0, len(y), 8)] += 12.0
    w = rng.choice([0.0, 0.5, 1.0, 3.0], len(y))
    w[:2] = 1.0
    start = 30
    trees = grow(X[:start], y[:start], w[:start], n_trees=2, learns_law=True, **params)
    trees.law_numbers[:] = scale_mixture.new_scale_mixture()
    used = []
    for i in range(start, len(y)):
        if is_used(i) and w[i] > 0.0:
            components, whole = parts(trees, X[:i], y[:i], w[:i], X[i])
            noise = trees.hyperparameters["noise_variance"] * (1.0 / w[i] - 1.0)
            moved = [(weight, mean, own + noise) for weight, mean, own in components]
            used.append(twin.densities(y[i], moved, whole))
        grow(X[i : i + 1], y[i : i + 1], w[i : i + 1], trees=trees)
    assert len(used) >= 5
    expected = twin.weights(used)
    got = list(trees.tail_weights.values())
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-12)
    assert np.abs(np.array(got) - twin.weights([])).max() > 0.1

    for x in np.vstack([X[:5], 3.0 * X[5:10] - 1.0]).astype(np.float32).astype(float):
        components, whole = parts(trees, X, y, w, x)
        expanded = [
            (weight * share, mean, twin.variance(own, scale, whole))
            for weight, mean, own in components
            for share, scale in zip(expected, twin.SCALES, strict=True)
        ]
        trees.vector[:3] = x
        _, mixture = trees.predict_mixture()
        for v in (y[0], y.max(), y.mean() + 5.0):
            density = sum(p * stats.norm.pdf(v, m, math.sqrt(s)) for p, m, s in expanded)
            assert mixture.log_pdf(v) == pytest.approx(math.log(density), abs=1e-6)
        trees.predict()
        assert trees.out[0, 0] == pytest.approx(mixture.mean, abs=1e-9)
        assert trees.out[0, 1] == pytest.approx(mixture.variance, rel=1e-7)
        assert trees.predict_rows(x[None], 1).tolist() == trees.out.tolist()


def test_the_laws_are_the_twins():
    np.testing.assert_allclose(
        scale_mixture.LAWS, [twin.law(*law) for law in twin.LAWS], atol=1e-15
    )
    np.testing.assert_allclose(scale_mixture.LAWS.sum(axis=1), 1.0)
    np.testing.assert_allclose(
        scale_mixture.new_scale_mixture()[: scale_mixture.N_SCALES], twin.weights([]), atol=1e-15
    )


def test_at_scale_1_alone_it_is_the_normal_law():
    X, y = draw(300, 1)
    plain, learned = (grow(X, y, n_trees=3, learns_law=learns) for learns in (False, True))
    before, after = (trees.__getstate__() for trees in (plain, learned))
    for a, b in zip(before["nodes"].rows, after["nodes"].rows, strict=True):
        np.testing.assert_array_equal(a, b)
    queries = np.vstack([X[:20], 3.0 * X[20:40] - 1.0])
    normal = plain.predict_rows(queries, 1)
    assert (learned.predict_rows(queries, 1)[:, 1] != normal[:, 1]).all()
    learned.law_numbers[: scale_mixture.N_SCALES] = np.array(scale_mixture.SCALES) == 1.0
    np.testing.assert_allclose(learned.predict_rows(queries, 1), normal, rtol=1e-12)
    assert plain.tail_weights == {1.0: 1.0}


def test_which_targets_are_used():
    used = np.array([is_used(n) for n in range(100_000)])
    assert used[: scale_mixture.EARLY].mean() == pytest.approx(1 / 8, abs=0.01)
    assert used[scale_mixture.EARLY :].mean() == pytest.approx(1 / 16, abs=1e-3)
    assert scale_mixture.count_used(500, 1000) == used[500:1500].sum()
    # Whatever the cycle of a stream, every part of it tells as often.
    for cycle in (2, 7, 8, 16, 24, 168):
        rates = [used[k::cycle].mean() for k in range(cycle)]
        assert max(rates) < 1.5 / 16
        assert min(rates) > 0.5 / 16


@pytest.mark.parametrize("y", [75.0, 25.0, 1e100, -1e100, 1e3])
def test_a_target_from_far_away_widens_the_law_unless_it_is_set_aside(y):
    X, targets = draw(200, 0)
    trees = grow(X, targets, n_trees=2, learns_law=True)
    before = trees.tail_weights
    n = next(n for n in range(200, 300) if is_used(n))
    grow(X[: n - 200], targets[: n - 200], trees=trees)
    grow(X[:1], np.array([y]), trees=trees)
    after = trees.tail_weights
    if not trees.forest.low_fence <= y <= trees.forest.high_fence:
        assert abs(y - 50.0) > 30.0
        assert after == before
        return
    assert abs(y - 50.0) < 30.0
    assert math.fsum(after.values()) == pytest.approx(1.0)
    assert after[8.0] > 2.0 * before[8.0]


NOISES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "Laplace": lambda rng, n: rng.laplace(size=n),
    "t": lambda rng, n: rng.standard_t(2, size=n),
}


def coverage(noise, law):
    """Return how often the 50, 80 and 95 % intervals hold, and of how many targets."""
    rng = np.random.default_rng(0)
    n, start = 3000, 1000
    X = rng.random((n, 2))
    y = np.sin(5.0 * X[:, 0]) + X[:, 1] + 0.3 * NOISES[noise](rng, n)
    model = MondrianForestRegressor(tails=law, seed=1)
    levels = []
    for i, (row, target) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        x = dict(enumerate(row))
        if i >= start:
            levels.append(abs(2.0 * model.predict_mixture_one(x).cdf(target) - 1.0))
        model.learn_one(x, target)
    return {q: float(np.mean(np.array(levels) <= q)) for q in (0.5, 0.8, 0.95)}, n - start


@pytest.mark.blas
@pytest.mark.parametrize("noise", NOISES)
def test_intervals_hold_under_noise_of_any_tails(noise):
    found, n = coverage(noise, "learned")
    for q, share in found.items():
        # The level's share, and 2 points for a law that is only learned.
        most = stats.norm.isf(LEVEL / 18.0) * math.sqrt(q * (1.0 - q) / n) + 0.02
        assert abs(share - q) < most


@pytest.mark.blas
def test_normal_intervals_do_not_hold_under_heavy_tails():
    found, _ = coverage("t", "normal")
    assert found[0.95] < 0.9
    assert found[0.8] < 0.75
