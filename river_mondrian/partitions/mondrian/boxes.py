"""How far a sample lies outside a box, and the box that holds it, too.

From `BLOCK` dimensions on they go in blocks (see `compiling.box_vectors`).
"""

from __future__ import annotations

import numpy as np

from ...compiling import box_vectors
from ...compiling.box_vectors import BLOCK
from ...compiling.kernels import inlined
from ...records import Array, Float32s, Float64s, Int64s, Record, room_of_array
from ...records.numba_types import lowered
from .records import Point

# Points whose boxes are joined at once, with the sides in registers.
BATCH = 64


class PointAt(Record):
    """Where a point is, in a batch of some."""

    point: Point


room_of_batch = room_of_array(PointAt, BATCH)
_room_of_one = room_of_array(PointAt, 1)


@lowered(box_vectors.distance_outside)
def _distance_by_blocks(x: Float32s, lower: Float32s, upper: Float32s, n_dims: int) -> float:
    """Sum how far `x` lies outside a box of at least BLOCK dimensions."""
    total = 0.0
    for d in range(n_dims):
        total += _gap_in_python(x[d], lower[d], upper[d])
    return total


def _gap_in_python(v: float, low: float, high: float) -> float:
    below, above = float(np.float32(low - v)), float(np.float32(v - high))
    gap = below if below > above else above
    return gap if gap > 0.0 else 0.0


@inlined
def gap(v: float, low: float, high: float) -> float:
    """Return how far a value lies outside a side, as float32 has it; 0 where one is missing."""
    below = np.float64(np.float32(low - v))
    above = np.float64(np.float32(v - high))
    # Comparisons with NaN are false.
    gap = below if below > above else above
    return gap if gap > 0.0 else 0.0


@inlined
def distance_outside(x: Float32s, lower: Float32s, upper: Float32s, n_dims: int) -> float:
    """Return the l1 distance from `x` to a box; a missing value or an unknown side adds nothing."""
    if n_dims >= BLOCK:
        return _distance_by_blocks(x, lower, upper, n_dims)
    if n_dims == 2:
        # A loop would be made one over masked vectors, which takes three times as long.
        first = gap(x[0], lower[0], upper[0])
        return first + gap(x[1], lower[1], upper[1])
    total = 0.0
    for d in range(n_dims):
        total += gap(x[d], lower[d], upper[d])
    return total


@lowered(box_vectors.distance_to_points)
def distance_to_batch(batch: Array[PointAt], n: int, word: int, x: Float32s, n_dims: int) -> float:
    """Sum how far `x` lies outside the box of a batch's first `n` points, as `distance_outside`.

    There are at least BLOCK dimensions. The points' values are at a word of their rows.
    """
    total = 0.0
    for d in range(n_dims):
        low = high = np.nan
        for i in range(n):
            v = Float32s(batch[i].point, word, n_dims)[d]
            low = v if (v < low or low != low) else low
            high = v if (v > high or high != high) else high
        total += _gap_in_python(x[d], low, high)
    return total


@lowered(box_vectors.distances_to_points)
def distances_to_batch(
    batch: Array[PointAt],
    starts: Int64s,
    n: int,
    word: int,
    x: Float32s,
    n_dims: int,
    out: Float64s,
) -> None:
    """Write `n` distances as `distance_to_batch`, each of the points from a start to the last end.

    The starts, which do not fall, are followed by that end.
    """
    for k in range(n):
        first, end = starts[k], starts[n]
        part = batch.part(first, end - first)
        out[k] = distance_to_batch(part, end - first, word, x, n_dims)


@inlined
def linear_dimension(lower: Float32s, upper: Float32s, n_dims: int) -> float:
    """Sum the side lengths of a box (Algorithm 2, line 1)."""
    total = 0.0
    for d in range(n_dims):
        side = upper[d] - lower[d]
        total += side if side > 0.0 else 0.0
    return total


@lowered(box_vectors.hold_points)
def _hold_by_blocks(
    batch: Array[PointAt], n: int, word: int, lower: Float32s, upper: Float32s, n_dims: int
) -> None:
    """Grow a box of at least BLOCK dimensions so that it holds the points of a batch."""
    for i in range(n):
        _hold_in_python(Float32s(batch[i].point, word, n_dims), lower, upper, n_dims)


def _hold_in_python(x: Float32s, lower: Float32s, upper: Float32s, n_dims: int) -> None:
    for d in range(n_dims):
        v, low, high = x[d], lower[d], upper[d]
        lower[d] = v if (v < low or low != low) else low
        upper[d] = v if (v > high or high != high) else high


@inlined
def hold_batch(
    batch: Array[PointAt], n: int, word: int, lower: Float32s, upper: Float32s, n_dims: int
) -> None:
    """Grow a box so that it holds the first `n` points of a batch, whose values are at a word.

    A missing value moves nothing, an unknown side moves to the first value.
    """
    if n_dims >= BLOCK:
        _hold_by_blocks(batch, n, word, lower, upper, n_dims)
        return
    for d in range(n_dims):
        low = lower[d]
        high = upper[d]
        for i in range(n):
            v = Float32s(batch[i].point, word, n_dims)[d]
            low = v if (v < low or low != low) else low
            high = v if (v > high or high != high) else high
        lower[d] = low
        upper[d] = high


@inlined
def hold(point: Point, word: int, lower: Float32s, upper: Float32s, n_dims: int) -> None:
    """Grow a box so that it holds a point, whose values are at a word of its row."""
    one = _room_of_one()
    one[0].point = point
    hold_batch(one, 1, word, lower, upper, n_dims)
