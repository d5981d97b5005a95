"""Records of adaptive trees over classes, and the statistics of classes at a node."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from ... import records as rec
from ...learners.discriminants import N_DISCRIMINANTS, LinearDiscriminantsRecord
from ...learners.experts import MixtureRecord
from ...learners.neighbors import N_WINDOWS, remember
from ...limits import LARGEST_WEIGHT, MOST_CLASSES
from ...partitions.mondrian.records import IN_USE, Forest, Tree
from ..rebuilt.forest import (
    LastPrediction,
    PathEntry,
    RebuiltForest,
    RebuiltNode,
    RebuiltPoint,
    RebuiltTree,
)

# A node stores three counts of each class, which are sums of sample weights.
#
# The first count includes all samples that have passed the node. The other two counts are
# discounted: with each sample, the weights of earlier samples are divided by a factor in `GROWTHS`.
# Discounting does not change stored counts. Instead, the weight of each new sample is multiplied by
# a unit, which grows.
#
# With few classes, a row has the counts of all classes, in blocks of `BLOCK` classes. The counts of
# a block are contiguous, since predictions read block by block. With many classes, a node stores
# only its seen classes (`seen`).
#
# Counts are in single precision. Sums of integer weights are exact up to 2^24. A sample whose
# weight is less than 2^-25 of a count does not change this count. Weights from 1e-30 to 1e30 do not
# underflow or overflow.


N_MEMORIES = 3
# Factors by which the units of the two discounted counts grow with each sample.
GROWTHS = (1.0 / 0.95, 1.0 / 0.7)
N_FORGETTING = len(GROWTHS)
LATE = 0
LATEST = 1
# When the unit times a weight exceeds this number, the discounted count is divided by the unit,
# since the unit would otherwise overflow.
LARGEST_UNIT = 1e15
# The division sets counts up to this number to 0. Such counts are negligible compared with the
# prior, and subnormal numbers make some processors 100 times slower.
UNNOTICED = 1e-18

# The two context-tree weightings. The first weighting relies more on shallow nodes, and suits noisy
# labels. The second weighting relies more on deep nodes. In the second weighting, the estimate of a
# node is a mixture of the estimates from the three counts. Each weighting has a Dirichlet prior,
# and a prior probability of stopping.
NOISY = 0
MIXED = 1
PRIORS = (0.5, 0.05)
STOP_PRIORS = (0.5, 0.1)
N_WEIGHTINGS = 2

# Number of posteriors of a tree: the HNSP (see `labels.hnsp`) and the weightings.
N_POSTERIORS = 1 + N_WEIGHTINGS
# Number of experts that are posteriors of trees, number of experts before the nearest neighbours,
# and number of experts without the fixed share.
N_TREE_EXPERTS = 2 * N_POSTERIORS
N_MODEL_EXPERTS = N_TREE_EXPERTS + N_DISCRIMINANTS
N_EXPERTS = N_MODEL_EXPERTS + N_WINDOWS

# Numbers of classes in a block, of bits for the sides of a class, and of classes in a word of
# sides.
BLOCK = 4
SIDE_BITS = 2
CLASSES_OF_WORD = 32 // SIDE_BITS


class ClassBlock(rec.Record):
    """Counts of `BLOCK` consecutive classes at a node."""

    # The count of each class over all samples.
    counts: rec.Float32s = rec.inline(BLOCK)
    # The two discounted counts of each class, `BLOCK` classes for each count.
    weights: rec.Float32s = rec.inline(N_FORGETTING * BLOCK)


class SeenClass(rec.Record):
    """The counts of a seen class at a node of a forest with many classes."""

    # (class + 1) * 4 plus the bits of the class's sides (see `Statistics.sides`); 0 for a free
    # record.
    key: rec.Int32
    # The same three counts as in `ClassBlock`.
    count: rec.Float32
    weights: rec.Float32s = rec.inline(N_FORGETTING)

    def label(self) -> int:
        """Return the number of the class."""
        return (self.key >> SIDE_BITS) - 1

    def numbers(self) -> ClassNumbers:
        """Return the three counts of the class."""
        return ClassNumbers(rec.Float32s(self, 1, 1 + N_FORGETTING), 1)


class ClassNumbers(NamedTuple):
    """The counts of a class at a node: the count over all samples, then the discounted counts."""

    words: rec.Float32s
    # Number of words from one count to the next.
    step: int


class Statistics(rec.Record):
    """The head of a row of statistics.

    With few classes, the blocks of all classes and the words of `sides` follow the head. With many
    classes, the first seen classes and the links follow the head (see `seen`).
    """

    # Probability of stopping at the node, for each weighting.
    stops: rec.Float32s = rec.inline(N_WEIGHTINGS)
    # Shares of the three counts in the second weighting.
    shares: rec.Float32s = rec.inline(N_MEMORIES)
    # For each discounted count: the sum over all classes, and the unit.
    totals: rec.Float32s = rec.inline(N_FORGETTING)
    units: rec.Float32s = rec.inline(N_FORGETTING)
    # Weight of all samples.
    weight: rec.Float32
    # Number of seen classes, and number of set bits in the sides of all classes. At an internal
    # node, if samples have weight 1, `n_sides` is the sum of the HNSP's c over all classes (see
    # `sides`).
    n_seen: rec.Int32
    n_sides: rec.Int32

    def numbers_of(self, label: int) -> ClassNumbers:
        """Return the counts of a class in a forest with few classes."""
        place = HEAD_WORDS + label // BLOCK * BLOCK_WORDS + label % BLOCK
        return ClassNumbers(rec.Float32s(self, place, 2 * BLOCK + 1), BLOCK)

    def sides(self, capacity: int) -> rec.Int32s:
        """Return the words with the classes' sides, in a row for up to `capacity` classes.

        A class has two bits: 1 for samples of the class on the left of the node's cut, and 2 for
        samples on the right. If samples have weight 1, the number of a class's set bits is the c of
        this class in the HNSP (see `labels.hnsp`).
        """
        place = HEAD_WORDS + capacity // BLOCK * BLOCK_WORDS
        return rec.Int32s(self, place, -(-capacity // CLASSES_OF_WORD))

    def sides_of(self, label: int, capacity: int) -> int:
        """Return the bits of a class's sides, in a row for up to `capacity` classes."""
        word = self.sides(capacity)[label // CLASSES_OF_WORD]
        return word >> label % CLASSES_OF_WORD * SIDE_BITS & 3

    def links(self) -> rec.Int32s:
        """Return the links of a row to further rows, in a forest with many classes."""
        return rec.Int32s(self, LINKS_WORD, N_LINKS)

    def begin(self) -> None:
        """Initialise the statistics of a node without samples, given a row of zeros."""
        for v in range(N_WEIGHTINGS):
            self.stops[v] = STOP_PRIORS[v]
        for m in range(N_MEMORIES):
            self.shares[m] = 1.0 / N_MEMORIES
        for m in range(N_FORGETTING):
            self.units[m] = 1.0

    def add_side(self, label: int, side: int, capacity: int) -> None:
        """Record that samples of a class are on a side of the node's cut."""
        sides = self.sides(capacity)
        word = sides[label // CLASSES_OF_WORD]
        bit = (1 << side) << label % CLASSES_OF_WORD * SIDE_BITS
        if word & bit == 0:
            sides[label // CLASSES_OF_WORD] = word | bit
            self.n_sides = self.n_sides + 1

    def estimate(self, numbers: ClassNumbers, alpha: float, n_classes: int, factor: float) -> float:
        """Return a factor times the Dirichlet estimate of a class from the first count.

        The product is computed before the quotient, so that the compiler cannot change the
        rounding.
        """
        return factor * (numbers.words[0] + alpha) / (self.weight + alpha * n_classes)

    def late_estimate(
        self, numbers: ClassNumbers, m: int, alpha: float, n_classes: int, factor: float
    ) -> float:
        """Return a factor times the Dirichlet estimate of a class from a discounted count."""
        seen = numbers.words[(1 + m) * numbers.step]
        prior = alpha * self.units[m]
        return factor * (seen + prior) / (self.totals[m] + prior * n_classes)


HEAD_WORDS = Statistics.WORDS
BLOCK_WORDS = ClassBlock.WORDS
STOP_WORDS = N_WEIGHTINGS

# With many classes: number of classes in a node's row and in every linked row, and number of links
# of a row.
SEEN_WORDS = SeenClass.WORDS
N_FIRST = 5
N_MORE = 8
LINKS_WORD = HEAD_WORDS + N_FIRST * SEEN_WORDS
MORE_WORD = LINKS_WORD - N_MORE * SEEN_WORDS
N_LINKS = 2
# With many classes: number of rows of sums that precede the classes' rows (see `weighting`).
N_FRONT = N_MORE
# With many classes: number of nodes in a group. The rows of a group are read together.
N_TOGETHER = 4


def most_rows(n_classes: int) -> int:
    """Return the largest number of rows of a node with `n_classes` seen classes (see `seen`)."""
    # Rows with links are full. The rows without links outnumber the rows with links by at most one.
    return 3 + 2 * n_classes // (N_MORE + 1)


# Largest weight of a stored sample, rounded to single precision.
MOST = float(np.float32(LARGEST_WEIGHT))


class AdaptivePoint(RebuiltPoint):
    """A stored sample with its class and its weight."""

    label: rec.Int32 = rec.stored(rec.Bounds(0, below="n_classes"))
    weight: rec.Float32 = rec.stored(rec.Bounds(math.ulp(0.0), MOST))


class AdaptiveNode(RebuiltNode):
    """A node with class statistics of the samples that have passed the node."""

    # Number of the node's row of statistics plus 1; 0 for none.
    statistics_row: rec.Int32 = rec.stored(
        rec.Ref("side_rows", none=0, first=1, when=IN_USE, ends=True)
    )

    def statistics(self, tree: AdaptiveTree) -> Statistics:
        """Return the statistics, or a null record if the node has no statistics."""
        if self.statistics_row == 0:
            return tree.side_rows.none()
        return tree.side_rows.row(self.statistics_row - 1)


class AdaptiveTree(RebuiltTree):
    """A tree whose nodes have statistics."""

    nodes: rec.Table[AdaptiveNode]
    side_rows: rec.Table[Statistics]


class StatisticsEntry(PathEntry):
    """A node on a sample's path, with the node's statistics."""

    # None if the node has no statistics.
    statistics: Statistics

    def note(self, forest: Forest, tree: Tree) -> None:
        """Set the statistics of the path's node."""
        adaptive = AdaptiveTree(tree)
        self.statistics = adaptive.side_rows.none()
        if self.ref >= 0:
            self.statistics = adaptive.nodes.cast(self.row).statistics(adaptive)

    def fetch(self, forest: Forest) -> None:
        """Prefetch the statistics."""
        if self.statistics:
            rec.prefetch(self.statistics, AdaptiveForest(forest).statistics_words)


# A sample's path.
Entries = rec.Array[StatisticsEntry]


class Step(rec.Record):
    """Values at a node, computed on the way down and read on the way up (see `prediction`)."""

    # Rate of branching off, probability of reaching the node, probability of not branching off
    # there, and discount (see `labels.hnsp`).
    eta: rec.Float64
    reach: rec.Float64
    stays: rec.Float64
    discount: rec.Float64
    # None if the node has no statistics, or if the statistics have no sample.
    statistics: Statistics
    # Sums of the HNSP's c and tab over all classes (see `labels.hnsp`).
    sum_of_c: rec.Float64
    sum_of_tables: rec.Float64
    # Factors of a class's counts: one for the first weighting, and three for the second weighting.
    noisy: rec.Float64
    of_all: rec.Float64
    of_late: rec.Float64
    of_latest: rec.Float64


class Factors(rec.Record):
    """The factors of a node's terms in a tree's posteriors: the HNSP, then both weightings.

    `by_weight` multiplies the first count of a class. In the HNSP, `by_first` multiplies tab of the
    class, min(count, 1), and `by_second` multiplies the number of sides with samples of the class.
    In the second weighting, `by_first` and `by_second` multiply the two discounted counts of the
    class. The weightings add `constants` to all classes.
    """

    by_weight: rec.Float32s = rec.inline(N_POSTERIORS)
    by_first: rec.Float32s = rec.inline(N_POSTERIORS)
    by_second: rec.Float32s = rec.inline(N_POSTERIORS)
    constants: rec.Float32s = rec.inline(N_POSTERIORS)
    statistics: Statistics


class ClassSides(rec.Record):
    """Weights of a class's points in a leaf, on each side of a candidate."""

    # Weights of the points on the left, on the right, and with a missing value. The fourth element
    # is unused.
    weights: rec.Float32s = rec.inline(4)


class FoundRow(rec.Record):
    """A row of statistics, and the index of the row's node."""

    row: Statistics
    # Index of the node in its group (see `N_TOGETHER`).
    owner: rec.Int64


class AcceptedLabel(rec.Record):
    """The accepted sample's class and weight, and whether the class is new."""

    EMBEDDED = True

    label: rec.Int64 = rec.transient()
    weight: rec.Float64 = rec.transient()
    is_new: rec.Int64 = rec.transient()


class ClassPrediction(LastPrediction):
    """The last predicted sample, whose paths have the statistics of nodes."""

    paths: rec.Array[StatisticsEntry]


class PosteriorBuffers(rec.Record):
    """Buffers for the posteriors of trees (see `prediction`)."""

    EMBEDDED = True

    # The steps of a path.
    steps: rec.Array[Step]
    # Sums of the posteriors, first of trees of all samples, then of recent trees.
    sums: rec.Float32s
    # For samples with weights other than 1: the HNSP's c of each class at a node of a path, and the
    # weight of each class at the node below.
    node_c: rec.Float32s
    below: rec.Float32s


class SeenBuffers(rec.Record):
    """Buffers for the seen classes of nodes (see `seen`)."""

    EMBEDDED = True

    # The classes of a node.
    labels: rec.Int64s
    # Queued rows, each with the index of the row's node.
    rows: rec.Array[FoundRow]
    # An empty record, which stands for unseen classes.
    nothing: rec.Array[SeenClass]


class LeafBuffers(rec.Record):
    """Buffers for the cut of a leaf."""

    EMBEDDED = True

    # Weights of the leaf's classes on the sides of each candidate.
    sides: rec.Array[ClassSides]
    # The classes of the leaf. For each class of the leaf, 1 plus its index in this list; 0 for
    # other classes.
    classes: rec.Int64s
    numbers: rec.Int64s
    # The ages of the leaf's points. The buffer is as long as the points' capacity.
    ages: rec.Int32s


class AdaptiveForest(RebuiltForest):
    """The fields of an adaptive forest over classes. `ClassForest` overrides the methods."""

    trees: rec.Array[AdaptiveTree]
    points: rec.Table[AdaptivePoint]
    # Number of classes, capacity for classes, whether there are many classes (see `seen`), and
    # number of words of a row of statistics.
    n_classes: rec.Int64 = rec.stored(rec.Bounds(0, MOST_CLASSES))
    class_capacity: rec.Int64
    is_sparse: rec.Int64 = rec.derived()
    statistics_words: rec.Int64 = rec.derived()
    # Rate gamma of the HNSP's discount, exp(-gamma span) (see `labels.hnsp`).
    gamma: rec.Float64
    # Whether class counts are discounted at the roots too, not only at other nodes.
    root_forgets: rec.Int64
    # Whether a sample with a weight other than 1 has been learned.
    is_weighted: rec.Int64 = rec.stored(rec.Bounds(0, 1))
    accepted: AcceptedLabel
    predicted: ClassPrediction
    # The mixture of all experts. The discriminants are among the experts.
    experts: MixtureRecord
    discriminants: LinearDiscriminantsRecord
    posterior: PosteriorBuffers
    seen: SeenBuffers
    leaf: LeafBuffers
    # Kernels for many classes, and for weights other than 1. They are compiled only if needed.
    find: Callable[[rec.Record, rec.Record, rec.Record, int, bool], SeenClass] = rec.entry()
    list_many: Callable[[rec.Record, rec.Record, rec.Record], int] = rec.entry()
    add_seen: Callable[[rec.Record, rec.Record, rec.Array[Factors], int, rec.Float32s], int] = (
        rec.entry()
    )
    average_many: Callable[[rec.Record, float, float], int] = rec.entry()
    clear_below: Callable[[rec.Record, int], int] = rec.entry()
    count_tables: Callable[[rec.Record, rec.Record, rec.Record, bool], int] = rec.entry()
    update_by_logs: Callable[[rec.Record, rec.Record, Entries, int, int, float, int], int] = (
        rec.entry()
    )

    def label_of(self, p: int) -> int:
        """Return the class of a stored point."""
        return self.points.row(p).label

    def weight_of(self, p: int) -> float:
        """Return the weight of a stored point."""
        return self.points.row(p).weight

    def n_sums(self) -> int:
        """Return the number of the posteriors' sums for the trees of one role."""
        front = N_FRONT if self.is_sparse == 1 else 0
        return N_POSTERIORS * (front + self.class_capacity)

    def keep_sample(self, p: int) -> None:
        """Store the class and the weight of the accepted sample."""
        point = self.points.row(p)
        point.label = self.accepted.label
        point.weight = self.accepted.weight
        if self.accepted.weight != 1.0:
            self.is_weighted = 1
        remember(self.neighbors, self.inputs, self.accepted.label, self.accepted.weight)


A = TypeVar("A", bound=AdaptiveForest)
