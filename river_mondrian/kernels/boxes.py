"""How far a sample lies outside a box, and the box that holds it, too.

From `BLOCK` dimensions on they go in blocks, whose last one overlaps the one before where it must.
LLVM's own vectors leave what is behind the last whole block to a loop over single dimensions, which
costs as much as the blocks at 54 dimensions and is all there is at 8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .memory import f32, i64, inlined, put_f32, put_i64, room_for

BLOCK = 8

# Points whose boxes are joined at once, with the sides in registers.
BATCH = 64

_FLOAT, _DOUBLE, _INT = ir.FloatType(), ir.DoubleType(), ir.IntType(32)
_FLOATS, _DOUBLES, _INTS = (ir.VectorType(word, BLOCK) for word in (_FLOAT, _DOUBLE, _INT))
_BITS = ir.IntType(BLOCK)
_ALIGNMENT = 4


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


@intrinsic
def _outside_by_blocks(typingctx: Any, x: Any, lower: Any, upper: Any, n: Any) -> Any:
    """Sum how far `x` lies outside a box of at least BLOCK dimensions."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        x, lower, upper, n = args
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

        def look(d: Any, repeated: Any) -> None:
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
        _blocks(builder, n, look)
        # Most samples are inside most boxes, and sums in float64 take longer than a look.
        outside = builder.fcmp_ordered(">", builder.load(furthest), zeros)
        with builder.if_then(_is_any(builder, outside)):
            _blocks(builder, n, add)
            lanes_total = [_DOUBLE(0.0), builder.load(total)]
            builder.store(builder.call(reduce, lanes_total, fastmath=["reassoc"]), result)
        return builder.load(result)

    return types.float64(types.int64, types.int64, types.int64, types.int64), codegen


@inlined
def gap(v: float, low: float, high: float) -> float:
    """Return how far a value lies outside a side, as float32 has it; 0 where one is missing."""
    below = np.float64(np.float32(low - v))
    above = np.float64(np.float32(v - high))
    # Comparisons with NaN are false.
    gap = below if below > above else above
    return gap if gap > 0.0 else 0.0


@inlined
def distance_outside(x: int, lower: int, upper: int, n_dims: int) -> float:
    """Sum how far `x` lies outside a box; a missing value or an unknown side adds nothing."""
    if n_dims >= BLOCK:
        return _outside_by_blocks(x, lower, upper, n_dims)
    if n_dims == 2:
        # A loop would be made one over masked vectors, which takes three times as long.
        first = gap(f32(x, 0), f32(lower, 0), f32(upper, 0))
        return first + gap(f32(x, 1), f32(lower, 1), f32(upper, 1))
    total = 0.0
    for d in range(n_dims):
        total += gap(f32(x, d), f32(lower, d), f32(upper, d))
    return total


def _moved(builder: Any, v: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Return sides that hold values, too; a side that is NaN moves to the value."""

    def moves(passes: str, side: Any) -> Any:
        return builder.or_(
            builder.fcmp_ordered(passes, v, side), builder.fcmp_unordered("uno", side, side)
        )

    return builder.select(moves("<", low), v, low), builder.select(moves(">", high), v, high)


@intrinsic
def _extend_by_blocks(
    typingctx: Any, points: Any, n: Any, lower: Any, upper: Any, dims: Any
) -> Any:
    """Grow a box of at least BLOCK dimensions so that it holds n points, given by address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        points, n, lower, upper, dims = args
        points = builder.inttoptr(points, n.type.as_pointer())

        def visit(d: Any, repeated: Any) -> None:
            places = [_place(builder, box, d) for box in (lower, upper)]
            before = [builder.load(place, align=_ALIGNMENT) for place in places]
            sides = [cgutils.alloca_once_value(builder, side) for side in before]
            with cgutils.for_range(builder, n) as loop:
                x = builder.load(builder.gep(points, [loop.index]))
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
        return context.get_dummy_value()

    signature = types.void(*[types.int64] * 5)
    return signature, codegen


room_of_one = room_for(1)
room_of_batch = room_for(BATCH)


@inlined
def extend_box_by(points: int, n: int, lower: int, upper: int, n_dims: int) -> None:
    """Grow a box so that it holds `n` points, whose values are at the addresses at `points`.

    A missing value moves nothing, an unknown side moves to the first value.
    """
    if n_dims >= BLOCK:
        _extend_by_blocks(points, n, lower, upper, n_dims)
        return
    for d in range(n_dims):
        low = f32(lower, d)
        high = f32(upper, d)
        for i in range(n):
            v = f32(i64(points, i), d)
            low = v if (v < low or low != low) else low
            high = v if (v > high or high != high) else high
        put_f32(lower, d, low)
        put_f32(upper, d, high)


@inlined
def extend_box(x: int, lower: int, upper: int, n_dims: int) -> None:
    """Grow a box so that it holds `x`."""
    one = room_of_one()
    put_i64(one, 0, x)
    extend_box_by(one, np.int64(1), lower, upper, n_dims)
