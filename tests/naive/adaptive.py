"""The adaptive forest in plain Python: class counts along paths, mixtures, Gini gains."""

import math

import numpy as np

DECAYS = (1.0, 0.95, 0.7)
PRIORS = (0.5, 0.05)
STOP_PRIORS = (0.5, 0.1)
SHARE_RATE = 0.02
LEAST_STOP = 1e-4


def route(nodes, x):
    """Return the indices of the nodes on a sample's path."""
    path = [0]
    while not nodes[path[-1]].is_leaf:
        node = nodes[path[-1]]
        path.append(node.left if x[node.dim] <= node.cut else node.right)
    return path


class Statistics:
    """The statistics of a node: counts and a share for each decay, and stop probabilities."""

    def __init__(self, n_classes):
        self.counts = np.zeros((len(DECAYS), n_classes))
        self.shares = np.full(len(DECAYS), 1.0 / len(DECAYS))
        self.stops = list(STOP_PRIORS)

    def memories(self, alpha):
        """Return the class distributions by the counts of each decay, as rows."""
        counts = self.counts + alpha
        return counts / counts.sum(axis=1, keepdims=True)

    def estimate(self, v):
        """Return the distribution of the node in posterior `v`; posterior 1 mixes all decays."""
        own = self.memories(PRIORS[v])
        return own[0] if v < 1 else self.shares @ own

    def see(self, label, forgets, weight=1.0):
        if forgets:
            self.counts *= np.array(DECAYS)[:, None]
        self.counts[:, label] += weight

    def weigh(self, label, weight=1.0):
        chances = self.memories(PRIORS[1])[:, label]
        # Likelihoods are divided by the largest likelihood, because their powers could underflow.
        mixed = self.shares * (chances / chances.max()) ** weight
        self.shares = (1.0 - SHARE_RATE) * mixed / mixed.sum() + SHARE_RATE / len(DECAYS)


def predict(nodes, seen, x, v):
    """Return the class distribution of posterior `v`, mixed along the path by the stop weights."""
    path = route(nodes, x)
    found = seen[path[-1]].estimate(v)
    for number in reversed(path[:-1]):
        stop = seen[number].stops[v]
        found = stop * seen[number].estimate(v) + (1.0 - stop) * found
    return found


def learn(nodes, seen, x, label, root_forgets=False, weight=1.0):
    """Update the nodes on a sample's path: weights first, then counts.

    The loss of a sample is multiplied by its weight. At each node, `below` holds the log likelihood
    of the label below the node for each posterior.
    """
    path = route(nodes, x)
    below = [weight * math.log(seen[path[-1]].estimate(v)[label]) for v in range(2)]
    seen[path[-1]].weigh(label, weight)
    for number in reversed(path[:-1]):
        node = seen[number]
        for v in range(2):
            own = weight * math.log(node.estimate(v)[label])
            # `parts` has the logarithms of two terms, and `below` becomes the logarithm of their
            # sum.
            parts = math.log(node.stops[v]) + own, math.log1p(-node.stops[v]) + below[v]
            below[v] = max(parts) + math.log1p(math.exp(min(parts) - max(parts)))
            node.stops[v] = min(max(math.exp(parts[0] - below[v]), LEAST_STOP), 1.0 - LEAST_STOP)
        node.weigh(label, weight)
    for depth, number in enumerate(path):
        seen[number].see(label, depth > 0 or root_forgets, weight)


def replay(nodes, X, labels, n_classes, root_forgets=False, weights=None):
    """Return the statistics of each node after all samples, in order."""
    seen = [Statistics(n_classes) for _ in nodes]
    for i, (x, label) in enumerate(zip(X, labels, strict=True)):
        learn(nodes, seen, x, label, root_forgets, 1.0 if weights is None else weights[i])
    return seen


def hnsp_counts(nodes, seen):
    """Return the counts c of Algorithm 5 for each node."""
    counts = np.array([one.counts[0] for one in seen])
    tables = np.minimum(counts, 1.0)
    pairs = zip(nodes, counts, strict=True)
    return [own if n.is_leaf else tables[n.left] + tables[n.right] for n, own in pairs]


def gini(labels, weights):
    """Return the total weight of labels times their Gini impurity."""
    of_class = np.bincount(labels, weights)
    return weights.sum() - (of_class**2).sum() / weights.sum()


def gains(nodes, X, targets, weights, loss):
    """Return the reduction of a loss by the cuts of each dimension."""
    targets, weights = np.array(targets), np.array(weights)
    found, paths = np.zeros(X.shape[1]), [route(nodes, x) for x in X]
    losses = []
    for number in range(len(nodes)):
        inside = [number in path for path in paths]
        losses.append(loss(targets[inside], weights[inside]))
    for node, own in zip(nodes, losses, strict=True):
        if not node.is_leaf:
            found[node.dim] += own - losses[node.left] - losses[node.right]
    return found


class Mixture:
    """A log-linear pool of experts and of their fixed-share mixture."""

    def __init__(self, n, floor, step, first, largest, rate):
        self.floor, self.step, self.first, self.largest = floor, step, first, largest
        self.rate = rate
        self.exponents = np.full(n + 1, 1.0 / (n + 1))
        self.squares = np.full(n + 1, first)
        self.shares = np.full(n, 1.0 / n)
        self.heaviest = 1.0

    def follow_drift(self):
        self.squares[:] = self.first

    def predict(self, experts):
        floored = np.maximum(experts, self.floor / np.shape(experts)[1])
        experts = floored / floored.sum(axis=1, keepdims=True)
        self.logs = np.log(np.vstack([experts, self.shares @ experts]))
        pooled = np.exp(self.exponents @ self.logs)
        self.pool = pooled / pooled.sum()
        return self.pool

    def learn(self, label, weight=1.0):
        # Gradients are in units of the largest recent weight.
        self.heaviest = max(weight, 1.0, 0.999 * self.heaviest)
        part = weight / self.heaviest
        gradients = (self.logs @ self.pool - self.logs[:, label]) * part
        self.squares += gradients**2
        moved = self.exponents - self.step * gradients / np.sqrt(self.squares)
        self.exponents = np.clip(moved, -1.0, self.largest)
        # Herbster and Warmuth 1998: the loss update, then the share update.
        kept = self.shares * np.exp(part * self.logs[:-1, label])
        rate = self.rate * part
        self.shares = (1.0 - rate) * kept / kept.sum() + rate / len(kept)
