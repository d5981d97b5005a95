"""Words: the features of a text, which count by themselves beside the cells of its map.

A score is the sum of a linear model's on the words and of a kernel machine's on the map. Words
learn by the loss of their own scores, as they would alone, and cells by the loss of the sum: they
learn what words leave.

Words that one sample is the first to hold have the same weights but for a factor: they share a
slot, as columns do, until another sample moves them. So the many words that occur once take next to
no memory.

A word counts by the square root of its value, since one that occurs four times says little more
than one that occurs once, and by its rarity, log((1 + texts) / (1 + texts with it)) + 1, over the
texts learned so far. All values of a text are then divided by their length: a text that is twice as
long says no more of its topic.
"""

from __future__ import annotations

import math

import numpy as np

from ...compiling.kernels import exact_inlined
from ...records import Int32s
from .losses import differentiate
from .record import GradientDescent
from .scores import score_cells
from .steps import adapted_rate, bound_gradients, descend_cells, new_slot, squared_gradients


@exact_inlined
def is_known(learner: GradientDescent, place: int) -> bool:
    """Tell whether a word has a place among those that there is room for."""
    return place >= 0 and place < learner.n_words


@exact_inlined
def weighed(learner: GradientDescent, i: int) -> float:
    """Return the weighed value of the sample's i-th entry, which is of single precision, or 0.

    No text has been learned with a word that is not known.
    """
    value, place = np.float64(np.float32(learner.sample.entries[i])), learner.sample.places[i]
    if value == 0.0 or value != value:
        return 0.0
    n_with = learner.word_counts[place] if is_known(learner, place) else 0.0
    rarity = math.log((1.0 + learner.n_steps) / (1.0 + n_with)) + 1.0
    return math.copysign(math.sqrt(math.fabs(value)), value) * rarity


@exact_inlined
def weigh_words(learner: GradientDescent) -> None:
    """Write the values by which the sample's words count, 0 for those that are not known.

    The length is that of all values, of words that are not known, too.
    """
    values, places, n = learner.word_values, learner.sample.places, learner.sample.n_entries
    square = 0.0
    for i in range(n):
        value = weighed(learner, i)
        values[i] = value
        square += value * value
    length = math.sqrt(square)
    for i in range(n):
        counts = is_known(learner, places[i]) and length > 0.0
        values[i] = values[i] / length if counts else 0.0


@exact_inlined
def add_scores_of_words(learner: GradientDescent) -> None:
    """Weigh the sample's words, and add what they score."""
    weigh_words(learner)
    scores, slots, n_scores = learner.scores, learner.word_slots, learner.n_scores
    for i in range(learner.sample.n_entries):
        place, value = learner.sample.places[i], learner.word_values[i]
        if value == 0.0 or slots[place] == 0:
            continue
        slot = slots[place]
        weights = learner.weights.row(slot if slot >= 0 else ~slot).weights(learner)
        factor = value * learner.word_factors[place]
        for k in range(n_scores):
            scores[k] += factor * weights[k]


@exact_inlined
def descend_words(learner: GradientDescent, rate: float) -> None:
    """Move the weights of the sample's words, which have been scored, by the gradients."""
    if not bound_gradients(learner):
        return
    gradients, n_scores, eps = learner.gradients, learner.n_scores, learner.eps
    slots, factors, squares = learner.word_slots, learner.word_factors, learner.word_squares
    rate = rate * learner.rate_of_words
    square = squared_gradients(learner)
    # The slot of the words that this sample is the first to move, the last of them, their number.
    shared, last, n_shared = 0, 0, 0
    for i in range(learner.sample.n_entries):
        place, value = learner.sample.places[i], learner.word_values[i]
        if value == 0.0:
            continue
        own_rate = rate
        if learner.is_adaptive_by_column:
            own_rate = adapted_rate(squares, place, value * value * square, eps, rate)
        move, slot = own_rate * value, slots[place]
        if slot == 0:
            if shared == 0:
                shared = new_slot(learner)
                weights = learner.weights.row(shared).weights(learner)
                for k in range(n_scores):
                    weights[k] = -gradients[k]
            slots[place] = ~shared
            factors[place] = move
            last = place
            n_shared += 1
            continue
        if slot < 0:
            own = new_slot(learner)
            old, factor = learner.weights.row(~slot).weights(learner), factors[place]
            weights = learner.weights.row(own).weights(learner)
            for k in range(n_scores):
                weights[k] = factor * old[k]
            slots[place] = own
            factors[place] = 1.0
            slot = own
        # A slot that is a word's own may still be in units of its first move.
        factor = factors[place]
        weights = learner.weights.row(slot).weights(learner)
        for k in range(n_scores):
            weights[k] = factor * weights[k] - move * gradients[k]
        factors[place] = 1.0
    if n_shared == 1:
        slots[last] = shared


@exact_inlined
def count_words(learner: GradientDescent) -> None:
    """Count the sample among the texts of its words."""
    places, counts = learner.sample.places, learner.word_counts
    for i in range(learner.sample.n_entries):
        if learner.word_values[i] != 0.0:
            counts[places[i]] += 1.0


@exact_inlined
def score_words_alone(learner: GradientDescent) -> None:
    """Write what the sample's words score, without cells."""
    for k in range(learner.n_scores):
        learner.scores[k] = 0.0
    add_scores_of_words(learner)


@exact_inlined
def learn_text(
    learner: GradientDescent,
    value: float,
    cells: Int32s,
    n: int,
    target: float,
    weight: float,
    rate: float,
) -> None:
    """Learn a mapped sample by its words and its `n` cells."""
    scores, of_words, n_scores = learner.scores, learner.mixed, learner.n_scores
    score_words_alone(learner)
    for k in range(n_scores):
        of_words[k] = scores[k]
    differentiate(learner, target, weight)
    descend_words(learner, rate)
    score_cells(learner, value, cells, n)
    for k in range(n_scores):
        scores[k] += of_words[k]
    differentiate(learner, target, weight)
    descend_cells(learner, value, cells, n, rate)
    count_words(learner)
