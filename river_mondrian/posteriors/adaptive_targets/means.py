"""Adaptive trees over targets: records, means along paths, and predictions by two mixtures."""

from typing import TypeVar

from ... import records as rec
from ...compiling.kernels import always_inline, batch_kernel, kernel, link_by_name
from ...learners import neighbors
from ...learners.regression import lags, mixing
from ...learners.regression import ridges as regressions
from ...learners.regression.error_distribution import ErrorDistributionRecord
from ...learners.regression.lags import LaggedTargetsRecord
from ...learners.regression.records import ADDITIVE, N_RIDGES, RidgeExpertsRecord
from ...limits import DONE, TOO_LARGE
from ...partitions.mondrian.scaling import scale
from ..rebuilt import forest as rebuilt
from ..rebuilt.forest import PathEntry, RebuiltForest, RebuiltNode, RebuiltPoint, RebuiltTree

# Index of the regression whose residuals trees learn.
RESIDUAL_OF = ADDITIVE

# Indices of the targets that trees learn: the sample's target, the residual of regression
# RESIDUAL_OF, and the first mixture's error.
TARGET = 0
RESIDUAL = 1
ERROR = 2
N_TARGETS = 3

# Each sample that passes a node multiplies the node's `late_weight` by this factor.
KEPT = 0.4


class TargetsPoint(RebuiltPoint):
    """A stored sample with its targets."""

    targets: rec.Float64s = rec.inline(N_TARGETS)
    weight: rec.Float64


class TargetsNode(RebuiltNode):
    """A node with the means of all targets and of recent targets at the node."""

    # Weight of all targets, 0 before the first target. Weight of recent targets, which is
    # multiplied by KEPT before each new target is added.
    weight: rec.Float32
    late_weight: rec.Float32
    mean: rec.Float64
    late_mean: rec.Float64

    def add(self, target: float, weight: float) -> None:
        """Add a target to the means of all and of recent targets."""
        total = self.weight + weight
        self.mean = self.mean + (target - self.mean) * (weight / total)
        self.weight = total
        total = KEPT * self.late_weight + weight
        self.late_mean = self.late_mean + (target - self.late_mean) * (weight / total)
        self.late_weight = total

    def means(self) -> tuple[float, float, float, float]:
        """Return the weights and the means of all and of recent targets."""
        return self.weight, self.late_weight, self.mean, self.late_mean

    def set_means(self, known: tuple[float, float, float, float]) -> None:
        """Set the weights and the means of all and of recent targets."""
        self.weight, self.late_weight, self.mean, self.late_mean = known


class TargetsTree(RebuiltTree):
    """A tree that learns one of a sample's targets."""

    nodes: rec.Table[TargetsNode]
    # Index of the target that the tree learns, and whether points outside boxes add cuts above the
    # boxes. If not, each point is added to a leaf.
    learns: rec.Int64 = rec.stored(rec.Bounds(0, N_TARGETS - 1))
    extends: rec.Int64 = rec.stored(rec.Bounds(0, 1))


class SidesOfCut(rec.Record):
    """Sums over a subset of a leaf's points, on each side of a candidate."""

    # Weights, and sums of targets, of the points on the left, on the right, and with a missing
    # value.
    weights: rec.Float64s = rec.inline(3)
    sums: rec.Float64s = rec.inline(3)


class AcceptedTargets(rec.Record):
    """The accepted sample's targets and weight."""

    EMBEDDED = True

    targets: rec.Float64s
    weight: rec.Float64 = rec.transient()
    # Whether the target is delayed. If so, `remembered` has values of the prediction at the
    # sample's arrival: the values for `mixing.recall`, the point prediction, and the predicted size
    # of errors.
    is_late: rec.Int64 = rec.transient()
    remembered: rec.Float64s


class TargetFences(rec.Record):
    """Fences that clip targets (see `targets_forest`)."""

    EMBEDDED = True

    low: rec.Float64
    high: rec.Float64
    # A discounted count of targets beyond the fences. If the count is above `MOST_BEYOND`, the
    # level of the targets may have changed, so targets are not clipped.
    n_beyond: rec.Float64


class PredictedTarget(rec.Record):
    """The last prediction."""

    EMBEDDED = True

    # The point predictions of the first and the second mixture, and the experts' disagreement.
    first_point: rec.Float64 = rec.transient()
    point: rec.Float64 = rec.transient()
    spread: rec.Float64 = rec.transient()


class GroupReadings(rec.Record):
    """The mean readings (see `read_path`) and the number of trees of each group of trees."""

    EMBEDDED = True

    # N_READINGS for each group, then N_READINGS of a single tree.
    readings: rec.Float64s
    sizes: rec.Int64s


class LeafTargets(rec.Record):
    """Buffers for the cut of a leaf."""

    EMBEDDED = True

    # A subset of the leaf's points, and the sums of each candidate.
    points: rec.Int64s
    sides: rec.Array[SidesOfCut]


class AdaptiveTargetForest(RebuiltForest):
    """The fields of an adaptive forest over targets. `TargetsForest` overrides the methods."""

    trees: rec.Array[TargetsTree]
    points: rec.Table[TargetsPoint]
    accepted: AcceptedTargets
    prediction: PredictedTarget
    fences: TargetFences
    # Running mean of absolute errors.
    error_size: rec.Float64
    # The ridge regressions, the first mixture (of regressions and trees), the second mixture (of
    # all experts), and the distribution of errors.
    ridges: RidgeExpertsRecord
    first: mixing.TargetMixtureRecord
    second: mixing.TargetMixtureRecord
    error_distribution: ErrorDistributionRecord
    # The latest targets, in an autoregressive model.
    lags: LaggedTargetsRecord
    groups: GroupReadings
    leaf: LeafTargets

    def targets_of(self, p: int) -> rec.Float64s:
        """Return the targets of a stored point."""
        return self.points.row(p).targets


T = TypeVar("T", bound=AdaptiveTargetForest)


# *Readings* are a tree's predictions for a sample: means along the sample's path, each shrunk
# towards the reading of the node above.
#
# Let n be the weight and m the mean of a node, and v the reading of the node above. The reading of
# the node is
#
#     (n m + s v) / (n + s),
#
# with the strength s of the shrinkage. If a leaf has fewer samples, the nodes above have more
# weight. The means of recent targets are shrunk in the same way, with the weights of recent targets
# and several strengths. The reading of the root is the root's mean. With s = 0, the reading is the
# mean of the leaf. One descent computes all readings.
#
# Trees of targets form two *groups*: *extended* trees, in which points outside boxes add cuts, and
# other trees. So do trees of residuals. Trees of errors form a group of recent trees, and a group
# of other trees. The readings of a group are averaged.


# Strengths of the shrinkage for the mean of all targets, and for the mean of recent targets.
STRENGTH = 6.0
STRENGTHS_OF_LATE = (0.0, 1.0, 6.0)
# Number of readings of a tree: the mean of all targets, then the mean of recent targets for each
# strength.
N_READINGS = 1 + len(STRENGTHS_OF_LATE)

# Groups of trees: trees of targets, not extended and extended; trees of residuals, not extended and
# extended; trees of errors; recent trees of errors.
ERROR_GROUP = 4
RECENT_GROUP = 5
N_GROUPS = 6


@always_inline
def _shrink(
    out: rec.Float64s,
    weight: float,
    mean: float,
    late_weight: float,
    late_mean: float,
    is_root: bool,
) -> None:
    """Replace the parent's readings in `out` with the node's readings."""
    strength = 0.0 if is_root else STRENGTH
    out[0] = out[0] + (mean - out[0]) * (weight / (weight + strength))
    for k in range(1, N_READINGS):
        strength = 0.0 if is_root else STRENGTHS_OF_LATE[k - 1]
        out[k] = out[k] + (late_mean - out[k]) * (late_weight / (late_weight + strength))


@link_by_name
def read_path(
    forest: T, tree: TargetsTree, path: rec.Array[PathEntry], n: int, out: rec.Float64s
) -> None:
    """Write the N_READINGS readings of a tree for a sample whose path has `n` nodes."""
    for k in range(N_READINGS):
        out[k] = 0.0
    is_root = True
    for i in range(n):
        entry = path[i]
        if entry.ref < 0:
            point = forest.points.cast(entry.row)
            target, weight = point.targets[tree.learns], point.weight
            _shrink(out, weight, target, weight, target, is_root)
            return
        node = tree.nodes.cast(entry.row)
        weight = node.weight
        if weight > 0.0:
            _shrink(out, weight, node.mean, node.late_weight, node.late_mean, is_root)
            is_root = False


@link_by_name
def read_trees(forest: T) -> None:
    """Write the mean readings of the trees in each group, or 0 for an empty group."""
    readings, sizes = forest.groups.readings, forest.groups.sizes
    for i in range(N_GROUPS * N_READINGS):
        readings[i] = 0.0
    for g in range(N_GROUPS):
        sizes[g] = 0
    of_tree = readings.part(N_GROUPS * N_READINGS, N_READINGS)
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        if tree.path_length > 0 and tree.predicts():
            g = 2 * tree.learns + tree.extends
            if tree.learns == ERROR:
                g = RECENT_GROUP if tree.role == rebuilt.RECENT else ERROR_GROUP
            read_path(forest, tree, forest.path_of(t), tree.path_length, of_tree)
            sizes[g] = sizes[g] + 1
            for k in range(N_READINGS):
                readings[g * N_READINGS + k] = readings[g * N_READINGS + k] + of_tree[k]
    for g in range(N_GROUPS):
        for k in range(N_READINGS):
            if sizes[g] > 1:
                readings[g * N_READINGS + k] = readings[g * N_READINGS + k] / sizes[g]


# For the first mixture: numbers of groups of trees and of experts. The last expert predicts from
# nearest neighbours. For the second mixture: numbers of further groups and of experts.
N_FIRST_GROUPS = ERROR_GROUP
OF_NEIGHBORS = N_RIDGES + N_FIRST_GROUPS * N_READINGS
N_FIRST = OF_NEIGHBORS + 1
N_SECOND_GROUPS = N_GROUPS - N_FIRST_GROUPS
N_SECOND = N_FIRST + 1 + N_SECOND_GROUPS * N_READINGS

# Least number of samples for predictions by neighbours, and the row of their longest window.
LEAST_NEIGHBORS = 1000
LONGEST = neighbors.N_WINDOWS - 1

# Number of values of a prediction: the point prediction, the experts' disagreement, and the
# predicted size of errors.
N_SAID = 3


@always_inline
def _take(forest: T, out: rec.Float64s, start: int, group: int, base: float, empty: float) -> None:
    """Write experts' predictions: a group's readings plus `base`, or `empty` for an empty group."""
    for k in range(N_READINGS):
        said = base + forest.groups.readings[group * N_READINGS + k]
        out[start + k] = said if forest.groups.sizes[group] > 0 else empty


@link_by_name
def predict_sample(forest: T, inputs: rec.Float64s) -> int:
    """Predict a sample; return DONE, or the index of the first input that is too large."""
    bad = scale(forest, forest.row, inputs)
    if bad >= 0:
        return bad
    rebuilt.walk_all(forest)
    read_trees(forest)
    regressions.predict(forest.ridges, inputs)
    # `regressions.predict` has already written the predictions of the regressions to `first`.
    first, second = forest.first.predicted, forest.second.predicted
    regressed = first[RESIDUAL_OF]
    for g in range(N_FIRST_GROUPS):
        base = regressed if g >= 2 * RESIDUAL else 0.0
        _take(forest, first, N_RIDGES + g * N_READINGS, g, base, regressed)
    # Neighbours predict the residual, so `regressed` is added to their prediction.
    design = forest.ridges.designs[forest.ridges.active]
    neighbors.predict(forest.neighbors, design.rates, inputs)
    # The mean is computed from differences, so that the mean is exact if all experts agree.
    # Mixtures would amplify a rounding error.
    said = first[0]
    for e in range(1, OF_NEIGHBORS):
        said += (first[e] - first[0]) / OF_NEIGHBORS
    if forest.n_samples >= LEAST_NEIGHBORS:
        said = regressed + forest.neighbors.predicted[LONGEST]
    first[OF_NEIGHBORS] = said
    point = mixing.predict(forest.first)
    forest.prediction.first_point = point
    for i in range(N_FIRST):
        second[i] = first[i]
    second[N_FIRST] = point
    for g in range(N_FIRST_GROUPS, N_GROUPS):
        place = N_FIRST + 1 + (g - N_FIRST_GROUPS) * N_READINGS
        _take(forest, second, place, g, point, point)
    if forest.lags:
        lags.predict(forest.lags, point)
    forest.prediction.point = mixing.predict(forest.second)
    forest.prediction.spread = forest.second.spread
    rebuilt.note_predicted(forest, inputs)
    return DONE


@kernel
def predict(forest: T) -> int:
    """Predict the sample in `inputs`; return DONE, or `TOO_LARGE - i` if input i is too large."""
    bad = rebuilt.ensure_predicted(forest, forest.inputs)
    return TOO_LARGE - bad if bad >= 0 else DONE


@batch_kernel
def predict_rows(forest: T, rows: rec.Float64s, n: int, out: rec.Float64s) -> None:
    """Predict `n` rows of inputs, and write the N_SAID values of each prediction to `out`.

    The forest must have its own buffers (see `RebuiltTrees`), since other threads predict
    concurrently.
    """
    capacity, ridges = forest.input_capacity, forest.ridges
    for i in range(n):
        predict_sample(forest, rows.part(capacity * i, capacity))
        row = out.part(N_SAID * i, N_SAID)
        row[0], row[1], row[2] = forest.prediction.point, forest.prediction.spread, ridges.size
