"""Tests of the adaptive regressor's trees: means, cuts, fences and lags against references."""

from __future__ import annotations

import math

import numpy as np
import pytest
from common import as_kernels, assert_one_law, learn_rows, weights_of
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import adaptive_targets as naive
from naive.adaptive import gains, route
from test_adaptive import LEVEL, shape_of

from river_mondrian import MondrianForestRegressor
from river_mondrian.compiling.kernels import kernel
from river_mondrian.learners.regression import lags
from river_mondrian.partitions.mondrian.tree_store import Partitions
from river_mondrian.posteriors.adaptive_targets import adaptive_target_trees, means
from river_mondrian.posteriors.adaptive_targets.targets_forest import next_renewal, renewal
from river_mondrian.posteriors.rebuilt.forest import LONG, PATH_LENGTH, RECENT, PathEntry, path_to
from river_mondrian.records import Array, Float32s, Float64s

predict_lags, learn_lags = as_kernels(lags.predict, lags.learn)


@kernel
def read_tree(
    forest: means.AdaptiveTargetForest, t: int, x: Float32s, path: Array[PathEntry], out: Float64s
) -> None:
    tree = forest.trees[t]
    n = path_to(forest, tree, x, path)
    means.read_path(forest, tree, path, n, out)


def draw(n, seed, dims=3):
    rng = np.random.default_rng(seed)
    X = rng.random((n, dims)).astype(np.float32).astype(float)
    return X, 3.0 * X[:, 0] + (X[:, 1] > 0.5) + rng.normal(size=n)


def grown(X, y, n_trees=10, n_candidates=15, seed=0, max_samples=5000, weights=None):
    partitions = Partitions(n_trees + 1, math.inf, seed=seed)
    trees = adaptive_target_trees.AdaptiveTargetTrees(
        partitions, n_candidates, max_samples, None, False, False
    )
    trees.add_inputs(list(range(X.shape[1])), X[0] if len(X) else np.zeros(X.shape[1]))
    return learn_rows(trees, X, y, weights)


def read_all(trees, X, weights=None):
    """Yield the slot, the nodes and the reference's means of each tree that learns all samples."""
    for number, slot in enumerate(trees.schedule.of_role(LONG)):
        read = trees.reader.read(number)
        targets = trees.reader.column("points", "targets")[:, trees.trees[slot].learns]
        yield slot, read, naive.replay(read, X, targets, weights or [1.0] * len(X))


# Means, and the trees' predictions from means.


@pytest.mark.parametrize(("rebuilt", "weighted"), [(False, False), (True, False), (True, True)])
def test_means_are_those_of_a_replay(rebuilt, weighted, seed):
    """Late means of growing trees depend on the order of cuts, so only their ranges are checked."""
    X, y = draw(370, seed)
    weights = weights_of(370, seed) if weighted else [1.0] * 370
    trees = grown(X, y, seed=seed, weights=weights)
    if rebuilt:
        trees.build()
    for _, read, seen in read_all(trees, X, weights):
        assert len(read) > 100
        for node, twin in zip(read, seen, strict=True):
            assert node.n_samples == len(twin.targets)
            assert node.weight == pytest.approx(twin.weight, rel=1e-5 if weighted else 1e-6)
            assert node.mean == pytest.approx(twin.mean, abs=1e-9)
            assert node.is_leaf or np.min(X[twin.samples] - node.lower) >= 0.0
            if rebuilt:
                assert node.late_mean == pytest.approx(twin.late_mean, rel=1e-5, abs=1e-5)
            assert min(twin.targets) - 1e-9 <= node.late_mean <= max(twin.targets) + 1e-9


def test_late_means_of_equal_samples_are_those_of_a_replay():
    """A tree of equal samples is one leaf, so no cut affects the late mean."""
    X, y = np.zeros((40, 3)), draw(40, 1)[1]
    for _, (leaf,), (twin,) in read_all(grown(X, y), X):
        assert leaf.late_mean == pytest.approx(twin.late_mean, rel=1e-5)


def test_leaves_hold_targets_that_are_alike():
    """In a small tree, every leaf is split until its targets or its samples are equal."""
    X, y = draw(300, 5)
    for _, read, seen in read_all(grown(X, np.round(y)), X):
        pairs = zip(read, seen, strict=True)
        assert {len(set(twin.targets)) for node, twin in pairs if node.is_leaf} == {1}


def test_small_blocks_of_large_trees_are_not_split():
    X, y = draw(2200, 5)
    trees = grown(X, y, n_trees=2)
    trees.build()
    for _, read, _ in read_all(trees, X[:0]):
        assert min(node.n_samples for node in read if not node.is_leaf) == 3
        assert max(node.n_samples for node in read if node.is_leaf) == 2


def test_readings_are_the_twins(seed):
    X, y = draw(150, seed)
    weights = weights_of(150, seed)
    trees = grown(X, y, seed=seed, weights=weights)
    trees.build()
    path = Array.over(PathEntry, np.zeros(PATH_LENGTH * PathEntry.SIZE, np.uint8))
    out = np.zeros(means.N_READINGS)
    for slot, read, seen in read_all(trees, X, weights):
        for x in np.random.default_rng(seed).random((20, 3)).astype(np.float32):
            read_tree(trees.forest, slot, Float32s.of(x), path, Float64s.of(out))
            known = [seen[i] for i in route(read, x)]
            np.testing.assert_allclose(out, naive.readings(known), rtol=1e-5, atol=1e-6)


# Cuts.


@pytest.mark.parametrize("weighted", [False, True])
def test_gains_are_the_twins(weighted):
    """The gain of a dimension is the total gain of its splits in the tree."""
    X, y = draw(120, 4)
    weights = weights_of(120, 4) if weighted else [1.0] * 120
    trees = grown(X, y, seed=3, weights=weights)
    trees.build()
    for slot, read, seen in read_all(trees, X, weights):
        expected = gains(read, X, seen[0].targets, weights, naive.scatter)
        np.testing.assert_allclose(trees.gains[slot], expected, rtol=1e-6)


@pytest.mark.parametrize("extends", [0, 1])
def test_one_candidate_gives_the_law_of_the_exact_forest(seed, extends):
    """Extended trees always have the distribution of the exact forest, other trees once built."""
    X, y = draw(24, 7, dims=2)
    n = 600
    trees = grown(X, y, n_trees=n, n_candidates=1, seed=seed)
    if not extends:
        trees.build()
    exact = MondrianForestRegressor(n // 2, scale=False, seed=seed + 50)
    exact.learn_many(X, y)
    every = read_all(trees, X)
    ours = [shape_of(read) for t, read, _ in every if trees.trees[t].extends == extends]
    theirs = [shape_of(exact._trees.reader.read(t)) for t in range(n // 2)]
    assert_one_law(ours, theirs, LEVEL / (5 * 2 * 3))


def test_a_tree_that_is_not_extended_is_cut_inside_its_leaves_only():
    """A sample outside of all boxes goes to a leaf, which is split."""
    X, y = draw(128, 2)
    trees = grown(X, y, seed=2)
    before = {slot: read for slot, read, _ in read_all(trees, X)}
    far = np.array([[9.0, 9.0, 9.0]])
    learn_rows(trees, far, [50.0])
    for slot, new, _ in read_all(trees, np.vstack([X, far])):
        old = before[slot]
        kept = {(node.dim, node.cut) for node in old if not node.is_leaf}
        now = {(node.dim, node.cut) for node in new if not node.is_leaf}
        assert kept <= now
        assert len(now) == len(kept) + 1
        if not trees.trees[slot].extends:
            assert (new[0].dim, new[0].cut, new[0].time) == (old[0].dim, old[0].cut, old[0].time)
            assert new[0].upper.tolist() == [9.0, 9.0, 9.0]


# Purposes.


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10, 23])
def test_trees_keep_their_purposes(n):
    X, y = draw(1300, 1)
    trees = grown(X, y, n_trees=n)
    purposes = adaptive_target_trees.purposes_of(n)
    assert len(purposes) == n
    kinds = sorted((p.learns, p.extends) for p in purposes if not p.is_recent)
    words, starts = trees.trees.words, trees.schedule.starts
    of_all, recent = (np.flatnonzero(words["role"] == role) for role in (LONG, RECENT))
    found = zip(words["learns"][of_all].tolist(), words["extends"][of_all].tolist(), strict=True)
    assert sorted(found) == kinds
    assert len(recent) == n - len(kinds)
    assert set(words["learns"][recent].tolist()) <= {means.ERROR}
    assert all(300 <= trees.n_samples - starts[t] <= 900 for t in recent)


def test_residuals_and_errors_are_those_of_predictions():
    X, y = draw(90, 3)
    trees = grown(X[:1], y[:1])
    for x, target in zip(X[1:], y[1:], strict=True):
        trees.vector[:] = x
        trees.predict_inputs()
        expected = [target, target - trees.first_mixture.predicted[means.RESIDUAL_OF]]
        expected.append(target - trees.forest.prediction.first_point)
        learn_rows(trees, x[None], [target])
        p = trees.n_samples - 1
        assert trees.reader.column("points", "targets")[p].tolist() == expected
    assert means.RESIDUAL == 1
    assert len(adaptive_target_trees.EXPERTS) == len(trees.mixture.weights)


# Fences.


@given(st.integers(0, 10**6))
@settings(max_examples=100)
def test_fences_are_renewed_next_when_they_are(n):
    following = next_renewal(n)
    assert following > n
    assert renewal(following) == following or following == 16
    assert all(renewal(i) != i for i in range(max(n + 1, 16), min(following, n + 200)))


def wild(n, seed):
    """Return targets with wild values, and with a run at another level."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    y[rng.choice(n, n // 40, replace=False)] *= 10.0 ** rng.integers(1, 8)
    start = int(rng.integers(n // 3, n // 2))
    y[start : start + 40] += 1e4
    return y


@pytest.mark.parametrize("seed", range(4))
def test_targets_count_as_the_twin_says(seed):
    y = wild(1500, seed)
    X = np.random.default_rng(seed).random((len(y), 1))
    twin, trees = naive.Fences(), grown(X[:0], y[:0], n_trees=3, seed=seed)
    n_moved = 0
    for x, target in zip(X, y.tolist(), strict=True):
        learn_rows(trees, x[None], [target])
        n_moved += twin.see(target) != target
        found = float(trees.forest.fences.low), float(trees.forest.fences.high)
        assert found == pytest.approx((twin.low, twin.high), rel=1e-12)
    assert trees.reader.column("points", "targets")[:, means.TARGET].tolist() == twin.stored
    assert n_moved > 0


# Lags.


def test_the_regression_on_lags_is_dense_least_squares():
    owner = lags.LaggedTargets()
    rng = np.random.default_rng(3)
    target, pairs, scales = 0.0, [], []
    for _ in range(120):
        target = 0.8 * target + rng.normal()
        base = 0.5 * rng.normal()
        scales.append(float(owner.record.scale))
        predict_lags(owner.record, base)
        learn_lags(owner.record, target, 1.0)
        pairs.append((base, target))
    expected = naive.lagged(pairs, scales)
    np.testing.assert_allclose(owner.learned["weights"][0], expected, atol=1e-8)
