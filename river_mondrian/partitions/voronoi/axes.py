"""Axes along which points vary much, and the coordinates of points along them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...compiling.kernels import batch_kernel, exact_batch_kernel, exact_inlined
from ...records import Float32s, Float64s
from ...records.compiled import lowered, pointer_to
from .vectors import DOUBLES, LANES, groups_of, load, loop, padded, splat

# Features up to which axes are exactly the principal ones. Beyond, they are near them: any
# orthogonal axes give bounds. Products in Python are left to kernels, as a linear algebra library
# may wait long for threads.
EXACT_AXES = 32

# Multiplications by which a round towards the principal axes is limited, about 5 ms, and rounds.
ROUND = 10_000_000
ROUNDS = 2

# Part of a direction's square that rounding may leave where it depends on those before.
DEPENDENT = 1e-16

# Mean, and axes: a row per feature, padded.
Frame = tuple[NDArray[np.float64], NDArray[np.float64]]


def _add_scaled(context: Any, builder: Any, total: Any, row: Any, factor: Any, n: Any) -> None:
    target, source = (pointer_to(builder, a, DOUBLES) for a in (total, row))
    factors = splat(builder, factor, DOUBLES)

    def add(i: Any) -> list[Any]:
        place = builder.gep(target, [i])
        product = builder.fmul(load(builder, source, i, 8), factors)
        builder.store(builder.fadd(builder.load(place, align=8), product), place, align=8)
        return []

    loop(builder, groups_of(builder, n), [], add)


@lowered(_add_scaled)
def add_scaled(total: Float64s, row: Float64s, factor: float, n: int) -> None:
    """Add a row of `n` numbers, a multiple of `LANES`, times a factor to another."""
    for k in range(n):
        total[k] = total[k] + row[k] * factor


@exact_inlined
def project(
    row: Float32s,
    n_features: int,
    mean: Float64s,
    axes: Float64s,
    n_axes: int,
    n_coordinates: int,
    projection: Float64s,
    out: Float32s,
) -> float:
    """Write a row's coordinates; returns its squared distance from the mean.

    `projection` is room for the coordinates, up to a multiple of `LANES`, in double precision.
    """
    room = (n_coordinates + LANES - 1) // LANES * LANES
    for c in range(room):
        projection[c] = 0.0
    square = 0.0
    for j in range(n_features):
        value = row[j] - mean[j]
        square += value * value
        add_scaled(projection, axes.part(room * j, room), value, room)
    left = square
    for c in range(n_axes):
        value = projection[c]
        left -= value * value
        out[c] = value
    if n_coordinates > n_axes:
        out[n_axes] = math.sqrt(max(left, 0.0))
    return square


@exact_batch_kernel
def project_rows(
    rows: Float32s,
    n: int,
    width: int,
    mean: Float64s,
    n_features: int,
    axes: Float64s,
    n_axes: int,
    n_coordinates: int,
    projection: Float64s,
    room: int,
    out: Float32s,
) -> None:
    """Write the coordinates of `n` points, rows of `width`, to rows of `room`."""
    for i in range(n):
        row, target = rows.part(width * i, width), out.part(room * i, room)
        project(row, n_features, mean, axes, n_axes, n_coordinates, projection, target)


@exact_batch_kernel
def multiply(
    rows: Float64s,
    n: int,
    d: int,
    axes: Float64s,
    room: int,
    along: Float64s,
    product: Float64s,
) -> None:
    """Multiply directions, a padded column for each, by the scatter matrix of `n` centred rows.

    `along` is room for a row of `room`; the product is added to what stands in `product`.
    """
    for i in range(n):
        row = rows.part(d * i, d)
        for k in range(room):
            along[k] = 0.0
        for j in range(d):
            add_scaled(along, axes.part(room * j, room), row[j], room)
        for j in range(d):
            add_scaled(product.part(room * j, room), along, row[j], room)


@batch_kernel
def orthogonalize(directions: Float64s, n: int, d: int) -> None:
    """Make `n` rows orthogonal and of length 1, or 0 where they depend on those before."""
    for c in range(n):
        own = directions.part(d * c, d)
        before = 0.0
        for j in range(d):
            before += own[j] * own[j]
        # Once leaves a rest that rounding has made; after twice it is below rounding.
        for _ in range(2):
            for b in range(c):
                other, along = directions.part(d * b, d), 0.0
                for j in range(d):
                    along += own[j] * other[j]
                for j in range(d):
                    own[j] = own[j] - along * other[j]
        square = 0.0
        for j in range(d):
            square += own[j] * own[j]
        factor = 1.0 / math.sqrt(square) if square > DEPENDENT * before else 0.0
        for j in range(d):
            own[j] = own[j] * factor


@exact_batch_kernel
def sum_products(axes: Float64s, d: int, n_axes: int, room: int, products: Float64s) -> float:
    """Return how far axes are from orthonormal, or zero: the Frobenius norm of A'A - I.

    `products` is room for a row of `room` for each axis, and zero.
    """
    for j in range(d):
        row = axes.part(room * j, room)
        for c in range(n_axes):
            add_scaled(products.part(room * c, room), row, row[c], room)
    total = 0.0
    for c in range(n_axes):
        for b in range(n_axes):
            gap = products[room * c + b]
            if b == c and gap > 0.5:
                gap -= 1.0
            total += gap * gap
    return math.sqrt(total)


def deviation(axes: NDArray[np.float64], n_axes: int) -> float:
    """Return how far axes are from orthonormal (see `bounds`)."""
    d, room = axes.shape
    products = np.zeros((n_axes, room))
    return float(sum_products(Float64s.of(axes), d, n_axes, room, Float64s.of(products)))


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
    room = axes.shape[1]
    directions = np.random.default_rng(0).normal(size=(n_axes, d))
    along = np.empty(room)
    for _ in range(ROUNDS):
        axes[:, :n_axes] = directions.T
        product = np.zeros_like(axes)
        given = Float64s.of(centred), len(centred), d, Float64s.of(axes), room
        multiply(*given, Float64s.of(along), Float64s.of(product))
        directions = np.ascontiguousarray(product[:, :n_axes].T)
        orthogonalize(Float64s.of(directions), n_axes, d)
    axes[:, :n_axes] = directions.T
    return mean, axes
