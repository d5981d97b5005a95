"""Online gradient descent: the learner's record, losses, scores and steps.

A learner has one score, or one per class. A slot holds the weights of a column of the map: a weight
for each score. With AdaGrad, a slot also holds a sum of squared derivatives for each weight. A
column has slot 0, whose weights are 0, until a sample updates the column. Columns of cells with the
same first sample have equal weights, so they share a slot. When another sample updates a column,
the column gets a separate slot. So cells with a single sample need almost no memory.

For texts, words also have weights (`learning`). In this case, AdaGrad has a sum for each column and
each word, instead of a sum for each weight.
"""

from __future__ import annotations

import enum
import math

from ...compiling.kernels import helper
from ...maps.record import Sample
from ...records import Float64, Float64s, Int32s, Int64, Record, Table, derived, prefetch, transient

# The compiler must not reorder sums, because batches and single samples must have equal results.
ORDERED_SUMS = True

# Weights are prefetched this number of cells in advance, if there are at least MANY_SCORES scores.
AHEAD = 4
MANY_SCORES = 4

# Bound on the derivatives of the loss, which keeps the weights of a diverging regression finite.
LARGEST_GRADIENT = 1e12


class Slot(Record):
    """A row of a table: the weights of one column, or of several columns that share the row."""

    def weights(self, learner: DescentWeightsRecord) -> Float64s:
        """Return the weight for each score."""
        return Float64s(self, 0, learner.n_scores)

    def squares(self, learner: DescentWeightsRecord) -> Float64s:
        """Return the sum of squared derivatives for each weight, for AdaGrad."""
        return Float64s(self, 2 * learner.n_scores, learner.n_scores)

    def numbers(self, learner: DescentWeightsRecord) -> Float64s:
        """Return the weights and, for AdaGrad, the sums of squared derivatives, as one array."""
        return Float64s(self, 0, learner.n_scores * (1 + learner.is_adaptive))


class DescentWeightsRecord(Record):
    """The state of gradient descent on one feature map."""

    # Number of learned samples, which may determine the learning rate.
    n_steps: Int64 = derived()
    # The slots; `n_rows` of them are in use.
    weights: Table[Slot]
    # Slot of each column of the map; ~slot if other columns share the slot, or have shared it.
    slots: Int32s
    # Capacity for columns of the map.
    n_columns: Int64 = derived()
    # Number of scores: one, or one per class.
    n_scores: Int64

    # AdaGrad: whether each weight has a sum of squared derivatives, whether each column has such a
    # sum, and the constant added to the sums.
    is_adaptive: Int64 = derived()
    is_adaptive_by_column: Int64 = derived()
    eps: Float64 = derived()
    # The loss (`Loss`) and its parameters.
    loss: Int64 = derived()
    # Hinge loss: the loss is 0 if the target's sign times the score is above this margin.
    # Epsilon-insensitive loss: the largest absolute error without loss. Huber loss: the loss is
    # linear above this absolute error.
    margin: Float64 = derived()
    # Log loss: weights of the two classes.
    positive_weight: Float64 = derived()
    negative_weight: Float64 = derived()

    # Whether features also have weights as words, and the capacity for words.
    has_words: Int64 = derived()
    n_words: Int64 = derived()
    # For each word: its slot, as in `slots`; the factor that multiplies its slot's weights;
    # AdaGrad's sum of squared derivatives; and the number of learned texts with the word.
    word_slots: Int32s
    word_factors: Float64s
    word_squares: Float64s
    word_counts: Float64s
    # AdaGrad's sum of squared derivatives for each column of the map.
    column_squares: Float64s
    # Factor of the learning rate for words.
    rate_of_words: Float64 = derived()
    # The sample whose words are scored or learned, and the values of its words.
    sample: Sample = transient()
    word_values: Float64s = transient()

    # Number of lifetimes of the map; each has a learner with slots in the same table.
    n_lifetimes: Int64 = derived()
    # Each learner's share of the prediction; the shares add up to 1.
    shares: Float64s
    # Mean of the losses that compare lifetimes (`compared_loss`), and number of samples in the
    # mean.
    mean_loss: Float64
    n_losses: Float64

    # Scores of the last sample, and the derivatives of its loss with respect to the scores.
    scores: Float64s = transient()
    gradients: Float64s = transient()
    # Loss of each lifetime.
    losses: Float64s = transient()
    # Buffer with a number per score.
    mixed: Float64s = transient()
    # The target and weight of the sample that is being learned, and the learning rate.
    target: Float64 = transient()
    weight: Float64 = transient()
    rate: Float64 = transient()

    def slot(self, column: int) -> Slot:
        """Return the slot of a column."""
        number = self.slots[column]
        return self.weights.row(number if number >= 0 else ~number)


class Loss(enum.IntEnum):
    """The losses, as integers for kernels."""

    # Losses of one score for two classes, with a target of 0 or 1.
    HINGE = 0
    LOG = 1
    # Losses for numerical targets.
    SQUARED = 2
    EPSILON_INSENSITIVE = 3
    HUBER = 4
    # The cross-entropy of all classes' scores.
    SOFTMAX = 5
    # A loss without a kernel: Python computes its derivatives.
    FOREIGN = 6


@helper
def derivative(learner: DescentWeightsRecord, score: float, target: float) -> float:
    """Return the derivative of the loss with respect to a score."""
    loss, margin = learner.loss, learner.margin
    if loss == Loss.HINGE:
        sign = 2.0 * target - 1.0
        return -sign if sign * score <= margin else 0.0
    if loss == Loss.LOG:
        sign = 2.0 * target - 1.0
        weight = learner.positive_weight if target > 0.5 else learner.negative_weight
        product = sign * score
        if product > 0.0:
            # This expression is separate, because the next expression overflows for large products.
            small = math.exp(-product)
            return -sign * weight * small / (1.0 + small)
        return -sign * weight / (1.0 + math.exp(product))
    error = score - target
    if loss == Loss.SQUARED:
        return 2.0 * error
    if loss == Loss.EPSILON_INSENSITIVE:
        return 0.0 if math.fabs(error) <= margin else 1.0 if error > 0.0 else -1.0
    return min(max(error, -margin), margin)


@helper
def exponentiate(scores: Float64s, n: int, powers: Float64s) -> float:
    """Write the exponentials of `n` scores, up to a common factor, and return their sum."""
    largest, total = scores[0], 0.0
    for k in range(1, n):
        largest = max(largest, scores[k])
    for k in range(n):
        powers[k] = math.exp(scores[k] - largest)
        total += powers[k]
    return total


@helper
def differentiate(learner: DescentWeightsRecord) -> None:
    """Write the derivatives of the loss with respect to the scores.

    With several scores, the target is a class.
    """
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
            expected = 1.0 if k == target else 0.0
            gradients[k] = weight * derivative(learner, scores[k], expected)


@helper
def compared_loss(learner: DescentWeightsRecord) -> float:
    """Return the loss that compares lifetimes.

    For classes, the loss is 1 for a mistake and 0 otherwise. With several scores, the target is the
    class's number. The prediction is a mistake if the score of another class is at least as large
    as the target's score.
    """
    loss, margin, score, target = learner.loss, learner.margin, learner.scores[0], learner.target
    if learner.n_scores > 1:
        label = int(target)
        for c in range(learner.n_scores):
            if c != label and learner.scores[c] >= learner.scores[label]:
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


@helper
def score_values(learner: DescentWeightsRecord, values: Float64s, n: int) -> None:
    """Write the scores of a sample, given its values in all `n` columns."""
    scores, n_scores = learner.scores, learner.n_scores
    for k in range(n_scores):
        scores[k] = 0.0
    for i in range(n):
        value, weights = values[i], learner.slot(i).weights(learner)
        for k in range(n_scores):
            scores[k] += value * weights[k]


@helper
def score_cells(learner: DescentWeightsRecord, value: float, cells: Int32s, n: int) -> None:
    """Write the scores of a sample in `n` cells, whose columns all have the same value."""
    scores, slots, n_scores = learner.scores, learner.slots, learner.n_scores
    for k in range(n_scores):
        scores[k] = 0.0
    for i in range(n):
        if n_scores >= MANY_SCORES and i + AHEAD < n:
            # `prefetch` counts 4-byte words, two for each weight.
            prefetch(learner.slot(cells[i + AHEAD]), 2 * n_scores)
        if slots[cells[i]] == 0:
            continue
        weights = learner.slot(cells[i]).weights(learner)
        for k in range(n_scores):
            scores[k] += weights[k]
    for k in range(n_scores):
        scores[k] = value * scores[k]


@helper
def best_score(learner: DescentWeightsRecord) -> int:
    """Return the class with the largest score; of equal scores, the first.

    If there is one score, return class 1 if the score is positive, and otherwise class 0.
    """
    scores, best = learner.scores, 0
    if learner.n_scores == 1:
        return 1 if scores[0] > 0.0 else 0
    for k in range(1, learner.n_scores):
        if scores[k] > scores[best]:
            best = k
    return best


# A step against the gradients: w = w - rate * gradient * Phi(x) (Ting et al. 2021, Algorithm 2,
# line 6).
#
# In the paper, alpha c is -rate times the derivative of the loss with respect to f(x).


@helper
def bound_gradients(learner: DescentWeightsRecord) -> bool:
    """Clip the derivatives of the loss, and return whether any derivative is not 0.

    The check for 0 is line 4 of Algorithm 2 (Ting et al. 2021).
    """
    gradients, moves = learner.gradients, False
    for k in range(learner.n_scores):
        slope = min(max(gradients[k], -LARGEST_GRADIENT), LARGEST_GRADIENT)
        gradients[k] = slope
        moves = moves or slope != 0.0
    return moves


@helper
def step(learner: DescentWeightsRecord, slot: Slot, value: float, rate: float) -> None:
    """Move a column's weights against their derivatives, which are `value` times the gradients.

    Adaptive steps follow AdaGrad (Duchi, Hazan and Singer 2011).
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
        # A slope of 0 is skipped, because with `eps` = 0 the first step would be 0 / 0.
        weights[k] -= rate / math.sqrt(squares[k] + eps) * slope if slope != 0.0 else 0.0


@helper
def squared_gradients(learner: DescentWeightsRecord) -> float:
    """Return the sum of the squared derivatives with respect to the scores."""
    gradients, total = learner.gradients, 0.0
    for k in range(learner.n_scores):
        total += gradients[k] * gradients[k]
    return total


@helper
def adapted_rate(squares: Float64s, i: int, square: float, eps: float, rate: float) -> float:
    """Add a column's squared derivative to the column's sum, and return the step's learning rate.

    AdaGrad is applied to a column's weights as a group: steps depend on the norm of derivatives.
    """
    squares[i] += square
    total = squares[i] + eps
    # With `eps` = 0, the sum may be 0, because small squares underflow.
    return rate / math.sqrt(total) if total > 0.0 else 0.0


@helper
def new_slot(learner: DescentWeightsRecord) -> int:
    """Append a slot, whose elements are 0, and return its number."""
    learner.weights.n_rows += 1
    return learner.weights.n_rows - 1


@helper
def descend_values(learner: DescentWeightsRecord, values: Float64s, n: int) -> None:
    """Move the weights of all `n` columns against the gradients."""
    if not bound_gradients(learner):
        return
    slots = learner.slots
    for i in range(n):
        if slots[i] == 0:
            slots[i] = new_slot(learner)
        step(learner, learner.weights.row(slots[i]), values[i], learner.rate)


@helper
def descend_cells(learner: DescentWeightsRecord, value: float, cells: Int32s, n: int) -> None:
    """Move the weights of the columns of `n` cells against the gradients."""
    if not bound_gradients(learner):
        return
    slots, eps, by_column = learner.slots, learner.eps, learner.is_adaptive_by_column != 0
    rate = learner.rate
    square = value * value * squared_gradients(learner) if by_column else 0.0
    # The common slot of columns that no earlier sample has updated, the last of these columns, and
    # their number.
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
