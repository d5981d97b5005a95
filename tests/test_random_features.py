"""Random Fourier features and random binning: their twins, their laws, and features that appear."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
from naive import dual as kernels
from naive import features as naive
from scipy import stats

from river_mondrian import RandomBinningFeatures, RandomFourierFeatures

LEVEL = 0.01
SEEDS = range(8)
WIDTH = 0.8


def samples(n, seed=0, dims=5, holes=0.3):
    """Draw mappings with holes; features beyond the third appear in the second half."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        values = rng.normal(size=dims)
        names = [j for j in range(dims) if rng.random() > holes and (j < 3 or i >= n // 2)]
        found.append({f"x{j}": float(values[j]) for j in names})
    return found


def outputs(features, x):
    return np.array(list(features.transform_one(x).values()))


def rows_of(features):
    """Return the row of random numbers of each feature."""
    return dict(zip(features._reader.index.names, features._map.rows, strict=False))


def grids_of(features):
    t = features.n_partitions
    rows = rows_of(features)
    return [{name: (row[2 * k], row[2 * k + 1]) for name, row in rows.items()} for k in range(t)]


@pytest.mark.blas
@pytest.mark.parametrize("kernel", ["laplace", "gaussian"])
def test_fourier_features_are_the_twins(kernel):
    features = RandomFourierFeatures(20, kernel, lifetime=0.1, gamma=WIDTH, seed=3)
    for x in samples(60):
        features.learn_one(x)
        expected = naive.fourier(x, rows_of(features))
        np.testing.assert_allclose(outputs(features, x), expected, atol=1e-12)
    x = {"x0": 0.5, "never seen": 3.0, "x1": math.nan}
    expected = naive.fourier({"x0": 0.5}, rows_of(features))
    np.testing.assert_allclose(outputs(features, x), expected, atol=1e-12)
    assert expected @ np.array(expected) == pytest.approx(1.0)


def test_binning_cells_are_the_twins_in_the_order_of_meeting():
    features = RandomBinningFeatures(15, lifetime=WIDTH, seed=5)
    stream = samples(200)
    # All features first, so that the twin has all grids: those of later ones change no cell.
    names = {name: 0.0 for x in stream for name in x}
    features.learn_one(names)
    twin = naive.Binning(grids_of(features))
    twin.learn(names)
    for x in stream:
        assert features.cells_one(x).tolist() == twin.cells_of(x)
        known = sum(cell >= 0 for cell in twin.cells_of(x))
        assert len(features.transform_one(x)) == known
        features.learn_one(x)
        twin.learn(x)
        assert features.cells_one(x).tolist() == twin.cells_of(x)
    # More cells than the first table has slots: it has grown.
    assert len(twin.cells) == features._map.n_columns - 1 > 256
    new = {"x0": 9.0, "x1": -7.0, "never seen": 4.0}
    assert features.transform_one(new) == {}
    for x in stream[:20]:
        assert features.kernel(x, stream[0]) == twin.kernel(x, stream[0])
        assert features.kernel(new, x) == twin.kernel(new, x)
    assert features.kernel(new, new) == 1.0
    frame = pd.DataFrame(stream[:20]).fillna(0.0)
    other = pd.DataFrame([new, *stream[30:40]])
    expected = [[twin.kernel(x, y) for y in [new, *stream[30:40]]] for x in stream[:20]]
    np.testing.assert_allclose(features.gram(frame, other), expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RandomFourierFeatures(16, "laplace", seed=1),
        lambda: RandomFourierFeatures(16, "gaussian", seed=1),
        lambda: RandomBinningFeatures(16, seed=1),
    ],
)
def test_random_numbers_belong_to_names(make):
    """Neither the order of the features nor when they appear changes what is drawn for them."""
    early, late = make(), make()
    early.learn_one({"c": 1.0, "a": 1.0, "b": 1.0, 7: 1.0})
    for name in (7, "b", "c", "a"):
        late.learn_one({name: 1.0})
    first, second = rows_of(early), rows_of(late)
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    assert len({row.tobytes() for row in first.values()}) == 4
    other = make().clone({"seed": 2})
    other.learn_one({"a": 1.0})
    assert not np.array_equal(rows_of(other)["a"], first["a"])


def test_cells_of_earlier_samples_stay_when_features_appear():
    features = RandomBinningFeatures(50, seed=2)
    features.learn_one({"a": 0.7})
    before = features.cells_one({"a": 0.7}).tolist()
    features.learn_one({"a": 0.1, "b": 2.0})
    assert features.cells_one({"a": 0.7}).tolist() == before
    assert features.cells_one({"a": 0.7, "b": 0.0}).tolist() == before


def drawn(features, n=3):
    """Return the random numbers of some features in one line."""
    for name in range(n):
        features.learn_one({f"x{name}": 1.0})
    return np.concatenate([rows_of(features)[f"x{name}"] for name in range(n)])


@pytest.mark.parametrize("seed", SEEDS)
def test_frequencies_have_the_laws_of_the_kernels_transforms(seed):
    level = LEVEL / (2 * len(SEEDS))
    found = drawn(RandomFourierFeatures(1000, "gaussian", gamma=WIDTH, seed=seed))
    assert stats.kstest(found, stats.norm(scale=math.sqrt(2 * WIDTH)).cdf).pvalue > level
    found = drawn(RandomFourierFeatures(1000, "laplace", lifetime=WIDTH, seed=seed))
    assert stats.kstest(found, stats.cauchy(scale=WIDTH).cdf).pvalue > level


@pytest.mark.parametrize("seed", SEEDS)
def test_grids_have_gamma_pitches_and_uniform_shifts(seed):
    level = LEVEL / (2 * len(SEEDS))
    features = RandomBinningFeatures(800, lifetime=WIDTH, seed=seed)
    features.learn_one({"a": 1.0})
    pitches, shifts = rows_of(features)["a"][:1600].reshape(800, 2).T
    assert stats.kstest(pitches, stats.gamma(2, scale=1 / WIDTH).cdf).pvalue > level
    assert stats.kstest(shifts / pitches, stats.uniform.cdf).pvalue > level


PAIRS = [
    ({"a": 0.3, "b": -1.0}, {"a": 0.5, "b": -0.7}),
    ({"a": 1.0}, {"b": 0.5}),
    ({"a": 0.2, "b": 0.1, "c": 0.1}, {}),
    ({"a": 2.0, "b": -1.0}, {"a": -0.2, "b": 1.0}),
]


@pytest.mark.blas
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kernel", ["laplace", "gaussian"])
def test_fourier_features_approximate_the_kernel(kernel, seed):
    twin = getattr(kernels, kernel)(WIDTH)
    features = RandomFourierFeatures(4000, kernel, lifetime=WIDTH, gamma=WIDTH, seed=seed)
    features.learn_one({"a": 0.0, "b": 0.0, "c": 0.0})
    bound = stats.norm.ppf(1 - LEVEL / (2 * 2 * len(PAIRS) * len(SEEDS)))
    for x, y in PAIRS:
        exact = twin(x, y)
        twice = twin({k: 2.0 * v for k, v in x.items()}, {k: 2.0 * v for k, v in y.items()})
        # The variance of the cosine of a frequency times the difference.
        deviation = math.sqrt(((1.0 + twice) / 2.0 - exact**2) / 2000)
        found = outputs(features, x) @ outputs(features, y)
        assert abs(found - exact) < bound * deviation


@pytest.mark.parametrize("seed", SEEDS)
def test_binning_approximates_the_laplace_kernel(seed):
    twin = kernels.laplace(WIDTH)
    features = RandomBinningFeatures(3000, lifetime=WIDTH, seed=seed)
    features.learn_one({"a": 0.0, "b": 0.0, "c": 0.0})
    for x, y in PAIRS:
        shared = round(3000 * features.kernel(x, y))
        test = stats.binomtest(shared, 3000, twin(x, y))
        assert test.pvalue > LEVEL / (len(PAIRS) * len(SEEDS))


def test_the_range_of_values_is_met_without_overflow():
    features = RandomBinningFeatures(30, lifetime=1e6, seed=1)
    far = [{"a": 3e38}, {"a": -3e38}, {"a": 1e30}]
    for x in far:
        features.learn_one(x)
        assert len(features.transform_one(x)) == 30
    assert features.kernel(far[0], far[1]) == 0.0


def test_unseeded_maps_differ_and_seeded_ones_do_not():
    for make in (RandomFourierFeatures, RandomBinningFeatures):
        first, second = make(), make()
        third, fourth = make(seed=4), make(seed=4)
        for features in (first, second, third, fourth):
            features.learn_one({"a": 1.0})
        assert not np.array_equal(rows_of(first)["a"], rows_of(second)["a"])
        assert pickle.dumps(third) == pickle.dumps(fourth)
