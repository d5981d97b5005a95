"""Voronoi cells by definition: the nearest centre, or the first of equally near centres."""

from fractions import Fraction

import numpy as np


def squared_distance(x, p):
    """Return the exact squared distance of two points."""
    return sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(x, p, strict=True))


def cells(x, pool, members):
    """Return the column of the nearest member in each partition."""
    found = []
    for partition in members:
        ranked = [(squared_distance(x, pool[p]), column) for column, p in enumerate(partition)]
        found.append(min(ranked)[1])
    return found


def rounded_cells(X, pool, members):
    """Return the columns of the nearest members, by distances rounded as in the kernels.

    Differences are in single precision, squares in double precision. The j-th square is added to
    sum j modulo 8, and the eight sums are added pairwise.
    """
    gaps = (np.float32(X)[:, None, :] - np.float32(pool)[None, :, :]).astype(np.float64)
    gaps = np.pad(gaps, ((0, 0), (0, 0), (0, -gaps.shape[2] % 8)))
    sums = np.zeros((len(X), len(pool), 8))
    for start in range(0, gaps.shape[2], 8):
        sums += gaps[:, :, start : start + 8] ** 2
    while sums.shape[2] > 1:
        half = sums.shape[2] // 2
        sums = sums[:, :, :half] + sums[:, :, half:]
    return np.argmin(sums[:, :, 0][:, np.asarray(members)], axis=2)
