"""Plain-Python twin of the learned law of targets: all densities, weighed at once."""

import math

SCALES = [2.0**k for k in range(-4, 4)]
KEPT = 63.0 / 64.0

# Median and spread of the base-2 logarithm of the scale.
LAWS = [(m / 2.0, s) for m in range(-4, 3) for s in (0.0, 0.5, 1.0, 1.5, 2.5)]


def cdf(z):
    return 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))


def law(median, spread):
    """Return how likely each scale is: the mass of the logarithms that are closest to its own."""
    found = []
    for s in SCALES:
        power = math.log2(s)
        if spread == 0.0:
            found.append(max(1.0 - abs(power - median), 0.0))
            continue
        low = 0.0 if s == SCALES[0] else cdf((power - 0.5 - median) / spread)
        high = 1.0 if s == SCALES[-1] else cdf((power + 0.5 - median) / spread)
        found.append(high - low)
    return found


def variance(own, scale, whole):
    """Return a component's variance at a scale; `whole` is the targets'."""
    if scale >= 1.0:
        return own * scale**2
    # What the precision has beyond that of the targets counts 1 / scale^2 times.
    beyond = max(1.0 / own - 1.0 / whole, 0.0)
    return 1.0 / (1.0 / own - beyond + beyond / scale**2)


def densities(y, components, whole):
    """Return the density of a target at each scale under weighted normal components."""
    found = []
    for s in SCALES:
        total = 0.0
        for weight, mean, own in components:
            v = variance(own, s, whole)
            total += weight * math.exp(-0.5 * (y - mean) ** 2 / v) / math.sqrt(2.0 * math.pi * v)
        found.append(total)
    return found


def weights(densities):
    """Return the weights of the scales, given the densities of the targets so far."""
    posterior = []
    for median, spread in LAWS:
        log = -2.0 * (abs(median) + spread)
        for age, found in enumerate(reversed(densities)):
            mixed = math.fsum(w * d for w, d in zip(law(median, spread), found, strict=True))
            log += KEPT**age * math.log(max(mixed, 1e-300 * max(found)))
        posterior.append(log)
    shares = [math.exp(log - max(posterior)) for log in posterior]
    return [
        math.fsum(share * law(*laws)[j] for share, laws in zip(shares, LAWS, strict=True))
        / math.fsum(shares)
        for j in range(len(SCALES))
    ]
