"""The map of isolation trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from ...checks import check_number, check_types, refuse
from ...maps.compiled import Transform
from ...records import Array, Float32s, Float64s, Int32s, Int64s, Memory
from ..points import PointPartitions, parts_of, records_of
from .checking import check_cuts, check_growing
from .grow import grow_trees
from .records import Cut, Growth, IsolationTrees, Part
from .walk import walk_entries, walk_vector

# Entries that one call visits while it grows isolation trees, about 5 ms.
GROWTH = 1_000_000


class IsolationTreesMap(PointPartitions):
    """Isolation trees (section 4.1)."""

    METHOD = "iforest"
    KIND = IsolationTrees
    record: IsolationTrees

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.record.n_cells = self.psi
        self.draws = args[-1].random((self.n_out, 2 * self.psi))
        self.n_grown = 0

    def _lay_out(self, points: scipy.sparse.csr_matrix) -> None:
        self.starts, self.places, self.values = parts_of(points)
        shape = (self.n_out, max(1, self.psi - 1), Cut.WORDS)
        self.nodes = np.zeros(shape, dtype=np.int32)

    @property
    def ready(self) -> bool:
        """Whether all trees have been grown."""
        return self.n_grown == self.n_out

    def advance(self) -> bool:
        """Grow some trees; True once all of them are there."""
        memory, psi, n_features = Memory(Growth), self.psi, max(1, self.n_inputs)
        growth = memory[0]
        growth.starts = Int64s.of(self.starts)
        growth.places = Int32s.of(self.places)
        growth.values = Float32s.of(self.values)
        growth.n_trees, growth.n_members = self.n_out, psi
        growth.all_members = Int32s.of(self.members)
        growth.all_draws = Float64s.of(self.draws)
        growth.all_nodes = self._cuts()
        for name in ("low", "high"):
            memory.own(name, np.empty(n_features, dtype=np.float32))
        memory.own("count", np.zeros(n_features, dtype=np.int64))
        for name, n in (("met", n_features), ("members", psi), ("order", psi), ("above", psi)):
            memory.own(name, np.empty(n, dtype=np.int64))
        parts = np.empty((psi + 1, Part.SIZE // 8), dtype=np.int64)
        growth.parts = records_of(Part, parts)
        self.n_grown = grow_trees(growth, self.n_grown, GROWTH)
        if not self.ready:
            return False
        # What only growing needs.
        del self.starts, self.places, self.values, self.members, self.draws
        self._finish()
        return True

    def _cuts(self) -> Array[Cut]:
        """Return the nodes of all trees."""
        return records_of(Cut, self.nodes.reshape(-1, self.nodes.shape[2]))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        nodes = (self.n_out, max(1, self.psi - 1), Cut.WORDS)
        return super()._shapes() | {"nodes": nodes}

    def _check(self) -> None:
        super()._check()
        check_types(self, {"n_grown": int, "nodes": np.ndarray})
        check_number(self, "n_grown", self.n_grown, 0, self.n_out)

    def _check_content(self) -> None:
        if self.nodes.dtype != np.int32:
            refuse(self, "nodes", str(self.nodes.dtype), "but they are of int32")
        check_cuts(self, self.nodes[: self.n_grown], self.psi, max(1, self.n_inputs))
        if not self.ready:
            check_growing(self)

    def _transform(self) -> Transform:
        return walk_entries if self.sparse else walk_vector

    def _bind(self) -> None:
        self.record.factors = Float64s.of(self.factors)
        self.record.nodes = self._cuts()
        self.memory.own("row", np.zeros(max(1, self.n_inputs), dtype=np.float32))
