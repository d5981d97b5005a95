"""What a forest over classes keeps: sets of classes at nodes, and counts at leaves.

The interpolated Kneser-Ney counts of an internal node are c_jk = tab_left,k + tab_right,k, each 0
or 1 (Algorithm 5): the classes below each child say all of it. A leaf of one class needs no more
than its number of samples; one of several has a row of counts, or its list of points.
"""

from __future__ import annotations

from typing import TypeVar

from ...records import Array, Float64, Float64s, Int32, Int32s, Int64, Record, Table, instead_of
from ...partitions.mondrian.leaves import put_point
from ...partitions.mondrian.records import NONE, Forest, Node, Point, Tree
from .class_sets import add_class, first_class, n_classes_in


class LabelPoint(Point):
    """A stored sample with its class."""

    label: Int32

    def pauses_with(self, forest: LabelForest, other: LabelPoint) -> bool:
        """Tell whether a block of this point and another one pauses: they are of one class."""
        return forest.splits_pure == 0 and self.label == other.label


class CountRow(Record):
    """Samples of each class at a leaf, an int32 for each."""

    def counts(self, forest: LabelForest) -> Int32s:
        """Return the counts."""
        return Int32s(self, 0, forest.count_width)


class LabelNode(Node):
    """A node with the classes below each child; a leaf has its own as those on the left."""

    # Of a leaf of several classes that is settled: its row of counts, or NONE.
    count_row: Int32 = instead_of("right")

    def classes(self, forest: LabelForest, side: int) -> Int32s:
        """Return the set of classes on a side."""
        n_words = forest.n_set_words
        return Int32s(self, SETS_WORD + n_words * side, n_words)

    def n_classes(self, forest: LabelForest) -> int:
        """Count the classes of a leaf."""
        own = self.classes(forest, 0)
        return n_classes_in(own, own, forest.n_set_words)

    def add_point(self, forest: LabelForest, point: LabelPoint) -> None:
        """Add a point's class to a leaf's set."""
        add_class(self.classes(forest, 0), point.label)

    def pass_point(self, forest: LabelForest, side: int, point: LabelPoint) -> None:
        """Add a point's class to the set of a side."""
        add_class(self.classes(forest, side), point.label)

    def inherit(self, forest: LabelForest, tree: LabelTree, side: int, child: int) -> None:
        """Initialise the set of a side from its child, both of whose sets it joins."""
        own = self.classes(forest, side)
        if child < 0:
            add_class(own, forest.points.row(~child).label)
            return
        below = tree.nodes.row(child)
        left, right = below.classes(forest, 0), below.classes(forest, 1)
        for w in range(forest.n_set_words):
            own[w] = left[w] | right[w]

    def is_paused(self, forest: LabelForest) -> bool:
        """Tell whether a leaf's block pauses: it holds one class (Algorithm 9, line 2)."""
        return forest.splits_pure == 0 and self.n_classes(forest) == 1

    def ends_pause(self, forest: LabelForest, point: LabelPoint) -> bool:
        """Tell whether a point is of another class than a paused leaf (Algorithm 10, line 4)."""
        return point.label != first_class(self.classes(forest, 0), forest.n_set_words)

    def hides(self, forest: LabelForest) -> bool:
        """Tell whether there is one class below, so that what hangs there is hidden."""
        left, right = self.classes(forest, 0), self.classes(forest, 1)
        return forest.splits_pure == 0 and n_classes_in(left, right, forest.n_set_words) == 1

    def hold_first(self, forest: LabelForest, tree: LabelTree, t: int, q: int) -> None:
        """Put the single point of a leaf into its new row."""
        put_point(forest, tree, t, self, q)

    def count_point(self, forest: LabelForest, tree: LabelTree, t: int, point: LabelPoint) -> None:
        """Count a point's class at a settled leaf that it is about to join.

        A leaf of several classes gets a row of counts, made from its class or its points.
        """
        label = point.label
        if self.count_row == NONE:
            pure = self.n_classes(forest) == 1
            own = first_class(self.classes(forest, 0), forest.n_set_words)
            if pure and label == own:
                return
            number = tree.side_rows.n_rows
            tree.side_rows.n_rows = number + 1
            counts = tree.side_rows.row(number).counts(forest)
            for k in range(forest.count_width):
                counts[k] = 0
            if pure:
                counts[own] = self.n_samples
            else:
                q = self.first_point
                while q != NONE:
                    of_q = forest.points.row(q).label
                    counts[of_q] = counts[of_q] + 1
                    q = forest.links_of(q)[t]
            self.count_row = number
        counts = tree.side_rows.row(self.count_row).counts(forest)
        counts[label] = counts[label] + 1


# Word of a node's row at which its sets begin.
SETS_WORD = LabelNode.SIZE // 4


class LabelTree(Tree):
    """A tree over classes."""

    nodes: Table[LabelNode]
    side_rows: Table[CountRow]


class LabelForest(Forest):
    """A forest over classes."""

    trees: Array[LabelTree]
    points: Table[LabelPoint]
    # Words of a set of classes, and classes for which a row of counts has room.
    n_set_words: Int64
    count_width: Int64
    n_classes: Int64
    # Whether blocks of one class are cut, too, instead of pausing.
    splits_pure: Int64
    # Rate of the discount: d = exp(-gamma delta).
    gamma: Float64
    # Probabilities of the sample that was predicted last.
    probabilities: Float64s


L = TypeVar("L", bound=LabelForest)

