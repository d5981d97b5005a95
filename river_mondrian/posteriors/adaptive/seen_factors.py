"""Adding what nodes have seen of many classes to the posteriors of their tree.

The posteriors of a class lie together, as what a node knows of the class does. So a class is added
with vector instructions: numba's own loop took 1.3 times as long.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from ...compiling.kernels import separate
from ...records import Array, Float32s
from ...records.compiled import lowered, pointer_to
from .factors import Factors
from .records import AdaptiveForest, AdaptiveTree
from .seen import follow, seen_at
from .statistics import (
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
    Statistics,
)

_WORD, _FLOAT, _INDEX = ir.IntType(32), ir.FloatType(), ir.IntType(64)
# Of a class what is seen, and of the posteriors.
_SEEN_WORDS, _SEEN = ir.VectorType(_WORD, SEEN_WORDS), ir.VectorType(_FLOAT, SEEN_WORDS)
_FLOATS = ir.VectorType(_FLOAT, N_POSTERIORS)
_ALIGNMENT = 4
_CONTRACT = ("contract",)


def _load(builder: Any, words: Any, start: Any, kind: Any) -> Any:
    place = builder.bitcast(builder.gep(words, [start]), kind.as_pointer())
    return builder.load(place, align=_ALIGNMENT)


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
        _load(builder, numbers, _INDEX(N_POSTERIORS * i), _FLOATS) for i in range(3)
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
        place = builder.bitcast(builder.gep(sums, [place]), _FLOATS.as_pointer())
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
