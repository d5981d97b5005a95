"""What the nodes on a path say of the classes, each by itself."""

from __future__ import annotations

import numpy as np

from ...compiling.kernels import inlined, kernel
from ...records import Float32s, Float64s
from .records import A, AdaptiveForest
from .seen import numbers_of, sides_of
from .statistics import LATE, LATEST, MIXED, N_WEIGHTINGS, NOISY, PRIORS

# Numbers of a step, and rows of numbers for each class.
STEP_NUMBERS = 1 + N_WEIGHTINGS
STEP_ROWS = 2 + N_WEIGHTINGS


@inlined
def _customers(forest: AdaptiveForest, count: float, bits: int, below: float, ends: bool) -> float:
    """Return c of Algorithm 5 at a node, of a class that has gone on the sides of these bits.

    `below` of it has gone on along the path.
    """
    if ends:
        return count
    if forest.is_weighted == 1:
        return min(below, 1.0) + min(max(count - below, 0.0), 1.0)
    return np.float64((bits & 1) + (bits >> 1))


@inlined
def _describe_silent(
    forest: AdaptiveForest, ref: int, k: int, rows: Float64s, below: Float32s
) -> None:
    """Describe what has no statistics: a single point; or nothing, and all classes are alike."""
    n_classes = forest.n_classes
    weight = forest.weight_of(~ref) if ref < 0 else 0.0
    own = weight if ref < 0 and forest.label_of(~ref) == k else 0.0
    rows[k] = own
    rows[n_classes + k] = min(own, 1.0)
    below[k] = own
    for v in range(N_WEIGHTINGS):
        alpha = PRIORS[v]
        rows[(2 + v) * n_classes + k] = (own + alpha) / (weight + alpha * n_classes)


@kernel
def describe_path(forest: A, t: int, numbers: Float64s, distributions: Float64s) -> None:
    """Describe the nodes on a tree's path of the sample predicted last.

    `numbers` gets `STEP_NUMBERS` for each step: 1 where the node says something of the classes,
    and its probabilities to stop. `distributions` gets `STEP_ROWS` rows of a number for each class:
    c and the tables of the HNSP, then the node's own distributions in the weightings.
    """
    tree, path = forest.trees[t], forest.path_of(t)
    n, n_classes, below = tree.path_length, forest.n_classes, forest.below
    # From the end up, since what has gone on along the path is known below.
    for i in range(n - 1, -1, -1):
        entry = path[i]
        ref, statistics, ends = entry.ref, entry.statistics, i == n - 1
        says = bool(statistics) and statistics.n_seen > 0
        own = numbers.part(STEP_NUMBERS * i, STEP_NUMBERS)
        own[0] = 1.0 if says or ends else 0.0
        for v in range(N_WEIGHTINGS):
            own[1 + v] = 1.0 if ends else 0.0
            if says and not ends:
                own[1 + v] = statistics.stops[v]
        rows = distributions.part(STEP_ROWS * n_classes * i, STEP_ROWS * n_classes)
        for k in range(n_classes):
            if says:
                known = numbers_of(forest, tree, statistics, k)
                count = np.float64(known.words[0])
                of_all = statistics.estimate(known, PRIORS[MIXED], n_classes)
                late = statistics.forgetting_estimate(known, LATE, PRIORS[MIXED], n_classes)
                latest = statistics.forgetting_estimate(known, LATEST, PRIORS[MIXED], n_classes)
                shares = statistics.shares
                mixed = shares[0] * of_all + shares[1] * late + shares[2] * latest
                noisy = statistics.estimate(known, PRIORS[NOISY], n_classes)
                bits = sides_of(forest, tree, statistics, k)
                rows[k] = _customers(forest, count, bits, below[k], ends)
                below[k] = count
                rows[n_classes + k] = min(count, 1.0)
                rows[(2 + NOISY) * n_classes + k] = noisy
                rows[(2 + MIXED) * n_classes + k] = mixed
            else:
                _describe_silent(forest, ref, k, rows, below)
