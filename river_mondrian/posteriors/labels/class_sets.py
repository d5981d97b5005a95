"""Sets of classes as bits of 32-bit words."""

from __future__ import annotations

from ...compiling.kernels import inlined
from ...records import Int32s, lowest_bit, popcount

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
