"""Mondrian trees whose leaves are cells with a number (see `records`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...partitions.mondrian.inspection import Kept, NodeView
from ...partitions.mondrian.records import Node, Point, Tree
from ...partitions.mondrian.tree_memory import Partitions
from ...partitions.mondrian.trees import MondrianTrees
from ...records import Array, Float64s
from ...records.chunked_rows import grown
from .checking import check_cells
from .records import CellForest, CellNode, CellPoint, CellTree, Owner

SMALLEST_TABLE = 64


@dataclass
class CellView(NodeView):
    """A node with the number of its cell."""

    cell: int


class CellTrees(MondrianTrees[CellForest, CellView]):
    """Mondrian trees of numbered cells.

    A point is stored where it opens a cell, so that memory grows with the cells.

    Parameters
    ----------
    partitions
        Arguments of trees of all kinds.
    lifetimes
        Lifetimes whose cells are numbered, in ascending order, at which cuts end at the last. None
        stands for that of each tree.

    """

    _FOREST = CellForest
    _TREE: ClassVar[type[Tree]] = CellTree
    _NODE: ClassVar[type[Node]] = CellNode
    _POINT: ClassVar[type[Point]] = CellPoint
    _VIEW = CellView

    def __init__(self, partitions: Partitions, lifetimes: Sequence[float] | None = None) -> None:
        # A row for each tree.
        self.lifetimes = np.zeros((partitions.n_trees, len(lifetimes or [0.0])))
        # The partition and the number within it of each column's cell.
        self.owners = np.zeros((SMALLEST_TABLE, 2), dtype=np.int32)
        super().__init__(partitions)
        ends = self.trees.words["lifetime"]
        self.lifetimes[:] = ends[:, None] if lifetimes is None else lifetimes
        ends[:] = self.lifetimes[:, -1]

    def _check_kind(self) -> None:
        check_cells(self)

    def _set_up(self) -> None:
        self.forest.n_lifetimes = self.lifetimes.shape[1]

    def _finish(self) -> None:
        super()._finish()
        self.forest.lifetimes = Float64s.of(self.lifetimes)
        self._reserve_columns()

    def _show(self) -> None:
        super()._show()
        self._reserve_columns()

    def _reserve_columns(self) -> None:
        """Make room for the columns that a sample may need."""
        self.owners = grown(self.owners, self.n_columns + self.lifetimes.size)
        self.forest.owners = Array.over(Owner, self.owners)
        self.forest.column_capacity = len(self.owners)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["owners"] = self.owners[: self.n_columns].copy()
        return state

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        forest = self.forest
        return super()._shapes() | {
            "lifetimes": (forest.n_trees, forest.n_lifetimes),
            "owners": (forest.n_columns, 2),
        }

    @property
    def n_columns(self) -> int:
        """Number of cells in all, of all lifetimes."""
        return self.forest.n_columns

    @property
    def nbytes(self) -> int:
        """Bytes held by arrays."""
        return super().nbytes + self.owners.nbytes + self.lifetimes.nbytes + 256

    # Learning.

    def make_room(self) -> None:
        """Make room for the point and the columns of the next sample."""
        self.close()
        self._reserve_points(self.n_points + 1)
        self._reserve_columns()
        self.open()

    def make_rows(self, t: int) -> None:
        """Make room for the rows that a tree needs to go on."""
        self._reserve_rows(t, self.trees[t].rows_needed)

    def keep_change(self) -> None:
        """Let a change stay, and close the trees until what has begun is complete."""
        self._before = None
        self.enter()

    def _complete(self) -> None:
        """Leave walks to the map, which knows where cells are to be written."""

    # Inspection.

    def _kept(self, t: int, hidden: bool) -> Kept:
        forest = self.forest

        def kept(ref: int, record: Any) -> tuple[bool, bool, tuple[int]]:
            if ref < 0:
                return True, False, (int(forest.links_in(record)[t]),)
            return bool(record.dim < 0), False, (int(record.cell),)

        return kept
