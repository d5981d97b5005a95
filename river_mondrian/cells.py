"""Mondrian trees whose leaves are cells with a number, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .arena import grown
from .kernels import cells, mondrian
from .kernels import layout as at
from .partitions.mondrian.trees import Carried, MondrianTrees, Node, Partitions

SMALLEST_TABLE = 64


@dataclass
class CellNode(Node):
    """A node with the number of its cell."""

    cell: int


class CellTrees(MondrianTrees[CellNode]):
    """Mondrian trees of numbered cells (see `kernels.cells`).

    A point is stored where it opens a cell, so that memory grows with the cells.

    Parameters
    ----------
    partitions
        What all kinds of trees are told.
    lifetimes
        Lifetimes whose cells are numbered, in ascending order, at which cuts end at the last. None
        stands for that of each tree.

    """

    _NODE = CellNode
    _POINT_WORDS: ClassVar[int] = 0

    def __init__(self, partitions: Partitions, lifetimes: Sequence[float] | None = None) -> None:
        # A row for each tree.
        self.lifetimes = np.zeros((partitions.n_trees, len(lifetimes or [0.0])))
        # The partition and the number within it of each column's cell.
        self.owners = np.zeros((SMALLEST_TABLE, 2), dtype=np.int32)
        self.n_columns = 0
        super().__init__(partitions)
        ends = self.trees.view(np.float64)[:, at.LIFETIME]
        self.lifetimes[:] = ends[:, None] if lifetimes is None else lifetimes
        ends[:] = self.lifetimes[:, -1]

    def _set_up(self) -> None:
        self.shared[at.N_WORDS] = -1
        self.shared[at.SPLIT_PURE] = 1
        self.shared[at.N_LIFETIMES] = self.lifetimes.shape[1]

    def _carried_words(self) -> int:
        return at.CELL_WORDS

    def _finish(self) -> None:
        super()._finish()
        self.shared[at.LIFETIMES] = self.lifetimes.ctypes.data
        self.shared[at.OWNERS] = self.owners.ctypes.data
        self._reserve_columns()

    def _reserve_columns(self) -> None:
        """Make room for the columns that a sample may need."""
        need = self.n_columns + self.lifetimes.size
        if need > len(self.owners):
            self.owners = grown(self.owners, need)
            self.shared[at.OWNERS] = self.owners.ctypes.data

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state["shared"][[at.OWNERS, at.LIFETIMES]] = 0
        state["owners"] = self.owners[: self.n_columns].copy()
        return state

    @property
    def nbytes(self) -> int:
        """Bytes held by arrays."""
        return super().nbytes + self.owners.nbytes + self.lifetimes.nbytes + 256

    # Learning.

    def learn(self, values: int, out: int) -> int:
        """Extend the trees by the values at an address; `out` is as for `kernels.cells.number`.

        Returns -1, or the dimension whose value is too large; then nothing has changed.
        """
        point = self.n_points
        if point >= self.point_capacity:
            self._make_room()
        said = cells.learn_one(self.address, values, point, out)
        if 0 <= said < cells.GREW:
            self._reserve_rows(said, int(self.trees[said, at.NEED_ROWS]))
            self._extend(0, len(self.trees), mondrian.LANES)
            said = cells.number(self.address, point, out)
        if said < -1:
            return int(-2 - said)
        self.n_samples += 1
        if said == cells.GREW:
            self.n_points = point + 1
            self.n_columns = int(self.shared[at.N_COLUMNS])
            self._reserve_columns()
        return -1

    # Reading.

    def _carried(self, t: int, points: NDArray[np.int32], hidden: bool) -> Carried:
        links = int(self.shared[at.LINKS])

        def carried(ref: int, row: NDArray[np.int32]) -> tuple[bool, bool, tuple[int]]:
            if ref < 0:
                return True, False, (int(row[links + t]),)
            return bool(row[at.DIM] < 0), False, (int(row[at.CELL]),)

        return carried
