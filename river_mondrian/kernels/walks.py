"""Walks of samples down trees: what a prediction needs of the geometry, whatever the posterior.

A walk notes at each node how far the sample lies outside its box and with what probability it
has not branched off by then (Equations 5 and 6). At the leaf a function of the posterior's module,
`collect(forest, t, lane, out)`, makes its prediction from the path.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .access import count_of, node_at, tree_at, values_at
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
    f32,
    f64,
    i32,
    i64,
    inlined,
    kernel,
    prefetch,
    put_f64,
    put_i64,
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
    # One class below and blocks pause: what hangs below is hidden.
    if (
        is_row
        and i32(node, DIM) >= 0
        and not (pauses == 1 and n_classes_in(node, CLASSES, CLASSES + words, words) == 1)
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
    if ref >= 0:
        place = node_at(forest, tree, ref)
        prefetch(place, 4 * i64(forest, NODE_WIDTH))
    else:
        place = values_at(forest, tree, ~ref)
        prefetch(place, 4 * (i64(forest, DIM_CAPACITY) + 1))
    put_i64(entry, PLACE, place)


@inlined
def address_of(array: np.ndarray) -> int:
    """Return an array's address as the signed integer that kernels compute with."""
    return np.int64(array.ctypes.data)


@inlined
def longer(path: np.ndarray) -> np.ndarray:
    """Double the room for a path, shape (entries, ENTRY_WIDTH), and keep what is there."""
    depth, width = path.shape
    more = np.empty((2 * depth, width), np.float64)
    for j in range(depth):
        for k in range(width):
            more[j, k] = path[j, k]
    return more


@kernel
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


def walk_of_rows(
    collect: Callable[[int, int, int, int], None],
) -> Callable[[int, int, int, int, int], None]:
    """Compile the walk of rows down all trees, with a posterior's `collect` at each end.

    A function that takes `collect` as an argument could not be cached by numba.
    """

    @uncached
    def predict_alone(forest: int, row: int, t: int, out: int) -> None:
        """Predict a row, which may have missing values, by one tree with a path of any length.

        At a cut on a missing value both sides are followed, each with its share of the weight; a
        side whose weight falls below `LEAST_WEIGHT` gives it to the other.
        """
        path = np.empty((FIRST_DEPTH, ENTRY_WIDTH), np.float64)
        tree = tree_at(forest, t)
        x = row + i64(tree, OFFSET)
        lane = address_of(path)
        shape = shape_of(forest)
        most = int(1.0 / LEAST_WEIGHT) + 2
        waiting_ref = np.empty(most, np.int64)
        waiting_depth = np.empty(most, np.int64)
        waiting_tau = np.empty(most, np.float64)
        waiting_reach = np.empty(most, np.float64)
        start(forest, tree, x, lane)
        n_waiting = 0
        while True:
            while True:
                node = step(forest, shape, lane)
                if node == 0:
                    break
                depth = i64(lane, DEPTH)
                if depth + 2 >= path.shape[0]:
                    path = longer(path)
                    lane = address_of(path)
                v = f32(x, i32(node, DIM))
                share = 1.0 if v <= f32(node, CUT) else 0.0
                if v != v:
                    share = left_share(forest, tree, node, x)
                side = LEFT if share >= 0.5 else RIGHT
                share = min(share, 1.0 - share)
                reach = f64(lane, REACH)
                if share > 0.0 and reach * share >= LEAST_WEIGHT and n_waiting < most:
                    waiting_ref[n_waiting] = i32(node, LEFT + RIGHT - side)
                    waiting_depth[n_waiting] = depth
                    waiting_tau[n_waiting] = f64(lane, TAU)
                    waiting_reach[n_waiting] = reach * share
                    n_waiting += 1
                    put_f64(lane, REACH, reach * (1.0 - share))
                descend(forest, tree, lane, i32(node, side))
            collect(forest, t, lane, out)
            if n_waiting == 0:
                return
            n_waiting -= 1
            depth = waiting_depth[n_waiting]
            # The part of the path that has been walked has had its branches counted.
            for i in range(1, depth + 1):
                put_f64(lane + ENTRY_BYTES * i, REACH, 0.0)
                put_f64(lane + ENTRY_BYTES * i, ABOVE, 0.0)
            put_i64(lane, DEPTH, depth)
            put_f64(lane, TAU, waiting_tau[n_waiting])
            put_f64(lane, REACH, waiting_reach[n_waiting])
            put_f64(lane, ABOVE, 0.0)
            descend(forest, tree, lane, waiting_ref[n_waiting])

    @uncached
    def predict_lanes(
        forest: int, row: int, t: int, by_tree: int, lanes: int, paths: int, out: int, width: int
    ) -> None:
        """Predict a row by the next `lanes` trees (`by_tree` 1), or as many rows by one tree."""
        active = room_of_lanes()
        n_long = walk(forest, row, t, by_tree, lanes, paths, active)
        is_long = 0
        row_bytes = 4 * i64(forest, N_VALUES)
        for i in range(lanes):
            lane = paths + i * LANE_BYTES
            own_tree, own_row = t + i * by_tree, i * (1 - by_tree)
            own_out = out + 8 * width * own_row
            if is_long < n_long and i64(active, is_long) == lane:
                predict_alone(forest, row + row_bytes * own_row, own_tree, own_out)
                is_long += 1
            else:
                collect(forest, own_tree, lane, own_out)

    @uncached
    def predict_rows(forest: int, rows: int, n: int, out: int, width: int) -> None:
        """Let the trees add their predictions for `n` scaled rows to `out`, shape (n, width).

        Trees are outermost, so that a batch goes through one tree while that is in the cache; a
        single row walks several trees in lock-step. Both add the trees' parts in the same order.
        """
        n_trees = i64(forest, N_TREES)
        row_bytes = 4 * i64(forest, N_VALUES)
        paths = room_of_paths()
        # Plain numbers would be types of their own, and more compilations.
        by_tree, by_row = np.int64(1), np.int64(0)
        if n == 1 and not has_missing(forest, rows):
            for t in range(0, n_trees, LANES):
                lanes = min(LANES, n_trees - t)
                predict_lanes(forest, rows, t, by_tree, lanes, paths, out, width)
            return
        complete = np.empty(n, np.bool_)
        for r in range(n):
            complete[r] = not has_missing(forest, rows + row_bytes * r)
        for t in range(n_trees):
            r = 0
            while r < n:
                x = rows + row_bytes * r
                own_out = out + 8 * width * r
                if not complete[r]:
                    predict_alone(forest, x, t, own_out)
                    r += 1
                    continue
                lanes = 1
                while lanes < LANES and r + lanes < n and complete[r + lanes]:
                    lanes += 1
                predict_lanes(forest, x, t, by_row, lanes, paths, own_out, width)
                r += lanes

    compiled: Callable[[int, int, int, int, int], None] = predict_rows
    return compiled
