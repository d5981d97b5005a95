"""Tests that the effect of wild targets or values on a regressor is limited."""

import copy
import math

import numpy as np
import pytest
from common import fed
from naive import moments as twin
from test_gaussian import assert_up_to_date, dense, draw, grow, make
from test_regressor import make_data, rows

from river_mondrian import MondrianForestRegressor
from river_mondrian.posteriors.targets.target_trees import GAMMA2_FACTOR, NOISE_FACTOR


def spoilt(y, places, value):
    """Return targets with some wild values."""
    y = y.copy()
    y[list(places)] = value
    return y


def shifted(y, first, level):
    """Return targets whose level shifts."""
    return np.where(np.arange(len(y)) < first, y, y + level)


STREAMS = {
    "clean": lambda y: y,
    "the first": lambda y: spoilt(y, [0], 1e30),
    "early": lambda y: spoilt(y, [2, 3], -1e6),
    "late": lambda y: spoilt(y, [2, 100, 300, 301, 420], 1e120),
    "throughout": lambda y: spoilt(y, range(7, len(y), 20), 1e4),
    "a shift": lambda y: shifted(y, 300, 1e6),
    "counts": lambda y: np.round(50.0 * (y - y.mean() - 1.0)).clip(0.0),
    "a constant": lambda y: spoilt(np.full_like(y, 3.0), [50], 7.0),
    "grows": lambda y: 1.02 ** np.arange(len(y)),
}


def check_moments(trees, y, w):
    forest = trees.forest
    total, mean, squares = twin.moments(y.tolist(), w.tolist())
    size = max(np.abs(y[twin.counted(y.tolist(), w.tolist())]).max(), 1e-300)
    assert forest.y_weight == pytest.approx(total)
    assert forest.y_mean == pytest.approx(mean, rel=1e-9, abs=1e-9 * size)
    assert forest.y_squares == pytest.approx(squares, rel=1e-7, abs=1e-12 * total * size**2)


@pytest.mark.covering
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("plain_means", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_are_those_of_the_targets_within_the_fences(stream, plain_means, weighted):
    X, y = draw(520, 3)
    y, w = STREAMS[stream](y), np.ones(520)
    if weighted:
        w[4:] = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 3.0], 516)
    trees = make(plain_means=plain_means)
    trees.add_inputs(list(range(X.shape[1])), X[0])
    for i in range(len(y)):
        grow(X[i : i + 1], y[i : i + 1], w[i : i + 1], trees=trees)
        if i < 20 or i % 50 == 0 or i in (62, 63, 510, 511, 512):
            check_moments(trees, y[: i + 1], w[: i + 1])


@pytest.mark.parametrize("first", [4500, 6000])
def test_fences_are_renewed_for_ever_and_judge_what_comes_after_them(first):
    X, y = draw(17_000, 1, dims=2)
    y = shifted(spoilt(y, [5, 3000, 5000, 9000], -1e7), first, 1e4)
    trees = grow(X, y, plain_means=True)
    check_moments(trees, y, np.ones(len(y)))
    low, high = float(trees.forest.low_fence), float(trees.forest.high_fence)
    assert (low, high) == pytest.approx(twin.fences(y[:16384].tolist(), [1.0] * 16384))
    # The new level counts soon after a quarter of the targets have it.
    lost = len(y) - 4 - float(trees.forest.y_weight)
    assert first / 3.0 - 10.0 < lost < first / 3.0 * 1.25 * 2.0


@pytest.mark.blas
@pytest.mark.parametrize("params", [{}, {"min_samples_split": 6}, {"lifetime": 1.5}])
@pytest.mark.parametrize("n", [60, 150])
def test_the_posterior_is_that_of_the_targets_within_the_fences(params, n):
    X, y = draw(n, 4, places=40)
    y = spoilt(y, [2, 20, 21, 50], 1e9)
    w = np.random.default_rng(2).choice([0.5, 1.0, 3.0], n)
    trees = grow(X, y, w, **params)
    own = w * twin.counted(y.tolist(), w.tolist())
    assert (own == 0.0).sum() == 4
    nodes, expected = (
        trees.reader.read(0),
        dense(trees, 0, X, np.where(own > 0.0, y, 0.0), own).mean,
    )
    np.testing.assert_allclose([node.mean for node in nodes], expected, rtol=0, atol=1e-8)
    total = math.fsum(node.weight for node in nodes if node.is_leaf)
    assert total == pytest.approx(own.sum())


@pytest.mark.parametrize("params", [{}, {"plain_means": True}, {"min_samples_split": 5}])
def test_messages_are_those_of_a_pass_over_the_tree(params):
    X, y = draw(700, 3, places=200)
    y = spoilt(y, [3, 9, 270, 511, 512, 600], 1e12)
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    # Some targets that counted at first are set aside at sample 512.
    y[240:256] += 35.0
    assert_up_to_date(grow(X, y, n_trees=2, scale=False, **params))


SETTINGS = [{}, {"min_samples_split": 5}, {"tails": "normal"}, {"lifetime": 2.0, "scale": False}]
SETTINGS += [{"posterior": "mean"}, {"posterior": "mean", "lifetime": math.sqrt}]


@pytest.mark.parametrize("params", SETTINGS)
def test_a_wild_target_is_as_one_without_a_weight(params):
    X, y = make_data(700)
    asked = rows(X)
    wild = MondrianForestRegressor(3, seed=3, **params)
    without = copy.deepcopy(wild)
    for i, (x, target) in enumerate(zip(asked, y.tolist(), strict=True)):
        is_wild = i in (16, 40, 255, 256, 511, 600)
        wild.learn_one(x, (-1.0) ** i * 1e30 if is_wild else target)
        without.learn_one(x, target, w=float(not is_wild))
        if i % 20 == 0 or is_wild:
            for one in asked[i : i + 2]:
                assert wild.predict_one(one) == without.predict_one(one)
    for name in ("hyperparameters", "tail_weights", "feature_importances"):
        assert getattr(wild, name) == getattr(without, name)
    assert wild.explain_one(asked[0]) == without.explain_one(asked[0])


# The extent of the data.


@pytest.mark.parametrize("n", [1, 2, 3, 8, 100, 256])
def test_the_extent_is_the_twins(n):
    X, y = draw(n, 0)
    X[5::31, 1] = 1e9
    X[7::41, 2] = math.nan
    trees = grow(X, y, scale=False)
    twin_extent = twin.extent(X.astype(np.float32).tolist())
    assert trees._extent(trees.current_scaling) == pytest.approx(twin_extent)


def test_hyperparameters_follow_the_robust_extent_and_the_number_of_samples():
    X, y = draw(512, 0)
    X[[60, 200, 300, 301], 1] = 1e6
    trees = grow(X, y, scale=False)
    expected = GAMMA2_FACTOR * twin.extent(X.astype(np.float32).tolist()) / (2.0 * math.log2(512))
    found = trees.hyperparameters
    assert found["prior_rate"] == pytest.approx(expected)
    k = 2.0 * found["prior_variance"] / found["noise_variance"]
    assert k == pytest.approx(2.0 * 512 / NOISE_FACTOR)


# The effect of wild values.


def test_a_full_forest_counts_all_targets():
    X, y = make_data(700)
    model = MondrianForestRegressor(seed=1, n_estimators=2, max_nodes=7)
    fed(model, zip(rows(X), shifted(y, 400, 1e5).tolist(), strict=True))
    assert model._trees.forest.y_weight == 700.0
