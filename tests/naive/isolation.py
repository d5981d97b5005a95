"""Partitions of the isolation kernel, from Ting, Wells and Washio (2021), sections 4.1 and 4.2.

The paper does not define ties. As in the kernels, the pool has a random order, and the earlier of
two equally near centres is chosen. A sample maps features to numbers in single precision; a missing
feature is 0.
"""

import math

import numpy as np

from .ranges import robust_range


def single(value):
    """Return a number rounded to single precision."""
    return float(np.float32(value))


def scaled(pool):
    """Return the factor of each feature that scales the pool's robust range to 1."""
    factors = {}
    for name in {name for x in pool for name in x}:
        low, high = robust_range([single(x.get(name, 0.0)) for x in pool])
        factors[name] = 1.0 / (high - low) if high > low else 0.0
    return factors


def scale(x, factors):
    """Return a sample with each feature multiplied by its factor."""
    if factors is None:
        return {name: single(value) for name, value in x.items()}
    return {name: single(single(v) * factors[name]) for name, v in x.items() if name in factors}


def draw(seed, number, n, t, psi):
    """Draw the pool's order, and t subsets of psi of its points in this order."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
    order = rng.permutation(n).tolist()
    subsets = [sorted(rng.choice(n, psi, replace=False).tolist()) for _ in range(t)]
    return order, [[order[i] for i in subset] for subset in subsets], rng


def squared_distance(x, z):
    """Return the squared Euclidean distance, with differences in single precision."""
    gaps = [single(x.get(name, 0.0) - z.get(name, 0.0)) for name in sorted({*x, *z}, key=str)]
    return math.fsum(gap * gap for gap in gaps)


def voronoi_cell(centres, x):
    """Return the index of the nearest centre."""
    distances = [squared_distance(x, z) for z in centres]
    return distances.index(min(distances))


def isolation_tree(points, draws, places):
    """Return a tree that isolates all points by cuts along random varying features.

    A leaf is the index of its first point. The features of a node are ordered by the first point
    with a non-zero value. `places` orders the features with the same first point.
    """
    left = iter(draws)

    def grow(numbers):
        met = {}
        for i in numbers:
            there = [name for name, value in points[i].items() if value != 0.0]
            met.update(dict.fromkeys(sorted(there, key=places.__getitem__)))
        values = {name: [points[i].get(name, 0.0) for i in numbers] for name in met}
        varying = [name for name in met if min(values[name]) < max(values[name])]
        if not varying:
            return numbers[0]
        feature = varying[int(next(left) * len(varying))]
        low, high = min(values[feature]), max(values[feature])
        cut = single(low + next(left) * (high - low))
        if not low <= cut < high:
            cut = low
        below = [i for i in numbers if points[i].get(feature, 0.0) <= cut]
        above = [i for i in numbers if points[i].get(feature, 0.0) > cut]
        return feature, cut, grow(below), grow(above)

    return grow(list(range(len(points))))


def isolation_cell(tree, x):
    """Return the leaf of a sample in a tree."""
    while not isinstance(tree, int):
        feature, cut, below, above = tree
        tree = below if x.get(feature, 0.0) <= cut else above
    return tree


def cells(method, pool, x, seed, number, t, psi):
    """Return the cells of each sample."""
    _, subsets, rng = draw(seed, number, len(pool), t, psi)
    if method == "anne":
        centres = [[pool[i] for i in subset] for subset in subsets]
        return [[voronoi_cell(z, query) for z in centres] for query in x]
    draws = rng.random((t, 2 * psi)).tolist()
    places = {}
    for sample in pool:
        for name in sorted(sample):
            places.setdefault(name, len(places))
    pairs = zip(subsets, draws, strict=True)
    trees = [isolation_tree([pool[i] for i in subset], own, places) for subset, own in pairs]
    return [[isolation_cell(tree, query) for tree in trees] for query in x]
