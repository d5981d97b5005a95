"""Draws that are functions of a key, the state at which splitmix64 begins."""

from __future__ import annotations

import math

from ...compiling.kernels import exact_inlined
from ..splitmix import mixed, state_after, uniform_of

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


@exact_inlined
def key_of(key: int, i: int) -> int:
    """Return the i-th output of splitmix64 that begins with a key."""
    return mixed(state_after(key, i + 1))


@exact_inlined
def uniform(key: int, i: int) -> float:
    """Return the i-th uniform of the open interval (0, 1) by a key."""
    return uniform_of(key_of(key, i))


@exact_inlined
def exponential(key: int, i: int, rate: float) -> float:
    """Return the i-th exponential of a rate by a key; infinite at rate 0."""
    if rate == 0.0:
        return math.inf
    return -math.log(uniform(key, i)) / rate


@exact_inlined
def child_key(key: int, is_right: bool) -> int:
    """Return the key of a node's child on one side."""
    return key_of(key, RIGHT_KEY if is_right else LEFT_KEY)
