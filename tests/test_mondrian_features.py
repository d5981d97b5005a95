"""Mondrian features against their twin, the process's laws and the kernel they estimate."""

import itertools
import math

import numpy as np
import pytest
from naive import cells as naive

from river_mondrian import MondrianFeatures


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
