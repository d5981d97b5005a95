"""Adaptive Mondrian trees: guided cuts, statistics along paths, and the posteriors made of them.

A tree's blocks pause until they are split here: of several cuts drawn from the Mondrian law the one
with the largest Gini gain is kept. With one candidate the tree has the exact law.

Each row of a tree has statistics of the classes that have passed it, with three memories (all
samples, and exponential forgetting along the node's own visits), from which three posteriors by
context-tree weighting are made, next to the HNSP. Statistics of a node are those of replaying its
samples in order; a node that is inserted above another takes over the other's.
"""

from __future__ import annotations

import math

import numpy as np

from .access import (
    counts_at,
    label_of,
    link_at,
    lower_of,
    node_at,
    point_at,
    tree_at,
    upper_of,
    values_at,
)
from .hnsp import put_label
from .layout import (
    CLASS_CAPACITY,
    COUNT,
    COUNT_CAPACITY,
    COUNT_WIDTH,
    DELTA,
    DIM,
    DIM_WEIGHTS,
    EMPTY,
    GAINS,
    GAMMA,
    LEFT,
    N_CANDIDATES,
    N_CLASSES,
    N_COUNTS,
    N_DIMS,
    N_ROWS,
    N_SPLITS,
    N_TREES,
    N_VALUES,
    NODE_WIDTH,
    NONE,
    OFFSET,
    PENDING,
    QUEUE,
    RIGHT,
    RING,
    ROLE,
    ROOT,
    ROOT_FORGETS,
    ROW_CAPACITY,
    SETTLED,
    STATS,
    WALK_END,
    WALK_POINT,
    WALK_REF,
)
from .memory import (
    f32,
    f64,
    i32,
    i64,
    inlined,
    kernel,
    prefetch,
    put_f32,
    put_f64,
    put_i32,
    put_i64,
)
from .mondrian import (
    LANES,
    START,
    distance_to,
    draw_dim,
    extend,
    linear_dimension,
    new_leaf,
    part_leaf,
    put_point,
    side_of,
    uniform_cut,
)
from .random import exponential
from .scaling import scale_into, store_values

# A row of statistics: of three weightings the probability to stop at the node; the shares of the
# memories; each memory's weight of all samples, and the sum of c (Algorithm 5); each memory's unit;
# then the classes of the memories, and for each class 1 if it has gone left plus 2 if right. A
# memory does not decay: its unit grows, the weight that its latest sample has.
STOPS = 0
SHARES = 3
TOTALS = 6
UNITS = 10
STATS_HEAD = 13
N_MEMORIES = 3
N_PARTS = N_MEMORIES + 1
GROWTHS = (1.0, 1.0 / 0.95, 1.0 / 0.7)
# Unit at which a memory is scaled back.
LARGEST_UNIT = 1e15

# Dirichlet prior and prior probability to stop, of the three weightings.
PRIORS = (0.5, 0.05, 0.05)
STOP_PRIORS = (0.5, 0.1, 0.1)
N_WEIGHTINGS = 3
N_POSTERIORS = 1 + N_WEIGHTINGS

# Share that the memories of a node exchange at each visit, and the bounds of a stop probability.
SHARE_RATE = 0.02
LEAST_STOP = 1e-4

# Points of a block on which candidates are compared.
GAIN_SAMPLE = 256
# Path length at which a walk stops.
DEEPEST = 512
# Rows that a call may need in a tree.
ROOM = 64

# RIGHT of the last leaf in a tree's queue.
LAST = -2

# What a tree is for: nothing, all samples, recent ones; or it is being built and is given its
# points, split, or shown them in order.
IDLE = 0
LONG = 1
RECENT = 2
GATHERS = 3
SPLITS = 4
REPLAYS = 5


@inlined
def classes_at(forest: int, row: int, part: int) -> int:
    """Return the address of the classes of a memory (0 to 2), or of c (3)."""
    return row + 4 * (STATS_HEAD + part * i64(forest, CLASS_CAPACITY))


@inlined
def row_of(forest: int, tree: int, node: int) -> int:
    """Return the address of a node's statistics, which must be there."""
    return counts_at(forest, tree, i32(node, STATS) - 1)


@inlined
def new_stats(forest: int, tree: int, node: int) -> int:
    """Give a node empty statistics; returns their address."""
    number = i64(tree, N_COUNTS)
    put_i64(tree, N_COUNTS, number + 1)
    # 0 stands for none, as in a row that is new.
    put_i32(node, STATS, number + 1)
    row = counts_at(forest, tree, number)
    for w in range(STATS_HEAD + N_PARTS * i64(forest, CLASS_CAPACITY)):
        put_i32(row, w, 0)
    for v in range(N_WEIGHTINGS):
        put_f32(row, STOPS + v, STOP_PRIORS[v])
    for m in range(N_MEMORIES):
        put_f32(row, SHARES + m, 1.0 / N_MEMORIES)
        put_f32(row, UNITS + m, 1.0)
    return row


@inlined
def remember(forest: int, row: int, label: int, forgets: bool) -> None:
    """Add a sample's class to the memories of a row."""
    for m in range(N_MEMORIES):
        classes = classes_at(forest, row, m)
        unit = f32(row, UNITS + m)
        if forgets:
            unit *= GROWTHS[m]
        if unit > LARGEST_UNIT:
            for k in range(i64(forest, N_CLASSES)):
                put_f32(classes, k, f32(classes, k) / unit)
            put_f32(row, TOTALS + m, f32(row, TOTALS + m) / unit)
            unit = 1.0
        put_f32(row, UNITS + m, unit)
        put_f32(classes, label, f32(classes, label) + unit)
        put_f32(row, TOTALS + m, f32(row, TOTALS + m) + unit)


@inlined
def add_side(forest: int, row: int, label: int, side: int) -> None:
    """Note on which side of a cut a class has gone."""
    classes = classes_at(forest, row, N_MEMORIES)
    sides = np.int64(f32(classes, label))
    bit = 1 if side == LEFT else 2
    if sides & bit == 0:
        put_f32(classes, label, np.float64(sides | bit))
        put_f32(row, TOTALS + N_MEMORIES, f32(row, TOTALS + N_MEMORIES) + 1.0)


@inlined
def copy_stats(forest: int, source: int, target: int, side: int) -> None:
    """Let a node that is inserted above another, on this side, have seen what that has.

    Its probabilities to stop are fresh.
    """
    capacity, n_classes = i64(forest, CLASS_CAPACITY), i64(forest, N_CLASSES)
    for m in range(N_MEMORIES):
        put_f32(target, SHARES + m, f32(source, SHARES + m))
        put_f32(target, TOTALS + m, f32(source, TOTALS + m))
        put_f32(target, UNITS + m, f32(source, UNITS + m))
    for w in range(STATS_HEAD, STATS_HEAD + N_MEMORIES * capacity):
        put_f32(target, w, f32(source, w))
    for k in range(n_classes):
        if f32(classes_at(forest, source, 0), k) > 0.0:
            add_side(forest, target, k, side)


@inlined
def has_seen(forest: int, tree: int, ref: int, label: int) -> bool:
    """Tell whether a class has passed what hangs at a reference with statistics, or a point."""
    if ref < 0:
        return label_of(forest, ~ref) == label
    node = node_at(forest, tree, ref)
    if i32(node, STATS) == 0:
        return False
    return f32(classes_at(forest, row_of(forest, tree, node), 0), label) > 0.0


@kernel
def see_block(forest: int, t: int, j: int, last: int) -> None:
    """Make the statistics of a leaf's row from its points; `last` is the latest point of all."""
    tree = tree_at(forest, t)
    node = node_at(forest, tree, j)
    n = i32(node, COUNT)
    ring = i64(forest, RING)
    ages = np.empty(n, np.int64)
    points = np.empty(n, np.int64)
    p = i32(node, LEFT)
    for i in range(n):
        ages[i] = (last - p) % ring
        points[i] = p
        p = i32(link_at(forest, p, t), 0)
    row = new_stats(forest, tree, node)
    for i in np.argsort(-ages):
        remember(forest, row, label_of(forest, points[i]), True)


@inlined
def is_pure(forest: int, row: int) -> bool:
    """Tell whether a row has seen one class only."""
    classes = classes_at(forest, row, 0)
    for k in range(i64(forest, N_CLASSES)):
        if f32(classes, k) > 0.0:
            return f32(classes, k) >= f32(row, TOTALS)
    return True


@inlined
def push(forest: int, tree: int, j: int) -> None:
    """Put a leaf into the tree's queue."""
    head = i64(tree, QUEUE)
    put_i32(node_at(forest, tree, j), RIGHT, LAST if head == NONE else head)
    put_i64(tree, QUEUE, j)


@inlined
def pop(forest: int, tree: int) -> int:
    """Take the first leaf out of the tree's queue, which is not empty."""
    j = i64(tree, QUEUE)
    node = node_at(forest, tree, j)
    following = i32(node, RIGHT)
    put_i64(tree, QUEUE, NONE if following == LAST else following)
    put_i32(node, RIGHT, NONE)
    return j


@inlined
def enqueue(forest: int, tree: int, j: int) -> None:
    """Let a leaf wait for its split, where it has seen several classes."""
    node = node_at(forest, tree, j)
    if i32(node, DIM) != PENDING or i32(node, RIGHT) != NONE:
        return
    if not is_pure(forest, row_of(forest, tree, node)):
        push(forest, tree, j)


@kernel
def wait(forest: int, t: int, ref: int) -> None:
    """Let a leaf whose points are of several classes wait for its split."""
    if ref < 0:
        return
    tree = tree_at(forest, t)
    p = i32(node_at(forest, tree, ref), LEFT)
    label = label_of(forest, p)
    while p != NONE:
        if label_of(forest, p) != label:
            push(forest, tree, ref)
            return
        p = i32(link_at(forest, p, t), 0)


@inlined
def gain_of(left: np.ndarray, right: np.ndarray, c: int, n_classes: int) -> float:
    """Return the Gini gain of a cut, times the number of points, from the classes at its sides."""
    n_left, n_right, squares_left, squares_right, squares = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(n_classes):
        n_left += left[c, k]
        n_right += right[c, k]
        squares_left += left[c, k] * left[c, k]
        squares_right += right[c, k] * right[c, k]
        squares += (left[c, k] + right[c, k]) * (left[c, k] + right[c, k])
    if n_left == 0.0 or n_right == 0.0:
        return 0.0
    return squares_left / n_left + squares_right / n_right - squares / (n_left + n_right)


@kernel
def draw_guided(forest: int, t: int, j: int, rate: float) -> tuple[int, float]:
    """Draw candidates of a block's first cut; returns the one with the largest Gini gain.

    The gain is added to those of its dimension.
    """
    tree = tree_at(forest, t)
    node = node_at(forest, tree, j)
    lower, upper = lower_of(forest, node), upper_of(forest, node)
    n_dims = i64(forest, N_DIMS)
    # Few points can be parted in few ways; two in one.
    m = min(i64(forest, N_CANDIDATES), 3 * i32(node, COUNT) - 5)
    weights = np.int64(0)
    if i64(forest, N_CANDIDATES) > 1:
        weights = i64(forest, DIM_WEIGHTS)
        rate = 0.0
        for d in range(n_dims):
            side = f32(upper, d) - f32(lower, d)
            rate += f64(weights, d) * side if side > 0.0 else 0.0
    dims = np.empty(m, np.int64)
    cuts = np.empty(m, np.float64)
    for c in range(m):
        dims[c] = draw_dim(tree, lower, upper, n_dims, rate, weights)
        cuts[c] = uniform_cut(tree, f32(lower, dims[c]), f32(upper, dims[c]))
    n_classes = i64(forest, N_CLASSES)
    left = np.zeros((m, n_classes), np.float64)
    right = np.zeros((m, n_classes), np.float64)
    count = i32(node, COUNT)
    step = max(1, count // GAIN_SAMPLE)
    p = i32(node, LEFT)
    i = 0
    while p != NONE:
        if i % step == 0:
            x = values_at(forest, tree, p)
            label = label_of(forest, p)
            for c in range(m):
                v = f32(x, dims[c])
                if v <= cuts[c]:
                    left[c, label] += 1.0
                elif v == v:
                    right[c, label] += 1.0
        i += 1
        p = i32(link_at(forest, p, t), 0)
    best, most = 0, -1.0
    for c in range(m):
        gain = gain_of(left, right, c, n_classes)
        if gain > most:
            best, most = c, gain
    gains = i64(forest, GAINS) + 8 * n_dims * t
    put_f64(gains, dims[best], f64(gains, dims[best]) + max(most, 0.0) * step)
    return dims[best], cuts[best]


@kernel
def split(forest: int, t: int, j: int) -> bool:
    """Cut a leaf's block by a guided cut; False where it has no extent."""
    tree = tree_at(forest, t)
    node = node_at(forest, tree, j)
    n_dims = i64(forest, N_DIMS)
    rate = linear_dimension(lower_of(forest, node), upper_of(forest, node), n_dims)
    if not rate > 0.0:
        put_i32(node, DIM, SETTLED)
        return False
    time = exponential(tree, rate)
    dim, cut = draw_guided(forest, t, j, rate)
    kept = i32(node, STATS)
    part_leaf(forest, t, j, dim, cut, time, 0.0)
    put_i32(node, STATS, kept)
    return True


@kernel
def split_queued(forest: int, t: int, budget: int, last: int, shown: bool) -> int:
    """Split leaves that wait; returns what is left of the budget.

    A split costs its number of points. Where the tree has been `shown` its points, the latest of
    which is `last`, the new rows get their statistics.
    """
    tree = tree_at(forest, t)
    n_classes = i64(forest, N_CLASSES)
    while budget > 0 and i64(tree, QUEUE) != NONE:
        if i64(tree, N_ROWS) + 4 > i64(tree, ROW_CAPACITY):
            return budget
        if i64(tree, N_COUNTS) + 4 > i64(tree, COUNT_CAPACITY):
            return budget
        j = pop(forest, tree)
        node = node_at(forest, tree, j)
        budget -= i32(node, COUNT)
        if not split(forest, t, j):
            continue
        for s in range(2):
            child = i32(node, LEFT + s)
            if not shown:
                wait(forest, t, child)
            elif child >= 0:
                see_block(forest, t, child, last)
                enqueue(forest, tree, child)
        if shown:
            row = row_of(forest, tree, node)
            for s in range(2):
                for k in range(n_classes):
                    if has_seen(forest, tree, i32(node, LEFT + s), k):
                        add_side(forest, row, k, LEFT + s)
    return budget


@inlined
def chance(forest: int, row: int, label: int, memory: int, alpha: float) -> float:
    """Return a memory's Dirichlet estimate of a class."""
    n_classes = i64(forest, N_CLASSES)
    seen = f32(classes_at(forest, row, memory), label)
    prior = alpha * f32(row, UNITS + memory)
    return (seen + prior) / (f32(row, TOTALS + memory) + prior * n_classes)


@kernel
def path_to(forest: int, t: int, x: int, path: np.ndarray) -> int:
    """Write the references on a sample's way down a tree; returns how many."""
    tree = tree_at(forest, t)
    ref = i64(tree, ROOT)
    n = 0
    while True:
        path[n] = ref
        n += 1
        if ref < 0 or n == DEEPEST:
            return n
        node = node_at(forest, tree, ref)
        if i32(node, DIM) < 0:
            return n
        ref = i32(node, side_of(forest, tree, node, x))


@kernel
def walk_all(forest: int, row: int, paths: np.ndarray, lengths: np.ndarray) -> None:
    """Write a scaled sample's ways down all trees that predict, shape (trees, references).

    The trees are walked in lock-step, so that one tree's cache misses overlap another's. Trees that
    do not predict get the length 0.
    """
    n_trees = i64(forest, N_TREES)
    node_bytes = 4 * i64(forest, NODE_WIDTH)
    stats_bytes = 4 * i64(forest, COUNT_WIDTH)
    active = np.empty(n_trees, np.int64)
    n_active = 0
    for t in range(n_trees):
        tree = tree_at(forest, t)
        lengths[t] = 0
        if i64(tree, ROLE) in (LONG, RECENT) and i64(tree, ROOT) != EMPTY:
            paths[t, 0] = i64(tree, ROOT)
            active[n_active] = t
            n_active += 1
    depth = 0
    while n_active > 0:
        still = 0
        for i in range(n_active):
            t = active[i]
            tree = tree_at(forest, t)
            ref = paths[t, depth]
            lengths[t] = depth + 1
            if ref < 0 or depth + 1 == DEEPEST:
                continue
            node = node_at(forest, tree, ref)
            if i32(node, STATS) > 0:
                prefetch(row_of(forest, tree, node), stats_bytes)
            if i32(node, DIM) < 0:
                continue
            child = i32(node, side_of(forest, tree, node, row + i64(tree, OFFSET)))
            if child >= 0:
                prefetch(node_at(forest, tree, child), node_bytes)
            else:
                prefetch(values_at(forest, tree, ~child), 4 * i64(forest, N_VALUES) + 4)
            paths[t, depth + 1] = child
            active[still] = t
            still += 1
        n_active = still
        depth += 1


@kernel
def weigh(forest: int, t: int, path: np.ndarray, n: int, label: int, own: int) -> None:
    """Let the weights on a sample's path learn from how well nodes and children predicted it.

    `own` is the sample's point where it is in the tree already: as a leaf it has seen nothing.
    """
    tree = tree_at(forest, t)
    n_classes = i64(forest, N_CLASSES)
    below = np.empty(N_WEIGHTINGS, np.float64)
    chances = np.empty(N_MEMORIES, np.float64)
    for i in range(n - 1, -1, -1):
        ref = path[i]
        if ref < 0 or i32(node_at(forest, tree, ref), STATS) == 0:
            same = ref < 0 and ~ref != own and label_of(forest, ~ref) == label
            size = 1.0 if ref < 0 and ~ref != own else 0.0
            for v in range(N_WEIGHTINGS):
                alpha = PRIORS[v]
                below[v] = ((1.0 if same else 0.0) + alpha) / (size + alpha * n_classes)
            continue
        row = row_of(forest, tree, node_at(forest, tree, ref))
        total = 0.0
        for m in range(N_MEMORIES):
            chances[m] = f32(row, SHARES + m) * chance(forest, row, label, m, PRIORS[-1])
            total += chances[m]
        for m in range(N_MEMORIES):
            share = (1.0 - SHARE_RATE) * chances[m] / total + SHARE_RATE / N_MEMORIES
            put_f32(row, SHARES + m, share)
        for v in range(N_WEIGHTINGS):
            here = total
            if v < N_WEIGHTINGS - 1:
                here = chance(forest, row, label, 0, PRIORS[v])
            if i < n - 1:
                stop = f32(row, STOPS + v)
                mixed = stop * here + (1.0 - stop) * below[v]
                stop = stop * here / mixed
                put_f32(row, STOPS + v, min(max(stop, LEAST_STOP), 1.0 - LEAST_STOP))
                here = mixed
            below[v] = here


@inlined
def ensure_stats(forest: int, t: int, ref: int, p: int, backlog: int) -> None:
    """Give a row that is new on the path of point `p` the statistics of the samples before.

    The latest `backlog` samples before `p` have not been seen.
    """
    tree = tree_at(forest, t)
    node = node_at(forest, tree, ref)
    if i32(node, STATS) != 0:
        return
    side = RIGHT
    if i32(node, DIM) < 0:
        # A leaf's row of two points.
        q = i32(node, LEFT)
        other = ~(i32(link_at(forest, p, t), 0) if q == p else q)
    else:
        side = LEFT if i32(node, RIGHT) == ~p else RIGHT
        other = i32(node, side)
    if other < 0:
        if (p - ~other) % i64(forest, RING) > backlog:
            row = new_stats(forest, tree, node)
            if i32(node, DIM) >= 0:
                add_side(forest, row, label_of(forest, ~other), side)
            remember(forest, row, label_of(forest, ~other), True)
    elif i32(node_at(forest, tree, other), STATS) != 0:
        row = new_stats(forest, tree, node)
        copy_stats(forest, row_of(forest, tree, node_at(forest, tree, other)), row, side)


@kernel
def catch_up(forest: int, t: int, p: int, path: np.ndarray, backlog: int) -> None:
    """Give the rows that a tree has got by point `p` their statistics, while it is being shown.

    The point itself will be shown in its turn.
    """
    tree = tree_at(forest, t)
    n = path_to(forest, t, values_at(forest, tree, p), path)
    for i in range(n):
        if path[i] >= 0:
            node = node_at(forest, tree, path[i])
            if i32(node, DIM) < 0 or i32(node, LEFT) == ~p or i32(node, RIGHT) == ~p:
                ensure_stats(forest, t, path[i], p, backlog)


@kernel
def see(forest: int, t: int, p: int, path: np.ndarray, grown: bool) -> None:
    """Let the rows on the path of a point that is in the tree see it.

    `grown` tells that the tree has just been extended by it, so that rows may be new; else the
    points before are seen in order, and rows are new when the first comes.
    """
    tree = tree_at(forest, t)
    label = label_of(forest, p)
    n = path_to(forest, t, values_at(forest, tree, p), path)
    for i in range(n):
        ref = path[i]
        if ref < 0:
            return
        node = node_at(forest, tree, ref)
        if grown:
            ensure_stats(forest, t, ref, p, np.int64(0))
        if i32(node, STATS) == 0:
            new_stats(forest, tree, node)
        row = row_of(forest, tree, node)
        if i + 1 < n:
            add_side(forest, row, label, LEFT if i32(node, LEFT) == path[i + 1] else RIGHT)
        remember(forest, row, label, i > 0 or i64(forest, ROOT_FORGETS) == 1)
        if i32(node, DIM) < 0:
            enqueue(forest, tree, ref)


# Prediction.


@inlined
def memory_share(forest: int, row: int, m: int) -> float:
    """Return what a memory's share gives to each unit of its samples."""
    prior = PRIORS[N_WEIGHTINGS - 1] * f32(row, UNITS + m)
    return f32(row, SHARES + m) / (f32(row, TOTALS + m) + prior * i64(forest, N_CLASSES))


@kernel
def predict_tree(
    forest: int, t: int, x: int, path: np.ndarray, n: int, spans: np.ndarray, found: np.ndarray
) -> None:
    """Add a tree's posteriors for a scaled sample to `found`, shape (N_POSTERIORS, classes).

    The first is the HNSP, which integrates over branching off (Algorithm 8); the others follow the
    sample to its leaf.
    """
    tree = tree_at(forest, t)
    n_classes = i64(forest, N_CLASSES)
    gamma = f64(forest, GAMMA)
    reach = 1.0
    for i in range(n):
        ref = path[i]
        spans[i, 0] = distance_to(forest, tree, ref, x)
        span = math.inf
        if i < n - 1:
            span = f32(node_at(forest, tree, ref), DELTA)
        spans[i, 1] = math.exp(-gamma * span)
        spans[i, 2] = reach
        spans[i, 3] = math.exp(-spans[i, 0] * span) if spans[i, 0] > 0.0 else 1.0
        reach *= spans[i, 3]

    # What is said below, of a class by each weighting.
    below = np.empty((N_WEIGHTINGS, n_classes), np.float64)
    last = path[n - 1]
    for v in range(N_WEIGHTINGS):
        each = 1.0 / ((1.0 if last < 0 else 0.0) + PRIORS[v] * n_classes)
        for k in range(n_classes):
            below[v, k] = PRIORS[v] * each
        if last < 0:
            below[v, label_of(forest, ~last)] += each

    weight = reach
    for i in range(n - 1, -1, -1):
        ref = path[i]
        eta, discount, reached, stays = spans[i, 0], spans[i, 1], spans[i, 2], spans[i, 3]
        own, passed = 0.0, 0.0
        if eta > 0.0:
            passed = reached * eta / (eta + gamma) * (1.0 - stays * discount)
            own = max(reached * (1.0 - stays) - passed, 0.0)
        if ref < 0:
            found[0, label_of(forest, ~ref)] += weight * (1.0 - discount) + own
            weight = weight * discount + passed
            continue
        node = node_at(forest, tree, ref)
        if i32(node, STATS) == 0:
            continue
        row = row_of(forest, tree, node)
        ends = i == n - 1
        classes = classes_at(forest, row, 0)
        counted = classes if ends else classes_at(forest, row, N_MEMORIES)
        total = f32(row, TOTALS) if ends else f32(row, TOTALS + N_MEMORIES)
        if not total > 0.0:
            continue
        n_seen = 0.0
        for k in range(n_classes):
            n_seen += 1.0 if f32(classes, k) > 0.0 else 0.0
        each = own / n_seen - weight * discount / total
        per_count = weight / total
        for k in range(n_classes):
            count = f32(counted, k)
            if not ends and count > 1.0:
                # Of the sides 2 and 3 the numbers are 1 and 2.
                count -= 1.0
            found[0, k] += each + per_count * count if f32(classes, k) > 0.0 else 0.0
        weight = weight * discount * n_seen / total + passed
        for v in range(N_WEIGHTINGS - 1):
            stop = 1.0 if ends else f32(row, STOPS + v)
            per_sample = stop / (f32(row, TOTALS) + PRIORS[v] * n_classes)
            prior = per_sample * PRIORS[v]
            for k in range(n_classes):
                below[v, k] = (1.0 - stop) * below[v, k] + per_sample * f32(classes, k) + prior
        v = N_WEIGHTINGS - 1
        stop = 1.0 if ends else f32(row, STOPS + v)
        first = stop * memory_share(forest, row, 0)
        second = stop * memory_share(forest, row, 1)
        third = stop * memory_share(forest, row, 2)
        prior = first + second * f32(row, UNITS + 1) + third * f32(row, UNITS + 2)
        prior *= PRIORS[v]
        later, latest = classes_at(forest, row, 1), classes_at(forest, row, 2)
        for k in range(n_classes):
            here = first * f32(classes, k) + second * f32(later, k) + third * f32(latest, k)
            below[v, k] = (1.0 - stop) * below[v, k] + here + prior
    for k in range(n_classes):
        found[0, k] += weight / n_classes
        for v in range(N_WEIGHTINGS):
            found[1 + v, k] += below[v, k]


@kernel
def predict(
    forest: int,
    values: int,
    row: int,
    paths: np.ndarray,
    lengths: np.ndarray,
    spans: np.ndarray,
    out: np.ndarray,
) -> int:
    """Average the posteriors of the trees of each role into `out`, with the ways down the trees.

    Its shape is (2, N_POSTERIORS, classes): of all samples and of recent ones; the first stand in
    where there are no trees of the second. Returns -1, or the input that is too large.
    """
    bad = scale_into(forest, row, values)
    if bad >= 0:
        return bad
    walk_all(forest, row, paths, lengths)
    out[:] = 0.0
    n_trees = np.zeros(2, np.int64)
    for t in range(i64(forest, N_TREES)):
        if lengths[t] > 0:
            tree = tree_at(forest, t)
            r = i64(tree, ROLE) - LONG
            x = row + i64(tree, OFFSET)
            predict_tree(forest, t, x, paths[t], lengths[t], spans, out[r])
            n_trees[r] += 1
    for r in range(2):
        for e in range(out.shape[1]):
            for k in range(out.shape[2]):
                if n_trees[r] > 0:
                    out[r, e, k] /= n_trees[r]
                else:
                    out[r, e, k] = out[0, e, k]
    return -1


# Learning.


@kernel
def needs_room(forest: int) -> int:
    """Return a tree that needs room before it learns, or -1."""
    for t in range(i64(forest, N_TREES)):
        tree = tree_at(forest, t)
        if i64(tree, ROLE) != IDLE and (
            i64(tree, N_ROWS) + ROOM > i64(tree, ROW_CAPACITY)
            or i64(tree, N_COUNTS) + ROOM > i64(tree, COUNT_CAPACITY)
        ):
            return t
    return -1


@kernel
def learn_one(
    forest: int,
    values: int,
    label: int,
    point: int,
    budget: int,
    paths: np.ndarray,
    lengths: np.ndarray,
    walked: bool,
    backlog: int,
) -> int:
    """Store a sample as `point` and let all trees in use learn it, then split what waits.

    `walked` tells that its ways down the trees are known, `backlog` how many samples are yet to be
    shown to a tree that is being shown them. Every tree has room for `ROOM` more rows. Returns -1,
    or the input that is too large.
    """
    bad = store_values(forest, values, point)
    if bad >= 0:
        return bad
    put_label(forest, label, point)
    n_trees = i64(forest, N_TREES)
    if not walked:
        walk_all(forest, point_at(forest, point), paths, lengths)
    for t in range(n_trees):
        tree = tree_at(forest, t)
        role = i64(tree, ROLE)
        # A tree that is still given its points gets this one in its turn.
        takes = role in (LONG, RECENT, SPLITS, REPLAYS)
        put_i64(tree, WALK_POINT, point)
        put_i64(tree, WALK_END, point + 1 if takes else point)
        put_i64(tree, WALK_REF, START)
        if lengths[t] > 0:
            weigh(forest, t, paths[t], lengths[t], label, np.int64(-1))
    extend(forest, np.int64(0), n_trees, np.int64(LANES))
    for t in range(n_trees):
        role = i64(tree_at(forest, t), ROLE)
        if role in (LONG, RECENT):
            see(forest, t, point, paths[t], True)
            split_queued(forest, t, budget, point, True)
        elif role == REPLAYS:
            catch_up(forest, t, point, paths[t], backlog)
    return -1


# Building a tree anew, a part at a time.


@kernel
def begin(forest: int, t: int) -> None:
    """Empty a tree that is going to be built from points."""
    tree = tree_at(forest, t)
    put_i64(tree, N_ROWS, 0)
    put_i64(tree, N_COUNTS, 0)
    put_i64(tree, N_SPLITS, 0)
    put_i64(tree, QUEUE, NONE)
    put_i64(tree, ROOT, new_leaf(forest, tree))
    put_i64(tree, ROLE, GATHERS)
    gains = i64(forest, GAINS) + 8 * i64(forest, N_DIMS) * t
    for d in range(i64(forest, N_DIMS)):
        put_f64(gains, d, 0.0)


@kernel
def gather(forest: int, t: int, start: int, stop: int) -> None:
    """Put the points numbered `start` to `stop` into the root of a tree that is being built."""
    tree = tree_at(forest, t)
    node = node_at(forest, tree, i64(tree, ROOT))
    for i in range(start, stop):
        put_point(forest, t, node, i % i64(forest, RING))


@kernel
def replay(forest: int, t: int, start: int, stop: int) -> int:
    """Let a tree see the points numbered `start` to `stop` in order; returns where it stopped.

    It stops where a tree has no room for the statistics of a path.
    """
    tree = tree_at(forest, t)
    path = np.empty(DEEPEST + 1, np.int64)
    for i in range(start, stop):
        p = i % i64(forest, RING)
        n = path_to(forest, t, values_at(forest, tree, p), path)
        if i64(tree, N_COUNTS) + n > i64(tree, COUNT_CAPACITY):
            return i
        weigh(forest, t, path, n, label_of(forest, p), p)
        see(forest, t, p, path, False)
    return stop
