"""What trees say of a sample: means along its path, each shrunk to that of the node above.

A node that has seen the weight n with the mean m, below a node that says v, says

    (n m + s v) / (n + s),

with s the strength of the shrinkage. The fewer samples a leaf has, the more the nodes above it
count. Late means are shrunk in the same way by their own weights, with several strengths; with
s = 0 the leaf alone counts. All are read on one way down.

Trees that learn the same target, and are extended or not, are a *group*: what they say is averaged.
"""

from __future__ import annotations

from ...compiling.kernels import inlined, separate
from ...records import Array, Float64s
from ..rebuilt.records import LONG, RECENT, PathEntry
from .records import ERROR, AdaptiveTargetForest, TargetsTree

# Strengths of the shrinkage of the mean, and of the late mean.
STRENGTH = 6.0
STRENGTHS_OF_LATE = (0.0, 1.0, 6.0)
# What a tree says: the mean of all targets, then by each strength that of late targets.
N_READINGS = 1 + len(STRENGTHS_OF_LATE)

# Groups: of targets, and of residuals, the trees that are not extended and those that are; those of
# errors, and recent ones of these.
ERROR_GROUP = 4
RECENT_GROUP = 5
N_GROUPS = 6


@inlined
def group_of(tree: TargetsTree) -> int:
    """Return the group of a tree that predicts."""
    if tree.learns == ERROR:
        return RECENT_GROUP if tree.role == RECENT else ERROR_GROUP
    return 2 * tree.learns + tree.extends


@inlined
def _shrink(
    out: Float64s, weight: float, mean: float, late_weight: float, late_mean: float, is_root: bool
) -> None:
    """Go on from what is said above a node to what it says itself."""
    strength = 0.0 if is_root else STRENGTH
    out[0] = out[0] + (mean - out[0]) * (weight / (weight + strength))
    for k in range(1, N_READINGS):
        strength = 0.0 if is_root else STRENGTHS_OF_LATE[k - 1]
        out[k] = out[k] + (late_mean - out[k]) * (late_weight / (late_weight + strength))


@separate
def read_path(
    forest: AdaptiveTargetForest, tree: TargetsTree, path: Array[PathEntry], n: int, out: Float64s
) -> None:
    """Write what a tree says of a sample whose path has `n` entries: N_READINGS numbers."""
    for k in range(N_READINGS):
        out[k] = 0.0
    is_root = True
    for i in range(n):
        entry = path[i]
        if entry.ref < 0:
            point = forest.points.known(entry.place)
            own, weight = point.targets[tree.learns], point.weight
            _shrink(out, weight, own, weight, own, is_root)
            return
        node = tree.nodes.known(entry.place)
        weight = node.weight
        if weight > 0.0:
            _shrink(out, weight, node.mean, node.late_weight, node.late_mean, is_root)
            is_root = False


@separate
def read_trees(forest: AdaptiveTargetForest) -> None:
    """Write the mean of what the trees of each group say; 0 where there are none."""
    readings, sizes = forest.readings, forest.group_sizes
    for i in range(N_GROUPS * N_READINGS):
        readings[i] = 0.0
    for g in range(N_GROUPS):
        sizes[g] = 0
    own = readings.part(N_GROUPS * N_READINGS, N_READINGS)
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        if tree.path_length > 0 and tree.role in (LONG, RECENT):
            g = group_of(tree)
            read_path(forest, tree, forest.path_of(t), tree.path_length, own)
            sizes[g] = sizes[g] + 1
            for k in range(N_READINGS):
                readings[g * N_READINGS + k] = readings[g * N_READINGS + k] + own[k]
    for g in range(N_GROUPS):
        for k in range(N_READINGS):
            if sizes[g] > 1:
                readings[g * N_READINGS + k] = readings[g * N_READINGS + k] / sizes[g]
