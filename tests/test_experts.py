"""Tests of pools of experts: the kernels against a reference, weights, and final exponents."""

import numpy as np
import pytest
from naive.adaptive import Mixture as Twin

from river_mondrian.learners import experts


def recorded(rng, n, n_experts, n_classes):
    """Draw classes, and predictions of experts that are better or worse for some time."""
    labels = rng.integers(0, n_classes, n)
    skill = rng.random((n_experts, 2)) * 4.0
    predicted = rng.dirichlet(np.ones(n_classes), (n, n_experts))
    for i, label in enumerate(labels):
        predicted[i, :, label] += skill[:, i * 2 // n]
    return predicted / predicted.sum(axis=2, keepdims=True), labels.tolist()


@pytest.mark.parametrize("room", [0, 3])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_the_mixture_is_the_twins(seed, room, spread):
    predicted, labels = recorded(np.random.default_rng(seed), 300, 5, 4)
    mixture = experts.Mixture(5)
    mixture.reserve(4 + room)
    mixture.record.n_classes = 4
    rates = experts.STEP_SIZE, experts.FIRST_SQUARES, experts.LARGEST_EXPONENT, experts.SHARE_RATE
    twin = Twin(5, experts.FLOOR, *rates)
    weights = np.exp(spread * np.random.default_rng(seed).normal(size=300)).tolist()
    for i, (one, label, weight) in enumerate(zip(predicted, labels, weights, strict=True)):
        for each in (mixture, twin) if i in (100, 101, 250) else ():
            each.follow_drift()
        mixture.predicted[:-1, :4] = one
        experts.combine(mixture.record)
        mixed = mixture.memory.arrays["mixed"][:4]
        np.testing.assert_allclose(mixed, twin.predict(one.tolist()), rtol=1e-9)
        experts.learn(mixture.record, label, weight)
        twin.learn(label, weight)
