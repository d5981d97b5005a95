"""Sets of classes as bits of 32-bit words."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from ...compiling.kernels import inlined
from ...records import Float64s, Int32s, lowest_bit, popcount
from ...records.compiled import lowered, pointer_to

# Classes of a word.
WORD_CLASSES = 32


@inlined
def n_words_of(n_classes: int) -> int:
    """Return how many words of a set the first `n_classes` are in."""
    return (n_classes + WORD_CLASSES - 1) // WORD_CLASSES


@inlined
def word_at(classes: Int32s, w: int) -> int:
    """Read a word of a set as an unsigned one."""
    return classes[w] & 0xFFFFFFFF


@inlined
def add_class(classes: Int32s, label: int) -> None:
    """Put a class into a set."""
    word = label >> 5
    classes[word] = classes[word] | (1 << (label & 31))


@inlined
def remove_class(classes: Int32s, label: int) -> None:
    """Take a class out of a set."""
    word = label >> 5
    classes[word] = classes[word] & ~(1 << (label & 31))


@inlined
def count_classes(left: Int32s, right: Int32s, n_words: int) -> tuple[int, int]:
    """Count the classes in the union of two sets, and those in their intersection."""
    if n_words == 1:
        one, other = word_at(left, 0), word_at(right, 0)
        return popcount(one | other), popcount(one & other)
    in_any, in_both = 0, 0
    for w in range(n_words):
        one, other = word_at(left, w), word_at(right, w)
        in_any += popcount(one | other)
        in_both += popcount(one & other)
    return in_any, in_both


@inlined
def n_classes_in(left: Int32s, right: Int32s, n_words: int) -> int:
    """Count the classes in the union of two sets."""
    return count_classes(left, right, n_words)[0]


@inlined
def is_one_class(left: Int32s, right: Int32s, n_words: int) -> bool:
    """Tell whether there is one class in the union of two sets."""
    found = 0
    for w in range(n_words):
        found += popcount(word_at(left, w) | word_at(right, w))
        if found > 1:
            return False
    return found == 1


@inlined
def first_class(classes: Int32s, n_words: int) -> int:
    """Return the smallest class in a set, -1 where it is empty."""
    for w in range(n_words):
        word = word_at(classes, w)
        if word != 0:
            return WORD_CLASSES * w + lowest_bit(word)
    return -1


@inlined
def has_classes_below(classes: Int32s, n_classes: int, n_words: int) -> bool:
    """Tell whether all classes in a set are among the first `n_classes`."""
    for w in range(n_words):
        n = min(max(n_classes - WORD_CLASSES * w, 0), WORD_CLASSES)
        if word_at(classes, w) >> n != 0:
            return False
    return True


_WORD, _INDEX, _DOUBLE = ir.IntType(32), ir.IntType(64), ir.DoubleType()
# Classes of a vector: each has a bit of a byte.
_LANES = 8
_BYTE, _MASK = ir.IntType(_LANES), ir.VectorType(ir.IntType(1), _LANES)
_DOUBLES, _WORDS = ir.VectorType(_DOUBLE, _LANES), ir.VectorType(_WORD, _LANES)


def _add_by_vectors(
    context: Any,
    builder: Any,
    left: Any,
    right: Any,
    n_words: Any,
    of_both: Any,
    of_any: Any,
    out: Any,
) -> None:
    one, other = (pointer_to(builder, words, _WORD) for words in (left, right))
    sums, nothing = pointer_to(builder, out, _DOUBLE), ir.Constant(_DOUBLES, None)

    def spread(number: Any) -> Any:
        block = builder.insert_element(nothing, number, _WORD(0))
        return builder.shuffle_vector(block, block, ir.Constant(_WORDS, None))

    weights = spread(of_both), spread(of_any)
    with cgutils.for_range(builder, n_words) as loop:
        a, b = (builder.load(builder.gep(words, [loop.index])) for words in (one, other))
        found = builder.or_(a, b)
        with builder.if_then(builder.icmp_unsigned("!=", found, _WORD(0))):
            sets = builder.and_(a, b), found
            first = builder.mul(loop.index, _INDEX(WORD_CLASSES))
            for lane in range(0, WORD_CLASSES, _LANES):
                place = builder.gep(sums, [builder.add(first, _INDEX(lane))])
                place = builder.bitcast(place, _DOUBLES.as_pointer())
                total = builder.load(place, align=_LANES)
                for bits, weight in zip(sets, weights, strict=True):
                    own = builder.trunc(builder.lshr(bits, _WORD(lane)), _BYTE)
                    own = builder.select(builder.bitcast(own, _MASK), weight, nothing)
                    total = builder.fadd(total, own)
                builder.store(total, place, align=_LANES)


@lowered(_add_by_vectors)
def add_to_whole_words(
    left: Int32s, right: Int32s, n_words: int, of_both: float, of_any: float, out: Float64s
) -> None:
    """Add weights to the classes that are in both sets, and to those in any of them.

    There are all classes of the `n_words` words: a class without a weight gets one of 0. It takes
    as long for a word as two or three classes do one by one.
    """
    for w in range(n_words):
        one, other = word_at(left, w), word_at(right, w)
        for k in range(WORD_CLASSES):
            place = WORD_CLASSES * w + k
            out[place] = out[place] + (of_both if (one & other) >> k & 1 else 0.0)
            out[place] = out[place] + (of_any if (one | other) >> k & 1 else 0.0)
