"""Counting the samples of each class in a leaf."""

from __future__ import annotations

from ...compiling.kernels import batch_kernel, helper
from ...partitions.mondrian.records import LEFT, NONE
from ...records import Float64s, Int64s
from .class_sets import first_class
from .records import L, LabelForest, LabelNode


@helper
def count_leaf(forest: LabelForest, t: int, node: LabelNode, counts: Float64s) -> None:
    """Write the number of samples of each class in a leaf of a tree."""
    tree = forest.trees[t]
    for k in range(forest.n_classes):
        counts[k] = 0.0
    if node.n_classes(forest) == 1:
        counts[first_class(node.classes(forest, LEFT), forest.n_set_words)] = node.n_samples
    elif node.count_row != NONE:
        known = tree.side_rows.row(node.count_row).counts(forest)
        for k in range(forest.n_classes):
            counts[k] = known[k]
    else:
        p = node.first_point
        while p != NONE:
            label = forest.points.row(p).label
            counts[label] = counts[label] + 1.0
            p = forest.links_of(p)[tree.slot]


@batch_kernel
def count_leaves(forest: L, t: int, rows: Int64s, n: int, counts: Float64s) -> None:
    """Write the numbers of samples in `n` leaves that have rows, `n_classes` for each."""
    for i in range(n):
        own = counts.part(forest.n_classes * i, forest.n_classes)
        count_leaf(forest, t, forest.trees[t].nodes.row(rows[i]), own)
