"""Tests of the kernels against references on the same tree, and of the trees' distribution."""

import math
import pickle

import numpy as np
import pytest
from common import as_kernels, assert_one_law, weights_of
from naive import hnsp
from naive import mondrian as naive
from scipy import stats

from river_mondrian.partitions.mondrian import boxes, sampling, scaling
from river_mondrian.partitions.mondrian.records import Point, Tree
from river_mondrian.partitions.mondrian.tree_store import Partitions
from river_mondrian.posteriors.labels.label_trees import PAUSE_LIMIT, LabelTrees
from river_mondrian.records import Float32s, Float64s, Memory

distance_outside, hold, hold_batch = as_kernels(
    boxes.distance_outside, boxes.hold, boxes.hold_batch
)
exponential, exponential_before = as_kernels(sampling.exponential, sampling.exponential_before)


# Level for each test of a distribution; each test divides it by the number of its comparisons.
LEVEL = 0.01


SETTINGS = [{"lifetime": t, "split_pure": s} for t in (math.inf, 2.0) for s in (False, True)]


def draw(n, seed, dims=3, classes=4, places=0):
    """Draw float32 points and labels; with `places`, some points coincide and differ in labels."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, dims))
    if places:
        X = rng.random((places, dims))[rng.integers(0, places, n)]
    y = np.where(rng.random(n) < 0.7, (X[:, 0] * classes).astype(int), rng.integers(0, classes, n))
    return X.astype(np.float32).astype(float), y.tolist()


def grow(X, y, n_trees=1, seed=0, gamma=7.0, weights=None, **params):
    split_pure = params.pop("split_pure", False)
    partitions = Partitions(n_trees, params.pop("lifetime", math.inf), **params, seed=seed)
    trees = LabelTrees(partitions, gamma, split_pure)
    trees.add_inputs(list(range(X.shape[1])), X[0])
    for _ in range(max(y) + 1):
        trees.add_class()
    if weights is not None:
        trees.weigh()
    for x, label, weight in zip(X, y, weights or [1.0] * len(y), strict=True):
        trees.vector[: len(x)] = x
        assert trees.learn(label, weight) == -1
    return trees


weighted_or_not = pytest.mark.parametrize("weighted", [False, True])
any_params = pytest.mark.parametrize("params", [*SETTINGS, {"max_nodes": 31}])


def test_values_that_single_precision_does_not_hold_are_found():
    trees = grow(*draw(20, 1))
    for value, bad in ((3.4e38, -1), (math.nan, -1), (-3.5e38, 1), (math.inf, 1)):
        row = np.array([[0.0, value, 0.0]])
        assert scaling.find_too_large(trees.forest, Float64s.of(row)) == bad


@pytest.mark.parametrize("is_scaled", [0, 1])
@pytest.mark.parametrize("dims", [1, 2, 7, 8, 9, 15, 16, 17, 54])
def test_boxes_are_the_twins(dims, is_scaled):
    # Points come one at a time and in batches; values and whole dimensions are missing. The rows of
    # points have values, or inputs that are scaled when they are read.
    rng = np.random.default_rng(dims)
    offsets, factors = rng.normal(size=dims), rng.lognormal(sigma=3.0, size=dims)
    source = boxes.Source(0, is_scaled, Float64s.of(offsets), Float64s.of(factors))
    for missing in (0.0, 0.3):
        inputs = 10.0 * rng.standard_normal((200, dims))
        inputs[rng.random(inputs.shape) < 0.05] *= 1e30
        inputs[rng.random(inputs.shape) < missing] = np.nan
        inputs[:100, -1] = np.nan
        values = (inputs - offsets) * factors if is_scaled else inputs
        X = np.clip(values, -1e30, 1e30).astype(np.float32)
        twin = naive.Node(lower=[math.nan] * dims, upper=[math.nan] * dims)
        box = np.full((2, dims), np.nan, dtype=np.float32)
        lower, upper = (Float32s.of(side) for side in box)
        for n in (1, 1, 2, 60, 1, 64, 1, 30):
            batch, X = X[:n], X[n:]
            rows, inputs = (inputs[:n] if is_scaled else batch), inputs[n:]
            far = distance_outside(Float32s.of(batch[0]), lower, upper, dims)
            assert far == pytest.approx(twin.distance(batch[0].tolist()), rel=1e-12)
            places = Memory(boxes.PointAt, n)
            for place, row in zip(places, rows, strict=True):
                place.point = Point(row.ctypes.data)
            if n == 1:
                hold(Float32s.of(batch[0]), lower, upper, dims)
            else:
                hold_batch(places.array, n, source, lower, upper, dims)
            for row in batch.tolist():
                twin.grow(row)
            np.testing.assert_array_equal(box, [twin.lower, twin.upper])


@pytest.mark.parametrize("end", [0.0, 1e-3, 0.5, 2.0])
def test_a_time_before_an_end_is_the_exponential_one(end):
    end = float(np.float32(end))
    one, other = trees = Memory(Tree, 2)
    found = []
    for seed in range(2000):
        trees.words["random_state"] = seed
        time = exponential(one, 1.7)
        assert exponential_before(other, 1.7, end) == (time if time < end else math.inf)
        found.append(time < end)
    assert one.random_state == other.random_state
    assert stats.binomtest(sum(found), 2000, -math.expm1(-1.7 * end)).pvalue > LEVEL / 4


def as_twin(trees, t, hidden=False):
    """Copy a tree to nodes of the reference."""
    read = trees.reader.read(t, hidden)
    return naive.copied(read, [node.counts.tolist() for node in read])


def assert_predictions_are_the_twins(trees, queries, gamma=7.0):
    roots = [as_twin(trees, t) for t in range(trees.n_trees)]
    base = [1.0 / trees.forest.n_classes] * trees.forest.n_classes
    expected = [
        np.mean([hnsp.predict(root, x, gamma, base) for root in roots], axis=0)
        for x in queries.astype(np.float32).astype(float)
    ]
    np.testing.assert_allclose(trees.predict_rows(queries, 1), expected, atol=1e-10, rtol=0)


@any_params
@pytest.mark.parametrize("places", [0, 12])
@weighted_or_not
def test_prediction_is_the_twins(params, places, weighted, seed):
    X, y = draw(300, seed, places=places)
    weights = weights_of(300, seed) if weighted else None
    trees = grow(X, y, n_trees=3, seed=seed, weights=weights, **params)
    queries = np.vstack([X[:40], draw(40, seed + 9)[0], 3.0 * draw(40, seed + 5)[0] - 1.0])
    assert_predictions_are_the_twins(trees, queries)


@pytest.mark.parametrize("classes", [20, 75, 160, 171])
def test_prediction_is_the_twins_in_any_words_of_a_set(classes):
    X, y = draw(400, 3, classes=classes, places=150)
    # All classes must occur.
    y[:classes] = range(classes)
    trees = grow(X, y, n_trees=2, lifetime=4.0)
    assert_predictions_are_the_twins(trees, np.vstack([X[:40], 3.0 * draw(40, 5)[0] - 1.0]))


@pytest.mark.parametrize("lifetime", [20.0, math.inf])
def test_what_hides_below_a_paused_leaf_is_not_predicted(lifetime):
    X, _ = draw(600, 0)
    y = (X[:, 0] > 0.5).astype(int).tolist()
    trees = grow(X, y, n_trees=2, lifetime=lifetime, gamma=0.5)
    assert len(trees.reader.read(0, hidden=True)) > len(trees.reader.read(0))
    assert_predictions_are_the_twins(trees, 2.0 * draw(60, 1)[0] - 0.5, 0.5)


@any_params
@pytest.mark.parametrize("places", [0, 12])
@weighted_or_not
@pytest.mark.parametrize("seed", [0, 1])
def test_counts_are_those_of_algorithm_5(params, places, weighted, seed):
    X, y = draw(250, seed, places=places)
    weights = weights_of(250, seed) if weighted else None
    root = as_twin(grow(X, y, seed=seed, weights=weights, **params), 0)
    stored = {id(node): list(node.count) for node in naive.walk(root)}
    hnsp.initialize_counts(naive.route(root, X), y, 4, weights)
    for node in naive.walk(root):
        # Sums of integer weights are exact.
        assert stored[id(node)] == pytest.approx(node.count, rel=1e-12 * weighted, abs=0.0)
        points = [n for leaf in naive.leaves(node) for n in leaf.points]
        np.testing.assert_array_equal(node.lower, X[points].min(axis=0))
        np.testing.assert_array_equal(node.upper, X[points].max(axis=0))


def test_a_path_longer_than_the_room_for_it():
    """Points at powers of two make a path that is deeper than the reserved memory."""
    X = np.array([[2.0**-k] for k in range(120)])
    trees = grow(X, [k % 2 for k in range(120)], n_trees=2, gamma=1.0)
    assert max(node.depth for node in trees.reader.read(0)) > 64
    assert_predictions_are_the_twins(trees, X, 1.0)
    # Paths of different lengths share vector lanes.
    single = [trees.predict_rows(x[None], 1)[0] for x in X]
    np.testing.assert_array_equal(trees.predict_rows(X, 1), single)
    holes = np.vstack([X[:1] * np.nan, X[:1]])
    assert math.isclose(trees.predict_rows(holes, 1)[0].sum(), 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_a_missing_value_follows_both_sides(seed):
    """Kernels omit branches of low weight, which a small tree does not have."""
    X, y = draw(12, 3, dims=2, classes=2)
    trees = grow(X, y, seed=seed)
    root = naive.route(as_twin(trees, 0), X)
    queries = np.array([[np.nan, 0.4], [0.6, np.nan], [np.nan, np.nan]], np.float32).astype(float)
    expected = [hnsp.predict(root, x, 7.0, [0.5, 0.5]) for x in queries.tolist()]
    np.testing.assert_allclose(trees.predict_rows(queries, 1), expected, atol=1e-10)


# Online trees are distributed like batch trees.


def features_of(root, X, n_points):
    """Return numbers that summarize a tree; tests compare the distributions of these numbers."""
    routed = naive.leaves(naive.route(root, X))
    return [
        # Time, dimension and position of the first cut.
        *(root.time, root.dim, -1.0 if root.is_leaf else root.cut),
        len(routed),
        sum(naive.depth(leaf) * len(leaf.points) for leaf in routed) / n_points,
        any({0, 1} <= {*leaf.points} for leaf in routed),
        max(len(leaf.points) for leaf in routed),
    ]


LAW_DATA = {
    "spread": ([[0.0, 0.0], [1.0, 0.3], [0.2, 0.9], [0.6, 0.5], [0.9, 0.8], [0.3, 0.3]], "aababb"),
    "one class late": ([[0.1, 0.1], [0.9, 0.2], [0.8, 0.9], [0.2, 0.7], [0.5, 0.5]], "aaaab"),
    "duplicates": ([[0.0, 0.0], [0.0, 0.0], [1.0, 0.5], [1.0, 0.5], [0.4, 0.9]], "abaab"),
}


def law_data(name):
    X, y = LAW_DATA[name]
    return np.array(X, dtype=np.float32).astype(float), [ord(c) - ord("a") for c in y]


def online_and_batch(trees, X):
    """Return summaries of trees, and of trees that are rebuilt from all points."""
    numbers = range(trees.n_trees)
    online = [features_of(as_twin(trees, t), X, len(X)) for t in numbers]
    trees.build()
    return online, [features_of(as_twin(trees, t), X, len(X)) for t in numbers]


@pytest.mark.parametrize("name", list(LAW_DATA))
@pytest.mark.parametrize("params", SETTINGS)
def test_online_forests_have_the_law_of_batch_forests(name, params, seed):
    X, y = law_data(name)
    order = np.random.default_rng(seed).permutation(len(y))
    trees = grow(X[order], [y[i] for i in order], n_trees=1000, seed=seed, **params)
    online, batch = online_and_batch(trees, X)
    rng, paused, twin = np.random.default_rng(100 + seed), not params["split_pure"], []
    for _ in range(400):
        root = naive.sample_tree(X.tolist(), y, params["lifetime"], rng, paused)
        for node in naive.walk(root):
            node.points = []
        twin.append(features_of(root, X, len(y)))
    for other in (batch, twin):
        assert_one_law(online, other, LEVEL / (7 * 3 * 2))


def test_sampling_hidden_cuts_early_keeps_the_law(seed):
    """An opened block is distributed like a batch block, even beyond `PAUSE_LIMIT` points."""
    X = np.random.default_rng(0).random((PAUSE_LIMIT + 60, 2)).astype(np.float32).astype(float)
    X = np.vstack([X, [[0.5, 0.5]]])
    trees = grow(X, [0] * (len(X) - 1) + [1], n_trees=300, seed=seed)
    assert_one_law(*online_and_batch(trees, X), LEVEL / (7 * 3))


# The reference against distributions and sums in the paper.


def test_posterior_by_hand():
    """Three points are on the left and one on the right of a split at time 0.7 of 2."""
    root = naive.Node([0.0], [1.0], None, 0.7, 0, 0.6)
    root.left = naive.Node([0.0], [0.5], root, 2.0, points=[0, 1, 2])
    root.right = naive.Node([1.0], [1.0], root, 2.0, points=[3])
    hnsp.initialize_counts(root, [0, 0, 1, 0], 2)
    assert (root.count, root.tab) == ([2, 1], [1, 1])
    assert (root.left.count, root.left.tab) == ([2, 1], [1, 1])
    base = [0.8, 0.2]
    at_root, at_leaf = math.exp(-3.0 * 0.7), math.exp(-3.0 * 1.3)
    above = (2.0 - at_root + 2.0 * at_root * 0.8) / 3.0
    np.testing.assert_allclose(hnsp.posterior(root, 3.0, base), [above, 1.0 - above])
    left = (2.0 - at_leaf + 2.0 * at_leaf * above) / 3.0
    np.testing.assert_allclose(hnsp.posterior(root.left, 3.0, base), [left, 1.0 - left])
    right = 1.0 - at_leaf + at_leaf * above
    np.testing.assert_allclose(hnsp.posterior(root.right, 3.0, base), [right, 1.0 - right])
    # At an infinite lifetime, the posterior depends only on counts.
    root.right.time = math.inf
    assert hnsp.posterior(root.right, 3.0, base) == [1.0, 0.0]


@pytest.mark.parametrize("lifetime", [math.inf, 2.0])
@pytest.mark.parametrize("paused", [False, True])
def test_prediction_is_the_mean_over_extensions(lifetime, paused):
    """As in Appendix B, the tree is extended by a query, and the leaf of the query predicts.

    Queries branch off before the lifetime, even in a paused leaf.
    """
    X, y = draw(7, 2, dims=2, classes=3)
    tree = naive.sample_tree(X.tolist(), y, lifetime, np.random.default_rng(1), paused)
    hnsp.initialize_counts(tree, y, 3)
    state = pickle.dumps(tree)
    base, gamma, n = [0.5, 0.3, 0.2], 1.5, 1200
    for seed, x in enumerate([[0.5, 0.5], [0.1, 0.95], [1.3, 0.2], [-0.4, 1.5], [0.92, 0.79]]):
        rng, drawn = np.random.default_rng(seed), []
        points, labels = [*X.tolist(), x], [*y, None]
        for _ in range(n):
            root = pickle.loads(state)
            root, _ = naive.extend_block(root, 7, points, labels, lifetime, rng, False)
            hnsp.initialize_counts(root, labels, 3)
            leaf = next(leaf for leaf in naive.leaves(root) if 7 in leaf.points)
            drawn.append(hnsp.posterior(leaf, gamma, base))
        error = np.std(drawn, axis=0, ddof=1) / math.sqrt(n)
        gaps = np.abs(hnsp.predict(tree, x, gamma, base) - np.mean(drawn, axis=0))
        assert (gaps <= 4.0 * error + 1e-9).all(), (x, gaps)


def test_an_opened_block_is_sampled_from_its_parents_time_on(seed):
    """The probability of a cut in a late block depends on the remaining lifetime."""
    X = np.array([[0.0], [0.3], [1.3], [0.15]], np.float32).astype(float)
    trees = grow(X, [0, 0, 1, 1], n_trees=8000, seed=seed, lifetime=3.0)

    def leaves():
        return [[sum(n.is_leaf for n in trees.reader.read(t))] for t in range(8000)]

    online = leaves()
    trees.build()
    assert_one_law(online, leaves(), LEVEL / 3)
