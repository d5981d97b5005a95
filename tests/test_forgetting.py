"""Samples that are removed from trees: the rest and its distribution, windows, and errors."""

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import test_gaussian
from common import fed
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import forgetting as naive
from naive import hnsp
from naive.mondrian import route, walk
from test_gaussian import dense
from test_kernels import SETTINGS, as_twin, compare, draw, features_of, grow

from river_mondrian import MondrianForestClassifier, MondrianForestRegressor
from river_mondrian.partitions.mondrian.constants import FREE, NONE
from river_mondrian.posteriors.targets.messages import LARGE

KINDS = {"classifier": MondrianForestClassifier, "regressor": MondrianForestRegressor}
kinds = pytest.mark.parametrize("kind", list(KINDS))


def forget(trees, x, label):
    """Forget a sample of trees over classes."""
    trees.vector[: len(x)] = x
    assert trees.forget(lambda p: trees._put(np.array([label]), np.array([1.0]), p))


def check_same(found, expected):
    """Check that two trees have the same nodes, and the same times up to rounding."""
    for a, b in zip(walk(found), walk(expected), strict=True):
        assert (a.dim, a.is_leaf) == (b.dim, b.is_leaf)
        np.testing.assert_array_equal([*a.lower, *a.upper, a.cut], [*b.lower, *b.upper, b.cut])
        assert a.time == pytest.approx(b.time, rel=1e-4)
        assert a.count == b.count


@pytest.mark.parametrize("params", SETTINGS)
@pytest.mark.parametrize("places", [0, 12])
def test_what_is_left_is_the_restriction_of_the_tree(params, places):
    X, y = draw(90, 3, places=places)
    paused = not params["split_pure"]
    trees = grow(X, y, n_trees=2, seed=5, **params)
    kept = list(range(len(y)))
    for p in np.random.default_rng(1).permutation(len(y))[:-1].tolist():
        before = [route(as_twin(trees, t), X[kept]) for t in range(2)]
        place = kept.index(p)
        rest = [i for i in range(len(kept)) if i != place]
        labels = [y[i] for i in kept]
        forget(trees, X[p], y[p])
        for t in range(2):
            own = (before[t], rest, X[kept], labels, params["lifetime"], paused)
            expected = naive.restricted(*own)
            hnsp.initialize_counts(expected, labels, 4)
            check_same(as_twin(trees, t), expected)
        del kept[place]
    forget(trees, X[kept[0]], y[kept[0]])
    assert trees.read(0) == [] and trees.n_points == 0


@pytest.mark.blas
@pytest.mark.parametrize("params", test_gaussian.SETTINGS)
@pytest.mark.parametrize("places", [0, 15])
def test_the_posterior_is_that_of_the_rest(params, places):
    X, y = test_gaussian.draw(120, 2, places=places)
    w = np.random.default_rng(2).choice([0.5, 1.0, 3.0], len(y))
    trees = test_gaussian.grow(X, y, w, seed=2, **params)
    gone = np.random.default_rng(3).permutation(len(y))[:70]
    for p in gone:
        trees.vector[:3] = X[p]
        assert trees.forget(lambda q, p=p: put_target(trees, y[p], w[p], q))
    rest = np.setdiff1d(np.arange(len(y)), gone)
    twin = dense(trees, 0, X[rest], y[rest], w[rest])
    nodes, scale = trees.read(0), 2.0 * trees.hyperparameters["prior_variance"]
    least = params.get("min_samples_split", 2)
    assert all(node.is_leaf or node.n_samples >= least for node in nodes)
    np.testing.assert_allclose([node.mean for node in nodes], twin.mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(
        [node.variance for node in nodes], scale * np.diag(twin.cov), rtol=0, atol=1e-8
    )
    forest = trees.forest
    assert forest.y_weight == pytest.approx(w[rest].sum())
    assert forest.y_mean == pytest.approx(np.average(y[rest], weights=w[rest]))
    spread = np.average((y[rest] - forest.y_mean) ** 2, weights=w[rest])
    assert forest.y_squares / forest.y_weight == pytest.approx(spread, rel=1e-6)


def put_target(trees, y, w, p):
    test_gaussian.learning.put_target(trees.forest, y, w, p)


# The distribution.


@pytest.mark.parametrize("params", SETTINGS)
@pytest.mark.parametrize("seed", range(2))
def test_the_law_is_kept_by_learning_and_forgetting(params, seed):
    """Blocks pause, are opened, pause again, and are opened again."""
    rng = np.random.default_rng(4)
    X = rng.random((60, 2)).astype(np.float32).astype(float)
    y = [int(x[0] > 0.5) for x in X]
    late = [int(i % 7 == 0) for i in range(60)]
    n_trees = 300
    trees = grow(X[:40], y[:40], n_trees=n_trees, seed=seed, **params)
    for label in (1, 0):
        # Only one class is left; then come samples of both.
        for x, own in zip(X[:40], y[:40], strict=True):
            if own == label:
                forget(trees, x, own)
        if label == 1:
            for x, own in zip(X[40:], late[40:], strict=True):
                trees.vector[:2] = x
                trees.learn(own, 1.0)
    left = [features_of(as_twin(trees, t), X[40:], 20) for t in range(n_trees)]
    batch = grow(X[40:], late[40:], n_trees=n_trees, seed=90 + seed, **params)
    batch.build()
    others = [features_of(as_twin(batch, t), X[40:], 20) for t in range(n_trees)]
    compare(left, others, n_tests=6 * 2 * len(SETTINGS))


# Models.


def stream(n, seed=0, missing=0.0, places=0, levels=False, at=None):
    """Return samples with labels; from `at` on in other units."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    if places:
        X = rng.random((places, 3))[rng.integers(0, places, n)]
    y = ((X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)).astype(int)
    if at is not None:
        X[at:, 2] *= 50.0
    found = []
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        x = {name: v for name, v in zip("abc", row, strict=True) if rng.random() >= missing}
        if levels:
            x["d"] = "red" if rng.random() < 0.5 else "blue"
        found.append((x, label))
    return found


def checked(model):
    """Return a copy that has passed all checks of restored trees."""
    return pickle.loads(pickle.dumps(model))


def answers(model):
    asked = [x for x, _ in stream(12, 77, missing=0.2)]
    if isinstance(model, MondrianForestClassifier):
        return [model.predict_proba_one(x) for x in asked]
    return [(d.mean, d.var**0.5) for d in (model.predict_one(x, with_dist=True) for x in asked)]


def stored(model, samples):
    """Remove all samples from a copy: it stores these and no others."""
    rest = copy.deepcopy(model)
    for x, y, *w in samples:
        rest.forget_one(x, y, *w)
    assert rest._trees is None and rest.n_samples == 0 and rest.feature_names == []
    assert rest.predict_one({"a": 0.5}) in (None, 0.0)
    rest.learn_one({"z": 1.0}, 1)
    assert rest.predict_one({"z": 1.0}) == 1


PARAMS = {
    "plain": {},
    "lifetime": {"lifetime": 3.0},
    "zero": {"missing": "zero"},
    "directions": {"directions": 4},
    "unscaled": {"scale": False},
}


@kinds
@pytest.mark.parametrize("params", list(PARAMS))
def test_learning_and_forgetting_in_any_order(kind, params):
    # With directions a missing value is stored as the mean at that time.
    missing = 0.0 if params in ("directions", "lifetime") else 0.4
    model = KINDS[kind](2, seed=1, **PARAMS[params])
    rng, held = np.random.default_rng(5), []
    samples = stream(420, 6, missing, places=150, levels=params == "plain", at=300)
    for i, (x, y) in enumerate(samples):
        w = float(rng.choice([1.0, 2.0])) if params == "plain" else 1.0
        model.learn_one(x, y, w)
        held.append((x, y, w))
        if rng.random() < 0.5:
            model.forget_one(*held.pop(int(rng.integers(len(held)))))
        if i % 70 == 0:
            assert answers(checked(model)) == answers(model)
    stored(model, held)
    assert model.n_samples == 420


@st.composite
def orders(draw):
    """Return a number of places, weights or none, and which samples are learned or forgotten."""
    steps = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), max_size=60))
    return draw(st.booleans()), draw(st.sampled_from([math.inf, 2.0])), steps


@kinds
@settings(max_examples=15, deadline=None)
@given(order=orders(), window=st.sampled_from([None, 1, 12]))
def test_any_order_keeps_the_invariants(kind, order, window):
    has_missing, lifetime, steps = order
    model, held = KINDS[kind](2, lifetime=lifetime, window=window, seed=3), []
    for place, what in steps:
        x = {"a": float(place % 3), "b": float(place // 3)}
        if has_missing and place == 5:
            del x["a"]
        if what < 2:
            model.learn_one(x, what)
            held = [*held, (x, what)][-(window or len(steps)) :]
        elif held:
            model.forget_one(*held.pop(place % len(held)))
    if model._trees is not None:
        checked(model)
        stored(model, held)


@kinds
@pytest.mark.parametrize("window", [1, 7, 256, 300])
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_window_holds_the_latest_samples(kind, window, missing):
    model = KINDS[kind](2, window=window, seed=1)
    samples = stream(700, 2, missing, places=200)
    for i, (x, y) in enumerate(samples):
        model.learn_one(x, y)
        if i % 150 == 20:
            stored(checked(model), samples[max(i + 1 - window, 0) : i + 1])
    assert model.n_samples == 700
    fed(model, stream(700, 3, missing, places=200))
    for tree in model._trees.trees:
        # Rows of removed samples are reused.
        assert tree.nodes.n_rows <= 2 * window + 4


def test_the_box_of_equal_points_stays_until_what_is_known_goes():
    """Where values are missing, a point may be the only one that has what the box has."""
    model = MondrianForestClassifier(2, window=100, scale=False, seed=1)
    for x in ({"a": 0.5}, {"b": 0.25}, {"b": 0.25}):
        model.learn_one(x, 0)
    model.forget_one({"a": 0.5}, 0)
    checked(model)
    for node in (model._trees.read(t)[0] for t in range(2)):
        np.testing.assert_array_equal(node.lower, [np.nan, 0.25])


def test_a_window_goes_on_when_samples_get_weights():
    model = MondrianForestClassifier(2, window=80, seed=1)
    samples = [(x, y, 1.0 + (i > 200) * (i % 3)) for i, (x, y) in enumerate(stream(400, 2))]
    for i, sample in enumerate(samples):
        model.learn_one(*sample)
        if i % 50 == 30:
            stored(checked(model), samples[max(i - 79, 0) : i + 1])


@kinds
def test_bounds_of_nodes_keep_samples_from_being_forgotten(kind):
    model = KINDS[kind](2, max_nodes=9, seed=1)
    model.learn_one({"a": 1.0}, 1)
    with pytest.raises(ValueError, match="max_nodes=9"):
        model.forget_one({"a": 1.0}, 1)


@kinds
@pytest.mark.parametrize("window", [None, 60])
def test_nothing_is_left_of_the_values(kind, window):
    """Files and memory have no trace of them, in nodes or among the points."""
    model = KINDS[kind](2, scale=False, window=window, seed=1)
    secret = 0.7364514827728271
    pattern = np.float32(secret).tobytes()
    samples = stream(400, 3)
    for i, (x, y) in enumerate(samples):
        model.learn_one(x | ({"a": secret, "b": secret} if i % 50 == 49 else {}), y)
    if window is None:
        assert pattern in pickle.dumps(model)
        for i in range(399, 0, -50):
            x, y = samples[i]
            model.forget_one(x | {"a": secret, "b": secret}, y)
    else:
        fed(model, samples[:60])
    assert pattern not in pickle.dumps(model)
    assert not any(pattern in chunk.tobytes() for chunk in model._trees.points.chunks[0])


def test_a_block_that_has_become_too_small_is_not_cut():
    model = MondrianForestRegressor(3, lifetime=1.0, min_samples_split=6, scale=False, seed=1)
    for y in range(6):
        model.learn_one({"a": 0.0}, y)
    for y in range(4):
        model.forget_one({"a": 0.0}, y)
    model.learn_one({"a": 1000.0}, 7.0)
    for t in range(3):
        (only,) = model._trees.read(t)
        assert only.paused and only.n_samples == 3
    for y in range(3):
        model.learn_one({"a": 0.0}, y)
    assert [len(model._trees.read(t)) for t in range(3)] == [3, 3, 3]


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
    stored(checked(model), [samples[i] for i in (0, 2, 4, 5, 6, 7, 8)])
    assert sum(np.isnan(row[17]) for row in model._trees.warm_up[:7]) == 6


@pytest.mark.parametrize("size", [1e3, 1e10, 1e100])
@pytest.mark.parametrize("n_wild", [1, 40])
def test_large_targets_leave_nothing_behind(size, n_wild):
    rng = np.random.default_rng(3)
    model = MondrianForestRegressor(2, posterior="gaussian", seed=1)
    X = [{"a": value} for value in rng.random(40 + n_wild).tolist()]
    y = rng.normal(size=40).tolist() + (size * rng.normal(size=n_wild)).tolist()
    order = rng.permutation(len(X)).tolist()
    for i in order:
        model.learn_one(X[i], y[i])
    for i in order:
        if i >= 40:
            model.forget_one(X[i], y[i])
    forest = model._trees.forest
    counted = [point for point in range(40) if forest.points.row(point).weight > 0.0]
    targets = [forest.points.row(point).target for point in counted]
    assert forest.y_weight == len(counted)
    assert forest.y_mean == pytest.approx(np.mean(targets), abs=1e-9)
    assert forest.y_squares == pytest.approx(len(counted) * np.var(targets), rel=1e-6)


def test_samples_are_told_apart_as_trees_tell_them():
    model = MondrianForestClassifier(3, scale=False, seed=1)
    model.learn_one({"a": 1e-12}, 1)
    model.learn_one({"a": 5.0, "b": 2.0}, 0)
    with pytest.raises(KeyError):
        model.forget_one({"a": 7e-11}, 1)
    zeros = MondrianForestClassifier(3, missing="zero", seed=1)
    zeros.learn_one({"a": 0.25, "b": 0.0}, 1)
    with pytest.raises(KeyError, match="row 0 is to be forgotten 2 times"):
        zeros.forget_many(pd.DataFrame({"a": [0.25, 0.25], "b": [0.0, None]}), [1, 1])
    zeros.forget_one({"a": 0.25, "b": -0.0}, 1)


@pytest.mark.parametrize("posterior", ["gaussian", "mean"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_means_of_large_leaves_are_those_of_their_points(posterior, offset):
    """Targets of equal points are removed from a leaf one by one."""
    rng, window = np.random.default_rng(3), 300
    model = MondrianForestRegressor(2, posterior=posterior, window=window, seed=1)
    n_checked = n_taken_out = 0
    for i in range(3000):
        x = dict(zip("ab", rng.integers(0, 2, 2).tolist(), strict=True))
        y = offset + rng.normal() + 1e5 * (rng.random() < 0.01)
        model.learn_one(x, y, w=float(rng.choice([0.5, 1.0, 3.0])))
        if i < window or i % 97:
            continue
        forest = model._trees.forest
        for t in range(2):
            tree = model._trees.trees[t]
            for j in range(tree.nodes.n_rows):
                node, points = tree.nodes.row(j), []
                if node.dim >= 0 or node.dim == FREE:
                    continue
                q = node.first_point
                while q != NONE:
                    points.append(forest.points.row(q))
                    q = forest.links_of(q)[tree.slot]
                weights = np.array([max(point.weight, 0.0) for point in points])
                targets = np.array([point.target for point in points])
                own = node.messages[0]
                # Sums of at most twice as many terms, each of which is rounded.
                unit = 2.0**-52 * 2 * len(points)
                assert own.precision == pytest.approx(weights.sum(), rel=unit)
                exact = math.fsum(weights * targets) / math.fsum(weights)
                size = np.abs(targets[weights > 0.0]).max()
                assert own.mean == pytest.approx(exact, abs=4 * unit * size)
                assert node.messages[1].precision <= own.precision
                n_checked += len(points) > LARGE
                n_taken_out += node.messages[1].precision > 0.0
    assert n_checked > 100 and n_taken_out > 50


def test_nothing_is_left_of_a_target_that_the_fences_have_moved_past():
    model = MondrianForestRegressor(1, scale=False, seed=1)
    y = np.random.default_rng(1).normal(size=150).tolist()
    for target in y:
        model.learn_one({"a": 1.0}, target)
    forest = model._trees.forest
    for reach, call in ((1e300, model.learn_one), (10.0, model.forget_one)):
        forest.low_fence, forest.high_fence = -reach, reach
        call({"a": 1.0}, 1e12)
    own = model._trees.trees[0].nodes.row(model._trees.trees[0].root).messages[0]
    assert own.mean == pytest.approx(math.fsum(y) / 150, abs=1e-13)
