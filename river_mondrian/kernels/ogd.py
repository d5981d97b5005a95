"""Online gradient descent on the outputs of a feature map, one call per event.

A learner has one score, or one per class. Its weights lie column by column, so that a cell's
weights for all classes are neighbours, each followed by its sum of squared gradients where steps
adapt to it (AdaGrad).
"""

from __future__ import annotations

import math

from . import maps
from .memory import exact_inlined, exact_kernel, f64, i32, i64, put_f64, put_i64

# Words of a learner's record.
WEIGHTS = 0
N_SCORES = 1
# Numbers per weight: 2 with AdaGrad, else 1.
STRIDE = 2
LOSS = 3
FIRST = 4
SECOND = 5
RATE = 6
EPS = 7
SCORES = 8
GRADIENTS = 9
STEPS = 10
N_WORDS = 11

# Losses; the record's FIRST and SECOND are their parameters.
HINGE = 0
LOG = 1
SQUARED = 2
EPSILON_INSENSITIVE = 3
HUBER = 4
SOFTMAX = 5

# Where gradients by score end, so that a diverging regression stays finite for long.
LARGEST_GRADIENT = 1e12


@exact_inlined
def score(record: int, map_record: int, out: int) -> None:
    """Write the scores of a mapped sample."""
    weights, scores = i64(record, WEIGHTS), i64(record, SCORES)
    n_scores, stride = i64(record, N_SCORES), i64(record, STRIDE)
    n_out, row = i64(map_record, maps.N_OUT), 8 * n_scores * stride
    for k in range(n_scores):
        put_f64(scores, k, 0.0)
    if i64(map_record, maps.DENSE) != 0:
        for i in range(n_out):
            value = f64(out, i)
            for k in range(n_scores):
                put_f64(scores, k, f64(scores, k) + value * f64(weights + i * row, k * stride))
        return
    for i in range(n_out):
        cell = weights + i32(out, i) * row
        for k in range(n_scores):
            put_f64(scores, k, f64(scores, k) + f64(cell, k * stride))
    value = f64(map_record, maps.VALUE)
    for k in range(n_scores):
        put_f64(scores, k, value * f64(scores, k))


@exact_inlined
def gradient(record: int, score: float, target: float) -> float:
    """Return the derivative of the loss by the score."""
    loss, first = i64(record, LOSS), f64(record, FIRST)
    if loss == HINGE:
        sign = 2.0 * target - 1.0
        return -sign if sign * score <= first else 0.0
    if loss == LOG:
        sign = 2.0 * target - 1.0
        weight = first if target > 0.5 else f64(record, SECOND)
        margin = sign * score
        if margin > 0.0:
            small = math.exp(-margin)
            return -sign * weight * small / (1.0 + small)
        return -sign * weight / (1.0 + math.exp(margin))
    gap = score - target
    if loss == SQUARED:
        return 2.0 * gap
    if loss == EPSILON_INSENSITIVE:
        if math.fabs(gap) <= first:
            return 0.0
        return 1.0 if gap > 0.0 else -1.0
    return min(max(gap, -first), first)


@exact_inlined
def differentiate(record: int, target: float, weight: float) -> None:
    """Write the gradients by the scores; with several scores the target is the class's number."""
    scores, gradients = i64(record, SCORES), i64(record, GRADIENTS)
    n_scores = i64(record, N_SCORES)
    if n_scores == 1:
        put_f64(gradients, 0, weight * gradient(record, f64(scores, 0), target))
    elif i64(record, LOSS) == SOFTMAX:
        largest, total = f64(scores, 0), 0.0
        for k in range(1, n_scores):
            largest = max(largest, f64(scores, k))
        for k in range(n_scores):
            power = math.exp(f64(scores, k) - largest)
            put_f64(gradients, k, power)
            total += power
        for k in range(n_scores):
            own = 1.0 if k == target else 0.0
            put_f64(gradients, k, weight * (f64(gradients, k) / total - own))
    else:
        for k in range(n_scores):
            own = 1.0 if k == target else 0.0
            put_f64(gradients, k, weight * gradient(record, f64(scores, k), own))


@exact_inlined
def step(record: int, weight: int, derivative: float, rate: float) -> None:
    """Move a weight against a derivative."""
    if i64(record, STRIDE) == 2:
        squares = f64(weight, 1) + derivative * derivative
        put_f64(weight, 1, squares)
        rate /= math.sqrt(squares + f64(record, EPS))
    put_f64(weight, 0, f64(weight, 0) - rate * derivative)


@exact_inlined
def descend(record: int, map_record: int, out: int, rate: float) -> None:
    """Move the weights of a mapped sample's columns by the gradients."""
    gradients, n_scores = i64(record, GRADIENTS), i64(record, N_SCORES)
    word = 8 * i64(record, STRIDE)
    dense, value = i64(map_record, maps.DENSE) != 0, f64(map_record, maps.VALUE)
    moved = False
    for k in range(n_scores):
        slope = min(max(f64(gradients, k), -LARGEST_GRADIENT), LARGEST_GRADIENT)
        put_f64(gradients, k, slope)
        moved = moved or slope != 0.0
    put_i64(record, STEPS, i64(record, STEPS) + 1)
    if not moved:
        return
    for i in range(i64(map_record, maps.N_OUT)):
        column = i if dense else i32(out, i)
        if dense:
            value = f64(out, i)
        weight = i64(record, WEIGHTS) + word * n_scores * column
        for k in range(n_scores):
            derivative = value * f64(gradients, k)
            if derivative != 0.0:
                step(record, weight, derivative, rate)
            weight += word


@exact_inlined
def best_score(record: int) -> int:
    """Return the class with the largest score, the first of several."""
    scores = i64(record, SCORES)
    if i64(record, N_SCORES) == 1:
        return 1 if f64(scores, 0) > 0.0 else 0
    best = 0
    for k in range(1, i64(record, N_SCORES)):
        if f64(scores, k) > f64(scores, best):
            best = k
    return best


@exact_kernel
def score_one(record: int, map_record: int, x: int, out: int) -> int:
    """Map a sample and write its scores; returns the best class, or ~place of a bad input."""
    bad = maps.map_one(map_record, x, out)
    if bad >= 0:
        return ~bad
    score(record, map_record, out)
    return best_score(record)


@exact_kernel
def learn_one(record: int, map_record: int, x: int, out: int, target: float, weight: float) -> int:
    """Map a sample, predict it, and learn it; returns -1, or the place of a bad input."""
    bad = maps.map_one(map_record, x, out)
    if bad < 0:
        score(record, map_record, out)
        differentiate(record, target, weight)
        descend(record, map_record, out, f64(record, RATE))
    return bad


@exact_kernel
def learn_out(record: int, map_record: int, out: int, target: float, weight: float) -> None:
    """Predict a mapped sample and learn it."""
    score(record, map_record, out)
    differentiate(record, target, weight)
    descend(record, map_record, out, f64(record, RATE))


@exact_kernel
def score_out(record: int, map_record: int, out: int) -> None:
    """Write the scores of a mapped sample."""
    score(record, map_record, out)


@exact_kernel
def update(record: int, map_record: int, out: int) -> None:
    """Learn a mapped sample by the gradients that the record points to."""
    descend(record, map_record, out, f64(record, RATE))


@exact_kernel
def learn_rows(
    record: int, map_record: int, out: int, n: int, targets: int, weights: int, rates: int
) -> None:
    """Learn mapped rows in order, with float64 targets, weights and learning rates."""
    word = 8 if i64(map_record, maps.DENSE) else 4
    for row in range(n):
        score(record, map_record, out)
        differentiate(record, f64(targets, row), f64(weights, row))
        descend(record, map_record, out, f64(rates, row))
        out += word * i64(map_record, maps.N_OUT)


@exact_kernel
def score_rows(record: int, map_record: int, out: int, n: int, scores: int) -> None:
    """Write the scores of mapped rows."""
    word = 8 if i64(map_record, maps.DENSE) else 4
    for _ in range(n):
        score(record, map_record, out)
        for k in range(i64(record, N_SCORES)):
            put_f64(scores, k, f64(i64(record, SCORES), k))
        scores += 8 * i64(record, N_SCORES)
        out += word * i64(map_record, maps.N_OUT)
