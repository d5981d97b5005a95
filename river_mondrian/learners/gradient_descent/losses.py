"""Losses of scores, and their derivatives by them."""

from __future__ import annotations

import enum
import math

from ...compiling.kernels import exact_inlined
from ...records import Float64s
from .record import GradientDescent


class Loss(enum.IntEnum):
    """A loss that kernels know."""

    # Of one score of two classes, with a target of 0 or 1.
    HINGE = 0
    LOG = 1
    # Of a number.
    SQUARED = 2
    EPSILON_INSENSITIVE = 3
    HUBER = 4
    # Of all classes' scores together: the cross-entropy.
    SOFTMAX = 5
    # One that kernels do not know: Python writes the derivatives.
    FOREIGN = 6


@exact_inlined
def derivative(learner: GradientDescent, score: float, target: float) -> float:
    """Return the derivative of the loss by a score."""
    loss, margin = learner.loss, learner.margin
    if loss == Loss.HINGE:
        sign = 2.0 * target - 1.0
        return -sign if sign * score <= margin else 0.0
    if loss == Loss.LOG:
        sign = 2.0 * target - 1.0
        weight = learner.positive_weight if target > 0.5 else learner.negative_weight
        product = sign * score
        if product > 0.0:
            # The form below would overflow.
            small = math.exp(-product)
            return -sign * weight * small / (1.0 + small)
        return -sign * weight / (1.0 + math.exp(product))
    error = score - target
    if loss == Loss.SQUARED:
        return 2.0 * error
    if loss == Loss.EPSILON_INSENSITIVE:
        if math.fabs(error) <= margin:
            return 0.0
        return 1.0 if error > 0.0 else -1.0
    return min(max(error, -margin), margin)


@exact_inlined
def exponentiate(scores: Float64s, n: int, powers: Float64s) -> float:
    """Write exp(score) of `n` scores, up to a common factor; returns their sum."""
    largest, total = scores[0], 0.0
    for k in range(1, n):
        largest = max(largest, scores[k])
    for k in range(n):
        power = math.exp(scores[k] - largest)
        powers[k] = power
        total += power
    return total


@exact_inlined
def differentiate(learner: GradientDescent, target: float, weight: float) -> None:
    """Write the gradients by the scores; with several scores the target is the class's number."""
    scores, gradients, n_scores = learner.scores, learner.gradients, learner.n_scores
    if n_scores == 1:
        gradients[0] = weight * derivative(learner, scores[0], target)
    elif learner.loss == Loss.SOFTMAX:
        total = exponentiate(scores, n_scores, gradients)
        for k in range(n_scores):
            own = 1.0 if k == target else 0.0
            gradients[k] = weight * (gradients[k] / total - own)
    else:
        for k in range(n_scores):
            own = 1.0 if k == target else 0.0
            gradients[k] = weight * derivative(learner, scores[k], own)


@exact_inlined
def mistakes(scores: Float64s, n: int, target: float) -> float:
    """Return 1.0 where another class has the largest score, or one as large, else 0.0."""
    own = scores[0]
    for c in range(n):
        if c == target:
            own = scores[c]
    for c in range(n):
        if c != target and scores[c] >= own:
            return 1.0
    return 0.0


@exact_inlined
def compared_loss(learner: GradientDescent, target: float) -> float:
    """Return the loss of the scores by which lifetimes are compared; mistakes are 1 over classes.

    With several scores the target is the class's number.
    """
    loss, margin, score = learner.loss, learner.margin, learner.scores[0]
    if learner.n_scores > 1:
        return mistakes(learner.scores, learner.n_scores, target)
    if loss == Loss.HINGE or loss == Loss.LOG:
        return 1.0 if (2.0 * target - 1.0) * score <= 0.0 else 0.0
    error = math.fabs(score - target)
    if loss == Loss.SQUARED:
        return error * error
    if loss == Loss.EPSILON_INSENSITIVE:
        return max(0.0, error - margin)
    return 0.5 * error * error if error <= margin else margin * (error - 0.5 * margin)
