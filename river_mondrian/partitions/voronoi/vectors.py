"""Loops over vectors in LLVM, which the primitives of this package are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

# Numbers per vector: rows are padded with zeros to a multiple of it.
LANES = 8

INT64 = ir.IntType(64)
SINGLES = ir.VectorType(ir.FloatType(), LANES)
DOUBLES = ir.VectorType(ir.DoubleType(), LANES)
_INT32 = ir.IntType(32)


def padded(width: int) -> int:
    """Return the width of a row with its padding, at least one vector."""
    return max(LANES, -(-width // LANES) * LANES)


def zero(vector: Any) -> Any:
    """Return a vector of zeros."""
    return ir.Constant(vector, [0.0] * LANES)


def splat(builder: Any, value: Any, vector: Any) -> Any:
    """Fill a vector with a value."""
    single = builder.insert_element(ir.Constant(vector, ir.Undefined), value, _INT32(0))
    mask = ir.Constant(ir.VectorType(_INT32, LANES), [0] * LANES)
    return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), mask)


def load(builder: Any, start: Any, i: Any, align: int = 4) -> Any:
    """Load the i-th vector, or number, behind a pointer."""
    return builder.load(builder.gep(start, [i]), align=align)


def groups_of(builder: Any, n: Any) -> Any:
    """Return how many vectors hold `n` numbers."""
    return builder.lshr(n, INT64(LANES.bit_length() - 1))


def loop(builder: Any, n: Any, starts: list[Any], body: Callable[..., list[Any]]) -> list[Any]:
    """Run `n` rounds, at least one, of `body(i, *values)`, which returns the next values."""
    before = builder.block
    rounds = builder.append_basic_block("rounds")
    after = builder.append_basic_block("after_rounds")
    builder.branch(rounds)
    builder.position_at_end(rounds)
    i = builder.phi(INT64)
    values = [builder.phi(start.type) for start in starts]
    following = body(i, *values)
    end = builder.add(i, INT64(1))
    for phi, first, later in zip([i, *values], [INT64(0), *starts], [end, *following], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(later, rounds)
    builder.cbranch(builder.icmp_signed("<", end, n), rounds, after)
    builder.position_at_end(after)
    return following


def sum_lanes(builder: Any, vector: Any) -> Any:
    """Sum a vector's numbers as a tree: each of the first half with its partner in the second."""
    lane = [builder.extract_element(vector, _INT32(k)) for k in range(LANES)]
    while len(lane) > 1:
        half = len(lane) // 2
        lane = [builder.fadd(lane[k], lane[k + half]) for k in range(half)]
    return lane[0]


def sum_as_tree(lane: list[float]) -> float:
    """Sum numbers as `sum_lanes` does."""
    while len(lane) > 1:
        half = len(lane) // 2
        lane = [lane[k] + lane[k + half] for k in range(half)]
    return lane[0]
