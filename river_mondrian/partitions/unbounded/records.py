"""The memory of a partition: nodes, trees, stored samples.

What a posterior keeps of a cell are fields of a subclass of `Node`, which overrides the methods by
which the partition reports changes of the cell. Kernels over `Partition` are compiled for the
subclass that they are called with.
"""

from __future__ import annotations

import math
from typing import TypeVar

from ...compiling.kernels import exact_inlined
from ...records import (
    Array,
    Float64,
    Float64s,
    Int32,
    Int32s,
    Int64,
    Record,
    Table,
    derived,
    transient,
)
from .cells import Cell, log_volume_of

# No node, no sample.
NONE = -1


class Node(Record):
    """A cell and its cut.

    A leaf has samples; no other node has. Its time may have come already: it is cut when a sample
    next falls into it.
    """

    # The draws are functions of it.
    key: Int64
    # Of the cut, which the points with z[dim] <= place are to the left of.
    time: Float64
    place: Float64
    # Rows of the children, or `NONE` where no sample has been.
    left: Int64
    right: Int64
    # Samples of a leaf, and the first of them that is stored, or `NONE`.
    n_samples: Int64
    dim: Int32
    first_sample: Int32

    def begin(self, log_volume: float) -> None:
        """Begin to keep what there is of a cell, by the log of its volume, or NaN."""

    def widen(self, log_side: float) -> None:
        """Take note that the cell has one dimension more, by the log of its side there."""


class Tree(Record):
    """A tree: its root's cell, and how it goes on above."""

    # Row of the root, or `NONE`.
    root: Int64
    # Time at which the root's cell is known.
    began: Float64
    # By which the tree is extended upwards.
    key_above: Int64
    lifetime: Float64
    # Of the root.
    cell: Cell


class Sample(Record):
    """A stored sample: the values of its features, and a link for each tree."""

    def values(self, partition: Partition) -> Float64s:
        """Return the values."""
        return Float64s(self, 0, partition.n_inputs)

    def links(self, partition: Partition) -> Int32s:
        """Return the next sample, or `NONE`, in the leaf of each tree."""
        return Int32s(self, 2 * partition.n_inputs, partition.n_trees)


class Partition(Record):
    """The trees of a forest, and room for what is on the way in one of them."""

    n_trees: Int64
    # Dimensions of the cells: features, or cut directions.
    n_dims: Int64
    # Features.
    n_inputs: Int64
    # Whether samples are stored.
    stores_samples: Int64
    # Numbers from a tree's matrix of directions to the next tree's; 0 where all have one.
    directions_step: Int64 = derived()
    # Matrices of cut directions, a row each; none for the axes.
    directions: Float64s
    # Values along a tree's directions of the sample on the way, and of a stored one.
    along: Float64s = transient()
    stored_along: Float64s = transient()
    trees: Array[Tree]
    nodes: Table[Node]
    samples: Table[Sample]
    # The cell on the way.
    cell: Cell = transient()


P = TypeVar("P", bound=Partition)


@exact_inlined
def log_volume(partition: P, cell: Cell) -> float:
    """Return the logarithm of a cell's volume; NaN for oblique cells."""
    return math.nan if partition.directions else log_volume_of(cell)


@exact_inlined
def along_directions(partition: P, t: int, x: Float64s, out: Float64s) -> Float64s:
    """Return a sample's values along a tree's directions, which are written to `out`.

    An axis-aligned partition of U x is an oblique one of x (Theorem 3.1 of O'Reilly and Tran 2022).
    """
    if not partition.directions:
        return x
    n_inputs, n_dims = partition.n_inputs, partition.n_dims
    matrix = partition.directions.part(t * partition.directions_step, n_dims * n_inputs)
    for j in range(n_dims):
        total = 0.0
        for k in range(n_inputs):
            total += matrix[j * n_inputs + k] * x[k]
        out[j] = total
    return out


@exact_inlined
def stored_values(partition: P, t: int, sample: Sample) -> Float64s:
    """Return a stored sample's values along a tree's directions."""
    return along_directions(partition, t, sample.values(partition), partition.stored_along)
