"""Tests of mixtures of experts for a target, and of distributions of errors."""

import math

import numpy as np
import pytest
from common import as_kernels, ordered_kernel, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import regression as naive

from river_mondrian.learners.regression import error_distribution, mixing
from river_mondrian.learners.regression.error_distribution import ErrorDistribution
from river_mondrian.learners.regression.mixing import TargetMixture
from river_mondrian.records import Float64s

predict, learn, recall, learn_errors = as_kernels(
    mixing.predict, mixing.learn, mixing.recall, error_distribution.learn, decorator=ordered_kernel
)


def recorded(rng, n, n_experts):
    """Draw targets, and predictions of experts that are better or worse for some time."""
    y = np.cumsum(rng.normal(size=n))
    skill = np.exp(rng.normal(size=(n_experts, 2)))
    halves = np.arange(n) * 2 // n
    noise = rng.standard_t(4, size=(n, n_experts)) * skill.T[halves]
    return y[:, None] + noise + 0.3 * rng.normal(size=n_experts), y


def run(mixture, predicted, y, weights=None):
    """Yield the prediction of each sample before it is learned."""
    for i, (one, target) in enumerate(zip(predicted, y.tolist(), strict=True)):
        mixture.predicted[:] = one
        yield predict(mixture.record)
        learn(mixture.record, target, 1.0 if weights is None else weights[i])


losses = pytest.mark.parametrize("loss", [mixing.ABSOLUTE, mixing.SQUARED])


@losses
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_the_mixture_is_the_twins(seed, loss, spread):
    rng = np.random.default_rng(seed)
    predicted, y = recorded(rng, 250, 5)
    weights = np.exp(spread * rng.normal(size=len(y))).tolist()
    mixture, twin = TargetMixture(5, loss), naive.Mixture(5, mixing, loss == mixing.SQUARED)
    points = run(mixture, predicted, y, weights)
    for one, target, weight, point in zip(predicted, y.tolist(), weights, points, strict=True):
        assert point == pytest.approx(twin.predict(one), rel=1e-7, abs=1e-7)
        # A regression is clipped to the extended range of the experts.
        if all(one.min() <= f <= one.max() for f in twin.finalists):
            assert mixture.weights @ one == pytest.approx(point, rel=1e-6, abs=1e-6)
        assert mixture.weights.sum() == pytest.approx(1.0, abs=1e-9)
        twin.learn(target, weight)
    for name in ("shared", "descended"):
        np.testing.assert_allclose(mixture.learned[name], getattr(twin, name), rtol=1e-6)


@losses
@pytest.mark.parametrize("power", [-300, 70, 300])
def test_units_do_not_matter(power, loss):
    predicted, y = recorded(np.random.default_rng(0), 120, 4)
    plain, scaled = (
        list(run(TargetMixture(4, loss), unit * predicted, unit * y)) for unit in (1.0, 2.0**power)
    )
    np.testing.assert_allclose(np.array(scaled) / 2.0**power, plain, rtol=1e-9)


WILD_TARGETS = st.sampled_from([0.0, 1.0, -3.0, 1e120, -1e120, 1e-120])


WILD_POINTS = st.lists(st.sampled_from([0.0, 1.0, 2.0, -1e120, 1e120]), min_size=3, max_size=3)


WEIGHTS = st.sampled_from([1.0, 1e-9, 1e9])


@losses
@given(st.lists(st.tuples(WILD_TARGETS, WILD_POINTS, WEIGHTS), max_size=80))
@settings(max_examples=30)
def test_nothing_wild_ends_a_mixture_or_a_law(loss, samples):
    mixture, errors = TargetMixture(3, loss), ErrorDistribution()
    for target, one, weight in samples:
        mixture.predicted[:] = one
        point = predict(mixture.record)
        assert math.isfinite(point)
        learn(mixture.record, target, weight)
        size = learn_errors(errors.record, point, mixture.record.spread, 0.0, target, weight)
        assert error_distribution.SMALLEST <= size <= error_distribution.LARGEST
        assert mixture.learned["shared"].sum() == pytest.approx(1.0)
        assert errors.learned["weights"].sum() == pytest.approx(1.0)
        assert math.isfinite(errors.distribution(point, 1.0, 0.0).log_pdf(target))


def test_targets_that_never_change_are_predicted_exactly():
    mixture, errors = TargetMixture(3), ErrorDistribution()
    for _ in range(50):
        mixture.predicted[:] = 7.25
        point = predict(mixture.record)
        assert point == 7.25
        learn(mixture.record, 7.25, 1.0)
        learn_errors(errors.record, point, 0.0, 0.0, 7.25, 1.0)
    low, high = errors.distribution(7.25, 0.0, 0.0).interval(0.99)
    assert 7.25 - 1e-6 < low <= 7.25 <= high < 7.25 + 1e-6


# The distribution.


@pytest.mark.parametrize("seed", range(2))
def test_the_law_is_the_twins(seed):
    """The spread of the targets depends on disagreements and predicted sizes."""
    rng = np.random.default_rng(seed)
    size, points = rng.normal(size=(2, 120))
    y = points + np.exp(0.7 * size) * rng.standard_t(4, size=120)
    spreads = np.exp(0.3 * size + 0.2 * rng.normal(size=120))
    weights = np.exp(rng.normal(size=120) * (seed == 1)).tolist()
    errors, twin = ErrorDistribution(), naive.Law(error_distribution)
    for *given_, target, weight in zip(points, spreads, size, y, weights, strict=True):
        found = errors.distribution(*given_)
        guesses = errors.memory.arrays["guesses"]
        np.testing.assert_allclose(guesses, twin.guess(*given_), rtol=1e-7, atol=0.0)
        own = learn_errors(errors.record, *given_, target, weight)
        assert own == pytest.approx(twin.learn(*given_, target, weight), abs=1e-12)
        np.testing.assert_allclose(errors.learned["weights"], twin.weights, rtol=1e-6)
        if twin.samples > 1:
            z = (target - found.centres) / found.scales
            own = np.array([naive.density(v, s) for v, s in zip(z, found.freedoms, strict=True)])
            np.testing.assert_allclose(own / found.scales, twin.densities, rtol=1e-6)


# State.


@pytest.mark.parametrize(
    ("name", "value"),
    [("shared", -0.1), ("widths", math.nan), ("grams", np.zeros(3)), ("last_weights", 1.5)],
)
def test_a_damaged_mixture_is_refused(name, value):
    mixture, errors = TargetMixture(3), ErrorDistribution()
    if isinstance(value, float):
        mixture.learned[name][0] = value
    else:
        mixture.learned[name] = value
    refused(mixture, name)
    errors.learned["weights"][3] = 2.0
    refused(errors, "weights")


def test_a_recalled_prediction_is_learned_like_the_last_one():
    predicted, y = recorded(np.random.default_rng(3), 60, 5)
    ours, expected = TargetMixture(5), TargetMixture(5)
    for mixture in (ours, expected):
        list(run(mixture, predicted[:50], y[:50]))
        mixture.predicted[:] = predicted[50]
        predict(mixture.record)
    then = ours.to_recall
    # Another sample is predicted before the target of the first sample comes.
    ours.predicted[:] = predicted[55]
    predict(ours.record)
    assert recall(ours.record, Float64s.of(then)) == len(then)
    for mixture in (ours, expected):
        learn(mixture.record, float(y[50]), 1.0)
    for name, array in expected.learned.items():
        np.testing.assert_allclose(ours.learned[name], array, rtol=1e-9, atol=1e-12)
