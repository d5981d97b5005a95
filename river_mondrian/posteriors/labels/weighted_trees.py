"""Trees over classes of weighted samples (see `weighted_records`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...partitions.mondrian.inspection import Kept
from ...partitions.mondrian.records import Node, Point, Tree
from ...partitions.mondrian.tables import TreeTable
from ...records import FLOAT64, Float64s, Int32s, Int64s, Part, state_words
from . import weighted_hnsp
from .checking import check_weighted
from .records import LabelPoint
from .trees import HierarchicalTrees, LabelTrees, LabelView
from .weighted_records import WeightedForest, WeightedNode, WeightedPoint, WeightedTree

# Classes for which a row has room at first.
FIRST_CLASSES = 2


@dataclass
class WeightedView(LabelView):
    """A node with the weight of all samples below."""

    weight: float

    @property
    def mass(self) -> float:
        """The weight."""
        return self.weight


class WeightedTrees(HierarchicalTrees[WeightedForest]):
    """Trees whose samples have weights."""

    _VIEW: Any = WeightedView

    _FOREST = WeightedForest
    _TREE: ClassVar[type[Tree]] = WeightedTree
    _NODE: ClassVar[type[Node]] = WeightedNode
    _POINT: ClassVar[type[Point]] = WeightedPoint
    _KERNELS: ClassVar[Any] = weighted_hnsp
    _PREDICTION = weighted_hnsp.WeightedPrediction

    def _set_up(self) -> None:
        self._set_up_classes()
        self.forest.class_capacity = FIRST_CLASSES

    def _kept_parts(self) -> tuple[Part, ...]:
        n = self.forest.class_capacity
        return Part("weights_left", FLOAT64, n), Part("weights_right", FLOAT64, n)

    def _check_kind(self) -> None:
        check_weighted(self)

    def add_class(self) -> int:
        """Add a class; returns its number."""
        forest = self.forest
        label = forest.n_classes
        forest.n_classes = label + 1
        old = forest.class_capacity
        if label >= old:
            box = forest.box_word
            forest.class_capacity = 2 * old
            self._set_words()
            # A weight takes two words.
            self._relay_sides(2 * old, 4 * old, box)
        return label

    def take(self, trees: LabelTrees) -> None:
        """Become as other trees, which are closed and whose samples all weigh 1."""
        for own, known in ((self.shared, trees.shared), (self.trees, trees.trees)):
            common = set(state_words(own.kind)) - {"side_rows.n_rows", "free_side_row"}
            for name in common.intersection(state_words(known.kind)):
                own.words[name] = known.words[name]
        forest, plain = self.forest, trees.forest
        forest.class_capacity = max(FIRST_CLASSES, plain.n_classes)
        if trees.categories is not None:
            self.categories = trees.categories.copied()
        self.keeps_inputs = trees.keeps_inputs
        self._set_words()
        self.frames, self.given = trees.frames.copy(), trees.given
        self.warm_up = None if trees.warm_up is None else trees.warm_up.copy()
        self.directions = None if trees.directions is None else trees.directions.copied()
        self._take_rows(trees)
        self.remainders, self.arrivals = trees.remainders.copied(), trees.arrivals.copied()
        # Calls that have been prepared are for the others.
        self.version = trees.version + 1
        self._finish()
        for t in range(self.n_drawn):
            order = Int32s.of(np.empty(self.trees[t].nodes.n_rows, dtype=np.int32))
            weighted_hnsp.fill_weights(forest, t, plain, order)

    def _take_rows(self, trees: LabelTrees) -> None:
        """Take over the rows of other trees, but for what they keep of classes."""
        forest, plain = self.forest, trees.forest
        # The words of `Node`.
        box = (plain.box_word, forest.box_word, plain.node_words - plain.box_word)
        self.nodes = trees.nodes.relaid(self._node_layout().words, [(0, 0, Node.WORDS), box])
        self.boxes = trees.boxes.copied()
        n_words = plain.links_word - plain.values_word + len(self.trees)
        rest = (plain.values_word, forest.values_word, n_words)
        words = self._point_layout().words
        self.points = trees.points.relaid(words, [(0, 0, LabelPoint.WORDS), rest])
        weight = next(c for c in self._point_layout().columns if c.name == "weight")
        for chunk in self.points.chunks[0]:
            weight.over(chunk, len(chunk), self.points.row_bytes)[:] = 1.0

    def _put(self, labels: NDArray[np.int64], weights: NDArray[np.float64], first: int) -> None:
        n, numbers = len(labels), (Int64s.of(labels), Float64s.of(weights))
        weighted_hnsp.put_samples(self.forest, *numbers, n, first)

    def class_weights(self, t: int, table: TreeTable) -> NDArray[np.float64]:
        """Return the weights of the classes below a tree's nodes."""
        n_classes = int(self.forest.n_classes)
        found = np.zeros((len(table), n_classes))
        points, rows = np.flatnonzero(table.refs < 0), np.flatnonzero(table.refs >= 0)
        numbers = ~table.refs[points]
        labels, weights = (self.column("points", name)[numbers] for name in ("label", "weight"))
        found[points, labels] = weights
        for side in ("weights_left", "weights_right"):
            found[rows] += self.column("nodes", side, t)[table.refs[rows], :n_classes]
        return found

    def _kept(self, t: int, hidden: bool) -> Kept:
        forest = self.forest
        n_classes = forest.n_classes

        def kept(ref: int, record: Any) -> tuple[bool, bool, tuple[NDArray[np.float64], float]]:
            if ref < 0:
                counts = np.zeros(n_classes)
                counts[record.label] = record.weight
                return True, not self.split_pure, (counts, record.weight)
            weight = record.mass(forest)
            sides = [record.weights(forest, side).view()[:n_classes].copy() for side in range(2)]
            pauses = record.n_below == 1 and not self.split_pure
            if record.dim >= 0 and (hidden or not pauses):
                return False, False, (np.minimum(sides, 1.0).sum(axis=0), weight)
            return True, pauses, (sides[0] + sides[1], weight)

        return kept
