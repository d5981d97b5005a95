"""Mondrian trees whose leaves are cells with a number.

A cell belongs to a lifetime: it is what a partition that is cut up to then has around a sample.
One walk down a tree grown to the last of `lifetimes` passes the cells of all of them. A row has
one number for these, of which the k-th lifetime's column is the k-th after it, wherever that
lifetime ends in the row: between the cut above it and its own. So a row that is inserted above
another takes over its number, the cell stays what it was, and only the new leaf gets columns,
one for each lifetime after the new cut.

Points are not linked: a point that is a leaf has its cell where others have their link. Blocks
never pause, and leaves keep no points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from ...checks import check_array, refuse
from ...compiling.kernels import inlined
from ...partitions.mondrian.reading import Kept, NodeView
from ...partitions.mondrian.records import EMPTY, INNER, PAUSED, Forest, Node, Point, Tree
from ...partitions.mondrian.tree_memory import Partitions
from ...partitions.mondrian.trees import MondrianTrees
from ...records import (
    Array,
    Bounds,
    Float64,
    Float64s,
    Int32,
    Int64,
    Record,
    Table,
    derived,
    stored,
)
from ...records.memory import grown
from ...restored import Followed, Rows


class CellPoint(Point):
    """A stored sample."""


class CellNode(Node):
    """A node with the number of its cell, or of those that were there before its cut."""

    cell: Int32
    # Time of the cut.
    cut_time: Float64 = stored(Bounds(0.0, when=INNER))

    def end_time(self, start: float) -> float:
        """Return the time of the cut."""
        return self.cut_time

    def latest_above(self, time: float) -> float:
        """Return the time of a cut that is put above this one: it is not later."""
        return min(time, self.cut_time)

    def set_time(self, time: float) -> None:
        """Note the time of a new cut."""
        self.cut_time = time

    def take_over(self, forest: Forest, tree: Tree, t: int, ref: int) -> None:
        """Take over the cell of what was there: a leaf's point, or what a cut is put above."""
        self.cell = cell_of(CellForest(forest), CellTree(tree), t, ref)


class CellTree(Tree):
    """A tree of cells."""

    nodes: Table[CellNode]
    # Cells that have been numbered.
    n_cells: Int64


class Owner(Record):
    """The cell that a column stands for."""

    # The partition, and the number of the cell within it.
    tree: Int32
    cell: Int32


class CellForest(Forest):
    """A forest of cells."""

    trees: Array[CellTree]
    points: Table[CellPoint]
    # A row for each tree, in ascending order.
    lifetimes: Float64s
    n_lifetimes: Int64 = stored(Bounds(1))
    # Of each column.
    owners: Array[Owner]
    n_columns: Int64 = stored(Bounds(0))
    horizon: Float64 = stored(Bounds(math.inf))
    # Columns for which there is room.
    column_capacity: Int64 = derived()

    def lists_points(self) -> bool:
        """Tell that leaves keep no points."""
        return False

    def lifetimes_of(self, t: int) -> Float64s:
        """Return the lifetimes of a tree."""
        return self.lifetimes.part(self.n_lifetimes * t, self.n_lifetimes)


C = TypeVar("C", bound=CellForest)


@inlined
def cell_of(forest: CellForest, tree: CellTree, t: int, ref: int) -> int:
    """Return the number of a reference's cell."""
    if ref < 0:
        return forest.links_of(~ref)[t]
    return tree.nodes.row(ref).cell


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
        if not (self.lifetimes[:, 1:] > self.lifetimes[:, :-1]).all():
            refuse(self, "lifetimes", self.lifetimes.tolist(), "but they ascend")
        check_array(self, "owners", self.owners[:, 0], np.int32, 0, self.forest.n_trees - 1)

    def _check_tree(self, t: int, tables: dict[str, Rows], found: Followed) -> None:
        nodes, links = tables["nodes"], tables["points"].word(int(self.forest.links_word) + t)
        dims, times, root = nodes.column("dim"), nodes.column("cut_time"), [self.trees[t].root]
        inner = dims >= 0
        sides = [nodes.column(name)[inner] for name in ("left", "right")]
        refs = np.concatenate([*sides, root if root != [EMPTY] else []]).astype(np.int64)
        since = np.concatenate([times[inner], times[inner], [-1.0]])[: len(refs)]
        # What numbers below 0 refer to is a point, and ends no more than leaves do.
        ends, cells = np.append(np.where(inner, times, np.inf), np.inf), nodes.column("cell")
        until, below = ends[np.maximum(refs, -1)], refs < 0
        numbers = np.zeros(len(refs), np.int64)
        numbers[below], numbers[~below] = links[~refs[below]], cells[refs[~below]]
        # There are columns at the lifetimes that end there.
        first = np.searchsorted(self.lifetimes[t], since, "right")
        last = np.searchsorted(self.lifetimes[t], until, "right") - 1
        bad = (numbers + first < 0) | (numbers + last >= self.forest.n_columns)
        if (bad & (first <= last)).any() or (dims == PAUSED).any():
            refuse(f"tree {t}", "a cell", "wrong", f"but there are {self.forest.n_columns} columns")

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
