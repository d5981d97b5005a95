"""Random draws from a 64-bit state that each tree carries (splitmix64)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir

from ...compiling.kernels import inlined
from ...records.compiled import lowered
from .records import Tree

# The constants of splitmix64 (Steele, Lea and Flood 2014): the step of the state, and the shifts
# and factors of its mixing function.
_STEP = 0x9E3779B97F4A7C15
_MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31
_MASK = 2**64 - 1
_WORD = ir.IntType(64)

# A double has 52 bits behind its first one.
_UNUSED_BITS = 12
_INTERVAL = 1.0 / 2**52


def _step(context: Any, builder: Any, state: Any) -> Any:
    return builder.add(state, _WORD(_STEP))


def _mix(context: Any, builder: Any, state: Any) -> Any:
    for shift, factor in _MIXING:
        state = builder.xor(state, builder.lshr(state, _WORD(shift)))
        state = builder.mul(state, _WORD(factor))
    state = builder.xor(state, builder.lshr(state, _WORD(_LAST_SHIFT)))
    return builder.lshr(state, _WORD(_UNUSED_BITS))


@lowered(_step)
def next_state(state: int) -> int:
    """Return the state after another one; both are 64 bits, read as a signed integer."""
    state = (int(state) + _STEP) & _MASK
    return state - 2**64 if state >= 2**63 else state


@lowered(_mix)
def upper_bits(state: int) -> int:
    """Return the upper 52 bits of what a state is mixed to."""
    bits = int(state) & _MASK
    for shift, factor in _MIXING:
        bits = ((bits ^ (bits >> shift)) * factor) & _MASK
    return (bits ^ (bits >> _LAST_SHIFT)) >> _UNUSED_BITS


@inlined
def uniform(tree: Tree) -> float:
    """Draw from the open interval (0, 1), advancing the tree's state."""
    state = next_state(tree.random_state)
    tree.random_state = state
    return (np.float64(upper_bits(state)) + 0.5) * _INTERVAL


@inlined
def exponential(tree: Tree, rate: float) -> float:
    """Draw a time from the exponential distribution of a positive rate.

    It is rounded to the float32 in which nodes keep it, so that all readers see the same.
    """
    return np.float64(np.float32(-math.log(uniform(tree)) / rate))


@inlined
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
