"""Robust ranges of features, which ignore some outliers: the whiskers of a box plot.

The range of a feature is the range of its values within fences. The fences are at least 3
interquartile ranges (Tukey's outer fences [^1]) below the lower quartile and above the upper
quartile. Fewer than a quarter of the values at each end may be arbitrary: the quartiles stay within
the range of the other values.

More than half of the values may be equal, as in rare binary, sparse and many discrete features. The
fences are then computed from the other values. The range covers the most common value and the other
values within the fences. A test for equal quartiles would miss some of these features. If slightly
more than a quarter of the values are not 0, the quartiles differ, but the upper quartile may be
arbitrary.

[^1]: Tukey, J. W. (1977). Exploratory Data Analysis. Chapter 2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from ..records import Floats, Ints

# Number of interquartile ranges between the quartiles and Tukey's outer fences.
OUTER_FENCE = 3.0


def robust_ranges(rows: Floats, fence: float = OUTER_FENCE) -> tuple[Floats, Floats]:
    """Return the lower and the upper end of the range of each column.

    Parameters
    ----------
    rows
        Values, shape (samples, features), at most 1e300 in absolute value; NaN if missing.
    fence
        Number of interquartile ranges between the quartiles and the fences.

    Returns
    -------
    The lower ends and the upper ends, each of shape (features,). Ends are values of the column, or
    NaN if the column has no values.

    Examples
    --------

    >>> rows = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [3.0, np.nan], [1e6, 5.0]])
    >>> robust_ranges(rows)
    (array([0., 5.]), array([3., 5.]))

    """
    ranges = known_ranges(rows, fence)
    return ranges.low, ranges.high


class KnownRanges(NamedTuple):
    """Ranges of columns, and the evidence for the ranges.

    Parameters
    ----------
    low, high
        Ends of the ranges, as `robust_ranges` returns them.
    known
        Number of values that determine each range. These are all values of the column or, if more
        than half of the values are equal, the other values.
    spread
        The interquartile range of the values that determine each range.

    """

    low: Floats
    high: Floats
    known: Floats
    spread: Floats


def known_ranges(rows: Floats, fence: float) -> KnownRanges:
    """Return the ranges of `robust_ranges`, and the evidence for the ranges."""
    # The sort puts NaN last, so each column's values come first.
    ordered = np.sort(np.ascontiguousarray(rows.T), axis=1)
    has_value = ~np.isnan(ordered)
    return _found(ordered[has_value], has_value.sum(axis=1), fence)


def scaling_of(low: Floats, high: Floats) -> Floats:
    """Return the offsets and the factors that scale ranges to [0, 1], shape (2, features).

    If both ends of a range are equal, the factor is 1 divided by their absolute value, or 1 if they
    are 0. A feature without values has NaN ends, the offset 0 and the factor 1.
    """
    low = np.nan_to_num(low)
    with np.errstate(divide="ignore", over="ignore"):
        factors = 1.0 / (high - low)
        of_size = 1.0 / np.abs(low)
    factors = np.where(np.isfinite(factors), factors, of_size)
    return np.stack([low, np.where(np.isfinite(factors), factors, 1.0)])


def robust_ranges_of_sparse(rows: scipy.sparse.csr_matrix) -> tuple[Floats, Floats]:
    """Return the result of `robust_ranges` for rows whose absent entries are 0.

    For n entries, the memory is proportional to n, and the time to n log n.
    """
    columns = rows.tocsc()
    columns.eliminate_zeros()
    counts = np.diff(columns.indptr).astype(np.int64)
    # If more than half of a column's values are 0, only its entries are needed.
    few = counts <= (rows.shape[0] - 1) // 2
    low, high = np.zeros(len(counts)), np.zeros(len(counts))
    low[~few], high[~few] = robust_ranges(columns[:, ~few].toarray().astype(np.float64))
    others = columns[:, few]
    values, counts = others.data.astype(np.float64), counts[few]
    order = np.lexsort((values, np.repeat(np.arange(others.shape[1]), counts)))
    low[few], high[few], *_ = _found(values[order], counts, OUTER_FENCE, is_rest=True)
    return low, high


def _found(values: Floats, counts: Ints, fence: float, is_rest: bool = False) -> KnownRanges:
    """Return the ranges of columns.

    `values` has the ordered values of each column, one column after another. With `is_rest`, the
    values exclude 0, the most common value.
    """
    commonest = np.zeros(len(counts))
    has_commonest = np.full(len(counts), is_rest)
    if not is_rest:
        medians = (np.cumsum(counts) - counts + counts // 2)[counts > 0]
        commonest[counts > 0], commonest[counts == 0] = values[medians], math.nan
        is_common = values == np.repeat(commonest, counts)
        has_commonest = 2 * _count(is_common, counts) > counts
        if has_commonest.any():
            is_other = ~(is_common & np.repeat(has_commonest, counts))
            values, counts = values[is_other], _count(is_other, counts)
    starts = np.cumsum(counts) - counts
    # Columns without values read the NaN at the end.
    padded = np.append(values, math.nan)
    lower, upper = (_quantiles(padded, starts, counts, rate) for rate in (0.25, 0.75))
    reach = fence * (upper - lower)
    n_below = _count(values < np.repeat(lower - reach, counts), counts)
    n_above = _count(values > np.repeat(upper + reach, counts), counts)
    has_values = counts > 0
    low = np.where(has_values, padded[starts + n_below], commonest)
    high = np.where(has_values, padded[starts + counts - 1 - n_above], commonest)
    return KnownRanges(
        np.where(has_commonest, np.minimum(low, commonest), low),
        np.where(has_commonest, np.maximum(high, commonest), high),
        counts.astype(np.float64),
        np.where(has_values, upper - lower, 0.0),
    )


def _count(mask: NDArray[np.bool_], counts: Ints) -> Ints:
    """Return, for each column, the number of values that a mask selects."""
    starts = np.cumsum(counts) - counts
    # For a column without values, `reduceat` returns a value of another column, so the sum is
    # replaced by 0.
    sums = np.add.reduceat(np.append(mask, False), starts, dtype=np.int64)
    return np.where(counts > 0, sums, 0)


def _quantiles(padded: Floats, starts: Ints, counts: Ints, rate: float) -> Floats:
    """Return each column's quantile at `rate`, linearly interpolated; NaN without values."""
    ranks = rate * np.maximum(counts - 1, 0)
    whole = ranks.astype(np.int64)
    index = np.where(counts > 0, starts + whole, len(padded) - 1)
    first = padded[index]
    second = padded[np.minimum(index + 1, np.where(counts > 0, starts + counts, len(padded)) - 1)]
    quantiles: Floats = first + (ranks - whole) * (second - first)
    return quantiles
