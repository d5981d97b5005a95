"""The kernels of a learner by gradient descent: one call from Python per sample, or per frame."""

from __future__ import annotations

from ...compiling.kernels import exact_batch_kernel, exact_inlined, exact_kernel, exact_separate
from ...maps.record import MapRecord, Outputs, Sample
from ...records import Float64s, Int32s
from ...status import DONE, NO_ROOM
from .lifetimes import learn_compared, learn_lifetimes, score_lifetimes
from .losses import differentiate
from .record import GradientDescent
from .scores import best_score, score_cells, score_values
from .steps import descend_cells, descend_values
from .words import (
    add_scores_of_words,
    count_words,
    descend_words,
    learn_text,
    score_words_alone,
)


@exact_inlined
def has_room(learner: GradientDescent, feature_map: MapRecord) -> bool:
    """Tell whether there is room for all columns that a sample may move first."""
    slots, n_moved = learner.weights, feature_map.n_out
    if learner.has_words:
        n_moved += learner.sample.n_entries
    return feature_map.n_columns <= learner.n_columns and slots.n_rows + n_moved <= slots.capacity


@exact_separate
def score(learner: GradientDescent, feature_map: MapRecord, outputs: Outputs, i: int) -> None:
    """Write the scores of the i-th mapped sample."""
    n_out, n_lifetimes = feature_map.n_out, learner.n_lifetimes
    if feature_map.is_dense:
        score_values(learner, outputs.values.part(n_out * i, n_out), n_out)
        return
    cells, value = outputs.cells.part(n_out * i, n_out), feature_map.value
    if n_lifetimes == 1:
        score_cells(learner, value, cells, n_out)
        if learner.has_words:
            add_scores_of_words(learner)
    else:
        score_lifetimes(learner, value, cells, n_out // n_lifetimes)


@exact_separate
def learn(
    learner: GradientDescent,
    feature_map: MapRecord,
    outputs: Outputs,
    before: Int32s,
    i: int,
    target: float,
    weight: float,
    rate: float,
) -> None:
    """Predict the i-th mapped sample and learn it.

    Lifetimes are compared where there are the cells of samples from `before` their map learned
    them.
    """
    n_out, value = feature_map.n_out, feature_map.value
    if feature_map.is_dense:
        values = outputs.values.part(n_out * i, n_out)
        score_values(learner, values, n_out)
        differentiate(learner, target, weight)
        descend_values(learner, values, n_out, rate)
        return
    cells = outputs.cells.part(n_out * i, n_out)
    n = n_out // learner.n_lifetimes
    if learner.has_words:
        learn_text(learner, value, cells, n, target, weight, rate)
    elif learner.n_lifetimes > 1 and before:
        old = before.part(n_out * i, n_out)
        learn_compared(learner, value, old, cells, n, target, weight, rate)
    else:
        learn_lifetimes(learner, value, cells, n, target, weight, rate)


@exact_inlined
def end_step(learner: GradientDescent, feature_map: MapRecord) -> None:
    """Note that a sample has been learned."""
    learner.n_steps += 1
    feature_map.is_ahead = 0


@exact_inlined
def learn_single(
    learner: GradientDescent,
    feature_map: MapRecord,
    outputs: Outputs,
    target: float,
    weight: float,
    rate: float,
) -> int:
    """Learn the sample that has just been mapped; returns DONE, or NO_ROOM."""
    if not has_room(learner, feature_map):
        return NO_ROOM
    # Where the map has not learned the sample, its cells are what they were.
    before = feature_map.before if feature_map.before else outputs.cells
    feature_map.before = Int32s(0, 0, 0)
    learn(learner, feature_map, outputs, before, 0, target, weight, rate)
    end_step(learner, feature_map)
    return DONE


@exact_kernel
def score_one(
    learner: GradientDescent, feature_map: MapRecord, sample: Sample, outputs: Outputs
) -> tuple[int, int]:
    """Map a sample and write its scores.

    Returns DONE, the place of a bad input, or NO_ROOM; and the best class.
    """
    bad = feature_map.transform(feature_map, sample, outputs)
    if bad >= 0:
        return bad, 0
    if feature_map.n_columns > learner.n_columns:
        return NO_ROOM, 0
    score(learner, feature_map, outputs, 0)
    return DONE, best_score(learner)


@exact_batch_kernel
def learn_mapped(
    learner: GradientDescent,
    feature_map: MapRecord,
    outputs: Outputs,
    target: float,
    weight: float,
    rate: float,
) -> int:
    """Predict a mapped sample and learn it; returns DONE, or NO_ROOM."""
    return learn_single(learner, feature_map, outputs, target, weight, rate)


@exact_kernel
def learn_one(
    learner: GradientDescent,
    feature_map: MapRecord,
    sample: Sample,
    outputs: Outputs,
    target: float,
    weight: float,
    rate: float,
) -> int:
    """Map a sample, predict it, and learn it.

    Returns DONE, the place of a bad input, or NO_ROOM, in which case it has been mapped only.
    """
    bad = feature_map.transform(feature_map, sample, outputs)
    if bad >= 0:
        return bad
    return learn_single(learner, feature_map, outputs, target, weight, rate)


@exact_batch_kernel
def score_mapped(learner: GradientDescent, feature_map: MapRecord, outputs: Outputs, i: int) -> int:
    """Write the scores of the i-th mapped sample; returns DONE, or NO_ROOM to learn it."""
    if not has_room(learner, feature_map):
        return NO_ROOM
    score(learner, feature_map, outputs, i)
    return DONE


@exact_kernel
def score_words(learner: GradientDescent) -> None:
    """Write what a sample's words score, without cells."""
    score_words_alone(learner)


@exact_kernel
def descend(
    learner: GradientDescent,
    feature_map: MapRecord,
    outputs: Outputs,
    i: int,
    rate: float,
    of_words: Float64s,
) -> None:
    """Learn the i-th mapped sample by the gradients that Python has written.

    Those of its words' own scores are `of_words`.
    """
    n_out = feature_map.n_out
    if feature_map.is_dense:
        descend_values(learner, outputs.values.part(n_out * i, n_out), n_out, rate)
    else:
        cells = outputs.cells.part(n_out * i, n_out)
        descend_cells(learner, feature_map.value, cells, n_out, rate)
        if learner.has_words:
            for k in range(learner.n_scores):
                learner.gradients[k] = of_words[k]
            descend_words(learner, rate)
            count_words(learner)
    end_step(learner, feature_map)


@exact_batch_kernel
def learn_rows(
    learner: GradientDescent,
    feature_map: MapRecord,
    outputs: Outputs,
    start: int,
    stop: int,
    targets: Float64s,
    weights: Float64s,
    rates: Float64s,
) -> int:
    """Learn mapped samples `start` to `stop` - 1; returns the first without room, or `stop`."""
    nothing = Int32s(0, 0, 0)
    for i in range(start, stop):
        if not has_room(learner, feature_map):
            return i
        learn(learner, feature_map, outputs, nothing, i, targets[i], weights[i], rates[i])
        end_step(learner, feature_map)
    return stop


@exact_batch_kernel
def score_rows(
    learner: GradientDescent, feature_map: MapRecord, outputs: Outputs, n: int, scores: Float64s
) -> None:
    """Write the scores of `n` mapped samples."""
    n_scores = learner.n_scores
    for i in range(n):
        score(learner, feature_map, outputs, i)
        for k in range(n_scores):
            scores[n_scores * i + k] = learner.scores[k]
