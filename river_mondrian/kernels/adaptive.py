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

from ..learners import discriminants, experts
from ..learners.discriminants import Discriminants
from ..learners.experts import Experts
from ..records import Float64s
from .access import label_of, link_at, lower_of, node_at, place_of, tree_at, upper_of, values_at
from .hnsp import most_probable, put_label
from .layout import (
    BUDGET,
    BUILT_FROM,
    CANDIDATES,
    CLASS_CAPACITY,
    COUNT,
    COUNT_CAPACITY,
    COUNT_WIDTH,
    CURSOR,
    DELTA,
    DIM,
    DIM_WEIGHTS,
    DISCRIMINANTS,
    EMPTY,
    EXTEND,
    FOUND,
    GAINS,
    GAMMA,
    INPUT_CAPACITY,
    LAST_VALUES,
    LEFT,
    LENGTHS,
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
    OUT,
    PATHS,
    PENDING,
    PREDICT_ANEW,
    PREDICTED,
    QUEUE,
    RIGHT,
    RING,
    ROLE,
    ROOT,
    ROOT_FORGETS,
    ROW_CAPACITY,
    SETTLED,
    SPLIT_ALL,
    STATE,
    STATS,
    STEPS,
    SUMS,
    WALK_END,
    WALK_PARENT,
    WALK_POINT,
    WALK_REF,
    WALK_SIDE,
)
from .memory import (
    call3,
    call4,
    called,
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
)
from .mondrian import (
    LANES,
    START,
    distance_at,
    linear_dimension,
    new_leaf,
    part_leaf,
    put_point,
    side_of,
    uniform_cut,
)
from .random import exponential, uniform
from .scaling import scale_into, store_values
from .statistics import (
    N_FORGETTING,
    N_MEMORIES,
    N_SAMPLES,
    N_SEEN,
    N_WEIGHTINGS,
    PRIORS,
    SHARES,
    STOPS,
    SUM_OF_C,
    TOTALS,
    UNITS,
    add_row,
    add_side,
    chance_of_all,
    chance_of_late,
    copy_stats,
    count_in,
    new_stats,
    remember,
    row_of,
)

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
# Rows that a call may need in a tree.
ROOM = 64

# What a call may spend, in points, on the splits of one tree.
SPLIT_BUDGET = 400

# To show a point to a tree costs as much as to split so many.
REPLAY_COST = 12

# What going on with building tells.
SPENT = 0
NEEDS_ROOM = 1
NEEDS_MORE = 2
BUILT = 3

# What learning a sample tells besides a tree that needs room.
RIGHT_CLASS = -1
WRONG_CLASS = -2
TOO_LARGE = -3

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
def has_seen(forest: int, tree: int, ref: int, label: int) -> bool:
    """Tell whether a class has passed what hangs at a reference with statistics, or a point."""
    if ref < 0:
        return label_of(forest, ~ref) == label
    node = node_at(forest, tree, ref)
    if i32(node, STATS) == 0:
        return False
    return count_in(row_of(forest, tree, node), label) > 0


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
    if i32(row_of(forest, tree, node), N_SEEN) > 1:
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


# A candidate: its dimension and cut. Behind all of them are their tables, of each class the numbers
# of points, in 32 bits, at either side and with a missing value, and a fourth that stays 0.
CANDIDATE_DIM = 0
CANDIDATE_CUT = 1
CANDIDATE_WORDS = 2
CLASS_BYTES = 16


def scratch_words(n_dims: int, n_classes: int, n_candidates: int) -> int:
    """Return how many words of 64 bits `draw_guided` needs."""
    return n_dims + 2 * n_classes + n_candidates * (CANDIDATE_WORDS + CLASS_BYTES // 8 * n_classes)


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
def gain_of(table: int, n_classes: int) -> float:
    """Return the Gini gain of a cut, times the number of points, from the classes at its sides."""
    n_left, n_right, squares_left, squares_right, squares = 0, 0, 0, 0, 0
    for k in range(n_classes):
        a, b = i32(table, 4 * k), i32(table, 4 * k + 1)
        n_left += a
        n_right += b
        squares_left += a * a
        squares_right += b * b
        squares += (a + b) * (a + b)
    if n_left == 0 or n_right == 0:
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
    table_bytes = CLASS_BYTES * min(i64(forest, N_CLASSES), count)
    sums = i64(forest, CANDIDATES)
    sum_sides(lower, upper, n_dims, i64(forest, DIM_WEIGHTS), sums)
    draw_candidates(tree, lower, upper, sums, n_dims, candidates, m)
    for w in range(m * table_bytes // 8):
        put_i64(tables, w, np.int64(0))
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
            counts = tables + CLASS_BYTES * (i64(numbers, label) - 1)
            for c in range(m):
                candidate = candidates + 8 * CANDIDATE_WORDS * c
                v = f32(x, i64(candidate, CANDIDATE_DIM))
                # Without a branch, which could not be foreseen.
                side = np.int64(v > f64(candidate, CANDIDATE_CUT)) + 2 * np.int64(v != v)
                put_i32(counts, side, i32(counts, side) + 1)
                counts += table_bytes
        i += 1
        p = i32(link_at(forest, p, t), 0)
    for k in range(n_present):
        put_i64(numbers, i64(present, k), np.int64(0))
    best, most = candidates, -1.0
    for c in range(m):
        gain = gain_of(tables + table_bytes * c, n_present)
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
                        add_side(row, k, LEFT + s)
    return budget


@called
def split_all(forest: int, budget: int, last: int) -> int:
    """Split leaves that wait in the trees that predict, each tree by a budget of its own.

    It is called by address.
    """
    for t in range(i64(forest, N_TREES)):
        tree = tree_at(forest, t)
        if i64(tree, QUEUE) != NONE and i64(tree, ROLE) in (LONG, RECENT):
            split_queued(forest, t, budget, last)
    return 0


# An entry of a path: the reference, the address of its row or, for a point, of its values, and that
# of its statistics, 0 where it has none.
REF = 0
PLACE = 1
ROW = 2
ENTRY_WORDS = 3
PATH_WORDS = ENTRY_WORDS * (DEEPEST + 1)


@inlined
def entry_at(path: int, i: int) -> int:
    """Return the address of the i-th entry of a path."""
    return path + 8 * ENTRY_WORDS * i


@inlined
def stats_of(forest: int, tree: int, ref: int, place: int) -> int:
    """Return the address of the statistics at a reference, 0 where it has none."""
    if ref < 0 or i32(place, STATS) == 0:
        return 0
    return row_of(forest, tree, place)


@kernel
def path_from(forest: int, t: int, x: int, path: int, n: int, ref: int) -> int:
    """Write a sample's way down a tree from a reference on, behind `n` entries.

    Returns how many entries there are then.
    """
    tree = tree_at(forest, t)
    while True:
        entry = entry_at(path, n)
        place = place_of(forest, tree, ref)
        put_i64(entry, REF, ref)
        put_i64(entry, PLACE, place)
        put_i64(entry, ROW, stats_of(forest, tree, ref, place))
        n += 1
        if ref < 0 or n >= DEEPEST or i32(place, DIM) < 0:
            return n
        ref = i32(place, side_of(forest, tree, place, x))


@inlined
def path_to(forest: int, t: int, x: int, path: int) -> int:
    """Write a sample's way down a tree; returns how many entries it has."""
    return path_from(forest, t, x, path, np.int64(0), i64(tree_at(forest, t), ROOT))


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
            ref = i64(tree, ROOT)
            put_i64(path_in(forest, t), REF, ref)
            put_i64(path_in(forest, t), PLACE, place_of(forest, tree, ref))
            put_i64(active, n_active, t)
            n_active += 1
    depth = 0
    while n_active > 0:
        still = 0
        for i in range(n_active):
            t = i64(active, i)
            tree = tree_at(forest, t)
            entry = entry_at(path_in(forest, t), depth)
            ref, place = i64(entry, REF), i64(entry, PLACE)
            stats = stats_of(forest, tree, ref, place)
            put_i64(entry, ROW, stats)
            put_i64(lengths, t, depth + 1)
            if stats != 0:
                prefetch(stats, stats_bytes)
            if ref < 0 or depth + 1 == DEEPEST or i32(place, DIM) < 0:
                continue
            child = i32(place, side_of(forest, tree, place, row + i64(tree, OFFSET)))
            place = place_of(forest, tree, child)
            prefetch(place, node_bytes if child >= 0 else 4 * i64(forest, N_VALUES) + 4)
            entry = entry_at(entry, 1)
            put_i64(entry, REF, child)
            put_i64(entry, PLACE, place)
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
def weigh(forest: int, path: int, n: int, label: int, own: int) -> None:
    """Let the weights on a sample's path learn from how well nodes and children predicted it.

    `own` is the sample's point where it is in the tree already: as a leaf it has seen nothing.
    """
    n_classes = i64(forest, N_CLASSES)
    # Chances that the weightings below have given the class.
    noisy, deep, mixed = 0.0, 0.0, 0.0
    for i in range(n - 1, -1, -1):
        entry = entry_at(path, i)
        ref, row = i64(entry, REF), i64(entry, ROW)
        if row == 0:
            is_point = ref < 0 and ~ref != own
            size = 1.0 if is_point else 0.0
            same = 1.0 if is_point and label_of(forest, ~ref) == label else 0.0
            noisy = (same + PRIORS[0]) / (size + PRIORS[0] * n_classes)
            deep = (same + PRIORS[1]) / (size + PRIORS[1] * n_classes)
            mixed = (same + PRIORS[2]) / (size + PRIORS[2] * n_classes)
            continue
        ends = i == n - 1
        of_all = chance_of_all(forest, row, label, PRIORS[1])
        first = f32(row, SHARES) * of_all
        second = f32(row, SHARES + 1) * chance_of_late(forest, row, label, 0, PRIORS[2])
        third = f32(row, SHARES + 2) * chance_of_late(forest, row, label, 1, PRIORS[2])
        total = first + second + third
        kept = (1.0 - SHARE_RATE) / total
        put_f32(row, SHARES, kept * first + SHARE_RATE / N_MEMORIES)
        put_f32(row, SHARES + 1, kept * second + SHARE_RATE / N_MEMORIES)
        put_f32(row, SHARES + 2, kept * third + SHARE_RATE / N_MEMORIES)
        noisy = learn_stop(row, 0, chance_of_all(forest, row, label, PRIORS[0]), noisy, ends)
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
                add_side(row, label_of(forest, ~other), side)
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
        ref = i64(entry_at(path, i), REF)
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
        entry = entry_at(path, i)
        ref, node, row = i64(entry, REF), i64(entry, PLACE), i64(entry, ROW)
        if ref < 0:
            return
        if row == 0:
            if grown:
                ensure_stats(forest, t, ref, p, np.int64(0))
            if i32(node, STATS) == 0:
                new_stats(forest, tree, node)
            row = row_of(forest, tree, node)
        if i + 1 < n:
            child = i64(entry_at(path, i + 1), REF)
            add_side(row, label, LEFT if i32(node, LEFT) == child else RIGHT)
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
STEP_ROW = 4
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
    of_all = stop / (i32(row, N_SAMPLES) + PRIORS[v] * n_classes)
    if v < N_WEIGHTINGS - 1:
        put_f64(step, OF_CLASSES + v, of_all)
        return rest - stop
    put_f64(step, OF_MEMORIES, of_all * f32(row, SHARES))
    for m in range(N_FORGETTING):
        total = f32(row, TOTALS + m) + PRIORS[v] * f32(row, UNITS + m) * n_classes
        put_f64(step, OF_MEMORIES + 1 + m, stop * f32(row, SHARES + 1 + m) / total)
    return rest - stop


@inlined
def follow(forest: int, x: int, path: int, n: int, steps: int, found: int) -> float:
    """Take the steps of a scaled sample's way; returns the probability not to branch off.

    What weightings give to a last point's class, and to all where nothing is known, is added to
    what is found.
    """
    gamma = f64(forest, GAMMA)
    n_classes = i64(forest, N_CLASSES)
    reach = 1.0
    # What no node above has taken.
    noisy, deep, mixed = 1.0, 1.0, 1.0
    for i in range(n):
        entry, step = entry_at(path, i), steps + 8 * STEP_WORDS * i
        place, row = i64(entry, PLACE), i64(entry, ROW)
        ends = i == n - 1
        eta = distance_at(forest, i64(entry, REF), place, x)
        span = math.inf if ends else f32(place, DELTA)
        stays = math.exp(-eta * span) if eta > 0.0 else 1.0
        put_f64(step, ETA, eta)
        put_f64(step, REACH, reach)
        put_f64(step, STAYS, stays)
        put_f64(step, DISCOUNT, 0.0 if ends else math.exp(-gamma * span))
        reach *= stays
        if row != 0 and i32(row, N_SEEN) == 0:
            row = 0
        put_i64(step, STEP_ROW, row)
        if row != 0:
            noisy = take(forest, row, step, np.int64(0), noisy, ends)
            deep = take(forest, row, step, np.int64(1), deep, ends)
            mixed = take(forest, row, step, np.int64(2), mixed, ends)
    last = i64(entry_at(path, n - 1), REF)
    for v, rest in enumerate((noisy, deep, mixed)):
        out = posterior_of(forest, found, 1 + v)
        each = rest / ((1.0 if last < 0 else 0.0) + PRIORS[v] * n_classes)
        for k in range(n_classes):
            add_to(out, k, PRIORS[v] * each)
        if last < 0:
            add_to(out, label_of(forest, ~last), each)
    return reach


@inlined
def add_step(forest: int, step: int, of_c: float, of_presence: float, ends: bool, out: int) -> None:
    """Add a step's part to all posteriors; the HNSP's is of c and of the presence of classes."""
    row = i64(step, STEP_ROW)
    of_noisy, of_deep = f64(step, OF_CLASSES), f64(step, OF_CLASSES + 1)
    of_all, of_late = f64(step, OF_MEMORIES), f64(step, OF_MEMORIES + 1)
    of_latest = f64(step, OF_MEMORIES + 2)
    prior = of_all + of_late * f32(row, UNITS) + of_latest * f32(row, UNITS + 1)
    add_row(
        row,
        i64(forest, N_CLASSES),
        out,
        i64(forest, CLASS_CAPACITY),
        # The classes of a leaf are its samples.
        of_c if ends else 0.0,
        0.0 if ends else of_c,
        of_presence,
        of_noisy,
        PRIORS[0] * of_noisy,
        of_deep,
        PRIORS[1] * of_deep,
        of_all,
        of_late,
        of_latest,
        PRIORS[2] * prior,
    )


@kernel
def predict_tree(forest: int, x: int, path: int, n: int, steps: int, found: int) -> None:
    """Add a tree's posteriors for a scaled sample to `found`, rows of CLASS_CAPACITY float32.

    The first is the HNSP, which integrates over branching off (Algorithm 8); the others follow the
    sample to its leaf. `steps` has room for `n` steps.
    """
    gamma = f64(forest, GAMMA)
    weight = follow(forest, x, path, n, steps, found)
    for i in range(n - 1, -1, -1):
        step = steps + 8 * STEP_WORDS * i
        eta, discount = f64(step, ETA), f64(step, DISCOUNT)
        # Weight of the node's own classes, and of its parent's distribution, on branching off.
        own, passed = 0.0, 0.0
        if eta > 0.0:
            reach, stays = f64(step, REACH), f64(step, STAYS)
            passed = reach * eta / (eta + gamma) * (1.0 - stays * discount)
            own = max(reach * (1.0 - stays) - passed, 0.0)
        row, ref = i64(step, STEP_ROW), i64(entry_at(path, i), REF)
        if row != 0:
            ends = i == n - 1
            n_seen = i32(row, N_SEEN)
            total = i32(row, N_SAMPLES if ends else SUM_OF_C)
            of_presence = own / n_seen - weight * discount / total
            add_step(forest, step, weight / total, of_presence, ends, found)
            weight = weight * discount * n_seen / total + passed
        elif ref < 0:
            add_to(found, label_of(forest, ~ref), weight * (1.0 - discount) + own)
            weight = weight * discount + passed
    n_classes = i64(forest, N_CLASSES)
    for k in range(n_classes):
        add_to(found, k, weight / n_classes)


@inlined
def inputs_at(forest: int, values: int) -> Float64s:
    """Return a sample's raw inputs."""
    return Float64s(values, 0, i64(forest, INPUT_CAPACITY))


@inlined
def is_predicted(forest: int, values: int) -> bool:
    """Tell whether what has been predicted last is these values, by the trees as they are."""
    if i64(forest, PREDICTED) == 0:
        return False
    last = i64(forest, LAST_VALUES)
    for i in range(i64(forest, INPUT_CAPACITY)):
        if i64(last, i) != i64(values, i):
            return False
    return True


@called
def predict_anew(forest: int, values: int, row: int) -> int:
    """Predict a sample; it is called by address.

    The posteriors of the trees of each role are averaged: of all samples, then of recent ones,
    where the first stand in if there are no such trees; then the mean of both; discriminants
    follow. Returns -1, or an input whose value is too large.
    """
    bad = scale_into(forest, row, values)
    if bad >= 0:
        return bad
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
            predict_tree(forest, x, path_in(forest, t), length, steps, out)
            n_recent += 1 if is_recent else 0
            n_long += 0 if is_recent else 1
    for k in range(width):
        own = f32(sums, k) / n_long if n_long > 0 else 0.0
        put_f64(found, k, own)
        others = f32(sums, width + k) / n_recent if n_recent > 0 else own
        put_f64(found, width + k, others)
        put_f64(found, 2 * width + k, 0.5 * (own + others))
    discriminants.predict(Discriminants(i64(forest, DISCRIMINANTS)), inputs_at(forest, values))
    experts.combine(Experts(i64(forest, STATE)))
    last = i64(forest, LAST_VALUES)
    for i in range(i64(forest, INPUT_CAPACITY)):
        put_i64(last, i, i64(values, i))
    put_i64(forest, PREDICTED, np.int64(1))
    return -1


@inlined
def find(forest: int, values: int, row: int) -> int:
    """Predict a sample where it is not what has been; returns as `predict_anew` does."""
    if is_predicted(forest, values):
        return -1
    return call3(i64(forest, PREDICT_ANEW), forest, values, row)


@direct
def predict(forest: int, values: int, row: int) -> int:
    """Predict a sample into OUT, with `row` for its scaled values.

    Returns the most probable class, or `-2 - input` where a value is too large.
    """
    bad = find(forest, values, row)
    if bad >= 0:
        return -2 - bad
    return most_probable(i64(forest, OUT), i64(forest, N_CLASSES))


# Learning.


@inlined
def score(forest: int, values: int, label: int, is_new: int) -> bool:
    """Let the mixture learn the class of the sample predicted last; tells whether it was right.

    Of a class that is new the discriminants learn only: nothing can have foreseen it.
    """
    if not is_new:
        experts.learn(Experts(i64(forest, STATE)), label)
    inputs = inputs_at(forest, values)
    discriminants.learn(Discriminants(i64(forest, DISCRIMINANTS)), inputs, label)
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


@inlined
def store(forest: int, values: int, label: int, point: int) -> None:
    """Store the sample predicted last for all trees in use, and let its ways down them learn.

    It is what `extend` lets the trees grow by.
    """
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
            weigh(forest, path_in(forest, t), length, label, np.int64(-1))


@inlined
def path_of_grown(forest: int, t: int, x: int, path: int, n: int) -> int:
    """Write the way of a point by which a tree has just grown; returns how many entries it has.

    `n` entries are of its way before: down to where the walk ended they are so still.
    """
    tree = tree_at(forest, t)
    parent = i64(tree, WALK_PARENT)
    while parent != NONE and n > 0:
        entry = entry_at(path, n - 1)
        if i64(entry, REF) == parent:
            child = i32(i64(entry, PLACE), i64(tree, WALK_SIDE))
            return path_from(forest, t, x, path, n, child)
        n -= 1
    return path_to(forest, t, x, path)


@inlined
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
                n = path_of_grown(forest, t, values_at(forest, tree, point), path, n)
            see(forest, t, point, path, n, True)
        elif role == REPLAYS:
            catch_up(forest, t, point, backlog)


@direct
def learn(forest: int, values: int, row: int, label: int, is_new: int, point: int, n: int) -> int:
    """Learn a sample: its class the mixture and the ways down all trees, then the trees.

    There are `n` samples before this one, which is stored as `point`; where that is NONE only the
    mixture learns. Returns RIGHT_CLASS or
    WRONG_CLASS, as it would have been predicted; `TOO_LARGE - input` where a value is; or a tree
    that needs room for `ROOM` more rows, which may move what is noted of a prediction. In the last
    two cases nothing has been learned.
    """
    needy = needs_room(forest) if point != NONE else NONE
    if needy != NONE:
        return needy
    bad = find(forest, values, row)
    if bad >= 0:
        return TOO_LARGE - bad
    said = RIGHT_CLASS if score(forest, values, label, is_new) else WRONG_CLASS
    put_i64(forest, PREDICTED, np.int64(0))
    if point != NONE:
        store(forest, values, label, point)
        # By address, as these are large: what is inlined is compiled again.
        call4(i64(forest, EXTEND), forest, np.int64(0), i64(forest, N_TREES), np.int64(LANES))
        see_all(forest, point, n - i64(forest, CURSOR))
        call3(i64(forest, SPLIT_ALL), forest, np.int64(SPLIT_BUDGET), point)
    return said


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


@inlined
def gather(forest: int, t: int, start: int, stop: int) -> None:
    """Put the points numbered `start` to `stop` into the root of a tree that is being built."""
    tree = tree_at(forest, t)
    node = node_at(forest, tree, i64(tree, ROOT))
    for i in range(start, stop):
        put_point(forest, t, node, i % i64(forest, RING))


@inlined
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
        weigh(forest, path, n, label_of(forest, p), p)
        see(forest, t, p, path, n, False)
    return stop


@direct
def go_on(forest: int, t: int, n: int) -> int:
    """Go on with building a tree from BUILT_FROM on, of `n` samples in all, while BUDGET lasts.

    CURSOR is the next of them. Returns SPENT or BUILT; or NEEDS_ROOM, where it may have done
    something, or NEEDS_MORE, for one path.
    """
    tree = tree_at(forest, t)
    while i64(forest, BUDGET) > 0:
        budget, cursor = i64(forest, BUDGET), i64(forest, CURSOR)
        role = i64(tree, ROLE)
        if role == GATHERS:
            stop = min(n, cursor + budget)
            gather(forest, t, cursor, stop)
            put_i64(forest, BUDGET, budget - (stop - cursor))
            put_i64(forest, CURSOR, stop)
            if stop == n:
                wait(forest, t, i64(tree, ROOT))
                put_i64(tree, ROLE, np.int64(SPLITS))
        elif role == SPLITS:
            budget = split_queued(forest, t, budget, np.int64(NONE))
            put_i64(forest, BUDGET, budget)
            if i64(tree, QUEUE) == NONE:
                put_i64(tree, ROLE, np.int64(REPLAYS))
                put_i64(forest, CURSOR, i64(forest, BUILT_FROM))
            elif budget > 0:
                return NEEDS_ROOM
        else:
            stop = min(n, cursor + budget // REPLAY_COST + 1)
            done = replay(forest, t, cursor, stop)
            put_i64(forest, BUDGET, budget - REPLAY_COST * (done - cursor) - 1)
            put_i64(forest, CURSOR, done)
            if done == n:
                return BUILT
            if done < stop:
                return NEEDS_ROOM if done > cursor else NEEDS_MORE
    return SPENT
