"""A mixture of learners, one per lifetime, by exponential weights with a fixed share."""

import math

import numpy as np
from scipy import special

SPREAD, MEMORY, RATE, LARGEST = 1e-3, 1000.0, 0.125, 50.0


class Mixture:
    """Mixture of gradient descents at a constant rate, one per lifetime.

    The argument `columns` has a list of columns for each lifetime. Targets are numbers (squared
    loss), or 0 and 1 with `log`.
    """

    def __init__(self, n_lifetimes, value, rate, log=False):
        self.weights = {}
        self.shares = np.full(n_lifetimes, 1.0 / n_lifetimes)
        self.mean, self.count = 0.0, 0.0
        self.value, self.rate, self.log = value, rate, log

    def score(self, columns):
        return self.value * math.fsum(self.weights.get(c, 0.0) for c in columns)

    def predict(self, columns):
        """Return the prediction of the mixture; with `log` it is a probability."""
        scores = np.array([self.score(part) for part in columns])
        heard = np.where(self.shares >= SPREAD, self.shares, 0.0)
        return np.average(special.expit(scores) if self.log else scores, weights=heard)

    def loss(self, score, y):
        if self.log:
            return float((score > 0.0) != (y == 1) or score == 0.0)
        return (score - y) ** 2

    def learn(self, before, after, y):
        losses = [self.loss(self.score(part), y) for part in before]
        expected = self.shares @ losses
        self.count = min(self.count + 1.0, MEMORY)
        self.mean += (expected - self.mean) / self.count
        rate = RATE / self.mean if self.mean > 0.0 else 0.0
        above = rate * (np.array(losses) - min(losses))
        new = self.shares * np.exp(-np.minimum(above, LARGEST))
        self.shares = (1.0 - SPREAD) * new / new.sum() + SPREAD / len(new)
        for part in after:
            score = self.score(part)
            slope = special.expit(score) - y if self.log else 2.0 * (score - y)
            for c in part:
                self.weights[c] = self.weights.get(c, 0.0) - self.rate * slope * self.value
