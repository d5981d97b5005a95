"""Ridge regressions, mixtures and laws of a target, by plain loops and dense algebra."""

import math

import numpy as np
from scipy import stats

ITSELF, BEND = -1, -2


def wave(turns):
    """Return two parabolas in the place of a sinus; NaN of NaN."""
    if turns != turns:
        return turns
    place = turns - math.floor(turns + 0.5)
    return 8.0 * place * (1.0 - 2.0 * abs(place))


def column_values(design, x, largest, n_arms):
    """Return the columns of one sample, by what the design says of each."""
    units = [
        min(max((v - c) * r, -largest), largest) if v == v else math.nan
        for v, c, r in zip(x, design["centres"], design["rates"], strict=False)
    ]
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
    """Return the weights that minimize squared errors plus penalized squares about a prior."""
    gram = (F * weights[:, None]).T @ F + np.diag(penalties)
    return np.linalg.solve(gram, F.T @ (weights * targets) + penalties * prior)


def explained(h, z, errors):
    """Return by how much a column reduces the squared errors of a line in `z` and a constant."""
    bases = [np.ones(len(h))] + ([z] if z is not None else [])

    def left(columns, y):
        A = np.stack(columns, axis=1)
        return y - A @ np.linalg.lstsq(A, y, rcond=None)[0]

    own = left(bases, h)
    return (own @ errors) ** 2 / (own @ own)


def density(z, freedom):
    """Return the density of Student's law; of infinite freedom, of the normal one."""
    return stats.norm.pdf(z) if math.isinf(freedom) else stats.t.pdf(z, freedom)


class Mixture:
    """Four ways to mix experts, and a share over them; the constants are those of the module."""

    def __init__(self, n, constants, squared=False):
        self.n, self.c, self.squared = n, constants, squared
        self.shared, self.descended = ([1.0 / n] * n for _ in range(2))
        self.last = [0.25] * 4
        self.widths, self.last_widths = [0.0] * n, [0.0] * 4
        self.grams = [np.zeros((n, n)) for _ in range(2)]
        self.moments = [np.zeros(n) for _ in range(2)]
        self.solutions = [np.zeros(n) for _ in range(2)]
        self.next, self.samples = 0, 0
        self.move, self.difference, self.before, self.largest = 0.0, 0.0, 0.0, 1.0

    def predict(self, predicted):
        p = self.predicted = np.array(predicted)
        q = float(np.dot(self.shared, p))
        self.finalists = [q, float(np.dot(self.descended, p))]
        beyond = 0.25 * (p.max() - p.min())
        for solution in self.solutions:
            found = q + float(solution @ (p - q))
            self.finalists.append(min(max(found, p.min() - beyond), p.max() + beyond))
        point = float(np.dot(self.last, self.finalists))
        self.spread = float(np.dot(self.descended, np.abs(p - point)))
        return point

    def densities(self, points, y, widths):
        least = self.c.LEAST_WIDTH * self.move
        scales = [max(w, least) for w in widths]
        return [stats.t.pdf((y - p) / s, 3) / s for p, s in zip(points, scales, strict=True)]

    @staticmethod
    def share(weights, densities, rate):
        mixed = [w * d for w, d in zip(weights, densities, strict=True)]
        total = math.fsum(mixed)
        return [(1.0 - rate) * m / total + rate / len(mixed) for m in mixed]

    def learn(self, y, weight=1.0):
        c = self.c
        self.largest = max(weight, 1.0, (1.0 - c.FADING) * self.largest)
        part = weight / self.largest
        late = 1.0 / min(1.0 + self.samples, c.N_OF_LATE)
        if self.samples:
            self.move = self.faded(self.move, abs(y - self.before), late)
        self.before = y
        self.difference += late * (self.spread - self.difference)
        if self.samples and self.move > 0.0:
            d = [v**part for v in self.densities(self.predicted, y, self.widths)]
            self.shared = self.share(self.shared, d, c.SHARE_RATE * part)
            if self.squared:
                least = c.LEAST_WIDTH * self.move
                unit = min(max(w, least) for w in self.last_widths)
                e2 = [((y - f) / unit) ** 2 for f in self.finalists]
                d = [math.exp(-c.RATE_OF_SQUARES * min(e - min(e2), c.MOST_SQUARES)) for e in e2]
            else:
                d = self.densities(self.finalists, y, self.last_widths)
            self.last = self.share(self.last, [v**part for v in d], c.LAST_SHARE_RATE * part)
            self.descend(y, part)
            self.regress(y, weight)
        self.widths = self.widened(self.widths, self.predicted, y, late)
        self.last_widths = self.widened(self.last_widths, self.finalists, y, late)
        self.samples += 1

    def widened(self, widths, points, y, late):
        pairs = zip(widths, points, strict=True)
        return [self.faded(width, abs(y - point), late) for width, point in pairs]

    def faded(self, mean, size, rate):
        if self.samples >= self.c.FIRST_ERRORS and mean > 0.0:
            size = min(size, self.c.FAR * mean)
        return mean + rate * (size - mean)

    def descend(self, y, part):
        c, point = self.c, self.finalists[1]
        if not self.difference > 0.0:
            return
        slope = 1.0 if point >= y else -1.0
        if self.squared and self.last_widths[1] > 0.0:
            slope *= min(abs(point - y) / self.last_widths[1], c.FAR)
        step = c.STEP * part * slope / self.difference
        moved = [min(max(step * (p - point), -0.5), 0.5) for p in self.predicted]
        new = [w * (1.0 - m) for w, m in zip(self.descended, moved, strict=True)]
        total = math.fsum(new)
        self.descended = [(1.0 - c.SPREAD) * w / total + c.SPREAD / self.n for w in new]

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
    """A fixed share over guesses of the error's size, factors and degrees of freedom."""

    def __init__(self, constants):
        self.c = constants
        self.samples, self.largest = 0, 1.0
        self.long = self.short = self.disagreement = self.move = self.before = 0.0
        self.gram, self.moments = np.zeros((4, 4)), np.zeros(4)
        self.line = np.zeros(4)
        # Mean absolute values.
        self.means = {
            v: 2.0 * (stats.norm() if math.isinf(v) else stats.t(v)).expect(lambda x: x, lb=0.0)
            for v in constants.FREEDOMS
        }
        n = constants.N_COMPONENTS
        self.weights = np.full(n, 1.0 / n)

    def log_ratio(self, a, b):
        if a <= 0.0 or b <= 0.0:
            return 0.0
        return min(max(math.log(a / b), self.c.SMALLEST), self.c.LARGEST)

    def guess(self, point, spread, size):
        bounded = min(max(size, self.c.SMALLEST), self.c.LARGEST)
        of_short = self.log_ratio(self.short, self.long)
        of_spread = self.log_ratio(spread, self.disagreement)
        self.terms = np.array([1.0, of_short, of_spread, bounded])
        combined = min(max(float(self.line @ self.terms), self.c.SMALLEST), self.c.LARGEST)
        found = [self.long, self.long * math.exp(combined)]
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
        self.largest = max(weight, 1.0, (1.0 - c.FADING) * self.largest)
        part, found = weight / self.largest, 0.0
        if self.samples:
            self.move = self.faded(self.move, abs(y - self.before), c.N_LONG)
        self.before = y
        if self.long > 0.0:
            found = self.log_ratio(abs(error), self.long) if error else c.SMALLEST
            densities = np.array(
                [
                    density(error * self.means[v] / (g * f), v) * self.means[v] / (g * f)
                    for g in guesses
                    for f in c.FACTORS
                    for v in c.FREEDOMS
                ]
            )
            self.densities = densities
            mixed = self.weights * densities ** (0.5 * part)
            rate = c.SHARE_RATE * part
            self.weights = (1.0 - rate) * mixed / mixed.sum() + rate / len(mixed)
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
