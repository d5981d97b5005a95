"""Boxes of light nodes, which keep none: those of the points below them.

A light node has few points, `Forest.light_size` at most, and these are in the store that all trees
share. Going to them costs about as much as reading boxes of the few nodes that are left on the way
down would. A node that becomes larger gets its box, which it loses when it is light again.
"""

from __future__ import annotations

import math

from ...compiling.box_vectors import BLOCK
from ...compiling.kernels import address_of, helper, inlined, kernel, separate
from ...records import Array, Float32s, Float64s, Int32s, Int64s, prefetch, room_of_words
from .boxes import (
    BATCH,
    PointAt,
    distance_outside,
    distance_to_batch,
    distances_to_batch,
    hold_batch,
    room_of_batch,
)
from .records import EMPTY, LEFT, NONE, RIGHT, F, Forest, LightBoxes, Tree

_room_of_refs = room_of_words(Int64s, BATCH)
_room_of_box = room_of_words(Float32s, 2 * BLOCK)


@inlined
def gather(forest: Forest, tree: Tree, ref: int, batch: Array[PointAt], n: int) -> int:
    """Write the points at a reference or below it to a batch, behind the `n` that are there.

    The batch has room. Returns how many there are then.
    """
    waiting = _room_of_refs()
    n_waiting = 0
    slot_word = forest.links_word + tree.slot
    while True:
        if ref >= 0:
            node = tree.nodes.row(ref)
            if node.dim >= 0:
                waiting[n_waiting] = node.right
                n_waiting += 1
                ref = node.left
                continue
            p = node.first_point
            while p != NONE:
                point = forest.points.row(p)
                # Its values are needed once all points are known.
                prefetch(forest.values_in(tree, point), forest.dim_capacity)
                batch[n].point = point
                n += 1
                p = Int32s(point, slot_word, 1)[0]
        elif ref != EMPTY:
            point = forest.points.row(~ref)
            prefetch(forest.values_in(tree, point), forest.dim_capacity)
            batch[n].point = point
            n += 1
        if n_waiting == 0:
            return n
        n_waiting -= 1
        ref = waiting[n_waiting]


@inlined
def begin_box(forest: Forest, box: Float32s) -> None:
    """Let a box be that of no point."""
    capacity, n_dims = forest.dim_capacity, forest.n_dims
    for side in range(2):
        corner = box.part(capacity * side, capacity)
        for d in range(n_dims):
            corner[d] = math.nan
        for d in range(n_dims, capacity):
            # What points have of features that are yet to come.
            corner[d] = forest.absent


@inlined
def hold_all(forest: Forest, tree: Tree, batch: Array[PointAt], n: int, box: Float32s) -> None:
    """Grow a box so that it holds the first `n` points of a batch."""
    capacity, n_dims = forest.dim_capacity, forest.n_dims
    word = forest.values_word + tree.first_value
    hold_batch(batch, n, word, box.part(0, capacity), box.part(capacity, capacity), n_dims)


@separate
def hold_below(forest: F, tree: Tree, ref: int, box: Float32s) -> int:
    """Grow a box so that it holds the points below a light node."""
    tree = forest.trees.known(tree)
    batch = room_of_batch()
    n = gather(forest, tree, ref, batch, 0)
    hold_all(forest, tree, batch, n, box)
    return 0


@helper
def write_box(forest: Forest, tree: Tree, ref: int, box: Float32s) -> None:
    """Write the box of a light node, of a point or of nothing."""
    if ref >= 0 or ref == EMPTY:
        begin_box(forest, box)
        if ref >= 0:
            forest.light.hold_below(forest, tree, ref, box)
        return
    # A point's values are both sides of its box.
    values, capacity = forest.values_of(tree, ~ref), forest.dim_capacity
    for d in range(capacity):
        box[d] = values[d]
        box[capacity + d] = values[d]


@helper
def make_box(forest: Forest, tree: Tree, j: int) -> None:
    """Give a light node the box of its points."""
    node = tree.nodes.row(j)
    node.take_box(forest, tree)
    write_box(forest, tree, j, node.box(forest, tree))


@helper
def box_of(forest: Forest, tree: Tree, ref: int, room: Float32s) -> Float32s:
    """Return both corners of the box of a reference: where that is kept, or in the room."""
    if ref >= 0 and tree.nodes.row(ref).has_box(forest):
        return tree.nodes.row(ref).box(forest, tree)
    write_box(forest, tree, ref, room)
    return room


@kernel
def read_box(forest: F, t: int, ref: int, out: Float32s) -> None:
    """Write both corners of the box of a tree's node or point, the lower first."""
    box = box_of(forest, forest.trees[t], ref, out)
    for i in range(2 * forest.dim_capacity):
        out[i] = box[i]


@helper
def _distance_in_few(batch: Array[PointAt], n: int, word: int, x: Float32s, n_dims: int) -> float:
    """Return how far `x` lies outside the box of a batch's points in few dimensions."""
    box = _room_of_box()
    lower, upper = box.part(0, BLOCK), box.part(BLOCK, BLOCK)
    for d in range(n_dims):
        lower[d] = math.nan
        upper[d] = math.nan
    hold_batch(batch, n, word, lower, upper, n_dims)
    return distance_outside(x, lower, upper, n_dims)


@separate
def distance_to_light(forest: F, tree: Tree, ref: int, x: Float32s) -> float:
    """Return how far `x` lies outside the box of a node, which may be light, or of a point."""
    tree = forest.trees.known(tree)
    if ref < 0:
        values = forest.values_of(tree, ~ref)
        return distance_outside(x, values, values, forest.n_dims)
    node = tree.nodes.row(ref)
    if node.has_box(forest):
        lower, upper = node.lower(forest, tree), node.upper(forest, tree)
        return distance_outside(x, lower, upper, forest.n_dims)
    batch = room_of_batch()
    n, n_dims = gather(forest, tree, ref, batch, 0), forest.n_dims
    word = forest.values_word + tree.first_value
    if n_dims >= BLOCK:
        return distance_to_batch(batch, n, word, x, n_dims)
    return _distance_in_few(batch, n, word, x, n_dims)


@separate
def distances_down(
    forest: F, tree: Tree, ref: int, x: Float32s, to_hidden: int, out: Float64s
) -> int:
    """Write how far `x` lies outside the boxes on its way down from a light node, that included.

    The way ends at a leaf or, where `to_hidden` is 1, at a node that is read as one. A sample that
    lacks nothing goes one way, and the points below a node on it are those beside the way from
    there on: they are gone to once for all of its nodes.
    """
    tree = forest.trees.known(tree)
    batch, starts = room_of_batch(), _room_of_refs()
    n, n_steps = 0, 0
    while ref >= 0:
        node = tree.nodes.row(ref)
        if node.dim < 0 or (to_hidden == 1 and node.hides(forest)):
            break
        starts[n_steps] = n
        n_steps += 1
        side = LEFT if x[node.dim] <= node.cut else RIGHT
        n = gather(forest, tree, node.child(LEFT + RIGHT - side), batch, n)
        ref = node.child(side)
    starts[n_steps] = n
    n_steps += 1
    starts[n_steps] = gather(forest, tree, ref, batch, n)
    word = forest.values_word + tree.first_value
    if forest.n_dims >= BLOCK:
        distances_to_batch(batch, starts, n_steps, word, x, forest.n_dims, out)
        return 0
    for k in range(n_steps):
        n = starts[n_steps] - starts[k]
        out[k] = _distance_in_few(batch.part(starts[k], n), n, word, x, forest.n_dims)
    return 0


def compile_light(record: LightBoxes, kind: type[Forest]) -> None:
    """Compile the kernels over light nodes for a kind of forest and put them into a record."""
    record.distance = address_of(distance_to_light, F=kind)
    record.distances_down = address_of(distances_down, F=kind)
    record.hold_below = address_of(hold_below, F=kind)
