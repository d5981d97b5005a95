"""Searches for the nearest centres of Voronoi diagrams, by distances to all points.

One search finds the nearest centres of all diagrams. All centres are points of one pool. So the
distance to a point is computed once for all diagrams in which the point is a centre. Ties go to the
first point in the pool, whose order is random.

The search for Voronoi cells (aNNE of Ting, Wells and Washio 2021) is exact for the following
reasons.

Cells. Let D(x, p) be the result of `distances.squared_distance` for the scaled values of a sample x
and a point p in single precision. All searches compute D with the same order of summation. The cell
of x in a diagram belongs to the centre p with the least D(x, p). Among centres at equal distances,
the first centre in the pool is chosen. Every search compares candidates by D alone and keeps the
first of equal candidates. So a search is exact if it excludes no point with the least D. A
filtering search computes an approximation A(x, p) for each point, whose rounding errors are bounded
next.

Units. u = 2^-24 is the unit round-off of single precision, and v = 2^-53 of double precision. Let
gamma_n(u) = n u / (1 - n u). If n operations have relative errors up to u, the result is off by a
factor within 1 +- gamma_n(u). Sums and differences do not underflow. Products in single precision
that underflow are off by at most 2^-150. The compared values are at most 1e30 in absolute value
(`limits.FARTHEST`). `FARTHEST_SQUARE` prevents overflow of squares in single precision.

D and the true distance. Let S = |x - p|^2 for the d values in single precision, computed without
rounding. Differences are rounded to single precision before they are squared: a factor within (1 +-
u)^2. The squares are exact in double precision, with 48 bits. Each square passes through at most
d/8 + 3 additions in double precision. Thus D = S (1 + t) with |t| <= 2 u + u^2 + gamma_(d/8+4)(v),
which is below 5/2 u for any d up to 2^30.

Filters by approximate distances (`nearest.filter_nearest`). Let |A(x, p) - S(x, p)| <= e for all
points p of a diagram, up to a term that all points share. Let q be the point with the least A, and
c a point with the least D. Then S(c) <= D(c) / (1 - t) <= D(q) / (1 - t) <= S(q) (1 + t) / (1 - t),
so

    A(c) <= S(c) + e <= (A(q) + e) (1 + t) / (1 - t) + e <= A(q) + 6 u max(A(q), 0) + 3 e.

The search computes D for all points whose A is at most this limit. `LIMIT_FACTOR` is 6 u. Without
the rounding of the limit, 5 u would be enough. The term 3 e leaves e (1 - 6 u) for the rounding of
the absolute part.

- By an index (`index_error`): A = (|x|^2 + |p|^2) - sum of 2 x_j p_j, in double precision, where 2
  x_j p_j is exact. Let N = |x|^2 + |p|^2. A norm is a sum of at most d terms in any order, so its
  relative error is at most gamma_d(v). At most d + 1 further results follow. Each is at most 2 N in
  absolute value, and adds an error of at most 2 v N. Together e <= (gamma_d(v) + 2 (d + 1) v) N <=
  4 gamma_(d+1)(v) N. For integers up to `LARGEST_WHOLE` no result is rounded, since sums of 2^31
  squares or products stay below 2^53. So A = D.
- By a matrix product (`product_error`): A = |c|^2 + |k|^2 - 2 c . k, where c and k are the sample
  and the point minus a mean, rounded to single precision. The product is a sum of d products in
  single precision in any order, with or without fused operations. The sum is off by at most
  gamma_d(u) (|c|^2 + |k|^2) / 2, and underflow adds at most 2^-150 d. With N = |c|^2 + |k|^2, the
  rounding of the norms in double precision is less than u N for d < 2^26. By the rounding of c and
  k, |c - k| is off from |x - p| by at most h = u (1 + 2 u) (|c| + |k|). The square is off by at
  most h (2 |c - k| + h) <= 2 (1 + 2 u) u (|c| + |k|)^2 + h^2 <= 5 u N. Together e <= gamma_(d+6)(u)
  N + 2^-149 d.

Lower bounds that exclude points (`distances.tree_slack`). Let Q be a matrix of k columns that are
orthonormal (or zero), and w(x) = x - mean. Let y(x) = Q' w(x) and r(x)^2 = |w(x)|^2 - |y(x)|^2.
Then |y(x) - y(p)|^2 + (r(x) - r(p))^2 <= S. The first term is the part of |x - p|^2 in the span of
Q. The *remainder* of w(x) is its part outside this span, and has the norm r(x). The norms r(x) and
r(p) differ by at most the norm of the remainder of x - p. The search uses axes A instead of Q, and
rounds results:

- The axes: let |A'A - I| <= a. Let A = Q R, with R the symmetric root of A'A. Then |A - Q| <= a,
  since |s - 1| <= |s^2 - 1| for each singular value s of A. `deviation` measures a: the computed
  Frobenius norm of A'A - I. Each entry is off by gamma_d(v) |a_i| |a_j|, and all entries together
  by gamma_d(v) (|a_1|^2 + ... + |a_k|^2) <= 2 k gamma_d(v).
- The coordinates z, sums of d products in double precision: |z - y| <= f |w| with f =
  gamma_(d+2)(v) sqrt(2 k) + a.
- The remainder: the computed |w|^2 - |z|^2 is off from r^2 by at most g^2 |w|^2 with g^2 = 2
  gamma_(d+k+4)(v) + 2 f + f^2. The root is off from r by at most g |w|, since the roots of two
  numbers differ by at most the root of their difference.
- Coordinates and remainder are rounded to single precision: each is off by another 2 u |w|, and
  underflow adds 2^-150.

So the vector of coordinates is off by at most b |w|, b = f + g + 2 u. (If there are as many axes as
features, there is no remainder, and g = 0.) Let s^2 = S, and let B be the squared distance of the
coordinates. As |w(p)| <= |w(x)| + s, sqrt(B) <= s + b |w(x)| + b |w(p)| <= (1 + b) s + 2 b |w(x)|.
For any m > 0,

    B <= (1 + m) (1 + b)^2 S + (1 + 1 / m) (2 b |w(x)|)^2.

B is computed in single precision from n coordinates. The relative error of the result is at most
gamma_(n+3)(u), since all terms are positive. Underflow adds an error of at most 2^-150 n. The B of
a box is at most the B of a point within the box, and needs no more operations. Finally S <= D (1 +
3 u). Hence the computed bound of any p with D(x, p) <= D, or of a box around p, is at most

    D (1 + relative) + absolute |w(x)|^2 + least.

`tree_slack` returns these three numbers. Rounding and underflow both add to the coordinates. The
number `absolute` is twice the term above, since |a + b|^2 <= 2 |a|^2 + 2 |b|^2. The number `least`
is 2^-149 n. (The terms 2 u and 3 u are larger than needed by almost u and u / 2. This margin is for
the rounding of |w|^2 and of the limit, which are in double precision.) Let D be the largest of the
nearest distances that the search has found for the diagrams. The search excludes points whose bound
exceeds the limit for this D. So the search never excludes the nearest centre of a diagram. The
constant m is 2^-16. The relative term grows with m, and the absolute term grows with 1 / m.

Filters by scores (`score_error`, for `nearest.cu`). Scores are computed and compared in single
precision, without the term that all points share. The bound on the error must depend on the row
alone, not on the farthest point. With c and k as above, now minus an origin, let a = |c|, b = |k|,
N = a^2 + b^2 and T = |c - k|^2. The score is L = w n - 2 s, rounded once. s is the computed dot
product c . k, and n is b^2 rounded to single precision. The factor w = 1 - g is in single
precision, and w n is rounded, too.

- |S - T| <= 5 u N, as above.
- s is off by gamma_d(u) a b and 2^-150 d, hence 2 s by gamma_d(u) N and 2^-149 d.
- n is off by 1.2 u b^2 and w n by another 1.01 u b^2 (and 2^-150 each), as d is below 2^26.
- The result that is rounded last is at most 2.1 N in absolute value.

So L + a^2 + g b^2 is off from S by at most e N + h, e = gamma_d(u) + 9.4 u, h = 2^-147 d. Let E =
gamma_(d+10)(u) <= 1/64, and let g be E up to rounding: g is from e to 1.06 E. Then for any point

    L + a^2 <= S + E a^2 + h.

Because of g, this bound does not depend on b. For the point q with the least L, let Y = L(q) + a^2.
In the other direction, S(q) and T(q) are at most Y + E a^2 + 2.06 E b^2 + h. As b <= a + sqrt(T),
b^2 <= 2 a^2 + 2 T, which gives T (1 - 4.12 E) <= Y + 5.12 E a^2 + h. Hence Y >= -5.12 E a^2 - h,
b^2 <= 2.18 a^2 + 2.14 Y + 2.14 h, and

    S(q) <= Y + 4.41 E Y + 5.5 E a^2 + 1.08 h.

For a point c with the least D, S(c) <= (1 + 6 u) S(q) as above, where 6 u <= 0.55 E. With Z =
max(Y, 0), this factor adds less than 0.59 E Z + 0.05 E a^2 + 0.01 h, and so

    L(c) <= L(q) + 5 E Z + 6.55 E a^2 + 2.09 h <= L(q) + 7 E Y + 7.2 E a^2 + 2.3 h,

since 5 E Z <= 7 E Y + 7 E (Z - Y) and Z - Y <= 5.12 E a^2 + h. The limit of the kernels is factor
L(q) + slack, with factor = 1 + 7 E and slack = 15 E a^2 + 4 h. This limit is larger than the last
bound by 0.8 E a^2 and 2 E Z. The rounding of the factor and the limit needs 3.1 u (a^2 + Z), and E
>= 11 u. The slack is infinite if |c|^2 or any |k|^2 is larger than `FARTHEST_SQUARE`, or E is
larger than 1/64. Then all pairs are compared by D.

Suppose that all values are whole numbers, and |c|^2 and |k|^2 are at most `LARGEST_WHOLE_SQUARE` =
2^22. Then all sums of the product are whole numbers up to 2^22, and scores up to 2^22 + 2^23.
Single precision holds these numbers exactly, and also the differences c and k and the differences
of D. With g = 0, L + a^2 = S = D. The first of the points with the least L is the centre of the
cell.
"""

import math
from typing import TypeVar

import numpy as np

from ... import records as rec
from ...compiling.kernels import batch_kernel, helper, link_by_name
from ...limits import DONE, LARGEST
from ...maps.record import MapRecord, Outputs, Sample, bad_entry, read_vector, scaled
from .distances import DOUBLE, SINGLE, VECTOR, add_to_lane, gamma, squared_distance

# Kernels of this module compute each sum in the order of the source, so that results do not depend
# on the compiler.
ORDERED_SUMS = True

# The relative part of a filter's limit is this factor times the least approximate distance.
LIMIT_FACTOR = 6.0 * SINGLE

# Integers up to this size have exact squares and products, and exact sums of 2^31 squares or
# products.
LARGEST_WHOLE = 1024.0

# Squared norms and distances up to this size fit in single precision, with a margin.
FARTHEST_SQUARE = 1e30

# If vectors of integers have squared norms up to this size, scores are exact in single precision.
LARGEST_WHOLE_SQUARE = 2.0**22

# Limits are derived for relative errors of scores up to this size.
LARGEST_SCORE_ERROR = 1.0 / 64.0


def index_error(n_features: int) -> float:
    """Return 3 e for an index (see the module's docstring), divided by the sum of squared norms."""
    return 3.0 * 4.0 * gamma(n_features + 1, DOUBLE)


def product_error(n_features: int) -> tuple[float, float]:
    """Return 3 e for a product (see the module's docstring): the relative and the absolute part."""
    return 3.0 * gamma(n_features + 6, SINGLE), 3.0 * n_features * 2.0**-149


def score_error(n_features: int) -> tuple[float, float]:
    """Return E and h for scores (see the module's docstring). E above 1/64 becomes infinity."""
    relative = gamma(n_features + 10, SINGLE)
    return relative if relative <= LARGEST_SCORE_ERROR else math.inf, n_features * 2.0**-147


class Voronoi(MapRecord):
    """Voronoi diagrams, one for each output, whose centres are points of one pool."""

    # Factor of each feature.
    factors: rec.Float64s
    # Numbers of the centres of each diagram, shape (cells, diagrams), in the order of the pool.
    members: rec.Int32s
    # Number of centres of a diagram, one for each cell.
    n_cells: rec.Int64
    # Number of points that are centres of at least one diagram.
    n_points: rec.Int64
    # Buffers: distance of each point; nearest and second nearest distance in each diagram.
    distances: rec.Float64s = rec.transient()
    nearest: rec.Float64s = rec.transient()
    second: rec.Float64s = rec.transient()

    def exact_distance(self, p: int) -> float:
        """Return the squared distance between the current sample and a point."""
        raise NotImplementedError


class Owner(rec.Record):
    """A diagram that has a point as a centre."""

    # Number of the diagram, and the column of the centre's cell.
    diagram: rec.Int32
    column: rec.Int32


class Pending(rec.Record):
    """A node that a search has not visited."""

    node: rec.Int64
    # Lower bound on the distances of the node's points.
    bound: rec.Float64


class PointTreeRecord(rec.Record):
    """A complete binary tree of points (see `tree`), with nodes numbered by level.

    Points are in the order of the leaves. A coordinate is the projection on an axis. The last
    coordinate may be the norm of the remainder.
    """

    # Axes, with a row of `width` values for each feature, and the mean of the points.
    axes: rec.Float64s
    mean: rec.Float64s
    n_axes: rec.Int64
    n_coordinates: rec.Int64
    # Padded number of coordinates in boxes and in the query.
    width: rec.Int64
    # Each node's box: the low sides of all coordinates, then the high sides.
    boxes: rec.Float32s
    # Coordinates of each leaf's points, shape (leaves, coordinates, LEAF_SIZE).
    coordinates: rec.Float32s
    # Number of the first leaf's node, and the start of each leaf's points.
    first_leaf: rec.Int64
    leaf_starts: rec.Int64s
    # Diagrams of the points, and the start of each point's diagrams.
    owners: rec.Array[Owner]
    owner_starts: rec.Int64s
    # Largest excess of a lower bound over an exact distance (`distances.tree_slack`).
    relative: rec.Float64
    absolute: rec.Float64
    least: rec.Float64
    # Buffers: the sample's coordinates in double and in single precision, a leaf's lower bounds,
    # and nodes to visit.
    projection: rec.Float64s = rec.transient()
    query: rec.Float32s = rec.transient()
    lower: rec.Float32s = rec.transient()
    stack: rec.Array[Pending] = rec.transient()
    # Number of leaves and number of points that searches have visited. These numbers determine
    # whether a new tree is used.
    n_leaves_visited: rec.Int64 = rec.transient()
    n_points_visited: rec.Int64 = rec.transient()


class DenseVoronoi(Voronoi):
    """Voronoi diagrams of points that are stored as rows of values."""

    # The current sample, scaled and padded.
    row: rec.Float32s = rec.transient()
    # A padded row of `width` values for each point.
    points: rec.Float32s
    width: rec.Int64
    # A tree of the points, if there is one.
    tree: PointTreeRecord

    def exact_distance(self, p: int) -> float:
        """Return the squared distance between the scaled sample and a point."""
        width = self.width
        return squared_distance(self.row, self.points.part(width * p, width), width)


class IndexedVoronoi(Voronoi):
    """Voronoi diagrams of sparse points, with an index from features to points."""

    # Whether all values of the pool are integers whose sums need no rounding.
    whole: rec.Int64
    # Three times the largest error of distances by the index, relative to the sum of squared norms.
    error: rec.Float64
    # Entries of the points: a CSR matrix.
    starts: rec.Int64s
    indices: rec.Int32s
    values: rec.Float32s
    # Entries of the features: a CSC matrix.
    feature_starts: rec.Int64s
    feature_points: rec.Int32s
    feature_values: rec.Float32s
    # Squared norm of each point, and the largest squared norm.
    norms: rec.Float64s
    largest_norm: rec.Float64
    # Buffers: the sample's scaled entries without zeros, and the partial sums of a distance.
    n_entries: rec.Int64 = rec.transient()
    x_indices: rec.Int32s = rec.transient()
    x_values: rec.Float32s = rec.transient()
    lane_sums: rec.Float64s = rec.transient()

    def exact_distance(self, p: int) -> float:
        """Return the squared distance between the sample, whose entries are sorted, and a point."""
        x_indices, x_values, sums = self.x_indices, self.x_values, self.lane_sums
        indices, values, n_x = self.indices, self.values, self.n_entries
        for k in range(VECTOR):
            sums[k] = 0.0
        a, b, end = 0, self.starts[p], self.starts[p + 1]
        while a < n_x or b < end:
            if b == end or (a < n_x and x_indices[a] < indices[b]):
                add_to_lane(sums, x_indices[a], x_values[a])
                a += 1
            elif a == n_x or indices[b] < x_indices[a]:
                add_to_lane(sums, indices[b], values[b])
                b += 1
            else:
                gap = np.float64(np.float32(x_values[a]) - np.float32(values[b]))
                add_to_lane(sums, indices[b], gap)
                a += 1
                b += 1
        for half in (4, 2, 1):
            for k in range(half):
                sums[k] = sums[k] + sums[k + half]
        return sums[0]


V = TypeVar("V", bound=Voronoi)


@helper
def find_nearest(record: Voronoi, cells: rec.Int32s) -> None:
    """Find the nearest centre of every diagram by exact distances."""
    t, n_cells = record.n_out, record.n_cells
    distances, nearest, members = record.distances, record.nearest, record.members
    for i in range(t):
        nearest[i] = distances[members[i]]
        cells[i] = i * n_cells
    for j in range(1, n_cells):
        centres = members.part(t * j, t)
        for i in range(t):
            # The argmin defines a cell in section 4.2 of Ting, Wells and Washio (2021). Squared l_2
            # distances have the same order as l_2 distances.
            distance, best = distances[centres[i]], nearest[i]
            nearer = distance < best
            nearest[i] = distance if nearer else best
            cells[i] = i * n_cells + j if nearer else cells[i]


@helper
def filter_nearest(record: V, absolute: float, cells: rec.Int32s) -> None:
    """Find the nearest centre of every diagram by distances with rounding errors.

    `absolute` is the term 3 e of a filter's limit in the docstring of the module.
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
        limit = nearest[i] + LIMIT_FACTOR * max(nearest[i], 0.0) + absolute
        if second[i] <= limit:
            cells[i] = i * n_cells + nearest_within(record, limit, i)


@helper
def nearest_within(record: V, limit: float, i: int) -> int:
    """Return a diagram's nearest centre by exact distance, among the centres within a limit."""
    t, members, distances = record.n_out, record.members, record.distances
    best, column = math.inf, 0
    for j in range(record.n_cells):
        p = members[t * j + i]
        if distances[p] <= limit:
            distance = record.exact_distance(p)
            if distance < best:
                best, column = distance, j
    return column


_buffer_of_sample = rec.array_buffer(Sample, 1)


@helper
def scan_row(record: DenseVoronoi, cells: rec.Int32s) -> None:
    """Write the scaled sample's cells, found by distances to all points."""
    row, points, width = record.row, record.points, record.width
    distances = record.distances
    for p in range(record.n_points):
        distances[p] = squared_distance(row, points.part(width * p, width), width)
    find_nearest(record, cells)


@link_by_name
def scan(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Write a vector's cells, found by distances to all points."""
    voronoi = DenseVoronoi(record)
    bad = read_vector(voronoi, sample, voronoi.factors, voronoi.row)
    if bad < 0:
        scan_row(voronoi, outputs.cells)
    return bad


@batch_kernel
def read_rows(
    record: DenseVoronoi, values: rec.Float64s, width: int, n: int, rows: rec.Float32s
) -> int:
    """Write `n` vectors of `width` values, scaled, to padded rows.

    Returns DONE, or row * `n_inputs` + index of the first bad input.
    """
    samples, padded = _buffer_of_sample(), record.width
    sample = samples[0]
    for row in range(n):
        sample.values = values.part(width * row, width)
        bad = read_vector(record, sample, record.factors, rows.part(padded * row, padded))
        if bad >= 0:
            return row * record.n_inputs + bad
    return DONE


@batch_kernel
def filter_rows(
    record: DenseVoronoi,
    rows: rec.Float32s,
    products: rec.Float32s,
    norms: rec.Float64s,
    n: int,
    error: float,
    least: float,
    cells: rec.Int32s,
) -> None:
    """Write the cells of scaled rows, given the dot products of the rows and all points.

    Parameters
    ----------
    record
        The map.
    rows
        Padded rows.
    products
        The dot products of the centred rows and the centred points, shape (n, points).
    norms
        Squared norms of the centred rows, then of the centred points.
    n
        Number of rows.
    error, least
        The relative and the absolute error that `product_error` returns.
    cells
        Array for the cells, shape (n, diagrams).

    """
    n_points, t, width = record.n_points, record.n_out, record.width
    distances, point_norms = record.distances, norms.part(n, n_points)
    largest = 0.0
    for p in range(n_points):
        largest = max(largest, point_norms[p])
    home = record.row
    for r in range(n):
        norm, dots = norms[r], products.part(n_points * r, n_points)
        for p in range(n_points):
            distances[p] = norm + point_norms[p] - 2.0 * dots[p]
        record.row = rows.part(width * r, width)
        filter_nearest(record, error * (norm + largest) + least, cells.part(t * r, t))
    record.row = home


@helper
def add_entry(record: IndexedVoronoi, index: int, value: float) -> None:
    """Append an entry to the sample, unless the value is zero or missing."""
    value = scaled(value, record.factors[index]) if value == value else 0.0
    if value != 0.0:
        n = record.n_entries
        record.x_indices[n] = index
        record.x_values[n] = value
        record.n_entries = n + 1


@helper
def map_by_index(record: IndexedVoronoi, cells: rec.Int32s) -> None:
    """Write the sample's cells, found by |x - p|^2 = |x|^2 + |p|^2 - 2 x . p for all points p."""
    distances, norms = record.distances, record.norms
    x_indices, x_values, n_entries = record.x_indices, record.x_values, record.n_entries
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
        index, twice = x_indices[e], 2.0 * x_values[e]
        for q in range(starts[index], starts[index + 1]):
            p = points[q]
            distances[p] = distances[p] - twice * values[q]
    if whole:
        find_nearest(record, cells)
        return
    # The entries are sorted, because exact distances need sorted entries. The sort is Shellsort
    # with Ciura's gaps.
    for gap in (8929, 3905, 1750, 701, 301, 132, 57, 23, 10, 4, 1):
        for a in range(gap, n_entries):
            index, value = x_indices[a], x_values[a]
            b = a
            while b >= gap and x_indices[b - gap] > index:
                x_indices[b] = x_indices[b - gap]
                x_values[b] = x_values[b - gap]
                b -= gap
            x_indices[b] = index
            x_values[b] = value
    filter_nearest(record, record.error * (norm + record.largest_norm), cells)


@link_by_name
def index_vector(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Write a vector's cells among sparse points."""
    voronoi, values = IndexedVoronoi(record), sample.values
    voronoi.n_entries = 0
    for index in range(voronoi.n_inputs):
        value = values[index]
        if math.fabs(value) > LARGEST:
            return index
        if value != 0.0:
            add_entry(voronoi, index, value)
    map_by_index(voronoi, outputs.cells)
    return DONE


@link_by_name
def index_entries(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Write a sparse sample's cells among sparse points."""
    voronoi = IndexedVoronoi(record)
    bad = bad_entry(voronoi, sample)
    if bad >= 0:
        return bad
    voronoi.n_entries = 0
    indices, entries = sample.indices, sample.entries
    for e in range(sample.n_entries):
        if 0 <= indices[e] < voronoi.n_inputs:
            add_entry(voronoi, indices[e], entries[e])
    map_by_index(voronoi, outputs.cells)
    return DONE
