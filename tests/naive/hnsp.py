"""The hierarchical posterior of labels (HNSP) and its counts (Lakshminarayanan et al., 2014)."""

import math

import numpy as np

from .mondrian import n_points, walk

# Counts.


def initialize_counts(root, y, n_classes, weights=None):
    """Set the counts of a tree (Algorithm 5); with weights the counts are real numbers.

    The customers of a leaf are its labels. The customers of another node are the tables of its
    children, where a class has at most one table per child (IKN).
    """
    for node in reversed(list(walk(root))):
        if node.is_leaf:
            node.count = [0] * n_classes
            for n in node.points:
                # A query has no label.
                if y[n] is not None:
                    node.count[y[n]] += 1 if weights is None else weights[n]
        else:
            node.count = [a + b for a, b in zip(node.left.tab, node.right.tab, strict=True)]
        node.tab = [min(c, 1) for c in node.count]


# Prediction.


def discount(gamma, span):
    """Return exp(-gamma span), or 0 for an infinite span and any gamma."""
    return 0.0 if math.isinf(span) else math.exp(-gamma * span)


def expected_discount(eta, gamma, delta):
    """Return E[exp(-gamma Delta)] for Delta ~ Exp(eta), given that Delta is below `delta`.

    Parameters
    ----------
    eta
        The rate, above 0.
    gamma
        The strength of the discount.
    delta
        The time at which the exponential is truncated; it may be infinite.

    """
    if math.isinf(delta):
        return eta / (eta + gamma)
    # For small exponents, 1 - exp would lose digits.
    return eta / (eta + gamma) * math.expm1(-(eta + gamma) * delta) / math.expm1(-eta * delta)


def smooth(count, tab, d, above):
    """Return Equation 4, or the parent's distribution for a node without labels."""
    total = sum(count)
    if total == 0:
        return list(above)
    return [
        (c - d * t + d * sum(tab) * g) / total for c, t, g in zip(count, tab, above, strict=True)
    ]


def posterior(node, gamma, base):
    """Return the posterior mean of the label distribution of one node (Algorithm 7).

    Parameters
    ----------
    node
        The node.
    gamma
        The strength of the discount exp(-gamma Delta).
    base
        The prior probability of each class.

    """
    above = list(base) if node.parent is None else posterior(node.parent, gamma, base)
    return smooth(node.count, node.tab, discount(gamma, node.time - node.parent_time), above)


def shares(node, x):
    """Return the weights of the left and the right child for a query.

    If the query lacks the value at the cut, the nearer child has weight 1. Equally near children
    have weights in proportion to their numbers of points.
    """
    if not math.isnan(x[node.dim]):
        return (1.0, 0.0) if x[node.dim] <= node.cut else (0.0, 1.0)
    to_left, to_right = node.left.distance(x), node.right.distance(x)
    if to_left != to_right:
        return (1.0, 0.0) if to_left < to_right else (0.0, 1.0)
    n_left, n_right = n_points(node.left), n_points(node.right)
    return n_left / (n_left + n_right), n_right / (n_left + n_right)


def predict(node, x, gamma, above):
    """Return class probabilities of x, averaged over all extensions of a tree by x (Algorithm 8).

    Parameters
    ----------
    node
        The root of the tree.
    x
        The query.
    gamma
        The strength of the discount exp(-gamma Delta).
    above
        The prior probability of each class.

    """
    delta, eta = node.time - node.parent_time, node.distance(x)
    here = smooth(node.count, node.tab, discount(gamma, delta), above)
    found = np.array(here)
    if not node.is_leaf:
        sides = zip((node.left, node.right), shares(node, x), strict=True)
        found = sum(share * predict(side, x, gamma, here) for side, share in sides if share > 0.0)
    # If the box contains x, x never branches off, even if delta is infinite.
    branches = -math.expm1(-delta * eta) if eta > 0.0 else 0.0
    if branches > 0.0:
        tables = [min(c, 1) for c in node.count]
        beside = smooth(tables, tables, expected_discount(eta, gamma, delta), above)
        found = branches * np.array(beside) + (1.0 - branches) * found
    return found
