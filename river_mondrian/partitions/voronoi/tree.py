"""A tree of points, by which the nearest centres of many Voronoi diagrams are found at once."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...records import Float32s, Float64s, Int64s, Memory, owned
from ..points import records_of
from .axes import Frame, axes_for, deviation, project_rows
from .bounds import tree_slack
from .records import Owner, Pending, PointTreeRecord
from .search import LEAF


class PointTree:
    """A complete binary tree of the rows of a matrix, split at medians of principal coordinates.

    Parameters
    ----------
    rows
        Points, whose squared distances fit single precision; rows may be padded.
    members
        The points of each diagram (a column per diagram, in the order in which ties are broken).
    frame
        Mean and axes, from `find_axes`.
    order
        The points' numbers, which are brought into the order in which leaves hold the points.

    """

    def __init__(
        self,
        rows: NDArray[np.float32],
        members: NDArray[np.int32],
        frame: Frame,
        order: NDArray[np.int64],
    ) -> None:
        n = len(rows)
        self.mean, self.axes = frame
        d = len(self.mean)
        self.n_axes = axes_for(d)
        self.n_coordinates = self.n_axes + (self.n_axes < d)
        self.width = self.axes.shape[1]
        # How far lower bounds may be off.
        shape = d, self.n_axes, self.n_coordinates
        self.slack = tree_slack(*shape, deviation(self.axes, self.n_axes))
        coordinates = self._project(rows)
        depth = max(0, (-(-n // LEAF) - 1).bit_length())
        bounds = np.array([0, n])
        for _ in range(depth):
            bounds = self._split(coordinates, bounds, order)
        self.leaf_starts = bounds
        self._box(coordinates[order], depth)
        self._find_owners(members, order)
        self._bind()

    def _project(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the coordinates of points, padded."""
        coordinates = np.zeros((len(rows), self.width), dtype=np.float32)
        room = np.zeros(self.width)
        project_rows(
            Float32s.of(rows),
            len(rows),
            rows.shape[1],
            Float64s.of(self.mean),
            len(self.mean),
            Float64s.of(self.axes),
            self.n_axes,
            self.n_coordinates,
            Float64s.of(room),
            self.width,
            Float32s.of(coordinates),
        )
        return coordinates

    def _split(
        self,
        coordinates: NDArray[np.float32],
        bounds: NDArray[np.int64],
        order: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Split each part of the order at the median of its widest coordinate."""
        finer = np.empty(2 * len(bounds) - 1, dtype=np.int64)
        finer[::2] = bounds
        for k in range(len(bounds) - 1):
            part = order[bounds[k] : bounds[k + 1]]
            own = coordinates[part]
            widest = own[:, np.argmax(own.var(axis=0))]
            half = len(part) // 2
            part[:] = part[np.argpartition(widest, half)]
            finer[2 * k + 1] = bounds[k] + half
        return finer

    def _box(self, ordered: NDArray[np.float32], depth: int) -> None:
        """Lay out the leaves' coordinates, and the boxes of all nodes."""
        n_leaves = 1 << depth
        starts = self.leaf_starts
        self.coordinates = np.zeros((n_leaves, self.n_coordinates, LEAF), dtype=np.float32)
        self.boxes = np.empty((2 * n_leaves - 1, 2, self.width), dtype=np.float32)
        for leaf in range(n_leaves):
            points = ordered[starts[leaf] : starts[leaf + 1]]
            self.coordinates[leaf, :, : len(points)] = points[:, : self.n_coordinates].T
            box = self.boxes[n_leaves - 1 + leaf]
            box[0], box[1] = points.min(axis=0), points.max(axis=0)
        for node in range(n_leaves - 2, -1, -1):
            children = self.boxes[2 * node + 1 : 2 * node + 3]
            self.boxes[node, 0] = children[:, 0].min(axis=0)
            self.boxes[node, 1] = children[:, 1].max(axis=0)

    def _find_owners(self, members: NDArray[np.int32], order: NDArray[np.int64]) -> None:
        """List the diagrams of each point, and its column in each."""
        psi, t = members.shape
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        points = place[members]
        columns = np.arange(psi)[:, None] + psi * np.arange(t)
        ranks = np.argsort(points, axis=None, kind="stable")
        self.owners = np.empty((psi * t, 2), dtype=np.int32)
        self.owners[:, 1] = columns.ravel()[ranks]
        self.owners[:, 0] = self.owners[:, 1] // psi
        counts = np.bincount(points.ravel(), minlength=len(order))
        self.owner_starts = np.concatenate([[0], np.cumsum(counts)])

    def _bind(self) -> None:
        # The record and what only kernels write to.
        self.memory = Memory(PointTreeRecord)
        record = self.record = self.memory[0]
        record.n_axes, record.n_coordinates = self.n_axes, self.n_coordinates
        record.width, record.first_leaf = self.width, len(self.leaf_starts) - 2
        record.relative, record.absolute, record.least = self.slack
        record.axes = Float64s.of(self.axes)
        record.mean = Float64s.of(self.mean)
        record.boxes = Float32s.of(self.boxes)
        record.coordinates = Float32s.of(self.coordinates)
        record.leaf_starts = Int64s.of(self.leaf_starts)
        record.owner_starts = Int64s.of(self.owner_starts)
        record.owners = records_of(Owner, self.owners)
        self.memory.own("projection", np.zeros(self.width))
        self.memory.own("query", np.zeros(self.width, dtype=np.float32))
        self.memory.own("lower", np.zeros(LEAF, dtype=np.float32))
        stack = np.zeros((len(self.boxes).bit_length() + 1, 2), dtype=np.int64)
        self.memory.arrays["stack"] = stack
        record.stack = records_of(Pending, stack)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("memory", "record")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(owned(state))
        self._bind()

    @property
    def visited(self) -> tuple[int, int]:
        """Leaves and points that searches have visited so far."""
        return self.record.n_leaves_visited, self.record.n_points_visited

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = [value for value in self.__dict__.values() if isinstance(value, np.ndarray)]
        arrays += [self.memory.bytes, *self.memory.arrays.values()]
        return sys.getsizeof(self) + sum(array.nbytes for array in arrays)
