"""Mondrian partitions as a feature map: numbering cells, and finding them (see `maps`).

A cell belongs to a lifetime: it is what a partition that is cut up to then has around a sample.
One walk down a tree grown to the last of `LIFETIMES` passes the cells of all of them. A row has one
number for these, of which the k-th lifetime's column is the k-th after it, wherever that lifetime
ends in the row: between the cut above it and its own. So a row that is inserted above another takes
over its number, the cell stays what it was, and only the new leaf gets columns, one for each
lifetime after the new cut.
"""

from __future__ import annotations

import math

from ..compiling.kernels import exact_separate
from ..maps.record import MapRecord, Outputs, Sample
from ..records import Int64, derived
from .access import cell_of, link_at, node_at, tree_at
from .layout import (
    CELL,
    CELL_TIME,
    CELL_WORDS,
    DIM,
    LIFETIMES,
    N_CELLS,
    N_COLUMNS,
    N_LIFETIMES,
    N_ROWS,
    N_SPLITS,
    N_TREES,
    OFFSET,
    OWNERS,
    ROOT,
    WALK_REF,
)
from .memory import f64, i32, i64, kernel, prefetch, put_i32, put_i64
from .mondrian import learn, side_of
from .scaling import scale_into


class MondrianRecord(MapRecord):
    """Mondrian partitions, by the addresses of what belongs to them."""

    forest: Int64 = derived()
    # Room for a scaled sample.
    row: Int64 = derived()
    # Room for the walks, three words for each tree.
    refs: Int64 = derived()


# What `learn_one` and `number` say where there are new cells.
GREW = 1 << 40


@kernel
def number(forest: int, point: int, out: int) -> int:
    """Give columns to the cells that a point has opened; returns -1, or GREW if there are any.

    The columns of the point's cells are written, with several lifetimes those that are new.
    """
    said = -1
    n_lifetimes = i64(forest, N_LIFETIMES)
    for t in range(i64(forest, N_TREES)):
        tree = tree_at(forest, t)
        lifetimes = i64(forest, LIFETIMES) + 8 * n_lifetimes * t
        leaf = i64(tree, N_CELLS)
        # A tree has one leaf more than cuts.
        if leaf > i64(tree, N_SPLITS):
            if n_lifetimes == 1:
                put_i32(out, t, cell_of(forest, t, i64(tree, WALK_REF)))
            continue
        said = GREW
        put_i64(tree, N_CELLS, leaf + 1)
        first = 0
        if leaf > 0:
            node = node_at(forest, tree, i64(tree, N_ROWS) - 1)
            time = f64(node + 4 * CELL_TIME, 0)
            while f64(lifetimes, first) <= time:
                first += 1
        column = i64(forest, N_COLUMNS)
        put_i32(link_at(forest, point, t), 0, column - first)
        for k in range(first, n_lifetimes):
            put_i32(out, k * i64(forest, N_TREES) + t, column)
            put_i32(i64(forest, OWNERS), 2 * column, t)
            put_i32(i64(forest, OWNERS), 2 * column + 1, leaf)
            column += 1
        put_i64(forest, N_COLUMNS, column)
    return said


@kernel
def learn_one(forest: int, values: int, point: int, out: int) -> int:
    """Extend all trees by the values of a sample, stored as `point`, and number its new cells.

    Returns like `mondrian.learn` while there is something left to do, else like `number`.
    """
    said = learn(forest, values, point)
    return said if said != -1 else number(forest, point, out)


@exact_separate
def find_cells(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Write the columns of a sample's cells, for each lifetime those of all partitions.

    All trees are walked in lock-step, so that one tree's cache misses overlap another's.
    """
    mondrian = MondrianRecord(record)
    forest, row, refs = mondrian.forest, mondrian.row, mondrian.refs
    # The addresses of the sample's vector and of the cells, with which their records begin.
    out = i64(outputs, 0)
    bad = scale_into(forest, row, i64(sample, 0))
    if bad >= 0:
        return bad
    n_lifetimes = i64(forest, N_LIFETIMES)
    n_trees = i64(forest, N_TREES)
    n_active = n_trees
    active, reached = refs + 8 * n_active, refs + 16 * n_active
    for t in range(n_active):
        put_i64(refs, t, i64(tree_at(forest, t), ROOT))
        put_i64(active, t, t)
        put_i64(reached, t, 0)
    while n_active > 0:
        still = 0
        for i in range(n_active):
            t = i64(active, i)
            tree = tree_at(forest, t)
            lifetimes = i64(forest, LIFETIMES) + 8 * n_lifetimes * t
            ref, k = i64(refs, t), i64(reached, t)
            node = node_at(forest, tree, ref) if ref >= 0 else 0
            time = math.inf
            if ref >= 0 and i32(node, DIM) >= 0:
                time = f64(node + 4 * CELL_TIME, 0)
            if f64(lifetimes, k) <= time:
                cell = cell_of(forest, t, ref)
                while k < n_lifetimes and f64(lifetimes, k) <= time:
                    put_i32(out, k * n_trees + t, cell + k)
                    k += 1
                if k == n_lifetimes:
                    continue
                put_i64(reached, t, k)
            ref = i32(node, side_of(forest, tree, node, row + i64(tree, OFFSET)))
            put_i64(refs, t, ref)
            if ref >= 0:
                prefetch(node_at(forest, tree, ref), 4 * (CELL + CELL_WORDS))
            else:
                prefetch(link_at(forest, ~ref, t), 4)
            put_i64(active, still, t)
            still += 1
        n_active = still
    return -1
