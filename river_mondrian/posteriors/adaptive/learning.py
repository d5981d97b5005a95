"""Learning the class of a sample: drifts, the mixture, and the statistics of the trees.

The path of a call: `learn`, `_learn`, `rebuilt.learning.accept` and `learn_sample`, which calls the
methods of `ClassForest`.

Statistics of a node are those of replaying its samples in order. A node that is inserted above
another takes over the other's.
"""

from __future__ import annotations

from ...compiling.kernels import inlined, kernel, merged, separate
from ...learners import discriminants, experts
from ...learners.drift import NOBODY, watch
from ...limits import DONE, LEAST_WEIGHT, TOO_LARGE
from ...partitions.mondrian.records import LEFT, NONE, RIGHT, START
from ...records import Array, Float64s, Int64s
from ..labels.hnsp import most_probable
from ..rebuilt.learning import accept
from ..rebuilt.paths import path_to
from ..rebuilt.records import REPLAYING
from .prediction import ensure_predicted
from .records import AdaptiveForest, StatisticsEntry
from .seen import NO_SIDE, add_sample, copy_statistics
from .splitting import enqueue, enqueue_mixed, new_statistics, split
from .weighting import update_weights


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


@merged
def _learn(forest: ClassForest, label: int, weight: float, is_new: bool, found: int) -> int:
    """Learn the class of the sample in the forest's `inputs`, as `learn` does."""
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


@kernel
def learn(forest: ClassForest, label: int, weight: float, is_new: bool, found: int) -> int:
    """Learn the class of the sample in the forest's `inputs`, and count it.

    A weight below LEAST_WEIGHT counts as that. `found` is how many samples a detector outside would
    keep, 0 unless it has detected a drift. Returns as `accept` does, or `TOO_LARGE - i` where
    the i-th input is, and nothing has changed.
    """
    return _learn(forest, label, weight, is_new, found)


@kernel
def learn_rows(
    forest: ClassForest, rows: Float64s, classes: Int64s, weights: Float64s, start: int, stop: int
) -> int:
    """Learn the rows `start` to `stop` of checked inputs, with classes that there are.

    Returns the number of the next row. It is `stop`, unless the forest is closed behind the row
    before, as `accept` leaves it.
    """
    inputs, capacity = forest.inputs, forest.input_capacity
    for i in range(start, stop):
        for d in range(capacity):
            inputs[d] = rows[capacity * i + d]
        if _learn(forest, classes[i], weights[i], False, 0) != DONE:
            return i + 1
    return stop
