"""Learning and predicting with the posterior of ridge regression on a feature map.

Let the rows of Phi be the outputs of the map for the samples, and let A = Phi' Phi + delta2 I. The
posterior mean of the weights is A^-1 Phi' y (Balog et al. 2016, section 4.2.1). The posterior is
stored as a lower triangle T and a vector z. T is a Cholesky factor, T' T = A, and z satisfies T' z
= Phi' y. So the posterior mean w solves T w = z. Row j of T holds the entries of columns 0 to j.
Rows are stored one after another. A new column only adds a row, which is 0 except for its diagonal
sqrt(delta2) (Balog et al. 2016, section 5 and Supplement C).

Givens rotations add a sample to the rows, from the last row that the sample touches to the first:
A_new = A + phi(x) phi(x)'. Nothing is subtracted from A, so errors do not build up as they may in a
running inverse. `windows` removes samples.

In learning and predicting, the compiler must not reorder sums, because otherwise a mean might
depend on whether the variance is also computed. Only `solve`, which computes the weights, may use
any order.

A column gets a row at the first sample whose value in the column is not 0, unless the limit of rows
is reached. The intercept, if there is one, has row 0. The intercept's prior is flat, so the
diagonal of row 0 begins at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...checks import LARGEST_FINITE, LARGEST_SIZE, LEAST_POSITIVE
from ...compiling import kernels
from ...limits import DONE, LARGEST_TARGET, LARGEST_WEIGHT, NO_ROOM
from ...maps.record import MapRecord, Outputs, Sample
from ...records import Bounds, Float64, Float64s, Int32s, Int64, Int64s, Record
from ...records.record import derived, entry, sized, stored, transient


class HeldSamplesRecord(Outputs):
    """The held samples, which can be removed: outputs, key, target and weight in each slot."""

    # Largest number of samples.
    window: Int64 = stored(Bounds(1, LARGEST_SIZE))
    n_held: Int64 = stored(Bounds(0, below="most_slots"))
    # Capacities: slots, rows of the posterior, and columns of the map.
    n_slots: Int64
    n_rows: Int64
    n_columns: Int64
    # Number of cells, or of values, in a slot.
    n_cells: Int64
    n_values: Int64
    cells: Int32s = sized("n_slots", "n_cells", bounds=Bounds(0, below="n_columns"))
    values: Float64s = sized("n_slots", "n_values")
    # Index of the oldest sample's slot in `order`.
    head: Int64 = derived()
    # Estimated rounding errors in units of the machine epsilon: the error of the residual, and the
    # sum of squared errors of z.
    residual_error: Float64 = stored(Bounds(0.0))
    target_error: Float64 = stored(Bounds(0.0))
    # Rounded shift at the last refit; 0 before the first refit.
    origin: Float64 = stored(Bounds(-LARGEST_TARGET, LARGEST_TARGET))
    # For each row: sum of squared rounding errors of the squared diagonal, in units of the machine
    # epsilon.
    errors: Float64s = sized("n_rows", bounds=Bounds(0.0))
    order: Int32s
    # Key, target and weight of the sample in each slot.
    keys: Int64s = sized("n_slots")
    targets: Float64s = sized("n_slots", bounds=Bounds(-LARGEST_TARGET, LARGEST_TARGET))
    weights: Float64s = sized("n_slots", bounds=Bounds(0.0, LARGEST_WEIGHT))

    def most_slots(self) -> int:
        """Return the largest number of slots: one more than the window, for the newest sample."""
        return self.window + 1

    def width(self) -> int:
        """Return the number of outputs in a slot."""
        return self.n_cells + self.n_values

    def slot(self, k: int) -> int:
        """Return the slot of the k-th sample in order of arrival; a free slot if k >= `n_held`."""
        return self.order[(self.head + k) % self.n_slots]


class PosteriorNumbersRecord(Record):
    """The normal posterior of the weights, in units of the noise's standard deviation."""

    # Number of rows of the triangle, including the row of the intercept.
    n_rows: Int64
    # Number of samples in the posterior, whose weights are above 0. Number of all learned samples,
    # including removed samples and samples of weight 0.
    n_samples: Int64
    n_learned: Int64 = stored(Bounds(0, LARGEST_SIZE))
    has_intercept: Int64 = stored(Bounds(0, 1))
    # Largest number of rows.
    limit: Int64 = stored(Bounds(1, LARGEST_SIZE))
    # Prior precision of a weight, times the variance of the noise.
    delta2: Float64 = stored(Bounds(LEAST_POSITIVE, LARGEST_FINITE))
    # Sum of the squared errors of predictions, each divided by the prediction's variance.
    residual: Float64 = stored(Bounds(0.0, LARGEST_FINITE))
    # Sum of the logarithms of samples' weights.
    log_weights: Float64
    # With an intercept, the oldest target, which is subtracted from all targets; otherwise 0.
    shift: Float64
    # T, one row after another.
    factor: Float64s = sized("n_pairs")
    # z.
    moments: Float64s = sized("capacity")
    # For each column of the map: its row, or -1.
    slots: Int32s = sized("n_columns", bounds=Bounds(-1, below="n_rows"))
    # Record of the map; the map owns the record.
    feature_map: MapRecord
    # The held samples, if there is a window. Before the first sample, `Posterior` sets `learn` to
    # the function that learns a mapped sample.
    held: HeldSamplesRecord
    learn: Callable[[PosteriorNumbersRecord, Outputs, int, int, float, float], bool] = entry()
    # Capacities: rows, and columns of the map.
    capacity: Int64 = derived()
    n_columns: Int64 = derived()
    # Whether `solution` belongs to the current factor.
    is_solved: Int64 = transient()
    # Weights of the posterior mean, one per row.
    solution: Float64s = transient("capacity")
    # Buffer with a number per row; 0 between calls.
    work: Float64s = transient("capacity")

    def n_pairs(self) -> int:
        """Return the number of entries of the triangle."""
        return self.capacity * (self.capacity + 1) // 2

    def row(self, j: int) -> Float64s:
        """Return the entries of a row of the triangle; the last entry is the diagonal."""
        return self.factor.part(j * (j + 1) // 2, j + 1)


@kernels.helper
@kernels.ordered_sums
def output(
    is_dense: int, value: float, cells: Int32s, values: Float64s, first: int, i: int
) -> tuple[int, float]:
    """Return the column and the value of output i of the sample whose outputs start at `first`."""
    if is_dense:
        return i, values[first + i]
    return cells[first + i], value


# Learning.


@kernels.helper
@kernels.ordered_sums
def append(posterior: PosteriorNumbersRecord, outputs: Outputs, sample: int) -> bool:
    """Add a row for each new column of a mapped sample, up to the limit.

    Return whether there was room for the rows. Without room, the posterior is unchanged.
    """
    feature_map = posterior.feature_map
    is_dense, fixed, n_out = feature_map.is_dense, feature_map.value, feature_map.n_out
    cells, values, slots = outputs.cells, outputs.values, posterior.slots
    if posterior.capacity < min(posterior.limit, posterior.n_rows + n_out):
        n_new = 0
        for i in range(n_out):
            column, value = output(is_dense, fixed, cells, values, n_out * sample, i)
            if slots[column] < 0 and value != 0.0:
                n_new += 1
        if posterior.capacity < min(posterior.limit, posterior.n_rows + n_new):
            return False
    for i in range(n_out):
        column, value = output(is_dense, fixed, cells, values, n_out * sample, i)
        n = posterior.n_rows
        if slots[column] >= 0 or n >= posterior.limit or value == 0.0:
            continue
        row = posterior.row(n)
        for k in range(n):
            row[k] = 0.0
        row[n] = math.sqrt(posterior.delta2)
        posterior.moments[n] = 0.0
        slots[column] = n
        posterior.n_rows = n + 1
    return True


@kernels.helper
@kernels.ordered_sums
def spread(
    posterior: PosteriorNumbersRecord, outputs: Outputs, sample: int, root: float
) -> tuple[int, float]:
    """Write a mapped sample and the intercept, times `root`, to `work`.

    Return the last row written, and the sum of squared values in columns that have no row.
    """
    feature_map = posterior.feature_map
    is_dense, fixed, n_out = feature_map.is_dense, feature_map.value, feature_map.n_out
    cells, values, slots = outputs.cells, outputs.values, posterior.slots
    work, last, rest = posterior.work, -1, 0.0
    for i in range(n_out):
        column, value = output(is_dense, fixed, cells, values, n_out * sample, i)
        slot = slots[column]
        if slot < 0:
            rest += value * value
        elif value != 0.0:
            work[slot] = root * value
            last = max(last, slot)
    if posterior.has_intercept:
        work[0] = root
        last = max(last, 0)
    return last, rest


@kernels.helper
@kernels.ordered_sums
def rotate(posterior: PosteriorNumbersRecord, last: int, y: float) -> float:
    """Rotate the sample in `work` into rows `last` to 0, and return the remainder of its target."""
    work, moments = posterior.work, posterior.moments
    for j in range(last, -1, -1):
        entry = work[j]
        if entry == 0.0:
            continue
        row = posterior.row(j)
        diagonal = row[j]
        length = math.sqrt(diagonal * diagonal + entry * entry)
        cosine, sine = diagonal / length, entry / length
        row[j] = length
        for k in range(j):
            old, new = row[k], work[k]
            row[k] = cosine * old + sine * new
            work[k] = cosine * new - sine * old
        moment = moments[j]
        moments[j] = cosine * moment + sine * y
        y = cosine * y - sine * moment
        work[j] = 0.0
    return y


@kernels.helper
@kernels.ordered_sums
def add_sample(
    posterior: PosteriorNumbersRecord, outputs: Outputs, sample: int, target: float, weight: float
) -> None:
    """Add a mapped sample with a positive weight, whose columns already have rows."""
    if posterior.has_intercept and posterior.n_samples == 0:
        posterior.shift = target
    root = math.sqrt(weight)
    last, _ = spread(posterior, outputs, sample, root)
    y = rotate(posterior, last, root * (target - posterior.shift))
    posterior.residual += y * y
    posterior.log_weights += math.log(weight)
    posterior.n_samples += 1
    posterior.is_solved = 0


@kernels.link_by_name
@kernels.ordered_sums
def learn_sample(
    posterior: PosteriorNumbersRecord,
    outputs: Outputs,
    sample: int,
    key: int,
    target: float,
    weight: float,
) -> bool:
    """Learn a mapped sample, ignore its key, and return whether its columns had room."""
    if posterior.feature_map.n_columns > posterior.n_columns:
        return False
    if weight != 0.0 and not append(posterior, outputs, sample):
        return False
    posterior.n_learned += 1
    posterior.feature_map.is_ahead = 0
    if weight != 0.0:
        add_sample(posterior, outputs, sample, target, weight)
    return True


# Predicting.


@kernels.link_by_name
def solve(posterior: PosteriorNumbersRecord) -> None:
    """Compute the posterior mean of the weights."""
    solution = posterior.solution
    for j in range(posterior.n_rows):
        row = posterior.row(j)
        total = 0.0
        for k in range(j):
            total += row[k] * solution[k]
        diagonal = row[j]
        solution[j] = (posterior.moments[j] - total) / diagonal if diagonal > 0.0 else 0.0
    posterior.is_solved = 1


@kernels.helper
@kernels.ordered_sums
def variance_of(posterior: PosteriorNumbersRecord, last: int, known: float) -> float:
    """Return `known` + |T'^-1 v|^2, where v is the vector in `work`.

    The second term is the variance v' A^-1 v that the weights contribute to the prediction of
    sample v, because A^-1 = T^-1 T'^-1.
    """
    work, variance = posterior.work, known
    for j in range(last, -1, -1):
        if work[j] == 0.0:
            continue
        row = posterior.row(j)
        step = work[j] / row[j]
        variance += step * step
        for k in range(j):
            work[k] -= step * row[k]
        work[j] = 0.0
    return variance


@kernels.link_by_name
@kernels.ordered_sums
def predict_sample(
    posterior: PosteriorNumbersRecord, outputs: Outputs, sample: int, with_variance: bool
) -> tuple[float, float]:
    """Return the mean and the variance of a mapped sample's target.

    The variance is in units of the noise variance. Without `with_variance`, the returned variance
    is infinite. With an intercept but no sample, the mean is 0 and the variance infinite.
    """
    if posterior.has_intercept and posterior.n_samples == 0:
        return 0.0, math.inf
    if not posterior.is_solved:
        solve(posterior)
    is_dense, n_out = posterior.feature_map.is_dense, posterior.feature_map.n_out
    work, solution, slots = posterior.work, posterior.solution, posterior.slots
    last, rest = spread(posterior, outputs, sample, 1.0)
    mean = posterior.shift
    for i in range(n_out):
        slot = slots[i if is_dense else outputs.cells[n_out * sample + i]]
        if slot >= 0:
            mean += work[slot] * solution[slot]
            if not with_variance:
                work[slot] = 0.0
    if posterior.has_intercept:
        mean += solution[0]
    if not with_variance:
        if posterior.has_intercept:
            work[0] = 0.0
        return mean, math.inf
    known = 1.0
    if posterior.n_rows < posterior.limit:
        # A column without a row contributes its prior variance, because no sample has informed it.
        known += 1.0 / posterior.delta2 * rest
    return mean, variance_of(posterior, last, known)


@kernels.batch_kernel
@kernels.ordered_sums
def predict_one(
    posterior: PosteriorNumbersRecord, sample: Sample, outputs: Outputs, with_variance: bool
) -> tuple[int, float, float]:
    """Map a sample and predict it.

    Return DONE, NO_ROOM or the index of an invalid input, then the mean and the variance.
    """
    feature_map = posterior.feature_map
    bad = feature_map.transform(feature_map, sample, outputs)
    if bad >= 0:
        return bad, 0.0, 0.0
    if feature_map.n_columns > posterior.n_columns:
        return NO_ROOM, 0.0, 0.0
    mean, variance = predict_sample(posterior, outputs, 0, with_variance)
    return DONE, mean, variance


@kernels.batch_kernel
@kernels.ordered_sums
def predict_rows(
    posterior: PosteriorNumbersRecord,
    outputs: Outputs,
    n: int,
    with_variance: bool,
    moments: Float64s,
) -> None:
    """Write the means and variances of `n` mapped samples' targets to `moments`, shape (n, 2)."""
    for i in range(n):
        moments[2 * i], moments[2 * i + 1] = predict_sample(posterior, outputs, i, with_variance)


@kernels.batch_kernel
def log_determinant(posterior: PosteriorNumbersRecord) -> float:
    """Return ln det A: twice the sum of the logarithms of T's diagonal."""
    total = 0.0
    for j in range(posterior.n_rows):
        total += 2.0 * math.log(posterior.row(j)[j])
    return total
