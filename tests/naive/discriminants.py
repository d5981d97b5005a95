"""Linear discriminants in plain Python: two softmax regressions and naive Bayes on mappings.

A string is a level of a category. Each level is an input of the regressions with the value 1.
"""

import math
from collections import defaultdict

import numpy as np
from scipy import special

RATES = (0.1, 0.8)
LARGEST = 3.0
FARTHEST = 100.0
LEAST_WITHIN = 0.01
PRIOR = 0.5
# The limits are squared distances in variances, a ratio of variances, and a number of values.
FAR = 1000.0
FAR_COUNTS = 30.0
SHRUNK = 5.0
LEAST_LATER = 8


class Moments:
    """Total weight and mean of values, and sum of squared deviations from the mean."""

    def __init__(self):
        self.n, self.mean, self.squares = 0, 0.0, 0.0

    def add(self, value, weight=1.0):
        """Add a value; return the weighted product of its deviations from the old and new mean."""
        if not self.n:
            self.mean = value
        before = value - self.mean
        self.n += weight
        self.mean += (value - self.mean) * weight / self.n
        product = weight * before * (value - self.mean)
        self.squares += product
        return product

    def add_if_near(self, value, weight):
        """Add a value, and return whether it is near.

        A far value counts as a value, but only adds 30 variances to the sum of squares.
        """
        far = self.squares > 0.0 and (value - self.mean) ** 2 > FAR * self.squares / self.n
        if far:
            self.squares += weight * FAR_COUNTS * self.squares / self.n
            self.n += weight
        else:
            self.add(value, weight)
        return not far


def parted(x):
    """Return the numbers and the levels of a mapping."""
    levels = {name: value for name, value in x.items() if isinstance(value, str)}
    return {name: value for name, value in x.items() if name not in levels}, levels


class LinearDiscriminantsRecord:
    """Class probabilities of a mapping, in which missing values have no key."""

    def __init__(self):
        self.features, self.later = {}, {}
        self.weights = [defaultdict(float), defaultdict(float)]
        self.n = 0
        self.follow_drift()

    def standardized(self, x):
        """Return standardized values; a feature that has not varied is left out."""
        x, levels = parted(x)
        found = {None: 1.0} | dict.fromkeys(levels.items(), 1.0)
        for name, value in x.items():
            moments = self.features.get(name)
            if moments is not None and moments.squares > 0.0:
                deviation = (value - moments.mean) / math.sqrt(moments.squares / moments.n)
                found[name] = min(max(deviation, -LARGEST), LARGEST)
        return found

    def predict(self, x, labels):
        """Return three distributions over the labels as rows."""
        z = self.standardized(x)
        lines = ([sum(w[k, i] * v for i, v in z.items()) for k in labels] for w in self.weights)
        scores = [*lines, [self._log_likelihood(x, z, k, len(labels)) for k in labels]]
        return special.softmax(np.reshape(scores, (3, -1)), axis=1)

    def _log_likelihood(self, x, z, k, n_classes):
        found = math.log((self.counts[k] + PRIOR) / (self.n + PRIOR * n_classes))
        x, levels = parted(x)
        for name, level in levels.items():
            if self.levels[name, level] > 0.0:
                # log p(level | class) - log p(level), where the class has one more sample, drawn
                # from all classes.
                share = self.levels[name, level] / self.levels[name]
                of_both = self.levels[name, level, k] + share
                found += math.log(of_both / (self.levels[name, k] + 1.0) / share)
        for name in z:
            if name in x:
                moments = self.features[name]
                within = max(self.within[name], LEAST_WITHIN * moments.squares) / moments.n
                own = self.own.get((k, name), moments)
                found -= 0.5 * min((x[name] - own.mean) ** 2 / within, FARTHEST)
        return found

    def learn(self, x, label, labels, n_features, predicted, weight=1.0):
        """Learn the label of a sample, given the distributions `predicted`."""
        z = self.standardized(x)
        for r, weights in enumerate(self.weights):
            errors = [
                weight * (p - (k == label)) for p, k in zip(predicted[r], labels, strict=True)
            ]
            squares = sum(e**2 for e in errors) * sum(v**2 for v in z.values())
            self.gradients[r] += squares / (n_features + 1)
            step = RATES[r] / math.sqrt(1.0 + self.gradients[r])
            for k, error in zip(labels, errors, strict=True):
                for name, v in z.items():
                    weights[k, name] -= step * error * v
        self.n += weight
        self.counts[label] += weight
        x, levels = parted(x)
        for name, level in levels.items():
            for key in (name, (name, level), (name, label), (name, level, label)):
                self.levels[key] += weight
        for name, value in x.items():
            moments = self.features.setdefault(name, Moments())
            mean = moments.mean if moments.n else value
            if moments.add_if_near(value, weight):
                if (label, name) not in self.own:
                    # The values of a class start with the mean of all classes.
                    self.own[label, name] = Moments()
                    self.own[label, name].add(mean)
                self.within[name] += self.own[label, name].add(value, weight)
            self._look_at_later_half(name, value, weight)

    def follow_drift(self):
        """Reset everything except the regressions' weights and the moments over all classes."""
        self.gradients = [0.0, 0.0]
        # `levels` has the weight of samples by feature, level and class.
        self.counts, self.own, self.levels = defaultdict(float), {}, defaultdict(float)
        squares = {name: moments.squares for name, moments in self.features.items()}
        self.within = defaultdict(float, squares)

    def _look_at_later_half(self, name, value, weight):
        """Keep only the later half of a feature's values if this half varies much less."""
        moments, later = self.features[name], self.later.setdefault(name, Moments())
        later.add_if_near(value, weight)
        if 2 * later.n < moments.n:
            return
        del self.later[name]
        shrunk = SHRUNK * later.squares / later.n < moments.squares / moments.n
        if shrunk and later.squares > 0.0 and later.n >= LEAST_LATER:
            self.features[name], self.within[name] = later, later.squares
            self.own = {key: own for key, own in self.own.items() if key[1] != name}
