"""The continuous ranked probability score of mixtures of normal distributions."""

from __future__ import annotations

import math

import numpy as np

from ..compiling.kernels import batch_kernel, inlined
from ..records import Float64s

# What the mean absolute value of a normal with mean z and variance 1 exceeds z by,
# 2 (phi(z) - z Phi(-z)), at knots from 0 to where it ends, and its slope -2 Phi(-z) per knot.
# Cubics between them are right to 2e-9; exponentials would take most of the time.
KNOTS_PER_UNIT = 32
N_KNOTS = 8 * KNOTS_PER_UNIT
_Z = [k / KNOTS_PER_UNIT for k in range(N_KNOTS + 1)]
_BEYOND = [math.erfc(z / math.sqrt(2.0)) / 2.0 for z in _Z]
_PHI = [math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) for z in _Z]
EXCESS = np.array([2.0 * (p - z * b) for z, p, b in zip(_Z, _PHI, _BEYOND, strict=True)])
SLOPE = np.array([-2.0 * b / KNOTS_PER_UNIT for b in _BEYOND])


@inlined
def mean_absolute(mean: float, variance: float) -> float:
    """Return the mean absolute value of a normal distribution.

    With z = |mean| / s it is s (2 phi(z) + z (1 - 2 Phi(-z))) = |mean| + 2 s (phi(z) - z Phi(-z)).
    """
    size = abs(mean)
    if not variance > 0.0:
        return size
    spread = math.sqrt(variance)
    at = size / spread * KNOTS_PER_UNIT
    if not at < N_KNOTS:
        return size
    k = int(at)
    # Hermite's cubic between two knots, a unit apart.
    u = at - k
    v = 1.0 - u
    excess = v * v * ((1.0 + 2.0 * u) * EXCESS[k] + u * SLOPE[k])
    excess += u * u * ((1.0 + 2.0 * v) * EXCESS[k + 1] - v * SLOPE[k + 1])
    return size + spread * float(excess)


@batch_kernel
def crps(mixture: Float64s, n: int, y: float) -> float:
    """Return E|Y - y| - E|Y - Y'| / 2 for independent Y and Y' from a mixture.

    It has `n` components: first come their weights, then their means, then their variances.
    """
    weights, means = mixture.part(0, n), mixture.part(n, n)
    variances = mixture.part(2 * n, n)
    away, apart = 0.0, 0.0
    for i in range(n):
        # The difference of two independent normals is normal; its variance is the sum of theirs.
        away += weights[i] * mean_absolute(means[i] - y, variances[i])
        # A pair and its reverse count together, a component with itself once.
        among = 0.5 * weights[i] * mean_absolute(0.0, 2.0 * variances[i])
        for j in range(i):
            gap = mean_absolute(means[i] - means[j], variances[i] + variances[j])
            among += weights[j] * gap
        apart += weights[i] * among
    return away - apart
