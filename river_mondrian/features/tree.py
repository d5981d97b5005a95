"""A tree of points, by which the nearest centres of many Voronoi diagrams are found at once."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..kernels import tree
from ..kernels.distance import padded

# Features up to which axes are exactly the principal ones. Beyond, they are near them: any
# orthogonal axes give bounds. Products in Python are left to kernels, as a linear algebra library
# may wait long for threads.
EXACT_AXES = 32

# Multiplications by which a round towards the principal axes is limited, about 5 ms, and rounds.
ROUND = 10_000_000
ROUNDS = 2

# Mean, and axes: a row per feature, padded.
Frame = tuple[NDArray[np.float64], NDArray[np.float64]]


def axes_for(n_features: int) -> int:
    """Return how many principal axes pay (measured)."""
    for most, axes in ((16, n_features), (32, 16), (255, 32)):
        if n_features <= most:
            return axes
    return 64


def find_axes(rows: NDArray[np.float32]) -> Frame:
    """Return the mean of points, and orthogonal directions along which they vary much."""
    d = rows.shape[1]
    n_axes, mean = axes_for(d), rows.mean(axis=0, dtype=np.float64)
    axes = np.zeros((d, padded(n_axes + (n_axes < d))))
    sample = rows[:: -(-len(rows) * axes.size // ROUND)] if d > EXACT_AXES else rows
    centred = np.ascontiguousarray(sample - mean)
    if d <= EXACT_AXES:
        axes[:, :n_axes] = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :n_axes]
        return mean, axes
    directions = np.random.default_rng(0).normal(size=(n_axes, d))
    for _ in range(ROUNDS):
        axes[:, :n_axes] = directions.T
        axes[:, :n_axes] = tree.multiply(centred, axes)[:, :n_axes]
        directions = np.ascontiguousarray(axes[:, :n_axes].T)
        tree.orthogonalize(directions)
    axes[:, :n_axes] = directions.T
    return mean, axes


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

    # Room that kernels write to, and addresses.
    _SCRATCH: ClassVar[frozenset[str]] = frozenset(
        {"record", "address", "projection", "query", "lower", "stack"}
    )

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
        coordinates = np.zeros((n, self.width), dtype=np.float32)
        tree.project_rows(rows, self.mean, self.axes, self.n_axes, self.n_coordinates, coordinates)
        depth = max(0, (-(-n // tree.LEAF) - 1).bit_length())
        bounds = np.array([0, n])
        for _ in range(depth):
            bounds = self._split(coordinates, bounds, order)
        self.leaf_starts = bounds
        self._box(coordinates[order], depth)
        self._find_owners(members, order)
        self._bind()

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
        self.coordinates = np.zeros((n_leaves, self.n_coordinates, tree.LEAF), dtype=np.float32)
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
        self.projection = np.zeros(self.width)
        self.query = np.zeros(self.width, dtype=np.float32)
        self.lower = np.zeros(tree.LEAF, dtype=np.float32)
        self.stack = np.zeros(2 * (len(self.boxes).bit_length() + 1), dtype=np.int64)
        self.record = np.zeros(tree.N_WORDS, dtype=np.int64)
        self.record[tree.N_AXES] = self.n_axes
        self.record[tree.N_COORDINATES] = self.n_coordinates
        self.record[tree.WIDTH] = self.width
        self.record[tree.FIRST_LEAF] = len(self.leaf_starts) - 2
        for word, array in (
            (tree.AXES, self.axes),
            (tree.MEAN, self.mean),
            (tree.BOXES, self.boxes),
            (tree.COORDINATES, self.coordinates),
            (tree.LEAF_STARTS, self.leaf_starts),
            (tree.OWNER_STARTS, self.owner_starts),
            (tree.OWNERS, self.owners),
            (tree.PROJECTION, self.projection),
            (tree.QUERY, self.query),
            (tree.LOWER, self.lower),
            (tree.STACK, self.stack),
        ):
            self.record[word] = array.ctypes.data
        self.address = int(self.record.ctypes.data)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in self._SCRATCH}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._bind()

    @property
    def seen(self) -> tuple[int, int]:
        """Leaves and points that searches have looked at so far."""
        return int(self.record[tree.N_LEAVES_SEEN]), int(self.record[tree.N_POINTS_SEEN])

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = (value for value in self.__dict__.values() if isinstance(value, np.ndarray))
        return sys.getsizeof(self) + sum(array.nbytes for array in arrays)
