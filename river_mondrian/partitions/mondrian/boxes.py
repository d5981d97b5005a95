"""How far a sample lies outside a box, and the box that holds it, too.

From `BLOCK` dimensions on they go in blocks, whose last one overlaps the one before where it must.
LLVM's own vectors leave what is behind the last whole block to a loop over single dimensions, which
costs as much as the blocks at 54 dimensions and is all there is at 8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from ...compiling.kernels import inlined
from ...records import Array, Float32s, Record, room_of_array
from ...records.compiled import address_in, lowered
from .records import Point

BLOCK = 8

# Points whose boxes are joined at once, with the sides in registers.
BATCH = 64

_FLOAT, _DOUBLE, _INT = ir.FloatType(), ir.DoubleType(), ir.IntType(32)
_FLOATS, _DOUBLES, _INTS = (ir.VectorType(word, BLOCK) for word in (_FLOAT, _DOUBLE, _INT))
_BITS, _ADDRESS = ir.IntType(BLOCK), ir.IntType(64)
_ALIGNMENT = 4


class PointAt(Record):
    """Where a point is, in a batch of some."""

    point: Point


room_of_batch = room_of_array(PointAt, BATCH)
_room_of_one = room_of_array(PointAt, 1)


def _place(builder: Any, address: Any, d: Any) -> Any:
    """Return the pointer to a block of float32 that begins with the d-th behind an address."""
    word = builder.gep(builder.inttoptr(address, _FLOAT.as_pointer()), [d])
    return builder.bitcast(word, _FLOATS.as_pointer())


def _larger(builder: Any, a: Any, b: Any) -> Any:
    """Return the larger of each pair; `b` where one is NaN."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _is_any(builder: Any, lanes: Any) -> Any:
    """Tell whether any lane is true."""
    return builder.icmp_unsigned("!=", builder.bitcast(lanes, _BITS), _BITS(0))


def _blocks(builder: Any, n: Any, visit: Any) -> None:
    """Call `visit(d, repeated)` for blocks of n >= BLOCK dimensions.

    `repeated` is None, or how many dimensions of the last block have been in the one before.
    """
    size = n.type(BLOCK)
    with cgutils.for_range(builder, builder.udiv(n, size)) as loop:
        visit(builder.mul(loop.index, size), None)
    rest = builder.urem(n, size)
    with builder.if_then(builder.icmp_unsigned("!=", rest, n.type(0))):
        visit(builder.sub(n, size), builder.sub(size, rest))


def _outside_by_blocks(context: Any, builder: Any, x: Any, lower: Any, upper: Any, n: Any) -> Any:
    """Sum how far `x` lies outside a box of at least BLOCK dimensions."""
    x, lower, upper = (address_in(builder, array) for array in (x, lower, upper))
    zeros = ir.Constant(_FLOATS, None)
    lanes = ir.Constant(_INTS, list(range(BLOCK)))
    furthest = cgutils.alloca_once_value(builder, zeros)
    total = cgutils.alloca_once_value(builder, ir.Constant(_DOUBLES, None))
    result = cgutils.alloca_once_value(builder, _DOUBLE(0.0))

    def gaps_at(d: Any) -> Any:
        v, low, high = (
            builder.load(_place(builder, box, d), align=_ALIGNMENT) for box in (x, lower, upper)
        )
        return _larger(builder, builder.fsub(low, v), builder.fsub(v, high))

    def find_furthest(d: Any, repeated: Any) -> None:
        builder.store(_larger(builder, gaps_at(d), builder.load(furthest)), furthest)

    def add(d: Any, repeated: Any) -> None:
        gaps = _larger(builder, gaps_at(d), zeros)
        if repeated is not None:
            first = builder.insert_element(
                ir.Constant(_INTS, None), builder.trunc(repeated, _INT), _INT(0)
            )
            first = builder.shuffle_vector(first, first, ir.Constant(_INTS, None))
            gaps = builder.select(builder.icmp_signed(">=", lanes, first), gaps, zeros)
        wide = builder.fpext(gaps, _DOUBLES)
        builder.store(builder.fadd(builder.load(total), wide), total)

    reduce = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(_DOUBLE, [_DOUBLE, _DOUBLES]),
        "llvm.vector.reduce.fadd.v8f64",
    )
    _blocks(builder, n, find_furthest)
    # Most samples are inside most boxes, and sums in float64 take longer than comparisons.
    outside = builder.fcmp_ordered(">", builder.load(furthest), zeros)
    with builder.if_then(_is_any(builder, outside)):
        _blocks(builder, n, add)
        lanes_total = [_DOUBLE(0.0), builder.load(total)]
        builder.store(builder.call(reduce, lanes_total, fastmath=["reassoc"]), result)
    return builder.load(result)


@lowered(_outside_by_blocks)
def _distance_by_blocks(x: Float32s, lower: Float32s, upper: Float32s, n_dims: int) -> float:
    """Sum how far `x` lies outside a box of at least BLOCK dimensions."""
    total = 0.0
    for d in range(n_dims):
        total += _gap_in_python(x[d], lower[d], upper[d])
    return total


def _gap_in_python(v: float, low: float, high: float) -> float:
    below, above = float(np.float32(low - v)), float(np.float32(v - high))
    gap = below if below > above else above
    return gap if gap > 0.0 else 0.0


@inlined
def gap(v: float, low: float, high: float) -> float:
    """Return how far a value lies outside a side, as float32 has it; 0 where one is missing."""
    below = np.float64(np.float32(low - v))
    above = np.float64(np.float32(v - high))
    # Comparisons with NaN are false.
    gap = below if below > above else above
    return gap if gap > 0.0 else 0.0


@inlined
def distance_outside(x: Float32s, lower: Float32s, upper: Float32s, n_dims: int) -> float:
    """Return the l1 distance from `x` to a box; a missing value or an unknown side adds nothing."""
    if n_dims >= BLOCK:
        return _distance_by_blocks(x, lower, upper, n_dims)
    if n_dims == 2:
        # A loop would be made one over masked vectors, which takes three times as long.
        first = gap(x[0], lower[0], upper[0])
        return first + gap(x[1], lower[1], upper[1])
    total = 0.0
    for d in range(n_dims):
        total += gap(x[d], lower[d], upper[d])
    return total


@inlined
def linear_dimension(lower: Float32s, upper: Float32s, n_dims: int) -> float:
    """Sum the side lengths of a box (Algorithm 2, line 1)."""
    total = 0.0
    for d in range(n_dims):
        side = upper[d] - lower[d]
        total += side if side > 0.0 else 0.0
    return total


def _moved(builder: Any, v: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Return sides that hold values, too; a side that is NaN moves to the value."""

    def moves(passes: str, side: Any) -> Any:
        return builder.or_(
            builder.fcmp_ordered(passes, v, side), builder.fcmp_unordered("uno", side, side)
        )

    return builder.select(moves("<", low), v, low), builder.select(moves(">", high), v, high)


def _extend_by_blocks(
    context: Any,
    builder: Any,
    batch: Any,
    n: Any,
    word: Any,
    lower: Any,
    upper: Any,
    dims: Any,
) -> None:
    """Grow a box of at least BLOCK dimensions so that it holds the points of a batch."""
    batch, lower, upper = (address_in(builder, array) for array in (batch, lower, upper))
    points = builder.inttoptr(batch, _ADDRESS.as_pointer())
    behind = builder.mul(word, _ADDRESS(4))

    def visit(d: Any, repeated: Any) -> None:
        places = [_place(builder, box, d) for box in (lower, upper)]
        before = [builder.load(place, align=_ALIGNMENT) for place in places]
        sides = [cgutils.alloca_once_value(builder, side) for side in before]
        with cgutils.for_range(builder, n) as loop:
            x = builder.add(builder.load(builder.gep(points, [loop.index])), behind)
            v = builder.load(_place(builder, x, d), align=_ALIGNMENT)
            moved = _moved(builder, v, *[builder.load(side) for side in sides])
            for side, value in zip(sides, moved, strict=True):
                builder.store(value, side)
        # Most blocks stay as they are, and what is not written need not leave the cache.
        for side, place, old in zip(sides, places, before, strict=True):
            value = builder.load(side)
            with builder.if_then(_is_any(builder, builder.fcmp_unordered("!=", value, old))):
                builder.store(value, place, align=_ALIGNMENT)

    _blocks(builder, dims, visit)


@lowered(_extend_by_blocks)
def _hold_by_blocks(
    batch: Array[PointAt], n: int, word: int, lower: Float32s, upper: Float32s, n_dims: int
) -> None:
    """Grow a box of at least BLOCK dimensions so that it holds the points of a batch."""
    for i in range(n):
        _hold_in_python(Float32s(batch[i].point, word, n_dims), lower, upper, n_dims)


def _hold_in_python(x: Float32s, lower: Float32s, upper: Float32s, n_dims: int) -> None:
    for d in range(n_dims):
        v, low, high = x[d], lower[d], upper[d]
        lower[d] = v if (v < low or low != low) else low
        upper[d] = v if (v > high or high != high) else high


@inlined
def hold_batch(
    batch: Array[PointAt], n: int, word: int, lower: Float32s, upper: Float32s, n_dims: int
) -> None:
    """Grow a box so that it holds the first `n` points of a batch, whose values are at a word.

    A missing value moves nothing, an unknown side moves to the first value.
    """
    if n_dims >= BLOCK:
        _hold_by_blocks(batch, n, word, lower, upper, n_dims)
        return
    for d in range(n_dims):
        low = lower[d]
        high = upper[d]
        for i in range(n):
            v = Float32s(batch[i].point, word, n_dims)[d]
            low = v if (v < low or low != low) else low
            high = v if (v > high or high != high) else high
        lower[d] = low
        upper[d] = high


@inlined
def hold(point: Point, word: int, lower: Float32s, upper: Float32s, n_dims: int) -> None:
    """Grow a box so that it holds a point, whose values are at a word of its row."""
    one = _room_of_one()
    one[0].point = point
    hold_batch(one, 1, word, lower, upper, n_dims)
