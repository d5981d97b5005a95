"""Checks of the insets of restored trees: where they stand, and that they lie within boxes."""

from __future__ import annotations

from ...compiling.kernels import inlined
from ...records import Float32s
from . import faults
from .checking_points import FARTHEST, Check
from .faults import FINE
from .light import box_of
from .records import INSETS, LEFT, NONE, OWN_INSETS, Forest, InsetRow, Node, Tree


@inlined
def _is_fine(forest: Forest, row: InsetRow, capacity: int, least: int) -> bool:
    """Tell whether a row has as many insets as it may, each a side that there is."""
    if not least <= row.n <= capacity:
        return False
    places, values = row.places(capacity), row.values(capacity)
    for i in range(row.n):
        place, v = places[i], values[i]
        d = place if place < forest.dim_capacity else place - forest.dim_capacity
        if not 0 <= d < forest.n_dims or abs(v) > FARTHEST:
            return False
    return True


@inlined
def refers_to_insets(forest: Forest, tree: Tree, node: Node, check: Check) -> bool:
    """Note the rows of a node's insets; False where one is another's, or not as it should be.

    All rows are full, but for the first one behind the own row, or that where none is behind.
    """
    if not forest.keeps_insets():
        return True
    own = node.insets(forest)
    r = own.following
    if not node.has_insets(forest):
        return r == NONE
    if node.dim < 0 or not _is_fine(forest, own, OWN_INSETS, 0 if r == NONE else OWN_INSETS):
        return False
    n, least = own.n, 1
    while r != NONE:
        if not 0 <= r < tree.insets.n_rows or check.insets[r] == check.tree + 1:
            return False
        check.insets[r] = check.tree + 1
        row = tree.insets.row(r)
        if not _is_fine(forest, row, INSETS, least):
            return False
        n, least = n + row.n, INSETS
        r = row.following
    return n <= forest.most_insets


@inlined
def has_inset_child(forest: Forest, tree: Tree, node: Node) -> bool:
    """Tell whether a child of an internal node has insets."""
    found = False
    for side in range(2):
        ref = node.child(side)
        found = found or (ref >= 0 and tree.nodes.row(ref).has_insets(forest))
    return found


@inlined
def frees_insets(tree: Tree, check: Check) -> bool:
    """Tell whether the list of free rows has all that no node has, each once."""
    n, r, n_rows = 0, tree.free_inset, tree.insets.n_rows
    for i in range(n_rows):
        n += 1 if check.insets[i] == check.tree + 1 else 0
    while r != NONE:
        if not 0 <= r < n_rows or check.insets[r] == check.tree + 1:
            return False
        check.insets[r] = check.tree + 1
        n += 1
        r = tree.insets.row(r).following
    return n == n_rows


@inlined
def _swap(forest: Forest, tree: Tree, node: Node, box: Float32s) -> bool:
    """Let a node's insets and the sides of the box above change places.

    So the box becomes the node's, and by doing it again what it was. Returns False where an inset
    was further out than the side above.
    """
    row, capacity, n_dims = node.insets(forest), OWN_INSETS, forest.dim_capacity
    is_within = True
    while True:
        places, values = row.places(capacity), row.values(capacity)
        for i in range(row.n):
            place, v = places[i], values[i]
            above = -box[place] if place < n_dims else box[place]
            is_within = is_within and not v > above and (above == above or v != v)
            box[place] = -v if place < n_dims else v
            values[i] = above
        if row.following == NONE:
            return is_within
        row, capacity = tree.insets.row(row.following), INSETS


@inlined
def _names_each_once(forest: Forest, tree: Tree, node: Node) -> bool:
    """Tell whether a node has at most one inset at each place."""
    marks, is_right = tree.way.marks, True
    for mark in range(1, -1, -1):
        row, capacity = node.insets(forest), OWN_INSETS
        while True:
            places = row.places(capacity)
            for i in range(row.n):
                is_right = is_right and marks[places[i]] != mark
                marks[places[i]] = mark
            if row.following == NONE:
                break
            row, capacity = tree.insets.row(row.following), INSETS
        if not is_right:
            for place in range(2 * forest.dim_capacity):
                marks[place] = 0
            return False
    return True


@inlined
def _is_beside_cut(
    forest: Forest, tree: Tree, node: Node, side: int, box: Float32s, below: Node
) -> bool:
    """Tell whether a child with insets is on its side of the cut of a node, whose box that is."""
    capacity, n_dims = OWN_INSETS, forest.dim_capacity
    cut_place = node.dim + n_dims if side == LEFT else node.dim
    found = box[cut_place]
    row = below.insets(forest)
    while True:
        places, values = row.places(capacity), row.values(capacity)
        for i in range(row.n):
            if places[i] == cut_place:
                found = values[i] if side == LEFT else -values[i]
        if row.following == NONE:
            break
        row, capacity = tree.insets.row(row.following), INSETS
    # What is unknown is on either side.
    return not found > node.cut if side == LEFT else not found <= node.cut


@inlined
def _holds_child(
    forest: Forest, tree: Tree, node: Node, side: int, box: Float32s, check: Check
) -> bool:
    """Tell whether a child without insets is on its side of a cut, and within its parent's box."""
    child, capacity = box_of(forest, tree, node.child(side), check.left), forest.dim_capacity
    upper = child[capacity + node.dim]
    if (side == LEFT and upper > node.cut) or (side != LEFT and child[node.dim] <= node.cut):
        return False
    n_bad = 0
    for d in range(forest.n_dims):
        low, high = child[d], child[capacity + d]
        is_within = (box[d] <= low) & (high <= box[capacity + d])
        n_bad += 1 if low == low and not is_within else 0
    return n_bad == 0


@inlined
def fault_of_insets(forest: Forest, tree: Tree, check: Check) -> int:
    """Return what is wrong with the boxes that insets of a tree tell.

    Below each node that keeps its whole box, that becomes the boxes of those with insets in turn,
    and then itself again. A node waits until what is below it has been looked at: as ~row.
    """
    if not forest.keeps_insets():
        return FINE
    waiting, n_found = check.waiting, 0
    for j in range(tree.nodes.n_rows):
        top = tree.nodes.row(j)
        if top.dim < 0 or not top.has_box(forest):
            continue
        box, fault = top.box(forest, tree), FINE
        n_waiting = 1
        waiting[0] = j
        while n_waiting > 0:
            n_waiting -= 1
            ref = int(waiting[n_waiting])
            if ref < 0:
                _swap(forest, tree, tree.nodes.row(~ref), box)
                continue
            if fault != FINE:
                continue
            node = tree.nodes.row(ref)
            check.row = ref
            if ref != j:
                n_found += 1
                if not _names_each_once(forest, tree, node):
                    fault = faults.INSETS
                    continue
                if not _swap(forest, tree, node, box):
                    fault = faults.INSETS
                waiting[n_waiting] = ~ref
                n_waiting += 1
            is_told = node.has_insets(forest) or has_inset_child(forest, tree, node)
            for side in range(2):
                child = node.child(side)
                if child >= 0 and tree.nodes.row(child).has_insets(forest):
                    if not _is_beside_cut(forest, tree, node, side, box, tree.nodes.row(child)):
                        fault = faults.APART
                    waiting[n_waiting] = child
                    n_waiting += 1
                elif is_told and not _holds_child(forest, tree, node, side, box, check):
                    fault = faults.APART
        if fault != FINE:
            return fault
    # One below a light node, or at the root, has not been met.
    for j in range(tree.nodes.n_rows):
        node = tree.nodes.row(j)
        n_found -= 1 if node.dim >= 0 and node.has_insets(forest) else 0
    return FINE if n_found == 0 else faults.INSETS
