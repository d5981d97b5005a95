"""The nearest centres of all diagrams, by the distances of all points.

The nearest centre of each of many small samples is sought at once. As they come from one pool, the
distance of a point of the pool serves every diagram that it belongs to. Ties go to the point that
comes first in the pool, whose order is random.
"""

from __future__ import annotations

import math
from typing import TypeVar

from ...compiling.kernels import exact_inlined
from ...records import Int32s
from . import bounds
from .records import Voronoi

V = TypeVar("V", bound=Voronoi)

RELATIVE = bounds.RELATIVE


@exact_inlined
def find_nearest(record: Voronoi, cells: Int32s) -> None:
    """Find the nearest centre of every diagram by exact distances (section 4.2)."""
    t, n_cells = record.n_out, record.n_cells
    distances, nearest, members = record.distances, record.nearest, record.members
    for i in range(t):
        nearest[i] = distances[members[i]]
        cells[i] = i * n_cells
    for j in range(1, n_cells):
        centres = members.part(t * j, t)
        for i in range(t):
            # The argmin that makes a cell in section 4.2: l_2 orders as its square does.
            distance, best = distances[centres[i]], nearest[i]
            nearer = distance < best
            nearest[i] = distance if nearer else best
            cells[i] = i * n_cells + j if nearer else cells[i]


@exact_inlined
def filter_nearest(record: V, absolute: float, cells: Int32s) -> None:
    """Find the nearest centre of every diagram by distances that rounding has made inexact.

    `absolute` is the part of a filter's limit that `bounds` calls 3 e.
    """
    t, n_cells = record.n_out, record.n_cells
    distances, nearest, second = record.distances, record.nearest, record.second
    members = record.members
    for i in range(t):
        nearest[i] = distances[members[i]]
        second[i] = math.inf
        cells[i] = i * n_cells
    for j in range(1, n_cells):
        centres = members.part(t * j, t)
        for i in range(t):
            distance, best = distances[centres[i]], nearest[i]
            nearer = distance < best
            farther = best if nearer else distance
            nearest[i] = distance if nearer else best
            second[i] = farther if farther < second[i] else second[i]
            cells[i] = i * n_cells + j if nearer else cells[i]
    for i in range(t):
        limit = nearest[i] + RELATIVE * max(nearest[i], 0.0) + absolute
        if second[i] <= limit:
            cells[i] = i * n_cells + nearest_within(record, limit, i)


@exact_inlined
def nearest_within(record: V, limit: float, i: int) -> int:
    """Return a diagram's nearest centre among those within a limit, by exact distances."""
    t, members, distances = record.n_out, record.members, record.distances
    best, found = math.inf, 0
    for j in range(record.n_cells):
        p = members[t * j + i]
        if distances[p] <= limit:
            distance = record.exact_distance(p)
            if distance < best:
                best, found = distance, j
    return found
