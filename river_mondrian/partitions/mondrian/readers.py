"""Readers of trees: views of nodes, feature importances, and explanations of predictions.

A reader refers to the object that owns the trees, and changes nothing. Subclasses in `posteriors`
also read the statistics of nodes.
"""

import abc
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...records import ChunkedRows, Floats
from .reading import (
    Description,
    NodeView,
    Path,
    TreeTable,
    contributions,
    make_table,
    read_tree,
    traced,
)
from .transforms import place_of


class TreeReader:
    """A reader of a forest's trees.

    Parameters
    ----------
    store
        The owner of the trees, a `MondrianTrees`.

    """

    # The class of the nodes that `read` returns.
    VIEW: ClassVar[Any] = NodeView

    def __init__(self, store: Any) -> None:
        self.store = store
        self.forest = store.forest

    def slot_of(self, t: int) -> int:
        """Return the index in `store.trees` of the tree with the number `t`."""
        return t

    # Cuts in terms of inputs.

    def end_of(self, t: int) -> float:
        """Return the time before which predictions use the cuts of a tree."""
        return float(min(self.store.trees[t].lifetime, self.forest.horizon))

    def scaling_of(self, t: int) -> Floats:
        """Return the scaling of a tree's inputs: offsets and factors, shape (2, n_inputs)."""
        scaling: Floats = self.store.scaling_of(self.slot_of(t))
        return scaling

    def widths_of(self, t: int) -> Floats:
        """Return the widths of a tree's inputs: the reciprocals of the factors."""
        return 1.0 / self.scaling_of(t)[1]

    def cut_of(self, t: int, dim: int, cut: float) -> tuple[Floats, float]:
        """Return a tree's cut in terms of inputs: coefficients of the features, and a threshold.

        A sample is on the left if the scalar product of its inputs and the coefficients is at most
        the threshold.
        """
        offsets, factors = self.scaling_of(t)
        directions = self.store.directions
        if directions is None:
            one = np.zeros(self.store.n_inputs)
            one[dim] = 1.0
            return one, float(cut / factors[dim] + offsets[dim])
        raw = directions.of_tree(t)[dim] * factors
        return raw, float(cut + raw @ offsets)

    def directions_of(self, t: int, names: Sequence[Hashable]) -> list[dict[Any, float]]:
        """Return a tree's cut directions as mappings from feature to coefficient."""
        if not 0 <= t < self.store.n_trees:
            raise ValueError(f"there are trees 0 to {self.store.n_trees - 1}, got {t!r}")
        if self.store.directions is None:
            return [{name: 1.0} for name in names]
        rows = self.store.directions.of_tree(t) * self.scaling_of(t)[1]
        return [{n: v for n, v in zip(names, row, strict=True) if v} for row in rows.tolist()]

    def ranges(self) -> tuple[Floats, Floats]:
        """Return the lowest and the highest value of each feature, each as an array."""
        if self.store.directions is None:
            root = self.read(0)[0]
            low, high = root.lower, root.upper
            offsets, factors = self.scaling_of(0)
        else:
            low, high = self.store.directions.ranges()
            offsets, factors = self.store.current_scaling[:, : self.store.n_inputs]
        return low / factors + offsets, high / factors + offsets

    def level_place(self, t: int, dim: int, code: float) -> float:
        """Return the place of a category's level in a tree."""
        return place_of(self.store.categories.memory[0], self.slot_of(t), dim, code)

    # Nodes.

    def values_of_row(self, t: int) -> Floats:
        """Return the values of the last predicted sample in a tree."""
        first = self.store.trees[self.slot_of(t)].first_value
        values: Floats = self.store.row[first : first + self.forest.n_dims].astype(np.float64)
        return values

    def read(self, t: int, hidden: bool = False) -> list[Any]:
        """Return views of a tree's nodes in preorder.

        Parameters
        ----------
        t
            Number of the tree.
        hidden
            Whether to include hidden nodes, which have already been sampled below paused leaves.

        """
        slot = self.slot_of(t)
        return read_tree(
            self.forest, slot, self.end_of(slot), self.VIEW, self.description(slot, hidden)
        )

    def description(self, slot: int, hidden: bool) -> Description:
        """Return a function that describes a node, given the node's reference and record.

        The function returns whether the node is a leaf, whether the leaf is paused, and the
        subclass's fields.
        """
        return lambda ref, record: (ref < 0 or record.dim < 0, False, ())

    def column(self, table: str, name: str, slot: int = 0) -> NDArray[Any]:
        """Return a copy of a column of a tree's "nodes" or "side_rows", or of the "points"."""
        column = next(c for c in self.store._layouts()[table].columns if c.name == name)
        rows: ChunkedRows = getattr(self.store, table)
        number = 0 if table == "points" else self.store.trees[slot].slot
        return rows.column(number, self.store._n_rows()[table][number], column)

    def table(self, slot: int) -> TreeTable:
        """Return the table of a tree's nodes, including hidden nodes."""
        left, right, dims = (self.column("nodes", name, slot) for name in ("left", "right", "dim"))
        return make_table(int(self.store.trees[slot].root), left, right, dims < 0)


class Explainer(TreeReader, abc.ABC):
    """A reader that explains predictions and estimates feature importances.

    Each subclass defines the prediction at a node: class probabilities or a mean.
    """

    # Importances.

    @abc.abstractmethod
    def cut_gains(self, slot: int) -> tuple[TreeTable, Floats, float]:
        """Return a tree's table, the gain of each of its cuts, and the weight of all samples."""

    def importance_slots(self) -> Sequence[int]:
        """Return the slots of the trees whose importances are averaged."""
        return range(self.store.n_trees)

    def importances(self) -> Floats:
        """Return the mean over trees of each feature's total gain per unit of weight."""
        mean_gains = np.zeros(self.store.n_inputs)
        slots = self.importance_slots()
        for slot in slots:
            table, gains, weight = self.cut_gains(slot)
            dims = self.column("nodes", "dim", slot)[table.refs[table.inner]]
            by_dim = np.zeros(int(self.forest.n_dims))
            np.add.at(by_dim, dims, gains)
            if weight > 0.0:
                mean_gains += self.by_feature(slot, by_dim) / (weight * len(slots))
        return mean_gains

    def by_feature(self, slot: int, values: Floats) -> Floats:
        """Return values per feature from a tree's `values` per dimension.

        The value of a direction is divided among its features in proportion to the absolute value
        of each coefficient times the feature's range.
        """
        store, directions = self.store, self.store.directions
        if directions is None:
            return values
        low, high = directions.ranges()
        # `ranges` are in the current scaling. The tree may have another scaling, so the sides are
        # converted.
        current = store.current_scaling[1, : store.n_inputs]
        sides = (high - low) * (store.scaling_of(slot)[1] / current)
        extents = np.abs(directions.of_tree(slot)) * sides
        total = extents.sum(axis=1, keepdims=True)
        averages: Floats = (extents / np.where(total > 0.0, total, 1.0)).T @ values
        return averages

    # Explanations.

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        # The inputs of a sample without values: NaN, or 0 for features whose absent values are 0.
        self.absent = np.full(store.n_inputs, np.nan)

    @abc.abstractmethod
    def root_prediction(self) -> Floats:
        """Return the prediction at the roots, averaged over trees."""

    def predictions_on(self, path: Path) -> tuple[Floats, Floats]:
        """Return the predictions at a path's nodes, and the expected changes by branching off.

        Both arrays have a row for each step. An expected change is the change times the probability
        of branching off.
        """
        raise NotImplementedError

    def explain(self, inputs: Floats) -> tuple[int, Floats]:
        """Return the contribution of each feature to the prediction for these inputs.

        The prediction and the contributions are means over trees.

        Returns
        -------
        DONE or the index of an input whose value is too large, and an array with a row for each
        feature.

        """
        bad, paths, values = traced(self.forest, inputs)
        by_input = np.zeros((self.store.n_inputs, 1))
        for path in paths:
            tree = self.store.trees[path.tree]
            x = values[int(tree.first_value) :][: int(self.forest.n_dims)]
            parts = contributions(self.forest, tree, path, x, *self.predictions_on(path))
            by_input = by_input + self.by_feature(path.tree, parts)
        return bad, by_input / self.store.n_trees
