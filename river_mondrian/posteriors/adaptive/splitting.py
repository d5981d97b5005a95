"""Splitting the leaves of adaptive trees: which wait, their cuts, statistics of their children.

Labels choose a cut: of several from the Mondrian law the one with the largest gain. The law of a
cut in a block is that of Algorithm 2, lines 5 and 6: a dimension by the sides of the box, uniform
within the side. Of `n_candidates` of these the one is kept that lowers the Gini impurity most. With
one candidate the tree has the law of any other Mondrian tree. Sides may be weighted by how much
cuts in their dimension have gained before.
"""

from __future__ import annotations

from ...compiling.kernels import inlined, merged, separate
from ...partitions.mondrian.records import NONE, PAUSED
from ...partitions.mondrian.sampling import part_leaf
from ...records import Array, Int32s
from ..rebuilt.records import Candidate
from ..rebuilt.splitting import GAIN_SAMPLE, draw_candidates, push, sum_sides, time_of_cut
from .records import AdaptiveForest, AdaptiveNode, AdaptiveTree, ClassSides
from .seen import NO_SIDE, add_sample, add_side, list_seen, new_row, numbers_of
from .statistics import Statistics

# Sides of a candidate in `ClassSides`: LEFT, RIGHT, and this for a missing value.
MISSING = 2


@merged
def gain_of(table: Array[ClassSides], n_classes: int) -> float:
    """Return the Gini gain of a cut, times the points' weight, from the classes at its sides.

    The Gini impurity times the weight n of the points is n - sum_k n_k^2 / n, and n is that of both
    sides: what is gained is the sum of squares over n, at either side, less that of the block.
    """
    n_left, n_right, squares_left, squares_right, squares = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(n_classes):
        weights = table[k].weights
        a, b = weights[0], weights[1]
        n_left += a
        n_right += b
        squares_left += a * a
        squares_right += b * b
        squares += (a + b) * (a + b)
    if n_left == 0.0 or n_right == 0.0:
        return 0.0
    return squares_left / n_left + squares_right / n_right - squares / (n_left + n_right)


@merged
def _side(v: float, cut: float) -> int:
    """Return the side of a cut that a value is on, without a branch: no one could foresee it."""
    return int(v > cut) + MISSING * int(v != v)


@merged
def _weigh_sides(
    forest: AdaptiveForest, tree: AdaptiveTree, t: int, node: AdaptiveNode, m: int, width: int
) -> int:
    """Add up how candidates part a sample of a block's points; returns its number of classes.

    Each candidate has a table of `width` classes. They are numbered anew, from 1 on: most blocks
    have few.
    """
    candidates, tables = forest.candidates, forest.class_sides
    numbers, present = forest.class_numbers, forest.block_classes
    words = Int32s(tables[0], 0, 4 * m * width)
    for w in range(4 * m * width):
        words[w] = 0
    n_present = 0
    step = max(1, node.n_samples // GAIN_SAMPLE)
    p = node.first_point
    i = 0
    while p != NONE:
        if i % step == 0:
            x = forest.values_of(tree, p)
            label, weight = forest.label_of(p), forest.weight_of(p)
            if numbers[label] == 0:
                present[n_present] = label
                n_present += 1
                numbers[label] = n_present
            k = numbers[label] - 1
            for c in range(m):
                candidate = candidates[c]
                weights = tables[width * c + k].weights
                side = _side(x[candidate.dim], candidate.cut)
                weights[side] = weights[side] + weight
        i += 1
        p = forest.links_of(p)[t]
    for k in range(n_present):
        numbers[present[k]] = 0
    return n_present


@separate
def draw_guided(forest: AdaptiveForest, t: int, j: int) -> Candidate:
    """Draw candidates of a block's first cut; returns the one with the largest Gini gain.

    The gain is added to those of its dimension.
    """
    tree = forest.trees[t]
    node = tree.nodes.row(j)
    n_dims, n_points = forest.n_dims, node.n_samples
    # Few points can be parted in few ways; two in one.
    m = min(forest.n_candidates, 3 * n_points - 5)
    lower, upper, sums = node.lower(forest, tree), node.upper(forest, tree), forest.side_sums
    candidates = forest.candidates
    sum_sides(lower, upper, n_dims, forest.dim_weights, sums)
    draw_candidates(tree, lower, upper, sums, n_dims, candidates, m)
    width = min(forest.n_classes, n_points)
    n_present = _weigh_sides(forest, tree, t, node, m, width)
    best, most = candidates[0], -1.0
    for c in range(m):
        gain = gain_of(forest.class_sides.part(width * c, width), n_present)
        if gain > most:
            best, most = candidates[c], gain
    gains = forest.gains.part(n_dims * t, n_dims)
    # All points count as much as those in the sample.
    step = max(1, n_points // GAIN_SAMPLE)
    gains[best.dim] = gains[best.dim] + max(most, 0.0) * step
    return best


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
