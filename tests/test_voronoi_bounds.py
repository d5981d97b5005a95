"""Tests of rounding bounds of exact searches for Voronoi cells, by exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from naive.voronoi import squared_distance

from river_mondrian.partitions.voronoi import nearest
from river_mondrian.partitions.voronoi.distances import deviation, find_axes, tree_slack
from river_mondrian.partitions.voronoi.tree import PointTree

UNITS = [1.0, 1e-22, 1e12]


def points(n, d, seed, unit=1.0):
    """Return points near the origin and far away, some of them almost equal."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * rng.uniform(0.1, 10.0, size=d) + 5.0 * rng.normal(size=d)
    rows[: n // 4] = rows[n // 4 : 2 * (n // 4)] * (1.0 + 1e-7 * rng.normal(size=(n // 4, d)))
    return (unit * rows).astype(np.float32)


def distance(x, p):
    """Return the distance as the search computes it, up to the order of summation."""
    return float((np.float64(x - p) ** 2).sum())


def norm_sum(a, b):
    return sum(Fraction(float(v)) ** 2 for v in (*a, *b))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("d", [1, 7, 40])
def test_the_distance_that_decides_is_near_the_true_one(d, unit):
    rows = points(40, d, d, unit)
    for x, p in zip(rows[:20], rows[20:], strict=True):
        exact = squared_distance(x, p)
        assert abs(Fraction(distance(x, p)) - exact) <= Fraction(2.5 * nearest.SINGLE) * exact


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("d", [1, 7, 40])
def test_distances_by_an_index_are_off_by_no_more_than_the_bound(d, unit):
    rows = points(40, d, d, unit)
    wide = rows.astype(np.float64)
    for x, p in zip(wide[:20], wide[20:], strict=True):
        found = float((x * x).sum()) + float((p * p).sum())
        for a, b in zip(x.tolist(), p.tolist(), strict=True):
            found -= 2.0 * a * b
        error = abs(Fraction(found) - squared_distance(x, p))
        assert 3 * error <= Fraction(nearest.index_error(d)) * norm_sum(x, p)


@pytest.mark.blas
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("d", [1, 7, 40])
def test_distances_by_a_product_are_off_by_no_more_than_the_bound(d, unit):
    rows = points(40, d, d, unit)
    centred = rows - rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    products = centred[:20] @ centred[20:].T
    relative, absolute = map(Fraction, nearest.product_error(d))
    for i, x in enumerate(centred[:20]):
        for j, p in enumerate(centred[20:]):
            norms = [float((np.float64(v) ** 2).sum()) for v in (x, p)]
            found = norms[0] + norms[1] - 2.0 * float(products[i, j])
            error = abs(Fraction(found) - squared_distance(rows[i], rows[20 + j]))
            assert 3 * error <= relative * norm_sum(x, p) + absolute


@pytest.mark.blas
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("d", [1, 3, 16, 17, 100])
def test_lower_bounds_exceed_no_distance_by_more_than_the_slack(d, unit):
    rows = points(200, d, d, unit)
    members = np.arange(200, dtype=np.int32)[:, None]
    tree = PointTree(rows, members, find_axes(rows), np.arange(200))
    relative, absolute, least = tree.slack
    assert relative < 1e-4 and absolute < 1e-4
    coordinates = tree._project(rows)[:, : tree.n_coordinates]
    tightest = math.inf
    for i in range(0, 200, 7):
        gaps = coordinates - coordinates[i]
        lower = np.zeros(200, dtype=np.float32)
        for k in range(tree.n_coordinates):
            lower += gaps[:, k] * gaps[:, k]
        square = float(((rows[i] - tree.mean) ** 2).sum())
        for p in range(200):
            limit = distance(rows[i], rows[p]) * (1.0 + relative) + absolute * square + least
            assert lower[p] <= limit
            if i != p:
                tightest = min(tightest, limit / max(float(lower[p]), 1e-300))
    # With as many axes as features, both distances are equal up to rounding.
    assert d > 16 or unit < 1.0 or tightest < 1.001


def test_axes_that_are_not_orthonormal_are_seen():
    axes = np.zeros((30, 8))
    axes[:5, :5] = np.eye(5)
    assert deviation(axes, 5) == 0.0
    # An axis of zeros adds nothing to a bound.
    axes[4, 4] = 0.0
    assert deviation(axes, 5) == 0.0
    axes[0, 1] = 1e-6
    assert math.isclose(deviation(axes, 5), math.sqrt(2.0) * 1e-6, rel_tol=1e-5)
    slack = [tree_slack(30, 5, 6, a)[1] for a in (0.0, 1e-6)]
    assert slack[0] < 1e-6 < slack[1]
