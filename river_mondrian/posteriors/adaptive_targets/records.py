"""What an adaptive forest over targets keeps: statistics per node, three targets per sample."""

from __future__ import annotations

from typing import TypeVar

from ...learners.regression.error_law import ErrorLaw
from ...learners.regression.lags import Lags
from ...learners.regression.mixing import TargetMixture
from ...learners.regression.records import ADDITIVE, Ridges
from ...records import (
    Array,
    Bounds,
    Float32,
    Float64,
    Float64s,
    Int64,
    Int64s,
    Record,
    Table,
    inline,
    stored,
    transient,
)
from ..rebuilt.records import RebuiltForest, RebuiltNode, RebuiltPoint, RebuiltTree

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

    def copy_means(self, below: TargetsNode) -> None:
        """Know what another node does."""
        self.weight = below.weight
        self.late_weight = below.late_weight
        self.mean = below.mean
        self.late_mean = below.late_mean


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
    """Its fields; `learning.TargetsForest` has what `RebuiltForest` asks for."""

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
    first: TargetMixture
    second: TargetMixture
    law: ErrorLaw
    # The latest targets, where these predict, too; none else.
    lags: Lags
    # The last prediction: the first mixture's, the second's, and how far the experts disagree.
    first_point: Float64 = transient()
    point: Float64 = transient()
    spread: Float64 = transient()
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
