"""How well hyperparameters of the Gaussian posterior would have predicted the latest samples.

The trees stay as they are, cut by all samples. The latest targets are taken out of them; then each
is predicted by the mixture of the trees from the targets before it, and put back. This progressive
likelihood costs a pass over the trees, and a pass along the path per sample and tree.
"""

from __future__ import annotations

import math

import numpy as np

from .access import link_at, node_at, target_at, tree_at, values_at
from .gaussian import (
    add_to_prior,
    forget,
    is_leaf,
    joint_mean,
    joint_precision,
    leaf_mean,
    leaf_precision,
    message_at,
    passed_on,
    posterior_below,
    rise_to,
    rise_to_end,
    scale_of,
    settle,
)
from .layout import (
    EMPTY,
    GAMMA2,
    LEFT,
    N_ROWS,
    NOISE,
    NONE,
    ROOT,
    Y_MEAN,
    Y_SQUARES,
    Y_WEIGHT,
)
from .memory import f64, i32, i64, inlined, kernel, put_f64
from .mondrian import side_of

# How many of a leaf's latest points are searched for one whose walk is uncertain.
LONGEST = 1024

# Columns of what is kept of a target that is out: its leaf (EMPTY where it has stayed), and the
# leaf's weight and mean with it. The first tree's row of a single point keeps the point's weight.
LEAF = 0
WEIGHT = 1
MEAN = 2
KEPT_WIDTH = 3

# Variance, in units of gamma1, and density, per standard deviation of the targets, below which none
# is believed.
LEAST_VARIANCE = 1e-12
LEAST_DENSITY = 1e-300


@inlined
def find_leaf(forest: int, t: int, p: int) -> int:
    """Return the leaf of a point, or EMPTY where a walk over missing values has not found it."""
    tree = tree_at(forest, t)
    ref = i64(tree, ROOT)
    while not is_leaf(forest, tree, ref):
        node = node_at(forest, tree, ref)
        ref = i32(node, side_of(forest, tree, node, values_at(forest, tree, p)))
    if ref < 0:
        return ref if ref == ~p else EMPTY
    q = i32(node_at(forest, tree, ref), LEFT)
    for _ in range(LONGEST):
        if q in (p, NONE):
            break
        q = i32(link_at(forest, q, t), 0)
    return ref if q == p else EMPTY


@kernel
def take_out(forest: int, first: int, last: int, n_trees: int, kept: np.ndarray) -> None:
    """Take the targets of points `first` to `last` out of their leaves, the latest first.

    `kept`, shape (points, trees + 1, KEPT_WIDTH), tells `put_back` how they were; the last row of
    a point is its own.
    """
    for p in range(last - 1, first - 1, -1):
        place = kept[p - first]
        place[n_trees, LEAF] = ~p
        for t in range(n_trees):
            place[t, LEAF] = find_leaf(forest, t, p)
            if place[t, LEAF] == EMPTY:
                place[n_trees, LEAF] = EMPTY
        if place[n_trees, LEAF] == EMPTY:
            continue
        y, weight = f64(target_at(forest, p), 0), f64(target_at(forest, p), 1)
        place[n_trees, WEIGHT] = weight
        put_f64(target_at(forest, p), 1, 0.0)
        for t in range(n_trees):
            leaf = np.int64(place[t, LEAF])
            if leaf >= 0:
                message = message_at(node_at(forest, tree_at(forest, t), leaf), 0)
                total, mean = f64(message, 0), f64(message, 1)
                place[t, WEIGHT], place[t, MEAN] = total, mean
                rest = total - weight
                # What rounding leaves is no sample.
                rest = rest if rest > 1e-9 * total else 0.0
                put_f64(message, 0, rest)
                if rest > 0.0:
                    put_f64(message, 1, mean + (mean - y) * weight / rest)


@inlined
def put_back(forest: int, t: int, p: int, n_trees: int, place: np.ndarray) -> None:
    """Put a target back into a tree's leaf."""
    put_f64(target_at(forest, p), 1, place[n_trees, WEIGHT])
    leaf = np.int64(place[t, LEAF])
    if leaf >= 0:
        message = message_at(node_at(forest, tree_at(forest, t), leaf), 0)
        put_f64(message, 0, place[t, WEIGHT])
        put_f64(message, 1, place[t, MEAN])


@inlined
def density(
    forest: int, t: int, p: int, y: float, weight: float, rows: np.ndarray, refs: np.ndarray
) -> tuple[float, int]:
    """Return a tree's predictive density of a target at the leaf of its point, and its depth.

    The way there is written to `rows`, after a 0, and `refs`, which ends with the leaf.
    """
    tree = tree_at(forest, t)
    noise, scale = f64(tree, NOISE), scale_of(forest, tree)
    mean, variance = f64(forest, Y_MEAN), 0.0
    x = values_at(forest, tree, p)
    ref = i64(tree, ROOT)
    rows[0], depth = 0, 0
    while not is_leaf(forest, tree, ref):
        parent, node = rows[depth], node_at(forest, tree, ref)
        rise = rise_to(forest, tree, parent, node)
        _, mean, variance = posterior_below(forest, tree, parent, ref, rise, mean, variance)
        depth += 1
        rows[depth], refs[depth] = node, ref
        ref = i32(node, side_of(forest, tree, node, x))
    refs[depth + 1] = ref
    rise = rise_to_end(forest, tree, rows[depth])
    _, mean, variance = posterior_below(forest, tree, rows[depth], ref, rise, mean, variance)
    variance = scale * max(variance + noise / weight, LEAST_VARIANCE)
    if not variance > 0.0:
        return 0.0, depth
    size = math.exp(-0.5 * (y - mean) ** 2 / variance)
    return size / math.sqrt(2.0 * math.pi * variance), depth


@inlined
def renew(forest: int, t: int, depth: int, rows: np.ndarray, refs: np.ndarray) -> None:
    """Renew the messages along a way from a leaf, whose target has been put back, to the root."""
    tree = tree_at(forest, t)
    for i in range(depth, 0, -1):
        parent, ref = rows[i], refs[i + 1]
        if i == depth:
            precision, mean = leaf_precision(forest, tree, ref), leaf_mean(forest, tree, ref)
            rise = rise_to_end(forest, tree, parent)
        else:
            precision, mean = joint_precision(rows[i + 1]), joint_mean(rows[i + 1])
            rise = rise_to(forest, tree, parent, rows[i + 1])
        message = message_at(parent, 0 if i32(parent, LEFT) == ref else 1)
        put_f64(message, 0, passed_on(precision, rise))
        put_f64(message, 1, mean)


@inlined
def take_from_prior(forest: int, y: float, weight: float) -> None:
    """Take a target out of the running mean and sum of squares."""
    rest = f64(forest, Y_WEIGHT) - weight
    mean = f64(forest, Y_MEAN)
    if weight > 0.0 and rest > 0.0:
        before = mean + (mean - y) * weight / rest
        squares = f64(forest, Y_SQUARES) - weight * (y - mean) * (y - before)
        put_f64(forest, Y_MEAN, before)
        put_f64(forest, Y_SQUARES, max(squares, 0.0))
        put_f64(forest, Y_WEIGHT, rest)


@kernel
def progressive_likelihood(
    forest: int, first: int, last: int, n_trees: int, gamma2: float, noise: float, kept: np.ndarray
) -> float:
    """Return the mean log density of the targets of points `first` to `last`, one after another.

    Densities are per standard deviation of the targets before. The first `n_trees` trees predict,
    with these hyperparameters; they keep them.
    """
    for t in range(n_trees):
        put_f64(tree_at(forest, t), GAMMA2, gamma2)
        put_f64(tree_at(forest, t), NOISE, noise)
        forget(forest, t)
    take_out(forest, first, last, n_trees, kept)
    weight, mean, squares = f64(forest, Y_WEIGHT), f64(forest, Y_MEAN), f64(forest, Y_SQUARES)
    for p in range(last - 1, first - 1, -1):
        place = kept[p - first]
        if place[n_trees, LEAF] != EMPTY:
            take_from_prior(forest, f64(target_at(forest, p), 0), place[n_trees, WEIGHT])
    settle(forest, np.int64(0), n_trees)
    most = 0
    for t in range(n_trees):
        most = max(most, i64(tree_at(forest, t), N_ROWS))
    rows, refs = np.empty(most + 1, np.int64), np.empty(most + 2, np.int64)
    total, n = 0.0, 0
    for p in range(first, last):
        place = kept[p - first]
        if place[n_trees, LEAF] == EMPTY:
            continue
        y, own = f64(target_at(forest, p), 0), place[n_trees, WEIGHT]
        spread = math.sqrt(f64(forest, Y_SQUARES) / f64(forest, Y_WEIGHT))
        mixed = 0.0
        for t in range(n_trees):
            if own > 0.0:
                dense, depth = density(forest, t, p, y, own, rows, refs)
                mixed += dense
            put_back(forest, t, p, n_trees, place)
            if own > 0.0:
                renew(forest, t, depth, rows, refs)
        if own > 0.0 and spread > 0.0:
            total += math.log(max(mixed * spread / n_trees, LEAST_DENSITY))
            n += 1
        add_to_prior(forest, y, own)
    put_f64(forest, Y_WEIGHT, weight)
    put_f64(forest, Y_MEAN, mean)
    put_f64(forest, Y_SQUARES, squares)
    return total / n if n > 0 else 0.0
