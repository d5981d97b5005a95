"""Tests that sharded forests equal a single model, even while widths are renewed."""

import copy
import itertools

import numpy as np
import pandas as pd
import pytest
import test_shards
from naive.following import history
from test_widths import is_renewing

from river_mondrian.estimators.merging import divided, splits_at, united
from river_mondrian.partitions.mondrian import widths


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Move a check of widths before sample 4,096, so that a renewal is in progress there."""
    monkeypatch.setattr(widths, "CHECK_RATIO", 1.4)


def stream(model, n, category=False, seed=0):
    """Return a frame whose features change units, and labels or targets."""
    rng = np.random.default_rng(seed)
    values = rng.random((n, 3))
    y = values[:, 0] * values[:, 1] + 0.1 * rng.standard_t(3, size=n)
    # Some forests can be divided only later, so their units change later.
    values[300 if splits_at(model) == 256 else 650 :] *= (10.0, 1.0, 0.1)
    X = pd.DataFrame(values, columns=list("abc")).mask(rng.random((n, 3)) < 0.02)
    if category:
        X["color"] = rng.choice(["red", "blue", None], n, p=[0.5, 0.48, 0.02])
    return X, np.digitize(y, [0.1, 0.4]).tolist() if hasattr(model, "classes") else y.tolist()


def begun(name, n_blocks=14):
    """Return a forest that can be divided, and blocks during which a renewal starts and ends."""
    model = test_shards.FORESTS[name]()
    start = splits_at(model)
    n = 3 * start if start == 256 else start + start // 3
    X, y = stream(model, n, name in test_shards.CATEGORIES)
    model.learn_many(X[:start], y[:start])
    bounds = itertools.pairwise(np.linspace(start, n, n_blocks + 1).astype(int).tolist())
    return model, [(X[first:last], y[first:last]) for first, last in bounds]


@test_shards.forests
def test_a_forest_is_divided_in_mid_renewal(name):
    """A forest can be divided at any time into any number of parts, and parts can be divided."""
    whole, blocks = begun(name, 40)
    tails, ways = test_shards.tails_of(whole), [2, 5, 3, 1, 4]
    parts, renews = divided(whole, 2), set()
    for i, (X, y) in enumerate(blocks):
        whole.learn_many(X, y)
        test_shards.learn_in_parts(parts, X, y, tails)
        renews.add(is_renewing(whole))
        if i % 3 == 0:
            parts = [*divided(parts[0], min(2, parts[0].n_estimators)), *parts[1:]]
        elif i % 3 == 1:
            parts = divided(united(parts, tails), ways[i % 5])
    assert renews == {False, True}
    test_shards.assert_same(united(parts, tails), whole)


def test_parts_that_do_not_follow_one_another():
    first, _, third = divided(begun("classes")[0], 3)
    for other, tree in ((third, 3), (first, 0)):
        with pytest.raises(ValueError, match=f"tree 2 is to follow, but got tree {tree}"):
            united([first, other])


@pytest.mark.parametrize("name", ["classes", "drawn directions"])
@pytest.mark.parametrize("first, n_trees", [(0, 1), (1, 3), (3, 2)])
def test_trees_of_a_part_have_the_twins_widths_after_each_sample(name, first, n_trees, monkeypatch):
    monkeypatch.setattr(widths, "CHECK_RATIO", 1.5)
    model, rows = begun(name, 512)
    part = united(divided(model, test_shards.N_TREES)[first : first + n_trees])
    told = history(stream(model, 768)[0].to_numpy().tolist(), test_shards.N_TREES)
    assert told[0] != told[-1]
    for row, expected in zip(rows, told[1:], strict=True):
        part.learn_many(*row)
        for t in range(n_trees):
            found = list(part.tree_widths(t).values())
            assert found == pytest.approx(expected[first + t], rel=1e-6), (row, t)


# Renewals on workers.


@pytest.mark.covering
@test_shards.forests
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_that_dies_in_mid_renewal_is_replaced(name, when, engine):
    model, blocks = begun(name, 12)
    whole, drawn = copy.deepcopy(model), []
    for i, block in enumerate(blocks):
        whole.learn_many(*block)
        if is_renewing(whole):
            drawn.append(i)
    # A block takes one call per worker.
    calls = 2 * drawn[0] + 1, 2 * drawn[len(drawn) // 2] + 2, 2 * drawn[-1] + 1
    test_shards.assert_replaced(model, blocks, calls, when, engine)
