"""What a block of points carries besides its box, and what it pauses by.

Over classes a block pauses while it holds one class, unless pure blocks are cut, too; over targets
while it has fewer than `MIN_SPLIT` points. Blocks of adaptive trees pause until they are split from
outside (see `adaptive`). Either way a paused tree is the full one pruned by
a rule that does not look at the cuts. Trees of cells never pause, and their leaves keep no points.
"""

from __future__ import annotations

from .access import counts_at, label_of, link_at, node_at, tree_at
from .bits import add_class, first_class, n_classes_in, word_at
from .layout import (
    ADAPTIVE,
    CELLS,
    CLASSES,
    COUNT,
    COUNT_WIDTH,
    LEFT,
    MAX_SPLITS,
    MESSAGES,
    MIN_SPLIT,
    N_COUNTS,
    N_SPLITS,
    N_VALUES,
    N_WORDS,
    NONE,
    RIGHT,
    SPLIT_PURE,
    TARGETS,
    UNKNOWN,
)
from .memory import f64, i32, i64, inlined, kernel, put_f64, put_i32, put_i64


@inlined
def keeps_points(forest: int, tree: int) -> bool:
    """Tell whether leaves keep their points: while they may be sampled anew with them."""
    return i64(forest, N_WORDS) != CELLS and i64(tree, N_SPLITS) < i64(forest, MAX_SPLITS)


@inlined
def is_paused(forest: int, node: int) -> bool:
    """Tell whether the block of a leaf's row pauses."""
    words = i64(forest, N_WORDS)
    if words == 0:
        return i32(node, COUNT) < i64(forest, MIN_SPLIT)
    if words == ADAPTIVE:
        return True
    classes = node + 4 * CLASSES
    return i64(forest, SPLIT_PURE) == 0 and n_classes_in(classes, classes, words) == 1


@inlined
def pair_pauses(forest: int, p: int, q: int) -> bool:
    """Tell whether a block of two points pauses."""
    if i64(forest, N_WORDS) == 0:
        return i64(forest, MIN_SPLIT) > 2
    if i64(forest, N_WORDS) == ADAPTIVE:
        return True
    return i64(forest, SPLIT_PURE) == 0 and label_of(forest, p) == label_of(forest, q)


@inlined
def wakes(forest: int, node: int, p: int) -> bool:
    """Tell whether a point ends the pause of a leaf's block."""
    words = i64(forest, N_WORDS)
    if words == 0:
        return i32(node, COUNT) + 1 >= i64(forest, MIN_SPLIT)
    if words == ADAPTIVE:
        return False
    return label_of(forest, p) != first_class(node, CLASSES, words)


@inlined
def add_to_leaf(forest: int, node: int, point: int) -> None:
    """Add the point at an address to what a leaf's row carries, and count it."""
    words = i64(forest, N_WORDS)
    if words > 0:
        add_class(node, CLASSES, i32(point, i64(forest, N_VALUES)))
    elif words == TARGETS:
        message = node + 4 * MESSAGES
        target = point + 4 * i64(forest, N_VALUES)
        weight = f64(target, 1)
        total = f64(message, 0) + weight
        mean = f64(message, 1)
        put_f64(message, 0, total)
        if total > 0.0:
            put_f64(message, 1, mean + (f64(target, 0) - mean) * weight / total)
    put_i32(node, COUNT, i32(node, COUNT) + 1)


@inlined
def inherit(forest: int, tree: int, node: int, side: int, child: int) -> None:
    """Let a side of a node whose row is new carry what its child has; messages come later."""
    words = i64(forest, N_WORDS)
    at = CLASSES + side * words
    if words == 0:
        put_f64(node + 4 * MESSAGES + 16 * side, 0, UNKNOWN)
    elif words > 0 and child < 0:
        add_class(node, at, label_of(forest, ~child))
    elif words > 0:
        child_node = node_at(forest, tree, child)
        for w in range(words):
            word = word_at(child_node, CLASSES + w) | word_at(child_node, CLASSES + words + w)
            put_i32(node, at + w, word)


@kernel
def tally(forest: int, t: int, node: int, p: int) -> None:
    """Count a point's class at a settled leaf that it is about to join.

    A leaf of several classes has a row of counts, made from its class or its points.
    """
    words = i64(forest, N_WORDS)
    if words <= 0:
        return
    tree = tree_at(forest, t)
    label = label_of(forest, p)
    if i32(node, RIGHT) == NONE:
        classes = node + 4 * CLASSES
        pure = n_classes_in(classes, classes, words) == 1
        if pure and label == first_class(node, CLASSES, words):
            return
        row = i64(tree, N_COUNTS)
        put_i64(tree, N_COUNTS, row + 1)
        table = counts_at(forest, tree, row)
        for k in range(i64(forest, COUNT_WIDTH)):
            put_i32(table, k, 0)
        if pure:
            put_i32(table, first_class(node, CLASSES, words), i32(node, COUNT))
        else:
            q = i32(node, LEFT)
            while q != NONE:
                add_count(table, label_of(forest, q))
                q = i32(link_at(forest, q, t), 0)
        put_i32(node, RIGHT, row)
    add_count(counts_at(forest, tree, i32(node, RIGHT)), label)


@inlined
def add_count(table: int, label: int) -> None:
    """Count one more sample of a class."""
    put_i32(table, label, i32(table, label) + 1)
