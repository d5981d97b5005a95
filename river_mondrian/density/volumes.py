"""Volumes of oblique cells."""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.typing import NDArray

from ..compiling.kernels import exact_inlined, exact_separate
from ..records import Float64s

# The logarithm of the least positive float of full precision.
LEAST_LOG = math.log(sys.float_info.min)
# Dimensions in which volumes of oblique cells are computed.
MOST_OBLIQUE = 3
# The largest coefficient of a direction, so that samples along it are finite.
LARGEST_COEFFICIENT = 1e100

# Numbers of a face {y: a y <= b}: its normal a in three dimensions, and b.
FACE = 4
REACH = 3


def room_for_faces(n_directions: int) -> int:
    """Return how many numbers the faces of a cell take."""
    return FACE * 2 * (n_directions + MOST_OBLIQUE)


@exact_inlined
def along_normal(faces: Float64s, i: int, x: float, y: float, z: float) -> float:
    """Return the product of a face's normal and a vector."""
    return faces[FACE * i] * x + faces[FACE * i + 1] * y + faces[FACE * i + 2] * z


@exact_separate
def triangle_area(
    faces: Float64s, n: int, i: int, j: int, x: float, y: float, z: float, height: float
) -> float:
    """Return the area, with its sign, of the triangle between an edge of a face and a point.

    The edge is that of the faces i and j. The point is where the line from the origin along the
    unit normal of face i, (x, y, z), meets its plane, at a height.
    """
    shared = along_normal(faces, j, x, y, z)
    a = faces[FACE * j] - shared * x
    b = faces[FACE * j + 1] - shared * y
    c = faces[FACE * j + 2] - shared * z
    size = math.sqrt(a * a + b * b + c * c)
    if size == 0.0:
        return 0.0
    a, b, c = a / size, b / size, c / size
    away = (faces[FACE * j + REACH] - shared * height) / size
    low, high = -math.inf, math.inf
    for k in range(n):
        if k in (i, j):
            continue
        slope = along_normal(faces, k, y * c - z * b, z * a - x * c, x * b - y * a)
        rest = faces[FACE * k + REACH] - along_normal(
            faces, k, height * x + away * a, height * y + away * b, height * z + away * c
        )
        if slope > 0.0:
            high = min(high, rest / slope)
        elif slope < 0.0:
            low = max(low, rest / slope)
        elif rest < 0.0:
            return 0.0
        if low >= high:
            return 0.0
    return 0.5 * away * (high - low)


@exact_inlined
def pyramid_volume(faces: Float64s, n: int, i: int) -> float:
    """Return the volume of the pyramid over a face whose tip is the origin."""
    x, y, z = faces[FACE * i], faces[FACE * i + 1], faces[FACE * i + 2]
    size = math.sqrt(x * x + y * y + z * z)
    if size == 0.0:
        return 0.0
    height, area = faces[FACE * i + REACH] / size, 0.0
    for j in range(n):
        if j != i:
            area += triangle_area(faces, n, i, j, x / size, y / size, z / size, height)
    return height * area / 3.0


@exact_separate
def log_polytope_volume(
    directions: Float64s,
    n_inputs: int,
    n_dims: int,
    lower: Float64s,
    upper: Float64s,
    inside: Float64s,
    faces: Float64s,
) -> float:
    """Return the log of the volume of a cell {y: lower < U y <= upper} in up to 3 dimensions.

    Parameters
    ----------
    directions
        The rows of U, side by side; their rank is `n_inputs`.
    n_inputs, n_dims
        Numbers of columns and rows of U.
    lower, upper
        Bounds along the directions, a number each.
    inside
        U y for a y in the cell.
    faces
        Memory of `room_for_faces(n_dims)` numbers.

    Returns
    -------
    The logarithm, that of the least positive float where the volume is too small to be computed.

    """
    stride = 2 * FACE
    for j in range(n_dims):
        width = upper[j] - lower[j]
        if not width > 0.0:
            return LEAST_LOG
        for k in range(MOST_OBLIQUE):
            faces[stride * j + k] = directions[j * n_inputs + k] / width if k < n_inputs else 0.0
        faces[stride * j + REACH] = (upper[j] - inside[j]) / width
        faces[stride * j + FACE + REACH] = (inside[j] - lower[j]) / width
    # With the sides as units, U = Q R by Gram and Schmidt. In the coordinates R y, from the point
    # inside on, the cell is about as wide everywhere.
    log_unit = 0.0
    for k in range(n_inputs):
        total = 0.0
        for j in range(n_dims):
            total += faces[stride * j + k] * faces[stride * j + k]
        size = math.sqrt(total)
        if size == 0.0:
            return LEAST_LOG
        log_unit -= math.log(size)
        for j in range(n_dims):
            faces[stride * j + k] /= size
        for m in range(k + 1, n_inputs):
            shared = 0.0
            for j in range(n_dims):
                shared += faces[stride * j + k] * faces[stride * j + m]
            for j in range(n_dims):
                faces[stride * j + m] -= shared * faces[stride * j + k]
    for j in range(n_dims):
        for k in range(MOST_OBLIQUE):
            faces[stride * j + FACE + k] = -faces[stride * j + k]
    # In the dimensions that are left it has a length of 1.
    n = 2 * n_dims
    for k in range(n_inputs, MOST_OBLIQUE):
        for sign in (1.0, -1.0):
            for m in range(MOST_OBLIQUE):
                faces[FACE * n + m] = sign if m == k else 0.0
            faces[FACE * n + REACH] = 0.5
            n += 1
    volume = 0.0
    for i in range(n):
        volume += pyramid_volume(faces, n, i)
    return math.log(volume) + log_unit if volume > 0.0 else LEAST_LOG


def check_oblique(matrix: NDArray[np.float64]) -> None:
    """Refuse cut directions whose cells have no finite volume, or none that we compute."""
    d = matrix.shape[1]
    if d > MOST_OBLIQUE:
        raise ValueError(
            f"volumes of oblique cells are computed in up to {MOST_OBLIQUE} dimensions; the "
            f"directions have {d} features"
        )
    if np.abs(matrix).max() > LARGEST_COEFFICIENT:
        raise ValueError(f"coefficients of directions must be at most {LARGEST_COEFFICIENT:g}")
    rank = np.linalg.matrix_rank(matrix)
    if rank < d:
        raise ValueError(
            f"directions must span the space of their {d} features, got {len(matrix)} of "
            f"rank {rank}"
        )
