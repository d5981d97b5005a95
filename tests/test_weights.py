"""Tests of sample weights of classifiers: Algorithm 5, repetitions, adaptive trees."""

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from common import fed, stream

import river_mondrian as rm


def samples(n, seed=0):
    return stream(n, seed, "abc", 3)


@pytest.mark.parametrize("make", [rm.MondrianForestClassifier, rm.AdaptiveMondrianForestClassifier])
def test_nothing_is_learned_of_what_weighs_nothing(make):
    model = make(3, seed=1)
    model.learn_one({"a": 1.0}, "y", 0.0)
    assert (model.n_samples, model.feature_names, model.classes) == (0, [], [])
    before = pickle.dumps(taught(model, 40))
    model.learn_one({"a": 0.1, "new": 1.0}, "new", 0)
    model.learn_many(pd.DataFrame([{"a": 0.1, "other": 2.0}] * 3), ["new"] * 3, 0.0)
    assert pickle.dumps(model) == before


@pytest.mark.covering
@pytest.mark.parametrize("params", [{}, {"split_pure": True}, {"max_nodes": 31}, {"directions": 3}])
@pytest.mark.parametrize("n", [1, 40, 300, 600])
def test_the_first_weight_leaves_the_trees_as_they_are(params, n):
    """Rows get weights only when a weight other than 1 occurs, and then for all samples."""
    rows = samples(n)
    model = fed(rm.MondrianForestClassifier(3, seed=1, **params), rows)
    trees, names = model._trees, model.feature_names
    made = copy.deepcopy(trees)
    made.weigh()
    assert (trees.has_weights, made.has_weights) == (False, True)
    X = np.zeros((len(rows[:40]), trees.inputs.shape[1]))
    X[:, : len(names)] = [[x.get(name, math.nan) for name in names] for x, _ in rows[:40]]
    expected = trees.predict_rows(X, 1)
    np.testing.assert_allclose(made.predict_rows(X, 1), expected, atol=1e-13, rtol=0)
    for t in range(3):
        for one, other in zip(trees.reader.read(t), made.reader.read(t), strict=True):
            assert one.counts.tolist() == other.counts.tolist()
            assert (one.time, one.n_samples, one.left) == (other.time, other.n_samples, other.left)


@pytest.mark.parametrize("q", [1, 2])
def test_the_side_of_a_missing_value_follows_the_weights(q):
    """A prediction follows both sides of a cut, in proportion to their weights."""
    made = rm.MondrianForestClassifier(1, seed=1, scale=False, split_pure=True)
    plain, p = made.clone(), ({"a": 0.0}, "p")
    fed(made, [(*p, 3.0), *[({"a": 1.0}, "q", 1.0)] * q])
    fed(plain, [*[p] * 3, *[({"a": 1.0}, "q")] * q])
    assert made.predict_proba_one({}) == pytest.approx(plain.predict_proba_one({}), abs=1e-12)
    # The path in `debug_one` follows both sides, too.
    assert "'p': 3" in made.debug_one({})


def weigh(i):
    return 0.5 + i % 3


def taught(model, n):
    """Let a model learn `n` samples with different weights."""
    return fed(model, [(*s, weigh(i)) for i, s in enumerate(samples(n))])


def test_resampling_keeps_weights():
    model = taught(rm.MondrianForestClassifier(2, seed=1), 300)
    model.resample()
    assert model._trees.reader.read(0, hidden=True)[0].n_samples == 300
    total = sum(node.counts.sum() for node in model._trees.reader.read(0) if node.is_leaf)
    assert total == pytest.approx(sum(map(weigh, range(300))))


@pytest.mark.parametrize("n", [30, 300, 700])
def test_a_model_of_weight_1_is_one_without_weights(n):
    plain, weighted = (rm.AdaptiveMondrianForestClassifier(3, seed=1) for _ in range(2))
    fed(weighted, [(*s, 1 if i % 2 else 1.0) for i, s in enumerate(samples(n))])
    assert pickle.dumps(fed(plain, samples(n))) == pickle.dumps(weighted)


def test_weights_of_any_size_leave_probabilities():
    """Weights differ between samples, even while trees are rebuilt."""
    rng, asked = np.random.default_rng(1), [x for x, _ in samples(20, 8)]
    model = rm.AdaptiveMondrianForestClassifier(3, window=1000, autoregressive=True, seed=1)
    for i, (x, y) in enumerate(samples(2300)):
        # The weights include the ends of the range, and a weight below the smallest one that
        # counts.
        sizes = (1e30, 1e-30, 1.0, 5e-324, 10.0 ** rng.uniform(-30, 30))
        model.learn_one(x, y, sizes[int(rng.integers(5))])
        for found in map(model.predict_proba_one, asked[:4] if i % 20 == 0 else ()):
            assert sum(found.values()) == pytest.approx(1.0, abs=1e-9)
            assert all(0.0 <= p <= 1.0 for p in found.values())
    for found in (model.expert_weights, model.feature_importances):
        assert np.isfinite(list(found.values())).all()
    model.resample()
    again = copy.deepcopy(model)
    assert [*map(again.predict_proba_one, asked)] == [*map(model.predict_proba_one, asked)]
