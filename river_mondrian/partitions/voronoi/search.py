"""Nearest centres of many Voronoi diagrams by one walk through a tree of the pool's points.

Points are compared in a few coordinates first: their projections on principal axes, and the norm
of what is left. Distances there are lower bounds. The tree is complete and binary, with a box in
those coordinates at each node and up to `LEAF` points at each leaf, which lie side by side
coordinate by coordinate. A walk goes to the nearer child first and leaves out what is farther than
the farthest of the diagrams' nearest centres so far; what is not left out is compared by
`distance.squared_distance`, so that the cells are those of every other way (see `bounds`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir

from ...compiling.kernels import exact_inlined, exact_separate
from ...maps.record import MapRecord, Outputs, Sample
from ...maps.samples import read_vector
from ...records import Float32s, Float64s, Int32s
from ...records.compiled import lowered, pointer_to
from ...status import DONE
from .axes import project
from .bounds import FARTHEST_SQUARE
from .distance import squared_distance
from .records import DenseVoronoi, PointTreeRecord
from .scan import scan_row
from .vectors import (
    INT64,
    LANES,
    SINGLES,
    groups_of,
    load,
    loop,
    splat,
    sum_as_tree,
    sum_lanes,
    zero,
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
    sums: list[Any] = [np.float32(0.0)] * LANES
    for k in range(width):
        x = np.float32(query[k])
        gap = max(np.float32(0.0), np.float32(box[k]) - x, x - np.float32(box[width + k]))
        sums[k % LANES] += gap * gap
    return np.float64(sum_as_tree(sums))


def _leaf_distances(context: Any, builder: Any, query: Any, points: Any, n: Any, out: Any) -> None:
    groups = LEAF // LANES
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
