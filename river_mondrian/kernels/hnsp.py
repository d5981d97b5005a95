"""Label posterior of a Mondrian tree: hierarchical normalized stable process, by IKN counts.

Equation 4 is linear in the parent's distribution, G_j = b_j + a_j G_parent, and a prediction is a
weighted sum of such terms along the path (Equations 5 and 6). So a walk down needs the geometry
alone (see `walks`), and one pass from the leaf up collects the classes with the weight that each
node's own term has. Near the leaf that weight soon vanishes and the pass ends.
"""

from __future__ import annotations

import math

import numpy as np

from .access import counts_at, label_of, link_at, node_at, point_at, tree_at
from .bits import lowest_bit, n_classes_in, word_at
from .layout import (
    CLASSES,
    COLLECT,
    COUNT,
    DIM,
    EXTEND,
    GAMMA,
    LEFT,
    MAX_SPLITS,
    N_CLASSES,
    N_POINTS,
    N_SAMPLES,
    N_TREES,
    N_VALUES,
    N_WORDS,
    NONE,
    OUT,
    POINT_CAPACITY,
    PREDICT_ROWS,
    RIGHT,
    ROW,
    UNLIMITED,
    VALUES,
    WARM_UP,
)
from .memory import (
    call6,
    called,
    direct,
    f64,
    i32,
    i64,
    inlined,
    kernel,
    put_f64,
    put_i32,
    put_i64,
)
from .mondrian import learn
from .scaling import scale_into
from .walks import ABOVE, DEPTH, ENTRY_BYTES, ETA, REACH, REF, SPAN, STAYS

# Weight that no sum in float64 would notice.
NOTHING = 1e-17

# What learning says where it has not begun: there is no room for a point, the ranges are to be
# refreshed, or kernels do not have the addresses of those that they call.
WAITS = -(2**62)


@kernel
def put_label(forest: int, label: int, point: int) -> None:
    """Write the class of a stored point."""
    put_i32(point_at(forest, point), i64(forest, N_VALUES), label)


@direct
def learn_one(forest: int, label: int) -> int:
    """Store the sample in `VALUES` as the next point and extend every tree by it.

    Returns WAITS or as `mondrian.learn` does. If that is -1 and the trees have no limit, the sample
    has been counted.
    """
    point = i64(forest, N_POINTS)
    n = i64(forest, N_SAMPLES) + 1
    doubles = i64(forest, WARM_UP) != 0 and n & (n - 1) == 0
    if doubles or point >= i64(forest, POINT_CAPACITY) or i64(forest, EXTEND) == 0:
        return WAITS
    put_label(forest, label, point)
    said = learn(forest, i64(forest, VALUES), point)
    if said == -1 and i64(forest, MAX_SPLITS) == UNLIMITED:
        put_i64(forest, N_SAMPLES, n)
        put_i64(forest, N_POINTS, point + 1)
    return said


@kernel
def put_labels(forest: int, labels: int, n: int, first: int) -> None:
    """Write the classes of the points `first`, `first + 1`, ..."""
    for i in range(n):
        put_label(forest, i64(labels, i), first + i)


@inlined
def add(out: int, k: int, weight: float) -> None:
    """Add a weight to a class."""
    put_f64(out, k, f64(out, k) + weight)


@inlined
def add_each(word: int, first: int, weight: float, out: int) -> None:
    """Add a weight to each class of a word's set."""
    while word != 0:
        add(out, first + lowest_bit(word), weight)
        word &= word - 1


@inlined
def add_counts(forest: int, t: int, node: int, scale: float, out: int) -> None:
    """Add `scale` times the class counts of a leaf of several classes."""
    if i32(node, RIGHT) != NONE:
        table = counts_at(forest, tree_at(forest, t), i32(node, RIGHT))
        for k in range(i64(forest, N_CLASSES)):
            add(out, k, scale * i32(table, k))
        return
    p = i32(node, LEFT)
    while p != NONE:
        add(out, label_of(forest, p), scale)
        p = i32(link_at(forest, p, t), 0)


@called
def collect(forest: int, t: int, lane: int, out: int) -> int:
    """Add a walk's prediction to `out`, from its leaf up to the base (Algorithm 8); returns 0."""
    tree = tree_at(forest, t)
    gamma = f64(forest, GAMMA)
    words = i64(forest, N_WORDS)
    depth = i64(lane, DEPTH)
    # Probability of reaching the leaf without branching off.
    weight = f64(lane, REACH)
    for i in range(depth, 0, -1):
        entry = lane + ENTRY_BYTES * i
        ref = i64(entry, REF)
        eta = f64(entry, ETA)
        discount = math.exp(-gamma * f64(entry, SPAN))
        # Weight of the node's own classes, and of its parent's distribution, on branching off.
        own = 0.0
        passed = 0.0
        if eta > 0.0:
            reach = f64(entry, REACH)
            stays = f64(entry, STAYS)
            passed = reach * eta / (eta + gamma) * (1.0 - stays * discount)
            own = max(reach * (1.0 - stays) - passed, 0.0)
        if ref < 0:
            add(out, label_of(forest, ~ref), weight * (1.0 - discount) + own)
            weight = weight * discount + passed
        else:
            node = node_at(forest, tree, ref)
            left = node + 4 * CLASSES
            right = left if i32(node, DIM) < 0 else left + 4 * words
            n_classes = n_classes_in(left, right, words)
            if i == depth:
                total = np.float64(i32(node, COUNT))
                if n_classes > 1:
                    add_counts(forest, t, node, weight / total, out)
                    each = own / n_classes - weight * discount / total
                else:
                    each = own + weight * (total - discount) / total
            else:
                total = np.float64(
                    n_classes_in(left, left, words) + n_classes_in(right, right, words)
                )
                each = own / n_classes + weight * (1.0 - discount) / total
                for w in range(words):
                    both = word_at(left, w) & word_at(right, w)
                    add_each(both, 32 * w, weight / total, out)
            for w in range(words):
                either = word_at(left, w) | word_at(right, w)
                add_each(either, 32 * w, each, out)
            weight = weight * discount * n_classes / total + passed
        if weight + f64(entry, ABOVE) < NOTHING:
            return 0
    n_classes = i64(forest, N_CLASSES)
    for k in range(n_classes):
        add(out, k, weight / n_classes)
    return 0


@inlined
def most_probable(out: int, n_classes: int) -> int:
    """Return the class of the largest of float64 probabilities, the first of several."""
    best = 0
    for k in range(1, n_classes):
        if f64(out, k) > f64(out, best):
            best = k
    return best


@inlined
def average(forest: int, rows: int, n: int, out: int) -> None:
    """Average the trees' predictions for `n` scaled rows into `out`, shape (n, classes)."""
    n_classes = i64(forest, N_CLASSES)
    for k in range(n * n_classes):
        put_f64(out, k, 0.0)
    call6(i64(forest, PREDICT_ROWS), forest, rows, n, out, n_classes, i64(forest, COLLECT))
    for k in range(n * n_classes):
        put_f64(out, k, f64(out, k) / i64(forest, N_TREES))


@kernel
def predict_rows(forest: int, rows: int, n: int, out: int) -> None:
    """Predict scaled rows, as `average` does."""
    average(forest, rows, n, out)


@direct
def predict(forest: int) -> int:
    """Predict the sample in `VALUES` into `OUT`.

    Returns the most probable class, or `-2 - dimension` where a value is too large.
    """
    row, out = i64(forest, ROW), i64(forest, OUT)
    bad = scale_into(forest, row, i64(forest, VALUES))
    if bad >= 0:
        return -2 - bad
    average(forest, row, np.int64(1), out)
    return most_probable(out, i64(forest, N_CLASSES))
