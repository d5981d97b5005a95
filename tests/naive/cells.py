"""Mondrian features by plain loops over a partition's nodes."""

import math

import numpy as np


def outside(node, x):
    """Return how far a sample lies outside a node's box, in what is known of both."""
    gaps = (max(a - v, v - b, 0.0) for v, a, b in zip(x, node.lower, node.upper, strict=True))
    # Distances between values are float32 as these are.
    return math.fsum(float(np.float32(gap)) for gap in gaps if not math.isnan(gap))


def path(nodes, x):
    """Yield the nodes that a sample passes, from the root to its leaf."""
    node = nodes[0]
    yield node
    while not node.is_leaf:
        left, right = nodes[node.left], nodes[node.right]
        v = x[node.dim]
        if math.isnan(v):
            gaps = outside(left, x), outside(right, x)
            to_left = gaps[0] < gaps[1]
            if gaps[0] == gaps[1]:
                to_left = left.n_samples >= right.n_samples
        else:
            to_left = v <= node.cut
        node = left if to_left else right
        yield node


def cell(nodes, x, lifetime, k):
    """Return the column of a sample's cell at the k-th lifetime: the first node cut after it."""
    for node in path(nodes, x):
        if node.is_leaf or node.time >= lifetime:
            return node.cell + k
    raise AssertionError("a path without a leaf")


def laplace(x, y, lifetime):
    """Return the kernel that the share of common cells estimates."""
    return math.exp(-lifetime * math.fsum(abs(a - b) for a, b in zip(x, y, strict=True)))
