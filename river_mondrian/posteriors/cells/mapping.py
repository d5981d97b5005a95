"""Mondrian partitions as a feature map: finding the cells of a sample."""

from __future__ import annotations

import math

from ...compiling.kernels import inlined, merged, separate
from ...maps.record import MapRecord, Outputs, Sample
from ...partitions.mondrian.leaves import side_of
from ...partitions.mondrian.scaling import scale
from ...records import Array, Int32s, Int64, Record, derived, prefetch
from ...status import DONE
from .records import CellForest, CellNode, CellTree


class Descent(Record):
    """A sample's way down one of the trees, which walk in lock-step."""

    ref: Int64
    # The row at `ref`, or none at a point.
    node: CellNode
    # The first lifetime whose cell has not been found yet.
    lifetime: Int64
    # The tree of the i-th walk that has not arrived.
    active: Int64


class MondrianRecord(MapRecord):
    """A map to the cells of Mondrian partitions."""

    forest: CellForest
    # Room for a walk down each tree.
    descents: Array[Descent] = derived()


@inlined
def _go_to(forest: CellForest, tree: CellTree, t: int, ref: int, descent: Descent) -> None:
    """Note where a way has come to, and bring that close."""
    descent.ref = ref
    if ref >= 0:
        node = tree.nodes.row(ref)
        prefetch(node, forest.box_word)
        descent.node = node
    else:
        prefetch(forest.links_of(~ref).part(t, 1), 1)
        descent.node = tree.nodes.none()


@merged
def _write_cells(
    forest: CellForest, t: int, descent: Descent, node: CellNode, time: float, cells: Int32s
) -> bool:
    """Write the columns of a cell at the lifetimes up to a time; True where these were the last."""
    k, n_lifetimes = descent.lifetime, forest.n_lifetimes
    lifetimes = forest.lifetimes_of(t)
    if lifetimes[k] > time:
        return False
    cell = node.cell if node else forest.links_of(~descent.ref)[t]
    while k < n_lifetimes and lifetimes[k] <= time:
        cells[k * forest.n_trees + t] = cell + k
        k += 1
    descent.lifetime = k
    return k == n_lifetimes


@separate
def find_cells(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Write the columns of a sample's cells, for each lifetime those of all partitions.

    All trees are walked in lock-step, so that one tree's cache misses overlap another's. Returns
    like `MapRecord.transform`.
    """
    own, cells = MondrianRecord(record), outputs.cells
    forest, descents = own.forest, own.descents
    bad = scale(forest, forest.row, sample.values)
    if bad >= 0:
        return bad
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        _go_to(forest, tree, t, tree.root, descents[t])
        descents[t].lifetime = 0
        descents[t].active = t
    n_active = forest.n_trees
    while n_active > 0:
        still = 0
        for i in range(n_active):
            t = descents[i].active
            descent, tree = descents[t], forest.trees[t]
            node = tree.nodes.known(descent.node)
            # The last cell lasts for ever.
            time = node.cut_time if node and node.dim >= 0 else math.inf
            if _write_cells(forest, t, descent, node, time, cells):
                continue
            x = forest.row.part(tree.first_value, forest.dim_capacity)
            _go_to(forest, tree, t, node.child(side_of(forest, tree, node, x)), descent)
            descents[still].active = t
            still += 1
        n_active = still
    return DONE
