"""Tests of Mondrian features: cells, distributions, estimated kernel, lifetimes by loss."""

import itertools
import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from common import accuracy, fed, raises
from naive import cells as naive
from naive.mixture import Mixture
from river import datasets, optim
from test_linear import weights_of

from river_mondrian import MondrianFeatures, OGDClassifier, OGDRegressor
from river_mondrian.maps.record import Sample
from river_mondrian.partitions.mondrian.tree_store import Partitions
from river_mondrian.posteriors.cells import MondrianMap
from river_mondrian.records import Float64s, Memory


def samples(n, seed=0, dims=3, holes=0.0):
    """Draw points in the unit cube in single precision, with missing values."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, dims)).astype(np.float32).astype(float)
    X[rng.random((n, dims)) < holes] = math.nan
    return X


def mapping(row):
    return {f"x{j}": v for j, v in enumerate(row.tolist()) if not math.isnan(v)}


def learned(X, *args, seed=1):
    # The first sample has all features, so their order is the order of columns.
    return fed(MondrianFeatures(*args, seed=seed), map(mapping, X))


def columns_of(features, row):
    return features._output(mapping(row)).tolist()


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_cells_are_the_twins(holes):
    X = samples(200, holes=holes)
    X[0] = 0.5
    features = learned(X, 7, 4.0)
    trees = [features.nodes(t) for t in range(7)]
    for row in [*X, *samples(50, seed=9, holes=holes)]:
        expected = [naive.cell(nodes, row, 4.0, 0) for nodes in trees]
        assert columns_of(features, row) == expected
    # Each column is a cell of a partition, as in its name.
    cells = [sorted(node.cell for node in nodes if node.is_leaf) for nodes in trees]
    assert sorted(itertools.chain(*cells)) == list(range(features._map.n_columns))
    for t, own in enumerate(cells):
        assert features._map.names(own) == [f"mondrian_{t}_{k}" for k in range(len(own))]
    numbers = [own.index(c) for own, c in zip(cells, columns_of(features, X[5]), strict=True)]
    assert features.cells_one(mapping(X[5])).tolist() == numbers


def test_memory_grows_with_cells_only():
    X = samples(500, seed=4)
    features, seen = learned(X, 10, 2.0), []
    for _ in range(3):
        made = features._map
        seen.append((made.n_columns, made.trees.n_points, features._raw_memory_usage))
        fed(features, map(mapping, X))
    assert seen[0][:2] == seen[1][:2] and seen[1] == seen[2]
    assert seen[0][1] < seen[0][0]
    # Cuts are added only within leaves that had one point.
    assert seen[1][2] < 1.6 * seen[0][2]


# Several lifetimes, and learners that choose among them by loss.

GRID = [0.5, 1.0, 2.0, 4.0]


def columns(made, rows):
    """Return the columns of rows, shape (rows, lifetimes, partitions)."""
    return made.transform_rows(rows)[0].reshape(len(rows), len(GRID), -1)


def test_samples_without_features():
    features = fed(MondrianFeatures(3, 5.0, seed=1), [{}])
    assert features.cells_one({"a": 1.0}).tolist() == [0, 0, 0]
    fed(features, [{"a": v} for v in (0.0, 1.0, 5.0)])
    assert len(features.transform_one({})) == 3
    assert features.kernel({"a": 0.0}, {"a": 5.0}) == 0.0


def test_one_walk_finds_the_cells_of_all_lifetimes():
    X, asked = samples(200, dims=2), samples(40, 3, dims=2)
    made = MondrianMap(Partitions(5, math.inf, seed=1), GRID)
    made.add_inputs(list(range(X.shape[1])), X[0])
    first, memory = [], Memory(Sample)
    for row in X:
        memory[0].values = Float64s.of(row)
        made.learn(memory[0])
        first.append(columns(made, row[None])[0])
    # Later samples have not changed these columns.
    np.testing.assert_array_equal(columns(made, X), first)
    trees = [made.trees.reader.read(t) for t in range(5)]
    for row, found in zip([*X, *asked], [*first, *columns(made, asked)], strict=True):
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
    pairs = list(zip(map(mapping, X), y.tolist(), strict=True))
    features = MondrianFeatures(6, "auto", seed=2)
    model = OGDClassifier(features, "log", 0.3) if log else OGDRegressor(features, "squared", 0.3)
    fed(model, pairs[:350])
    weights = model._current
    assert weights.compiled is model._features._map
    twin = Mixture(16, 1.0 / math.sqrt(6), 0.3, log)
    twin.weights = dict(enumerate(weights_of(model)[:, 0].tolist()))
    twin.shares = weights.shares.copy()
    twin.mean, twin.count = weights.record.mean_loss, weights.record.n_losses
    for x, target in pairs[350:]:
        before = parts(model, x)
        found = model.predict_proba_one(x)[True] if log else model.predict_one(x)
        assert found == pytest.approx(twin.predict(before), rel=1e-9)
        model.learn_one(x, target)
        twin.learn(before, parts(model, x), float(target))
        assert list(model.lifetimes.values()) == pytest.approx(twin.shares, rel=1e-9)


def test_what_it_refuses():
    features = MondrianFeatures(lifetime="auto")
    frame, focal = pd.DataFrame({"a": [1.0]}), optim.losses.BinaryFocalLoss()
    for message, call in (
        ('lifetime="auto" is chosen by a loss', partial(features.learn_one, {"a": 1.0})),
        ('lifetime="auto" is chosen by a loss', partial(features.learn_many, frame)),
        ("in OGDClassifier or OGDRegressor", features._own_copy),
        ("takes a loss by its name", partial(OGDClassifier, features, focal, multiclass="ovr")),
    ):
        raises(ValueError, message, call)
    assert OGDRegressor(MondrianFeatures(lifetime=1.0)).lifetimes == {}


KINDS = [("softmax", "hinge"), ("ovr", "log"), ("ovr", "hinge")]


@pytest.mark.parametrize("multiclass, loss", KINDS)
def test_several_classes(multiclass, loss):
    model = OGDClassifier(MondrianFeatures(8, "auto", seed=1), loss, multiclass=multiclass)
    assert accuracy(model, list(datasets.ImageSegments().take(700)), 300) > 0.8
