"""Voronoi diagrams, and the nearest centres of all of them by the distances of all points.

The nearest centre of each of many small samples is sought at once. As they come from one pool, the
distance of a point of the pool serves every diagram that it belongs to. Ties go to the point that
comes first in the pool, whose order is random.
"""

from __future__ import annotations

import math
from typing import TypeVar

from ...compiling.kernels import exact_batch_kernel, exact_inlined, exact_method, exact_separate
from ...limits import LARGEST
from ...maps.record import MapRecord, Outputs, Sample, bad_entry, read_vector, scaled
from ...records import (
    Array,
    Float32s,
    Float64,
    Float64s,
    Int32,
    Int32s,
    Int64,
    Int64s,
    Record,
    room_of_array,
    transient,
)
from ...status import DONE
from . import bounds
from .bounds import LARGEST_WHOLE
from .distances import sparse_squared_distance, squared_distance


class Voronoi(MapRecord):
    """Voronoi diagrams whose centres are points of one pool; there is one for each output."""

    # What each feature is multiplied by.
    factors: Float64s
    # Numbers of the points of each diagram in ascending order, the j-th ones of all diagrams side
    # by side.
    members: Int32s
    # Points of a diagram.
    n_cells: Int64
    # Points that are in any diagram.
    n_points: Int64
    # Room: distance of each point, and of the nearest and second nearest centre of each diagram.
    distances: Float64s = transient()
    nearest: Float64s = transient()
    second: Float64s = transient()

    def exact_distance(self, p: int) -> float:
        """Return the distance of the sample that is being mapped from a point."""
        raise NotImplementedError


class Owner(Record):
    """A diagram that has a point as a centre."""

    # Number of the diagram, and the column of its cell.
    diagram: Int32
    column: Int32


class Pending(Record):
    """A node that a search has yet to go to."""

    node: Int64
    # Lower bound of the distances of points in it.
    bound: Float64


class PointTreeRecord(Record):
    """A tree of points (see `tree`): complete and binary, its nodes numbered by level.

    Points are in the order of the leaves. A coordinate is the projection on an axis, or the last
    one, the norm of what is left.
    """

    # Axes: a row of `width` for each feature, and the mean of the points.
    axes: Float64s
    mean: Float64s
    n_axes: Int64
    n_coordinates: Int64
    # Room of coordinates in boxes and in the query, padded.
    width: Int64
    # Each node's box: the low sides of all coordinates, then the high ones.
    boxes: Float32s
    # Coordinates of each leaf's points, coordinate by coordinate, `LEAF` for each.
    coordinates: Float32s
    # Number of the first leaf's node, and where each leaf's points begin.
    first_leaf: Int64
    leaf_starts: Int64s
    # Diagrams of the points, and where those of each point begin.
    owners: Array[Owner]
    owner_starts: Int64s
    # How far a lower bound may exceed an exact distance (`bounds.tree_slack`).
    relative: Float64
    absolute: Float64
    least: Float64
    # Room: the sample's coordinates in double and in single precision, a leaf's lower bounds, and
    # nodes to go to.
    projection: Float64s = transient()
    query: Float32s = transient()
    lower: Float32s = transient()
    stack: Array[Pending] = transient()
    # Leaves and points that searches have visited, by which the tree is judged when it is new.
    n_leaves_visited: Int64 = transient()
    n_points_visited: Int64 = transient()


class DenseVoronoi(Voronoi):
    """Voronoi diagrams of points that are rows of values."""

    # The sample that is being mapped, scaled and padded.
    row: Float32s = transient()
    # A row of `width` for each point, padded.
    points: Float32s
    width: Int64
    # A tree of the points, or none.
    tree: PointTreeRecord

    @exact_method
    def exact_distance(self, p: int) -> float:
        """Return the distance of the row from a point."""
        width = self.width
        return squared_distance(self.row, self.points.part(width * p, width), width)


class IndexedVoronoi(Voronoi):
    """Voronoi diagrams of sparse points, with an index from features to points."""

    # Whether all values of the pool are integers of which no sum needs rounding.
    whole: Int64
    # How far distances by the index are off, in units of the squared norms (`bounds`).
    error: Float64
    # Entries by point: a CSR matrix.
    starts: Int64s
    places: Int32s
    values: Float32s
    # Entries by feature: a CSC matrix.
    feature_starts: Int64s
    feature_points: Int32s
    feature_values: Float32s
    # Squared norm of each point, and the largest.
    norms: Float64s
    largest_norm: Float64
    # Room: the sample's entries, scaled, without zeros, and the partial sums of a distance.
    n_entries: Int64 = transient()
    x_places: Int32s = transient()
    x_values: Float32s = transient()
    lane_sums: Float64s = transient()

    @exact_method
    def exact_distance(self, p: int) -> float:
        """Return the distance of the sample's entries, in order, from a point."""
        start = self.starts[p]
        n = self.starts[p + 1] - start
        return sparse_squared_distance(
            self.x_places,
            self.x_values,
            self.n_entries,
            self.places.part(start, n),
            self.values.part(start, n),
            n,
            self.lane_sums,
        )


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


_room_for_sample = room_of_array(Sample, 1)


@exact_inlined
def scan_row(record: DenseVoronoi, cells: Int32s) -> None:
    """Map the row by its distances from all points."""
    row, points, width = record.row, record.points, record.width
    distances = record.distances
    for p in range(record.n_points):
        distances[p] = squared_distance(row, points.part(width * p, width), width)
    find_nearest(record, cells)


@exact_separate
def scan(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a vector by its distances from all points."""
    voronoi = DenseVoronoi(record)
    bad = read_vector(voronoi, sample, voronoi.factors, voronoi.row)
    if bad < 0:
        scan_row(voronoi, outputs.cells)
    return bad


@exact_batch_kernel
def read_rows(record: DenseVoronoi, values: Float64s, width: int, n: int, rows: Float32s) -> int:
    """Write `n` vectors of `width` values to padded rows, scaled.

    Returns DONE, or row * `n_inputs` + place of the first bad input.
    """
    samples, room = _room_for_sample(), record.width
    sample = samples[0]
    for row in range(n):
        sample.values = values.part(width * row, width)
        bad = read_vector(record, sample, record.factors, rows.part(room * row, room))
        if bad >= 0:
            return row * record.n_inputs + bad
    return DONE


@exact_batch_kernel
def filter_rows(
    record: DenseVoronoi,
    rows: Float32s,
    products: Float32s,
    norms: Float64s,
    n: int,
    error: float,
    least: float,
    cells: Int32s,
) -> None:
    """Map scaled rows by their dot products with all points.

    Parameters
    ----------
    record
        The map.
    rows
        Padded rows.
    products
        The dot products of the centred rows with the centred points, a row per row.
    norms
        Squared norms of the centred rows, then those of the centred points.
    n
        Number of rows.
    error, least
        How far distances are off by the products (`bounds.product_error`).
    cells
        Where the cells go.

    """
    n_points, t, width = record.n_points, record.n_out, record.width
    distances, point_norms = record.distances, norms.part(n, n_points)
    largest = 0.0
    for p in range(n_points):
        largest = max(largest, point_norms[p])
    home = record.row
    for r in range(n):
        norm, own = norms[r], products.part(n_points * r, n_points)
        for p in range(n_points):
            distances[p] = norm + point_norms[p] - 2.0 * own[p]
        record.row = rows.part(width * r, width)
        filter_nearest(record, error * (norm + largest) + least, cells.part(t * r, t))
    record.row = home


@exact_inlined
def add_entry(record: IndexedVoronoi, place: int, value: float) -> None:
    """Append an entry to the sample, unless it is zero or missing."""
    value = scaled(value, record.factors[place]) if value == value else 0.0
    if value != 0.0:
        n = record.n_entries
        record.x_places[n] = place
        record.x_values[n] = value
        record.n_entries = n + 1


@exact_inlined
def sort_entries(record: IndexedVoronoi) -> None:
    """Sort the sample's entries by place (Shell's method with Ciura's gaps)."""
    places, values, n = record.x_places, record.x_values, record.n_entries
    for gap in (8929, 3905, 1750, 701, 301, 132, 57, 23, 10, 4, 1):
        for a in range(gap, n):
            place, value = places[a], values[a]
            b = a
            while b >= gap and places[b - gap] > place:
                places[b] = places[b - gap]
                values[b] = values[b - gap]
                b -= gap
            places[b] = place
            values[b] = value


@exact_inlined
def map_by_index(record: IndexedVoronoi, cells: Int32s) -> None:
    """Map the sample's entries: |x - p|^2 = |x|^2 + |p|^2 - 2 x . p for all points at once."""
    distances, norms = record.distances, record.norms
    x_places, x_values, n_entries = record.x_places, record.x_values, record.n_entries
    starts, points = record.feature_starts, record.feature_points
    values = record.feature_values
    norm, whole = 0.0, record.whole != 0
    for e in range(n_entries):
        value = x_values[e]
        norm += value * value
        whole = whole and math.fabs(value) <= LARGEST_WHOLE and value == math.floor(value)
    for p in range(record.n_points):
        distances[p] = norm + norms[p]
    for e in range(n_entries):
        place, twice = x_places[e], 2.0 * x_values[e]
        for q in range(starts[place], starts[place + 1]):
            p = points[q]
            distances[p] = distances[p] - twice * values[q]
    if whole:
        find_nearest(record, cells)
    else:
        sort_entries(record)
        filter_nearest(record, record.error * (norm + record.largest_norm), cells)


@exact_separate
def index_vector(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a vector to cells of sparse points."""
    voronoi, values = IndexedVoronoi(record), sample.values
    voronoi.n_entries = 0
    for place in range(voronoi.n_inputs):
        value = values[place]
        if math.fabs(value) > LARGEST:
            return place
        if value != 0.0:
            add_entry(voronoi, place, value)
    map_by_index(voronoi, outputs.cells)
    return DONE


@exact_separate
def index_entries(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a sparse sample to cells of sparse points."""
    voronoi = IndexedVoronoi(record)
    bad = bad_entry(voronoi, sample)
    if bad >= 0:
        return bad
    voronoi.n_entries = 0
    places, entries = sample.places, sample.entries
    for e in range(sample.n_entries):
        if 0 <= places[e] < voronoi.n_inputs:
            add_entry(voronoi, places[e], entries[e])
    map_by_index(voronoi, outputs.cells)
    return DONE
