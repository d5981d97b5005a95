"""Cells of points, and samples in them, found without storing anything."""

from __future__ import annotations

from ...compiling.kernels import exact_inlined, exact_separate
from ...records import Float64s
from .cells import clip, contains, copy_cell, cut_of, latest_face, push_back
from .keys import ABOVE_KEY, child_key, key_of
from .records import NONE, Node, P, Tree, stored_values


@exact_inlined
def count_in_cell(partition: P, t: int, first_sample: int) -> int:
    """Return how many samples of a leaf's list are in the cell on the way."""
    count = 0
    row = first_sample
    while row != NONE:
        sample = partition.samples.row(row)
        if contains(partition.cell, stored_values(partition, t, sample)):
            count += 1
        row = sample.links(partition)[t]
    return count


@exact_inlined
def cut_on(partition: P, z: Float64s, key: int, began: float, lifetime: float) -> None:
    """Cut the cell on the way, which began at a time, until the lifetime, on a point's side."""
    cell = partition.cell
    while True:
        began, dim, place = cut_of(cell, key, began)
        if began > lifetime:
            break
        is_right = z[dim] > place
        clip(cell, dim, place, is_right)
        key = child_key(key, is_right)


@exact_inlined
def reveal_outside(partition: P, tree: Tree, z: Float64s) -> None:
    """Reveal the cell of a point outside the root's cell, which is the one on the way."""
    cell, key, began = partition.cell, tree.key_above, tree.began
    while True:
        began, face, reach = latest_face(partition.n_dims, key, began)
        place = push_back(cell, face, reach)
        if contains(cell, z):
            break
        key = key_of(key, ABOVE_KEY)
    # The point is beyond the face that was cut last.
    is_right = face & 1 == 1
    clip(cell, face >> 1, place, is_right)
    cut_on(partition, z, child_key(key, is_right), began, tree.lifetime)


@exact_separate
def reveal(partition: P, t: int, z: Float64s) -> int:
    """Let the cell on the way be that of a tree that contains a point; returns its count."""
    tree, cell = partition.trees[t], partition.cell
    copy_cell(tree.cell, cell)
    if not contains(cell, z):
        reveal_outside(partition, tree, z)
        return 0
    key, began, first_sample = 0, 0.0, NONE
    row = tree.root
    while row != NONE:
        node = partition.nodes.row(row)
        if node.time > tree.lifetime:
            return node.n_samples
        is_right = z[node.dim] > node.place
        clip(cell, node.dim, node.place, is_right)
        key, began = child_key(node.key, is_right), node.time
        if node.n_samples > 0:
            # A leaf whose time has come.
            first_sample = node.first_sample
            break
        row = node.right if is_right else node.left
    cut_on(partition, z, key, began, tree.lifetime)
    return count_in_cell(partition, t, first_sample)


@exact_inlined
def cut_while_occupied(partition: P, t: int, leaf: Node, z: Float64s) -> None:
    """Cut the cell on the way, a leaf's, where its time has come, as long as it has samples."""
    cell, lifetime = partition.cell, partition.trees[t].lifetime
    key, time, dim, place = leaf.key, leaf.time, leaf.dim, leaf.place
    while time <= lifetime:
        is_right = z[dim] > place
        lower, upper = cell.lower[dim], cell.upper[dim]
        clip(cell, dim, place, is_right)
        if count_in_cell(partition, t, leaf.first_sample) == 0:
            cell.lower[dim] = lower
            cell.upper[dim] = upper
            return
        key = child_key(key, is_right)
        time, dim, place = cut_of(cell, key, time)


@exact_separate
def reveal_last_occupied(partition: P, t: int, z: Float64s) -> None:
    """Let the cell on the way be the last one on the way to a point that has samples.

    It is that of the lifetime until which the tree does not part the point from all samples.
    """
    tree, cell = partition.trees[t], partition.cell
    copy_cell(tree.cell, cell)
    if contains(cell, z):
        node = partition.nodes.row(tree.root)
        while node.time <= tree.lifetime and node.n_samples == 0:
            is_right = z[node.dim] > node.place
            child = node.right if is_right else node.left
            if child == NONE:
                return
            clip(cell, node.dim, node.place, is_right)
            node = partition.nodes.row(child)
        cut_while_occupied(partition, t, node, z)
        return
    key, began = tree.key_above, tree.began
    while not contains(cell, z):
        began, face, reach = latest_face(partition.n_dims, key, began)
        push_back(cell, face, reach)
        key = key_of(key, ABOVE_KEY)
