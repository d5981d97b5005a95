"""Tests of the target posterior: dense reference, quadrature, hyperparameters, learned tails."""

import math

import numpy as np
import pytest
from common import as_kernels, learn_rows
from naive import gaussian as naive
from naive import tails as twin
from scipy import stats

from river_mondrian.partitions.mondrian.tree_store import Partitions
from river_mondrian.posteriors.targets import components, learning, messages, scale_mixture
from river_mondrian.posteriors.targets.target_trees import LAST_CHANGE, TargetTrees

moments_of_branch, is_used = as_kernels(components.moments_of_branch, scale_mixture.is_used)


SETTINGS = [{}, {"min_samples_split": 6}, {"lifetime": 2.0}]
SETTINGS += [{"lifetime": 1.5, "min_samples_split": 3}]


def draw(n, seed, dims=3, places=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, dims))
    if places:
        X = rng.random((places, dims))[rng.integers(0, places, n)]
    X = X.astype(np.float32).astype(float)
    return X, 50.0 + np.sin(5.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


TREE_ARGUMENTS = {"lifetime", "directions", "max_nodes", "scale"}


def make(n_trees=1, seed=0, plain_means=False, **params):
    own = {name: params.pop(name) for name in TREE_ARGUMENTS & params.keys()}
    partitions = Partitions(n_trees, **{"lifetime": math.inf} | own, seed=seed)
    return TargetTrees(partitions, plain_means, **params)


def grow(X, y, w=None, trees=None, **params):
    if trees is None:
        trees = make(**params)
        trees.add_inputs(list(range(X.shape[1])), X[0])
    return learn_rows(trees, X, y, w)


def as_twin(trees, t, X):
    """Return a tree's nodes, with the points below each node."""
    nodes = trees.reader.read(t)
    for node in nodes:
        node.points = []
    for p, x in enumerate(X):
        for i in naive.route(nodes, x):
            nodes[i].points.append(p)
    return nodes


def hyperparameters(trees, t):
    """Return a tree's gamma2, and its noise variance in units of gamma1."""
    return float(trees.trees[t].gamma2), float(trees.trees[t].noise)


def dense(trees, t, X, y, w=None):
    gamma2, noise = hyperparameters(trees, t)
    w = np.ones(len(y)) if w is None else w
    nodes = as_twin(trees, t, X)
    return naive.Posterior(nodes, y, w, gamma2, noise, float(np.average(y, weights=w)))


def assert_dense(trees, X, y, w):
    """Check that means and variances of a tree's nodes equal the reference's."""
    twin, nodes = dense(trees, 0, X, y, w), trees.reader.read(0)
    variances = 2.0 * trees.hyperparameters["prior_variance"] * np.diag(twin.cov)
    np.testing.assert_allclose([node.mean for node in nodes], twin.mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose([node.variance for node in nodes], variances, rtol=0, atol=1e-8)


def kernel_moments(eta, span, gamma2, start):
    return moments_of_branch(eta, span, gamma2, math.exp(-gamma2 * start))


@pytest.mark.blas
@pytest.mark.parametrize("params", SETTINGS)
@pytest.mark.parametrize("places", [0, 15])
def test_the_posterior_is_the_dense_one(params, places, seed):
    X, y = draw(150, seed, places=places)
    w = np.random.default_rng(seed).choice([0.5, 1.0, 3.0], len(y))
    trees = grow(X, y, w, seed=seed, **params)
    assert_dense(trees, X, y, w)
    # The prior variance of a target is the variance of all targets.
    found = trees.hyperparameters
    end = naive.sigmoid(found["prior_rate"] * params.get("lifetime", math.inf)) - 0.5
    variance = np.cov(y, aweights=w, ddof=0)
    assert 2.0 * found["prior_variance"] * end + found["noise_variance"] == pytest.approx(variance)


@pytest.mark.blas
@pytest.mark.parametrize("params", SETTINGS)
@pytest.mark.parametrize("places", [0, 15])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_mixture_is_the_twins(params, places, seed):
    X, y = draw(120, seed, places=places)
    trees = grow(X, y, n_trees=2, seed=seed, **params)
    ones = np.ones(len(y))
    queries = np.vstack([X[:20], draw(20, seed + 9)[0], 3.0 * draw(20, seed + 5)[0] - 1.0])
    queries = queries.astype(np.float32).astype(float)
    many = trees.predict_rows(queries, 1)
    for x, (mean, variance), (twins, _) in zip(
        queries, many, parts(trees, X, y, ones, queries), strict=True
    ):
        weights, means, variances = np.array([part for part in twins if part[0] > 1e-15]).T
        trees.vector[:3] = x
        status, got = trees.predict_mixture()
        assert status == -1
        kept = got.weights > 1e-15
        np.testing.assert_allclose(got.weights[kept], weights, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(got.centres[kept], means, rtol=0, atol=1e-8)
        np.testing.assert_allclose(got.scales[kept] ** 2, variances, rtol=1e-7, atol=1e-9)
        assert trees.predict() == -1
        assert trees.out[0].tolist() == [mean, variance]
        assert mean == pytest.approx(got.mean, abs=1e-9)
        assert variance == pytest.approx(got.var, rel=1e-7)


@pytest.mark.blas
def test_the_quadrature_of_a_branch_is_close_to_a_fine_one():
    positions, shares = np.polynomial.legendre.leggauss(300)
    s = (positions + 1.0) / 2.0
    for _ in range(2):
        shares = shares * 6.0 * s * (1.0 - s)
        s = s * s * (3.0 - 2.0 * s)
    quantiles, shares = s, shares / shares.sum()
    rng = np.random.default_rng(0)
    for _ in range(300):
        gamma2, start = 10.0 ** rng.uniform(-2, 2), 10.0 ** rng.uniform(-3, 1)
        span = math.inf if rng.random() < 0.3 else 10.0 ** rng.uniform(-3, 1)
        eta = 10.0 ** rng.uniform(-3, 3)
        low = naive.sigmoid(gamma2 * start)
        high = naive.sigmoid(gamma2 * (start + span))
        if high - low < 1e-6:
            continue
        # Quantiles of the time; most of their levels are close to 0 or 1.
        with np.errstate(divide="ignore"):
            times = -np.log1p(quantiles * math.expm1(-eta * span)) / eta
        risen = [(naive.sigmoid(gamma2 * (start + time)) - low) / (high - low) for time in times]
        fine = [shares @ np.array(risen) ** k for k in (1, 2)]
        got = moments_of_branch(eta, span, gamma2, math.exp(-gamma2 * start))
        np.testing.assert_allclose(got, fine, rtol=0, atol=2e-4)


@pytest.mark.parametrize("schedule", [0.7, 3.0, math.inf])
@pytest.mark.parametrize("seed", [0, 1])
def test_means_are_those_of_the_cells(schedule, seed):
    X, y = draw(200, seed)
    trees = grow(X, y, n_trees=2, seed=seed, plain_means=True)
    trees.forest.horizon = schedule
    twins = [as_twin(trees, t, X) for t in range(2)]
    queries = np.vstack([X[:30], 3.0 * draw(30, seed + 5)[0] - 1.0])
    queries = queries.astype(np.float32).astype(float)
    got = trees.predict_rows(queries, 1)[:, 0]
    expected = [np.mean([naive.cell_mean(tree, x, y, schedule) for tree in twins]) for x in queries]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9)


def assert_up_to_date(trees):
    """Check that all messages equal the messages of a new pass over the trees."""
    before = trees.__getstate__()["nodes"].rows
    pair = hyperparameters(trees, 0)
    for gamma2, noise in ((2.0 * pair[0], pair[1]), pair):
        learning.put_hyperparameters(trees.forest, gamma2, noise, gamma2)
    messages.update(trees.forest, 0, trees.n_trees)
    for rows, old in zip(trees.__getstate__()["nodes"].rows, before, strict=True):
        np.testing.assert_array_equal(rows, old)


def test_hyperparameters_change_when_the_samples_have_doubled_and_then_stay():
    X, y = draw(5000, 2)
    trees, pair, changes = grow(X[:1], y[:1], n_trees=2), None, []
    for n in range(2, len(y) + 1):
        grow(X[n - 1 : n], y[n - 1 : n], trees=trees)
        if hyperparameters(trees, 0) != pair:
            changes.append(n)
        pair = hyperparameters(trees, 0)
    assert changes == [1 << i for i in range(1, LAST_CHANGE.bit_length())]
    # Reads must not return values from before a change.
    assert_up_to_date(trees)


def test_fixed_hyperparameters_are_kept():
    X, y = draw(600, 0)
    fixed = {"gamma1": 2.0, "gamma2": 0.7, "noise_variance": 0.01}
    trees = grow(X, y, n_trees=2, **fixed)
    assert [*trees.hyperparameters.values()] == pytest.approx([1.0, 0.7, 0.01])
    for noise in (0.02, 0.2):
        trees = grow(X[:512], y[:512], n_trees=2, noise_variance=noise)
        found = trees.hyperparameters
        assert found["noise_variance"] == pytest.approx(noise)
        assert found["prior_variance"] + noise == pytest.approx(y[:512].var())
    trees = grow(X, y, n_trees=2, gamma1=3.0)
    assert 2.0 * trees.hyperparameters["prior_variance"] == 3.0


def test_only_blocks_of_enough_samples_are_cut():
    X, y = draw(500, 0)
    for least in (2, 3, 10):
        nodes = grow(X, y, min_samples_split=least).reader.read(0)
        assert all(node.is_leaf == (node.n_samples < least) for node in nodes)
        assert sum(node.n_samples for node in nodes if node.is_leaf) == 500


# The learned distribution of targets against a reference, and the coverage of intervals.


def parts(trees, X, y, w, queries):
    """Yield the components of the reference's predictions, and the variance of the targets."""
    scale, lifetime = 2.0 * trees.hyperparameters["prior_variance"], float(trees.trees[0].lifetime)
    twins = [dense(trees, t, X, y, w) for t in range(trees.n_trees)]
    whole = float(np.cov(y, aweights=w, ddof=0))
    for x in queries:
        found = [p for t in twins for p in naive.mixture(t, x, scale, lifetime, kernel_moments)]
        yield [(weight / trees.n_trees, *rest) for weight, *rest in found], whole


@pytest.mark.blas
@pytest.mark.parametrize("params", [{}, {"lifetime": 1.5, "min_samples_split": 3}])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_weights_and_the_distribution_are_the_twins(params, seed):
    X, y = draw(120, seed)
    rng = np.random.default_rng(seed)
    # These targets are far away, but within the fences.
    y[rng.integers(0, len(y), 8)] += 12.0
    w = rng.choice([0.0, 0.5, 1.0, 3.0], len(y))
    w[:2] = 1.0
    start = 30
    trees = grow(X[:start], y[:start], w[:start], n_trees=2, learns_tails=True, **params)
    trees.tails[:] = scale_mixture.new_scale_mixture()
    used = []
    for i in range(start, len(y)):
        if is_used(i) and w[i] > 0.0:
            ((found, whole),) = parts(trees, X[:i], y[:i], w[:i], X[i : i + 1])
            noise = trees.hyperparameters["noise_variance"] * (1.0 / w[i] - 1.0)
            moved = [(weight, mean, own + noise) for weight, mean, own in found]
            used.append(twin.densities(y[i], moved, whole))
        grow(X[i : i + 1], y[i : i + 1], w[i : i + 1], trees=trees)
    assert len(used) >= 5
    expected = twin.weights(used)
    got = list(trees.tail_weights.values())
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-12)
    assert np.abs(np.array(got) - twin.weights([])).max() > 0.1
    queries = np.vstack([X[:5], 3.0 * X[5:10] - 1.0]).astype(np.float32).astype(float)
    for x, (found, whole) in zip(queries, parts(trees, X, y, w, queries), strict=True):
        expanded = [
            (weight * share, mean, twin.variance(own, scale, whole))
            for weight, mean, own in found
            for share, scale in zip(expected, twin.SCALES, strict=True)
        ]
        trees.vector[:3] = x
        _, mixture = trees.predict_mixture()
        for v in (y[0], y.max(), y.mean() + 5.0):
            density = sum(p * stats.norm.pdf(v, m, math.sqrt(s)) for p, m, s in expanded)
            assert mixture.log_pdf(v) == pytest.approx(math.log(density), abs=1e-6)
        trees.predict()
        assert trees.out[0, 0] == pytest.approx(mixture.mean, abs=1e-9)
        assert trees.out[0, 1] == pytest.approx(mixture.var, rel=1e-7)
        assert trees.predict_rows(x[None], 1).tolist() == trees.out.tolist()


def test_the_laws_are_the_twins():
    laws = [twin.law(*law) for law in twin.LAWS]
    np.testing.assert_allclose(scale_mixture.LOGNORMALS, laws, atol=1e-15)
    np.testing.assert_allclose(np.sum(laws, axis=1), 1.0)
    first = scale_mixture.new_scale_mixture()[: scale_mixture.N_SCALES]
    np.testing.assert_allclose(first, twin.weights([]), atol=1e-15)


def test_which_targets_are_used():
    used = np.array([is_used(n) for n in range(100_000)])
    assert used[: scale_mixture.EARLY].mean() == pytest.approx(1 / 8, abs=0.01)
    assert used[scale_mixture.EARLY :].mean() == pytest.approx(1 / 16, abs=1e-3)
    assert scale_mixture.count_used(500, 1000) == used[500:1500].sum()
    # If a stream is periodic, each phase of the period is used equally often.
    for cycle in (2, 7, 8, 16, 24, 168):
        rates = [used[k::cycle].mean() for k in range(cycle)]
        assert max(rates) < 1.5 / 16
        assert min(rates) > 0.5 / 16


@pytest.mark.parametrize("y", [75.0, 25.0, 1e100, -1e100, 1e3])
def test_a_target_from_far_away_widens_the_law_unless_it_is_set_aside(y):
    X, targets = draw(200, 0)
    trees = grow(X, targets, n_trees=2, learns_tails=True)
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
