"""The Mondrian of the whole space around a first sample, and the estimators over its cells."""

from __future__ import annotations

import math

MASK = (1 << 64) - 1
LEFT, RIGHT, ABOVE, TIME, DIM, PLACE, REACH, FIRST = 0, 1, 2, 3, 4, 5, 6, 8


def derived(key, i):
    """Return the i-th output of splitmix64 from a state."""
    z = (key + (i + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def uniform(key, i):
    return ((derived(key, i) >> 12) + 0.5) / 2**52


def exponential(key, i, rate):
    return -math.log(uniform(key, i)) / rate


def inside(cell, z):
    return all(lower < value <= upper for (lower, upper), value in zip(cell, z, strict=True))


def part(cell, dim, place, right):
    lower, upper = cell[dim]
    found = list(cell)
    found[dim] = (place, upper) if right else (lower, place)
    return found


def first_cell(key, first, lifetime):
    """Return the first sample's cell (Equation 16)."""
    return [
        (
            value - exponential(key, FIRST + 3 * j, lifetime),
            value + exponential(key, FIRST + 3 * j + 1, lifetime),
        )
        for j, value in enumerate(first)
    ]


def cell_of(key, first, began, lifetime, z):
    """Return the cell that a point has at a lifetime."""
    return path_of(key, first, began, lifetime, z)[-1]


def path_of(key, first, began, lifetime, z):
    """Return the cells that a point has, one within the other, up to a lifetime.

    The first sample's cell at the time `began` is drawn from the tree's key. Where it holds the
    point it is cut on until the lifetime; else time runs backwards until the point is in the cell,
    which is the first of those returned.
    """
    cell = first_cell(key, first, began)
    time, inner = began, derived(key, LEFT)
    key, path = derived(key, ABOVE), []
    while not inside(cell, z):
        time *= uniform(key, TIME) ** (1.0 / (2 * len(cell)))
        face = int(uniform(key, DIM) * 2 * len(cell))
        dim, upper = divmod(face, 2)
        old = cell[dim][upper]
        reach = exponential(key, REACH, time)
        ends = (cell[dim][0], old + reach) if upper else (old - reach, cell[dim][1])
        cell = [*cell[:dim], ends, *cell[dim + 1 :]]
        if inside(cell, z):
            path.append(cell)
            # Beyond the face: nothing is known there.
            cell = part(cell, dim, old, bool(upper))
            inner = derived(key, RIGHT if upper else LEFT)
        key = derived(key, ABOVE)
    while True:
        path.append(cell)
        sides = [upper - lower for lower, upper in cell]
        time += exponential(inner, TIME, sum(sides))
        if time > lifetime:
            return path
        rest = uniform(inner, DIM) * sum(sides)
        dim = 0
        while dim < len(sides) - 1 and rest >= sides[dim]:
            rest -= sides[dim]
            dim += 1
        lower, upper = cell[dim]
        place = lower + uniform(inner, PLACE) * (upper - lower)
        right = z[dim] > place
        cell = part(cell, dim, place, right)
        inner = derived(inner, RIGHT if right else LEFT)


def volume(cell):
    return math.prod(upper - lower for lower, upper in cell)


def density(cells, samples, estimator, lifetime):
    """Return the estimate at a point by its cell in each tree (Equation 13, or Section 5)."""
    counts = [sum(inside(cell, z) for z in samples) for cell in cells]
    volumes = [volume(cell) for cell in cells]
    if estimator == "kernel":
        return sum(counts) / len(samples) / len(cells) * (lifetime / 2) ** len(samples[0])
    if estimator == "laplace":
        return sum(counts) / len(samples) / sum(volumes)
    shares = [count / len(samples) / v for count, v in zip(counts, volumes, strict=True)]
    return sum(shares) / len(cells)
