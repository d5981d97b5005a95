"""What Voronoi diagrams are to kernels: the centres of all diagrams, and rows or an index."""

from __future__ import annotations

from ...compiling.kernels import exact_method
from ...maps.record import MapRecord
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
    transient,
)
from .distance import squared_distance
from .sparse_distance import sparse_squared_distance


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
    """A tree of points (see `search`): complete and binary, its nodes numbered by level.

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
