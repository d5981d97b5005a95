"""Sets of classes as bits of 32-bit words."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from .memory import inlined


@intrinsic  # type: ignore[untyped-decorator]
def popcount(typingctx: Any, word: Any) -> Any:
    """Count the bits of an unsigned 32-bit word."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.zext(builder.ctpop(args[0]), ir.IntType(64))

    return types.int64(types.uint32), codegen


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(typingctx: Any, word: Any) -> Any:
    """Return the position of the lowest bit of a non-zero unsigned 32-bit word."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zeros = builder.cttz(args[0], ir.IntType(1)(1))
        return builder.zext(zeros, ir.IntType(64))

    return types.int64(types.uint32), codegen


@inlined
def word_at(head: np.ndarray, at: int) -> np.uint32:
    """Read a word of a row as unsigned."""
    return np.uint32(head[at])


@inlined
def add_class(head: np.ndarray, at: int, label: int) -> None:
    """Put a class into the set whose first word is at `at`."""
    bit = np.uint32(1) << np.uint32(label & 31)
    head[at + (label >> 5)] = np.int32(np.uint32(head[at + (label >> 5)]) | bit)


@inlined
def n_classes_in(head: np.ndarray, left: int, right: int, n_words: int) -> int:
    """Count the classes in the union of two sets."""
    total = 0
    for w in range(n_words):
        total += popcount(word_at(head, left + w) | word_at(head, right + w))
    return total


@inlined
def first_class(head: np.ndarray, left: int, right: int, n_words: int) -> int:
    """Return the smallest class in the union of two sets, -1 where it is empty."""
    for w in range(n_words):
        word = word_at(head, left + w) | word_at(head, right + w)
        if word != np.uint32(0):
            return 32 * w + lowest_bit(word)
    return -1
