"""Algorithm 1 of Ting, Wells and Washio (2021): OGD with support vectors and the hinge loss."""

import math


def distance(x, y, power):
    return math.fsum(abs(x.get(k, 0.0) - y.get(k, 0.0)) ** power for k in {**x, **y})


def laplace(rate):
    return lambda x, y: math.exp(-rate * distance(x, y, 1))


def gaussian(rate):
    return lambda x, y: math.exp(-rate * distance(x, y, 2))


class OneVersusRest:
    """One function per class, from the first sample of the class on.

    The function of the second class starts as minus the function of the first class. With two
    classes, each function equals the function of the algorithm with labels 1 and -1.
    """

    def __init__(self, learning_rate, kernel):
        self.learning_rate, self.kernel = learning_rate, kernel
        self.supports = {}
        self.n_supports = 0

    def decision(self, x):
        known = self.supports.items()
        return {k: math.fsum(a * self.kernel(z, x) for z, a in own) for k, own in known}

    def learn(self, x, y):
        if y not in self.supports:
            mirrored = next(iter(self.supports.values())) if len(self.supports) == 1 else []
            self.supports[y] = [(z, -alpha) for z, alpha in mirrored]
        wrong = False
        for label, value in self.decision(x).items():
            c = 1.0 if label == y else -1.0
            if 1.0 - c * value > 0.0:
                self.supports[label].append((dict(x), self.learning_rate * c))
                wrong = True
        self.n_supports += wrong
