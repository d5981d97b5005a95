"""Linear discriminants, learned online: what a few lines say of the class of a sample.

Two softmax regressions of standardized inputs, trained by gradient descent whose steps shrink with
the sum of the gradients' squares (AdaGrad, Duchi, Hazan and Singer 2011, with one sum for all
weights), one with small steps and one with large ones; and naive Bayes with normal inputs whose
variances all classes share, which is linear, too. They take raw inputs, find out their means and
variances themselves, and leave out what is missing.
"""

from __future__ import annotations

import math

import numpy as np

from .experts import normalize, place
from .memory import f64, inlined, kernel, put_f64

# Rows of a state, shape (HEAD_ROWS + CLASS_ROWS * classes, 1 + inputs). The first column of a row
# is of the samples, or of the intercept. Of the inputs: the number of values, their mean, the sums
# of squared deviations from it and from the mean of the own class, of those before each. Then a
# row with the squared gradients of both regressions; then of each class the weights of either
# regression, the number of values, and their mean.
N = 0
MEAN = 1
SQUARES = 2
WITHIN = 3
GRADIENTS = 4
HEAD_ROWS = 5
WEIGHTS = 0
CLASS_N = 2
CLASS_MEAN = 3
CLASS_ROWS = 4
N_REGRESSIONS = 2
N_DISCRIMINANTS = N_REGRESSIONS + 1

# Size of the steps of either regression.
RATES = (0.1, 0.8)
# Largest standardized value, and largest squared distance from a class's mean in one input.
LARGEST = 3.0
FARTHEST = 100.0
# Least variance within classes, as a part of an input's own.
LEAST_WITHIN = 0.01
# Pseudo-count of a class.
PRIOR = 0.5
# Sum of squares above which an input counts as one that varies.
VARIES = 1e-280


def new_state(n_classes: int, n_inputs: int) -> np.ndarray:
    """Return the state of discriminants that have seen nothing."""
    return np.zeros((HEAD_ROWS + CLASS_ROWS * n_classes, 1 + n_inputs))


@inlined
def of_class(state: int, columns: int, k: int, row: int) -> int:
    """Return the address of a class's row."""
    return place(state, columns, HEAD_ROWS + CLASS_ROWS * k + row)


@kernel
def predict(
    n_classes: int,
    width: int,
    n_inputs: int,
    columns: int,
    state: int,
    values: int,
    z: int,
    said: int,
) -> None:
    """Predict a sample's class into `said`, a row of `width` for each of the discriminants.

    `values` are raw; `z`, two rows of `columns`, gets them standardized, 0 where missing, and by
    how much to multiply their squared distances from classes' means. A state has so many columns.
    All are addresses of float64.
    """
    inverse = place(z, columns, 1)
    put_f64(z, 0, 1.0)
    for i in range(1, n_inputs + 1):
        value = f64(values, i - 1)
        n, squares = f64(place(state, columns, N), i), f64(place(state, columns, SQUARES), i)
        deviation = value - f64(place(state, columns, MEAN), i)
        known = squares > VARIES and value == value
        within = max(f64(place(state, columns, WITHIN), i), LEAST_WITHIN * squares)
        put_f64(inverse, i, n / within if known else 0.0)
        deviation = deviation * math.sqrt(n / squares) if known else 0.0
        put_f64(z, i, min(max(deviation, -LARGEST), LARGEST))
    slow, fast, bayes = said, place(said, width, 1), place(said, width, 2)
    total = f64(place(state, columns, N), 0) + PRIOR * n_classes
    for k in range(n_classes):
        first = of_class(state, columns, k, WEIGHTS)
        second, counts = place(first, columns, 1), of_class(state, columns, k, CLASS_N)
        means = of_class(state, columns, k, CLASS_MEAN)
        at_first, at_second, distance = f64(first, 0), f64(second, 0), 0.0
        for i in range(1, n_inputs + 1):
            at_first += f64(first, i) * f64(z, i)
            at_second += f64(second, i) * f64(z, i)
            mean = f64(means, i) if f64(counts, i) > 0.0 else f64(place(state, columns, MEAN), i)
            deviation = f64(values, i - 1) - mean
            weighed = min(deviation * deviation * f64(inverse, i), FARTHEST)
            distance += weighed if f64(inverse, i) > 0.0 else 0.0
        put_f64(slow, k, at_first)
        put_f64(fast, k, at_second)
        put_f64(bayes, k, math.log((f64(counts, 0) + PRIOR) / total) - 0.5 * distance)
    for e in range(N_DISCRIMINANTS):
        normalize(place(said, width, e), n_classes)


@inlined
def descend(
    r: int,
    n_classes: int,
    n_inputs: int,
    columns: int,
    state: int,
    z: int,
    chances: int,
    label: int,
) -> None:
    """Let the r-th regression learn from a class, to which it gave chances."""
    sizes = 1.0
    for i in range(1, n_inputs + 1):
        sizes += f64(z, i) * f64(z, i)
    errors = 0.0
    for k in range(n_classes):
        error = f64(chances, k) - (1.0 if k == label else 0.0)
        errors += error * error
    gradients = place(state, columns, GRADIENTS)
    # As large as the square of one weight's gradient is on average, over features.
    squares = f64(gradients, r) + errors * sizes / (n_inputs + 1)
    put_f64(gradients, r, squares)
    step = RATES[r] / math.sqrt(1.0 + squares)
    for k in range(n_classes):
        move = step * (f64(chances, k) - (1.0 if k == label else 0.0))
        weights = of_class(state, columns, k, WEIGHTS + r)
        for i in range(n_inputs + 1):
            put_f64(weights, i, f64(weights, i) - move * f64(z, i))


@kernel
def learn(
    n_classes: int,
    width: int,
    n_inputs: int,
    columns: int,
    state: int,
    values: int,
    z: int,
    said: int,
    label: int,
) -> None:
    """Let the discriminants learn the class of the sample predicted last."""
    for r in range(N_REGRESSIONS):
        descend(r, n_classes, n_inputs, columns, state, z, place(said, width, r), label)
    counts = of_class(state, columns, label, CLASS_N)
    means = of_class(state, columns, label, CLASS_MEAN)
    numbers, centres = place(state, columns, N), place(state, columns, MEAN)
    squares, within = place(state, columns, SQUARES), place(state, columns, WITHIN)
    put_f64(counts, 0, f64(counts, 0) + 1.0)
    put_f64(numbers, 0, f64(numbers, 0) + 1.0)
    for i in range(1, n_inputs + 1):
        value = f64(values, i - 1)
        if value != value:
            continue
        n = f64(numbers, i) + 1.0
        centre = f64(centres, i) if n > 1.0 else value
        # A class begins with one value at the mean of all.
        own_n = max(f64(counts, i), 1.0) + 1.0
        own = f64(means, i) if own_n > 2.0 else centre
        moved = own + (value - own) / own_n
        put_f64(within, i, f64(within, i) + (value - own) * (value - moved))
        put_f64(counts, i, own_n)
        put_f64(means, i, moved)
        moved = centre + (value - centre) / n
        put_f64(squares, i, f64(squares, i) + (value - centre) * (value - moved))
        put_f64(numbers, i, n)
        put_f64(centres, i, moved)
