"""Robust ranges: against their twin, as shapes of features have them, unmoved by wild values."""

from __future__ import annotations

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

from river_mondrian.partitions.ranges import (
    Rounding,
    known_ranges,
    robust_ranges,
    robust_ranges_of_sparse,
    without_rounding,
)

SEEDS = range(3)
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
    low, high = robust_ranges(np.array(column, dtype=float)[:, None])
    return float(low[0]), float(high[0])


@given(st.integers(0, 40), st.integers(0, 6), st.sampled_from([3.0, 10.0]), st.data())
@settings(max_examples=300, deadline=None)
@pytest.mark.filterwarnings("error")
def test_all_columns_are_as_the_twin_has_each(n, d, fence, data):
    rows = np.array(data.draw(st.lists(values, min_size=n * d, max_size=n * d))).reshape(n, d)
    low, high = robust_ranges(rows, fence)
    expected = np.array([robust_range(column, fence) for column in rows.T]).reshape(d, 2)
    np.testing.assert_array_equal(np.stack([low, high], axis=1), expected)


@given(columns)
@settings(max_examples=300, deadline=None)
def test_ranges_are_known_by_the_values_that_tell_them(column):
    found = known_ranges(np.array(column, dtype=float)[:, None], 3.0)
    values = telling(column)
    assert found.known == [len(values)]
    assert found.spread == pytest.approx([spread_of(values)], rel=1e-12)


@given(columns, values, st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([0.0, 1.0, 20.0]))
@settings(max_examples=200, deadline=None)
def test_rounded_numbers_are_joined_as_the_twin_joins_them(column, offset, relative, least):
    offset = 0.0 if math.isnan(offset) else offset
    ordered = np.sort(np.array(column, dtype=float))
    rounding = Rounding(np.array([offset]), np.ones(1), relative, np.full(1, least))
    errors = relative * (1.0 + np.abs(ordered - offset)) + least
    found = without_rounding(ordered[None], rounding)[0]
    np.testing.assert_array_equal(found, naive.without_rounding(ordered.tolist(), errors.tolist()))


@given(columns, st.integers(0, 2**20))
@settings(max_examples=100, deadline=None)
def test_order_of_samples_does_not_matter(column, seed):
    shuffled = np.random.default_rng(seed).permutation(np.array(column, dtype=float))
    np.testing.assert_array_equal(range_of(shuffled), range_of(column))


@given(
    st.lists(st.integers(-8, 8), min_size=1, max_size=40),
    st.integers(-100, 100),
    st.sampled_from([2.0**-20, 0.5, 3.0, 1024.0]),
    st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_ranges_move_and_stretch_with_their_values(column, by, factor, turned):
    """Over small whole numbers nothing is rounded."""
    low, high = range_of(column)
    ends = (
        (-factor * high + by, -factor * low + by)
        if turned
        else (factor * low + by, factor * high + by)
    )
    sign = -factor if turned else factor
    assert range_of(sign * np.array(column) + by) == ends


@given(columns)
@settings(max_examples=200, deadline=None)
def test_at_least_half_of_the_values_are_within_and_ends_are_values(column):
    known = [value for value in column if not math.isnan(value)]
    low, high = range_of(column)
    if known:
        assert low in known
        assert high in known
        assert 2 * sum(low <= value <= high for value in known) >= len(known)
    else:
        assert math.isnan(low)
        assert math.isnan(high)


@given(
    st.integers(0, 2**20),
    st.integers(16, 300),
    st.floats(0.0, 0.2),
    st.lists(st.floats(-LARGEST, LARGEST), min_size=1, max_size=5),
)
@settings(max_examples=200, deadline=None)
def test_a_fifth_of_the_values_may_be_wild(seed, n, share, wild):
    """Quartiles stay within the other values, and so fences within 3 times their range of these."""
    rng = np.random.default_rng(seed)
    column = rng.normal(size=n)
    places = rng.choice(n, int(share * n), replace=False)
    others = np.delete(column, places)
    column[places] = rng.choice(wild, len(places))
    low, high = range_of(column)
    least, largest = others.min(), others.max()
    reach = 3.0 * (largest - least)
    assert least - reach <= low <= high <= largest + reach
    if np.abs(column[places]).min(initial=math.inf) > 5.0 * reach:
        # What is beyond all fences has no part in the range.
        assert least <= low <= high <= largest


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("wild", [1e3, 1e6, 1e12, 1e30, LARGEST])
def test_one_wild_value_leaves_the_range_of_normal_values(seed, wild):
    column = np.random.default_rng(seed).normal(size=256)
    spoilt = column.copy()
    spoilt[7] = wild
    low, high = range_of(spoilt)
    assert low == column.min()
    assert high == np.delete(column, 7).max()


@pytest.mark.parametrize("seed", SEEDS)
def test_shapes_of_features(seed):
    rng = np.random.default_rng(seed)
    n = 1000
    assert range_of(rng.random(n) < 0.5) == (0.0, 1.0)
    assert range_of(rng.random(n) < 0.02) == (0.0, 1.0)
    # Of sparse counts the wild one has no part.
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
    # What grows for ever: all of it.
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
    found = robust_ranges_of_sparse(sparse.csr_matrix(rows))
    np.testing.assert_array_equal(found, robust_ranges(rows.astype(float)))


def test_wide_sparse_rows_are_never_dense():
    rng = np.random.default_rng(0)
    n, d, n_entries = 1000, 200_000, 50_000
    places = rng.integers(d, size=n_entries), rng.integers(n, size=n_entries)
    rows = sparse.coo_matrix((np.ones(n_entries, np.float32), places[::-1]), shape=(n, d)).tocsr()
    tracemalloc.start()
    low, high = robust_ranges_of_sparse(rows)
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
    assert np.isnan(robust_ranges(np.empty((0, 2)))).all()
    assert robust_ranges(np.empty((5, 0)))[0].shape == (0,)
