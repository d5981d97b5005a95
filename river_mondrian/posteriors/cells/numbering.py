"""Numbering the cells that samples open."""

from __future__ import annotations

from ...compiling.kernels import inlined, kernel
from ...partitions.mondrian.extension import learn_point
from ...records import Float64s, Int32s
from ...status import DONE, NEW_CELLS
from .records import C, CellForest, cell_of


@inlined
def _number(forest: CellForest, p: int, out: Int32s) -> int:
    """Give columns to the cells that a point has opened; returns NEW_CELLS, or DONE if none is new.

    The columns of the point's cells are written, with several lifetimes those that are new.
    """
    status = DONE
    n_lifetimes = forest.n_lifetimes
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        leaf = tree.n_cells
        # A tree has one leaf more than cuts.
        if leaf > tree.n_splits:
            if n_lifetimes == 1:
                out[t] = cell_of(forest, tree, t, tree.walk_ref)
            continue
        status = NEW_CELLS
        tree.n_cells = leaf + 1
        first = 0
        if leaf > 0:
            lifetimes = forest.lifetimes_of(t)
            time = tree.nodes.row(tree.nodes.n_rows - 1).cut_time
            while lifetimes[first] <= time:
                first += 1
        column = forest.n_columns
        forest.links_of(p)[t] = column - first
        for k in range(first, n_lifetimes):
            out[k * forest.n_trees + t] = column
            owner = forest.owners[column]
            owner.tree = t
            owner.cell = leaf
            column += 1
        forest.n_columns = column
    return status


@kernel
def number_cells(forest: C, p: int, out: Int32s) -> int:
    """Give columns to the cells that a point has opened, as `learn_one` does."""
    return _number(forest, p, out)


@kernel
def learn_one(forest: C, inputs: Float64s, p: int, out: Int32s) -> int:
    """Extend all trees by the inputs of a sample, stored as point `p`, and number its new cells.

    Returns like `extension.learn_point` while there is something left to do, else like
    `number_cells`.
    """
    status = learn_point(forest, inputs, p)
    return status if status != DONE else _number(forest, p, out)
