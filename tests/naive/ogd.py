"""Online gradient descent on a feature map (Ting, Wells and Washio, 2021, Algorithm 2).

The extensions are AdaGrad (Duchi, Hazan and Singer, 2011) and several classes. From the third class
on, each class has a score. A sample is a mapping from columns to values.
"""

import math
from collections import defaultdict

import numpy as np
from scipy import special


def sign(y):
    return 1.0 if y > 0.5 else -1.0


LOSSES = {
    "hinge": lambda y, f: -sign(y) if sign(y) * f <= 1.0 else 0.0,
    "log": lambda y, f: -sign(y) / (1.0 + math.exp(sign(y) * f)),
    "squared": lambda y, f: 2.0 * (f - y),
    "epsilon_insensitive": lambda y, f: 0.0 if abs(f - y) <= 0.1 else math.copysign(1.0, f - y),
    "huber": lambda y, f: min(max(f - y, -0.1), 0.1),
}


class OGD:
    """A model with one score, or one score per class.

    Parameters
    ----------
    loss
        The name of the loss.
    rate
        The learning rate as a function of the number of steps.
    adagrad
        Whether steps are divided by the root of the sum of all squared derivatives.
    softmax
        Whether several classes use the softmax cross-entropy, not one loss per class.

    """

    def __init__(self, loss, rate, adagrad, softmax=False):
        self.loss = LOSSES[loss]
        self.rate = rate
        self.adagrad = adagrad
        self.softmax = softmax
        self.weights = [defaultdict(float)]
        self.squares = [defaultdict(float)]
        self.n_steps = 0

    def add_class(self):
        """Add a class; the third class splits the single score in two."""
        if len(self.weights) == 1:
            share = 0.5 if self.softmax else 1.0
            single, squares = self.weights[0], self.squares[0]
            self.weights = [
                defaultdict(float, {c: s * share * v for c, v in single.items()})
                for s in (-1.0, 1.0)
            ]
            self.squares = [defaultdict(float, squares) for _ in range(2)]
        self.weights.append(defaultdict(float))
        self.squares.append(defaultdict(float))

    def scores(self, x):
        return [sum(weights[c] * v for c, v in x.items()) for weights in self.weights]

    def slopes(self, x, y):
        """Return the derivative of the loss with respect to each score."""
        scores = self.scores(x)
        if len(scores) == 1:
            return [self.loss(y, scores[0])]
        if self.softmax:
            return special.softmax(scores) - (np.arange(len(scores)) == y)
        return [self.loss(float(k == y), f) for k, f in enumerate(scores)]

    def learn(self, x, y, w=1.0):
        """Learn a target, or the index of a class."""
        slopes = self.slopes(x, y)
        for weights, squares, slope in zip(self.weights, self.squares, slopes, strict=True):
            for column, value in x.items():
                derivative = w * slope * value
                divisor = 1.0
                if self.adagrad:
                    squares[column] += derivative**2
                    divisor = math.sqrt(squares[column] + 1e-8)
                weights[column] -= self.rate(self.n_steps) / divisor * derivative
        self.n_steps += 1


class TextOGD(OGD):
    """OGD on words and cells, with one step size per word or column for all scores.

    Words learn from the loss of the words' score, and cells from the loss of the total score.
    AdaGrad divides a step by the root of the sum of squared norms of the derivatives with respect
    to all scores. With AdaGrad, the rate of words is the rate of columns times log2 of the number
    of classes.
    """

    def __init__(self, loss, rate, adagrad, softmax=False):
        super().__init__(loss, rate, adagrad, softmax)
        self.lengths = defaultdict(float)
        # Number of learned texts with each word.
        self.n_with = defaultdict(int)

    def weighed(self, text):
        """Return the weights of words: roots of counts times idf, normalized to length 1."""
        found = {
            word: math.copysign(math.sqrt(abs(value)), value)
            * (math.log((1 + self.n_steps) / (1 + self.n_with[word])) + 1.0)
            for word, value in text.items()
            if value
        }
        length = math.sqrt(sum(value**2 for value in found.values()))
        return {word: value / length for word, value in found.items()}

    def learn_text(self, cells, text, y, w=1.0):
        """Learn the index of a class; cells and words must have different names."""
        words = self.weighed(text)
        parts = [(words, self.slopes(words, y)), (cells, self.slopes({**cells, **words}, y))]
        rates = [self.rate(self.n_steps)] * 2
        if self.adagrad:
            rates[0] *= math.log2(max(2, len(self.weights)))
        for (inputs, found), rate in zip(parts, rates, strict=True):
            slopes = [w * slope for slope in found]
            for name, value in inputs.items():
                divisor = 1.0
                if self.adagrad:
                    self.lengths[name] += sum((value * slope) ** 2 for slope in slopes)
                    divisor = math.sqrt(self.lengths[name] + 1e-8)
                for weights, slope in zip(self.weights, slopes, strict=True):
                    weights[name] -= rate / divisor * value * slope
        for word in words:
            self.n_with[word] += 1
        self.n_steps += 1


def order_of_learning(n, pool_size, replay):
    """Return the order in which the weights of the last map learn samples 0 to n - 1.

    The map exists from sample `pool_size` - 1 on. Each later call learns its sample, unless the
    sample is stored, and replays some stored samples.
    """
    order = list(range(min(replay, pool_size)))
    left = list(range(min(replay, pool_size), pool_size))
    for i in range(pool_size, n):
        order += [i, *left[:replay]]
        left = left[replay:]
    return order
