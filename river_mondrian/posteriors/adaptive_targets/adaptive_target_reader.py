"""Reader of adaptive trees over targets: views of nodes, gains of cuts, and explanations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...partitions.mondrian.reading import Description, NodeView, TreeTable
from ...records import Floats
from .. import gains
from ..rebuilt.rebuilt_trees import RebuiltReader
from .means import TARGET


@dataclass
class TargetsView(NodeView):
    """A node with the weight and the means of the targets at the node."""

    weight: float
    mean: float
    late_mean: float


class AdaptiveTargetReader(RebuiltReader):
    """A reader of `AdaptiveTargetTrees`."""

    VIEW: ClassVar[Any] = TargetsView
    N_ORDERS: ClassVar[int] = 12

    def description(self, slot: int, hidden: bool) -> Description:
        """Return a function that describes a node (see `TreeReader.description`)."""
        k = int(self.store.trees[slot].learns)

        def describe(ref: int, record: Any) -> tuple[bool, bool, tuple[float, float, float]]:
            if ref < 0:
                target = float(record.targets[k])
                return True, False, (float(record.weight), target, target)
            known = float(record.weight), float(record.mean), float(record.late_mean)
            return record.dim < 0, False, known

        return describe

    def cut_gains(self, slot: int) -> tuple[TreeTable, Floats, float]:
        """Return a tree's `TreeTable`, the gain of each cut, and the weight of all samples."""
        table = self.table(slot)
        if not len(table):
            return table, np.empty(0), 0.0
        masses, leaves = self.column("points", "weight"), table.leaves
        targets = self.column("points", "targets")[:, int(self.store.trees[slot].learns)]
        rows = (self.column("nodes", name, slot) for name in ("weight", "mean"))
        weights, centres = map(table.at_leaves, (masses, targets), rows)
        numbers = table.at_leaves(np.ones(len(masses)), self.column("nodes", "n_samples", slot))
        centres[leaves] -= np.average(centres[leaves], weights=weights[leaves])
        total = float(weights[leaves] @ centres[leaves] ** 2)
        blocks = gains.blocks_of(table, weights, numbers, centres, total)
        return table, gains.gains_of_means(table, blocks), float(blocks.weights[0])

    def importance_slots(self) -> Sequence[int]:
        """Return the slots of the trees of all samples that learn targets."""
        slots = super().importance_slots()
        return [slot for slot in slots if self.store.trees[slot].learns == TARGET]

    def predictions_of(self, rows: Floats) -> Floats:
        """Return the point predictions for rows of inputs, shape (rows, 1)."""
        found: Floats = self.store.predict_rows(rows, 1)[:, :1]
        return found
