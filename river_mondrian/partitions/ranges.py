"""Ranges of features that a few wild values do not decide: from the whiskers of a box plot.

The range of a feature is that of its values within fences, some interquartile ranges below the
lower quartile and above the upper one: 3 of them, which are Tukey's outer fences [^1], or more. Up
to a quarter of the values at either end may be of any size: they move the quartiles within the
other values.

Where both quartiles are the same, as of rare binary, sparse and many discrete features, they are
the commonest value. The range then is that of the values other than this one, within their own
fences, and of this one.

[^1]: Tukey, J. W. (1977). Exploratory Data Analysis. Chapter 2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]

# How many interquartile ranges Tukey's outer fences are beyond the quartiles.
FENCE = 3.0


def robust_ranges(rows: Array, fence: float = FENCE) -> tuple[Array, Array]:
    """Return the lower and the upper end of the range of each column.

    Parameters
    ----------
    rows
        Numbers of shape (samples, features), at most 1e300 in size; NaN where one is missing.
    fence
        How many interquartile ranges the fences are beyond the quartiles.

    Returns
    -------
    Both of shape (features,): values of the column. They are equal where all of its values are,
    and NaN where it has none.

    Examples
    --------

    >>> rows = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [3.0, np.nan], [1e6, 5.0]])
    >>> robust_ranges(rows)
    (array([0., 5.]), array([3., 5.]))

    """
    ordered = np.sort(rows, axis=0).T
    known = ~np.isnan(ordered)
    return _ranges(ordered[known], known.sum(axis=1), fence)


def scaling_of(low: Array, high: Array) -> Array:
    """Return the offsets and the factors by which ranges become [0, 1], shape (2, features).

    What has not moved has no range: its magnitude stands in, or 1 where that is 0. A feature
    without values, whose ends are NaN, stays as it is.
    """
    low = np.nan_to_num(low)
    with np.errstate(divide="ignore", over="ignore"):
        factors = 1.0 / (high - low)
        of_size = 1.0 / np.abs(low)
    factors = np.where(np.isfinite(factors), factors, of_size)
    return np.stack([low, np.where(np.isfinite(factors), factors, 1.0)])


def robust_ranges_of_sparse(rows: sparse.csr_matrix) -> tuple[Array, Array]:
    """Return the same as `robust_ranges` of rows whose absent entries are 0.

    Time and memory are proportional to the entries, times a logarithm in time.
    """
    columns = rows.tocsc()
    columns.eliminate_zeros()
    counts = np.diff(columns.indptr).astype(np.int64)
    # With so few other values both quartiles are 0.
    few = counts <= (rows.shape[0] - 1) // 4
    low, high = np.zeros(len(counts)), np.zeros(len(counts))
    low[~few], high[~few] = robust_ranges(columns[:, ~few].toarray().astype(np.float64))
    others = columns[:, few]
    values = others.data.astype(np.float64)
    order = np.lexsort((values, np.repeat(np.arange(others.shape[1]), counts[few])))
    low_of_others, high_of_others, _, _ = _whiskers(values[order], counts[few], FENCE)
    low[few], high[few] = np.fmin(0.0, low_of_others), np.fmax(0.0, high_of_others)
    return low, high


def _ranges(values: Array, counts: NDArray[np.int64], fence: float) -> tuple[Array, Array]:
    """Return the ranges of columns: `counts` ordered values each, one column after the other."""
    low, high, lower, upper = _whiskers(values, counts, fence)
    flat = lower == upper
    others = np.repeat(flat, counts) & (values != np.repeat(lower, counts))
    low_of_others, high_of_others, _, _ = _whiskers(
        values[others], _in_columns(others, counts), fence
    )
    # A column without other values has NaN there.
    low = np.where(flat, np.fmin(lower, low_of_others), low)
    high = np.where(flat, np.fmax(lower, high_of_others), high)
    return low, high


def _whiskers(
    values: Array, counts: NDArray[np.int64], fence: float
) -> tuple[Array, Array, Array, Array]:
    """Return the least and the largest value within the fences, and both quartiles, per column."""
    lower, upper = _quantiles(values, counts, 0.25), _quantiles(values, counts, 0.75)
    reach = fence * (upper - lower)
    starts = np.cumsum(counts) - counts
    below = _in_columns(values < np.repeat(lower - reach, counts), counts)
    within = _in_columns(values <= np.repeat(upper + reach, counts), counts)
    return (
        _take(values, counts, starts + below),
        _take(values, counts, starts + within - 1),
        lower,
        upper,
    )


def _quantiles(values: Array, counts: NDArray[np.int64], rate: float) -> Array:
    """Return a quantile of each column, by linear interpolation."""
    places = rate * np.maximum(counts - 1, 0)
    whole = places.astype(np.int64)
    starts = np.cumsum(counts) - counts
    first = _take(values, counts, starts + whole)
    second = _take(values, counts, starts + np.minimum(whole + 1, counts - 1))
    return first + (places - whole) * (second - first)


def _take(values: Array, counts: NDArray[np.int64], places: NDArray[np.int64]) -> Array:
    """Return a value of each column, NaN for a column without values."""
    taken = np.full(len(counts), np.nan)
    taken[counts > 0] = values[places[counts > 0]]
    return taken


def _in_columns(chosen: NDArray[np.bool_], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many are chosen in each column."""
    before = np.zeros(len(chosen) + 1, dtype=np.int64)
    np.cumsum(chosen, out=before[1:])
    ends = np.cumsum(counts)
    found: NDArray[np.int64] = before[ends] - before[ends - counts]
    return found
