"""Calibrated predictions for one coverage, as in the papers."""

import math
from collections import defaultdict

B_INTERVALS, B_SETS = 20.0, 8.0


# Predictions before this many labels do not move a threshold.
LEAST_LABELS = 20


def step_size(n, first, delay):
    """Return a step of Angelopoulos et al. (2024), which decays as 1 / sqrt(n).

    The step decays down to a tenth of `first`. The sum of the steps within a delay is at most .75.
    """
    usual = first * max(0.1, math.sqrt(20.0 / (20.0 + n)))
    return min(usual, 0.75 / (1.0 + delay))


class QuantileTracker:
    """Threshold that the share `level` of scores does not exceed (Gibbs and Candès, 2021).

    Gradients are in units of their standard deviation.
    """

    def __init__(self, level, start, first, least=-math.inf):
        self.level, self.first, self.least = level, first, least
        self.threshold = start

    def update(self, covered, n, delay):
        """Update the threshold after `n` labels, given whether the threshold covered the score."""
        eta = step_size(n, self.first, delay) / math.sqrt(self.level * (1.0 - self.level))
        self.threshold = max(self.threshold + eta * (self.level - covered), self.least)


class NaiveInterval:
    """Intervals of one coverage, from errors in units of the mean absolute error."""

    def __init__(self, coverage):
        tail = (1.0 + coverage) / 2.0
        start = math.log(tail / (1.0 - tail)) / math.log(4.0)
        self.up = QuantileTracker(tail, start, 0.1)
        self.down = QuantileTracker(tail, start, 0.1)
        self.n, self.size = 0, 0.0

    def predict(self, centre):
        """Return the interval, and the first argument of `learn`."""
        thresholds = self.down.threshold, self.up.threshold
        down, up = (self.size * t if self.n and t < B_INTERVALS else math.inf for t in thresholds)
        return (centre - down, centre + up), (self.n, centre, self.size, *thresholds)

    def learn(self, known, y):
        """Update both thresholds by the target `y` of the prediction `known`."""
        n_then, centre, size, down, up = known
        error = y - centre
        if size > 0.0:
            z = max(-B_INTERVALS, min(B_INTERVALS, error / size))
        else:
            z = 0.0 if error == 0.0 else math.copysign(B_INTERVALS, error)
        if n_then >= LEAST_LABELS:
            self.up.update(z <= up, self.n, self.n - n_then)
            self.down.update(-z <= down, self.n, self.n - n_then)
        away = abs(error) if self.size == 0.0 else min(abs(error), 20.0 * self.size)
        self.n += 1
        self.size += (away - self.size) / min(self.n, 300)


class NaiveSet:
    """Sets of one coverage; with `never_empty` a set contains the most probable class."""

    def __init__(self, coverage, never_empty):
        least = -B_SETS if never_empty else -math.inf
        self.never_empty = never_empty
        self.tracker = QuantileTracker(coverage, 0.0, 0.3, least)
        self.n = self.n_known = 0

    @staticmethod
    def score(p):
        """Return minus the log-odds, clipped."""
        if p <= 0.0 or p >= 1.0:
            return B_SETS if p <= 0.0 else -B_SETS
        return max(-B_SETS, min(B_SETS, math.log((1.0 - p) / p)))

    def predict(self, probabilities):
        """Return the set, and the first argument of `learn`."""
        found = {k for k, p in probabilities.items() if self.score(p) <= self.tracker.threshold}
        if self.never_empty and probabilities:
            found.add(max(probabilities, key=probabilities.get))
        return found, (self.n, probabilities, found)

    def learn(self, known, y, n_labels=None):
        """Update the threshold; `n_labels` labels were learned before the prediction."""
        n_then, probabilities, found = known
        if y in probabilities:
            if (n_then if n_labels is None else n_labels) >= LEAST_LABELS:
                self.tracker.update(y in found, self.n_known, self.n - n_then)
            self.n_known += 1
        self.n += 1


class NaiveSetByClass:
    """Sets with a tracker per class; the tracker decides whether the class is in the set."""

    def __init__(self, coverage):
        self.of_class = defaultdict(lambda: NaiveSet(coverage, True))
        self.n = 0

    def predict(self, probabilities):
        known = {k: self.of_class[k].predict(probabilities)[1] for k in probabilities}
        return {k for k, (_, _, found) in known.items() if k in found}, (self.n, known)

    def learn(self, known, y):
        n_then, of_class = known
        self.of_class[y].learn(of_class[y], y, n_then)
        self.n += 1
