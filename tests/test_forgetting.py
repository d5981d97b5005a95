"""Tests of removing samples: the remaining trees, their distribution, windows, and errors."""

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import test_gaussian
from common import answer, assert_one_law, fed, learn_rows, raises, restored
from naive import forgetting as naive
from naive import hnsp
from naive.mondrian import route, walk
from test_kernels import LEVEL, SETTINGS, as_twin, draw, features_of, grow

from river_mondrian import MondrianForestClassifier, MondrianForestRegressor
from river_mondrian.limits import LARGEST
from river_mondrian.partitions.mondrian.constants import FREE, NONE
from river_mondrian.posteriors.targets.messages import LARGE

kinds = pytest.mark.parametrize("cls", [MondrianForestClassifier, MondrianForestRegressor])


def forget(trees, x, label):
    """Remove a sample from the trees of a classifier."""
    trees.vector[: len(x)] = x
    assert trees.forget(lambda p: trees.put(np.array([label]), np.array([1.0]), p))


@pytest.mark.parametrize("params", SETTINGS)
@pytest.mark.parametrize("places", [0, 12])
def test_what_is_left_is_the_restriction_of_the_tree(params, places):
    X, y = draw(90, 3, places=places)
    paused = not params["split_pure"]
    trees = grow(X, y, n_trees=2, seed=5, **params)
    twins = [route(as_twin(trees, t), X) for t in range(2)]
    kept = set(range(len(y)))
    for p in np.random.default_rng(1).permutation(len(y)).tolist():
        kept.remove(p)
        forget(trees, X[p], y[p])
        for t in range(2 if kept else 0):
            twins[t] = naive.restricted(twins[t], kept, X, y, params["lifetime"], paused)
            hnsp.initialize_counts(twins[t], y, 4)
            for a, b in zip(walk(as_twin(trees, t)), walk(twins[t]), strict=True):
                assert (a.dim, a.is_leaf, a.count) == (b.dim, b.is_leaf, b.count)
                own, others = ([*n.lower, *n.upper, n.cut] for n in (a, b))
                np.testing.assert_array_equal(own, others)
                assert a.time == pytest.approx(b.time, rel=1e-4)
    assert trees.reader.read(0) == [] and trees.n_points == 0


@pytest.mark.blas
@pytest.mark.parametrize("params", test_gaussian.SETTINGS)
@pytest.mark.parametrize("places", [0, 15])
def test_the_posterior_is_that_of_the_rest(params, places):
    X, y = test_gaussian.draw(120, 2, places=places)
    w = np.random.default_rng(2).choice([0.5, 1.0, 3.0], len(y))
    trees = test_gaussian.grow(X, y, w, seed=2, **params)
    forest, put = trees.forest, test_gaussian.learning.put_target
    gone = np.random.default_rng(3).permutation(len(y))[:70]
    for p in gone:
        trees.vector[:3] = X[p]
        assert trees.forget(lambda q, p=p: put(forest, y[p], w[p], q))
    X, y, w = (np.delete(values, gone, axis=0) for values in (X, y, w))
    test_gaussian.assert_dense(trees, X, y, w)
    least = params.get("min_samples_split", 2)
    assert all(node.is_leaf or node.n_samples >= least for node in trees.reader.read(0))
    mean = np.average(y, weights=w)
    expected = [w.sum(), mean, w @ (y - mean) ** 2]
    found = [forest.y_weight, forest.y_mean, forest.y_squares]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


# The distribution.


@pytest.mark.parametrize("params", SETTINGS)
@pytest.mark.parametrize("seed", range(2))
def test_the_law_is_kept_by_learning_and_forgetting(params, seed):
    """Blocks pause and are opened twice."""
    rng = np.random.default_rng(4)
    X = rng.random((40, 2)).astype(np.float32).astype(float)
    late, labels = rng.random((20, 2)).astype(np.float32).astype(float), [1, 0, 0, 0, 0] * 4
    n_trees = 300
    trees = grow(X, [int(x[0] > 0.5) for x in X], n_trees=n_trees, seed=seed, **params)
    # Only one class remains, and then samples of both classes come.
    for x in X[X[:, 0] > 0.5]:
        forget(trees, x, 1)
    learn_rows(trees, late, labels)
    for x in X[X[:, 0] <= 0.5]:
        forget(trees, x, 0)
    batch = grow(late, labels, n_trees=n_trees, seed=90 + seed, **params)
    batch.build()
    left, others = (
        [features_of(as_twin(one, t), late, 20) for t in range(n_trees)] for one in (trees, batch)
    )
    assert_one_law(left, others, LEVEL / (7 * 2 * len(SETTINGS)))


# Models.


def stream(n, seed=0, missing=0.0, places=0, levels=False, at=None):
    """Return samples with labels; from sample `at` on, one feature has another unit."""
    rng = np.random.default_rng(seed)
    X = rng.random((places or n, 3))
    X = X[rng.integers(0, places, n)] if places else X
    y = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)).astype(int)
    X[at or n :, 2] *= 50.0
    found = []
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        x = {name: v for name, v in zip("abc", row, strict=True) if rng.random() >= missing}
        found.append((x | ({"d": str(rng.choice(["red", "blue"]))} if levels else {}), label))
    return found


def answers(model):
    return [answer(model, x) for x, _ in stream(12, 77, missing=0.2)]


def stored(model, samples):
    """Check that a model stores exactly these samples by removing them from a copy."""
    rest = copy.deepcopy(model)
    for x, y, *w in samples:
        rest.forget_one(x, y, *w)
    assert rest._trees is None and rest.n_samples == 0 and rest.feature_names == []
    assert rest.predict_one({"a": 0.5}) in (None, 0.0)
    rest.learn_one({"z": 1.0}, 1)
    assert rest.predict_one({"z": 1.0}) == 1


PARAMS = {"plain": {}, "lifetime": {"lifetime": 3.0}, "zero": {"missing": "zero"}}
PARAMS |= {"directions": {"directions": 4}, "unscaled": {"scale": False}, "window": {"window": 40}}


@kinds
@pytest.mark.parametrize("params", list(PARAMS))
def test_learning_and_forgetting_in_any_order(cls, params, seed):
    """In a window, weights other than 1 come late, and no samples are equal."""
    is_window = params == "window"
    missing = 0.0 if is_window or params == "lifetime" else 0.4
    model = cls(2, seed=1, **PARAMS[params])
    rng, held = np.random.default_rng(seed), []
    places = 0 if is_window else 150
    samples = stream(420, 6, missing, places, levels=params == "plain", at=300)
    for i, (x, y) in enumerate(samples):
        is_weighted = params == "plain" or (is_window and i > 200)
        w = float(rng.choice([1.0, 2.0])) if is_weighted else 1.0
        model.learn_one(x, y, w)
        held = [*held, (x, y, w)][-PARAMS[params].get("window", 420) :]
        if i > 5 and rng.random() < 0.5:
            model.forget_one(*held.pop(int(rng.integers(len(held)))))
        if i % 35 == 0:
            assert answers(restored(model)) == answers(model)
            stored(model, held)
    assert model.n_samples == 420


@pytest.mark.covering
@kinds
@pytest.mark.parametrize("window", [1, 7, 256, 300])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_window_holds_the_latest_samples(cls, window, missing):
    model = cls(2, window=window, seed=1)
    samples = stream(700, 2, missing, places=200)
    for i, (x, y) in enumerate(samples):
        model.learn_one(x, y)
        if i % 150 == 20:
            stored(restored(model), samples[max(i + 1 - window, 0) : i + 1])
    assert model.n_samples == 700
    fed(model, stream(700, 3, missing, places=200))
    for tree in model._trees.trees:
        # Rows of removed samples are reused.
        assert tree.nodes.n_rows <= 2 * window + 4


def test_the_box_of_equal_points_stays_until_what_is_known_goes():
    """With missing values, only one point may have a value in a dimension of the box."""
    model = MondrianForestClassifier(2, window=100, scale=False, seed=1)
    fed(model, [({"a": 0.5}, 0), ({"b": 0.25}, 0), ({"b": 0.25}, 0)])
    model.forget_one({"a": 0.5}, 0)
    restored(model)
    for node in (model._trees.reader.read(t)[0] for t in range(2)):
        np.testing.assert_array_equal(node.lower, [np.nan, 0.25])


@kinds
def test_bounds_of_nodes_keep_samples_from_being_forgotten(cls):
    model = cls(2, max_nodes=9, seed=1)
    model.learn_one({"a": 1.0}, 1)
    raises(ValueError, "max_nodes=9", lambda: model.forget_one({"a": 1.0}, 1))


@kinds
@pytest.mark.parametrize("window", [None, 60])
def test_nothing_is_left_of_the_values(cls, window):
    """Neither files nor memory contain a removed value, in nodes or among the points."""
    secret = 0.7364514827728271
    pattern = np.float32(secret).tobytes()
    samples = stream(400, 3)
    secrets = [(x | {"a": secret, "b": secret}, y) for x, y in samples[49::50]]
    samples[49::50] = secrets
    model = fed(cls(2, scale=False, window=window, seed=1), samples)
    if window is None:
        assert pattern in pickle.dumps(model)
        for sample in secrets[::-1]:
            model.forget_one(*sample)
    else:
        fed(model, samples[:49] * 2)
    assert pattern not in pickle.dumps(model)
    assert not any(pattern in chunk.tobytes() for chunk in model._trees.points.chunks[0])


def test_a_block_that_has_become_too_small_is_not_cut():
    model = MondrianForestRegressor(3, lifetime=1.0, min_samples_split=6, scale=False, seed=1)
    fed(model, [({"a": 0.0}, y) for y in range(6)])
    for y in range(4):
        model.forget_one({"a": 0.0}, y)
    model.learn_one({"a": 1000.0}, 7.0)
    for t in range(3):
        (only,) = model._trees.reader.read(t)
        assert only.paused and only.n_samples == 3
    fed(model, [({"a": 0.0}, y) for y in range(3)])
    assert [len(model._trees.reader.read(t)) for t in range(3)] == [3, 3, 3]


def test_times_between_cuts_stay_finite():
    model = MondrianForestClassifier(20, ranges={"a": (0.0, 1.0)}, seed=1)
    fed(model, [({"a": x}, y) for x, y in zip((0.0, 2e-39, 4e-39, 1.0), "pqpq", strict=True)])
    model.forget_one({"a": 0.0}, "p")
    tables = [tree.nodes for tree in model._trees.trees]
    nodes = [table.row(j) for table in tables for j in range(table.n_rows)]
    assert max(node.delta for node in nodes if node.dim >= 0) == LARGEST
    assert sum(model.predict_proba_one({"a": 2e-39}).values()) == pytest.approx(1.0)


def test_a_late_feature_is_missing_from_samples_that_take_a_place_again():
    model = MondrianForestClassifier(2, seed=1)
    names = [f"x{i}" for i in range(18)]
    rng = np.random.default_rng(0)
    samples = [({name: rng.random() for name in names[: 17 + (i == 7)]}, i % 2) for i in range(9)]
    for i, (x, y) in enumerate(samples):
        model.learn_one(x, y)
        if i == 4:
            model.forget_one(*samples[3])
            model.forget_one(*samples[1])
    stored(restored(model), [samples[i] for i in (0, 2, 4, 5, 6, 7, 8)])
    inputs = model._trees.reader.column("points", "inputs")
    assert [np.isnan(row[17]) for row in inputs].count(True) == 6


@pytest.mark.parametrize("size", [1e3, 1e10, 1e100])
@pytest.mark.parametrize("n_wild", [1, 40])
def test_large_targets_leave_nothing_behind(size, n_wild):
    rng = np.random.default_rng(3)
    X = [{"a": value} for value in rng.random(40 + n_wild).tolist()]
    y = rng.normal(size=40).tolist() + (size * rng.normal(size=n_wild)).tolist()
    order = rng.permutation(len(X)).tolist()
    model = fed(MondrianForestRegressor(2, seed=1), [(X[i], y[i]) for i in order])
    for i in order:
        if i >= 40:
            model.forget_one(X[i], y[i])
    forest = model._trees.forest
    points = [forest.points.row(p) for p in range(40)]
    targets = [point.target for point in points if point.weight > 0.0]
    assert forest.y_weight == len(targets)
    assert forest.y_mean == pytest.approx(np.mean(targets), abs=1e-9)
    assert forest.y_squares == pytest.approx(len(targets) * np.var(targets), rel=1e-6)


def test_samples_are_told_apart_as_trees_tell_them():
    model = MondrianForestClassifier(3, scale=False, seed=1)
    model.learn_one({"a": 1e-12}, 1)
    model.learn_one({"a": 5.0, "b": 2.0}, 0)
    raises(KeyError, None, lambda: model.forget_one({"a": 7e-11}, 1))
    zeros = MondrianForestClassifier(3, missing="zero", seed=1)
    zeros.learn_one({"a": 0.25, "b": 0.0}, 1)
    frame = pd.DataFrame({"a": [0.25, 0.25], "b": [0.0, None]})
    raises(KeyError, "row 0 is to be forgotten 2", lambda: zeros.forget_many(frame, [1, 1]))
    zeros.forget_one({"a": 0.25, "b": -0.0}, 1)


@pytest.mark.parametrize("posterior", ["gaussian", "mean"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_means_of_large_leaves_are_those_of_their_points(posterior, offset):
    """The targets of equal points are removed from a leaf one by one."""
    rng, window = np.random.default_rng(3), 300
    model = MondrianForestRegressor(2, posterior=posterior, window=window, seed=1)
    n_checked = n_taken_out = 0
    for i in range(3000):
        x = dict(zip("ab", rng.integers(0, 2, 2).tolist(), strict=True))
        y = offset + rng.normal() + 1e5 * (rng.random() < 0.01)
        model.learn_one(x, y, w=float(rng.choice([0.5, 1.0, 3.0])))
        if i < window or i % 97:
            continue
        for node, points in leaves(model._trees):
            weights = np.array([max(point.weight, 0.0) for point in points])
            targets = np.array([point.target for point in points])
            own = node.messages[0]
            # The sums have at most twice as many terms, each of which is rounded.
            unit = 2.0**-52 * 2 * len(points)
            assert own.precision == pytest.approx(weights.sum(), rel=unit)
            exact = math.fsum(weights * targets) / math.fsum(weights)
            size = np.abs(targets[weights > 0.0]).max()
            assert own.mean == pytest.approx(exact, abs=4 * unit * size)
            assert node.messages[1].precision <= own.precision
            n_checked += len(points) > LARGE
            n_taken_out += node.messages[1].precision > 0.0
    assert n_checked > 100 and n_taken_out > 50


def leaves(trees):
    """Yield the leaves of all trees, with their points."""
    for tree in trees.trees:
        for node in map(tree.nodes.row, range(tree.nodes.n_rows)):
            if node.dim < 0 and node.dim != FREE:
                q, points = node.first_point, []
                while q != NONE:
                    points.append(trees.forest.points.row(q))
                    q = trees.forest.links_of(q)[tree.slot]
                yield node, points


def test_nothing_is_left_of_a_target_that_the_fences_have_moved_past():
    y = np.random.default_rng(1).normal(size=150).tolist()
    model = fed(MondrianForestRegressor(1, scale=False, seed=1), [({"a": 1.0}, t) for t in y])
    forest = model._trees.forest
    for reach, call in ((1e300, model.learn_one), (10.0, model.forget_one)):
        forest.low_fence, forest.high_fence = -reach, reach
        call({"a": 1.0}, 1e12)
    ((leaf, _),) = leaves(model._trees)
    own = leaf.messages[0]
    assert own.mean == pytest.approx(math.fsum(y) / 150, abs=1e-13)
