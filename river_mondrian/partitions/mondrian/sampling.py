"""Leaves, and sampling of trees from points (Lakshminarayanan et al. 2014, Algorithms 1, 2, 9)."""

import math
from typing import NamedTuple

import numpy as np

from ...compiling.kernels import always_inline, batch_kernel, helper, inline_in_source, link_by_name
from ...elementary import mixed, state_after, uniform_of
from ...records import Array, Float32s, Int32s
from ...records.numba_types import as_number
from . import boxes
from .boxes import BATCH, PointAt
from .constants import COMPLETE, EMPTY, LEFT, MIXED, NONE, PAUSED, RIGHT, UNLIMITED
from .records import F, Forest, Node, Tree


@always_inline
def new_row(forest: Forest, tree: Tree) -> int:
    """Return a cleared row: a free row, or the next row. The caller has reserved room."""
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


@always_inline
def clear_tree(tree: Tree) -> None:
    """Remove all rows of a tree."""
    tree.root = EMPTY
    tree.n_splits = 0
    tree.nodes.n_rows = 0
    tree.boxes.n_rows = 0
    tree.side_rows.n_rows = 0
    tree.free_row = NONE
    tree.free_box = NONE
    tree.free_side_row = NONE


@always_inline
def new_leaf(forest: Forest, tree: Tree) -> int:
    """Create an empty paused leaf, and return its row."""
    j = new_row(forest, tree)
    node = tree.nodes.row(j)
    node.first_point = NONE
    node.right = NONE
    node.dim = PAUSED
    if node.has_box(forest):
        boxes.begin_box(forest, node.box(forest, tree))
    return j


@always_inline
def mass_below(forest: Forest, tree: Tree, ref: int) -> float:
    """Return the sum of `Point.mass` over the samples below a reference."""
    return forest.points.row(~ref).mass() if ref < 0 else tree.nodes.row(ref).mass(forest)


@always_inline
def distance_to(forest: Forest, tree: Tree, ref: int, x: Float32s) -> float:
    """Return the distance from `x` to the box of a reference."""
    if ref < 0:
        return boxes.distance_to_point(forest, tree, forest.points.row(~ref), x)
    node = tree.nodes.row(ref)
    # Subclasses without light nodes compile no branch here, since `has_box` is constant.
    if not node.has_box(forest):
        return forest.distance_to_light(forest, tree, ref, x)
    lower, upper = node.lower(forest, tree), node.upper(forest, tree)
    return boxes.distance_outside(x, lower, upper, forest.n_dims)


@link_by_name
def nearer_side(forest: Forest, tree: Tree, left: int, right: int, x: Float32s) -> int:
    """Return the side of a sample whose value in the cut dimension is missing.

    The sample goes to the child with the nearer box in the known dimensions, or to the larger child
    if both boxes are equally near.
    """
    to_left = distance_to(forest, tree, left, x)
    to_right = distance_to(forest, tree, right, x)
    if to_left != to_right:
        return RIGHT if to_right < to_left else LEFT
    is_larger = mass_below(forest, tree, right) > mass_below(forest, tree, left)
    return RIGHT if is_larger else LEFT


@always_inline
def side_of(forest: Forest, tree: Tree, node: Node, x: Float32s) -> int:
    """Return a sample's side of an internal node's cut: LEFT or RIGHT."""
    v = x[node.dim]
    if v != v:
        return nearer_side(forest, tree, node.left, node.right, x)
    return as_number(v > node.cut)


@always_inline
def grow_leaf(forest: Forest, tree: Tree, j: int, p: int) -> None:
    """Update a leaf's count, box and subclass fields for a new point, but not the leaf's list."""
    node, point = tree.nodes.row(j), forest.points.row(p)
    if node.has_box(forest):
        lower, upper = node.lower(forest, tree), node.upper(forest, tree)
        boxes.hold_point(forest, tree, point, lower, upper)
    elif node.n_samples >= forest.light_size:
        boxes.make_box(forest, tree, j)
    node.add_point(forest, point)
    node.n_samples = node.n_samples + 1


@helper
def _append_point(forest: Forest, tree: Tree, node: Node, p: int) -> None:
    """Append a stored point to a leaf's list."""
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


@always_inline
def turn_list(forest: Forest, tree: Tree, node: Node) -> None:
    """Reverse a leaf's list."""
    before, p, slot = NONE, int(node.first_point), tree.slot
    while p != NONE:
        following = int(forest.links_of(p)[slot])
        forest.links_of(p)[slot] = before
        before, p = p, following
    node.first_point = before


@link_by_name
def put_point(forest: Forest, tree: Tree, j: int, p: int) -> None:
    """Add a stored point to a leaf: to the list, the box, the subclass's fields and the count."""
    node = tree.nodes.row(j)
    if forest.window == UNLIMITED:
        forest.links_of(p)[tree.slot] = node.first_point
        node.first_point = p
    else:
        _append_point(forest, tree, node, p)
    grow_leaf(forest, tree, j, p)


@link_by_name
def add_batch(forest: Forest, tree: Tree, node: Node, batch: Array[PointAt], n: int) -> None:
    """Add the first `n` points of a batch to a leaf's row.

    The leaf's list already contains the points. Only the last batch of a leaf may be smaller than
    BATCH.
    """
    for i in range(n):
        node.add_point(forest, forest.points.cast(batch[i].point))
        node.n_samples = node.n_samples + 1
    if not node.has_box(forest) and n > forest.light_size:
        node.take_box(forest, tree)
        if node.has_box(forest):
            boxes.begin_box(forest, node.box(forest, tree))
    if node.has_box(forest):
        boxes.hold_all(forest, tree, batch, n, node.box(forest, tree))


@always_inline
def fill_leaf(forest: Forest, tree: Tree, first: int) -> int:
    """Create a leaf for the list of points that begins with `first`, and return the leaf's row."""
    j = new_leaf(forest, tree)
    node = tree.nodes.row(j)
    node.first_point = first
    batch = boxes.buffer_of_batch()
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


@always_inline
def link_to_parent(tree: Tree, ref: int) -> None:
    """Make `ref` the root or, if the walk has a parent, this parent's child on the walk's side."""
    if tree.walk_parent == NONE:
        tree.root = ref
    else:
        tree.nodes.row(tree.walk_parent).set_child(tree.walk_side, ref)


# Sampling of trees from points.
#
# With an infinite lifetime and no pauses, a tree is the restriction of a Mondrian process to the
# boxes of its points. Pauses prune this tree by a rule that ignores the cuts (Algorithm 9). The
# cuts below a paused leaf are sampled when the pause ends. If the leaf is large, hidden cuts are
# sampled earlier (`hide_limit`). The time of sampling does not change the distribution of
# predictions, which treat a node with hidden cuts as a leaf.


# Random draws. Each tree has a 64-bit random state (splitmix64).


@always_inline
def uniform(tree: Tree) -> float:
    """Draw uniformly from the open interval (0, 1), and advance the tree's random state."""
    state = state_after(tree.random_state, 1)
    tree.random_state = state
    return uniform_of(mixed(state))


@always_inline
def exponential(tree: Tree, rate: float) -> float:
    """Draw a time from the exponential distribution with a positive rate.

    The time is rounded to float32, the precision of `Node.delta`.
    """
    return np.float64(np.float32(-math.log(uniform(tree)) / rate))


@inline_in_source
def exponential_before(tree: Tree, rate: float, end: float) -> float:
    """Draw a time with `exponential`, but return infinity if the time is not before `end`.

    Since -log(u) >= 1 - u, no logarithm is computed if 1 - u >= rate * end.
    """
    u = uniform(tree)
    if 1.0 - u >= rate * end:
        return math.inf
    time = np.float64(np.float32(-math.log(u) / rate))
    return time if time < end else math.inf


@always_inline
def uniform_cut(tree: Tree, low: float, high: float) -> float:
    """Draw a cut uniformly from [low, high), rounded to float32 but never to `high`."""
    cut = np.float64(np.float32(low + uniform(tree) * (high - low)))
    return low if not cut < high or cut < low else cut


# An unlimited number of cuts: no leaf has this many points.
ALL = 2**62


@inline_in_source
def _place_missing(forest: Forest, tree: Tree, node: Node, first: int) -> None:
    """Add each point of a list to a node's child. The points lack a value in the cut dimension."""
    left, right = node.left, node.right
    p = first
    while p != NONE:
        following = forest.links_of(p)[tree.slot]
        x = boxes.values_of(forest, tree, p, tree.value_buffer)
        side = nearer_side(forest, tree, left, right, x)
        put_point(forest, tree, left if side == LEFT else right, p)
        p = following


class Halves(NamedTuple):
    """The points of a leaf on each side of a cut, and the points whose value is missing.

    The fields are the number of points in each of the three lists, and the first point of each
    list.
    """

    n_left: int
    n_right: int
    n_missing: int
    first_left: int
    first_right: int
    first_missing: int


@inline_in_source
def _divide(
    forest: Forest,
    tree: Tree,
    node: Node,
    dim: int,
    cut: float,
    lefts: Array[PointAt],
    rights: Array[PointAt],
) -> Halves:
    """Divide a leaf's list of points at a cut; the new lists are in reverse order.

    If the leaf has at most BATCH points, the points of both sides are also written to the ends of
    `lefts` and `rights`.
    """
    n_left, n_right, n_missing = 0, 0, 0
    first_left, first_right, first_missing = NONE, NONE, NONE
    # Each point of a list costs a cache miss. So a short list is copied, and not read again.
    in_batch = node.n_samples <= BATCH
    # The fields are read before the loop. Because the loop writes to memory, it would otherwise
    # read the fields again for each point.
    source = boxes.source_of(forest, tree)
    link_word = forest.links_word + tree.slot
    p = node.first_point
    while p != NONE:
        point = forest.points.row(p)
        link = Int32s(point, link_word, 1)
        following = link[0]
        v = boxes.value_in(point, source, dim)
        if in_batch:
            # Both batches are filled from the end. To avoid a branch, each point is written to both
            # batches. The next point overwrites the wrong entry.
            lefts[BATCH - 1 - n_left].point = point
            rights[BATCH - 1 - n_right].point = point
        if v != v:
            link[0] = first_missing
            first_missing = p
            n_missing += 1
        else:
            # Conditional expressions compile to moves. A branch would often be mispredicted.
            goes_left = v <= cut
            link[0] = first_left if goes_left else first_right
            first_left = p if goes_left else first_left
            first_right = first_right if goes_left else p
            n_left += 1 if goes_left else 0
            n_right += 0 if goes_left else 1
        p = following
    return Halves(n_left, n_right, n_missing, first_left, first_right, first_missing)


@helper
def part_leaf(
    forest: Forest, tree: Tree, j: int, dim: int, cut: float, time: float, start: float
) -> None:
    """Cut a leaf at the time `start + time`, where `start` is the time of the parent's cut.

    The leaf's row becomes an internal node whose children are single points or leaves' rows. A
    child that does not pause is marked MIXED.
    """
    node = tree.nodes.row(j)
    if forest.window != UNLIMITED:
        # `_divide` reverses lists, but lists in a window must stay in order of arrival.
        turn_list(forest, tree, node)
    in_batch = node.n_samples <= BATCH
    lefts, rights = boxes.buffer_of_batch(), boxes.buffer_of_batch()
    halves = _divide(forest, tree, node, dim, cut, lefts, rights)
    node.clear(forest)
    node.dim = dim
    node.n_samples = halves.n_left + halves.n_right + halves.n_missing
    node.cut = cut
    node.delta = time
    node.set_time(start + time)
    # A loop over both sides halves the compiled code, because its calls are inlined.
    for side in range(2):
        n = halves.n_left if side == LEFT else halves.n_right
        first = halves.first_left if side == LEFT else halves.first_right
        if n <= 1 and halves.n_missing == 0:
            # A single point needs no row. If the cut has missing values, both children get rows,
            # because `_place_missing` adds points to rows.
            child = EMPTY if n == 0 else ~first
        elif in_batch:
            child = new_leaf(forest, tree)
            tree.nodes.row(child).first_point = first
            batch = (lefts if side == LEFT else rights).part(BATCH - n, n)
            add_batch(forest, tree, tree.nodes.row(child), batch, n)
        else:
            child = fill_leaf(forest, tree, first)
        node.set_child(side, child)
    _place_missing(forest, tree, node, halves.first_missing)
    for side in range(2):
        child = node.child(side)
        node.inherit(forest, tree, side, child)
        if child >= 0 and not tree.nodes.row(child).is_paused(forest):
            tree.nodes.row(child).dim = MIXED
    tree.n_splits = tree.n_splits + 1


@inline_in_source
def split_leaf(forest: Forest, tree: Tree, j: int, start: float) -> float:
    """Sample the first cut of a leaf (Algorithm 2 or 9, without the recursion).

    Returns the time from the parent's cut to this cut. If there is no cut within the lifetime, or
    the tree is full, the leaf is complete, and the result is infinity.
    """
    node = tree.nodes.row(j)
    box, capacity = boxes.box_of(forest, tree, j, tree.buffer), forest.dim_capacity
    lower, upper = box.part(0, capacity), box.part(capacity, capacity)
    n_dims = forest.n_dims

    rate = boxes.linear_dimension(lower, upper, n_dims)
    if not rate > 0.0 or tree.n_splits >= forest.max_splits:
        node.dim = COMPLETE
        return math.inf
    # Lines 2 and 3 of Algorithm 2: the time of the cut.
    time = exponential(tree, rate)
    if time >= tree.lifetime - start:
        node.dim = COMPLETE
        return math.inf
    # Line 6: the dimension, with probability proportional to the side length. The rate is the sum
    # of the side lengths.
    threshold, passed, dim = uniform(tree) * rate, 0.0, 0
    for d in range(n_dims):
        side = upper[d] - lower[d]
        if side > 0.0:
            dim = d
            passed += side
            if passed > threshold:
                break
    # Line 7: the cut.
    part_leaf(forest, tree, j, dim, uniform_cut(tree, lower[dim], upper[dim]), time, start)
    return time


@link_by_name
def sample_block(forest: F, t: int, j: int, start: float, most: int) -> None:
    """Sample the cuts of a leaf and of the leaves below (Algorithm 2, or Algorithm 9 with pauses).

    The cut of the leaf's parent has the time `start`. At most `most` cuts are sampled. Leaves that
    wait for their first cut are linked through their rows, so the queue needs no other memory.
    """
    tree = forest.trees[t]
    tree.nodes.row(j).begin_waiting(start, NONE)
    following = j
    while following != NONE and most > 0:
        most -= 1
        j = following
        node = tree.nodes.row(j)
        start, following = node.waiting_start(), node.right
        node.end_waiting()
        time = split_leaf(forest, tree, j, start)
        if time == math.inf:
            continue
        node = tree.nodes.row(j)
        for side in range(2):
            child = node.child(side)
            if child >= 0:
                below = tree.nodes.row(child)
                if below.dim == MIXED or below.n_samples > forest.hide_limit:
                    below.begin_waiting(start + time, following)
                    following = child
    while following != NONE:
        node = tree.nodes.row(following)
        following = node.right
        node.end_waiting()


class SampledForest(Forest):
    """A forest that samples the cuts of a leaf when the leaf's pause ends."""

    def sample_leaf(self, t: int, j: int, start: float, most: int) -> None:
        """Sample the cuts of a leaf."""
        sample_block(self, t, j, start, most)


@batch_kernel
def build(forest: F, first: int, last: int, n_points: int) -> None:
    """Sample trees `first` to `last` - 1 from the first `n_points` points (Algorithms 1, 2, 9).

    Each tree has room for `n_points` rows, or twice as many if points have missing values.
    """
    for t in range(first, last):
        tree = forest.trees[t]
        clear_tree(tree)
        if n_points < 2:
            tree.root = EMPTY if n_points == 0 else ~0
            continue
        for p in range(n_points):
            forest.links_of(p)[tree.slot] = p - 1 if p > 0 else NONE
        root = fill_leaf(forest, tree, n_points - 1)
        if forest.window != UNLIMITED:
            turn_list(forest, tree, tree.nodes.row(root))
        tree.root = root
        if n_points > forest.hide_limit or not tree.nodes.row(root).is_paused(forest):
            sample_block(forest, t, root, 0.0, ALL)
