"""Statistics of the classes that have passed a node, in three memories.

The first memory holds all samples; the others forget exponentially along the node's own visits. A
memory does not decay: instead its unit grows, the weight that its latest sample has.

Classes are in blocks of `BLOCK`, and what is known of those of one block lies together: a path is
read class by class where it learns, and block by block where it predicts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...partitions.mondrian.records import LEFT
from ...records import Float32s, Int32, Int32s, Record, inline

N_MEMORIES = 3
# Of the memories that forget: how their units grow at a visit.
GROWTHS = (1.0 / 0.95, 1.0 / 0.7)
N_FORGETTING = len(GROWTHS)
LATE = 0
LATEST = 1
# Unit at which a memory is scaled back.
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

# Classes of a block, and the bits of a class's number of samples that are its sides.
BLOCK = 4
SIDE_BITS = 2


class ClassBlock(Record):
    """What a node has seen of `BLOCK` classes that follow each other."""

    # Number of samples, in units of 1 << SIDE_BITS, plus 1 and 2 where some of them have gone to
    # the left and to the right of the node's cut. How many of both: c of Algorithm 5.
    counted: Int32s = inline(BLOCK)
    # Weights in the memories that forget: BLOCK classes for each memory.
    weights: Float32s = inline(N_FORGETTING * BLOCK)


class Statistics(Record):
    """A row of statistics, which the blocks of classes follow."""

    # Probabilities to stop at the node, of the weightings.
    stops: Float32s = inline(N_WEIGHTINGS)
    # Shares of the memories in the third weighting.
    shares: Float32s = inline(N_MEMORIES)
    # Of the memories that forget the weight of all samples, and that of the latest.
    totals: Float32s = inline(N_FORGETTING)
    units: Float32s = inline(N_FORGETTING)
    n_samples: Int32
    # Number of classes seen, and the sum of c over all classes.
    n_seen: Int32
    sum_of_c: Int32

    def block_of(self, label: int) -> ClassBlock:
        """Return the block that a class is in."""
        return ClassBlock(self, HEAD_WORDS + label // BLOCK * BLOCK_WORDS)

    def count(self, label: int) -> int:
        """Return how many samples of a class have been seen."""
        return self.block_of(label).counted[label % BLOCK] >> SIDE_BITS

    def customers(self, label: int) -> int:
        """Return c of Algorithm 5: on how many sides of the node's cut a class has been seen."""
        sides = self.block_of(label).counted[label % BLOCK] & 3
        return (sides & 1) + (sides >> 1)

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

    def add_sample(self, label: int, forgets: bool, n_classes: int) -> None:
        """Add a sample's class to the memories."""
        block = self.block_of(label)
        place = label % BLOCK
        counted = block.counted[place]
        if counted >> SIDE_BITS == 0:
            self.n_seen = self.n_seen + 1
        block.counted[place] = counted + (1 << SIDE_BITS)
        self.n_samples = self.n_samples + 1
        for m in range(N_FORGETTING):
            unit = self.units[m]
            if forgets:
                unit *= GROWTHS[m]
            if unit > LARGEST_UNIT:
                self.rescale(m, unit, n_classes)
                unit = 1.0
            self.units[m] = unit
            i = m * BLOCK + place
            block.weights[i] = block.weights[i] + unit
            self.totals[m] = self.totals[m] + unit

    def add_side(self, label: int, side: int) -> None:
        """Note on which side of the node's cut a class has gone."""
        block = self.block_of(label)
        place = label % BLOCK
        counted = block.counted[place]
        bit = 1 if side == LEFT else 2
        if counted & bit == 0:
            block.counted[place] = counted | bit
            self.sum_of_c = self.sum_of_c + 1

    def copy_from(self, below: Statistics, side: int, n_words: int, n_classes: int) -> None:
        """Copy the statistics of a node above which the own one is put, and which is on a side.

        The probabilities to stop stay those of a new node.
        """
        words, known = Int32s(self, 0, n_words), Int32s(below, 0, n_words)
        for w in range(STOP_WORDS, n_words):
            words[w] = known[w]
        for k in range(n_classes):
            counted = self.block_of(k).counted
            seen = counted[k % BLOCK] >> SIDE_BITS
            bit = 1 if side == LEFT else 2
            counted[k % BLOCK] = (seen << SIDE_BITS) + (bit if seen > 0 else 0)
        self.sum_of_c = self.n_seen

    def estimate(self, label: int, alpha: float, n_classes: int) -> float:
        """Return the first memory's Dirichlet estimate of a class."""
        return (self.count(label) + alpha) / (self.n_samples + alpha * n_classes)

    def forgetting_estimate(self, label: int, m: int, alpha: float, n_classes: int) -> float:
        """Return the Dirichlet estimate of a class by a memory that forgets."""
        seen = self.block_of(label).weights[m * BLOCK + label % BLOCK]
        prior = alpha * self.units[m]
        return (seen + prior) / (self.totals[m] + prior * n_classes)


HEAD_WORDS = Statistics.WORDS
BLOCK_WORDS = ClassBlock.WORDS
STOP_WORDS = N_WEIGHTINGS


def counts_in(rows: NDArray[np.int32], n_classes: int) -> NDArray[np.int32]:
    """Return the classes' numbers of samples in copied rows, shape (..., n_classes)."""
    blocks = rows[..., HEAD_WORDS:].reshape(*rows.shape[:-1], -1, BLOCK_WORDS)
    counts: NDArray[np.int32] = blocks[..., :BLOCK] >> SIDE_BITS
    return counts.reshape(*rows.shape[:-1], -1)[..., :n_classes]
