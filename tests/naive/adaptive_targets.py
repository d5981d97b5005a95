"""The adaptive forest for targets in plain Python: means along paths, gains, lags and fences."""

import math

import numpy as np

from .adaptive import route
from .moments import fences

KEPT = 0.4
STRENGTHS = {False: (6.0,), True: (0.0, 1.0, 6.0)}


class Means:
    """The targets of a node, and their weight and mean with and without decay."""

    def __init__(self, samples, targets, weights):
        self.samples, self.targets = samples, targets[samples]
        own = weights[samples]
        late = own * KEPT ** np.arange(len(own))[::-1]
        self.weight, self.late_weight = own.sum(), late.sum()
        self.mean, self.late_mean = own @ self.targets / own.sum(), late @ self.targets / late.sum()


def replay(nodes, rows, targets, weights):
    """Return the means of each node after all samples, in order."""
    passed = [[] for _ in nodes]
    for i, x in enumerate(rows):
        for number in route(nodes, x):
            passed[number].append(i)
    targets, weights = np.array(targets), np.array(weights)
    return [Means(samples, targets, weights) for samples in passed] if len(rows) else []


def readings(known):
    """Return a tree's predictions for a sample; `known` has the `Means` on the sample's path."""
    found = []
    for late in (False, True):
        for strength in STRENGTHS[late]:
            said = None
            for node in known:
                n = node.late_weight if late else node.weight
                mean = node.late_mean if late else node.mean
                said = mean if said is None else (n * mean + strength * said) / (n + strength)
            found.append(said)
    return found


def scatter(targets, weights):
    """Return the weighted sum of squared deviations from the mean."""
    return weights @ (targets - np.average(targets, weights=weights)) ** 2


def lagged(pairs, scales, n_lags=4, far=10.0):
    """Return the weights of a ridge regression of errors on the latest errors and targets.

    `pairs` has the prediction and the target of each sample. Errors are in units of `scales`. The
    regression is solved after each sample, because the error of the previous solution determines
    the weight of the sample.
    """
    rows, left = [np.eye(2 * n_lags)], [np.zeros(2 * n_lags)]
    solution, size = np.zeros(2 * n_lags), 0.0
    for i, (base, target) in enumerate(pairs):
        if not scales[i] > 0.0:
            continue
        row = np.zeros(2 * n_lags)
        for k, (b, t) in enumerate(pairs[max(0, i - n_lags) : i][::-1]):
            row[[k, n_lags + k]] = np.clip([(t - b) / scales[i], (t - base) / scales[i]], -far, far)
        wanted = np.clip((target - base) / scales[i], -far, far)
        error = abs(wanted - row @ solution)
        weight = size / error if error > size > 0.0 else 1.0
        size += (error - size) / min(1.0 + i, 50.0)
        rows.append(weight**0.5 * row[None])
        left.append(np.array([weight**0.5 * wanted]))
        solution = np.linalg.lstsq(np.vstack(rows), np.concatenate(left), rcond=None)[0]
    return solution


class Fences:
    """Fences to which targets are clipped, unless many recent targets are beyond the fences."""

    def __init__(self):
        self.low, self.high, self.beyond = -math.inf, math.inf, 0.0
        self.stored = []

    def see(self, target):
        """Add a target, and return it clipped; some calls renew the fences."""
        is_beyond = not self.low <= target <= self.high
        self.beyond = 0.9 * self.beyond + is_beyond
        if self.beyond <= 3.0:
            target = min(max(target, self.low), self.high)
        self.stored.append(target)
        n = len(self.stored)
        if n >= 16 and n % 2 ** (math.floor(math.log2(n)) - 2) == 0:
            self.low, self.high = fences(self.stored, [1.0] * n)
        return target
