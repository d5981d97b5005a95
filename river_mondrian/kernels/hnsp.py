"""Label posterior of a Mondrian tree: hierarchical normalized stable process, by IKN counts.

Equation 4 is linear in the parent's distribution, G_j = b_j + a_j G_parent, and a prediction is a
weighted sum of such terms along the path (Equations 5 and 6). So a walk down needs the geometry
alone, and one pass from the leaf up collects the classes with the weight that each node's own
term has. Near the leaf that weight soon vanishes and the pass ends.
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
    prefetch_ref,
    real,
    tree_at,
    upper_of,
    values_of,
)
from .bits import lowest_bit, n_classes_in, word_at
from .layout import (
    CLASSES,
    COUNT,
    CUT,
    DELTA,
    DIM,
    GAMMA,
    LEFT,
    LIFETIME,
    N_CLASSES,
    N_DIMS,
    N_TREES,
    N_WORDS,
    NONE,
    RIGHT,
    ROOT,
    SPLIT_PURE,
)
from .memory import float32_view, float64_view, inlined, int64_view, kernel
from .mondrian import distance_outside, distance_to, scale_into

# Walks in lock-step, and the path length for which room is made at first.
LANES = 16
FIRST_DEPTH = 64

# A path's entry: the reference, the distance outside the node's box, the time since its parent, the
# probability of not having branched off above, the weight of all the branches above, and the
# probability of not branching off here. Entry 0 of a lane is the state of its walk instead: the
# depth, the time of the node's parent, and REACH and ABOVE of the next entry.
REF = 0
ETA = 1
SPAN = 2
REACH = 3
ABOVE = 4
STAYS = 5
ENTRY_WIDTH = 6
ENTRY_BYTES = 8 * ENTRY_WIDTH
DEPTH = 0
TAU = 1

# Weight that no sum in float64 would notice.
NOTHING = 1e-17

# A branch of a walk with a missing value is followed while its weight is at least this.
LEAST_WEIGHT = 0.02


@inlined
def entry_ref(entry: int) -> np.ndarray:
    """View the one integer of a path's entry: its reference, or the depth of the walk."""
    return int64_view(entry, 1)


@inlined
def entry_reals(entry: int) -> np.ndarray:
    """View a path's entry as float64."""
    return float64_view(entry, ENTRY_WIDTH)


@inlined
def start(forest: np.ndarray, tree: np.ndarray, lane: int) -> None:
    """Put a lane's walk at a tree's root."""
    entry_ref(lane)[DEPTH] = 1
    state = entry_reals(lane)
    state[TAU] = 0.0
    state[REACH] = 1.0
    state[ABOVE] = 0.0
    entry_ref(lane + ENTRY_BYTES)[REF] = tree[ROOT]
    prefetch_ref(forest, tree, tree[ROOT])


@inlined
def step(forest: np.ndarray, tree: np.ndarray, x: np.ndarray, lane: int) -> bool:
    """Note a path's geometry at the node that it has come to; returns whether that is a leaf."""
    state = entry_reals(lane)
    address = lane + ENTRY_BYTES * entry_ref(lane)[DEPTH]
    entry = entry_reals(address)
    ref = entry_ref(address)[REF]
    span = real(forest, LIFETIME) - state[TAU]
    is_leaf = True
    if ref < 0:
        place = values_of(forest, ~ref)
        eta = distance_outside(x, place, place)
    else:
        node = node_at(forest, tree, ref)
        head = head_of(forest, node)
        eta = distance_outside(x, lower_of(forest, node), upper_of(forest, node))
        if head[DIM] >= 0:
            words = forest[N_WORDS]
            # One class below and blocks pause: what hangs below is hidden.
            is_leaf = (
                forest[SPLIT_PURE] == 0
                and n_classes_in(head, CLASSES, CLASSES + words, words) == 1
            )
            if not is_leaf:
                span = np.float64(head_reals(forest, node)[DELTA])
    reach = state[REACH]
    entry[ETA] = eta
    entry[SPAN] = span
    entry[REACH] = reach
    entry[ABOVE] = state[ABOVE]
    if eta > 0.0:
        stays = math.exp(-eta * span)
        entry[STAYS] = stays
        state[ABOVE] += reach * (1.0 - stays)
        state[REACH] = reach * stays
    state[TAU] += span
    return is_leaf


@inlined
def descend(forest: np.ndarray, tree: np.ndarray, lane: int, ref: int) -> None:
    """Go on to a child."""
    depth = entry_ref(lane)[DEPTH] + 1
    entry_ref(lane)[DEPTH] = depth
    entry_ref(lane + ENTRY_BYTES * depth)[REF] = ref
    prefetch_ref(forest, tree, ref)


@inlined
def add_counts(
    forest: np.ndarray, t: int, head: np.ndarray, scale: float, out: np.ndarray, row: int
) -> None:
    """Add `scale` times the class counts of a leaf of several classes to a row of `out`."""
    if head[RIGHT] != NONE:
        table = counts_at(forest, tree_at(forest, t), head[RIGHT])
        for k in range(forest[N_CLASSES]):
            out[row, k] += scale * table[k]
        return
    p = head[LEFT]
    while p != NONE:
        out[row, label_of(forest, p)] += scale
        p = link_of(forest, p, t)[0]


@inlined
def add_each(word: np.uint32, first: int, weight: float, out: np.ndarray, row: int) -> None:
    """Add a weight to each class of a word's set."""
    while word != np.uint32(0):
        out[row, first + lowest_bit(word)] += weight
        word = np.uint32(word & np.uint32(word - np.uint32(1)))


@inlined
def collect(forest: np.ndarray, t: int, lane: int, out: np.ndarray, row: int) -> None:
    """Add a walk's prediction to a row of `out`, from its leaf up to the base (Algorithm 8)."""
    tree = tree_at(forest, t)
    gamma = real(forest, GAMMA)
    words = forest[N_WORDS]
    depth = entry_ref(lane)[DEPTH]
    # Probability of reaching the leaf without branching off.
    weight = entry_reals(lane)[REACH]
    for i in range(depth, 0, -1):
        address = lane + ENTRY_BYTES * i
        entry = entry_reals(address)
        ref = entry_ref(address)[REF]
        eta = entry[ETA]
        span = entry[SPAN]
        reach = entry[REACH]
        discount = math.exp(-gamma * span)
        # Weight of the node's own classes, and of its parent's distribution, on branching off.
        own = 0.0
        passed = 0.0
        if eta > 0.0:
            stays = entry[STAYS]
            passed = reach * eta / (eta + gamma) * (1.0 - stays * discount)
            own = max(reach * (1.0 - stays) - passed, 0.0)
        if ref < 0:
            out[row, label_of(forest, ~ref)] += weight * (1.0 - discount) + own
            weight = weight * discount + passed
        else:
            head = head_of(forest, node_at(forest, tree, ref))
            right = CLASSES if head[DIM] < 0 else CLASSES + words
            n_classes = n_classes_in(head, CLASSES, right, words)
            if i == depth:
                total = np.float64(head[COUNT])
                if n_classes > 1:
                    add_counts(forest, t, head, weight / total, out, row)
                    each = own / n_classes - weight * discount / total
                else:
                    each = own + weight * (total - discount) / total
            else:
                total = np.float64(
                    n_classes_in(head, CLASSES, CLASSES, words)
                    + n_classes_in(head, right, right, words)
                )
                each = own / n_classes + weight * (1.0 - discount) / total
                for w in range(words):
                    both = np.uint32(word_at(head, CLASSES + w) & word_at(head, right + w))
                    add_each(both, 32 * w, weight / total, out, row)
            for w in range(words):
                either = np.uint32(word_at(head, CLASSES + w) | word_at(head, right + w))
                add_each(either, 32 * w, each, out, row)
            weight = weight * discount * n_classes / total + passed
        if weight + entry[ABOVE] < NOTHING:
            return
    weight /= forest[N_CLASSES]
    for k in range(forest[N_CLASSES]):
        out[row, k] += weight


@inlined
def longer(paths: np.ndarray) -> np.ndarray:
    """Double the room for paths."""
    lanes, depth, width = paths.shape
    more = np.empty((lanes, 2 * depth, width), np.float64)
    more[:, :depth] = paths
    return more


@inlined
def walk(
    forest: np.ndarray,
    rows: np.ndarray,
    tree: int,
    tree_step: int,
    row: int,
    lanes: int,
    paths: np.ndarray,
    active: np.ndarray,
) -> int:
    """Walk pairs of tree and row in lock-step, by the next trees or the next rows.

    Returns how many walks have not arrived: paths longer than there is room for stop it.
    """
    n_dims = forest[N_DIMS]
    x_address = rows.ctypes.data + 4 * rows.shape[1] * row
    x_stride = 4 * rows.shape[1] * (1 - tree_step)
    lane_stride = ENTRY_BYTES * paths.shape[1]
    first = paths.ctypes.data
    deepest = paths.shape[1] - 1
    for i in range(lanes):
        active[i] = i
        start(forest, tree_at(forest, tree + i * tree_step), first + i * lane_stride)
    n_active = lanes
    for _ in range(deepest):
        still = 0
        for a in range(n_active):
            i = active[a]
            walked = tree_at(forest, tree + i * tree_step)
            lane = first + i * lane_stride
            x = float32_view(x_address + i * x_stride, n_dims)
            if not step(forest, walked, x, lane):
                ref = entry_ref(lane + ENTRY_BYTES * entry_ref(lane)[DEPTH])[REF]
                node = node_at(forest, walked, ref)
                head = head_of(forest, node)
                goes_left = x[head[DIM]] <= head_reals(forest, node)[CUT]
                descend(forest, walked, lane, head[LEFT] if goes_left else head[RIGHT])
                active[still] = i
                still += 1
        n_active = still
        if n_active == 0:
            return 0
    return n_active


@inlined
def left_share(forest: np.ndarray, tree: np.ndarray, head: np.ndarray, x: np.ndarray) -> float:
    """Return the share of the left child in a walk whose value in the cut dimension is missing."""
    to_left = distance_to(forest, tree, head[LEFT], x)
    to_right = distance_to(forest, tree, head[RIGHT], x)
    if to_left != to_right:
        return 1.0 if to_left < to_right else 0.0
    n_left = np.float64(count_of(forest, tree, head[LEFT]))
    return n_left / (n_left + np.float64(count_of(forest, tree, head[RIGHT])))


@inlined
def walk_missing(
    forest: np.ndarray, rows: np.ndarray, t: int, row: int, paths: np.ndarray, out: np.ndarray
) -> np.ndarray:
    """Predict a row with missing values by one tree; returns the paths, longer where need be.

    At a cut on a missing value both sides are followed, each with its share of the weight; a
    side whose weight falls below `LEAST_WEIGHT` gives it to the other.
    """
    tree = tree_at(forest, t)
    x = float32_view(rows.ctypes.data + row * 4 * rows.shape[1], forest[N_DIMS])
    lane = paths.ctypes.data
    most = int(1.0 / LEAST_WEIGHT) + 2
    waiting_ref = np.empty(most, np.int64)
    waiting_depth = np.empty(most, np.int64)
    waiting_tau = np.empty(most, np.float64)
    waiting_reach = np.empty(most, np.float64)
    start(forest, tree, lane)
    n_waiting = 0
    while True:
        while not step(forest, tree, x, lane):
            depth = entry_ref(lane)[DEPTH]
            if depth + 2 >= paths.shape[1]:
                paths = longer(paths)
                lane = paths.ctypes.data
            state = entry_reals(lane)
            node = node_at(forest, tree, entry_ref(lane + ENTRY_BYTES * depth)[REF])
            head = head_of(forest, node)
            v = x[head[DIM]]
            share = 1.0 if v <= head_reals(forest, node)[CUT] else 0.0
            if v != v:
                share = left_share(forest, tree, head, x)
            goes_left = share >= 0.5
            share = min(share, 1.0 - share)
            if share > 0.0 and state[REACH] * share >= LEAST_WEIGHT and n_waiting < most:
                waiting_ref[n_waiting] = head[RIGHT] if goes_left else head[LEFT]
                waiting_depth[n_waiting] = depth
                waiting_tau[n_waiting] = state[TAU]
                waiting_reach[n_waiting] = state[REACH] * share
                n_waiting += 1
                state[REACH] *= 1.0 - share
            descend(forest, tree, lane, head[LEFT] if goes_left else head[RIGHT])
        collect(forest, t, lane, out, row)
        if n_waiting == 0:
            return paths
        n_waiting -= 1
        depth = waiting_depth[n_waiting]
        # The part of the path that has been walked has had its branches counted.
        for i in range(1, depth + 1):
            entry = entry_reals(lane + ENTRY_BYTES * i)
            entry[REACH] = 0.0
            entry[ABOVE] = 0.0
        state = entry_reals(lane)
        state[TAU] = waiting_tau[n_waiting]
        state[REACH] = waiting_reach[n_waiting]
        state[ABOVE] = 0.0
        entry_ref(lane)[DEPTH] = depth
        descend(forest, tree, lane, waiting_ref[n_waiting])


@inlined
def has_missing(rows: np.ndarray, row: int, n_dims: int) -> bool:
    """Tell whether a row has a missing value."""
    for d in range(n_dims):
        if rows[row, d] != rows[row, d]:
            return True
    return False


@kernel
def predict_rows(forest: np.ndarray, rows: np.ndarray, out: np.ndarray) -> None:
    """Average the trees' predictions for scaled rows into `out`, shape (n, classes).

    Trees are outermost, so that a batch goes through one tree while that is in the cache; a
    single row walks several trees in lock-step. Both add the trees' parts in the same order.
    """
    n = rows.shape[0]
    n_trees = forest[N_TREES]
    n_dims = forest[N_DIMS]
    paths = np.empty((LANES, FIRST_DEPTH, ENTRY_WIDTH), np.float64)
    active = np.empty(LANES, np.int64)
    complete = np.empty(n, np.bool_)
    for r in range(n):
        complete[r] = not has_missing(rows, r, n_dims)
        for k in range(out.shape[1]):
            out[r, k] = 0.0
    # Lanes hold the rows of one tree, or the trees of the only row.
    by_tree = 1 if n == 1 and complete[0] else 0
    t = 0
    while t < n_trees:
        row = 0
        while row < n:
            if not complete[row]:
                paths = walk_missing(forest, rows, t, row, paths, out)
                row += 1
                continue
            lanes = min(LANES, n_trees - t) if by_tree else 1
            while not by_tree and lanes < LANES and row + lanes < n and complete[row + lanes]:
                lanes += 1
            while walk(forest, rows, t, by_tree, row, lanes, paths, active) > 0:
                paths = longer(paths)
            lane = paths.ctypes.data
            for i in range(lanes):
                collect(forest, t + i * by_tree, lane, out, row + i * (1 - by_tree))
                lane += ENTRY_BYTES * paths.shape[1]
            row += 1 if by_tree else lanes
        t += LANES if by_tree else 1
    for r in range(n):
        for k in range(out.shape[1]):
            out[r, k] /= n_trees


@kernel
def predict(
    forest: np.ndarray,
    scaling: np.ndarray,
    values: np.ndarray,
    rows: np.ndarray,
    out: np.ndarray,
) -> int:
    """Scale one row of values and predict it into `out`, shape (1, classes).

    Returns the most probable class, or `-2 - dimension` where a value is not finite.
    """
    bad = scale_into(rows[0, : forest[N_DIMS]], values, scaling)
    if bad >= 0:
        return -2 - bad
    predict_rows(forest, rows, out)
    best = 0
    for k in range(1, out.shape[1]):
        if out[0, k] > out[0, best]:
            best = k
    return best
