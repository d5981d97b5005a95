"""Nearest centres of many Voronoi diagrams by one walk through a tree of the pool's points.

Points are compared in a few coordinates first: their projections on principal axes, and the norm
of what is left. Distances there are lower bounds. The tree is complete and binary, with a box in
those coordinates at each node and up to `LEAF` points at each leaf, which lie side by side
coordinate by coordinate. A walk goes to the nearer child first and leaves out what is farther than
the farthest of the diagrams' nearest centres so far; what is not left out is compared by
`distance.squared_distance`, so that the cells are those of every other way.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from . import maps, voronoi
from .distance import squared_distance
from .memory import (
    exact_inlined,
    exact_kernel,
    f32,
    f64,
    i32,
    i64,
    kernel,
    put_f32,
    put_f64,
    put_i32,
    put_i64,
)

# Words of the record of a tree, to which the map's record points.
AXES = 0
MEAN = 1
N_AXES = 2
# Coordinates, and the room that they take in boxes and in the query (a multiple of `LANES`).
N_COORDINATES = 3
WIDTH = 4
BOXES = 5
COORDINATES = 6
FIRST_LEAF = 7
LEAF_STARTS = 8
OWNER_STARTS = 9
OWNERS = 10
PROJECTION = 11
QUERY = 12
LOWER = 13
STACK = 14
# Leaves and points that walks have looked at, by which the tree is judged when it is new.
N_LEAVES_SEEN = 15
N_POINTS_SEEN = 16
N_WORDS = 17

LANES = 8
LEAF = 64

# By how much rounding of coordinates may raise a bound: relative, and in units of the squared
# distance of the sample from the mean.
RELATIVE = 2e-5
ABSOLUTE = 1e-6

# Squared distance from the mean up to which squares fit single precision with room to spare.
FARTHEST_SQUARE = 1e30


@intrinsic
def _add_scaled(typingctx: Any, total: Any, row: Any, factor: Any, n: Any) -> Any:
    """Add a row of `n` (a multiple of 8) float64 times a factor to another."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.DoubleType(), LANES)
        int64 = ir.IntType(64)
        total, row = (builder.inttoptr(a, vector.as_pointer()) for a in args[:2])
        factor = _splat(builder, args[2], vector)
        before, loop, after = _open_loop(builder, "add")
        i = builder.phi(int64)
        i.add_incoming(int64(0), before)
        target = builder.gep(total, [i])
        product = builder.fmul(builder.load(builder.gep(row, [i]), align=8), factor)
        added = builder.fadd(builder.load(target, align=8), product)
        builder.store(added, target, align=8)
        _close_loop(builder, i, builder.lshr(args[3], int64(3)), loop, after)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float64, types.int64), codegen


@intrinsic
def _box_distance(typingctx: Any, query: Any, box: Any, width: Any) -> Any:
    """Return the squared distance from a point to a box, its low sides before its high ones."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.FloatType(), LANES)
        int64 = ir.IntType(64)
        query, box = (builder.inttoptr(a, vector.as_pointer()) for a in args[:2])
        groups = builder.lshr(args[2], int64(3))
        zero = ir.Constant(vector, [0.0] * LANES)
        before, loop, after = _open_loop(builder, "box")
        i, total = builder.phi(int64), builder.phi(vector)
        i.add_incoming(int64(0), before)
        total.add_incoming(zero, before)
        x = builder.load(builder.gep(query, [i]), align=4)
        low = builder.load(builder.gep(box, [i]), align=4)
        high = builder.load(builder.gep(box, [builder.add(i, groups)]), align=4)
        gap = zero
        for outside in (builder.fsub(low, x), builder.fsub(x, high)):
            gap = builder.select(builder.fcmp_ordered(">", outside, gap), outside, gap)
        added = builder.fadd(total, builder.fmul(gap, gap))
        total.add_incoming(added, loop)
        _close_loop(builder, i, groups, loop, after)
        lane = [builder.extract_element(added, ir.IntType(32)(k)) for k in range(LANES)]
        while len(lane) > 1:
            half = len(lane) // 2
            lane = [builder.fadd(lane[k], lane[k + half]) for k in range(half)]
        return builder.fpext(lane[0], ir.DoubleType())

    return types.float64(types.int64, types.int64, types.int64), codegen


@intrinsic
def _leaf_distances(typingctx: Any, query: Any, points: Any, n: Any, out: Any) -> Any:
    """Write the squared distances of a leaf's points, which lie coordinate by coordinate."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.FloatType(), LANES)
        int64 = ir.IntType(64)
        groups = LEAF // LANES
        query = builder.inttoptr(args[0], ir.FloatType().as_pointer())
        points, out = (builder.inttoptr(args[k], vector.as_pointer()) for k in (1, 3))
        before, loop, after = _open_loop(builder, "leaf")
        i = builder.phi(int64)
        i.add_incoming(int64(0), before)
        totals = [builder.phi(vector) for _ in range(groups)]
        x = _splat(builder, builder.load(builder.gep(query, [i]), align=4), vector)
        first = builder.mul(i, int64(groups))
        sums = []
        for g, total in enumerate(totals):
            total.add_incoming(ir.Constant(vector, [0.0] * LANES), before)
            point = builder.load(builder.gep(points, [builder.add(first, int64(g))]), align=4)
            gap = builder.fsub(point, x)
            sums.append(builder.fadd(total, builder.fmul(gap, gap)))
            total.add_incoming(sums[-1], loop)
        _close_loop(builder, i, args[2], loop, after)
        for g, value in enumerate(sums):
            builder.store(value, builder.gep(out, [int64(g)]), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), codegen


def _splat(builder: Any, value: Any, vector: Any) -> Any:
    """Fill a vector with a value."""
    single = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), mask)


def _open_loop(builder: Any, name: str) -> tuple[Any, Any, Any]:
    """Begin a loop that runs at least once; returns the blocks before, in and after it."""
    before = builder.block
    loop = builder.append_basic_block(name)
    after = builder.append_basic_block(f"after_{name}")
    builder.branch(loop)
    builder.position_at_end(loop)
    return before, loop, after


def _close_loop(builder: Any, i: Any, n: Any, loop: Any, after: Any) -> None:
    """Go on with the next of `n` rounds, or after the loop."""
    following = builder.add(i, ir.IntType(64)(1))
    i.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, n), loop, after)
    builder.position_at_end(after)


@exact_inlined
def project(
    row: int,
    n_features: int,
    mean: int,
    axes: int,
    n_axes: int,
    n_coordinates: int,
    projection: int,
    out: int,
) -> float:
    """Write a row's coordinates; returns its squared distance from the mean.

    `projection` is room for the coordinates, up to a multiple of `LANES`, in double precision.
    """
    room = (n_coordinates + LANES - 1) // LANES * LANES
    for c in range(room):
        put_f64(projection, c, 0.0)
    square = 0.0
    for j in range(n_features):
        value = f32(row, j) - f64(mean, j)
        square += value * value
        _add_scaled(projection, axes, value, room)
        axes += 8 * room
    left = square
    for c in range(n_axes):
        value = f64(projection, c)
        left -= value * value
        put_f32(out, c, value)
    if n_coordinates > n_axes:
        put_f32(out, n_axes, math.sqrt(max(left, 0.0)))
    return square


@exact_kernel
def project_rows(
    rows: NDArray[np.float32],
    mean: NDArray[np.float64],
    axes: NDArray[np.float64],
    n_axes: int,
    n_coordinates: int,
    out: NDArray[np.float32],
) -> None:
    """Write the coordinates of points, whose rows may be padded."""
    projection = np.zeros(axes.shape[1])
    row, target = rows.ctypes.data, out.ctypes.data
    for _ in range(len(rows)):
        project(
            row,
            len(mean),
            mean.ctypes.data,
            axes.ctypes.data,
            n_axes,
            n_coordinates,
            projection.ctypes.data,
            target,
        )
        row += 4 * rows.shape[1]
        target += 4 * out.shape[1]


@exact_kernel
def multiply(rows: NDArray[np.float64], axes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Multiply directions, a padded column for each, by the scatter matrix of centred rows."""
    d, room = axes.shape
    product = np.zeros((d, room))
    along = np.empty(room)
    for i in range(len(rows)):
        along[:] = 0.0
        for j in range(d):
            _add_scaled(along.ctypes.data, axes.ctypes.data + 8 * room * j, rows[i, j], room)
        for j in range(d):
            _add_scaled(product.ctypes.data + 8 * room * j, along.ctypes.data, rows[i, j], room)
    return product


@kernel
def orthogonalize(directions: NDArray[np.float64]) -> None:
    """Make rows orthogonal and of length 1, or 0 where they depend on those before."""
    n, d = directions.shape
    for c in range(n):
        before = 0.0
        for j in range(d):
            before += directions[c, j] * directions[c, j]
        # Once leaves a rest that rounding has made; after twice it is below rounding.
        for _ in range(2):
            for b in range(c):
                along = 0.0
                for j in range(d):
                    along += directions[c, j] * directions[b, j]
                for j in range(d):
                    directions[c, j] -= along * directions[b, j]
        square = 0.0
        for j in range(d):
            square += directions[c, j] * directions[c, j]
        factor = 1.0 / math.sqrt(square) if square > 1e-16 * before else 0.0
        for j in range(d):
            directions[c, j] *= factor


@exact_inlined
def farthest(nearest: int, t: int) -> float:
    """Return the largest distance to a nearest centre."""
    largest = 0.0
    for i in range(t):
        distance = f64(nearest, i)
        largest = distance if distance > largest else largest
    return largest


@exact_inlined
def visit(record: int, tree: int, leaf: int, limit: float, slack: float, out: int) -> float:
    """Compare the points of a leaf; returns the new limit."""
    lower, n_coordinates = i64(tree, LOWER), i64(tree, N_COORDINATES)
    coordinates = i64(tree, COORDINATES) + 4 * LEAF * n_coordinates * leaf
    _leaf_distances(i64(tree, QUERY), coordinates, n_coordinates, lower)
    begin, end = i64(i64(tree, LEAF_STARTS), leaf), i64(i64(tree, LEAF_STARTS), leaf + 1)
    starts, owners = i64(tree, OWNER_STARTS), i64(tree, OWNERS)
    nearest, row, width = (
        i64(record, voronoi.NEAREST),
        i64(record, voronoi.ROW),
        i64(record, voronoi.WIDTH),
    )
    points = i64(record, voronoi.POINTS)
    grown = 1.0 + RELATIVE
    reach, stale = limit * grown + slack, False
    seen = np.int64(0)
    for p in range(begin, end):
        bound = f32(lower, p - begin)
        if bound > reach:
            continue
        first, last = i64(starts, p), i64(starts, p + 1)
        near = False
        for o in range(first, last):
            near = near or bound <= f64(nearest, i32(owners, 2 * o)) * grown + slack
        if not near:
            continue
        seen += 1
        distance = squared_distance(row, points + 4 * width * p, width)
        for o in range(first, last):
            i, column = i32(owners, 2 * o), i32(owners, 2 * o + 1)
            best = f64(nearest, i)
            if distance < best or (distance == best and column < i32(out, i)):
                stale = stale or best == limit
                put_f64(nearest, i, distance)
                put_i32(out, i, column)
    put_i64(tree, N_LEAVES_SEEN, i64(tree, N_LEAVES_SEEN) + 1)
    put_i64(tree, N_POINTS_SEEN, i64(tree, N_POINTS_SEEN) + seen)
    return farthest(nearest, i64(record, maps.N_OUT)) if stale else limit


@exact_inlined
def walk(record: int, tree: int, square: float, out: int) -> None:
    """Find the nearest centre of each diagram."""
    t, nearest = i64(record, maps.N_OUT), i64(record, voronoi.NEAREST)
    for i in range(t):
        put_f64(nearest, i, math.inf)
    query, width, boxes = i64(tree, QUERY), i64(tree, WIDTH), i64(tree, BOXES)
    stack, first_leaf = i64(tree, STACK), i64(tree, FIRST_LEAF)
    slack, limit = ABSOLUTE * square, math.inf
    node, bound, depth = np.int64(0), 0.0, np.int64(0)
    while True:
        if bound <= limit * (1.0 + RELATIVE) + slack:
            if node < first_leaf:
                left = 2 * node + 1
                box = boxes + 8 * width * left
                to_left: float = _box_distance(query, box, width)
                to_right: float = _box_distance(query, box + 8 * width, width)
                right_first = to_right < to_left
                put_i64(stack, 2 * depth, left if right_first else left + 1)
                put_f64(stack, 2 * depth + 1, to_left if right_first else to_right)
                depth += 1
                node = left + 1 if right_first else left
                bound = to_right if right_first else to_left
                continue
            limit = visit(record, tree, node - first_leaf, limit, slack, out)
        if depth == 0:
            return
        depth -= 1
        node, bound = i64(stack, 2 * depth), f64(stack, 2 * depth + 1)


def search(record: int, x: int, out: int) -> int:
    """Map a vector by the tree, or by a scan where it is too far away for single precision."""
    bad = maps.read_vector(record, x, i64(record, voronoi.FACTORS), i64(record, voronoi.ROW))
    if bad >= 0:
        return bad
    tree = i64(record, voronoi.TREE)
    square = project(
        i64(record, voronoi.ROW),
        i64(record, maps.N_INPUTS),
        i64(tree, MEAN),
        i64(tree, AXES),
        i64(tree, N_AXES),
        i64(tree, N_COORDINATES),
        i64(tree, PROJECTION),
        i64(tree, QUERY),
    )
    if square <= FARTHEST_SQUARE:
        walk(record, tree, square, out)
    else:
        voronoi.scan_row(record, out)
    return -1
