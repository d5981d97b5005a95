"""Weights of the adaptive classifier's samples: what they do, what they do not, bad ones."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from river import drift
from test_adaptive import draw, grown, long_slots, posteriors
from test_weights import samples

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    ModelFormatError,
    MondrianForestClassifier,
)


def forest(n, first=0, **params):
    """Return a forest that has learned so many samples, of several weights from one on."""
    params = {
        "n_estimators": 3,
        "n_candidates": 4,
        "drift_detector": drift.NoDrift(),
        "seed": 1,
    } | params
    model = AdaptiveMondrianForestClassifier(**params)
    for i, (x, y) in enumerate(samples(n, missing=0.1)):
        model.learn_one(x, y, 0.5 + i % 3 if i >= first else 1.0)
    return model


ASKED = [x for x, _ in samples(20, 8, missing=0.1)]


def predicted(model):
    return [model.predict_proba_one(x) for x in ASKED]


# What a weight is.


@pytest.mark.parametrize("n", [30, 300, 700])
def test_a_model_of_weight_1_is_one_without_weights(n):
    plain, weighted = (AdaptiveMondrianForestClassifier(3, seed=1) for _ in range(2))
    for i, (x, y) in enumerate(samples(n)):
        plain.learn_one(x, y)
        weighted.learn_one(x, y, 1 if i % 2 else 1.0)
    assert pickle.dumps(plain) == pickle.dumps(weighted)


def test_the_hnsp_is_that_of_the_exact_forest():
    """One leaf of several samples at one place: c, tab and the prior are the same."""
    exact = MondrianForestClassifier(1, prior_rate=10.0, scale=False, seed=1)
    X = np.full((6, 1), 0.3)
    y, weights = [0, 1, 0, 2, 1, 0], [0.3, 2.5, 0.1, 1e-3, 0.25, 1.5]
    trees = grown(X, y, n_trees=1, weights=weights)
    trees.forest.gamma = 10.0
    for x, label, weight in zip(X, y, weights, strict=True):
        exact.learn_one({"a": x[0]}, label, weight)
    (slot,) = long_slots(trees)
    for x in (0.3, 0.4, 5.0):
        found = posteriors(trees, slot, [x])[0]
        expected = list(exact.predict_proba_one({"a": x}).values())
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_whole_weight_counts_as_repeats_do():
    """Sums are as those of repeats; the rest is that of one sample, as the notes say."""
    X, y = draw(60, 1)
    weights = [1.0 + i % 3 for i in range(60)]
    again = np.repeat(np.arange(60), np.array(weights, dtype=int))
    weighted = grown(X, y, n_trees=1, weights=weights)
    repeated = grown(X[again], [y[i] for i in again], n_trees=1)
    roots = [trees.read(0)[0] for trees in (weighted, repeated)]
    assert roots[0].counts.tolist() == roots[1].counts.tolist()
    assert [root.n_samples for root in roots] == [60, 119 + 1]
    assert [trees.n_points for trees in (weighted, repeated)] == [60, 120]
    learned = [trees.discriminants.learned for trees in (weighted, repeated)]
    for name in ("counts", "means", "squares"):
        # Of all values; later halves end by samples.
        np.testing.assert_allclose(learned[0][name][0], learned[1][name][0], rtol=1e-9)
    # Of memories that forget, the first sample has been decayed once for each visit.
    one = grown(X[:2], [0, 1], n_trees=1, forgets=True, weights=[3.0, 1.0])
    three = grown(X[[0, 0, 0, 1]], [0, 0, 0, 1], n_trees=1, forgets=True)
    late = []
    for trees in (one, three):
        tree = trees.trees[long_slots(trees)[0]]
        own = tree.nodes.row(tree.root).statistics(tree)
        late.append([float(own.block_of(k).weights[k] / own.units[0]) for k in range(2)])
    assert late[0] == pytest.approx([3.0 * 0.95, 1.0], rel=1e-5)
    assert late[1] == pytest.approx([0.95 + 0.95**2 + 0.95**3, 1.0], rel=1e-5)


def test_weights_of_any_size_leave_probabilities():
    """Also where they change from one sample to the next, and where trees are built anew."""
    rng = np.random.default_rng(1)
    model = AdaptiveMondrianForestClassifier(3, window=1000, autoregressive=True, seed=1)
    for i, (x, y) in enumerate(samples(2300, missing=0.1)):
        # Also the ends of the range, and what is beyond the least that counts.
        sizes = (1e30, 1e-30, 1.0, 5e-324, 10.0 ** rng.uniform(-30, 30))
        weight = sizes[int(rng.integers(5))]
        model.learn_one(x, y, weight)
        if i % 20 == 0:
            for asked in ASKED[:4]:
                found = model.predict_proba_one(asked)
                assert sum(found.values()) == pytest.approx(1.0, abs=1e-9)
                assert all(0.0 <= p <= 1.0 for p in found.values())
    weights = list(model.expert_weights.values())
    assert np.isfinite(weights).all()
    assert np.isfinite(list(model.feature_importances.values())).all()
    model.resample()
    assert predicted(model) == predicted(copy.deepcopy(model))


# What it is for.


def recall(data, label, weight, start):
    """Return the recall of a class that weighs so much, progressively."""
    model = AdaptiveMondrianForestClassifier(seed=1)
    hits, n = 0, 0
    for i, (x, y) in enumerate(data):
        if i >= start and y == label:
            n += 1
            hits += model.predict_one(x) == y
        model.learn_one(x, y, weight if y == label else 1.0)
    return hits / n


# Input.


def test_nothing_is_learned_of_what_weighs_nothing():
    model = AdaptiveMondrianForestClassifier(3, seed=1)
    model.learn_one({"a": 1.0}, "y", 0.0)
    assert model.n_samples == 0
    assert model.feature_names == model.classes == []
    model = forest(40, drift_detector=None)
    before = pickle.dumps(model)
    model.learn_one({"a": 0.1, "new": 1.0}, "new", 0)
    model.learn_one(ASKED[0], 1, 0.0)
    model.learn_many(pd.DataFrame([{"a": 0.1, "other": 2.0}] * 3), ["new"] * 3, 0.0)
    assert pickle.dumps(model) == before


# Copies and files.


def test_damaged_weights_are_refused():
    model = forest(40)
    points = model._trees.forest.points
    for weight, text in ((math.nan, "is nan"), (0.0, "is 0"), (-1.0, "is -1"), (1e31, "is 9.9")):
        known, points.row(3).weight = float(points.row(3).weight), weight
        with pytest.raises(ModelFormatError, match=f"point 3 is damaged: weight {text}"):
            pickle.loads(pickle.dumps(model))
        points.row(3).weight = known
