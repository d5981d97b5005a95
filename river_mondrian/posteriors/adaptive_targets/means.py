"""Adaptive trees over targets: records, the means read along paths, and the two mixtures."""

from __future__ import annotations

from typing import TypeVar

from ...compiling.kernels import batch_kernel, inlined, kernel, separate
from ...learners.regression import error_law, lags, mixing
from ...learners.regression import ridges as regressions
from ...learners.regression.lags import Lags
from ...learners.regression.records import ADDITIVE, N_RIDGES, Ridges
from ...limits import DONE, TOO_LARGE, WAITS
from ...partitions.mondrian.inputs import scale
from ...records import (
    Array,
    Bounds,
    Float32,
    Float64,
    Float64s,
    Int64,
    Int64s,
    Packed,
    Record,
    Table,
    inline,
    stored,
    transient,
)
from ..rebuilt import forest as rebuilt
from ..rebuilt.forest import PathEntry, RebuiltForest, RebuiltNode, RebuiltPoint, RebuiltTree

# The regression whose residuals trees learn.
RESIDUAL_OF = ADDITIVE

# What trees learn of a sample: its target, what that regression has left of it, and what the first
# mixture has.
TARGET = 0
RESIDUAL = 1
ERROR = 2
N_TARGETS = 3

# Part of what a node's late memory knows that is left after a visit.
KEPT = 0.4


class TargetsPoint(RebuiltPoint):
    """A stored sample with its targets."""

    targets: Float64s = inline(N_TARGETS)
    weight: Float64


class TargetsNode(RebuiltNode):
    """A node with the means of the targets that have passed it: of all, and of late ones."""

    # Weight of all, 0 where nothing is known yet, and of late ones: a visit leaves KEPT of it.
    weight: Float32
    late_weight: Float32
    mean: Float64
    late_mean: Float64

    def add(self, target: float, weight: float) -> None:
        """Add a target to both means."""
        total = self.weight + weight
        self.mean = self.mean + (target - self.mean) * (weight / total)
        self.weight = total
        total = KEPT * self.late_weight + weight
        self.late_mean = self.late_mean + (target - self.late_mean) * (weight / total)
        self.late_weight = total

    def means(self) -> tuple[float, float, float, float]:
        """Return both weights and both means."""
        return self.weight, self.late_weight, self.mean, self.late_mean

    def set_means(self, known: tuple[float, float, float, float]) -> None:
        """Set both weights and both means."""
        self.weight, self.late_weight, self.mean, self.late_mean = known


class TargetsTree(RebuiltTree):
    """A tree that learns one of a sample's targets."""

    nodes: Table[TargetsNode]
    # Which target it learns, and whether it is extended outside of its boxes; else a sample goes
    # down to its leaf from wherever it is.
    learns: Int64 = stored(Bounds(0, N_TARGETS - 1))
    extends: Int64


class SidesOfCut(Record):
    """How the sampled points of a block are parted by a candidate."""

    # Weights and sums of targets on the left, on the right, and with a missing value.
    weights: Float64s = inline(3)
    sums: Float64s = inline(3)


class AdaptiveTargetForest(RebuiltForest):
    """The fields of the forest; `TargetsForest` has what `RebuiltForest` asks for."""

    trees: Array[TargetsTree]
    points: Table[TargetsPoint]
    # The accepted sample: its targets and its weight.
    accepted: Float64s
    accepted_weight: Float64 = transient()
    # Targets beyond the fences count as at them, but where many of late have been beyond.
    low_fence: Float64
    high_fence: Float64
    beyond: Float64
    # Mean size of errors.
    error_size: Float64
    # The ridges, the mixture of these and of trees, and that of all.
    ridges: Ridges
    first: mixing.TargetMixture
    second: mixing.TargetMixture
    law: error_law.ErrorLaw
    # The latest targets, where these predict, too; none else.
    lags: Lags
    # The last prediction: the first mixture's, the second's, and how far the experts disagree.
    first_point: Float64 = transient()
    point: Float64 = transient()
    spread: Float64 = transient()
    # Of an accepted sample whose target is late, what was predicted when the sample came: what the
    # second mixture recalls, then the point and the size.
    is_late: Int64 = transient()
    remembered: Float64s
    # Sums of what trees predict: rows of N_READINGS for each group of trees, and their numbers.
    readings: Float64s
    group_sizes: Int64s
    # Room for drawing a cut: the sampled points of the block, and how candidates part them.
    block: Int64s
    sides: Array[SidesOfCut]

    def targets_of(self, p: int) -> Float64s:
        """Return the targets of a stored point."""
        return self.points.row(p).targets


T = TypeVar("T", bound=AdaptiveTargetForest)


# What trees say of a sample: means along its path, each shrunk to that of the node above.
#
# A node that has seen the weight n with the mean m, below a node that says v, says
#
#     (n m + s v) / (n + s),
#
# with s the strength of the shrinkage. The fewer samples a leaf has, the more the nodes above it
# count. Late means are shrunk in the same way by their own weights, with several strengths; with
# s = 0 the leaf alone counts. All are read on one way down.
#
# Trees that learn the same target, and are extended or not, are a *group*: what they say is
# averaged.


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
def read_path(forest: T, tree: TargetsTree, path: Array[PathEntry], n: int, out: Float64s) -> None:
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
def read_trees(forest: T) -> None:
    """Write the mean of what the trees of each group say; 0 where there are none."""
    readings, sizes = forest.readings, forest.group_sizes
    for i in range(N_GROUPS * N_READINGS):
        readings[i] = 0.0
    for g in range(N_GROUPS):
        sizes[g] = 0
    own = readings.part(N_GROUPS * N_READINGS, N_READINGS)
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        if tree.path_length > 0 and tree.predicts():
            g = 2 * tree.learns + tree.extends
            if tree.learns == ERROR:
                g = RECENT_GROUP if tree.role == rebuilt.RECENT else ERROR_GROUP
            read_path(forest, tree, forest.path_of(t), tree.path_length, own)
            sizes[g] = sizes[g] + 1
            for k in range(N_READINGS):
                readings[g * N_READINGS + k] = readings[g * N_READINGS + k] + own[k]
    for g in range(N_GROUPS):
        for k in range(N_READINGS):
            if sizes[g] > 1:
                readings[g * N_READINGS + k] = readings[g * N_READINGS + k] / sizes[g]


# Groups of the first stage, which learn targets and residuals, and experts of both mixtures.
N_FIRST_GROUPS = ERROR_GROUP
N_FIRST = N_RIDGES + N_FIRST_GROUPS * N_READINGS
N_SECOND_GROUPS = N_GROUPS - N_FIRST_GROUPS
N_SECOND = N_FIRST + 1 + N_SECOND_GROUPS * N_READINGS

# What is said of each of many samples.
N_SAID = 3


@inlined
def _take(forest: T, out: Float64s, place: int, group: int, base: float, other: float) -> None:
    """Let a group of trees be experts: what they say beyond a base, or another where none are."""
    for k in range(N_READINGS):
        said = base + forest.readings[group * N_READINGS + k]
        out[place + k] = said if forest.group_sizes[group] > 0 else other


@separate
def predict_anew(forest: T, inputs: Float64s) -> int:
    """Predict a sample of these inputs; returns DONE, or the first that is too large."""
    bad = scale(forest, forest.row, inputs)
    if bad >= 0:
        return bad
    rebuilt.walk_all(forest)
    read_trees(forest)
    regressions.predict(forest.ridges, inputs)
    # The ridges have written theirs.
    first, second = forest.first.predicted, forest.second.predicted
    regressed = first[RESIDUAL_OF]
    for g in range(N_FIRST_GROUPS):
        base = regressed if g >= 2 * RESIDUAL else 0.0
        _take(forest, first, N_RIDGES + g * N_READINGS, g, base, regressed)
    point = mixing.predict(forest.first)
    forest.first_point = point
    for i in range(N_FIRST):
        second[i] = first[i]
    second[N_FIRST] = point
    for g in range(N_FIRST_GROUPS, N_GROUPS):
        place = N_FIRST + 1 + (g - N_FIRST_GROUPS) * N_READINGS
        _take(forest, second, place, g, point, point)
    if forest.lags:
        lags.predict(forest.lags, point)
    forest.point = mixing.predict(forest.second)
    forest.spread = forest.second.spread
    rebuilt.note_predicted(forest, inputs)
    return DONE


@kernel
def predict(forest: T) -> int:
    """Predict the sample in the forest's `inputs`; returns DONE, or `TOO_LARGE - i`."""
    bad = rebuilt.ensure_predicted(forest, forest.inputs)
    return TOO_LARGE - bad if bad >= 0 else DONE


@kernel
def predict_one(forest: T, version: int, inputs: Packed) -> int:
    """Predict a sample by trees of a version; returns as `predict` does, or WAITS.

    The forest's `inputs` stay, since another thread may be about to learn them.
    """
    if version != forest.version:
        return WAITS
    bad = rebuilt.ensure_predicted(forest, Float64s(inputs, 0, forest.n_inputs))
    return TOO_LARGE - bad if bad >= 0 else DONE


@batch_kernel
def predict_rows(forest: T, rows: Float64s, n: int, out: Float64s) -> None:
    """Predict `n` rows of inputs, of each N_SAID numbers: the point, and what its law is made of.

    What a prediction is written to is the caller's own (see `RebuiltTrees`), since other threads
    predict meanwhile.
    """
    capacity, ridges = forest.input_capacity, forest.ridges
    for i in range(n):
        predict_anew(forest, rows.part(capacity * i, capacity))
        said = out.part(N_SAID * i, N_SAID)
        said[0], said[1], said[2] = forest.point, forest.spread, ridges.size
