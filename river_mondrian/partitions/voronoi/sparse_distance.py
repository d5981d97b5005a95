"""The distance of `distance.squared_distance`, of two rows that are known by their entries."""

from __future__ import annotations

import numpy as np

from ...compiling.kernels import exact_inlined
from ...records import Float32s, Float64s, Int32s
from .vectors import LANES


@exact_inlined
def add_to_lane(sums: Float64s, place: int, gap: float) -> None:
    """Add the square of a single-precision difference to its lane."""
    k = place % LANES
    sums[k] = sums[k] + gap * gap


@exact_inlined
def sparse_squared_distance(
    x_places: Int32s,
    x_values: Float32s,
    n_x: int,
    places: Int32s,
    values: Float32s,
    n: int,
    sums: Float64s,
) -> float:
    """Return the distance of two rows, the entries of both in order; `sums` is room for lanes."""
    for k in range(LANES):
        sums[k] = 0.0
    a, b = 0, 0
    while a < n_x or b < n:
        if b == n or (a < n_x and x_places[a] < places[b]):
            add_to_lane(sums, x_places[a], x_values[a])
            a += 1
        elif a == n_x or places[b] < x_places[a]:
            add_to_lane(sums, places[b], values[b])
            b += 1
        else:
            gap = np.float64(np.float32(x_values[a]) - np.float32(values[b]))
            add_to_lane(sums, places[b], gap)
            a += 1
            b += 1
    for half in (4, 2, 1):
        for k in range(half):
            sums[k] = sums[k] + sums[k + half]
    return sums[0]
