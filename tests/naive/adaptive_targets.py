"""The adaptive forest over targets in plain Python: means along paths, gains, lags and fences."""

import math

import numpy as np

from naive.moments import fences

KEPT = 0.4
STRENGTHS = {False: (6.0,), True: (0.0, 1.0, 6.0)}


class Means:
    """What a node knows of targets: their weight and mean, and those of late ones."""

    def __init__(self):
        self.targets, self.weights = [], []

    def see(self, target, weight=1.0):
        self.targets.append(target)
        self.weights.append(weight)

    @property
    def weight(self):
        return sum(self.weights)

    @property
    def mean(self):
        return float(np.average(self.targets, weights=self.weights))

    @property
    def late_weights(self):
        n = len(self.weights)
        return [w * KEPT ** (n - 1 - i) for i, w in enumerate(self.weights)]

    @property
    def late_mean(self):
        return float(np.average(self.targets, weights=self.late_weights))


def route(nodes, x):
    """Return the numbers of the nodes on a sample's way down a tree."""
    path = [0]
    while not nodes[path[-1]].is_leaf:
        node = nodes[path[-1]]
        path.append(node.left if x[node.dim] <= node.cut else node.right)
    return path


def replay(nodes, rows, targets, weights=None):
    """Return what the nodes of a tree know once all samples have passed it in order."""
    found = [Means() for _ in nodes]
    for i, (x, target) in enumerate(zip(rows, targets, strict=True)):
        for number in route(nodes, x):
            found[number].see(target, 1.0 if weights is None else weights[i])
    return found


def readings(known):
    """Return what a tree says of a sample, on whose path the nodes know `known`."""
    found = []
    for late in (False, True):
        for strength in STRENGTHS[late]:
            said = 0.0
            for i, node in enumerate(known):
                n = sum(node.late_weights) if late else node.weight
                mean = node.late_mean if late else node.mean
                said = mean if i == 0 else (n * mean + strength * said) / (n + strength)
            found.append(said)
    return found


def gain(values, targets, cut, weights):
    """Return by how much a cut lowers the weighted sum of squared deviations."""

    def scatter(chosen):
        own = [(t, w) for t, w, c in zip(targets, weights, chosen, strict=True) if c]
        if not own:
            return 0.0
        t, w = map(np.array, zip(*own, strict=True))
        return float(w @ (t - np.average(t, weights=w)) ** 2)

    left = [v <= cut for v in values]
    return scatter([True] * len(values)) - scatter(left) - scatter([not side for side in left])


def lagged(pairs, scales, n_lags=4, far=10.0):
    """Return the weights of a ridge regression of errors on the latest errors and targets.

    `pairs` has what was predicted and the target of each sample, `scales` the unit of each. It is
    solved anew at each sample, as is told by how far the one before was wrong.
    """
    rows, left = [np.eye(2 * n_lags)], [np.zeros(2 * n_lags)]
    solution, size = np.zeros(2 * n_lags), 0.0
    for i, (base, target) in enumerate(pairs):
        if not scales[i] > 0.0:
            continue
        before = pairs[max(0, i - n_lags) : i][::-1]
        row = np.zeros(2 * n_lags)
        for k, (b, t) in enumerate(before):
            row[k] = np.clip((t - b) / scales[i], -far, far)
            row[n_lags + k] = np.clip((t - base) / scales[i], -far, far)
        wanted = np.clip((target - base) / scales[i], -far, far)
        error = abs(wanted - row @ solution)
        weight = size / error if error > size > 0.0 else 1.0
        size += (error - size) / min(1.0 + i, 50.0)
        rows.append(weight**0.5 * row[None])
        left.append(np.array([weight**0.5 * wanted]))
        solution = np.linalg.lstsq(np.vstack(rows), np.concatenate(left), rcond=None)[0]
    return solution


class Fences:
    """What targets count as: those beyond fences at these, but where many of late are beyond."""

    def __init__(self):
        self.low, self.high, self.beyond = -math.inf, math.inf, 0.0
        self.stored = []

    def see(self, target):
        """Return what a target counts as, and renew the fences where it is time."""
        is_beyond = not self.low <= target <= self.high
        self.beyond = 0.9 * self.beyond + is_beyond
        if self.beyond <= 3.0:
            target = min(max(target, self.low), self.high)
        self.stored.append(target)
        n = len(self.stored)
        if n >= 16 and n % 2 ** (math.floor(math.log2(n)) - 2) == 0:
            self.low, self.high = fences(self.stored, [1.0] * n)
        return target
