"""Sets of classes as bits of 32-bit words."""

from __future__ import annotations

from ...compiling.kernels import inlined
from ...records import Int32s, lowest_bit, popcount

# Classes of a word.
WORD_CLASSES = 32


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
def n_classes_in(left: Int32s, right: Int32s, n_words: int) -> int:
    """Count the classes in the union of two sets."""
    if n_words == 1:
        return popcount(word_at(left, 0) | word_at(right, 0))
    total = 0
    for w in range(n_words):
        total += popcount(word_at(left, w) | word_at(right, w))
    return total


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
