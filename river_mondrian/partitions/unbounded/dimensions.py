"""Extending trees by a dimension in which all of their samples have one value.

A tree is the slice of a Mondrian of one dimension more: in that, cells are cut in the new dimension
too, at the rate of their side there. On the slice each such cut leaves the cell whole, so that it
is a node above with one child that no sample has been in.
"""

from __future__ import annotations

import math

from ...compiling.kernels import exact_batch_kernel, exact_inlined, exact_separate
from ...records import Array, Float64, Float64s, Int64, Record, new_array, release
from .cells import beyond, place_within, side_length
from .growth import append_node
from .keys import CUT_PLACE, CUT_TIME, NEXT_KEY, PER_DIM, exponential, key_of, uniform
from .records import NONE, P, Tree


class Pending(Record):
    """A node that waits to be extended."""

    # Its row, that of its parent, or `NONE` for the root, and on which side of that it is.
    row: Int64
    parent: Int64
    is_right: Int64
    # When its cell began, and the side of that in the new dimension.
    began: Float64
    lower: Float64
    upper: Float64


@exact_inlined
def put_pending(
    pending: Pending, row: int, parent: int, is_right: int, began: float, lower: float, upper: float
) -> None:
    """Write the fields of a node that waits."""
    pending.row = row
    pending.parent = parent
    pending.is_right = is_right
    pending.began = began
    pending.lower = lower
    pending.upper = upper


@exact_inlined
def insert_above(
    partition: P, tree: Tree, pending: Pending, key: int, time: float, place: float, is_right: bool
) -> None:
    """Store a cut in the new dimension as the parent of a node, which is on one side of it."""
    added = append_node(partition, key, time, partition.n_dims, place)
    if is_right:
        partition.nodes.row(added).right = pending.row
    else:
        partition.nodes.row(added).left = pending.row
    if pending.parent == NONE:
        tree.root = added
    elif pending.is_right:
        partition.nodes.row(pending.parent).right = added
    else:
        partition.nodes.row(pending.parent).left = added
    pending.parent = added
    pending.is_right = 1 if is_right else 0


@exact_separate
def extend_node(partition: P, tree: Tree, pending: Pending, value: float, writes: bool) -> int:
    """Cut a node's cell in the new dimension; returns how many nodes that takes."""
    dim = partition.n_dims
    node = partition.nodes.row(pending.row)
    is_leaf = node.n_samples > 0
    key = key_of(node.key, PER_DIM + 3 * dim + 2)
    began, lower, upper = pending.began, pending.lower, pending.upper
    n_new = 0
    while True:
        time = began + exponential(key, CUT_TIME, side_length(lower, upper))
        if time >= node.time:
            break
        place = place_within(lower, upper, uniform(key, CUT_PLACE))
        if is_leaf and time > tree.lifetime:
            if writes:
                node.time = time
                node.dim = dim
                node.place = place
            break
        is_right = value > place
        if writes:
            insert_above(partition, tree, pending, key, time, place, is_right)
        n_new += 1
        began = time
        if is_right:
            lower = place
        else:
            upper = place
        key = key_of(key, NEXT_KEY)
    pending.lower = lower
    pending.upper = upper
    if is_leaf and writes:
        node.widen(math.log(upper - lower))
    return n_new


@exact_inlined
def put_children(partition: P, pending: Array[Pending], n: int) -> int:
    """Replace the node behind the first `n` that wait by its children; returns how many wait."""
    row, lower, upper = pending[n].row, pending[n].lower, pending[n].upper
    node = partition.nodes.row(row)
    if node.n_samples > 0:
        return n
    if node.left != NONE:
        put_pending(pending[n], node.left, row, 0, node.time, lower, upper)
        n += 1
    if node.right != NONE:
        put_pending(pending[n], node.right, row, 1, node.time, lower, upper)
        n += 1
    return n


@exact_batch_kernel
def add_dimension(partition: P, t: int, value: float, ends: Float64s, writes: bool) -> int:
    """Extend a tree by a dimension.

    Parameters
    ----------
    partition
        The partition; its number of dimensions is that from before.
    t
        Number of the tree.
    value
        The samples' value.
    ends
        Where to write the lower and the upper end of the root's cell in the new dimension.
    writes
        Whether to change the tree, which takes room. The draws are the same without.

    Returns
    -------
    Number of nodes that are stored, or have to be.

    """
    tree = partition.trees[t]
    if tree.root == NONE:
        return 0
    first = PER_DIM + 3 * partition.n_dims
    # Equation 16, as for the first sample's cell, at the time at which the root's is known.
    ends[0] = -beyond(-value, exponential(tree.key_above, first, tree.began))
    ends[1] = beyond(value, exponential(tree.key_above, first + 1, tree.began))
    pending = new_array(Pending, partition.nodes.n_rows + 1)
    put_pending(pending[0], tree.root, NONE, 0, tree.began, ends[0], ends[1])
    n_new, n_pending = 0, 1
    while n_pending > 0:
        n_pending -= 1
        n_new += extend_node(partition, tree, pending[n_pending], value, writes)
        n_pending = put_children(partition, pending, n_pending)
    release(pending)
    return n_new
