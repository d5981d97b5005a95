"""Ridge regressions, mixtures and distributions of a target, by loops and dense algebra."""

import itertools
import math

import numpy as np
from scipy import stats

ITSELF, BEND = -1, -2
# Fraction by which the largest weight decays at each sample.
FADING = 0.001


def wave(turns):
    """Return the two-parabola approximation of a sine; NaN stays NaN."""
    if turns != turns:
        return turns
    place = turns - math.floor(turns + 0.5)
    return 8.0 * place * (1.0 - 2.0 * abs(place))


def column_values(design, x, largest, n_arms):
    """Return the columns that the design defines for one sample."""
    n = len(x)
    units = np.clip(np.subtract(x, design["centres"][:n]) * design["rates"][:n], -largest, largest)
    found = [1.0]
    for c in range(1, design["n_additive"]):
        first, kind = units[design["firsts"][c]], design["seconds"][c]
        if kind == ITSELF:
            found.append(first)
        elif kind == BEND:
            knot = design["knots"][c]
            found.append(first if first != first else max(first - knot, 0.0))
        else:
            found.append(first * units[kind])
    for w in range(design["n_columns"] - design["n_additive"]):
        arms = range(n_arms * w, n_arms * w + design["arms"][w])
        turns = sum(design["arm_factors"][a] * units[design["arm_inputs"][a]] for a in arms)
        found.append(wave(turns + design["phases"][w]))
    for c in range(1, len(found)):
        value = (found[c] - design["means"][c]) * design["factors"][c]
        found[c] = value if value == value else 0.0
    return found


def ridge_weights(F, targets, weights, penalties, prior):
    """Return the minimizer of squared errors plus penalized squared distances to a prior."""
    gram = (F * weights[:, None]).T @ F + np.diag(penalties)
    return np.linalg.solve(gram, F.T @ (weights * targets) + penalties * prior)


def explained(h, z, errors):
    """Return the reduction of squared errors by a column beside a constant and a line in `z`."""
    bases = [np.ones(len(h))] + ([z] if z is not None else [])

    def left(columns, y):
        A = np.stack(columns, axis=1)
        return y - A @ np.linalg.lstsq(A, y, rcond=None)[0]

    own = left(bases, h)
    return (own @ errors) ** 2 / (own @ own)


def density(z, freedom):
    """Return the density of Student's t distribution, or of the normal for infinite freedom."""
    return stats.norm.pdf(z) if math.isinf(freedom) else stats.t.pdf(z, freedom)


class Mixture:
    """Four mixtures of experts, and a fixed share over them; `constants` is the kernels' module."""

    def __init__(self, n, constants, squared=False):
        self.n, self.c, self.squared = n, constants, squared
        self.shared, self.descended = (np.full(n, 1.0 / n) for _ in range(2))
        self.last = np.full(4, 0.25)
        self.widths, self.last_widths = np.zeros(n), np.zeros(4)
        self.grams = np.zeros((2, n, n))
        self.moments, self.solutions = np.zeros((2, n)), np.zeros((2, n))
        self.next = self.samples = 0
        self.move, self.difference, self.before, self.largest = 0.0, 0.0, 0.0, 1.0

    def predict(self, predicted):
        p = self.predicted = np.array(predicted)
        q, beyond = self.shared @ p, 0.25 * np.ptp(p)
        solved = np.clip(q + self.solutions @ (p - q), p.min() - beyond, p.max() + beyond)
        self.finalists = np.array([q, self.descended @ p, *solved])
        point = self.last @ self.finalists
        self.spread = self.descended @ np.abs(p - point)
        return point

    def densities(self, points, y, widths):
        scales = np.maximum(widths, self.c.LEAST_WIDTH * self.move)
        return stats.t.pdf((y - points) / scales, 3) / scales

    @staticmethod
    def share(weights, densities, rate):
        mixed = weights * densities
        return (1.0 - rate) * mixed / mixed.sum() + rate / len(mixed)

    def learn(self, y, weight=1.0):
        c = self.c
        self.largest = max(weight, 1.0, (1.0 - FADING) * self.largest)
        part = weight / self.largest
        late = 1.0 / min(1.0 + self.samples, c.N_OF_LATE)
        if self.samples:
            self.move = self.faded(self.move, abs(y - self.before), late)
        self.before = y
        self.difference += late * (self.spread - self.difference)
        if self.samples and self.move > 0.0:
            d = self.densities(self.predicted, y, self.widths)
            self.shared = self.share(self.shared, d**part, c.SHARE_RATE * part)
            if self.squared:
                unit = max(self.last_widths.min(), c.LEAST_WIDTH * self.move)
                e2 = ((y - self.finalists) / unit) ** 2
                d = np.exp(-c.RATE_OF_SQUARES * np.minimum(e2 - e2.min(), c.MOST_SQUARES))
            else:
                d = self.densities(self.finalists, y, self.last_widths)
            self.last = self.share(self.last, d**part, c.SHARE_RATE * part)
            self.descend(y, part)
            self.regress(y, weight)
        self.widths = self.faded(self.widths, np.abs(y - self.predicted), late)
        self.last_widths = self.faded(self.last_widths, np.abs(y - self.finalists), late)
        self.samples += 1

    def faded(self, mean, size, rate):
        if self.samples >= self.c.FIRST_ERRORS:
            size = np.where(mean > 0.0, np.minimum(size, self.c.FAR * mean), size)
        return mean + rate * (size - mean)

    def descend(self, y, part):
        c, point = self.c, self.finalists[1]
        if not self.difference > 0.0:
            return
        slope = 1.0 if point >= y else -1.0
        if self.squared and self.last_widths[1] > 0.0:
            slope *= min(abs(point - y) / self.last_widths[1], c.FAR)
        step = c.STEP * part * slope / self.difference
        moved = np.clip(step * (self.predicted - point), -0.5, 0.5)
        self.descended = self.share(self.descended, 1.0 - moved, c.SPREAD)

    def regress(self, y, weight):
        c, unit = self.c, self.last_widths[0]
        v, left = self.predicted - self.finalists[0], y - self.finalists[0]
        if unit > 0.0:
            left = min(max(left, -c.FAR * unit), c.FAR * unit)
        for r in range(2):
            by, kept = weight, c.KEPT
            if r == 1 and self.squared:
                kept = c.LONG_KEPT
            elif r == 1 and unit > 0.0:
                by = weight / max(abs(y - self.finalists[3]) / unit, c.LEAST_ERROR)
            self.grams[r] = kept * self.grams[r] + by * np.outer(v, v)
            self.moments[r] = kept * self.moments[r] + by * left * v
        if self.samples >= self.next:
            self.next = self.samples + c.SOLVED_AFTER
            for r in range(2):
                mean = np.trace(self.grams[r]) / self.n
                if mean > 0.0:
                    ridge = c.PRIOR * (1.0 - c.KEPT) + 1e-9
                    A = self.grams[r] / mean + ridge * np.eye(self.n)
                    self.solutions[r] = np.linalg.solve(A, self.moments[r] / mean)


class Law:
    """A fixed share over error distributions with several sizes, factors and degrees of freedom."""

    def __init__(self, constants):
        self.c = constants
        self.samples, self.largest = 0, 1.0
        self.long = self.short = self.disagreement = self.move = self.before = 0.0
        self.gram, self.moments = np.zeros((4, 4)), np.zeros(4)
        self.line = np.zeros(4)
        # The mean absolute value of each distribution.
        self.means = {
            v: 2.0 * (stats.norm() if math.isinf(v) else stats.t(v)).expect(lambda x: x, lb=0.0)
            for v in constants.FREEDOMS
        }
        n = constants.N_COMPONENTS
        self.weights = np.full(n, 1.0 / n)

    def bounded(self, log):
        return min(max(log, self.c.SMALLEST), self.c.LARGEST)

    def log_ratio(self, a, b):
        return self.bounded(math.log(a / b)) if a > 0.0 and b > 0.0 else 0.0

    def guess(self, point, spread, size):
        of_short = self.log_ratio(self.short, self.long)
        of_spread = self.log_ratio(spread, self.disagreement)
        self.terms = np.array([1.0, of_short, of_spread, self.bounded(size)])
        found = [self.long, self.long * math.exp(self.bounded(self.line @ self.terms))]
        least = max(self.c.LEAST_WIDTH * self.move, self.c.LEAST_PART * abs(point), 1e-300)
        return [max(g, least) if self.samples else 1.0 for g in found]

    def faded(self, mean, size, n):
        if self.samples >= 8 and mean > 0.0:
            size = min(size, 10.0 * mean)
        return mean + (size - mean) / min(1.0 + self.samples, n)

    def learn(self, point, spread, size, y, weight=1.0):
        c = self.c
        guesses = self.guess(point, spread, size)
        error = y - point
        self.largest = max(weight, 1.0, (1.0 - FADING) * self.largest)
        part, found = weight / self.largest, 0.0
        if self.samples:
            self.move = self.faded(self.move, abs(y - self.before), c.N_LONG)
        self.before = y
        if self.long > 0.0:
            found = self.log_ratio(abs(error), self.long) if error else c.SMALLEST
            kinds = itertools.product(guesses, c.FACTORS, c.FREEDOMS)
            scales = [(self.means[v] / (g * f), v) for g, f, v in kinds]
            self.densities = np.array([density(error * s, v) * s for s, v in scales])
            powers = self.densities ** (0.5 * part)
            self.weights = Mixture.share(self.weights, powers, c.SHARE_RATE * part)
            self.gram = c.KEPT * self.gram + part * np.outer(self.terms, self.terms)
            self.moments = c.KEPT * self.moments + part * found * self.terms
            penalties = np.diag([0.1, *[c.PRIOR] * 3])
            self.line = np.linalg.solve(self.gram + penalties, self.moments)
        self.long = self.faded(self.long, abs(error), c.N_LONG)
        self.short = self.faded(self.short, abs(error), c.N_SHORT)
        self.long = min(self.long, c.LONGEST * self.short)
        self.disagreement += (spread - self.disagreement) / min(1.0 + self.samples, c.N_LONG)
        self.samples += 1
        return found
