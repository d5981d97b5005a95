"""Mondrian features against their twin, the process's laws and the kernel they estimate."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from naive import cells as naive
from scipy import stats

from river_mondrian import MondrianFeatures

LEVEL = 0.01
SEEDS = range(8)


def samples(n, seed=0, dims=3, holes=0.0):
    """Draw points of the unit cube, single precision, with holes."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, dims)).astype(np.float32).astype(float)
    X[rng.random((n, dims)) < holes] = math.nan
    return X


def mapping(row):
    return {f"x{j}": v for j, v in enumerate(row.tolist()) if not math.isnan(v)}


def learned(X, *args, **params):
    features = MondrianFeatures(*args, **params)
    # All features first appear together, so that places are columns.
    for row in X:
        features.learn_one(mapping(row))
    return features


def columns_of(features, row):
    return features._output(mapping(row)).tolist()


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_cells_are_the_twins(holes):
    X = samples(200, holes=holes)
    X[0] = 0.5
    features = learned(X, 7, 4.0, seed=3)
    trees = [features.nodes(t) for t in range(7)]
    for row in [*X, *samples(50, seed=9, holes=holes)]:
        expected = [naive.cell(nodes, row, 4.0, 0) for nodes in trees]
        assert columns_of(features, row) == expected
    leaves = [[node.cell for node in nodes if node.is_leaf] for nodes in trees]
    # Each column is one cell of one partition, and its name says which.
    assert sorted(itertools.chain(*leaves)) == list(range(features._map.n_columns))
    for t, cells in enumerate(leaves):
        names = features._map.names(sorted(cells))
        assert names == [f"mondrian_{t}_{k}" for k in range(len(cells))]
    assert features.cells_one(mapping(X[5])).tolist() == [
        sorted(cells).index(column)
        for cells, column in zip(leaves, columns_of(features, X[5]), strict=True)
    ]


def test_a_sample_has_one_cell_per_partition_and_keeps_it():
    X = samples(400, seed=1)
    features = MondrianFeatures(11, 3.0, seed=2)
    first = []
    for n, row in enumerate(X):
        before = 0 if n == 0 else features._map.n_columns
        features.learn_one(mapping(row))
        first.append(features.transform_one(mapping(row)))
        assert list(first[-1].values()) == [1.0 / math.sqrt(11)] * 11
        # What the learner gets without a second walk.
        assert features._map.out.tolist() == columns_of(features, row)
        assert 0 <= features._map.n_columns - before <= 11
    for row, expected in zip(X, first, strict=True):
        assert features.transform_one(mapping(row)) == expected
    assert len({name for x in first for name in x}) == features._map.n_columns


@pytest.mark.parametrize("seed", SEEDS)
def test_the_share_of_common_cells_is_the_laplace_kernel(seed):
    """Whatever other samples there are, and whenever they come (Proposition 1)."""
    X = samples(30, seed=seed)
    features = learned(X, 2000, 1.5, seed=seed)
    pairs = [(0, 1), (3, 29), (28, 29)]
    for i, j in pairs:
        shared = round(2000 * features.kernel(mapping(X[i]), mapping(X[j])))
        expected = naive.laplace(X[i].tolist(), X[j].tolist(), 1.5)
        assert stats.binomtest(shared, 2000, expected).pvalue > LEVEL / (len(pairs) * len(SEEDS))


def n_cells(features, t):
    return sum(node.is_leaf for node in features.nodes(t))


@pytest.mark.parametrize("lifetime", [0.7, 1.5])
@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_of_cells_keep_to_their_bounds(seed, lifetime):
    X = samples(300, seed=seed, dims=2)
    features = learned(X, 400, lifetime, seed=seed)
    counts = np.array([n_cells(features, t) for t in range(400)])
    # Sides of at most 1: the mean of all cells, empty ones, too, and Proposition 3.
    slack = stats.norm.ppf(1 - LEVEL / (2 * len(SEEDS))) * counts.std() / math.sqrt(400)
    assert counts.mean() < (1.0 + lifetime) ** 2 + slack
    for n in (20.0, 40.0):
        allowed = min(1.0, math.exp(2.0 * lifetime) / n)
        more = stats.binomtest(int((counts > n).sum()), 400, allowed, alternative="greater")
        assert more.pvalue > LEVEL / (4 * len(SEEDS))
    # In a plane full of samples few cells are empty.
    assert counts.mean() > 0.8 * (1.0 + 0.97 * lifetime) ** 2


def test_memory_grows_with_cells_only():
    X = samples(500, seed=4)
    features = learned(X, 10, 2.0, seed=4)
    size, n_points = features._raw_memory_usage, features._map.trees.n_points
    assert n_points < features._map.n_columns
    n_columns = features._map.n_columns
    for row in X:
        features.learn_one(mapping(row))
    assert features._map.n_columns == n_columns
    assert features._map.trees.n_points == n_points
    # But for the boxes of leaves that were single points.
    assert features._raw_memory_usage < 1.6 * size
    size = features._raw_memory_usage
    for row in X:
        features.learn_one(mapping(row))
    assert features._raw_memory_usage == size


def test_before_learning():
    features = MondrianFeatures()
    for ask in (features.cells_one, lambda x: features.kernel(x, x)):
        with pytest.raises(RuntimeError, match="cannot map yet: it has to learn samples first"):
            ask({"a": 1.0})
    assert features.nodes(0) == []


def test_samples_without_features():
    features = MondrianFeatures(3, 5.0, seed=1)
    features.learn_one({})
    assert features.cells_one({"a": 1.0}).tolist() == [0, 0, 0]
    for v in (0.0, 1.0, 5.0):
        features.learn_one({"a": v})
    assert len(features.transform_one({})) == 3
    assert features.kernel({"a": 0.0}, {"a": 5.0}) == 0.0
