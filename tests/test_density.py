"""Tests of density forests: cells of Mondrian partitions of the whole space, and estimates."""

import itertools
import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from attack.judging import some
from common import as_kernels, fed, ordered_kernel, raises
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import density as naive
from naive import pivots, stit
from scipy import stats
from scipy.special import exp1

from river_mondrian import DensityForest, exact_density
from river_mondrian.density import walks
from river_mondrian.density.mixture import PivotForest
from river_mondrian.density.trees import LEVELS
from river_mondrian.density.walks import LEAST_LOG, room_for_faces
from river_mondrian.records import Float64s, Memory

revealed, log_volume = as_kernels(walks.reveal, walks.log_polytope_volume, decorator=ordered_kernel)


LEVEL = 0.01
SEEDS = range(4)
TRIANGLE = [{"x00": 1.0}, {"x01": 1.0}, {"x00": 0.7, "x01": -0.7}]


def mapping(row):
    return {f"x{j:02}": float(value) for j, value in enumerate(row)}


def learned(X, **arguments):
    return fed(DensityForest(**arguments), map(mapping, X))


def cells(forest, x):
    """Return the count and the corners of a sample's cell in each tree, shape (trees, 2, D)."""
    trees = forest._trees
    forest._features.write(forest._features.read(x), trees.vector)
    trees.vector[:] = np.where(np.isnan(trees.vector), trees.means, trees.vector)
    counts, found = [], []
    for t in range(forest.n_estimators):
        lifetime = trees.trees[t].lifetime
        counts.append(revealed(trees.forest, t, Float64s.of(trees.vector), lifetime))
        found.append(trees.cell.copy())
    return np.array(counts), np.array(found)


def together(forest, x, y):
    """Return the number of trees in which two samples share a cell."""
    return int((cells(forest, x)[1] == cells(forest, y)[1]).all(axis=(1, 2)).sum())


def parts(forest, x):
    """Return the density in each tree."""
    forest.log_density_one(x)
    estimates = forest._trees.estimates.words
    return estimates["count"] * np.exp(-estimates["log_volume"]) / forest.n_samples


def keys(seed, n):
    return np.random.default_rng(seed).integers(1 << 64, size=n, dtype=np.uint64).tolist()


def roots_of(projected, horizon, seed, n_trees, origin=None):
    """Return the reference's trees that have learned samples along the directions."""
    roots, rates = [None] * n_trees, [1.0] * len(projected[0])
    for t, key in enumerate(keys(seed, n_trees)):
        for z in projected:
            roots[t] = pivots.learn(roots[t], key, horizon, rates, z.tolist(), origin)
    return roots


# The kernel estimator has no directions.
ESTIMATORS = [(dims, method) for dims in (1, 2, 4) for method in ("forest", "laplace", "kernel")]
ESTIMATORS += [("oblique", "forest"), ("oblique", "laplace")]
LIFETIMES = [(1.5, False), (None, False), (1.5, True)]
CASES = [(*one, *other) for one, other in itertools.product(ESTIMATORS, LIFETIMES)]


@pytest.mark.parametrize(("dims", "estimator", "lifetime", "start"), some(CASES, 2))
def test_forest_is_the_twin(dims, lifetime, start, estimator):
    """Cells (without directions), densities, and surprises where the density is 0 are equal."""
    is_oblique = dims == "oblique"
    n, dims = (20, 2) if is_oblique else (80, dims)
    matrix = np.array([[1, 0], [0, 1], [0.7, -0.7]]) if is_oblique else np.eye(dims)
    rng = np.random.default_rng(dims)
    X = rng.normal(size=(n, dims))
    X[n // 2 : n // 2 + n // 8] = X[5]
    origin = rng.normal(size=dims)
    more = {"directions": TRIANGLE if is_oblique else None}
    more["origin"] = mapping(origin) if start else None
    forest = learned(X, n_estimators=5, lifetime=lifetime, method=estimator, seed=3, **more)
    horizon, ended = (lifetime or math.inf), lifetime or n ** (1 / (dims + 2))
    rates, start_of_all = [1.0] * len(matrix), (matrix @ origin).tolist() if start else None
    roots = roots_of(X @ matrix.T, horizon, 3, 5, start_of_all)

    def volume(cell):
        return stit.area_between(matrix.tolist(), cell) if is_oblique else naive.volume(cell)

    empty = 0
    for x in [*X[:30], *(3.0 * rng.normal(size=(30, dims))), np.full(dims, -40.0)]:
        z = (matrix @ x).tolist()
        found = [pivots.cell_of(root, horizon, ended, rates, z, start) for root in roots]
        own, counts = [cell for cell, _ in found], [len(inside) for _, inside in found]
        if not is_oblique:
            n_inside, corners = cells(forest, mapping(x))
            np.testing.assert_allclose(corners.transpose(0, 2, 1), own)
            assert n_inside.tolist() == counts
        kernel = (ended / 2.0) ** dims
        expected = naive.density(counts, list(map(volume, own)), estimator, n, kernel)
        rel, rel_of_surprises = (1e-9, 1e-9) if is_oblique else (1e-12, 1e-6)
        assert forest.density_one(mapping(x)) == pytest.approx(expected, rel=rel)
        if expected > 0.0:
            continue
        # The last cells that contained a sample count as if they had one sample.
        empty += 1
        volumes = []
        for root in roots:
            end = min(ended, pivots.parted_at(root, horizon, rates, z))
            cell, inside = pivots.cell_of(root, horizon, end, rates, z, start)
            assert inside
            volumes.append((2.0 / end) ** dims if estimator == "kernel" else volume(cell))
        mean = np.mean(volumes) if estimator == "laplace" else stats.hmean(volumes)
        found = forest.surprise_one(mapping(x))
        assert found == pytest.approx(math.log(n * mean), rel=rel_of_surprises)
    assert empty > 0


AXES = [{"a": 1.0, "b": 0.1}, {"b": 1.0}]


def growing(n):
    return 0.5 + 0.05 * n


@pytest.mark.parametrize("lifetime", [1.5, growing, stats.uniform(1.4, 0.2)])
@pytest.mark.parametrize("dims", [1, 3])
def test_samples_share_a_cell_as_often_as_the_laplace_kernel_says(dims, lifetime):
    """The first sample may be far away, and trees may have reached their final lifetime."""
    rng = np.random.default_rng(dims)
    X = rng.normal(size=(20, dims))
    X[0] += 5.0
    # This sample is outside the box of the other samples.
    X[19] = X[7] - 2.0
    n, levels = 1500, []
    pairs = [(X[3], X[3] + 0.2), (X[0], X[0] - 0.3), (X[19], X[19] + 0.1), (X[5], X[6])]
    for seed in SEEDS:
        forest = learned(X, n_estimators=n, lifetime=lifetime, seed=seed)
        for x, y in pairs:
            h = np.abs(x - y).sum()
            share = math.exp(-1.5 * h)
            if hasattr(lifetime, "rvs"):
                share = (math.exp(-1.4 * h) - math.exp(-1.6 * h)) / (0.2 * h)
            found = together(forest, mapping(x), mapping(y))
            levels.append(stats.binomtest(found, n, share).pvalue)
    assert min(levels) > LEVEL / len(levels)


@pytest.mark.parametrize("grows", [False, True])
def test_a_new_feature_extends_the_trees_to_the_law_of_more_dimensions(grows):
    levels = []
    stream = [{"a": 0.0}, {"a": 0.7}, {"a": -1.0}, {"a": 0.1, "b": 5.0}, {"a": 0.3, "b": 4.0}]
    x, y = {"a": 0.1, "b": 4.9}, {"a": 0.3, "b": 5.1}
    far, near = {"a": 0.7, "b": 7.0}, {"a": 0.7, "b": 6.5}
    stream.append(far)
    for seed in SEEDS:
        lifetime = (lambda n: n / 3.0) if grows else 2.0
        forest = fed(DensityForest(1500, lifetime, seed=seed), stream)
        for first, second, h in [(x, y, 0.4), (far, near, 0.5), ({"a": 0.7, "b": 5.0}, x, 0.7)]:
            count = together(forest, first, second)
            levels.append(stats.binomtest(count, 1500, math.exp(-2.0 * h)).pvalue)
        # A sample without the new feature counts as if it had the feature's first value, 5.
        corners = cells(forest, {"a": -1.0, "b": 5.0})[1]
        for side in (corners[:, 1, 1] - 5.0, 5.0 - corners[:, 0, 1], corners[:, 1, 0] + 1.0):
            levels.append(stats.kstest(side, stats.expon(scale=0.5).cdf).pvalue)
        known = [{"b": 5.0} | sample for sample in stream]
        counts_agree(forest, known, [[x["a"], x["b"]] for x in known])
    assert min(levels) > LEVEL / len(levels)


def counts_agree(forest, asked, held):
    """Check that each cell contains its sample, and counts the stored samples inside."""
    held = np.array(held)
    for x in asked:
        z = np.array([x[name] for name in forest.feature_names])
        counts, corners = cells(forest, x)
        lower, upper = corners.transpose(1, 0, 2)
        assert ((lower < z) & (z <= upper)).all()
        inside = (held[:, None] > lower) & (held[:, None] <= upper)
        assert inside.all(axis=2).sum(axis=0).tolist() == counts.tolist()


values = st.floats(-5, 5) | st.integers(-1, 1) | st.just(math.nan) | st.floats(-1e30, 1e30)


samples = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


@settings(max_examples=90)
@given(
    st.lists(samples, min_size=1, max_size=25),
    st.sampled_from([0.3, 5.0, 1e30, None, growing, stats.gamma(2.0)]),
    st.integers(0, 5),
    st.sampled_from([{}, {"origin": {"a": 0.0, "b": 1.0}}, {"directions": AXES}]),
)
def test_trees_are_sound_whatever_is_learned(stream, lifetime, seed, arguments):
    forest = fed(DensityForest(2, lifetime, seed=seed, **arguments), stream)
    assert forest.n_samples == len(stream)
    restored = pickle.loads(pickle.dumps(forest))
    for x in stream:
        forest.learn_one(x)
        assert forest.log_density_one(x) > -math.inf
        # Restored trees have been checked.
        restored.learn_one(x)
    assert pickle.dumps(restored._trees) == pickle.dumps(forest._trees)


@pytest.mark.parametrize("from_origin", [False, True])
@pytest.mark.parametrize("dims", [1, 2])
def test_mean_over_trees_is_the_exact_density(dims, from_origin):
    levels = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(60, dims)) + 3.0 * (rng.random((60, 1)) < 0.3)
        origin = mapping(X[0]) if from_origin else None
        forest = learned(X, n_estimators=2000, lifetime=1.2, seed=seed, origin=origin)
        for query in 1.5 * rng.normal(size=(6, dims)):
            found = parts(forest, mapping(query))
            assert found.mean() == pytest.approx(forest.density_one(mapping(query)))
            z = (found.mean() - exact_density(X, query, 1.2)) / (found.std() / math.sqrt(2000))
            levels.append(2.0 * stats.norm.sf(abs(z)))
    assert min(levels) > LEVEL / len(levels)


def test_many_dimensions():
    """Products of many side lengths neither overflow nor underflow."""
    rng = np.random.default_rng(0)
    for unit in (1.0, 1e-9, 1e9):
        X = unit * rng.normal(size=(30, 50))
        forest = learned(X, n_estimators=20, lifetime=0.02 / unit, seed=1)
        counts_agree(forest, [mapping(X[4])], X)
        counts, corners = cells(forest, mapping(X[4]))
        shares = np.log(counts / 30) - np.log(corners[:, 1] - corners[:, 0]).sum(axis=1)
        expected = np.logaddexp.reduce(shares) - math.log(20)
        assert forest.log_density_one(mapping(X[4])) == pytest.approx(expected, rel=1e-9)


def test_exact_density_is_theorem_5_1():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(7, 2))
    queries = np.array([[0.2, -0.4], [1.0, 1.0]])
    gaps = 1.7 * np.abs(X[:, None] - queries)
    terms = 1.7 * np.exp(-gaps) * (1.0 - gaps * np.exp(gaps) * exp1(gaps))
    expected = terms.prod(axis=2).mean(axis=0)
    np.testing.assert_allclose(exact_density(X, queries, 1.7), expected, rtol=1e-12)
    assert exact_density(X, [0.2, -0.4], 1.7) == pytest.approx(expected[0], rel=1e-12)
    for kind in (pd.DataFrame, pl.DataFrame, pa.table):
        frame, asked = (kind({"b": Z[:, 0], "a": Z[:, 1]}) for Z in (X, queries))
        np.testing.assert_allclose(exact_density(frame, asked, 1.7), expected)
        assert exact_density(frame, {"a": -0.4, "b": 0.2}, 1.7) == pytest.approx(expected[0])
    # At a sample, the exponential integral of the density is E_2(0) = 1. Far away, the density
    # becomes 0 without a warning.
    assert exact_density([[3.0]], [3.0], 2.0) == 2.0
    with np.errstate(all="raise"):
        assert exact_density([[3.0]], [1e6], 2.0) == 0.0
        assert 0.0 < exact_density([[0.0]], [600.0], 1.0) < math.exp(-600.0)
    grid = np.linspace(-30, 30, 20001)
    one = exact_density(X[:, :1], grid[:, None], 1.7)
    assert np.trapezoid(one, grid) == pytest.approx(1.0, abs=1e-4)


def log_polytope_volume(directions, lower, upper, inside):
    n_dims, n_inputs = directions.shape
    rows = directions.ravel(), lower, upper, inside, np.zeros(room_for_faces(n_dims))
    matrix, low, high, *others = (Float64s.of(np.ascontiguousarray(row)) for row in rows)
    memory = Memory(PivotForest)
    cell = memory[0].cell
    cell.lower, cell.upper = low, high
    return log_volume(matrix, n_inputs, n_dims, cell, *others)


def polytope_volume(*arguments):
    return math.exp(log_polytope_volume(*arguments))


@pytest.mark.blas
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_volumes_of_oblique_cells(dims):
    """Volumes agree with a Monte Carlo estimate."""
    rng = np.random.default_rng(dims)
    for _ in range(5):
        directions = rng.normal(size=(dims + 3, dims))
        lower, upper = -rng.exponential(size=dims + 3), rng.exponential(size=dims + 3)
        # Half the side of a cube around 0 that contains all y = U^+ (U y) of the cell.
        box = np.linalg.norm(np.linalg.pinv(directions), 2) * np.linalg.norm(upper - lower)
        projected = rng.uniform(-box, box, size=(200_000, dims)) @ directions.T
        is_inside = ((projected > lower) & (projected < upper)).all(axis=1)
        share, full = is_inside.mean(), (2.0 * box) ** dims
        error = 4.0 * full * math.sqrt(share / 200_000)
        for inside in (np.zeros(dims + 3), projected[is_inside][0]):
            found = polytope_volume(directions, lower, upper, inside)
            assert found == pytest.approx(share * full, abs=error)


@pytest.mark.blas
def test_volumes_of_cells_of_any_shape_and_size():
    square, ends = np.array([[2.0, 0.0], [0.0, 0.5]]), (np.array([-1.0, 0.0]), np.ones(2))
    # Polygons: a needle, and a square with an inner point in the middle and in a corner.
    needle = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    tip = (np.array([0.0, 0.0, 1.9999]), np.array([1.0, 1.0, 3.0]), np.array([1.0, 1.0, 2.0]))
    assert polytope_volume(needle, *tip) == pytest.approx(0.5e-8, rel=1e-6)
    for inside in (np.array([0.0, 0.5]), np.ones(2)):
        assert polytope_volume(square, *ends, inside) == pytest.approx(2.0)
    thin = np.array([5.0, 0.0]), np.array([5.0 + 1e-6, 1.0])
    assert polytope_volume(square, *thin, np.array([5.0, 0.5])) == pytest.approx(1e-6, rel=1e-6)
    flat = np.array([5.0, 0.0]), np.array([5.0, 1.0])
    assert log_polytope_volume(square, *flat, np.array([5.0, 0.5])) == LEAST_LOG
    shape = np.array([[1.0, 0.3], [0.2, -1.0], [1.0, 1.0]])
    cell = -np.ones(3), np.ones(3), np.zeros(3)
    for weights in ([1e9, 1e-3], [1e150, 1e150], [1e-150, 1e-150]):
        expected = log_polytope_volume(shape, *cell) - np.log(weights).sum()
        assert log_polytope_volume(shape * weights, *cell) == pytest.approx(expected, rel=1e-9)


@pytest.mark.blas
def test_random_directions_are_those_of_each_tree():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 2))
    # This sample is outside the box of the other samples.
    X[3] = X[1] - 2.0
    levels = []
    for seed in SEEDS:
        forest = learned(X, n_estimators=150, lifetime=1.5, directions=4, seed=seed)
        matrices = forest._trees.directions
        assert len({matrix.tobytes() for matrix in matrices}) == 150
        # 2 kappa_2 / (2 kappa_1 4), where kappa are the volumes of the unit balls.
        np.testing.assert_allclose(np.linalg.norm(matrices, axis=2), math.pi / 8)
        for x, y in [(X[1], X[2]), (X[0], X[0] + 0.2), (X[3], X[3] + 0.2)]:
            shares = np.exp(-1.5 * np.abs(matrices @ (x - y)).sum(axis=1))
            deviation = math.sqrt((shares * (1.0 - shares)).sum())
            z = (together(forest, mapping(x), mapping(y)) - shares.sum()) / deviation
            levels.append(2.0 * stats.norm.sf(abs(z)))
    assert min(levels) > LEVEL / len(levels)


@pytest.mark.blas
def test_directions_that_have_no_volumes_are_refused():
    forest = DensityForest(directions=2, seed=1)
    before = pickle.dumps(forest)
    raises(ValueError, "4 features", lambda: forest.learn_one(dict.fromkeys("abcd", 1.0)))
    raises(ValueError, "rank 2", lambda: forest.learn_one({"a": 1.0, "b": 1.0, "c": 0.0}))
    forest.learn_one({})
    assert pickle.dumps(forest) == before
    forest = DensityForest(5, 1.0, directions=[{"a": 1.0, "b": 1.0}, {"b": 1.0}], seed=1)
    forest.learn_one({"a": 1.0, "other": 3.0})
    assert forest.feature_names == ["a", "b"]
    assert forest.density_one({"a": 1.0}) == forest.density_one({"a": 1.0, "b": 0.0, "c": 9.0}) > 0


def test_names_that_do_not_compare():
    """NumPy compares a scalar with each item of a tuple, which must not matter."""
    names = [np.int64(1), ("a", "b"), (0, 5), "c", np.float64(2.5)]
    # Features of one sample are ordered by the names of their types, then by name.
    order = sorted(names, key=lambda name: (type(name).__name__, repr(name)))
    rows, found = np.random.default_rng(1).random((5, len(names))).tolist(), []
    for keys_of in (order, list("abcde")):
        samples = [dict(zip(keys_of, row, strict=True)) for row in rows]
        model = fed(DensityForest(n_estimators=3, lifetime=2.0, seed=1), samples)
        assert model.feature_names == keys_of
        found.append(model.log_density_one(dict.fromkeys(keys_of, 0.5)))
    assert found[0] == found[1]


# Density forests as River's anomaly detectors: batches, missing values, scores, bad input.


def test_a_new_feature_has_its_first_value_in_the_mean():
    first = [{"a": 1.0}, {"a": 2.0}, {"a": 3.0, "b": 5.0}, {"a": 3.0, "b": 9.0}]
    # The mean: (5 + 5 + 5 + 9) / 4.
    lasts = {"a": 4.0, "b": math.nan}, {"a": 4.0, "b": 6.0}
    forests = [fed(DensityForest(20, 1.0, seed=3), [*first, last]) for last in lasts]
    for x in ({"a": 1.0, "b": 5.0}, {"a": 4.0, "b": 6.1}):
        assert forests[0].density_one(x) == forests[1].density_one(x) > 0.0


@pytest.mark.parametrize("lifetime", [3.0, None])
def test_means_count_a_sample_once_however_often_it_waits_for_room(lifetime):
    X = np.random.default_rng(0).normal(size=(60, 3))
    forest = learned(X, n_estimators=20, lifetime=lifetime, seed=1)
    batch = DensityForest(20, lifetime, seed=1)
    batch.learn_many(pd.DataFrame([mapping(row) for row in X]))
    mean = mapping(X.mean(axis=0))
    for model in (forest, batch):
        assert len(model._trees.samples.chunks[0]) > 0
        np.testing.assert_allclose(model._trees.means, X.mean(axis=0))
        assert model.surprise_one({}) == pytest.approx(model.surprise_one(mean), rel=1e-9)


def test_a_lifetime_that_falls_changes_nothing():
    forest = DensityForest(3, lambda n: 5.0 - (n > 4), seed=1)
    fed(forest, [{"a": float(i)} for i in range(4)])

    def state():
        return {k: pickle.dumps(v) for k, v in forest.__dict__.items() if k != "lifetime"}

    before = state()
    raises(
        ValueError,
        r"must not fall, got 4.0 at n = 5 after 5.0",
        lambda: forest.learn_one({"a": 9.0, "b": 1.0}),
        lambda: forest.learn_many(pd.DataFrame({"a": [1.0], "c": [1.0]})),
    )
    assert state() == before
    forest = DensityForest(3, lambda n: n - 1.0)
    raises(ValueError, "for 1 samples", lambda: forest.learn_one({"a": 1.0}))


def test_a_mixture_is_the_twin():
    """Levels, weights, rates and rarities agree before the first renewal."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 3)).round(1)
    X[:4, 1] = X[0, 1]
    forest = DensityForest(4, seed=5)
    rates, roots = np.zeros(3), [None] * 4
    lifetimes, weights, shares_so_far = 64.0 * LEVELS, np.zeros(len(LEVELS)), np.zeros(len(LEVELS))
    for n, row in enumerate(X):
        z = row.tolist()
        gaps = np.abs(row - X[0])
        rates = np.where((rates == 0.0) & (gaps > 0.0), 1.0 / np.maximum(gaps, 1e-9), rates)
        # A constant feature separates no samples, whatever its rate.
        known = np.where(rates > 0.0, rates, 1.0).tolist()
        if n > 0:
            pairs = itertools.product(lifetimes, roots)
            counts = [len(pivots.cell_of(root, 64.0, g, known, z)[1]) for g, root in pairs]
            counts = np.reshape(counts, (-1, 4))
            parted = [pivots.parted_at(root, 64.0, known, z) for root in roots]
            levels, density = pivots.mixture(counts, lifetimes, parted, n, 3, weights)
            surprises = -np.log(levels)
            if n == 1:
                medians, spreads = surprises, np.ones(len(levels))
            else:
                found, score = (m(mapping(row)) for m in (forest.surprise_one, forest.score_one))
                if all(forest._trees.rates > 0.0):
                    assert found == pytest.approx(-math.log(density) - np.log(rates).sum())
                expected = pivots.rarity(surprises, medians, spreads, shares_so_far)
                assert score == pytest.approx(0.5 + 0.5 * expected / (1.0 + abs(expected)))
            gaps = surprises - medians
            medians = medians + np.sign(gaps) * spreads / n
            spreads = spreads + (np.abs(gaps) - spreads) / n
            shares_so_far += (counts.mean(axis=1) / n - shares_so_far) / n
            weights = 0.999 * weights - surprises
            weights -= weights.max()
        for t, key in enumerate(keys(5, 4)):
            roots[t] = pivots.learn(roots[t], key, 64.0, known, z)
        forest.learn_one(mapping(row))
        if n > 1:
            np.testing.assert_allclose(forest._trees.log_weights, weights, rtol=1e-9)


@pytest.mark.parametrize("estimator", [None, "forest", "laplace"])
def test_the_default_needs_no_scaling(estimator):
    """With other units, trees are the same, and densities are per unit of the features."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(700, 3))
    units = np.array([1.0, 1024.0, 2.0**-20])
    one, other = (learned(Z, n_estimators=5, method=estimator, seed=1) for Z in (X, X * units))
    for x in 2.0 * X[:20]:
        expected = one.surprise_one(mapping(x)) + np.log(units).sum()
        assert other.surprise_one(mapping(x * units)) == pytest.approx(expected, rel=1e-9)
        assert other.score_one(mapping(x * units)) == pytest.approx(one.score_one(mapping(x)))


@pytest.mark.parametrize("estimator", ["forest", "laplace", "kernel"])
def test_score_tells_how_far_from_usual_a_surprise_is(estimator):
    rng = np.random.default_rng(2)
    forest = DensityForest(5, 1.0, method=estimator, seed=1)
    every, n_usual = 1 if estimator == "kernel" else 8, 0
    for n, row in enumerate(rng.normal(size=(600, 2))):
        if n and n % every == 0:
            surprise = forest.surprise_one(mapping(row))
            if n_usual == 0:
                median, spread = surprise, 1.0
            gap, share = surprise - median, max(1.0 / (n_usual + 1), 1.0 / 512.0)
            median += np.sign(gap) * share * spread
            spread += share * (abs(gap) - spread)
            n_usual += 1
        forest.learn_one(mapping(row))
    asked = sorted(3.0 * rng.normal(size=(200, 2)), key=lambda x: forest.surprise_one(mapping(x)))
    for x in asked:
        r = (forest.surprise_one(mapping(x)) - median) / spread
        expected = (1.0 + r / (1.0 + abs(r))) / 2.0
        assert 0.0 < expected < 1.0
        assert forest.score_one(mapping(x)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("lifetime", ["auto", 1.0, None])
@pytest.mark.parametrize("bounds", [{"window": 30}, {"max_nodes": 90}])
def test_counts_are_those_of_the_latest_samples(lifetime, bounds):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)).round(1)
    X[200:] += 5.0
    forest = DensityForest(2, lifetime, seed=1, **bounds)
    for n, row in enumerate(X, 1):
        forest.learn_one(mapping(row))
        if n % 20 or n < 60:
            continue
        # Loading checks all links.
        forest = pickle.loads(pickle.dumps(forest))
        trees = forest._trees
        n_live = trees.forest.n_samples
        assert n_live == 30 if "window" in bounds else 20 < n_live <= 45
        latest = X[n - n_live : n]
        np.testing.assert_array_equal(trees._queued(), latest)
        counts_agree(forest, map(mapping, latest[::5]), latest)
        assert trees.forest.regions.n_rows <= (90 if "max_nodes" in bounds else 150)


def test_samples_that_are_all_the_same_are_bounded():
    same = DensityForest(5, max_nodes=50, seed=1)
    same.learn_many(pd.DataFrame({"a": np.ones(2000)}))
    assert same._trees.forest.samples.n_rows <= 11
