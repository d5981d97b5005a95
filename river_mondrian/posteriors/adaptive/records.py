"""What an adaptive forest keeps: a row of statistics per node, queues of leaves, the last sample.

A leaf's block pauses until it is cut from outside (`splitting`), so that the cut can be chosen by
the classes in it. Only the extension outside of boxes cuts as in any other Mondrian tree.
"""

from __future__ import annotations

import numpy as np

from ...learners.discriminants import Discriminants
from ...learners.experts import Experts
from ...limits import LARGEST_WEIGHT
from ...partitions.mondrian import faults
from ...partitions.mondrian.faults import FINE
from ...partitions.mondrian.records import NONE, Forest, Node, Point, Tree
from ...records import (
    Array,
    Float32,
    Float32s,
    Float64,
    Float64s,
    Int32,
    Int32s,
    Int64,
    Int64s,
    Record,
    Table,
    derived,
    inline,
    instead_of,
    transient,
)
from .statistics import Statistics

# What a tree is for: nothing; predicting, from all samples of the window or from recent ones; or
# it is being built, and is given its points, is split, is shown the points in order, or is done.
IDLE = 0
LONG = 1
RECENT = 2
GATHERING = 3
SPLITTING = 4
REPLAYING = 5
BUILT = 6

# What an accepted sample waits for: nothing, since it has been learned; to be learned; where it
# doubles the number of samples, for its point and the ranges, once the mixture has learned it; and
# for the trees of all samples.
LEARNED = 0
ACCEPTED = 1
MIXED_IN = 2
RESCALED = 3

# `next_waiting` of the last leaf in a tree's queue.
LAST = -2

# Largest weight of a stored sample, which is in single precision.
MOST = float(np.float32(LARGEST_WEIGHT))

# Length at which the path of a sample ends.
DEEPEST = 512
# Entries for which a tree has room.
PATH_LENGTH = DEEPEST + 1


class AdaptivePoint(Point):
    """A stored sample with its class and its weight."""

    label: Int32
    weight: Float32

    def pauses_with(self, forest: Forest, other: Point) -> bool:
        """Tell that a block of two points pauses, as all do."""
        return True

    def fault(self, forest: Forest) -> int:
        """Return what is wrong with a restored point."""
        if not 0 <= self.label < AdaptiveForest(forest).n_classes:
            return faults.LABEL
        return FINE if 0.0 < self.weight <= MOST else faults.WEIGHT


class AdaptiveNode(Node):
    """A node with statistics of the classes that have passed it."""

    # Number of its row of statistics, plus 1; 0 for none.
    statistics_row: Int32
    # Of a leaf in its tree's queue the next leaf's row there, or LAST; NONE outside of it.
    next_waiting: Int32 = instead_of("right")

    def statistics(self, tree: AdaptiveTree) -> Statistics:
        """Return the statistics; none where there are none yet."""
        if self.statistics_row == 0:
            return tree.side_rows.none()
        return tree.side_rows.row(self.statistics_row - 1)

    def fault(self, forest: Forest, tree: Tree, t: int) -> int:
        """Return what is wrong with the row of statistics or the queue of a restored row."""
        if not 0 <= self.statistics_row <= tree.side_rows.n_rows:
            return faults.STATISTICS_ROW
        is_known = self.dim >= 0 or LAST <= self.next_waiting < tree.nodes.n_rows
        return FINE if is_known else faults.NEXT_WAITING

    def is_paused(self, forest: Forest) -> bool:
        """Tell that a leaf's block pauses, as all do."""
        return True

    def ends_pause(self, forest: Forest, point: Point) -> bool:
        """Tell that no point ends a pause."""
        return False


class AdaptiveTree(Tree):
    """A tree that predicts, is being built, or is empty."""

    nodes: Table[AdaptiveNode]
    side_rows: Table[Statistics]
    role: Int64
    # First leaf of those that wait to be split, or NONE.
    queue: Int64
    # Entries of the path of the sample predicted last, 0 where the tree does not predict; and how
    # many rows the tree had then.
    path_length: Int64 = transient()
    rows_before: Int64 = transient()

    def is_used(self) -> bool:
        """Tell whether the tree predicts or is being built."""
        return self.role != IDLE

    def least_in_leaf(self) -> int:
        """Return how many samples a leaf's row has at least: none before it is given some."""
        return 0 if self.role == GATHERING else 1

    def counts_all(self, forest: Forest, n: int, start: int) -> bool:
        """Tell whether the root's number of samples is that of those from the first one on."""
        adaptive = AdaptiveForest(forest)
        end = adaptive.cursor if self.role == GATHERING else adaptive.n_samples
        return n == end - start

    def fault(self, forest: Forest, t: int, start: int, points: Int32s) -> int:
        """Return what is wrong with the window and the queue of a restored tree."""
        adaptive = AdaptiveForest(forest)
        end = adaptive.cursor if self.role == GATHERING else adaptive.n_samples
        for p in range(adaptive.n_points):
            if points[p] == t + 1 and (p - start) % adaptive.window_capacity >= end - start:
                return faults.WINDOW
        j, n = self.queue, 0
        while j != NONE and j != LAST:
            n += 1
            if j < 0 or j >= self.nodes.n_rows or n > self.nodes.n_rows:
                return faults.QUEUE
            node = self.nodes.row(j)
            if node.dim >= 0 or node.next_waiting == NONE:
                return faults.QUEUE
            j = node.next_waiting
        return FINE if j == LAST or n == 0 else faults.QUEUE


class PathEntry(Record):
    """A node on a sample's path."""

    ref: Int64
    # Its row or, for a point, the point's row.
    place: Record
    # None where it has none yet.
    statistics: Statistics


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
    # Weight of one sample in the first two weightings, and in each memory of the third.
    noisy: Float64
    deep: Float64
    of_all: Float64
    of_late: Float64
    of_latest: Float64


class Candidate(Record):
    """A cut that may be chosen."""

    dim: Int64
    cut: Float64


class ClassSides(Record):
    """How the points of a class in a block are parted by a candidate."""

    # Weight of those on the left, on the right and with a missing value; the fourth stays 0.
    weights: Float32s = inline(4)


class AdaptiveForest(Forest):
    """An adaptive forest."""

    trees: Array[AdaptiveTree]
    points: Table[AdaptivePoint]
    # Classes so far, for how many there is room, and words of a row of statistics.
    n_classes: Int64
    class_capacity: Int64
    statistics_words: Int64 = derived()
    # Rate of the discount: d = exp(-gamma span).
    gamma: Float64
    # Cuts among which one is chosen.
    n_candidates: Int64
    # Samples that may be stored: sample i is point i % window_capacity.
    window_capacity: Int64
    # Whether the memories of the roots forget, too.
    root_forgets: Int64
    # Whether a sample has been learned that does not weigh 1.
    is_weighted: Int64
    # The first sample that a tree holds: no earlier one is needed.
    oldest: Int64 = derived()
    # Of the tree that is being built: its first sample and the next one that it takes, what the
    # call may still spend, in points, and for how many rows of either kind it needs room.
    built_from: Int64
    cursor: Int64
    budget: Int64
    rows_needed: Int64 = transient()
    # What calls that go on with building may spend, and whether it is time to plan that.
    granted: Int64 = derived()
    is_plan_due: Int64 = transient()
    # Samples before which there is nothing to plan.
    quiet_until: Int64 = derived()
    # The sample in `inputs` that counts as learned, though it may need memory or more: what it
    # waits for, its class, its weight, and whether the class is new.
    stage: Int64 = transient()
    accepted: Int64 = transient()
    accepted_weight: Float64 = transient()
    accepted_is_new: Int64 = transient()
    # Gini gains of the cuts in each dimension, a row of `n_dims` for each tree; and weights of the
    # dimensions' sides where candidates are drawn.
    gains: Float64s
    dim_weights: Float64s
    # The mixture of all predictions, and the discriminants among these.
    experts: Experts
    discriminants: Discriminants
    # Whether the last prediction is of `last_inputs` by the trees as they are.
    is_predicted: Int64 = transient()
    last_inputs: Float64s
    # Paths of the sample predicted last, PATH_LENGTH entries for each tree; which trees still walk.
    paths: Array[PathEntry]
    walking: Int64s
    # Steps of a path, and sums of the trees' posteriors: N_POSTERIORS rows of `class_capacity` for
    # trees of all samples, then for those of recent ones.
    steps: Array[Step]
    posterior_sums: Float32s
    # Of each class, where samples have weights: c at a node of a path, and the weight that has
    # passed the one below.
    node_c: Float32s
    below: Float32s
    # Room for drawing a cut: sums of weighted sides, the candidates, of each of them the sides of
    # the block's classes; those classes, and of each class its number among them plus 1, or 0.
    side_sums: Float64s
    candidates: Array[Candidate]
    class_sides: Array[ClassSides]
    block_classes: Int64s
    class_numbers: Int64s
    # Room for the ages of a leaf's points: for as many as there is room for points.
    ages: Int32s

    def path_of(self, t: int) -> Array[PathEntry]:
        """Return a tree's path."""
        return self.paths.part(PATH_LENGTH * t, PATH_LENGTH)

    def label_of(self, p: int) -> int:
        """Return the class of a stored point."""
        return self.points.row(p).label

    def weight_of(self, p: int) -> float:
        """Return the weight of a stored point."""
        return self.points.row(p).weight

    def keep_sample(self, p: int, label: int, weight: float) -> None:
        """Store the class and the weight of a sample."""
        point = self.points.row(p)
        point.label = label
        point.weight = weight
        if weight != 1.0:
            self.is_weighted = 1
