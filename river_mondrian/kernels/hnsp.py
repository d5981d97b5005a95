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
from .memory import float32_view, inlined, kernel
from .mondrian import distance_outside, distance_to, scale_into

# Walks in lock-step, and the path length for which room is made at first.
LANES = 16
FIRST_DEPTH = 64

# Columns of a path's entries: distance outside the node's box, time since its parent, probability
# of not having branched off above, weight of all the branches above.
ETA = 0
SPAN = 1
REACH = 2
ABOVE = 3

# Columns of a walk's state: time of the node's parent, and REACH and ABOVE of the next entry.
TAU = 0
REACHED = 1
BRANCHED = 2

# A branch of a walk with a missing value is followed while its weight is at least this.
LEAST_WEIGHT = 0.02


@inlined
def step(
    forest: np.ndarray,
    tree: np.ndarray,
    x: np.ndarray,
    refs: np.ndarray,
    entries: np.ndarray,
    states: np.ndarray,
    lane: int,
    depth: int,
) -> bool:
    """Note a path's geometry at the node that it has come to; returns whether that is a leaf."""
    ref = refs[lane, depth]
    span = real(forest, LIFETIME) - states[lane, TAU]
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
    reach = states[lane, REACHED]
    entries[lane, depth, ETA] = eta
    entries[lane, depth, SPAN] = span
    entries[lane, depth, REACH] = reach
    entries[lane, depth, ABOVE] = states[lane, BRANCHED]
    if eta > 0.0:
        branches = -math.expm1(-eta * span)
        states[lane, BRANCHED] += reach * branches
        states[lane, REACHED] = reach * (1.0 - branches)
    states[lane, TAU] += span
    return is_leaf


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
def collect(
    forest: np.ndarray,
    t: int,
    refs: np.ndarray,
    entries: np.ndarray,
    lane: int,
    depth: int,
    weight: float,
    out: np.ndarray,
    row: int,
) -> None:
    """Add a path's prediction to a row of `out`, from the leaf at `depth` up to the base.

    `weight` is the probability of reaching the leaf without branching off (Algorithm 8).
    """
    tree = tree_at(forest, t)
    gamma = real(forest, GAMMA)
    words = forest[N_WORDS]
    for i in range(depth, -1, -1):
        ref = refs[lane, i]
        eta = entries[lane, i, ETA]
        span = entries[lane, i, SPAN]
        reach = entries[lane, i, REACH]
        discount = math.exp(-gamma * span)
        # Weight of the node's own classes, and of its parent's distribution, on branching off.
        own = 0.0
        passed = 0.0
        if eta > 0.0:
            passed = -reach * eta / (eta + gamma) * math.expm1(-(eta + gamma) * span)
            own = -reach * math.expm1(-eta * span) - passed
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
        if weight + entries[lane, i, ABOVE] < 1e-18:
            return
    weight /= forest[N_CLASSES]
    for k in range(forest[N_CLASSES]):
        out[row, k] += weight


@inlined
def longer(refs: np.ndarray, entries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Double the room for paths."""
    lanes, depth = refs.shape
    more_refs = np.empty((lanes, 2 * depth), np.int64)
    more_entries = np.empty((lanes, 2 * depth, 4), np.float64)
    more_refs[:, :depth] = refs
    more_entries[:, :depth] = entries
    return more_refs, more_entries


@inlined
def predict_lanes(
    forest: np.ndarray,
    rows: np.ndarray,
    tree: int,
    tree_step: int,
    row: int,
    row_step: int,
    lanes: int,
    refs: np.ndarray,
    entries: np.ndarray,
    states: np.ndarray,
    depths: np.ndarray,
    active: np.ndarray,
    out: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Walk `lanes` pairs of tree and row in lock-step, then collect them in order."""
    n_dims = forest[N_DIMS]
    first = rows.ctypes.data
    stride = 4 * rows.shape[1]
    for i in range(lanes):
        states[i, TAU] = 0.0
        states[i, REACHED] = 1.0
        states[i, BRANCHED] = 0.0
        depths[i] = 0
        active[i] = i
        walked = tree_at(forest, tree + i * tree_step)
        refs[i, 0] = walked[ROOT]
        prefetch_ref(forest, walked, walked[ROOT])
    n_active = lanes
    while n_active > 0:
        still = 0
        for a in range(n_active):
            i = active[a]
            walked = tree_at(forest, tree + i * tree_step)
            depth = depths[i]
            if depth + 1 >= refs.shape[1]:
                refs, entries = longer(refs, entries)
            x = float32_view(first + (row + i * row_step) * stride, n_dims)
            if step(forest, walked, x, refs, entries, states, i, depth):
                continue
            node = node_at(forest, walked, refs[i, depth])
            head = head_of(forest, node)
            child = head[LEFT] if x[head[DIM]] <= head_reals(forest, node)[CUT] else head[RIGHT]
            prefetch_ref(forest, walked, child)
            refs[i, depth + 1] = child
            depths[i] = depth + 1
            active[still] = i
            still += 1
        n_active = still
    for i in range(lanes):
        collect(
            forest,
            tree + i * tree_step,
            refs,
            entries,
            i,
            depths[i],
            states[i, REACHED],
            out,
            row + i * row_step,
        )
    return refs, entries


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
def predict_missing(
    forest: np.ndarray,
    rows: np.ndarray,
    t: int,
    row: int,
    refs: np.ndarray,
    entries: np.ndarray,
    states: np.ndarray,
    out: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Predict a row with missing values by one tree.

    At a cut on a missing value both sides are followed, each with its share of the weight; a
    side whose weight falls below `LEAST_WEIGHT` gives it to the other.
    """
    tree = tree_at(forest, t)
    x = float32_view(rows.ctypes.data + row * 4 * rows.shape[1], forest[N_DIMS])
    most = int(1.0 / LEAST_WEIGHT) + 2
    waiting_ref = np.empty(most, np.int64)
    waiting_depth = np.empty(most, np.int64)
    waiting_tau = np.empty(most, np.float64)
    waiting_reach = np.empty(most, np.float64)
    n_waiting = 1
    waiting_ref[0] = tree[ROOT]
    waiting_depth[0] = 0
    waiting_tau[0] = 0.0
    waiting_reach[0] = 1.0
    while n_waiting > 0:
        n_waiting -= 1
        depth = waiting_depth[n_waiting]
        refs[0, depth] = waiting_ref[n_waiting]
        states[0, TAU] = waiting_tau[n_waiting]
        states[0, REACHED] = waiting_reach[n_waiting]
        states[0, BRANCHED] = 0.0
        # The part of the path that an earlier walk went has had its branches counted.
        for i in range(depth):
            entries[0, i, REACH] = 0.0
            entries[0, i, ABOVE] = 0.0
        while not step(forest, tree, x, refs, entries, states, 0, depth):
            if depth + 2 >= refs.shape[1]:
                refs, entries = longer(refs, entries)
            node = node_at(forest, tree, refs[0, depth])
            head = head_of(forest, node)
            depth += 1
            v = x[head[DIM]]
            if v == v:
                refs[0, depth] = head[LEFT] if v <= head_reals(forest, node)[CUT] else head[RIGHT]
                continue
            share = left_share(forest, tree, head, x)
            goes_left = share >= 0.5
            refs[0, depth] = head[LEFT] if goes_left else head[RIGHT]
            share = min(share, 1.0 - share)
            reach = states[0, REACHED]
            if reach * share >= LEAST_WEIGHT and n_waiting < most:
                waiting_ref[n_waiting] = head[RIGHT] if goes_left else head[LEFT]
                waiting_depth[n_waiting] = depth
                waiting_tau[n_waiting] = states[0, TAU]
                waiting_reach[n_waiting] = reach * share
                n_waiting += 1
                states[0, REACHED] = reach * (1.0 - share)
        collect(forest, t, refs, entries, 0, depth, states[0, REACHED], out, row)
    return refs, entries


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
    refs = np.empty((LANES, FIRST_DEPTH), np.int64)
    entries = np.empty((LANES, FIRST_DEPTH, 4), np.float64)
    states = np.empty((LANES, 3), np.float64)
    depths = np.empty(LANES, np.int64)
    active = np.empty(LANES, np.int64)
    complete = np.empty(n, np.bool_)
    for r in range(n):
        complete[r] = not has_missing(rows, r, n_dims)
        for k in range(out.shape[1]):
            out[r, k] = 0.0
    # A pass walks the rows of one tree, or the trees of one row.
    by_tree = n == 1 and complete[0]
    t = 0
    while t < n_trees:
        row = 0
        while row < n:
            if not complete[row]:
                refs, entries = predict_missing(
                    forest, rows, t, row, refs, entries, states, out
                )
                row += 1
                continue
            lanes = min(LANES, n_trees - t) if by_tree else 1
            while not by_tree and lanes < LANES and row + lanes < n and complete[row + lanes]:
                lanes += 1
            tree_step = 1 if by_tree else 0
            refs, entries = predict_lanes(
                forest, rows, t, tree_step, row, 1 - tree_step, lanes,
                refs, entries, states, depths, active, out,
            )  # fmt: skip
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
