"""Walks of samples down trees: what a prediction needs of the geometry, whatever the posterior.

A walk notes at each node how far the sample lies outside its box and with what probability it
has not branched off by then (Equations 5 and 6). At the leaf a kernel of the posterior's module,
`collect(forest, t, lane, out)`, makes its prediction from the path. Both are called by address.
"""

from __future__ import annotations

import math

import numpy as np

from .access import count_of, place_of, tree_at
from .bits import n_classes_in
from .boxes import distance_outside
from .layout import (
    BOX,
    CLASSES,
    CUT,
    DELTA,
    DIM,
    DIM_CAPACITY,
    HORIZON,
    LEFT,
    LIFETIME,
    N_DIMS,
    N_TREES,
    N_VALUES,
    N_WORDS,
    NODE_WIDTH,
    OFFSET,
    RIGHT,
    ROOT,
    SPLIT_PURE,
)
from .memory import (
    allocate,
    call4,
    called,
    f32,
    f64,
    i32,
    i64,
    inlined,
    merged,
    prefetch,
    put_f64,
    put_i64,
    release,
    room_for,
    uncached,
)
from .mondrian import distance_to
from .scaling import has_missing

# Walks in lock-step.
LANES = 16

# A path's entry: the reference and the address of its row or, for a point, of its values; the
# distance outside the node's box, the time since its parent, the probability of not having branched
# off above, the weight of all the branches above, and the probability of not branching off here.
# Entry 0 of a lane is the state of its walk instead: the depth, the time of the node's parent, the
# tree and the sample that walks it, by address, and REACH and ABOVE of the next entry.
REF = 0
PLACE = 1
ETA = 2
SPAN = 3
REACH = 4
ABOVE = 5
STAYS = 6
ENTRY_WIDTH = 8
ENTRY_BYTES = 8 * ENTRY_WIDTH
DEPTH = 0
TAU = 1
TREE = 2
SAMPLE = 3

# Entries for which a lane has room; longer paths are walked by themselves.
FIRST_DEPTH = 64
LANE_BYTES = ENTRY_BYTES * FIRST_DEPTH
MOST_STEPS = FIRST_DEPTH - 2

room_of_paths = room_for(LANES * FIRST_DEPTH * ENTRY_WIDTH)
room_of_lanes = room_for(LANES)

# A branch of a walk with a missing value is followed while its weight is at least this.
LEAST_WEIGHT = 0.02

# What a branch that waits needs: its reference, the depth and the time of its parent, its weight.
BRANCH_REF = 0
BRANCH_DEPTH = 1
BRANCH_TAU = 2
BRANCH_REACH = 3
BRANCH_WORDS = 4
BRANCH_BYTES = 8 * BRANCH_WORDS
MOST_BRANCHES = int(1.0 / LEAST_WEIGHT) + 2

room_of_branches = room_for(BRANCH_WORDS * MOST_BRANCHES)


@inlined
def start(forest: int, tree: int, x: int, lane: int) -> None:
    """Put a lane's walk of a sample at a tree's root."""
    put_i64(lane, DEPTH, 0)
    put_f64(lane, TAU, 0.0)
    put_i64(lane, TREE, tree)
    put_i64(lane, SAMPLE, x)
    put_f64(lane, REACH, 1.0)
    put_f64(lane, ABOVE, 0.0)
    descend(forest, tree, lane, i64(tree, ROOT))


@inlined
def shape_of(forest: int) -> tuple[int, int, int, int, int, float]:
    """Return what `step` would otherwise read anew at each node, since it writes to memory."""
    lower_at = 4 * i64(forest, BOX)
    upper_at = lower_at + 4 * i64(forest, DIM_CAPACITY)
    pauses = 1 - i64(forest, SPLIT_PURE)
    # Trees may be read at an earlier time than they end.
    end = f64(forest, HORIZON)
    return i64(forest, N_DIMS), lower_at, upper_at, i64(forest, N_WORDS), pauses, end


@inlined
def step(forest: int, shape: tuple[int, int, int, int, int, float], lane: int) -> int:
    """Note a path's geometry where it has come to; returns the node's address, 0 at a leaf."""
    n_dims, lower_at, upper_at, words, pauses, end = shape
    entry = lane + ENTRY_BYTES * i64(lane, DEPTH)
    node = i64(entry, PLACE)
    is_row = i64(entry, REF) >= 0
    # A point's values are both sides of its box.
    lower = node + (lower_at if is_row else 0)
    upper = node + (upper_at if is_row else 0)
    eta = distance_outside(i64(lane, SAMPLE), lower, upper, n_dims)
    tau = f64(lane, TAU)
    horizon = end - tau
    classes = node + 4 * CLASSES
    # One class below and blocks pause: what hangs below is hidden.
    if (
        is_row
        and i32(node, DIM) >= 0
        and not (pauses == 1 and n_classes_in(classes, classes + 4 * words, words) == 1)
        and f32(node, DELTA) < horizon
    ):
        span = f32(node, DELTA)
    else:
        node = 0
        span = min(f64(i64(lane, TREE), LIFETIME) - tau, horizon)
    reach = f64(lane, REACH)
    put_f64(entry, ETA, eta)
    put_f64(entry, SPAN, span)
    put_f64(entry, REACH, reach)
    put_f64(entry, ABOVE, f64(lane, ABOVE))
    if eta > 0.0:
        stays = math.exp(-eta * span)
        put_f64(entry, STAYS, stays)
        put_f64(lane, ABOVE, f64(lane, ABOVE) + reach * (1.0 - stays))
        put_f64(lane, REACH, reach * stays)
    put_f64(lane, TAU, tau + span)
    return node


@inlined
def descend(forest: int, tree: int, lane: int, ref: int) -> None:
    """Go on to a child."""
    depth = i64(lane, DEPTH) + 1
    put_i64(lane, DEPTH, depth)
    entry = lane + ENTRY_BYTES * depth
    put_i64(entry, REF, ref)
    place = place_of(forest, tree, ref)
    prefetch(place, 4 * (i64(forest, NODE_WIDTH) if ref >= 0 else i64(forest, DIM_CAPACITY) + 1))
    put_i64(entry, PLACE, place)


@inlined
def longer(path: int, entries: int) -> int:
    """Return the address of twice the room for a path, with what is there."""
    more: int = allocate(np.int64(2 * entries * ENTRY_WIDTH))
    for k in range(entries * ENTRY_WIDTH):
        put_i64(more, k, i64(path, k))
    return more


@uncached
def walk(
    forest: int, rows: int, tree: int, tree_step: int, lanes: int, paths: int, active: int
) -> int:
    """Walk pairs of tree and row in lock-step: the next trees (`tree_step` 1) or the next rows.

    Returns how many walks have not arrived, since their paths need more room: their lanes are the
    first in `active` then.
    """
    row_stride = 4 * i64(forest, N_VALUES) * (1 - tree_step)
    for i in range(lanes):
        walked = tree_at(forest, tree + i * tree_step)
        lane = paths + i * LANE_BYTES
        put_i64(active, i, lane)
        start(forest, walked, rows + i * row_stride + i64(walked, OFFSET), lane)
    shape = shape_of(forest)
    n_active = lanes
    for _ in range(MOST_STEPS):
        still = 0
        for a in range(n_active):
            lane = i64(active, a)
            node = step(forest, shape, lane)
            if node != 0:
                v = f32(i64(lane, SAMPLE), i32(node, DIM))
                side = LEFT if v <= f32(node, CUT) else RIGHT
                descend(forest, i64(lane, TREE), lane, i32(node, side))
                put_i64(active, still, lane)
                still += 1
        n_active = still
        if n_active == 0:
            break
    return n_active


@inlined
def left_share(forest: int, tree: int, node: int, x: int) -> float:
    """Return the share of the left child in a walk whose value in the cut dimension is missing."""
    left = i32(node, LEFT)
    right = i32(node, RIGHT)
    to_left = distance_to(forest, tree, left, x)
    to_right = distance_to(forest, tree, right, x)
    if to_left != to_right:
        return 1.0 if to_left < to_right else 0.0
    n_left = np.float64(count_of(forest, tree, left))
    return n_left / (n_left + count_of(forest, tree, right))


@merged
def walk_on(
    forest: int,
    shape: tuple[int, int, int, int, int, float],
    t: int,
    lane: int,
    out: int,
    collect: int,
) -> None:
    """Walk on from where a lane has come to, down all branches, and predict at the end of each.

    At a cut on a missing value both sides are followed, each with its share of the weight; a side
    whose weight falls below `LEAST_WEIGHT` gives it to the other.
    """
    branches = room_of_branches()
    entries = np.int64(FIRST_DEPTH)
    n_waiting = 0
    while True:
        node = step(forest, shape, lane)
        if node != 0:
            if i64(lane, DEPTH) + 2 >= entries:
                path = longer(lane, entries)
                if entries > FIRST_DEPTH:
                    release(lane)
                lane = path
                entries *= 2
            x, tree = i64(lane, SAMPLE), i64(lane, TREE)
            v = f32(x, i32(node, DIM))
            share = 1.0 if v <= f32(node, CUT) else 0.0
            if v != v:
                share = left_share(forest, tree, node, x)
            side = LEFT if share >= 0.5 else RIGHT
            share = min(share, 1.0 - share)
            reach = f64(lane, REACH)
            if reach * share >= LEAST_WEIGHT and n_waiting < MOST_BRANCHES:
                branch = branches + BRANCH_BYTES * n_waiting
                put_i64(branch, BRANCH_REF, i32(node, LEFT + RIGHT - side))
                put_i64(branch, BRANCH_DEPTH, i64(lane, DEPTH))
                put_f64(branch, BRANCH_TAU, f64(lane, TAU))
                put_f64(branch, BRANCH_REACH, reach * share)
                n_waiting += 1
                put_f64(lane, REACH, reach * (1.0 - share))
            descend(forest, tree, lane, i32(node, side))
            continue
        call4(collect, forest, t, lane, out)
        if n_waiting == 0:
            break
        n_waiting -= 1
        branch = branches + BRANCH_BYTES * n_waiting
        depth = i64(branch, BRANCH_DEPTH)
        # The part of the path that has been walked has had its branches counted.
        for j in range(1, depth + 1):
            put_f64(lane + ENTRY_BYTES * j, REACH, 0.0)
            put_f64(lane + ENTRY_BYTES * j, ABOVE, 0.0)
        put_i64(lane, DEPTH, depth)
        put_f64(lane, TAU, f64(branch, BRANCH_TAU))
        put_f64(lane, REACH, f64(branch, BRANCH_REACH))
        put_f64(lane, ABOVE, 0.0)
        descend(forest, i64(lane, TREE), lane, i64(branch, BRANCH_REF))
    if entries > FIRST_DEPTH:
        release(lane)


@called
def predict_rows(forest: int, rows: int, n: int, out: int, width: int, collect: int) -> int:
    """Let the trees add their predictions for `n` scaled rows to `out`, shape (n, width).

    At the end of each walk the kernel at the address `collect` makes the prediction. Returns 0.

    Trees are outermost, so that a batch goes through one tree while that is in the cache; a
    single row walks several trees in lock-step. Both add the trees' parts in the same order. A
    row with missing values walks alone. So does one, from there on, for whose path a lane has no
    room.
    """
    n_trees = i64(forest, N_TREES)
    row_bytes = 4 * i64(forest, N_VALUES)
    shape = shape_of(forest)
    paths, active = room_of_paths(), room_of_lanes()
    # Plain numbers would be types of their own, and more compilations.
    by_tree, lacking = np.int64(0), np.int64(0)
    if n == 1 and not has_missing(forest, rows):
        by_tree = np.int64(1)
    else:
        lacking = allocate(n)
        for r in range(n):
            put_i64(lacking, r, has_missing(forest, rows + row_bytes * r))
    t, r = np.int64(0), np.int64(0)
    while t < n_trees:
        row = rows + row_bytes * r
        lanes, n_alone = np.int64(0), np.int64(1)
        if by_tree == 1:
            lanes = min(np.int64(LANES), n_trees - t)
        else:
            while lanes < LANES and r + lanes < n and i64(lacking, r + lanes) == 0:
                lanes += 1
        if lanes > 0:
            n_alone = walk(forest, row, t, by_tree, lanes, paths, active)
        else:
            tree = tree_at(forest, t)
            start(forest, tree, row + i64(tree, OFFSET), paths)
            put_i64(active, 0, paths)
            lanes = np.int64(1)
        n_walked = 0
        for i in range(lanes):
            lane = paths + i * LANE_BYTES
            own_tree = t + i * by_tree
            own_out = out + 8 * width * (r + i * (1 - by_tree))
            if n_walked == n_alone or i64(active, n_walked) != lane:
                call4(collect, forest, own_tree, lane, own_out)
                continue
            n_walked += 1
            walk_on(forest, shape, own_tree, lane, own_out, collect)
        if by_tree == 1:
            t += lanes
            continue
        r += lanes
        if r == n:
            r = np.int64(0)
            t += 1
    if lacking != 0:
        release(lacking)
    return 0
