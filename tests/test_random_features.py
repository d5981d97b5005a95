"""Tests of random Fourier features, binning and Nystrom features: references, distributions."""

import math

import numpy as np
import pandas as pd
import pytest
from common import fed
from naive import dual as kernels
from naive import features as naive
from river import datasets
from scipy import stats

import river_mondrian as rm

LEVEL = 0.01


SEEDS = range(8)


WIDTH = 0.8


def samples(n, seed=0, dims=5, holes=0.3):
    """Draw mappings with missing values; late features occur from the second half on."""
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
    features = rm.RandomFourierFeatures(20, kernel, lifetime=0.1, gamma=WIDTH, seed=3)
    for x in samples(60):
        features.learn_one(x)
        expected = naive.fourier(x, rows_of(features))
        np.testing.assert_allclose(outputs(features, x), expected, atol=1e-12)
    x = {"x0": 0.5, "never seen": 3.0, "x1": math.nan}
    expected = naive.fourier({"x0": 0.5}, rows_of(features))
    np.testing.assert_allclose(outputs(features, x), expected, atol=1e-12)
    assert expected @ np.array(expected) == pytest.approx(1.0)


def test_binning_cells_are_the_twins_in_the_order_of_meeting():
    features = rm.RandomBinningFeatures(15, lifetime=WIDTH, seed=5)
    stream = samples(200)
    # The model learns all features first, so that the reference has all grids; new grids change no
    # cell.
    names = {name: 0.0 for x in stream for name in x}
    features.learn_one(names)
    twin = naive.Binning(grids_of(features))
    twin.learn(names)
    for x in stream:
        assert features.cells_one(x).tolist() == twin.cells_of(x)
        assert len(features.transform_one(x)) == sum(cell >= 0 for cell in twin.cells_of(x))
        features.learn_one(x)
        twin.learn(x)
        assert features.cells_one(x).tolist() == twin.cells_of(x)
    # There are more cells than slots in the first hash table, so the table has grown.
    assert len(twin.cells) == features._map.n_columns - 1 > 256
    new = {"x0": 9.0, "x1": -7.0, "never seen": 4.0}
    assert features.transform_one(new) == {}
    assert features.kernel(new, new) == 1.0
    asked = [new, *stream[30:40]]
    expected = [[twin.kernel(x, y) for y in asked] for x in stream[:20]]
    assert [[features.kernel(x, y) for y in asked] for x in stream[:20]] == expected
    frame = pd.DataFrame(stream[:20]).fillna(0.0)
    np.testing.assert_allclose(features.gram(frame, pd.DataFrame(asked)), expected)


@pytest.mark.parametrize("name", ["fourier gaussian", "fourier laplace", "binning"])
def test_random_numbers_belong_to_names(name):
    """A feature's random numbers do not depend on the order of features or the first sample."""
    early, late, other = MAPS[name](), MAPS[name](), MAPS[name]().clone({"seed": 2})
    early.learn_one({"c": 1.0, "a": 1.0, "b": 1.0, 7: 1.0})
    fed(late, [{name: 1.0} for name in (7, "b", "c", "a")])
    first, second = rows_of(early), rows_of(late)
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    assert len({row.tobytes() for row in first.values()}) == 4
    other.learn_one({"a": 1.0})
    assert not np.array_equal(rows_of(other)["a"], first["a"])


@pytest.mark.parametrize("seed", SEEDS)
def test_random_numbers_have_the_laws_of_the_kernels(seed):
    """Frequencies follow the kernels' Fourier transforms; pitches are gamma, and shifts uniform."""

    def made(kind, *args, **params):
        return fed(kind(*args, **params, seed=seed), [{f"x{i}": 1.0} for i in range(3)])

    def frequencies(*args, **params):
        features = made(rm.RandomFourierFeatures, 1000, *args, **params)
        return np.concatenate(list(rows_of(features).values()))

    grids = grids_of(made(rm.RandomBinningFeatures, 300, lifetime=WIDTH))
    pitches, shifts = np.array([list(grid.values()) for grid in grids]).reshape(-1, 2).T
    gaussian, laplace = frequencies("gaussian", gamma=WIDTH), frequencies("laplace", lifetime=WIDTH)
    for found, law in (
        (gaussian, stats.norm(scale=math.sqrt(2 * WIDTH))),
        (laplace, stats.cauchy(scale=WIDTH)),
        (pitches, stats.gamma(2, scale=1 / WIDTH)),
        (shifts / pitches, stats.uniform),
    ):
        assert stats.kstest(found, law.cdf).pvalue > LEVEL / (4 * len(SEEDS))


def test_the_range_of_values_is_met_without_overflow():
    far = [{"a": 3e38}, {"a": -3e38}, {"a": 1e30}]
    features = fed(rm.RandomBinningFeatures(30, lifetime=1e6, seed=1), far)
    assert all(len(features.transform_one(x)) == 30 for x in far)
    assert features.kernel(far[0], far[1]) == 0.0


# Nystrom features against the formula and the approximated kernel.

pytestmark = pytest.mark.blas


WIDTH_OF_NYSTROM = 0.5


def stream(n, seed=0, dims=4):
    rng = np.random.default_rng(seed)
    # Landmarks are stored in single precision, which represents these values exactly.
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
    twin = getattr(kernels, kernel)(WIDTH_OF_NYSTROM)
    widths = {"lifetime": WIDTH_OF_NYSTROM, "gamma": WIDTH_OF_NYSTROM}
    features, samples, used = rm.NystromFeatures(20, rank, kernel, **widths), stream(25), []
    for n, x in enumerate(samples, 1):
        features.learn_one(x)
        used = samples[:n] if n in (2, 4, 8, 16, 20) else used
        assert features.frozen == (n >= 20)
        assert len(features.transform_one(x)) == min(rank, len(used))
        if n in (2, 3, 8, 20, 25):
            # Features that no landmark has are not read.
            known = {name for landmark in used for name in landmark}
            pair = [{k: v for k, v in z.items() if k in known} for z in (x, samples[5])]
            expected = naive.nystrom_kernel(*pair, used, twin, rank, eigen)
            assert dot(features, x, samples[5]) == pytest.approx(expected, abs=1e-9)


def test_landmarks_that_coincide_or_are_empty():
    features = rm.NystromFeatures(8, 4, lifetime=WIDTH_OF_NYSTROM)
    fed(features, [{"a": 1.0}, {"a": 2.0}] * 4)
    assert features.frozen
    assert len(features.transform_one({"a": 1.5})) == 2
    assert dot(features, {"a": 1.0}, {"a": 2.0}) == pytest.approx(math.exp(-WIDTH_OF_NYSTROM))
    empty = fed(rm.NystromFeatures(2), [{}, {"a": math.nan}])
    assert dot(empty, {}, {"a": 1.0}) == pytest.approx(1.0)


def test_text_like_mappings_are_not_made_dense():
    words = np.random.default_rng(2).integers(0, 1_000_000, (60, 100)).tolist()
    features = rm.NystromFeatures(50, 10, lifetime=0.01)
    fed(features, [{f"w{name}": 1.0 for name in names} for names in words])
    # Vectors may have one element per feature, but matrices must have no row or column per feature.
    assert features._map.nbytes < 8 * features._map.n_inputs + 50 * 100 * 12 + 50 * 10 * 8 + 4000


def landmarks_of(features, samples):
    """Return the indices of the landmarks; at full rank their features have norm 1."""
    return [i for i, x in enumerate(samples) if dot(features, x, x) > 1.0 - 1e-9]


def test_landmarks_are_drawn_from_the_pool():
    twin, samples = kernels.laplace(WIDTH_OF_NYSTROM), stream(70)
    drawn = []
    for seed in (1, 1, 2):
        features = rm.NystromFeatures(20, 20, lifetime=WIDTH_OF_NYSTROM, pool_size=60, seed=seed)
        for n, x in enumerate(samples, 1):
            features.learn_one(x)
            assert features.frozen == (n >= 60)
        found = landmarks_of(features, samples)
        assert len(found) == 20 and max(found) < 60 and found != list(range(20))
        used = [samples[i] for i in found]
        expected = naive.nystrom_kernel(samples[65], samples[3], used, twin, 20, eigen)
        assert dot(features, samples[65], samples[3]) == pytest.approx(expected, abs=1e-9)
        drawn.append(found)
    assert drawn[0] == drawn[1] != drawn[2]


def test_all_samples_of_a_pool_are_drawn_as_often():
    samples, times = stream(12), np.zeros(12)
    for seed in range(400):
        features = rm.NystromFeatures(4, 4, lifetime=WIDTH_OF_NYSTROM, pool_size=12, seed=seed)
        times[landmarks_of(fed(features, samples), samples)] += 1
    assert times.sum() == 4 * 400
    # The count of each sample has variance 400 p (1 - p), where p = 1/3. The sum of 12 squares has
    # 11 degrees of freedom, because the total is fixed. The level is 1e-3.
    squares = ((times - 400 / 3) ** 2).sum() / (400 * (1 / 3) * (2 / 3)) * 11 / 12
    assert squares < stats.chi2(11).ppf(1.0 - 1e-3)


# The other feature maps as transformers.

MAPS = {
    "fourier gaussian": lambda: rm.RandomFourierFeatures(40, seed=1),
    "fourier laplace": lambda: rm.RandomFourierFeatures(40, "laplace", seed=1),
    "binning": lambda: rm.RandomBinningFeatures(40, lifetime=0.3, seed=1),
    "mondrian": lambda: rm.MondrianFeatures(40, lifetime=0.3, seed=1),
    "isolation": lambda: rm.IsolationFeatures(40, 8, pool_size=80, seed=1),
    "isolation trees": lambda: rm.IsolationFeatures(40, 8, "iforest", 80, seed=1),
    "nystrom laplace": lambda: rm.NystromFeatures(60, lifetime=0.3),
    "nystrom gaussian": lambda: rm.NystromFeatures(60, 60, "gaussian", gamma=0.3),
}


STREAM = [{k: 0.3 * v for k, v in x.items()} for x, _ in datasets.Phishing().take(150)]


FRAME = pd.DataFrame(STREAM, index=range(7, 157))


@pytest.mark.blas
@pytest.mark.parametrize("make", MAPS.values(), ids=MAPS)
def test_gram_is_the_matrix_of_dot_products(make):
    features = fed(make(), STREAM[:100])
    matrix, gram = features.to_csr(FRAME), features.gram(FRAME)
    bound = rounding_of_products(matrix, features._map.n_out)
    assert (np.abs(gram - (matrix @ matrix.T).toarray()) <= bound).all()
    # For other shapes, linear algebra libraries may add in another order.
    bound = bound[3:5] if features._map.dense else 0.0
    assert (np.abs(gram[3:5] - features.gram(FRAME[3:5], FRAME)) <= bound).all()


def rounding_of_products(matrix, n):
    """Return the largest difference between two computations of the dot products of rows.

    Let u = eps / 2. The error of a sum of n products is at most n u / (1 - n u) times the sum of
    magnitudes. This holds for any order and for fused operations (Higham, Accuracy and Stability of
    Numerical Algorithms, section 3.1). Two sums differ by at most twice as much, n eps up to terms
    in u^2. The bound uses n + 1 to include these terms and the rounding of the bound.

    A kernel of cells, a count over n, is rounded once. The value 1 / sqrt(n) is rounded twice, so
    the relative error of its square is 4 u. The relative error of a sum of n squares is (n + 4) u.
    The total, (n + 5) u, is below the bound for n >= 3.
    """
    magnitudes = abs(matrix)
    return (n + 1) * np.finfo(float).eps * (magnitudes @ magnitudes.T).toarray()
