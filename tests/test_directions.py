"""Tests of cut directions and random lifetimes: the lift, distributions, and kernels."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from common import assert_one_law, fed, learn_rows, raises
from naive import hnsp
from naive import stit as naive
from river import datasets
from scipy import stats
from test_kernels import as_twin

from river_mondrian import MondrianFeatures, MondrianForestClassifier
from river_mondrian.arguments import isotropic_scale, laplace_transform, sphere_directions
from river_mondrian.partitions.mondrian.tree_store import Partitions
from river_mondrian.posteriors.labels.label_trees import LabelTrees

# Level for each test of a distribution; each test divides it by the number of its comparisons.
LEVEL = 0.01
SEEDS = range(6)
# The directions of Figure 1 and Example 2.1 (O'Reilly and Tran 2022) are (1, 0), (0, 1) and (1, 1).
THREE_ROWS = np.array([[1.0, 0.0], [0.0, 1.0], [math.sqrt(0.5), math.sqrt(0.5)]])
THREE = [{"a": a, "b": b} for a, b in THREE_ROWS.tolist()]


def mapping(row, names="abcdefgh"):
    return {name: v for name, v in zip(names, row.tolist(), strict=False) if not math.isnan(v)}


def learned(X, *args, **params):
    return fed(MondrianFeatures(*args, **params), map(mapping, X))


def grown(partitions, X, y, gamma, **params):
    trees = LabelTrees(partitions, gamma, **params)
    trees.add_inputs(list("abc"[: X.shape[1]]), X[0])
    for _ in range(max(y) + 1):
        trees.add_class()
    return learn_rows(trees, X, y)


@pytest.mark.parametrize("directions", [THREE, [*THREE, {"c": -2.0, "a": 0.5}, {"unseen": 1.0}], 4])
@pytest.mark.parametrize("holes", [0.0, 0.4])
@pytest.mark.parametrize("scale", [False, True])
def test_what_trees_cut_is_the_twins_lift(directions, holes, scale):
    rng = np.random.default_rng(3)
    # The trees are rebuilt with new means at this number of samples.
    X = 10.0 + rng.random((64, 3))
    X[rng.random(X.shape) < holes] = math.nan
    X[0] = 10.5
    trees = grown(Partitions(3, 2.0, directions, scale=scale, seed=5), X, [0] * len(X), 1.0)
    # Without scaling, the first sample is subtracted from all samples.
    offsets, factors = X[0], np.ones(3)
    if scale:
        offsets = np.nanmin(X, axis=0)
        factors = 1.0 / (np.nanmax(X, axis=0) - offsets)
    values, expected = (X - offsets) * factors, []
    for i, row in enumerate(values):
        known = ~np.isnan(values[:i])
        means = np.where(known, values[:i], 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        parts = [
            naive.lift(trees.directions.of_tree(t).tolist(), row.tolist(), means.tolist())
            for t in range(3 if directions == 4 else 1)
        ]
        expected.append(np.concatenate(parts))
    # The values that trees cut, for all stored samples.
    stored = trees.reader.column("points", "columns")[:, : len(expected[0])]
    np.testing.assert_allclose(stored, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.blas
def test_directions_along_the_axes_give_the_forest_without_directions():
    stream = list(datasets.Phishing().take(600))
    axes = [{name: 1.0} for name in sorted(stream[0][0])]
    rng = np.random.default_rng(0)
    plain, oblique = (MondrianForestClassifier(directions=d, seed=1) for d in (None, axes))
    for x, y in stream:
        x = {name: value for name, value in x.items() if rng.random() < 0.8}
        if len(plain.feature_names) == len(axes):
            assert plain.predict_proba_one(x) == oblique.predict_proba_one(x)
        for model in (plain, oblique):
            model.learn_one(x if model.n_samples else dict.fromkeys(stream[0][0], 0.5), y)
    assert plain.to_dataframe()["threshold"].equals(oblique.to_dataframe()["threshold"])


@pytest.mark.blas
@pytest.mark.parametrize("d", [2, 3, 5])
def test_random_directions_are_isotropic(d):
    rows = sphere_directions(20000, d, np.random.default_rng(d))
    for v in (np.eye(d)[0], np.ones(d) / math.sqrt(d)):
        sizes = 20000 * np.abs(rows @ v)
        z = (sizes.mean() - 1.0) / (sizes.std() / math.sqrt(len(sizes)))
        assert abs(z) < stats.norm.isf(LEVEL / 12)
        # The square of one coordinate of a uniform direction has a beta distribution.
        squares = (sizes / isotropic_scale(d)) ** 2
        assert stats.kstest(squares, stats.beta(0.5, (d - 1) / 2).cdf).pvalue > LEVEL / 6


@pytest.mark.parametrize("seed", SEEDS)
def test_a_later_feature_has_the_isotropic_kernels_mean_size(seed):
    law = stats.halfnorm(scale=math.sqrt(math.pi / 2.0))
    assert law.mean() == pytest.approx(1.0)
    features = MondrianFeatures(700, directions=3, seed=seed)
    features.learn_one({"a": 1.0, "b": 1.0})
    features.learn_one({"a": 1.0, "b": 1.0, "c": 5.0})
    found = [features.cut_directions(t) for t in range(700)]
    sizes = 3.0 * np.abs([[row["c"] for row in rows] for rows in found]).ravel()
    assert stats.kstest(sizes, law.cdf).pvalue > LEVEL / len(SEEDS)


@pytest.mark.parametrize("rows", [THREE_ROWS, np.array([[2.0, 0.3], [-0.4, 1.0]])])
def test_the_lifted_partition_is_a_stit_of_polygons(seed, rows):
    """The test compares the number of cells that meet a grid, and the size of the central cell."""
    ticks = np.linspace(0.02, 0.98, 9)
    grid = np.array(list(itertools.product(ticks, ticks)))
    directions = [{"a": a, "b": b} for a, b in rows.tolist()]
    n, lifetime = 300, 2.5
    features = learned(grid, n, lifetime, directions=directions, seed=seed)
    cells = features.cells_many(pd.DataFrame(grid, columns=["a", "b"]))
    rng = np.random.default_rng(seed)
    square = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    twins = np.empty_like(cells)
    for t in range(n):
        found = naive.simulate(square, rows.tolist(), lifetime, rng)
        assert sum(map(naive.area, found)) == pytest.approx(1.0)
        members = np.array([[naive.holds(cell, p) for p in grid.tolist()] for cell in found])
        assert (members.sum(axis=0) == 1).all()
        twins[:, t] = members.argmax(axis=0)
    pair = (
        [(len({*column}), (column == column[len(grid) // 2]).sum()) for column in one.T]
        for one in (cells, twins)
    )
    assert_one_law(*pair, LEVEL / (4 * 3))


@pytest.mark.blas
@pytest.mark.parametrize("directions", [THREE, 5])
def test_forest_predictions_are_the_twins_on_the_lifted_sample(directions):
    rng = np.random.default_rng(2)
    X = rng.random((150, 2)).astype(np.float32).astype(float)
    labels = (X.sum(axis=1) > 1.0).astype(int).tolist()
    partitions = Partitions(4, stats.uniform(1.0, 4.0), directions, seed=3)
    trees = grown(partitions, X, labels, 7.0, split_pure=True)
    roots = [as_twin(trees, t) for t in range(4)]
    queries = 2.0 * rng.random((30, 2)) - 0.5
    got = trees.predict_rows(queries, 1)
    assert len({trees.reader.end_of(t) for t in range(4)}) == 4
    for x, p in zip(queries, got, strict=True):
        expected = np.zeros(2)
        for t, root in enumerate(roots):
            projected = trees.directions.of_tree(t) @ (x - X[0])
            projected = projected.astype(np.float32).astype(float)
            expected += hnsp.predict(root, projected, 7.0, [0.5, 0.5])
        np.testing.assert_allclose(p, expected / 4.0, atol=1e-5, rtol=0)
        out = bytearray(16)
        trees.predict(x.tobytes(), out)
        np.testing.assert_array_equal(np.frombuffer(out), p)


def test_random_lifetimes_are_drawn_once_per_partition():
    lifetime = stats.gamma(2.0)
    features = learned(np.random.default_rng(0).random((20, 2)), 3000, lifetime, seed=7)
    ends = [features.nodes(t)[-1].time for t in range(3000)]
    assert stats.kstest(ends, lifetime.cdf).pvalue > LEVEL
    for nodes in (features.nodes(t) for t in range(50)):
        (end,) = {node.time for node in nodes if node.is_leaf}
        assert all(node.time < end for node in nodes if not node.is_leaf)


def test_gamma_counts_features_not_directions():
    model = fed(MondrianForestClassifier(directions=7, seed=1), datasets.Bananas().take(10))
    assert model._trees.forest.gamma == 20.0


@pytest.mark.blas
def test_reading_oblique_trees():
    model = MondrianForestClassifier(2, directions=THREE, seed=1)
    X = np.random.default_rng(0).random((300, 2))
    model.learn_many(pd.DataFrame(X, columns=["a", "b"]), X.sum(axis=1) > 1.0)
    frame = model.to_dataframe()
    rows = model.cut_directions()
    assert [set(row) for row in rows] == [{"a"}, {"b"}, {"a", "b"}]
    # A threshold splits the samples into groups as large as the children.
    root = frame.iloc[0]
    direction = rows[int(root["feature"].removeprefix("direction "))]
    heights = X @ [direction.get("a", 0.0), direction.get("b", 0.0)]
    assert (heights <= root["threshold"]).sum() == frame.iloc[root["left"]]["n_samples"]
    leaves = int(frame["is_leaf"].sum())
    assert len(model.draw_partition().patches) == 3 * leaves
    assert "direction" in model.debug_one({"a": 0.0, "b": 0.0})


# Limit kernels of partitions, against closed forms, integrals and references.

LIFETIMES = {"fixed": 1.5, "exponential": stats.expon(scale=1.2)}
LIFETIMES |= {"uniform": stats.uniform(0.5, 2.0), "half normal": stats.halfnorm(scale=1.5)}
LIFETIMES |= {"gamma": stats.gamma(2.0, scale=0.8), "shifted": stats.gamma(1.5, 0.3, 0.5)}


@pytest.mark.covering
@pytest.mark.blas
@pytest.mark.parametrize("name", LIFETIMES)
@pytest.mark.parametrize("directions", [None, THREE, 60])
@pytest.mark.parametrize("seed", SEEDS)
def test_partitions_have_the_limit_kernel(name, directions, seed):
    X = np.random.default_rng(1).random((12, 2))
    pairs = [(0, 1), (2, 9), (10, 11)]
    features = learned(X, 1500, LIFETIMES[name], directions=directions, seed=seed)
    for i, j in pairs:
        x, y = mapping(X[i]), mapping(X[j])
        expected = features.limit_kernel(x, y)
        # With 60 random directions, the expectation exceeds the limit by less than 0.01.
        most = min(expected + (0.01 if directions == 60 else 0.0), 1.0)
        shared = round(1500 * features.kernel(x, y))
        level = LEVEL / (len(pairs) * len(SEEDS) * 2)
        assert stats.binomtest(shared, 1500, expected, "less").pvalue > level
        assert stats.binomtest(shared, 1500, most, "greater").pvalue > level


@pytest.mark.parametrize("name", LIFETIMES)
def test_closed_forms_are_laplace_transforms(name):
    lifetime, u = LIFETIMES[name], (np.arange(200_000) + 0.5) / 200_000
    drawn, rel = (np.array([1.5]), 1e-15) if name == "fixed" else (lifetime.ppf(u), 1e-4)
    for h in (0.0, 1e-9, 0.2, 3.0):
        expected = np.exp(-h * drawn).mean()
        assert laplace_transform(lifetime, h) == pytest.approx(expected, rel=rel)


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
    raises(ValueError, "'a' must be finite", lambda: features.limit_kernel({"a": math.inf}, y))
    raises(ValueError, "auto", lambda: MondrianFeatures(lifetime="auto").limit_kernel(x, y))
