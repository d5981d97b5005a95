"""The scores of a mapped sample: f(x) = <w, Phi(x)> (Ting et al. 2021, Algorithm 2, line 3)."""

from __future__ import annotations

from ...compiling.kernels import exact_inlined
from ...records import Float64s, Int32s, prefetch
from .record import GradientDescent

# Cells whose weights are brought close ahead of their use, and scores from which on that pays.
AHEAD = 4
MANY_SCORES = 4


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
