"""Weights of samples of classifiers: Algorithm 5 with real numbers, repeats, adaptive trees."""

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from common import refused
from river import drift

import river_mondrian as rm

NAMES = ("a", "b", "c")


def samples(n, seed=0, n_classes=3, missing=0.0):
    """Return samples with labels that follow from them; some lack a value."""
    rng = np.random.default_rng(seed)
    found = []
    for row in rng.random((n, len(NAMES))).tolist():
        x = dict(zip(NAMES, row, strict=True))
        if rng.random() < missing:
            del x[NAMES[int(rng.integers(len(NAMES)))]]
        found.append((x, int(sum(row) * n_classes / 3.0)))
    return found


@pytest.mark.parametrize("make", [rm.MondrianForestClassifier, rm.AdaptiveMondrianForestClassifier])
def test_nothing_is_learned_of_what_weighs_nothing(make):
    model = make(3, seed=1)
    model.learn_one({"a": 1.0}, "y", 0.0)
    assert model.n_samples == 0
    assert model.feature_names == model.classes == []
    for i, (x, y) in enumerate(samples(40)):
        model.learn_one(x, y, 1.0 + i % 2)
    before = pickle.dumps(model)
    model.learn_one({"a": 0.1, "new": 1.0}, "new", 0)
    model.learn_many(pd.DataFrame([{"a": 0.1, "other": 2.0}] * 3), ["new"] * 3, 0.0)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("params", [{}, {"split_pure": True}, {"max_nodes": 31}, {"directions": 3}])
@pytest.mark.parametrize("n", [1, 40, 300, 600])
def test_the_first_weight_leaves_the_trees_as_they_are(params, n):
    """Until then rows are without weights; they get those of their samples."""
    model = rm.MondrianForestClassifier(3, seed=1, **params)
    stream = samples(n, missing=0.1)
    for x, y in stream:
        model.learn_one(x, y)
    trees = model._trees
    made = copy.deepcopy(trees)
    made.weigh()
    assert (trees.has_weights, made.has_weights) == (False, True)
    rows = np.array(
        [[x.get(name, math.nan) for name in model.feature_names] for x, _ in stream[:40]]
    )
    rows = np.pad(rows, ((0, 0), (0, trees.inputs.shape[1] - rows.shape[1])))
    expected = trees.predict_rows(rows, 1)
    np.testing.assert_allclose(made.predict_rows(rows, 1), expected, atol=1e-13, rtol=0)
    for t in range(3):
        for one, other in zip(trees.read(t), made.read(t), strict=True):
            assert one.counts.tolist() == other.counts.tolist()
            assert (one.time, one.n_samples, one.left) == (other.time, other.n_samples, other.left)


def test_the_side_of_a_missing_value_follows_the_weights():
    """A prediction follows both sides of a cut, each with its share of the weight."""
    model = rm.MondrianForestClassifier(1, seed=1, scale=False, split_pure=True)
    model.learn_one({"a": 0.0}, "p", 3.0)
    model.learn_one({"a": 1.0}, "q", 1.0)
    far = model.predict_proba_one({})
    plain = rm.MondrianForestClassifier(1, seed=1, scale=False, split_pure=True)
    for x, y, n in ((0.0, "p", 3), (1.0, "q", 1)):
        for _ in range(n):
            plain.learn_one({"a": x}, y)
    assert far == pytest.approx(plain.predict_proba_one({}), abs=1e-12)
    assert far["p"] > 0.6


def forest(n, **params):
    """Return a forest that has learned so many samples of several weights."""
    model = rm.MondrianForestClassifier(**{"n_estimators": 2, "seed": 1} | params)
    for i, (x, y) in enumerate(samples(n)):
        model.learn_one(x, y, 0.5 + i % 3)
    return model


def test_resampling_keeps_weights():
    model = forest(300)
    model.resample()
    root = model._trees.read(0, hidden=True)[0]
    assert root.n_samples == 300
    leaves = [node for node in model._trees.read(0) if node.is_leaf]
    total = sum(0.5 + i % 3 for i in range(300))
    assert sum(node.counts.sum() for node in leaves) == pytest.approx(total)


def test_the_path_that_is_shown_follows_the_weights():
    model = rm.MondrianForestClassifier(1, seed=1, scale=False, split_pure=True)
    model.learn_one({"a": 0.0}, "p", 3.0)
    model.learn_one({"a": 1.0}, "q", 0.1)
    model.learn_one({"a": 1.0}, "q", 0.1)
    assert "'p': 3" in model.debug_one({})


# Weights of the adaptive classifier's samples: what they do, what they do not, bad ones.


def adaptive_forest(n, first=0, **params):
    """Return a forest that has learned so many samples, of several weights from one on."""
    params = {
        "n_estimators": 3,
        "n_candidates": 4,
        "drift_detector": drift.NoDrift(),
        "seed": 1,
    } | params
    model = rm.AdaptiveMondrianForestClassifier(**params)
    for i, (x, y) in enumerate(samples(n, missing=0.1)):
        model.learn_one(x, y, 0.5 + i % 3 if i >= first else 1.0)
    return model


ASKED = [x for x, _ in samples(20, 8, missing=0.1)]


def predicted(model):
    return [model.predict_proba_one(x) for x in ASKED]


@pytest.mark.parametrize("n", [30, 300, 700])
def test_a_model_of_weight_1_is_one_without_weights(n):
    plain, weighted = (rm.AdaptiveMondrianForestClassifier(3, seed=1) for _ in range(2))
    for i, (x, y) in enumerate(samples(n)):
        plain.learn_one(x, y)
        weighted.learn_one(x, y, 1 if i % 2 else 1.0)
    assert pickle.dumps(plain) == pickle.dumps(weighted)


def test_weights_of_any_size_leave_probabilities():
    """Also where they change from one sample to the next, and where trees are built anew."""
    rng = np.random.default_rng(1)
    model = rm.AdaptiveMondrianForestClassifier(3, window=1000, autoregressive=True, seed=1)
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


@pytest.mark.parametrize("make", [forest, adaptive_forest])
def test_damaged_weights_are_refused(make):
    model = make(40)
    points = model._trees.forest.points
    for weight, text in (
        (math.nan, "is nan"),
        (0.0, "is 0"),
        (-1.0, "is -1"),
        (1e31, "is (9.9|1e)"),
    ):
        known, points.row(3).weight = float(points.row(3).weight), weight
        refused(model, f"point 3 is damaged: weight {text}")
        points.row(3).weight = known


def test_trees_of_another_kind_are_refused():
    model = forest(3)
    state, other = model.__getstate__() | {"_trees": "trees"}, object.__new__(type(model))
    with pytest.raises(rm.ModelFormatError, match="but LabelTrees are made"):
        other.__setstate__(state)
