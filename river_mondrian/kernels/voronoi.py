"""Cells of Voronoi diagrams whose centres are samples of one pool of points.

The nearest centre of each of many small samples is sought at once. As they come from one pool, the
distance to a point of the pool serves every diagram that it belongs to. Ties go to the point that
comes first in the pool, whose order is random.

Every way to search gives the same cells. A cheap way filters by distances that are known up to a
bound; where the bound leaves several points, `distance.squared_distance` (or the same sum over the
entries of sparse rows) decides.
"""

from __future__ import annotations

import math

import numpy as np

from . import maps
from .distance import LANES, squared_distance
from .memory import (
    LARGEST,
    exact_inlined,
    exact_kernel,
    f32,
    f64,
    i32,
    i64,
    put_f32,
    put_f64,
    put_i32,
    put_i64,
)

# Words of the record. Members are int32, the points of each diagram in ascending order, the j-th
# ones of all diagrams side by side.
FACTORS = maps.OWN
MEMBERS = maps.OWN + 1
N_CELLS = maps.OWN + 2
N_POINTS = maps.OWN + 3
DISTANCES = maps.OWN + 4
NEAREST = maps.OWN + 5
SECOND = maps.OWN + 6
# Whether all values of the pool are so small integers that no sum needs rounding.
WHOLE = maps.OWN + 7
# Dense points: padded rows of float32.
ROW = maps.OWN + 8
POINTS = maps.OWN + 9
WIDTH = maps.OWN + 10
# Sparse points: a CSR matrix by point and one by feature, squared norms, room for a sample.
STARTS = maps.OWN + 11
ENTRY_PLACES = maps.OWN + 12
ENTRY_VALUES = maps.OWN + 13
FEATURE_STARTS = maps.OWN + 14
FEATURE_POINTS = maps.OWN + 15
FEATURE_VALUES = maps.OWN + 16
NORMS = maps.OWN + 17
LARGEST_NORM = maps.OWN + 18
X_PLACES = maps.OWN + 19
X_VALUES = maps.OWN + 20
X_ENTRIES = maps.OWN + 21
LANE_SUMS = maps.OWN + 22
# A tree of the points (see `kernels.tree`).
TREE = maps.OWN + 23
N_WORDS = 24

# Integers up to this one have exact squares, products and sums of 2**31 of them.
LARGEST_WHOLE = 1024.0

# Rounding of the differences in `distance`: what its squares may be off by, relative, twice.
ROUNDING = 5e-7


@exact_inlined
def nearest_members(record: int, distances: int, out: int) -> None:
    """Find the nearest centre of every diagram by the distances of all points."""
    t, n_cells = i64(record, maps.N_OUT), i64(record, N_CELLS)
    members, nearest = i64(record, MEMBERS), i64(record, NEAREST)
    for i in range(t):
        put_f64(nearest, i, f64(distances, i32(members, i)))
        put_i32(out, i, i * n_cells)
    for j in range(1, n_cells):
        members += 4 * t
        for i in range(t):
            distance, best = f64(distances, i32(members, i)), f64(nearest, i)
            nearer = distance < best
            put_f64(nearest, i, distance if nearer else best)
            put_i32(out, i, i * n_cells + j if nearer else i32(out, i))


@exact_inlined
def filtered_members(
    record: int, distances: int, relative: float, absolute: float, out: int
) -> None:
    """Find the nearest centres by distances of which differences are known up to a bound.

    The bound is `relative` times the distance of the nearest, plus `absolute`.
    """
    t, n_cells = i64(record, maps.N_OUT), i64(record, N_CELLS)
    members, nearest, second = i64(record, MEMBERS), i64(record, NEAREST), i64(record, SECOND)
    for i in range(t):
        put_f64(nearest, i, f64(distances, i32(members, i)))
        put_f64(second, i, math.inf)
        put_i32(out, i, i * n_cells)
    for j in range(1, n_cells):
        members += 4 * t
        for i in range(t):
            distance, best = f64(distances, i32(members, i)), f64(nearest, i)
            nearer = distance < best
            farther = best if nearer else distance
            put_f64(nearest, i, distance if nearer else best)
            put_f64(second, i, farther if farther < f64(second, i) else f64(second, i))
            put_i32(out, i, i * n_cells + j if nearer else i32(out, i))
    for i in range(t):
        limit = f64(nearest, i) + relative * max(f64(nearest, i), 0.0) + absolute
        if f64(second, i) <= limit:
            put_i32(out, i, i * n_cells + exact_member(record, distances, limit, i))


@exact_inlined
def exact_member(record: int, distances: int, limit: float, i: int) -> int:
    """Find a diagram's nearest centre among those within a limit, by exact distances."""
    t = i64(record, maps.N_OUT)
    member = i64(record, MEMBERS) + 4 * i
    best, found = math.inf, np.int64(0)
    for j in range(i64(record, N_CELLS)):
        p = i32(member, 0)
        if f64(distances, p) <= limit:
            if i64(record, POINTS) != 0:
                width = i64(record, WIDTH)
                distance = squared_distance(
                    i64(record, ROW), i64(record, POINTS) + 4 * width * p, width
                )
            else:
                distance = sparse_squared_distance(record, p)
            if distance < best:
                best, found = distance, np.int64(j)
        member += 4 * t
    return found


@exact_inlined
def add_to_lane(sums: int, place: int, gap: float) -> None:
    """Add the square of a single-precision difference to its lane."""
    k = place % LANES
    put_f64(sums, k, f64(sums, k) + gap * gap)


@exact_inlined
def sparse_squared_distance(record: int, p: int) -> float:
    """Return what `squared_distance` gives for a sample's entries and a sparse point."""
    sums = i64(record, LANE_SUMS)
    for k in range(LANES):
        put_f64(sums, k, 0.0)
    x_places, x_values = i64(record, X_PLACES), i64(record, X_VALUES)
    places, values = i64(record, ENTRY_PLACES), i64(record, ENTRY_VALUES)
    a, a_end = np.int64(0), i64(record, X_ENTRIES)
    b, b_end = i64(i64(record, STARTS), p), i64(i64(record, STARTS), p + 1)
    while a < a_end or b < b_end:
        if b == b_end or (a < a_end and i32(x_places, a) < i32(places, b)):
            add_to_lane(sums, i32(x_places, a), f32(x_values, a))
            a += 1
        elif a == a_end or i32(places, b) < i32(x_places, a):
            add_to_lane(sums, i32(places, b), f32(values, b))
            b += 1
        else:
            gap = np.float64(np.float32(f32(x_values, a)) - np.float32(f32(values, b)))
            add_to_lane(sums, i32(places, b), gap)
            a += 1
            b += 1
    for half in (4, 2, 1):
        for k in range(half):
            put_f64(sums, k, f64(sums, k) + f64(sums, k + half))
    return f64(sums, 0)


@exact_inlined
def scan_row(record: int, out: int) -> None:
    """Map the row by its distances to all points."""
    row, point, width = i64(record, ROW), i64(record, POINTS), i64(record, WIDTH)
    distances = i64(record, DISTANCES)
    for p in range(i64(record, N_POINTS)):
        put_f64(distances, p, squared_distance(row, point, width))
        point += 4 * width
    nearest_members(record, distances, out)


def scan(record: int, x: int, out: int) -> int:
    """Map a vector by its distances to all points."""
    bad = maps.read_vector(record, x, i64(record, FACTORS), i64(record, ROW))
    if bad < 0:
        scan_row(record, out)
    return bad


@exact_inlined
def put_entry(record: int, place: int, value: float) -> None:
    """Append an entry to the sample, unless it is zero or missing."""
    value = maps.scaled(value, f64(i64(record, FACTORS), place)) if value == value else 0.0
    if value != 0.0:
        n = i64(record, X_ENTRIES)
        put_i32(i64(record, X_PLACES), n, place)
        put_f32(i64(record, X_VALUES), n, value)
        put_i64(record, X_ENTRIES, n + 1)


@exact_inlined
def sort_entries(record: int) -> None:
    """Sort the sample's entries by place (Shell's method with Ciura's gaps)."""
    places, values, n = i64(record, X_PLACES), i64(record, X_VALUES), i64(record, X_ENTRIES)
    for gap in (8929, 3905, 1750, 701, 301, 132, 57, 23, 10, 4, 1):
        for a in range(gap, n):
            place, value = i32(places, a), f32(values, a)
            b = a
            while b >= gap and i32(places, b - gap) > place:
                put_i32(places, b, i32(places, b - gap))
                put_f32(values, b, f32(values, b - gap))
                b -= gap
            put_i32(places, b, place)
            put_f32(values, b, value)


@exact_inlined
def look_up(record: int, out: int) -> None:
    """Map the sample's entries through the index from features to points."""
    distances, norms, n_points = i64(record, DISTANCES), i64(record, NORMS), i64(record, N_POINTS)
    x_places, x_values = i64(record, X_PLACES), i64(record, X_VALUES)
    starts, points = i64(record, FEATURE_STARTS), i64(record, FEATURE_POINTS)
    values = i64(record, FEATURE_VALUES)
    norm, whole = 0.0, i64(record, WHOLE) != 0
    for e in range(i64(record, X_ENTRIES)):
        value = f32(x_values, e)
        norm += value * value
        whole = whole and value == math.floor(value) and math.fabs(value) <= LARGEST_WHOLE
    for p in range(n_points):
        put_f64(distances, p, norm + f64(norms, p))
    for e in range(i64(record, X_ENTRIES)):
        place, twice = i32(x_places, e), 2.0 * f32(x_values, e)
        for q in range(i64(starts, place), i64(starts, place + 1)):
            p = i32(points, q)
            put_f64(distances, p, f64(distances, p) - twice * f32(values, q))
    if whole:
        nearest_members(record, distances, out)
    else:
        sort_entries(record)
        lost = 1e-12 * (norm + f64(record, LARGEST_NORM))
        filtered_members(record, distances, ROUNDING, lost, out)


def look_up_vector(record: int, x: int, out: int) -> int:
    """Map a vector to cells of sparse points."""
    put_i64(record, X_ENTRIES, 0)
    for place in range(i64(record, maps.N_INPUTS)):
        value = f64(x, place)
        if math.fabs(value) > LARGEST:
            return place
        if value != 0.0:
            put_entry(record, place, value)
    look_up(record, out)
    return -1


def look_up_entries(record: int, x: int, out: int) -> int:
    """Map a sparse sample to cells of sparse points."""
    bad = maps.bad_entry(record, x)
    if bad >= 0:
        return bad
    put_i64(record, X_ENTRIES, 0)
    places, values = i64(x, maps.PLACES), i64(x, maps.VALUES)
    for e in range(i64(x, maps.ENTRIES)):
        if 0 <= i32(places, e) < i64(record, maps.N_INPUTS):
            put_entry(record, i32(places, e), f64(values, e))
    look_up(record, out)
    return -1


@exact_kernel
def read_rows(record: int, x: int, width: int, n: int, rows: int) -> int:
    """Write `n` vectors of `width` float64 values to padded rows of float32, scaled.

    Returns -1, or row * `N_INPUTS` + place of the first bad input.
    """
    for row in range(n):
        bad = maps.read_vector(record, x, i64(record, FACTORS), rows)
        if bad >= 0:
            return row * i64(record, maps.N_INPUTS) + bad
        x += 8 * width
        rows += 4 * i64(record, WIDTH)
    return -1


@exact_kernel
def filter_rows(
    record: int, rows: int, products: int, mean_norms: int, n: int, bound: float, out: int
) -> None:
    """Map scaled rows by their dot products with all points, known up to a bound.

    Parameters
    ----------
    record
        The map.
    rows
        Padded float32 rows.
    products
        The float32 dot products of the centred rows with the centred points, a row per row.
    mean_norms
        Squared norms (float64) of the centred rows, then those of the centred points.
    n
        Number of rows.
    bound
        How far the difference of two squared distances is off at most, in units of the squared
        norms' sum.
    out
        Where the cells go.

    """
    n_points, t = i64(record, N_POINTS), i64(record, maps.N_OUT)
    width, distances = i64(record, WIDTH), i64(record, DISTANCES)
    point_norms = mean_norms + 8 * n
    largest = 0.0
    for p in range(n_points):
        largest = max(largest, f64(point_norms, p))
    home = i64(record, ROW)
    for r in range(n):
        norm = f64(mean_norms, r)
        for p in range(n_points):
            put_f64(distances, p, norm + f64(point_norms, p) - 2.0 * f32(products, p))
        put_i64(record, ROW, rows)
        filtered_members(record, distances, ROUNDING, bound * (norm + largest), out)
        rows += 4 * width
        products += 4 * n_points
        out += 4 * t
    put_i64(record, ROW, home)
