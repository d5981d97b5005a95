"""The law of the trees: online forests are batch forests, by distribution."""

from __future__ import annotations

import numpy as np
import pytest
from naive import mondrian as naive
from scipy import stats
from test_kernels import LEVEL, SETTINGS, as_twin, draw, grow, route

from river_mondrian.posteriors.labels.trees import PAUSE_LIMIT

# The law of the trees.


def features_of(root, X, n_points):
    """Summaries of a tree that its law decides."""
    routed = naive.leaves(route(root, X))
    together = naive.depth(routed[0])
    for leaf in routed:
        if 0 in leaf.points and 1 in leaf.points:
            together = -1
    return {
        "root time": root.time,
        "root dimension": root.dim,
        "leaves": len(routed),
        "mean depth": sum(naive.depth(leaf) * len(leaf.points) for leaf in routed) / n_points,
        "first two together": together == -1,
        "largest leaf": max(len(leaf.points) for leaf in routed),
    }


def compare(first, second, n_tests):
    """Hold two samples of summaries against each other at the level, shared by all tests."""
    for name in first[0]:
        a = np.array([summary[name] for summary in first], dtype=float)
        b = np.array([summary[name] for summary in second], dtype=float)
        values = np.unique(np.concatenate([a, b]))
        if len(values) == 1:
            continue
        if len(values) < 6:
            table = [[(a == v).sum() for v in values], [(b == v).sum() for v in values]]
            p = stats.chi2_contingency(table).pvalue
        else:
            p = stats.ks_2samp(a, b).pvalue
        assert p > LEVEL / n_tests, (name, p)


LAW_DATA = {
    "spread": ([[0.0, 0.0], [1.0, 0.3], [0.2, 0.9], [0.6, 0.5], [0.9, 0.8], [0.3, 0.3]], "aababb"),
    "one class late": ([[0.1, 0.1], [0.9, 0.2], [0.8, 0.9], [0.2, 0.7], [0.5, 0.5]], "aaaab"),
    "duplicates": ([[0.0, 0.0], [0.0, 0.0], [1.0, 0.5], [1.0, 0.5], [0.4, 0.9]], "abaab"),
}


def law_data(name):
    X, y = LAW_DATA[name]
    return np.array(X, dtype=np.float32).astype(float), [ord(c) - ord("a") for c in y]


@pytest.mark.parametrize("name", list(LAW_DATA))
@pytest.mark.parametrize("params", SETTINGS)
@pytest.mark.parametrize("seed", range(3))
def test_online_forests_have_the_law_of_batch_forests(name, params, seed):
    X, y = law_data(name)
    n_trees = 1000
    order = np.random.default_rng(seed).permutation(len(y))
    trees = grow(X[order], [y[i] for i in order], n_trees=n_trees, seed=seed, **params)
    online = [features_of(as_twin(trees, t), X, len(y)) for t in range(n_trees)]
    trees.build()
    batch = [features_of(as_twin(trees, t), X, len(y)) for t in range(n_trees)]
    rng = np.random.default_rng(100 + seed)
    twin = [
        features_of(
            strip(naive.Tree(params["lifetime"], rng, not params["split_pure"]).fit(X, y).root),
            X,
            len(y),
        )
        for _ in range(400)
    ]
    compare(online, batch, n_tests=6 * 3 * 2)
    compare(online, twin, n_tests=6 * 3 * 2)


@pytest.mark.parametrize("seed", range(3))
def test_an_opened_block_is_sampled_from_its_parents_time_on(seed):
    """How often a cut falls into a late block depends on how much of the lifetime is left."""
    X = np.array([[0.0], [0.3], [1.3], [0.15]])
    X = X.astype(np.float32).astype(float)
    y = [0, 0, 1, 1]
    n_trees = 8000
    trees = grow(X, y, n_trees=n_trees, seed=seed, lifetime=3.0)

    def leaves():
        return [{"leaves": sum(n.is_leaf for n in trees.read(t))} for t in range(n_trees)]

    online = leaves()
    trees.build()
    compare(online, leaves(), n_tests=3)


def strip(root):
    for node in naive.walk(root):
        node.points = []
    return root


@pytest.mark.parametrize("seed", range(3))
def test_the_root_is_cut_as_the_uniform_law_says(seed):
    X, y = law_data("spread")
    trees = grow(X, y, n_trees=4000, seed=seed, split_pure=True)
    roots = [trees.read(t)[0] for t in range(4000)]
    times = [root.time for root in roots]
    rate = float((X.max(axis=0) - X.min(axis=0)).sum())
    assert stats.kstest(times, stats.expon(scale=1.0 / rate).cdf).pvalue > LEVEL / 9
    in_first = sum(root.dim == 0 for root in roots)
    share = float(X[:, 0].max() - X[:, 0].min()) / rate
    assert stats.binomtest(in_first, 4000, share).pvalue > LEVEL / 9
    cuts = [root.cut for root in roots if root.dim == 0]
    assert stats.kstest(cuts, stats.uniform(0.0, 1.0).cdf).pvalue > LEVEL / 9


@pytest.mark.parametrize("seed", range(3))
def test_the_law_is_projective(seed):
    """The cut that separates two points has the law of a tree of these two alone."""
    X, y = draw(30, 5, dims=2)
    trees = grow(X, y, n_trees=3000, seed=seed, split_pure=True)
    distance = float(np.abs(X[0] - X[1]).sum())
    times = []
    for t in range(3000):
        nodes = trees.read(t)
        node = nodes[0]
        while (X[0][node.dim] <= node.cut) == (X[1][node.dim] <= node.cut):
            node = nodes[node.left if X[0][node.dim] <= node.cut else node.right]
        times.append(node.time)
    assert stats.kstest(times, stats.expon(scale=1.0 / distance).cdf).pvalue > LEVEL / 3


@pytest.mark.parametrize("seed", range(3))
def test_sampling_hidden_cuts_early_keeps_the_law(seed):
    """A block that has been paused past the limit, then opened, is a batch block."""
    rng = np.random.default_rng(0)
    X = rng.random((PAUSE_LIMIT + 60, 2)).astype(np.float32).astype(float)
    X = np.vstack([X, [[0.5, 0.5]]])
    y = [0] * (len(X) - 1) + [1]
    n_trees = 300
    trees = grow(X, y, n_trees=n_trees, seed=seed)
    online = [features_of(as_twin(trees, t), X, len(y)) for t in range(n_trees)]
    trees.build()
    batch = [features_of(as_twin(trees, t), X, len(y)) for t in range(n_trees)]
    compare(online, batch, n_tests=6 * 3)
