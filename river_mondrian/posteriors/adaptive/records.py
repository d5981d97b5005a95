"""What an adaptive forest keeps: a row of statistics per node, and the last sample."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from ...learners.discriminants import Discriminants
from ...learners.experts import Experts
from ...limits import LARGEST_WEIGHT
from ...partitions.mondrian.records import IN_USE, Forest, Tree
from ...records import (
    Array,
    Bounds,
    Float32,
    Float32s,
    Float64,
    Int32,
    Int32s,
    Int64,
    Int64s,
    Record,
    Ref,
    Table,
    derived,
    inline,
    prefetch,
    stored,
    transient,
)
from ..rebuilt.records import (
    PATH_LENGTH,
    PathEntry,
    RebuiltForest,
    RebuiltNode,
    RebuiltPoint,
    RebuiltTree,
)
from .statistics import N_FRONT, N_POSTERIORS, SeenClass, Statistics

# More classes than any forest has.
MOST_CLASSES = 1 << 24

# Largest weight of a stored sample, which is in single precision.
MOST = float(np.float32(LARGEST_WEIGHT))


class AdaptivePoint(RebuiltPoint):
    """A stored sample with its class and its weight."""

    label: Int32 = stored(Bounds(0, below="n_classes"))
    weight: Float32 = stored(Bounds(math.ulp(0.0), MOST))


class AdaptiveNode(RebuiltNode):
    """A node with statistics of the classes that have passed it."""

    # Number of its row of statistics, plus 1; 0 for none.
    statistics_row: Int32 = stored(Ref("side_rows", none=0, first=1, when=IN_USE, ends=True))

    def statistics(self, tree: AdaptiveTree) -> Statistics:
        """Return the statistics; none where there are none yet."""
        if self.statistics_row == 0:
            return tree.side_rows.none()
        return tree.side_rows.row(self.statistics_row - 1)


class AdaptiveTree(RebuiltTree):
    """A tree whose nodes have statistics."""

    nodes: Table[AdaptiveNode]
    side_rows: Table[Statistics]


class StatisticsEntry(PathEntry):
    """A node on a sample's path, with its statistics."""

    # None where it has none yet.
    statistics: Statistics

    def note(self, forest: Forest, tree: Tree) -> None:
        """Note the statistics of the node that the path has come to."""
        own = AdaptiveTree(tree)
        self.statistics = own.side_rows.none()
        if self.ref >= 0:
            self.statistics = own.nodes.known(self.place).statistics(own)

    def fetch(self, forest: Forest) -> None:
        """Ask for the statistics ahead of their use."""
        if self.statistics:
            prefetch(self.statistics, AdaptiveForest(forest).statistics_words)


class Step(Record):
    """What a prediction notes of a node on the path, on the way down."""

    # Rate of branching off, probabilities to come here and to go on, discount (see `labels.hnsp`).
    eta: Float64
    reach: Float64
    stays: Float64
    discount: Float64
    # None where there are none, or no sample in them.
    statistics: Statistics
    # Of the HNSP, c and tab over all classes where samples have weights.
    sum_of_c: Float64
    sum_of_tables: Float64
    # Weight of one sample in the first weighting, and in each memory of the second.
    noisy: Float64
    of_all: Float64
    of_late: Float64
    of_latest: Float64


class ClassSides(Record):
    """How the points of a class in a block are parted by a candidate."""

    # Weight of those on the left, on the right and with a missing value; the fourth stays 0.
    weights: Float32s = inline(4)


class FoundRow(Record):
    """A row of a node, by its place."""

    row: Statistics
    # The node's number among those whose rows are read together.
    owner: Int64


class AdaptiveForest(RebuiltForest):
    """The fields of an adaptive forest, of which `learning.ClassForest` is the whole."""

    trees: Array[AdaptiveTree]
    points: Table[AdaptivePoint]
    # Classes so far, for how many there is room, whether they are many (see `seen`), and words of a
    # row of statistics.
    n_classes: Int64 = stored(Bounds(0, MOST_CLASSES))
    class_capacity: Int64
    is_sparse: Int64 = derived()
    statistics_words: Int64 = derived()
    # Rate of the discount: d = exp(-gamma span).
    gamma: Float64
    # Whether the memories of the roots forget, too.
    root_forgets: Int64
    # Whether a sample has been learned that does not weigh 1.
    is_weighted: Int64
    # The accepted sample: its class, its weight, and whether the class is new.
    accepted: Int64 = transient()
    accepted_weight: Float64 = transient()
    accepted_is_new: Int64 = transient()
    # The mixture of all predictions, and the discriminants among these.
    experts: Experts
    discriminants: Discriminants
    paths: Array[StatisticsEntry]
    # What a node knows of a class that it has not seen, and room for the classes that it has.
    nothing: Array[SeenClass]
    seen_labels: Int64s
    # Rows of nodes that are yet to be read.
    found: Array[FoundRow]
    # Steps of a path, and sums of the trees' posteriors (see `prediction`): for trees of all
    # samples, then for those of recent ones.
    steps: Array[Step]
    posterior_sums: Float32s
    # Of each class, where samples have weights: c at a node of a path, and the weight that has
    # passed the one below.
    node_c: Float32s
    below: Float32s
    # Room for drawing a cut: of each candidate the sides of the block's classes; those classes, and
    # of each class its number among them plus 1, or 0.
    class_sides: Array[ClassSides]
    block_classes: Int64s
    class_numbers: Int64s
    # Room for the ages of a leaf's points: for as many as there is room for points.
    ages: Int32s

    def path_of(self, t: int) -> Array[StatisticsEntry]:
        """Return a tree's path."""
        return self.paths.part(PATH_LENGTH * t, PATH_LENGTH)

    def label_of(self, p: int) -> int:
        """Return the class of a stored point."""
        return self.points.row(p).label

    def weight_of(self, p: int) -> float:
        """Return the weight of a stored point."""
        return self.points.row(p).weight

    def n_sums(self) -> int:
        """Return how many numbers the sums of a role's posteriors are."""
        front = N_FRONT if self.is_sparse == 1 else 0
        return N_POSTERIORS * (front + self.class_capacity)

    def keep_sample(self, p: int) -> None:
        """Store the class and the weight of the accepted sample."""
        point = self.points.row(p)
        point.label = self.accepted
        point.weight = self.accepted_weight
        if self.accepted_weight != 1.0:
            self.is_weighted = 1


A = TypeVar("A", bound=AdaptiveForest)
