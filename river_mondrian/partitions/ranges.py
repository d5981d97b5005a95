"""Ranges of features, which ignore some outliers: the whiskers of a box plot.

The range of a feature is the range of its values within fences. The fences are at least 3
interquartile ranges (Tukey's outer fences [^1]) below the lower quartile and above the upper
quartile. Up to a quarter of the values at either end may be arbitrary: the quartiles stay within
the range of the other values.

More than half of the values may be equal, as in rare binary, sparse and many discrete features. The
fences are then computed from the other values. The range covers the most common value and the other
values within the fences. Equality of both quartiles would be a worse criterion than equality of
more than half of the values. If slightly more than a quarter of the values are not 0, the upper
quartile is one of these values, and may be arbitrary.

[^1]: Tukey, J. W. (1977). Exploratory Data Analysis. Chapter 2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from ..compiling.kernels import batch_kernel, cold, helper, link_by_name, ordered_sums
from ..records import Float64s, Floats, Int64s, Ints, room_of_words

# Number of interquartile ranges between the quartiles and Tukey's outer fences.
FENCE = 3.0

# Number of results of `find_ranges` for each column.
N_FOUND = 4
_room_of_found = room_of_words(Float64s, N_FOUND)


def robust_ranges(rows: Floats, fence: float = FENCE) -> tuple[Floats, Floats]:
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
    found = known_ranges(rows, fence)
    return found.low, found.high


class KnownRanges(NamedTuple):
    """Ranges of columns, and the evidence for them.

    Parameters
    ----------
    low, high
        Ends of the ranges, as `robust_ranges` returns them.
    known
        Number of values that determine each range: all values of the column, or the other values if
        more than half are equal.
    spread
        The interquartile ranges of these values.

    """

    low: Floats
    high: Floats
    known: Floats
    spread: Floats


def known_ranges(rows: Floats, fence: float) -> KnownRanges:
    """Return the ranges of `robust_ranges`, and the evidence for them."""
    # NaN is sorted last.
    ordered = np.sort(np.ascontiguousarray(rows.T), axis=1)
    n_columns, n = ordered.shape
    counts = n - np.isnan(ordered).sum(axis=1)
    return _found(ordered, n * np.arange(n_columns), counts, fence)


def scaling_of(low: Floats, high: Floats) -> Floats:
    """Return the offsets and the factors that scale ranges to [0, 1], shape (2, features).

    A feature whose values are all equal is divided by their absolute value, or by 1 if they are 0.
    A feature without values has NaN ends; its offset is 0 and its factor 1.
    """
    low = np.nan_to_num(low)
    with np.errstate(divide="ignore", over="ignore"):
        factors = 1.0 / (high - low)
        of_size = 1.0 / np.abs(low)
    factors = np.where(np.isfinite(factors), factors, of_size)
    return np.stack([low, np.where(np.isfinite(factors), factors, 1.0)])


def robust_ranges_of_sparse(rows: scipy.sparse.csr_matrix) -> tuple[Floats, Floats]:
    """Return the result of `robust_ranges` for rows whose absent entries are 0.

    Memory is proportional to the number of entries, and time to this number times its logarithm.
    """
    columns = rows.tocsc()
    columns.eliminate_zeros()
    counts = np.diff(columns.indptr).astype(np.int64)
    # In these columns, more than half of the values are 0.
    few = counts <= (rows.shape[0] - 1) // 2
    low, high = np.zeros(len(counts)), np.zeros(len(counts))
    low[~few], high[~few] = robust_ranges(columns[:, ~few].toarray().astype(np.float64))
    others = columns[:, few]
    values, counts = others.data.astype(np.float64), counts[few]
    order = np.lexsort((values, np.repeat(np.arange(others.shape[1]), counts)))
    starts = np.cumsum(counts) - counts
    low[few], high[few], *_ = _found(values[order], starts, counts, FENCE, is_rest=True)
    return low, high


def _found(
    values: Floats, starts: Ints, counts: Ints, fence: float, is_rest: bool = False
) -> KnownRanges:
    """Return the result of `find_ranges` for columns of ordered values."""
    out = np.empty((N_FOUND, len(counts)))
    own = np.ascontiguousarray(values).reshape(-1)
    parts = Int64s.of(starts.astype(np.int64)), Int64s.of(counts.astype(np.int64))
    find_ranges(Float64s.of(own), *parts, len(counts), fence, is_rest, Float64s.of(out.reshape(-1)))
    return KnownRanges(*out)


@helper
@ordered_sums
def _value(values: Float64s, i: int, gap: int, n_left_out: int) -> float:
    """Return ordered value `i`, counted without the `n_left_out` values from `gap` on."""
    return values[i if i < gap else i + n_left_out]


@helper
@ordered_sums
def _quantile(values: Float64s, n: int, gap: int, n_left_out: int, rate: float) -> float:
    """Return the quantile at `rate`, linearly interpolated, of the `n` values not left out."""
    place = rate * (n - 1)
    whole = int(place)
    first = _value(values, whole, gap, n_left_out)
    second = _value(values, min(whole + 1, n - 1), gap, n_left_out)
    return first + (place - whole) * (second - first)


@link_by_name
@ordered_sums
@cold
def _find_whiskers(
    values: Float64s, n: int, gap: int, n_left_out: int, fence: float, found: Float64s
) -> None:
    """Write the range's ends and the spread of the `n` values not left out."""
    lower = _quantile(values, n, gap, n_left_out, 0.25)
    upper = _quantile(values, n, gap, n_left_out, 0.75)
    reach = fence * (upper - lower)
    i, j = 0, n - 1
    while _value(values, i, gap, n_left_out) < lower - reach:
        i += 1
    while _value(values, j, gap, n_left_out) > upper + reach:
        j -= 1
    found[0] = _value(values, i, gap, n_left_out)
    found[1] = _value(values, j, gap, n_left_out)
    found[3] = upper - lower


@link_by_name
@ordered_sums
@cold
def _find_range(values: Float64s, n: int, fence: float, is_rest: bool, found: Float64s) -> None:
    """Write a column's four fields of `KnownRanges`."""
    commonest = 0.0
    found[3] = 0.0
    gap, n_left_out = n, 0
    if not is_rest:
        found[2] = n
        if n == 0:
            found[0] = math.nan
            found[1] = math.nan
            return
        commonest = values[n // 2]
        gap, end = n // 2, n // 2 + 1
        while gap > 0 and values[gap - 1] == commonest:
            gap -= 1
        while end < n and values[end] == commonest:
            end += 1
        n_left_out = end - gap
        if 2 * n_left_out <= n:
            _find_whiskers(values, n, n, 0, fence, found)
            return
    n_others = n - n_left_out
    found[2] = n_others
    found[0] = commonest
    found[1] = commonest
    if n_others > 0:
        _find_whiskers(values, n_others, gap, n_left_out, fence, found)
        found[0] = min(found[0], commonest)
        found[1] = max(found[1], commonest)


@batch_kernel
@ordered_sums
@cold
def find_ranges(
    values: Float64s,
    starts: Int64s,
    counts: Int64s,
    n_columns: int,
    fence: float,
    is_rest: bool,
    out: Float64s,
) -> None:
    """Write the ranges of columns. Column c has counts[c] ordered values from starts[c] on.

    With `is_rest`, the values exclude 0, the most common value. `out` has the fields of
    `KnownRanges`, shape (4, columns).
    """
    found = _room_of_found()
    for c in range(n_columns):
        _find_range(values.part(starts[c], counts[c]), counts[c], fence, is_rest, found)
        for i in range(N_FOUND):
            out[n_columns * i + c] = found[i]
