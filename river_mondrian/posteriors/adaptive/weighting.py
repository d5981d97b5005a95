"""Context-tree weighting (Willems, Shtarkov and Tjalkens 1995) along the paths of samples.

A pruned tree predicts a sample's class from the earlier samples in the sample's leaf. The weighted
prediction averages over all prunings. The weight of a pruning is the prior of the pruning times the
likelihood of earlier samples. Let E be the likelihood of a node's samples under the node's own
predictions. Let P_w be the likelihood under the weighted prunings of the node's subtree, and D the
product of P_w over the node's children. With the prior probability s of stopping at the node,

    P_w = s E + (1 - s) D.

With each sample, E is multiplied by p_own, the node's own prediction of the sample's class. D is
multiplied by p_child, the prediction of the child's subtree on the sample's path. So P_w is
multiplied by

    p = b p_own + (1 - b) p_child,      b = s E / P_w,

the prediction of the node's subtree. The posterior probability of stopping, b, becomes b p_own / p.
A node stores only b (`Statistics.stops`). Learning a sample is one pass from the sample's leaf,
where p = p_own, up to the root. A prediction is one pass from the root down (`prediction`). The
weight of a node's p_own is b times the product of 1 - b over the nodes above.

The loss of a sample with weight w is multiplied by w, so the sample's likelihoods are raised to the
power w. E is multiplied by p_own^w and P_w by q = b p_own^w + (1 - b) q_child. At a leaf, q is
p_own^w.

Aggregated Mondrian forests (AMF, Mourtada, Gaiffas and Scornet 2021) predict by the same recursion
with s = 1/2 and the Dirichlet prior 1/2. AMF stores log E and log P_w. This module differs from
AMF:

- There are two weightings (`PRIORS`, `STOP_PRIORS`). Their predictions are experts of the mixture.
  The first weighting has the priors of AMF. The second weighting relies more on deep nodes. In the
  second weighting, p_own is a mixture of the estimates from three counts (see `nodes`).

- Labels guide the cuts before they update b, so the likelihood of deep nodes is too high.

- b is clipped to [`LEAST_STOP`, 1 - `LEAST_STOP`], so that a node can adapt later.

- A node that is inserted above another node copies the other node's statistics. E and P_w of the
  new node are unknown, so b begins with s.

- A leaf of a single point has no statistics. The leaf's Dirichlet estimate uses the weight of the
  point.
"""

import math
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from ...compiling.kernels import always_inline, link_by_name
from ...records import Array, Float32s, prefetch
from ...records.numba_types import lowered, pointer_to
from . import nodes
from .nodes import A, AdaptiveTree, Entries, Factors, Statistics
from .seen import follow, numbers_of, seen_at

# Addition of a node's class statistics to the posteriors of the node's tree.
#
# Vector instructions are used, since the addition takes most of a prediction's time. With few
# classes, a vector has a block of classes of one posterior. LLVM's own vector loop would first
# check for overlapping addresses, which takes longer than the sums. With many classes, a vector has
# all posteriors of one class. The sums of the posteriors are contiguous, and so are the counts of a
# seen class.


_FLOAT, _WORD = ir.FloatType(), ir.IntType(32)
_FLOATS, _WORDS = ir.VectorType(_FLOAT, nodes.BLOCK), ir.VectorType(_WORD, nodes.BLOCK)
_INDEX, _BITS_OF_BLOCK = ir.IntType(64), nodes.SIDE_BITS * nodes.BLOCK
_ALIGNMENT = 4
_CONTRACT = ("contract",)


def _each(builder: Any, factors: Any, i: int) -> Any:
    """Return a vector of `BLOCK` copies of the i-th factor."""
    number = builder.load(builder.gep(factors, [_INDEX(i)]), align=_ALIGNMENT)
    return _spread(builder, number, _FLOATS)


def _spread(builder: Any, number: Any, kind: Any) -> Any:
    """Return a vector of type `kind` that repeats a number."""
    block = builder.insert_element(ir.Constant(kind, None), number, _WORD(0))
    return builder.shuffle_vector(block, block, ir.Constant(_WORDS, None))


def _load(builder: Any, words: Any, start: Any, block: Any) -> Any:
    """Return the vector of type `block` that begins at the word `start`."""
    place = builder.bitcast(builder.gep(words, [start]), block.as_pointer())
    return builder.load(place, align=_ALIGNMENT)


def _sum(builder: Any, *parts: Any) -> Any:
    """Return the sum of the arguments. A pair contributes the product of its two elements."""
    total = None
    for part in parts:
        if isinstance(part, tuple):
            part = builder.fmul(*part, flags=_CONTRACT)
        total = part if total is None else builder.fadd(total, part, flags=_CONTRACT)
    return total


def _add_by_blocks(
    context: Any, builder: Any, row: Any, n_classes: Any, factors: Any, out: Any, width: Any
) -> None:
    """Add a node's terms as the body of `add_statistics` does, block by block of classes."""
    sums, words = pointer_to(builder, out, _FLOAT), pointer_to(builder, row, _WORD)
    numbers = pointer_to(builder, factors, _FLOAT)
    by_weight, by_first, by_second, constants = (
        [_each(builder, numbers, nodes.N_POSTERIORS * i + v) for v in range(nodes.N_POSTERIORS)]
        for i in range(4)
    )
    weights = nodes.HEAD_WORDS + nodes.ClassBlock.FIELDS["weights"].word
    ones_of_words, three = (ir.Constant(_WORDS, [bits] * nodes.BLOCK) for bits in (1, 3))
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
        # The number of sides is bits - (bits >> 1): 0, 1, 1 and 2 for the bits 0, 1, 2 and 3.
        sides = builder.sitofp(builder.sub(bits, builder.lshr(bits, ones_of_words)), _FLOATS)
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


# The count of a class over all samples, and the two discounted counts.
Numbers = tuple[float, float, float]


def _add_class(
    factors: Factors, seen: Numbers, bits: int, out: Float32s, start: int, step: int
) -> None:
    """Add a class's terms to each posterior, at the indices `start`, `start + step`, ..."""
    count, late, latest = seen
    firsts, seconds = (min(count, 1.0), 0.0, late), (bits - (bits >> 1), 0.0, latest)
    for v in range(nodes.N_POSTERIORS):
        term = factors.by_weight[v] * count + factors.by_first[v] * firsts[v]
        out[start + step * v] = out[start + step * v] + term + factors.by_second[v] * seconds[v]


@lowered(_add_by_blocks)
def add_statistics(
    statistics: Statistics, n_classes: int, factors: Factors, out: Float32s, width: int
) -> None:
    """Add a node's terms to the sums in `out`, a row of `width` sums for each posterior."""
    for k in range(n_classes):
        words, step = statistics.numbers_of(k)
        for v in range(nodes.N_POSTERIORS):
            out[width * v + k] = out[width * v + k] + factors.constants[v]
        seen = words[0], words[step], words[2 * step]
        _add_class(factors, seen, statistics.sides_of(k, width), out, k, width)


# Addition with many classes. The loop is written in LLVM, because predictions of 300 classes took
# 1.4 times as long with numba's own loop.

# Vector types of a seen class, and of the posteriors.
_SEEN_WORDS, _SEEN = ir.VectorType(_WORD, nodes.SEEN_WORDS), ir.VectorType(_FLOAT, nodes.SEEN_WORDS)
_SUMS = ir.VectorType(_FLOAT, nodes.N_POSTERIORS)


def _pick(builder: Any, first: Any, second: Any, places: list[int]) -> Any:
    """Return the elements at the indices `places` of two concatenated vectors."""
    kind = ir.VectorType(_WORD, len(places))
    return builder.shuffle_vector(first, second, ir.Constant(kind, places))


def _add_vectors(
    context: Any, builder: Any, row: Any, first: Any, n: Any, factors: Any, out: Any
) -> None:
    words, sums = pointer_to(builder, row, _WORD), pointer_to(builder, out, _FLOAT)
    numbers = pointer_to(builder, factors, _FLOAT)
    by_weight, by_first, by_second = (
        _load(builder, numbers, _INDEX(nodes.N_POSTERIORS * i), _SUMS) for i in range(3)
    )
    ones = ir.Constant(_SEEN, [1.0] * nodes.SEEN_WORDS)
    with cgutils.for_range(builder, n) as loop:
        start = builder.add(first, builder.mul(loop.index, _INDEX(nodes.SEEN_WORDS)))
        seen = _load(builder, words, start, _SEEN_WORDS)
        values = builder.bitcast(seen, _SEEN)
        weight = _pick(builder, values, values, [1] * nodes.N_POSTERIORS)
        tables = builder.select(builder.fcmp_ordered("<", values, ones), values, ones)
        key = builder.extract_element(seen, _WORD(0))
        bits = builder.and_(key, _WORD(3))
        # The number of sides is bits - (bits >> 1): 0, 1, 1 and 2 for the bits 0, 1, 2 and 3.
        sides = builder.sitofp(builder.sub(bits, builder.lshr(bits, _WORD(1))), _FLOAT)
        # `firsts` and `seconds` have an element for each posterior: tables and sides for the HNSP,
        # any number for the first weighting, whose factors are 0, and two discounted counts for the
        # second weighting.
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
    """Add the terms of a row's `n` classes, whose records begin at the word `first`.

    A free record adds 0 to one of the N_FRONT rows that precede the classes' rows. Each free record
    has a separate row, since successive additions to the same row would wait for each other.
    """
    for i in range(n):
        seen = seen_at(row, first, i)
        start = nodes.N_POSTERIORS * (i if seen.key == 0 else nodes.N_FRONT + seen.label())
        numbers = seen.count, seen.weights[nodes.LATE], seen.weights[nodes.LATEST]
        _add_class(factors, numbers, seen.key & 3, out, start, 1)


@link_by_name
def add_seen(forest: A, tree: AdaptiveTree, factors: Array[Factors], n: int, out: Float32s) -> int:
    """Add the terms of seen classes of `n` nodes to a tree's posteriors.

    `out` has a row of N_POSTERIORS sums for each class, after N_FRONT other rows. The first other
    row has the terms that all classes share.
    """
    queue = forest.seen.rows
    for start in range(0, n, nodes.N_TOGETHER):
        # Rows of several nodes are queued together, so that enough rows can be prefetched before
        # they are read.
        n_own = min(n - start, nodes.N_TOGETHER)
        for i in range(n_own):
            queue[i].row = factors[start + i].statistics
            queue[i].owner = start + i
        at, end = 0, n_own
        while at < end:
            owner, row = queue[at].owner, tree.side_rows.cast(queue[at].row)
            end = follow(forest, tree, row, owner, end)
            if at < n_own:
                _add_row(row, nodes.HEAD_WORDS, nodes.N_FIRST, factors[owner], out)
            else:
                _add_row(row, nodes.MORE_WORD, nodes.N_MORE, factors[owner], out)
            at += 1
    return 0


# Switching rate of the fixed share between a node's three counts.
SHARE_RATE = 0.02
# Probabilities of stopping are clipped to at least this number, and at most 1 minus this number.
LEAST_STOP = 1e-4


@always_inline
def _learn_stop(statistics: Statistics, v: int, stopped: float, below: float) -> float:
    """Update a weighting's probability of stopping with predictions of a node and its child.

    `stopped` is the probability of stopping times the node's prediction. Returns the prediction of
    the node's subtree.
    """
    predicted = stopped + (1.0 - statistics.stops[v]) * below
    statistics.stops[v] = min(max(stopped / predicted, LEAST_STOP), 1.0 - LEAST_STOP)
    return predicted


@always_inline
def _share(shares: Float32s, first: float, second: float, third: float) -> float:
    """Update shares by the fixed-share rule, and return the mixed likelihood.

    The rule is described by Herbster and Warmuth (1998). `first`, `second` and `third` are products
    of shares and likelihoods.
    """
    total = first + second + third
    factor = (1.0 - SHARE_RATE) / total
    shares[0] = factor * first + SHARE_RATE / nodes.N_MEMORIES
    shares[1] = factor * second + SHARE_RATE / nodes.N_MEMORIES
    shares[2] = factor * third + SHARE_RATE / nodes.N_MEMORIES
    return total


@always_inline
def _end_estimate(forest: A, ref: int, p: int, label: int, v: int) -> float:
    """Return the estimate of a class at the end of a path, if the end has no statistics.

    The estimate uses the point at the end of the path, unless this point is `p`.
    """
    is_point = ref < 0 and ~ref != p
    size = forest.weight_of(~ref) if is_point else 0.0
    same = size if is_point and forest.label_of(~ref) == label else 0.0
    return (same + nodes.PRIORS[v]) / (size + nodes.PRIORS[v] * forest.n_classes)


@link_by_name
def update_weights(
    forest: A, tree: AdaptiveTree, path: Entries, n: int, label: int, weight: float, p: int
) -> None:
    """Update `stops` and `shares` on a sample's path with the sample's class, from the leaf up.

    `p` is the sample's point if the tree already contains the point, otherwise NONE. At a leaf that
    consists of this point, only the prior is used.
    """
    if forest.is_sparse == 1:
        # Prefetch the linked rows in which the class may be.
        for i in range(n):
            link = path[i].statistics.links()[label & 1] if path[i].statistics else 0
            if link != 0:
                prefetch(tree.side_rows.row(link - 1), nodes.LINKS_WORD + nodes.N_LINKS)
    # `is_weighted` is tested, too. In a model from a damaged file, weights may occur while
    # `is_weighted` is 0 and the kernel is missing.
    if weight != 1.0 and forest.is_weighted == 1:
        forest.update_by_logs(forest, tree, path, n, label, weight, p)
        return
    n_classes = forest.n_classes
    of_noisy, of_mixed = nodes.PRIORS[nodes.NOISY], nodes.PRIORS[nodes.MIXED]
    # Prediction of the child's subtree in each weighting.
    noisy, mixed = 0.0, 0.0
    for i in range(n - 1, -1, -1):
        entry = path[i]
        statistics = entry.statistics
        if not statistics:
            noisy = _end_estimate(forest, entry.ref, p, label, nodes.NOISY)
            mixed = _end_estimate(forest, entry.ref, p, label, nodes.MIXED)
            continue
        stops, shares = statistics.stops, statistics.shares
        numbers = numbers_of(forest, tree, statistics, label)
        first = statistics.estimate(numbers, of_mixed, n_classes, shares[0])
        second = statistics.late_estimate(numbers, nodes.LATE, of_mixed, n_classes, shares[1])
        third = statistics.late_estimate(numbers, nodes.LATEST, of_mixed, n_classes, shares[2])
        together = _share(shares, first, second, third)
        if i == n - 1:
            noisy = statistics.estimate(numbers, of_noisy, n_classes, 1.0)
            mixed = together
            continue
        stopped = statistics.estimate(numbers, of_noisy, n_classes, stops[nodes.NOISY])
        noisy = _learn_stop(statistics, nodes.NOISY, stopped, noisy)
        mixed = _learn_stop(statistics, nodes.MIXED, stops[nodes.MIXED] * together, mixed)


# Samples with weights other than 1.


@always_inline
def _learn_stop_by_logs(statistics: Statistics, v: int, here: float, below: float) -> float:
    """Update a probability of stopping with log likelihoods of a node and its child.

    Returns the logarithm of the likelihood of the node's subtree.
    """
    stop = statistics.stops[v]
    # Both likelihoods may underflow, so they are divided by the larger likelihood.
    largest = max(here, below)
    stopped = stop * math.exp(here - largest)
    total = stopped + (1.0 - stop) * math.exp(below - largest)
    statistics.stops[v] = min(max(stopped / total, LEAST_STOP), 1.0 - LEAST_STOP)
    return largest + math.log(total)


@link_by_name
def update_by_logs(
    forest: A, tree: AdaptiveTree, path: Entries, n: int, label: int, weight: float, p: int
) -> int:
    """Update `stops` and `shares` as `update_weights` does, for any weight of the sample."""
    n_classes = forest.n_classes
    of_noisy, of_mixed = nodes.PRIORS[nodes.NOISY], nodes.PRIORS[nodes.MIXED]
    # Logarithms of the child's q (see the docstring of the module) in both weightings.
    noisy, mixed = 0.0, 0.0
    for i in range(n - 1, -1, -1):
        entry = path[i]
        statistics = entry.statistics
        if statistics:
            numbers, shares = numbers_of(forest, tree, statistics, label), statistics.shares
            by_noisy = statistics.estimate(numbers, of_noisy, n_classes, 1.0)
            of_all = statistics.estimate(numbers, of_mixed, n_classes, 1.0)
            late = statistics.late_estimate(numbers, nodes.LATE, of_mixed, n_classes, 1.0)
            latest = statistics.late_estimate(numbers, nodes.LATEST, of_mixed, n_classes, 1.0)
            together = shares[0] * of_all + shares[1] * late + shares[2] * latest
            # The powers may underflow, so likelihoods are divided by the largest likelihood first.
            largest = max(of_all, late, latest)
            first = shares[0] * (of_all / largest) ** weight
            second = shares[1] * (late / largest) ** weight
            _share(shares, first, second, shares[2] * (latest / largest) ** weight)
        else:
            by_noisy = _end_estimate(forest, entry.ref, p, label, nodes.NOISY)
            together = _end_estimate(forest, entry.ref, p, label, nodes.MIXED)
        by_noisy, by_mixed = weight * math.log(by_noisy), weight * math.log(together)
        if i == n - 1 or not statistics:
            noisy, mixed = by_noisy, by_mixed
            continue
        noisy = _learn_stop_by_logs(statistics, nodes.NOISY, by_noisy, noisy)
        mixed = _learn_stop_by_logs(statistics, nodes.MIXED, by_mixed, mixed)
    return 0
