r"""Why the search for Voronoi cells (aNNE) is exact.

What a cell is. The distance of a sample x and a point p is the number D(x, p) that
`distance.squared_distance` returns for their scaled values in single precision: one routine, one
order of summation. A diagram's cell is its centre p with the least D(x, p), and of several such the
one that comes first in the pool. Every way to search compares candidates by D alone, in a way that
keeps the first of equals. So each is exact if it leaves out no point whose D is the least, or as
small as the least. A way that filters knows for each point a number A(x, p) that may be off from
the distance by rounding; what follows is how far at most.

Units. u = 2^-24 is the unit round-off of single precision, v = 2^-53 that of double precision. A
result of n operations with relative errors up to u each is off by a factor within 1 +- gamma_n(u),
gamma_n(u) = n u / (1 - n u). Sums and differences do not underflow; products in single precision
that do are off by at most 2^-150. The values compared are at most 1e30 in size (`limits.FARTHEST`),
and where squares are made in single precision `FARTHEST_SQUARE` keeps them from overflowing.

D against the true distance. Let S = |x - p|^2, in real numbers, of the values in single precision.
D squares differences that single precision has rounded, which gives a factor within (1 +- u)^2; the
squares are exact in double precision, 48 bits; each square goes through at most d/8 + 3 additions
in double precision. Thus D = S (1 + t) with |t| <= 2 u + u^2 + gamma_(d/8+4)(v), which is below 5/2
u for any d up to 2^30.

Filtering by approximate distances (`nearest.filter_nearest`). Let |A(x, p) - S(x, p)| <= e for all
points p of a diagram, up to a term that they share, let q be the one with the least A, and c one
with the least D. Then S(c) <= D(c) / (1 - t) <= D(q) / (1 - t) <= S(q) (1 + t) / (1 - t), so

    A(c) <= S(c) + e <= (A(q) + e) (1 + t) / (1 - t) + e <= A(q) + 6 u max(A(q), 0) + 3 e.

All points up to that limit are compared by D. `RELATIVE` is 6 u, in which the rounding of the limit
itself has room as well (5 u would do for the rest), and 3 e leaves e (1 - 6 u) for that of the
absolute part.

- By an index (`index_error`): A = (|x|^2 + |p|^2) - sum of 2 x_j p_j, in double precision, where 2
  x_j p_j is exact. A norm is a sum of at most d terms in any order: off by gamma_d(v) of itself.
  Each of the at most d + 1 further results is at most 2 (|x|^2 + |p|^2) in size, so that it adds at
  most 2 v of that. Together e <= (gamma_d(v) + 2 (d + 1) v) N <= 4 gamma_(d+1)(v) N, with N = |x|^2
  + |p|^2. Integers up to `LARGEST_WHOLE` make no rounding at all: sums of 2^31 squares and products
  of theirs stay below 2^53. Then A = D.
- By a matrix product (`product_error`): A = |c|^2 + |k|^2 - 2 c . k for the sample c and the point
  k less a mean, rounded to single precision. The product is a sum of d products in single precision
  in any order, with or without fused operations: off by gamma_d(u) (|c|^2 + |k|^2) / 2, and 2^-150
  d by underflow. The norms' rounding in double precision is less than u N for d < 2^26, N = |c|^2 +
  |k|^2. By rounding to c and k, |c - k| is off from |x - p| by at most h = u (1 + 2 u) (|c| + |k|),
  its square by h (2 |c - k| + h) <= 2 (1 + 2 u) u (|c| + |k|)^2 + h^2 <= 5 u N. Together e <=
  gamma_(d+6)(u) N + 2^-149 d.

Leaving out by lower bounds (`tree_slack`, for `tree`). For a matrix Q of k columns that are
orthonormal (or zero) and w(x) = x - mean, let y(x) = Q' w(x), r(x)^2 = |w(x)|^2 - |y(x)|^2. Then
|y(x) - y(p)|^2 + (r(x) - r(p))^2 <= S: the first term is the part of |x - p|^2 in the span of Q,
and r is the norm of the rest of w, which differs by at most the norm of the rest of x - p. The
search has axes A instead of Q, and rounds:

- The axes: let |A'A - I| <= a. With Q from A = Q R, R the symmetric root of A'A, |A - Q| <= a, as
  |s - 1| <= |s^2 - 1| for each singular value s of A. `axes.deviation` measures a: the Frobenius
  norm of A'A - I as computed, each entry off by gamma_d(v) |a_i| |a_j|, all of them by gamma_d(v)
  (|a_1|^2 + ... + |a_k|^2) <= 2 k gamma_d(v).
- The coordinates z, sums of d products in double precision: |z - y| <= f |w| with f =
  gamma_(d+2)(v) sqrt(2 k) + a.
- The rest: |w|^2 - |z|^2 as computed is off from r^2 by at most g^2 |w|^2 with g^2 = 2
  gamma_(d+k+4)(v) + 2 f + f^2, and its root from r by at most g |w|, as the roots of two numbers
  differ by no more than the root of their difference.
- All of them are rounded to single precision: another 2 u |w|, and 2^-150 by underflow, each.

So the coordinates are off by at most b |w|, b = f + g + 2 u, as a vector (g = 0 where there are as
many axes as features, and no rest). Let s^2 = S and B the squared distance of the coordinates. As
|w(p)| <= |w(x)| + s, sqrt(B) <= s + b |w(x)| + b |w(p)| <= (1 + b) s + 2 b |w(x)|, and for any m >
0

    B <= (1 + m) (1 + b)^2 S + (1 + 1 / m) (2 b |w(x)|)^2.

As computed in single precision, from n coordinates, B has a factor within 1 +- gamma_(n+3)(u), as
all its terms are positive, and is off by 2^-150 n by underflow. B from a box is not more than B
from a point within, and takes no more operations. Finally S <= D (1 + 3 u). Hence what is computed
for any p with D(x, p) <= D, or for a box around it, is at most

    D (1 + relative) + absolute |w(x)|^2 + least,

which `tree_slack` returns: for `absolute` twice what stands above, as |a + b|^2 <= 2 |a|^2 + 2
|b|^2 for what rounding and what underflow adds to the coordinates, and 2^-149 n for `least`. (The 2
u and 3 u are more than it takes by almost u and u / 2: room for the rounding of |w|^2 and of the
limit, which are in double precision.) The search leaves out what is farther than that for the
farthest of the diagrams' nearest centres so far, and so never a point that it needs. m = 2^-16: a
larger one would let pass what is farther by that much, a smaller one what is farther by 4 b^2 / m.

Filtering by scores (`score_error`, for `nearest.cu`). There a score is made and compared in single
precision, without what all points share, and its error is to depend on the row alone, not on the
farthest point. With c and k as above, now less an origin, a = |c|, b = |k|, N = a^2 + b^2 and T =
|c - k|^2, the score is L = w n - 2 s rounded once, where s is the sum of products c . k, n is b^2
rounded to single precision and w n is rounded, too. w = 1 - g is in single precision.

- |S - T| <= 5 u N, as above.
- s is off by gamma_d(u) a b and 2^-150 d, hence 2 s by gamma_d(u) N and 2^-149 d.
- n is off by 1.2 u b^2 and w n by another 1.01 u b^2 (and 2^-150 each), as d is below 2^26.
- What is rounded last is at most 2.1 N in size.

So L + a^2 + g b^2 is off from S by at most e N + h, e = gamma_d(u) + 9.4 u, h = 2^-147 d. Let E =
gamma_(d+10)(u) <= 1/64, and g = E but for rounding: g is from e to 1.06 E. Then for any point

    L + a^2 <= S + E a^2 + h,

without b: that is what g is for. For the point q with the least L, let Y = L(q) + a^2. In the other
direction S(q), and T(q) as well, is at most Y + E a^2 + 2.06 E b^2 + h. As b <= a + sqrt(T), b^2 <=
2 a^2 + 2 T, which gives T (1 - 4.12 E) <= Y + 5.12 E a^2 + h. Hence Y >= -5.12 E a^2 - h, b^2 <=
2.18 a^2 + 2.14 Y + 2.14 h, and

    S(q) <= Y + 4.41 E Y + 5.5 E a^2 + 1.08 h.

For a point c with the least D, S(c) <= (1 + 6 u) S(q) as above, where 6 u <= 0.55 E. With Z =
max(Y, 0) that adds less than 0.59 E Z + 0.05 E a^2 + 0.01 h, and so

    L(c) <= L(q) + 5 E Z + 6.55 E a^2 + 2.09 h <= L(q) + 7 E Y + 7.2 E a^2 + 2.3 h,

since Z - Y <= 5.12 E a^2 + h, of which there are up to 7. The kernels have factor L(q) + slack,
with factor = 1 + 7 E and slack = 15 E a^2 + 4 h, by 0.8 E a^2 and 2 E Z more than that. Rounding
factor and the limit takes 3.1 u (a^2 + Z), and E >= 11 u. Where |c|^2 or any |k|^2 is beyond
`FARTHEST_SQUARE`, or E beyond 1/64, the slack is infinite: all pairs are settled by D.

If all values are whole numbers and |c|^2 and |k|^2 are at most `LARGEST_WHOLE_SQUARE` = 2^22, then
all sums of the product are whole numbers up to 2^22, and scores up to 2^22 + 2^23. Single precision
holds these exactly, and the differences c and k and those of D as well. With g = 0, L + a^2 = S =
D: the first of the points with the least L is the cell.
"""

from __future__ import annotations

import math

# Unit round-offs of single and of double precision.
SINGLE = 2.0**-24
DOUBLE = 2.0**-53

# Limit of a filter, in units of the least of the approximate distances.
RELATIVE = 6.0 * SINGLE

# Integers up to this one have exact squares, products and sums of 2^31 of them.
LARGEST_WHOLE = 1024.0

# Squared norms and distances up to which single precision holds squares, with room to spare.
FARTHEST_SQUARE = 1e30

# Squared norms of whole numbers up to which scores in single precision are exact.
LARGEST_WHOLE_SQUARE = 2.0**22

# Largest relative error of scores for which limits are derived.
LARGEST_SCORE_ERROR = 1.0 / 64.0

# By how much a lower bound may be larger for being split from what rounding adds (m above).
MARGIN = 2.0**-16


def gamma(n: float, unit: float) -> float:
    """Return the relative error that n operations make at most; infinite where there are many."""
    return n * unit / (1.0 - n * unit) if n * unit < 0.5 else math.inf


def index_error(n_features: int) -> float:
    """Return 3 e of distances by an index, in units of the squared norms' sum."""
    return 3.0 * 4.0 * gamma(n_features + 1, DOUBLE)


def product_error(n_features: int) -> tuple[float, float]:
    """Return 3 e of distances by a product, in units of the squared norms' sum, and absolute."""
    return 3.0 * gamma(n_features + 6, SINGLE), 3.0 * n_features * 2.0**-149


def score_error(n_features: int) -> tuple[float, float]:
    """Return E and h of scores, E in units of squared norms and infinite where it is too large."""
    relative = gamma(n_features + 10, SINGLE)
    return relative if relative <= LARGEST_SCORE_ERROR else math.inf, n_features * 2.0**-147


def tree_slack(
    n_features: int, n_axes: int, n_coordinates: int, deviation: float
) -> tuple[float, float, float]:
    """Return how far a lower bound may exceed an exact distance.

    Parameters
    ----------
    n_features
        Features of the points.
    n_axes
        Axes.
    n_coordinates
        Coordinates of a point: along the axes and, where there are fewer axes than features, the
        norm of the rest.
    deviation
        How far the axes are from orthonormal, as measured by `axes.deviation`.

    Returns
    -------
    The parts in units of the exact distance and of the sample's squared distance from the mean,
    and the absolute one.

    """
    axes = deviation + 2.0 * n_axes * gamma(n_features, DOUBLE)
    along = gamma(n_features + 2, DOUBLE) * math.sqrt(2.0 * n_axes) + axes
    rest = 0.0
    if n_coordinates > n_axes:
        sums = 2.0 * gamma(n_features + n_axes + 4, DOUBLE)
        rest = math.sqrt(sums + 2.0 * along + along * along)
    off = along + rest + 2.0 * SINGLE
    rounding = (1.0 + gamma(n_coordinates + 3, SINGLE)) * (1.0 + 3.0 * SINGLE)
    relative = rounding * (1.0 + MARGIN) * (1.0 + off) ** 2 - 1.0
    absolute = rounding * (1.0 + 1.0 / MARGIN) * 2.0 * (2.0 * off) ** 2
    return relative, absolute, n_coordinates * 2.0**-149
