"""Statistics of the classes that have passed a node, in three memories.

The first memory holds all samples; the others forget exponentially along the node's own visits. A
memory does not decay: instead its unit grows, in which its latest sample is weighed.

Of few classes a row has all, in blocks of `BLOCK`, and what is known of those of one block lies
together: a path is read class by class where it learns, and block by block where it predicts. Of
many classes a node has those that it has seen (`seen`).

Sums of weights are in single precision. Those of whole weights are exact up to 2^24; a sample that
weighs less than 2^-24 of what is there adds nothing. Weights from 1e-30 to 1e30 neither vanish nor
overflow.
"""

from __future__ import annotations

from typing import NamedTuple

from ...compiling.kernels import inlined
from ...partitions.mondrian.records import LEFT
from ...records import Float32, Float32s, Int32, Int32s, Record, inline

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


@inlined
def bit_of_side(side: int) -> int:
    """Return the bit of a side."""
    return 1 if side == LEFT else 2


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

    def block_of(self, label: int) -> ClassBlock:
        """Return the block that a class is in."""
        return ClassBlock(self, HEAD_WORDS + label // BLOCK * BLOCK_WORDS)

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
        bit = bit_of_side(side) << label % CLASSES_OF_WORD * SIDE_BITS
        if word & bit == 0:
            sides[label // CLASSES_OF_WORD] = word | bit
            self.n_sides = self.n_sides + 1

    def copy_from(
        self, below: Statistics, side: int, n_words: int, n_classes: int, capacity: int
    ) -> None:
        """Copy the statistics of a node above which the own one is put, and which is on a side.

        The probabilities to stop stay those of a new node.
        """
        words, known = Int32s(self, 0, n_words), Int32s(below, 0, n_words)
        first_side = HEAD_WORDS + capacity // BLOCK * BLOCK_WORDS
        for w in range(STOP_WORDS, n_words):
            words[w] = known[w] if w < first_side else 0
        self.n_sides = 0
        for k in range(n_classes):
            if self.numbers_of(k).words[0] > 0.0:
                self.add_side(k, side, capacity)

    def estimate(
        self, numbers: ClassNumbers, alpha: float, n_classes: int, factor: float = 1.0
    ) -> float:
        """Return a factor times the first memory's Dirichlet estimate of a class.

        The product comes first: where compilers may choose, its last bit would be theirs.
        """
        return factor * (numbers.words[0] + alpha) / (self.weight + alpha * n_classes)

    def forgetting_estimate(
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
# Rows of sums in front of those of the classes (see `factors`).
N_FRONT = N_MORE
# Nodes whose rows are read together then.
N_TOGETHER = 4


def most_rows(n_classes: int) -> int:
    """Return how many rows a node has at most that has seen so many of many classes."""
    # A row has others behind it where it is full; of these there are one more at most.
    return 3 + 2 * n_classes // (N_MORE + 1)
