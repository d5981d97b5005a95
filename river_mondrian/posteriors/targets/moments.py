"""Which targets count, and their running mean and variance.

The variance of the targets is the unit of the prior and of the noise, and each target moves the
means of all nodes above it: one of 10^6 would decide both for good. So a target beyond *fences* is
set aside. Its sample cuts the trees as any other; its target has no weight in means, moments or the
law of targets.

The fences follow the stored targets, four times while the number of samples doubles (`renewal`):
`FENCE` times the robust range of the targets beyond either of its ends (see `partitions.ranges`).
Up to `LAST_JUDGED` samples, all stored targets are judged anew by them, as if they had always held;
later ones judge what comes after them. A shift of the targets' level is followed once a third as
many samples have come after it as before it, at the next renewal.

A forest that has stopped storing samples has nothing to renew its fences by: all targets count.
"""

from __future__ import annotations

import math

import numpy as np

from ...compiling.kernels import batch_kernel, exact_kernel, inlined, merged
from ...limits import LARGEST_TARGET
from ...partitions.mondrian.records import FREE, NONE
from ...partitions.ranges import robust_ranges
from ...records import Float64s
from .messages import forget_messages
from .records import T, TargetForest, TargetNode, TargetTree, add_target

# How many robust ranges the fences are beyond the ends of the range.
FENCE = 10.0

# Stored points, evenly strided, that tell of fences and of the extent of the data, at most.
MOST_READ = 1024

# Samples from which on there are fences, and up to which all stored targets are judged anew.
LEAST_FENCED = 16
LAST_JUDGED = 4096


def renewal(n: int) -> int:
    """Return the last number of samples up to `n` at which fences are renewed.

    Those are all whose binary digits are 0 but for the first three.
    """
    rest = max(n.bit_length() - 3, 0)
    return n >> rest << rest


def strided(n: int) -> tuple[int, int]:
    """Return how many of `n` stored points are read, and the stride between them."""
    step = -(-n // MOST_READ)
    return -(-n // step), step


@inlined
def judged(forest: TargetForest, y: float, weight: float) -> float:
    """Return the weight that a target is stored with: below 0 where it is set aside."""
    counts = forest.is_full == 1 or forest.low_fence <= y <= forest.high_fence
    return weight if counts else -weight


@exact_kernel
def add_to_moments(forest: T, y: float, weight: float) -> None:
    """Add a target to the running mean and sum of squares, unless it is set aside."""
    add_target(forest, y, weight)


@batch_kernel
def read_targets(forest: T, n: int, step: int, out: Float64s) -> None:
    """Write the targets of `n` stored points, every `step`-th; NaN where one has no weight."""
    for i in range(n):
        point = forest.points.row(i * step)
        out[i] = point.target if point.weight != 0.0 else math.nan


def find_fences(forest: TargetForest) -> tuple[float, float]:
    """Return fences from stored targets: all of them, or those of when fences were to be renewed.

    They are infinite while there are few targets, and where all are the same.
    """
    n = renewal(forest.n_points)
    if n < LEAST_FENCED:
        return -math.inf, math.inf
    n, step = strided(n)
    targets = np.empty(n)
    read_targets(forest, n, step, Float64s.of(targets))
    # Of a damaged model they may be any numbers.
    targets = np.where(np.abs(targets) <= LARGEST_TARGET, targets, math.nan)
    low, high = (float(end[0]) for end in robust_ranges(targets[:, None]))
    reach = FENCE * (high - low)
    return (low - reach, high + reach) if reach > 0.0 else (-math.inf, math.inf)


@merged
def _judge_points(forest: TargetForest) -> bool:
    """Judge all stored targets anew; tells whether that has changed anything."""
    has_changed = False
    for p in range(forest.n_points):
        point = forest.points.row(p)
        weight = judged(forest, point.target, abs(point.weight))
        if weight != point.weight:
            point.weight = weight
            has_changed = True
    return has_changed


@merged
def _refill_leaf(forest: TargetForest, tree: TargetTree, node: TargetNode) -> None:
    """Make a leaf's weight and mean anew of its points, where all of them are in its list."""
    n, q = 0, node.first_point
    while q != NONE:
        n += 1
        q = forest.links_of(q)[tree.slot]
    if n != node.n_samples:
        return
    node.refill(forest, tree)


@batch_kernel
def put_fences(forest: T, low: float, high: float) -> None:
    """Let targets count within new fences only; messages are to be updated next.

    Nothing but the fences changes where they part no other targets from the rest than before.
    """
    forest.low_fence = low
    forest.high_fence = high
    has_changed = forest.n_points <= LAST_JUDGED and _judge_points(forest)
    if has_changed or forest.n_forgotten > 0:
        # Of targets that were taken out rounding errors are left.
        forest.add_up(NONE)
    if not has_changed:
        return
    for t in range(forest.n_drawn()):
        tree = forest.trees[t]
        for j in range(tree.nodes.n_rows):
            node = tree.nodes.row(j)
            if node.dim < 0 and node.dim != FREE:
                _refill_leaf(forest, tree, node)
        forget_messages(tree)
