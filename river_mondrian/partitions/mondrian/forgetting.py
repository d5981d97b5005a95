"""Removal of points, so that trees are distributed as if sampled without these points.

This distribution is exact if no values are missing, and if the choice of points does not depend on
the trees. The Mondrian process is projective (Lakshminarayanan et al. 2014, section 4.1). So the
restriction of a Mondrian tree to some of its points has the distribution of a tree sampled from
these points. The restriction needs no random numbers. If the removed point is the only point of its
leaf, the leaf and its parent are deleted, and the leaf's sibling replaces the parent. If the
sibling is an internal node, the parent's `delta` is added to the sibling's `delta`. Boxes shrink to
the boxes of the remaining points. A cut that still separates points is within the smaller box.

Whether a node becomes a paused leaf depends on its points' labels and number. A node that becomes a
paused leaf loses its own cut and the cuts below. Given all visible nodes, these cuts are
distributed as a Mondrian tree of the node's points that starts at the time of the parent's cut. The
cuts that are sampled when the pause ends have the same distribution.

Nodes are updated from the leaf up to the root. On the way down, each reference on the path is
replaced by a reference to the parent (`UP`). On the way up, the references are restored. The search
needs no memory, so no step can fail.

A point with a missing value was assigned to the side of the nearer box. Boxes may have changed
later. So at a cut on the missing value, the search enters each side whose box contains the point's
known values, until it finds the point.

Stored points have the numbers 0, 1, ... without gaps. The last point gets the number of a forgotten
point. In a full window, the new sample gets the number of the oldest sample. `find_equal` compares
inputs to find the sample to forget.
"""

import math

from ... import records as rec
from ...compiling.kernels import always_inline, helper, inline_in_source, kernel, link_by_name
from ...limits import LARGEST, TOO_LARGE
from .boxes import begin_box, box_of, hold_point, linear_dimension, values_of
from .constants import COMPLETE, EMPTY, FREE, LEFT, NONE, PAUSED, RIGHT, UNLIMITED
from .records import LANES, F, Forest, Node, Tree
from .sampling import clear_tree, put_point
from .scaling import find_too_large, scale

# During a search, a path's references to children are replaced by UP plus the parent's row (NONE
# above the root). References to points are larger than these values.
UP = EMPTY + 1
LARGEST_UP = EMPTY + 2**29

# The search for a point's leaf.


@always_inline
def _turn_up(node: Node, side: int, parent: int) -> None:
    """Replace the reference on a side by a reference to the parent."""
    node.set_child(side, UP + parent)


@always_inline
def _side_up(node: Node) -> int:
    """Return the side whose reference refers to the parent."""
    return LEFT if node.left <= LARGEST_UP else RIGHT


@always_inline
def _parent(node: Node, side: int) -> int:
    """Return the row of the parent, read from the reference on a side; NONE at the root."""
    return node.child(side) - UP


@always_inline
def _turn_down(node: Node, side: int, ref: int) -> int:
    """Restore the reference on a side to a child, and return the row of the parent."""
    parent = _parent(node, side)
    node.set_child(side, ref)
    return parent


@always_inline
def _may_hold(forest: Forest, tree: Tree, ref: int, x: rec.Float32s) -> bool:
    """Return whether a node's box contains a point's known values."""
    box, capacity = box_of(forest, tree, ref, tree.buffer), forest.dim_capacity
    lower, upper = box.part(0, capacity), box.part(capacity, capacity)
    for d in range(forest.n_dims):
        v = x[d]
        if v == v and not lower[d] <= v <= upper[d]:
            return False
    return True


@always_inline
def _holds(forest: Forest, tree: Tree, ref: int, p: int) -> bool:
    """Return whether a leaf contains a point."""
    if ref < 0:
        return ref == ~p
    q = tree.nodes.row(ref).first_point
    while q != NONE and q != p:
        q = forest.links_of(q)[tree.slot]
    return q == p


@inline_in_source
def is_inner(tree: Tree, ref: int) -> bool:
    """Return whether a reference names an internal node."""
    return ref >= 0 and tree.nodes.row(ref).dim >= 0


@helper
def _find(forest: Forest, tree: Tree, p: int) -> tuple[int, int]:
    """Return the reference to a point's leaf, and the row of the leaf's parent or NONE.

    Afterwards the references on the path refer to parents.
    """
    x = values_of(forest, tree, p, tree.value_buffer)
    is_whole = forest.has_missing == 0
    above, ref = NONE, int(tree.root)
    while True:
        if is_inner(tree, ref):
            node = tree.nodes.row(ref)
            if is_whole or _may_hold(forest, tree, ref, x):
                # If the value in the cut dimension is missing, the left side is searched first.
                side = RIGHT if x[node.dim] > node.cut else LEFT
                child = node.child(side)
                _turn_up(node, side, above)
                above, ref = ref, child
                continue
        elif is_whole or _holds(forest, tree, ref, p):
            return ref, above
        # Return to the nearest node above whose other side has not been searched.
        while True:
            node = tree.nodes.row(above)
            side = _side_up(node)
            parent = _turn_down(node, side, ref)
            if side == LEFT and x[node.dim] != x[node.dim]:
                ref = node.right
                _turn_up(node, RIGHT, parent)
                break
            above, ref = parent, above


class Descent(rec.Record):
    """The search for a point in one tree. Several trees are searched in lock-step."""

    tree: Tree
    # The current reference, and the row of its parent, or NONE.
    ref: rec.Int64
    above: rec.Int64
    # The values of the point.
    sample: rec.Float32s


buffer_of_descents = rec.array_buffer(Descent, LANES)


@always_inline
def _touches(forest: Forest, tree: Tree, node: Node, x: rec.Float32s) -> bool:
    """Return whether a point is on a box's surface. The point's removal may then shrink the box."""
    lower, upper = node.lower(forest, tree), node.upper(forest, tree)
    for d in range(forest.n_dims):
        if x[d] == lower[d] or x[d] == upper[d]:
            return True
    return False


@inline_in_source
def find_in_trees(
    forest: Forest, first: int, last: int, p: int, descents: rec.Array[Descent]
) -> None:
    """Find a point's leaf in trees `first` to `last` - 1, as `_find` does in one tree.

    The trees are searched in lock-step, so that their cache misses overlap.
    """
    for t in range(first, last):
        descent, tree = descents[t - first], forest.trees[t]
        descent.tree = tree
        descent.ref = tree.root
        descent.above = NONE
        descent.sample = values_of(forest, tree, p, tree.value_buffer)
        if forest.has_missing == 1:
            descent.ref, descent.above = _find(forest, tree, p)
    goes_on = forest.has_missing == 0
    while goes_on:
        goes_on = False
        for i in range(last - first):
            descent = descents[i]
            tree, ref = forest.trees.cast(descent.tree), descent.ref
            if not is_inner(tree, ref):
                continue
            goes_on = True
            node = tree.nodes.row(ref)
            x = descent.sample
            side = RIGHT if x[node.dim] > node.cut else LEFT
            child, other = node.child(side), node.child(LEFT + RIGHT - side)
            _turn_up(node, side, descent.above)
            descent.above = ref
            descent.ref = child
            if child >= 0:
                rec.prefetch(tree.nodes.row(child), forest.node_words)
            if node.has_box(forest) and _touches(forest, tree, node, x):
                # On the way up, `_box_of_children` reads the sibling's box.
                if other >= 0:
                    rec.prefetch(tree.nodes.row(other), forest.node_words)
                else:
                    forest.prefetch_values(tree, forest.points.row(~other))


# Removal from leaves and nodes.


@always_inline
def free_row(forest: Forest, tree: Tree, j: int) -> None:
    """Zero and free a node's row."""
    node = tree.nodes.row(j)
    node.leave_box(forest, tree)
    words = rec.Int32s(node, 0, forest.node_words)
    for i in range(forest.node_words):
        words[i] = 0
    node.dim = FREE
    node.next_free = tree.free_row
    tree.free_row = j


@inline_in_source
def _box_of_children(forest: Forest, tree: Tree, node: Node) -> None:
    """Recompute the box of an internal node from its children's boxes."""
    node_box, capacity = node.box(forest, tree), forest.dim_capacity
    begin_box(forest, node_box)
    lower, upper = node_box.part(0, capacity), node_box.part(capacity, capacity)
    for side in range(2):
        box = box_of(forest, tree, node.child(side), tree.buffer)
        low, high = box.part(0, capacity), box.part(capacity, capacity)
        for d in range(forest.n_dims):
            # Comparisons with NaN are false. So `b != b` is tested, too, and a known bound replaces
            # an unknown bound.
            a, b = low[d], lower[d]
            lower[d] = a if (a < b or b != b) else b
            a, b = high[d], upper[d]
            upper[d] = a if (a > b or b != b) else b


@always_inline
def _link_past(forest: Forest, tree: Tree, node: Node, p: int, following: int) -> None:
    """Replace point `p` by `following` in the list of a leaf.

    In a window, the oldest point is the first point of the list. Any other point is found by
    following the list.
    """
    if node.list_end == p + 1:
        node.list_end = 0
    if node.first_point == p:
        node.first_point = following
        return
    slot, q = tree.slot, int(node.first_point)
    while forest.links_of(q)[slot] != p:
        q = int(forest.links_of(q)[slot])
    forest.links_of(q)[slot] = following


@inline_in_source
def _leave_leaf(forest: Forest, tree: Tree, ref: int, p: int, x: rec.Float32s) -> int:
    """Remove a point with the values `x` from a leaf of several points; return the new reference.

    If a single point remains, the leaf's row is freed.
    """
    node = tree.nodes.row(ref)
    point = forest.points.row(p)
    _link_past(forest, tree, node, p, forest.links_of(p)[tree.slot])
    node.n_samples = node.n_samples - 1
    if node.n_samples == 1:
        q = node.first_point
        node.give_back(forest, tree)
        free_row(forest, tree, ref)
        return ~q
    node.drop_point(forest, tree, point)
    if node.n_samples <= forest.light_size:
        node.leave_box(forest, tree)
    if node.has_box(forest):
        # If all points are equal, the box does not change, so it is not computed again.
        lower, upper = node.lower(forest, tree), node.upper(forest, tree)
        extent = linear_dimension(lower, upper, forest.n_dims)
        may_shrink = extent > 0.0 or forest.has_missing == 1
        if may_shrink and _touches(forest, tree, node, x):
            begin_box(forest, node.box(forest, tree))
            q = node.first_point
            while q != NONE:
                hold_point(forest, tree, forest.points.row(q), lower, upper)
                q = forest.links_of(q)[tree.slot]
    if node.dim == COMPLETE and node.is_paused(forest):
        node.give_back(forest, tree)
        node.dim = PAUSED
    return ref


@inline_in_source
def _collapse(forest: Forest, tree: Tree, j: int) -> None:
    """Turn a node whose children are leaves into a paused leaf of the children's points."""
    node = tree.nodes.row(j)
    slot = tree.slot
    left, right = int(node.left), int(node.right)
    node.clear(forest)
    node.first_point = NONE
    node.right = NONE
    node.dim = PAUSED
    for side in range(2):
        ref = left if side == LEFT else right
        q = tree.nodes.row(ref).first_point if ref >= 0 else ~ref
        while q != NONE:
            following = forest.links_of(q)[slot] if ref >= 0 else NONE
            put_point(forest, tree, j, q)
            q = following
        if ref >= 0:
            tree.nodes.row(ref).give_back(forest, tree)
            free_row(forest, tree, ref)
    tree.n_splits = tree.n_splits - 1


@link_by_name
def take_out(forest: F, t: int, p: int, ref: int, above: int) -> None:
    """Remove a stored point from a tree after a search has found the point's leaf."""
    tree = forest.trees[t]
    x = values_of(forest, tree, p, tree.value_buffer)
    if ref >= 0 and tree.nodes.row(ref).n_samples > 1:
        ref = _leave_leaf(forest, tree, ref, p, x)
    else:
        if ref >= 0:
            tree.nodes.row(ref).give_back(forest, tree)
            free_row(forest, tree, ref)
        ref = EMPTY
        if above != NONE:
            # The leaf's sibling replaces the node above.
            node = tree.nodes.row(above)
            side = _side_up(node)
            parent, ref = _parent(node, side), node.child(LEFT + RIGHT - side)
            if is_inner(tree, ref):
                below = tree.nodes.row(ref)
                below.delta = min(below.delta + node.delta, LARGEST)
                below.change_parent()
            free_row(forest, tree, above)
            tree.n_splits = tree.n_splits - 1
            above = parent
    # A point inside a node's box is also inside the boxes above, so these boxes do not shrink.
    may_shrink = True
    while above != NONE:
        node = tree.nodes.row(above)
        side = _side_up(node)
        parent = _turn_down(node, side, ref)
        node.n_samples = node.n_samples - 1
        if node.n_samples <= forest.light_size:
            node.leave_box(forest, tree)
        if may_shrink and node.has_box(forest):
            may_shrink = _touches(forest, tree, node, x)
            if may_shrink:
                _box_of_children(forest, tree, node)
        node.renew_side(forest, tree, side, ref)
        has_leaves = not is_inner(tree, node.left) and not is_inner(tree, node.right)
        if has_leaves and node.collapses(forest):
            _collapse(forest, tree, above)
        ref, above = above, parent
    tree.root = ref
    if ref == EMPTY:
        clear_tree(tree)


@link_by_name
def rename_point(forest: F, t: int, p: int, new: int) -> None:
    """Replace a point's number by `new` in a tree. The rows of both numbers store the point."""
    tree = forest.trees[t]
    ref, above = _find(forest, tree, p)
    if ref < 0:
        ref = ~new
    else:
        _link_past(forest, tree, tree.nodes.row(ref), p, new)
    while above != NONE:
        node = tree.nodes.row(above)
        ref, above = above, _turn_down(node, _side_up(node), ref)
    tree.root = ref


# Stored points: their numbers, their order of arrival, and the search for an equal sample.


@always_inline
def clear_point(forest: Forest, p: int) -> None:
    """Zero the row of a point that no tree contains."""
    n_words = forest.links_word + forest.n_slots
    words = rec.Int32s(forest.points.row(p), 0, n_words)
    for i in range(n_words):
        words[i] = 0


@always_inline
def link_arrivals(forest: Forest, older: int, newer: int) -> None:
    """Link two points in the order of arrival.

    NONE precedes the first point and follows the last point.
    """
    if older == NONE:
        forest.first_arrival = newer
    else:
        forest.arrivals.row(older).newer = newer
    if newer == NONE:
        forest.last_arrival = older
    else:
        forest.arrivals.row(newer).older = older


@helper
def _move_to(forest: F, p: int, hole: int) -> None:
    """Move a point to the number of a forgotten point."""
    if p == hole:
        return
    n_words = forest.links_word + forest.n_slots
    words = rec.Int32s(forest.points.row(p), 0, n_words)
    others = rec.Int32s(forest.points.row(hole), 0, n_words)
    for i in range(n_words):
        others[i] = words[i]
    if forest.window != UNLIMITED:
        arrival = forest.arrivals.row(p)
        older, newer = int(arrival.older), int(arrival.newer)
        link_arrivals(forest, older, hole)
        link_arrivals(forest, hole, newer)
    for t in range(forest.n_holding(p)):
        rename_point(forest, t, p, hole)


@link_by_name
def forget_in_trees(forest: F, p: int) -> None:
    """Remove a stored point from all trees that contain it, and from the order of arrival."""
    descents = buffer_of_descents()
    n = forest.n_holding(p)
    for first in range(0, n, LANES):
        last = min(first + LANES, n)
        find_in_trees(forest, first, last, p, descents)
        for t in range(first, last):
            take_out(forest, t, p, descents[t - first].ref, descents[t - first].above)
    forest.forget_sample(p)
    if forest.window != UNLIMITED:
        arrival = forest.arrivals.row(p)
        link_arrivals(forest, arrival.older, arrival.newer)
    forest.n_forgotten = forest.n_forgotten + 1


@always_inline
def next_point(forest: F, inputs: rec.Float64s) -> int:
    """Return the number of the point that will store a sample.

    If the window is not full, the call returns the next free number. In a full window, the call
    forgets the oldest sample and returns its number. If the window is full and input i is too
    large, the call returns `TOO_LARGE - i`, and forgets no sample.
    """
    if forest.n_points < forest.window:
        return forest.n_points
    bad = find_too_large(forest, inputs)
    if bad >= 0:
        return TOO_LARGE - bad
    p = int(forest.first_arrival)
    forget_in_trees(forest, p)
    forest.n_points = forest.n_points - 1
    return p


_buffer_of_found = rec.words_buffer(rec.Int64s, 2)


@always_inline
def _equals(forest: Forest, p: int) -> bool:
    """Return whether a stored point equals the sample in `inputs`.

    The next free point's row has the sample's weight, and its label or target.
    """
    point, sample = forest.points.row(p), forest.points.row(forest.n_points)
    if not point.is_like(sample):
        return False
    known, inputs = forest.inputs_in(point), forest.inputs
    for d in range(forest.n_inputs):
        a, b = known[d], inputs[d]
        if not (a == b or (a != a and b != b)):
            return False
    return True


@link_by_name
def find_equal(forest: F, most: int, out: rec.Int64s) -> None:
    """Count at most `most` stored points that equal the sample in `inputs`.

    The sample's other fields are in the next free point's row. Writes to `out` the count, and the
    number of the last counted point or NONE. The search covers the points in the sample's leaf. If
    a value is missing, the sample may be in another leaf, so the search covers all points.
    """
    out[0] = 0
    out[1] = NONE
    if scale(forest, forest.row, forest.inputs) >= 0:
        return
    searches_all = False
    for d in range(forest.n_inputs):
        searches_all = searches_all or forest.inputs[d] != forest.inputs[d]
    tree = forest.trees[0]
    x = forest.row.part(tree.first_value, forest.dim_capacity)
    ref = int(tree.root)
    while not searches_all and is_inner(tree, ref):
        node = tree.nodes.row(ref)
        ref = node.left if x[node.dim] <= node.cut else node.right
    p = 0 if searches_all else (tree.nodes.row(ref).first_point if ref >= 0 else ~ref)
    while p != NONE and p < forest.n_points and out[0] < most:
        if _equals(forest, p):
            out[0] = out[0] + 1
            out[1] = p
        if searches_all:
            p += 1
        else:
            p = NONE if ref < 0 else int(forest.links_of(p)[tree.slot])


@kernel
def count_equal(forest: F, most: int) -> int:
    """Return the number of stored points that equal the sample in `inputs` (see `find_equal`)."""
    equal = _buffer_of_found()
    find_equal(forest, most, equal)
    return equal[0]


@kernel
def forget_equal(forest: F) -> int:
    """Forget a stored point that equals the sample in `inputs` (see `find_equal`).

    Returns 1, or 0 if there is no equal point. Another point gets the free number, so that numbers
    have no gaps. While trees are redrawn, the spare tree's points have the first numbers. If a
    point of the spare tree is forgotten, the spare tree's last point gets this number. The last
    point's number becomes free.
    """
    equal = _buffer_of_found()
    find_equal(forest, 1, equal)
    if equal[0] == 0:
        return 0
    # `find_equal` has read the sample's weight, and its label or target, from the next free point's
    # row. Free rows must be zero, so the row is cleared.
    clear_point(forest, forest.n_points)
    hole = equal[1]
    forget_in_trees(forest, hole)
    if forest.renewal.is_running == 1 and hole < forest.renewal.n_spare_points:
        last = forest.renewal.n_spare_points - 1
        _move_to(forest, last, hole)
        forest.renewal.n_spare_points = last
        hole = last
    last = forest.n_points - 1
    _move_to(forest, last, hole)
    clear_point(forest, last)
    forest.n_points = last
    for i in range(forest.n_values):
        forest.row[i] = 0.0
    for d in range(forest.n_inputs):
        forest.inputs[d] = math.nan
    return 1
