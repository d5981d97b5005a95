"""Mondrian partitions as a feature map: finding the cells of a sample."""

from __future__ import annotations

import math

from ...compiling.kernels import inlined, separate
from ...maps.record import MapRecord, Outputs, Sample
from ...partitions.mondrian.leaves import side_of
from ...partitions.mondrian.scaling import scale
from ...records import Array, Int32s, Int64, Record, derived, prefetch
from ...status import DONE
from .records import CellForest, CellTree, cell_of


class Descent(Record):
    """A sample's way down one of the trees, which walk in lock-step."""

    ref: Int64
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
def _next_time(tree: CellTree, ref: int) -> float:
    """Return the time of the cut at a reference, infinity at a leaf."""
    if ref >= 0 and tree.nodes.row(ref).dim >= 0:
        return tree.nodes.row(ref).cut_time
    return math.inf


@inlined
def _write_cells(
    forest: CellForest, t: int, ref: int, first: int, time: float, cells: Int32s
) -> int:
    """Write the columns of a cell at the lifetimes up to a time; returns the next lifetime."""
    lifetimes = forest.lifetimes_of(t)
    if lifetimes[first] > time:
        return first
    cell = cell_of(forest, forest.trees[t], t, ref)
    while first < forest.n_lifetimes and lifetimes[first] <= time:
        cells[first * forest.n_trees + t] = cell + first
        first += 1
    return first


@inlined
def _bring_close(forest: CellForest, tree: CellTree, t: int, ref: int) -> None:
    if ref >= 0:
        node = tree.nodes.row(ref)
        prefetch(node, forest.box_word)
    else:
        prefetch(forest.links_of(~ref).part(t, 1), 1)


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
        descents[t].ref = forest.trees[t].root
        descents[t].lifetime = 0
        descents[t].active = t
    n_active = forest.n_trees
    while n_active > 0:
        still = 0
        for i in range(n_active):
            t = descents[i].active
            descent, tree = descents[t], forest.trees[t]
            ref = descent.ref
            time = _next_time(tree, ref)
            k = _write_cells(forest, t, ref, descent.lifetime, time, cells)
            if k == forest.n_lifetimes:
                continue
            descent.lifetime = k
            node = tree.nodes.row(ref)
            x = forest.row.part(tree.first_value, forest.dim_capacity)
            ref = node.child(side_of(forest, tree, node, x))
            descent.ref = ref
            _bring_close(forest, tree, t, ref)
            descents[still].active = t
            still += 1
        n_active = still
    return DONE
