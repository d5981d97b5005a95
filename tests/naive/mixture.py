"""A learner per lifetime, mixed by exponential weights with a fixed share, by plain loops."""

import math

SPREAD, MEMORY, RATE, LARGEST = 1e-3, 1000.0, 0.125, 50.0


class Mixture:
    """Gradient descent with a constant rate on the columns of each lifetime.

    `columns` of the methods has a list for each lifetime. Targets are numbers (squared loss) or,
    with `log`, 0 and 1.
    """

    def __init__(self, n_lifetimes, value, rate, log=False):
        self.weights = {}
        self.shares = [1.0 / n_lifetimes] * n_lifetimes
        self.mean, self.count = 0.0, 0.0
        self.value, self.rate, self.log = value, rate, log

    def score(self, columns):
        return self.value * math.fsum(self.weights.get(c, 0.0) for c in columns)

    def predict(self, columns):
        """Return the mixture's prediction, a probability with `log`."""
        scores = [self.score(part) for part in columns]
        if self.log:
            scores = [1.0 / (1.0 + math.exp(-s)) for s in scores]
        heard = [(p, s) for p, s in zip(self.shares, scores, strict=True) if p >= SPREAD]
        return math.fsum(p * s for p, s in heard) / math.fsum(p for p, _ in heard)

    def loss(self, score, y):
        if self.log:
            return float((score > 0.0) != (y == 1) or score == 0.0)
        return (score - y) ** 2

    def learn(self, before, after, y):
        losses = [self.loss(self.score(part), y) for part in before]
        expected = math.fsum(p * v for p, v in zip(self.shares, losses, strict=True))
        self.count = min(self.count + 1.0, MEMORY)
        self.mean += (expected - self.mean) / self.count
        rate = RATE / self.mean if self.mean > 0.0 else 0.0
        least = min(losses)
        new = [
            p * math.exp(-min(rate * (v - least), LARGEST))
            for p, v in zip(self.shares, losses, strict=True)
        ]
        n, total = len(new), math.fsum(new)
        self.shares = [(1.0 - SPREAD) * p / total + SPREAD / n for p in new]
        for part in after:
            score = self.score(part)
            slope = 1.0 / (1.0 + math.exp(-score)) - y if self.log else 2.0 * (score - y)
            for c in part:
                self.weights[c] = self.weights.get(c, 0.0) - self.rate * slope * self.value
