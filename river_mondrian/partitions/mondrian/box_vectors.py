"""Vector instructions for boxes, in blocks of dimensions (see `partitions.mondrian.boxes`).

If the dimensions do not fill whole blocks, the last block overlaps the block before it. LLVM's
vectorizer would handle the dimensions after the last whole block in a loop over single dimensions.
An exact forest of ten trees was slower with these loops than with overlapping blocks. Learning took
1.04 to 1.14 times as long at 9 to 21 dimensions, and 1.27 times at 54. Predicting took 1.0 to 1.08
times as long at 9 to 21 dimensions, and 1.17 times at 54. Padding scratch memory would not help,
because boxes are stored in adjacent rows without padding.
"""

import math
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from ...limits import FARTHEST
from ...records.numba_types import address_in

BLOCK = 8

# Largest number of starts of `distances_to_points`.
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


class _Source:
    """Where the rows of points have values: float32 values, or inputs that are scaled when read."""

    def __init__(self, builder: Any, source: Any) -> None:
        """Read the fields of a `boxes.Source`."""
        self.builder = builder
        word, is_scaled, offsets, factors = cgutils.unpack_tuple(builder, source, 4)
        self.behind = builder.mul(word, _ADDRESS(4))
        self.is_scaled = builder.icmp_unsigned("!=", is_scaled, is_scaled.type(0))
        self.offsets, self.factors = (address_in(builder, one) for one in (offsets, factors))

    def load(self, row: Any, d: Any) -> Any:
        """Return the block of values at dimension `d` of the point whose row has an address."""
        builder, place = self.builder, self.builder.add(row, self.behind)
        with builder.if_else(self.is_scaled) as (is_scaled, is_stored):
            with is_scaled:
                scaled = _scaled(builder, place, self.offsets, self.factors, d)
                of_inputs = builder.block
            with is_stored:
                stored, of_values = _load(builder, place, d), builder.block
        found = builder.phi(_FLOATS)
        found.add_incoming(scaled, of_inputs)
        found.add_incoming(stored, of_values)
        return found


def _scaled(builder: Any, inputs: Any, offsets: Any, factors: Any, d: Any) -> Any:
    """Return the block of scaled inputs at dimension `d` (see `transforms.scaled`)."""
    raw, offset, factor = (
        _load(builder, address, d, _DOUBLE) for address in (inputs, offsets, factors)
    )
    v = builder.fmul(builder.fsub(raw, offset), factor)
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
    """Add a block's gaps to the sums of the lanes, which are in float64."""
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
    # Sums in float64 take longer than comparisons. So distances are summed only if the sample is
    # outside the box, which is rare.
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
        v, known = _load(builder, x, d), _scaled(builder, inputs, offsets, factors, d)
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
        values = _scaled(builder, inputs, offsets, factors, d)
        builder.store(values, _place(builder, out, d), align=_ALIGNMENT)

    _blocks(builder, n, write)


class _Points:
    """A sample and the points of a batch."""

    def __init__(self, builder: Any, batch: Any, source: _Source, x: Any) -> None:
        self.builder = builder
        self.points = builder.inttoptr(address_in(builder, batch), _ADDRESS.as_pointer())
        self.source = source
        self.x = address_in(builder, x)
        self.sides = [cgutils.alloca_once(builder, _FLOATS) for _ in range(2)]

    def begin(self) -> None:
        """Make the current block of the box empty."""
        for side, end in zip(self.sides, (math.inf, -math.inf), strict=True):
            self.builder.store(ir.Constant(_FLOATS, [end] * BLOCK), side)

    def hold(self, first: Any, end: Any, d: Any) -> None:
        """Grow the block at dimension `d` so that it holds the points from `first` to `end`."""
        builder = self.builder
        with cgutils.for_range_slice(builder, first, end, end.type(1)) as (i, _):
            v = self.source.load(builder.load(builder.gep(self.points, [i])), d)
            for side, passes in zip(self.sides, "<>", strict=True):
                known = builder.load(side)
                moves = builder.fcmp_ordered(passes, v, known)
                builder.store(builder.select(moves, v, known), side)

    def gaps(self, d: Any) -> Any:
        """Return the sample's distances to the block at `d`; 0 in dimensions without values."""
        builder, zeros = self.builder, ir.Constant(_FLOATS, None)
        low, high = (builder.load(side) for side in self.sides)
        v = _load(builder, self.x, d)
        gaps = _larger(builder, builder.fsub(low, v), builder.fsub(v, high))
        is_known = builder.fcmp_ordered("<=", low, high)
        return builder.select(is_known, _larger(builder, gaps, zeros), zeros)


def distance_to_points(
    context: Any,
    builder: Any,
    batch: Any,
    n: Any,
    source: Any,
    x: Any,
    dims: Any,
) -> Any:
    """Return the L1 distance of `x` to the box of a batch's points in at least BLOCK dimensions."""
    points = _Points(builder, batch, _Source(builder, source), x)
    total = cgutils.alloca_once(builder, _DOUBLES)
    builder.store(ir.Constant(_DOUBLES, None), total)

    def add(d: Any, repeated: Any) -> None:
        points.begin()
        points.hold(n.type(0), n, d)
        _add(builder, total, _overlap(builder, points.gaps(d), repeated))

    _blocks(builder, dims, add)
    return _sum(builder, total)


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
    """For each start, write the L1 distance of `x` to the box of the points from this start on.

    There are `n` <= MOST_PARTS starts, which divide the batch into parts. The points are visited
    once for each block of dimensions, from the last part to the first.
    """
    points, one = _Points(builder, batch, _Source(builder, source), x), n.type(1)
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
            gaps = _overlap(builder, points.gaps(d), repeated)
            _add(builder, builder.gep(totals, [k]), gaps)

    _blocks(builder, dims, add)
    with cgutils.for_range(builder, n) as loop:
        total = _sum(builder, builder.gep(totals, [loop.index]))
        builder.store(total, builder.gep(found, [loop.index]))


def _moved(builder: Any, v: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Return the bounds of a box that grows to hold a value; a NaN bound becomes the value."""

    def moves(passes: str, side: Any) -> Any:
        return builder.or_(
            builder.fcmp_ordered(passes, v, side), builder.fcmp_unordered("uno", side, side)
        )

    return builder.select(moves("<", low), v, low), builder.select(moves(">", high), v, high)


def hold_values(context: Any, builder: Any, x: Any, lower: Any, upper: Any, dims: Any) -> None:
    """Grow a box of at least BLOCK dimensions so that it holds the values `x`."""
    x, *box = (address_in(builder, array) for array in (x, lower, upper))

    def visit(d: Any, repeated: Any) -> None:
        known = [_load(builder, side, d) for side in box]
        moved = _moved(builder, _load(builder, x, d), *known)
        # Unchanged bounds are stored too, because a branch would be hard to predict and slower.
        for side, value in zip(box, moved, strict=True):
            builder.store(value, _place(builder, side, d), align=_ALIGNMENT)

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
    """Grow a box of at least BLOCK dimensions so that it holds the points of a batch."""
    batch, lower, upper = (address_in(builder, array) for array in (batch, lower, upper))
    points = builder.inttoptr(batch, _ADDRESS.as_pointer())
    values = _Source(builder, source)

    def visit(d: Any, repeated: Any) -> None:
        places = [_place(builder, box, d) for box in (lower, upper)]
        before = [builder.load(place, align=_ALIGNMENT) for place in places]
        sides = [cgutils.alloca_once_value(builder, side) for side in before]
        with cgutils.for_range(builder, n) as loop:
            v = values.load(builder.load(builder.gep(points, [loop.index])), d)
            moved = _moved(builder, v, *[builder.load(side) for side in sides])
            for side, value in zip(sides, moved, strict=True):
                builder.store(value, side)
        for side, place in zip(sides, places, strict=True):
            builder.store(builder.load(side), place, align=_ALIGNMENT)

    _blocks(builder, dims, visit)
