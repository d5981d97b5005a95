"""Importances and explanations against their twins, and their promises."""

import math

import numpy as np
import pytest
from naive import adaptive as naive_adaptive
from naive import importances as naive
from naive.mondrian import copied, route
from river import base
from test_adaptive import grown, long_slots, posteriors
from test_configurations import CONFIGURATIONS, ROWS, learn
from test_gaussian import as_twin as target_twin
from test_gaussian import dense, hyperparameters, kernel_moments
from test_gaussian import draw as draw_targets
from test_gaussian import grow as grow_targets
from test_kernels import as_twin, draw, grow, weights_of

import river_mondrian as rm
from river_mondrian.learners import experts as attribution
from river_mondrian.learners.experts import FIRST_SQUARES, FLOOR, LARGEST_EXPONENT, STEP, Mixture
from river_mondrian.posteriors.adaptive.adaptive_trees import Explanation

# Sums of at most some hundred terms below 1 in float64.
ROUNDING = 1e-12


def queries_of(X, seed):
    """Return samples near the learned ones, and far away."""
    rng = np.random.default_rng(seed)
    found = np.vstack([X[:8], rng.random((8, X.shape[1])), 3.0 * rng.random((8, X.shape[1])) - 1.0])
    return found.astype(np.float32).astype(float)


# Importances against the twins.


@pytest.mark.parametrize("params", [{}, {"split_pure": True}, {"lifetime": 2.0}])
@pytest.mark.parametrize("places", [0, 9])
@pytest.mark.parametrize("most", [1, 3])
def test_class_importances_are_a_mean_over_all_prunings(params, places, most, seed):
    """A whole weight counts as so many samples."""
    X, y = draw(13, seed, places=places)
    repeats = [1 + i % most for i in range(13)]
    trees = grow(X, y, 2, seed, weights=repeats if most > 1 else None, **params)
    twins = [
        naive.class_importances(route(as_twin(trees, t), X), y, max(y) + 1, 3, repeats)
        for t in range(2)
    ]
    np.testing.assert_allclose(trees.importances, np.mean(twins, axis=0), rtol=0, atol=1e-12)


def test_leaves_of_full_trees_count_what_they_have_not_stored():
    X, y = draw(900, 1)
    trees = grow(X, y, n_trees=2, max_nodes=9)
    assert trees.n_points < 900
    twins = [naive.class_importances(route(as_twin(trees, t), X), y, 4, 3) for t in range(2)]
    np.testing.assert_allclose(trees.importances, np.mean(twins, axis=0), rtol=0, atol=1e-12)


@pytest.mark.blas
@pytest.mark.parametrize("params", [{}, {"gamma2": 0.5, "noise_variance": 0.2}, {"lifetime": 60.0}])
@pytest.mark.parametrize(("same", "weights"), [(0, [1]), (6, [1]), (0, [0, 0.5, 1, 3])])
def test_target_importances_leave_each_sample_out(params, same, weights, seed):
    """All leaves but one, where samples are at the same place, hold one sample."""
    X, y = draw_targets(40, seed)
    X[:same] = X[0]
    w = np.random.default_rng(seed).choice(weights, len(y))
    trees = grow_targets(X, y, w, n_trees=2, seed=seed, **params)
    if "lifetime" in params:
        leaves = [node for node in target_twin(trees, 0, X) if node.is_leaf]
        assert max(len(node.points) for node in leaves) == max(same, 1)
    expected = []
    for t in range(2):
        gamma2, noise = hyperparameters(trees, t)
        nodes, prior = target_twin(trees, t, X), float(np.average(y, weights=w))
        own = (nodes, y, w.tolist(), gamma2, noise, prior, 3)
        expected.append(naive.gaussian_importances(*own))
    np.testing.assert_allclose(trees.importances, np.mean(expected, axis=0), rtol=0, atol=1e-9)


@pytest.mark.parametrize("same", [0, 6])
def test_importances_of_plain_means_leave_each_sample_out(same, seed):
    X, y = draw_targets(60, seed)
    X[:same] = X[0]
    trees = grow_targets(X, y, n_trees=2, seed=seed, plain_means=True)
    twins = [naive.mean_importances(target_twin(trees, t, X), y, 3) for t in range(2)]
    np.testing.assert_allclose(trees.importances, np.mean(twins, axis=0), rtol=0, atol=1e-9)


def test_plain_means_are_read_at_their_lifetime():
    """Targets differ by their block at that time only: blocks below it change nothing."""
    X, y = draw_targets(200, 1)
    trees = grow_targets(X, y, plain_means=True)
    before = trees.importances
    trees.forest.horizon = 0.5 * trees.read(0)[0].time
    assert trees.importances.tolist() == [0.0, 0.0, 0.0]
    trees.forest.horizon = 1e-6 + trees.read(0, hidden=True)[0].time
    assert (trees.importances != 0.0).sum() <= 1
    trees.forest.horizon = math.inf
    assert trees.importances.tolist() == before.tolist()


# Explanations against the twins.


@pytest.mark.parametrize("params", [{}, {"split_pure": True}, {"lifetime": 2.0}, {"max_nodes": 9}])
@pytest.mark.parametrize("weighted", [False, True])
def test_explained_probabilities_are_the_twins(params, weighted, seed):
    X, y = draw(60, seed, places=20)
    trees = grow(X, y, 2, seed, weights=weights_of(60, seed) if weighted else None, **params)
    roots = [as_twin(trees, t) for t in range(2)]
    for x in queries_of(X, seed):
        bad, found = trees.explain(x)
        twins = [naive.explain_classes(root, x.tolist(), 7.0, [0.25] * 4) for root in roots]
        start, parts = (np.mean(part, axis=0) for part in zip(*twins, strict=True))
        assert bad == -1
        np.testing.assert_allclose(trees.root_prediction(), start, rtol=0, atol=1e-10)
        np.testing.assert_allclose(found, parts, rtol=0, atol=1e-10)
        predicted = trees.predict_rows(x[None], 1)[0]
        np.testing.assert_allclose(start + parts.sum(axis=0), predicted, rtol=0, atol=1e-10)


def test_both_sides_of_a_missing_value_are_explained(seed):
    """On a small tree no branch is too light, so that the twin follows all of them."""
    X, y = draw(12, seed, classes=2)
    trees = grow(X, y, n_trees=2, seed=seed)
    roots = [route(as_twin(trees, t), X) for t in range(2)]
    for missing in ([0], [0, 1], [1, 2], [0, 1, 2]):
        for x in queries_of(X, seed):
            x[missing] = math.nan
            _, found = trees.explain(x)
            twins = [naive.explain_classes(root, x.tolist(), 7.0, [0.5] * 2) for root in roots]
            parts = np.mean([part for _, part in twins], axis=0)
            np.testing.assert_allclose(found, parts, rtol=0, atol=1e-10)


@pytest.mark.blas
@pytest.mark.parametrize("params", [{}, {"lifetime": 2.0}, {"min_samples_split": 6}])
def test_explained_targets_are_the_twins(params, seed):
    X, y = draw_targets(60, seed)
    trees = grow_targets(X, y, n_trees=2, seed=seed, **params)
    twins = [dense(trees, t, X, y) for t in range(2)]
    for x in queries_of(X, seed):
        _, found = trees.explain(x)
        explained = [naive.explain_targets(twin, x.tolist(), kernel_moments) for twin in twins]
        start, parts = (np.mean(part, axis=0) for part in zip(*explained, strict=True))
        assert trees.root_prediction()[0] == pytest.approx(start, abs=1e-8)
        np.testing.assert_allclose(found[:, 0], parts, rtol=0, atol=1e-8)


def test_a_path_longer_than_the_room_for_it_is_explained():
    X = np.array([[2.0**-k] for k in range(120)])
    y = [k % 2 for k in range(120)]
    trees = grow(X, y, n_trees=1, gamma=1.0)
    for x in X[::7]:
        _, found = trees.explain(x)
        predicted = trees.predict_rows(x[None], 1)[0]
        total = trees.root_prediction() + found.sum(axis=0)
        np.testing.assert_allclose(total, predicted, rtol=0, atol=ROUNDING)


# The adaptive forest.


def test_the_parts_of_an_adaptive_trees_posteriors_are_the_twins(seed):
    X, y = draw(200, seed)
    trees = grown(X, y, n_trees=2, seed=seed)
    trees.build()
    for x in queries_of(X, seed):
        trees.predict(x.tobytes(), bytearray(8 * 4))
        explained = Explanation(trees, x)
        for t, slot in enumerate(long_slots(trees)):
            start, parts = explained._tree(slot)
            nodes = trees.read(t)
            seen = naive_adaptive.replay(nodes, X.tolist(), y, 4)
            path = naive_adaptive.route(nodes, x.tolist())
            for v in range(2):
                own = [np.array(seen[number].estimate(v)) for number in path]
                expected, rest = np.zeros((3, 4)), 1.0
                for i, number in enumerate(path[:-1]):
                    rest *= 1.0 - seen[number].stops[v]
                    expected[nodes[number].dim] += rest * (own[i + 1] - own[i])
                np.testing.assert_allclose(start[1 + v], own[0], atol=2e-5)
                np.testing.assert_allclose(parts[1 + v], expected, atol=2e-5)
            # The first as in the exact forest, but by the counts of a replay.
            twin = copied(nodes, naive_adaptive.hnsp_counts(nodes, seen))
            gamma = float(trees.forest.gamma)
            first, expected = naive.explain_classes(twin, x.tolist(), gamma, [0.25] * 4)
            np.testing.assert_allclose(start[0], first, atol=1e-5)
            np.testing.assert_allclose(parts[0], expected, atol=1e-5)
            whole = start + parts.sum(axis=1)
            np.testing.assert_allclose(whole, posteriors(trees, slot, x), atol=1e-5)


def learned_mixture(n_experts, seed):
    """Return a mixture that has learned, and its twin."""
    rng = np.random.default_rng(seed)
    own = Mixture(n_experts)
    twin = naive_adaptive.Mixture(n_experts, FLOOR, STEP, FIRST_SQUARES, LARGEST_EXPONENT)
    for _ in range(200):
        twin.predict(rng.dirichlet(np.ones(3), n_experts).tolist())
        twin.learn(int(rng.integers(3)))
    own.exponents[:] = twin.exponents
    return own, twin


def test_a_mixture_is_shared_out_as_its_experts_move(seed):
    rng = np.random.default_rng(seed)
    own, twin = learned_mixture(5, seed)
    # Far from where the twin would floor it.
    start, end = (0.1 + 0.7 * rng.dirichlet(np.ones(3), 5) for _ in range(2))
    shares = rng.dirichlet(np.ones(4), 5)
    parts = shares[:, :, None] * (end - start)[:, None, :]
    noise = 0.1 * rng.normal(size=parts.shape)
    noise -= noise.mean(axis=1, keepdims=True)
    parts += noise - noise.mean(axis=2, keepdims=True)
    found = attribution.parts_of_mixture(own, start, end, parts)

    def predict(experts):
        return np.array(twin.predict(experts.tolist()))

    expected = naive.share_out(predict, start, parts, 2000)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    change = predict(end) - predict(start)
    np.testing.assert_allclose(attribution.mixed(own, end), predict(end), atol=ROUNDING)
    np.testing.assert_allclose(found.sum(axis=0), change, rtol=0, atol=ROUNDING)


def test_a_softmax_is_shared_out_as_its_logits_grow():
    rng = np.random.default_rng(0)
    start, parts = rng.normal(size=3), 2.0 * rng.normal(size=(4, 3))

    def predict(logits):
        powers = np.exp(logits[0])
        return powers / powers.sum()

    found = attribution.parts_of_softmax(start, parts)
    expected = naive.share_out(predict, start[None], parts[None], 2000)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


# What estimators promise.


def classifier(**params):
    return rm.MondrianForestClassifier(3, seed=1, **params)


def regressor(**params):
    return rm.MondrianForestRegressor(3, seed=1, **params)


def adaptive(**params):
    return rm.AdaptiveMondrianForestClassifier(4, seed=1, **params)


EXPLAINED = [name for name, make in CONFIGURATIONS.items() if hasattr(make(), "baseline")]


NAMES = ["a", "b", "c", "d"]


def stream(n, seed=0, missing=0.1, regression=False):
    """Return samples in which a is most informative, b less, c not at all, and d is constant."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 4))
    X[:, 3] = 7.0
    z = 3.0 * X[:, 0] + X[:, 1]
    y = (
        (5.0 + z + 0.1 * rng.normal(size=n))
        if regression
        else (z + rng.random(n) > 2.5).astype(int)
    )
    rows = [
        {name: v for name, v in zip(NAMES, row, strict=True) if rng.random() >= missing}
        for row in X.tolist()
    ]
    return list(zip(rows, y.tolist(), strict=True))


def check_sums(model, x):
    """Check that contributions add up to the prediction."""
    found, start = model.explain_one(x), model.baseline
    if isinstance(model, base.Regressor):
        assert list(found) == model.feature_names
        total = start + math.fsum(found.values())
        rel = ROUNDING if isinstance(model, rm.MondrianForestRegressor) else 1e-9
        assert total == pytest.approx(model.predict_one(x), rel=rel)
        return
    predicted = model.predict_proba_one(x)
    assert list(found) == list(start) == list(predicted)
    assert sum(start.values()) == pytest.approx(1.0)
    for label, p in predicted.items():
        assert list(found[label]) == model.feature_names
        total = start[label] + math.fsum(found[label].values())
        assert total == pytest.approx(p, rel=0, abs=ROUNDING)


@pytest.mark.parametrize("name", EXPLAINED)
def test_explanations_add_up(name):
    model, first = CONFIGURATIONS[name](), 0
    for n in (1, 2, 20, 300):
        learn(model, first, n)
        first = n
        for x in ROWS[-12:]:
            check_sums(model, x)
            check_sums(model, {key: 5.0 * v - 2.0 for key, v in x.items()})
        check_sums(model, {})
        check_sums(model, {"unknown": 3.0})


LEVELLED = ["classifier", "weighted", "regressor", "means", "adaptive", "weighted adaptive"]


def levelled(x):
    """Return a sample whose feature a is one of six levels, and c one of two."""
    levels = {
        name: f"{name} {int(x[name] * n)}" if name in x else None
        for name, n in (("a", 6), ("c", 2))
    }
    return x | levels


@pytest.mark.parametrize("missing", ["unknown", "zero"])
@pytest.mark.parametrize("name", LEVELLED)
def test_levels_are_explained(name, missing):
    """Sums add up, and an informative category matters more than an irrelevant one."""
    params = {"posterior": "mean"} if name == "means" else {}
    make = regressor if name in ("regressor", "means") else classifier
    model = (adaptive if "adaptive" in name else make)(missing=missing, **params)
    for i, (x, y) in enumerate(stream(500, regression=make is regressor)):
        if name.startswith("weighted"):
            model.learn_one(levelled(x), y, 0.5 + i % 3)
        else:
            model.learn_one(levelled(x), y)
    for x, _ in stream(12, seed=9, missing=0.3):
        check_sums(model, levelled(x))
    check_sums(model, {"a": "new", "b": 0.5})
    found = model.feature_importances
    assert found["a"] > 2.0 * abs(found["c"])


def test_a_feature_of_given_directions_has_their_cuts():
    model = classifier(directions=[{"a": 1.0, "b": -1.0}, {"c": 2.0}])
    for x, y in stream(300, missing=0.0):
        model.learn_one(x, y)
    found = model.feature_importances
    # Both have nearly the same range.
    assert found["a"] == pytest.approx(found["b"], rel=0.02)
    assert found["d"] == 0.0


@pytest.mark.parametrize("name", EXPLAINED)
def test_before_any_learning_there_is_nothing(name):
    model = CONFIGURATIONS[name]()
    is_regressor = isinstance(model, base.Regressor)
    assert model.feature_importances == model.explain_one({"a": 1.0}) == {}
    assert model.baseline == (0.0 if is_regressor else {})
    # A sample may have no feature.
    model.learn_one({}, 1)
    assert model.feature_importances == {}
    if not is_regressor:
        assert model.baseline == {1: 1.0}
        assert model.explain_one({"a": 1.0}) == {1: {}}
