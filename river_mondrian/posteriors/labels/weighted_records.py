"""What a forest over classes keeps whose samples have weights: the sums of these, by class.

With real numbers the counts of Algorithm 5 of Lakshminarayanan et al. 2014 are c_jk, the weight of
class k, at a leaf, tab_jk = min(c_jk, 1) everywhere, and c_jk = tab_left,k + tab_right,k at an
internal node. Since min(min(a, 1) + min(b, 1), 1) = min(a + b, 1), the tables of a node are
min(W, 1) with the weight W of the class below it. So a node keeps that weight below either child.
"""

from __future__ import annotations

from typing import TypeVar

from ...limits import LARGEST_WEIGHT
from ...partitions.mondrian import faults
from ...partitions.mondrian.faults import FINE
from ...partitions.mondrian.records import (
    LEFT,
    NONE,
    RIGHT,
    Forest,
    LightNode,
    Point,
    Tree,
)
from ...records import Array, Float64, Float64s, Int32, Int64, Table
from .records import ClassForest, LabelPoint

# No sum of weights is larger.
MOST = LARGEST_WEIGHT * 2.0**63


class WeightedPoint(LabelPoint):
    """A stored sample with its class and its weight."""

    weight: Float64

    def put(self, label: int, weight: float) -> None:
        """Write a sample's class and weight."""
        self.label = label
        self.weight = weight

    def mass(self) -> float:
        """Return the weight."""
        return self.weight

    def is_like(self, other: Point) -> bool:
        """Tell whether two points are of one class and weight."""
        sample = WeightedPoint(other)
        return self.label == sample.label and self.weight == sample.weight

    def fault(self, forest: Forest) -> int:
        """Return what is wrong with a restored point."""
        if not 0 <= self.label < ClassForest(forest).n_classes:
            return faults.LABEL
        return FINE if 0.0 < self.weight <= LARGEST_WEIGHT else faults.WEIGHT


class WeightedNode(LightNode):
    """A node with the weights of the classes below each child; a leaf has its own on the left."""

    # Classes below.
    n_below: Int32

    def weights(self, forest: WeightedForest, side: int) -> Float64s:
        """Return the weights on a side."""
        capacity = forest.class_capacity
        return Float64s(self, WEIGHTS_WORD + 2 * capacity * side, capacity)

    def add_weight(self, forest: WeightedForest, side: int, point: WeightedPoint) -> None:
        """Add a point's weight to those on a side."""
        label, own = point.label, self.weights(forest, side)
        if not own[label] + self.weights(forest, LEFT + RIGHT - side)[label] > 0.0:
            self.n_below = self.n_below + 1
        own[label] = own[label] + point.weight

    def count_classes(self, forest: WeightedForest) -> int:
        """Count the classes that have any weight."""
        left, right = self.weights(forest, LEFT), self.weights(forest, RIGHT)
        found = 0
        for k in range(forest.n_classes):
            if left[k] + right[k] > 0.0:
                found += 1
        return found

    def fault(self, forest: Forest, tree: Tree, t: int) -> int:
        """Return what is wrong with the weights of a restored row."""
        weighted = WeightedForest(forest)
        for side in range(2):
            own, total = self.weights(weighted, side), 0.0
            for k in range(weighted.class_capacity):
                if not 0.0 <= own[k] <= MOST or (k >= weighted.n_classes and own[k] > 0.0):
                    return faults.WEIGHTS
                total += own[k]
            has_any = side == LEFT or self.dim >= 0
            if (total > 0.0) != has_any:
                return faults.WEIGHTS
        return FINE if self.n_below == self.count_classes(weighted) else faults.N_BELOW

    def mass(self, forest: Forest) -> float:
        """Return the weight of all samples below."""
        weighted = WeightedForest(forest)
        left, right = self.weights(weighted, LEFT), self.weights(weighted, RIGHT)
        total = 0.0
        for k in range(weighted.n_classes):
            total += left[k] + right[k]
        return total

    def add_point(self, forest: Forest, point: Point) -> None:
        """Add a point's weight to a leaf's."""
        self.add_weight(WeightedForest(forest), LEFT, WeightedPoint(point))

    def pass_point(self, forest: Forest, side: int, point: Point) -> None:
        """Add a point's weight to those of a side."""
        self.add_weight(WeightedForest(forest), side, WeightedPoint(point))

    def inherit(self, forest: Forest, tree: Tree, side: int, child: int) -> None:
        """Initialise the weights of a side from its child, both of whose weights it adds up."""
        weighted = WeightedForest(forest)
        if child < 0:
            self.add_weight(weighted, side, weighted.points.row(~child))
            return
        own, below = self.weights(weighted, side), WeightedTree(tree).nodes.row(child)
        left, right = below.weights(weighted, LEFT), below.weights(weighted, RIGHT)
        for k in range(weighted.n_classes):
            own[k] = left[k] + right[k]
        self.n_below = self.count_classes(weighted)

    def drop_point(self, forest: Forest, tree: Tree, point: Point) -> None:
        """Add up the weights of a leaf's points anew: differences would leave rounding errors."""
        weighted = WeightedForest(forest)
        own = self.weights(weighted, LEFT)
        for k in range(weighted.n_classes):
            own[k] = 0.0
        self.n_below = 0
        q = self.first_point
        while q != NONE:
            self.add_weight(weighted, LEFT, weighted.points.row(q))
            q = weighted.links_of(q)[tree.slot]

    def renew_side(self, forest: Forest, tree: Tree, side: int, child: int) -> None:
        """Make the weights of a side anew."""
        weighted = WeightedForest(forest)
        own = self.weights(weighted, side)
        for k in range(weighted.n_classes):
            own[k] = 0.0
        self.inherit(forest, tree, side, child)
        self.n_below = self.count_classes(weighted)

    def is_paused(self, forest: Forest) -> bool:
        """Tell whether a leaf's block pauses: it holds one class (Algorithm 9, line 2)."""
        return WeightedForest(forest).splits_pure == 0 and self.n_below == 1

    def ends_pause(self, forest: Forest, point: Point) -> bool:
        """Tell whether a point is of another class than a paused leaf (Algorithm 10, line 4)."""
        own = self.weights(WeightedForest(forest), LEFT)
        return not own[WeightedPoint(point).label] > 0.0

    def hides(self, forest: Forest) -> bool:
        """Tell whether there is one class below, so that what is there is hidden."""
        return WeightedForest(forest).splits_pure == 0 and self.n_below == 1


# Word of a node's row at which its weights begin.
WEIGHTS_WORD = WeightedNode.WORDS


class WeightedTree(Tree):
    """A tree over classes of weighted samples."""

    nodes: Table[WeightedNode]


class WeightedForest(ClassForest):
    """A forest over classes of weighted samples."""

    trees: Array[WeightedTree]
    points: Table[WeightedPoint]
    # Classes for which a row has room.
    class_capacity: Int64

    def may_forget(self) -> bool:
        """Tell that samples may be forgotten."""
        return True


W = TypeVar("W", bound=WeightedForest)
