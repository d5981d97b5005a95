"""Records of a forest over classes: sets of classes at nodes, counts at leaves, and weights.

The interpolated Kneser-Ney counts of an internal node are c_jk = tab_left,k + tab_right,k
(Lakshminarayanan, Roy and Teh 2014, Algorithm 5). While all samples have weight 1, each table is 0
or 1. So the sets of classes below each child determine the counts. A leaf of one class needs only
its number of samples. A leaf of several classes has a row of counts or a list of the leaf's points.

After the first sample with another weight, each node also stores the weight of each class below
each child. The counts of Algorithm 5 are then real numbers. At a leaf, c_jk is the weight of class
k. At each node tab_jk = min(c_jk, 1). At an internal node c_jk = tab_left,k + tab_right,k. Because
min(min(a, 1) + min(b, 1), 1) = min(a + b, 1), the table of a class is min(W, 1), where W is the
weight of the class below the node.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from ... import records as rec
from ...compiling.kernels import always_inline
from ...limits import LARGEST_WEIGHT, MOST_CLASSES
from ...partitions.mondrian import records as mondrian
from ...partitions.mondrian.constants import COMPLETE, LEFT, NONE, RIGHT
from ...partitions.mondrian.records import Forest, Point, Tree
from ...partitions.mondrian.sampling import SampledForest
from ...records.numba_types import lowest_bit, popcount

# Number of classes in a word.
WORD_CLASSES = 32


@always_inline
def n_words_of(n_classes: int) -> int:
    """Return the number of words of a set of `n_classes` classes."""
    return (n_classes + WORD_CLASSES - 1) // WORD_CLASSES


@always_inline
def word_at(classes: rec.Int32s, w: int) -> int:
    """Return a word of a set as an unsigned number."""
    return classes[w] & 0xFFFFFFFF


@always_inline
def remove_class(classes: rec.Int32s, label: int) -> None:
    """Remove a class from a set."""
    word = label >> 5
    classes[word] = classes[word] & ~(1 << (label & 31))


@always_inline
def count_classes(left: rec.Int32s, right: rec.Int32s, n_words: int) -> tuple[int, int]:
    """Return the number of classes in the union of two sets, and in their intersection."""
    if n_words == 1:
        first, second = word_at(left, 0), word_at(right, 0)
        return popcount(first | second), popcount(first & second)
    in_any, in_both = 0, 0
    for w in range(n_words):
        first, second = word_at(left, w), word_at(right, w)
        in_any += popcount(first | second)
        in_both += popcount(first & second)
    return in_any, in_both


@always_inline
def is_one_class(left: rec.Int32s, right: rec.Int32s, n_words: int) -> bool:
    """Return whether the union of two sets has exactly one class."""
    count = 0
    for w in range(n_words):
        count += popcount(word_at(left, w) | word_at(right, w))
        if count > 1:
            return False
    return count == 1


@always_inline
def first_class(classes: rec.Int32s, n_words: int) -> int:
    """Return the smallest class in a set, or -1 for an empty set."""
    for w in range(n_words):
        word = word_at(classes, w)
        if word != 0:
            return WORD_CLASSES * w + lowest_bit(word)
    return -1


class LabelPoint(Point):
    """A stored sample with its class and its weight."""

    label: rec.Int32 = rec.stored(rec.Bounds(0, below="n_classes"))
    weight: rec.Float64 = rec.stored(rec.Bounds(math.ulp(0.0), LARGEST_WEIGHT))

    def put(self, label: int, weight: float) -> None:
        """Write a sample's class and weight."""
        self.label = label
        self.weight = weight

    def mass(self) -> float:
        """Return the sample's weight."""
        return self.weight

    def pauses_with(self, forest: Forest, other: Point) -> bool:
        """Return whether a leaf of both points is paused: the points have the same class.

        With `splits_pure`, no leaf is paused.
        """
        return LabelForest(forest).splits_pure == 0 and self.label == LabelPoint(other).label

    def is_like(self, other: Point) -> bool:
        """Return whether two points have the same class and weight."""
        sample = LabelPoint(other)
        return self.label == sample.label and self.weight == sample.weight


class CountRow(rec.Record):
    """The number of samples of each class at a leaf, as int32."""

    def next_free(self) -> rec.Int32s:
        """Return the word with the number of the next free row, in place of the first count."""
        return rec.Int32s(self, 0, 1)

    def counts(self, forest: LabelForest) -> rec.Int32s:
        """Return the number of samples of each class."""
        return rec.Int32s(self, 0, forest.count_width)


class LabelNode(mondrian.LightNode):
    """A node with a set of classes for each child. A leaf stores its classes in the left set.

    In a forest with weights, the weights of the classes are stored after the sets.
    """

    # For a complete leaf of several classes: its row of counts, or NONE.
    count_row: rec.Int32 = rec.instead_of(
        "right", rec.Ref("side_rows", when=mondrian.LEAF, ends=True)
    )

    def classes(self, forest: LabelForest, side: int) -> rec.Int32s:
        """Return the set of classes on a side."""
        n_words = forest.n_set_words
        return rec.Int32s(self, SETS_WORD + n_words * side, n_words)

    def weights(self, forest: LabelForest, side: int) -> rec.Float64s:
        """Return the weights of the classes on a side, in a forest with weights."""
        capacity = forest.weight_capacity
        first = SETS_WORD + 2 * forest.n_set_words
        return rec.Float64s(self, first + 2 * capacity * side, capacity)

    def add_sample(self, forest: LabelForest, side: int, point: LabelPoint) -> None:
        """Add a point's class and weight to a side."""
        classes, label = self.classes(forest, side), point.label
        classes[label >> 5] = classes[label >> 5] | (1 << (label & 31))
        if forest.has_weights():
            weights = self.weights(forest, side)
            weights[label] = weights[label] + point.weight

    def clear_side(self, forest: LabelForest, side: int) -> None:
        """Remove all classes from a side."""
        classes = self.classes(forest, side)
        for w in range(forest.n_set_words):
            classes[w] = 0
        weights = self.weights(forest, side)
        for k in range(forest.weight_capacity):
            weights[k] = 0.0

    def mass(self, forest: Forest) -> float:
        """Return the weight of all samples below the node."""
        labels = LabelForest(forest)
        if not labels.has_weights():
            return np.float64(self.n_samples)
        left, right = self.weights(labels, LEFT), self.weights(labels, RIGHT)
        total = 0.0
        for k in range(labels.n_classes):
            total += left[k] + right[k]
        return total

    def n_classes(self, forest: LabelForest) -> int:
        """Return the number of classes of a leaf."""
        left = self.classes(forest, 0)
        n_classes, _ = count_classes(left, left, forest.n_set_words)
        return n_classes

    def add_point(self, forest: Forest, point: Point) -> None:
        """Add a point's class to a leaf."""
        self.add_sample(LabelForest(forest), LEFT, LabelPoint(point))

    def pass_point(self, forest: Forest, side: int, point: Point) -> None:
        """Add a point's class to a side."""
        self.add_sample(LabelForest(forest), side, LabelPoint(point))

    def inherit(self, forest: Forest, tree: Tree, side: int, child: int) -> None:
        """Initialise the classes of a side with all classes of the child on this side."""
        labels = LabelForest(forest)
        if child < 0:
            self.add_sample(labels, side, labels.points.row(~child))
            return
        union, below = self.classes(labels, side), LabelTree(tree).nodes.row(child)
        left, right = below.classes(labels, 0), below.classes(labels, 1)
        for w in range(labels.n_set_words):
            union[w] = left[w] | right[w]
        if labels.has_weights():
            total = self.weights(labels, side)
            of_left, of_right = below.weights(labels, LEFT), below.weights(labels, RIGHT)
            for k in range(labels.n_classes):
                total[k] = of_left[k] + of_right[k]

    def is_paused(self, forest: Forest) -> bool:
        """Return whether a leaf is paused because the samples in the leaf have one class.

        The condition is line 3 of Algorithm 9 in Lakshminarayanan, Roy and Teh (2014).
        """
        labels = LabelForest(forest)
        left = self.classes(labels, 0)
        return labels.splits_pure == 0 and is_one_class(left, left, n_words_of(labels.n_classes))

    def ends_pause(self, forest: Forest, point: Point) -> bool:
        """Return whether a point's class differs from the class of the samples in a paused leaf.

        Line 4 of Algorithm 10 in Lakshminarayanan, Roy and Teh (2014) tests the opposite.
        """
        labels = LabelForest(forest)
        paused_label = first_class(self.classes(labels, 0), labels.n_set_words)
        return LabelPoint(point).label != paused_label

    def hides(self, forest: Forest) -> bool:
        """Return whether the nodes below are hidden because all samples below have one class."""
        labels = LabelForest(forest)
        left, right = self.classes(labels, 0), self.classes(labels, 1)
        return labels.splits_pure == 0 and is_one_class(left, right, n_words_of(labels.n_classes))

    def count_point(self, forest: Forest, tree: Tree, point: Point) -> None:
        """Count a point's class at a complete leaf (see `constants`) before the point is added.

        If the leaf then has several classes but no row of counts, the row is computed from the
        leaf's class or points. In a forest with weights, no leaf has a row of counts.
        """
        labels, rows = LabelForest(forest), LabelTree(tree).side_rows
        if labels.has_weights():
            return
        label = LabelPoint(point).label
        if self.count_row == NONE:
            pure = self.n_classes(labels) == 1
            only_label = first_class(self.classes(labels, 0), labels.n_set_words)
            if pure and label == only_label:
                return
            # Use a free row, or the next row.
            number = tree.free_side_row
            if number == NONE:
                number = rows.n_rows
                rows.n_rows = number + 1
            else:
                tree.free_side_row = rows.row(number).next_free()[0]
            counts = rows.row(number).counts(labels)
            for k in range(labels.count_width):
                counts[k] = 0
            if pure:
                counts[only_label] = self.n_samples
            else:
                q = self.first_point
                while q != NONE:
                    of_q = labels.points.row(q).label
                    counts[of_q] = counts[of_q] + 1
                    q = labels.links_of(q)[tree.slot]
            self.count_row = number
        counts = rows.row(self.count_row).counts(labels)
        counts[label] = counts[label] + 1

    def drop_point(self, forest: Forest, tree: Tree, point: Point) -> None:
        """Remove a point's class from a leaf's set, unless another point has this class.

        Weights are summed again, since differences would leave rounding errors.
        """
        labels, label = LabelForest(forest), LabelPoint(point).label
        classes = self.classes(labels, 0)
        if labels.has_weights():
            self.clear_side(labels, LEFT)
            q = self.first_point
            while q != NONE:
                self.add_sample(labels, LEFT, labels.points.row(q))
                q = labels.links_of(q)[tree.slot]
            return
        if self.dim == COMPLETE and self.count_row != NONE:
            counts = LabelTree(tree).side_rows.row(self.count_row).counts(labels)
            counts[label] = counts[label] - 1
            if counts[label] == 0:
                remove_class(classes, label)
            return
        if is_one_class(classes, classes, labels.n_set_words):
            return
        q = self.first_point
        while q != NONE and labels.points.row(q).label != label:
            q = labels.links_of(q)[tree.slot]
        if q == NONE:
            remove_class(classes, label)

    def renew_side(self, forest: Forest, tree: Tree, side: int, child: int) -> None:
        """Recompute the classes of a side from the child on this side."""
        self.clear_side(LabelForest(forest), side)
        self.inherit(forest, tree, side, child)

    def give_back(self, forest: Forest, tree: Tree) -> None:
        """Free a leaf's row of counts, so that another leaf can use the row."""
        if self.dim == COMPLETE and self.count_row != NONE:
            labels, row = LabelForest(forest), LabelTree(tree).side_rows.row(self.count_row)
            for k in range(labels.count_width):
                row.counts(labels)[k] = 0
            row.next_free()[0] = tree.free_side_row
            tree.free_side_row = self.count_row
            self.count_row = NONE


# Word of a node's row where the sets begin.
SETS_WORD = LabelNode.WORDS


class LabelTree(Tree):
    """A tree over classes."""

    nodes: rec.Table[LabelNode]
    side_rows: rec.Table[CountRow]


class LabelForest(SampledForest):
    """A forest over classes."""

    trees: rec.Array[LabelTree]
    points: rec.Table[LabelPoint]
    n_classes: rec.Int64 = rec.stored(rec.Bounds(0, MOST_CLASSES))
    # Predictions use all cuts, since only leaves store the counts that a prediction at a horizon
    # would need.
    horizon: rec.Float64 = rec.stored(rec.Bounds(math.inf))
    # Whether leaves of one class are cut instead of being paused.
    splits_pure: rec.Int64
    # Rate gamma of the HNSP's discount, exp(-gamma span) (see `hnsp`).
    gamma: rec.Float64
    # Number of words of a set of classes, and capacity of a row of counts, in classes.
    n_set_words: rec.Int64
    count_width: rec.Int64
    # Capacity for weights of classes on each side of a node; 0 while all samples have weight 1.
    weight_capacity: rec.Int64

    def has_weights(self) -> bool:
        """Return whether nodes store weights."""
        return self.weight_capacity > 0

    def may_forget(self) -> bool:
        """Return True, because label forests may forget samples."""
        return True


L = TypeVar("L", bound=LabelForest)
