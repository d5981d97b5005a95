"""Learning of a sample's class by the mixture, the discriminants and the trees.

`learn` and `learn_sample` in `rebuilt.sample` call the methods of `ClassForest`.

A node that is inserted above another node copies the other node's statistics. With `root_forgets`,
class counts are discounted at roots too. Each node's counts then equal the counts after a replay of
the node's samples in order.
"""

from ...compiling.kernels import always_inline, link_by_name
from ...elementary import sort
from ...learners import discriminants, experts
from ...partitions.mondrian.boxes import source_of, value_in, values_of
from ...partitions.mondrian.constants import LEFT, MISSING, NONE, PAUSED, RIGHT
from ...partitions.mondrian.sampling import part_leaf
from ...records import Float64s, Int32s
from ..labels.hnsp import most_probable
from ..rebuilt.forest import REPLAYING, Candidate, path_to
from ..rebuilt.splits import GAIN_SAMPLE, push
from . import prediction, weighting
from .nodes import A, AdaptiveForest, AdaptiveNode, AdaptiveTree, Entries, Statistics
from .seen import NO_SIDE, add_sample, add_side, copy_statistics, list_seen, new_row, numbers_of

# Labels guide cuts: of the candidates (see `rebuilt.splits`), the cut with the largest reduction of
# the Gini impurity is kept. With one candidate, the tree is distributed like any other Mondrian
# tree.


@always_inline
def new_statistics(forest: A, tree: AdaptiveTree, node: AdaptiveNode) -> Statistics:
    """Allocate and return the statistics of a node without samples."""
    number = new_row(forest, tree)
    node.statistics_row = number + 1
    statistics = tree.side_rows.row(number)
    statistics.begin()
    return statistics


@link_by_name
def make_statistics(forest: A, t: int, j: int, last: int) -> None:
    """Compute a leaf's statistics from its points. `last` is the latest stored point."""
    tree = forest.trees[t]
    node = tree.nodes.row(j)
    window, n = forest.window_capacity, node.n_samples
    ages = forest.leaf.ages
    p = node.first_point
    for i in range(n):
        # Negative ages sort the oldest points first, since discounting depends on the order.
        ages[i] = -((last - p) % window)
        p = forest.links_of(p)[t]
    sort(ages, n)
    statistics = new_statistics(forest, tree, node)
    for i in range(n):
        p = (last + ages[i]) % window
        label, weight = forest.label_of(p), forest.weight_of(p)
        add_sample(forest, tree, statistics, label, weight, True, NO_SIDE)


@always_inline
def enqueue(tree: AdaptiveTree, j: int) -> None:
    """Add a leaf to the queue of splits if the leaf has samples of several classes."""
    node = tree.nodes.row(j)
    is_free = node.dim == PAUSED and node.next_waiting == NONE
    if is_free and node.statistics(tree).n_seen > 1:
        push(tree, j)


@link_by_name
def ensure_statistics(forest: A, t: int, ref: int, p: int, backlog: int) -> None:
    """Compute the statistics of a new node on the path of point `p`, from the samples before `p`.

    The statistics exclude the latest `backlog` samples before `p`, which will be replayed later.
    """
    tree = forest.trees[t]
    node = tree.nodes.row(ref)
    if node.statistics_row != 0:
        return
    side = RIGHT
    if node.dim < 0:
        # The node is a leaf with two points: `p` and `other`.
        q = node.first_point
        sibling = ~(forest.links_of(p)[t] if q == p else q)
    else:
        side = LEFT if node.right == ~p else RIGHT
        sibling = node.child(side)
    if sibling < 0:
        if (p - ~sibling) % forest.window_capacity > backlog:
            label, weight = forest.label_of(~sibling), forest.weight_of(~sibling)
            statistics = new_statistics(forest, tree, node)
            side = side if node.dim >= 0 else NO_SIDE
            add_sample(forest, tree, statistics, label, weight, True, side)
        return
    below = tree.nodes.row(sibling).statistics(tree)
    if below:
        statistics = new_statistics(forest, tree, node)
        copy_statistics(forest, tree, statistics, below, side)


@link_by_name
def update_path(forest: A, t: int, p: int, path: Entries, n: int, grown: bool) -> None:
    """Add a point of the tree to the statistics on the point's path.

    If `grown`, the tree has just been extended by the point, so new nodes may have no statistics
    yet. Otherwise, points are replayed in order. The statistics of a node then begin with the
    node's first point.
    """
    tree = forest.trees[t]
    label, weight = forest.label_of(p), forest.weight_of(p)
    for i in range(n):
        entry = path[i]
        ref, statistics = entry.ref, entry.statistics
        if ref < 0:
            return
        node = tree.nodes.cast(entry.row)
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
    """An adaptive forest over classes, with the methods that kernels of rebuilt trees call."""

    def predict_sample(self, inputs: Float64s) -> int:
        """Predict a sample; return DONE, or the index of the first input that is too large."""
        return prediction.predict_sample(self, inputs)

    def take(self, y: float, weight: float, is_new: bool) -> None:
        """Set the class and the weight of the accepted sample."""
        self.accepted.label = int(y)
        self.accepted.weight = weight
        self.accepted.is_new = int(is_new)

    def error(self) -> float:
        """Return 0 for a correct and 1 for a wrong prediction, or -1 for the first sample."""
        # The first sample does not count, since no model could have predicted its class.
        if self.n_classes == 1 and self.accepted.is_new == 1:
            return -1.0
        best = most_probable(self.experts.mixed, self.n_classes)
        return 1.0 if self.accepted.is_new == 1 or best != self.accepted.label else 0.0

    def score(self) -> None:
        """Update the mixture and the discriminants with the class of the accepted sample.

        The accepted sample is the last predicted sample. If its class is new, only the
        discriminants are updated, since no expert could have predicted this class.
        """
        label, weight = self.accepted.label, self.accepted.weight
        if self.accepted.is_new == 0:
            experts.learn(self.experts, label, weight)
        discriminants.learn(self.discriminants, self.inputs, label, weight)

    def learn_stops(self, t: int) -> None:
        """Update the path's `stops` and `shares` (see `Statistics`) with the sample's class."""
        tree = self.trees[t]
        if tree.path_length > 0:
            label, weight = self.accepted.label, self.accepted.weight
            weighting.update_weights(
                self, tree, self.path_of(t), tree.path_length, label, weight, NONE
            )

    def update_tree(self, t: int, p: int, n: int) -> None:
        """Add a new point of a tree to the statistics on the point's path."""
        update_path(self, t, p, self.path_of(t), n, True)

    def catch_up(self, t: int, p: int, backlog: int) -> None:
        """Compute the statistics of new nodes that a point has added to a tree during a replay.

        The point itself will be replayed later.
        """
        tree, path = self.trees[t], self.path_of(t)
        if tree.role != REPLAYING:
            return
        x = values_of(self, tree, p, tree.value_buffer)
        for i in range(path_to(self, tree, x, path)):
            ref = path[i].ref
            if ref >= 0:
                node = tree.nodes.row(ref)
                if node.dim < 0 or node.left == ~p or node.right == ~p:
                    ensure_statistics(self, t, ref, p, backlog)

    def enqueue_built(self, t: int, ref: int) -> None:
        """Add a leaf to the queue of splits if its points have several classes."""
        tree = self.trees[t]
        p = tree.nodes.row(ref).first_point if ref >= 0 else NONE
        label = self.label_of(p) if p != NONE else NONE
        while p != NONE and self.label_of(p) == label:
            p = self.links_of(p)[t]
        if p != NONE:
            push(tree, ref)

    def weigh_cuts(self, t: int, j: int, m: int) -> tuple[int, float]:
        """Sum weights by candidate, class and side over a subset of a leaf's points.

        Returns the number of classes, and the stride of the subset, which is about the ratio of the
        leaf's number of points to the size of the subset. Each candidate has a `ClassSides` for
        each class. Classes are numbered within the leaf, since most leaves have few classes.
        """
        tree = self.trees[t]
        node = tree.nodes.row(j)
        width = min(self.n_classes, node.n_samples)
        candidates, tables = self.cuts.candidates, self.leaf.sides
        numbers, present = self.leaf.numbers, self.leaf.classes
        source = source_of(self, tree)
        words = Int32s(tables[0], 0, 4 * m * width)
        for w in range(4 * m * width):
            words[w] = 0
        n_present, step = 0, max(1, node.n_samples // GAIN_SAMPLE)
        p, i = node.first_point, 0
        while p != NONE:
            if i % step == 0:
                point = self.points.row(p)
                label, weight = self.label_of(p), self.weight_of(p)
                if numbers[label] == 0:
                    present[n_present] = label
                    n_present += 1
                    numbers[label] = n_present
                k = numbers[label] - 1
                for c in range(m):
                    candidate = candidates[c]
                    weights = tables[width * c + k].weights
                    v = value_in(point, source, candidate.dim)
                    # The side is computed without a branch, since a branch would often be
                    # mispredicted.
                    side = int(v > candidate.cut) + MISSING * int(v != v)
                    weights[side] = weights[side] + weight
            i += 1
            p = self.links_of(p)[t]
        for k in range(n_present):
            numbers[present[k]] = 0
        return n_present, float(step)

    def gain_of(self, c: int, n_points: int, n: int) -> float:
        """Return the Gini gain of a candidate over `n` classes, times the points' weight.

        With the weights W_k of the classes and their sum W, the Gini impurity times W is W - sum_k
        W_k^2 / W. The weights L of the left side and R of the right side add up to W. So the gain
        is sum_k L_k^2 / L + sum_k R_k^2 / R - sum_k W_k^2 / W. Points whose value is missing do not
        count.
        """
        n_left, n_right, squares_left, squares_right, squares = 0.0, 0.0, 0.0, 0.0, 0.0
        first = min(self.n_classes, n_points) * c
        for k in range(first, first + n):
            weights = self.leaf.sides[k].weights
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
        """Cut a leaf `time` after the parent's cut, and queue children with several classes.

        If the tree predicts, `last` is the latest stored point, and the children get statistics.
        During a build, `last` is NONE.
        """
        tree = self.trees[t]
        node = tree.nodes.row(j)
        statistics_row = node.statistics_row
        part_leaf(self, tree, j, chosen.dim, chosen.cut, time, 0.0)
        node.statistics_row = statistics_row
        statistics, labels = node.statistics(tree), self.seen.labels
        for side in range(2):
            child = node.child(side)
            if last == NONE:
                self.enqueue_built(t, child)
            elif child < 0:
                add_side(self, tree, statistics, self.label_of(~child), side)
            else:
                make_statistics(self, t, child, last)
                enqueue(tree, child)
                below = tree.nodes.row(child).statistics(tree)
                for i in range(list_seen(self, tree, below)):
                    if numbers_of(self, tree, below, labels[i]).words[0] > 0.0:
                        add_side(self, tree, statistics, labels[i], side)

    def replays(self) -> bool:
        """Return True, because class statistics need a replay of points after a build's splits."""
        return True

    def replay(self, t: int, start: int, stop: int) -> int:
        """Replay samples `start` to `stop` - 1 in a tree, and return the next sample to replay.

        If the tree has no room for the statistics of a path, the replay stops early.
        """
        tree, path = self.trees[t], self.path_of(t)
        for i in range(start, stop):
            p = i % self.window_capacity
            n = path_to(self, tree, values_of(self, tree, p, tree.value_buffer), path)
            if tree.side_rows.n_rows + n > tree.side_rows.capacity:
                return i
            label, weight = self.label_of(p), self.weight_of(p)
            weighting.update_weights(self, tree, path, n, label, weight, p)
            update_path(self, t, p, path, n, False)
        return stop
