"""Random draws from a 64-bit state that each tree carries (splitmix64)."""

from __future__ import annotations

import math

import numpy as np

from ...compiling.kernels import inlined, merged
from ..splitmix import mixed, state_after, uniform_of
from .records import Tree


@inlined
def uniform(tree: Tree) -> float:
    """Draw from the open interval (0, 1), advancing the tree's state."""
    state = state_after(tree.random_state, 1)
    tree.random_state = state
    return uniform_of(mixed(state))


@inlined
def exponential(tree: Tree, rate: float) -> float:
    """Draw a time from the exponential distribution of a positive rate.

    It is rounded to the float32 in which nodes keep it, so that all readers see the same.
    """
    return np.float64(np.float32(-math.log(uniform(tree)) / rate))


@merged
def exponential_before(tree: Tree, rate: float, end: float) -> float:
    """Draw as `exponential` does; infinity where the time is not before `end`.

    Since -log(u) >= 1 - u, most draws that are too late show it without a logarithm.
    """
    u = uniform(tree)
    if 1.0 - u >= rate * end:
        return math.inf
    time = np.float64(np.float32(-math.log(u) / rate))
    return time if time < end else math.inf


@inlined
def uniform_cut(tree: Tree, low: float, high: float) -> float:
    """Draw a cut from [low, high) that float32 rounding cannot push onto `high`."""
    cut = np.float64(np.float32(low + uniform(tree) * (high - low)))
    return low if not cut < high or cut < low else cut
