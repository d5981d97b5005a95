"""Learning the class of a sample: drifts, the mixture, and the statistics of the trees.

The path of a call: `rebuilt.building.learn` and `learn_sample`, which call the methods of
`ClassForest`.

Statistics of a node are those of replaying its samples in order. A node that is inserted above
another takes over the other's.
"""

from __future__ import annotations

from ...compiling.kernels import inlined, separate
from ...elementary import sort
from ...learners import discriminants, experts
from ...partitions.mondrian.constants import LEFT, NONE, PAUSED, RIGHT
from ...partitions.mondrian.sampling import part_leaf
from ...records import Float64s, Int32s
from ..labels.hnsp import most_probable
from ..rebuilt.building import GAIN_SAMPLE, push
from ..rebuilt.forest import REPLAYING, Candidate, path_to
from .nodes import A, AdaptiveForest, AdaptiveNode, AdaptiveTree, Entries, Statistics
from .prediction import predict_anew
from .seen import NO_SIDE, add_sample, add_side, copy_statistics, list_seen, new_row, numbers_of
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


@inlined
def new_statistics(forest: A, tree: AdaptiveTree, node: AdaptiveNode) -> Statistics:
    """Give a node statistics that have seen nothing."""
    number = new_row(forest, tree)
    node.statistics_row = number + 1
    found = tree.side_rows.row(number)
    found.begin()
    return found


@separate
def make_statistics(forest: A, t: int, j: int, last: int) -> None:
    """Make the statistics of a leaf's row from its points; `last` is the latest point of all."""
    tree = forest.trees[t]
    node = tree.nodes.row(j)
    window, n = forest.window_capacity, node.n_samples
    ages = forest.ages
    p = node.first_point
    for i in range(n):
        # The oldest first.
        ages[i] = -((last - p) % window)
        p = forest.links_of(p)[t]
    sort(ages, n)
    statistics = new_statistics(forest, tree, node)
    for i in range(n):
        p = (last + ages[i]) % window
        label, weight = forest.label_of(p), forest.weight_of(p)
        add_sample(forest, tree, statistics, label, weight, True, NO_SIDE)


# Leaves that wait.


@inlined
def enqueue(tree: AdaptiveTree, j: int) -> None:
    """Let a leaf wait for its split where it has seen several classes."""
    node = tree.nodes.row(j)
    is_free = node.dim == PAUSED and node.next_waiting == NONE
    if is_free and node.statistics(tree).n_seen > 1:
        push(tree, j)


@separate
def ensure_statistics(forest: A, t: int, ref: int, p: int, backlog: int) -> None:
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
def update_path(forest: A, t: int, p: int, path: Entries, n: int, grown: bool) -> None:
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


class ClassForest(AdaptiveForest):
    """An adaptive forest, as the kernels that build trees anew see it."""

    def predict_anew(self, inputs: Float64s) -> int:
        """Predict a sample of these inputs; returns DONE, or the first that is too large."""
        return predict_anew(self, inputs)

    def take(self, y: float, weight: float, is_new: bool) -> None:
        """Note the class and the weight of the sample that is accepted."""
        self.accepted = int(y)
        self.accepted_weight = weight
        self.accepted_is_new = int(is_new)

    def error(self) -> float:
        """Return 1 where another class was more probable, else 0; below 0 for the first class."""
        # Nothing could have foreseen that.
        if self.n_classes == 1 and self.accepted_is_new == 1:
            return -1.0
        best = most_probable(self.experts.mixed, self.n_classes)
        return 1.0 if self.accepted_is_new == 1 or best != self.accepted else 0.0

    def score(self) -> None:
        """Let the mixture learn the class of the accepted sample, which was predicted last.

        Of a class that is new the discriminants learn only: nothing can have foreseen it.
        """
        label, weight = self.accepted, self.accepted_weight
        if self.accepted_is_new == 0:
            experts.learn(self.experts, label, weight)
        discriminants.learn(self.discriminants, self.inputs, label, weight)

    def begin_walk(self, t: int, p: int) -> None:
        """Let the weights on the sample's path learn its class, ahead of the extension."""
        tree = self.trees[t]
        if tree.path_length > 0:
            label, weight = self.accepted, self.accepted_weight
            update_weights(self, tree, self.path_of(t), tree.path_length, label, weight, NONE)

    def update_tree(self, t: int, p: int, n: int) -> None:
        """Add a point by which a tree has been extended to the statistics on its path."""
        update_path(self, t, p, self.path_of(t), n, True)

    def catch_up(self, t: int, p: int, backlog: int) -> None:
        """Give the rows that a tree has got by a point their statistics, while it is being shown.

        The point itself will be shown in its turn.
        """
        tree, path = self.trees[t], self.path_of(t)
        if tree.role != REPLAYING:
            return
        for i in range(path_to(self, tree, self.values_of(tree, p), path)):
            ref = path[i].ref
            if ref >= 0:
                node = tree.nodes.row(ref)
                if node.dim < 0 or node.left == ~p or node.right == ~p:
                    ensure_statistics(self, t, ref, p, backlog)

    def enqueue_built(self, t: int, ref: int) -> None:
        """Let a leaf whose points are of several classes wait for its split."""
        tree = self.trees[t]
        p = tree.nodes.row(ref).first_point if ref >= 0 else NONE
        label = self.label_of(p) if p != NONE else NONE
        while p != NONE and self.label_of(p) == label:
            p = self.links_of(p)[t]
        if p != NONE:
            push(tree, ref)

    def weigh_cuts(self, t: int, j: int, m: int) -> tuple[int, float]:
        """Add up how candidates part a sample of a block's points; returns its number of classes.

        Each candidate has a table of classes. They are numbered anew, from 1 on: most blocks have
        few.
        """
        tree = self.trees[t]
        node = tree.nodes.row(j)
        width = min(self.n_classes, node.n_samples)
        candidates, tables = self.candidates, self.class_sides
        numbers, present = self.class_numbers, self.block_classes
        words = Int32s(tables[0], 0, 4 * m * width)
        for w in range(4 * m * width):
            words[w] = 0
        n_present, step = 0, max(1, node.n_samples // GAIN_SAMPLE)
        p, i = node.first_point, 0
        while p != NONE:
            if i % step == 0:
                x = self.values_of(tree, p)
                label, weight = self.label_of(p), self.weight_of(p)
                if numbers[label] == 0:
                    present[n_present] = label
                    n_present += 1
                    numbers[label] = n_present
                k = numbers[label] - 1
                for c in range(m):
                    candidate = candidates[c]
                    weights, v = tables[width * c + k].weights, x[candidate.dim]
                    # Without a branch: no one could foresee it.
                    side = int(v > candidate.cut) + MISSING * int(v != v)
                    weights[side] = weights[side] + weight
            i += 1
            p = self.links_of(p)[t]
        for k in range(n_present):
            numbers[present[k]] = 0
        return n_present, float(step)

    def gain_of(self, c: int, n_points: int, n: int) -> float:
        """Return the Gini gain of a candidate, times the points' weight, by the `n` classes there.

        The Gini impurity times the weight n of the points is n - sum_k n_k^2 / n, and n is that of
        both sides: what is gained is the sum of squares over n, at either side, less that of the
        block.
        """
        n_left, n_right, squares_left, squares_right, squares = 0.0, 0.0, 0.0, 0.0, 0.0
        first = min(self.n_classes, n_points) * c
        for k in range(first, first + n):
            weights = self.class_sides[k].weights
            a, b = weights[0], weights[1]
            n_left += a
            n_right += b
            squares_left += a * a
            squares_right += b * b
            squares += (a + b) * (a + b)
        if n_left == 0.0 or n_right == 0.0:
            return 0.0
        return squares_left / n_left + squares_right / n_right - squares / (n_left + n_right)

    def split(self, t: int, j: int, chosen: Candidate, time: float, last: int) -> None:
        """Cut a leaf's block at a time since its parent, and let its children wait for theirs.

        Where the tree has been shown its points, the latest of which is `last`, the new rows get
        their statistics; else `last` is NONE.
        """
        tree = self.trees[t]
        node = tree.nodes.row(j)
        kept = node.statistics_row
        part_leaf(self, tree, j, chosen.dim, chosen.cut, time, 0.0)
        node.statistics_row = kept
        statistics, labels = node.statistics(tree), self.seen_labels
        for side in range(2):
            child = node.child(side)
            if last == NONE:
                self.enqueue_built(t, child)
            elif child < 0:
                add_side(self, tree, statistics, self.label_of(~child), side)
            else:
                make_statistics(self, t, child, last)
                enqueue(tree, child)
                # Which classes are on the side is noted.
                below = tree.nodes.row(child).statistics(tree)
                for i in range(list_seen(self, tree, below)):
                    if numbers_of(self, tree, below, labels[i]).words[0] > 0.0:
                        add_side(self, tree, statistics, labels[i], side)

    def replays(self) -> bool:
        """Tell that a tree that has been split is shown its points in order."""
        return True

    def replay(self, t: int, start: int, stop: int) -> int:
        """Show a tree the samples `start` to `stop` in order; returns where it stopped.

        It stops where a tree has no room for the statistics of a path.
        """
        tree, path = self.trees[t], self.path_of(t)
        for i in range(start, stop):
            p = i % self.window_capacity
            n = path_to(self, tree, self.values_of(tree, p), path)
            if tree.side_rows.n_rows + n > tree.side_rows.capacity:
                return i
            label, weight = self.label_of(p), self.weight_of(p)
            update_weights(self, tree, path, n, label, weight, p)
            update_path(self, t, p, path, n, False)
        return stop
