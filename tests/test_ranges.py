"""Robust ranges: against their twin, as shapes of features have them, unmoved by wild values."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import ranges as naive
from naive.following import spread_of, telling
from naive.ranges import robust_range
from scipy import sparse

from river_mondrian.partitions import ranges

LARGEST = 3.4e38

values = st.one_of(
    st.just(math.nan),
    st.sampled_from([0.0, 1.0, -1.0, 2.0]),
    st.floats(-10.0, 10.0),
    st.floats(-LARGEST, LARGEST),
)
columns = st.integers(0, 40).flatmap(lambda n: st.lists(values, min_size=n, max_size=n))


def range_of(column):
    """Return the range of one column."""
    low, high = ranges.robust_ranges(np.array(column, dtype=float)[:, None])
    return float(low[0]), float(high[0])


@given(st.integers(0, 40), st.integers(0, 6), st.sampled_from([3.0, 10.0]), st.data())
@settings(max_examples=300, deadline=None)
@pytest.mark.filterwarnings("error")
def test_all_columns_are_as_the_twin_has_each(n, d, fence, data):
    rows = np.array(data.draw(st.lists(values, min_size=n * d, max_size=n * d))).reshape(n, d)
    low, high = ranges.robust_ranges(rows, fence)
    expected = np.array([robust_range(column, fence) for column in rows.T]).reshape(d, 2)
    np.testing.assert_array_equal(np.stack([low, high], axis=1), expected)


@given(columns)
@settings(max_examples=300, deadline=None)
def test_ranges_are_known_by_the_values_that_tell_them(column):
    found = ranges.known_ranges(np.array(column, dtype=float)[:, None], 3.0)
    values = telling(column)
    assert found.known == [len(values)]
    assert found.spread == pytest.approx([spread_of(values)], rel=1e-12)


@given(columns, values, st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([0.0, 1.0, 20.0]))
@settings(max_examples=200, deadline=None)
def test_rounded_numbers_are_joined_as_the_twin_joins_them(column, offset, relative, least):
    offset = 0.0 if math.isnan(offset) else offset
    ordered = np.sort(np.array(column, dtype=float))
    rounding = ranges.Rounding(np.array([offset]), np.ones(1), relative, np.full(1, least))
    errors = relative * (1.0 + np.abs(ordered - offset)) + least
    found = ranges.without_rounding(ordered[None], rounding)[0]
    np.testing.assert_array_equal(found, naive.without_rounding(ordered.tolist(), errors.tolist()))


def test_shapes_of_features(seed):
    rng = np.random.default_rng(seed)
    n = 1000
    assert range_of(rng.random(n) < 0.5) == (0.0, 1.0)
    assert range_of(rng.random(n) < 0.02) == (0.0, 1.0)
    # A wild value does not count among sparse ones.
    counts = np.where(rng.random(n) < 0.1, rng.integers(1, 5, n), 0)
    counts[3] = 10**6
    assert range_of(counts) == (0.0, 4.0)
    # Sparse and signed.
    signed = np.where(rng.random(n) < 0.1, rng.uniform(-2.0, 5.0, n), 0.0)
    assert range_of(signed) == (signed.min(), signed.max())
    # A quarter of the values is not 0, and the upper quartile is about the least of these.
    pixels = np.where(rng.random(n) < 0.25 + 0.02 * (seed - 1), rng.uniform(0.01, 255.0, n), 0.0)
    assert range_of(pixels) == (0.0, pixels.max())
    # Rare, and on one side of what is common.
    assert range_of(np.where(rng.random(n) < 0.1, rng.uniform(7.0, 9.0, n), 5.0))[0] == 5.0
    low, high = range_of(rng.standard_cauchy(n))
    # Quartiles are -1 and 1, fences -7 and 7.
    assert 4.0 < -low < 9.0
    assert 4.0 < high < 9.0
    low, high = range_of(rng.exponential(size=n))
    assert low < 0.01
    assert 3.0 < high < 5.5
    # The whole range, if values grow for ever.
    assert range_of(np.arange(n)) == (0.0, n - 1.0)


@given(
    st.integers(0, 2**20),
    st.integers(1, 60),
    st.integers(0, 8),
    st.sampled_from([0.02, 0.2, 0.3, 0.7, 1.0]),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_ranges_of_sparse_rows_are_those_of_dense_ones(seed, n, d, share, few):
    rng = np.random.default_rng(seed)
    rows = (rng.integers(-2, 3, (n, d)) if few else rng.standard_cauchy((n, d))).astype(np.float32)
    rows *= rng.random((n, d)) < share * rng.random(d)
    found = ranges.robust_ranges_of_sparse(sparse.csr_matrix(rows))
    np.testing.assert_array_equal(found, ranges.robust_ranges(rows.astype(float)))


def test_wide_sparse_rows_are_never_dense():
    rng = np.random.default_rng(0)
    n, d, n_entries = 1000, 200_000, 50_000
    places = rng.integers(d, size=n_entries), rng.integers(n, size=n_entries)
    rows = sparse.coo_matrix((np.ones(n_entries, np.float32), places[::-1]), shape=(n, d)).tocsr()
    tracemalloc.start()
    low, high = ranges.robust_ranges_of_sparse(rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (low == 0.0).all()
    assert (high[places[0]] >= 1.0).all()
    # Arrays of the width, and no row for each sample.
    assert peak < 200 * (d + n_entries)


def test_few_values():
    assert range_of([7.0, 7.0, 7.0]) == (7.0, 7.0)
    assert range_of([math.nan, -3.0]) == (-3.0, -3.0)
    assert range_of([2.0, 1.0]) == (1.0, 2.0)
    assert np.isnan(range_of([math.nan])).all()
    assert np.isnan(ranges.robust_ranges(np.empty((0, 2)))).all()
    assert ranges.robust_ranges(np.empty((5, 0)))[0].shape == (0,)
