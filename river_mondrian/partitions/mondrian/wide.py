"""Steps of walks in forests of many dimensions, whose nodes have insets, or no box at all.

Forests of fewer dimensions do not need what is here, and it takes seconds to compile. So it is
compiled for the others only: their record has the addresses of these kernels (`WideSteps`).
"""

from __future__ import annotations

from typing import Any

from ...compiling.kernels import address_of, helper, inlined, separate
from ...records import Float32s, Record, prefetch
from .boxes import hold
from .extension import Lane, has_room
from .insets import (
    begin_way,
    distances_below,
    enter,
    keep_box,
    keep_sides,
    nearer_below,
    part_from,
    pass_insets,
    pass_whole,
    write_way,
)
from .leaves import distance_to, side_of
from .light import begin_box, distance_to_light, distances_down, hold_below, make_box
from .records import LEFT, NONE, RIGHT, F, Forest, Node, Tree, WideSteps
from .walks import Walk

# Learning.


@separate
def prepare_step(forest: F, tree: Tree) -> int:
    """Do what a step begins with; returns 0 where the tree first needs room, 1 else.

    The child beside the way keeps sides of its parent's box, where it has insets. That has waited
    for other trees' steps, in which its row comes close.
    """
    if not forest.keeps_insets():
        return 1
    tree = forest.trees.known(tree)
    if not has_room(forest, tree, 2):
        tree.rows_needed = 2
        return 0
    if tree.walk_beside != NONE:
        node = tree.nodes.row(tree.walk_beside)
        tree.walk_beside = NONE
        if node.has_insets(forest):
            keep_sides(forest, tree, node)
    return 1


@separate
def rate_at(forest: F, tree: Tree, lane: Lane) -> float:
    """Return how far a point is outside the box where it has come to."""
    tree = forest.trees.known(tree)
    x, node = forest.values_in(tree, lane.point), tree.nodes.known(lane.node)
    has_box = node.has_box(forest)
    if forest.keeps_insets() and (has_box or node.has_insets(forest)):
        return enter(forest, tree, tree.walk_ref, x)
    if has_box or forest.has_missing == 1:
        return distance_to(forest, tree, tree.walk_ref, x)
    if lane.n_light == 0:
        distances_down(forest, tree, tree.walk_ref, x, False, lane.rates)
    rate = lane.rates[lane.n_light]
    lane.n_light = lane.n_light + 1
    return rate


@inlined
def _copy_box(forest: Forest, source: Float32s, target: Float32s) -> None:
    """Let a box be as another one."""
    for i in range(2 * forest.dim_capacity):
        target[i] = source[i]


@helper
def _keep_whole(forest: Forest, tree: Tree, node: Node, box: Float32s) -> None:
    """Let a node keep its whole box."""
    node.take_box(forest, tree)
    _copy_box(forest, box, node.box(forest, tree))


@helper
def _keep_few(forest: Forest, tree: Tree, node: Node, box: Float32s) -> None:
    """Let a node below the one that the walk has passed keep its box, by insets if they are few.

    The way is still that to the box above: light nodes, leaves and points do not move it.
    """
    may_be_few = forest.keeps_insets() and tree.walk_parent != NONE
    if not may_be_few or not keep_box(forest, tree, node, tree.way, box):
        _keep_whole(forest, tree, node, box)


@separate
def hold_point(forest: F, tree: Tree, lane: Lane, rate: float) -> int:
    """Let the box that a point has passed hold it; a node that is light no more gets one.

    Insets have been told by `enter`.
    """
    tree = forest.trees.known(tree)
    node, word = tree.nodes.known(lane.node), forest.values_word + tree.first_value
    capacity, n_dims = forest.dim_capacity, forest.n_dims
    if node.has_box(forest):
        if rate > 0.0 or forest.has_missing == 1:
            lower, upper = node.lower(forest, tree), node.upper(forest, tree)
            hold(lane.point, word, lower, upper, n_dims)
    elif not node.has_insets(forest) and node.n_samples >= forest.light_size:
        box = tree.room
        begin_box(forest, box)
        hold_below(forest, tree, tree.walk_ref, box)
        hold(lane.point, word, box.part(0, capacity), box.part(capacity, capacity), n_dims)
        _keep_few(forest, tree, node, box)
    return 0


@separate
def side_at(forest: F, tree: Tree, node: Node, x: Float32s) -> int:
    """Return the side of a node to which a sample goes; the child on the other stays as it is."""
    tree = forest.trees.known(tree)
    node = tree.nodes.known(node)
    if not forest.keeps_insets():
        return side_of(forest, tree, node, x)
    v = x[node.dim]
    side = LEFT if v <= node.cut else RIGHT
    if v != v:
        side = nearer_below(forest, tree, node.left, node.right, x, tree.way)
    beside = node.child(LEFT + RIGHT - side)
    is_light = not node.has_insets(forest) and not node.has_box(forest)
    if beside >= 0 and not is_light and tree.way.n_beyond != 0:
        prefetch(tree.nodes.row(beside), forest.node_words)
        tree.walk_beside = beside
    return side


@separate
def side_below(forest: F, tree: Tree, ref: int, x: Float32s) -> int:
    """Return the side of a node to which a sample goes that is not learned (`leaves.side_below`).

    A value that is missing goes by how far both children are: their insets are told by the way.
    """
    tree = forest.trees.known(tree)
    node, way = tree.nodes.row(ref), tree.way
    if ref == tree.root:
        begin_way(forest, way, x)
    if node.has_insets(forest):
        pass_insets(forest, tree, node, way)
    elif node.has_box(forest):
        pass_whole(forest, way, x, node.box(forest, tree))
    v = x[node.dim]
    if v != v:
        return nearer_below(forest, tree, node.left, node.right, x, way)
    return LEFT if v <= node.cut else RIGHT


@separate
def write_box(forest: F, tree: Tree, ref: int) -> int:
    """Write the box of the node to which the walk has come to the tree's room."""
    tree = forest.trees.known(tree)
    node, box = tree.nodes.row(ref), tree.room
    if node.has_box(forest):
        _copy_box(forest, node.box(forest, tree), box)
    elif node.has_insets(forest):
        write_way(forest, tree.way, box)
    else:
        begin_box(forest, box)
        hold_below(forest, tree, ref, box)
    return 0


@separate
def keep_box_above(forest: F, tree: Tree, node: Node, ref: int) -> int:
    """Let a new node keep the box in the tree's room; it comes above what is at a reference."""
    tree = forest.trees.known(tree)
    node, box = tree.nodes.known(node), tree.room
    if ref >= 0 and tree.nodes.row(ref).has_insets(forest):
        part_from(forest, tree, node, tree.nodes.row(ref))
    elif ref >= 0 and tree.nodes.row(ref).dim >= 0 and tree.nodes.row(ref).has_box(forest):
        # The way is that to the box of the node below.
        _keep_whole(forest, tree, node, box)
    else:
        _keep_few(forest, tree, node, box)
    return 0


# Predictions.


@separate
def begin_walk(forest: F, walk: Walk) -> int:
    """Let the way of a sample's walk begin."""
    begin_way(forest, walk.way, walk.sample)
    return 0


@separate
def eta_at(forest: F, walk: Walk, lacks_nothing: int) -> float:
    """Return how far a sample is outside the box where it has come to."""
    step = walk.path[walk.depth]
    tree = forest.trees.known(walk.tree)
    is_light = False
    if step.ref >= 0:
        node = tree.nodes.known(step.place)
        if node.has_insets(forest):
            return pass_insets(forest, tree, node, walk.way)
        is_light = not node.has_box(forest)
        if forest.keeps_insets() and not is_light:
            return pass_whole(forest, walk.way, walk.sample, node.box(forest, tree))
    if lacks_nothing == 1 and (is_light or walk.light_depth > 0):
        if walk.light_depth == 0:
            walk.light_depth = walk.depth
            distances_down(forest, tree, step.ref, walk.sample, True, walk.etas)
        return walk.etas[walk.depth - walk.light_depth]
    return distance_to(forest, tree, step.ref, walk.sample)


@separate
def is_left_nearer(forest: F, walk: Walk, left: int, right: int) -> int:
    """Compare both children of where a walk has come to: 1 where the left is nearer, 0, or -1."""
    tree = forest.trees.known(walk.tree)
    to_left, to_right = distances_below(forest, tree, left, right, walk.sample, walk.way)
    return (1 if to_left < to_right else 0) - (1 if to_right < to_left else 0)


@separate
def retrace(forest: F, walk: Walk) -> int:
    """Let a walk's way be that to the end of its path, once more."""
    tree, way = forest.trees.known(walk.tree), walk.way
    way.distance = 0.0
    for j in range(1, walk.depth + 1):
        node = tree.nodes.known(walk.path[j].place)
        if node.has_insets(forest):
            pass_insets(forest, tree, node, way)
        elif node.has_box(forest):
            pass_whole(forest, way, walk.sample, node.box(forest, tree))
    return 0


# Light nodes, of which a leaf may be one.


@separate
def light_distance(forest: F, tree: Tree, ref: int, x: Float32s) -> float:
    """Return how far a sample is outside the box of a light node."""
    return distance_to_light(forest, forest.trees.known(tree), ref, x)


@separate
def hold_points_below(forest: F, tree: Tree, ref: int, box: Float32s) -> int:
    """Grow a box so that it holds the points of a light node."""
    hold_below(forest, forest.trees.known(tree), ref, box)
    return 0


@separate
def make_whole_box(forest: F, tree: Tree, j: int) -> int:
    """Give a leaf that is to be light no more the box of its points."""
    make_box(forest, forest.trees.known(tree), j)
    return 0


STEPS = {
    "prepare": prepare_step,
    "rate": rate_at,
    "hold": hold_point,
    "side": side_at,
    "side_below": side_below,
    "write_box": write_box,
    "keep_box": keep_box_above,
    "begin": begin_walk,
    "eta": eta_at,
    "is_left_nearer": is_left_nearer,
    "retrace": retrace,
    "distance": light_distance,
    "hold_below": hold_points_below,
    "make_box": make_whole_box,
}


def compile_steps(record: WideSteps, kind: type[Record]) -> None:
    """Compile or load the steps for a kind of forest, and let a record have their addresses."""
    for name, step in STEPS.items():
        found: Any = address_of(step, F=kind)
        setattr(record, name, found)
