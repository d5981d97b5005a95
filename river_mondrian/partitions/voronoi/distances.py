"""Distances of points and projections on axes, written as vector loops in LLVM."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir

from ...compiling.kernels import batch_kernel, helper, ordered_sums
from ...records import Float32s, Float64s, Floats, Singles
from ...records.numba_types import lowered, pointer_to

# Values per vector. Rows are padded with zeros to a multiple of this number.
VECTOR = 8

# Unit round-offs of single and of double precision.
SINGLE = 2.0**-24
DOUBLE = 2.0**-53
# The constant m in the docstring of `nearest`, which divides the error of a lower bound into a
# relative and an absolute part.
MARGIN = 2.0**-16

INT64 = ir.IntType(64)
SINGLE_VECTOR = ir.VectorType(ir.FloatType(), VECTOR)
DOUBLE_VECTOR = ir.VectorType(ir.DoubleType(), VECTOR)
_INT32 = ir.IntType(32)


def padded(width: int) -> int:
    """Return the padded width of a row: at least one vector."""
    return max(VECTOR, -(-width // VECTOR) * VECTOR)


def zero(vector: Any) -> Any:
    """Return a vector of zeros."""
    return ir.Constant(vector, [0.0] * VECTOR)


def splat(builder: Any, value: Any, vector: Any) -> Any:
    """Return a vector that repeats a value."""
    single = builder.insert_element(ir.Constant(vector, ir.Undefined), value, _INT32(0))
    mask = ir.Constant(ir.VectorType(_INT32, VECTOR), [0] * VECTOR)
    return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), mask)


def load(builder: Any, start: Any, i: Any, align: int = 4) -> Any:
    """Return the vector or value at index `i` after a pointer."""
    return builder.load(builder.gep(start, [i]), align=align)


def groups_of(builder: Any, n: Any) -> Any:
    """Return the number of vectors that hold `n` values, where `n` is a multiple of `VECTOR`."""
    return builder.lshr(n, INT64(VECTOR.bit_length() - 1))


def loop(builder: Any, n: Any, starts: list[Any], body: Callable[..., list[Any]]) -> list[Any]:
    """Return the last values of a loop of `n` >= 1 calls of `body(i, *values)`."""
    before = builder.block
    rounds = builder.append_basic_block("rounds")
    after = builder.append_basic_block("after_rounds")
    builder.branch(rounds)
    builder.position_at_end(rounds)
    i = builder.phi(INT64)
    values = [builder.phi(start.type) for start in starts]
    following = body(i, *values)
    end = builder.add(i, INT64(1))
    for phi, first, later in zip([i, *values], [INT64(0), *starts], [end, *following], strict=True):
        phi.add_incoming(first, before)
        phi.add_incoming(later, rounds)
    builder.cbranch(builder.icmp_signed("<", end, n), rounds, after)
    builder.position_at_end(after)
    return following


def sum_lanes(builder: Any, vector: Any) -> Any:
    """Return the sum of a vector's values. Each step adds the second half to the first half."""
    lane = [builder.extract_element(vector, _INT32(k)) for k in range(VECTOR)]
    while len(lane) > 1:
        half = len(lane) // 2
        lane = [builder.fadd(lane[k], lane[k + half]) for k in range(half)]
    return lane[0]


def sum_as_tree(lane: list[float]) -> float:
    """Return the sum of a list of values, added in the order of `sum_lanes`."""
    while len(lane) > 1:
        half = len(lane) // 2
        lane = [lane[k] + lane[k + half] for k in range(half)]
    return lane[0]


# All searches compute distances with the order of summation below. So all searches find the same
# nearest point.
#
# Ties are common: on binary data, they occur in half of the searches. If rounding broke a tie
# differently in two searches, cells would depend on the search. So the sum is fixed to the last
# bit. Differences are in single precision. Squares of differences are exact in double precision,
# whether or not the processor fuses multiplication and addition. There are eight partial sums. The
# j-th square is added to the partial sum with the number j modulo 8, in ascending order. The
# partial sums are added in the order of `sum_lanes`. Terms of zero change no partial sum, so a
# sparse sum over the other terms has the same bits as the full sum.


def _squared_distance(context: Any, builder: Any, a: Any, b: Any, width: Any) -> Any:
    first, second = (pointer_to(builder, row, SINGLE_VECTOR) for row in (a, b))

    def add(i: Any, total: Any) -> list[Any]:
        difference = builder.fsub(load(builder, first, i), load(builder, second, i))
        gap = builder.fpext(difference, DOUBLE_VECTOR)
        return [builder.fadd(total, builder.fmul(gap, gap))]

    (sums,) = loop(builder, groups_of(builder, width), [zero(DOUBLE_VECTOR)], add)
    return sum_lanes(builder, sums)


@lowered(_squared_distance)
def squared_distance(a: Float32s, b: Float32s, width: int) -> float:
    """Return the squared Euclidean distance between two rows. `width` is a multiple of `VECTOR`."""
    sums = [0.0] * VECTOR
    for j in range(width):
        gap = np.float64(np.float32(a[j]) - np.float32(b[j]))
        sums[j % VECTOR] += gap * gap
    return sum_as_tree(sums)


@helper
@ordered_sums
def add_to_lane(sums: Float64s, index: int, gap: float) -> None:
    """Add the square of a difference in single precision to the feature's partial sum."""
    k = index % VECTOR
    sums[k] = sums[k] + gap * gap


# Largest number of points of a leaf (see `tree`).
LEAF_SIZE = 64


def _box_distance(context: Any, builder: Any, query: Any, box: Any, width: Any) -> Any:
    point, sides = (pointer_to(builder, a, SINGLE_VECTOR) for a in (query, box))
    groups = groups_of(builder, width)

    def add(i: Any, total: Any) -> list[Any]:
        x, low = load(builder, point, i), load(builder, sides, i)
        high = load(builder, sides, builder.add(i, groups))
        gap = zero(SINGLE_VECTOR)
        for outside in (builder.fsub(low, x), builder.fsub(x, high)):
            gap = builder.select(builder.fcmp_ordered(">", outside, gap), outside, gap)
        return [builder.fadd(total, builder.fmul(gap, gap))]

    (sums,) = loop(builder, groups, [zero(SINGLE_VECTOR)], add)
    return builder.fpext(sum_lanes(builder, sums), ir.DoubleType())


@lowered(_box_distance)
def box_distance(query: Float32s, box: Float32s, width: int) -> float:
    """Return the squared distance from a point to a box, stored as low sides, then high sides."""
    sums: list[Any] = [np.float32(0.0)] * VECTOR
    for k in range(width):
        x = np.float32(query[k])
        gap = max(np.float32(0.0), np.float32(box[k]) - x, x - np.float32(box[width + k]))
        sums[k % VECTOR] += gap * gap
    return np.float64(sum_as_tree(sums))


def _leaf_distances(context: Any, builder: Any, query: Any, points: Any, n: Any, out: Any) -> None:
    groups = LEAF_SIZE // VECTOR
    coordinates = pointer_to(builder, query, ir.FloatType())
    source, target = (pointer_to(builder, a, SINGLE_VECTOR) for a in (points, out))

    def add(i: Any, *totals: Any) -> list[Any]:
        x = splat(builder, load(builder, coordinates, i), SINGLE_VECTOR)
        first = builder.mul(i, INT64(groups))
        sums = []
        for g, total in enumerate(totals):
            gap = builder.fsub(load(builder, source, builder.add(first, INT64(g))), x)
            sums.append(builder.fadd(total, builder.fmul(gap, gap)))
        return sums

    for g, value in enumerate(loop(builder, n, [zero(SINGLE_VECTOR)] * groups, add)):
        builder.store(value, builder.gep(target, [INT64(g)]), align=4)


@lowered(_leaf_distances)
def leaf_distances(query: Float32s, points: Float32s, n: int, out: Float32s) -> None:
    """Write the squared distances of a leaf's points, which are stored coordinate by coordinate."""
    for p in range(LEAF_SIZE):
        total = np.float32(0.0)
        for k in range(n):
            gap = np.float32(points[LEAF_SIZE * k + p]) - np.float32(query[k])
            total += gap * gap
        out[p] = float(total)


# Up to this many features, axes are the exact principal axes. With more features, approximate axes
# suffice, since any orthogonal axes give lower bounds. For approximate axes, kernels compute the
# products, because a linear algebra library may wait long for threads.
EXACT_AXES = 32

# Largest number of multiplications in each of the two products of a round of the iteration for
# principal axes (about 5 ms for a round), and number of rounds.
ROUND = 10_000_000
ROUNDS = 2

# If at most this share of a direction's squared length remains after orthogonalization, the
# remainder is a rounding error. The direction then depends linearly on earlier directions.
DEPENDENT = 1e-16

# The mean and the axes. Axes have a padded row per feature.
Basis = tuple[Floats, Floats]


def _add_scaled(context: Any, builder: Any, total: Any, row: Any, factor: Any, n: Any) -> None:
    target, source = (pointer_to(builder, a, DOUBLE_VECTOR) for a in (total, row))
    factors = splat(builder, factor, DOUBLE_VECTOR)

    def add(i: Any) -> list[Any]:
        pointer = builder.gep(target, [i])
        product = builder.fmul(load(builder, source, i, 8), factors)
        builder.store(builder.fadd(builder.load(pointer, align=8), product), pointer, align=8)
        return []

    loop(builder, groups_of(builder, n), [], add)


@lowered(_add_scaled)
def add_scaled(total: Float64s, row: Float64s, factor: float, n: int) -> None:
    """Add a row times a factor to `total`. The length `n` is a multiple of `VECTOR`."""
    for k in range(n):
        total[k] = total[k] + row[k] * factor


@batch_kernel
@ordered_sums
def multiply(
    rows: Float64s, n: int, d: int, axes: Float64s, width: int, along: Float64s, product: Float64s
) -> None:
    """Multiply the scatter matrix of `n` centred rows by directions, a padded column for each.

    `along` is a buffer for `width` values. The product is added to `product`.
    """
    for i in range(n):
        row = rows.part(d * i, d)
        for k in range(width):
            along[k] = 0.0
        for j in range(d):
            add_scaled(along, axes.part(width * j, width), row[j], width)
        for j in range(d):
            add_scaled(product.part(width * j, width), along, row[j], width)


@batch_kernel
def orthogonalize(directions: Float64s, n: int, d: int) -> None:
    """Make `n` rows orthonormal. Rows that depend linearly on earlier rows become zero."""
    for c in range(n):
        direction = directions.part(d * c, d)
        before = 0.0
        for j in range(d):
            before += direction[j] * direction[j]
        # The first pass over the earlier rows leaves rounding errors, so a second pass removes
        # them.
        for _ in range(2):
            for b in range(c):
                earlier, along = directions.part(d * b, d), 0.0
                for j in range(d):
                    along += direction[j] * earlier[j]
                for j in range(d):
                    direction[j] = direction[j] - along * earlier[j]
        square = 0.0
        for j in range(d):
            square += direction[j] * direction[j]
        factor = 1.0 / math.sqrt(square) if square > DEPENDENT * before else 0.0
        for j in range(d):
            direction[j] = direction[j] * factor


@batch_kernel
@ordered_sums
def sum_products(axes: Float64s, d: int, n_axes: int, width: int, products: Float64s) -> float:
    """Return the distance of axes from orthonormal or zero axes: the Frobenius norm of A'A - I.

    `products` is a buffer with a row of `width` zeros for each axis.
    """
    for j in range(d):
        row = axes.part(width * j, width)
        for c in range(n_axes):
            add_scaled(products.part(width * c, width), row, row[c], width)
    total = 0.0
    for c in range(n_axes):
        for b in range(n_axes):
            gap = products[width * c + b]
            if b == c and gap > 0.5:
                gap -= 1.0
            total += gap * gap
    return math.sqrt(total)


def deviation(axes: Floats, n_axes: int) -> float:
    """Return the distance of axes from orthonormal axes (see `nearest`)."""
    d, width = axes.shape
    products = np.zeros((n_axes, width))
    return float(sum_products(Float64s.of(axes), d, n_axes, width, Float64s.of(products)))


def axes_for(n_features: int) -> int:
    """Return the number of principal axes with the fastest searches in measurements."""
    for limit, axes in ((16, n_features), (32, 16), (255, 32)):
        if n_features <= limit:
            return axes
    return 64


def find_axes(rows: Singles) -> Basis:
    """Return the mean of points, and orthogonal axes along which the variance is large."""
    d = rows.shape[1]
    n_axes, mean = axes_for(d), rows.mean(axis=0, dtype=np.float64)
    axes = np.zeros((d, padded(n_axes + (n_axes < d))))
    sample = rows[:: -(-len(rows) * axes.size // ROUND)] if d > EXACT_AXES else rows
    centred = np.ascontiguousarray(sample - mean)
    if d <= EXACT_AXES:
        axes[:, :n_axes] = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :n_axes]
        return mean, axes
    width = axes.shape[1]
    directions = np.random.default_rng(0).normal(size=(n_axes, d))
    along = np.empty(width)
    for _ in range(ROUNDS):
        axes[:, :n_axes] = directions.T
        product = np.zeros_like(axes)
        matrices = Float64s.of(centred), len(centred), d, Float64s.of(axes), width
        multiply(*matrices, Float64s.of(along), Float64s.of(product))
        directions = np.ascontiguousarray(product[:, :n_axes].T)
        orthogonalize(Float64s.of(directions), n_axes, d)
    axes[:, :n_axes] = directions.T
    return mean, axes


def gamma(n: float, unit: float) -> float:
    """Return the largest relative error of `n` operations; infinity if `n` is too large."""
    return n * unit / (1.0 - n * unit) if n * unit < 0.5 else math.inf


def tree_slack(
    n_features: int, n_axes: int, n_coordinates: int, deviation: float
) -> tuple[float, float, float]:
    """Return the largest excess of a lower bound over an exact distance (derived in `nearest`).

    Parameters
    ----------
    n_features
        Number of features of the points.
    n_axes
        Number of axes.
    n_coordinates
        Number of coordinates of a point: one per axis and, with fewer axes than features, the norm
        of the remainder.
    deviation
        Distance of the axes from orthonormal axes (see the function `deviation`).

    Returns
    -------
    The excess in three terms: a factor of the exact distance, a factor of the sample's squared
    distance from the mean, and a constant.

    """
    axes = deviation + 2.0 * n_axes * gamma(n_features, DOUBLE)
    along = gamma(n_features + 2, DOUBLE) * math.sqrt(2.0 * n_axes) + axes
    rest = 0.0
    if n_coordinates > n_axes:
        sums = 2.0 * gamma(n_features + n_axes + 4, DOUBLE)
        rest = math.sqrt(sums + 2.0 * along + along * along)
    off = along + rest + 2.0 * SINGLE
    rounding = (1.0 + gamma(n_coordinates + 3, SINGLE)) * (1.0 + 3.0 * SINGLE)
    relative = rounding * (1.0 + MARGIN) * (1.0 + off) ** 2 - 1.0
    absolute = rounding * (1.0 + 1.0 / MARGIN) * 2.0 * (2.0 * off) ** 2
    return relative, absolute, n_coordinates * 2.0**-149
