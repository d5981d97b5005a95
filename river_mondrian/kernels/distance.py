"""The one routine for distances, so that every search for a nearest point gives the same one.

Ties are common (on binary data in half of the searches), and a tie that rounding breaks one way in
one search and another way in the next makes the cells depend on how they were found. So the sum is
fixed to the last bit: differences in single precision, whose squares are exact in double precision
(whether or not the processor fuses multiplication and addition); eight partial sums, the j-th
square added to the one of number j modulo 8 in ascending order; and those summed as a tree. A term
of zero changes nothing, so that a sparse sum over the others is the same number.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .memory import exact_inlined

# Rows are padded with zeros to a multiple of this many single-precision numbers.
LANES = 8


def padded(width: int) -> int:
    """Return the width of a row with its padding, at least one group of lanes."""
    return max(LANES, -(-width // LANES) * LANES)


def _lanes(a: Any, b: Any, width: Any, builder: Any) -> Any:
    """Build the loop that sums squares of differences lane by lane."""
    single = ir.VectorType(ir.FloatType(), LANES)
    double = ir.VectorType(ir.DoubleType(), LANES)
    int64 = ir.IntType(64)
    first = builder.inttoptr(a, single.as_pointer())
    second = builder.inttoptr(b, single.as_pointer())
    groups = builder.lshr(width, int64(3))
    before = builder.block
    loop = builder.append_basic_block("groups")
    after = builder.append_basic_block("summed")
    builder.branch(loop)
    builder.position_at_end(loop)
    i = builder.phi(int64)
    total = builder.phi(double)
    i.add_incoming(int64(0), before)
    total.add_incoming(ir.Constant(double, [0.0] * LANES), before)
    x, y = (builder.load(builder.gep(row, [i]), align=4) for row in (first, second))
    gap = builder.fpext(builder.fsub(x, y), double)
    added = builder.fadd(total, builder.fmul(gap, gap))
    following = builder.add(i, int64(1))
    i.add_incoming(following, loop)
    total.add_incoming(added, loop)
    builder.cbranch(builder.icmp_signed("<", following, groups), loop, after)
    builder.position_at_end(after)
    return added


@intrinsic
def _squared_distance(typingctx: Any, a: Any, b: Any, width: Any) -> Any:
    """Sum the squares of the differences of two padded single-precision rows."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sums = _lanes(*args, builder)
        lane = [builder.extract_element(sums, ir.IntType(32)(k)) for k in range(LANES)]
        while len(lane) > 1:
            half = len(lane) // 2
            lane = [builder.fadd(lane[k], lane[k + half]) for k in range(half)]
        return lane[0]

    return types.float64(types.int64, types.int64, types.int64), codegen


@exact_inlined
def squared_distance(a: int, b: int, width: int) -> float:
    """Return the squared Euclidean distance of two padded rows of float32, by their addresses."""
    return _squared_distance(a, b, width)
