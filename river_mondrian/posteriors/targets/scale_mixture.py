"""The distribution of a target around a forest's prediction: a scale mixture of normals.

A component of a forest's prediction is normal. With a learned distribution, each component becomes
a mixture over `SCALES`, with the same weights for all components. At scale 1, a component has its
own variance. A scale s > 1 multiplies the variance by s^2. Let P be the precision of all targets. A
scale s < 1 multiplies the excess of the component's precision over P by 1 / s^2. So a prediction
far from the data keeps the variance of all targets at scales below 1.

The weights are the posterior mean over `LOGNORMALS`, a set of distributions of the scale. The
posterior uses each target's density before the target is learned. Only some targets update the
posterior (`is_used`). The likelihood of earlier targets is discounted (`KEPT`), so that the weights
can follow a drift.
"""

import math

import numpy as np

from ...compiling.kernels import (
    always_inline,
    batch_kernel,
    inline_in_source,
    kernel,
    link_by_name,
    ordered_sums,
)
from ...records import Array, Float64, Float64s, Floats, Memory, Record, inline, words_buffer

N_SCALES = 8
UNIT = 4
SCALES = tuple(2.0**k for k in range(-UNIT, N_SCALES - UNIT))

# Medians and spreads (standard deviations) of the base-2 logarithm of the scale.
MEDIANS = tuple(m / 2.0 for m in range(-4, 3))
SPREADS = (0.0, 0.5, 1.0, 1.5, 2.5)
N_LOGNORMALS = len(MEDIANS) * len(SPREADS)

# Each used target multiplies the scores of `LOGNORMALS` by this factor.
KEPT = 1.0 - 1.0 / 64.0

# About one in eight of the first EARLY targets is used, and about one in sixteen of the later
# targets.
EARLY = 512
_GOLDEN = 0x9E3779B1
_ROOT_2 = math.sqrt(2.0)

# Precisions, in units of the precision of all targets, are clipped to at most this number and at
# least its inverse.
LARGEST_PRECISION = 1e12
# Least likelihood of a distribution in `LOGNORMALS`, as a fraction of the largest likelihood of a
# scale.
LEAST_LIKELIHOOD = 1e-300


class ScaleMixture(Record):
    """The learned distribution of the scale."""

    # Weight of each scale.
    weights: Float64s = inline(N_SCALES)
    # Discounted log likelihood of each distribution in `LOGNORMALS`, minus the largest of them.
    scores: Float64s = inline(N_LOGNORMALS)


class TargetDensity(Record):
    """The density of a target under a tree, per standard deviation of the targets."""

    # NaN if the distribution does not learn from this target.
    target: Float64
    # Noise variance at the target's weight minus noise variance at weight 1.
    extra_variance: Float64
    # Density at each scale, up to a common factor.
    densities: Float64s = inline(N_SCALES)


def _lognormal(median: float, spread: float) -> list[float]:
    """Return the weights of the scales under a lognormal distribution that is rounded to scales."""
    powers = [math.log2(s) for s in SCALES]
    if spread == 0.0:
        # If the median is between two scales, both scales share the weight.
        return [max(1.0 - abs(power - median), 0.0) for power in powers]
    ends = [0.5 * math.erfc((median - 0.5 - power) / spread / _ROOT_2) for power in powers[:-1]]
    return [b - a for a, b in zip([0.0, *ends], [*ends, 1.0], strict=True)]


LOGNORMALS = np.array([_lognormal(m, s) for m in MEDIANS for s in SPREADS])

# Logarithms of the prior weights. The prior prefers narrow distributions with medians near 1.
# Functions of `math` compute these logarithms one by one, since the results of array operations
# depend on the processor.
_LIKELY = [-2.0 * (abs(m) + s) for m in MEDIANS for s in SPREADS]
PRIOR = np.array(_LIKELY) - math.log(math.fsum(map(math.exp, _LIKELY)))
_PRIOR_WEIGHTS = [
    math.fsum(math.exp(log) * weight for log, weight in zip(PRIOR, column, strict=True))
    for column in LOGNORMALS.T
]


def new_scale_mixture() -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the initial values of a learned distribution: weights, then scores."""
    return np.array([*_PRIOR_WEIGHTS, *[0.0] * N_LOGNORMALS])


_buffer_of_scales = words_buffer(Float64s, N_SCALES)
_buffer_of_scores = words_buffer(Float64s, N_LOGNORMALS)


@always_inline
def is_used(n: int) -> bool:
    """Return whether the target after `n` earlier targets updates the learned distribution.

    The choice depends on a hash of `n`, so that cycles of the targets do not affect the choice.
    """
    return (n * _GOLDEN) & 0xFFFFFFFF < (0x20000000 if n < EARLY else 0x10000000)


@kernel
def count_used(n: int, size: int) -> int:
    """Return the number of used targets (`is_used`) among `size` targets after `n` targets."""
    count = 0
    for i in range(n, n + size):
        count += is_used(i)
    return count


@always_inline
def precision_at(precision: float, scale: float) -> float:
    """Return a component's precision at a scale. The unit is the precision of all targets."""
    factor = 1.0 / (scale * scale)
    if scale >= 1.0:
        return precision * factor
    return precision + max(precision - 1.0, 0.0) * (factor - 1.0)


@inline_in_source
def variance_over_scales(mixture: ScaleMixture, variance: float, whole: float) -> float:
    """Return a component's variance over all scales. `whole` is the variance of the targets."""
    if not (variance > 0.0 and whole > 0.0):
        return variance
    precision = whole / variance
    total = 0.0
    for j in range(N_SCALES):
        total += mixture.weights[j] * (whole / precision_at(precision, SCALES[j]))
    return total


@inline_in_source
def add_density(
    density: TargetDensity, weight: float, mean: float, variance: float, whole: float
) -> None:
    """Add the density of a target under a component at each scale."""
    densities = density.densities
    gap = density.target - mean
    away = gap * gap / whole
    variance = max(variance + density.extra_variance, whole / LARGEST_PRECISION)
    precision = max(whole / variance, 1.0 / LARGEST_PRECISION)
    # Halving the scale multiplies the exponent by 4. So the powers of two exponentials suffice for
    # all scales.
    fall = math.exp(-0.5 * away * precision / (SCALES[N_SCALES - 1] * SCALES[N_SCALES - 1]))
    size = weight * math.sqrt(precision)
    for j in range(N_SCALES - 1, UNIT - 1, -1):
        densities[j] = densities[j] + size / SCALES[j] * fall
        if j > UNIT:
            fall *= fall
            fall *= fall
    beyond = max(precision - 1.0, 0.0)
    step = math.exp(-1.5 * away * beyond)
    steps = step
    for j in range(UNIT - 1, -1, -1):
        p = precision_at(precision, SCALES[j])
        densities[j] = densities[j] + weight * math.sqrt(p) * fall * steps
        steps *= steps
        steps *= steps * step


@link_by_name
@ordered_sums
def learn_scales(mixture: ScaleMixture, densities: Array[TargetDensity], n_trees: int) -> None:
    """Update the distribution with the densities of a target under all trees."""
    if densities[0].target != densities[0].target:
        return
    mixed = _buffer_of_scales()
    largest = 0.0
    for j in range(N_SCALES):
        mixed[j] = 0.0
        for t in range(n_trees):
            mixed[j] = mixed[j] + densities[t].densities[j]
        largest = max(largest, mixed[j])
    if not largest > 0.0:
        # All densities underflow, so the widest scale is by far the most likely.
        mixed[N_SCALES - 1] = 1.0
        largest = 1.0
    scores = _buffer_of_scores()
    best = -math.inf
    for k in range(N_LOGNORMALS):
        likelihood = 0.0
        for j in range(N_SCALES):
            likelihood += LOGNORMALS[k, j] * mixed[j]
        gained = math.log(max(likelihood / largest, LEAST_LIKELIHOOD))
        scores[k] = KEPT * mixture.scores[k] + gained
        best = max(best, scores[k])
    total = 0.0
    for j in range(N_SCALES):
        mixed[j] = 0.0
    for k in range(N_LOGNORMALS):
        mixture.scores[k] = scores[k] - best
        share = math.exp(scores[k] - best + PRIOR[k])
        total += share
        for j in range(N_SCALES):
            mixed[j] = mixed[j] + share * LOGNORMALS[k, j]
    for j in range(N_SCALES):
        mixture.weights[j] = mixed[j] / total


# Learning of the distribution of targets if shards of a forest learn separately.
#
# A target's densities under all trees, before the trees learn the target, update the distribution.
# Only the sums of the densities over trees are needed, so shards exchange these sums.


def told_by(densities: Memory[TargetDensity], n_trees: int) -> Floats:
    """Return used targets (`is_used`) and their densities under a shard's trees.

    The result has the shape (targets, 1 + scales). A row begins with the target, or NaN if the
    distribution does not learn from the target. The other columns have the target's density at each
    scale, summed over trees. The sums of several shards can be added.
    """
    columns = densities.columns()
    targets = columns["target"].reshape(-1, n_trees)[:, :1]
    sums = columns["densities"].reshape(-1, n_trees, N_SCALES).sum(axis=1)
    return np.concatenate([targets, sums], axis=1)


@batch_kernel
def _learn_all(mixture: ScaleMixture, densities: Array[TargetDensity], n: int) -> None:
    """Learn from targets one after another, given their densities summed over all trees."""
    for i in range(n):
        learn_scales(mixture, densities.part(i, 1), 1)


def learn_tails(tails: Floats, densities: Floats) -> None:
    """Update a learned distribution's values with the sums of `told_by` over all shards."""
    rows = Memory(TargetDensity, len(densities))
    columns = rows.columns()
    columns["target"][:], columns["densities"][:] = densities[:, 0], densities[:, 1:]
    _learn_all(Array.over(ScaleMixture, tails)[0], rows.array, len(densities))
