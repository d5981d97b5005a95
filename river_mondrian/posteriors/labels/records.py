"""What a forest over classes keeps: sets of classes at nodes, and counts at leaves.

The interpolated Kneser-Ney counts of an internal node are c_jk = tab_left,k + tab_right,k, each 0
or 1 (Algorithm 5): the classes below each child say all of it. A leaf of one class needs no more
than its number of samples; one of several has a row of counts, or its list of points.
"""

from __future__ import annotations

from typing import TypeVar

from ...compiling.kernels import inlined
from ...partitions.mondrian import faults
from ...partitions.mondrian.faults import FINE
from ...partitions.mondrian.records import (
    COMPLETE,
    NONE,
    Forest,
    LightNode,
    Point,
    Tree,
)
from ...records import Array, Float64, Int32, Int32s, Int64, Record, Table, instead_of
from .class_sets import (
    add_class,
    first_class,
    has_classes_below,
    is_one_class,
    n_classes_in,
    n_words_of,
    remove_class,
)


class LabelPoint(Point):
    """A stored sample with its class."""

    label: Int32

    def pauses_with(self, forest: Forest, other: Point) -> bool:
        """Tell whether a block of this point and another one pauses: they are of one class."""
        return ClassForest(forest).splits_pure == 0 and self.label == LabelPoint(other).label

    def is_like(self, other: Point) -> bool:
        """Tell whether two points are of one class."""
        return self.label == LabelPoint(other).label

    def fault(self, forest: Forest) -> int:
        """Return what is wrong with a restored point."""
        return FINE if 0 <= self.label < ClassForest(forest).n_classes else faults.LABEL


class CountRow(Record):
    """Samples of each class at a leaf, an int32 for each."""

    def next_free(self) -> Int32s:
        """Return the number of the next free row, or NONE, which stands in place of the counts."""
        return Int32s(self, 0, 1)

    def counts(self, forest: LabelForest) -> Int32s:
        """Return the counts."""
        return Int32s(self, 0, forest.count_width)


class LabelNode(LightNode):
    """A node with the classes below each child; a leaf has its own as those on the left."""

    # Of a leaf of several classes that is complete: its row of counts, or NONE.
    count_row: Int32 = instead_of("right")

    def classes(self, forest: LabelForest, side: int) -> Int32s:
        """Return the set of classes on a side."""
        n_words = forest.n_set_words
        return Int32s(self, SETS_WORD + n_words * side, n_words)

    def n_classes(self, forest: LabelForest) -> int:
        """Count the classes of a leaf."""
        own = self.classes(forest, 0)
        return n_classes_in(own, own, forest.n_set_words)

    def fault(self, forest: Forest, tree: Tree, t: int) -> int:
        """Return what is wrong with the classes and the counts of a restored row."""
        labels = LabelForest(forest)
        for side in range(2):
            classes = self.classes(labels, side)
            if not has_classes_below(classes, labels.n_classes, labels.n_set_words):
                return faults.CLASSES
        is_known = self.dim >= 0 or NONE <= self.count_row < tree.side_rows.n_rows
        return FINE if is_known else faults.COUNT_ROW

    def add_point(self, forest: Forest, point: Point) -> None:
        """Add a point's class to a leaf's set."""
        add_class(self.classes(LabelForest(forest), 0), LabelPoint(point).label)

    def pass_point(self, forest: Forest, side: int, point: Point) -> None:
        """Add a point's class to the set of a side."""
        add_class(self.classes(LabelForest(forest), side), LabelPoint(point).label)

    def inherit(self, forest: Forest, tree: Tree, side: int, child: int) -> None:
        """Initialise the set of a side from its child, both of whose sets it joins."""
        labels = LabelForest(forest)
        own = self.classes(labels, side)
        if child < 0:
            add_class(own, labels.points.row(~child).label)
            return
        below = LabelTree(tree).nodes.row(child)
        left, right = below.classes(labels, 0), below.classes(labels, 1)
        for w in range(labels.n_set_words):
            own[w] = left[w] | right[w]

    def is_paused(self, forest: Forest) -> bool:
        """Tell whether a leaf's block pauses: it holds one class (Algorithm 9, line 2)."""
        labels = LabelForest(forest)
        own = self.classes(labels, 0)
        return labels.splits_pure == 0 and is_one_class(own, own, n_words_of(labels.n_classes))

    def ends_pause(self, forest: Forest, point: Point) -> bool:
        """Tell whether a point is of another class than a paused leaf (Algorithm 10, line 4)."""
        labels = LabelForest(forest)
        own = first_class(self.classes(labels, 0), labels.n_set_words)
        return LabelPoint(point).label != own

    def hides(self, forest: Forest) -> bool:
        """Tell whether there is one class below, so that what is there is hidden."""
        labels = LabelForest(forest)
        left, right = self.classes(labels, 0), self.classes(labels, 1)
        return labels.splits_pure == 0 and is_one_class(left, right, n_words_of(labels.n_classes))

    def count_point(self, forest: Forest, tree: Tree, t: int, point: Point) -> None:
        """Count a point's class at a complete leaf that it is about to join.

        A leaf of several classes gets a row of counts, made from its class or its points.
        """
        labels, rows = LabelForest(forest), LabelTree(tree).side_rows
        label = LabelPoint(point).label
        if self.count_row == NONE:
            pure = self.n_classes(labels) == 1
            own = first_class(self.classes(labels, 0), labels.n_set_words)
            if pure and label == own:
                return
            number = _new_count_row(LabelTree(tree))
            counts = rows.row(number).counts(labels)
            for k in range(labels.count_width):
                counts[k] = 0
            if pure:
                counts[own] = self.n_samples
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
        """Take a point's class out of a leaf's set, where no other point is of that class."""
        labels, label = LabelForest(forest), LabelPoint(point).label
        own = self.classes(labels, 0)
        if self.dim == COMPLETE and self.count_row != NONE:
            counts = LabelTree(tree).side_rows.row(self.count_row).counts(labels)
            counts[label] = counts[label] - 1
            if counts[label] == 0:
                remove_class(own, label)
            return
        if is_one_class(own, own, labels.n_set_words):
            return
        q = self.first_point
        while q != NONE and labels.points.row(q).label != label:
            q = labels.links_of(q)[tree.slot]
        if q == NONE:
            remove_class(own, label)

    def renew_side(self, forest: Forest, tree: Tree, side: int, child: int) -> None:
        """Make the set of a side anew."""
        labels = LabelForest(forest)
        own = self.classes(labels, side)
        for w in range(labels.n_set_words):
            own[w] = 0
        self.inherit(forest, tree, side, child)

    def give_back(self, forest: Forest, tree: Tree) -> None:
        """Give back a leaf's row of counts."""
        if self.dim == COMPLETE and self.count_row != NONE:
            _free_count_row(LabelForest(forest), LabelTree(tree), self.count_row)
            self.count_row = NONE


# Word of a node's row at which its sets begin.
SETS_WORD = LabelNode.WORDS


class LabelTree(Tree):
    """A tree over classes."""

    nodes: Table[LabelNode]
    side_rows: Table[CountRow]

    def fault(self, forest: Forest, t: int, start: int, points: Int32s) -> int:
        """Return what is wrong with a restored tree's list of free rows of counts."""
        n, number = 0, self.free_side_row
        while number != NONE:
            if n == self.side_rows.n_rows or not 0 <= number < self.side_rows.n_rows:
                return faults.FREE_SIDE_ROW
            number = self.side_rows.row(number).next_free()[0]
            n += 1
        return FINE


@inlined
def _new_count_row(tree: LabelTree) -> int:
    """Take a free row of counts, or the next one."""
    number = tree.free_side_row
    if number == NONE:
        number = tree.side_rows.n_rows
        tree.side_rows.n_rows = number + 1
    else:
        tree.free_side_row = tree.side_rows.row(number).next_free()[0]
    return number


@inlined
def _free_count_row(forest: LabelForest, tree: LabelTree, number: int) -> None:
    """Let a row of counts be taken by another leaf."""
    row = tree.side_rows.row(number)
    counts = row.counts(forest)
    for k in range(forest.count_width):
        counts[k] = 0
    row.next_free()[0] = tree.free_side_row
    tree.free_side_row = number


class ClassForest(Forest):
    """A forest over classes, whatever it keeps of them."""

    n_classes: Int64
    # Whether blocks of one class are cut, too, instead of pausing.
    splits_pure: Int64
    # Rate of the discount: d = exp(-gamma delta).
    gamma: Float64


class LabelForest(ClassForest):
    """A forest over classes whose samples all weigh 1."""

    trees: Array[LabelTree]
    points: Table[LabelPoint]
    # Words of a set of classes, and classes for which a row of counts has room.
    n_set_words: Int64
    count_width: Int64

    def may_forget(self) -> bool:
        """Tell that samples may be forgotten."""
        return True


L = TypeVar("L", bound=LabelForest)
