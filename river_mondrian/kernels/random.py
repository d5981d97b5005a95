"""Random draws from a 64-bit state that each tree carries among its integers."""

from __future__ import annotations

import math

import numpy as np

from .layout import RNG
from .memory import i64, inlined, put_i64


@inlined
def uniform(tree: int) -> float:
    """Draw from the open interval (0, 1) by splitmix64, advancing the tree's state."""
    state = np.uint64(i64(tree, RNG)) + np.uint64(0x9E3779B97F4A7C15)
    put_i64(tree, RNG, np.int64(state))
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (np.float64(z >> np.uint64(12)) + 0.5) * (1.0 / 4503599627370496.0)


@inlined
def exponential(tree: int, rate: float) -> float:
    """Draw a time from the exponential distribution of a positive rate.

    It is rounded to the float32 in which nodes keep it, so that all readers see the same.
    """
    return np.float64(np.float32(-math.log(uniform(tree)) / rate))


@inlined
def exponential_before(tree: int, rate: float, end: float) -> float:
    """Draw as `exponential` does; infinity where the time is not before `end`.

    Since -log(u) >= 1 - u, most draws that are too late show it without a logarithm.
    """
    u = uniform(tree)
    if 1.0 - u >= rate * end:
        return math.inf
    time = np.float64(np.float32(-math.log(u) / rate))
    return time if time < end else math.inf
