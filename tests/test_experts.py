"""Mixtures of experts: kernels against their twin, and the bound of the fixed share."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive.adaptive import Mixture as Twin

from river_mondrian.learners import experts

SEEDS = range(3)


def recorded(rng, n, n_experts, n_classes):
    """Draw predictions, some of which are far better than others for a while, and classes."""
    labels = rng.integers(0, n_classes, n)
    skill = rng.random((n_experts, 2)) * 4.0
    predicted = rng.dirichlet(np.ones(n_classes), (n, n_experts))
    for i, label in enumerate(labels):
        predicted[i, :, label] += skill[:, i * 2 // n]
    return predicted / predicted.sum(axis=2, keepdims=True), labels.tolist()


def run_mixture(predicted, labels, room=0, again=(), weights=None, drifts=()):
    """Yield what each sample finds; the mixture is copied before those numbered in `again`.

    It follows a drift before those numbered in `drifts`.
    """
    _, n_experts, n_classes = predicted.shape
    mixture = experts.Mixture(n_experts)
    mixture.reserve(n_classes + room)
    mixture.record.n_classes = n_classes
    for i, (one, label) in enumerate(zip(predicted, labels, strict=True)):
        if i in again:
            mixture = pickle.loads(pickle.dumps(mixture))
        if i in drifts:
            mixture.follow_drift()
        mixture.predicted[:, :n_classes] = one
        experts.combine(mixture.record)
        logs, finalists = (
            mixture.memory.arrays[name].reshape(-1, n_classes + room)[:, :n_classes]
            for name in ("logs", "finalists")
        )
        floored = mixture.predicted[:, :n_classes]
        yield floored, logs, finalists, mixture.mixed[:n_classes].copy()
        experts.learn(mixture.record, label, 1.0 if weights is None else weights[i])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("room", [0, 3])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_the_mixture_is_the_twins(seed, room, spread):
    predicted, labels = recorded(np.random.default_rng(seed), 300, 5, 4)
    twin = Twin(5, experts.FLOOR, experts.SHARE_RATE, experts.STEP, experts.LARGEST_EXPONENT)
    weights = np.exp(spread * np.random.default_rng(seed).normal(size=300)).tolist()
    drifts = (100, 101, 250)
    runs = run_mixture(predicted, labels, room, weights=weights, drifts=drifts)
    rows = zip(predicted, labels, weights, runs, strict=True)
    for i, (one, label, weight, run) in enumerate(rows):
        if i in drifts:
            twin.follow_drift()
        np.testing.assert_allclose(run[-1], twin.predict(one.tolist()), rtol=1e-9)
        twin.learn(label, weight)


def test_a_copy_goes_on_as_the_original():
    predicted, labels = recorded(np.random.default_rng(0), 60, 4, 3)
    runs = run_mixture(predicted, labels), run_mixture(predicted, labels, again=(1, 30))
    for (*_, own), (*_, others) in zip(*runs, strict=True):
        np.testing.assert_array_equal(own, others)


@given(
    st.integers(0, 2**20),
    st.integers(1, 400),
    st.integers(2, 9),
    st.integers(2, 6),
    st.sampled_from([0.0, 1.0, 3.0]),
)
@settings(max_examples=60, deadline=None)
def test_the_fixed_share_is_within_its_bound_of_the_best_expert(
    seed, n, n_experts, n_classes, spread
):
    """Losses count by weights over the largest of late; where all are 1 these are 1, too."""
    rng = np.random.default_rng(seed)
    predicted, labels = recorded(rng, n, n_experts, n_classes)
    weights = np.exp(spread * rng.normal(size=n))
    shared, single, last, largest, parts = 0.0, np.zeros(n_experts), 0.0, 1.0, []
    finalists_lose = np.zeros(experts.N_FINALISTS)
    runs = run_mixture(predicted, labels, weights=weights.tolist())
    for label, weight, (one, logs, finalists, mixed) in zip(labels, weights, runs, strict=True):
        largest = max(weight, 1.0, (1.0 - experts.FADING) * largest)
        part = weight / largest
        parts.append(part)
        shared -= part * logs[n_experts, label]
        single -= part * np.log(one[:, label])
        last -= part * math.log(mixed[label])
        finalists_lose -= part * np.log(finalists[:, label])
    rates = experts.SHARE_RATE * np.array(parts[:-1])
    for losses, loss in ((single, shared), (finalists_lose, last)):
        m = len(losses)
        bound = math.log(m) - np.log(1.0 - rates + rates / m).sum()
        assert loss <= losses.min() + bound + 1e-9
