"""Addresses of a forest's parts, and what is read of them often (see `layout`).

With the environment variable `RIVER_MONDRIAN_CHECKS` set, every reference to a node, a point or a
row of counts is checked before use, at some cost in speed; a wrong one raises an IndexError.
"""

from __future__ import annotations

import os

from .layout import (
    BOX,
    CELL,
    COUNT,
    COUNT_CAPACITY,
    COUNT_WIDTH,
    COUNTS,
    DIM_CAPACITY,
    LINKS,
    N_TREES,
    N_VALUES,
    NODE_WIDTH,
    NODES,
    OFFSET,
    POINT_CAPACITY,
    POINT_WIDTH,
    POINTS,
    ROW_CAPACITY,
    TIME,
    TREE_WIDTH,
    TREES,
)
from .memory import i32, i64, inlined, row_address

CHECKS = bool(os.environ.get("RIVER_MONDRIAN_CHECKS"))


@inlined
def tree_at(forest: int, t: int) -> int:
    """Return the address of a tree's integers."""
    if CHECKS and not 0 <= t < i64(forest, N_TREES):
        raise IndexError("tree out of range")
    return i64(forest, TREES) + 8 * TREE_WIDTH * t


@inlined
def node_at(forest: int, tree: int, j: int) -> int:
    """Return the address of a node's row."""
    if CHECKS and not 0 <= j < i64(tree, ROW_CAPACITY):
        raise IndexError("node out of range")
    return row_address(i64(tree, NODES), j, i64(forest, NODE_WIDTH))


@inlined
def lower_of(forest: int, node: int) -> int:
    """Return the address of the lower corner of a node's box."""
    return node + 4 * i64(forest, BOX)


@inlined
def upper_of(forest: int, node: int) -> int:
    """Return the address of the upper corner of a node's box."""
    return node + 4 * (i64(forest, BOX) + i64(forest, DIM_CAPACITY))


@inlined
def point_at(forest: int, p: int) -> int:
    """Return the address of a stored point."""
    if CHECKS and not 0 <= p < i64(forest, POINT_CAPACITY):
        raise IndexError("point out of range")
    return row_address(i64(forest, POINTS), p, i64(forest, POINT_WIDTH))


@inlined
def values_at(forest: int, tree: int, p: int) -> int:
    """Return the address of the values of a stored point that a tree cuts."""
    return point_at(forest, p) + i64(tree, OFFSET)


@inlined
def place_of(forest: int, tree: int, ref: int) -> int:
    """Return the address of a reference's row or, for a point, of its values."""
    return node_at(forest, tree, ref) if ref >= 0 else values_at(forest, tree, ~ref)


@inlined
def label_of(forest: int, p: int) -> int:
    """Return the class of a stored point."""
    return i32(point_at(forest, p), i64(forest, N_VALUES))


@inlined
def target_at(forest: int, p: int) -> int:
    """Return the address of a stored point's target, which its weight follows."""
    return point_at(forest, p) + 4 * i64(forest, N_VALUES)


@inlined
def link_at(forest: int, p: int, t: int) -> int:
    """Return the address of the word that names the next point in a point's leaf of tree `t`."""
    return point_at(forest, p) + 4 * (i64(forest, LINKS) + t)


@inlined
def counts_at(forest: int, tree: int, row: int) -> int:
    """Return the address of a row of class counts."""
    if CHECKS and not 0 <= row < i64(tree, COUNT_CAPACITY):
        raise IndexError("row of counts out of range")
    return row_address(i64(tree, COUNTS), row, i64(forest, COUNT_WIDTH))


@inlined
def count_of(forest: int, tree: int, ref: int) -> int:
    """Return the number of samples below a reference."""
    if ref < 0:
        return 1
    return i32(node_at(forest, tree, ref), COUNT)


@inlined
def cell_of(forest: int, t: int, ref: int) -> int:
    """Return the number of a reference's cell, which only trees of cells have."""
    if ref < 0:
        return i32(link_at(forest, ~ref, t), 0)
    return i32(node_at(forest, tree_at(forest, t), ref), CELL)


@inlined
def time_at(node: int) -> int:
    """Return the address of the time of a node's cut, which its rise follows.

    Only rows over targets have these.
    """
    return node + 4 * TIME
