"""Volumes of oblique cells."""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.typing import NDArray

# The logarithm of the least positive float of full precision.
LEAST_LOG = math.log(sys.float_info.min)
# How far from a cell's faces, by its width, the point must be from which its volume is computed.
CLEARANCE = 1e-7
# Dimensions in which volumes of oblique cells are computed.
MOST_OBLIQUE = 3
# The largest coefficient of a direction, so that samples along it are finite.
LARGEST_COEFFICIENT = 1e100


def log_polytope_volume(
    directions: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    inside: NDArray[np.float64],
) -> float:
    """Return the log of the volume of a cell {y: lower <= U y <= upper} in up to 3 dimensions.

    Parameters
    ----------
    directions
        The matrix U, whose rank is its number of columns.
    lower, upper
        Bounds along the directions, a number each.
    inside
        U y for a y in the cell.

    Returns
    -------
    The logarithm, that of the least positive float where the volume is too small to be computed.

    """
    from scipy.spatial import ConvexHull, HalfspaceIntersection, QhullError

    dims = directions.shape[1]
    widths = upper - lower
    if not (widths > 0.0).all():
        return LEAST_LOG
    # In the coordinates R y, from that y on, the cell is about as wide everywhere: with the sides
    # as units, U = Q R and Q's columns are orthonormal.
    normals, stretch = np.linalg.qr(directions / widths[:, None])
    log_unit = -float(np.log(np.abs(np.diag(stretch))).sum())
    faces = np.vstack([normals, -normals])
    reach = np.concatenate([(upper - inside) / widths, (inside - lower) / widths])
    if dims == 1:
        ends, ahead = reach / np.abs(faces[:, 0]), faces[:, 0] > 0.0
        length = ends[ahead].min() + ends[~ahead].min()
        return math.log(length) + log_unit if length > 0.0 else LEAST_LOG
    if reach.min() < CLEARANCE:
        center, radius = _largest_ball(faces, reach)
        if radius < CLEARANCE**2:
            return LEAST_LOG
        reach, log_unit = (reach - faces @ center) / radius, log_unit + dims * math.log(radius)
    halfspaces = np.column_stack([faces, -reach])
    for options in ("", "QJ"):  # joggled where the corners are too flat
        try:
            found = HalfspaceIntersection(halfspaces, np.zeros(dims), qhull_options=options or None)
            hull = ConvexHull(found.intersections, qhull_options=options or None)
        except QhullError:
            continue
        if hull.volume > 0.0:
            return math.log(hull.volume) + log_unit
    return LEAST_LOG


def _largest_ball(
    faces: NDArray[np.float64], reach: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return the center and the radius of the largest ball in {y: faces y <= reach}."""
    from scipy.optimize import linprog

    dims = faces.shape[1]
    norms = np.linalg.norm(faces, axis=1)
    found = linprog(
        np.append(np.zeros(dims), -1.0),
        A_ub=np.column_stack([faces, norms]),
        b_ub=reach,
        bounds=[(None, None)] * dims + [(0.0, None)],
    )
    if not found.success:
        return np.zeros(dims), 0.0
    best = np.asarray(found.x)
    return best[:-1], float(best[-1])


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
