"""Mondrian trees: sampling a block, extending a tree by a point, building trees from points.

Everything here is about one law. With the lifetime infinite and nothing paused, a tree is the
restriction of a Mondrian process to the boxes of its points (Algorithms 1 to 4). A paused tree
is that tree pruned where a block holds one class (Algorithms 9 and 10). What hides below such a
block is sampled when it is needed, or a little earlier (`HIDE_LIMIT`), which leaves the law as it
is: hidden nodes are recognised by having one class and are predicted as the paused leaf.
"""

from __future__ import annotations

import math

import numpy as np

from .access import (
    cell_of,
    count_of,
    link_at,
    lower_of,
    node_at,
    place_of,
    point_at,
    time_at,
    tree_at,
    upper_of,
    values_at,
)
from .bits import add_class
from .blocks import add_to_leaf, inherit, is_paused, keeps_points, pair_pauses, tally, wakes
from .boxes import BATCH, distance_outside, extend_box, extend_box_by, gap, room_of_batch
from .layout import (
    ARRIVE,
    BOX,
    CELL,
    CELL_TIME,
    CELLS,
    CLASSES,
    COUNT,
    COUNT_CAPACITY,
    CUT,
    DELTA,
    DIM,
    DIM_CAPACITY,
    EMPTY,
    EXTEND,
    HAS_MISSING,
    HIDE_LIMIT,
    LEFT,
    LIFETIME,
    LINKS,
    MAX_SPLITS,
    MESSAGES,
    MIXED,
    N_COUNTS,
    N_DIMS,
    N_ROWS,
    N_SPLITS,
    N_TREES,
    N_VALUES,
    N_WORDS,
    NEED_ROWS,
    NODE_WIDTH,
    NONE,
    OFFSET,
    PENDING,
    RIGHT,
    ROOT,
    ROW_CAPACITY,
    SAMPLE_BLOCK,
    SETTLED,
    TARGETS,
    UNKNOWN,
    WALK_END,
    WALK_PARENT,
    WALK_POINT,
    WALK_REF,
    WALK_SIDE,
    WALK_TAU,
)
from .memory import (
    allocate,
    call2,
    call4,
    called,
    f32,
    f64,
    i32,
    i64,
    inlined,
    kernel,
    merged,
    prefetch,
    put_f32,
    put_f64,
    put_i32,
    put_i64,
    release,
    room_for,
)
from .random import exponential, exponential_before, uniform
from .scaling import store_values

# What the end of a walk says.
DONE = 0
FULL = 1

# WALK_REF of a walk that has not begun.
START = -(2**62)

# More cuts than any block has.
ALL = 2**62

# Trees that a kernel walks in lock-step, so that one tree's cache misses overlap another's.
LANES = 16

# What a lane of these needs at each node: the tree's number, the addresses of the node's row (0 at
# a point) and of the point that walks.
LANE_TREE = 0
LANE_NODE = 1
LANE_POINT = 2
LANE_WORDS = 3

# The addresses of the lanes that walk, and the lanes.
room_of_lanes = room_for((1 + LANE_WORDS) * LANES)


@inlined
def linear_dimension(lower: int, upper: int, n_dims: int) -> float:
    """Sum the side lengths of a box."""
    total = 0.0
    for d in range(n_dims):
        side = f32(upper, d) - f32(lower, d)
        total += side if side > 0.0 else 0.0
    return total


@inlined
def uniform_cut(tree: int, low: float, high: float) -> float:
    """Draw a cut from [low, high) that float32 rounding cannot push onto `high`."""
    cut = np.float64(np.float32(low + uniform(tree) * (high - low)))
    if not cut < high or cut < low:
        cut = low
    return cut


@inlined
def new_row(forest: int, tree: int) -> int:
    """Take the next free row and clear its header; the caller has made sure that there is one."""
    j = i64(tree, N_ROWS)
    put_i64(tree, N_ROWS, j + 1)
    clear_head(forest, node_at(forest, tree, j))
    return j


@inlined
def clear_head(forest: int, node: int) -> None:
    """Zero a node's header and sets of classes."""
    for i in range(i64(forest, BOX)):
        put_i32(node, i, 0)


@inlined
def new_leaf(forest: int, tree: int) -> int:
    """Make an empty pending leaf."""
    j = new_row(forest, tree)
    node = node_at(forest, tree, j)
    put_i32(node, LEFT, NONE)
    put_i32(node, RIGHT, NONE)
    put_i32(node, DIM, PENDING)
    lower = lower_of(forest, node)
    for i in range(2 * i64(forest, DIM_CAPACITY)):
        put_f32(lower, i, math.nan)
    return j


@inlined
def distance_at(forest: int, ref: int, place: int, x: int) -> float:
    """Return how far `x` lies outside the box of a reference, which `place_of` is at `place`."""
    # A point's values are both sides of its box.
    lower = place if ref < 0 else lower_of(forest, place)
    upper = place if ref < 0 else upper_of(forest, place)
    return distance_outside(x, lower, upper, i64(forest, N_DIMS))


@inlined
def distance_to(forest: int, tree: int, ref: int, x: int) -> float:
    """Return how far `x` lies outside the box of a reference."""
    return distance_at(forest, ref, place_of(forest, tree, ref), x)


@kernel
def nearer_side(forest: int, tree: int, left: int, right: int, x: int) -> int:
    """Choose a side for a sample whose value in the cut dimension is missing.

    The child whose box is nearer in the known dimensions, the larger one where both are as near.
    """
    to_left = distance_to(forest, tree, left, x)
    to_right = distance_to(forest, tree, right, x)
    if to_left != to_right:
        return RIGHT if to_right < to_left else LEFT
    return RIGHT if count_of(forest, tree, right) > count_of(forest, tree, left) else LEFT


@inlined
def side_of(forest: int, tree: int, node: int, x: int) -> int:
    """Return the side of an internal node's cut to which a sample goes: LEFT or RIGHT."""
    v = f32(x, i32(node, DIM))
    if v != v:
        return nearer_side(forest, tree, i32(node, LEFT), i32(node, RIGHT), x)
    return LEFT if v <= f32(node, CUT) else RIGHT


@inlined
def grow_leaf(forest: int, tree: int, node: int, p: int) -> None:
    """Count a point in a leaf's row without storing it there."""
    point = point_at(forest, p)
    x = point + i64(tree, OFFSET)
    extend_box(x, lower_of(forest, node), upper_of(forest, node), i64(forest, N_DIMS))
    add_to_leaf(forest, node, point)


@inlined
def put_point(forest: int, t: int, node: int, p: int) -> None:
    """Put a stored point into a leaf's row: its chain, box, set of classes and count."""
    put_i32(link_at(forest, p, t), 0, i32(node, LEFT))
    put_i32(node, LEFT, p)
    grow_leaf(forest, tree_at(forest, t), node, p)


@inlined
def hang(forest: int, tree: int, ref: int) -> None:
    """Put a reference where the walk stands."""
    parent = i64(tree, WALK_PARENT)
    if parent == NONE:
        put_i64(tree, ROOT, ref)
    else:
        put_i32(node_at(forest, tree, parent), i64(tree, WALK_SIDE), ref)


@inlined
def draw_dim(tree: int, lower: int, upper: int, n_dims: int, rate: float) -> int:
    """Draw the dimension of a cut by the sides of its box, whose sum is the rate."""
    threshold = uniform(tree) * rate
    dim = 0
    passed = 0.0
    for d in range(n_dims):
        side = f32(upper, d) - f32(lower, d)
        if side > 0.0:
            dim = d
            passed += side
            if passed > threshold:
                break
    return dim


@inlined
def add_batch(forest: int, tree: int, node: int, batch: int, n: int) -> None:
    """Let a leaf's row carry `n` points more, whose values are at the addresses at `batch`."""
    offset = i64(tree, OFFSET)
    for i in range(n):
        add_to_leaf(forest, node, i64(batch, i) - offset)
    lower, upper = lower_of(forest, node), upper_of(forest, node)
    extend_box_by(batch, n, lower, upper, i64(forest, N_DIMS))


@inlined
def fill_leaf(forest: int, t: int, first: int) -> int:
    """Make a leaf's row for the chain of points that begins with `first`."""
    tree = tree_at(forest, t)
    j = new_leaf(forest, tree)
    node = node_at(forest, tree, j)
    offset = i64(tree, OFFSET)
    to_link = 4 * (i64(forest, LINKS) + t)
    put_i32(node, LEFT, first)
    batch = room_of_batch()
    p = first
    while p != NONE:
        n = 0
        while p != NONE and n < BATCH:
            point = point_at(forest, p)
            put_i64(batch, n, point + offset)
            p = i32(point + to_link, 0)
            n += 1
        add_batch(forest, tree, node, batch, n)
    return j


@inlined
def side_of_cut(
    forest: int, t: int, chain: int, n: int, n_missing: int, batch: int, in_batch: bool
) -> int:
    """Return a reference to a chain of `n` points on one side of a cut.

    One point gets no row, unless points with a missing value at the cut may still join it. The
    addresses of the points' values are at `batch` where `in_batch`.
    """
    if n > 1 or n_missing > 0:
        if not in_batch:
            return fill_leaf(forest, t, chain)
        tree = tree_at(forest, t)
        j = new_leaf(forest, tree)
        node = node_at(forest, tree, j)
        put_i32(node, LEFT, chain)
        add_batch(forest, tree, node, batch, n)
        return j
    return EMPTY if n == 0 else ~chain


@kernel
def part_leaf(forest: int, t: int, j: int, dim: int, cut: float, time: float, tau: float) -> None:
    """Cut a leaf's block in two, `time` after its parent, which was `tau` after the root.

    The leaf's row becomes an internal node whose children are single points or leaves' rows; a
    child that does not pause is marked MIXED.
    """
    tree = tree_at(forest, t)
    node = node_at(forest, tree, j)
    offset = i64(tree, OFFSET)
    to_link = 4 * (i64(forest, LINKS) + t)
    n_left = 0
    n_points = 0
    n_missing = 0
    left_chain = NONE
    right_chain = NONE
    missing = NONE
    # Going down a chain of points waits for memory at each: that is done once where few remain.
    in_batch = i32(node, COUNT) <= BATCH
    lefts, rights = room_of_batch(), room_of_batch()
    p = i32(node, LEFT)
    while p != NONE:
        point = point_at(forest, p)
        following = i32(point + to_link, 0)
        v = f32(point + offset, dim)
        if in_batch:
            # From the end, as the chains grow, and the wrong one is overwritten.
            put_i64(lefts, BATCH - 1 - n_left, point + offset)
            put_i64(rights, BATCH - 1 - (n_points - n_missing - n_left), point + offset)
        n_points += 1
        if v != v:
            put_i32(point + to_link, 0, missing)
            missing = p
            n_missing += 1
        else:
            # Choices, since a jump would be guessed wrong every other time.
            goes_left = v <= cut
            put_i32(point + to_link, 0, left_chain if goes_left else right_chain)
            left_chain = p if goes_left else left_chain
            right_chain = right_chain if goes_left else p
            n_left += 1 if goes_left else 0
        p = following
    n_right = n_points - n_missing - n_left

    clear_head(forest, node)
    put_i32(node, DIM, dim)
    put_i32(node, COUNT, n_points)
    put_f32(node, CUT, cut)
    put_f32(node, DELTA, time)
    if i64(forest, N_WORDS) == 0:
        put_f64(time_at(node), 0, tau + time)
        put_f64(time_at(node), 1, UNKNOWN)
    # In loops, since what they call is long.
    for s in range(2):
        chain, n = (left_chain, n_left) if s == 0 else (right_chain, n_right)
        batch = (lefts if s == 0 else rights) + 8 * (BATCH - n)
        put_i32(node, LEFT + s, side_of_cut(forest, t, chain, n, n_missing, batch, in_batch))
    left, right = i32(node, LEFT), i32(node, RIGHT)
    while missing != NONE:
        following = i32(link_at(forest, missing, t), 0)
        side = nearer_side(forest, tree, left, right, values_at(forest, tree, missing))
        put_point(forest, t, node_at(forest, tree, left if side == LEFT else right), missing)
        missing = following
    for s in range(2):
        child = i32(node, LEFT + s)
        inherit(forest, tree, node, s, child)
        if child >= 0 and not is_paused(forest, node_at(forest, tree, child)):
            put_i32(node_at(forest, tree, child), DIM, MIXED)
    put_i64(tree, N_SPLITS, i64(tree, N_SPLITS) + 1)


@merged
def split_leaf(forest: int, t: int, j: int, tau: float) -> float:
    """Sample the first cut of a leaf's block (Algorithm 2 or 9, without the recursion).

    Returns the time since the parent, or infinity where there is no cut within the lifetime: then
    the leaf is settled.
    """
    tree = tree_at(forest, t)
    node = node_at(forest, tree, j)
    lower = lower_of(forest, node)
    upper = upper_of(forest, node)
    n_dims = i64(forest, N_DIMS)

    rate = linear_dimension(lower, upper, n_dims)
    if not rate > 0.0 or i64(tree, N_SPLITS) >= i64(forest, MAX_SPLITS):
        put_i32(node, DIM, SETTLED)
        return math.inf
    time = exponential(tree, rate)
    if time >= f64(tree, LIFETIME) - tau:
        put_i32(node, DIM, SETTLED)
        return math.inf
    dim = draw_dim(tree, lower, upper, n_dims, rate)
    cut = uniform_cut(tree, f32(lower, dim), f32(upper, dim))
    part_leaf(forest, t, j, dim, cut, time, tau)
    return time


@called
def sample_block(forest: int, t: int, j: int, most: int) -> int:
    """Sample a leaf's block down to its leaves (Algorithm 2; Algorithm 9 where blocks pause).

    The leaf's parent was WALK_TAU after the root. At most the first `most` cuts are sampled.
    Returns 0. Called by address.
    """
    tree = tree_at(forest, t)
    # The leaves that wait, each with the time of its parent.
    waiting: int = allocate(2 * (np.int64(i32(node_at(forest, tree, j), COUNT)) + 1))
    put_i64(waiting, 0, j)
    put_f64(waiting, 1, f64(tree, WALK_TAU))
    n_waiting = 1
    while n_waiting > 0 and most > 0:
        most -= 1
        n_waiting -= 1
        j = i64(waiting, 2 * n_waiting)
        tau = f64(waiting, 2 * n_waiting + 1)
        time = split_leaf(forest, t, j, tau)
        if time == math.inf:
            continue
        node = node_at(forest, tree, j)
        for s in range(2):
            child = i32(node, LEFT + s)
            if child >= 0:
                child_node = node_at(forest, tree, child)
                if i32(child_node, DIM) == MIXED or i32(child_node, COUNT) > i64(
                    forest, HIDE_LIMIT
                ):
                    put_i64(waiting, 2 * n_waiting, child)
                    put_f64(waiting, 2 * n_waiting + 1, tau + time)
                    n_waiting += 1
    release(waiting)
    return 0


@kernel
def insert_parent(forest: int, t: int, ref: int, p: int, time: float, rate: float) -> None:
    """Cut point `p` off from the box at `ref`, `time` after the parent (Algorithm 4, lines 4-9)."""
    tree = tree_at(forest, t)
    x = values_at(forest, tree, p)
    j = new_row(forest, tree)
    node = node_at(forest, tree, j)
    lower = lower_of(forest, node)
    upper = upper_of(forest, node)
    n_dims = i64(forest, N_DIMS)
    capacity = i64(forest, DIM_CAPACITY)
    if ref < 0:
        place = values_at(forest, tree, ~ref)
        for d in range(capacity):
            put_f32(lower, d, f32(place, d))
            put_f32(upper, d, f32(place, d))
    else:
        old_lower = lower_of(forest, node_at(forest, tree, ref))
        for i in range(2 * capacity):
            put_f32(lower, i, f32(old_lower, i))

    threshold = uniform(tree) * rate
    dim = 0
    passed = 0.0
    for d in range(n_dims):
        outside = gap(f32(x, d), f32(lower, d), f32(upper, d))
        if outside > 0.0:
            dim = d
            passed += outside
            if passed > threshold:
                break
    v = f32(x, dim)
    if v > f32(upper, dim):
        cut = uniform_cut(tree, f32(upper, dim), v)
        x_side = RIGHT
    else:
        cut = uniform_cut(tree, v, f32(lower, dim))
        x_side = LEFT
    extend_box(x, lower, upper, n_dims)

    other_side = LEFT + RIGHT - x_side
    put_i32(node, DIM, dim)
    put_f32(node, CUT, cut)
    put_f32(node, DELTA, time)
    put_i32(node, x_side, ~p)
    put_i32(node, other_side, ref)
    put_i32(node, COUNT, count_of(forest, tree, ref) + 1)
    inherit(forest, tree, node, other_side, ref)
    inherit(forest, tree, node, x_side, ~p)
    tau = f64(tree, WALK_TAU) + time
    if ref >= 0:
        old = node_at(forest, tree, ref)
        if i32(old, DIM) >= 0:
            put_f32(old, DELTA, max(f32(old, DELTA) - time, 0.0))
            if i64(forest, N_WORDS) == 0:
                tau = min(tau, f64(time_at(old), 0))
                put_f64(time_at(old), 1, UNKNOWN)
            elif i64(forest, N_WORDS) == CELLS:
                tau = min(tau, f64(old + 4 * CELL_TIME, 0))
    if i64(forest, N_WORDS) == 0:
        put_f64(time_at(node), 0, tau)
        put_f64(time_at(node), 1, UNKNOWN)
    elif i64(forest, N_WORDS) == CELLS:
        # Before this cut, the cell is what it was.
        put_i32(node, CELL, cell_of(forest, t, ref))
        put_f64(node + 4 * CELL_TIME, 0, tau)
    hang(forest, tree, j)
    put_i64(tree, N_SPLITS, i64(tree, N_SPLITS) + 1)


@merged
def visit_point(forest: int, t: int, q: int, p: int) -> int:
    """Extend a tree by point `p` at a leaf that holds the single point `q`."""
    tree = tree_at(forest, t)
    may_split = i64(tree, N_SPLITS) < i64(forest, MAX_SPLITS)
    paused = pair_pauses(forest, p, q)
    if not paused and may_split:
        rate = distance_to(forest, tree, ~q, values_at(forest, tree, p))
        if rate > 0.0:
            time = exponential(tree, rate)
            if time < f64(tree, LIFETIME) - f64(tree, WALK_TAU):
                insert_parent(forest, t, ~q, p, time, rate)
                return DONE
    j = new_leaf(forest, tree)
    node = node_at(forest, tree, j)
    if i64(forest, N_WORDS) == CELLS:
        put_i32(node, CELL, cell_of(forest, t, ~q))
        grow_leaf(forest, tree, node, q)
    else:
        put_point(forest, t, node, q)
    if not paused:
        put_i32(node, DIM, SETTLED)
    if keeps_points(forest, tree):
        put_point(forest, t, node, p)
    else:
        tally(forest, t, node, p)
        grow_leaf(forest, tree, node, p)
    hang(forest, tree, j)
    return DONE


@merged
def visit_leaf(forest: int, t: int, ref: int, p: int) -> int:
    """Extend a tree by point `p` at a leaf's row (Algorithm 10 where it is paused, else 4)."""
    tree = tree_at(forest, t)
    node = node_at(forest, tree, ref)
    tau = f64(tree, WALK_TAU)
    count = i32(node, COUNT)
    may_split = i64(tree, N_SPLITS) < i64(forest, MAX_SPLITS)
    if i32(node, DIM) == PENDING and may_split:
        unpauses = wakes(forest, node, p)
        limit = i64(forest, HIDE_LIMIT)
        if unpauses or count >= limit:
            # A leaf's row holds two points, but for those that wait for one with a missing value.
            need = (count + 1) * (1 + i64(forest, HAS_MISSING))
            if i64(tree, N_ROWS) + need > i64(tree, ROW_CAPACITY):
                put_i64(tree, NEED_ROWS, need)
                return FULL
        put_point(forest, t, node, p)
        if unpauses or count >= limit:
            most = np.int64(ALL if unpauses else 1)
            call4(i64(forest, SAMPLE_BLOCK), forest, t, ref, most)
        return DONE

    if may_split:
        rate = distance_to(forest, tree, ref, values_at(forest, tree, p))
        if rate > 0.0:
            time = exponential(tree, rate)
            if time < f64(tree, LIFETIME) - tau:
                insert_parent(forest, t, ref, p, time, rate)
                return DONE
    put_i32(node, DIM, SETTLED)
    tally(forest, t, node, p)
    if keeps_points(forest, tree):
        put_point(forest, t, node, p)
    else:
        grow_leaf(forest, tree, node, p)
    return DONE


@called
def arrive(forest: int, t: int) -> int:
    """Extend a tree by the walk's point where the walk ends: at nothing, a point or a leaf's row.

    Returns DONE, or FULL where the tree first needs room for `NEED_ROWS` more rows; nothing has
    changed then and the call can be repeated. Called by address.
    """
    tree = tree_at(forest, t)
    ref = i64(tree, WALK_REF)
    p = i64(tree, WALK_POINT)
    if ref == EMPTY:
        put_i64(tree, ROOT, ~p)
        return DONE
    if ref < 0:
        return visit_point(forest, t, ~ref, p)
    return visit_leaf(forest, t, ref, p)


@inlined
def start_walk(forest: int, tree: int) -> bool:
    """Put the walk at the root; False where the tree first needs room for another cut."""
    put_i64(tree, WALK_REF, i64(tree, ROOT))
    put_i64(tree, WALK_PARENT, NONE)
    put_f64(tree, WALK_TAU, 0.0)
    put_i64(tree, NEED_ROWS, 2)
    return i64(tree, N_ROWS) + 2 <= i64(tree, ROW_CAPACITY) and i64(tree, N_COUNTS) < i64(
        tree, COUNT_CAPACITY
    )


@inlined
def place_lane(forest: int, tree: int, lane: int) -> None:
    """Note where a tree's walk is, by address: the row of a node, or 0, and the point."""
    ref = i64(tree, WALK_REF)
    put_i64(lane, LANE_NODE, node_at(forest, tree, ref) if ref >= 0 else 0)
    put_i64(lane, LANE_POINT, point_at(forest, i64(tree, WALK_POINT)))


@kernel
def extend(forest: int, first: int, last: int, lanes: int) -> int:
    """Run the walks of trees `first` to `last` until each has extended its tree.

    A tree takes the points from its `WALK_POINT` to its `WALK_END`, in order; `lanes` trees, at
    most `LANES`, walk in lock-step. Returns -1, or a tree that needs room: the caller makes it and
    calls again.
    """
    # What the loop below would otherwise read anew at each node, since it writes to memory.
    n_dims = i64(forest, N_DIMS)
    node_bytes = 4 * i64(forest, NODE_WIDTH)
    lower_at = 4 * i64(forest, BOX)
    upper_at = lower_at + 4 * i64(forest, DIM_CAPACITY)
    label_at = i64(forest, N_VALUES)
    x_bytes = 4 * i64(forest, DIM_CAPACITY)
    words = i64(forest, N_WORDS)
    max_splits = i64(forest, MAX_SPLITS)
    may_miss = i64(forest, HAS_MISSING) == 1
    walking = room_of_lanes()
    for start in range(first, last, lanes):
        n_active = 0
        for t in range(start, min(start + lanes, last)):
            tree = tree_at(forest, t)
            if i64(tree, WALK_POINT) < i64(tree, WALK_END):
                # A walk that ran out of room is taken up where it was.
                if i64(tree, WALK_REF) == START and not start_walk(forest, tree):
                    put_i64(tree, WALK_REF, START)
                    return t
                lane = walking + 8 * (LANES + LANE_WORDS * n_active)
                put_i64(walking, n_active, lane)
                put_i64(lane, LANE_TREE, t)
                place_lane(forest, tree, lane)
                n_active += 1
        while n_active > 0:
            still = 0
            for i in range(n_active):
                lane = i64(walking, i)
                t = i64(lane, LANE_TREE)
                tree = tree_at(forest, t)
                node = i64(lane, LANE_NODE)
                dim = i32(node, DIM) if node != 0 else -1
                if dim < 0:
                    if call2(i64(forest, ARRIVE), forest, t) == FULL:
                        return t
                else:
                    point = i64(lane, LANE_POINT)
                    x = point + i64(tree, OFFSET)
                    lower = node + lower_at
                    upper = node + upper_at
                    rate = distance_outside(x, lower, upper, n_dims)
                    time = math.inf
                    if rate > 0.0 and i64(tree, N_SPLITS) < max_splits:
                        time = exponential_before(tree, rate, f32(node, DELTA))
                    ref = i64(tree, WALK_REF)
                    if time < f32(node, DELTA):
                        insert_parent(forest, t, ref, i64(tree, WALK_POINT), time, rate)
                    else:
                        # A value where the node had none is no distance but opens the box.
                        if rate > 0.0 or may_miss:
                            extend_box(x, lower, upper, n_dims)
                        put_i32(node, COUNT, i32(node, COUNT) + 1)
                        side = side_of(forest, tree, node, x)
                        if words > 0:
                            add_class(node, CLASSES + side * words, i32(point, label_at))
                            put_f64(tree, WALK_TAU, f64(tree, WALK_TAU) + f32(node, DELTA))
                        elif words == CELLS:
                            put_f64(tree, WALK_TAU, f64(node + 4 * CELL_TIME, 0))
                        elif words == TARGETS:
                            put_f64(node + 4 * MESSAGES + 16 * side, 0, UNKNOWN)
                            put_f64(tree, WALK_TAU, f64(time_at(node), 0))
                        put_i64(tree, WALK_PARENT, ref)
                        put_i64(tree, WALK_SIDE, side)
                        child = i32(node, side)
                        put_i64(tree, WALK_REF, child)
                        node = 0
                        if child >= 0:
                            node = node_at(forest, tree, child)
                            prefetch(node, node_bytes)
                        else:
                            prefetch(values_at(forest, tree, ~child), x_bytes + 4)
                        put_i64(lane, LANE_NODE, node)
                        put_i64(walking, still, lane)
                        still += 1
                        continue
                following = i64(tree, WALK_POINT) + 1
                put_i64(tree, WALK_POINT, following)
                if following == i64(tree, WALK_END):
                    continue
                if not start_walk(forest, tree):
                    put_i64(tree, WALK_REF, START)
                    return t
                place_lane(forest, tree, lane)
                put_i64(walking, still, lane)
                still += 1
            n_active = still
    return -1


@kernel
def set_walks(forest: int, first: int, last: int) -> None:
    """Let every tree take the points `first` to `last` next."""
    for t in range(i64(forest, N_TREES)):
        tree = tree_at(forest, t)
        put_i64(tree, WALK_POINT, first)
        put_i64(tree, WALK_END, last)
        put_i64(tree, WALK_REF, START)


@kernel
def learn(forest: int, values: int, point: int) -> int:
    """Store the values of one sample as `point` and extend every tree by it.

    What else the point has is stored already. Returns as `extend` does, or `-2 - dimension` where
    a value is too large; then nothing that a tree refers to has changed.
    """
    bad = store_values(forest, values, point)
    if bad >= 0:
        return -2 - bad
    set_walks(forest, point, point + 1)
    return call4(i64(forest, EXTEND), forest, np.int64(0), i64(forest, N_TREES), np.int64(LANES))


@kernel
def build(forest: int, n_points: int) -> None:
    """Sample the trees afresh from the first `n_points` points (Algorithms 1, 2, 9).

    Every tree has room for `n_points` rows, twice as many where points have missing values.
    """
    for t in range(i64(forest, N_TREES)):
        tree = tree_at(forest, t)
        put_i64(tree, N_ROWS, 0)
        put_i64(tree, N_COUNTS, 0)
        put_i64(tree, N_SPLITS, 0)
        if n_points < 2:
            put_i64(tree, ROOT, EMPTY if n_points == 0 else ~0)
            continue
        for p in range(n_points):
            put_i32(link_at(forest, p, t), 0, p - 1 if p > 0 else NONE)
        root = fill_leaf(forest, t, n_points - 1)
        put_i64(tree, ROOT, root)
        node = node_at(forest, tree, root)
        if n_points > i64(forest, HIDE_LIMIT) or not is_paused(forest, node):
            put_f64(tree, WALK_TAU, 0.0)
            call4(i64(forest, SAMPLE_BLOCK), forest, t, root, np.int64(ALL))
