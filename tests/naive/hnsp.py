"""The hierarchical posterior of labels, with its counts, from Lakshminarayanan et al. (2014)."""

import math

import numpy as np

from .mondrian import n_points, walk

# Counts.


def initialize_counts(root, y, n_classes, weights=None):
    """Algorithm 5 for a tree; with real numbers where there are weights.

    A leaf's customers are its labels, of other nodes they are the tables of both children, of which
    a class has at most one (IKN).
    """
    for node in reversed(list(walk(root))):
        if node.is_leaf:
            node.count = [0] * n_classes
            for n in node.points:
                # A sample that is predicted has no label.
                if y[n] is not None:
                    node.count[y[n]] += 1 if weights is None else weights[n]
        else:
            node.count = [a + b for a, b in zip(node.left.tab, node.right.tab, strict=True)]
        node.tab = [min(c, 1) for c in node.count]


# Prediction.


def discount(gamma, span):
    """Return exp(-gamma span); 0 for an infinite span, whatever gamma is."""
    return 0.0 if math.isinf(span) else math.exp(-gamma * span)


def expected_discount(eta, gamma, delta):
    """Return E[exp(-gamma Delta)] for Delta ~ Exp(eta), given that it is below delta.

    Parameters
    ----------
    eta
        Rate, above 0.
    gamma
        Strength of the discount.
    delta
        Where the exponential is truncated; may be infinite.

    """
    if math.isinf(delta):
        return eta / (eta + gamma)
    # Small exponents cancel in 1 - exp.
    return eta / (eta + gamma) * math.expm1(-(eta + gamma) * delta) / math.expm1(-eta * delta)


def smooth(count, tab, d, above):
    """Equation 4; a node without labels repeats its parent."""
    total = sum(count)
    if total == 0:
        return list(above)
    return [
        (c - d * t + d * sum(tab) * g) / total for c, t, g in zip(count, tab, above, strict=True)
    ]


def posterior(node, gamma, base):
    """Algorithm 7, for one node: the posterior mean of its label distribution.

    Parameters
    ----------
    node
        The node.
    gamma
        Strength of the discount exp(-gamma Delta).
    base
        Prior probability of each class.

    """
    above = list(base) if node.parent is None else posterior(node.parent, gamma, base)
    return smooth(node.count, node.tab, discount(gamma, node.time - node.parent_time), above)


def shares(node, x):
    """Return the weights of the left and the right child for a query.

    Where its value at the cut is missing, the nearer child takes all; children that are as near
    share by their numbers of points.
    """
    if not math.isnan(x[node.dim]):
        return (1.0, 0.0) if x[node.dim] <= node.cut else (0.0, 1.0)
    to_left, to_right = node.left.distance(x), node.right.distance(x)
    if to_left != to_right:
        return (1.0, 0.0) if to_left < to_right else (0.0, 1.0)
    n_left, n_right = n_points(node.left), n_points(node.right)
    return n_left / (n_left + n_right), n_right / (n_left + n_right)


def predict(node, x, gamma, above):
    """Algorithm 8: class probabilities of x, averaged over all extensions of a tree by x.

    Parameters
    ----------
    node
        The root of the tree.
    x
        The query.
    gamma
        Strength of the discount exp(-gamma Delta).
    above
        Prior probability of each class.

    """
    delta, eta = node.time - node.parent_time, node.distance(x)
    here = smooth(node.count, node.tab, discount(gamma, delta), above)
    found = np.array(here)
    if not node.is_leaf:
        sides = zip((node.left, node.right), shares(node, x), strict=True)
        found = sum(share * predict(side, x, gamma, here) for side, share in sides if share > 0.0)
    # A node within which x lies never lets it branch off, though delta may be infinite.
    branches = -math.expm1(-delta * eta) if eta > 0.0 else 0.0
    if branches > 0.0:
        tables = [min(c, 1) for c in node.count]
        beside = smooth(tables, tables, expected_discount(eta, gamma, delta), above)
        found = branches * np.array(beside) + (1.0 - branches) * found
    return found
