"""Mondrian features by plain loops over a partition's nodes."""

import math

from .mondrian import outside


def path(nodes, x):
    """Yield the nodes on a sample's path, from the root to its leaf."""
    node = nodes[0]
    yield node
    while not node.is_leaf:
        left, right = nodes[node.left], nodes[node.right]
        is_left = x[node.dim] <= node.cut
        if math.isnan(x[node.dim]):
            # Without a value, take the nearer child, or the larger of equally near children.
            nearness = [(math.fsum(outside(side, x)), -side.n_samples) for side in (left, right)]
            is_left = nearness[0] <= nearness[1]
        node = left if is_left else right
        yield node


def cell(nodes, x, lifetime, k):
    """Return the column of a sample at the k-th lifetime."""
    return k + next(node.cell for node in path(nodes, x) if node.is_leaf or node.time >= lifetime)
