"""Tests of importances and explanations against references, and of guarantees."""

import functools
import math

import numpy as np
import pytest
import test_gaussian as targets
from common import weights_of
from naive import importances as naive
from naive.mondrian import route
from river import base
from test_configurations import CONFIGURATIONS, ROWS, learn
from test_kernels import as_twin, draw, grow

import river_mondrian as rm
from river_mondrian import AdaptiveMondrianForestRegressor as Regressor
from river_mondrian.posteriors.rebuilt.rebuilt_trees import orders_of

# Tolerance of float64 sums of a few hundred terms below 1.
ROUNDING = 1e-12


def queries_of(X, seed):
    """Return samples near the learned ones, and samples far away."""
    rng = np.random.default_rng(seed)
    found = np.vstack([X[:8], rng.random((8, X.shape[1])), 3.0 * rng.random((8, X.shape[1])) - 1.0])
    return found.astype(np.float32).astype(float)


# Importances against the references.


def close(found, expected, atol=1e-10):
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def mean_over(twins, explain):
    """Return mean explanations over trees: at the roots, and by feature."""
    return [np.mean(part, axis=0) for part in zip(*map(explain, twins), strict=True)]


@pytest.mark.parametrize("params", [{}, {"split_pure": True}, {"lifetime": 2.0}])
@pytest.mark.parametrize("places", [0, 9])
@pytest.mark.parametrize("most", [1, 3])
def test_class_importances_are_a_mean_over_all_prunings(params, places, most, seed):
    """An integer weight equals repetitions of the sample."""
    X, y = draw(13, seed, places=places)
    repeats = [1 + i % most for i in range(13)]
    trees = grow(X, y, 2, seed, weights=repeats if most > 1 else None, **params)
    own = y, max(y) + 1, 3, repeats
    twins = [naive.class_importances(route(as_twin(trees, t), X), *own) for t in range(2)]
    close(trees.reader.importances(), np.mean(twins, axis=0), 1e-12)


def test_leaves_of_full_trees_count_what_they_have_not_stored():
    X, y = draw(900, 1)
    trees = grow(X, y, n_trees=2, max_nodes=9)
    assert trees.n_points < 900
    twins = [naive.class_importances(route(as_twin(trees, t), X), y, 4, 3) for t in range(2)]
    close(trees.reader.importances(), np.mean(twins, axis=0), 1e-12)


@pytest.mark.blas
@pytest.mark.parametrize("params", [{}, {"gamma2": 0.5, "noise_variance": 0.2}, {"lifetime": 60.0}])
@pytest.mark.parametrize(("same", "weights"), [(0, [1]), (6, [1]), (0, [0, 0.5, 1, 3])])
def test_target_importances_leave_each_sample_out(params, same, weights, seed):
    """All leaves have one sample, except for the leaf of equal samples."""
    X, y = targets.draw(40, seed)
    X[:same] = X[0]
    w = np.random.default_rng(seed).choice(weights, len(y))
    trees = targets.grow(X, y, w, n_trees=2, seed=seed, **params)
    twins = [targets.as_twin(trees, t, X) for t in range(2)]
    if "lifetime" in params:
        assert max(len(node.points) for node in twins[0] if node.is_leaf) == max(same, 1)
    prior, expected = float(np.average(y, weights=w)), []
    for t, twin in enumerate(twins):
        own = (y, w.tolist(), *targets.hyperparameters(trees, t), prior, 3)
        expected.append(naive.gaussian_importances(twin, *own))
    close(trees.reader.importances(), np.mean(expected, axis=0), 1e-9)


@pytest.mark.parametrize("same", [0, 6])
def test_importances_of_plain_means_leave_each_sample_out(same, seed):
    X, y = targets.draw(60, seed)
    X[:same] = X[0]
    trees = targets.grow(X, y, n_trees=2, seed=seed, plain_means=True)
    twins = [naive.mean_importances(targets.as_twin(trees, t, X), y, 3) for t in range(2)]
    close(trees.reader.importances(), np.mean(twins, axis=0), 1e-9)


def test_plain_means_are_read_at_their_lifetime():
    """Only blocks at the lifetime predict targets, so later cuts have no effect."""
    X, y = targets.draw(200, 1)
    trees = targets.grow(X, y, plain_means=True)
    before = trees.reader.importances()
    trees.forest.horizon = 0.5 * trees.reader.read(0)[0].time
    assert trees.reader.importances().tolist() == [0.0, 0.0, 0.0]
    trees.forest.horizon = 1e-6 + trees.reader.read(0, hidden=True)[0].time
    assert (trees.reader.importances() != 0.0).sum() <= 1
    trees.forest.horizon = math.inf
    assert trees.reader.importances().tolist() == before.tolist()


# Explanations against the references.


@pytest.mark.parametrize("params", [{}, {"split_pure": True}, {"lifetime": 2.0}, {"max_nodes": 9}])
@pytest.mark.parametrize("weighted", [False, True])
def test_explained_probabilities_are_the_twins(params, weighted, seed):
    X, y = draw(60, seed, places=20)
    trees = grow(X, y, 2, seed, weights=weights_of(60, seed) if weighted else None, **params)
    roots = [as_twin(trees, t) for t in range(2)]
    for x in queries_of(X, seed):
        bad, found = trees.reader.explain(x)
        start, parts = mean_over(
            roots, lambda root, x=x: naive.explain_classes(root, x.tolist(), 7.0, [0.25] * 4)
        )
        assert bad == -1
        close(trees.reader.root_prediction(), start)
        close(found, parts)
        close(start + parts.sum(axis=0), trees.predict_rows(x[None], 1)[0])


def test_both_sides_of_a_missing_value_are_explained(seed):
    """Kernels omit branches of low weight, which a small tree does not have."""
    X, y = draw(12, seed, classes=2)
    trees = grow(X, y, n_trees=2, seed=seed)
    roots = [route(as_twin(trees, t), X) for t in range(2)]
    for missing in ([0], [0, 1], [1, 2], [0, 1, 2]):
        for x in queries_of(X, seed):
            x[missing] = math.nan
            twins = [naive.explain_classes(root, x.tolist(), 7.0, [0.5] * 2) for root in roots]
            close(trees.reader.explain(x)[1], np.mean([part for _, part in twins], axis=0))


@pytest.mark.blas
@pytest.mark.parametrize("params", [{}, {"lifetime": 2.0}, {"min_samples_split": 6}])
def test_explained_targets_are_the_twins(params, seed):
    X, y = targets.draw(60, seed)
    trees = targets.grow(X, y, n_trees=2, seed=seed, **params)
    twins = [targets.dense(trees, t, X, y) for t in range(2)]
    for x in queries_of(X, seed):
        found = trees.reader.explain(x)[1][:, 0]
        start, parts = mean_over(
            twins, lambda twin, x=x: naive.explain_targets(twin, x.tolist(), targets.kernel_moments)
        )
        assert trees.reader.root_prediction()[0] == pytest.approx(start, abs=1e-8)
        close(found, parts, 1e-8)


def test_a_path_longer_than_the_room_for_it_is_explained():
    X = np.array([[2.0**-k] for k in range(120)])
    trees = grow(X, [k % 2 for k in range(120)], gamma=1.0)
    for x in X[::7]:
        parts, predicted = trees.reader.explain(x)[1], trees.predict_rows(x[None], 1)[0]
        close(trees.reader.root_prediction() + parts.sum(axis=0), predicted, ROUNDING)


# The adaptive forests.


def predict_as(model, x):
    found = (
        model.predict_one(x) if isinstance(model, base.Regressor) else model.predict_proba_one(x)
    )
    return np.array([*found.values()] if isinstance(found, dict) else [found])


@pytest.mark.parametrize("kind", [rm.AdaptiveMondrianForestClassifier, Regressor])
def test_explanations_by_adaptive_forests_are_the_twins(kind):
    """Categories, missing values and neighbours contribute as the whole model's predictions say."""
    model = kind(4, seed=1)
    for x, y in levelled(400):
        model.learn_one(x, y)
    n_orders = model._trees.reader.N_ORDERS
    for x, _ in levelled(12, seed=9):
        names = [name for name in model.feature_names if name in x]
        orders = [[names[i] for i in order] for order in orders_of(len(names), n_orders)]
        expected = naive.mean_over_orders(lambda x: predict_as(model, x), x, orders)
        found = model.explain_one(x)
        found = [found] if kind is Regressor else found.values()
        for k, own in enumerate(found):
            assert [*own] == model.feature_names
            for name, value in own.items():
                assert value == pytest.approx(expected[name][k] if name in x else 0.0, abs=1e-12)


@pytest.mark.parametrize("kind", [rm.AdaptiveMondrianForestClassifier, Regressor])
def test_absent_words_contribute_nothing(kind):
    """With `missing="zero"`, a sample without words is the baseline, however many words exist."""
    model, rng = kind(4, missing="zero", seed=1), np.random.default_rng(0)
    for row in (rng.random((400, 12)) < 0.4).tolist():
        model.learn_one({f"w{j}": 1.0 for j, is_in in enumerate(row) if is_in}, sum(row[:3]))
    start, end = model.baseline, predict_as(model, {})
    assert np.array([*start.values()] if isinstance(start, dict) else [start]) == pytest.approx(end)
    parts = model.explain_one({"w0": 1.0})
    for by_word in [parts] if kind is Regressor else parts.values():
        assert not any(value for word, value in by_word.items() if word != "w0")
        assert by_word["w0"] != 0.0


def test_orders_are_followed_by_their_reverses():
    orders = orders_of(5, 3)
    assert (np.sort(orders, axis=1) == np.arange(5)).all()
    assert (orders[:3, ::-1] == orders[3:]).all()
    assert len({tuple(order) for order in orders.tolist()}) > 2


# Guarantees of estimators.


EXPLAINED = [name for name, make in CONFIGURATIONS.items() if hasattr(make(), "baseline")]


def check_sums(model, x):
    """Check that contributions add up to the prediction."""
    found, start, rel = model.explain_one(x), model.baseline, 0.0
    if isinstance(model, base.Regressor):
        found, start, predicted = {0: found}, {0: start}, {0: model.predict_one(x)}
        rel = ROUNDING if isinstance(model, rm.MondrianForestRegressor) else 1e-9
    else:
        predicted = model.predict_proba_one(x)
        assert sum(start.values()) == pytest.approx(1.0)
    assert list(found) == list(start) == list(predicted)
    for label, p in predicted.items():
        assert list(found[label]) == model.feature_names
        total = start[label] + math.fsum(found[label].values())
        assert total == pytest.approx(p, rel=rel, abs=ROUNDING)


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


MAKERS = {
    "classifier": rm.MondrianForestClassifier,
    "weighted": rm.MondrianForestClassifier,
    "regressor": rm.MondrianForestRegressor,
    "means": functools.partial(rm.MondrianForestRegressor, posterior="mean"),
    "adaptive": rm.AdaptiveMondrianForestClassifier,
    "weighted adaptive": rm.AdaptiveMondrianForestClassifier,
}


def levelled(n, seed=0):
    """Return samples with missing values, and targets that depend on the six levels of `a`."""
    rng = np.random.default_rng(seed)
    for a, b, c in rng.random((n, 3)).tolist():
        x = {"a": f"a {int(6 * a)}", "b": b, "c": f"c {int(2 * c)}"}
        yield {k: v for k, v in x.items() if rng.random() > 0.1}, int(3.0 * a + b > 2.0)


@pytest.mark.parametrize("missing", ["unknown", "zero"])
@pytest.mark.parametrize("name", MAKERS)
def test_levels_are_explained(name, missing):
    """Contributions add up, and an informative category is more important than a random one."""
    model = MAKERS[name](4, missing=missing, seed=1)
    for i, (x, y) in enumerate(levelled(500)):
        model.learn_one(x, y, 0.5 + i % 3 if "weighted" in name else 1.0)
    for x, _ in [*levelled(12, seed=9), ({"a": "new", "b": 0.5}, 0)]:
        check_sums(model, x)
    found = model.feature_importances
    assert found["a"] > 2.0 * abs(found["c"])


def test_a_feature_of_given_directions_has_their_cuts():
    model = rm.MondrianForestClassifier(3, directions=[{"a": 1.0, "b": -1.0}, {"c": 2.0}], seed=1)
    for a, b, c in np.random.default_rng(0).random((300, 3)).tolist():
        model.learn_one({"a": a, "b": b, "c": c, "d": 7.0}, 3.0 * a + b > 2.0)
    found = model.feature_importances
    # The features have nearly the same range.
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
