"""Vector instructions for boxes, in blocks of dimensions (see `partitions.mondrian.boxes`).

If the dimensions do not fill whole blocks, the last block overlaps the block before it. LLVM's
vectorizer would handle the dimensions after the last whole block in a loop over single dimensions.
An exact forest of ten trees was slower with these loops than with overlapping blocks. Learning took
1.04 to 1.14 times as long at 9 to 21 dimensions, and 1.27 times at 54. Predicting took 1.0 to 1.08
times as long at 9 to 21 dimensions, and 1.17 times at 54. Padded buffers would not help, because
stored boxes have no padding.
"""

import math
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from ...limits import FARTHEST
from ...records.numba_types import address_in

BLOCK = 8

# Largest number of boxes for one call of `distances_to_points`.
MOST_PARTS = 16

_FLOAT, _DOUBLE, _INT = ir.FloatType(), ir.DoubleType(), ir.IntType(32)
_FLOATS, _DOUBLES, _INTS = (ir.VectorType(word, BLOCK) for word in (_FLOAT, _DOUBLE, _INT))
_BITS, _ADDRESS = ir.IntType(BLOCK), ir.IntType(64)
_ALIGNMENT = 4


def _place(builder: Any, address: Any, d: Any, word: Any = _FLOAT) -> Any:
    """Return the pointer to the block that begins at index d of the array at an address."""
    place = builder.gep(builder.inttoptr(address, word.as_pointer()), [d])
    return builder.bitcast(place, ir.VectorType(word, BLOCK).as_pointer())


def _load(builder: Any, address: Any, d: Any, word: Any = _FLOAT) -> Any:
    """Return the block that begins at index d of the array at an address."""
    return builder.load(_place(builder, address, d, word), align=_ALIGNMENT)


def _chosen(builder: Any, condition: Any, first: Any, second: Any) -> Any:
    """Return the result of `first()` if a condition holds, otherwise of `second()`."""
    with builder.if_else(condition) as (holds, fails):
        with holds:
            a = first()
            of_first = builder.block
        with fails:
            b = second()
            of_second = builder.block
    chosen = builder.phi(a.type)
    chosen.add_incoming(a, of_first)
    chosen.add_incoming(b, of_second)
    return chosen


class _Source:
    """The position of values in points' rows: float32 values, or inputs that are scaled.

    Scaling is monotone. So bounds are computed on unscaled inputs, and only the bounds are scaled.
    """

    def __init__(self, builder: Any, source: Any) -> None:
        """Read the fields of a `boxes.Source`."""
        self.builder = builder
        word, is_scaled, offsets, factors = cgutils.unpack_tuple(builder, source, 4)
        self.behind = builder.mul(word, _ADDRESS(4))
        self.is_scaled = builder.icmp_unsigned("!=", is_scaled, is_scaled.type(0))
        self.offsets, self.factors = (address_in(builder, one) for one in (offsets, factors))

    def load(self, row: Any, d: Any) -> Any:
        """Return a point's block at dimension `d` in float64; `row` is the address of its row."""
        builder, place = self.builder, self.builder.add(row, self.behind)
        return _chosen(
            builder,
            self.is_scaled,
            lambda: _load(builder, place, d, _DOUBLE),
            lambda: builder.fpext(_load(builder, place, d), _DOUBLES),
        )

    def scaled(self, block: Any, d: Any) -> Any:
        """Return the scaled values of a block that `load` has returned for dimension `d`."""
        builder = self.builder
        return _chosen(
            builder,
            self.is_scaled,
            lambda: _scaled(builder, block, self.offsets, self.factors, d),
            lambda: builder.fptrunc(block, _FLOATS),
        )


def _scaled(builder: Any, inputs: Any, offsets: Any, factors: Any, d: Any) -> Any:
    """Return the scaled values of a block of inputs at dimension `d` (`transforms.scaled`)."""
    offset, factor = (_load(builder, address, d, _DOUBLE) for address in (offsets, factors))
    v = builder.fmul(builder.fsub(inputs, offset), factor)
    for passes, end in ((">", FARTHEST), ("<", -FARTHEST)):
        limit = ir.Constant(_DOUBLES, [end] * BLOCK)
        v = builder.select(builder.fcmp_ordered(passes, v, limit), limit, v)
    return builder.fptrunc(v, _FLOATS)


def _larger(builder: Any, a: Any, b: Any) -> Any:
    """Return the elementwise maximum, or the element of `b` where `a` or `b` is NaN."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _blocks(builder: Any, n: Any, visit: Any) -> None:
    """Call `visit(d, repeated)` for blocks of n >= BLOCK dimensions.

    For an overlapping last block, `repeated` is the number of dimensions that this block shares
    with the block before it. For other blocks, `repeated` is None.
    """
    size = n.type(BLOCK)
    with cgutils.for_range(builder, builder.udiv(n, size)) as loop:
        visit(builder.mul(loop.index, size), None)
    rest = builder.urem(n, size)
    with builder.if_then(builder.icmp_unsigned("!=", rest, n.type(0))):
        visit(builder.sub(n, size), builder.sub(size, rest))


def _overlap(builder: Any, gaps: Any, repeated: Any) -> Any:
    """Return a last block's gaps, with 0 in dimensions shared with the block before it."""
    if repeated is None:
        return gaps
    first = builder.insert_element(ir.Constant(_INTS, None), builder.trunc(repeated, _INT), _INT(0))
    first = builder.shuffle_vector(first, first, ir.Constant(_INTS, None))
    lanes = ir.Constant(_INTS, list(range(BLOCK)))
    zeros = ir.Constant(_FLOATS, None)
    return builder.select(builder.icmp_signed(">=", lanes, first), gaps, zeros)


def _add(builder: Any, total: Any, gaps: Any) -> None:
    """Add a block's gaps to the lanes' sums in float64."""
    builder.store(builder.fadd(builder.load(total), builder.fpext(gaps, _DOUBLES)), total)


def _sum(builder: Any, total: Any) -> Any:
    """Return the total of the lanes' sums."""
    reduce = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(_DOUBLE, [_DOUBLE, _DOUBLES]),
        "llvm.vector.reduce.fadd.v8f64",
    )
    return builder.call(reduce, [_DOUBLE(0.0), builder.load(total)], fastmath=["reassoc"])


def distance_outside(context: Any, builder: Any, x: Any, lower: Any, upper: Any, n: Any) -> Any:
    """Return the L1 distance of `x` to a box of at least BLOCK dimensions."""
    x, lower, upper = (address_in(builder, array) for array in (x, lower, upper))
    zeros = ir.Constant(_FLOATS, None)
    furthest = cgutils.alloca_once_value(builder, zeros)
    total = cgutils.alloca_once_value(builder, ir.Constant(_DOUBLES, None))
    result = cgutils.alloca_once_value(builder, _DOUBLE(0.0))

    def gaps_at(d: Any) -> Any:
        v, low, high = (_load(builder, box, d) for box in (x, lower, upper))
        return _larger(builder, builder.fsub(low, v), builder.fsub(v, high))

    def find_furthest(d: Any, repeated: Any) -> None:
        builder.store(_larger(builder, gaps_at(d), builder.load(furthest)), furthest)

    def add(d: Any, repeated: Any) -> None:
        _add(builder, total, _overlap(builder, _larger(builder, gaps_at(d), zeros), repeated))

    _blocks(builder, n, find_furthest)
    # Sums in float64 take longer than comparisons. Most samples are inside the box, so distances
    # are summed only for samples outside.
    outside = builder.bitcast(builder.fcmp_ordered(">", builder.load(furthest), zeros), _BITS)
    with builder.if_then(builder.icmp_unsigned("!=", outside, _BITS(0))):
        _blocks(builder, n, add)
        builder.store(_sum(builder, total), result)
    return builder.load(result)


def distance_to_inputs(
    context: Any, builder: Any, x: Any, inputs: Any, offsets: Any, factors: Any, n: Any
) -> Any:
    """Return the L1 distance of `x` to a point, given its inputs in at least BLOCK dimensions."""
    x, inputs, offsets, factors = (
        address_in(builder, array) for array in (x, inputs, offsets, factors)
    )
    total = cgutils.alloca_once_value(builder, ir.Constant(_DOUBLES, None))
    zeros = ir.Constant(_FLOATS, None)

    def add(d: Any, repeated: Any) -> None:
        v, raw = _load(builder, x, d), _load(builder, inputs, d, _DOUBLE)
        known = _scaled(builder, raw, offsets, factors, d)
        gaps = _larger(builder, builder.fsub(known, v), builder.fsub(v, known))
        _add(builder, total, _overlap(builder, _larger(builder, gaps, zeros), repeated))

    _blocks(builder, n, add)
    return _sum(builder, total)


def scale_inputs(
    context: Any, builder: Any, inputs: Any, offsets: Any, factors: Any, out: Any, n: Any
) -> None:
    """Write the scaled values of at least BLOCK inputs."""
    inputs, offsets, factors, out = (
        address_in(builder, array) for array in (inputs, offsets, factors, out)
    )

    def write(d: Any, repeated: Any) -> None:
        raw = _load(builder, inputs, d, _DOUBLE)
        values = _scaled(builder, raw, offsets, factors, d)
        builder.store(values, _place(builder, out, d), align=_ALIGNMENT)

    _blocks(builder, n, write)


class _Points:
    """The points of a batch, and the bounds of a part of the batch in a block of dimensions."""

    def __init__(self, builder: Any, batch: Any, source: Any) -> None:
        self.builder = builder
        self.points = builder.inttoptr(address_in(builder, batch), _ADDRESS.as_pointer())
        self.source = _Source(builder, source)
        self.sides = [cgutils.alloca_once(builder, _DOUBLES) for _ in range(2)]

    def begin(self) -> None:
        """Make the bounds empty."""
        for side, end in zip(self.sides, (math.inf, -math.inf), strict=True):
            self.builder.store(ir.Constant(_DOUBLES, [end] * BLOCK), side)

    def hold(self, first: Any, end: Any, d: Any) -> None:
        """Extend the bounds at dimension `d` to the points `first` to `end` - 1."""
        builder = self.builder
        with cgutils.for_range_slice(builder, first, end, end.type(1)) as (i, _):
            v = self.source.load(builder.load(builder.gep(self.points, [i])), d)
            for side, passes in zip(self.sides, "<>", strict=True):
                known = builder.load(side)
                moves = builder.fcmp_ordered(passes, v, known)
                builder.store(builder.select(moves, v, known), side)

    def bounds(self, d: Any) -> list[Any]:
        """Return the scaled bounds at dimension `d`; NaN in dimensions without values."""
        builder, nan = self.builder, ir.Constant(_FLOATS, [math.nan] * BLOCK)
        low, high = (builder.load(side) for side in self.sides)
        is_known = builder.fcmp_ordered("<=", low, high)
        scaled = (self.source.scaled(side, d) for side in (low, high))
        return [builder.select(is_known, side, nan) for side in scaled]

    def gaps(self, x: Any, d: Any) -> Any:
        """Return the sample's distances to the bounds at `d`; 0 in dimensions without values."""
        builder, zeros = self.builder, ir.Constant(_FLOATS, None)
        low, high = self.bounds(d)
        v = _load(builder, x, d)
        gaps = _larger(builder, builder.fsub(low, v), builder.fsub(v, high))
        return _larger(builder, gaps, zeros)


def distances_to_points(
    context: Any,
    builder: Any,
    batch: Any,
    starts: Any,
    n: Any,
    source: Any,
    x: Any,
    dims: Any,
    out: Any,
) -> None:
    """Write, for each start, the L1 distance of `x` to the box of the points from this start on.

    There are `n` <= MOST_PARTS starts, which divide the batch into parts. The points are visited
    once for each block of dimensions, from the last part to the first.
    """
    points, one = _Points(builder, batch, source), n.type(1)
    x = address_in(builder, x)
    totals = cgutils.alloca_once(builder, _DOUBLES, size=MOST_PARTS)
    firsts = builder.inttoptr(address_in(builder, starts), _ADDRESS.as_pointer())
    found = builder.inttoptr(address_in(builder, out), _DOUBLE.as_pointer())
    with cgutils.for_range(builder, n) as loop:
        builder.store(ir.Constant(_DOUBLES, None), builder.gep(totals, [loop.index]))

    def add(d: Any, repeated: Any) -> None:
        points.begin()
        with cgutils.for_range(builder, n) as loop:
            k = builder.sub(builder.sub(n, one), loop.index)
            first, end = (builder.load(builder.gep(firsts, [i])) for i in (k, builder.add(k, one)))
            points.hold(first, end, d)
            gaps = _overlap(builder, points.gaps(x, d), repeated)
            _add(builder, builder.gep(totals, [k]), gaps)

    _blocks(builder, dims, add)
    with cgutils.for_range(builder, n) as loop:
        total = _sum(builder, builder.gep(totals, [loop.index]))
        builder.store(total, builder.gep(found, [loop.index]))


def _extend(builder: Any, box: Any, d: Any, low: Any, high: Any) -> None:
    """Extend a box at dimension `d` to a block of bounds. A NaN bound of the box is replaced."""
    for side, value, passes in zip(box, (low, high), "<>", strict=True):
        place = _place(builder, side, d)
        known = builder.load(place, align=_ALIGNMENT)
        moves = builder.or_(
            builder.fcmp_ordered(passes, value, known),
            builder.fcmp_unordered("uno", known, known),
        )
        # Unchanged bounds are stored too, because a branch would be hard to predict and slower.
        builder.store(builder.select(moves, value, known), place, align=_ALIGNMENT)


def hold_values(context: Any, builder: Any, x: Any, lower: Any, upper: Any, dims: Any) -> None:
    """Grow a box of at least BLOCK dimensions to contain the values `x`."""
    x, *box = (address_in(builder, array) for array in (x, lower, upper))

    def visit(d: Any, repeated: Any) -> None:
        v = _load(builder, x, d)
        _extend(builder, box, d, v, v)

    _blocks(builder, dims, visit)


def hold_points(
    context: Any,
    builder: Any,
    batch: Any,
    n: Any,
    source: Any,
    lower: Any,
    upper: Any,
    dims: Any,
) -> None:
    """Grow a box of at least BLOCK dimensions to contain the points of a batch."""
    points = _Points(builder, batch, source)
    box = [address_in(builder, side) for side in (lower, upper)]

    def visit(d: Any, repeated: Any) -> None:
        points.begin()
        points.hold(n.type(0), n, d)
        _extend(builder, box, d, *points.bounds(d))

    _blocks(builder, dims, visit)
