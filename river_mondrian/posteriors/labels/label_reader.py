"""Reader of trees over classes: views of nodes, gains of cuts, and explanations."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...partitions.mondrian.readers import Explainer
from ...partitions.mondrian.reading import Description, NodeView, Path, TreeTable, record_at
from ...records import Float64s, Floats, Int64s, Ints
from ..gains import class_weights, gains_of_classes
from . import hnsp
from .records import LabelNode


@dataclass
class LabelView(NodeView):
    """A node with its weight and counts: class weights at a leaf, otherwise the HNSP's c."""

    counts: NDArray[Any]
    weight: float

    @property
    def mass(self) -> float:
        """The weight of all samples below the node."""
        return self.weight


class LabelReader(Explainer):
    """A reader of `LabelTrees`."""

    VIEW: ClassVar[Any] = LabelView

    def leaf_weights(self, slot: int, rows: Ints) -> Floats:
        """Return the class weights of leaves, given the leaves' rows, shape (leaves, classes)."""
        weights = np.empty((len(rows), int(self.forest.n_classes)))
        hnsp.count_leaves(self.forest, slot, Int64s.of(rows), len(rows), Float64s.of(weights))
        return weights

    def cut_gains(self, slot: int) -> tuple[TreeTable, Floats, float]:
        """Return a tree's `TreeTable`, the gain of each cut, and the weight of all samples."""
        table = self.table(slot)
        weights = class_weights(self, slot, table)
        if not self.store.split_pure:
            # Cuts of nodes with one class are hidden, so their gains are not counted.
            table = table.ending_at((weights > 0.0).sum(axis=1) == 1)
        return table, gains_of_classes(table, weights), float(weights[:1].sum())

    def _smoothed(
        self, t: int, ref: int, span: float, above: Floats
    ) -> tuple[Floats, Floats, float]:
        """Return a node's distribution (see `hnsp`), the node's tables, and the discount."""
        record = record_at(self.forest, self.store.trees[t], ref)
        counts = self.description(t, False)(ref, record)[2][0]
        tables = np.minimum(counts, 1.0)
        discount = math.exp(-float(self.forest.gamma) * span)
        # Quotients are computed first, since products with a small weight may underflow.
        customers, tables_each = counts / counts.sum(), tables / counts.sum()
        smoothed = customers - discount * tables_each + discount * tables_each.sum() * above
        return smoothed, tables, discount

    def root_prediction(self) -> Floats:
        """Return the mean over trees of the roots' distributions, shape (classes,)."""
        n_classes = int(self.forest.n_classes)
        base, mean = np.full(n_classes, 1.0 / n_classes), np.zeros(n_classes)
        for t in range(self.store.n_trees):
            tree, ref = self.store.trees[t], int(self.store.trees[t].root)
            is_leaf = self.description(t, False)(ref, record_at(self.forest, tree, ref))[0]
            span = self.end_of(t) if is_leaf else float(tree.nodes.row(ref).delta)
            mean += self._smoothed(t, ref, span, base)[0] / self.store.n_trees
        return mean

    def predictions_on(self, path: Path) -> tuple[Floats, Floats]:
        """Return the nodes' distributions, and the effects of branching off for `contributions`."""
        gamma, n_classes = float(self.forest.gamma), int(self.forest.n_classes)
        above = np.full(n_classes, 1.0 / n_classes)
        here, branches = np.zeros((2, len(path.refs), n_classes))
        for i, ref in enumerate(path.refs.tolist()):
            current, tables, discount = self._smoothed(path.tree, ref, float(path.spans[i]), above)
            # After branching off, the prediction is a mixture of the distribution above and the
            # node's tables.
            numbers = path.etas[i], path.reach[i], path.stays[i]
            stopped, passed = hnsp.branching(*numbers, gamma, discount)
            branches[i] = stopped * (tables / tables.sum() - current) + passed * (above - current)
            here[i] = above = current
        return here, branches

    def _sides(self, node: LabelNode) -> NDArray[Any]:
        """Return the class weights on both sides of a node, shape (2, classes).

        In a forest without weights, the weight is 1 if samples of the class are on the side,
        otherwise 0.
        """
        forest, n_classes = self.forest, int(self.forest.n_classes)
        if self.store.has_weights:
            return np.array([node.weights(forest, k).view()[:n_classes] for k in range(2)])
        words = np.array([node.classes(forest, k).view() for k in range(2)]).astype(np.uint32)
        bits = (words[:, :, None] >> np.arange(32, dtype=np.uint32)) & 1
        return bits.reshape(2, -1)[:, :n_classes].astype(np.int64)

    def description(self, slot: int, hidden: bool) -> Description:
        """Return a function that describes a node (see `TreeReader.description`)."""
        n_classes = int(self.forest.n_classes)
        # If nodes store no weights, counts are returned as integers.
        kind = np.float64 if self.store.has_weights else np.int64

        def describe(ref: int, record: Any) -> tuple[bool, bool, tuple[NDArray[Any], float]]:
            if ref < 0:
                counts = np.zeros(n_classes, dtype=kind)
                counts[record.label] = record.weight
                return True, not self.store.split_pure, (counts, record.weight)
            sides, weight = self._sides(record), record.mass(self.forest)
            pauses = int((sides > 0).any(axis=0).sum()) == 1 and not self.store.split_pure
            if record.dim >= 0 and (hidden or not pauses):
                return False, False, (np.minimum(sides, 1).sum(axis=0), weight)
            return True, pauses, (self.leaf_weights(slot, np.array([ref]))[0].astype(kind), weight)

        return describe
