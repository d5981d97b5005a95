"""Draws that are functions of a key: outputs of splitmix64 (Steele, Lea and Flood 2014)."""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from ...compiling.kernels import exact_inlined
from ...records.compiled import lowered

# What is drawn by a key.
LEFT_KEY = 0
RIGHT_KEY = 1
ABOVE_KEY = 2
CUT_TIME = 3
CUT_DIM = 4
CUT_PLACE = 5
FACE_REACH = 6
NEXT_KEY = 7
# From here on three per dimension: the reach of a cell below and above a point, and a key.
PER_DIM = 8

# The step of splitmix64's state, and the shifts and factors by which it mixes that.
_STEP = 0x9E3779B97F4A7C15
_MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31
_MASK = 2**64 - 1
_WORD = ir.IntType(64)

# A uniform takes the upper 52 bits, so that it is neither 0 nor 1 when it is half a step larger.
_UNUSED_BITS = 12
_UNIFORM_BITS = 2**52 - 1
_UNIFORM_STEP = 1.0 / 2**52


def _mix(context: Any, builder: Any, key: Any, i: Any) -> Any:
    steps = builder.mul(builder.add(i, _WORD(1)), _WORD(_STEP))
    bits = builder.add(key, steps)
    for shift, factor in _MIXING:
        bits = builder.xor(bits, builder.lshr(bits, _WORD(shift)))
        bits = builder.mul(bits, _WORD(factor))
    return builder.xor(bits, builder.lshr(bits, _WORD(_LAST_SHIFT)))


@lowered(_mix)
def splitmix64(key: int, i: int) -> int:
    """Return the i-th output of splitmix64 that begins with a key.

    Both the key and the output are 64 bits, read as a signed integer.
    """
    bits = (int(key) + (int(i) + 1) * _STEP) & _MASK
    for shift, factor in _MIXING:
        bits = ((bits ^ (bits >> shift)) * factor) & _MASK
    bits ^= bits >> _LAST_SHIFT
    return bits - 2**64 if bits >= 2**63 else bits


@exact_inlined
def uniform(key: int, i: int) -> float:
    """Return the i-th uniform of the open interval (0, 1) by a key."""
    bits = (splitmix64(key, i) >> _UNUSED_BITS) & _UNIFORM_BITS
    return (bits + 0.5) * _UNIFORM_STEP


@exact_inlined
def exponential(key: int, i: int, rate: float) -> float:
    """Return the i-th exponential of a rate by a key; infinite at rate 0."""
    if rate == 0.0:
        return math.inf
    return -math.log(uniform(key, i)) / rate


@exact_inlined
def child_key(key: int, is_right: bool) -> int:
    """Return the key of a node's child on one side."""
    return splitmix64(key, RIGHT_KEY if is_right else LEFT_KEY)
