"""Learning by gradient descent: words, several lifetimes, and the kernels that Python calls."""

import math

import numpy as np

from ...compiling.kernels import batch_kernel, helper, kernel, link_by_name
from ...limits import DONE, NO_ROOM
from ...maps.record import MapRecord, Outputs, Sample
from ...records import Float64s, Int32s
from . import descent
from .descent import DescentWeightsRecord, Loss

# The compiler must not reorder sums, because batches and single samples must have equal results.
ORDERED_SUMS = True

# Fraction of the lifetimes' shares that each sample spreads evenly. Largest number of samples in
# the mean loss.
SPREAD_SHARE = 1e-3
MEAN_OVER = 1000.0

# Let a lifetime's loss exceed the least loss by the mean loss divided by RATE_OF_SHARES. Then a
# sample of weight 1 divides the lifetime's share by e. The rate is low, because losses often have
# heavy tails.
RATE_OF_SHARES = 0.125

# A share is multiplied by at least exp(-LARGEST_LOSS), so that no product underflows to 0.
LARGEST_LOSS = 50.0

# Smaller probabilities, and smaller complements of probabilities, are raised to these bounds before
# a logarithm.
LEAST = 1e-300
LEAST_COMPLEMENT = 1e-16


# Words are the features of a text. Words have weights in addition to the weights of the map's
# cells.
#
# A text's score is the score of a linear model on its words plus the score of a kernel machine on
# its cells. The weights of words are updated with the loss of the words' score, as in a linear
# model without cells. The weights of cells are updated with the loss of the text's score, so cells
# learn the remaining error.
#
# Words that first occur in the same sample have equal weights up to a factor. These words share a
# slot, like columns with the same first sample. A word leaves the shared slot when another sample
# updates the word. So the many words that occur once need almost no memory.
#
# The value of a word is its rarity times the square root of its entry. The entry is usually the
# word's count in the text. The root is used, because a word that occurs four times is hardly more
# informative than a word that occurs once. If m of n learned texts contain a word, the word's
# rarity is log((1 + n) / (1 + m)) + 1. All values of a text are then divided by their norm, because
# a longer text is not more informative about its topic.


@helper
def is_known(learner: DescentWeightsRecord, word: int) -> bool:
    """Return whether a word's index is within the capacity."""
    return word >= 0 and word < learner.n_words


@helper
def weigh_words(learner: DescentWeightsRecord) -> None:
    """Write the values of the sample's words, 0 for unknown words.

    The values are divided by the norm of all values, including the values of unknown words. An
    unknown word has the rarity of a word that no learned text contains.
    """
    values, indices, n = learner.word_values, learner.sample.indices, learner.sample.n_entries
    square = 0.0
    for i in range(n):
        # Entries are rounded to single precision, because a `Pool` also rounds stored samples.
        value = np.float64(np.float32(learner.sample.entries[i]))
        values[i] = 0.0
        if value == value and value != 0.0:
            n_with = learner.word_counts[indices[i]] if is_known(learner, indices[i]) else 0.0
            rarity = math.log((1.0 + learner.n_steps) / (1.0 + n_with)) + 1.0
            values[i] = math.copysign(math.sqrt(math.fabs(value)), value) * rarity
        square += values[i] * values[i]
    length = math.sqrt(square)
    for i in range(n):
        counts = is_known(learner, indices[i]) and length > 0.0
        values[i] = values[i] / length if counts else 0.0


@helper
def add_scores_of_words(learner: DescentWeightsRecord) -> None:
    """Compute the values of the sample's words, and add the scores of the words to `scores`."""
    weigh_words(learner)
    scores, slots, n_scores = learner.scores, learner.word_slots, learner.n_scores
    for i in range(learner.sample.n_entries):
        word, value = learner.sample.indices[i], learner.word_values[i]
        if value != 0.0 and slots[word] != 0:
            slot, factor = slots[word], value * learner.word_factors[word]
            weights = learner.weights.row(slot if slot >= 0 else ~slot).weights(learner)
            for k in range(n_scores):
                scores[k] += factor * weights[k]


@helper
def descend_words(learner: DescentWeightsRecord) -> None:
    """Move the weights of the last scored words against the gradients."""
    if not descent.bound_gradients(learner):
        return
    gradients, n_scores, eps = learner.gradients, learner.n_scores, learner.eps
    slots, factors, squares = learner.word_slots, learner.word_factors, learner.word_squares
    rate = learner.rate * learner.rate_of_words
    square = descent.squared_gradients(learner)
    # The common slot of words that no earlier sample has updated, the last of these words, and
    # their number.
    shared, last, n_shared = 0, 0, 0
    for i in range(learner.sample.n_entries):
        word, value = learner.sample.indices[i], learner.word_values[i]
        if value == 0.0:
            continue
        own_rate = rate
        if learner.is_adaptive_by_column:
            own_rate = descent.adapted_rate(squares, word, value * value * square, eps, rate)
        move, slot = own_rate * value, slots[word]
        if slot == 0:
            if shared == 0:
                shared = descent.new_slot(learner)
                weights = learner.weights.row(shared).weights(learner)
                for k in range(n_scores):
                    weights[k] = -gradients[k]
            slots[word], factors[word] = ~shared, move
            last, n_shared = word, n_shared + 1
            continue
        if slot < 0:
            new = descent.new_slot(learner)
            old, factor = learner.weights.row(~slot).weights(learner), factors[word]
            weights = learner.weights.row(new).weights(learner)
            for k in range(n_scores):
                weights[k] = factor * old[k]
            slots[word], factors[word], slot = new, 1.0, new
        # The factor is applied even without a shared slot, because the word may still have the
        # factor of its first update.
        factor = factors[word]
        weights = learner.weights.row(slot).weights(learner)
        for k in range(n_scores):
            weights[k] = factor * weights[k] - move * gradients[k]
        factors[word] = 1.0
    if n_shared == 1:
        slots[last] = shared


@helper
def count_words(learner: DescentWeightsRecord) -> None:
    """Increment the counts of the sample's words."""
    indices, counts = learner.sample.indices, learner.word_counts
    for i in range(learner.sample.n_entries):
        if learner.word_values[i] != 0.0:
            counts[indices[i]] += 1.0


@kernel
def score_words(learner: DescentWeightsRecord) -> None:
    """Write the scores of the sample's words, without the scores of cells."""
    for k in range(learner.n_scores):
        learner.scores[k] = 0.0
    add_scores_of_words(learner)


@helper
def learn_text(learner: DescentWeightsRecord, value: float, cells: Int32s, n: int) -> None:
    """Learn a mapped text with its words and its `n` cells."""
    scores, of_words, n_scores = learner.scores, learner.mixed, learner.n_scores
    score_words(learner)
    for k in range(n_scores):
        of_words[k] = scores[k]
    descent.differentiate(learner)
    descend_words(learner)
    descent.score_cells(learner, value, cells, n)
    for k in range(n_scores):
        scores[k] += of_words[k]
    descent.differentiate(learner)
    descent.descend_cells(learner, value, cells, n)
    count_words(learner)


# Learners at several lifetimes of a cell map, mixed by their losses.
#
# If a map has outputs at several lifetimes, there is a learner for each lifetime. The learners are
# mixed by a fixed share (Herbster and Warmuth 1998). Each sample multiplies a learner's share of
# the prediction by exp(-rate * loss), up to a common factor. The loss is divided by the mean loss.
# Then a fixed fraction of all shares is spread evenly, because another lifetime may be better after
# a drift. The loss for classes is 1 for a mistake and 0 otherwise. With the log loss, overconfident
# learners at long lifetimes would get small shares, although they make fewer mistakes.


@helper
def score_lifetimes(learner: DescentWeightsRecord, value: float, cells: Int32s, n: int) -> None:
    """Write the scores of the mixture. The sample has `n` cells at each lifetime.

    Lifetimes whose share is below `SPREAD_SHARE` are skipped.
    """
    scores, mixed, n_scores = learner.scores, learner.mixed, learner.n_scores
    loss, total = learner.loss, 0.0
    for c in range(n_scores):
        mixed[c] = 0.0
    for k in range(learner.n_lifetimes):
        share = learner.shares[k]
        if share < SPREAD_SHARE:
            continue
        total += share
        descent.score_cells(learner, value, cells.part(n * k, n), n)
        # Probabilities are mixed if the loss depends on probabilities; otherwise scores are mixed.
        if loss == Loss.SOFTMAX:
            share /= descent.exponentiate(scores, n_scores, scores)
        for c in range(n_scores):
            term = 1.0 / (1.0 + math.exp(-scores[c])) if loss == Loss.LOG else scores[c]
            mixed[c] += share * term
    for c in range(n_scores):
        mean = mixed[c] / total
        # Mean probabilities are converted to scores, because callers expect scores.
        if loss == Loss.SOFTMAX:
            mean = math.log(max(mean, LEAST))
        elif loss == Loss.LOG:
            mean = math.log(max(mean, LEAST) / max(1.0 - mean, LEAST_COMPLEMENT))
        scores[c] = mean


@helper
def update_shares(learner: DescentWeightsRecord) -> None:
    """Update the shares of lifetimes with their losses."""
    shares, losses, n_lifetimes = learner.shares, learner.losses, learner.n_lifetimes
    least, expected = losses[0], 0.0
    for k in range(n_lifetimes):
        least = min(least, losses[k])
        expected += shares[k] * losses[k]
    learner.n_losses = min(learner.n_losses + 1.0, MEAN_OVER)
    learner.mean_loss += (expected - learner.mean_loss) / learner.n_losses
    mean = learner.mean_loss
    rate = learner.weight * RATE_OF_SHARES / mean if mean > 0.0 else 0.0
    total = 0.0
    for k in range(n_lifetimes):
        excess = min(rate * (losses[k] - least), LARGEST_LOSS)
        shares[k] *= math.exp(-excess)
        total += shares[k]
    for k in range(n_lifetimes):
        shares[k] = (1.0 - SPREAD_SHARE) * shares[k] / total + SPREAD_SHARE / n_lifetimes


@helper
def learn_lifetimes(
    learner: DescentWeightsRecord, value: float, before: Int32s, cells: Int32s, n: int
) -> None:
    """Learn a mapped sample at each lifetime, and update the shares with the losses.

    `before` holds the cells that the sample had before the map learned it. The losses are computed
    from predictions for these cells. If `before` is empty, the shares do not change.
    """
    for k in range(learner.n_lifetimes):
        current, n_equal = cells.part(n * k, n), 0
        if before:
            old = before.part(n * k, n)
            descent.score_cells(learner, value, old, n)
            learner.losses[k] = descent.compared_loss(learner)
            while n_equal < n and old[n_equal] == current[n_equal]:
                n_equal += 1
        if n_equal < n:
            descent.score_cells(learner, value, current, n)
        descent.differentiate(learner)
        descent.descend_cells(learner, value, current, n)
    if before:
        update_shares(learner)


@helper
def has_room(learner: DescentWeightsRecord, feature_map: MapRecord) -> bool:
    """Return whether the table has memory for the slots that a sample may add."""
    slots, n_moved = learner.weights, feature_map.n_out
    if learner.has_words:
        n_moved += learner.sample.n_entries
    return feature_map.n_columns <= learner.n_columns and slots.n_rows + n_moved <= slots.capacity


@link_by_name
def score(learner: DescentWeightsRecord, feature_map: MapRecord, outputs: Outputs, i: int) -> None:
    """Write the scores of the i-th mapped sample."""
    n_out, n_lifetimes, value = feature_map.n_out, learner.n_lifetimes, feature_map.value
    if feature_map.is_dense:
        descent.score_values(learner, outputs.values.part(n_out * i, n_out), n_out)
    elif n_lifetimes > 1:
        cells = outputs.cells.part(n_out * i, n_out)
        score_lifetimes(learner, value, cells, n_out // n_lifetimes)
    else:
        descent.score_cells(learner, value, outputs.cells.part(n_out * i, n_out), n_out)
        if learner.has_words:
            add_scores_of_words(learner)


@link_by_name
def learn(
    learner: DescentWeightsRecord, feature_map: MapRecord, outputs: Outputs, before: Int32s, i: int
) -> None:
    """Predict the i-th mapped sample and learn it, with the learner's target, weight and rate.

    `before` holds the cells that samples had before the map learned them. The losses of predictions
    from these cells compare lifetimes. If `before` is empty, the shares do not change.
    """
    n_out, value = feature_map.n_out, feature_map.value
    if feature_map.is_dense:
        values = outputs.values.part(n_out * i, n_out)
        descent.score_values(learner, values, n_out)
        descent.differentiate(learner)
        descent.descend_values(learner, values, n_out)
    else:
        cells = outputs.cells.part(n_out * i, n_out)
        n = n_out // learner.n_lifetimes
        if learner.has_words:
            learn_text(learner, value, cells, n)
        else:
            compares = learner.n_lifetimes > 1 and bool(before)
            old = before.part(n_out * i, n_out) if compares else Int32s(0, 0, 0)
            learn_lifetimes(learner, value, old, cells, n)
    learner.n_steps += 1
    feature_map.is_ahead = 0


@kernel
def score_one(
    learner: DescentWeightsRecord, feature_map: MapRecord, sample: Sample, outputs: Outputs
) -> tuple[int, int]:
    """Map a sample and write its scores.

    Return DONE, NO_ROOM or the index of an invalid input, and the best class.
    """
    bad = feature_map.transform(feature_map, sample, outputs)
    if bad >= 0:
        return bad, 0
    if feature_map.n_columns > learner.n_columns:
        return NO_ROOM, 0
    score(learner, feature_map, outputs, 0)
    return DONE, descent.best_score(learner)


@kernel
def learn_one(
    learner: DescentWeightsRecord,
    feature_map: MapRecord,
    sample: Sample,
    outputs: Outputs,
    is_mapped: bool,
    target: float,
    weight: float,
    rate: float,
) -> int:
    """Map a sample unless `is_mapped`, predict it, and learn it.

    Return DONE, the index of an invalid input, or NO_ROOM. After NO_ROOM, the sample is mapped but
    not learned.
    """
    if not is_mapped:
        bad = feature_map.transform(feature_map, sample, outputs)
        if bad >= 0:
            return bad
    if not has_room(learner, feature_map):
        return NO_ROOM
    # If `before` is empty, the current cells are used, because the map has not learned the sample,
    # or earlier cells are not needed: with one lifetime, or at the first sample.
    before = feature_map.before if feature_map.before else outputs.cells
    feature_map.before = Int32s(0, 0, 0)
    learner.target, learner.weight, learner.rate = target, weight, rate
    learn(learner, feature_map, outputs, before, 0)
    return DONE


@batch_kernel
def score_mapped(
    learner: DescentWeightsRecord, feature_map: MapRecord, outputs: Outputs, i: int
) -> int:
    """Write the scores of the i-th mapped sample; return DONE, or NO_ROOM without writing."""
    if not has_room(learner, feature_map):
        return NO_ROOM
    score(learner, feature_map, outputs, i)
    return DONE


@kernel
def descend(
    learner: DescentWeightsRecord,
    feature_map: MapRecord,
    outputs: Outputs,
    i: int,
    of_words: Float64s,
) -> None:
    """Learn the i-th mapped sample with the gradients that Python has computed.

    `of_words` has the gradients at the score of the words alone.
    """
    n_out = feature_map.n_out
    if feature_map.is_dense:
        descent.descend_values(learner, outputs.values.part(n_out * i, n_out), n_out)
    else:
        cells = outputs.cells.part(n_out * i, n_out)
        descent.descend_cells(learner, feature_map.value, cells, n_out)
        if learner.has_words:
            for k in range(learner.n_scores):
                learner.gradients[k] = of_words[k]
            descend_words(learner)
            count_words(learner)
    learner.n_steps += 1
    feature_map.is_ahead = 0


@batch_kernel
def learn_rows(
    learner: DescentWeightsRecord,
    feature_map: MapRecord,
    outputs: Outputs,
    start: int,
    stop: int,
    targets: Float64s,
    weights: Float64s,
    rates: Float64s,
) -> int:
    """Learn mapped samples `start` to `stop` - 1 while there is room; return the next sample."""
    nothing = Int32s(0, 0, 0)
    for i in range(start, stop):
        if not has_room(learner, feature_map):
            return i
        learner.target, learner.weight, learner.rate = targets[i], weights[i], rates[i]
        learn(learner, feature_map, outputs, nothing, i)
    return stop


@batch_kernel
def score_rows(
    learner: DescentWeightsRecord,
    feature_map: MapRecord,
    outputs: Outputs,
    n: int,
    scores: Float64s,
) -> None:
    """Write the scores of `n` mapped samples."""
    n_scores = learner.n_scores
    for i in range(n):
        score(learner, feature_map, outputs, i)
        for k in range(n_scores):
            scores[n_scores * i + k] = learner.scores[k]
