"""Splitting the leaves of adaptive trees: which wait, and statistics of their children."""

from __future__ import annotations

from ...compiling.kernels import inlined, merged, separate
from ...partitions.mondrian.records import NONE, PAUSED
from ...partitions.mondrian.sampling import part_leaf
from ...records import Int32s
from ..rebuilt.splitting import push, time_of_cut
from .guided_cuts import draw_guided
from .records import AdaptiveForest, AdaptiveNode, AdaptiveTree
from .seen import NO_SIDE, add_sample, add_side, list_seen, new_row, numbers_of
from .statistics import Statistics


@inlined
def new_statistics(forest: AdaptiveForest, tree: AdaptiveTree, node: AdaptiveNode) -> Statistics:
    """Give a node statistics that have seen nothing."""
    number = new_row(forest, tree)
    node.statistics_row = number + 1
    found = tree.side_rows.row(number)
    found.begin()
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
        add_sample(forest, tree, statistics, label, weight, True, NO_SIDE)


# Leaves that wait.


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
def _note_sides(forest: AdaptiveForest, tree: AdaptiveTree, node: AdaptiveNode) -> None:
    """Note which classes are on the sides of a cut that is new."""
    statistics, labels = node.statistics(tree), forest.seen_labels
    for side in range(2):
        child = node.child(side)
        if child < 0:
            add_side(forest, tree, statistics, forest.label_of(~child), side)
            continue
        below = tree.nodes.row(child).statistics(tree)
        n = list_seen(forest, tree, below) if below else 0
        for i in range(n):
            if numbers_of(forest, tree, below, labels[i]).words[0] > 0.0:
                add_side(forest, tree, statistics, labels[i], side)


@separate
def split(forest: AdaptiveForest, t: int, j: int, last: int) -> None:
    """Cut a leaf's block by a guided cut, and let its children wait for theirs.

    Where the tree has been shown its points, the latest of which is `last`, the new rows get their
    statistics; else `last` is NONE.
    """
    tree = forest.trees[t]
    node = tree.nodes.row(j)
    time = time_of_cut(forest, tree, node)
    if time == 0.0:
        return
    chosen = draw_guided(forest, t, j)
    kept = node.statistics_row
    part_leaf(forest, tree, t, j, chosen.dim, chosen.cut, time, 0.0)
    node.statistics_row = kept
    for side in range(2):
        child = node.child(side)
        if last == NONE:
            enqueue_mixed(forest, t, child)
        elif child >= 0:
            make_statistics(forest, t, child, last)
            enqueue(tree, child)
    if last != NONE:
        _note_sides(forest, tree, node)
