"""Cut directions in plain Python: the lift, and a STIT process on polygons in the plane."""

import math

import numpy as np


def lift(directions, values, means):
    """Return U x with means in place of missing inputs; a direction without known inputs is NaN."""
    known = ~np.isnan(values)
    projected = np.dot(directions, np.where(known, values, means))
    return np.where((np.array(directions)[:, known] != 0.0).any(axis=1), projected, math.nan)


def dot(u, p):
    return u[0] * p[0] + u[1] * p[1]


def area(polygon):
    sides = zip(polygon, polygon[1:] + polygon[:1], strict=True)
    return abs(sum(a * d - b * c for (a, b), (c, d) in sides)) / 2.0


def below(polygon, u, t):
    """Return the part of a convex polygon where <u, p> <= t."""
    part = []
    for p, q in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        high, next_high = dot(u, p) - t, dot(u, q) - t
        if high <= 0.0:
            part.append(p)
        if (high < 0.0 < next_high) or (next_high < 0.0 < high):
            share = high / (high - next_high)
            part.append((p[0] + share * (q[0] - p[0]), p[1] + share * (q[1] - p[1])))
    return part


def area_between(directions, corners):
    """Return the area of {p: lower <= U p <= upper}; `corners` has the bounds by direction."""
    size = 1e5
    polygon = [(-size, -size), (size, -size), (size, size), (-size, size)]
    for u, (lower, upper) in zip(directions, corners, strict=True):
        polygon = below(below(polygon, u, upper), (-u[0], -u[1]), -lower)
    return area(polygon)


def simulate(window, directions, lifetime, rng):
    """Cut a convex polygon by a STIT process (O'Reilly and Tran 2022, section 2.1); return cells.

    The width of a cell along u is the range of <u, p>. The rate of cuts in a cell is the sum of its
    widths. A direction is drawn in proportion to the width, and the offset uniformly.
    """
    cells, waiting = [], [(list(window), 0.0)]
    while waiting:
        cell, time = waiting.pop()
        heights = np.dot(directions, np.transpose(cell))
        low, high = heights.min(axis=1), heights.max(axis=1)
        rate = (high - low).sum()
        time += rng.exponential(1.0 / rate)
        if time >= lifetime:
            cells.append(cell)
            continue
        chosen = rng.choice(len(directions), p=(high - low) / rate)
        u, t = directions[chosen], rng.uniform(low[chosen], high[chosen])
        waiting.append((below(cell, u, t), time))
        waiting.append((below(cell, (-u[0], -u[1]), -t), time))
    return cells


def holds(cell, p):
    """Return whether a convex polygon contains a point."""
    sides = zip(cell, cell[1:] + cell[:1], strict=True)
    turns = [(c - a) * (p[1] - b) - (d - b) * (p[0] - a) for (a, b), (c, d) in sides]
    return min(turns) >= 0.0 or max(turns) <= 0.0
