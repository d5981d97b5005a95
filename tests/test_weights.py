"""Weights of samples of classifiers: Algorithm 5 with real numbers, repeats, adaptive trees."""

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from naive import hnsp
from naive import mondrian as naive
from river import drift
from test_adaptive import draw as draw_dense
from test_adaptive import grown, long_slots
from test_kernels import as_twin, assert_predictions_are_the_twins, draw

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    ModelFormatError,
    MondrianForestClassifier,
)
from river_mondrian.partitions.mondrian.tree_memory import Partitions
from river_mondrian.posteriors.adaptive.nodes import BLOCK
from river_mondrian.posteriors.labels.label_trees import LabelTrees

NAMES = ("a", "b", "c")


SETTINGS = [{}, {"split_pure": True}, {"lifetime": 4.0}, {"max_nodes": 31}]


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


def grow(X, y, weights, seed=0, n_trees=1, **params):
    partitions = Partitions(
        n_trees, params.get("lifetime", math.inf), max_nodes=params.get("max_nodes"), seed=seed
    )
    trees = LabelTrees(partitions, 7.0, params.get("split_pure", False))
    trees.add_inputs(list(range(X.shape[1])), X[0])
    for _ in range(max(y) + 1):
        trees.add_class()
    trees.weigh()
    for x, label, weight in zip(X, y, weights, strict=True):
        trees.vector[: len(x)] = x
        assert trees.learn(label, weight) == -1
    return trees


def weights_of(n, seed):
    """Return weights below and above 1."""
    return np.random.default_rng(seed).exponential(size=n).tolist()


@pytest.mark.parametrize("params", SETTINGS)
@pytest.mark.parametrize("places", [0, 12])
@pytest.mark.parametrize("seed", [0, 1])
def test_counts_are_those_of_algorithm_5(params, places, seed):
    X, y = draw(250, seed, places=places)
    weights = weights_of(250, seed)
    root = as_twin(grow(X, y, weights, seed, **params), 0)
    stored = {id(node): list(node.count) for node in naive.walk(root)}
    hnsp.initialize_counts(naive.route(root, X), y, 4, weights)
    for node in naive.walk(root):
        assert stored[id(node)] == pytest.approx(node.count, rel=1e-12)


@pytest.mark.parametrize("params", SETTINGS)
@pytest.mark.parametrize("places", [0, 12])
@pytest.mark.parametrize("seed", [0, 1])
def test_prediction_is_the_twins(params, places, seed):
    X, y = draw(300, seed, places=places)
    trees = grow(X, y, weights_of(300, seed), seed, 3, **params)
    queries = np.vstack([X[:40], draw(40, seed + 9)[0], 3.0 * draw(40, seed + 5)[0] - 1.0])
    assert_predictions_are_the_twins(trees, queries)


@pytest.mark.parametrize("params", [{}, {"split_pure": True}, {"lifetime": 3.0}, {"max_nodes": 15}])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_whole_weight_is_as_many_repeats(params, missing):
    """Repeats draw no cut, so that the same seed gives the same trees.

    They are the same but for the rounding of times, which pass through other rows.
    """
    params |= {"seed": 1, "scale": False}
    repeated, weighted = MondrianForestClassifier(**params), MondrianForestClassifier(**params)
    for i, (x, y) in enumerate(samples(60, missing=missing)):
        for _ in range(1 + i % 3):
            repeated.learn_one(x, y)
        weighted.learn_one(x, y, 1.0 + i % 3)
    for x, _ in samples(60, 5, missing=0.5 * (missing > 0.0)):
        expected = repeated.predict_proba_one(x)
        assert weighted.predict_proba_one(x) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("make", [MondrianForestClassifier, AdaptiveMondrianForestClassifier])
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
    model = MondrianForestClassifier(3, seed=1, **params)
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
    model = MondrianForestClassifier(1, seed=1, scale=False, split_pure=True)
    model.learn_one({"a": 0.0}, "p", 3.0)
    model.learn_one({"a": 1.0}, "q", 1.0)
    far = model.predict_proba_one({})
    plain = MondrianForestClassifier(1, seed=1, scale=False, split_pure=True)
    for x, y, n in ((0.0, "p", 3), (1.0, "q", 1)):
        for _ in range(n):
            plain.learn_one({"a": x}, y)
    assert far == pytest.approx(plain.predict_proba_one({}), abs=1e-12)
    assert far["p"] > 0.6


def forest(n, **params):
    """Return a forest that has learned so many samples of several weights."""
    model = MondrianForestClassifier(**{"n_estimators": 2, "seed": 1} | params)
    for i, (x, y) in enumerate(samples(n)):
        model.learn_one(x, y, 0.5 + i % 3)
    return model


def unweighted(n):
    """Return a forest that has learned so many samples of weight 1."""
    model = MondrianForestClassifier(2, seed=1)
    for x, y in samples(n):
        model.learn_one(x, y)
    return model


X, Y = samples(1, 1)[0]


def test_a_value_that_is_too_large_leaves_the_trees_without_weights():
    model = unweighted(30)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="feature 'a' must be finite in single precision"):
        model.learn_one(X | {"a": 1e300}, Y, 2.0)
    assert pickle.dumps(model) == before
    assert not model._trees.has_weights


def test_resampling_keeps_weights():
    model = forest(300)
    model.resample()
    root = model._trees.read(0, hidden=True)[0]
    assert root.n_samples == 300
    leaves = [node for node in model._trees.read(0) if node.is_leaf]
    total = sum(0.5 + i % 3 for i in range(300))
    assert sum(node.counts.sum() for node in leaves) == pytest.approx(total)


def test_the_path_that_is_shown_follows_the_weights():
    model = MondrianForestClassifier(1, seed=1, scale=False, split_pure=True)
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
    model = AdaptiveMondrianForestClassifier(**params)
    for i, (x, y) in enumerate(samples(n, missing=0.1)):
        model.learn_one(x, y, 0.5 + i % 3 if i >= first else 1.0)
    return model


ASKED = [x for x, _ in samples(20, 8, missing=0.1)]


def predicted(model):
    return [model.predict_proba_one(x) for x in ASKED]


@pytest.mark.parametrize("n", [30, 300, 700])
def test_a_model_of_weight_1_is_one_without_weights(n):
    plain, weighted = (AdaptiveMondrianForestClassifier(3, seed=1) for _ in range(2))
    for i, (x, y) in enumerate(samples(n)):
        plain.learn_one(x, y)
        weighted.learn_one(x, y, 1 if i % 2 else 1.0)
    assert pickle.dumps(plain) == pickle.dumps(weighted)


def test_a_whole_weight_counts_as_repeats_do():
    """Sums are as those of repeats; the rest is that of one sample, as the notes say."""
    X, y = draw_dense(60, 1)
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
        late.append([float(own.numbers_of(k).words[BLOCK] / own.units[0]) for k in range(2)])
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
        with pytest.raises(ModelFormatError, match=f"point 3 is damaged: weight {text}"):
            pickle.loads(pickle.dumps(model))
        points.row(3).weight = known


def test_trees_of_another_kind_are_refused():
    model = forest(3)
    state, other = model.__getstate__() | {"_trees": "trees"}, object.__new__(type(model))
    with pytest.raises(ModelFormatError, match="but LabelTrees are made"):
        other.__setstate__(state)
