"""Splitting the leaves of adaptive trees: a queue of leaves, and statistics of their children."""

from __future__ import annotations

from ...compiling.kernels import inlined, merged, separate
from ...partitions.mondrian.boxes import linear_dimension
from ...partitions.mondrian.draws import exponential
from ...partitions.mondrian.records import COMPLETE, NONE, PAUSED
from ...partitions.mondrian.sampling import part_leaf
from ...records import Int32s
from .guided_cuts import draw_guided
from .records import LAST, LONG, RECENT, AdaptiveForest, AdaptiveNode, AdaptiveTree
from .statistics import Statistics

# Rows of either kind that a split may need.
SPLIT_ROWS = 4


@inlined
def new_statistics(forest: AdaptiveForest, tree: AdaptiveTree, node: AdaptiveNode) -> Statistics:
    """Give a node statistics that have seen nothing."""
    number = tree.side_rows.n_rows
    tree.side_rows.n_rows = number + 1
    node.statistics_row = number + 1
    found = tree.side_rows.row(number)
    found.clear(forest.statistics_words)
    return found


@merged
def sort_descending(numbers: Int32s, n: int) -> None:
    """Sort in place (Shell's sort)."""
    gap = n
    while gap > 1:
        gap = max(gap * 4 // 9, 1)
        for i in range(gap, n):
            number = numbers[i]
            j = i
            while j >= gap and numbers[j - gap] < number:
                numbers[j] = numbers[j - gap]
                j -= gap
            numbers[j] = number


@separate
def make_statistics(forest: AdaptiveForest, t: int, j: int, last: int) -> None:
    """Make the statistics of a leaf's row from its points; `last` is the latest point of all."""
    tree = forest.trees[t]
    node = tree.nodes.row(j)
    window, n = forest.window_capacity, node.n_samples
    ages = forest.ages
    p = node.first_point
    for i in range(n):
        ages[i] = (last - p) % window
        p = forest.links_of(p)[t]
    sort_descending(ages, n)
    statistics = new_statistics(forest, tree, node)
    for i in range(n):
        p = (last - ages[i]) % window
        label, weight = forest.label_of(p), forest.weight_of(p)
        statistics.add_sample(label, weight, True, forest.n_classes)


# Leaves that wait.


@inlined
def push(tree: AdaptiveTree, j: int) -> None:
    """Put a leaf into the tree's queue."""
    first = tree.queue
    tree.nodes.row(j).next_waiting = LAST if first == NONE else first
    tree.queue = j


@inlined
def pop(tree: AdaptiveTree) -> int:
    """Take the first leaf out of the tree's queue, which is not empty."""
    j = tree.queue
    node = tree.nodes.row(j)
    following = node.next_waiting
    tree.queue = NONE if following == LAST else following
    node.next_waiting = NONE
    return j


@inlined
def enqueue(tree: AdaptiveTree, j: int) -> None:
    """Let a leaf wait for its split where it has seen several classes."""
    node = tree.nodes.row(j)
    if node.dim != PAUSED or node.next_waiting != NONE:
        return
    if node.statistics(tree).n_seen > 1:
        push(tree, j)


@separate
def enqueue_mixed(forest: AdaptiveForest, t: int, ref: int) -> None:
    """Let a leaf whose points are of several classes wait for its split."""
    if ref < 0:
        return
    tree = forest.trees[t]
    p = tree.nodes.row(ref).first_point
    label = forest.label_of(p)
    while p != NONE:
        if forest.label_of(p) != label:
            push(tree, ref)
            return
        p = forest.links_of(p)[t]


# Splitting.


@merged
def _split(forest: AdaptiveForest, tree: AdaptiveTree, t: int, j: int) -> bool:
    """Cut a leaf's block by a guided cut; False where it has no extent."""
    node = tree.nodes.row(j)
    rate = linear_dimension(node.lower(forest), node.upper(forest), forest.n_dims)
    if not rate > 0.0:
        node.dim = COMPLETE
        return False
    time = exponential(tree, rate)
    chosen = draw_guided(forest, t, j)
    kept = node.statistics_row
    part_leaf(forest, tree, t, j, chosen.dim, chosen.cut, time, 0.0)
    node.statistics_row = kept
    return True


@merged
def _has_seen(forest: AdaptiveForest, tree: AdaptiveTree, ref: int, label: int) -> bool:
    """Tell whether a class has passed what is at a reference with statistics, or a point."""
    if ref < 0:
        return forest.label_of(~ref) == label
    statistics = tree.nodes.row(ref).statistics(tree)
    return bool(statistics) and statistics.count(label) > 0.0


@merged
def _note_sides(forest: AdaptiveForest, tree: AdaptiveTree, node: AdaptiveNode) -> None:
    """Note which classes are on the sides of a cut that is new."""
    statistics = node.statistics(tree)
    for side in range(2):
        for k in range(forest.n_classes):
            if _has_seen(forest, tree, node.child(side), k):
                statistics.add_side(k, side, forest.class_capacity)


@separate
def split_queued(forest: AdaptiveForest, t: int, budget: int, last: int) -> int:
    """Split leaves that wait in a tree; returns what is left of the budget.

    A split costs its number of points. Where the tree has been shown its points, the latest of
    which is `last`, the new rows get their statistics; else `last` is NONE.
    """
    tree = forest.trees[t]
    while budget > 0 and tree.queue != NONE:
        if tree.nodes.n_rows + SPLIT_ROWS > tree.nodes.capacity:
            return budget
        if tree.side_rows.n_rows + SPLIT_ROWS > tree.side_rows.capacity:
            return budget
        j = pop(tree)
        node = tree.nodes.row(j)
        budget -= node.n_samples
        if not _split(forest, tree, t, j):
            continue
        for side in range(2):
            child = node.child(side)
            if last == NONE:
                enqueue_mixed(forest, t, child)
            elif child >= 0:
                make_statistics(forest, t, child, last)
                enqueue(tree, child)
        if last != NONE:
            _note_sides(forest, tree, node)
    return budget


@merged
def split_all(forest: AdaptiveForest, budget: int, last: int) -> None:
    """Split leaves that wait in the trees that predict, each tree by a budget of its own."""
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        if tree.queue != NONE and tree.role in (LONG, RECENT):
            split_queued(forest, t, budget, last)
