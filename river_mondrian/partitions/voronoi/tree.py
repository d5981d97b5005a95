"""Nearest centres of many Voronoi diagrams by one walk through a tree of the pool's points.

Points are compared in a few coordinates first: their projections on principal axes, and the norm of
what is left. Distances there are lower bounds. The tree is complete and binary, with a box in those
coordinates at each node and up to `LEAF` points at each leaf, which lie side by side coordinate by
coordinate. A walk goes to the nearer child first and leaves out what is farther than the farthest
of the diagrams' nearest centres so far; what is not left out is compared by
`distances.squared_distance`, so that the cells are those of every other way (see `nearest`).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from ...checks import check_array, check_arrays, check_number, check_starts, check_types, refuse
from ...compiling.kernels import exact_inlined, exact_separate
from ...limits import DONE
from ...maps.record import MapRecord, Outputs, Sample, read_vector
from ...records import Float32s, Float64s, Int32s, Memory, OwnsArrays
from ...records.numba_types import lowered, pointer_to
from ..isolation import records_of
from .distances import (
    INT64,
    SINGLES,
    VECTOR,
    Frame,
    axes_for,
    deviation,
    groups_of,
    load,
    loop,
    padded,
    project,
    project_rows,
    splat,
    squared_distance,
    sum_as_tree,
    sum_lanes,
    zero,
)
from .nearest import (
    FARTHEST_SQUARE,
    DenseVoronoi,
    Owner,
    Pending,
    PointTreeRecord,
    scan_row,
    tree_slack,
)

# Points of a leaf.
LEAF = 64


def _box_distance(context: Any, builder: Any, query: Any, box: Any, width: Any) -> Any:
    point, sides = (pointer_to(builder, a, SINGLES) for a in (query, box))
    groups = groups_of(builder, width)

    def add(i: Any, total: Any) -> list[Any]:
        x, low = load(builder, point, i), load(builder, sides, i)
        high = load(builder, sides, builder.add(i, groups))
        gap = zero(SINGLES)
        for outside in (builder.fsub(low, x), builder.fsub(x, high)):
            gap = builder.select(builder.fcmp_ordered(">", outside, gap), outside, gap)
        return [builder.fadd(total, builder.fmul(gap, gap))]

    (sums,) = loop(builder, groups, [zero(SINGLES)], add)
    return builder.fpext(sum_lanes(builder, sums), ir.DoubleType())


@lowered(_box_distance)
def box_distance(query: Float32s, box: Float32s, width: int) -> float:
    """Return the squared distance from a point to a box, its low sides before its high ones."""
    sums: list[Any] = [np.float32(0.0)] * VECTOR
    for k in range(width):
        x = np.float32(query[k])
        gap = max(np.float32(0.0), np.float32(box[k]) - x, x - np.float32(box[width + k]))
        sums[k % VECTOR] += gap * gap
    return np.float64(sum_as_tree(sums))


def _leaf_distances(context: Any, builder: Any, query: Any, points: Any, n: Any, out: Any) -> None:
    groups = LEAF // VECTOR
    coordinates = pointer_to(builder, query, ir.FloatType())
    source, target = (pointer_to(builder, a, SINGLES) for a in (points, out))

    def add(i: Any, *totals: Any) -> list[Any]:
        x = splat(builder, load(builder, coordinates, i), SINGLES)
        first = builder.mul(i, INT64(groups))
        sums = []
        for g, total in enumerate(totals):
            gap = builder.fsub(load(builder, source, builder.add(first, INT64(g))), x)
            sums.append(builder.fadd(total, builder.fmul(gap, gap)))
        return sums

    for g, value in enumerate(loop(builder, n, [zero(SINGLES)] * groups, add)):
        builder.store(value, builder.gep(target, [INT64(g)]), align=4)


@lowered(_leaf_distances)
def leaf_distances(query: Float32s, points: Float32s, n: int, out: Float32s) -> None:
    """Write the squared distances of a leaf's points, which lie coordinate by coordinate."""
    for p in range(LEAF):
        total = np.float32(0.0)
        for k in range(n):
            gap = np.float32(points[LEAF * k + p]) - np.float32(query[k])
            total += gap * gap
        out[p] = float(total)


@exact_inlined
def farthest(nearest: Float64s, t: int) -> float:
    """Return the largest distance of a nearest centre."""
    largest = 0.0
    for i in range(t):
        distance = nearest[i]
        largest = distance if distance > largest else largest
    return largest


@exact_inlined
def visit(
    record: DenseVoronoi,
    tree: PointTreeRecord,
    leaf: int,
    limit: float,
    slack: float,
    cells: Int32s,
) -> float:
    """Compare the points of a leaf; returns the new limit."""
    lower, n_coordinates = tree.lower, tree.n_coordinates
    size = LEAF * n_coordinates
    leaf_distances(tree.query, tree.coordinates.part(size * leaf, size), n_coordinates, lower)
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
        # Whether it may be the nearest centre of one of its diagrams.
        near = False
        for o in range(first, last):
            near = near or bound <= nearest[owners[o].diagram] * grown + slack
        if not near:
            continue
        n_visited += 1
        distance = squared_distance(row, points.part(width * p, width), width)
        for o in range(first, last):
            i, column = owners[o].diagram, owners[o].column
            best = nearest[i]
            # Of equals the first in the pool, whose column in the diagram is the first.
            if distance < best or (distance == best and column < cells[i]):
                stale = stale or best == limit
                nearest[i] = distance
                cells[i] = column
    tree.n_leaves_visited += 1
    tree.n_points_visited += n_visited
    return farthest(nearest, record.n_out) if stale else limit


@exact_inlined
def walk(record: DenseVoronoi, tree: PointTreeRecord, square: float, cells: Int32s) -> None:
    """Find the nearest centre of each diagram, `square` from the mean."""
    nearest = record.nearest
    for i in range(record.n_out):
        nearest[i] = math.inf
        # Whatever the distances are, NaN too, it is a cell of the diagram.
        cells[i] = i * record.n_cells
    query, width, boxes = tree.query, tree.width, tree.boxes
    stack, first_leaf = tree.stack, tree.first_leaf
    grown, slack, limit = 1.0 + tree.relative, tree.absolute * square + tree.least, math.inf
    node, bound, depth = 0, 0.0, 0
    while True:
        if bound <= limit * grown + slack:
            if node < first_leaf:
                left = 2 * node + 1
                to_left = box_distance(query, boxes.part(2 * width * left, 2 * width), width)
                right = boxes.part(2 * width * (left + 1), 2 * width)
                to_right = box_distance(query, right, width)
                right_first = to_right < to_left
                pending = stack[depth]
                pending.node = left if right_first else left + 1
                pending.bound = to_left if right_first else to_right
                depth += 1
                node = left + 1 if right_first else left
                bound = to_right if right_first else to_left
                continue
            limit = visit(record, tree, node - first_leaf, limit, slack, cells)
        if depth == 0:
            return
        depth -= 1
        node, bound = stack[depth].node, stack[depth].bound


@exact_separate
def search(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a vector by the tree, or by a scan where it is too far away for single precision."""
    voronoi = DenseVoronoi(record)
    bad = read_vector(voronoi, sample, voronoi.factors, voronoi.row)
    if bad >= 0:
        return bad
    tree = voronoi.tree
    square = project(
        voronoi.row,
        voronoi.n_inputs,
        tree.mean,
        tree.axes,
        tree.n_axes,
        tree.n_coordinates,
        tree.projection,
        tree.query,
    )
    if square <= FARTHEST_SQUARE:
        walk(voronoi, tree, square, outputs.cells)
    else:
        scan_row(voronoi, outputs.cells)
    return DONE


class PointTree(OwnsArrays):
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

    _DERIVED: ClassVar[frozenset[str]] = frozenset({"memory", "record"})

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
        given = Float32s.of(rows), len(rows), rows.shape[1], Float64s.of(self.mean), len(self.mean)
        axes = Float64s.of(self.axes), self.n_axes, self.n_coordinates
        room = Float64s.of(np.zeros(self.width)), self.width
        project_rows(*given, *axes, *room, Float32s.of(coordinates))
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
        places = "leaf_starts", "owner_starts"
        self.memory.refer(self, "axes", "mean", "boxes", "coordinates", *places)
        record.owners = records_of(Owner, self.owners)
        self.memory.own("projection", np.zeros(self.width))
        self.memory.own("query", np.zeros(self.width, dtype=np.float32))
        self.memory.own("lower", np.zeros(LEAF, dtype=np.float32))
        stack = np.zeros((len(self.boxes).bit_length() + 1, 2), dtype=np.int64)
        self.memory.arrays["stack"] = stack
        record.stack = records_of(Pending, stack)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._bind()

    def check(self, n_points: int, d: int, t: int, psi: int) -> None:
        """Refuse a stored tree of other points, features, diagrams and cells than there are."""
        check_types(self, {"n_axes": (int, np.integer), "width": int, "slack": tuple})
        width = padded(int(self.n_coordinates))
        check_number(self, "n_axes", self.n_axes, 1, max(1, d))
        check_number(self, "n_coordinates", self.n_coordinates, self.n_axes, self.n_axes + 1)
        check_number(self, "width", self.width, width, width)
        n_leaves = len(self.leaf_starts) - 1
        if n_leaves < 1 or n_leaves & (n_leaves - 1) or len(self.slack) != 3:
            refuse(self, "the number of leaves", n_leaves, "but it is a power of two")
        coordinates = n_leaves, int(self.n_coordinates), LEAF
        check_arrays(
            self,
            {
                "mean": (np.float64, (d,)),
                "axes": (np.float64, (d, width)),
                "coordinates": (np.float32, coordinates),
                "boxes": (np.float32, (2 * n_leaves - 1, 2, width)),
                "owners": (np.int32, (t * psi, 2), 0, t * psi - 1),
                "owner_starts": (np.int64, (n_points + 1,)),
            },
        )
        check_starts(self, "leaf_starts", self.leaf_starts, n_points)
        check_array(self, "the sizes of leaves", np.diff(self.leaf_starts), np.int64, 0, LEAF)
        check_starts(self, "owner_starts", self.owner_starts, len(self.owners))
        check_array(self, "owners", self.owners[:, 0], np.int32, 0, t - 1)

    @property
    def visited(self) -> tuple[int, int]:
        """Leaves and points that searches have visited so far."""
        return self.record.n_leaves_visited, self.record.n_points_visited
