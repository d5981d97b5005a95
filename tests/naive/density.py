"""Random numbers from keys, and density estimates from cells."""

import math

import numpy as np

from .levels import MASK, STEP, mix

TIME, PLACE = 3, 5


def derived(key, i):
    """Return the i-th output of splitmix64 from a state."""
    return mix((key + (i + 1) * STEP) & MASK)


def uniform(key, i):
    return ((derived(key, i) >> 12) + 0.5) / 2**52


def volume(cell):
    return math.prod(upper - lower for lower, upper in cell)


def density(counts, volumes, estimator, n, kernel):
    """Return the estimate at a point from its cell in each tree.

    The estimates are in Equation 13 and Section 5 of O'Reilly and Tran (2022). The estimator
    "kernel" uses `kernel`, the value for two samples in one cell, in place of the inverse of the
    cell's volume.
    """
    if estimator == "kernel":
        return np.mean(counts) / n * kernel
    if estimator == "laplace":
        return sum(counts) / n / sum(volumes)
    return np.mean(np.divide(counts, volumes)) / n
