"""Collusive displacement, from Guha, Mishra, Roy and Schrijvers (2016), by putting samples in.

Trees are those of `mondrian`, with points in their leaves. The expectation over where a sample may
be parted from a tree goes through all places, builds the tree that has it there, and reads that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from .mondrian import leaves

# The sample that is put in.
NEW = -1

# A tree of points without cuts: a leaf is a set of points, and else there are two sides.
Shape = frozenset | tuple


def shape_of(node):
    """Return the shape of a tree."""
    if node.is_leaf:
        return frozenset(node.points)
    return shape_of(node.left), shape_of(node.right)


def points_of(shape):
    """Return the points of a tree."""
    if isinstance(shape, frozenset):
        return shape
    return points_of(shape[0]) | points_of(shape[1])


def displacement(shape, point):
    """Return the collusive displacement of a point: Definition 4, over the subtrees with it.

    Where a subtree is taken out, all points beside it move one cut up.
    """
    if isinstance(shape, frozenset):
        return 0.0
    left, right = shape
    own, other = (left, right) if point in points_of(left) else (right, left)
    here = len(points_of(other)) / len(points_of(own))
    return max(here, displacement(own, point))


def depth(shape, point):
    """Return the number of cuts above a point."""
    if isinstance(shape, frozenset):
        return 0
    return 1 + max(depth(side, point) for side in shape if point in points_of(side))


@dataclass
class Place:
    """A place at which a sample may be: with what probability, and the tree that has it there."""

    probability: float
    shape: Shape


def places(node, x):
    """Return all places at which a sample may be put into a tree (Algorithm 4 of Mondrian forests).

    The time at which it is parted from a node is exponential, at the rate of its distance.
    """
    eta = node.distance(x)
    stays = math.exp(-eta * (node.time - node.parent_time)) if eta > 0.0 else 1.0
    beside = Place(1.0 - stays, (frozenset([NEW]), shape_of(node)))
    if node.is_leaf:
        return [beside, Place(stays, frozenset([NEW, *node.points]))]
    goes_left = x[node.dim] <= node.cut
    below = places(node.left if goes_left else node.right, x)
    found = [beside]
    for place in below:
        sides = [place.shape, shape_of(node.right if goes_left else node.left)]
        found.append(Place(stays * place.probability, tuple(sides)))
    return found


def expected(node, x):
    """Return the expected displacement, logarithm of 1 + displacement, and depth of a sample."""
    found = [0.0, 0.0, 0.0]
    for place in places(node, x):
        here = displacement(place.shape, NEW)
        for i, value in enumerate((here, math.log(1.0 + here), depth(place.shape, NEW))):
            found[i] += place.probability * value
    return found[0], found[1], found[2]


def parts(node, x):
    """Return what each dimension adds to the expected logarithm of 1 + displacement.

    At a place where the sample is alone beside most points that is of the dimensions in which it is
    outside of these, by the distances; else of the dimension of the cut that parts most from its
    own subtree.
    """
    found = [0.0] * len(x)
    # What is on the path, from the root down: nodes, the numbers of points there.
    path, above = [], 1.0
    while node is not None:
        n = sum(len(leaf.points) for leaf in leaves(node))
        path.append((node, n))
        eta = node.distance(x)
        stays = math.exp(-eta * (node.time - node.parent_time)) if eta > 0.0 else 1.0
        sides = [((m_above - m) / (m + 1.0), up.dim) for (up, m_above), (_, m) in pairwise(path)]
        most, dim = max(sides, key=lambda side: side[0], default=(0.0, 0))
        if eta > 0.0 and n >= most:
            for d, gap in enumerate(node.outside(x)):
                found[d] += above * (1.0 - stays) * math.log1p(n) * gap / eta
        elif eta > 0.0:
            found[dim] += above * (1.0 - stays) * math.log1p(most)
        above *= stays
        if node.is_leaf:
            found[dim] += above * math.log1p(most)
            break
        node = node.left if x[node.dim] <= node.cut else node.right
    return found


def n_in_cell(node, x, lifetime):
    """Return the expected number of points in a sample's cell of a tree cut up to a lifetime."""
    eta = node.distance(x)
    if lifetime < node.time:
        parted = math.exp(-eta * (lifetime - node.parent_time)) if eta > 0.0 else 1.0
        return parted * sum(len(leaf.points) for leaf in leaves(node))
    stays = math.exp(-eta * (node.time - node.parent_time)) if eta > 0.0 else 1.0
    return stays * n_in_cell(node.left if x[node.dim] <= node.cut else node.right, x, lifetime)


def rank(value, others):
    """Return the rank of a score among others, from 0 to 1."""
    known = sorted(others)
    n = len(known)
    if n == 0:
        return 0.0
    equal = [i + 1 for i, other in enumerate(known) if other == value]
    if equal:
        return sum(equal) / len(equal) / (n + 1)
    if value > known[-1]:
        return 1.0 - (known[-1] / value if known[-1] > 0.0 else 0.5) / (n + 1)
    i = sum(other < value for other in known)
    low = known[i - 1] if i > 0 else 0.0
    return (i + (value - low) / (known[i] - low)) / (n + 1)
