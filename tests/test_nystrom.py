"""Nystrom features against the formula, and the kernel that they approximate."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from naive import dual as kernels
from naive import features as naive
from scipy import stats

from river_mondrian import NystromFeatures

pytestmark = pytest.mark.blas

WIDTH = 0.5


def stream(n, seed=0, dims=4):
    rng = np.random.default_rng(seed)
    # Values that single precision holds, in which landmarks are stored.
    X = rng.normal(size=(n, dims)).astype(np.float32).astype(float)
    return [{f"x{j}": v for j, v in enumerate(row) if rng.random() > 0.2} for row in X.tolist()]


def eigen(matrix):
    values, vectors = np.linalg.eigh(np.array(matrix))
    return values[::-1].tolist(), vectors.T[::-1].tolist()


def dot(features, x, y):
    first, second = (features.transform_one(z) for z in (x, y))
    assert first.keys() == second.keys()
    return math.fsum(first[name] * second[name] for name in first)


@pytest.mark.parametrize("kernel", ["laplace", "gaussian"])
@pytest.mark.parametrize("rank", [3, 20])
def test_dot_products_are_the_twins_at_every_build(kernel, rank):
    twin = getattr(kernels, kernel)(WIDTH)
    features = NystromFeatures(20, rank, kernel, lifetime=WIDTH, gamma=WIDTH)
    samples = stream(25)
    used = None
    for n, x in enumerate(samples, 1):
        features.learn_one(x)
        if n in (2, 4, 8, 16, 20):
            used = samples[:n]
        assert features.frozen == (n >= 20)
        if used is None:
            assert features.transform_one(x) == {}
            continue
        assert len(features.transform_one(x)) == min(rank, len(used))
        if n in (2, 3, 8, 20, 25):
            # What no landmark has is not read.
            known = {name for landmark in used for name in landmark}
            pair = [{k: v for k, v in z.items() if k in known} for z in (x, samples[5])]
            expected = naive.nystrom_kernel(*pair, used, twin, rank, eigen)
            assert dot(features, x, samples[5]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kernel", ["laplace", "gaussian"])
@pytest.mark.parametrize("seed", range(4))
def test_of_full_rank_landmarks_have_their_kernels_and_others_at_most(kernel, seed):
    twin = getattr(kernels, kernel)(WIDTH)
    features = NystromFeatures(30, 30, kernel, lifetime=WIDTH, gamma=WIDTH)
    samples = stream(60, seed)
    features.learn_many(pd.DataFrame(samples[:30]))
    gram = features.gram(pd.DataFrame(samples))
    exact = np.array([[twin(x, y) for y in samples] for x in samples])
    np.testing.assert_allclose(gram[:30], exact[:30], atol=1e-8)
    assert (np.diag(gram) <= 1.0 + 1e-8).all()
    # What is left out has no negative eigenvalue.
    assert np.linalg.eigvalsh(exact - gram)[0] > -1e-8


@pytest.mark.parametrize("kernel", ["laplace", "gaussian"])
def test_more_landmarks_and_components_are_nearer_to_the_kernel(kernel):
    twin = getattr(kernels, kernel)(0.1)
    samples = stream(260, seed=7)
    asked = samples[200:]
    exact = np.array([[twin(x, y) for y in asked] for x in asked])

    def error(*sizes):
        features = NystromFeatures(*sizes, kernel, lifetime=0.1, gamma=0.1)
        for x in samples[:200]:
            features.learn_one(x)
        return np.sqrt(np.mean((features.gram(pd.DataFrame(asked)) - exact) ** 2))

    errors = [error(20, 4), error(50, 10), error(100, 20), error(200, 100)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.05


def test_landmarks_that_coincide():
    features = NystromFeatures(8, 4, lifetime=WIDTH)
    for _ in range(4):
        features.learn_one({"a": 1.0})
        features.learn_one({"a": 2.0})
    assert features.frozen
    assert len(features.transform_one({"a": 1.5})) == 2
    assert dot(features, {"a": 1.0}, {"a": 2.0}) == pytest.approx(math.exp(-WIDTH))


def test_empty_landmarks():
    features = NystromFeatures(2)
    features.learn_one({})
    features.learn_one({"a": math.nan})
    assert dot(features, {}, {"a": 1.0}) == pytest.approx(1.0)


def test_text_like_mappings_are_not_made_dense():
    rng = np.random.default_rng(2)
    features = NystromFeatures(50, 10, lifetime=0.01)
    for _ in range(60):
        names = rng.integers(0, 1_000_000, 100)
        features.learn_one({f"w{name}": 1.0 for name in names})
    # A vector of the features known is all that is as long as those; no matrix is.
    assert features._map.nbytes < 8 * features._map.n_inputs + 50 * 100 * 12 + 50 * 10 * 8 + 4000


def test_the_default_rank_is_a_fifth():
    features = NystromFeatures(30)
    for x in stream(30):
        features.learn_one(x)
    assert len(features.transform_one({})) == 6


def landmarks_of(features, samples):
    """Return the places of the landmarks: their features have norm 1 where no rank is left out."""
    return [i for i, x in enumerate(samples) if dot(features, x, x) > 1.0 - 1e-9]


def test_landmarks_are_drawn_from_the_pool():
    twin, samples = kernels.laplace(WIDTH), stream(70)
    drawn = []
    for seed in (1, 1, 2):
        features = NystromFeatures(20, 20, lifetime=WIDTH, pool_size=60, seed=seed)
        for n, x in enumerate(samples, 1):
            features.learn_one(x)
            assert features.frozen == (n >= 60)
        found = landmarks_of(features, samples)
        assert len(found) == 20 and max(found) < 60
        assert found != list(range(20))
        used = [samples[i] for i in found]
        expected = naive.nystrom_kernel(samples[65], samples[3], used, twin, 20, eigen)
        assert dot(features, samples[65], samples[3]) == pytest.approx(expected, abs=1e-9)
        drawn.append(found)
    assert drawn[0] == drawn[1] != drawn[2]


def test_all_samples_of_a_pool_are_drawn_as_often():
    samples, times = stream(12), np.zeros(12)
    for seed in range(400):
        features = NystromFeatures(4, 4, lifetime=WIDTH, pool_size=12, seed=seed)
        for x in samples:
            features.learn_one(x)
        times[landmarks_of(features, samples)] += 1
    assert times.sum() == 4 * 400
    # Of a sample's times, with variance 400 p (1 - p) for p = 1/3; the sum of squares has a mean
    # of 12, less one as the total is given. At a level of 1e-3.
    squares = ((times - 400 / 3) ** 2).sum() / (400 * (1 / 3) * (2 / 3)) * 11 / 12
    assert squares < stats.chi2(11).ppf(1.0 - 1e-3)


def test_while_there_are_few_all_are_landmarks():
    samples = stream(40)
    features = NystromFeatures(20, 20, lifetime=WIDTH, pool_size=60, seed=1)
    for n, x in enumerate(samples, 1):
        features.learn_one(x)
        if n == 16:
            assert landmarks_of(features, samples) == list(range(16))
    found = landmarks_of(features, samples)
    assert len(found) == 20 and max(found) < 32
