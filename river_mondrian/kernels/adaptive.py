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

from . import discriminants, experts
from .access import (
    counts_at,
    label_of,
    link_at,
    lower_of,
    node_at,
    tree_at,
    upper_of,
    values_at,
)
from .hnsp import most_probable, put_label
from .layout import (
    CANDIDATES,
    CLASS_CAPACITY,
    COUNT,
    COUNT_CAPACITY,
    COUNT_WIDTH,
    DELTA,
    DIM,
    DIM_WEIGHTS,
    DISCRIMINANTS,
    EMPTY,
    FOUND,
    GAINS,
    GAMMA,
    INPUT_CAPACITY,
    LAST_VALUES,
    LEFT,
    LENGTHS,
    LOGS,
    N_CANDIDATES,
    N_CLASSES,
    N_COUNTS,
    N_DIMS,
    N_INPUTS,
    N_ROWS,
    N_SPLITS,
    N_TREES,
    N_VALUES,
    NODE_WIDTH,
    NONE,
    OFFSET,
    OUT,
    PATHS,
    PENDING,
    POOLED,
    PREDICTED,
    QUEUE,
    RIGHT,
    RING,
    ROLE,
    ROOT,
    ROOT_FORGETS,
    ROW_CAPACITY,
    SETTLED,
    STANDARDIZED,
    STATE,
    STATS,
    STEPS,
    SUMS,
    WALK_END,
    WALK_POINT,
    WALK_REF,
)
from .memory import (
    direct,
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
    put_single,
    single,
)
from .mondrian import (
    START,
    distance_to,
    linear_dimension,
    new_leaf,
    part_leaf,
    put_point,
    side_of,
    uniform_cut,
)
from .random import exponential, uniform
from .scaling import scale_into, store_values

# A row of statistics: of three weightings the probability to stop at the node; the shares of the
# memories; each memory's weight of all samples, and the sum of c (Algorithm 5); each memory's unit;
# the number of classes seen; then the classes of the memories, and the sides to which each class
# has gone: LEFT_ONLY, RIGHT_ONLY or BOTH, whose sizes are c. A memory does not decay: its unit
# grows, the weight that its latest sample has.
STOPS = 0
SHARES = 3
TOTALS = 6
UNITS = 10
N_SEEN = 13
STATS_HEAD = 14
N_MEMORIES = 3
N_PARTS = N_MEMORIES + 1
LEFT_ONLY = 1.0
RIGHT_ONLY = -1.0
BOTH = 2.0
GROWTHS = (1.0, 1.0 / 0.95, 1.0 / 0.7)
# Unit at which a memory is scaled back.
LARGEST_UNIT = 1e15

# Dirichlet prior and prior probability to stop, of the three weightings. The first memory says the
# same in the last two.
PRIORS = (0.5, 0.05, 0.05)
STOP_PRIORS = (0.5, 0.1, 0.1)
N_WEIGHTINGS = 3
N_POSTERIORS = 1 + N_WEIGHTINGS
# Those of trees of all samples, of recent ones, and of both; then of linear discriminants.
N_TREE_EXPERTS = 3 * N_POSTERIORS
N_EXPERTS = N_TREE_EXPERTS + discriminants.N_DISCRIMINANTS

# Share that the memories of a node exchange at each visit, and the bounds of a stop probability.
SHARE_RATE = 0.02
LEAST_STOP = 1e-4

# Points of a block on which candidates are compared.
GAIN_SAMPLE = 256
# Path length at which a walk stops.
DEEPEST = 512
PATH_WORDS = DEEPEST + 1
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
        seen = f32(classes, label)
        if m == 0 and seen == 0.0:
            put_f32(row, N_SEEN, f32(row, N_SEEN) + 1.0)
        put_f32(classes, label, seen + unit)
        put_f32(row, TOTALS + m, f32(row, TOTALS + m) + unit)


@inlined
def add_side(forest: int, row: int, label: int, side: int) -> None:
    """Note on which side of a cut a class has gone."""
    classes = classes_at(forest, row, N_MEMORIES)
    sides = f32(classes, label)
    own = LEFT_ONLY if side == LEFT else RIGHT_ONLY
    if sides != own and sides != BOTH:
        put_f32(classes, label, own if sides == 0.0 else BOTH)
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
    put_f32(target, N_SEEN, f32(source, N_SEEN))
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


@inlined
def sort_descending(numbers: np.ndarray) -> None:
    """Sort in place (Shell's sort): NumPy's takes seconds to compile."""
    n = len(numbers)
    gap = n
    while gap > 1:
        gap = max(gap * 4 // 9, 1)
        for i in range(gap, n):
            number = numbers[i]
            j = i
            while j >= gap and numbers[j - gap] < number:
                numbers[j] = numbers[j - gap]
                j -= gap
            numbers[j] = number


@kernel
def see_block(forest: int, t: int, j: int, last: int) -> None:
    """Make the statistics of a leaf's row from its points; `last` is the latest point of all."""
    tree = tree_at(forest, t)
    node = node_at(forest, tree, j)
    ring = i64(forest, RING)
    ages = np.empty(i32(node, COUNT), np.int64)
    p = i32(node, LEFT)
    for i in range(len(ages)):
        ages[i] = (last - p) % ring
        p = i32(link_at(forest, p, t), 0)
    sort_descending(ages)
    row = new_stats(forest, tree, node)
    for i in range(len(ages)):
        remember(forest, row, label_of(forest, (last - ages[i]) % ring), True)


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
    if f32(row_of(forest, tree, node), N_SEEN) > 1.0:
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


# A candidate: its dimension and cut; behind all of them are the numbers of points of each class at
# its sides, and of those of which the value is missing.
CANDIDATE_DIM = 0
CANDIDATE_CUT = 1
CANDIDATE_WORDS = 2
N_SIDES = 3


def scratch_words(n_dims: int, n_classes: int, n_candidates: int) -> int:
    """Return how many words `draw_guided` needs."""
    return n_dims + 2 * n_classes + n_candidates * (CANDIDATE_WORDS + N_SIDES * n_classes)


@inlined
def sum_sides(lower: int, upper: int, n_dims: int, weights: int, sums: int) -> None:
    """Write the sums of a box's sides times weights up to each dimension."""
    total = 0.0
    for d in range(n_dims):
        side = f32(upper, d) - f32(lower, d)
        # A side without values is NaN.
        total += f64(weights, d) * (side if side > 0.0 else 0.0)
        put_f64(sums, d, total)


@inlined
def gain_of(left: int, right: int, n_classes: int) -> float:
    """Return the Gini gain of a cut, times the number of points, from the classes at its sides."""
    n_left, n_right, squares_left, squares_right, squares = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(n_classes):
        a, b = f64(left, k), f64(right, k)
        n_left += a
        n_right += b
        squares_left += a * a
        squares_right += b * b
        squares += (a + b) * (a + b)
    if n_left == 0.0 or n_right == 0.0:
        return 0.0
    return squares_left / n_left + squares_right / n_right - squares / (n_left + n_right)


@inlined
def draw_candidates(
    tree: int, lower: int, upper: int, sums: int, n_dims: int, candidates: int, m: int
) -> None:
    """Draw `m` cuts, each of which has the Mondrian law of sides with these sums.

    Dimensions are drawn by systematic sampling: one whose sides are a part of all gets as large a
    part of the cuts, rounded up or down. Where the cuts begin is drawn, too, since of several that
    are as good the first is kept.
    """
    step = f64(sums, n_dims - 1) / m
    threshold = uniform(tree) * step
    place = np.int64(uniform(tree) * m)
    d = 0
    for _ in range(m):
        while d < n_dims - 1 and f64(sums, d) <= threshold:
            d += 1
        # Rounding may have reached the end, where sides can be empty.
        while not f32(upper, d) > f32(lower, d):
            d -= 1
        place = place + 1 if place + 1 < m else 0
        candidate = candidates + 8 * CANDIDATE_WORDS * place
        put_i64(candidate, CANDIDATE_DIM, d)
        put_f64(candidate, CANDIDATE_CUT, uniform_cut(tree, f32(lower, d), f32(upper, d)))
        threshold += step


@kernel
def draw_guided(forest: int, t: int, j: int) -> tuple[int, float]:
    """Draw candidates of a block's first cut; returns the one with the largest Gini gain.

    The gain is added to those of its dimension.
    """
    tree = tree_at(forest, t)
    node = node_at(forest, tree, j)
    lower, upper = lower_of(forest, node), upper_of(forest, node)
    n_dims, count = i64(forest, N_DIMS), i32(node, COUNT)
    # Few points can be parted in few ways; two in one.
    m = min(i64(forest, N_CANDIDATES), 3 * count - 5)
    # The block's classes are numbered anew, from 1 on: most blocks have few.
    numbers = i64(forest, CANDIDATES) + 8 * n_dims
    present = numbers + 8 * i64(forest, CLASS_CAPACITY)
    candidates = present + 8 * i64(forest, CLASS_CAPACITY)
    tables = candidates + 8 * CANDIDATE_WORDS * m
    width = min(i64(forest, N_CLASSES), count)
    sums = i64(forest, CANDIDATES)
    sum_sides(lower, upper, n_dims, i64(forest, DIM_WEIGHTS), sums)
    draw_candidates(tree, lower, upper, sums, n_dims, candidates, m)
    for w in range(m * N_SIDES * width):
        put_f64(tables, w, 0.0)
    n_present = 0
    step = max(1, count // GAIN_SAMPLE)
    p = i32(node, LEFT)
    i = 0
    while p != NONE:
        if i % step == 0:
            x = values_at(forest, tree, p)
            label = label_of(forest, p)
            if i64(numbers, label) == 0:
                put_i64(present, n_present, label)
                n_present += 1
                put_i64(numbers, label, n_present)
            place = i64(numbers, label) - 1
            for c in range(m):
                candidate = candidates + 8 * CANDIDATE_WORDS * c
                v = f32(x, i64(candidate, CANDIDATE_DIM))
                # Without a branch, which could not be foreseen.
                side = np.int64(v > f64(candidate, CANDIDATE_CUT)) + 2 * np.int64(v != v)
                k = place + width * side
                put_f64(tables, k, f64(tables, k) + 1.0)
                place += N_SIDES * width
        i += 1
        p = i32(link_at(forest, p, t), 0)
    for k in range(n_present):
        put_i64(numbers, i64(present, k), np.int64(0))
    best, most = candidates, -1.0
    for c in range(m):
        left = tables + 8 * N_SIDES * width * c
        gain = gain_of(left, left + 8 * width, n_present)
        if gain > most:
            best, most = candidates + 8 * CANDIDATE_WORDS * c, gain
    dim = i64(best, CANDIDATE_DIM)
    gains = i64(forest, GAINS) + 8 * n_dims * t
    put_f64(gains, dim, f64(gains, dim) + max(most, 0.0) * step)
    return dim, f64(best, CANDIDATE_CUT)


@inlined
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
    dim, cut = draw_guided(forest, t, j)
    kept = i32(node, STATS)
    part_leaf(forest, t, j, dim, cut, time, 0.0)
    put_i32(node, STATS, kept)
    return True


@kernel
def split_queued(forest: int, t: int, budget: int, last: int) -> int:
    """Split leaves that wait in a tree; returns what is left of the budget.

    A split costs its number of points. Where the tree has been shown its points, the latest of
    which is `last`, the new rows get their statistics; else `last` is NONE.
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
            if last == NONE:
                wait(forest, t, child)
            elif child >= 0:
                see_block(forest, t, child, last)
                enqueue(forest, tree, child)
        if last != NONE:
            row = row_of(forest, tree, node)
            for s in range(2):
                for k in range(n_classes):
                    if has_seen(forest, tree, i32(node, LEFT + s), k):
                        add_side(forest, row, k, LEFT + s)
    return budget


@direct
def split_all(forest: int, budget: int, last: int) -> None:
    """Split leaves that wait in the trees that predict, each tree by a budget of its own."""
    for t in range(i64(forest, N_TREES)):
        tree = tree_at(forest, t)
        if i64(tree, QUEUE) != NONE and i64(tree, ROLE) in (LONG, RECENT):
            split_queued(forest, t, budget, last)


@inlined
def chance(forest: int, row: int, label: int, memory: int, alpha: float) -> float:
    """Return a memory's Dirichlet estimate of a class."""
    n_classes = i64(forest, N_CLASSES)
    seen = f32(classes_at(forest, row, memory), label)
    prior = alpha * f32(row, UNITS + memory)
    return (seen + prior) / (f32(row, TOTALS + memory) + prior * n_classes)


@kernel
def path_to(forest: int, t: int, x: int, path: int) -> int:
    """Write the references on a sample's way down a tree; returns how many."""
    tree = tree_at(forest, t)
    ref = i64(tree, ROOT)
    n = 0
    while True:
        put_i64(path, n, ref)
        n += 1
        if ref < 0 or n == DEEPEST:
            return n
        node = node_at(forest, tree, ref)
        if i32(node, DIM) < 0:
            return n
        ref = i32(node, side_of(forest, tree, node, x))


@inlined
def path_in(forest: int, t: int) -> int:
    """Return the address of a tree's path in the scratch."""
    return i64(forest, PATHS) + 8 * PATH_WORDS * t


@inlined
def rows_before(forest: int) -> int:
    """Return the address of the trees' numbers of rows before they were extended."""
    return i64(forest, LENGTHS) + 8 * i64(forest, N_TREES)


@kernel
def walk_all(forest: int, row: int) -> None:
    """Write a scaled sample's ways down all trees that predict into the scratch.

    The trees are walked in lock-step, so that one tree's cache misses overlap another's. Trees that
    do not predict get the length 0.
    """
    n_trees = i64(forest, N_TREES)
    lengths = i64(forest, LENGTHS)
    # Until the trees are extended, the trees that are still on their way are kept there.
    active = rows_before(forest)
    node_bytes = 4 * i64(forest, NODE_WIDTH)
    stats_bytes = 4 * i64(forest, COUNT_WIDTH)
    n_active = 0
    for t in range(n_trees):
        tree = tree_at(forest, t)
        put_i64(lengths, t, np.int64(0))
        if i64(tree, ROLE) in (LONG, RECENT) and i64(tree, ROOT) != EMPTY:
            put_i64(path_in(forest, t), 0, i64(tree, ROOT))
            put_i64(active, n_active, t)
            n_active += 1
    depth = 0
    while n_active > 0:
        still = 0
        for i in range(n_active):
            t = i64(active, i)
            tree = tree_at(forest, t)
            path = path_in(forest, t)
            ref = i64(path, depth)
            put_i64(lengths, t, depth + 1)
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
            put_i64(path, depth + 1, child)
            put_i64(active, still, t)
            still += 1
        n_active = still
        depth += 1


@inlined
def learn_stop(row: int, v: int, here: float, below: float, ends: bool) -> float:
    """Let a weighting's probability to stop learn; returns the chance of what it predicted."""
    if ends:
        return here
    stop = f32(row, STOPS + v)
    stopped = stop * here
    mixed = stopped + (1.0 - stop) * below
    put_f32(row, STOPS + v, min(max(stopped / mixed, LEAST_STOP), 1.0 - LEAST_STOP))
    return mixed


@kernel
def weigh(forest: int, t: int, path: int, n: int, label: int, own: int) -> None:
    """Let the weights on a sample's path learn from how well nodes and children predicted it.

    `own` is the sample's point where it is in the tree already: as a leaf it has seen nothing.
    """
    tree = tree_at(forest, t)
    n_classes = i64(forest, N_CLASSES)
    # Chances that the weightings below have given the class.
    noisy, deep, mixed = 0.0, 0.0, 0.0
    for i in range(n - 1, -1, -1):
        ref = i64(path, i)
        if ref < 0 or i32(node_at(forest, tree, ref), STATS) == 0:
            is_point = ref < 0 and ~ref != own
            size = 1.0 if is_point else 0.0
            same = 1.0 if is_point and label_of(forest, ~ref) == label else 0.0
            noisy = (same + PRIORS[0]) / (size + PRIORS[0] * n_classes)
            deep = (same + PRIORS[1]) / (size + PRIORS[1] * n_classes)
            mixed = (same + PRIORS[2]) / (size + PRIORS[2] * n_classes)
            continue
        row = row_of(forest, tree, node_at(forest, tree, ref))
        ends = i == n - 1
        of_all = chance(forest, row, label, 0, PRIORS[1])
        first = f32(row, SHARES) * of_all
        second = f32(row, SHARES + 1) * chance(forest, row, label, 1, PRIORS[2])
        third = f32(row, SHARES + 2) * chance(forest, row, label, 2, PRIORS[2])
        total = first + second + third
        kept = (1.0 - SHARE_RATE) / total
        put_f32(row, SHARES, kept * first + SHARE_RATE / N_MEMORIES)
        put_f32(row, SHARES + 1, kept * second + SHARE_RATE / N_MEMORIES)
        put_f32(row, SHARES + 2, kept * third + SHARE_RATE / N_MEMORIES)
        noisy = learn_stop(row, 0, chance(forest, row, label, 0, PRIORS[0]), noisy, ends)
        deep = learn_stop(row, 1, of_all, deep, ends)
        mixed = learn_stop(row, 2, total, mixed, ends)


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
def catch_up(forest: int, t: int, p: int, backlog: int) -> None:
    """Give the rows that a tree has got by point `p` their statistics, while it is being shown.

    The point itself will be shown in its turn.
    """
    tree = tree_at(forest, t)
    path = path_in(forest, t)
    for i in range(path_to(forest, t, values_at(forest, tree, p), path)):
        ref = i64(path, i)
        if ref >= 0:
            node = node_at(forest, tree, ref)
            if i32(node, DIM) < 0 or i32(node, LEFT) == ~p or i32(node, RIGHT) == ~p:
                ensure_stats(forest, t, ref, p, backlog)


@inlined
def see(forest: int, t: int, p: int, path: int, n: int, grown: bool) -> None:
    """Let the rows on the path of a point that is in the tree see it.

    `grown` tells that the tree has just been extended by it, so that rows may be new; else the
    points before are seen in order, and rows are new when the first comes.
    """
    tree = tree_at(forest, t)
    label = label_of(forest, p)
    for i in range(n):
        ref = i64(path, i)
        if ref < 0:
            return
        node = node_at(forest, tree, ref)
        if grown:
            ensure_stats(forest, t, ref, p, np.int64(0))
        if i32(node, STATS) == 0:
            new_stats(forest, tree, node)
        row = row_of(forest, tree, node)
        if i + 1 < n:
            add_side(forest, row, label, LEFT if i32(node, LEFT) == i64(path, i + 1) else RIGHT)
        remember(forest, row, label, i > 0 or i64(forest, ROOT_FORGETS) == 1)
        if i32(node, DIM) < 0:
            enqueue(forest, tree, ref)


# Prediction.


# A step of a sample's way down a tree: the rate of branching off, the probabilities to come there
# and to go on, the discount; the row of statistics, or 0; and what the row's classes are multiplied
# with in two of the weightings, and each memory's in the third.
ETA = 0
REACH = 1
STAYS = 2
DISCOUNT = 3
ROW = 4
OF_CLASSES = 5
OF_MEMORIES = OF_CLASSES + N_WEIGHTINGS - 1
STEP_WORDS = OF_MEMORIES + N_MEMORIES


@inlined
def add_to(out: int, k: int, weight: float) -> None:
    """Add to the k-th number of a posterior."""
    put_f32(out, k, f32(out, k) + weight)


@inlined
def posterior_of(forest: int, found: int, e: int) -> int:
    """Return the address of a posterior."""
    return found + 4 * i64(forest, CLASS_CAPACITY) * e


@inlined
def take(forest: int, row: int, step: int, v: int, rest: float, ends: bool) -> float:
    """Let a weighting stop at a row with its probability; returns what goes on of the `rest`."""
    stop = rest if ends else rest * f32(row, STOPS + v)
    n_classes = i64(forest, N_CLASSES)
    if v < N_WEIGHTINGS - 1:
        put_f64(step, OF_CLASSES + v, stop / (f32(row, TOTALS) + PRIORS[v] * n_classes))
    else:
        for m in range(N_MEMORIES):
            prior = PRIORS[v] * f32(row, UNITS + m) * n_classes
            put_f64(
                step,
                OF_MEMORIES + m,
                stop * f32(row, SHARES + m) / (f32(row, TOTALS + m) + prior),
            )
    return rest - stop


@inlined
def follow(forest: int, t: int, x: int, path: int, n: int, steps: int, found: int) -> float:
    """Take the steps of a scaled sample's way; returns the probability not to branch off.

    What weightings give to a last point's class, and to all where nothing is known, is added to
    what is found.
    """
    tree = tree_at(forest, t)
    gamma = f64(forest, GAMMA)
    n_classes = i64(forest, N_CLASSES)
    reach = 1.0
    # What no node above has taken.
    noisy, deep, mixed = 1.0, 1.0, 1.0
    for i in range(n):
        ref = i64(path, i)
        step = steps + 8 * STEP_WORDS * i
        ends = i == n - 1
        eta = distance_to(forest, tree, ref, x)
        span = math.inf if ends else f32(node_at(forest, tree, ref), DELTA)
        stays = math.exp(-eta * span) if eta > 0.0 else 1.0
        put_f64(step, ETA, eta)
        put_f64(step, REACH, reach)
        put_f64(step, STAYS, stays)
        put_f64(step, DISCOUNT, 0.0 if ends else math.exp(-gamma * span))
        put_i64(step, ROW, np.int64(0))
        reach *= stays
        if ref < 0 or i32(node_at(forest, tree, ref), STATS) == 0:
            continue
        row = row_of(forest, tree, node_at(forest, tree, ref))
        if f32(row, N_SEEN) > 0.0:
            put_i64(step, ROW, row)
            noisy = take(forest, row, step, np.int64(0), noisy, ends)
            deep = take(forest, row, step, np.int64(1), deep, ends)
            mixed = take(forest, row, step, np.int64(2), mixed, ends)
    last = i64(path, n - 1)
    for v, rest in enumerate((noisy, deep, mixed)):
        out = posterior_of(forest, found, 1 + v)
        each = rest / ((1.0 if last < 0 else 0.0) + PRIORS[v] * n_classes)
        for k in range(n_classes):
            add_to(out, k, PRIORS[v] * each)
        if last < 0:
            add_to(out, label_of(forest, ~last), each)
    return reach


@inlined
def add_row(
    forest: int, step: int, of_c: float, of_presence: float, ends: bool, found: int
) -> None:
    """Add a row's part to all posteriors; the HNSP's is of c and of the presence of classes."""
    row = i64(step, ROW)
    nothing, c_weight = np.float32(0.0), np.float32(of_c)
    presence = np.float32(of_presence)
    of_noisy, of_deep = np.float32(f64(step, OF_CLASSES)), np.float32(f64(step, OF_CLASSES + 1))
    of_all = np.float32(f64(step, OF_MEMORIES))
    of_later = np.float32(f64(step, OF_MEMORIES + 1))
    of_latest = np.float32(f64(step, OF_MEMORIES + 2))
    noisy = np.float32(PRIORS[0] * f64(step, OF_CLASSES))
    deep = np.float32(PRIORS[1] * f64(step, OF_CLASSES + 1))
    prior = 0.0
    for m in range(N_MEMORIES):
        prior += f64(step, OF_MEMORIES + m) * f32(row, UNITS + m)
    mixed = np.float32(PRIORS[2] * prior)
    classes, later = classes_at(forest, row, 0), classes_at(forest, row, 1)
    latest = classes_at(forest, row, 2)
    counted = classes if ends else classes_at(forest, row, N_MEMORIES)
    first, second = posterior_of(forest, found, 1), posterior_of(forest, found, 2)
    third = posterior_of(forest, found, 3)
    # What is there of classes to come is not read.
    for k in range(i64(forest, CLASS_CAPACITY)):
        seen = single(classes, k)
        own = c_weight * abs(single(counted, k)) + (presence if seen > nothing else nothing)
        put_single(found, k, single(found, k) + own)
        put_single(first, k, single(first, k) + of_noisy * seen + noisy)
        put_single(second, k, single(second, k) + of_deep * seen + deep)
        memories = of_all * seen + of_later * single(later, k) + of_latest * single(latest, k)
        put_single(third, k, single(third, k) + memories + mixed)


@kernel
def predict_tree(forest: int, t: int, x: int, path: int, n: int, steps: int, found: int) -> None:
    """Add a tree's posteriors for a scaled sample to `found`, rows of CLASS_CAPACITY float32.

    The first is the HNSP, which integrates over branching off (Algorithm 8); the others follow the
    sample to its leaf. `steps` has room for `n` steps.
    """
    gamma = f64(forest, GAMMA)
    weight = follow(forest, t, x, path, n, steps, found)
    for i in range(n - 1, -1, -1):
        step = steps + 8 * STEP_WORDS * i
        eta, discount = f64(step, ETA), f64(step, DISCOUNT)
        # Weight of the node's own classes, and of its parent's distribution, on branching off.
        own, passed = 0.0, 0.0
        if eta > 0.0:
            reach, stays = f64(step, REACH), f64(step, STAYS)
            passed = reach * eta / (eta + gamma) * (1.0 - stays * discount)
            own = max(reach * (1.0 - stays) - passed, 0.0)
        row = i64(step, ROW)
        if row != 0:
            ends = i == n - 1
            n_seen = f32(row, N_SEEN)
            total = f32(row, TOTALS) if ends else f32(row, TOTALS + N_MEMORIES)
            of_presence = own / n_seen - weight * discount / total
            add_row(forest, step, weight / total, of_presence, ends, found)
            weight = weight * discount * n_seen / total + passed
        elif i64(path, i) < 0:
            add_to(found, label_of(forest, ~i64(path, i)), weight * (1.0 - discount) + own)
            weight = weight * discount + passed
    n_classes = i64(forest, N_CLASSES)
    for k in range(n_classes):
        add_to(found, k, weight / n_classes)


@inlined
def mixture_of(forest: int) -> tuple[int, int, int, int, int, int, int]:
    """Return the sizes and addresses of the mixture, as `experts` takes them."""
    return (
        np.int64(N_EXPERTS),
        i64(forest, N_CLASSES),
        i64(forest, CLASS_CAPACITY),
        i64(forest, FOUND),
        i64(forest, STATE),
        i64(forest, LOGS),
        i64(forest, POOLED),
    )


@inlined
def discriminants_of(forest: int, values: int) -> tuple[int, int, int, int, int, int, int, int]:
    """Return sizes and addresses as `discriminants` takes them."""
    return (
        i64(forest, N_CLASSES),
        i64(forest, CLASS_CAPACITY),
        i64(forest, N_INPUTS),
        1 + i64(forest, INPUT_CAPACITY),
        i64(forest, DISCRIMINANTS),
        values,
        i64(forest, STANDARDIZED),
        experts.place(i64(forest, FOUND), i64(forest, CLASS_CAPACITY), N_TREE_EXPERTS),
    )


@inlined
def is_last(forest: int, values: int) -> bool:
    """Tell whether values are those predicted last."""
    last = i64(forest, LAST_VALUES)
    for i in range(i64(forest, INPUT_CAPACITY)):
        if i64(last, i) != i64(values, i):
            return False
    return True


@direct
def predict(forest: int, values: int, row: int, n: int) -> int:
    """Predict a sample, as the trees are after `n` samples; remembers that it has.

    The posteriors of the trees of each role are averaged: of all samples, then of recent ones,
    where the first stand in if there are no such trees; then the mean of both; discriminants
    follow. Returns the most probable class, or `-2 - input` where a value is too large.
    """
    if i64(forest, PREDICTED) == n and is_last(forest, values):
        return most_probable(i64(forest, OUT), i64(forest, N_CLASSES))
    bad = scale_into(forest, row, values)
    if bad >= 0:
        return -2 - bad
    walk_all(forest, row)
    found, sums, steps = i64(forest, FOUND), i64(forest, SUMS), i64(forest, STEPS)
    width = N_POSTERIORS * i64(forest, CLASS_CAPACITY)
    for k in range(2 * width):
        put_f32(sums, k, 0.0)
    n_long, n_recent = 0, 0
    for t in range(i64(forest, N_TREES)):
        length = i64(i64(forest, LENGTHS), t)
        if length > 0:
            tree = tree_at(forest, t)
            is_recent = i64(tree, ROLE) == RECENT
            out = sums + 4 * width if is_recent else sums
            x = row + i64(tree, OFFSET)
            predict_tree(forest, t, x, path_in(forest, t), length, steps, out)
            n_recent += 1 if is_recent else 0
            n_long += 0 if is_recent else 1
    for k in range(width):
        own = f32(sums, k) / n_long if n_long > 0 else 0.0
        put_f64(found, k, own)
        others = f32(sums, width + k) / n_recent if n_recent > 0 else own
        put_f64(found, width + k, others)
        put_f64(found, 2 * width + k, 0.5 * (own + others))
    discriminants.predict(*discriminants_of(forest, values))
    experts.combine(*mixture_of(forest), i64(forest, OUT))
    last = i64(forest, LAST_VALUES)
    for i in range(i64(forest, INPUT_CAPACITY)):
        put_i64(last, i, i64(values, i))
    put_i64(forest, PREDICTED, n)
    return most_probable(i64(forest, OUT), i64(forest, N_CLASSES))


# Learning.


@direct
def score(forest: int, values: int, label: int, is_new: int) -> bool:
    """Let the mixture learn the class of the sample predicted last; tells whether it was right.

    Of a class that is new the discriminants learn only: nothing can have foreseen it.
    """
    if not is_new:
        experts.learn(*mixture_of(forest), label)
    discriminants.learn(*discriminants_of(forest, values), label)
    return not is_new and most_probable(i64(forest, OUT), i64(forest, N_CLASSES)) == label


@inlined
def needs_room(forest: int) -> int:
    """Return a tree that needs room before it learns, or NONE."""
    for t in range(i64(forest, N_TREES)):
        tree = tree_at(forest, t)
        if i64(tree, ROLE) != IDLE and (
            i64(tree, N_ROWS) + ROOM > i64(tree, ROW_CAPACITY)
            or i64(tree, N_COUNTS) + ROOM > i64(tree, COUNT_CAPACITY)
        ):
            return t
    return NONE


@direct
def store(forest: int, values: int, label: int, point: int) -> int:
    """Store the sample predicted last for all trees in use, and let its ways down them learn.

    It is what `extend` lets the trees grow by. Every tree has room for `ROOM` more rows: else
    nothing is done and the tree that needs it is returned.
    """
    needy = needs_room(forest)
    if needy != NONE:
        return needy
    store_values(forest, values, point)
    put_label(forest, label, point)
    for t in range(i64(forest, N_TREES)):
        tree = tree_at(forest, t)
        # A tree that is still given its points gets this one in its turn.
        takes = i64(tree, ROLE) in (LONG, RECENT, SPLITS, REPLAYS)
        put_i64(tree, WALK_POINT, point)
        put_i64(tree, WALK_END, point + 1 if takes else point)
        put_i64(tree, WALK_REF, START)
        length = i64(i64(forest, LENGTHS), t)
        put_i64(rows_before(forest), t, i64(tree, N_ROWS))
        if length > 0:
            weigh(forest, t, path_in(forest, t), length, label, np.int64(-1))
    return NONE


@direct
def see_all(forest: int, point: int, backlog: int) -> None:
    """Let the trees see a point by which they have been extended.

    `backlog` tells how many samples are yet to be shown to a tree that is being shown them.
    """
    for t in range(i64(forest, N_TREES)):
        tree = tree_at(forest, t)
        role = i64(tree, ROLE)
        if role in (LONG, RECENT):
            path, n = path_in(forest, t), i64(i64(forest, LENGTHS), t)
            # Without a new row the way is that of the prediction.
            if n == 0 or i64(tree, N_ROWS) != i64(rows_before(forest), t):
                n = path_to(forest, t, values_at(forest, tree, point), path)
            see(forest, t, point, path, n, True)
        elif role == REPLAYS:
            catch_up(forest, t, point, backlog)


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
    path = path_in(forest, t)
    for i in range(start, stop):
        p = i % i64(forest, RING)
        n = path_to(forest, t, values_at(forest, tree, p), path)
        if i64(tree, N_COUNTS) + n > i64(tree, COUNT_CAPACITY):
            return i
        weigh(forest, t, path, n, label_of(forest, p), p)
        see(forest, t, p, path, n, False)
    return stop
