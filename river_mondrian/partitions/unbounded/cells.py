"""Cells of Mondrians: boxes, how they are cut, and how they were before they were cut."""

from __future__ import annotations

import math

from ...compiling.kernels import exact_inlined
from ...records import Float64s, Int64, Record
from .keys import CUT_DIM, CUT_PLACE, CUT_TIME, FACE_REACH, PER_DIM, exponential, uniform

# The dimension in which a cell is cut that cannot be cut.
NO_DIM = -1

_PRECISION = 2.0**-52


class Cell(Record):
    """A box: the points z with lower < z <= upper in every dimension.

    It lies within the record that has it; the corners are in arrays of the owner.
    """

    EMBEDDED = True

    n_dims: Int64
    lower: Float64s
    upper: Float64s


@exact_inlined
def copy_cell(source: Cell, target: Cell) -> None:
    """Write a cell's corners to another one."""
    lower, upper, new_lower, new_upper = source.lower, source.upper, target.lower, target.upper
    for j in range(source.n_dims):
        new_lower[j] = lower[j]
        new_upper[j] = upper[j]


@exact_inlined
def contains(cell: Cell, z: Float64s) -> bool:
    """Tell whether a cell contains a point."""
    lower, upper = cell.lower, cell.upper
    for j in range(cell.n_dims):
        if not lower[j] < z[j] <= upper[j]:
            return False
    return True


@exact_inlined
def clip(cell: Cell, dim: int, place: float, is_right: bool) -> None:
    """Turn a cell into its part on one side of a cut."""
    if is_right:
        cell.lower[dim] = place
    else:
        cell.upper[dim] = place


@exact_inlined
def beyond(value: float, step: float) -> float:
    """Return the value plus a positive step, or what is next to it where rounding eats the step."""
    return max(value + step, value + math.fabs(value) * _PRECISION)


@exact_inlined
def side_length(lower: float, upper: float) -> float:
    """Return the length of a side, 0 where no number lies between its ends to cut at."""
    middle = lower + 0.5 * (upper - lower)
    return upper - lower if lower < middle < upper else 0.0


@exact_inlined
def place_within(lower: float, upper: float, share: float) -> float:
    """Return the place at a share of a side that can be cut."""
    place = lower + share * (upper - lower)
    return place if lower < place < upper else lower + 0.5 * (upper - lower)


@exact_inlined
def log_volume_of(cell: Cell) -> float:
    """Return the logarithm of a cell's volume."""
    lower, upper = cell.lower, cell.upper
    total = 0.0
    for j in range(cell.n_dims):
        total += math.log(upper[j] - lower[j])
    return total


@exact_inlined
def linear_dimension(cell: Cell) -> float:
    """Return the sum of a cell's sides."""
    lower, upper = cell.lower, cell.upper
    total = 0.0
    for j in range(cell.n_dims):
        total += side_length(lower[j], upper[j])
    return total


@exact_inlined
def cut_of(cell: Cell, key: int, began: float) -> tuple[float, int, float]:
    """Return the time, the dimension and the place at which a cell is cut that began at a time.

    It is cut at the rate of its linear dimension, in a dimension drawn by the sides, at a uniform
    place (Algorithm 2 of Lakshminarayanan et al. 2014, lines 1, 6 and 7).
    """
    lower, upper = cell.lower, cell.upper
    rate = linear_dimension(cell)
    time = began + exponential(key, CUT_TIME, rate)
    rest = uniform(key, CUT_DIM) * rate
    dim, place = NO_DIM, 0.0
    for j in range(cell.n_dims):
        length = side_length(lower[j], upper[j])
        if length > 0.0 and rest >= 0.0:
            dim = j
            rest -= length
    if dim != NO_DIM:
        place = place_within(lower[dim], upper[dim], uniform(key, CUT_PLACE))
    return time, dim, place


@exact_inlined
def reach_around(cell: Cell, z: Float64s, key: int, lifetime: float) -> None:
    """Draw the cell of a point at a lifetime."""
    lower, upper = cell.lower, cell.upper
    for j in range(cell.n_dims):
        # Equation 16: exponential on both sides, with a mean of 1 / lifetime in our units.
        below = exponential(key, PER_DIM + 3 * j, lifetime)
        above = exponential(key, PER_DIM + 3 * j + 1, lifetime)
        lower[j] = -beyond(-z[j], below)
        upper[j] = beyond(z[j], above)


@exact_inlined
def latest_face(n_dims: int, key: int, began: float) -> tuple[float, int, float]:
    """Return when the face that was cut last was cut, which it is, and how far it was before.

    Faces are numbered 2 dim, the lower, and 2 dim + 1. By Equation 16 a face is Exp(s) away at time
    s from any point of the cell. Hence, whatever the cell, each face was cut at a uniform time of
    (0, s), and the latest of 2 D such times is s U^(1 / 2D); at that time t the face was further
    away by Exp(t). What the face parts from the cell is a fresh Mondrian that begins at t.
    """
    n_faces = 2 * n_dims
    time = began * uniform(key, CUT_TIME) ** (1.0 / n_faces)
    face = min(int(uniform(key, CUT_DIM) * n_faces), n_faces - 1)
    return time, face, exponential(key, FACE_REACH, time)


@exact_inlined
def push_back(cell: Cell, face: int, reach: float) -> float:
    """Move a face of a cell outwards; returns where it was."""
    dim = face >> 1
    if face & 1:
        old = cell.upper[dim]
        cell.upper[dim] = beyond(old, reach)
    else:
        old = cell.lower[dim]
        cell.lower[dim] = -beyond(-old, reach)
    return old
