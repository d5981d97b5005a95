"""Mondrian features by plain loops over a partition's nodes."""

import math

import numpy as np


def outside(node, x):
    """Return a sample's distance outside a node's box, over features that neither lacks."""
    gaps = (max(a - v, v - b, 0.0) for v, a, b in zip(x, node.lower, node.upper, strict=True))
    # Distances are rounded to float32, as the values are.
    return math.fsum(float(np.float32(gap)) for gap in gaps if not math.isnan(gap))


def path(nodes, x):
    """Yield the nodes on a sample's path, from the root to its leaf."""
    node = nodes[0]
    yield node
    while not node.is_leaf:
        left, right = nodes[node.left], nodes[node.right]
        is_left = x[node.dim] <= node.cut
        if math.isnan(x[node.dim]):
            # The nearer child; of two equally near, the larger one.
            nearness = [(outside(side, x), -side.n_samples) for side in (left, right)]
            is_left = nearness[0] <= nearness[1]
        node = left if is_left else right
        yield node


def cell(nodes, x, lifetime, k):
    """Return a sample's column at the k-th lifetime: the cell of the first node cut later."""
    return k + next(node.cell for node in path(nodes, x) if node.is_leaf or node.time >= lifetime)
