"""Context-tree weighting (Willems, Shtarkov and Tjalkens 1995) along the paths of samples.

A pruning of a tree predicts a sample's class by what the samples in its leaf there say. The
weighted prediction is that of all prunings, each weighted by its prior and by how well it has
predicted so far. Let E be the product of what a node itself has predicted of its samples, P_w that
of what its subtree's prunings together have, and D the product of P_w over its children. With the
prior probability s to stop at the node,

    P_w = s E + (1 - s) D.

A sample multiplies E by p_own, and D by the p of the child to which it goes. So P_w is multiplied
by

    p = b p_own + (1 - b) p_child,      b = s E / P_w,

which is what the node's subtree predicts, and the posterior probability to stop, b, becomes
b p_own / p. None of the products is needed: a node keeps b (`Statistics.stops`), and learning a
sample is one pass from its leaf, where p = p_own, up to the root. A prediction is a pass down:
p_own of a node has the weight of b times the product of 1 - b above (`prediction`).

The loss of a sample of weight w counts w times: its likelihoods are taken to the power of w. So E
is multiplied by p_own^w and P_w by q = b p_own^w + (1 - b) q_child; the q of a leaf is p_own^w.

Aggregated Mondrian forests (AMF: Mourtada, Gaiffas and Scornet 2021) predict by the same recursion
with s = 1/2 and the Dirichlet prior 1/2, and keep the logarithms of E and P_w. What differs here:

- There are two weightings (`PRIORS`, `STOP_PRIORS`), which the mixture of experts weighs. The
  first has the priors of AMF; the other goes deeper, and its p_own mixes three memories.
- The tree may have been cut by the labels that b learns from, so that depth is trusted too much.
- b keeps a distance of `LEAST_STOP` from 0 and 1, so that a node can change its mind.
- A node that is inserted above another takes over what that has seen, but not E and P_w, which are
  not known: its b begins with s.
- A single point in a leaf has no statistics: it counts by its weight in the Dirichlet estimate.
"""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from ...compiling.kernels import inlined, separate
from ...records import Array, Float32s, Record, inline, prefetch
from ...records.numba_types import lowered, pointer_to
from . import nodes
from .nodes import A, AdaptiveTree, Entries, Statistics
from .seen import follow, numbers_of, seen_at

# Adding what a node's statistics say of each class to the posteriors of its tree.
#
# That is most of what a prediction costs, and it is done by vector instructions. Of few classes a
# block is added at once, for each posterior. LLVM's own loop would first ask which of the
# addresses overlap, for longer than the sums take. Of many classes one is added at once, for all
# posteriors: these lie together, as what a node knows of a class that it has seen does.


class Factors(Record):
    """What a node adds to a tree's posteriors, of which the HNSP is the first.

    Each posterior has a factor of a class's weight. The HNSP has one of the class's tables, which
    are its weight, but 1 at most, and the last weighting one of its weight in the first memory that
    forgets; then they have one of its number of sides, and of its weight in the other such memory.
    What all classes get are constants of the weightings.
    """

    by_weight: Float32s = inline(nodes.N_POSTERIORS)
    by_first: Float32s = inline(nodes.N_POSTERIORS)
    by_second: Float32s = inline(nodes.N_POSTERIORS)
    constants: Float32s = inline(nodes.N_POSTERIORS)
    # The node's.
    statistics: Statistics


_FLOAT, _WORD = ir.FloatType(), ir.IntType(32)
_FLOATS, _WORDS = ir.VectorType(_FLOAT, nodes.BLOCK), ir.VectorType(_WORD, nodes.BLOCK)
_INDEX, _BITS_OF_BLOCK = ir.IntType(64), nodes.SIDE_BITS * nodes.BLOCK
_ALIGNMENT = 4
_CONTRACT = ("contract",)


def _each(builder: Any, factors: Any, i: int) -> Any:
    """Return a block of which each is the i-th of the factors."""
    number = builder.load(builder.gep(factors, [_INDEX(i)]), align=_ALIGNMENT)
    return _spread(builder, number, _FLOATS)


def _spread(builder: Any, number: Any, kind: Any) -> Any:
    """Return a block of a kind of which each is the number."""
    block = builder.insert_element(ir.Constant(kind, None), number, _WORD(0))
    return builder.shuffle_vector(block, block, ir.Constant(_WORDS, None))


def _load(builder: Any, words: Any, start: Any, block: Any) -> Any:
    """Load a block that begins with a word."""
    place = builder.bitcast(builder.gep(words, [start]), block.as_pointer())
    return builder.load(place, align=_ALIGNMENT)


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
    """Add a node's part to the posteriors, a block of classes at a time."""
    sums, words = pointer_to(builder, out, _FLOAT), pointer_to(builder, row, _WORD)
    numbers = pointer_to(builder, factors, _FLOAT)
    by_weight, by_first, by_second, constants = (
        [_each(builder, numbers, nodes.N_POSTERIORS * i + v) for v in range(nodes.N_POSTERIORS)]
        for i in range(4)
    )
    weights = nodes.HEAD_WORDS + nodes.ClassBlock.FIELDS["weights"].word
    one, three = (ir.Constant(_WORDS, [bits] * nodes.BLOCK) for bits in (1, 3))
    shifts = ir.Constant(_WORDS, [nodes.SIDE_BITS * k for k in range(nodes.BLOCK)])
    ones = ir.Constant(_FLOATS, [1.0] * nodes.BLOCK)
    blocks_of_word = _INDEX(nodes.CLASSES_OF_WORD // nodes.BLOCK)

    size = _INDEX(nodes.BLOCK)
    all_sides = builder.mul(builder.udiv(width, size), _INDEX(nodes.BLOCK_WORDS))
    all_sides = builder.add(all_sides, _INDEX(nodes.HEAD_WORDS))
    n_blocks = builder.udiv(builder.add(n_classes, _INDEX(nodes.BLOCK - 1)), size)
    with cgutils.for_range(builder, n_blocks) as loop:
        block = builder.mul(loop.index, _INDEX(nodes.BLOCK_WORDS))
        first = builder.mul(loop.index, size)
        count = _load(builder, words, builder.add(block, _INDEX(nodes.HEAD_WORDS)), _FLOATS)
        tables = builder.select(builder.fcmp_ordered("<", count, ones), count, ones)
        place = builder.add(all_sides, builder.udiv(loop.index, blocks_of_word))
        word = builder.load(builder.gep(words, [place]), align=_ALIGNMENT)
        within, bits_of_block = builder.urem(loop.index, blocks_of_word), _INDEX(_BITS_OF_BLOCK)
        word = builder.lshr(word, builder.trunc(builder.mul(within, bits_of_block), _WORD))
        bits = builder.and_(builder.lshr(_spread(builder, word, _WORDS), shifts), three)
        # One less where the right bit is set: 0, 1, 2 and 3 are 0, 1, 1 and 2 sides.
        sides = builder.sitofp(builder.sub(bits, builder.lshr(bits, one)), _FLOATS)
        late, latest = (
            _load(builder, words, builder.add(block, _INDEX(weights + m * nodes.BLOCK)), _FLOATS)
            for m in (nodes.LATE, nodes.LATEST)
        )
        hnsp, noisy, mixed = range(nodes.N_POSTERIORS)
        of_count = [(factor, count) for factor in by_weight]
        late_parts = (by_first[mixed], late), (by_second[mixed], latest)
        parts = (
            ((by_first[hnsp], tables), (by_second[hnsp], sides), of_count[hnsp]),
            (constants[noisy], of_count[noisy]),
            (constants[mixed], of_count[mixed], *late_parts),
        )
        for posterior, part in enumerate(parts):
            start = builder.add(builder.mul(width, _INDEX(posterior)), first)
            place = builder.bitcast(builder.gep(sums, [start]), _FLOATS.as_pointer())
            before = builder.load(place, align=_ALIGNMENT)
            total = _sum(builder, before, _sum(builder, *part))
            builder.store(total, place, align=_ALIGNMENT)


# Weight of a class in each memory.
Numbers = tuple[float, float, float]


def _add_class(
    factors: Factors, seen: Numbers, bits: int, out: Float32s, start: int, step: int
) -> None:
    """Add what a node has seen of a class, and its sides, to each posterior: from `start` on."""
    count, late, latest = seen
    firsts, seconds = (min(count, 1.0), 0.0, late), (bits - (bits >> 1), 0.0, latest)
    for v in range(nodes.N_POSTERIORS):
        own = factors.by_weight[v] * count + factors.by_first[v] * firsts[v]
        out[start + step * v] = out[start + step * v] + own + factors.by_second[v] * seconds[v]


@lowered(_add_by_blocks)
def add_statistics(
    statistics: Statistics, n_classes: int, factors: Factors, out: Float32s, width: int
) -> None:
    """Add a node's part to a tree's posteriors: N_POSTERIORS rows of `width` in `out`."""
    for k in range(n_classes):
        words, step = statistics.numbers_of(k)
        for v in range(nodes.N_POSTERIORS):
            out[width * v + k] = out[width * v + k] + factors.constants[v]
        seen = words[0], words[step], words[2 * step]
        _add_class(factors, seen, statistics.sides_of(k, width), out, k, width)


# Of many classes. Predictions of 300 took 1.4 times as long with a loop of numba's own.

# Of a class what is seen, and of the posteriors.
_SEEN_WORDS, _SEEN = ir.VectorType(_WORD, nodes.SEEN_WORDS), ir.VectorType(_FLOAT, nodes.SEEN_WORDS)
_SUMS = ir.VectorType(_FLOAT, nodes.N_POSTERIORS)


def _pick(builder: Any, one: Any, other: Any, places: list[int]) -> Any:
    """Return numbers of two vectors; places of the second begin behind those of the first."""
    kind = ir.VectorType(_WORD, len(places))
    return builder.shuffle_vector(one, other, ir.Constant(kind, places))


def _add_vectors(
    context: Any, builder: Any, row: Any, first: Any, n: Any, factors: Any, out: Any
) -> None:
    words, sums = pointer_to(builder, row, _WORD), pointer_to(builder, out, _FLOAT)
    numbers = pointer_to(builder, factors, _FLOAT)
    by_weight, by_first, by_second = (
        _load(builder, numbers, _INDEX(nodes.N_POSTERIORS * i), _SUMS) for i in range(3)
    )
    one = ir.Constant(_SEEN, [1.0] * nodes.SEEN_WORDS)
    with cgutils.for_range(builder, n) as loop:
        start = builder.add(first, builder.mul(loop.index, _INDEX(nodes.SEEN_WORDS)))
        seen = _load(builder, words, start, _SEEN_WORDS)
        values = builder.bitcast(seen, _SEEN)
        weight = _pick(builder, values, values, [1] * nodes.N_POSTERIORS)
        tables = builder.select(builder.fcmp_ordered("<", values, one), values, one)
        key = builder.extract_element(seen, _WORD(0))
        bits = builder.and_(key, _WORD(3))
        # One less where the right bit is set: 0, 1, 2 and 3 are 0, 1, 1 and 2 sides.
        sides = builder.sitofp(builder.sub(bits, builder.lshr(bits, _WORD(1))), _FLOAT)
        # The weight, then the tables or the sides, with the weights in the memories behind.
        firsts = _pick(builder, tables, values, [1, 1, nodes.SEEN_WORDS + 2 + nodes.LATE])
        seconds = _pick(builder, values, values, [1, 1, 2 + nodes.LATEST])
        seconds = builder.insert_element(seconds, sides, _WORD(0))
        place = builder.zext(builder.lshr(key, _WORD(nodes.SIDE_BITS)), _INDEX)
        place = builder.add(place, _INDEX(nodes.N_FRONT - 1))
        is_none = builder.icmp_unsigned("==", key, _WORD(0))
        place = builder.mul(builder.select(is_none, loop.index, place), _INDEX(nodes.N_POSTERIORS))
        place = builder.bitcast(builder.gep(sums, [place]), _SUMS.as_pointer())
        total = builder.load(place, align=_ALIGNMENT)
        for factor, vector in ((by_weight, weight), (by_first, firsts), (by_second, seconds)):
            product = builder.fmul(factor, vector, flags=_CONTRACT)
            total = builder.fadd(total, product, flags=_CONTRACT)
        builder.store(total, place, align=_ALIGNMENT)


@lowered(_add_vectors)
def _add_row(row: Statistics, first: int, n: int, factors: Factors, out: Float32s) -> None:
    """Add the `n` classes of a row from a word on.

    Where there is room for one, nothing is added to a row in front: to another one for each place,
    since they would wait for each other.
    """
    for i in range(n):
        seen = seen_at(row, first, i)
        start = nodes.N_POSTERIORS * (i if seen.key == 0 else nodes.N_FRONT + seen.label())
        numbers = seen.count, seen.weights[nodes.LATE], seen.weights[nodes.LATEST]
        _add_class(factors, numbers, seen.key & 3, out, start, 1)


@separate
def add_seen(forest: A, tree: AdaptiveTree, factors: Array[Factors], n: int, out: Float32s) -> None:
    """Add what `n` nodes have seen to a tree's posteriors.

    `out` has a row of N_POSTERIORS for each class, behind N_FRONT others, the first of which has
    what all classes get.
    """
    found = forest.found
    for start in range(0, n, nodes.N_TOGETHER):
        # The rows of several nodes wait together: of one at a time too few are known ahead to be
        # there when they are read.
        n_own = min(n - start, nodes.N_TOGETHER)
        for i in range(n_own):
            found[i].row = factors[start + i].statistics
            found[i].owner = start + i
        at, end = 0, n_own
        while at < end:
            owner, row = found[at].owner, tree.side_rows.known(found[at].row)
            end = follow(forest, tree, row, owner, end)
            if at < n_own:
                _add_row(row, nodes.HEAD_WORDS, nodes.N_FIRST, factors[owner], out)
            else:
                _add_row(row, nodes.MORE_WORD, nodes.N_MORE, factors[owner], out)
            at += 1


# Share that the memories of a node exchange at each visit, and the bounds of a stop probability.
SHARE_RATE = 0.02
LEAST_STOP = 1e-4


@inlined
def _learn_stop(statistics: Statistics, v: int, stopped: float, below: float) -> float:
    """Let a weighting's probability to stop learn from what node and child have predicted.

    `stopped` is that probability times the node's own. Returns what the node's subtree has given.
    """
    predicted = stopped + (1.0 - statistics.stops[v]) * below
    statistics.stops[v] = min(max(stopped / predicted, LEAST_STOP), 1.0 - LEAST_STOP)
    return predicted


@inlined
def _share(shares: Float32s, first: float, second: float, third: float) -> float:
    """Let shares be as their products with likelihoods, by fixed share; returns the sum of these.

    See Herbster and Warmuth 1998.
    """
    total = first + second + third
    kept = (1.0 - SHARE_RATE) / total
    shares[0] = kept * first + SHARE_RATE / nodes.N_MEMORIES
    shares[1] = kept * second + SHARE_RATE / nodes.N_MEMORIES
    shares[2] = kept * third + SHARE_RATE / nodes.N_MEMORIES
    return total


@inlined
def _end_estimate(forest: A, ref: int, own: int, label: int, v: int) -> float:
    """Return a class's estimate where there are no statistics: by a point that is not `own`."""
    is_point = ref < 0 and ~ref != own
    size = forest.weight_of(~ref) if is_point else 0.0
    same = size if is_point and forest.label_of(~ref) == label else 0.0
    return (same + nodes.PRIORS[v]) / (size + nodes.PRIORS[v] * forest.n_classes)


@separate
def update_weights(
    forest: A, tree: AdaptiveTree, path: Entries, n: int, label: int, weight: float, own: int
) -> None:
    """Let the weights on a sample's path learn its class from the leaf up.

    `own` is the sample's point where it is in the tree already: as a leaf it has seen nothing.
    """
    if forest.is_sparse == 1:
        # Ask for the memory of what the nodes have seen of the class ahead of its use.
        for i in range(n):
            link = path[i].statistics.links()[label & 1] if path[i].statistics else 0
            if link != 0:
                prefetch(tree.side_rows.row(link - 1), nodes.LINKS_WORD + nodes.N_LINKS)
    if weight != 1.0:
        _update_by_logs(forest, tree, path, n, label, weight, own)
        return
    n_classes, of_noisy, of_mixed = forest.n_classes, nodes.PRIORS[0], nodes.PRIORS[1]
    # What the subtree below has predicted in each weighting.
    noisy, mixed = 0.0, 0.0
    for i in range(n - 1, -1, -1):
        entry = path[i]
        statistics = entry.statistics
        if not statistics:
            noisy = _end_estimate(forest, entry.ref, own, label, nodes.NOISY)
            mixed = _end_estimate(forest, entry.ref, own, label, nodes.MIXED)
            continue
        stops, shares = statistics.stops, statistics.shares
        numbers = numbers_of(forest, tree, statistics, label)
        first = statistics.estimate(numbers, of_mixed, n_classes, shares[0])
        second = statistics.late_estimate(numbers, nodes.LATE, of_mixed, n_classes, shares[1])
        third = statistics.late_estimate(numbers, nodes.LATEST, of_mixed, n_classes, shares[2])
        together = _share(shares, first, second, third)
        if i == n - 1:
            noisy = statistics.estimate(numbers, of_noisy, n_classes)
            mixed = together
            continue
        stopped = statistics.estimate(numbers, of_noisy, n_classes, stops[nodes.NOISY])
        noisy = _learn_stop(statistics, nodes.NOISY, stopped, noisy)
        mixed = _learn_stop(statistics, nodes.MIXED, stops[nodes.MIXED] * together, mixed)


# Samples that do not weigh 1.


@inlined
def _learn_stop_by_logs(statistics: Statistics, v: int, own: float, below: float) -> float:
    """Let a probability to stop learn from the logarithms of what node and child have given.

    Returns that of what the node's subtree has.
    """
    stop = statistics.stops[v]
    # Over the larger of both, since either may be too small for a number.
    most = max(own, below)
    stopped = stop * math.exp(own - most)
    given = stopped + (1.0 - stop) * math.exp(below - most)
    statistics.stops[v] = min(max(stopped / given, LEAST_STOP), 1.0 - LEAST_STOP)
    return most + math.log(given)


@separate
def _update_by_logs(
    forest: A, tree: AdaptiveTree, path: Entries, n: int, label: int, weight: float, own: int
) -> None:
    """Let the weights on a sample's path learn its class as `update_weights` does."""
    n_classes, of_noisy, of_mixed = forest.n_classes, nodes.PRIORS[0], nodes.PRIORS[1]
    # Logarithm of the likelihood of the subtree below, to the power of the sample's weight.
    noisy, mixed = 0.0, 0.0
    for i in range(n - 1, -1, -1):
        entry = path[i]
        statistics = entry.statistics
        if statistics:
            numbers, shares = numbers_of(forest, tree, statistics, label), statistics.shares
            by_noisy = statistics.estimate(numbers, of_noisy, n_classes)
            of_all = statistics.estimate(numbers, of_mixed, n_classes)
            late = statistics.late_estimate(numbers, nodes.LATE, of_mixed, n_classes)
            latest = statistics.late_estimate(numbers, nodes.LATEST, of_mixed, n_classes)
            together = shares[0] * of_all + shares[1] * late + shares[2] * latest
            # Over the largest, since powers may be too small for numbers.
            most = max(of_all, late, latest)
            first = shares[0] * (of_all / most) ** weight
            second = shares[1] * (late / most) ** weight
            _share(shares, first, second, shares[2] * (latest / most) ** weight)
        else:
            by_noisy = _end_estimate(forest, entry.ref, own, label, nodes.NOISY)
            together = _end_estimate(forest, entry.ref, own, label, nodes.MIXED)
        by_noisy, by_mixed = weight * math.log(by_noisy), weight * math.log(together)
        if i == n - 1 or not statistics:
            noisy, mixed = by_noisy, by_mixed
            continue
        noisy = _learn_stop_by_logs(statistics, nodes.NOISY, by_noisy, noisy)
        mixed = _learn_stop_by_logs(statistics, nodes.MIXED, by_mixed, mixed)
