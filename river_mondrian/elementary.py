"""Functions that LLVM inlines: logarithms, exponentials, sorting and random bits."""

import math
import struct
from typing import Any, TypeVar

from llvmlite import ir

from .compiling.kernels import always_inline, helper, ordered_sums
from .records import Float64s, Int32s
from .records.numba_types import lowered

# Logarithms and exponentials of numbers and arrays, and probabilities from log weights.
#
# The logarithm and the exponential function are plain arithmetic, which LLVM can vectorize. In
# contrast, the C library's functions compute one number at a time.


_WORD = ir.IntType(64)
_HALF, _DOUBLE = ir.IntType(32), ir.DoubleType()
_MANTISSA_BITS = 52
_MANTISSA_MASK = 2**_MANTISSA_BITS - 1
# Bits of sqrt(1/2), the smallest mantissa. Mantissas are in [sqrt(1/2), sqrt(2)), around 1, so that
# the series of artanh converges quickly.
_LEAST_MANTISSA = 0x3FE6A09E667F3BCD
_BIAS = 1023
# A number's bits minus `_START` have two fields: the biased exponent, and the mantissa minus the
# least mantissa.
_START = (_LEAST_MANTISSA - (_BIAS << _MANTISSA_BITS)) % 2**64

_LN2 = math.log(2.0)
# Number of terms of the artanh series. The next term is below 1e-17 times the first term.
_N_TERMS = 11


def _distance(x: float) -> int:
    """Return a number's bits minus `_START`."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", x))
    return int((bits - _START) % 2**64)


def _lower_distance(builder: Any, x: Any) -> Any:
    return builder.sub(builder.bitcast(x, _WORD), _WORD(_START))


def _lower_exponent(context: Any, builder: Any, x: Any) -> Any:
    # The integer is truncated to 32 bits, because LLVM converts vectors of 32-bit integers to
    # floats, but not vectors of 64-bit integers.
    shifted = builder.lshr(_lower_distance(builder, x), _WORD(_MANTISSA_BITS))
    biased = builder.trunc(shifted, _HALF)
    return builder.sitofp(builder.sub(biased, _HALF(_BIAS)), _DOUBLE)


def _lower_mantissa(context: Any, builder: Any, x: Any) -> Any:
    within = builder.and_(_lower_distance(builder, x), _WORD(_MANTISSA_MASK))
    return builder.bitcast(builder.add(within, _WORD(_LEAST_MANTISSA)), _DOUBLE)


@lowered(_lower_exponent)
def exponent_of(x: float) -> float:
    """Return the exponent k in x = 2^k mantissa_of(x), for a positive normal number x."""
    return float((_distance(x) >> _MANTISSA_BITS) - _BIAS)


@lowered(_lower_mantissa)
def mantissa_of(x: float) -> float:
    """Return the mantissa m in [sqrt(1/2), sqrt(2)) of x = 2^k m, a positive normal number."""
    bits = (_distance(x) & _MANTISSA_MASK) + _LEAST_MANTISSA
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


@always_inline
def logarithm(x: float) -> float:
    """Return the logarithm of a positive normal number; other numbers have undefined results."""
    # With x = 2^k m and s = (m - 1) / (m + 1), log(x) = k log(2) + 2 artanh(s). The series is
    # artanh(s) = s + s^3 / 3 + s^5 / 5 + ...
    mantissa = mantissa_of(x)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    series = 0.0
    for k in range(_N_TERMS - 1, -1, -1):
        series = series * square + 2.0 / (2 * k + 1)
    return exponent_of(x) * _LN2 + s * series


# Number of terms of the exponential series. The next term is below 1e-17 times the first term.
_N_POWERS = 14
_INVERSE_FACTORIALS = [1.0 / math.factorial(i) for i in range(_N_POWERS)]
# `exponential` raises smaller x to this number. Otherwise exp(x) divided by a sum of many
# exponentials might be subnormal.
_LEAST_LOG = -695.0
_CONTRACT = ("contract",)


def _lower_exponential(context: Any, builder: Any, x: Any) -> Any:
    # The series is written out, because LLVM would have to unroll an inner loop before it could
    # vectorize the outer loop.
    def sum_of(product: tuple[Any, Any], added: Any) -> Any:
        return builder.fadd(builder.fmul(*product, flags=_CONTRACT), added, flags=_CONTRACT)

    least = _DOUBLE(_LEAST_LOG)
    x = builder.select(builder.fcmp_ordered("<", x, least), least, x)
    k = builder.fptosi(sum_of((x, _DOUBLE(1.0 / _LN2)), _DOUBLE(-0.5)), _HALF)
    rest = sum_of((builder.sitofp(k, _DOUBLE), _DOUBLE(-_LN2)), x)
    series = _DOUBLE(_INVERSE_FACTORIALS[-1])
    for inverse in reversed(_INVERSE_FACTORIALS[:-1]):
        series = sum_of((series, rest), _DOUBLE(inverse))
    biased = builder.zext(builder.add(k, _HALF(_BIAS)), _WORD)
    power = builder.bitcast(builder.shl(biased, _WORD(_MANTISSA_BITS)), _DOUBLE)
    return builder.fmul(series, power)


@lowered(_lower_exponential)
def exponential(x: float) -> float:
    """Return exp(x) for `_LEAST_LOG` <= x <= 0, and exp(`_LEAST_LOG`) for smaller x."""
    # With x = k log(2) + r, exp(x) = 2^k exp(r).
    # The series is exp(r) = 1 + r + r^2 / 2 + r^3 / 6 + ...
    x = max(x, _LEAST_LOG)
    k = int(x * (1.0 / _LN2) - 0.5)
    rest, series = x - k * _LN2, 0.0
    for inverse in reversed(_INVERSE_FACTORIALS):
        series = series * rest + inverse
    return math.ldexp(series, k)


@always_inline
def logarithms(values: Float64s, n: int, out: Float64s) -> None:
    """Write the logarithms of `n` positive normal numbers; other numbers have undefined results."""
    for i in range(n):
        out[i] = logarithm(values[i])


# Arrays longer than this use vectorized exponentials, and a product with the reciprocal in place of
# each division. Other arrays use `math.exp` and exact division.
FEW = 128


@always_inline
def largest_of(values: Float64s, n: int) -> float:
    """Return the largest of `n` numbers; the processor updates four maxima in parallel."""
    first = second = third = fourth = -math.inf
    whole = n - n % 4
    for k in range(0, whole, 4):
        first, second = max(first, values[k]), max(second, values[k + 1])
        third, fourth = max(third, values[k + 2]), max(fourth, values[k + 3])
    for k in range(whole, n):
        first = max(first, values[k])
    return max(max(first, second), max(third, fourth))


@helper
@ordered_sums
def divide(values: Float64s, n: int, by: float) -> None:
    """Divide `n` numbers by another number, in place."""
    if n > FEW:
        factor = 1.0 / by
        for k in range(n):
            values[k] = values[k] * factor
    else:
        for k in range(n):
            values[k] = values[k] / by


@always_inline
def normalize_logs(values: Float64s, n: int) -> None:
    """Replace `n` log weights v by the probabilities exp(v_k) / sum_j exp(v_j)."""
    largest, total = largest_of(values, n), 0.0
    # The largest log weight is subtracted to avoid overflow. The result is the same, because
    # exp(-largest) cancels in the division by the sum.
    if n > FEW:
        for k in range(n):
            values[k] = exponential(values[k] - largest)
            total += values[k]
    else:
        for k in range(n):
            values[k] = math.exp(values[k] - largest)
            total += values[k]
    divide(values, n, total)


# Types of arrays that `sort` accepts.
Sorted = TypeVar("Sorted", Float64s, Int32s)


@helper
@ordered_sums
def sort(values: Sorted, n: int) -> None:
    """Sort the first `n` numbers in place (Shell 1959, with the gaps of Ciura 2001)."""
    for gap in (301, 132, 57, 23, 10, 4, 1):
        for i in range(gap, n):
            value, j = values[i], i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value


# All partitions draw random bits by splitmix64 (Steele, Lea and Flood 2014). A state is a signed
# integer of 64 bits. The i-th draw after a state is `mixed(state_after(state, i))`, i = 1, 2, ...


# The step of the state, and the shifts and factors of the mixing function.
_STEP = 0x9E3779B97F4A7C15
_MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_LAST_SHIFT = 31
_MASK = 2**64 - 1


# A uniform number is (b + 1/2) / 2^52, where b is the upper 52 bits, so it is neither 0 nor 1.
_UNUSED_BITS = 12
_UNIFORM_BITS = 2**52 - 1
_UNIFORM_STEP = 1.0 / 2**52


def _signed(bits: int) -> int:
    return bits - 2**64 if bits >= 2**63 else bits


def _advance(context: Any, builder: Any, state: Any, n: Any) -> Any:
    return builder.add(state, builder.mul(n, _WORD(_STEP)))


@lowered(_advance)
def state_after(state: int, n: int) -> int:
    """Return the random state `n` steps after a state."""
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


@helper
@ordered_sums
def uniform_of(bits: int) -> float:
    """Return a uniform number in the open interval (0, 1) from 64 random bits."""
    return (((bits >> _UNUSED_BITS) & _UNIFORM_BITS) + 0.5) * _UNIFORM_STEP
