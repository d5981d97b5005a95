"""What the regressor takes and refuses: bad input, extreme numbers, lifetimes that grow."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_regressor import NAMES, SETTINGS, learned, make_data, rows, state

from river_mondrian import MondrianForestRegressor

# Bad input.


@pytest.mark.parametrize(
    ("x", "y", "w", "error", "words"),
    [
        ({"a": "text"}, 1.0, 1.0, TypeError, "'a'.*'text'"),
        ({"a": math.inf}, 1.0, 1.0, ValueError, "'a'.*inf"),
        ({"a": 1e39, "b": 0.0, "c": 0.0, "d": 0.0}, 1.0, 1.0, ValueError, "'a'.*1e\\+39"),
        ({"new": ["text"]}, 1.0, 1.0, TypeError, "'new'.*'text'"),
        ({"a": 1.0}, "high", 1.0, TypeError, "target.*'high'"),
        ({"a": 1.0}, None, 1.0, TypeError, "target.*None"),
        ({"a": 1.0}, math.nan, 1.0, ValueError, "target.*nan"),
        ({"a": 1.0}, -math.inf, 1.0, ValueError, "target.*-inf"),
        ({"a": 1.0}, 10**400, 1.0, ValueError, "target.*inf"),
        ({"a": 1.0}, 1.0, -1.0, ValueError, "weight.*-1"),
        ({"a": 1.0}, 1.0, "much", TypeError, "weight.*'much'"),
    ],
)
def test_bad_samples_change_nothing(x, y, w, error, words):
    model, _, _ = learned(n=100)
    before = state(model)
    with pytest.raises(error, match=words):
        model.learn_one(x, y, w=w)
    frame = pd.DataFrame([{"a": 0.5}, x])
    with pytest.raises(error):
        model.learn_many(frame.astype(object), [1.0, y], w=[1.0, w])
    assert state(model) == before


@pytest.mark.parametrize(
    ("y", "w", "words"),
    [(1e121, 1.0, "target.*1e\\+121"), (-1e300, 1.0, "target"), (1.0, 1e31, "weight.*1e\\+31")],
)
def test_what_cannot_be_computed_with_is_refused(y, w, words):
    model, _, _ = learned(n=100)
    before = state(model)
    with pytest.raises(ValueError, match=words):
        model.learn_one({"a": 1.0}, y, w=w)
    with pytest.raises(ValueError, match=words):
        model.learn_many(pd.DataFrame([{"a": 1.0}]), [y], w=[w])
    assert state(model) == before


@pytest.mark.blas
@pytest.mark.parametrize("scale", [1e120, 1e-100])
@pytest.mark.parametrize("params", SETTINGS)
def test_large_and_small_targets_and_weights(scale, params):
    X, y = make_data(300)
    model = MondrianForestRegressor(n_estimators=2, seed=1, **params)
    weights = np.random.default_rng(0).choice([0.0, 1e-300, 1.0, 1e30], len(y)).tolist()
    for x, target, w in zip(rows(X), (scale * y / 20.0).tolist(), weights, strict=True):
        model.learn_one(x, target, w=w)
    for x in rows(X[:20]):
        assert abs(model.predict_one(x)) < 2.0 * scale
        if model.posterior == "gaussian":
            assert math.isfinite(model.predict_one(x, with_dist=True).sigma)
            low, high = model.predict_mixture_one(x).interval(0.9)
            assert -5.0 * scale < low <= high < 5.0 * scale


def test_numbers_of_any_type():
    X, y = make_data(100)
    plain, odd = MondrianForestRegressor(seed=1), MondrianForestRegressor(seed=1)
    kinds = [int, np.float64, np.int32, np.float32, Fraction, float]
    for i, (x, target) in enumerate(zip(rows(X), y.tolist(), strict=True)):
        plain.learn_one(x, float(round(target)), w=1.0)
        odd.learn_one(x, kinds[i % 6](round(target)), w=kinds[(i + 1) % 6](1))
    assert state(plain) == state(odd)


def test_bad_batches_change_nothing():
    model, X, y = learned(n=100)
    before = state(model)
    frame = pd.DataFrame(X[:3], columns=NAMES)
    with pytest.raises(ValueError, match="3 rows"):
        model.learn_many(frame, [1.0, 2.0])
    with pytest.raises(ValueError, match="weights"):
        model.learn_many(frame, y[:3], w=[1.0])
    with pytest.raises(ValueError, match="more than once"):
        model.learn_many(pd.DataFrame(X[:3, :2], columns=["a", "a"]), y[:3])
    assert state(model) == before


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"n_estimators": 0}, "n_estimators"),
        ({"lifetime": -1.0}, "lifetime"),
        ({"lifetime": math.sqrt}, "mean"),
        ({"posterior": "median"}, "posterior.*'median'"),
        ({"tails": "heavy"}, "tails.*'heavy'"),
        ({"min_samples_split": 1}, "min_samples_split"),
        ({"gamma1": 0.0}, "gamma1"),
        ({"gamma2": math.inf}, "gamma2"),
        ({"noise_variance": -1.0}, "noise_variance"),
        ({"max_nodes": 0}, "max_nodes"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_bad_arguments(params, words):
    with pytest.raises(ValueError, match=words):
        MondrianForestRegressor(**params)


def test_means_have_no_distribution():
    model, X, _ = learned(posterior="mean")
    x = rows(X[:1])[0]
    for ask in (
        lambda: model.predict_one(x, with_dist=True),
        lambda: model.predict_mixture_one(x),
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
    for x, target in zip(rows(X[:9]), y.tolist(), strict=False):
        model.learn_one(x, target)
    before = state(model)
    with pytest.raises(ValueError, match=words):
        model.learn_one(rows(X)[9], 1.0)
    with pytest.raises(ValueError, match=words):
        model.learn_many(pd.DataFrame(X[9:], columns=NAMES), y[9:])
    assert state(model) == before


def test_a_lifetime_that_ends_at_infinity():
    X, y = make_data(100)
    models = [
        MondrianForestRegressor(
            lifetime=lambda n: 3.0 if n < 50 else math.inf, posterior="mean", seed=1
        )
        for _ in range(2)
    ]
    for x, target in zip(rows(X), y.tolist(), strict=True):
        models[0].learn_one(x, target)
    models[1].learn_many(pd.DataFrame(X, columns=NAMES), y)
    assert state(models[0]) == state(models[1])


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
