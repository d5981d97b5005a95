"""Importances by their definitions: sums over all prunings, left-out samples and nodes."""

import itertools
import math

import numpy as np
from scipy import special

from . import gaussian, hnsp
from .mondrian import leaves, outside, walk

# Classes.


def sequential_loss(labels, n_classes):
    """Return the log loss of predicting each label from earlier labels, with Jeffreys' prior."""
    seen = [0] * n_classes
    loss = 0.0
    for label in labels:
        loss -= math.log((seen[label] + 0.5) / (sum(seen) + 0.5 * n_classes))
        seen[label] += 1
    return loss


def prunings(node):
    """Yield the prior probability, the cuts and the leaves of each pruning below a node."""
    if node.is_leaf:
        yield 1.0, [], [node]
        return
    yield 0.5, [], [node]
    for left, right in itertools.product(prunings(node.left), prunings(node.right)):
        yield 0.5 * left[0] * right[0], [node, *left[1], *right[1]], left[2] + right[2]


def class_importances(root, y, n_classes, n_dims, repeats=None):
    """Return the importance of each dimension; `repeats` has the multiplicity of each sample."""
    repeats = repeats or [1] * len(y)

    losses = {}
    for node in walk(root):
        points = [n for leaf in leaves(node) for n in leaf.points for _ in range(repeats[n])]
        losses[id(node)] = sequential_loss([y[n] for n in points], n_classes)
    ways = list(prunings(root))
    logs = [math.log(prior) - sum(losses[id(leaf)] for leaf in ends) for prior, _, ends in ways]
    found = np.zeros(n_dims)
    for likelihood, (_, cuts, _) in zip(special.softmax(logs), ways, strict=True):
        for node in cuts:
            below = losses[id(node.left)] + losses[id(node.right)]
            found[node.dim] += likelihood * (losses[id(node)] - below)
    return found / sum(repeats)


def explain_classes(root, x, gamma, base):
    """Return the root's distribution, and the contributions of the dimensions as rows."""
    found = np.zeros((len(x), len(base)))
    start = np.zeros(len(base))
    waiting = [(root, 1.0, np.array(base))]
    while waiting:
        node, weight, above = waiting.pop()
        delta = node.time - node.parent_time
        here = np.array(hnsp.smooth(node.count, node.tab, hnsp.discount(gamma, delta), list(above)))
        if node.parent is None:
            start = here
        else:
            found[node.parent.dim] += weight * (here - above)
        gaps = np.array(outside(node, x))
        eta = gaps.sum()
        branches = -math.expm1(-delta * eta) if eta > 0.0 else 0.0
        if branches > 0.0:
            tables = [min(c, 1) for c in node.count]
            d = hnsp.expected_discount(eta, gamma, delta)
            there = np.array(hnsp.smooth(tables, tables, d, list(above)))
            found += np.outer(gaps / eta, weight * branches * (there - here))
        if not node.is_leaf:
            for child, share in zip((node.left, node.right), hnsp.shares(node, x), strict=True):
                if share > 0.0:
                    waiting.append((child, weight * (1.0 - branches) * share, here))
    return start, found


# Importances for targets. The nodes have the form of the nodes in `gaussian`.


def _gains(nodes, losses, n_dims):
    found = np.zeros(n_dims)
    for node, loss in zip(nodes, losses, strict=True):
        if node.left >= 0:
            found[node.dim] += loss - losses[node.left] - losses[node.right]
    return found


def gaussian_importances(nodes, y, w, gamma2, noise, prior, n_dims):
    """Return the importances, with a posterior that leaves out each target in turn."""
    losses = np.zeros(len(nodes))
    for p in range(len(y)):
        others = [0.0 if q == p else weight for q, weight in enumerate(w)]
        without = gaussian.Posterior(nodes, y, others, gamma2, noise, prior)
        passed = [p in node.points for node in nodes]
        losses[passed] += w[p] * (y[p] - without.mean[passed]) ** 2
    return _gains(nodes, losses, n_dims) / sum(w)


def mean_importances(nodes, y, n_dims):
    """Return the importances if a node predicts a target by the mean of its other targets."""
    losses = np.zeros(len(nodes))
    for p in range(len(y)):
        foreseen = math.nan
        for j in (j for j, node in enumerate(nodes) if p in node.points):
            others = [y[q] for q in nodes[j].points if q != p]
            foreseen = np.mean(others) if others else foreseen
            losses[j] += (y[p] - foreseen) ** 2
    return _gains(nodes, losses, n_dims) / len(y)


def explain_targets(posterior, x, moments):
    """Return the root's mean, and the contributions of dimensions.

    `moments` is the function that `gaussian.mixture` takes.
    """
    nodes = posterior.nodes
    found, weight = np.zeros(len(x)), 1.0
    for i in gaussian.route(nodes, x):
        node = nodes[i]
        above, here = posterior.edge(i)[0], posterior.mean[i]
        start = 0.0
        if node.parent >= 0:
            found[nodes[node.parent].dim] += weight * (here - above)
            start = nodes[node.parent].time
        gaps = np.array(outside(node, x))
        eta = gaps.sum()
        if eta > 0.0:
            branches = 1.0 - math.exp(-eta * node.delta)
            share, _ = moments(eta, node.time - start, posterior.gamma2, start)
            there = above + share * (here - above)
            found += gaps / eta * weight * branches * (there - here)
            weight *= 1.0 - branches
    return posterior.mean[0], found.tolist()


# A whole model.


def mean_over_orders(predict, x, orders):
    """Return the mean change of the prediction when a feature of `x` becomes known, by feature."""
    found = dict.fromkeys(x, 0.0)
    for order in orders:
        for i, name in enumerate(order):
            before, after = (predict({n: x[n] for n in order[:j]}) for j in (i, i + 1))
            found[name] = found[name] + (after - before) / len(orders)
    return found
