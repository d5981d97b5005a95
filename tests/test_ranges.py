"""Tests of robust ranges against a reference, with features of several shapes and wild values."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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


@given(st.integers(0, 40), st.integers(0, 6), st.sampled_from([3.0, 10.0]), st.data())
@settings(max_examples=300)
@pytest.mark.filterwarnings("error")
def test_all_columns_are_as_the_twin_has_each(n, d, fence, data):
    rows = np.array(data.draw(st.lists(values, min_size=n * d, max_size=n * d))).reshape(n, d)
    low, high = ranges.robust_ranges(rows, fence)
    expected = np.array([robust_range(column, fence) for column in rows.T]).reshape(d, 2)
    np.testing.assert_array_equal(np.stack([low, high], axis=1), expected)


@given(columns)
@settings(max_examples=300)
def test_ranges_are_known_by_the_values_that_tell_them(column):
    found = ranges.known_ranges(np.array(column, dtype=float)[:, None], 3.0)
    values = telling(column)
    assert found.known == [len(values)]
    assert found.spread == pytest.approx([spread_of(values)], rel=1e-12)


SEEDS, SHARES = st.integers(0, 2**20), st.sampled_from([0.02, 0.2, 0.3, 0.7, 1.0])


@given(SEEDS, st.integers(1, 60), st.integers(0, 8), SHARES, st.booleans())
@settings(max_examples=200)
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
    # Memory suffices for arrays with one element per feature, but not for dense rows.
    assert peak < 200 * (d + n_entries)
