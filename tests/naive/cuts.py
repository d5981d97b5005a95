"""Collusive displacement (Guha, Mishra, Roy and Schrijvers, 2016), by inserting samples.

Trees consist of nodes of `mondrian`, with points in the leaves. The expectation is a sum over all
insertion points of a sample.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from .mondrian import n_points, outside

# The index of the inserted sample.
NEW = -1


def shape_of(node):
    """Return a tree without its cuts: a leaf is a set of points, an inner node is a pair."""
    if node.is_leaf:
        return frozenset(node.points)
    return shape_of(node.left), shape_of(node.right)


def points_of(shape):
    """Return the points of a tree."""
    if isinstance(shape, frozenset):
        return shape
    return points_of(shape[0]) | points_of(shape[1])


def displacement(shape, point):
    """Return the collusive displacement of a point (Definition 4).

    The displacement is the maximum over the subtrees with the point. The removal of a subtree moves
    all points of its sibling up by one cut.
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


def places(node, x):
    """Return the probability of each insertion point of a sample, with the resulting tree.

    The probabilities are from Algorithm 4 of the paper on Mondrian forests.
    """
    stays = stay(node, x)
    beside = 1.0 - stays, (frozenset([NEW]), shape_of(node))
    if node.is_leaf:
        return [beside, (stays, frozenset([NEW, *node.points]))]
    below, other = sides(node, x)
    return [beside, *((stays * p, (shape, shape_of(other))) for p, shape in places(below, x))]


def stay(node, x, time=math.inf):
    """Return the probability that a sample does not branch off from a node before `time`.

    The time of branching off is exponential; its rate is the distance of the sample from the box.
    """
    eta = node.distance(x)
    return math.exp(-eta * (min(node.time, time) - node.parent_time)) if eta > 0.0 else 1.0


def sides(node, x):
    """Return the child of a node on a sample's side, and the other child."""
    left, right = node.left, node.right
    return (left, right) if x[node.dim] <= node.cut else (right, left)


def expected(node, x):
    """Return the expected displacement, logarithm of 1 + displacement, and depth of a sample."""
    found = np.zeros(3)
    for probability, shape in places(node, x):
        here = displacement(shape, NEW)
        found += probability * np.array([here, math.log(1.0 + here), depth(shape, NEW)])
    return found


def parts(node, x):
    """Return the share of each dimension in the expected logarithm of 1 + displacement.

    If the sample's new leaf has the largest displacement, the term is divided among the dimensions
    in proportion to the distances from the sibling's box. Otherwise the term belongs to the
    dimension of the cut above the node with the largest displacement.
    """
    found = [0.0] * len(x)
    # The nodes on the path from the root, with their numbers of points.
    path, above = [], 1.0
    while node is not None:
        n = n_points(node)
        path.append((node, n))
        eta, stays = node.distance(x), stay(node, x)
        gone = [((m_above - m) / (m + 1.0), up.dim) for (up, m_above), (_, m) in pairwise(path)]
        most, dim = max(gone, key=lambda part: part[0], default=(0.0, 0))
        if eta > 0.0 and n >= most:
            for d, gap in enumerate(outside(node, x)):
                found[d] += above * (1.0 - stays) * math.log1p(n) * gap / eta
        elif eta > 0.0:
            found[dim] += above * (1.0 - stays) * math.log1p(most)
        above *= stays
        if node.is_leaf:
            found[dim] += above * math.log1p(most)
            break
        node, _ = sides(node, x)
    return found


def n_in_cell(node, x, lifetime):
    """Return the expected number of points in a sample's cell of a tree cut up to a lifetime."""
    stays = stay(node, x, lifetime)
    return stays * (
        n_points(node) if lifetime < node.time else n_in_cell(sides(node, x)[0], x, lifetime)
    )


def rank(value, others):
    """Return the rank of a score among others, from 0 to 1."""
    known = sorted(others)
    n = len(known)
    if n == 0:
        return 0.0
    if value in known:
        return np.mean([i for i, other in enumerate(known, 1) if other == value]) / (n + 1)
    if value > known[-1]:
        return 1.0 - (known[-1] / value if known[-1] > 0.0 else 0.5) / (n + 1)
    i = sum(other < value for other in known)
    low = known[i - 1] if i > 0 else 0.0
    return (i + (value - low) / (known[i] - low)) / (n + 1)
