"""Voronoi cells by their definition: the nearest centre, ties to the first in the partition."""

from __future__ import annotations

from fractions import Fraction


def squared_distance(x, p):
    """Return the squared distance of two points without any rounding."""
    return sum((Fraction(float(a)) - Fraction(float(b))) ** 2 for a, b in zip(x, p, strict=True))


def cells(x, pool, members):
    """Return the column of the nearest member in each partition."""
    found = []
    for partition in members:
        ranked = [(squared_distance(x, pool[p]), column) for column, p in enumerate(partition)]
        found.append(min(ranked)[1])
    return found
