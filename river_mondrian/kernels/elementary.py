"""A logarithm in plain arithmetic, which LLVM can compute for several numbers at once.

The C library's own is called for one number at a time.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .memory import f64, inlined, put_f64

_WORD, _HALF, _DOUBLE = ir.IntType(64), ir.IntType(32), ir.DoubleType()
_MANTISSA_BITS = 52
# The bits of the square root of 1/2: mantissas are taken from there to that of 2.
_LEAST_MANTISSA = 0x3FE6A09E667F3BCD
_BIAS = 1023

_LN2 = math.log(2.0)
# Of the series of the inverse hyperbolic tangent, whose next term is below 1e-17 of the first.
_N_TERMS = 11


def _distance(builder: Any, bits: Any) -> Any:
    """Return a number's bits from those of the least mantissa on, with a bias."""
    start = (_LEAST_MANTISSA - (_BIAS << _MANTISSA_BITS)) % 2**64
    return builder.sub(bits, _WORD(start))


@intrinsic
def _exponent(typingctx: Any, x: Any) -> Any:
    """Return the exponent of a positive number's power of 2."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        distance = _distance(builder, builder.bitcast(args[0], _WORD))
        # In 32 bits, since vectors of these can be converted.
        biased = builder.trunc(builder.lshr(distance, _WORD(_MANTISSA_BITS)), _HALF)
        return builder.sitofp(builder.sub(biased, _HALF(_BIAS)), _DOUBLE)

    return types.float64(types.float64), codegen


@intrinsic
def _mantissa(typingctx: Any, x: Any) -> Any:
    """Return what a positive number is divided by its power of 2."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        distance = _distance(builder, builder.bitcast(args[0], _WORD))
        within = builder.and_(distance, _WORD(2**_MANTISSA_BITS - 1))
        return builder.bitcast(builder.add(within, _WORD(_LEAST_MANTISSA)), _DOUBLE)

    return types.float64(types.float64), codegen


@inlined
def logarithm(x: float) -> float:
    """Return the natural logarithm of a positive normal number."""
    mantissa: float = _mantissa(x)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    series = 0.0
    for k in range(_N_TERMS - 1, -1, -1):
        series = series * square + 2.0 / (2 * k + 1)
    return _exponent(x) * _LN2 + s * series


@inlined
def logarithms(values: int, n: int, out: int) -> None:
    """Write the logarithms of `n` float64; of what is not positive, anything."""
    for i in range(n):
        put_f64(out, i, logarithm(f64(values, i)))
