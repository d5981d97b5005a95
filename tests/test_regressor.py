"""The regressor as its users meet it: data of all kinds, bad input, copies, memory, frames."""

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from common import fed
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from test_gaussian import assert_up_to_date, draw, hyperparameters

import river_mondrian as rm
from river_mondrian import MondrianForestRegressor, PredictiveDistribution
from river_mondrian.posteriors.targets.hyperparameters import LAST_NOISE, MOST_CANDIDATES, chosen

NAMES = ["a", "b", "c", "d"]


SETTINGS = [
    {},
    {"min_samples_split": 5},
    {"tails": "normal"},
    {"posterior": "mean"},
    {"posterior": "mean", "lifetime": math.sqrt},
    {"lifetime": 2.0, "scale": False},
    {"max_nodes": 51},
    {"max_nodes": 1001},
]


def make_data(n, seed=0, dims=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, dims))
    return X, 10.0 + np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


def rows(X, names=NAMES):
    return [dict(zip(names, row, strict=False)) for row in X.tolist()]


def state(model):
    """Pickle a model part by part: equal parts may or may not be the same object to a whole one."""
    parts = dict(model.__dict__)
    trees = parts.pop("_trees")
    if trees is not None:
        parts |= trees.__getstate__()
    parts.pop("lifetime")
    return {name: pickle.dumps(part) for name, part in parts.items()}


def learned(n=400, seed=7, **params):
    X, y = make_data(n)
    model = MondrianForestRegressor(**{"seed": seed, "n_estimators": 4, **params})
    for x, target in zip(rows(X), y.tolist(), strict=True):
        model.learn_one(x, target)
    return model, X, y


def test_targets_in_any_unit():
    X, y = make_data(600)
    euros = MondrianForestRegressor(seed=1, n_estimators=3)
    cents = MondrianForestRegressor(seed=1, n_estimators=3)
    for x, target in zip(rows(X), y.tolist(), strict=True):
        euros.learn_one(x, target)
        cents.learn_one(x, 100.0 * target - 5e4)
    for x in rows(make_data(50, seed=1)[0]):
        a, b = euros.predict_one(x, with_dist=True), cents.predict_one(x, with_dist=True)
        assert b.mean == pytest.approx(100.0 * a.mean - 5e4, abs=1e-6)
        assert b.var**0.5 == pytest.approx(100.0 * a.var**0.5, rel=1e-9)


def test_before_learning_and_with_one_sample():
    model = MondrianForestRegressor(seed=1)
    assert model.predict_one({"a": 1.0}) == 0.0
    assert model.predict_one({"a": 1.0}, with_dist=True).mean == 0.0
    assert model.hyperparameters == {}
    model.learn_one({"a": 1.0}, 5.0)
    assert model.predict_one({"a": 2.0}) == 5.0
    assert model.predict_one({"a": 2.0}, with_dist=True).interval(0.9) == (5.0, 5.0)
    model.learn_one({}, 7.0)
    assert 5.0 < model.predict_one({"a": 2.0}) < 7.0


@pytest.mark.blas
def test_a_mixture_of_points():
    mixture = PredictiveDistribution(np.array([0.25, 0.75]), np.array([1.0, 2.0]), np.zeros(2))
    assert mixture.cdf(0.9) == 0.0
    assert mixture.cdf(1.0) == 0.25
    assert mixture.quantile(0.2) == 1.0
    assert mixture.quantile(0.5) == pytest.approx(2.0)
    assert mixture.log_pdf(2.0) == math.inf
    assert mixture.log_pdf(1.5) == -math.inf
    assert mixture.crps(2.0) == pytest.approx(0.25 * 1.0 - 0.25 * 0.75)
    three = PredictiveDistribution(
        np.array([0.3, 0.4, 0.3]), np.array([-1.0, 0.0, 1.0]), np.zeros(3)
    )
    assert three.quantile(0.5) == pytest.approx(0.0, abs=1e-9)
    empty = PredictiveDistribution(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    assert empty.log_pdf(0.0) == pytest.approx(stats.norm.logpdf(0.0, 1.0))


def test_reading_a_tree():
    model, X, _ = learned()
    frame = model.to_dataframe(1)
    assert {"mean", "variance"} <= set(frame.columns)
    for x in rows(X[:20]):
        text = model.debug_one(x, tree=1)
        assert "standard deviation" in text
        node = frame.loc[0]
        while not node.is_leaf:
            node = frame.loc[node.left if x[node.feature] <= node.threshold else node.right]
        assert f"mean {node['mean']:.6g}" in text
    assert model.hyperparameters["prior_variance"] > 0.0


def test_means_have_no_distribution():
    model, X, _ = learned(posterior="mean")
    x = rows(X[:1])[0]
    for ask in (
        lambda: model.predict_one(x, with_dist=True),
        lambda: model.predict_many(pd.DataFrame([x]), with_dist=True),
    ):
        with pytest.raises(ValueError, match="distribution"):
            ask()


@pytest.mark.parametrize(
    ("lifetime", "words"),
    [
        (lambda n: 5.0 if n < 10 else 1.0, r"fall.*n = 10"),
        (lambda n: 1.0 if n == 10 else 5.0, r"fall.*n = 10"),
        (lambda n: math.nan if n == 10 else 5.0, r"lifetime\(10\).*nan"),
    ],
)
def test_a_lifetime_that_falls_is_refused(lifetime, words):
    model = MondrianForestRegressor(lifetime=lifetime, posterior="mean", seed=1)
    X, y = make_data(400)
    fed(model, zip(rows(X[:9]), y.tolist(), strict=False))
    before = state(model)
    with pytest.raises(ValueError, match=words):
        model.learn_one(rows(X)[9], 1.0)
    with pytest.raises(ValueError, match=words):
        model.learn_many(pd.DataFrame(X[9:], columns=NAMES), y[9:])
    assert state(model) == before


def test_reading_stops_at_the_lifetime():
    model = MondrianForestRegressor(1, lambda n: 1.5, posterior="mean", seed=1)
    X, y = make_data(300)
    model.learn_many(pd.DataFrame(X, columns=NAMES), y)
    frame = model.to_dataframe()
    assert (frame.time[~frame.is_leaf] < 1.5).all()
    assert (frame.time[frame.is_leaf] == 1.5).all()
    assert frame[frame.is_leaf].n_samples.sum() == 300
    assert 2 < len(frame) < 300
    for x in rows(X[:20]):
        assert f"mean {model.predict_one(x):.6g} (" in model.debug_one(x)


@given(
    st.lists(
        st.tuples(
            st.dictionaries(
                st.sampled_from(NAMES),
                st.floats(-1e30, 1e30) | st.integers(-3, 3) | st.just(math.nan),
                max_size=4,
            ),
            st.floats(-1e100, 1e100) | st.integers(-2, 2),
            st.floats(0.0, 1e6),
        ),
        max_size=60,
    ),
    st.sampled_from(SETTINGS),
)
@settings(max_examples=60, deadline=None)
def test_any_stream_is_learned(samples, params):
    model = MondrianForestRegressor(n_estimators=2, seed=1, **params)
    for x, y, w in samples:
        model.learn_one(x, y, w=w)
        assert math.isfinite(model.predict_one(x))
    assert model.n_samples == len(samples)
    for tree in range(2 if samples else 0):
        frame = model.to_dataframe(tree)
        leaves = frame[frame.is_leaf]
        assert leaves.n_samples.sum() == len(samples)
        inner = frame[~frame.is_leaf]
        children = frame.n_samples.to_numpy()
        sums = children[inner.left.to_numpy()] + children[inner.right.to_numpy()]
        assert (inner.n_samples.to_numpy() == sums).all()
        above = frame.time.to_numpy()[frame.parent.to_numpy()]
        assert (frame.time.to_numpy()[1:] >= above[1:]).all()


def test_what_learns_a_frame_is_not_kept():
    X, y = make_data(200)
    model = MondrianForestRegressor(2, seed=1)
    model.learn_many(pd.DataFrame(X, columns=NAMES), y)
    assert model._trees.block is model._trees.block_densities is None


# Changes of hyperparameters that are spread over samples.

# Trees of which a sample at 1,024 sees to some.
N_TREES = 12


BEGIN = 1024


def stream(n, seed=2):
    X, y = draw(n, seed)
    # Noise, so that the choice has to go some steps.
    y = y + np.random.default_rng(seed).normal(size=n)
    return [dict(enumerate(row)) for row in X.tolist()], y.tolist()


def begun(n=BEGIN + 5, **params):
    """Return a regressor in which a change is under way, and the samples to come."""
    model = rm.MondrianForestRegressor(N_TREES, seed=1, **params)
    xs, ys = stream(n + 300)
    fed(model, zip(xs[:n], ys[:n], strict=True))
    assert model._trees.change is not None
    return model, xs[n:], ys[n:]


def learned_of_choosing(model, xs, ys):
    fed(model, zip(xs, ys, strict=True))
    assert model._trees.change is None
    return model


def best_by(scores, start, moves_gamma2=True, moves_noise=True):
    """Go as `chosen` does, where scores are a function; returns what was asked, too."""
    found = {}
    while True:
        reached, candidate = chosen(start, found, moves_gamma2, moves_noise)
        if candidate is None:
            return reached, list(found)
        assert candidate not in found
        found[candidate] = scores(candidate)


def test_steps_lead_uphill_one_at_a_time():
    def hill(one):
        return -abs(one[0] - 2) - abs(one[1] - 1)

    assert best_by(hill, (0, 0))[0] == (2, 1)
    assert best_by(hill, (0, 0), moves_gamma2=False)[0] == (0, 1)
    assert best_by(hill, (0, 3), moves_noise=False)[0] == (2, 3)
    assert best_by(hill, (0, 0), False, False) == ((0, 0), [])
    # Five steps at most, and no more noise than the last.
    reached, asked = best_by(lambda one: one[0] + one[1], (0, 0))
    assert sum(reached) == 5
    assert len(asked) <= MOST_CANDIDATES
    assert max(step for _, step in asked) <= LAST_NOISE
    # Noise has to gain something.
    assert best_by(lambda one: 0.001 * one[1], (0, 0))[0] == (0, 0)


def test_a_sample_that_is_forgotten_ends_the_change():
    model, xs, ys = begun()
    first_xs, first_ys = stream(BEGIN + 305)
    model.forget_one(first_xs[3], first_ys[3])
    trees = model._trees
    assert trees.change is None
    assert trees._climbed[0] != BEGIN
    assert len({hyperparameters(trees, t) for t in range(N_TREES)}) == 1
    assert_up_to_date(trees)
    learned_of_choosing(model, xs, ys)


@pytest.mark.parametrize("params", [{"window": 5000}, {"max_nodes": 4001}])
def test_where_points_move_or_lack_a_change_is_made_at_once(params):
    model = fed(rm.MondrianForestRegressor(2, seed=1, **params), zip(*stream(BEGIN), strict=True))
    assert model._trees.change is None
    assert model._trees._climbed[0] == BEGIN


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", BEGIN + 100),
        ("at", BEGIN - 1),
        ("n_done", N_TREES + 1),
        ("extent", float("nan")),
        ("frame", 2),
        ("n_forgotten", 1),
        ("choice", (0, 0.5)),
        ("scores", {(0, 1000): 0.5}),
        ("scores", {(0, 1): "a"}),
        ("densities", np.zeros((3, 2))),
        ("is_chosen", 1),
    ],
)
def test_a_damaged_change_is_refused(name, value):
    model, _, _ = begun()
    stored = model._trees.__getstate__()
    stored["change"][name] = value
    made = object.__new__(type(model._trees))
    with pytest.raises(rm.ModelFormatError):
        made.__setstate__(stored)
    del stored["change"][name]
    with pytest.raises(rm.ModelFormatError, match="other parts"):
        made.__setstate__(stored)


def test_a_lifetime_that_ends_at_infinity():
    X, y = make_data(100)
    models = [
        MondrianForestRegressor(
            lifetime=lambda n: 3.0 if n < 50 else math.inf, posterior="mean", seed=1
        )
        for _ in range(2)
    ]
    fed(models[0], zip(rows(X), y.tolist(), strict=True))
    models[1].learn_many(pd.DataFrame(X, columns=NAMES), y)
    assert state(models[0]) == state(models[1])
