"""Linear discriminants, learned online: the class of a sample by lines.

Two softmax regressions of standardized inputs, trained by gradient descent whose steps shrink with
the sum of the gradients' squares (AdaGrad, Duchi, Hazan and Singer 2011, with one sum for all
weights), one with small steps and one with large ones; and naive Bayes with normal inputs whose
variances all classes share, which is linear, too. They take raw inputs, estimate means and
variances themselves, and leave out missing values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import check_array, check_types, refuse
from ..compiling.kernels import inlined, kernel
from ..elementary import normalize_logs
from ..records import Float64, Float64s, Int64, Memory, OwnsArrays, Record, transient

Array = NDArray[np.float64]

# Rows of `Discriminants.predicted`.
SMALL_STEPS = 0
LARGE_STEPS = 1
NAIVE_BAYES = 2
N_DISCRIMINANTS = 3

# Size of the steps of either regression.
SMALL_RATE = 0.1
LARGE_RATE = 0.8
# Largest standardized value, and largest squared distance from a class's mean in one input.
LARGEST = 3.0
FARTHEST = 100.0
# Least variance within classes, as a part of an input's own.
LEAST_WITHIN = 0.01
# Pseudo-count of a class.
PRIOR = 0.5
# Sum of squares above which an input counts as one that varies.
VARIES = 1e-280


class Discriminants(Record):
    """Two softmax regressions and a naive Bayes over standardized inputs.

    A row of an input's numbers is `columns` long: column 0 is of the samples or of the intercept,
    column i of input i - 1. Matrices have such a row for each class.
    """

    # Number of classes and of inputs so far.
    n_classes: Int64
    n_inputs: Int64
    # Length of a row of inputs' numbers, and number of classes for which a row has room.
    columns: Int64
    width: Int64
    # Of each input: the number of its values (of samples in column 0), their mean, the sum of
    # squared deviations from it, and of those from the mean of the own class, which for each
    # value are those of the values before it.
    counts: Float64s
    means: Float64s
    squares: Float64s
    within: Float64s
    # Weights of the regressions with small and with large steps, and the sums of their squared
    # gradients.
    small_weights: Float64s
    large_weights: Float64s
    small_squares: Float64
    large_squares: Float64
    # Of each class: the number of values of each input (of samples in column 0), and their mean.
    class_counts: Float64s
    class_means: Float64s
    # Of the last sample: inputs as standard deviations from their mean, 0 where missing, 1 in
    # column 0; and the inverse of their variance within classes, 0 where missing.
    standardized: Float64s = transient()
    precisions: Float64s = transient()
    # What has been predicted of the last sample: N_DISCRIMINANTS rows of `width` probabilities.
    predicted: Float64s = transient()

    def standardize(self, values: Float64s) -> None:
        """Standardize a sample's inputs."""
        standardized, precisions = self.standardized, self.precisions
        counts, means, all_squares = self.counts, self.means, self.squares
        all_within = self.within
        standardized[0] = 1.0
        for i in range(1, self.n_inputs + 1):
            value = values[i - 1]
            n, squares = counts[i], all_squares[i]
            deviation = value - means[i]
            known = squares > VARIES and value == value
            within = max(all_within[i], LEAST_WITHIN * squares)
            precisions[i] = n / within if known else 0.0
            deviation = deviation * math.sqrt(n / squares) if known else 0.0
            standardized[i] = min(max(deviation, -LARGEST), LARGEST)


@inlined
def score(weights: Float64s, standardized: Float64s, n_inputs: int) -> float:
    """Return the value of a line: the intercept and each input times its weight."""
    found = weights[0]
    for i in range(1, n_inputs + 1):
        found += weights[i] * standardized[i]
    return found


@inlined
def squared_distance(
    discriminants: Discriminants, values: Float64s, counts: Float64s, means: Float64s
) -> float:
    """Return the squared distance from a class in standard deviations within classes.

    An input of which the class has no value has its mean over all classes.
    """
    overall, precisions = discriminants.means, discriminants.precisions
    distance = 0.0
    for i in range(1, discriminants.n_inputs + 1):
        mean = means[i] if counts[i] > 0.0 else overall[i]
        deviation = values[i - 1] - mean
        weighed = min(deviation * deviation * precisions[i], FARTHEST)
        distance += weighed if precisions[i] > 0.0 else 0.0
    return distance


@kernel
def predict(discriminants: Discriminants, values: Float64s) -> None:
    """Predict the class of a sample's raw inputs."""
    discriminants.standardize(values)
    n_classes, n_inputs = discriminants.n_classes, discriminants.n_inputs
    columns, width = discriminants.columns, discriminants.width
    standardized, predicted = discriminants.standardized, discriminants.predicted
    small_weights, large_weights = discriminants.small_weights, discriminants.large_weights
    class_counts, class_means = discriminants.class_counts, discriminants.class_means
    by_small = predicted.part(width * SMALL_STEPS, width)
    by_large = predicted.part(width * LARGE_STEPS, width)
    by_bayes = predicted.part(width * NAIVE_BAYES, width)
    total = discriminants.counts[0] + PRIOR * n_classes
    for k in range(n_classes):
        counts = class_counts.part(columns * k, columns)
        means = class_means.part(columns * k, columns)
        by_small[k] = score(small_weights.part(columns * k, columns), standardized, n_inputs)
        by_large[k] = score(large_weights.part(columns * k, columns), standardized, n_inputs)
        distance = squared_distance(discriminants, values, counts, means)
        # log p(k) + log p(x | k), but for what all classes have in common.
        by_bayes[k] = math.log((counts[0] + PRIOR) / total) - 0.5 * distance
    for e in range(N_DISCRIMINANTS):
        normalize_logs(predicted.part(width * e, width), n_classes)


@inlined
def descend(
    discriminants: Discriminants,
    probabilities: Float64s,
    weights: Float64s,
    squares: float,
    rate: float,
    label: int,
) -> float:
    """Let a regression learn the class of the sample of which it has given these probabilities.

    Returns the sum of its squared gradients, which was `squares` before.
    """
    n_classes, n_inputs = discriminants.n_classes, discriminants.n_inputs
    columns, standardized = discriminants.columns, discriminants.standardized
    sizes = 1.0
    for i in range(1, n_inputs + 1):
        sizes += standardized[i] * standardized[i]
    errors = 0.0
    for k in range(n_classes):
        error = probabilities[k] - (1.0 if k == label else 0.0)
        errors += error * error
    # The gradient of the log loss by weight (k, i) is error_k z_i, so the sum of all squares is the
    # product of both sums; over the number of features it is that of one weight per class.
    squares += errors * sizes / (n_inputs + 1)
    # AdaGrad: rate / sqrt(1 + sum of squares) times the gradient.
    step = rate / math.sqrt(1.0 + squares)
    for k in range(n_classes):
        move = step * (probabilities[k] - (1.0 if k == label else 0.0))
        row = weights.part(columns * k, columns)
        for i in range(n_inputs + 1):
            row[i] = row[i] - move * standardized[i]
    return squares


@inlined
def update_moments(discriminants: Discriminants, values: Float64s, label: int) -> None:
    """Update the means and sums of squares of all inputs and of a class's (Welford 1962)."""
    columns = discriminants.columns
    class_counts = discriminants.class_counts.part(columns * label, columns)
    class_means = discriminants.class_means.part(columns * label, columns)
    counts, means = discriminants.counts, discriminants.means
    squares, all_within = discriminants.squares, discriminants.within
    class_counts[0] = class_counts[0] + 1.0
    counts[0] = counts[0] + 1.0
    for i in range(1, discriminants.n_inputs + 1):
        value = values[i - 1]
        if value != value:
            continue
        n = counts[i] + 1.0
        mean = means[i] if n > 1.0 else value
        # A class begins with one value at the mean of all.
        class_n = max(class_counts[i], 1.0) + 1.0
        class_mean = class_means[i] if class_n > 2.0 else mean
        moved = class_mean + (value - class_mean) / class_n
        all_within[i] = all_within[i] + (value - class_mean) * (value - moved)
        class_counts[i] = class_n
        class_means[i] = moved
        moved = mean + (value - mean) / n
        squares[i] = squares[i] + (value - mean) * (value - moved)
        counts[i] = n
        means[i] = moved


@kernel
def learn(discriminants: Discriminants, values: Float64s, label: int) -> None:
    """Let the discriminants learn the class of the sample predicted last, of these raw inputs."""
    width, predicted = discriminants.width, discriminants.predicted
    discriminants.small_squares = descend(
        discriminants,
        predicted.part(width * SMALL_STEPS, width),
        discriminants.small_weights,
        discriminants.small_squares,
        SMALL_RATE,
        label,
    )
    discriminants.large_squares = descend(
        discriminants,
        predicted.part(width * LARGE_STEPS, width),
        discriminants.large_weights,
        discriminants.large_squares,
        LARGE_RATE,
        label,
    )
    update_moments(discriminants, values, label)


# Arrays of a row, and of a row for each class.
_OF_INPUTS = ("counts", "means", "squares", "within")
_OF_CLASSES = ("small_weights", "large_weights", "class_counts", "class_means")


class LinearDiscriminants(OwnsArrays):
    """The memory of discriminants, which grows with classes and inputs."""

    def __init__(self) -> None:
        self.memory = Memory(Discriminants)
        self.learned: dict[str, Array] = {name: np.zeros((1, 1)) for name in _OF_INPUTS}
        self.learned |= {name: np.zeros((0, 1)) for name in _OF_CLASSES}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        check_types(self, {"memory": Memory, "learned": dict})
        if self.learned.keys() != {*_OF_INPUTS, *_OF_CLASSES}:
            refuse(self, "learned", list(self.learned), "but other arrays were stored")
        for name, array in self.learned.items():
            check_array(self, name, array, np.float64, -math.inf, math.inf)
            if array.ndim != 2 or (name in _OF_INPUTS and len(array) != 1):
                refuse(self, name, array.shape, "which is no shape of it")

    @property
    def record(self) -> Discriminants:
        """The record, for kernels."""
        return self.memory[0]

    def logits(self, values: Array) -> list[tuple[Array, Array]]:
        """Return the logits of the sample predicted last, for each row of `predicted`.

        Parameters
        ----------
        values
            Its raw inputs.

        Returns
        -------
        For each the logits without any input, shape (classes,), and what each input adds, shape
        (inputs, classes).

        """
        n, last = int(self.record.n_classes), slice(1, 1 + len(values))
        standardized, precisions = (
            self.memory.arrays[name][last] for name in ("standardized", "precisions")
        )
        lines = [self.learned[name][:n] for name in ("small_weights", "large_weights")]
        found = [(own[:, 0], own[:, last].T * standardized[:, None]) for own in lines]
        counts, means = (self.learned[name][:n] for name in ("class_counts", "class_means"))
        # As `squared_distance` has it.
        centres = np.where(counts > 0.0, means, self.learned["means"])[:, last].T
        squares = np.minimum((values[:, None] - centres) ** 2 * precisions[:, None], FARTHEST)
        known = (precisions > 0.0)[:, None]
        start = np.log(counts[:, 0] + PRIOR)
        return [*found, (start, -0.5 * np.where(known, squares, 0.0))]

    def reserve(self, width: int, n_inputs: int, predicted: Array) -> None:
        """Make room for so many classes and inputs; what has been learned stays.

        `predicted`, of `width` columns, is where predictions go.
        """
        columns = 1 + n_inputs
        self.record.width, self.record.columns = width, columns
        for name, known in self.learned.items():
            grown = np.zeros((1 if name in _OF_INPUTS else width, columns))
            # Less room is what there was before a change that is undone.
            kept = np.minimum(grown.shape, known.shape)
            grown[: kept[0], : kept[1]] = known[: kept[0], : kept[1]]
            self.learned[name] = grown
            self.memory.own(name, grown.ravel())
        self.memory.own("standardized", np.zeros(columns))
        self.memory.own("precisions", np.zeros(columns))
        self.memory.own("predicted", predicted.ravel())

    @property
    def nbytes(self) -> int:
        """Bytes held, but for the room of predictions."""
        return self.memory.nbytes - self.memory.arrays["predicted"].nbytes
