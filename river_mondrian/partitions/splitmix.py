"""Random bits by splitmix64 (Steele, Lea and Flood 2014), from which all partitions draw.

A state is 64 bits, read as a signed integer. The i-th output that begins with a state is the mixed
state i + 1 steps on.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from ..compiling.kernels import exact_inlined
from ..records.numba_types import lowered

# The step of the state, and the shifts and factors of the mixing function.
_STEP = 0x9E3779B97F4A7C15
_MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31
_MASK = 2**64 - 1
_WORD = ir.IntType(64)

# A uniform takes the upper 52 bits, so that it is neither 0 nor 1 when it is half a step larger.
_UNUSED_BITS = 12
_UNIFORM_BITS = 2**52 - 1
_UNIFORM_STEP = 1.0 / 2**52


def _signed(bits: int) -> int:
    return bits - 2**64 if bits >= 2**63 else bits


def _go_on(context: Any, builder: Any, state: Any, n: Any) -> Any:
    return builder.add(state, builder.mul(n, _WORD(_STEP)))


@lowered(_go_on)
def state_after(state: int, n: int) -> int:
    """Return the state `n` steps on."""
    return _signed((int(state) + int(n) * _STEP) & _MASK)


def _mix(context: Any, builder: Any, state: Any) -> Any:
    for shift, factor in _MIXING:
        state = builder.xor(state, builder.lshr(state, _WORD(shift)))
        state = builder.mul(state, _WORD(factor))
    return builder.xor(state, builder.lshr(state, _WORD(_LAST_SHIFT)))


@lowered(_mix)
def mixed(state: int) -> int:
    """Return the 64 random bits of a state."""
    bits = int(state) & _MASK
    for shift, factor in _MIXING:
        bits = ((bits ^ (bits >> shift)) * factor) & _MASK
    return _signed(bits ^ (bits >> _LAST_SHIFT))


@exact_inlined
def uniform_of(bits: int) -> float:
    """Return the uniform of the open interval (0, 1) that 64 random bits stand for."""
    return (((bits >> _UNUSED_BITS) & _UNIFORM_BITS) + 0.5) * _UNIFORM_STEP
