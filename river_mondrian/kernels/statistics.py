"""Rows of statistics: the classes that have passed a node of an adaptive tree, in three memories.

The first memory holds all samples; the others forget exponentially along the node's own visits. A
memory does not decay: its unit grows, the weight that its latest sample has.

Classes are in blocks of `BLOCK`, and what is known of those of one block lies together: a path is
read class by class where it learns, and block by block where it predicts.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .access import counts_at
from .layout import COUNT_WIDTH, LEFT, N_CLASSES, N_COUNTS, STATS
from .memory import f32, i32, i64, inlined, put_f32, put_i32, put_i64

N_MEMORIES = 3
# Of the memories that forget: how their units grow at a visit.
GROWTHS = (1.0 / 0.95, 1.0 / 0.7)
N_FORGETTING = len(GROWTHS)
# Unit at which a memory is scaled back.
LARGEST_UNIT = 1e15

# Dirichlet prior and prior probability to stop, of the three weightings. The first memory says the
# same in the last two.
PRIORS = (0.5, 0.05, 0.05)
STOP_PRIORS = (0.5, 0.1, 0.1)
N_WEIGHTINGS = 3

# A row: of three weightings the probability to stop at the node; the shares of the memories; of
# those that forget the weight of all samples, and the unit. Integers are the number of samples, of
# classes seen, and the sum of c (Algorithm 5).
STOPS = 0
SHARES = 3
TOTALS = 6
UNITS = 8
N_SAMPLES = 10
N_SEEN = 11
SUM_OF_C = 12
HEAD = 13

# Then the blocks: of each class the number of samples, with the sides of the node's cut to which
# they have gone in its two last bits (how many these are is c), and its weights in the memories
# that forget.
BLOCK = 4
COUNTED = 0
WEIGHTS = BLOCK
BLOCK_WORDS = (1 + N_FORGETTING) * BLOCK
SIDE_BITS = 2


def width_of(n_classes: int) -> int:
    """Return the number of words of a row that has room for classes, a multiple of `BLOCK`."""
    return HEAD + n_classes // BLOCK * BLOCK_WORDS


def counts_in(rows: Any, n_classes: int) -> Any:
    """Return the classes' numbers of samples in copied rows, shape (..., n_classes)."""
    blocks = rows[..., HEAD:].reshape(*rows.shape[:-1], -1, BLOCK_WORDS)
    return (blocks[..., :BLOCK] >> SIDE_BITS).reshape(*rows.shape[:-1], -1)[..., :n_classes]


@inlined
def class_at(row: int, label: int) -> int:
    """Return the address of the first word of a class."""
    return row + 4 * (HEAD + label // BLOCK * BLOCK_WORDS + label % BLOCK)


@inlined
def row_of(forest: int, tree: int, node: int) -> int:
    """Return the address of a node's statistics, which must be there."""
    return counts_at(forest, tree, i32(node, STATS) - 1)


@inlined
def count_in(row: int, label: int) -> int:
    """Return how many samples of a class have been seen."""
    return i32(class_at(row, label), COUNTED) >> SIDE_BITS


@inlined
def new_stats(forest: int, tree: int, node: int) -> int:
    """Give a node empty statistics; returns their address."""
    number = i64(tree, N_COUNTS)
    put_i64(tree, N_COUNTS, number + 1)
    # 0 stands for none, as in a row that is new.
    put_i32(node, STATS, number + 1)
    row = counts_at(forest, tree, number)
    for w in range(i64(forest, COUNT_WIDTH)):
        put_i32(row, w, 0)
    for v in range(N_WEIGHTINGS):
        put_f32(row, STOPS + v, STOP_PRIORS[v])
    for m in range(N_MEMORIES):
        put_f32(row, SHARES + m, 1.0 / N_MEMORIES)
    for m in range(N_FORGETTING):
        put_f32(row, UNITS + m, 1.0)
    return row


@inlined
def scale_back(forest: int, row: int, m: int, unit: float) -> None:
    """Let the unit of a memory that forgets be 1 again."""
    for k in range(i64(forest, N_CLASSES)):
        weights = class_at(row, k) + 4 * (WEIGHTS + m * BLOCK)
        put_f32(weights, 0, f32(weights, 0) / unit)
    put_f32(row, TOTALS + m, f32(row, TOTALS + m) / unit)


@inlined
def remember(forest: int, row: int, label: int, forgets: bool) -> None:
    """Add a sample's class to the memories of a row."""
    own = class_at(row, label)
    counted = i32(own, COUNTED)
    if counted >> SIDE_BITS == 0:
        put_i32(row, N_SEEN, i32(row, N_SEEN) + 1)
    put_i32(own, COUNTED, counted + (1 << SIDE_BITS))
    put_i32(row, N_SAMPLES, i32(row, N_SAMPLES) + 1)
    for m in range(N_FORGETTING):
        unit = f32(row, UNITS + m)
        if forgets:
            unit *= GROWTHS[m]
        if unit > LARGEST_UNIT:
            scale_back(forest, row, m, unit)
            unit = 1.0
        put_f32(row, UNITS + m, unit)
        weight = own + 4 * (WEIGHTS + m * BLOCK)
        put_f32(weight, 0, f32(weight, 0) + unit)
        put_f32(row, TOTALS + m, f32(row, TOTALS + m) + unit)


@inlined
def add_side(row: int, label: int, side: int) -> None:
    """Note on which side of a cut a class has gone."""
    own = class_at(row, label)
    counted = i32(own, COUNTED)
    bit = 1 if side == LEFT else 2
    if counted & bit == 0:
        put_i32(own, COUNTED, counted | bit)
        put_i32(row, SUM_OF_C, i32(row, SUM_OF_C) + 1)


@inlined
def copy_stats(forest: int, source: int, target: int, side: int) -> None:
    """Let a node that is inserted above another, on this side, have seen what that has.

    Its probabilities to stop are fresh.
    """
    for w in range(SHARES, i64(forest, COUNT_WIDTH)):
        put_i32(target, w, i32(source, w))
    for k in range(i64(forest, N_CLASSES)):
        own = class_at(target, k)
        seen = i32(own, COUNTED) >> SIDE_BITS
        bit = 1 if side == LEFT else 2
        put_i32(own, COUNTED, (seen << SIDE_BITS) + (bit if seen > 0 else 0))
    put_i32(target, SUM_OF_C, i32(target, N_SEEN))


@inlined
def chance_of_all(forest: int, row: int, label: int, alpha: float) -> float:
    """Return the first memory's Dirichlet estimate of a class."""
    n_classes = i64(forest, N_CLASSES)
    return (count_in(row, label) + alpha) / (i32(row, N_SAMPLES) + alpha * n_classes)


@inlined
def chance_of_late(forest: int, row: int, label: int, m: int, alpha: float) -> float:
    """Return the Dirichlet estimate of a class by a memory that forgets (0 or 1)."""
    n_classes = i64(forest, N_CLASSES)
    seen = f32(class_at(row, label), WEIGHTS + m * BLOCK)
    prior = alpha * f32(row, UNITS + m)
    return (seen + prior) / (f32(row, TOTALS + m) + prior * n_classes)


_FLOAT, _WORD = ir.FloatType(), ir.IntType(32)
_FLOATS, _WORDS = ir.VectorType(_FLOAT, BLOCK), ir.VectorType(_WORD, BLOCK)
_ALIGNMENT = 4
_CONTRACT = ("contract",)


def _each(builder: Any, number: Any) -> Any:
    """Return a block of which each is a float64 rounded to float32."""
    block = builder.insert_element(
        ir.Constant(_FLOATS, None), builder.fptrunc(number, _FLOAT), _WORD(0)
    )
    return builder.shuffle_vector(block, block, ir.Constant(_WORDS, None))


@intrinsic
def add_row(
    typingctx: Any,
    row: Any,
    n_classes: Any,
    out: Any,
    out_width: Any,
    of_count: Any,
    of_c: Any,
    of_presence: Any,
    of_noisy: Any,
    noisy: Any,
    of_deep: Any,
    deep: Any,
    of_all: Any,
    of_late: Any,
    of_latest: Any,
    mixed: Any,
) -> Any:
    """Add a row's part to four posteriors in `out`, rows of so many float32.

    To the first comes what samples, c and presence of each class are multiplied with; to the next
    two what samples are, and a constant; to the last what each memory is, and a constant. Blocks
    of classes are as wide as vectors: LLVM's own would first ask which of the addresses overlap,
    for longer than the sums take.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        row, n_classes, out, out_width = args[:4]
        of_count, of_c, of_presence, *rest = (_each(builder, number) for number in args[4:])
        of_noisy, noisy, of_deep, deep, of_all, of_late, of_latest, mixed = rest
        blocks = builder.add(row, row.type(4 * HEAD))
        bits = [ir.Constant(_WORDS, [bit] * BLOCK) for bit in range(4)]
        zeros = ir.Constant(_FLOATS, None)

        def load(address: Any, word: int, block: Any) -> Any:
            place = builder.inttoptr(address, block.as_pointer())
            words = builder.bitcast(place, _WORD.as_pointer())
            place = builder.bitcast(builder.gep(words, [_WORD(word)]), block.as_pointer())
            return builder.load(place, align=_ALIGNMENT)

        def plus(*parts: Any) -> Any:
            """Sum products and plain numbers."""
            total = None
            for part in parts:
                if isinstance(part, tuple):
                    part = builder.fmul(*part, flags=_CONTRACT)
                total = part if total is None else builder.fadd(total, part, flags=_CONTRACT)
            return total

        def add_to(posterior: int, first: Any, part: Any) -> None:
            start = builder.add(out, builder.mul(out_width, out.type(4 * posterior)))
            words = builder.inttoptr(start, _FLOAT.as_pointer())
            place = builder.bitcast(builder.gep(words, [first]), _FLOATS.as_pointer())
            before = builder.load(place, align=_ALIGNMENT)
            builder.store(plus(before, part), place, align=_ALIGNMENT)

        size = n_classes.type(BLOCK)
        n_blocks = builder.udiv(builder.add(n_classes, n_classes.type(BLOCK - 1)), size)
        with cgutils.for_range(builder, n_blocks) as loop:
            block = builder.add(blocks, builder.mul(loop.index, size.type(4 * BLOCK_WORDS)))
            first = builder.mul(loop.index, size)
            counted = load(block, COUNTED, _WORDS)
            count = builder.sitofp(builder.ashr(counted, bits[SIDE_BITS]), _FLOATS)
            sides = builder.and_(counted, bits[3])
            c = builder.sitofp(builder.sub(sides, builder.lshr(sides, bits[1])), _FLOATS)
            present = builder.fcmp_ordered(">", count, zeros)
            presence = builder.select(present, of_presence, zeros)
            late, latest = (load(block, WEIGHTS + m * BLOCK, _FLOATS) for m in range(N_FORGETTING))
            add_to(0, first, plus(presence, (of_c, c), (of_count, count)))
            add_to(1, first, plus(noisy, (of_noisy, count)))
            add_to(2, first, plus(deep, (of_deep, count)))
            add_to(3, first, plus(mixed, (of_all, count), (of_late, late), (of_latest, latest)))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4, *[types.float64] * 11), codegen
