"""Copied rows of statistics as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...records import Float32s, Int64s
from .statistics import (
    BLOCK,
    BLOCK_WORDS,
    CLASSES_OF_WORD,
    HEAD_WORDS,
    LINKS_WORD,
    MORE_WORD,
    N_FIRST,
    N_FORGETTING,
    N_LINKS,
    N_MORE,
    SEEN_WORDS,
    SIDE_BITS,
    most_rows,
)

Rows = NDArray[np.int32]


def _blocks_in(rows: Rows, n_classes: int) -> NDArray[np.float32]:
    """Return the weights of few classes, shape (..., 1 + N_FORGETTING, n_classes)."""
    n_blocks = -(-n_classes // BLOCK)
    end = HEAD_WORDS + n_blocks * BLOCK_WORDS
    blocks = np.ascontiguousarray(rows[..., HEAD_WORDS:end]).view(np.float32)
    # There may be no row.
    shape = (*rows.shape[:-1], n_blocks, 1 + N_FORGETTING, BLOCK)
    found = np.moveaxis(blocks.reshape(shape), -3, -2)
    return found.reshape(*found.shape[:-2], n_blocks * BLOCK)[..., :n_classes]


def counts_in(rows: Rows, n_classes: int) -> NDArray[np.float32]:
    """Return the classes' weights in copied rows, shape (..., n_classes)."""
    return _blocks_in(rows, n_classes)[..., 0, :]


def _rows_of_nodes(rows: Rows) -> tuple[NDArray[np.int64], Rows]:
    """Return which of a tree's rows are of nodes, and all links."""
    linked = rows[:, LINKS_WORD : LINKS_WORD + N_LINKS]
    is_own = np.ones(len(rows), dtype=np.bool_)
    is_own[linked[linked > 0] - 1] = False
    return np.flatnonzero(is_own), linked


def _levels(rows: Rows) -> Iterator[tuple[NDArray[np.int64], Rows]]:
    """Yield rows of nodes, those linked to these, and so on: whose they are, and their classes."""
    own, linked = _rows_of_nodes(rows)
    at: NDArray[Any] = own
    owners, first, n = own, HEAD_WORDS, N_FIRST
    while len(at):
        end = first + n * SEEN_WORDS
        yield owners, rows[at, first:end].reshape(len(at), n, SEEN_WORDS)
        following = linked[at]
        i, bit = np.nonzero(following)
        at, owners, first, n = following[i, bit] - 1, owners[i], MORE_WORD, N_MORE


def seen_counts(rows: Rows, n_classes: int) -> NDArray[np.float32]:
    """Return the weights of many classes in copied rows of a tree, shape (rows, n_classes).

    Rows that others are linked to have none.
    """
    found = np.zeros((len(rows), n_classes), dtype=np.float32)
    for owners, part in _levels(rows):
        i, j = np.nonzero(part[..., 0])
        labels = (part[i, j, 0] >> SIDE_BITS) - 1
        found[owners[i], labels] = np.ascontiguousarray(part[i, j, 1]).view(np.float32)
    return found


def is_sound(rows: Rows, of_nodes: NDArray[np.int64], n_classes: int) -> bool:
    """Tell whether kernels may read a tree's rows of many classes.

    `of_nodes` has the rows that nodes refer to.
    """
    linked = rows[:, LINKS_WORD : LINKS_WORD + N_LINKS]
    place, bit = np.nonzero(linked)
    links = linked[place, bit] - 1
    # A row comes after the only one that is linked to it.
    if (links <= place).any() or (links >= len(rows)).any():
        return False
    if len(np.unique(links)) < len(links):
        return False
    if not np.isin(of_nodes, _rows_of_nodes(rows)[0]).all():
        return False
    n_seen = np.zeros(len(rows), dtype=np.int64)
    n_rows = np.zeros(len(rows), dtype=np.int64)
    for owners, part in _levels(rows):
        keys = part[..., 0]
        if (keys < 0).any() or (keys >= (n_classes + 1) << SIDE_BITS).any():
            return False
        np.add.at(n_rows, owners, 1)
        np.add.at(n_seen, owners, (keys > 0).sum(axis=1))
    return bool((n_rows <= most_rows(n_classes)).all() and (n_seen <= n_classes).all())


class Seen(NamedTuple):
    """Classes that nodes have seen: of each the row, the class, its sides and weights."""

    rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    sides: NDArray[np.int64]
    numbers: NDArray[np.float32]

    def arguments(self) -> tuple[Any, ...]:
        """Return them, and how many there are, for `put_seen`."""
        integers = (Int64s.of(np.ascontiguousarray(part)) for part in self[:3])
        return *integers, Float32s.of(self.numbers.reshape(-1)), len(self.rows)


def seen_in(rows: Rows, n_classes: int, capacity: int) -> Seen:
    """Return what has been seen of few classes, in copied rows with room for so many."""
    numbers = _blocks_in(rows, n_classes)
    words = rows[:, HEAD_WORDS + capacity // BLOCK * BLOCK_WORDS :]
    labels = np.arange(n_classes)
    bits = words[:, labels // CLASSES_OF_WORD] >> labels % CLASSES_OF_WORD * SIDE_BITS & 3
    at, seen = np.nonzero((numbers[:, 0] > 0.0) | (bits > 0))
    weights = np.ascontiguousarray(numbers[at, :, seen])
    return Seen(at, seen, bits[at, seen].astype(np.int64), weights)
