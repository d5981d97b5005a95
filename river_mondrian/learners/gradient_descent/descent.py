"""A learner by gradient descent: its record, losses, scores and steps.

A learner has one score, or one per class. A column's weights for all scores are neighbours in a
slot, followed by their sums of squared derivatives where steps adapt to them (AdaGrad). Columns
that no sample has moved yet have slot 0, which is zero. Those that one sample moves first have the
same weights from then on until another sample moves them: they share a slot, and a column gets one
of its own when it is moved again. So cells with one sample take next to no memory.

On text the features count by themselves, too: each has weights of its own beside the map's columns
(`learning`). Steps adapt to columns and to words then, not to each of their weights.
"""

from __future__ import annotations

import enum
import math

from ...compiling.kernels import exact_inlined
from ...maps.record import Sample
from ...records import Float64, Float64s, Int32s, Int64, Record, Table, derived, prefetch, transient

# Cells whose weights are brought close ahead of their use, and scores from which on that pays.
AHEAD = 4
MANY_SCORES = 4

# Where gradients by score end, so that a diverging regression stays finite for long.
LARGEST_GRADIENT = 1e12


class Slot(Record):
    """The weights of a column, or of several: a row of a table, whose width its learner knows."""

    def weights(self, learner: GradientDescent) -> Float64s:
        """Return the weight for each score."""
        return Float64s(self, 0, learner.n_scores)

    def squares(self, learner: GradientDescent) -> Float64s:
        """Return the sum of squared derivatives by each weight, where steps adapt to them."""
        return Float64s(self, 2 * learner.n_scores, learner.n_scores)

    def numbers(self, learner: GradientDescent) -> Float64s:
        """Return all numbers of the row."""
        return Float64s(self, 0, learner.n_scores * (1 + learner.is_adaptive))


class GradientDescent(Record):
    """A learner on one feature map."""

    # Samples learned so far, of which the learning rate may be a function.
    n_steps: Int64 = derived()
    # The slots; `n_rows` of them are in use.
    weights: Table[Slot]
    # By column of the map: its slot, or ~slot where it shares that with other columns.
    slots: Int32s
    # Columns of the map that there is room for.
    n_columns: Int64 = derived()
    # One, or one per class.
    n_scores: Int64

    # Whether steps adapt to the sums of squared derivatives by each weight, which are in its slot,
    # or to those by all weights of a column, and what is added to these.
    is_adaptive: Int64 = derived()
    is_adaptive_by_column: Int64 = derived()
    eps: Float64 = derived()
    # The loss (`Loss`) and its parameters.
    loss: Int64 = derived()
    # Of the hinge loss the product of sign and score up to which there is one; of others of
    # targets, the error from which on they grow, or grow linearly.
    margin: Float64 = derived()
    # Of the log loss: weights of the two classes.
    positive_weight: Float64 = derived()
    negative_weight: Float64 = derived()

    # Whether features count by themselves: words. Those that there is room for.
    has_words: Int64 = derived()
    n_words: Int64 = derived()
    # By word: its slot, like `slots`; what its weights are in units of its slot's; where steps
    # adapt, the sum of squared derivatives by them; and the texts learned that have it.
    word_slots: Int32s
    word_factors: Float64s
    word_squares: Float64s
    word_counts: Float64s
    # The same sums by column of the map.
    column_squares: Float64s
    # What the learning rate of words is multiplied by.
    rate_of_words: Float64 = derived()
    # The sample whose words are scored or learned, and the values by which they count.
    sample: Sample = transient()
    word_values: Float64s = transient()

    # Learners in the same table, one for each lifetime of the map.
    n_lifetimes: Int64 = derived()
    # Their shares of the prediction, which add up to 1.
    shares: Float64s
    # Mean of the losses by which they are compared, and the number of samples it is over.
    mean_loss: Float64
    n_losses: Float64

    # Scores of the last sample, and the derivatives of its loss by them.
    scores: Float64s = transient()
    gradients: Float64s = transient()
    # Loss of each lifetime.
    losses: Float64s = transient()
    # Room for a number per score.
    mixed: Float64s = transient()
    # Of the sample that is being learned: its target, its weight and the learning rate.
    target: Float64 = transient()
    weight: Float64 = transient()
    rate: Float64 = transient()

    def slot(self, column: int) -> Slot:
        """Return the slot of a column."""
        number = self.slots[column]
        return self.weights.row(number if number >= 0 else ~number)


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
        return 0.0 if math.fabs(error) <= margin else 1.0 if error > 0.0 else -1.0
    return min(max(error, -margin), margin)


@exact_inlined
def exponentiate(scores: Float64s, n: int, powers: Float64s) -> float:
    """Write exp(score) of `n` scores, up to a common factor; returns their sum."""
    largest, total = scores[0], 0.0
    for k in range(1, n):
        largest = max(largest, scores[k])
    for k in range(n):
        powers[k] = math.exp(scores[k] - largest)
        total += powers[k]
    return total


@exact_inlined
def differentiate(learner: GradientDescent) -> None:
    """Write the gradients by the scores; with several scores the target is the class's number."""
    scores, gradients, n_scores = learner.scores, learner.gradients, learner.n_scores
    target, weight = learner.target, learner.weight
    if n_scores == 1:
        gradients[0] = weight * derivative(learner, scores[0], target)
    elif learner.loss == Loss.SOFTMAX:
        total = exponentiate(scores, n_scores, gradients)
        for k in range(n_scores):
            gradients[k] = weight * (gradients[k] / total - (1.0 if k == target else 0.0))
    else:
        for k in range(n_scores):
            own = 1.0 if k == target else 0.0
            gradients[k] = weight * derivative(learner, scores[k], own)


@exact_inlined
def compared_loss(learner: GradientDescent) -> float:
    """Return the loss of the scores by which lifetimes are compared; mistakes are 1 over classes.

    With several scores the target is the class's number. It is a mistake where another class has
    the largest score, or one as large.
    """
    loss, margin, score, target = learner.loss, learner.margin, learner.scores[0], learner.target
    if learner.n_scores > 1:
        own = int(target)
        for c in range(learner.n_scores):
            if c != own and learner.scores[c] >= learner.scores[own]:
                return 1.0
        return 0.0
    if loss == Loss.HINGE or loss == Loss.LOG:
        return 1.0 if (2.0 * target - 1.0) * score <= 0.0 else 0.0
    error = math.fabs(score - target)
    if loss == Loss.SQUARED:
        return error * error
    if loss == Loss.EPSILON_INSENSITIVE:
        return max(0.0, error - margin)
    return 0.5 * error * error if error <= margin else margin * (error - 0.5 * margin)


# The scores of a mapped sample: f(x) = <w, Phi(x)> (Ting et al. 2021, Algorithm 2, line 3).


@exact_inlined
def score_values(learner: GradientDescent, values: Float64s, n: int) -> None:
    """Write the scores of a sample with the values of `n` columns."""
    scores, n_scores = learner.scores, learner.n_scores
    for k in range(n_scores):
        scores[k] = 0.0
    for i in range(n):
        value, weights = values[i], learner.slot(i).weights(learner)
        for k in range(n_scores):
            scores[k] += value * weights[k]


@exact_inlined
def score_cells(learner: GradientDescent, value: float, cells: Int32s, n: int) -> None:
    """Write the scores of a sample in `n` cells, whose columns have one value."""
    scores, slots, n_scores = learner.scores, learner.slots, learner.n_scores
    for k in range(n_scores):
        scores[k] = 0.0
    for i in range(n):
        if n_scores >= MANY_SCORES and i + AHEAD < n:
            # A number takes two words.
            prefetch(learner.slot(cells[i + AHEAD]), 2 * n_scores)
        if slots[cells[i]] == 0:
            continue
        weights = learner.slot(cells[i]).weights(learner)
        for k in range(n_scores):
            scores[k] += weights[k]
    for k in range(n_scores):
        scores[k] = value * scores[k]


@exact_inlined
def best_score(learner: GradientDescent) -> int:
    """Return the class with the largest score, the first of several."""
    scores, best = learner.scores, 0
    if learner.n_scores == 1:
        return 1 if scores[0] > 0.0 else 0
    for k in range(1, learner.n_scores):
        if scores[k] > scores[best]:
            best = k
    return best


# A step against the gradients: w = w - rate * gradient * Phi(x) (Ting et al. 2021, Algorithm 2).
#
# It is line 6 there, with alpha c = -rate times the derivative of the loss by f(x).


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
        squares[k] += slope * slope
        # Without an eps the first derivative may be 0 over 0.
        weights[k] -= rate / math.sqrt(squares[k] + eps) * slope if slope != 0.0 else 0.0


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
    squares[i] += square
    total = squares[i] + eps
    # Without an eps a derivative may be so small that its square is 0.
    return rate / math.sqrt(total) if total > 0.0 else 0.0


@exact_inlined
def new_slot(learner: GradientDescent) -> int:
    """Return the number of a slot that was not in use, all of it 0."""
    learner.weights.n_rows += 1
    return learner.weights.n_rows - 1


@exact_inlined
def descend_values(learner: GradientDescent, values: Float64s, n: int) -> None:
    """Move the weights of all `n` columns by the gradients."""
    if not bound_gradients(learner):
        return
    slots = learner.slots
    for i in range(n):
        if slots[i] == 0:
            slots[i] = new_slot(learner)
        step(learner, learner.weights.row(slots[i]), values[i], learner.rate)


@exact_inlined
def descend_cells(learner: GradientDescent, value: float, cells: Int32s, n: int) -> None:
    """Move the weights of the columns of `n` cells by the gradients."""
    if not bound_gradients(learner):
        return
    slots, eps, by_column = learner.slots, learner.eps, learner.is_adaptive_by_column != 0
    rate = learner.rate
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
                source = learner.weights.row(~slot).numbers(learner)
                target = learner.weights.row(new).numbers(learner)
                for k in range(learner.n_scores * (1 + learner.is_adaptive)):
                    target[k] = source[k]
                slots[column] = new
            else:
                shared, last, n_shared = new, column, 1
                slots[column] = ~new
            slot = new
        step(learner, learner.weights.row(slot), value, own_rate)
    if n_shared == 1:
        slots[last] = shared
