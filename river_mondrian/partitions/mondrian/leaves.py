"""Rows of leaves: making them, and putting points into them."""

from __future__ import annotations

from ...compiling.kernels import helper, inlined
from ...records import Array, Float32s, Int32s, prefetch
from .boxes import BATCH, PointAt, distance_outside, hold, room_of_batch
from .light import begin_box, hold_all, make_box
from .records import LEFT, NONE, PAUSED, RIGHT, UNLIMITED, Forest, Node, Tree


@inlined
def new_row(forest: Forest, tree: Tree) -> int:
    """Take a free row, or the next one, and clear it; the caller has made sure of room."""
    j = tree.free_row
    if j == NONE:
        j = tree.nodes.n_rows
        tree.nodes.n_rows = j + 1
    else:
        tree.free_row = tree.nodes.row(j).next_free
    node = tree.nodes.row(j)
    node.begin_row(forest)
    node.clear(forest)
    return j


@inlined
def clear_tree(tree: Tree) -> None:
    """Let a tree have no rows."""
    tree.nodes.n_rows = 0
    tree.boxes.n_rows = 0
    tree.side_rows.n_rows = 0
    tree.free_row = NONE
    tree.free_box = NONE
    tree.free_side_row = NONE


@inlined
def new_leaf(forest: Forest, tree: Tree) -> int:
    """Make the row of an empty paused leaf."""
    j = new_row(forest, tree)
    node = tree.nodes.row(j)
    node.first_point = NONE
    node.right = NONE
    node.dim = PAUSED
    if node.has_box(forest):
        begin_box(forest, node.box(forest, tree))
    return j


@inlined
def count_below(tree: Tree, ref: int) -> int:
    """Return the number of samples below a reference."""
    if ref < 0:
        return 1
    return tree.nodes.row(ref).n_samples


@inlined
def prefetch_node(forest: Forest, tree: Tree, j: int) -> None:
    """Bring a row of nodes close, and its box where that is there."""
    prefetch(tree.nodes.row(j), forest.node_words)


@inlined
def mass_below(forest: Forest, tree: Tree, ref: int) -> float:
    """Return what the samples below a reference count for."""
    if ref < 0:
        return forest.points.row(~ref).mass()
    return tree.nodes.row(ref).mass(forest)


@inlined
def distance_to(forest: Forest, tree: Tree, ref: int, x: Float32s) -> float:
    """Return how far `x` lies outside the box of a reference."""
    if ref < 0:
        # A point's values are both sides of its box.
        values = forest.values_of(tree, ~ref)
        return distance_outside(x, values, values, forest.n_dims)
    node = tree.nodes.row(ref)
    # Kinds of nodes that always have a box compile without this branch.
    if not node.has_box(forest):
        return forest.light.distance(forest, tree, ref, x)
    return distance_outside(x, node.lower(forest, tree), node.upper(forest, tree), forest.n_dims)


@helper
def nearer_side(forest: Forest, tree: Tree, left: int, right: int, x: Float32s) -> int:
    """Choose a side for a sample whose value in the cut dimension is missing.

    The child whose box is nearer in the known dimensions, the larger one where both are as near.
    """
    to_left = distance_to(forest, tree, left, x)
    to_right = distance_to(forest, tree, right, x)
    if to_left != to_right:
        return RIGHT if to_right < to_left else LEFT
    is_larger = mass_below(forest, tree, right) > mass_below(forest, tree, left)
    return RIGHT if is_larger else LEFT


@inlined
def side_of(forest: Forest, tree: Tree, node: Node, x: Float32s) -> int:
    """Return the side of an internal node's cut to which a sample goes: LEFT or RIGHT."""
    v = x[node.dim]
    if v != v:
        return nearer_side(forest, tree, node.left, node.right, x)
    return LEFT if v <= node.cut else RIGHT


@inlined
def grow_leaf(forest: Forest, tree: Tree, j: int, p: int) -> None:
    """Count a point in a leaf's row, which has it in its list if points are kept."""
    node, point = tree.nodes.row(j), forest.points.row(p)
    if node.has_box(forest):
        word = forest.values_word + tree.first_value
        hold(point, word, node.lower(forest, tree), node.upper(forest, tree), forest.n_dims)
    elif node.n_samples >= forest.light_size:
        make_box(forest, tree, j)
    node.add_point(forest, point)
    node.n_samples = node.n_samples + 1


@helper
def _append_point(forest: Forest, tree: Tree, node: Node, p: int) -> None:
    """Put a stored point at the end of a leaf's list."""
    slot = tree.slot
    forest.links_of(p)[slot] = NONE
    if node.first_point == NONE:
        node.first_point = p
    else:
        last = node.list_end - 1
        if last == NONE:
            last = node.first_point
            while forest.links_of(last)[slot] != NONE:
                last = forest.links_of(last)[slot]
        forest.links_of(last)[slot] = p
    node.list_end = p + 1


@inlined
def turn_list(forest: Forest, tree: Tree, node: Node) -> None:
    """Turn the order of a leaf's list around."""
    before, p, slot = NONE, int(node.first_point), tree.slot
    while p != NONE:
        following = int(forest.links_of(p)[slot])
        forest.links_of(p)[slot] = before
        before, p = p, following
    node.first_point = before


@inlined
def put_point(forest: Forest, tree: Tree, t: int, j: int, p: int) -> None:
    """Put a stored point into a leaf's row: its list, its box, what its kind keeps, its number."""
    node = tree.nodes.row(j)
    if forest.window == UNLIMITED:
        forest.links_of(p)[tree.slot] = node.first_point
        node.first_point = p
    else:
        _append_point(forest, tree, node, p)
    grow_leaf(forest, tree, j, p)


@inlined
def add_batch(forest: Forest, tree: Tree, node: Node, batch: Array[PointAt], n: int) -> None:
    """Add the first `n` points of a batch to a leaf's row, which has them in its list.

    There are more batches to come only where this one is full.
    """
    for i in range(n):
        node.add_point(forest, forest.points.known(batch[i].point))
        node.n_samples = node.n_samples + 1
    if not node.has_box(forest) and n > forest.light_size:
        node.take_box(forest, tree)
        if node.has_box(forest):
            begin_box(forest, node.box(forest, tree))
    if node.has_box(forest):
        hold_all(forest, tree, batch, n, node.box(forest, tree))


@inlined
def fill_leaf(forest: Forest, tree: Tree, t: int, first: int) -> int:
    """Make a leaf's row for the list of points that begins with `first`."""
    j = new_leaf(forest, tree)
    node = tree.nodes.row(j)
    node.first_point = first
    batch = room_of_batch()
    link_word = forest.links_word + tree.slot
    p = first
    while p != NONE:
        n = 0
        while p != NONE and n < BATCH:
            point = forest.points.row(p)
            batch[n].point = point
            p = Int32s(point, link_word, 1)[0]
            n += 1
        add_batch(forest, tree, node, batch, n)
    return j


@inlined
def link_to_parent(tree: Tree, ref: int) -> None:
    """Put a reference where the walk is."""
    if tree.walk_parent == NONE:
        tree.root = ref
    else:
        tree.nodes.row(tree.walk_parent).set_child(tree.walk_side, ref)
