"""What trees of cells keep: numbers of cells.

A cell belongs to a lifetime: it is what a partition that is cut up to then has around a sample.
One walk down a tree grown to the last of `lifetimes` passes the cells of all of them. A row has one
number for these, of which the k-th lifetime's column is the k-th after it, wherever that lifetime
ends in the row: between the cut above it and its own. So a row that is inserted above another takes
over its number, the cell stays what it was, and only the new leaf gets columns, one for each
lifetime after the new cut.

Points are not linked: a point that is a leaf has its cell where others have their link. Blocks
never pause, and leaves keep no points.
"""

from __future__ import annotations

import math
from typing import TypeVar

from ...compiling.kernels import inlined
from ...partitions.mondrian import faults
from ...partitions.mondrian.faults import FINE
from ...partitions.mondrian.records import COMPLETE, Forest, Node, Point, Tree
from ...records import Array, Float64, Float64s, Int32, Int32s, Int64, Record, Table, derived


class CellPoint(Point):
    """A stored sample."""


class CellNode(Node):
    """A node with the number of its cell, or of those that were there before its cut."""

    cell: Int32
    # Time of the cut.
    cut_time: Float64

    def fault(self, forest: Forest, tree: Tree, t: int) -> int:
        """Return what is wrong with the time of a restored row, or with a cell below it."""
        if self.dim < 0:
            # No leaf keeps points to be cut by.
            return FINE if self.dim == COMPLETE else faults.DIM
        if not self.cut_time >= 0.0:
            return faults.CUT_TIME
        cells, own = CellForest(forest), CellTree(tree)
        for side in range(2):
            if not has_columns(cells, own, t, self.child(side), self.cut_time):
                return faults.CELL
        return FINE

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

    def fault(self, forest: Forest, t: int, start: int, points: Int32s) -> int:
        """Return what is wrong with the number of a restored tree's cells."""
        if self.n_cells != self.n_splits + 1:
            return faults.N_CELLS
        cells = CellForest(forest)
        return FINE if has_columns(cells, self, t, self.root, -1.0) else faults.N_CELLS


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
    n_lifetimes: Int64
    # Of each column.
    owners: Array[Owner]
    n_columns: Int64
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


@inlined
def has_columns(forest: CellForest, tree: CellTree, t: int, ref: int, since: float) -> bool:
    """Tell whether a restored reference has columns at the lifetimes that end there.

    These are from the time of the cut above, `since`, to its own.
    """
    until = math.inf
    if ref >= 0 and tree.nodes.row(ref).dim >= 0:
        until = tree.nodes.row(ref).cut_time
    cell, lifetimes = cell_of(forest, tree, t, ref), forest.lifetimes_of(t)
    for k in range(forest.n_lifetimes):
        if since < lifetimes[k] <= until and not 0 <= cell + k < forest.n_columns:
            return False
    return True
