"""Alarms, written from the description of `river_mondrian.Alarms`, with all samples stored."""

import itertools
import math


class NaiveAlarms:
    """Alarms over a detector whose score is the feature "score"."""

    threshold, average, window, rest = 0.997, 40, 8192, 100
    tolerance, grace_period, budget = 0.05, 100, None

    def __init__(self, calendar, **arguments):
        self.calendar = calendar
        vars(self).update(arguments)
        self.samples, self.excesses, self.means, self.alarms = [], [], [], []

    def mean(self, x):
        latest = [*self.samples, x][-self.average :]
        return math.fsum(-math.log(1.0 - one["score"]) for one in latest) / len(latest)

    def values(self, samples, name):
        return [x[name] for x in samples if name in x]

    def excess(self, x):
        most = 0.0
        for name, value in x.items():
            before = self.values(self.samples, name)
            if name in self.calendar or not before:
                continue
            low, high, size = min(before), max(before), self.size(before)
            beyond = max(value - high, low - value)
            width = max(high - low, size)
            if beyond > 0.0:
                most = max(most, beyond / width if width > 0.0 else math.inf)
        return most if most >= self.tolerance else 0.0

    def size(self, values):
        """Return the largest absolute value if most values equal the previous one, else 0."""
        changes = sum(a != b for a, b in itertools.pairwise(values))
        return max(map(abs, values)) if 2 * changes < len(values) else 0.0

    def is_flat(self, x):
        known = {name: self.values(self.samples, name) for name in x if name not in self.calendar}
        return bool(known) and all(
            max(*before, x[name]) - min(*before, x[name]) < self.tolerance * self.size(before)
            for name, before in known.items()
            if before
        )

    def score(self, x):
        n = len(self.samples)
        number = n + 1
        if n < self.grace_period:
            return 0.0
        if self.budget and sum(number - a < self.budget[1] for a in self.alarms) >= self.budget[0]:
            return 0.0
        excess = self.excess(x)
        if excess > 0.0:
            as_novel = sum(one >= excess for one in self.excesses[-self.window :])
            if as_novel <= (1.0 - self.threshold) * self.window:
                return 1.0
        if self.is_flat(x) or (self.alarms and number <= self.alarms[-1] + self.rest):
            return 0.0
        mean, means = self.mean(x), self.means[-self.window :]
        return 1.0 - (1 + sum(m >= mean - 1e-12 for m in means)) / (1 + len(means))

    def learn(self, x):
        if self.score(x) >= self.threshold:
            self.alarms.append(len(self.samples) + 1)
        self.excesses.append(self.excess(x))
        mean, n = self.mean(x), len(self.samples)
        if self.window <= n < 2 * self.window:
            mean = max(mean, self.means[-self.window])
        self.means.append(mean)
        self.samples.append(x)
