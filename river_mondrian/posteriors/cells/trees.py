"""Mondrian trees whose leaves are cells with a number (see `records`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...maps.record import Outputs, Sample
from ...partitions.mondrian import extension
from ...partitions.mondrian.inspection import Kept, NodeView
from ...partitions.mondrian.records import Node, Point, Tree
from ...partitions.mondrian.tree_memory import Partitions
from ...partitions.mondrian.trees import MondrianTrees
from ...records import Array, Float64s
from ...records.chunked_rows import grown
from ...status import DONE, NEW_CELLS, NO_POINT_ROOM, TOO_LARGE
from . import numbering
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
    _learn_one: Callable[[CellForest, Sample, Outputs], int] | None

    def __init__(self, partitions: Partitions, lifetimes: Sequence[float] | None = None) -> None:
        # A row for each tree.
        self.lifetimes = np.zeros((partitions.n_trees, len(lifetimes or [0.0])))
        # The partition and the number within it of each column's cell.
        self.owners = np.zeros((SMALLEST_TABLE, 2), dtype=np.int32)
        super().__init__(partitions)
        ends = self.trees.words["lifetime"]
        self.lifetimes[:] = ends[:, None] if lifetimes is None else lifetimes
        ends[:] = self.lifetimes[:, -1]

    def _set_up(self) -> None:
        self.forest.n_lifetimes = self.lifetimes.shape[1]

    def _finish(self) -> None:
        super()._finish()
        self.forest.lifetimes = Float64s.of(self.lifetimes)
        self._reserve_columns()

    def _reserve_columns(self) -> None:
        """Make room for the columns that a sample may need."""
        self.owners = grown(self.owners, self.n_columns + self.lifetimes.size)
        self.forest.owners = Array.over(Owner, self.owners)

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

    def learn(self, sample: Sample, outputs: Outputs) -> int:
        """Extend the trees by a sample; the outputs are as for `numbering.learn_one`.

        Returns DONE, or the input whose value is too large; then nothing has changed.
        """
        learn_one = self._learn_one
        if learn_one is None:
            learn_one = self._learn_one = numbering.learn_one.of(CellForest)
        status = learn_one(self.forest, sample, outputs)
        if status == NO_POINT_ROOM:
            self._reserve_points(self.n_points + 1)
            status = learn_one(self.forest, sample, outputs)
        if status >= 0:
            self._reserve_rows(status, self.trees[status].rows_needed)
            self._extend(0, len(self.trees), extension.LANES)
            status = numbering.number_cells(self.forest, outputs)
        if status <= TOO_LARGE:
            return TOO_LARGE - status
        if status == NEW_CELLS and self.n_columns + self.lifetimes.size > len(self.owners):
            self._reserve_columns()
        return DONE

    # Inspection.

    def _kept(self, t: int, hidden: bool) -> Kept:
        forest = self.forest

        def kept(ref: int, record: Any) -> tuple[bool, bool, tuple[int]]:
            if ref < 0:
                return True, False, (int(forest.links_in(record)[t]),)
            return bool(record.dim < 0), False, (int(record.cell),)

        return kept
