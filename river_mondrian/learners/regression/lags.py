"""Predictions of a target from the latest targets and the latest errors of another prediction.

Let p be the other prediction, y_1, y_2, ... the latest targets and e_1, e_2, ... the errors of p
for these targets. For the next target y, a linear regression predicts y - p from e_i and y_i - p.
If the e_i and y_i are uninformative, the prediction stays near p. If p is uninformative, the
prediction may become the last target.

Two regressions learn by recursive least squares, with a ridge of 1. One regression forgets old
samples. The differences y - p, e_i and y_i - p are divided by a unit and clipped at `FAR`. The unit
is the recent mean of the larger of |y - p| and |y - y_1|. If a sample's error exceeds the mean size
of errors, the sample's weight is divided by their ratio, so absolute errors are nearly minimized.
The last target is a third prediction.
"""

import numpy as np

from ...compiling.kernels import helper, link_by_name
from ...records import Bounds, Float64, Float64s, Int64, Record, sized, stored, transient
from ..learned import Learned
from .records import FAR, N_OF_LATE

# The compiler must not reorder sums, because batches and single samples must have equal results.
ORDERED_SUMS = True

# Number of latest targets, and of latest errors.
N_LAGS = 4
N_COLUMNS = 2 * N_LAGS

# Forgetting factor of each regression.
KEPT = (1.0, 0.99)
N_REGRESSIONS = len(KEPT)
# Predictions: the prediction of each regression, and the last target.
N_PREDICTIONS = N_REGRESSIONS + 1
NAMES = ("targets and errors of late", "latest targets and errors", "last target")

# Bound on the trace of the inverse, as a multiple of its initial value: beyond it, nothing is
# forgotten.
MOST_UNKNOWN = 10.0


class LaggedTargetsRecord(Record):
    """The latest targets and errors, and the regressions on them."""

    n_samples: Int64 = stored(Bounds(0))
    # The latest targets and errors, in reverse order of arrival.
    targets: Float64s = sized(N_LAGS)
    errors: Float64s = sized(N_LAGS)
    # Unit of the differences (module docstring).
    scale: Float64 = stored(Bounds(0.0))
    # For each regression: the mean size of its errors in units of `scale`, its weights, and the
    # inverse of its Gram matrix.
    sizes: Float64s = sized(N_REGRESSIONS)
    weights: Float64s = sized(N_REGRESSIONS, N_COLUMNS)
    inverses: Float64s = sized(N_REGRESSIONS, N_COLUMNS, N_COLUMNS)
    # For the last sample: the scaled differences, the other prediction, and all predictions.
    columns: Float64s = transient(N_COLUMNS)
    base: Float64 = transient()
    predicted: Float64s = transient(N_PREDICTIONS)
    work: Float64s = transient(N_COLUMNS)

    def weights_of(self, r: int) -> Float64s:
        """Return the weights of a regression."""
        return self.weights.part(N_COLUMNS * r, N_COLUMNS)


@helper
def _in_units(difference: float, scale: float) -> float:
    return min(max(difference / scale, -FAR), FAR) if scale > 0.0 else 0.0


@link_by_name
def predict(lags: LaggedTargetsRecord, base: float) -> None:
    """Predict the next target, given another prediction `base`."""
    columns, predicted, known = lags.columns, lags.predicted, min(lags.n_samples, N_LAGS)
    lags.base = base
    for i in range(N_COLUMNS):
        columns[i] = 0.0
    for i in range(known):
        columns[i] = _in_units(lags.errors[i], lags.scale)
        columns[N_LAGS + i] = _in_units(lags.targets[i] - base, lags.scale)
    for r in range(N_REGRESSIONS):
        weights, total = lags.weights_of(r), 0.0
        for i in range(N_COLUMNS):
            total += weights[i] * columns[i]
        predicted[r] = base + total * lags.scale
    predicted[N_REGRESSIONS] = lags.targets[0] if known > 0 else base


@link_by_name
def _learn_regression(lags: LaggedTargetsRecord, r: int, left: float, weight: float) -> None:
    """Update a regression by recursive least squares. `left` is the scaled error of `base`."""
    n, columns, weights, forgetting = N_COLUMNS, lags.columns, lags.weights_of(r), KEPT[r]
    inverse, gains, total, error = lags.inverses.part(n * n * r, n * n), lags.work, 0.0, left
    for i in range(n):
        gains[i] = 0.0
        for j in range(n):
            gains[i] += inverse[n * i + j] * columns[j]
        total += columns[i] * gains[i]
        error -= weights[i] * columns[i]
    size = abs(error)
    if size > lags.sizes[r] > 0.0:
        weight *= lags.sizes[r] / size
    lags.sizes[r] += (size - lags.sizes[r]) / min(1.0 + lags.n_samples, N_OF_LATE)
    total = forgetting / weight + total
    trace = 0.0
    for i in range(n):
        trace += inverse[n * i + i]
    # The trace is bounded, because otherwise the inverse would grow exponentially in directions
    # without recent samples.
    grows = 1.0 / forgetting if trace < MOST_UNKNOWN * n else 1.0
    for i in range(n):
        weights[i] += gains[i] * (error / total)
        for j in range(i + 1):
            lower = (inverse[n * i + j] - gains[i] * gains[j] / total) * grows
            inverse[n * i + j] = inverse[n * j + i] = lower


@link_by_name
def learn(lags: LaggedTargetsRecord, target: float, weight: float) -> None:
    """Learn the target of the last predicted sample; a weight above 1 counts as 1."""
    error, moved, n_samples = target - lags.base, abs(target - lags.base), lags.n_samples
    if n_samples > 0:
        moved = max(moved, abs(target - lags.targets[0]))
    if lags.scale > 0.0:
        left = _in_units(error, lags.scale)
        for r in range(N_REGRESSIONS):
            _learn_regression(lags, r, left, min(weight, 1.0))
        moved = min(moved, FAR * lags.scale)
    lags.scale += (moved - lags.scale) / min(1.0 + n_samples, N_OF_LATE)
    for i in range(N_LAGS - 1, 0, -1):
        lags.targets[i] = lags.targets[i - 1]
        lags.errors[i] = lags.errors[i - 1]
    lags.targets[0], lags.errors[0] = target, error
    lags.n_samples = n_samples + 1


class LaggedTargets(Learned[LaggedTargetsRecord]):
    """The memory of the latest targets, and of the regressions on them."""

    _KIND = LaggedTargetsRecord

    def __init__(self) -> None:
        super().__init__()
        self.learned["inverses"][:] = np.eye(N_COLUMNS)
        self.show()
