"""Detection of drifts from a model's errors: ADWIN, and a check that errors have increased.

ADWIN (Bifet and Gavalda 2007) keeps a window of the latest values as an exponential histogram.
ADWIN drops the oldest values while some cut splits the window into two parts whose means differ by
more than a bound. The results equal the results of `river.drift.ADWIN` bit for bit. As in River,
the first value after a drift begins a new window.
"""

import math
from typing import Any

import numpy as np

from ..checks import refuse
from ..compiling.kernels import helper, link_by_name
from ..records import Bounds, Float64, Float64s, Int64, Int64s, Record, sized, stored
from .learned import Learned

# The compiler must not reorder sums, because results must equal River's bit for bit.
ORDERED_SUMS = True

# Number of rows of buckets. The last row stays empty: its first bucket would need some 2^48 values.
N_BUCKET_ROWS = 48

# Largest possible `max_buckets`.
MOST_BUCKETS = 1000

# The detector of drifts: none, ADWIN, or a detector outside the package.
NOBODY = 0
ADWIN = 1
OUTSIDE = 2

# Number of samples kept after a drift if the detector has no attribute `width`, and smallest number
# of kept samples.
AFTER_DRIFT = 200
FEWEST_KEPT = 50

# Weight of the latest error in the running mean of recent errors, which shows whether errors have
# increased.
FAST = 0.02


class Adwin(Record):
    """The window and the parameters of ADWIN.

    A bucket of row i holds 2^i values. A row has room for `max_buckets` + 1 buckets and uses the
    first `sizes[i]`, oldest first.
    """

    delta: Float64
    clock: Int64 = stored(Bounds(1, 1 << 62))
    max_buckets: Int64 = stored(Bounds(1, MOST_BUCKETS))
    min_window_length: Int64
    grace_period: Int64
    # Number of values since the last drift. For the values in the window: their number, their sum,
    # and the sum of squared deviations from their mean.
    n_values: Int64
    width: Float64
    total: Float64
    variance: Float64
    # Whether a drift was detected at the last value. If so, the next value begins a new window.
    is_drift: Int64
    sizes: Int64s = sized(N_BUCKET_ROWS, bounds=Bounds(0, below="row_length"))
    # For each bucket, the sum of its values, and the sum of squared deviations from their mean.
    totals: Float64s = sized(N_BUCKET_ROWS, "row_length")
    variances: Float64s = sized(N_BUCKET_ROWS, "row_length")

    def row_length(self) -> int:
        """Return the capacity of a row, in buckets."""
        return self.max_buckets + 1


@helper
def _drop(adwin: Adwin, i: int, n: int) -> None:
    """Drop the oldest `n` buckets of a row."""
    first, size = adwin.row_length() * i, adwin.sizes[i] - n
    for k in range(first, first + size):
        adwin.totals[k] = adwin.totals[k + n]
        adwin.variances[k] = adwin.variances[k + n]
    adwin.sizes[i] = size


@helper
def _append(adwin: Adwin, i: int, total: float, variance: float) -> None:
    """Append a bucket to a row, which must have room."""
    index = adwin.row_length() * i + adwin.sizes[i]
    adwin.totals[index] = total
    adwin.variances[index] = variance
    adwin.sizes[i] += 1


@helper
def _insert(adwin: Adwin, value: float) -> None:
    """Insert a value into the window, and merge the oldest two buckets of each full row."""
    _append(adwin, 0, value, 0.0)
    adwin.width += 1.0
    width = adwin.width
    if width > 1.0:
        # Welford's update of the sum of squares.
        distance = value - adwin.total / (width - 1.0)
        adwin.variance += (width - 1.0) * distance * distance / width
    adwin.total += value
    i, size = 0, 1.0
    while i < N_BUCKET_ROWS - 1 and adwin.sizes[i] > adwin.max_buckets:
        first = adwin.row_length() * i
        first_total, second_total = adwin.totals[first], adwin.totals[first + 1]
        # Sum of squared deviations in the merged bucket. Each of the two buckets has `size` values.
        between = first_total / size - second_total / size
        variance = adwin.variances[first] + adwin.variances[first + 1]
        variance += size * 0.5 * between * between
        _append(adwin, i + 1, first_total + second_total, variance)
        _drop(adwin, i, 2)
        i, size = i + 1, 2.0 * size


@helper
def _drop_oldest(adwin: Adwin, i: int, size: float) -> None:
    """Drop the window's oldest bucket, which has `size` values and is in row `i`."""
    first = adwin.row_length() * i
    oldest = adwin.totals[first]
    width, total = adwin.width - size, adwin.total - oldest
    between = oldest / size - total / width
    squares = size * width * between * between / (size + width)
    adwin.variance -= adwin.variances[first] + squares
    adwin.width, adwin.total = width, total
    _drop(adwin, i, 1)


@helper
def _differ(adwin: Adwin, n_old: float, n_new: float, difference: float) -> bool:
    """Return whether two parts of the window have means that differ by more than the bound.

    The parts have `n_old` and `n_new` values. Let v be the window's variance, c = log(2 log(width)
    / delta) and l = `min_window_length`. Let 1 / m = 1 / (n_old - l + 1) + 1 / (n_new - l + 1). The
    bound is sqrt(2 v c / m) + 2 c / (3 m).
    """
    least = adwin.min_window_length
    confidence = math.log(2.0 * math.log(adwin.width) / adwin.delta)
    inverse = 1.0 / (n_old - least + 1.0) + 1.0 / (n_new - least + 1.0)
    # Rounding may make the variance negative. `np.sqrt` then returns NaN, but `math.sqrt` may raise
    # an error.
    spread = np.sqrt(2.0 * inverse * (adwin.variance / adwin.width) * confidence)
    bound = spread + 2.0 / 3.0 * confidence * inverse
    return bool(abs(difference) > bound)


@helper
def _shrink(adwin: Adwin) -> bool:
    """Drop the oldest bucket if some cut splits the window into two parts that differ.

    Return whether the bucket was dropped.
    """
    top = N_BUCKET_ROWS - 1
    while top > 0 and adwin.sizes[top] == 0:
        top -= 1
    least = adwin.min_window_length
    n_old, n_new, total_old, total_new = 0.0, adwin.width, 0.0, adwin.total
    for i in range(top, -1, -1):
        size, first = 2.0**i, adwin.row_length() * i
        for k in range(adwin.sizes[i]):
            n_old += size
            n_new -= size
            total_old += adwin.totals[first + k]
            total_new -= adwin.totals[first + k]
            if i == 0 and k == adwin.sizes[0] - 1:
                # This bucket is the newest, so there is no second part.
                return False
            is_cut = n_new >= least and n_old >= least
            if is_cut and _differ(adwin, n_old, n_new, total_old / n_old - total_new / n_new):
                _drop_oldest(adwin, top, 2.0**top)
                return True
    return False


@link_by_name
def update(adwin: Adwin, value: float) -> bool:
    """Insert a value into the window, and return whether a drift is detected."""
    if adwin.is_drift == 1:
        adwin.n_values = 0
        adwin.width = adwin.total = adwin.variance = 0.0
        for i in range(N_BUCKET_ROWS):
            adwin.sizes[i] = 0
    _insert(adwin, value)
    adwin.n_values += 1
    adwin.is_drift = 0
    if adwin.n_values % adwin.clock == 0 and adwin.width > adwin.grace_period:
        while _shrink(adwin):
            adwin.is_drift = 1
    return adwin.is_drift == 1


class DriftWatchRecord(Adwin):
    """A drift detector, and means of a model's errors, which are between 0 and 1."""

    detector: Int64 = stored(Bounds(NOBODY, OUTSIDE))
    # Mean and number of the errors since the last drift, and a running mean of recent errors.
    mean: Float64
    n_errors: Int64
    recent: Float64


@link_by_name
def watch(errors: DriftWatchRecord, error: float, n_to_keep: int, n_samples: int) -> int:
    """Learn the latest error, and return the number of samples to keep after a drift.

    Return 0 if no drift is detected, or if errors have not increased. `n_to_keep` is the number of
    samples to keep if a detector outside the package has detected a drift, and otherwise 0. The
    result is at most `n_samples`.
    """
    n_errors = errors.n_errors + 1
    mean = errors.mean + (error - errors.mean) / n_errors
    recent = errors.recent + FAST * (error - errors.recent)
    if errors.detector == ADWIN:
        # ADWIN's window now starts after the drift, so its samples are kept.
        n_to_keep = int(errors.width) if update(errors, error) else 0
    is_drift = n_to_keep > 0 and recent > mean
    errors.mean = recent if is_drift else mean
    errors.n_errors = 1 if is_drift else n_errors
    errors.recent = recent
    return min(max(n_to_keep, FEWEST_KEPT), n_samples) if is_drift else 0


# Parameters of `river.drift.ADWIN`, and their defaults.
PARAMETERS = ("delta", "clock", "max_buckets", "min_window_length", "grace_period")
DEFAULTS = (0.002, 32, 5, 5, 10)


class DriftWatch(Learned[DriftWatchRecord]):
    """The memory of a drift detector and of the means of a model's errors.

    Parameters
    ----------
    detector
        The detector of drifts: NOBODY, ADWIN or OUTSIDE.
    **parameters
        Parameters of `river.drift.ADWIN` that differ from River's defaults.

    """

    _KIND = DriftWatchRecord

    def __init__(self, detector: int = ADWIN, **parameters: float) -> None:
        values = dict(zip(PARAMETERS, DEFAULTS, strict=True)) | parameters
        super().__init__(detector=detector, **values)
        self.show()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        sizes = self.learned["sizes"]
        if sizes[-1] > 0 or self.record.width != (sizes * 2.0 ** np.arange(N_BUCKET_ROWS)).sum():
            refuse(self, "sizes", sizes, "but the window has another width")
