"""The nearest-neighbour detector by its definition, sample by sample, over lists."""

import math

import numpy as np

CAP, REST = 10.0, 1e-4


class Detector:
    """Detector that scores a sample by the expected nearest distance in a random subset."""

    def __init__(self, n_neighbors=16, capacity=512):
        self.n_neighbors, self.capacity = n_neighbors, capacity
        self.held, self.widths, self.n_entered = [], {}, 0

    def hold(self, x):
        """Store a sample, and remove the oldest sample beyond the capacity."""
        new = set(x) - set(self.widths)
        self.widths.update(dict.fromkeys(new, 1.0))
        if new:
            self.renew()
        self.held = [*self.held, x][-self.capacity :]
        self.n_entered += 1
        n = len(self.held)
        if (n < self.capacity and n >= 4 and math.log2(n).is_integer()) or self.n_entered >= 64:
            self.renew()

    def renew(self):
        self.n_entered = 0
        for name in self.widths:
            values = [y[name] for y in self.held if name in y]
            self.widths[name] = (width_of(values) if values else 0.0) or 1.0

    def term(self, name, a, b):
        gap = float(a != b) if isinstance(a, str) else abs(a - b)
        term = gap / self.widths[name]
        return term if term <= CAP else CAP * (1.0 + math.log(term / CAP))

    def distance(self, x, y):
        shared = [name for name in self.widths if name in x and name in y]
        if not shared:
            return None
        total = sum(self.term(name, x[name], y[name]) for name in shared)
        return total * len(self.widths) / len(shared)

    def score(self, x, rest=REST):
        """Return the expectation without the last terms, whose total weight is at most `rest`."""
        distances = sorted(found for y in self.held if (found := self.distance(x, y)) is not None)
        if not distances:
            return 0.0
        q = self.chance
        n = math.ceil(math.log(rest) / math.log(1.0 - q)) if rest else len(distances)
        weights = q * (1.0 - q) ** np.arange(len(distances[:n]))
        return np.average(distances[:n], weights=weights)

    @property
    def chance(self):
        return min(0.5, max(1.0 / self.n_neighbors, 2.0 / len(self.held)))

    def nearest_in_subsets(self, x, n, rng):
        """Return the distance to the nearest sample of each of `n` non-empty random subsets."""
        distances = np.array([self.distance(x, y) for y in self.held])
        found = []
        while len(found) < n:
            chosen = distances[rng.random(len(distances)) < self.chance]
            if len(chosen):
                found.append(chosen.min())
        return np.array(found)


def width_of(values):
    if isinstance(values[0], str):
        differ = sum(a != b for a in values for b in values) / len(values) ** 2
        return math.sqrt(0.5 * differ)
    q1, q3 = np.quantile(values, [0.25, 0.75])
    clipped = values if q3 == q1 else np.clip(values, q1 - 3 * (q3 - q1), q3 + 3 * (q3 - q1))
    return float(np.std(clipped))
