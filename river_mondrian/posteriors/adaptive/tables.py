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
    LANES,
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


class _Runs(NamedTuple):
    """Rows of places that follow each other: whose they are, the first ones, how many of each."""

    owners: NDArray[np.int64]
    firsts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of each row, and its place among those of its run."""
        numbers = np.arange(self.lengths.sum())
        places = numbers - np.repeat(np.cumsum(self.lengths) - self.lengths, self.lengths)
        return np.repeat(self.firsts, self.lengths) + places, places


def _runs(rows: Rows) -> _Runs:
    """Return the rows of places of a tree's nodes."""
    # In other rows than those of nodes this word is a weight, whose sign is positive.
    owners = np.flatnonzero(rows[:, HEAD_WORDS] < 0)
    starts, lengths = rows[owners, HEAD_WORDS : HEAD_WORDS + 2].T.astype(np.int64)
    return _Runs(owners, -1 - starts, lengths)


def _rows_of_nodes(rows: Rows) -> tuple[NDArray[np.int64], Rows]:
    """Return which of a tree's rows are of nodes, and all links."""
    linked = rows[:, LINKS_WORD : LINKS_WORD + N_LINKS]
    is_own = np.ones(len(rows), dtype=np.bool_)
    is_own[linked[linked > 0] - 1] = False
    is_own[_runs(rows).rows()[0]] = False
    return np.flatnonzero(is_own), linked


def _levels(rows: Rows) -> Iterator[tuple[NDArray[np.int64], Rows]]:
    """Yield rows of places, of nodes, those linked to these, and so on: whose, their classes."""
    runs = _runs(rows)
    lanes = rows[runs.rows()[0], MORE_WORD : MORE_WORD + N_MORE * SEEN_WORDS]
    classes = lanes.reshape(len(lanes), SEEN_WORDS, LANES).swapaxes(1, 2)
    yield np.repeat(runs.owners, runs.lengths), classes
    own, linked = _rows_of_nodes(rows)
    at: NDArray[Any] = own
    owners, first, n = own, HEAD_WORDS, N_FIRST
    while len(at):
        end = first + n * SEEN_WORDS
        found = rows[at, first:end].reshape(len(at), n, SEEN_WORDS)
        if first == HEAD_WORDS:
            # What tells of places is no class.
            found[found[:, 0, 0] < 0, 0] = 0
        yield owners, found
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
    # A row comes after the only one that is linked to it, or that has it as a row of places.
    if (links <= place).any() or (links >= len(rows)).any():
        return False
    runs = _runs(rows)
    ends = runs.firsts + runs.lengths
    if (runs.firsts <= runs.owners).any() or (runs.lengths < 1).any() or (ends > len(rows)).any():
        return False
    if runs.lengths.sum() > len(rows):
        return False
    placed, places = runs.rows()
    taken = np.concatenate([links, placed])
    if len(np.unique(taken)) < len(taken) or linked[placed].any():
        return False
    keys = rows[placed, MORE_WORD : MORE_WORD + LANES]
    labels = LANES * places[:, None] + np.arange(LANES)
    if ((keys != 0) & (keys >> SIDE_BITS != labels + 1)).any():
        return False
    if not np.isin(of_nodes, _rows_of_nodes(rows)[0]).all():
        return False
    n_seen = np.zeros(len(rows), dtype=np.int64)
    n_rows = -np.bincount(runs.owners, runs.lengths, len(rows)).astype(np.int64)
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
