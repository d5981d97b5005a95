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

from typing import TypeVar

from ...compiling.kernels import inlined
from ...partitions.mondrian.records import Forest, Node, Point, Tree
from ...records import Array, Float64, Float64s, Int32, Int64, Record, Table


class CellPoint(Point):
    """A stored sample."""


class CellNode(Node):
    """A node with the number of its cell, or of those that were there before its cut."""

    cell: Int32
    # Time of the cut.
    cut_time: Float64

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
    n_lifetimes: Int64
    # Of each column.
    owners: Array[Owner]
    n_columns: Int64

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
