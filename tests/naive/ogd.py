"""Online gradient descent on a feature map, from Ting, Wells and Washio (2021), Algorithm 2.

Extended by AdaGrad (Duchi, Hazan and Singer, 2011) and by several classes, which have one score
each from the third on. A mapped sample is a mapping from column to value.
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
    """One score, or one per class.

    Parameters
    ----------
    loss
        Name of the loss.
    rate
        Learning rate by step.
    adagrad
        Whether steps are divided by the root of the sum of squared derivatives.
    softmax
        Whether several classes share the cross-entropy.

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
        """Make room for a class: the third one splits the single score in two."""
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
        """Return the derivatives of the loss by the scores."""
        scores = self.scores(x)
        if len(scores) == 1:
            return [self.loss(y, scores[0])]
        if self.softmax:
            return special.softmax(scores) - (np.arange(len(scores)) == y)
        return [self.loss(float(k == y), f) for k, f in enumerate(scores)]

    def learn(self, x, y, w=1.0):
        """Learn a target, or a class's number."""
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
    """The same over words and cells, where a word or a column has one step for all scores.

    Words learn by the loss of what they score alone, cells by that of the sum.
    With AdaGrad the root is of the sum of squared lengths of the derivatives by all scores, and
    words' rates are those of columns times log2 of the number of classes.
    """

    def __init__(self, loss, rate, adagrad, softmax=False):
        super().__init__(loss, rate, adagrad, softmax)
        self.lengths = defaultdict(float)
        # Texts learned that have a word.
        self.n_with = defaultdict(int)

    def weighed(self, text):
        """Return the values by which words count: roots, by rarity, of length 1 together."""
        found = {
            word: math.copysign(math.sqrt(abs(value)), value)
            * (math.log((1 + self.n_steps) / (1 + self.n_with[word])) + 1.0)
            for word, value in text.items()
            if value
        }
        length = math.sqrt(sum(value**2 for value in found.values()))
        return {word: value / length for word, value in found.items()}

    def learn_text(self, cells, text, y, w=1.0):
        """Learn a class's number; the names of cells and of words are different ones."""
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
    """Return the order in which the last map's weights learn samples 0 to n - 1.

    The map is there with sample `pool_size` - 1. From then on a call learns its own sample, where
    it is not stored, and replays some that are.
    """
    order = list(range(min(replay, pool_size)))
    left = list(range(min(replay, pool_size), pool_size))
    for i in range(pool_size, n):
        order += [i, *left[:replay]]
        left = left[replay:]
    return order
