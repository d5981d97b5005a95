"""Statistics of the classes that have passed a node, in three memories.

The first memory holds all samples; the others forget exponentially along the node's own visits. A
memory does not decay: instead its unit grows, the weight that its latest sample has.

Classes are in blocks of `BLOCK`, and what is known of those of one block lies together: a path is
read class by class where it learns, and block by block where it predicts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numpy.typing import NDArray

from ...partitions.mondrian.records import LEFT
from ...records import Float32s, Float64, Int32, Int32s, Record, inline
from ...records.compiled import address_in, lowered

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

    def begin(self, n_words: int) -> None:
        """Let a row of so many words have seen nothing."""
        words = Int32s(self, 0, n_words)
        for w in range(n_words):
            words[w] = 0
        for v in range(N_WEIGHTINGS):
            self.stops[v] = STOP_PRIORS[v]
        for m in range(N_MEMORIES):
            self.shares[m] = 1.0 / N_MEMORIES
        for m in range(N_FORGETTING):
            self.units[m] = 1.0

    def scale_back(self, m: int, unit: float, n_classes: int) -> None:
        """Let the unit of a memory that forgets be 1 again."""
        for k in range(n_classes):
            weights = self.block_of(k).weights
            i = m * BLOCK + k % BLOCK
            weights[i] = weights[i] / unit
        self.totals[m] = self.totals[m] / unit

    def remember(self, label: int, forgets: bool, n_classes: int) -> None:
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
                self.scale_back(m, unit, n_classes)
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

    def take_over(self, below: Statistics, side: int, n_words: int, n_classes: int) -> None:
        """Let a node that is inserted above another, on this side, have seen what that has.

        Its probabilities to stop are fresh.
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


HEAD_WORDS = Statistics.SIZE // 4
BLOCK_WORDS = ClassBlock.SIZE // 4
STOP_WORDS = N_WEIGHTINGS


def statistics_words(n_classes: int) -> int:
    """Return the number of words of a row that has room for classes, a multiple of `BLOCK`."""
    return HEAD_WORDS + n_classes // BLOCK * BLOCK_WORDS


def counts_in(rows: NDArray[np.int32], n_classes: int) -> NDArray[np.int32]:
    """Return the classes' numbers of samples in copied rows, shape (..., n_classes)."""
    blocks = rows[..., HEAD_WORDS:].reshape(*rows.shape[:-1], -1, BLOCK_WORDS)
    counts: NDArray[np.int32] = blocks[..., :BLOCK] >> SIDE_BITS
    return counts.reshape(*rows.shape[:-1], -1)[..., :n_classes]


class Factors(Record):
    """What a node adds to a tree's posteriors: factors of its numbers, and constants.

    The HNSP gets factors of each class's samples, of its c and of whether it has been seen at all;
    the weightings get factors of its samples, in the third by memory, and a constant for all.
    """

    hnsp_samples: Float64
    hnsp_c: Float64
    hnsp_presence: Float64
    noisy_samples: Float64
    noisy_constant: Float64
    deep_samples: Float64
    deep_constant: Float64
    mixed_all: Float64
    mixed_late: Float64
    mixed_latest: Float64
    mixed_constant: Float64


_FLOAT, _DOUBLE, _WORD = ir.FloatType(), ir.DoubleType(), ir.IntType(32)
_FLOATS, _WORDS = ir.VectorType(_FLOAT, BLOCK), ir.VectorType(_WORD, BLOCK)
_ADDRESS = ir.IntType(64)
_ALIGNMENT = 4
_CONTRACT = ("contract",)


def _each(builder: Any, factors: Any, name: str) -> Any:
    """Return a block of which each is a field of the factors, rounded to float32."""
    address = builder.add(factors, _ADDRESS(Factors.FIELDS[name].offset))
    number = builder.load(builder.inttoptr(address, _DOUBLE.as_pointer()), align=_ALIGNMENT)
    block = builder.insert_element(
        ir.Constant(_FLOATS, None), builder.fptrunc(number, _FLOAT), _WORD(0)
    )
    return builder.shuffle_vector(block, block, ir.Constant(_WORDS, None))


def _load(builder: Any, address: Any, word: int, block: Any) -> Any:
    """Load a block so many words behind an address."""
    place = builder.add(address, _ADDRESS(4 * word))
    return builder.load(builder.inttoptr(place, block.as_pointer()), align=_ALIGNMENT)


def _sum(builder: Any, *parts: Any) -> Any:
    """Sum products, which are pairs, and plain numbers."""
    total = None
    for part in parts:
        if isinstance(part, tuple):
            part = builder.fmul(*part, flags=_CONTRACT)
        total = part if total is None else builder.fadd(total, part, flags=_CONTRACT)
    return total


def _add_by_blocks(
    context: Any, builder: Any, row: Any, n_classes: Any, factors: Any, out: Any, width: Any
) -> None:
    """Add a node's part to the posteriors in blocks as wide as vectors.

    LLVM's own would first ask which of the addresses overlap, for longer than the sums take.
    """
    out = address_in(builder, out)
    each = {name: _each(builder, factors, name) for name in Factors.FIELDS}
    blocks = builder.add(row, _ADDRESS(4 * HEAD_WORDS))
    bits = [ir.Constant(_WORDS, [bit] * BLOCK) for bit in range(4)]
    zeros = ir.Constant(_FLOATS, None)
    weights_word = ClassBlock.FIELDS["weights"].offset // 4

    def add_to(posterior: int, first: Any, part: Any) -> None:
        start = builder.add(out, builder.mul(width, _ADDRESS(4 * posterior)))
        words = builder.inttoptr(start, _FLOAT.as_pointer())
        place = builder.bitcast(builder.gep(words, [first]), _FLOATS.as_pointer())
        before = builder.load(place, align=_ALIGNMENT)
        builder.store(_sum(builder, before, part), place, align=_ALIGNMENT)

    size = _ADDRESS(BLOCK)
    n_blocks = builder.udiv(builder.add(n_classes, _ADDRESS(BLOCK - 1)), size)
    with cgutils.for_range(builder, n_blocks) as loop:
        block = builder.add(blocks, builder.mul(loop.index, _ADDRESS(4 * BLOCK_WORDS)))
        first = builder.mul(loop.index, size)
        counted = _load(builder, block, 0, _WORDS)
        count = builder.sitofp(builder.ashr(counted, bits[SIDE_BITS]), _FLOATS)
        sides = builder.and_(counted, bits[3])
        # One less where the right bit is set: 0, 1, 2 and 3 are 0, 1, 1 and 2 sides.
        c = builder.sitofp(builder.sub(sides, builder.lshr(sides, bits[1])), _FLOATS)
        present = builder.fcmp_ordered(">", count, zeros)
        presence = builder.select(present, each["hnsp_presence"], zeros)
        late, latest = (
            _load(builder, block, weights_word + m * BLOCK, _FLOATS) for m in (LATE, LATEST)
        )
        of_samples = {
            name: (each[name], count)
            for name in ("hnsp_samples", "noisy_samples", "deep_samples", "mixed_all")
        }
        hnsp = _sum(builder, presence, (each["hnsp_c"], c), of_samples["hnsp_samples"])
        noisy = _sum(builder, each["noisy_constant"], of_samples["noisy_samples"])
        deep = _sum(builder, each["deep_constant"], of_samples["deep_samples"])
        mixed = _sum(
            builder,
            each["mixed_constant"],
            of_samples["mixed_all"],
            (each["mixed_late"], late),
            (each["mixed_latest"], latest),
        )
        for posterior, part in enumerate((hnsp, noisy, deep, mixed)):
            add_to(posterior, first, part)


@lowered(_add_by_blocks)
def add_statistics(
    statistics: Statistics, n_classes: int, factors: Factors, out: Float32s, width: int
) -> None:
    """Add a node's part to a tree's posteriors: N_POSTERIORS rows of `width` in `out`."""
    for k in range(n_classes):
        block = statistics.block_of(k)
        place = k % BLOCK
        count, sides = block.counted[place] >> SIDE_BITS, block.counted[place] & 3
        late, latest = block.weights[place], block.weights[BLOCK + place]
        parts = (
            (factors.hnsp_presence if count > 0 else 0.0)
            + factors.hnsp_c * (sides - (sides >> 1))
            + factors.hnsp_samples * count,
            factors.noisy_constant + factors.noisy_samples * count,
            factors.deep_constant + factors.deep_samples * count,
            factors.mixed_constant
            + factors.mixed_all * count
            + factors.mixed_late * late
            + factors.mixed_latest * latest,
        )
        for posterior, part in enumerate(parts):
            i = width * posterior + k
            out[i] = out[i] + part
