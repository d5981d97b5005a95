"""Adding what a node's statistics say of each class to the posteriors of its tree.

That is most of what a prediction costs, and it is done by vector instructions. Of few classes a
block is added at once, for each posterior. LLVM's own loop would first ask which of the addresses
overlap, for longer than the sums take. Of many classes one is added at once, for all posteriors:
these lie together, as what a node knows of a class that it has seen does.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from ...compiling.kernels import separate
from ...records import Array, Float32s, Record, inline
from ...records.numba_types import lowered, pointer_to
from .records import AdaptiveForest, AdaptiveTree
from .seen import follow, seen_at
from .statistics import (
    BLOCK,
    BLOCK_WORDS,
    CLASSES_OF_WORD,
    HEAD_WORDS,
    LATE,
    LATEST,
    MORE_WORD,
    N_FIRST,
    N_FRONT,
    N_MORE,
    N_POSTERIORS,
    N_TOGETHER,
    SEEN_WORDS,
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


# Of many classes. Predictions of 300 took 1.4 times as long with a loop of numba's own.

# Of a class what is seen, and of the posteriors.
_SEEN_WORDS, _SEEN = ir.VectorType(_WORD, SEEN_WORDS), ir.VectorType(_FLOAT, SEEN_WORDS)
_SUMS = ir.VectorType(_FLOAT, N_POSTERIORS)


def _pick(builder: Any, one: Any, other: Any, places: list[int]) -> Any:
    """Return numbers of two vectors; places of the second begin behind those of the first."""
    kind = ir.VectorType(_WORD, len(places))
    return builder.shuffle_vector(one, other, ir.Constant(kind, places))


def _add_vectors(
    context: Any, builder: Any, row: Any, first: Any, n: Any, factors: Any, out: Any
) -> None:
    words, sums = pointer_to(builder, row, _WORD), pointer_to(builder, out, _FLOAT)
    numbers = pointer_to(builder, factors, _FLOAT)
    by_weight, by_first, by_second = (
        _load(builder, numbers, _INDEX(N_POSTERIORS * i), _SUMS) for i in range(3)
    )
    one = ir.Constant(_SEEN, [1.0] * SEEN_WORDS)
    with cgutils.for_range(builder, n) as loop:
        start = builder.add(first, builder.mul(loop.index, _INDEX(SEEN_WORDS)))
        seen = _load(builder, words, start, _SEEN_WORDS)
        values = builder.bitcast(seen, _SEEN)
        weight = _pick(builder, values, values, [1] * N_POSTERIORS)
        tables = builder.select(builder.fcmp_ordered("<", values, one), values, one)
        key = builder.extract_element(seen, _WORD(0))
        bits = builder.and_(key, _WORD(3))
        # One less where the right bit is set: 0, 1, 2 and 3 are 0, 1, 1 and 2 sides.
        sides = builder.sitofp(builder.sub(bits, builder.lshr(bits, _WORD(1))), _FLOAT)
        # The weight, then the tables or the sides, with the weights in the memories behind.
        firsts = _pick(builder, tables, values, [1, 1, SEEN_WORDS + 2 + LATE])
        seconds = _pick(builder, values, values, [1, 1, 2 + LATEST])
        seconds = builder.insert_element(seconds, sides, _WORD(0))
        place = builder.zext(builder.lshr(key, _WORD(SIDE_BITS)), _INDEX)
        place = builder.add(place, _INDEX(N_FRONT - 1))
        is_none = builder.icmp_unsigned("==", key, _WORD(0))
        place = builder.mul(builder.select(is_none, loop.index, place), _INDEX(N_POSTERIORS))
        place = builder.bitcast(builder.gep(sums, [place]), _SUMS.as_pointer())
        total = builder.load(place, align=_ALIGNMENT)
        for factor, vector in ((by_weight, weight), (by_first, firsts), (by_second, seconds)):
            product = builder.fmul(factor, vector, flags=_CONTRACT)
            total = builder.fadd(total, product, flags=_CONTRACT)
        builder.store(total, place, align=_ALIGNMENT)


@lowered(_add_vectors)
def _add_row(row: Statistics, first: int, n: int, factors: Factors, out: Float32s) -> None:
    """Add the `n` classes of a row from a word on.

    Where there is room for one, nothing is added to a row in front: to another one for each place,
    since they would wait for each other.
    """
    for i in range(n):
        seen = seen_at(row, first, i)
        weight, bits = seen.count, seen.key & 3
        late, latest = seen.weights[LATE], seen.weights[LATEST]
        firsts = (min(weight, 1.0), 0.0, late)
        seconds = (bits - (bits >> 1), 0.0, latest)
        start = N_POSTERIORS * (i if seen.key == 0 else N_FRONT + seen.label())
        for v in range(N_POSTERIORS):
            out[start + v] = (
                out[start + v]
                + factors.by_weight[v] * weight
                + factors.by_first[v] * firsts[v]
                + factors.by_second[v] * seconds[v]
            )


@separate
def add_seen(
    forest: AdaptiveForest,
    tree: AdaptiveTree,
    factors: Array[Factors],
    n: int,
    out: Float32s,
) -> None:
    """Add what `n` nodes have seen to a tree's posteriors.

    `out` has a row of N_POSTERIORS for each class, behind N_FRONT others, the first of which has
    what all classes get.
    """
    found = forest.found
    for start in range(0, n, N_TOGETHER):
        # The rows of several nodes wait together: of one at a time too few are known ahead to be
        # there when they are read.
        n_own = min(n - start, N_TOGETHER)
        for i in range(n_own):
            found[i].row = factors[start + i].statistics
            found[i].owner = start + i
        at, end = 0, n_own
        while at < end:
            owner, row = found[at].owner, tree.side_rows.known(found[at].row)
            end = follow(forest, tree, row, owner, end)
            if at < n_own:
                _add_row(row, HEAD_WORDS, N_FIRST, factors[owner], out)
            else:
                _add_row(row, MORE_WORD, N_MORE, factors[owner], out)
            at += 1
