"""Cut directions in plain Python: the lift, and a STIT process of polygons in the plane."""

import math


def lift(directions, values, means):
    """Return U x; a direction whose inputs are all missing is missing, else means stand in."""
    projected = []
    for direction in directions:
        total, known = 0.0, False
        for coefficient, value, mean in zip(direction, values, means, strict=True):
            missing = math.isnan(value)
            known = known or (coefficient != 0.0 and not missing)
            total += coefficient * (mean if missing else value)
        projected.append(total if known else math.nan)
    return projected


def dot(u, p):
    return u[0] * p[0] + u[1] * p[1]


def area(polygon):
    twice = 0.0
    for (a, b), (c, d) in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        twice += a * d - b * c
    return abs(twice) / 2.0


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
    """Return the area of {p: lower <= U p <= upper}, by a pair of each for each direction."""
    size = 1e5
    polygon = [(-size, -size), (size, -size), (size, size), (-size, size)]
    for u, (lower, upper) in zip(directions, corners, strict=True):
        polygon = below(below(polygon, u, upper), (-u[0], -u[1]), -lower)
    return area(polygon)


def simulate(window, directions, lifetime, rng):
    """Cut a convex polygon by a STIT process (section 2.1); returns its cells.

    The measure of the lines with normal u is its norm times their offset: a cell is cut at the rate
    of the sum of its widths <u, .>, in a direction chosen by width, at a uniform offset.
    """
    cells, waiting = [], [(list(window), 0.0)]
    while waiting:
        cell, time = waiting.pop()
        spans = []
        for u in directions:
            heights = [dot(u, p) for p in cell]
            spans.append((min(heights), max(heights)))
        widths = [high - low for low, high in spans]
        time += rng.exponential(1.0 / sum(widths))
        if time >= lifetime:
            cells.append(cell)
            continue
        chosen = rng.choice(len(directions), p=[w / sum(widths) for w in widths])
        u, (low, high) = directions[chosen], spans[chosen]
        t = rng.uniform(low, high)
        waiting.append((below(cell, u, t), time))
        waiting.append((below(cell, (-u[0], -u[1]), -t), time))
    return cells


def holds(cell, p):
    """Tell whether a convex polygon holds a point."""
    turns = []
    for (a, b), (c, d) in zip(cell, cell[1:] + cell[:1], strict=True):
        turns.append((c - a) * (p[1] - b) - (d - b) * (p[0] - a))
    return all(turn >= 0.0 for turn in turns) or all(turn <= 0.0 for turn in turns)
