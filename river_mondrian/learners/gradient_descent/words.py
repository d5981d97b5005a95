"""Words: the features of a text, which count by themselves beside the cells of its map.

A score is the sum of a kernel machine's on the map and of a linear model's on the words. Both are
learned together, by the gradients of one loss. Words that one sample is the first to hold have the
same weights but for a factor: they share a slot, as columns do, until another sample moves them. So
the many words that occur once take next to no memory.

A sample's values are divided by their length: a text that is twice as long says no more of its
topic.
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
def value_of(learner: GradientDescent, i: int) -> float:
    """Return the value of the sample's i-th entry, in single precision as in the pool, or 0."""
    value = learner.sample.entries[i]
    return np.float64(np.float32(value)) if value == value else 0.0


@exact_inlined
def length_of_text(learner: GradientDescent) -> float:
    """Return the length of the sample's values, of words that are not known, too."""
    total = 0.0
    for i in range(learner.sample.n_entries):
        value = value_of(learner, i)
        total += value * value
    return math.sqrt(total)


@exact_inlined
def word_of(learner: GradientDescent, i: int, length: float) -> tuple[int, float]:
    """Return the sample's i-th word and its value, which is 0 for one that is not known."""
    place = learner.sample.places[i]
    if place < 0 or place >= learner.n_words or length == 0.0:
        return place, 0.0
    return place, value_of(learner, i) / length


@exact_inlined
def add_scores_of_words(learner: GradientDescent) -> None:
    """Add what the sample's words score."""
    scores, slots, n_scores = learner.scores, learner.word_slots, learner.n_scores
    length = length_of_text(learner)
    for i in range(learner.sample.n_entries):
        place, value = word_of(learner, i, length)
        if value == 0.0 or slots[place] == 0:
            continue
        slot = slots[place]
        weights = learner.weights.row(slot if slot >= 0 else ~slot).weights(learner)
        factor = value * learner.word_factors[place]
        for k in range(n_scores):
            scores[k] += factor * weights[k]


@exact_inlined
def descend_words(learner: GradientDescent, rate: float) -> None:
    """Move the weights of the sample's words by the gradients."""
    if not bound_gradients(learner):
        return
    gradients, n_scores, eps = learner.gradients, learner.n_scores, learner.eps
    slots, factors, squares = learner.word_slots, learner.word_factors, learner.word_squares
    rate = rate * learner.rate_of_words
    square, length = squared_gradients(learner), length_of_text(learner)
    # The slot of the words that this sample is the first to move, the last of them, their number.
    shared, last, n_shared = 0, 0, 0
    for i in range(learner.sample.n_entries):
        place, value = word_of(learner, i, length)
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
def learn_text(
    learner: GradientDescent,
    value: float,
    cells: Int32s,
    n: int,
    target: float,
    weight: float,
    rate: float,
) -> None:
    """Learn a mapped sample by its `n` cells and its words."""
    score_cells(learner, value, cells, n)
    add_scores_of_words(learner)
    differentiate(learner, target, weight)
    descend_cells(learner, value, cells, n, rate)
    descend_words(learner, rate)
