"""Reader of adaptive trees over classes: views of nodes, gains of cuts, and explanations."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...partitions.mondrian.reading import Description, NodeView, TreeTable
from ...records import Floats, Ints, Singles
from ..gains import class_weights, gains_of_classes
from ..rebuilt.rebuilt_trees import RebuiltReader
from . import seen


@dataclass
class AdaptiveView(NodeView):
    """A node with its class weights. The weights are integers if all samples have weight 1."""

    counts: NDArray[Any]


class AdaptiveReader(RebuiltReader):
    """A reader of `AdaptiveTrees`."""

    VIEW: ClassVar[Any] = AdaptiveView
    N_ORDERS: ClassVar[int] = 4

    def counts(self, slot: int) -> Singles:
        """Return the classes' weights in a tree's rows of statistics, shape (rows, classes)."""
        rows = self.store.side_rows.rows(slot, self.store.trees[slot].side_rows.n_rows)
        return seen.counts_in(rows, int(self.forest.n_classes), bool(self.forest.is_sparse))

    def leaf_weights(self, slot: int, rows: Ints) -> Floats:
        """Return the class weights of leaves, given the leaves' rows, shape (leaves, classes)."""
        weights = np.zeros((len(rows), int(self.forest.n_classes)))
        numbers = self.column("nodes", "statistics_row", slot)[rows]
        weights[numbers > 0] = self.counts(slot)[numbers[numbers > 0] - 1]
        return weights

    def description(self, slot: int, hidden: bool) -> Description:
        """Return a function that describes a node (see `TreeReader.description`)."""
        n_classes, of_rows = int(self.forest.n_classes), self.counts(slot)
        # If all samples have weight 1, counts are returned as integers.
        kind = np.float64 if self.forest.is_weighted else np.int64

        def describe(ref: int, record: Any) -> tuple[bool, bool, tuple[NDArray[Any]]]:
            counts = np.zeros(n_classes, dtype=kind)
            if ref < 0:
                counts[record.label] = record.weight
                return True, True, (counts,)
            if record.statistics_row > 0:
                counts[:] = of_rows[record.statistics_row - 1]
            return record.dim < 0, bool((counts > 0).sum() == 1), (counts,)

        return describe

    def cut_gains(self, slot: int) -> tuple[TreeTable, Floats, float]:
        """Return a tree's `TreeTable`, the gain of each cut, and the weight of all samples."""
        table = self.table(slot)
        weights = class_weights(self, slot, table)
        return table, gains_of_classes(table, weights), float(weights[:1].sum())

    def predictions_of(self, rows: Floats) -> Floats:
        """Return the classes' probabilities for rows of inputs, shape (rows, classes)."""
        found: Floats = self.store.predict_rows(rows, 1)
        return found
