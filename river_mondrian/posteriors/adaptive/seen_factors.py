"""Adding what a node has seen of many classes to the posteriors of its tree.

A class's posteriors lie together as what is known of it does, so that one class at a time is added
with vector instructions. Where a node has places for all classes several of these are added at
once, to sums of their own, in which the classes of a posterior lie together.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from ...compiling.kernels import inlined, separate
from ...records import CHUNK_ROWS, Array, Float32s, Int32s, Record, inline
from ...records.compiled import lowered, pointer_to
from .records import AdaptiveForest, AdaptiveTree
from .seen import follow, seen_at
from .statistics import (
    HEAD_WORDS,
    LANES,
    LATE,
    LATEST,
    MORE_WORD,
    N_FIRST,
    N_FORGETTING,
    N_FRONT,
    N_MORE,
    N_POSTERIORS,
    N_TOGETHER,
    SEEN_WORDS,
    SIDE_BITS,
    Statistics,
)


class SeenFactors(Record):
    """What a node adds to the posteriors of a class, but for what all classes get.

    Each posterior has a factor of the class's weight; then the HNSP has one of its tables, and the
    last posterior one of its weight in the first memory that forgets; then they have one of its
    sides, and of its weight in the other such memory.
    """

    by_weight: Float32s = inline(N_POSTERIORS)
    by_first: Float32s = inline(N_POSTERIORS)
    by_second: Float32s = inline(N_POSTERIORS)
    # The node's.
    statistics: Statistics


_WORD, _FLOAT, _INDEX = ir.IntType(32), ir.FloatType(), ir.IntType(64)
_WORDS, _FLOATS = ir.VectorType(_WORD, 4), ir.VectorType(_FLOAT, 4)
_ALIGNMENT = 4
_CONTRACT = ("contract",)


def _load(builder: Any, words: Any, start: Any, kind: Any) -> Any:
    place = builder.bitcast(builder.gep(words, [start]), kind.as_pointer())
    return builder.load(place, align=_ALIGNMENT)


def _pick(builder: Any, one: Any, other: Any, places: list[int]) -> Any:
    """Return numbers of two vectors, of which the second one's have the places from 4 on."""
    return builder.shuffle_vector(one, other, ir.Constant(_WORDS, places))


def _add_vectors(
    context: Any, builder: Any, row: Any, first: Any, n: Any, factors: Any, out: Any
) -> None:
    words, sums = pointer_to(builder, row, _WORD), pointer_to(builder, out, _FLOAT)
    numbers = pointer_to(builder, factors, _FLOAT)
    by_weight, by_first, by_second = (
        _load(builder, numbers, _INDEX(N_POSTERIORS * i), _FLOATS) for i in range(3)
    )
    one = ir.Constant(_FLOATS, [1.0] * 4)
    with cgutils.for_range(builder, n) as loop:
        start = builder.add(first, builder.mul(loop.index, _INDEX(SEEN_WORDS)))
        seen = _load(builder, words, start, _WORDS)
        values = builder.bitcast(seen, _FLOATS)
        weight = _pick(builder, values, values, [1] * 4)
        tables = builder.select(builder.fcmp_ordered("<", weight, one), weight, one)
        key = builder.extract_element(seen, _WORD(0))
        bits = builder.and_(key, _WORD(3))
        # One less where the right bit is set: 0, 1, 2 and 3 are 0, 1, 1 and 2 sides.
        sides = builder.sitofp(builder.sub(bits, builder.lshr(bits, _WORD(1))), _FLOAT)
        # The weight, then the tables or the sides, with the weights in the memories behind.
        memories = [1, 1, 1, 4 + 2 + LATE]
        firsts = _pick(builder, tables, values, memories)
        seconds = _pick(builder, values, values, [1, 1, 1, 2 + LATEST])
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
def _add_row(row: Statistics, first: int, n: int, factors: SeenFactors, out: Float32s) -> None:
    """Add the `n` classes of a row from a word on.

    Where there is room for one, nothing is added to a row in front: to another one for each place,
    since they would wait for each other.
    """
    for i in range(n):
        seen = seen_at(row, first, i)
        weight, bits = seen.count, seen.key & 3
        tables, sides = min(weight, 1.0), bits - (bits >> 1)
        late, latest = seen.weights[LATE], seen.weights[LATEST]
        firsts, seconds = (tables, 0.0, 0.0, late), (sides, 0.0, 0.0, latest)
        start = N_POSTERIORS * (i if seen.key == 0 else N_FRONT + seen.label())
        for v in range(N_POSTERIORS):
            out[start + v] = (
                out[start + v]
                + factors.by_weight[v] * weight
                + factors.by_first[v] * firsts[v]
                + factors.by_second[v] * seconds[v]
            )


# Places.

_LANE_FLOATS, _LANE_WORDS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_WORD, LANES)


def _each_lane(builder: Any, factors: Any, i: int) -> Any:
    """Return a vector of which each is the i-th of the factors."""
    number = builder.load(builder.gep(factors, [_INDEX(i)]), align=_ALIGNMENT)
    vector = builder.insert_element(ir.Constant(_LANE_FLOATS, None), number, _WORD(0))
    return builder.shuffle_vector(vector, vector, ir.Constant(_LANE_WORDS, None))


def _sides_of(builder: Any, keys: Any) -> Any:
    """Return the numbers of sides in keys: 0, 1, 2 and 3 are 0, 1, 1 and 2 sides."""
    one, three = (ir.Constant(_LANE_WORDS, [bits] * LANES) for bits in (1, 3))
    bits = builder.and_(keys, three)
    return builder.sitofp(builder.sub(bits, builder.lshr(bits, one)), _LANE_FLOATS)


def _add_lanes(
    context: Any,
    builder: Any,
    row: Any,
    n: Any,
    stride: Any,
    factors: Any,
    is_hnsp: Any,
    out: Any,
    width: Any,
) -> None:
    words, sums = pointer_to(builder, row, _WORD), pointer_to(builder, out, _FLOAT)
    numbers = pointer_to(builder, factors, _FLOAT)
    by_weight, by_first, by_second = (
        [_each_lane(builder, numbers, N_POSTERIORS * i + v) for v in range(N_POSTERIORS)]
        for i in range(3)
    )
    ones = ir.Constant(_LANE_FLOATS, [1.0] * LANES)

    def add_each(add: Any) -> None:
        with cgutils.for_range(builder, n) as loop:
            start = builder.add(builder.mul(loop.index, stride), _INDEX(MORE_WORD))
            first = builder.mul(loop.index, _INDEX(LANES))

            def memory(m: int) -> Any:
                place = builder.add(start, _INDEX(LANES * m))
                return _load(builder, words, place, _LANE_FLOATS)

            add(start, first, memory)

    def add_to(posterior: int, first: Any, *products: tuple[Any, Any]) -> None:
        start = builder.add(builder.mul(width, _INDEX(posterior)), first)
        place = builder.bitcast(builder.gep(sums, [start]), _LANE_FLOATS.as_pointer())
        total = builder.load(place, align=_ALIGNMENT)
        for factor, vector in products:
            product = builder.fmul(factor, vector, flags=_CONTRACT)
            total = builder.fadd(total, product, flags=_CONTRACT)
        builder.store(total, place, align=_ALIGNMENT)

    def add_weightings(start: Any, first: Any, memory: Any) -> None:
        weight, late, latest = memory(1), memory(2 + LATE), memory(2 + LATEST)
        for v in range(1, N_POSTERIORS - 1):
            add_to(v, first, (by_weight[v], weight))
        v = N_POSTERIORS - 1
        products = (by_weight[v], weight), (by_first[v], late), (by_second[v], latest)
        add_to(v, first, *products)

    def add_hnsp(start: Any, first: Any, memory: Any) -> None:
        weight = memory(1)
        tables = builder.select(builder.fcmp_ordered("<", weight, ones), weight, ones)
        sides = _sides_of(builder, _load(builder, words, start, _LANE_WORDS))
        products = (by_weight[0], weight), (by_first[0], tables), (by_second[0], sides)
        add_to(0, first, *products)

    add_each(add_weightings)
    with builder.if_then(builder.icmp_signed("!=", is_hnsp, is_hnsp.type(0))):
        add_each(add_hnsp)


@lowered(_add_lanes)
def _add_places(
    row: Statistics,
    n: int,
    stride: int,
    factors: SeenFactors,
    is_hnsp: int,
    out: Float32s,
    width: int,
) -> None:
    """Add the classes of `n` rows of places, of which each begins `stride` words behind another.

    `out` has a row of `width` classes for each posterior. To the HNSP nothing is added unless it is
    told to.
    """
    for i in range(LANES * n):
        start = stride * (i // LANES) + MORE_WORD + i % LANES
        bits = Int32s(row, start, 1)[0] & 3
        numbers = Float32s(row, start + LANES, LANES * N_FORGETTING + 1)
        weight, late, latest = (
            numbers[0],
            numbers[LANES * (1 + LATE)],
            numbers[LANES * (1 + LATEST)],
        )
        tables, sides = min(weight, 1.0), bits - (bits >> 1)
        firsts, seconds = (tables, 0.0, 0.0, late), (sides, 0.0, 0.0, latest)
        for v in range(0 if is_hnsp else 1, N_POSTERIORS):
            place = width * v + i
            out[place] = (
                out[place]
                + factors.by_weight[v] * weight
                + factors.by_first[v] * firsts[v]
                + factors.by_second[v] * seconds[v]
            )


@inlined
def sums_of_places(forest: AdaptiveForest, sums: Float32s) -> Float32s:
    """Return where what nodes add that have places is: a row of classes for each posterior."""
    start, capacity = N_POSTERIORS * (N_FRONT + forest.class_capacity), forest.class_capacity
    return sums.part(start, N_POSTERIORS * capacity + LANES)


@inlined
def _add_all_places(
    forest: AdaptiveForest, tree: AdaptiveTree, factors: SeenFactors, out: Float32s
) -> None:
    """Add what is at a node's places."""
    places, capacity = factors.statistics.places(), forest.class_capacity
    is_hnsp = 0
    for numbers in (factors.by_weight, factors.by_first, factors.by_second):
        is_hnsp |= int(numbers[0] != 0.0)
    n_classes = min(places.n_classes(), forest.n_classes)
    at, end = places.row_of(0), places.row_of(n_classes + LANES - 1)
    first = 0
    while at < end:
        # Rows of a chunk lie one behind the other.
        n = min(end - at, CHUNK_ROWS - at % CHUNK_ROWS)
        row = tree.side_rows.row(at)
        own = out.part(first, N_POSTERIORS * capacity + LANES - first)
        _add_places(row, n, forest.statistics_words, factors, is_hnsp, own, capacity)
        at += n
        first += LANES * n


@separate
def add_seen(
    forest: AdaptiveForest,
    tree: AdaptiveTree,
    factors: Array[SeenFactors],
    n: int,
    out: Float32s,
) -> None:
    """Add what `n` nodes have seen to a tree's posteriors.

    `out` has a row of N_POSTERIORS for each class, behind N_FRONT others, the first of which has
    what all classes get; then sums of places.
    """
    found, of_places = forest.found, sums_of_places(forest, out)
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
                has_places = row.places().start < 0
                if has_places:
                    _add_all_places(forest, tree, factors[owner], of_places)
                # They are told of in place of the first class.
                n_told = 1 if has_places else 0
                first = HEAD_WORDS + SEEN_WORDS * n_told
                _add_row(row, first, N_FIRST - n_told, factors[owner], out)
            else:
                _add_row(row, MORE_WORD, N_MORE, factors[owner], out)
            at += 1
