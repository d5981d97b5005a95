"""A step against the gradients: w = w - rate * gradient * Phi(x) (Ting et al. 2021, Algorithm 2).

It is line 6 there, with alpha c = -rate times the derivative of the loss by f(x).
"""

from __future__ import annotations

import math

from ...compiling.kernels import exact_inlined
from ...records import Float64s, Int32s
from .record import GradientDescent, Slot

# Where gradients by score end, so that a diverging regression stays finite for long.
LARGEST_GRADIENT = 1e12


@exact_inlined
def bound_gradients(learner: GradientDescent) -> bool:
    """Bound the gradients by the scores; False where all are 0 (line 4 of Algorithm 2)."""
    gradients, moves = learner.gradients, False
    for k in range(learner.n_scores):
        slope = min(max(gradients[k], -LARGEST_GRADIENT), LARGEST_GRADIENT)
        gradients[k] = slope
        moves = moves or slope != 0.0
    return moves


@exact_inlined
def step(learner: GradientDescent, slot: Slot, value: float, rate: float) -> None:
    """Move a column's weights against their derivatives, `value` times the gradients.

    Where steps adapt, that is AdaGrad (Duchi, Hazan and Singer 2011).
    """
    gradients, n_scores, eps = learner.gradients, learner.n_scores, learner.eps
    weights = slot.weights(learner)
    if not learner.is_adaptive:
        for k in range(n_scores):
            weights[k] -= rate * (value * gradients[k])
        return
    squares = slot.squares(learner)
    for k in range(n_scores):
        slope = value * gradients[k]
        total = squares[k] + slope * slope
        squares[k] = total
        # Without an eps the first derivative may be 0 over 0.
        move = rate / math.sqrt(total + eps) * slope if slope != 0.0 else 0.0
        weights[k] -= move


@exact_inlined
def squared_gradients(learner: GradientDescent) -> float:
    """Return the sum of the squared gradients by the scores."""
    gradients, total = learner.gradients, 0.0
    for k in range(learner.n_scores):
        total += gradients[k] * gradients[k]
    return total


@exact_inlined
def adapted_rate(squares: Float64s, i: int, square: float, eps: float, rate: float) -> float:
    """Add the square of a derivative by all weights of a column; returns the rate of its step.

    That is AdaGrad for groups of weights, whose derivatives count by their length.
    """
    total = squares[i] + square
    squares[i] = total
    # Without an eps a derivative may be so small that its square is 0.
    return rate / math.sqrt(total + eps) if total + eps > 0.0 else 0.0


@exact_inlined
def new_slot(learner: GradientDescent) -> int:
    """Return the number of a slot that was not in use, all of it 0."""
    number = learner.weights.n_rows
    learner.weights.n_rows = number + 1
    return number


@exact_inlined
def copy_slot(learner: GradientDescent, old: int, new: int) -> None:
    """Copy the numbers of a slot to another."""
    source = learner.weights.row(old).numbers(learner)
    target = learner.weights.row(new).numbers(learner)
    for k in range(learner.n_scores * (1 + learner.is_adaptive)):
        target[k] = source[k]


@exact_inlined
def descend_values(learner: GradientDescent, values: Float64s, n: int, rate: float) -> None:
    """Move the weights of all `n` columns by the gradients."""
    if not bound_gradients(learner):
        return
    slots = learner.slots
    for i in range(n):
        if slots[i] == 0:
            slots[i] = new_slot(learner)
        step(learner, learner.weights.row(slots[i]), values[i], rate)


@exact_inlined
def descend_cells(
    learner: GradientDescent, value: float, cells: Int32s, n: int, rate: float
) -> None:
    """Move the weights of the columns of `n` cells by the gradients."""
    if not bound_gradients(learner):
        return
    slots, eps, by_column = learner.slots, learner.eps, learner.is_adaptive_by_column != 0
    square = value * value * squared_gradients(learner) if by_column else 0.0
    # The slot of the columns that this sample is the first to move, the last of them, their number.
    shared, last, n_shared = 0, 0, 0
    for i in range(n):
        column = cells[i]
        slot, own_rate = slots[column], rate
        if by_column:
            own_rate = adapted_rate(learner.column_squares, column, square, eps, rate)
        if slot == 0 and shared != 0:
            slots[column] = ~shared
            n_shared += 1
            continue
        if slot <= 0:
            new = new_slot(learner)
            if slot < 0:
                copy_slot(learner, ~slot, new)
                slots[column] = new
            else:
                shared, last, n_shared = new, column, 1
                slots[column] = ~new
            slot = new
        step(learner, learner.weights.row(slot), value, own_rate)
    if n_shared == 1:
        slots[last] = shared
