"""Mondrian features against their twin, the process's laws and the kernel they estimate."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from naive import cells as naive
from naive import mondrian
from river import datasets, evaluate, linear_model, metrics, optim, preprocessing
from scipy import stats

from river_mondrian import MondrianFeatures, OGDClassifier

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


def test_mapping_changes_nothing():
    features = learned(samples(60), 5, 3.0, seed=1)
    before = pickle.dumps(features)
    far = {"x0": 50.0, "x1": -9.0, "new": 1.0}
    assert len(features.transform_one(far)) == 5
    assert features.kernel(far, far) == 1.0
    assert pickle.dumps(features) == before
    features.learn_one({"x0": 50.0, "x1": -9.0, "x2": 0.0})
    assert features.kernel({"x0": 50.0, "x1": -9.0, "x2": 0.0}, mapping(samples(1)[0])) == 0.0


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


@pytest.mark.parametrize("seed", SEEDS)
def test_all_pairs_are_near_the_kernel(seed):
    """A finite form of Proposition 2: Hoeffding's inequality over all pairs of samples."""
    X = samples(40, seed=seed, dims=2)
    features = learned(X, 800, 3.0, seed=seed)
    frame = pd.DataFrame([mapping(row) for row in X])
    exact = np.exp(-3.0 * np.abs(X[:, None] - X).sum(axis=2))
    n_pairs = 40 * 39 / 2
    bound = math.sqrt(math.log(2.0 * n_pairs * len(SEEDS) / LEVEL) / (2 * 800))
    assert np.abs(features.gram(frame) - exact).max() < bound


def n_cells(features, t):
    return sum(node.is_leaf for node in features.nodes(t))


@pytest.mark.parametrize("seed", SEEDS)
def test_online_and_batch_have_one_law(seed):
    """The twin draws the same points' partitions by Algorithm 2, in batch."""
    X = samples(12, seed=seed, dims=2)
    features = learned(X, 500, 2.0, seed=seed)
    rng = np.random.default_rng(1000 + seed)
    points = X.tolist()
    roots = [
        mondrian.sample_block(list(range(12)), None, points, [None] * 12, 2.0, rng, False)
        for _ in range(500)
    ]
    level = LEVEL / (2 * len(SEEDS))
    ours = [n_cells(features, t) for t in range(500)]
    theirs = [len(mondrian.leaves(root)) for root in roots]
    largest = max(ours + theirs)
    table = np.array([np.bincount(counts, minlength=largest + 1) for counts in (ours, theirs)])
    table = table[:, table.sum(axis=0) > 0]
    # Rare numbers of cells are taken together.
    rare = table.sum(axis=0) < 20
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1) + 1])
    assert stats.chi2_contingency(table).pvalue > level
    times = [min(features.nodes(t)[0].time, 2.0) for t in range(500)]
    assert stats.ks_2samp(times, [root.time for root in roots]).pvalue > level


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_partitions": 0}, "n_partitions must be an integer >= 1, got 0"),
        ({"n_partitions": 2.0}, "n_partitions must be an integer >= 1"),
        ({"lifetime": 0.0}, "lifetime must be a finite number > 0, got 0.0"),
        ({"lifetime": math.inf}, "lifetime must be a finite number > 0"),
        ({"lifetime": "long"}, "lifetime must be a finite number > 0"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        MondrianFeatures(**arguments)


def test_under_learners_and_in_pipelines():
    features = MondrianFeatures(30, lifetime=1.0, seed=1)
    models = [
        OGDClassifier(features, "log", 1.0),
        features | linear_model.LogisticRegression(optim.SGD(1.0), intercept_lr=0.0),
    ]
    found = []
    for model in models:
        whole = preprocessing.StandardScaler() | model
        metric = metrics.Accuracy()
        evaluate.progressive_val_score(datasets.Bananas().take(1000), whole, metric)
        found.append(metric.get())
    # The pipeline learns its map before the prediction, too, that is without the labels.
    assert min(found) > 0.75
    assert abs(found[0] - found[1]) < 0.03
