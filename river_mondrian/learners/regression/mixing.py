"""Mixtures of experts' predictions of a target, weighted by past errors.

Experts are mixed in four ways:

- A fixed share (Herbster and Warmuth 1998) uses Student densities around the experts' predictions.
  The width of a density is the mean size of the expert's recent errors.
- A product update, the algorithm Prod (Cesa-Bianchi, Mansour and Stoltz 2007), uses the gradient
  of the absolute error.
- Two regressions of the targets on the predictions are shrunk towards the fixed share. The first
  regression minimizes squared errors. The second regression divides each squared error by the
  error's size, and so nearly minimizes absolute errors.

A last fixed share mixes the predictions of these four mixtures, the *finalists*, into one
prediction, the *point*. If the loss is the squared error, the last share and the product update use
squared errors. In this case, the second regression uses squared errors over a longer time.

Results do not depend on the units of targets. A sample of weight w has the weight w in sums. In
fixed shares and in the product update, w is divided by the largest recent weight, which is at least
1. The reason is that the loss bound of a fixed share assumes weights of at most 1.
"""

import math

import numpy as np

from ... import checks, limits
from ...compiling.kernels import helper, link_by_name
from ...records import Bounds, Float64, Float64s, Floats, Int64, Record, sized, stored, transient
from ..experts import SHARE_RATE, relative_weight, share
from ..learned import Learned
from .records import FAR, FIRST_ERRORS, N_OF_LATE
from .solving import add_to_moments, add_to_triangle, dot, factorize, solve_factorized

# The compiler must not reorder sums, because batches and single samples must have equal results.
ORDERED_SUMS = True

# Bound on the number of experts.
MOST_EXPERTS = 1 << 12

# The finalists: indices of `TargetMixtureRecord.finalists`.
SHARED, DESCENDED, BY_SQUARES, BY_SIZES = range(4)
N_FINALISTS = 4
N_REGRESSIONS = 2
# Losses that the point may minimize.
ABSOLUTE, SQUARED = range(2)

# Degrees of freedom of the densities. The number is 3, because a density then needs no power
# function.
FREEDOM = 3.0
# The width of a density is the mean size of recent errors, but at least LEAST_WIDTH times the mean
# absolute difference of successive targets.
LEAST_WIDTH = 1e-6
# Rate of the product update, and fraction of its weights that is spread evenly.
STEP = 0.05
SPREAD = 1e-3
# Regressions: factor of past sums at each sample (LONG_KEPT over the longer time), prior precision
# in samples, and number of samples between solutions.
KEPT = 0.998
LONG_KEPT = 0.9998
PRIOR = 2.0
SOLVED_AFTER = 16
# Likelihoods by squared errors, in units of the squared narrowest width: largest difference of two
# squared errors, and factor of this difference in the exponent. Regressions by absolute errors: the
# least error, in units of the mean error.
MOST_SQUARES = 20.0
RATE_OF_SQUARES = 0.25
LEAST_ERROR = 0.1


# Bounds of weights that add up to 1.
SHARE = Bounds(0.0, 1.0)


class TargetMixtureRecord(Record):
    """Experts that predict a target, and the state of their mixture."""

    n_experts: Int64 = stored(Bounds(1, MOST_EXPERTS))
    loss: Int64 = stored(Bounds(ABSOLUTE, SQUARED))
    n_samples: Int64 = stored(Bounds(0, checks.LARGEST_SIZE))
    # Largest recent weight of a sample (see `experts.relative_weight`).
    largest_weight: Float64 = stored(Bounds(1.0, limits.LARGEST_WEIGHT))
    # The latest target, and the mean size of the differences between successive targets.
    last_target: Float64
    move: Float64
    # Mean distance of the experts' predictions from the point, weighted by `descended`, over recent
    # samples.
    difference: Float64
    # Weight of each expert in the fixed share, and in the product update. Both arrays add up to 1.
    shared: Float64s = sized("n_experts", bounds=SHARE)
    descended: Float64s = sized("n_experts", bounds=SHARE)
    # Mean size of the recent errors of each expert, and of each finalist.
    widths: Float64s = sized("n_experts")
    last_widths: Float64s = sized(N_FINALISTS)
    # Weight of each finalist in the last share.
    last_weights: Float64s = sized(N_FINALISTS, bounds=SHARE)
    # For each regression: sums of products of predictions, and of predictions and targets. The
    # fixed share's prediction is subtracted from both first. So a solution has the weights of the
    # experts' deviations, whose weighted sum is added to the fixed share's prediction.
    grams: Float64s = sized(N_REGRESSIONS, "n_pairs")
    moments: Float64s = sized(N_REGRESSIONS, "n_experts")
    solutions: Float64s = sized(N_REGRESSIONS, "n_experts")
    next_solution: Int64 = stored(Bounds(0, checks.LARGEST_SIZE))
    # For the last sample: the experts' predictions, their deviations from the fixed share, the
    # finalists, the point, and the experts' mean distance from the point, weighted by `descended`.
    predicted: Float64s = transient("n_experts")
    deviations: Float64s = transient("n_experts")
    finalists: Float64s = transient(N_FINALISTS)
    point: Float64 = transient()
    spread: Float64 = transient()
    # Buffers for the fixed shares of experts and of finalists, and for solving regressions.
    densities: Float64s = transient("n_densities")
    triangle: Float64s = transient("n_pairs")
    vector: Float64s = transient("n_experts")
    work: Float64s = transient("n_experts")

    def n_pairs(self) -> int:
        """Return the number of elements of a triangle."""
        return self.n_experts * (self.n_experts + 1) // 2

    def n_densities(self) -> int:
        """Return the largest number of densities in a share."""
        return max(self.n_experts, N_FINALISTS)

    def solution(self, r: int) -> Float64s:
        """Return the weights of a regression."""
        return self.solutions.part(self.n_experts * r, self.n_experts)


@helper
def predict(mixture: TargetMixtureRecord) -> float:
    """Mix the predictions of the experts, and return the point."""
    n, predicted, finalists = mixture.n_experts, mixture.predicted, mixture.finalists
    deviations, low, high = mixture.deviations, predicted[0], predicted[0]
    for e in range(1, n):
        low, high = min(low, predicted[e]), max(high, predicted[e])
    # One expert's prediction is subtracted, because the result is then exact if all experts agree.
    base = predicted[0]
    for e in range(n):
        deviations[e] = predicted[e] - base
    shared = dot(mixture.shared, deviations, n)
    finalists[SHARED] = base + shared
    finalists[DESCENDED] = base + dot(mixture.descended, deviations, n)
    for e in range(n):
        deviations[e] = deviations[e] - shared
    for r in range(N_REGRESSIONS):
        by_squares = finalists[SHARED] + dot(mixture.solution(r), deviations, n)
        beyond = 0.25 * (high - low)
        finalists[BY_SQUARES + r] = min(max(by_squares, low - beyond), high + beyond)
    point = 0.0
    for f in range(N_FINALISTS):
        point += mixture.last_weights[f] * (finalists[f] - finalists[SHARED])
    point += finalists[SHARED]
    spread = 0.0
    for e in range(n):
        spread += mixture.descended[e] * abs(predicted[e] - point)
    mixture.point, mixture.spread = point, spread
    return point


@helper
def recall(mixture: TargetMixtureRecord, numbers: Float64s) -> int:
    """Restore an earlier sample's predictions, and return the number of elements read.

    `numbers` begins with an array that `TargetMixture.to_recall` returned.
    """
    n = mixture.n_experts
    for f in range(N_FINALISTS):
        mixture.finalists[f] = numbers[n + f]
    for e in range(n):
        mixture.predicted[e] = numbers[e]
        mixture.deviations[e] = numbers[e] - mixture.finalists[SHARED]
    mixture.spread = numbers[n + N_FINALISTS]
    return n + N_FINALISTS + 1


@helper
def find_densities(
    densities: Float64s, n: int, points: Float64s, target: float, widths: Float64s, least: float
) -> None:
    """Write the Student densities of a target around points, up to a common factor."""
    narrowest = math.inf
    for e in range(n):
        narrowest = min(narrowest, max(widths[e], least))
    for e in range(n):
        width = max(widths[e], least)
        error = (target - points[e]) / width
        # The density has the factor (1 + z^2 / 3)^-2, whose exponent is -(freedom + 1) / 2.
        root = 1.0 + min(error * error, 1e30) / FREEDOM
        densities[e] = narrowest / width / (root * root)


@helper
def find_likelihoods(
    densities: Float64s, n: int, points: Float64s, target: float, widths: Float64s, least: float
) -> None:
    """Write likelihoods of points by their squared errors, up to a common factor."""
    narrowest, nearest = math.inf, math.inf
    for e in range(n):
        narrowest = min(narrowest, max(widths[e], least))
        nearest = min(nearest, abs(target - points[e]))
    for e in range(n):
        # The difference of squares is (a - b)(a + b). Both factors are divided before the product,
        # which may overflow otherwise.
        error = abs(target - points[e])
        excess = (error - nearest) / narrowest * ((error + nearest) / narrowest)
        densities[e] = math.exp(-RATE_OF_SQUARES * min(excess, MOST_SQUARES))


@helper
def faded_mean(mean: float, size: float, rate: float, n_samples: int) -> float:
    """Return a mean of sizes updated with a new size.

    After `FIRST_ERRORS` samples, the new size is clipped at `FAR` means.
    """
    if n_samples >= FIRST_ERRORS and mean > 0.0:
        size = min(size, FAR * mean)
    return mean + rate * (size - mean)


@helper
def descend(mixture: TargetMixtureRecord, target: float, part: float) -> None:
    """Update the weights by the product update, w <- w (1 - step * gradient)."""
    n, weights, predicted = mixture.n_experts, mixture.descended, mixture.predicted
    point, unit = mixture.finalists[DESCENDED], mixture.difference
    if not unit > 0.0:
        return
    step = STEP * part / unit
    if mixture.loss == SQUARED:
        width = mixture.last_widths[DESCENDED]
        step *= min(abs(point - target) / width, FAR) if width > 0.0 else 1.0
    step, total = -step if point < target else step, 0.0
    for e in range(n):
        moved = min(max(step * (predicted[e] - point), -0.5), 0.5)
        weights[e] = weights[e] * (1.0 - moved)
        total += weights[e]
    for e in range(n):
        weights[e] = (1.0 - SPREAD) * (weights[e] / total) + SPREAD / n


@link_by_name
def solve_regression(mixture: TargetMixtureRecord, r: int) -> None:
    """Solve for a regression's weights of the experts' deviations from the fixed share."""
    n = mixture.n_experts
    size = mixture.n_pairs()
    gram, triangle = mixture.grams.part(size * r, size), mixture.triangle
    vector, solution = mixture.vector, mixture.solution(r)
    trace = 0.0
    for e in range(n):
        trace += gram[e * (e + 1) // 2 + e]
    if not 1e-280 < trace < math.inf:
        return
    # The mean of the diagonal is scaled to 1, because the ridge has no unit. With the factor KEPT,
    # sums contain at most 1 / (1 - KEPT) samples. The ridge is `PRIOR` samples once sums contain
    # this number, and in proportion before.
    factor = n / trace
    ridge = PRIOR * (1.0 - KEPT) + 1e-9
    for i in range(size):
        triangle[i] = gram[i] * factor
    for e in range(n):
        triangle[e * (e + 1) // 2 + e] = triangle[e * (e + 1) // 2 + e] + ridge
        vector[e] = mixture.moments[n * r + e] * factor
    factorize(triangle, n, mixture.work)
    solve_factorized(triangle, n, vector)
    for e in range(n):
        solution[e] = vector[e]


@helper
def regress(mixture: TargetMixtureRecord, target: float, weight: float) -> None:
    """Update the regressions with a target."""
    n, deviations = mixture.n_experts, mixture.deviations
    size, unit = mixture.n_pairs(), mixture.last_widths[SHARED]
    left = target - mixture.finalists[SHARED]
    if unit > 0.0:
        left = min(max(left, -FAR * unit), FAR * unit)
    for r in range(N_REGRESSIONS):
        by, forgetting = weight, KEPT
        if r == BY_SIZES - BY_SQUARES:
            if mixture.loss == SQUARED:
                forgetting = LONG_KEPT
            elif unit > 0.0:
                error = abs(target - mixture.finalists[BY_SIZES]) / unit
                by = weight / max(error, LEAST_ERROR)
        add_to_triangle(mixture.grams.part(size * r, size), n, deviations, forgetting, by)
        add_to_moments(mixture.moments.part(n * r, n), n, deviations, forgetting, by * left)
    if mixture.n_samples >= mixture.next_solution:
        mixture.next_solution = mixture.n_samples + SOLVED_AFTER
        for r in range(N_REGRESSIONS):
            solve_regression(mixture, r)


@link_by_name
def learn(mixture: TargetMixtureRecord, target: float, weight: float) -> None:
    """Update the mixture with the target of the last predicted sample."""
    n, n_samples = mixture.n_experts, mixture.n_samples
    predicted, finalists, densities = mixture.predicted, mixture.finalists, mixture.densities
    mixture.largest_weight, part = relative_weight(weight, mixture.largest_weight)
    rate = 1.0 / min(1.0 + n_samples, N_OF_LATE)
    if n_samples > 0:
        moved = abs(target - mixture.last_target)
        mixture.move = faded_mean(mixture.move, moved, rate, n_samples)
    mixture.last_target = target
    mixture.difference += rate * (mixture.spread - mixture.difference)
    least = LEAST_WIDTH * mixture.move
    if least > 0.0 and n_samples > 0:
        find_densities(densities, n, predicted, target, mixture.widths, least)
        share(mixture.shared, n, densities, part, SHARE_RATE)
        widths = mixture.last_widths
        if mixture.loss == SQUARED:
            find_likelihoods(densities, N_FINALISTS, finalists, target, widths, least)
        else:
            find_densities(densities, N_FINALISTS, finalists, target, widths, least)
        share(mixture.last_weights, N_FINALISTS, densities, part, SHARE_RATE)
        descend(mixture, target, part)
        regress(mixture, target, weight)
    widths, last_widths = mixture.widths, mixture.last_widths
    for e in range(n):
        widths[e] = faded_mean(widths[e], abs(target - predicted[e]), rate, n_samples)
    for f in range(N_FINALISTS):
        last_widths[f] = faded_mean(last_widths[f], abs(target - finalists[f]), rate, n_samples)
    mixture.n_samples = n_samples + 1


class TargetMixture(Learned[TargetMixtureRecord]):
    """The memory of experts and of their mixture.

    Parameters
    ----------
    n
        Number of experts.
    loss
        ABSOLUTE or SQUARED: the loss that the point minimizes.

    """

    _KIND = TargetMixtureRecord

    def __init__(self, n: int, loss: int = ABSOLUTE) -> None:
        super().__init__(n_experts=n, loss=loss, largest_weight=1.0)
        for name in ("shared", "descended", "last_weights"):
            self.learned[name][:] = 1.0 / len(self.learned[name])
        self.show()

    @property
    def weights(self) -> Floats:
        """Weight of each expert's prediction in the point, before clipping; the sum is 1."""
        arrays, last = self.learned, self.learned["last_weights"]
        weights: Floats = last[SHARED] * arrays["shared"] + last[DESCENDED] * arrays["descended"]
        for r, solution in enumerate(arrays["solutions"]):
            beyond = solution - solution.sum() * arrays["shared"]
            weights = weights + last[BY_SQUARES + r] * (arrays["shared"] + beyond)
        return weights

    @property
    def to_recall(self) -> Floats:
        """Predictions of the experts and of the finalists for the last sample, and `spread`."""
        finalists, spread = self.memory.arrays["finalists"], [self.record.spread]
        return np.concatenate((self.predicted, finalists, spread))
