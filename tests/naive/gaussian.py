"""The posterior of node means in plain Python: a dense Gaussian, conditioned on the targets.

The joint covariance of all node means is computed from the tree, and no messages are passed.
Variances are in units of gamma1.
"""

from __future__ import annotations

import math

import numpy as np

from .adaptive import route
from .mondrian import outside


def sigmoid(a):
    """Return the logistic function."""
    return 1.0 / (1.0 + math.exp(-a)) if a < 700.0 else 1.0


def ancestors(nodes, i):
    """Return the path from the root to a node."""
    path = [i]
    while nodes[path[-1]].parent >= 0:
        path.append(nodes[path[-1]].parent)
    return path[::-1]


class Posterior:
    """Posterior of the means of all nodes given the targets.

    Parameters
    ----------
    nodes
        The nodes of a tree; the first is the root. `points` are the points below a node.
    y
        The targets of the points.
    w
        The weights of the points.
    gamma2
        The rate of the logistic function.
    noise
        The noise variance divided by gamma1.
    prior
        The mean of the root's parent.

    """

    def __init__(self, nodes, y, w, gamma2, noise, prior):
        self.nodes, self.gamma2, self.noise = nodes, gamma2, noise
        n = len(nodes)
        paths = [ancestors(nodes, i) for i in range(n)]
        level = [sigmoid(gamma2 * node.time) - 0.5 for node in nodes]
        # The covariance of two node means is the variance of their last common ancestor's mean.
        cov = np.empty((n, n))
        for i, j in np.ndindex(n, n):
            common = [a for a, b in zip(paths[i], paths[j], strict=False) if a == b]
            cov[i, j] = level[common[-1]]
        leaves = [(i, node.points) for i, node in enumerate(nodes) if node.left < 0]
        leaf_of = {p: i for i, points in leaves for p in points if w[p] > 0.0}
        points, place = list(leaf_of), list(leaf_of.values())
        observed = cov[np.ix_(place, place)] + np.diag([noise / w[p] for p in points])
        gain = np.linalg.solve(observed, cov[place]).T
        self.mean = prior + gain @ np.array([y[p] - prior for p in points])
        self.cov = cov - gain @ cov[place]
        self.prior = prior

    def edge(self, i):
        """Return the mean and variance of a node's parent and of the node, and the covariance."""
        p = self.nodes[i].parent
        if p < 0:
            return self.prior, 0.0, self.mean[i], self.cov[i, i], 0.0
        return self.mean[p], self.cov[p, p], self.mean[i], self.cov[i, i], self.cov[p, i]


def mixture(posterior, x, scale, lifetime, moments):
    """Return the weight, mean and variance of each component of a sample's distribution.

    There is a component for each edge at which the sample may branch off, and one for the leaf. The
    sample branches off after a random share r of the edge's variance. `moments(eta, span, gamma2,
    start)` returns the mean and the mean square of r.
    """
    nodes, gamma2 = posterior.nodes, posterior.gamma2
    found = []
    stays = 1.0
    end = sigmoid(gamma2 * lifetime)
    for i in route(nodes, x):
        node = nodes[i]
        start = 0.0 if node.parent < 0 else nodes[node.parent].time
        eta = sum(outside(node, x))
        m_p, v_p, m, v, common = posterior.edge(i)
        if eta > 0.0:
            leaves = 1.0 - math.exp(-eta * node.delta)
            r, r2 = moments(eta, node.time - start, gamma2, start)
            increase = sigmoid(gamma2 * node.time) - sigmoid(gamma2 * start)
            # The first line is the variance of (1 - r) mu_parent + r mu. The second line adds the
            # variance of the bridge. The third line adds the variance of the rest of the path, and
            # the noise.
            variance = (1 - 2 * r + r2) * v_p + r2 * v + 2 * (r - r2) * common
            variance += (r - r2) * increase
            variance += end - sigmoid(gamma2 * start) - r * increase + posterior.noise
            variance = scale * variance + (r2 - r * r) * (m - m_p) ** 2
            found.append((stays * leaves, m_p + r * (m - m_p), variance))
            stays *= 1.0 - leaves
    found.append((stays, m, scale * (v + posterior.noise)))
    return found


def cell_mean(nodes, x, y, time):
    """Return the mean target in a sample's cell at a time (O'Reilly and Tran 2022, Equation 17).

    If the sample has branched off, its cell is empty. Then the mean of the box that the sample has
    left is used, weighted by the probability of branching off from this box.
    """
    total, stays = 0.0, 1.0
    for i in route(nodes, x):
        node = nodes[i]
        start = 0.0 if node.parent < 0 else nodes[node.parent].time
        mean = np.mean([y[p] for p in node.points])
        eta = sum(outside(node, x))
        leaves = 1.0 - math.exp(-eta * min(node.delta, time - start)) if eta > 0.0 else 0.0
        total += stays * leaves * mean
        stays *= 1.0 - leaves
        if node.time >= time or node.left < 0:
            break
    return total + stays * mean
