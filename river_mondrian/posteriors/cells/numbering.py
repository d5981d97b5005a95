"""Learning samples: the cells that they open get numbers."""

from __future__ import annotations

from ...compiling.kernels import batch_kernel, inlined, kernel
from ...maps.record import Outputs, Sample
from ...partitions.mondrian.extension import LANES, extend_trees, learn_point
from ...partitions.mondrian.records import CLOSED
from ...status import DONE, WAITS
from .mapping import MondrianRecord
from .records import cell_of


@inlined
def _number(record: MondrianRecord, outputs: Outputs) -> None:
    """Give columns to the cells that a point has opened, and count the sample.

    The columns of the point's cells are written, with several lifetimes those that are new. A
    point that has opened none is not kept.
    """
    forest = record.forest
    p, out = forest.n_points, outputs.cells
    n_lifetimes = forest.n_lifetimes
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        leaf = tree.n_cells
        # A tree has one leaf more than cuts.
        if leaf > tree.n_splits:
            if n_lifetimes == 1:
                out[t] = cell_of(forest, tree, t, tree.walk_ref)
            continue
        forest.n_points = p + 1
        tree.n_cells = leaf + 1
        first = 0
        if leaf > 0:
            lifetimes = forest.lifetimes_of(t)
            time = tree.nodes.row(tree.nodes.n_rows - 1).cut_time
            while first < n_lifetimes and lifetimes[first] <= time:
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
    forest.n_walking = 0
    record.n_columns = forest.n_columns
    record.is_ahead = 1


@inlined
def _end(record: MondrianRecord, outputs: Outputs, status: int) -> int:
    """Number new cells where all walks have ended; returns their status.

    Else the trees are closed until their owner has let them end.
    """
    if status == DONE:
        _number(record, outputs)
    elif status >= 0:
        record.forest.version = CLOSED
    return status


@batch_kernel
def complete(record: MondrianRecord, outputs: Outputs) -> int:
    """Complete what `learn_one` has begun, if there is anything; returns as that does."""
    forest = record.forest
    if forest.n_walking == 0:
        return DONE
    return _end(record, outputs, extend_trees(forest, 0, forest.n_trees, LANES))


@kernel
def learn_one(record: MondrianRecord, sample: Sample, outputs: Outputs) -> int:
    """Extend all trees by a sample, stored as the next point, and number its new cells.

    Returns WAITS where there has to be room for a point and columns first, or like
    `extension.learn_point`. Where that is a tree, `complete` goes on.
    """
    forest = record.forest
    p = forest.n_points
    if p >= forest.points.capacity or forest.n_columns + record.n_out > forest.column_capacity:
        return WAITS
    return _end(record, outputs, learn_point(forest, sample.values, p))
