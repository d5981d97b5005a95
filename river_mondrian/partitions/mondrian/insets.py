"""Insets: the sides in which the box of a node is smaller than its parent's.

In a forest of many dimensions a box differs from the parent's in few of its sides: on the way of an
image of 784 pixels in 18 of 1,568. Walks come from above, and know the parent's box. So a node that
is not light keeps only these sides, its *insets*, unless there are many of them: then, and at the
root, it keeps the whole box. So does a leaf.

A *place* names a side: `d` the lower one in dimension d, and the upper one the same behind all
that there is room for, as in a whole box. Sides and values are held as how far out they are: those
of a lower side by the negative. At each place, then, a sample is outside of a box where its value
is larger, and a child's side is never larger than its parent's.

A walk carries a box along, its *way* (`Way`). Going down to a child it writes that one's insets
over it, and adds what the sample is further outside there. Sides that are no insets add nothing,
since they have been there in the box above. So the distance is that from the whole box, but for the
order in which it is added up, and it is exactly 0 where the sample is inside. A side that is
unknown (NaN) may be an inset in one that is known.

Where a sample is learned, the box of each node on its way grows to hold it, while the way stays
that of the boxes before. At a place

- where the node's side is an inset and the sample is beyond it, the inset becomes the sample; or
  it is none any more, if the parent's side becomes the sample as well (`enter`).
- where it is no inset, it grows with the parent's.
- a child beside the way stays as it is: a side that was no inset is one now, if its parent's grows
  (`keep_sides`).

If a cut parts the sample from the node, a new node comes between the parent and it, whose box holds
the node's and the sample. So it has what have become the node's insets, and the node has those
places as insets at which the sample is beyond (`part_from`).
"""

from __future__ import annotations

import numpy as np

from ...compiling.kernels import helper, inlined, separate
from ...records import Float32s, prefetch
from .boxes import distance_outside
from .leaves import distance_to, nearer_of
from .records import INSETS, NONE, OWN_INSETS, F, Forest, InsetRow, Node, Tree, Way

# The part of all sides that may be insets. An inset takes twice the memory of a side, and some
# times as long.
MOST_SHARE = 4

# How far sums of the same distances may be apart, relatively: thousands of terms, each with half
# of a unit in the last place.
ROUNDING = 1e-12

# `n_beyond` of a way to a whole box at which it has not been looked so far.
UNKNOWN = -1

# Samples of a node after which its whole box is looked at once more: whether few sides differ.
PATIENCE = 16


@inlined
def _outside(value: float, side: float) -> float:
    """Return how far a value is beyond a side, as float32 has it; 0 where one is missing."""
    gap = np.float64(np.float32(value - side))
    return gap if gap > 0.0 else 0.0


@inlined
def _moved(distance: float, value: float, above: float, side: float) -> float:
    """Return a distance from a box once a side of it is another one, not further out.

    From a side that is unknown there is none. What rounding leaves of a sum then is none, either.
    """
    before = _outside(value, above)
    if side == side:
        return distance + (_outside(value, side) - before)
    return distance - before if distance - before > ROUNDING * distance else 0.0


@inlined
def _grows(side: float, value: float) -> bool:
    """Tell whether a side moves so that it holds a value; one that is unknown does, to any."""
    # Without a jump, so that places are looked at several at a time.
    return (value > side) | ((side != side) & (value == value))


@inlined
def _grown(side: float, value: float) -> float:
    """Return where a side is that holds a value, too."""
    return value if _grows(side, value) else side


@inlined
def _becomes_inset(side: float, above: float, value: float) -> bool:
    """Tell whether a side differs from the one above once both hold a value."""
    a, b = _grown(side, value), _grown(above, value)
    # Two that are unknown do not differ.
    return (a != b) & ((a == a) | (b == b))


# Rows of insets. A node's own row has the first; behind it only the first row may have room.


@inlined
def _look_on(tree: Tree, row: InsetRow) -> None:
    """Bring the row close that follows."""
    if row.following != NONE:
        prefetch(tree.insets.row(row.following), 2 + 2 * INSETS)


@inlined
def _next_row(tree: Tree, row: InsetRow) -> InsetRow:
    """Return the row that follows, and bring the one behind that close."""
    row = tree.insets.row(row.following)
    _look_on(tree, row)
    return row


@inlined
def _begin_insets(forest: Forest, node: Node) -> None:
    """Let a node have insets, of which there is none yet."""
    own = node.insets(forest)
    own.clear(OWN_INSETS)
    own.following = NONE
    own.n = 0


@inlined
def _put_inset(row: InsetRow, capacity: int, place: int, v: float) -> None:
    """Write an inset to a row that has room."""
    n = row.n
    row.places(capacity)[n] = place
    row.values(capacity)[n] = v
    row.n = n + 1


@helper
def _add_inset(forest: Forest, tree: Tree, node: Node, place: int, v: float) -> None:
    """Add an inset to a node; the caller has made sure of room."""
    own = node.insets(forest)
    if own.n < OWN_INSETS:
        _put_inset(own, OWN_INSETS, place, v)
        return
    r = own.following
    if r == NONE or tree.insets.row(r).n == INSETS:
        r = tree.free_inset
        if r == NONE:
            r = tree.insets.n_rows
            tree.insets.n_rows = r + 1
        else:
            tree.free_inset = tree.insets.row(r).following
        row = tree.insets.row(r)
        row.clear(INSETS)
        row.following = own.following
        row.n = 0
        own.following = r
    _put_inset(tree.insets.row(r), INSETS, place, v)


@inlined
def _free_row(tree: Tree, r: int) -> None:
    """Let a row be taken for other insets; nothing stays of these."""
    row = tree.insets.row(r)
    row.clear(INSETS)
    row.n = 0
    row.following = tree.free_inset
    tree.free_inset = r


@helper
def _drop_inset(tree: Tree, own: InsetRow, row: InsetRow, capacity: int, i: int) -> None:
    """Take an inset away; the last one of the first row behind the own one takes its place.

    Where there is none behind that, it is the last one of the own row.
    """
    r = own.following
    source, n_room = own, OWN_INSETS
    if r != NONE:
        source, n_room = tree.insets.row(r), INSETS
    n = source.n - 1
    places, values = source.places(n_room), source.values(n_room)
    row.places(capacity)[i] = places[n]
    row.values(capacity)[i] = values[n]
    places[n] = 0
    values[n] = 0.0
    source.n = n
    if n == 0 and r != NONE:
        own.following = source.following
        _free_row(tree, r)


@inlined
def _free_rows(tree: Tree, own: InsetRow) -> None:
    """Let the rows behind a node's own one be taken for other insets."""
    r = own.following
    while r != NONE:
        following = tree.insets.row(r).following
        _free_row(tree, r)
        r = following
    own.following = NONE


@helper
def leave_insets(forest: Forest, tree: Tree, node: Node) -> None:
    """Take a node's insets away, where it has some; nothing of them stays."""
    if node.has_insets(forest):
        own = node.insets(forest)
        _free_rows(tree, own)
        own.clear(OWN_INSETS)
        own.n = NONE


# The way of a walk.


@inlined
def begin_way(forest: Forest, way: Way, x: Float32s) -> None:
    """Let a walk of a sample begin."""
    capacity, sample = forest.dim_capacity, way.sample
    lower, upper = sample.part(0, capacity), sample.part(capacity, capacity)
    for d in range(capacity):
        lower[d] = -x[d]
        upper[d] = x[d]
    way.distance = 0.0


@helper
def pass_whole(forest: Forest, way: Way, x: Float32s, box: Float32s) -> float:
    """Go on to a node that keeps its whole box; returns how far the sample is outside."""
    capacity, sides = forest.dim_capacity, way.sides
    for place in range(capacity):
        sides[place] = -box[place]
    for place in range(capacity, 2 * capacity):
        sides[place] = box[place]
    lower, upper = box.part(0, capacity), box.part(capacity, capacity)
    way.distance = distance_outside(x, lower, upper, forest.n_dims)
    return way.distance


@helper
def pass_insets(forest: Forest, tree: Tree, node: Node, way: Way) -> float:
    """Go on to a node that keeps insets; returns how far the sample is outside of its box."""
    sides, sample, total = way.sides, way.sample, way.distance
    row, capacity = node.insets(forest), OWN_INSETS
    while True:
        places, values = row.places(capacity), row.values(capacity)
        for i in range(row.n):
            place, v = places[i], values[i]
            x = sample[place]
            if not x <= v:
                total = _moved(total, x, sides[place], v)
            sides[place] = v
        if row.following == NONE:
            break
        row, capacity = _next_row(tree, row), INSETS
    way.distance = total
    return total


@helper
def _distance_by_insets(forest: Forest, tree: Tree, node: Node, way: Way) -> float:
    """Return how far a sample is outside of a child of where its way has come to."""
    sides, sample, total = way.sides, way.sample, way.distance
    row, capacity = node.insets(forest), OWN_INSETS
    while True:
        places, values = row.places(capacity), row.values(capacity)
        for i in range(row.n):
            x = sample[places[i]]
            if not x <= values[i]:
                total = _moved(total, x, sides[places[i]], values[i])
        if row.following == NONE:
            return total
        row, capacity = _next_row(tree, row), INSETS


@inlined
def _distance_below(forest: Forest, tree: Tree, ref: int, x: Float32s, way: Way) -> float:
    """Return how far a sample is outside of a child of where its way has come to."""
    if ref >= 0 and tree.nodes.row(ref).has_insets(forest):
        return _distance_by_insets(forest, tree, tree.nodes.row(ref), way)
    return distance_to(forest, tree, ref, x)


@helper
def distances_below(
    forest: Forest, tree: Tree, left: int, right: int, x: Float32s, way: Way
) -> tuple[float, float]:
    """Return how far a sample is outside of both children of where its way has come to.

    Where the same has been added up in another order they are equal.
    """
    to_left = _distance_below(forest, tree, left, x, way)
    to_right = _distance_below(forest, tree, right, x, way)
    if abs(to_left - to_right) <= ROUNDING * max(to_left, to_right):
        to_right = to_left
    return to_left, to_right


@helper
def nearer_below(forest: Forest, tree: Tree, left: int, right: int, x: Float32s, way: Way) -> int:
    """Choose a child for a sample whose value in the cut dimension is missing."""
    to_left, to_right = distances_below(forest, tree, left, right, x, way)
    return nearer_of(forest, tree, left, right, to_left, to_right)


@helper
def holds_sample(forest: Forest, tree: Tree, node: Node, x: Float32s) -> bool:
    """Tell whether the box of a node with insets holds what a sample has, if the parent's does."""
    n_dims = forest.dim_capacity
    row, capacity = node.insets(forest), OWN_INSETS
    while True:
        places, values = row.places(capacity), row.values(capacity)
        for i in range(row.n):
            place = places[i]
            v = -x[place] if place < n_dims else x[place - n_dims]
            if v == v and not v <= values[i]:
                return False
        if row.following == NONE:
            return True
        row, capacity = _next_row(tree, row), INSETS


# Whole boxes of insets, and the other way around.


@helper
def write_way(forest: Forest, way: Way, box: Float32s) -> None:
    """Write the box to which a way has come."""
    capacity, sides = forest.dim_capacity, way.sides
    for place in range(capacity):
        box[place] = -sides[place]
    for place in range(capacity, 2 * capacity):
        box[place] = sides[place]


@helper
def write_insets(forest: Forest, tree: Tree, node: Node, box: Float32s) -> None:
    """Let the box of a node's parent become the node's, which has insets."""
    n_dims = forest.dim_capacity
    row, capacity = node.insets(forest), OWN_INSETS
    while True:
        places, values = row.places(capacity), row.values(capacity)
        for i in range(row.n):
            place, v = places[i], values[i]
            box[place] = -v if place < n_dims else v
        if row.following == NONE:
            return
        row, capacity = _next_row(tree, row), INSETS


@helper
def _make_whole(forest: Forest, tree: Tree, node: Node, way: Way) -> None:
    """Let a child of where a way has come to keep its whole box instead of insets."""
    node.take_box(forest, tree)
    write_way(forest, way, node.box(forest, tree))
    write_insets(forest, tree, node, node.box(forest, tree))
    leave_insets(forest, tree, node)


@helper
def keep_box(forest: Forest, tree: Tree, node: Node, way: Way, box: Float32s) -> bool:
    """Let a child of where a way has come to keep insets, if they are few; tells whether.

    Its box, and its parent's, are to hold the sample, too.
    """
    capacity, sides, sample, n = forest.dim_capacity, way.sides, way.sample, 0
    for d in range(capacity):
        n += 1 if _becomes_inset(-box[d], sides[d], sample[d]) else 0
    for place in range(capacity, 2 * capacity):
        n += 1 if _becomes_inset(box[place], sides[place], sample[place]) else 0
    if n > forest.most_insets:
        return False
    _begin_insets(forest, node)
    for place in range(2 * capacity):
        side = -box[place] if place < capacity else box[place]
        if _becomes_inset(side, sides[place], sample[place]):
            _add_inset(forest, tree, node, place, _grown(side, sample[place]))
    return True


# Learning.


@helper
def _find_beyond(forest: Forest, way: Way) -> None:
    """Note at which places a box grows to hold the sample, unless that is known."""
    if way.n_beyond != UNKNOWN:
        return
    way.n_beyond = 0
    if way.distance == 0.0 and forest.has_missing == 0:
        return
    sides, sample, beyond = way.sides, way.sample, way.beyond
    n = 0
    for place in range(2 * forest.dim_capacity):
        # Written at each, since a jump would be guessed wrong where many are beyond.
        beyond[n] = place
        n += 1 if _grows(sides[place], sample[place]) else 0
    way.n_beyond = n


@helper
def _enter_insets(forest: Forest, tree: Tree, node: Node, way: Way) -> None:
    """Go on to a node whose insets become those of boxes that hold the sample."""
    _find_beyond(forest, way)
    sides, sample, beyond = way.sides, way.sample, way.beyond
    total, n_beyond = way.distance, way.n_beyond
    own = node.insets(forest)
    r, row, capacity = NONE, own, OWN_INSETS
    while True:
        places, values, following = row.places(capacity), row.values(capacity), row.following
        i = 0
        while i < row.n:
            place, v = places[i], values[i]
            x, above = sample[place], sides[place]
            sides[place] = v
            if not _grows(v, x):
                i += 1
                continue
            total = _moved(total, x, above, v)
            if not _grows(above, x):
                beyond[n_beyond] = place
                n_beyond += 1
            if above > x:
                values[i] = x
                i += 1
                continue
            # What takes its place has been seen if this is a later row than that comes from.
            is_seen = r != NONE and r != own.following
            _drop_inset(tree, own, row, capacity, i)
            i += 1 if is_seen else 0
        r = following if r != NONE else own.following
        if r == NONE:
            break
        row, capacity = tree.insets.row(r), INSETS
        _look_on(tree, row)
    way.distance = total
    way.n_beyond = n_beyond


@separate
def enter(forest: F, tree: Tree, ref: int, x: Float32s) -> float:
    """Go on to a node that is not light; returns how far the sample is outside of its box.

    Its insets become those of boxes that hold the sample. If it has a whole box, that stays as it
    is, unless insets are found to be fewer; at the root it stays.
    """
    node, way = tree.nodes.row(ref), tree.way
    if tree.walk_parent == NONE:
        begin_way(forest, way, x)
    if node.has_insets(forest):
        _enter_insets(forest, tree, node, way)
        return way.distance
    box = node.box(forest, tree)
    # Comparing all sides takes longer than the step. It is done once in some samples.
    may_change = tree.walk_parent != NONE and node.n_samples % PATIENCE == 0
    are_few = may_change and keep_box(forest, tree, node, way, box)
    pass_whole(forest, way, x, box)
    if are_few:
        node.leave_box(forest, tree)
    way.n_beyond = UNKNOWN
    return way.distance


@helper
def keep_sides(forest: Forest, tree: Tree, node: Node) -> None:
    """Let a child beside the way keep the sides at which its parent's box has grown."""
    way = tree.way
    _find_beyond(forest, way)
    sides, beyond, marks, n = way.sides, way.beyond, way.marks, way.n_beyond
    for i in range(n):
        marks[beyond[i]] = 1
    n_insets = 0
    row, capacity = node.insets(forest), OWN_INSETS
    while True:
        places = row.places(capacity)
        for i in range(row.n):
            n -= marks[places[i]]
            marks[places[i]] = 0
        n_insets += row.n
        if row.following == NONE:
            break
        row, capacity = _next_row(tree, row), INSETS
    is_few = n_insets + n <= forest.most_insets
    if not is_few:
        _make_whole(forest, tree, node, way)
    for i in range(way.n_beyond):
        place = beyond[i]
        if is_few and marks[place] == 1:
            _add_inset(forest, tree, node, place, sides[place])
        marks[place] = 0


@helper
def part_from(forest: Forest, tree: Tree, node: Node, below: Node) -> None:
    """Let a new node keep what have become the insets of the one below it, which has others."""
    way = tree.way
    _find_beyond(forest, way)
    own, new = below.insets(forest), node.insets(forest)
    places, values = own.places(OWN_INSETS), own.values(OWN_INSETS)
    _begin_insets(forest, node)
    for i in range(own.n):
        _put_inset(new, OWN_INSETS, places[i], values[i])
    new.following = own.following
    own.following = NONE
    _begin_insets(forest, below)
    if way.n_beyond > forest.most_insets:
        _make_whole(forest, tree, below, way)
        return
    for i in range(way.n_beyond):
        place = way.beyond[i]
        _add_inset(forest, tree, below, place, way.sides[place])
