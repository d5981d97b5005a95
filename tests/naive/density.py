"""Draws by keys, and the estimators of densities over cells."""

import math

MASK = (1 << 64) - 1
TIME, PLACE = 3, 5


def derived(key, i):
    """Return the i-th output of splitmix64 from a state."""
    z = (key + (i + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def uniform(key, i):
    return ((derived(key, i) >> 12) + 0.5) / 2**52


def inside(cell, z):
    return all(lower < value <= upper for (lower, upper), value in zip(cell, z, strict=True))


def volume(cell):
    return math.prod(upper - lower for lower, upper in cell)


def density(cells, samples, estimator, lifetime):
    """Return the estimate at a point by its cell in each tree (Equation 13, or Section 5)."""
    counts = [sum(inside(cell, z) for z in samples) for cell in cells]
    volumes = [volume(cell) for cell in cells]
    if estimator == "kernel":
        return sum(counts) / len(samples) / len(cells) * (lifetime / 2) ** len(samples[0])
    if estimator == "laplace":
        return sum(counts) / len(samples) / sum(volumes)
    shares = [count / len(samples) / v for count, v in zip(counts, volumes, strict=True)]
    return sum(shares) / len(cells)
