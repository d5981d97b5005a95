"""Statistics of many classes: a node stores only its seen classes, in linked rows.

A node has *seen* a class if a sample of the class has passed the node. If there are many classes,
most nodes have seen few classes. So a node stores only its seen classes (`SeenClass`). The node's
row of statistics has the first `N_FIRST` classes. Each further row has `N_MORE` classes, from the
word `MORE_WORD` on. The rows of a node form a binary tree, in which every row links to at most two
other rows. In the i-th row of the search for a class, bit i of the class's number selects the link.
When a node first sees a class, the search stores the class in the first row with room. So a search
takes at most as many steps as the largest class number has bits. Rows are freed only together with
the tree.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...compiling.kernels import always_inline, kernel, link_by_name
from ...records import Float32s, Int32s, Int64s, Ints, Singles, prefetch
from . import nodes
from .nodes import A, AdaptiveForest, AdaptiveTree, ClassNumbers, SeenClass, Statistics

# Value of `side` for a sample whose path ends at the node.
NO_SIDE = -1


@always_inline
def new_row(forest: A, tree: AdaptiveTree) -> int:
    """Add a row of zeros, and return its number."""
    number = tree.side_rows.n_rows
    tree.side_rows.n_rows = number + 1
    words = Int32s(tree.side_rows.row(number), 0, forest.statistics_words)
    for w in range(forest.statistics_words):
        words[w] = 0
    return number


@always_inline
def seen_at(row: Statistics, first: int, i: int) -> SeenClass:
    """Return the i-th class of a row whose classes begin at the word `first`."""
    return SeenClass(row, first + nodes.SEEN_WORDS * i)


@link_by_name
def find(
    forest: A, tree: AdaptiveTree, statistics: Statistics, label: int, adds: bool
) -> SeenClass:
    """Return the record of a class at a node of a forest with many classes.

    For an unseen class, return an empty record, or a new record if `adds` is True.
    """
    row, first, n, bits = statistics, nodes.HEAD_WORDS, nodes.N_FIRST, label
    while True:
        for i in range(n):
            seen = seen_at(row, first, i)
            if seen.label() == label:
                return seen
            if seen.key == 0:
                if not adds:
                    return forest.seen.nothing[0]
                seen.key = (label + 1) << nodes.SIDE_BITS
                return seen
        links = row.links()
        link = links[bits & 1]
        if link == 0:
            if not adds:
                return forest.seen.nothing[0]
            link = new_row(forest, tree) + 1
            links[bits & 1] = link
        row, first, n, bits = tree.side_rows.row(link - 1), nodes.MORE_WORD, nodes.N_MORE, bits >> 1


@always_inline
def numbers_of(forest: A, tree: AdaptiveTree, statistics: Statistics, label: int) -> ClassNumbers:
    """Return the three counts of a class at a node."""
    if forest.is_sparse == 1:
        return forest.find(forest, tree, statistics, label, False).numbers()
    return statistics.numbers_of(label)


@always_inline
def follow(forest: A, tree: AdaptiveTree, row: Statistics, owner: int, n: int) -> int:
    """Append the rows linked by `row` to the `n` queued rows, and return the new `n`.

    `owner` is the index of the rows' node (see `FoundRow`).
    """
    links = row.links()
    for bit in range(nodes.N_LINKS):
        if links[bit] != 0:
            following = tree.side_rows.row(links[bit] - 1)
            # The queued rows are read before this row, so there is time to prefetch this row.
            prefetch(following, nodes.LINKS_WORD + nodes.N_LINKS)
            forest.seen.rows[n].row = following
            forest.seen.rows[n].owner = owner
            n += 1
    return n


@link_by_name
def list_seen(forest: A, tree: AdaptiveTree, statistics: Statistics) -> int:
    """Write a node's seen classes to `seen.labels`, and return the number of written classes.

    In a forest with few classes, all classes are written, including unseen classes.
    """
    if forest.is_sparse == 1:
        return forest.list_many(forest, tree, statistics)
    for k in range(forest.n_classes):
        forest.seen.labels[k] = k
    return forest.n_classes


@link_by_name
def list_many(forest: A, tree: AdaptiveTree, statistics: Statistics) -> int:
    """Write and count a node's seen classes as `list_seen` does, in a forest with many classes."""
    labels = forest.seen.labels
    row, first, n = statistics, nodes.HEAD_WORDS, nodes.N_FIRST
    total, at, end = 0, 0, 0
    while True:
        end = follow(forest, tree, row, 0, end)
        for i in range(n):
            seen = seen_at(row, first, i)
            if seen.key == 0:
                break
            labels[total] = seen.label()
            total += 1
        if at == end:
            return total
        row, first, n = (
            tree.side_rows.cast(forest.seen.rows[at].row),
            nodes.MORE_WORD,
            nodes.N_MORE,
        )
        at += 1


@always_inline
def _note_side(statistics: Statistics, seen: SeenClass, side: int) -> None:
    """Record that samples of a seen class are on a side of a node's cut."""
    if seen.key & (1 << side) == 0:
        seen.key = seen.key | (1 << side)
        statistics.n_sides = statistics.n_sides + 1


@always_inline
def add_side(forest: A, tree: AdaptiveTree, statistics: Statistics, label: int, side: int) -> None:
    """Record that samples of a class are on a side of a node's cut."""
    if forest.is_sparse == 0:
        statistics.add_side(label, side, forest.class_capacity)
    else:
        _note_side(statistics, forest.find(forest, tree, statistics, label, True), side)


@link_by_name
def _rescale(forest: A, tree: AdaptiveTree, statistics: Statistics, m: int, unit: float) -> None:
    """Divide the discounted count `m` of all classes by `unit`. The caller resets the unit to 1."""
    n, labels = list_seen(forest, tree, statistics), forest.seen.labels
    for i in range(n):
        numbers = numbers_of(forest, tree, statistics, labels[i])
        place = (1 + m) * numbers.step
        seen = numbers.words[place] / unit
        numbers.words[place] = seen if seen > nodes.UNNOTICED else 0.0
    statistics.totals[m] = statistics.totals[m] / unit


@always_inline
def add_sample(
    forest: A,
    tree: AdaptiveTree,
    statistics: Statistics,
    label: int,
    weight: float,
    forgets: bool,
    side: int,
) -> None:
    """Add a sample's weight to the counts of the sample's class at a node.

    `side` is the sample's side of the node's cut, or NO_SIDE at a leaf.
    """
    if forest.is_sparse == 1:
        seen = forest.find(forest, tree, statistics, label, True)
        if side != NO_SIDE:
            _note_side(statistics, seen, side)
        numbers = seen.numbers()
    else:
        if side != NO_SIDE:
            statistics.add_side(label, side, forest.class_capacity)
        numbers = statistics.numbers_of(label)
    words = numbers.words
    count = words[0]
    if count == 0.0:
        statistics.n_seen = statistics.n_seen + 1
    words[0] = count + weight
    statistics.weight = statistics.weight + weight
    for m in range(nodes.N_FORGETTING):
        unit = statistics.units[m]
        if forgets:
            unit *= nodes.GROWTHS[m]
        if unit * max(weight, 1.0) > nodes.LARGEST_UNIT:
            _rescale(forest, tree, statistics, m, unit)
            unit = 1.0
        statistics.units[m] = unit
        place = (1 + m) * numbers.step
        words[place] = words[place] + unit * weight
        statistics.totals[m] = statistics.totals[m] + unit * weight


@link_by_name
def copy_statistics(
    forest: A, tree: AdaptiveTree, target: Statistics, below: Statistics, side: int
) -> None:
    """Copy the statistics `below` of a node to the statistics `target` of the node's new parent.

    The node is on side `side` of the parent. The probabilities of stopping are not copied.
    """
    n_words, is_sparse = nodes.HEAD_WORDS, forest.is_sparse == 1
    if not is_sparse:
        n_words += forest.class_capacity // nodes.BLOCK * nodes.BLOCK_WORDS
    words, known = Int32s(target, 0, n_words), Int32s(below, 0, n_words)
    for w in range(nodes.STOP_WORDS, n_words):
        words[w] = known[w]
    target.n_sides = 0
    n, labels = list_seen(forest, tree, below), forest.seen.labels
    for i in range(n):
        numbers = numbers_of(forest, tree, below, labels[i])
        # Classes with count 0 are skipped, because they have only sides, which are not copied.
        if numbers.words[0] > 0.0:
            if is_sparse:
                copied = forest.find(forest, tree, target, labels[i], True).numbers()
                for m in range(1 + nodes.N_FORGETTING):
                    copied.words[m * copied.step] = numbers.words[m * numbers.step]
            add_side(forest, tree, target, labels[i], side)


@kernel
def put_seen(forest: AdaptiveForest, t: int, keys: Int64s, numbers: Float32s, n: int) -> None:
    """Write `n` seen classes to rows of nodes.

    `keys` has the row, the number and the sides of each class, and `numbers` has the counts of
    each class.
    """
    tree = forest.trees[t]
    for i in range(n):
        seen = find(forest, tree, tree.side_rows.row(keys[3 * i]), keys[3 * i + 1], True)
        seen.key = seen.key | keys[3 * i + 2]
        words = seen.numbers().words
        for m in range(1 + nodes.N_FORGETTING):
            words[m] = numbers[(1 + nodes.N_FORGETTING) * i + m]


Rows = NDArray[np.int32]


def _blocks_in(rows: Rows, n_classes: int) -> Singles:
    """Return the counts in rows of all classes, shape (..., 1 + N_FORGETTING, n_classes)."""
    n_blocks = -(-n_classes // nodes.BLOCK)
    end = nodes.HEAD_WORDS + n_blocks * nodes.BLOCK_WORDS
    blocks = np.ascontiguousarray(rows[..., nodes.HEAD_WORDS : end]).view(np.float32)
    # All sizes are explicit, because NumPy cannot infer a size if there are no rows.
    shape = (*rows.shape[:-1], n_blocks, 1 + nodes.N_FORGETTING, nodes.BLOCK)
    counts = np.moveaxis(blocks.reshape(shape), -3, -2)
    return counts.reshape(*counts.shape[:-2], n_blocks * nodes.BLOCK)[..., :n_classes]


def _rows_of_nodes(rows: Rows) -> tuple[Ints, Rows]:
    """Return the numbers of the nodes' own rows, and the links of all rows."""
    linked = rows[:, nodes.LINKS_WORD : nodes.LINKS_WORD + nodes.N_LINKS]
    is_own = np.ones(len(rows), dtype=np.bool_)
    is_own[linked[linked > 0] - 1] = False
    return np.flatnonzero(is_own), linked


def _levels(rows: Rows) -> Iterator[tuple[Ints, Rows]]:
    """Yield the nodes and classes of rows, first for the nodes' own rows, then for linked rows."""
    first_rows, linked = _rows_of_nodes(rows)
    at: NDArray[Any] = first_rows
    owners, first, n = first_rows, nodes.HEAD_WORDS, nodes.N_FIRST
    while len(at):
        end = first + n * nodes.SEEN_WORDS
        yield owners, rows[at, first:end].reshape(len(at), n, nodes.SEEN_WORDS)
        following = linked[at]
        i, bit = np.nonzero(following)
        at, owners, first, n = following[i, bit] - 1, owners[i], nodes.MORE_WORD, nodes.N_MORE


def counts_in(rows: Rows, n_classes: int, is_sparse: bool) -> Singles:
    """Return the first count of each class in an array of a tree's rows, shape (rows, n_classes).

    With many classes, a node's own row has all counts of the node, and linked rows have zeros.
    """
    if not is_sparse:
        return _blocks_in(rows, n_classes)[..., 0, :]
    counts = np.zeros((len(rows), n_classes), dtype=np.float32)
    for owners, part in _levels(rows):
        i, j = np.nonzero(part[..., 0])
        labels = (part[i, j, 0] >> nodes.SIDE_BITS) - 1
        counts[owners[i], labels] = np.ascontiguousarray(part[i, j, 1]).view(np.float32)
    return counts


def is_sound(rows: Rows, of_nodes: Ints, n_classes: int) -> bool:
    """Return whether a tree's rows have valid links and classes, in a forest with many classes.

    `of_nodes` has the numbers of the nodes' own rows.
    """
    linked = rows[:, nodes.LINKS_WORD : nodes.LINKS_WORD + nodes.N_LINKS]
    place, bit = np.nonzero(linked)
    links = linked[place, bit] - 1
    # Links lead to later rows, and at most one link leads to each row.
    if (links <= place).any() or (links >= len(rows)).any() or len({*links}) < len(links):
        return False
    if not np.isin(of_nodes, _rows_of_nodes(rows)[0]).all():
        return False
    n_seen, n_rows = np.zeros((2, len(rows)), dtype=np.int64)
    for owners, part in _levels(rows):
        keys = part[..., 0]
        if (keys < 0).any() or (keys >= (n_classes + 1) << nodes.SIDE_BITS).any():
            return False
        np.add.at(n_rows, owners, 1)
        np.add.at(n_seen, owners, (keys > 0).sum(axis=1))
    return bool((n_rows <= nodes.most_rows(n_classes)).all() and (n_seen <= n_classes).all())


def seen_in(rows: Rows, n_classes: int, capacity: int) -> tuple[Int64s, Float32s, int]:
    """Return the seen classes in an array of rows of all classes, as arguments of `put_seen`.

    The results are the row, the number and the sides of each class, the counts of each class, and
    the number of classes. `capacity` is the rows' capacity for classes.
    """
    numbers = _blocks_in(rows, n_classes)
    words = rows[:, nodes.HEAD_WORDS + capacity // nodes.BLOCK * nodes.BLOCK_WORDS :]
    labels = np.arange(n_classes)
    shifts = labels % nodes.CLASSES_OF_WORD * nodes.SIDE_BITS
    bits = words[:, labels // nodes.CLASSES_OF_WORD] >> shifts & 3
    at, seen = np.nonzero((numbers[:, 0] > 0.0) | (bits > 0))
    weights = np.ascontiguousarray(numbers[at, :, seen])
    keys = np.stack([at, seen, bits[at, seen]], axis=1, dtype=np.int64)
    return Int64s.of(keys.reshape(-1)), Float32s.of(weights.reshape(-1)), len(at)
