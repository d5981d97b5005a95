"""Adding what a node's statistics say of each class to the posteriors of its tree.

That is most of what a prediction costs. Blocks of classes are as wide as vectors: LLVM's own would
first ask which of the addresses overlap, for longer than the sums take.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from ...records import Float32s, Record, inline
from ...records.compiled import lowered, pointer_to
from .statistics import (
    BLOCK,
    BLOCK_WORDS,
    CLASSES_OF_WORD,
    HEAD_WORDS,
    LATE,
    LATEST,
    N_POSTERIORS,
    SIDE_BITS,
    ClassBlock,
    Statistics,
)


class Factors(Record):
    """What a node adds to a tree's posteriors, of which the HNSP is the first.

    Each posterior has a factor of a class's weight. The HNSP has one of the class's tables, which
    are its weight, but 1 at most, and the last weighting one of its weight in the first memory that
    forgets; then they have one of its number of sides, and of its weight in the other such memory.
    What all classes get are constants of the weightings.
    """

    by_weight: Float32s = inline(N_POSTERIORS)
    by_first: Float32s = inline(N_POSTERIORS)
    by_second: Float32s = inline(N_POSTERIORS)
    constants: Float32s = inline(N_POSTERIORS)
    # The node's.
    statistics: Statistics


_FLOAT, _WORD = ir.FloatType(), ir.IntType(32)
_FLOATS, _WORDS = ir.VectorType(_FLOAT, BLOCK), ir.VectorType(_WORD, BLOCK)
_INDEX = ir.IntType(64)
_ALIGNMENT = 4
_CONTRACT = ("contract",)


def _each(builder: Any, factors: Any, i: int) -> Any:
    """Return a block of which each is the i-th of the factors."""
    number = builder.load(builder.gep(factors, [_INDEX(i)]), align=_ALIGNMENT)
    return _spread(builder, number, _FLOATS)


def _spread(builder: Any, number: Any, kind: Any) -> Any:
    """Return a block of a kind of which each is the number."""
    block = builder.insert_element(ir.Constant(kind, None), number, _WORD(0))
    return builder.shuffle_vector(block, block, ir.Constant(_WORDS, None))


def _load(builder: Any, words: Any, start: Any, block: Any) -> Any:
    """Load a block that begins with a word."""
    place = builder.bitcast(builder.gep(words, [start]), block.as_pointer())
    return builder.load(place, align=_ALIGNMENT)


def _sum(builder: Any, *parts: Any) -> Any:
    """Sum products, which are pairs, and plain numbers."""
    total = None
    for part in parts:
        if isinstance(part, tuple):
            part = builder.fmul(*part, flags=_CONTRACT)
        total = part if total is None else builder.fadd(total, part, flags=_CONTRACT)
    return total


def _add_by_blocks(
    context: Any, builder: Any, row: Any, n_classes: Any, factors: Any, out: Any, width: Any
) -> None:
    """Add a node's part to the posteriors, a block of classes at a time."""
    sums, words = pointer_to(builder, out, _FLOAT), pointer_to(builder, row, _WORD)
    numbers = pointer_to(builder, factors, _FLOAT)
    by_weight, by_first, by_second, constants = (
        [_each(builder, numbers, N_POSTERIORS * i + v) for v in range(N_POSTERIORS)]
        for i in range(4)
    )
    weights = HEAD_WORDS + ClassBlock.FIELDS["weights"].word
    one, three = (ir.Constant(_WORDS, [bits] * BLOCK) for bits in (1, 3))
    shifts = ir.Constant(_WORDS, [SIDE_BITS * k for k in range(BLOCK)])
    ones = ir.Constant(_FLOATS, [1.0] * BLOCK)
    blocks_of_word = _INDEX(CLASSES_OF_WORD // BLOCK)

    def add_to(posterior: int, first: Any, part: Any) -> None:
        start = builder.add(builder.mul(width, _INDEX(posterior)), first)
        place = builder.bitcast(builder.gep(sums, [start]), _FLOATS.as_pointer())
        before = builder.load(place, align=_ALIGNMENT)
        builder.store(_sum(builder, before, part), place, align=_ALIGNMENT)

    size = _INDEX(BLOCK)
    all_sides = builder.mul(builder.udiv(width, size), _INDEX(BLOCK_WORDS))
    all_sides = builder.add(all_sides, _INDEX(HEAD_WORDS))
    n_blocks = builder.udiv(builder.add(n_classes, _INDEX(BLOCK - 1)), size)
    with cgutils.for_range(builder, n_blocks) as loop:
        block = builder.mul(loop.index, _INDEX(BLOCK_WORDS))
        first = builder.mul(loop.index, size)
        count = _load(builder, words, builder.add(block, _INDEX(HEAD_WORDS)), _FLOATS)
        tables = builder.select(builder.fcmp_ordered("<", count, ones), count, ones)
        place = builder.add(all_sides, builder.udiv(loop.index, blocks_of_word))
        word = builder.load(builder.gep(words, [place]), align=_ALIGNMENT)
        shift = builder.mul(builder.urem(loop.index, blocks_of_word), _INDEX(SIDE_BITS * BLOCK))
        word = builder.lshr(word, builder.trunc(shift, _WORD))
        bits = builder.and_(builder.lshr(_spread(builder, word, _WORDS), shifts), three)
        # One less where the right bit is set: 0, 1, 2 and 3 are 0, 1, 1 and 2 sides.
        sides = builder.sitofp(builder.sub(bits, builder.lshr(bits, one)), _FLOATS)
        late, latest = (
            _load(builder, words, builder.add(block, _INDEX(weights + m * BLOCK)), _FLOATS)
            for m in (LATE, LATEST)
        )
        hnsp, noisy, mixed = range(N_POSTERIORS)
        parts = (
            ((by_first[hnsp], tables), (by_second[hnsp], sides), (by_weight[hnsp], count)),
            (constants[noisy], (by_weight[noisy], count)),
            (
                constants[mixed],
                (by_weight[mixed], count),
                (by_first[mixed], late),
                (by_second[mixed], latest),
            ),
        )
        for posterior, part in enumerate(parts):
            add_to(posterior, first, _sum(builder, *part))


@lowered(_add_by_blocks)
def add_statistics(
    statistics: Statistics, n_classes: int, factors: Factors, out: Float32s, width: int
) -> None:
    """Add a node's part to a tree's posteriors: N_POSTERIORS rows of `width` in `out`."""
    all_sides = statistics.sides(width)
    for k in range(n_classes):
        block = statistics.block_of(k)
        place = k % BLOCK
        count = block.counts[place]
        bits = all_sides[k // CLASSES_OF_WORD] >> k % CLASSES_OF_WORD * SIDE_BITS & 3
        late, latest = block.weights[place], block.weights[BLOCK + place]
        firsts, seconds = (min(count, 1.0), 0.0, late), (bits - (bits >> 1), 0.0, latest)
        for v in range(N_POSTERIORS):
            i = width * v + k
            out[i] = (
                out[i]
                + factors.constants[v]
                + factors.by_weight[v] * count
                + factors.by_first[v] * firsts[v]
                + factors.by_second[v] * seconds[v]
            )
