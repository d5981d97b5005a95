"""The twin of the trees against the laws and sums that the paper states."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from naive import hnsp
from naive import mondrian as naive
from scipy import integrate

# Every test of a law uses this level, divided by how many p-values it looks at.
LEVEL = 0.01

SETTINGS = [(lifetime, paused) for lifetime in (math.inf, 2.0) for paused in (False, True)]


def draw(n, seed, dims=3, classes=4, places=0):
    """Draw points and labels; with `places`, points that coincide and conflict."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, dims))
    if places:
        X = rng.random((places, dims))[rng.integers(0, places, n)]
    y = np.where(rng.random(n) < 0.7, (X[:, 0] * classes).astype(int), rng.integers(0, classes, n))
    return X.tolist(), y.tolist()


def grow(X, y, order, lifetime, rng, paused, n_classes=4):
    root = None
    for i in order:
        root = hnsp.extend_tree(root, X, y, i, lifetime, rng, paused, n_classes)
    return root


def points_of(node):
    return [n for leaf in naive.leaves(node) for n in leaf.points]


def check_structure(root, X, y, lifetime, paused):
    """Check all that holds for every tree, whatever the draws."""
    assert root.parent is None
    for node in naive.walk(root):
        points = points_of(node)
        assert points
        np.testing.assert_array_equal(node.lower, np.min([X[n] for n in points], axis=0))
        np.testing.assert_array_equal(node.upper, np.max([X[n] for n in points], axis=0))
        labels = {y[n] for n in points}
        if node.is_leaf:
            assert node.time == lifetime
            if lifetime == math.inf:
                places = {tuple(X[n]) for n in points}
                assert len(places) == 1 or (paused and len(labels) == 1)
        else:
            assert node.parent_time < node.time < lifetime
            assert not node.points
            assert not (paused and len(labels) == 1)
            assert node.left.parent is node
            assert node.right.parent is node
            assert all(X[n][node.dim] <= node.cut for n in points_of(node.left))
            assert all(X[n][node.dim] > node.cut for n in points_of(node.right))


@pytest.mark.parametrize(("lifetime", "paused"), SETTINGS)
@pytest.mark.parametrize("places", [0, 9])
@pytest.mark.parametrize("seed", [0, 1])
def test_online_counts_are_those_of_algorithm_5(lifetime, paused, places, seed):
    X, y = draw(35, seed, places=places)
    rng = np.random.default_rng(seed)
    root = None
    for i in range(len(y)):
        root = hnsp.extend_tree(root, X, y, i, lifetime, rng, paused, 4)
        assert sorted(points_of(root)) == list(range(i + 1))
        check_structure(root, X, y, lifetime, paused)
        online = [(node.count[:], node.tab[:]) for node in naive.walk(root)]
        hnsp.initialize_counts(root, y, 4)
        assert online == [(node.count, node.tab) for node in naive.walk(root)]
        for leaf in naive.leaves(root):
            assert leaf.count == [sum(y[n] == k for n in leaf.points) for k in range(4)]
    check_structure(hnsp.sample_tree(X, y, lifetime, rng, paused, 4), X, y, lifetime, paused)


def test_algorithm_6_brings_the_ancestor_that_ends_it_up_to_date():
    root = by_hand()
    hnsp.update_counts(root.right, 1)
    assert (root.right.count, root.right.tab) == ([1, 1], [1, 1])
    assert (root.count, root.tab) == ([2, 2], [1, 1])


# The law of the trees.


def summary(root, X):
    """Numbers whose law the law of the tree decides."""
    ends = naive.leaves(root)
    return {
        "root time": root.time,
        "root dimension": root.dim,
        "root cut": 0.0 if root.is_leaf else root.cut,
        "leaves": len(ends),
        "mean depth": sum(naive.depth(leaf) * len(leaf.points) for leaf in ends) / len(X),
        "last inner time": max([n.time for n in naive.walk(root) if not n.is_leaf], default=0.0),
        "first two together": any({0, 1} <= set(leaf.points) for leaf in ends),
    }


LAW_DATA = {
    "spread": ([[0.0, 0.0], [1.0, 0.3], [0.2, 0.9], [0.6, 0.5], [0.9, 0.8]], [0, 0, 1, 0, 1]),
    "duplicates": ([[0.0, 0.0], [0.0, 0.0], [1.0, 0.5], [1.0, 0.5], [0.4, 0.9]], [0, 1, 0, 0, 1]),
}


# Prediction.


def by_hand():
    """Three points on the left, one on the right, split at time 0.7 of 2."""
    root = naive.Node([0.0], [1.0], None, 0.7, 0, 0.6)
    root.left = naive.Node([0.0], [0.5], root, 2.0, points=[0, 1, 2])
    root.right = naive.Node([1.0], [1.0], root, 2.0, points=[3])
    hnsp.initialize_counts(root, [0, 0, 1, 0], 2)
    return root


def test_posterior_by_hand():
    root = by_hand()
    assert (root.count, root.tab) == ([2, 1], [1, 1])
    assert (root.left.count, root.left.tab) == ([2, 1], [1, 1])
    base = [0.8, 0.2]
    at_root, at_leaf = math.exp(-3.0 * 0.7), math.exp(-3.0 * 1.3)
    above = (2.0 - at_root + 2.0 * at_root * 0.8) / 3.0
    np.testing.assert_allclose(hnsp.posterior(root, 3.0, base), [above, 1.0 - above])
    left = (2.0 - at_leaf + 2.0 * at_leaf * above) / 3.0
    np.testing.assert_allclose(hnsp.posterior(root.left, 3.0, base), [left, 1.0 - left])
    right = 1.0 - at_leaf + at_leaf * above
    np.testing.assert_allclose(hnsp.posterior(root.right, 3.0, base), [right, 1.0 - right])
    # At an infinite lifetime the counts alone decide.
    root.right.time = math.inf
    assert hnsp.posterior(root.right, 3.0, base) == [1.0, 0.0]


def copy(node, parent=None):
    twin = dataclasses.replace(
        node,
        lower=node.lower[:],
        upper=node.upper[:],
        parent=parent,
        points=node.points[:],
        count=node.count[:],
        tab=node.tab[:],
    )
    if not node.is_leaf:
        twin.left, twin.right = copy(node.left, twin), copy(node.right, twin)
    return twin


def leaf_of(root, x):
    node = root
    while not node.is_leaf:
        node = node.left if x[node.dim] <= node.cut else node.right
    return node


QUERIES = [[0.5, 0.5], [0.1, 0.95], [1.3, 0.2], [-0.4, 1.5], [0.92, 0.79]]


@pytest.mark.parametrize(("lifetime", "paused"), SETTINGS)
def test_prediction_is_the_mean_over_extensions(lifetime, paused):
    """Appendix B: extend the tree by an unlabelled query and take the posterior of its leaf.

    Queries branch off below the lifetime also where the leaf is a paused one.
    """
    X, y = draw(7, 2, dims=2, classes=3)
    tree = hnsp.sample_tree(X, y, lifetime, np.random.default_rng(1), paused, 3)
    base, gamma, n = [0.5, 0.3, 0.2], 1.5, 1200
    for seed, x in enumerate(QUERIES):
        rng = np.random.default_rng(seed)
        drawn = np.empty((n, 3))
        for r in range(n):
            root = hnsp.extend_tree(copy(tree), [*X, x], [*y, None], 7, lifetime, rng, False, 3)
            drawn[r] = hnsp.posterior(leaf_of(root, x), gamma, base)
        error = drawn.std(axis=0, ddof=1) / math.sqrt(n)
        got = np.array(hnsp.predict(tree, x, gamma, base))
        assert (np.abs(got - drawn.mean(axis=0)) <= 4.0 * error + 1e-9).all(), (x, got, drawn)


@pytest.mark.parametrize(("lifetime", "paused"), SETTINGS)
def test_probabilities_sum_to_one(lifetime, paused):
    X, y = draw(60, 4, places=15)
    root = hnsp.sample_tree(X, y, lifetime, np.random.default_rng(0), paused, 4)
    for x in [*X, *draw(20, 6)[0], [9.0, -9.0, 0.5], [1e9, 0.0, 0.0]]:
        p = hnsp.predict(root, x, 2.0, [0.25] * 4)
        assert min(p) >= 0.0
        assert math.isclose(sum(p), 1.0, abs_tol=1e-12)
    for x in X:
        expected = hnsp.posterior(leaf_of(root, x), 2.0, [0.25] * 4)
        np.testing.assert_allclose(hnsp.predict(root, x, 2.0, [0.25] * 4), expected, atol=1e-12)


@pytest.mark.parametrize("eta", [1e-9, 0.5, 40.0])
@pytest.mark.parametrize("gamma", [0.0, 3.0])
@pytest.mark.parametrize("delta", [1e-6, 0.1, 2.0, math.inf])
def test_expected_discount(eta, gamma, delta):
    # In units of the scale on which the integrand falls, so that quad sees it.
    scale = 1.0 / (eta + gamma)
    value, _ = integrate.quad(lambda s: math.exp(-s), 0.0, delta / scale, epsabs=0.0)
    expected = eta * scale * value / -math.expm1(-eta * delta)
    assert math.isclose(hnsp.expected_discount(eta, gamma, delta), expected, rel_tol=1e-7)


# Missing values.


@pytest.mark.parametrize(("lifetime", "paused"), SETTINGS)
def test_missing_values_have_no_extent(lifetime, paused):
    X, y = draw(40, 3, dims=4)
    rng = np.random.default_rng(0)
    for x in X:
        x[3] = math.nan
        if rng.random() < 0.4:
            x[int(rng.integers(3))] = math.nan
    trees = [
        hnsp.sample_tree(X, y, lifetime, rng, paused, 4),
        grow(X, y, range(40), lifetime, rng, paused),
    ]
    for root in trees:
        assert sorted(points_of(root)) == list(range(40))
        online = [(node.count, node.tab) for node in naive.walk(root)]
        hnsp.initialize_counts(root, y, 4)
        assert online == [(node.count, node.tab) for node in naive.walk(root)]
        for node in naive.walk(root):
            known = [[X[n][d] for n in points_of(node) if X[n][d] == X[n][d]] for d in range(4)]
            nan = [math.nan]
            np.testing.assert_array_equal(node.lower, [min(v or nan) for v in known])
            np.testing.assert_array_equal(node.upper, [max(v or nan) for v in known])
            assert node.dim != 3
        for x in X:
            assert math.isclose(sum(hnsp.predict(root, x, 2.0, [0.25] * 4)), 1.0, abs_tol=1e-12)
    # A query that is known nowhere goes everywhere.
    p = hnsp.predict(trees[0], [math.nan] * 4, 2.0, [0.25] * 4)
    by_size = sum(
        len(leaf.points) / 40 * np.array(hnsp.posterior(leaf, 2.0, [0.25] * 4))
        for leaf in naive.leaves(trees[0])
    )
    np.testing.assert_allclose(p, by_size, atol=1e-12)


def test_a_missing_value_at_the_cut_is_resolved_by_the_other_dimensions():
    nan = math.nan
    X = [[0.0, 0.0], [1.0, 5.0], [nan, 4.0], [nan, 1.0], [nan, nan]]
    rng = np.random.default_rng(0)
    n_found = 0
    for _ in range(200):
        root = hnsp.sample_tree(X[:2], [0, 0], math.inf, rng, False, 1)
        if root.dim != 0:
            continue
        n_found += 1
        for i in range(2, 5):
            # Times of later splits come after the root's: no extent beyond the box is added.
            root = hnsp.extend_tree(root, X, [0] * 5, i, math.inf, rng, False, 1)
        assert set(points_of(root.left)) >= {0, 3}
        assert set(points_of(root.right)) >= {1, 2}
    assert n_found > 10
