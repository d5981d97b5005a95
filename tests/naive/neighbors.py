"""Experts of nearest neighbours by brute force: the latest samples are in a deque, newest first."""

import math
from collections import deque

import numpy as np

WINDOWS, N_NEAREST, MOST_VALUES = (200, 1000, 5000), 7, 64_000
SOFTENED, PRIOR = 1e-3, 0.5


def most_samples(bound, values, n_inputs):
    """Return the largest number of samples: beyond 64 inputs, fewer values are stored."""
    return min(bound, int(values * min(1.0, 64 / n_inputs) / n_inputs))


class Neighbors:
    """The latest samples: mappings without missing values, labels or targets, and weights."""

    def __init__(self, window=50_000, missing="unknown", most_values=MOST_VALUES):
        self.most_samples = min(window, WINDOWS[-1])
        self.most_values, self.is_zero = most_values, missing == "zero"
        self.held, self.origins, self.levels = deque(), {}, set()

    def stored(self, x):
        """Return a sample in single precision, relative to the first value of each feature."""
        for name, value in x.items():
            if name not in self.origins:
                self.origins[name] = 0.0 if isinstance(value, str) else value
                self.levels |= {name} if isinstance(value, str) else set()
        # An absent category is a level of its own.
        full = {n: None if n in self.levels else 0.0 for n in self.origins if self.is_zero} | x
        return {
            n: v if n in self.levels else float(np.float32(v - self.origins[n]))
            for n, v in full.items()
        }

    def learn(self, x, label, weight=1.0):
        self.held.appendleft((x, label, weight))
        self.stored(x)
        most = most_samples(self.most_samples, self.most_values, max(len(self.origins), 1))
        while len(self.held) > most:
            self.held.pop()

    def forget_before(self, n):
        while len(self.held) > n:
            self.held.pop()

    def nearest(self, x, deviations):
        """Return each window's nearest samples: pairs of a vote, and a label or target.

        `deviations` has the standard deviation of each numerical feature.
        """
        x = self.stored({name: value for name, value in x.items() if name in self.origins})
        used = [name for name in x if name in self.levels or deviations[name] > 0.0]
        distances = [self.distance(x, self.stored(y), used, deviations) for y, _, _ in self.held]
        for window in WINDOWS:
            # The sort is stable, so the newest of equally near samples come first.
            order = sorted(
                (i for i, d in enumerate(distances[:window]) if d is not None),
                key=distances.__getitem__,
            )[:N_NEAREST]
            fars = [distances[i] + SOFTENED * distances[order[-1]] + 1e-30 for i in order]
            yield [
                (self.held[i][2] / far, self.held[i][1]) for i, far in zip(order, fars, strict=True)
            ]

    def predict(self, x, labels, deviations):
        """Return a row of probabilities for each window."""
        rows = []
        for found in self.nearest(x, deviations):
            votes = np.zeros(len(labels))
            for vote, label in found:
                votes[list(labels).index(label)] += vote
            if found:
                votes *= len(found) / votes.sum()
            votes += PRIOR / len(labels)
            rows.append(votes / votes.sum())
        return np.array(rows)

    def predict_targets(self, x, deviations):
        """Return the mean of the nearest samples' targets for each window, 0 without samples."""
        found = [np.array(one).reshape(-1, 2) for one in self.nearest(x, deviations)]
        return [np.average(one[:, 1], weights=one[:, 0]) if len(one) else 0.0 for one in found]

    def distance(self, x, y, used, deviations):
        shared = [name for name in used if name in y]
        if not shared:
            return None
        terms = [
            float(x[n] != y[n]) if n in self.levels else ((x[n] - y[n]) / deviations[n]) ** 2
            for n in shared
        ]
        return math.sqrt(sum(terms) * len(used) / len(shared))
