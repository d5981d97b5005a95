"""Mondrian features: cells, distributions, the kernel's estimate, lifetimes chosen by a loss."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from common import fed
from naive import cells as naive
from naive.mixture import Mixture
from river import datasets, optim
from test_linear import weights_of

from river_mondrian import MondrianFeatures, OGDClassifier, OGDRegressor
from river_mondrian.maps.record import Sample
from river_mondrian.partitions.mondrian.tree_memory import Partitions
from river_mondrian.posteriors.cells import MondrianMap
from river_mondrian.records import Float64s, Memory


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
    return fed(features, map(mapping, X))


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
    fed(features, map(mapping, X))
    assert features._map.n_columns == n_columns
    assert features._map.trees.n_points == n_points
    # Except the boxes of leaves that were single points.
    assert features._raw_memory_usage < 1.6 * size
    size = features._raw_memory_usage
    fed(features, map(mapping, X))
    assert features._raw_memory_usage == size


def test_samples_without_features():
    features = MondrianFeatures(3, 5.0, seed=1)
    features.learn_one({})
    assert features.cells_one({"a": 1.0}).tolist() == [0, 0, 0]
    for v in (0.0, 1.0, 5.0):
        features.learn_one({"a": v})
    assert len(features.transform_one({})) == 3
    assert features.kernel({"a": 0.0}, {"a": 5.0}) == 0.0


# Several lifetimes, and learners that choose among them by their loss.

GRID = [0.5, 1.0, 2.0, 4.0]


MEMORY = Memory(Sample)


def sample_of(row):
    """Return a row as a sample, until the next call."""
    MEMORY[0].values = Float64s.of(row)
    return MEMORY[0]


def columns(made, rows):
    """Return the columns of rows, shape (rows, lifetimes, partitions)."""
    return made.transform_rows(rows)[0].reshape(len(rows), len(GRID), -1)


def test_one_walk_finds_the_cells_of_all_lifetimes():
    X = samples(200, dims=2)
    made = MondrianMap(Partitions(5, math.inf, seed=1), GRID)
    made.add_inputs(list(range(X.shape[1])), X[0])
    first = []
    for row in X:
        made.learn(sample_of(row))
        first.append(columns(made, row[None])[0])
    # Later samples have not changed them.
    np.testing.assert_array_equal(columns(made, X), first)
    trees = [made.trees.read(t) for t in range(5)]
    for row, found in zip(
        [*X, *samples(40, 3, dims=2)], [*first, *columns(made, samples(40, 3, dims=2))], strict=True
    ):
        for k, lifetime in enumerate(GRID):
            assert found[k].tolist() == [naive.cell(nodes, row, lifetime, k) for nodes in trees]
    used = [set(np.unique(np.array(first)[:, k])) for k in range(len(GRID))]
    assert sorted(c for cells in used for c in cells) == list(range(made.n_columns))


def parts(model, x):
    compiled = model._features._map
    return model._features._output(x).reshape(compiled.n_lifetimes, -1).tolist()


@pytest.mark.parametrize("log", [False, True])
def test_the_mixture_is_the_twins(log):
    X = samples(500, 5, dims=2)
    y = np.sin(6.0 * X[:, 0]) + X[:, 1] if not log else X[:, 0] > X[:, 1]
    features = MondrianFeatures(6, "auto", seed=2)
    model = OGDClassifier(features, "log", 0.3) if log else OGDRegressor(features, "squared", 0.3)
    for row, target in zip(X[:350], y[:350].tolist(), strict=True):
        model.learn_one(mapping(row), target)
    weights = model._current
    assert weights.compiled is model._features._map
    twin = Mixture(16, 1.0 / math.sqrt(6), 0.3, log)
    twin.weights = dict(enumerate(weights_of(model)[:, 0].tolist()))
    twin.shares = weights.shares.copy()
    twin.mean, twin.count = weights.record.mean_loss, weights.record.n_losses
    for row, target in zip(X[350:], y[350:].tolist(), strict=True):
        x = mapping(row)
        before = parts(model, x)
        found = model.predict_proba_one(x)[True] if log else model.predict_one(x)
        assert found == pytest.approx(twin.predict(before), rel=1e-9)
        model.learn_one(x, target)
        twin.learn(before, parts(model, x), float(target))
        assert list(model.lifetimes.values()) == pytest.approx(twin.shares, rel=1e-9)


def test_what_it_refuses():
    features = MondrianFeatures(lifetime="auto")
    with pytest.raises(ValueError, match='lifetime="auto" is chosen by a loss'):
        features.learn_one({"a": 1.0})
    with pytest.raises(ValueError, match='lifetime="auto" is chosen by a loss'):
        features.learn_many(pd.DataFrame({"a": [1.0]}))
    with pytest.raises(ValueError, match="in OGDClassifier or OGDRegressor"):
        features._own_copy()
    with pytest.raises(ValueError, match="takes a loss by its name"):
        OGDClassifier(features, optim.losses.BinaryFocalLoss(), multiclass="ovr")
    assert OGDRegressor(MondrianFeatures(lifetime=1.0)).lifetimes == {}


def test_several_classes():
    data = list(datasets.ImageSegments().take(700))
    for multiclass, loss in (("softmax", "hinge"), ("ovr", "log"), ("ovr", "hinge")):
        model = OGDClassifier(MondrianFeatures(8, "auto", seed=1), loss, multiclass=multiclass)
        right = []
        for x, y in data:
            right.append(model.predict_one(x) == y)
            model.learn_one(x, y)
        assert np.mean(right[300:]) > 0.8
    proba = OGDClassifier(MondrianFeatures(8, "auto", seed=1), "log")
    for x, y in data:
        proba.learn_one(x, y)
    assert sum(proba.predict_proba_one(data[0][0]).values()) == pytest.approx(1.0)
