"""The distribution of a target around a predicted point: its width and its tails.

The distribution is a mixture. Each component is a Student or normal distribution around the point.
The mean absolute deviation of a component is a factor times one of two guesses of the error's size.
The first guess is the mean size of errors over a long time. The second guess is the first guess
times the exponential of a linear function. The terms of this function are a constant and the
logarithms of three relative sizes: recent errors, the disagreement of the experts, and the error
that a regression predicts.

A fixed share (Herbster and Warmuth 1998) weighs the components by the square roots of their
densities at the targets. With the densities themselves, the weights would concentrate on one
component, even if no component fits the errors. Then intervals would be too narrow.
"""

import math

import numpy as np

from ... import checks, limits
from ...compiling.kernels import helper, kernel, link_by_name
from ...predictive import PredictiveDistribution
from ...records import Bounds, Float64, Float64s, Int64, Record, sized, stored, transient
from ..experts import SHARE_RATE, relative_weight, share
from ..learned import Learned
from .mixing import LEAST_WIDTH, faded_mean
from .solving import add_to_moments, add_to_triangle, dot, factorize, solve_factorized

# The compiler must not reorder sums, because batches and single samples must have equal results.
ORDERED_SUMS = True

# Guesses of the size of an error, factors of the guesses, and degrees of freedom.
LONG, COMBINED = range(2)
N_GUESSES = 2
FACTORS = tuple(2.0 ** (k / 2.0) for k in range(-4, 4))
N_FACTORS = len(FACTORS)
FREEDOMS = (3.0, 9.0, math.inf)
N_FREEDOMS = len(FREEDOMS)
N_COMPONENTS = N_GUESSES * N_FACTORS * N_FREEDOMS


def _density_factor(v: float) -> float:
    """Return the density of Student's distribution at 0, for `v` degrees of freedom."""
    if math.isinf(v):
        return 1.0 / math.sqrt(2.0 * math.pi)
    gammas = math.lgamma((v + 1.0) / 2.0) - math.lgamma(v / 2.0)
    return math.exp(gammas) / math.sqrt(v * math.pi)


# Densities of Student's distributions at 0, and mean absolute values of these distributions.
AT_0 = tuple(map(_density_factor, FREEDOMS))
MEAN_SIZES = tuple(
    math.sqrt(2.0 / math.pi) if math.isinf(v) else 2.0 * v / (v - 1.0) * at_0
    for v, at_0 in zip(FREEDOMS, AT_0, strict=True)
)

# Number of errors in the long and the short mean.
N_LONG, N_SHORT = 300.0, 20.0
# Largest ratio of the long mean to the short mean.
LONGEST = 8.0
# Bounds of logarithms of ratios, for example of log(size of an error / long mean).
SMALLEST, LARGEST = -3.0, 3.0
# The combined guess: number of terms of its linear function, factor of past sums at each sample,
# and prior precision in samples, except for the constant term.
N_TERMS = 4
N_PAIRS = N_TERMS * (N_TERMS + 1) // 2
KEPT = 0.999
PRIOR = 20.0
# Least guess, as a fraction of the absolute value of the predicted point.
LEAST_PART = 1e-12


class ErrorDistributionRecord(Record):
    """Statistics of the errors of predictions, and the weights of the components."""

    n_samples: Int64 = stored(Bounds(0, checks.LARGEST_SIZE))
    largest_weight: Float64 = stored(Bounds(1.0, limits.LARGEST_WEIGHT))
    last_target: Float64
    move: Float64
    # Mean size of the errors over a long and over a short time, and mean disagreement of the
    # experts.
    long: Float64
    short: Float64
    disagreement: Float64
    # The regression of the combined guess.
    gram: Float64s = sized(N_PAIRS)
    moments: Float64s = sized(N_TERMS)
    line: Float64s = sized(N_TERMS)
    # Weight of each component; the sum is 1.
    weights: Float64s = sized(N_COMPONENTS, bounds=Bounds(0.0, 1.0))
    # For the last sample: the terms of the linear function, and the guesses.
    terms: Float64s = transient(N_TERMS)
    guesses: Float64s = transient(N_GUESSES)
    densities: Float64s = transient(N_COMPONENTS)
    triangle: Float64s = transient(N_PAIRS)
    vector: Float64s = transient(N_TERMS)
    work: Float64s = transient(N_TERMS)


@helper
def log_ratio(a: float, b: float) -> float:
    """Return the logarithm of a / b within bounds, or 0 if `a` or `b` is not positive."""
    if not (a > 0.0 and b > 0.0):
        return 0.0
    return min(max(math.log(a / b), SMALLEST), LARGEST)


@kernel
def guess(errors: ErrorDistributionRecord, point: float, spread: float, size: float) -> None:
    """Write the guesses of an error's size."""
    terms, guesses = errors.terms, errors.guesses
    terms[0] = 1.0
    terms[1] = log_ratio(errors.short, errors.long)
    terms[2] = log_ratio(spread, errors.disagreement)
    terms[3] = min(max(size, SMALLEST), LARGEST)
    combined = min(max(dot(errors.line, terms, N_TERMS), SMALLEST), LARGEST)
    guesses[LONG] = errors.long
    guesses[COMBINED] = errors.long * math.exp(combined)
    least = max(LEAST_WIDTH * errors.move, LEAST_PART * abs(point))
    for g in range(N_GUESSES):
        # Before the first target, the size of errors is unknown, so the guess is 1.
        guesses[g] = max(guesses[g], max(least, 1e-300)) if errors.n_samples > 0 else 1.0


@helper
def find_densities(errors: ErrorDistributionRecord, error: float) -> None:
    """Write the density of each component at an error, up to a common factor."""
    densities, guesses = errors.densities, errors.guesses
    largest, c = max(0.0, guesses[LONG], guesses[COMBINED]), 0
    for g in range(N_GUESSES):
        z0, height = error / guesses[g], largest / guesses[g]
        square = min(z0 * z0, 1e30)
        for f in range(N_FACTORS):
            scaled, relative = square / (FACTORS[f] * FACTORS[f]), height / FACTORS[f]
            root = 1.0 + scaled * (MEAN_SIZES[0] * MEAN_SIZES[0] / FREEDOMS[0])
            densities[c] = relative * (AT_0[0] * MEAN_SIZES[0]) / (root * root)
            root = 1.0 + scaled * (MEAN_SIZES[1] * MEAN_SIZES[1] / FREEDOMS[1])
            fourth = root * root * root * root
            densities[c + 1] = relative * (AT_0[1] * MEAN_SIZES[1]) / (fourth * root)
            fall = math.exp(-0.5 * scaled * (MEAN_SIZES[2] * MEAN_SIZES[2]))
            densities[c + 2] = relative * (AT_0[2] * MEAN_SIZES[2]) * fall
            c += N_FREEDOMS


@helper
def combine(errors: ErrorDistributionRecord, size: float, weight: float) -> None:
    """Update the combined guess with the logarithm of an error's size."""
    add_to_triangle(errors.gram, N_TERMS, errors.terms, KEPT, weight)
    add_to_moments(errors.moments, N_TERMS, errors.terms, KEPT, weight * size)
    triangle, vector = errors.triangle, errors.vector
    for i in range(N_PAIRS):
        triangle[i] = errors.gram[i]
    for j in range(N_TERMS):
        triangle[j * (j + 1) // 2 + j] += 0.1 if j == 0 else PRIOR
        vector[j] = errors.moments[j]
    factorize(triangle, N_TERMS, errors.work)
    solve_factorized(triangle, N_TERMS, vector)
    for j in range(N_TERMS):
        errors.line[j] = vector[j]


@link_by_name
def learn(
    errors: ErrorDistributionRecord,
    point: float,
    spread: float,
    size: float,
    target: float,
    weight: float,
) -> float:
    """Learn the target of the prediction `point`, and return the logarithm of the error's size.

    Parameters
    ----------
    errors
        The distribution of errors.
    point
        The prediction.
    spread
        Disagreement of the experts.
    size
        A regression's prediction of the returned value.
    target
        The target.
    weight
        The sample's weight.

    Returns
    -------
    The clipped logarithm of the error's size divided by the mean size of errors; 0 if this mean is
    still 0.

    """
    guess(errors, point, spread, size)
    error, n = target - point, errors.n_samples
    errors.largest_weight, power = relative_weight(weight, errors.largest_weight)
    log_size = 0.0
    if n > 0:
        moved = abs(target - errors.last_target)
        errors.move = faded_mean(errors.move, moved, 1.0 / min(1.0 + n, N_LONG), n)
    errors.last_target = target
    if errors.long > 0.0:
        log_size = log_ratio(abs(error), errors.long) if error != 0.0 else SMALLEST
        find_densities(errors, error)
        densities = errors.densities
        for c in range(N_COMPONENTS):
            densities[c] = math.sqrt(densities[c])
        share(errors.weights, N_COMPONENTS, densities, power, SHARE_RATE)
        combine(errors, log_size, power)
    errors.long = faded_mean(errors.long, abs(error), 1.0 / min(1.0 + n, N_LONG), n)
    errors.short = faded_mean(errors.short, abs(error), 1.0 / min(1.0 + n, N_SHORT), n)
    # The bound exists because an outlier among the first targets would dominate the long mean.
    errors.long = min(errors.long, LONGEST * errors.short)
    errors.disagreement += (spread - errors.disagreement) / min(1.0 + n, N_LONG)
    errors.n_samples = n + 1
    return log_size


_FREEDOMS = np.tile(np.array(FREEDOMS), N_GUESSES * N_FACTORS)
_OF_SIZES = np.array([[f / m for m in MEAN_SIZES] for f in FACTORS]).ravel()
# Scales of the components for each guess, in units of the guess, shape (N_COMPONENTS, N_GUESSES).
_BY_GUESS = np.kron(np.eye(N_GUESSES), _OF_SIZES[:, None])


class ErrorDistribution(Learned[ErrorDistributionRecord]):
    """The memory of the distribution of errors."""

    _KIND = ErrorDistributionRecord

    def __init__(self) -> None:
        super().__init__(largest_weight=1.0)
        self.learned["weights"][:] = 1.0 / N_COMPONENTS
        self.show()

    def distribution(
        self, point: float, spread: float, size: float, n: int = 0
    ) -> PredictiveDistribution:
        """Return the distribution of a target with the prediction `point` (see `learn`)."""
        guess(self.record, point, spread, size)
        scales = np.outer(self.memory.arrays["guesses"], _OF_SIZES).ravel()
        weights = self.learned["weights"] / self.learned["weights"].sum()
        return PredictiveDistribution(weights, np.full(len(scales), point), scales, _FREEDOMS, n)

    def mean_scale(self, point: float, spread: float, size: float) -> float:
        """Return the mean scale of the components of `distribution`."""
        guess(self.record, point, spread, size)
        return float(self.learned["weights"].dot(_BY_GUESS).dot(self.memory.arrays["guesses"]))
