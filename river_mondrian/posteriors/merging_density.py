"""Density forests of one partition, whose counts add up.

Where trees begin at an origin, a cell is a function of the seed: two forests have revealed parts of
one partition, each where its samples are. A node is known by its key. A cell that only one of them
has revealed is copied; no cell is drawn.
"""

from __future__ import annotations

import math

from ..compiling.kernels import exact_batch_kernel, exact_inlined, exact_kernel, exact_separate
from ..partitions.unbounded.cells import latest_face, push_back
from ..partitions.unbounded.growth import append_node, begin_tree
from ..partitions.unbounded.keys import ABOVE_KEY, key_of
from ..partitions.unbounded.records import NONE, Tree, along_directions
from ..records import Int64, Record, new_array, release
from .density import DensityPartition


class Pair(Record):
    """A node of the one forest, and the node of the other one with the same cell."""

    row: Int64
    other: Int64


@exact_kernel
def begin_trees(forest: DensityPartition) -> None:
    """Begin all trees with the cell of the point in `inputs`; there has to be room."""
    for t in range(forest.n_trees):
        z = along_directions(forest, t, forest.inputs, forest.along)
        begin_tree(forest, forest.trees[t], z)


@exact_inlined
def _extend_to(forest: DensityPartition, tree: Tree, began: float) -> None:
    """Extend a tree upwards until its root's cell is known at a time."""
    while tree.began > began:
        key = tree.key_above
        time, face, reach = latest_face(forest.n_dims, key, tree.began)
        place = push_back(tree.cell, face, reach)
        row = append_node(forest, key, time, face >> 1, place)
        if face & 1:
            forest.nodes.row(row).left = tree.root
        else:
            forest.nodes.row(row).right = tree.root
        tree.root = row
        tree.began = time
        tree.key_above = key_of(key, ABOVE_KEY)


@exact_inlined
def _find(forest: DensityPartition, tree: Tree, key: int, other: Tree) -> int:
    """Return the row of the node with a key, whose cell is that of another tree's root."""
    upper = other.cell.upper
    row = tree.root
    while True:
        node = forest.nodes.row(row)
        if node.key == key:
            return row
        # A cell has its upper corner.
        row = node.right if upper[node.dim] > node.place else node.left


@exact_inlined
def _child(forest: DensityPartition, other: DensityPartition, its_child: int) -> int:
    """Store a child with the cell of the other forest's, which is not known here."""
    source = other.nodes.row(its_child)
    made = append_node(forest, source.key, source.time, source.dim, source.place)
    forest.nodes.row(made).begin(source.log_volume)
    return made


@exact_separate
def _add_node(forest: DensityPartition, other: DensityPartition, pair: Pair) -> None:
    """Add the samples of a leaf."""
    node, source = forest.nodes.row(pair.row), other.nodes.row(pair.other)
    node.n_samples += source.n_samples
    if math.isnan(node.log_volume):
        node.log_volume = source.log_volume


@exact_batch_kernel
def add_counts(forest: DensityPartition, other: DensityPartition) -> None:
    """Add the samples of another forest of the same partition; there has to be room for its nodes.

    Neither stores samples.
    """
    pairs = new_array(Pair, other.nodes.n_rows + 1)
    for t in range(forest.n_trees):
        tree, its = forest.trees[t], other.trees[t]
        if its.root == NONE:
            continue
        _extend_to(forest, tree, its.began)
        n = 1
        pairs[0].other = its.root
        pairs[0].row = _find(forest, tree, other.nodes.row(its.root).key, its)
        while n > 0:
            n -= 1
            row, at = pairs[n].row, pairs[n].other
            _add_node(forest, other, pairs[n])
            source = other.nodes.row(at)
            for side in range(2):
                its_child = source.right if side == 1 else source.left
                if its_child == NONE:
                    continue
                node = forest.nodes.row(row)
                child = node.right if side == 1 else node.left
                if child == NONE:
                    child = _child(forest, other, its_child)
                    if side == 1:
                        node.right = child
                    else:
                        node.left = child
                pairs[n].row = child
                pairs[n].other = its_child
                n += 1
    forest.n_samples += other.n_samples
    release(pairs)
