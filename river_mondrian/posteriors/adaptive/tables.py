"""Copied rows of statistics as arrays."""

from __future__ import annotations

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


def seen_counts(rows: Rows, n_classes: int) -> NDArray[np.float32]:
    """Return the weights of many classes in copied rows of a tree, shape (rows, n_classes).

    Rows that others are linked to have none.
    """
    own, linked = _rows_of_nodes(rows)
    found = np.zeros((len(rows), n_classes), dtype=np.float32)
    at: NDArray[Any] = own
    owners, first, n = own, HEAD_WORDS, N_FIRST
    while len(at):
        part = rows[at, first : first + n * SEEN_WORDS].reshape(len(at), n, SEEN_WORDS)
        i, j = np.nonzero(part[..., 0])
        labels = (part[i, j, 0] >> SIDE_BITS) - 1
        found[owners[i], labels] = np.ascontiguousarray(part[i, j, 1]).view(np.float32)
        following = linked[at]
        i, bit = np.nonzero(following)
        at, owners, first, n = following[i, bit] - 1, owners[i], MORE_WORD, N_MORE
    return found


def _rows_of_nodes(rows: Rows) -> tuple[NDArray[np.int64], Rows]:
    """Return which of a tree's rows are of nodes, that nothing is linked to, and all links."""
    linked = rows[:, LINKS_WORD : LINKS_WORD + N_LINKS]
    is_own = np.ones(len(rows), dtype=np.bool_)
    is_own[linked[linked > 0] - 1] = False
    return np.flatnonzero(is_own), linked


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
