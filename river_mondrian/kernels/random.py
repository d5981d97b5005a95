"""Random draws from a 64-bit state that each tree carries in its own row of integers."""

from __future__ import annotations

import math

import numpy as np

from .memory import inlined


@inlined
def uniform(tree: np.ndarray, slot: int) -> float:
    """Draw from the open interval (0, 1) by splitmix64, advancing the state at `tree[slot]`."""
    state = np.uint64(tree[slot]) + np.uint64(0x9E3779B97F4A7C15)
    tree[slot] = np.int64(state)
    z = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (np.float64(z >> np.uint64(12)) + 0.5) * (1.0 / 4503599627370496.0)


@inlined
def exponential(tree: np.ndarray, slot: int, rate: float) -> float:
    """Draw from the exponential distribution of a positive rate."""
    return -math.log(uniform(tree, slot)) / rate
