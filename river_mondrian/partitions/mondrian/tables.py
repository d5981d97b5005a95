"""A tree as a table of all its nodes, for what is calculated of them together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .records import EMPTY

Numbers = NDArray[np.int64]


@dataclass
class TreeTable:
    """The nodes of a tree, level by level from the root; siblings are next to each other.

    Parameters
    ----------
    refs
        The nodes' references; none where the tree is empty.
    levels
        For each level the numbers of its internal nodes, and those of their left children, which
        the right ones follow.

    """

    refs: Numbers
    levels: list[tuple[Numbers, Numbers]]

    def __len__(self) -> int:
        return len(self.refs)

    @cached_property
    def inner(self) -> Numbers:
        """The numbers of all internal nodes."""
        return np.concatenate([np.empty(0, np.int64), *(inner for inner, _ in self.levels)])

    @cached_property
    def lefts(self) -> Numbers:
        """The numbers of their left children."""
        return np.concatenate([np.empty(0, np.int64), *(left for _, left in self.levels)])

    @cached_property
    def leaves(self) -> Numbers:
        """The numbers of all leaves."""
        is_leaf = np.ones(len(self), dtype=bool)
        is_leaf[self.inner] = False
        return np.flatnonzero(is_leaf)

    def ending_at(self, ends: NDArray[np.bool_]) -> TreeTable:
        """Return the table whose cuts at some nodes, and those below, are left out."""
        hidden = ends.copy()
        levels: list[tuple[Numbers, Numbers]] = []
        for inner, left in self.levels:
            hidden[left] |= hidden[inner]
            hidden[left + 1] |= hidden[inner]
            shown = ~hidden[inner]
            levels.append((inner[shown], left[shown]))
        return TreeTable(self.refs, levels)

    def add_up(self, values: NDArray[Any]) -> None:
        """Let the value of each internal node be the sum of those of its children."""
        for inner, left in reversed(self.levels):
            values[inner] = values[left] + values[left + 1]


def make_table(
    root: int, left: NDArray[np.int32], right: NDArray[np.int32], is_leaf: NDArray[np.bool_]
) -> TreeTable:
    """Make the table of a tree.

    Parameters
    ----------
    root
        Reference to the root.
    left, right
        References to the children of all rows.
    is_leaf
        Which rows are leaves.

    """
    level = np.array([root] if root != EMPTY else [], dtype=np.int64)
    refs, n = [level], 0
    levels: list[tuple[Numbers, Numbers]] = []
    while True:
        inner = np.flatnonzero(level >= 0)
        inner = inner[~is_leaf[level[inner]]]
        if not len(inner):
            return TreeTable(np.concatenate(refs), levels)
        rows = level[inner]
        levels.append((n + inner, n + len(level) + 2 * np.arange(len(inner))))
        n += len(level)
        level = np.stack([left[rows], right[rows]], axis=1).reshape(-1).astype(np.int64)
        refs.append(level)
