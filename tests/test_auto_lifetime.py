"""Mondrian features of several lifetimes, and learners that choose among them by their loss."""

import math

import numpy as np
import pandas as pd
import pytest
from naive import cells as naive
from naive.mixture import Mixture
from river import datasets, optim
from test_linear import weights_of

from river_mondrian import MondrianFeatures, OGDClassifier, OGDRegressor
from river_mondrian.maps.record import Sample
from river_mondrian.partitions.mondrian.tree_memory import Partitions
from river_mondrian.posteriors.cells import MondrianMap
from river_mondrian.records import Float64s, Memory

GRID = [0.5, 1.0, 2.0, 4.0]


def samples(n, seed=0, dims=2):
    return np.random.default_rng(seed).random((n, dims)).astype(np.float32).astype(float)


def mapping(row):
    return {f"x{j}": v for j, v in enumerate(row.tolist())}


MEMORY = Memory(Sample)


def sample_of(row):
    """Return a row as a sample, until the next call."""
    MEMORY[0].values = Float64s.of(row)
    return MEMORY[0]


def columns(made, rows):
    """Return the columns of rows, shape (rows, lifetimes, partitions)."""
    return made.transform_rows(rows)[0].reshape(len(rows), len(GRID), -1)


def test_one_walk_finds_the_cells_of_all_lifetimes():
    X = samples(200)
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
        [*X, *samples(40, 3)], [*first, *columns(made, samples(40, 3))], strict=True
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
    X = samples(500, 5)
    y = np.sin(6.0 * X[:, 0]) + X[:, 1] if not log else X[:, 0] > X[:, 1]
    features = MondrianFeatures(6, "auto", seed=2)
    model = OGDClassifier(features, "log", 0.3) if log else OGDRegressor(features, "squared", 0.3)
    for row, target in zip(X[:350], y[:350].tolist(), strict=True):
        model.learn_one(mapping(row), target)
    weights = model._current
    assert weights.compiled is model._features._map
    twin = Mixture(16, 1.0 / math.sqrt(6), 0.3, log)
    twin.weights = dict(enumerate(weights_of(model)[:, 0].tolist()))
    twin.shares = weights.shares.tolist()
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
    with pytest.raises(ValueError, match="OGDClassifier or OGDRegressor only"):
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
