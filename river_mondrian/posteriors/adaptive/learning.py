"""Learning the class of a sample: drifts, the mixture, and the statistics of the trees.

The path of a call: `learn`, `rebuilt.building.accept` and `learn_sample`, which calls the
methods of `ClassForest`.

Statistics of a node are those of replaying its samples in order. A node that is inserted above
another takes over the other's.
"""

from __future__ import annotations

from ...compiling.kernels import inlined, kernel, merged, separate
from ...learners import discriminants, experts
from ...learners.drift import NOBODY, watch
from ...limits import LEAST_WEIGHT, TOO_LARGE
from ...partitions.mondrian.records import LEFT, NONE, PAUSED, RIGHT, START
from ...partitions.mondrian.sampling import part_leaf
from ...records import Array, Float64s, Int32s
from ..labels.hnsp import most_probable
from ..rebuilt.building import GAIN_SAMPLE, accept, draw_candidates, push, sum_sides, time_of_cut
from ..rebuilt.forest import REPLAYING, Candidate, path_to
from .prediction import ensure_predicted
from .seen import NO_SIDE, add_sample, add_side, copy_statistics, list_seen, new_row, numbers_of
from .statistics import (
    AdaptiveForest,
    AdaptiveNode,
    AdaptiveTree,
    ClassSides,
    Statistics,
    StatisticsEntry,
)
from .weighting import update_weights

# Splitting the leaves of adaptive trees: which wait, their cuts, statistics of their children.
#
# Labels choose a cut: of several from the Mondrian law the one with the largest gain. The law of
# a cut in a block is that of Algorithm 2, lines 5 and 6: a dimension by the sides of the box,
# uniform within the side. Of `n_candidates` of these the one is kept that lowers the Gini
# impurity most. With one candidate the tree has the law of any other Mondrian tree. Sides may be
# weighted by how much cuts in their dimension have gained before.


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


@separate
def ensure_statistics(forest: AdaptiveForest, t: int, ref: int, p: int, backlog: int) -> None:
    """Give a row that is new on the path of point `p` the statistics of the samples before.

    The latest `backlog` samples before `p` have not been shown to the tree.
    """
    tree = forest.trees[t]
    node = tree.nodes.row(ref)
    if node.statistics_row != 0:
        return
    side = RIGHT
    if node.dim < 0:
        # A leaf's row of two points.
        q = node.first_point
        other = ~(forest.links_of(p)[t] if q == p else q)
    else:
        side = LEFT if node.right == ~p else RIGHT
        other = node.child(side)
    if other < 0:
        if (p - ~other) % forest.window_capacity > backlog:
            label, weight = forest.label_of(~other), forest.weight_of(~other)
            statistics = new_statistics(forest, tree, node)
            side = side if node.dim >= 0 else NO_SIDE
            add_sample(forest, tree, statistics, label, weight, True, side)
        return
    below = tree.nodes.row(other).statistics(tree)
    if below:
        statistics = new_statistics(forest, tree, node)
        copy_statistics(forest, tree, statistics, below, side)


@separate
def catch_up(forest: AdaptiveForest, t: int, p: int, backlog: int) -> None:
    """Give the rows that a tree has got by point `p` their statistics, while it is being shown.

    The point itself will be shown in its turn.
    """
    tree = forest.trees[t]
    path = forest.path_of(t)
    for i in range(path_to(forest, tree, forest.values_of(tree, p), path)):
        ref = path[i].ref
        if ref >= 0:
            node = tree.nodes.row(ref)
            if node.dim < 0 or node.left == ~p or node.right == ~p:
                ensure_statistics(forest, t, ref, p, backlog)


@separate
def update_path(
    forest: AdaptiveForest, t: int, p: int, path: Array[StatisticsEntry], n: int, grown: bool
) -> None:
    """Add a point that is in the tree to the statistics on its path.

    `grown` tells that the tree has just been extended by it, so that rows may be new; else points
    come in order, and a row's statistics are new when its first point comes.
    """
    tree = forest.trees[t]
    label, weight = forest.label_of(p), forest.weight_of(p)
    for i in range(n):
        entry = path[i]
        ref, statistics = entry.ref, entry.statistics
        if ref < 0:
            return
        node = tree.nodes.known(entry.place)
        if not statistics:
            if grown:
                ensure_statistics(forest, t, ref, p, 0)
            if node.statistics_row == 0:
                new_statistics(forest, tree, node)
            statistics = node.statistics(tree)
        side = NO_SIDE
        if i + 1 < n:
            side = LEFT if node.left == path[i + 1].ref else RIGHT
        forgets = i > 0 or forest.root_forgets == 1
        add_sample(forest, tree, statistics, label, weight, forgets, side)
        if node.dim < 0:
            enqueue(tree, ref)


# Learning a sample.


@inlined
def score(forest: AdaptiveForest) -> None:
    """Let the mixture learn the class of the accepted sample, which was predicted last.

    Of a class that is new the discriminants learn only: nothing can have foreseen it.
    """
    label, weight = forest.accepted, forest.accepted_weight
    if forest.accepted_is_new == 0:
        experts.learn(forest.experts, label, weight)
    discriminants.learn(forest.discriminants, forest.inputs, label, weight)


@separate
def replay(forest: AdaptiveForest, t: int, start: int, stop: int) -> int:
    """Show a tree the samples `start` to `stop` in order; returns where it stopped.

    It stops where a tree has no room for the statistics of a path.
    """
    tree, path = forest.trees[t], forest.path_of(t)
    for i in range(start, stop):
        p = i % forest.window_capacity
        n = path_to(forest, tree, forest.values_of(tree, p), path)
        if tree.side_rows.n_rows + n > tree.side_rows.capacity:
            return i
        label, weight = forest.label_of(p), forest.weight_of(p)
        update_weights(forest, tree, path, n, label, weight, p)
        update_path(forest, t, p, path, n, False)
    return stop


# What a call may spend, in points, on the splits of one tree.
SPLIT_BUDGET = 400


class ClassForest(AdaptiveForest):
    """An adaptive forest, as the kernels that build trees anew see it."""

    def predict_inputs(self, inputs: Float64s) -> int:
        """Predict a sample where that has not been done; returns DONE or what is too large."""
        return ensure_predicted(self, inputs)

    def score(self) -> None:
        """Let the mixture learn the class of the accepted sample."""
        score(self)

    def begin_walk(self, t: int, p: int) -> None:
        """Let the weights on the sample's path learn its class, ahead of the extension."""
        tree = self.trees[t]
        tree.walk_ref = START
        if tree.path_length > 0:
            label, weight = self.accepted, self.accepted_weight
            update_weights(self, tree, self.path_of(t), tree.path_length, label, weight, NONE)

    def update_tree(self, t: int, p: int, n: int) -> None:
        """Add a point by which a tree has been extended to the statistics on its path."""
        update_path(self, t, p, self.path_of(t), n, True)

    def catch_up(self, t: int, p: int, backlog: int) -> None:
        """Give rows that a tree that is shown its points has got by a point their statistics."""
        if self.trees[t].role == REPLAYING:
            catch_up(self, t, p, backlog)

    def split_budget(self) -> int:
        """Return what a call may spend on the splits of one tree, in points."""
        return SPLIT_BUDGET

    def enqueue_built(self, t: int, ref: int) -> None:
        """Let a leaf whose points are of several classes wait for its split."""
        enqueue_mixed(self, t, ref)

    def split(self, t: int, j: int, last: int) -> None:
        """Split a leaf by a guided cut."""
        split(self, t, j, last)

    def replays(self) -> bool:
        """Tell that a tree that has been split is shown its points in order."""
        return True

    def replay(self, t: int, start: int, stop: int) -> int:
        """Show a tree the samples `start` to `stop` in order; returns where it stopped."""
        return replay(self, t, start, stop)


@inlined
def _error(forest: ClassForest, label: int, is_new: bool) -> float:
    """Return the error of the last prediction: 1 where another class was more probable, else 0."""
    is_wrong = is_new or most_probable(forest.experts.mixed, forest.n_classes) != label
    return 1.0 if is_wrong else 0.0


@kernel
def error_of(forest: ClassForest, label: int, is_new: bool) -> float:
    """Return the error of the sample in the forest's `inputs`, or `TOO_LARGE - i`."""
    bad = ensure_predicted(forest, forest.inputs)
    if bad >= 0:
        return float(TOO_LARGE - bad)
    return _error(forest, label, is_new)


@kernel
def learn(forest: ClassForest, label: int, weight: float, is_new: bool, found: int) -> int:
    """Learn the class of the sample in the forest's `inputs`, and count it.

    A weight below LEAST_WEIGHT counts as that. `found` is how many samples a detector outside would
    keep, 0 unless it has detected a drift. Returns as `accept` does, or `TOO_LARGE - i` where
    the i-th input is, and nothing has changed.
    """
    bad = ensure_predicted(forest, forest.inputs)
    if bad >= 0:
        return TOO_LARGE - bad
    # Nothing could have foreseen the first class.
    if forest.errors.detector != NOBODY and (forest.n_classes > 1 or not is_new):
        error = _error(forest, label, is_new)
        forest.kept = watch(forest.errors, error, found, forest.n_samples + 1)
    forest.accepted = label
    forest.accepted_weight = max(weight, LEAST_WEIGHT)
    forest.accepted_is_new = 1 if is_new else 0
    return accept(forest)
