"""Plain-Python twin of the target posterior: one dense Gaussian, conditioned on the targets.

The joint covariance of all node means is written down from the tree, and the targets are
conditioned on by solving with it: no messages, no order. Variances are in units of gamma1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Node:
    """A node of a tree; `points` are those of a leaf.

    `delta` is the time since the parent in the precision in which trees keep it.
    """

    lower: list[float]
    upper: list[float]
    time: float
    delta: float
    parent: int = -1
    left: int = -1
    right: int = -1
    dim: int = -1
    cut: float = math.nan
    points: list[int] = field(default_factory=list)


def sigmoid(a):
    """The logistic function."""
    return 1.0 / (1.0 + math.exp(-a)) if a < 700.0 else 1.0


def below(nodes, i):
    """Return the points below a node."""
    if nodes[i].left < 0:
        return nodes[i].points
    return below(nodes, nodes[i].left) + below(nodes, nodes[i].right)


def route(nodes, x):
    """Return the path of a sample from the root to its leaf."""
    path = [0]
    while nodes[path[-1]].left >= 0:
        node = nodes[path[-1]]
        path.append(node.left if x[node.dim] <= node.cut else node.right)
    return path


def ancestors(nodes, i):
    """Return a node and those above it, the root first."""
    path = [i]
    while nodes[path[-1]].parent >= 0:
        path.append(nodes[path[-1]].parent)
    return path[::-1]


class Posterior:
    """Means of all nodes given the targets.

    Parameters
    ----------
    nodes
        The tree; the first is the root.
    y
        Targets of the points.
    w
        Their weights.
    gamma2
        Rate of the logistic function.
    noise
        Noise variance over gamma1.
    prior
        Mean of the root's parent.

    """

    def __init__(self, nodes, y, w, gamma2, noise, prior):
        self.nodes, self.gamma2, self.noise = nodes, gamma2, noise
        n = len(nodes)
        paths = [ancestors(nodes, i) for i in range(n)]
        level = [sigmoid(gamma2 * node.time) - 0.5 for node in nodes]
        # Two node means share what their last common ancestor has: the walk up to there.
        cov = np.empty((n, n))
        for i in range(n):
            for j in range(n):
                common = 0.0
                for a, b in zip(paths[i], paths[j], strict=False):
                    if a == b:
                        common = level[a]
                cov[i, j] = common
        leaf_of = {p: i for i, node in enumerate(nodes) for p in node.points if w[p] > 0.0}
        points = sorted(leaf_of)
        place = [leaf_of[p] for p in points]
        noises = np.array([noise / w[p] for p in points])
        observed = cov[np.ix_(place, place)] + np.diag(noises)
        gain = np.linalg.solve(observed, cov[place]).T if points else np.zeros((n, 0))
        gaps = np.array([y[p] - prior for p in points])
        self.mean = prior + gain @ gaps
        self.cov = cov - gain @ cov[place]
        self.prior = prior

    def edge(self, i):
        """Return mean and variance of a node's parent, of the node, and their covariance."""
        parent = self.nodes[i].parent
        if parent < 0:
            return self.prior, 0.0, self.mean[i], self.cov[i, i], 0.0
        return (
            self.mean[parent],
            self.cov[parent, parent],
            self.mean[i],
            self.cov[i, i],
            self.cov[parent, i],
        )


def distance(node, x):
    """Sum how far a sample lies outside a node's box, in each dimension a float32 as values are."""
    sides = zip(x, node.lower, node.upper, strict=True)
    return sum(float(np.float32(max(v - hi, 0.0) + max(lo - v, 0.0))) for v, lo, hi in sides)


def mixture(posterior, x, scale, lifetime, moments):
    """Return weight, mean and variance of each place where a sample may branch off or stay.

    `moments(eta, span, gamma2, start)` gives the mean and the mean square of the share of a
    branch's increase at which a sample leaves it.
    """
    nodes, gamma2 = posterior.nodes, posterior.gamma2
    found = []
    stays = 1.0
    end = sigmoid(gamma2 * lifetime)
    for i in route(nodes, x):
        node = nodes[i]
        start = 0.0 if node.parent < 0 else nodes[node.parent].time
        eta = distance(node, x)
        m_p, v_p, m, v, common = posterior.edge(i)
        if eta > 0.0:
            leaves = 1.0 - math.exp(-eta * node.delta)
            r, r2 = moments(eta, node.time - start, gamma2, start)
            increase = sigmoid(gamma2 * node.time) - sigmoid(gamma2 * start)
            # (1 - r) mu_parent + r mu, the bridge between, and the way from there to the leaf.
            variance = (1 - 2 * r + r2) * v_p + r2 * v + 2 * (r - r2) * common
            variance += (r - r2) * increase
            variance += end - sigmoid(gamma2 * start) - r * increase + posterior.noise
            variance = scale * variance + (r2 - r * r) * (m - m_p) ** 2
            found.append((stays * leaves, m_p + r * (m - m_p), variance))
            stays *= 1.0 - leaves
    found.append((stays, m, scale * (v + posterior.noise)))
    return found


def cell_mean(nodes, x, y, time):
    """Return the mean target in a sample's cell at a time (Equation 17), unless it is empty.

    Where the sample has branched off, the mean of the box that it left stands in, with the
    probability of that.
    """
    total, stays = 0.0, 1.0
    for i in route(nodes, x):
        node = nodes[i]
        start = 0.0 if node.parent < 0 else nodes[node.parent].time
        mean = float(np.mean([y[p] for p in below(nodes, i)]))
        eta = distance(node, x)
        leaves = 1.0 - math.exp(-eta * min(node.delta, time - start)) if eta > 0.0 else 0.0
        total += stays * leaves * mean
        stays *= 1.0 - leaves
        if node.time >= time or node.left < 0:
            break
    return total + stays * mean
