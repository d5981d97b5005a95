"""Sets of classes as bits of 32-bit words in a node's row."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .memory import i32, inlined, put_i32


@intrinsic
def popcount(typingctx: Any, word: Any) -> Any:
    """Count the bits of an integer."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.int64), codegen


@intrinsic
def lowest_bit(typingctx: Any, word: Any) -> Any:
    """Return the position of the lowest bit of an integer that is not zero."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.IntType(1)(1))

    return types.int64(types.int64), codegen


@inlined
def word_at(node: int, at: int) -> int:
    """Read a word of a row as an unsigned one."""
    return i32(node, at) & 0xFFFFFFFF


@inlined
def add_class(node: int, at: int, label: int) -> None:
    """Put a class into the set whose first word is at `at`."""
    at += label >> 5
    put_i32(node, at, i32(node, at) | (1 << (label & 31)))


@inlined
def n_classes_in(left: int, right: int, n_words: int) -> int:
    """Count the classes in the union of two sets, which are at these addresses."""
    if n_words == 1:
        return popcount(word_at(left, 0) | word_at(right, 0))
    total = 0
    for w in range(n_words):
        total += popcount(word_at(left, w) | word_at(right, w))
    return total


@inlined
def first_class(node: int, at: int, n_words: int) -> int:
    """Return the smallest class in a set, -1 where it is empty."""
    for w in range(n_words):
        word = word_at(node, at + w)
        if word != 0:
            return 32 * w + lowest_bit(word)
    return -1
