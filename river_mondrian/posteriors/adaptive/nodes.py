"""Records of adaptive trees over classes, and the statistics that a node keeps of its classes."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

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
from ..rebuilt.forest import PathEntry, RebuiltForest, RebuiltNode, RebuiltPoint, RebuiltTree

# Statistics of the classes that have passed a node, in three memories.
#
# The first memory holds all samples; the others forget exponentially along the node's own visits.
# A memory does not decay: instead its unit grows, in which its latest sample is weighed.
#
# Of few classes a row has all, in blocks of `BLOCK`, and what is known of those of one block lies
# together: a path is read class by class where it learns, and block by block where it predicts.
# Of many classes a node has those that it has seen (`seen`).
#
# Sums of weights are in single precision. Those of whole weights are exact up to 2^24; a sample
# that weighs less than 2^-24 of what is there adds nothing. Weights from 1e-30 to 1e30 neither
# vanish nor overflow.


N_MEMORIES = 3
# Of the memories that forget: how their units grow at a visit.
GROWTHS = (1.0 / 0.95, 1.0 / 0.7)
N_FORGETTING = len(GROWTHS)
LATE = 0
LATEST = 1
# Largest unit times weight, above which a memory is scaled back.
LARGEST_UNIT = 1e15
# Weight in units that no estimate notices beside its prior. It is dropped where a memory is scaled
# back: it would end as a subnormal number, with which some processors take 100 times as long.
UNNOTICED = 1e-18

# The weightings: one that stops early where labels are noisy, and one that goes deep, whose nodes
# mix the memories. Of each its Dirichlet prior and its prior probability to stop at a node.
NOISY = 0
MIXED = 1
PRIORS = (0.5, 0.05)
STOP_PRIORS = (0.5, 0.1)
N_WEIGHTINGS = 2

# A tree's posteriors: the HNSP, then the weightings.
N_POSTERIORS = 1 + N_WEIGHTINGS

# Classes of a block, the bits of a class's sides, and the classes of a word of these.
BLOCK = 4
SIDE_BITS = 2
CLASSES_OF_WORD = 32 // SIDE_BITS


class ClassBlock(Record):
    """What a node has seen of `BLOCK` classes that follow each other."""

    # Weight of the samples of each class: their number where each weighs 1.
    counts: Float32s = inline(BLOCK)
    # Weights in the memories that forget: BLOCK classes for each memory.
    weights: Float32s = inline(N_FORGETTING * BLOCK)


class SeenClass(Record):
    """What a node has seen of one of many classes."""

    # Four times the class plus 1, and the bits of its sides (see `Statistics.sides`); 0 where there
    # is room for a class.
    key: Int32
    # As of `ClassBlock`.
    count: Float32
    weights: Float32s = inline(N_FORGETTING)

    def label(self) -> int:
        """Return the class."""
        return (self.key >> SIDE_BITS) - 1

    def numbers(self) -> ClassNumbers:
        """Return the weights."""
        return ClassNumbers(Float32s(self, 1, 1 + N_FORGETTING), 1)


class ClassNumbers(NamedTuple):
    """The weights of a class at a node: that of all its samples, then those of both memories."""

    words: Float32s
    # Words from one to the next.
    step: int


class Statistics(Record):
    """A row of statistics: the blocks of few classes follow, then the sides of all of them.

    Where there are many classes, what has been seen of the first of them follows (see `seen`).
    """

    # Probabilities to stop at the node, of the weightings.
    stops: Float32s = inline(N_WEIGHTINGS)
    # Shares of the memories in the second weighting.
    shares: Float32s = inline(N_MEMORIES)
    # Of the memories that forget the weight of all samples, and that of the latest.
    totals: Float32s = inline(N_FORGETTING)
    units: Float32s = inline(N_FORGETTING)
    # Weight of all samples.
    weight: Float32
    # Number of classes seen, and of their sides: the sum of c over all classes where samples weigh
    # 1 (see `sides`).
    n_seen: Int32
    n_sides: Int32

    def numbers_of(self, label: int) -> ClassNumbers:
        """Return the weights of one of few classes."""
        place = HEAD_WORDS + label // BLOCK * BLOCK_WORDS + label % BLOCK
        return ClassNumbers(Float32s(self, place, 2 * BLOCK + 1), BLOCK)

    def sides(self, capacity: int) -> Int32s:
        """Return the words of sides, in a row with room for so many classes.

        A class has two bits: 1 and 2 where samples of it have gone to the left and to the right of
        the node's cut. How many of both there are is c of Algorithm 5 where samples weigh 1.
        """
        place = HEAD_WORDS + capacity // BLOCK * BLOCK_WORDS
        return Int32s(self, place, -(-capacity // CLASSES_OF_WORD))

    def sides_of(self, label: int, capacity: int) -> int:
        """Return the bits of a class's sides, where there is room for `capacity` classes."""
        word = self.sides(capacity)[label // CLASSES_OF_WORD]
        return word >> label % CLASSES_OF_WORD * SIDE_BITS & 3

    def links(self) -> Int32s:
        """Return the links of a row, where there are many classes."""
        return Int32s(self, LINKS_WORD, N_LINKS)

    def begin(self) -> None:
        """Make the statistics of no sample, in a row of zeros."""
        for v in range(N_WEIGHTINGS):
            self.stops[v] = STOP_PRIORS[v]
        for m in range(N_MEMORIES):
            self.shares[m] = 1.0 / N_MEMORIES
        for m in range(N_FORGETTING):
            self.units[m] = 1.0

    def add_side(self, label: int, side: int, capacity: int) -> None:
        """Note on which side of the node's cut a class has gone."""
        sides = self.sides(capacity)
        word = sides[label // CLASSES_OF_WORD]
        bit = (1 << side) << label % CLASSES_OF_WORD * SIDE_BITS
        if word & bit == 0:
            sides[label // CLASSES_OF_WORD] = word | bit
            self.n_sides = self.n_sides + 1

    def estimate(
        self, numbers: ClassNumbers, alpha: float, n_classes: int, factor: float = 1.0
    ) -> float:
        """Return a factor times the first memory's Dirichlet estimate of a class.

        The product comes first: where compilers may choose, its last bit would be theirs.
        """
        return factor * (numbers.words[0] + alpha) / (self.weight + alpha * n_classes)

    def late_estimate(
        self, numbers: ClassNumbers, m: int, alpha: float, n_classes: int, factor: float = 1.0
    ) -> float:
        """Return a factor times the Dirichlet estimate of a class by a memory that forgets."""
        seen = numbers.words[(1 + m) * numbers.step]
        prior = alpha * self.units[m]
        return factor * (seen + prior) / (self.totals[m] + prior * n_classes)


HEAD_WORDS = Statistics.WORDS
BLOCK_WORDS = ClassBlock.WORDS
STOP_WORDS = N_WEIGHTINGS

# Where there are many classes: those of a node's own row, of every other one, and their links.
SEEN_WORDS = SeenClass.WORDS
N_FIRST = 5
N_MORE = 8
LINKS_WORD = HEAD_WORDS + N_FIRST * SEEN_WORDS
MORE_WORD = LINKS_WORD - N_MORE * SEEN_WORDS
N_LINKS = 2
# Rows of sums in front of those of the classes (see `weighting`).
N_FRONT = N_MORE
# Nodes whose rows are read together then.
N_TOGETHER = 4


def most_rows(n_classes: int) -> int:
    """Return how many rows a node has at most that has seen so many of many classes."""
    # A row has others behind it where it is full; of these there are one more at most.
    return 3 + 2 * n_classes // (N_MORE + 1)


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


# A sample's path.
Entries = Array[StatisticsEntry]


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
    """The fields of an adaptive forest; `ClassForest` has what `RebuiltForest` asks for."""

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
