"""Tests of linear discriminants against their reference, even with huge and tiny numbers."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive.discriminants import LinearDiscriminantsRecord

from river_mondrian.learners import discriminants
from river_mondrian.records import Float64s
from river_mondrian.values import level_of


class Kernels:
    """The kernels on memory of this test, with room for more classes and inputs."""

    def __init__(self, n_classes, n_inputs, categories=()):
        self.memory = discriminants.LinearDiscriminants()
        self.predicted = np.empty((discriminants.N_DISCRIMINANTS, n_classes + 2))
        self.memory.reserve(n_classes + 2, n_inputs + 1, self.predicted, categories)
        self.memory.record.n_inputs = n_inputs

    def predict(self, values, n_classes):
        self.memory.record.n_classes = n_classes
        discriminants.predict(self.memory.record, Float64s.of(values))
        return self.predicted[:, :n_classes].copy()

    def learn(self, values, label, n_classes, weight=1.0):
        self.memory.record.n_classes = n_classes
        discriminants.learn(self.memory.record, Float64s.of(values), label, weight)


# A hash maps levels to rows; these levels have different rows in the inputs 1, 2 and 4.
LEVELS = [f"grade {k}" for k in range(6)]


SIZES = st.integers(0, 2**20), st.integers(1, 120), st.integers(1, 4), st.integers(1, 5)
KINDS = st.booleans(), st.sampled_from([0.0, 0.3]), st.booleans()
CHOICES = [0.0, 1.0], [0.0, 0.03], [1e-3, 1.0, 1e3], [0.0, 0.05]


@given(*SIZES, *KINDS, *map(st.sampled_from, CHOICES))
@settings(max_examples=120)
def test_kernels_are_the_twin(
    seed, n, n_classes, n_inputs, has_levels, missing, constant, spread, wild, new_units, drift
):
    rng = np.random.default_rng(seed)
    X = rng.normal(5.0, 10.0 ** rng.uniform(-3, 3, n_inputs), (n, n_inputs))
    X[n // 5 :] *= new_units
    X[rng.random(X.shape) < wild] *= 1e4
    if constant:
        X[:, 0] = 7.0
    y = rng.integers(0, n_classes, n).tolist()
    samples = [dict(enumerate(row)) for row in X.tolist()]
    categories = [i for i in (1, 2, 4) if has_levels and i < n_inputs]
    for i in categories:
        for x, label, values in zip(samples, y, X, strict=True):
            x[i] = LEVELS[(label + int(rng.integers(4))) % 6]
            values[i] = level_of(x[i])
    for x, values, lacks in zip(samples, X, rng.random(X.shape) < missing, strict=True):
        values[lacks] = math.nan
        for i in np.flatnonzero(lacks).tolist():
            del x[i]
    weights = np.exp(spread * rng.normal(size=n)).tolist()
    kernels, twin = Kernels(n_classes, n_inputs, categories), LinearDiscriminantsRecord()
    labels, drifts = range(n_classes), rng.random(n) < drift
    for values, x, label, weight, drifts_here in zip(X, samples, y, weights, drifts, strict=True):
        if drifts_here:
            kernels.memory.follow_drift()
            twin.follow_drift()
        found = kernels.predict(values, n_classes)
        expected = twin.predict(x, labels)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)
        kernels.learn(values, label, n_classes, weight)
        twin.learn(x, label, labels, n_inputs, expected, weight)


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_values_of_any_size_give_probabilities(size):
    rng = np.random.default_rng(0)
    kernels = Kernels(3, 2)
    for i, values in enumerate(rng.normal(size=(200, 2)) * size):
        if i == 100:
            values = np.array([3e38, -3e38])
        found = kernels.predict(values, 3)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        kernels.learn(values, i % 3, 3)


def test_what_has_been_learned_stays_where_rows_grow_and_in_copies():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60).tolist()
    kernels, grown = Kernels(2, 2), Kernels(2, 2)
    for i, (values, label) in enumerate(zip(X, y, strict=True)):
        if i in (20, 40):
            grown.memory = pickle.loads(pickle.dumps(grown.memory))
            width = grown.predicted.shape[1] + i
            grown.predicted = np.empty((discriminants.N_DISCRIMINANTS, width))
            grown.memory.reserve(width, 2 + i, grown.predicted)
        np.testing.assert_array_equal(grown.predict(values, 2), kernels.predict(values, 2))
        for each in (kernels, grown):
            each.learn(values, label, 2)
