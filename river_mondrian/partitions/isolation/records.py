"""What isolation trees are to kernels, and what their growth needs."""

from __future__ import annotations

from ...maps.record import MapRecord
from ...records import (
    Array,
    Float32,
    Float32s,
    Float64s,
    Int32,
    Int32s,
    Int64,
    Int64s,
    Record,
    inline,
    transient,
)

# Sides of a cut.
BELOW = 0
ABOVE = 1


class Cut(Record):
    """A node: a cut of one feature."""

    feature: Int32
    # Values up to the cut are below it.
    cut: Float32
    # What lies below and above: a node's number within the tree, or ~column of a cell.
    children: Int32s = inline(2)


class IsolationTrees(MapRecord):
    """Isolation trees; there is one for each output."""

    # What each feature is multiplied by.
    factors: Float64s
    # Cells of a tree.
    n_cells: Int64
    # Nodes of all trees, room for one less than there are cells, and for at least one, in each.
    nodes: Array[Cut]
    # Room: the sample, scaled; of a sparse one only its entries are written, and cleared.
    row: Float32s = transient()


class Part(Record):
    """Points that are yet to be isolated, and where their node is to be known."""

    # Places of the first point and behind the last one in the order.
    begin: Int64
    end: Int64
    # Number of the parent, -1 for none, and the side of it.
    parent: Int64
    side: Int64


class Growth(Record):
    """A tree that grows, and the points that it isolates."""

    # Points: a CSR matrix whose rows are sorted by place.
    starts: Int64s
    places: Int32s
    values: Float32s
    # Of all trees: rows of their points, the j-th ones side by side; uniform draws, two for each
    # possible cut; nodes.
    n_trees: Int64
    all_members: Int32s
    all_draws: Float64s
    all_nodes: Array[Cut]
    # Rows of the tree's points, which are numbered in this order.
    members: Int64s
    n_members: Int64
    # The tree's draws, and how many have been used.
    draws: Float64s
    n_draws: Int64
    # The tree's nodes, and how many there are.
    nodes: Array[Cut]
    n_nodes: Int64
    # Column of the first point's cell.
    first_column: Int64
    # Entries that have been visited.
    n_visited: Int64
    # Room for each feature: the range of its values and how often it has been met, which is zero
    # before and after; features that have been met.
    low: Float32s
    high: Float32s
    count: Int64s
    met: Int64s
    # Room for each point: their order by node, and those above a cut.
    order: Int64s
    above: Int64s
    # Room for a part for each point, and one more.
    parts: Array[Part]
