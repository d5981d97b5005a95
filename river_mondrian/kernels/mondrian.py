"""Mondrian trees: sampling a block, extending a tree by a point, building trees from points.

Everything here is about one law. With the lifetime infinite and nothing paused, a tree is the
restriction of a Mondrian process to the boxes of its points (Algorithms 1 to 4). A paused tree
is that tree pruned where a block holds one class (Algorithms 9 and 10). What hides below such a
block is sampled when it is needed, or a little earlier (`PAUSE_LIMIT`), which leaves the law as it
is: hidden nodes are recognised by having one class and are predicted as the paused leaf.
"""

from __future__ import annotations

import math

import numpy as np

from .access import (
    count_of,
    counts_at,
    head_of,
    head_reals,
    label_of,
    link_of,
    lower_of,
    node_at,
    point_at,
    prefetch_ref,
    real,
    tree_at,
    tree_reals,
    upper_of,
    values_of,
)
from .bits import add_class, first_class, n_classes_in, word_at
from .layout import (
    BOX,
    CLASSES,
    COUNT,
    COUNT_CAPACITY,
    COUNT_WIDTH,
    CUT,
    DELTA,
    DIM,
    DIM_CAPACITY,
    EMPTY,
    HAS_MISSING,
    LEFT,
    LIFETIME,
    MAX_SPLITS,
    MIXED,
    N_COUNTS,
    N_DIMS,
    N_ROWS,
    N_SPLITS,
    N_TREES,
    N_WORDS,
    NEED_ROWS,
    NONE,
    PAUSE_LIMIT,
    PENDING,
    RIGHT,
    RNG,
    ROOT,
    ROW_CAPACITY,
    SETTLED,
    SPLIT_PURE,
    WALK_END,
    WALK_PARENT,
    WALK_POINT,
    WALK_REF,
    WALK_SIDE,
    WALK_TAU,
)
from .memory import float32_view, inlined, int32_view, kernel
from .random import exponential, uniform

# What a visit says.
DONE = 0
GO_ON = 1
FULL = 2

# Trees that a kernel walks in lock-step, so that one tree's cache misses overlap another's.
LANES = 16


@inlined
def distance_outside(x: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    """Sum how far `x` lies outside a box; a missing value or an unknown side adds nothing."""
    total = 0.0
    for d in range(x.shape[0]):
        v = np.float64(x[d])
        below = np.float64(lower[d]) - v
        above = v - np.float64(upper[d])
        # Comparisons with NaN are false.
        total += (below if below > 0.0 else 0.0) + (above if above > 0.0 else 0.0)
    return total


@inlined
def linear_dimension(lower: np.ndarray, upper: np.ndarray) -> float:
    """Sum the side lengths of a box."""
    total = 0.0
    for d in range(lower.shape[0]):
        side = np.float64(upper[d]) - np.float64(lower[d])
        total += side if side > 0.0 else 0.0
    return total


@inlined
def extend_box(x: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
    """Grow a box so that it holds `x`."""
    for d in range(x.shape[0]):
        v = x[d]
        lo = lower[d]
        hi = upper[d]
        lower[d] = v if (v < lo or lo != lo) else lo
        upper[d] = v if (v > hi or hi != hi) else hi


@inlined
def uniform_cut(tree: np.ndarray, low: np.float32, high: np.float32) -> np.float32:
    """Draw a cut from [low, high) that float32 rounding cannot push onto `high`."""
    cut = np.float32(np.float64(low) + uniform(tree, RNG) * (np.float64(high) - np.float64(low)))
    if not cut < high or cut < low:
        cut = low
    return cut


@inlined
def stored_time(time: float) -> float:
    """Round a time to the float32 in which nodes keep it, so that all readers see the same."""
    return np.float64(np.float32(time))


@inlined
def new_row(forest: np.ndarray, tree: np.ndarray) -> int:
    """Take the next free row and clear its header; the caller has made sure that there is one."""
    j = tree[N_ROWS]
    tree[N_ROWS] = j + 1
    head = head_of(forest, node_at(forest, tree, j))
    for i in range(head.shape[0]):
        head[i] = 0
    return j


@inlined
def new_leaf(forest: np.ndarray, tree: np.ndarray) -> int:
    """Make an empty pending leaf."""
    j = new_row(forest, tree)
    node = node_at(forest, tree, j)
    head = head_of(forest, node)
    head[LEFT] = NONE
    head[RIGHT] = NONE
    head[DIM] = PENDING
    sides = float32_view(node + 4 * forest[BOX], 2 * forest[DIM_CAPACITY])
    for i in range(sides.shape[0]):
        sides[i] = np.nan
    return j


@inlined
def distance_to(forest: np.ndarray, tree: np.ndarray, ref: int, x: np.ndarray) -> float:
    """Return how far `x` lies outside the box of a reference."""
    if ref < 0:
        place = values_of(forest, ~ref)
        return distance_outside(x, place, place)
    node = node_at(forest, tree, ref)
    return distance_outside(x, lower_of(forest, node), upper_of(forest, node))


@inlined
def nearer_side(forest: np.ndarray, tree: np.ndarray, left: int, right: int, x: np.ndarray) -> int:
    """Choose a side for a sample whose value in the cut dimension is missing.

    The child whose box is nearer in the known dimensions, the larger one where both are as near.
    """
    to_left = distance_to(forest, tree, left, x)
    to_right = distance_to(forest, tree, right, x)
    if to_left != to_right:
        return RIGHT if to_right < to_left else LEFT
    return RIGHT if count_of(forest, tree, right) > count_of(forest, tree, left) else LEFT


@inlined
def grow_leaf(forest: np.ndarray, node: int, p: int) -> None:
    """Count a point in a leaf's row without storing it there."""
    head = head_of(forest, node)
    extend_box(values_of(forest, p), lower_of(forest, node), upper_of(forest, node))
    add_class(head, CLASSES, label_of(forest, p))
    head[COUNT] += 1


@inlined
def put_point(forest: np.ndarray, t: int, node: int, p: int) -> None:
    """Put a stored point into a leaf's row: its chain, box, set of classes and count."""
    head = head_of(forest, node)
    link_of(forest, p, t)[0] = head[LEFT]
    head[LEFT] = p
    grow_leaf(forest, node, p)


@inlined
def hang(forest: np.ndarray, tree: np.ndarray, ref: int) -> None:
    """Put a reference where the walk stands."""
    if tree[WALK_PARENT] == NONE:
        tree[ROOT] = ref
    else:
        head_of(forest, node_at(forest, tree, tree[WALK_PARENT]))[tree[WALK_SIDE]] = ref


@inlined
def split_leaf(forest: np.ndarray, t: int, j: int, tau: float) -> float:
    """Sample the first cut of a leaf's block (Algorithm 2 or 9, without the recursion).

    The leaf's row becomes an internal node whose children are single points or leaves' rows; a
    child with several classes is marked MIXED. Returns the time since the parent, or infinity
    where there is no cut within the lifetime: then the leaf is settled.
    """
    tree = tree_at(forest, t)
    node = node_at(forest, tree, j)
    head = head_of(forest, node)
    lower = lower_of(forest, node)
    upper = upper_of(forest, node)

    rate = linear_dimension(lower, upper)
    if not rate > 0.0 or tree[N_SPLITS] >= forest[MAX_SPLITS]:
        head[DIM] = SETTLED
        return math.inf
    time = stored_time(exponential(tree, RNG, rate))
    if time >= real(forest, LIFETIME) - tau:
        head[DIM] = SETTLED
        return math.inf

    threshold = uniform(tree, RNG) * rate
    dim = 0
    passed = 0.0
    for d in range(lower.shape[0]):
        side = np.float64(upper[d]) - np.float64(lower[d])
        if side > 0.0:
            dim = d
            passed += side
            if passed > threshold:
                break
    cut = uniform_cut(tree, lower[dim], upper[dim])

    # Count first: a side with one point gets no row, unless points with a missing value at the
    # cut may still join it.
    n_left = 0
    n_right = 0
    n_missing = 0
    first = head[LEFT]
    p = first
    while p != NONE:
        v = values_of(forest, p)[dim]
        if v != v:
            n_missing += 1
        elif v <= cut:
            n_left += 1
        else:
            n_right += 1
        p = link_of(forest, p, t)[0]
    left = new_leaf(forest, tree) if n_left > 1 or n_missing > 0 else EMPTY
    right = new_leaf(forest, tree) if n_right > 1 or n_missing > 0 else EMPTY

    missing = NONE
    p = first
    while p != NONE:
        link = link_of(forest, p, t)
        following = link[0]
        v = values_of(forest, p)[dim]
        if v != v:
            link[0] = missing
            missing = p
        elif v <= cut:
            if left == EMPTY:
                left = ~p
            else:
                put_point(forest, t, node_at(forest, tree, left), p)
        elif right == EMPTY:
            right = ~p
        else:
            put_point(forest, t, node_at(forest, tree, right), p)
        p = following
    while missing != NONE:
        following = link_of(forest, missing, t)[0]
        side = nearer_side(forest, tree, left, right, values_of(forest, missing))
        put_point(
            forest, t, node_at(forest, tree, left if side == LEFT else right), missing
        )
        missing = following

    for i in range(head.shape[0]):
        head[i] = 0
    head[LEFT] = left
    head[RIGHT] = right
    head[DIM] = dim
    head[COUNT] = n_left + n_right + n_missing
    reals = head_reals(forest, node)
    reals[CUT] = cut
    reals[DELTA] = time
    words = forest[N_WORDS]
    for s in range(2):
        child = head[LEFT + s]
        at = CLASSES + s * words
        if child < 0:
            add_class(head, at, label_of(forest, ~child))
        else:
            child_head = head_of(forest, node_at(forest, tree, child))
            for w in range(words):
                head[at + w] = child_head[CLASSES + w]
            if n_classes_in(child_head, CLASSES, CLASSES, words) > 1:
                child_head[DIM] = MIXED
    tree[N_SPLITS] += 1
    return time


@inlined
def sample_block(forest: np.ndarray, t: int, j: int, tau: float) -> None:
    """Sample a leaf's block down to its leaves (Algorithm 2; Algorithm 9 where blocks pause)."""
    tree = tree_at(forest, t)
    size = head_of(forest, node_at(forest, tree, j))[COUNT] + 1
    waiting = np.empty(size, np.int64)
    waiting_tau = np.empty(size, np.float64)
    waiting[0] = j
    waiting_tau[0] = tau
    n_waiting = 1
    while n_waiting > 0:
        n_waiting -= 1
        j = waiting[n_waiting]
        tau = waiting_tau[n_waiting]
        time = split_leaf(forest, t, j, tau)
        if time == math.inf:
            continue
        head = head_of(forest, node_at(forest, tree, j))
        for s in range(2):
            child = head[LEFT + s]
            if child >= 0:
                child_head = head_of(forest, node_at(forest, tree, child))
                if (
                    forest[SPLIT_PURE] == 1
                    or child_head[DIM] == MIXED
                    or child_head[COUNT] > PAUSE_LIMIT
                ):
                    waiting[n_waiting] = child
                    waiting_tau[n_waiting] = tau + time
                    n_waiting += 1


@inlined
def insert_parent(
    forest: np.ndarray, t: int, ref: int, p: int, time: float, rate: float
) -> None:
    """Cut point `p` off from the box at `ref`, `time` after the parent (Algorithm 4, lines 4-9)."""
    tree = tree_at(forest, t)
    x = values_of(forest, p)
    j = new_row(forest, tree)
    node = node_at(forest, tree, j)
    head = head_of(forest, node)
    lower = lower_of(forest, node)
    upper = upper_of(forest, node)
    capacity = forest[DIM_CAPACITY]
    sides = float32_view(node + 4 * forest[BOX], 2 * capacity)
    if ref < 0:
        place = float32_view(point_at(forest, ~ref), capacity)
        for d in range(capacity):
            sides[d] = place[d]
            sides[capacity + d] = place[d]
    else:
        old_sides = float32_view(node_at(forest, tree, ref) + 4 * forest[BOX], 2 * capacity)
        for i in range(2 * capacity):
            sides[i] = old_sides[i]

    threshold = uniform(tree, RNG) * rate
    dim = 0
    passed = 0.0
    for d in range(x.shape[0]):
        v = np.float64(x[d])
        below = np.float64(lower[d]) - v
        above = v - np.float64(upper[d])
        outside = (below if below > 0.0 else 0.0) + (above if above > 0.0 else 0.0)
        if outside > 0.0:
            dim = d
            passed += outside
            if passed > threshold:
                break
    if x[dim] > upper[dim]:
        cut = uniform_cut(tree, upper[dim], x[dim])
        x_side = RIGHT
    else:
        cut = uniform_cut(tree, x[dim], lower[dim])
        x_side = LEFT
    extend_box(x, lower, upper)

    reals = head_reals(forest, node)
    head[DIM] = dim
    reals[CUT] = cut
    reals[DELTA] = time
    other_side = LEFT + RIGHT - x_side
    head[x_side] = ~p
    head[other_side] = ref
    words = forest[N_WORDS]
    at = CLASSES + other_side * words
    if ref < 0:
        head[COUNT] = 2
        add_class(head, at, label_of(forest, ~ref))
    else:
        old = node_at(forest, tree, ref)
        old_head = head_of(forest, old)
        head[COUNT] = old_head[COUNT] + 1
        for w in range(words):
            word = word_at(old_head, CLASSES + w) | word_at(old_head, CLASSES + words + w)
            head[at + w] = np.int32(word)
        if old_head[DIM] >= 0:
            old_reals = head_reals(forest, old)
            old_reals[DELTA] = np.float32(max(np.float64(old_reals[DELTA]) - time, 0.0))
    add_class(head, CLASSES + x_side * words, label_of(forest, p))
    hang(forest, tree, j)
    tree[N_SPLITS] += 1


@inlined
def count_classes(forest: np.ndarray, t: int, head: np.ndarray) -> None:
    """Give a settled leaf of several classes a row of counts, from its class or its points."""
    tree = tree_at(forest, t)
    row = tree[N_COUNTS]
    tree[N_COUNTS] = row + 1
    table = counts_at(forest, tree, row)
    for k in range(forest[COUNT_WIDTH]):
        table[k] = 0
    words = forest[N_WORDS]
    if n_classes_in(head, CLASSES, CLASSES, words) == 1:
        table[first_class(head, CLASSES, CLASSES, words)] = head[COUNT]
    else:
        p = head[LEFT]
        while p != NONE:
            table[label_of(forest, p)] += 1
            p = link_of(forest, p, t)[0]
    head[RIGHT] = row


@inlined
def visit_point(forest: np.ndarray, t: int, q: int, p: int) -> int:
    """Extend a tree by point `p` at a leaf that holds the single point `q`."""
    tree = tree_at(forest, t)
    same_class = label_of(forest, p) == label_of(forest, q)
    may_split = tree[N_SPLITS] < forest[MAX_SPLITS]
    paused = same_class and forest[SPLIT_PURE] == 0
    if not paused and may_split:
        place = values_of(forest, q)
        rate = distance_outside(values_of(forest, p), place, place)
        if rate > 0.0:
            time = stored_time(exponential(tree, RNG, rate))
            if time < real(forest, LIFETIME) - tree_reals(forest, t)[WALK_TAU]:
                insert_parent(forest, t, ~q, p, time, rate)
                return DONE
    j = new_leaf(forest, tree)
    node = node_at(forest, tree, j)
    head = head_of(forest, node)
    put_point(forest, t, node, q)
    if not paused:
        head[DIM] = SETTLED
    if may_split:
        put_point(forest, t, node, p)
    else:
        if not same_class:
            count_classes(forest, t, head)
            counts_at(forest, tree, head[RIGHT])[label_of(forest, p)] = 1
        grow_leaf(forest, node, p)
    hang(forest, tree, j)
    return DONE


@inlined
def visit_leaf(forest: np.ndarray, t: int, ref: int, p: int) -> int:
    """Extend a tree by point `p` at a leaf's row (Algorithm 10 where it is paused, else 4)."""
    tree = tree_at(forest, t)
    node = node_at(forest, tree, ref)
    head = head_of(forest, node)
    words = forest[N_WORDS]
    y = label_of(forest, p)
    tau = tree_reals(forest, t)[WALK_TAU]
    may_split = tree[N_SPLITS] < forest[MAX_SPLITS]
    if head[DIM] == PENDING and may_split:
        unpauses = y != first_class(head, CLASSES, CLASSES, words)
        if unpauses or head[COUNT] >= PAUSE_LIMIT:
            need = 2 * (head[COUNT] + 1)
            if tree[N_ROWS] + need > tree[ROW_CAPACITY]:
                tree[NEED_ROWS] = need
                return FULL
        put_point(forest, t, node, p)
        if unpauses:
            sample_block(forest, t, ref, tau)
        elif head[COUNT] > PAUSE_LIMIT:
            split_leaf(forest, t, ref, tau)
        return DONE

    if tree[N_COUNTS] >= tree[COUNT_CAPACITY]:
        tree[NEED_ROWS] = 0
        return FULL
    if may_split:
        rate = distance_outside(
            values_of(forest, p), lower_of(forest, node), upper_of(forest, node)
        )
        if rate > 0.0:
            time = stored_time(exponential(tree, RNG, rate))
            if time < real(forest, LIFETIME) - tau:
                insert_parent(forest, t, ref, p, time, rate)
                return DONE
    head[DIM] = SETTLED
    pure = n_classes_in(head, CLASSES, CLASSES, words) == 1
    if head[RIGHT] == NONE and not (pure and y == first_class(head, CLASSES, CLASSES, words)):
        count_classes(forest, t, head)
    if head[RIGHT] != NONE:
        counts_at(forest, tree, head[RIGHT])[y] += 1
    if may_split:
        put_point(forest, t, node, p)
    else:
        grow_leaf(forest, node, p)
    return DONE


@inlined
def visit(forest: np.ndarray, t: int) -> int:
    """Extend a tree by the walk's point at the node where the walk stands (Algorithms 4, 10).

    Returns DONE, GO_ON after a step down, or FULL where the tree first needs room for
    `NEED_ROWS` more rows; nothing has changed then and the visit can be repeated.
    """
    tree = tree_at(forest, t)
    ref = tree[WALK_REF]
    p = tree[WALK_POINT]
    if ref == EMPTY:
        tree[ROOT] = ~p
        return DONE
    if tree[N_ROWS] + 2 > tree[ROW_CAPACITY]:
        tree[NEED_ROWS] = 2
        return FULL
    if ref < 0:
        if tree[N_COUNTS] >= tree[COUNT_CAPACITY]:
            tree[NEED_ROWS] = 0
            return FULL
        return visit_point(forest, t, ~ref, p)
    node = node_at(forest, tree, ref)
    head = head_of(forest, node)
    dim = head[DIM]
    if dim < 0:
        return visit_leaf(forest, t, ref, p)

    x = values_of(forest, p)
    lower = lower_of(forest, node)
    upper = upper_of(forest, node)
    reals = head_reals(forest, node)
    rate = distance_outside(x, lower, upper)
    if rate > 0.0 and tree[N_SPLITS] < forest[MAX_SPLITS]:
        time = stored_time(exponential(tree, RNG, rate))
        if time < reals[DELTA]:
            insert_parent(forest, t, ref, p, time, rate)
            return DONE
    # A value in a dimension where the node had none is no distance but does open the box.
    if rate > 0.0 or forest[HAS_MISSING] == 1:
        extend_box(x, lower, upper)
    head[COUNT] += 1
    v = x[dim]
    if v != v:
        side = nearer_side(forest, tree, head[LEFT], head[RIGHT], x)
    else:
        side = LEFT if v <= reals[CUT] else RIGHT
    add_class(head, CLASSES + side * forest[N_WORDS], label_of(forest, p))
    tree_reals(forest, t)[WALK_TAU] += reals[DELTA]
    tree[WALK_PARENT] = ref
    tree[WALK_SIDE] = side
    tree[WALK_REF] = head[side]
    return GO_ON


@inlined
def start_walk(forest: np.ndarray, t: int) -> None:
    """Put the walk at the root."""
    tree = tree_at(forest, t)
    tree[WALK_REF] = tree[ROOT]
    tree[WALK_PARENT] = NONE
    tree_reals(forest, t)[WALK_TAU] = 0.0


@kernel
def extend(forest: np.ndarray, first: int, last: int, lanes: int) -> int:
    """Run the walks of trees `first` to `last` until each has extended its tree.

    A tree takes the points from its `WALK_POINT` to its `WALK_END`, in order; `lanes` trees walk
    in lock-step. Returns -1, or a tree that needs room: the caller makes it and calls again.
    """
    active = np.empty(lanes, np.int64)
    for start in range(first, last, lanes):
        n_active = 0
        for t in range(start, min(start + lanes, last)):
            if tree_at(forest, t)[WALK_POINT] < tree_at(forest, t)[WALK_END]:
                active[n_active] = t
                n_active += 1
        while n_active > 0:
            still = 0
            for i in range(n_active):
                t = active[i]
                tree = tree_at(forest, t)
                said = visit(forest, t)
                if said == FULL:
                    return t
                if said == GO_ON:
                    prefetch_ref(forest, tree, tree[WALK_REF])
                else:
                    tree[WALK_POINT] += 1
                    start_walk(forest, t)
                    if tree[WALK_POINT] == tree[WALK_END]:
                        continue
                active[still] = t
                still += 1
            n_active = still
    return -1


@kernel
def set_walks(forest: np.ndarray, first: int, last: int) -> None:
    """Let every tree take the points `first` to `last` next."""
    for t in range(forest[N_TREES]):
        tree = tree_at(forest, t)
        tree[WALK_POINT] = first
        tree[WALK_END] = last
        start_walk(forest, t)


@kernel
def learn(
    forest: np.ndarray, scaling: np.ndarray, values: np.ndarray, label: int, point: int
) -> int:
    """Store one sample as `point` and extend every tree by it.

    Returns as `extend` does, or `-2 - dimension` where a value is not finite; then nothing that
    a tree refers to has changed.
    """
    bad = store_row(forest, scaling, values, label, point)
    if bad >= 0:
        return -2 - bad
    set_walks(forest, point, point + 1)
    return extend(forest, 0, forest[N_TREES], LANES)


@kernel
def build(forest: np.ndarray, n_points: int) -> None:
    """Sample the trees afresh from the first `n_points` points (Algorithms 1, 2, 9).

    Every tree has room for `2 * n_points` rows.
    """
    for t in range(forest[N_TREES]):
        tree = tree_at(forest, t)
        tree[N_ROWS] = 0
        tree[N_COUNTS] = 0
        tree[N_SPLITS] = 0
        if n_points < 2:
            tree[ROOT] = EMPTY if n_points == 0 else ~0
            continue
        root = new_leaf(forest, tree)
        tree[ROOT] = root
        node = node_at(forest, tree, root)
        for p in range(n_points):
            put_point(forest, t, node, p)
        if (
            forest[SPLIT_PURE] == 1
            or n_points > PAUSE_LIMIT
            or n_classes_in(head_of(forest, node), CLASSES, CLASSES, forest[N_WORDS]) > 1
        ):
            sample_block(forest, t, root, 0.0)


@inlined
def scale_into(target: np.ndarray, values: np.ndarray, scaling: np.ndarray) -> int:
    """Scale a vector to float32; returns -1, or the first dimension that is not finite."""
    bad = -1
    for d in range(target.shape[0]):
        v = np.float32((values[d] - scaling[0, d]) * scaling[1, d])
        target[d] = v
        if not abs(v) < np.inf and values[d] == values[d] and bad < 0:
            bad = d
    return bad


@inlined
def store_row(
    forest: np.ndarray, scaling: np.ndarray, values: np.ndarray, label: int, point: int
) -> int:
    """Scale values and write them with their class as a point; returns as `scale_into` does."""
    row = point_at(forest, point)
    x = float32_view(row, forest[DIM_CAPACITY])
    bad = scale_into(x[: forest[N_DIMS]], values, scaling)
    if bad >= 0:
        return bad
    for d in range(forest[N_DIMS]):
        if x[d] != x[d]:
            forest[HAS_MISSING] = 1
    for d in range(forest[N_DIMS], forest[DIM_CAPACITY]):
        x[d] = np.nan
    int32_view(row + 4 * forest[DIM_CAPACITY], 1)[0] = label
    return -1


@kernel
def store(
    forest: np.ndarray, scaling: np.ndarray, values: np.ndarray, labels: np.ndarray, first: int
) -> None:
    """Write rows of checked values with their classes as points `first`, `first + 1`, ..."""
    for i in range(values.shape[0]):
        store_row(forest, scaling, values[i], labels[i], first + i)


@kernel
def scale_rows(target: np.ndarray, values: np.ndarray, scaling: np.ndarray) -> None:
    """Scale rows of checked values."""
    for i in range(values.shape[0]):
        scale_into(target[i], values[i], scaling)
