"""Nearest centres of many Voronoi diagrams by one search in a tree of the pool's points.

Points are first compared in a few coordinates: their projections on principal axes, and the norm of
the remainder. Distances in these coordinates are lower bounds on the distances of points. The tree
is complete and binary. Each node has a box in these coordinates. Each leaf has up to `LEAF_SIZE`
points, stored coordinate by coordinate. A search visits the nearer child first. The search excludes
nodes whose lower bound exceeds all diagrams' nearest distances, and points whose lower bound
exceeds their diagrams' nearest distances. The other points are compared by
`distances.squared_distance`, so the cells equal the cells of every other search (see `nearest`).
"""

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...checks import check_array, check_arrays, check_number, check_starts, check_types, refuse
from ...compiling.kernels import batch_kernel, helper, link_by_name
from ...limits import DONE
from ...maps.record import MapRecord, Outputs, Sample, read_vector
from ...records import Float32s, Int32s, Ints, Memory, OwnsArrays, Singles
from ..isolation import records_of
from . import distances
from .distances import LEAF_SIZE, Basis
from .nearest import FARTHEST_SQUARE, DenseVoronoi, Owner, Pending, PointTreeRecord, scan_row

# Kernels of this module compute each sum in the order of the source, so that results do not depend
# on the compiler.
ORDERED_SUMS = True


@helper
def project(tree: PointTreeRecord, row: Float32s, n_features: int, out: Float32s) -> float:
    """Write a row's coordinates, and return the row's squared distance from the mean."""
    mean, axes, projection = tree.mean, tree.axes, tree.projection
    n_axes, width = tree.n_axes, tree.width
    for c in range(width):
        projection[c] = 0.0
    square = 0.0
    for j in range(n_features):
        value = row[j] - mean[j]
        square += value * value
        distances.add_scaled(projection, axes.part(width * j, width), value, width)
    left = square
    for c in range(n_axes):
        value = projection[c]
        left -= value * value
        out[c] = value
    if tree.n_coordinates > n_axes:
        out[n_axes] = math.sqrt(max(left, 0.0))
    return square


@batch_kernel
def project_rows(
    tree: PointTreeRecord, rows: Float32s, n: int, width: int, n_features: int, out: Float32s
) -> None:
    """Project `n` points onto the tree's axes.

    A point's row has `width` values. A row of coordinates has the tree's width.
    """
    for i in range(n):
        row, target = rows.part(width * i, width), out.part(tree.width * i, tree.width)
        project(tree, row, n_features, target)


@helper
def visit(record: DenseVoronoi, leaf: int, limit: float, slack: float, cells: Int32s) -> float:
    """Compare a leaf's points with the sample; return the diagrams' largest nearest distance."""
    tree = record.tree
    lower, n_coordinates = tree.lower, tree.n_coordinates
    size = LEAF_SIZE * n_coordinates
    coordinates = tree.coordinates.part(size * leaf, size)
    distances.leaf_distances(tree.query, coordinates, n_coordinates, lower)
    begin, end = tree.leaf_starts[leaf], tree.leaf_starts[leaf + 1]
    starts, owners, nearest = tree.owner_starts, tree.owners, record.nearest
    row, points, width = record.row, record.points, record.width
    grown = 1.0 + tree.relative
    reach, stale, n_visited = limit * grown + slack, False, 0
    for p in range(begin, end):
        bound = lower[p - begin]
        if bound > reach:
            continue
        first, last = starts[p], starts[p + 1]
        # Whether the point may be the nearest centre of one of its diagrams.
        near = False
        for o in range(first, last):
            near = near or bound <= nearest[owners[o].diagram] * grown + slack
        if not near:
            continue
        n_visited += 1
        distance = distances.squared_distance(row, points.part(width * p, width), width)
        for o in range(first, last):
            i, column = owners[o].diagram, owners[o].column
            best = nearest[i]
            # Among points at equal distances, take the first point in the pool. This point has the
            # first column in the diagram.
            if distance < best or (distance == best and column < cells[i]):
                stale = stale or best == limit
                nearest[i] = distance
                cells[i] = column
    tree.n_leaves_visited += 1
    tree.n_points_visited += n_visited
    if not stale:
        return limit
    farthest = 0.0
    for i in range(record.n_out):
        distance = nearest[i]
        farthest = distance if distance > farthest else farthest
    return farthest


@helper
def walk(record: DenseVoronoi, square: float, cells: Int32s) -> None:
    """Find each diagram's nearest centre. `square` is the row's squared distance from the mean."""
    tree, nearest = record.tree, record.nearest
    for i in range(record.n_out):
        nearest[i] = math.inf
        # If all distances are NaN, the result is this cell.
        cells[i] = i * record.n_cells
    query, width, boxes = tree.query, tree.width, tree.boxes
    stack, first_leaf = tree.stack, tree.first_leaf
    grown, slack, limit = 1.0 + tree.relative, tree.absolute * square + tree.least, math.inf
    node, bound, depth = 0, 0.0, 0
    while True:
        if bound <= limit * grown + slack:
            if node < first_leaf:
                left = 2 * node + 1
                size = 2 * width
                to_left = distances.box_distance(query, boxes.part(size * left, size), width)
                right = boxes.part(size * (left + 1), size)
                to_right = distances.box_distance(query, right, width)
                right_first = to_right < to_left
                pending = stack[depth]
                pending.node = left if right_first else left + 1
                pending.bound = to_left if right_first else to_right
                depth += 1
                node = left + 1 if right_first else left
                bound = to_right if right_first else to_left
                continue
            limit = visit(record, node - first_leaf, limit, slack, cells)
        if depth == 0:
            return
        depth -= 1
        node, bound = stack[depth].node, stack[depth].bound


@link_by_name
def search(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Write a vector's cells. If squares would overflow single precision, scan all points."""
    voronoi = DenseVoronoi(record)
    bad = read_vector(voronoi, sample, voronoi.factors, voronoi.row)
    if bad >= 0:
        return bad
    tree = voronoi.tree
    square = project(tree, voronoi.row, voronoi.n_inputs, tree.query)
    if square <= FARTHEST_SQUARE:
        walk(voronoi, square, outputs.cells)
    else:
        scan_row(voronoi, outputs.cells)
    return DONE


class PointTree(OwnsArrays):
    """A complete binary tree of points, split at medians of principal coordinates.

    Parameters
    ----------
    rows
        Points, shape (n, width), whose squared distances fit in single precision. Rows may be
        padded.
    members
        The points of each diagram, shape (psi, t), in the order that breaks ties.
    basis
        Mean and axes, from `find_axes`.
    order
        Indices of the points. The array is sorted in place into the order of the leaves.

    """

    _DERIVED: ClassVar[frozenset[str]] = frozenset({"memory", "record"})

    def __init__(
        self, rows: Singles, members: NDArray[np.int32], basis: Basis, order: Ints
    ) -> None:
        n = len(rows)
        self.mean, self.axes = basis
        d = len(self.mean)
        self.n_axes = distances.axes_for(d)
        self.n_coordinates = self.n_axes + (self.n_axes < d)
        self.width = self.axes.shape[1]
        # Largest excess of lower bounds over distances.
        shape = d, self.n_axes, self.n_coordinates
        self.slack = distances.tree_slack(*shape, distances.deviation(self.axes, self.n_axes))
        self._begin()
        coordinates = self._project(rows)
        depth = max(0, (-(-n // LEAF_SIZE) - 1).bit_length())
        bounds = np.array([0, n])
        for _ in range(depth):
            bounds = self._split(coordinates, bounds, order)
        self.leaf_starts = bounds
        self._box(coordinates[order], depth)
        self._find_owners(members, order)
        self._bind()

    def _project(self, rows: Singles) -> Singles:
        """Return the padded coordinates of points."""
        coordinates = np.zeros((len(rows), self.width), dtype=np.float32)
        matrix = Float32s.of(rows), len(rows), rows.shape[1], len(self.mean)
        project_rows(self.record, *matrix, Float32s.of(coordinates))
        return coordinates

    def _split(self, coordinates: Singles, bounds: Ints, order: Ints) -> Ints:
        """Split each part of `order` at the median of its coordinate with the largest variance."""
        finer = np.empty(2 * len(bounds) - 1, dtype=np.int64)
        finer[::2] = bounds
        for k in range(len(bounds) - 1):
            points = order[bounds[k] : bounds[k + 1]]
            values = coordinates[points]
            widest = values[:, np.argmax(values.var(axis=0))]
            half = len(points) // 2
            points[:] = points[np.argpartition(widest, half)]
            finer[2 * k + 1] = bounds[k] + half
        return finer

    def _box(self, ordered: Singles, depth: int) -> None:
        """Store the leaves' coordinates and the boxes of all nodes."""
        n_leaves = 1 << depth
        starts = self.leaf_starts
        self.coordinates = np.zeros((n_leaves, self.n_coordinates, LEAF_SIZE), dtype=np.float32)
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

    def _find_owners(self, members: NDArray[np.int32], order: Ints) -> None:
        """Store the diagrams of each point, and the point's column in each diagram."""
        psi, t = members.shape
        positions = np.empty(len(order), dtype=np.int64)
        positions[order] = np.arange(len(order))
        points = positions[members]
        columns = np.arange(psi)[:, None] + psi * np.arange(t)
        ranks = np.argsort(points, axis=None, kind="stable")
        self.owners = np.empty((psi * t, 2), dtype=np.int32)
        self.owners[:, 1] = columns.ravel()[ranks]
        self.owners[:, 0] = self.owners[:, 1] // psi
        counts = np.bincount(points.ravel(), minlength=len(order))
        self.owner_starts = np.concatenate([[0], np.cumsum(counts)])

    def _begin(self) -> None:
        """Create the record, and set the fields that projections need."""
        self.memory = Memory(PointTreeRecord)
        record = self.record = self.memory[0]
        record.n_axes, record.n_coordinates = self.n_axes, self.n_coordinates
        record.width = self.width
        self.memory.refer(self, "axes", "mean")
        self.memory.own("projection", np.zeros(self.width))

    def _bind(self) -> None:
        """Set the record's references to the tree's arrays and to the memory of kernels."""
        self._begin()
        record = self.record
        record.first_leaf = len(self.leaf_starts) - 2
        record.relative, record.absolute, record.least = self.slack
        self.memory.refer(self, "boxes", "coordinates", "leaf_starts", "owner_starts")
        record.owners = records_of(Owner, self.owners)
        self.memory.own("query", np.zeros(self.width, dtype=np.float32))
        self.memory.own("lower", np.zeros(LEAF_SIZE, dtype=np.float32))
        stack = np.zeros((len(self.boxes).bit_length() + 1, 2), dtype=np.int64)
        self.memory.arrays["stack"] = stack
        record.stack = records_of(Pending, stack)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._bind()

    def check(self, n_points: int, d: int, t: int, psi: int) -> None:
        """Check that a stored tree fits the numbers of points, features, diagrams and cells."""
        check_types(self, {"n_axes": (int, np.integer), "width": int, "slack": tuple})
        width = distances.padded(int(self.n_coordinates))
        check_number(self, "n_axes", self.n_axes, 1, max(1, d))
        check_number(self, "n_coordinates", self.n_coordinates, self.n_axes, self.n_axes + 1)
        check_number(self, "width", self.width, width, width)
        n_leaves = len(self.leaf_starts) - 1
        if n_leaves < 1 or n_leaves & (n_leaves - 1) or len(self.slack) != 3:
            refuse(self, "the number of leaves", n_leaves, "but it is a power of two")
        coordinates = n_leaves, int(self.n_coordinates), LEAF_SIZE
        arrays: dict[str, Any] = {"mean": (np.float64, (d,)), "axes": (np.float64, (d, width))}
        arrays["coordinates"] = np.float32, coordinates
        arrays["boxes"] = np.float32, (2 * n_leaves - 1, 2, width)
        arrays["owners"] = np.int32, (t * psi, 2), 0, t * psi - 1
        arrays["owner_starts"] = np.int64, (n_points + 1,)
        check_arrays(self, arrays)
        check_starts(self, "leaf_starts", self.leaf_starts, n_points)
        check_array(self, "the sizes of leaves", np.diff(self.leaf_starts), np.int64, 0, LEAF_SIZE)
        check_starts(self, "owner_starts", self.owner_starts, len(self.owners))
        check_array(self, "owners", self.owners[:, 0], np.int32, 0, t - 1)

    @property
    def visited(self) -> tuple[int, int]:
        """Number of leaves and number of points that searches have visited."""
        return self.record.n_leaves_visited, self.record.n_points_visited
