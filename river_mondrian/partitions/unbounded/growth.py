"""How trees grow by samples: downwards to a leaf of the lifetime, and upwards to a larger cell."""

from __future__ import annotations

import math

from ...compiling.kernels import exact_inlined, exact_separate
from ...records import Float64s
from .cells import clip, contains, copy_cell, cut_of, latest_face, push_back, reach_around
from .keys import ABOVE_KEY, LEFT_KEY, child_key, key_of
from .records import NONE, Node, P, Tree, log_volume, stored_values


@exact_inlined
def append_node(partition: P, key: int, time: float, dim: int, place: float) -> int:
    """Store a node that keeps nothing of its cell; returns its row. There has to be room."""
    row = partition.nodes.n_rows
    partition.nodes.n_rows = row + 1
    node = partition.nodes.row(row)
    node.key = key
    node.time = time
    node.dim = dim
    node.place = place
    node.left = NONE
    node.right = NONE
    node.n_samples = 0
    node.first_sample = NONE
    node.begin(math.nan)
    return row


@exact_separate
def begin_cell(partition: P, key: int, began: float) -> int:
    """Store a node for the cell on the way and draw its cut; returns its row."""
    time, dim, place = cut_of(partition.cell, key, began)
    row = append_node(partition, key, time, dim, place)
    partition.nodes.row(row).begin(log_volume(partition, partition.cell))
    return row


@exact_inlined
def child_of(partition: P, node: Node, is_right: bool) -> int:
    """Return the row of a node's child, stored if need be, whose cell is the one on the way."""
    child = node.right if is_right else node.left
    if child == NONE:
        child = begin_cell(partition, child_key(node.key, is_right), node.time)
        if is_right:
            node.right = child
        else:
            node.left = child
    return child


@exact_separate
def begin_tree(partition: P, tree: Tree, z: Float64s) -> bool:
    """Begin a tree with the cell of its first sample; False if room is short."""
    if partition.nodes.n_rows >= partition.nodes.capacity:
        return False
    key = tree.key_above
    reach_around(tree.cell, z, key, tree.lifetime)
    copy_cell(tree.cell, partition.cell)
    tree.began = tree.lifetime
    tree.root = begin_cell(partition, key_of(key, LEFT_KEY), tree.lifetime)
    tree.key_above = key_of(key, ABOVE_KEY)
    return True


@exact_separate
def extend_upwards(partition: P, tree: Tree, z: Float64s) -> bool:
    """Extend a tree back in time until its root's cell contains a point; False if room is short."""
    while not contains(tree.cell, z):
        if partition.nodes.n_rows >= partition.nodes.capacity:
            return False
        key = tree.key_above
        time, face, reach = latest_face(partition.n_dims, key, tree.began)
        place = push_back(tree.cell, face, reach)
        row = append_node(partition, key, time, face >> 1, place)
        if face & 1:
            partition.nodes.row(row).left = tree.root
        else:
            partition.nodes.row(row).right = tree.root
        tree.root = row
        tree.began = time
        tree.key_above = key_of(key, ABOVE_KEY)
    return True


@exact_separate
def divide(partition: P, t: int, leaf: Node) -> None:
    """Cut the leaf on the way, whose samples go to its children; there has to be room for two."""
    cell = partition.cell
    dim, place = leaf.dim, leaf.place
    lower, upper = cell.lower[dim], cell.upper[dim]
    row = leaf.first_sample
    leaf.first_sample = NONE
    leaf.n_samples = 0
    while row != NONE:
        sample = partition.samples.row(row)
        links = sample.links(partition)
        following = links[t]
        is_right = stored_values(partition, t, sample)[dim] > place
        clip(cell, dim, place, is_right)
        child = partition.nodes.row(child_of(partition, leaf, is_right))
        cell.lower[dim] = lower
        cell.upper[dim] = upper
        links[t] = child.first_sample
        child.first_sample = row
        child.n_samples += 1
        row = following


@exact_inlined
def stored_leaf(partition: P, tree: Tree, z: Float64s) -> int:
    """Return the row of a point's leaf, or of the last node on the way that is stored.

    The root's cell has to contain the point. The node is no leaf where its time has come and it has
    no samples; it may be a leaf whose time has come.
    """
    row = tree.root
    node = partition.nodes.row(row)
    while node.time <= tree.lifetime and node.n_samples == 0:
        child = node.right if z[node.dim] > node.place else node.left
        if child == NONE:
            break
        row = child
        node = partition.nodes.row(row)
    return row


@exact_separate
def reach_leaf(partition: P, t: int, z: Float64s) -> int:
    """Store what there is not yet on the way to a point's leaf; returns its row.

    The root's cell contains the point. Returns `NONE` if room is short.
    """
    tree, cell = partition.trees[t], partition.cell
    copy_cell(tree.cell, cell)
    row = tree.root
    node = partition.nodes.row(row)
    while node.time <= tree.lifetime:
        if partition.nodes.n_rows + 2 > partition.nodes.capacity:
            return NONE
        if node.n_samples > 0:
            divide(partition, t, node)
        is_right = z[node.dim] > node.place
        clip(cell, node.dim, node.place, is_right)
        row = child_of(partition, node, is_right)
        node = partition.nodes.row(row)
    return row


@exact_inlined
def add_sample(partition: P, t: int, z: Float64s) -> bool:
    """Count a point in its leaf of a tree; False, and nothing counted, if room is short.

    Where samples are stored, it is the one behind those in the table.
    """
    tree = partition.trees[t]
    if tree.root == NONE and not begin_tree(partition, tree, z):
        return False
    if not contains(tree.cell, z) and not extend_upwards(partition, tree, z):
        return False
    # Most samples fall into leaves that are there: no cell is needed on the way to those.
    row = stored_leaf(partition, tree, z)
    if partition.nodes.row(row).time <= tree.lifetime:
        row = reach_leaf(partition, t, z)
        if row == NONE:
            return False
    node = partition.nodes.row(row)
    node.n_samples += 1
    if partition.stores_samples:
        sample = partition.samples.n_rows
        partition.samples.row(sample).links(partition)[t] = node.first_sample
        node.first_sample = sample
    return True
