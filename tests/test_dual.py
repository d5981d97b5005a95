"""Tests of OGD with support vectors, against Algorithm 1 and as a River classifier."""

import math
import pickle

import numpy as np
import pytest
from common import fed
from naive import dual as naive

from river_mondrian import DualOGDClassifier, IsolationFeatures

WIDTH = 0.7
# With this rate, margins stay far from 1, where rounding would decide.
RATE = 0.3 * math.sqrt(2.0)
TWINS = {"laplace": naive.laplace(WIDTH), "gaussian": naive.gaussian(WIDTH)}


def samples(n, n_labels, seed=0, holes=0.3):
    """Draw mappings in which keys may be missing, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    values, known = rng.normal(size=(n, 6)), rng.random((n, 6)) > holes
    known[: n // 2, 4:] = False
    labels = np.abs(3.0 * values[:, 0] + values[:, 1]).astype(int) % n_labels
    return [
        ({f"x{j}": v for j, (v, k) in enumerate(zip(*row, strict=True)) if k}, "abcdef"[label])
        for *row, label in zip(values.tolist(), known, labels, strict=True)
    ]


def assert_close(found, expected):
    assert list(found) == list(expected)
    np.testing.assert_allclose(list(found.values()), list(expected.values()), atol=1e-12)


def ours(kernel, **kwargs):
    return DualOGDClassifier(kernel, lifetime=WIDTH, gamma=WIDTH, **kwargs)


@pytest.mark.parametrize("kernel", TWINS)
@pytest.mark.parametrize("n_labels", [2, 5])
def test_f_and_supports_are_the_twins(kernel, n_labels):
    model, twin = ours(kernel), naive.OneVersusRest(0.5, TWINS[kernel])
    for x, y in samples(150, n_labels):
        expected = twin.decision(x)
        assert_close(model.decision_one(x), expected)
        if expected:
            assert model.predict_one(x) == max(expected, key=expected.get)
        model.learn_one(x, y)
        twin.learn(x, y)
    assert len(model.classes) == n_labels
    assert model.n_supports == twin.n_supports
    # An unknown key counts, because its value in support vectors is 0.
    x = {"x0": 0.3, "new": -1.5}
    assert_close(model.decision_one(x), twin.decision(x))


@pytest.mark.parametrize("method", ["anne", "iforest"])
@pytest.mark.parametrize("built", [0, 20, 120])
def test_support_vectors_under_the_isolation_kernel_as_it_stands(method, built):
    features = IsolationFeatures(30, 8, method=method, pool_size=100, seed=1)
    fed(features, [x for x, _ in samples(built, 3, seed=3)])
    before = pickle.dumps(features)
    model = DualOGDClassifier(features, learning_rate=RATE)

    def kernel(x, y):
        map_now = model._supports.features
        return 0.0 if map_now._map is None else map_now.kernel(x, y)

    twin, seen = naive.OneVersusRest(RATE, kernel), set()
    for x, y in samples(160, 3, seed=2):
        # The feature map learns a sample before the kernel is computed.
        model.learn_one(x, y)
        twin.learn(x, y)
        assert_close(model.decision_one(x), twin.decision(x))
        seen.add(model._supports.features._map and model._supports.features._map.number)
    assert model.n_supports == twin.n_supports
    assert len(seen) >= {0: 5, 20: 2, 120: 1}[built]
    assert model._supports.features._is_final
    assert pickle.dumps(features) == pickle.dumps(model.kernel) == before


def test_the_kernel_of_far_numbers_is_not_rounded_away():
    rng = np.random.default_rng(3)
    for _ in range(20):
        far = {f"time{i}": float(value) for i, value in enumerate(rng.uniform(1e9, 2e9, 9))}
        model = ours("gaussian")
        model.learn_one({**far, "x": 0.1}, True)
        assert model.decision_one({**far, "x": 0.1})[True] == 0.5
        close = {**far, "time0": far["time0"] + 1.0, "x": 0.2}
        assert model.decision_one(close)[True] == pytest.approx(0.5 * math.exp(-WIDTH * 1.01))


def test_weight_is_a_factor_of_the_step():
    model = ours("laplace", learning_rate=0.3)
    model.learn_one({"a": 1.0}, 1, w=2.0)
    assert model.decision_one({"a": 1.0})[1] == pytest.approx(0.6)
    model.learn_one({"a": 9.0}, 1, w=0.0)
    assert model.n_supports == 1
