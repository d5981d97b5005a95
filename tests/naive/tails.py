"""The learned scale of target distributions in plain Python, from all densities at once."""

import numpy as np
from scipy import special, stats

SCALES = [2.0**k for k in range(-4, 4)]
KEPT = 63.0 / 64.0

# Median and spread of log2 of the scale.
LAWS = [(m / 2.0, s) for m in range(-4, 3) for s in (0.0, 0.5, 1.0, 1.5, 2.5)]


def law(median, spread):
    """Return the prior probability of each scale.

    A normal distribution of the logarithm of the scale is rounded to the nearest scale. Without
    spread, the median is divided between the two nearest scales in proportion to the nearness.
    """
    powers = np.log2(SCALES)
    if spread == 0.0:
        return np.maximum(1.0 - np.abs(powers - median), 0.0)
    ends = stats.norm.cdf(powers[:-1] + 0.5, median, spread)
    return np.diff([0.0, *ends, 1.0])


def variance(own, scale, whole):
    """Return the variance of a component at a scale; `whole` is the total target variance."""
    if scale >= 1.0:
        return own * scale**2
    # The precision of the component, minus the precision of all targets, is divided by scale^2.
    beyond = max(1.0 / own - 1.0 / whole, 0.0)
    return 1.0 / (1.0 / own - beyond + beyond / scale**2)


def densities(y, components, whole):
    """Return the density of a target at each scale, for weighted normal components."""
    found = np.zeros(len(SCALES))
    for weight, mean, own in components:
        spreads = np.sqrt([variance(own, s, whole) for s in SCALES])
        found += weight * stats.norm.pdf(y, mean, spreads)
    return found


def weights(densities):
    """Return the weights of the scales given the densities of earlier targets."""
    laws = np.array([law(*one) for one in LAWS])
    logs = [-2.0 * (abs(median) + spread) for median, spread in LAWS]
    for age, found in enumerate(reversed(densities)):
        logs += KEPT**age * np.log(np.maximum(laws @ found, 1e-300 * max(found)))
    return special.softmax(logs) @ laws
