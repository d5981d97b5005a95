"""What a learner by gradient descent keeps for the columns of a feature map.

A learner has one score, or one per class. A column's weights for all scores are neighbours in a
slot, followed by their sums of squared derivatives where steps adapt to them (AdaGrad). Columns
that no sample has moved yet have slot 0, which is zero. Those that one sample moves first have the
same weights from then on until another sample moves them: they share a slot, and a column gets one
of its own when it is moved again. So cells with one sample take next to no memory.

On text the features count by themselves, too: each has weights of its own beside the map's columns
(`words`). Steps adapt to columns and to words then, not to each of their weights.
"""

from __future__ import annotations

from ...maps.record import Sample
from ...records import Float64, Float64s, Int32s, Int64, Record, Table, derived, transient


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
    # The loss (`losses.Loss`) and its parameters.
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

    def slot(self, column: int) -> Slot:
        """Return the slot of a column."""
        number = self.slots[column]
        return self.weights.row(number if number >= 0 else ~number)
