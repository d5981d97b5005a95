"""Statistics of the classes that have passed a node, in three memories.

The first memory holds all samples; the others forget exponentially along the node's own visits. A
memory does not decay: instead its unit grows, in which its latest sample is weighed.

Classes are in blocks of `BLOCK`, and what is known of those of one block lies together: a path is
read class by class where it learns, and block by block where it predicts.

Sums of weights are in single precision. Those of whole weights are exact up to 2^24; a sample that
weighs less than 2^-24 of what is there adds nothing. Weights from 1e-30 to 1e30 neither vanish nor
overflow.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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

# The weightings: one that stops early where labels are noisy, one that goes deep, and one whose
# nodes mix the memories. Of each its Dirichlet prior and its prior probability to stop at a node.
NOISY = 0
DEEP = 1
MIXED = 2
PRIORS = (0.5, 0.05, 0.05)
STOP_PRIORS = (0.5, 0.1, 0.1)
N_WEIGHTINGS = 3

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


class Statistics(Record):
    """A row of statistics, which the blocks of classes follow, then the sides of all classes."""

    # Probabilities to stop at the node, of the weightings.
    stops: Float32s = inline(N_WEIGHTINGS)
    # Shares of the memories in the third weighting.
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

    def count(self, label: int) -> float:
        """Return the weight of the samples of a class."""
        return self.block_of(label).counts[label % BLOCK]

    def sides(self, capacity: int) -> Int32s:
        """Return the words of sides, in a row with room for so many classes.

        A class has two bits: 1 and 2 where samples of it have gone to the left and to the right of
        the node's cut. How many of both there are is c of Algorithm 5 where samples weigh 1.
        """
        place = HEAD_WORDS + capacity // BLOCK * BLOCK_WORDS
        return Int32s(self, place, -(-capacity // CLASSES_OF_WORD))

    def customers(self, label: int, capacity: int) -> int:
        """Return c of Algorithm 5 where samples weigh 1: on how many sides a class has been seen.

        There is room for `capacity` classes.
        """
        word = self.sides(capacity)[label // CLASSES_OF_WORD]
        bits = word >> label % CLASSES_OF_WORD * SIDE_BITS & 3
        return (bits & 1) + (bits >> 1)

    def clear(self, n_words: int) -> None:
        """Make the statistics of no sample, in a row of so many words."""
        words = Int32s(self, 0, n_words)
        for w in range(n_words):
            words[w] = 0
        for v in range(N_WEIGHTINGS):
            self.stops[v] = STOP_PRIORS[v]
        for m in range(N_MEMORIES):
            self.shares[m] = 1.0 / N_MEMORIES
        for m in range(N_FORGETTING):
            self.units[m] = 1.0

    def rescale(self, m: int, unit: float, n_classes: int) -> None:
        """Let the unit of a memory that forgets be 1 again."""
        for k in range(n_classes):
            weights = self.block_of(k).weights
            i = m * BLOCK + k % BLOCK
            weights[i] = weights[i] / unit
        self.totals[m] = self.totals[m] / unit

    def add_sample(self, label: int, weight: float, forgets: bool, n_classes: int) -> None:
        """Add a sample's class and weight to the memories."""
        block = self.block_of(label)
        place = label % BLOCK
        count = block.counts[place]
        if count == 0.0:
            self.n_seen = self.n_seen + 1
        block.counts[place] = count + weight
        self.weight = self.weight + weight
        for m in range(N_FORGETTING):
            unit = self.units[m]
            if forgets:
                unit *= GROWTHS[m]
            if unit * max(weight, 1.0) > LARGEST_UNIT:
                self.rescale(m, unit, n_classes)
                unit = 1.0
            self.units[m] = unit
            i = m * BLOCK + place
            block.weights[i] = block.weights[i] + unit * weight
            self.totals[m] = self.totals[m] + unit * weight

    def add_side(self, label: int, side: int, capacity: int) -> None:
        """Note on which side of the node's cut a class has gone."""
        sides = self.sides(capacity)
        word = sides[label // CLASSES_OF_WORD]
        bit = (1 if side == LEFT else 2) << label % CLASSES_OF_WORD * SIDE_BITS
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
            if self.count(k) > 0.0:
                self.add_side(k, side, capacity)

    def estimate(self, label: int, alpha: float, n_classes: int, factor: float = 1.0) -> float:
        """Return a factor times the first memory's Dirichlet estimate of a class.

        The product comes first: where compilers may choose, its last bit would be theirs.
        """
        return factor * (self.count(label) + alpha) / (self.weight + alpha * n_classes)

    def forgetting_estimate(
        self, label: int, m: int, alpha: float, n_classes: int, factor: float = 1.0
    ) -> float:
        """Return a factor times the Dirichlet estimate of a class by a memory that forgets."""
        seen = self.block_of(label).weights[m * BLOCK + label % BLOCK]
        prior = alpha * self.units[m]
        return factor * (seen + prior) / (self.totals[m] + prior * n_classes)


HEAD_WORDS = Statistics.WORDS
BLOCK_WORDS = ClassBlock.WORDS
STOP_WORDS = N_WEIGHTINGS


def counts_in(rows: NDArray[np.int32], n_classes: int) -> NDArray[np.float32]:
    """Return the classes' weights in copied rows, shape (..., n_classes)."""
    n_blocks = -(-n_classes // BLOCK)
    end = HEAD_WORDS + n_blocks * BLOCK_WORDS
    blocks = np.ascontiguousarray(rows[..., HEAD_WORDS:end]).view(np.float32)
    # There may be no row.
    counts = blocks.reshape(*rows.shape[:-1], n_blocks, BLOCK_WORDS)[..., :BLOCK]
    return counts.reshape(*rows.shape[:-1], n_blocks * BLOCK)[..., :n_classes]
