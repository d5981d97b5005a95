"""Numbering the cells that samples open."""

from __future__ import annotations

from ...compiling.kernels import inlined, kernel
from ...maps.record import Outputs, Sample
from ...partitions.mondrian.extension import learn_point
from ...status import DONE, NEW_CELLS, NO_POINT_ROOM
from .records import C, CellForest, cell_of


@inlined
def _number(forest: CellForest, outputs: Outputs) -> int:
    """Give columns to the cells that a point has opened, and count the sample.

    The columns of the point's cells are written, with several lifetimes those that are new. A
    point that has opened none is not kept. Returns NEW_CELLS, or DONE where there are none.
    """
    status, p, out = DONE, forest.n_points, outputs.cells
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
    forest.n_samples = forest.n_samples + 1
    if status == NEW_CELLS:
        forest.n_points = p + 1
    return status


@kernel
def number_cells(forest: C, outputs: Outputs) -> int:
    """Give columns to the cells that a point has opened, as `learn_one` does."""
    return _number(forest, outputs)


@kernel
def learn_one(forest: C, sample: Sample, outputs: Outputs) -> int:
    """Extend all trees by a sample, stored as the next point, and number its new cells.

    Returns NO_POINT_ROOM, or like `extension.learn_point` while there is something left to do,
    else like `number_cells`.
    """
    p = forest.n_points
    if p >= forest.points.capacity:
        return NO_POINT_ROOM
    status = learn_point(forest, sample.values, p)
    return status if status != DONE else _number(forest, outputs)
