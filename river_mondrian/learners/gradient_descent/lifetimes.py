"""Learners at several lifetimes of a map of cells, mixed by their losses.

On a map whose outputs are those of several lifetimes, one after the other, each lifetime has a
learner of its own. They are mixed by exponential weights: a lifetime's share of the prediction is
multiplied by exp(-loss) with each sample, the loss in units of its mean, and a fixed part of all
shares is spread evenly, so that another lifetime can take over when the stream changes (Herbster
and Warmuth's fixed share). Over classes mistakes are counted: by their log loss the confident
learners at long lifetimes would lose although they make fewer of them.
"""

from __future__ import annotations

import math

from ...compiling.kernels import exact_inlined
from ...records import Int32s
from .losses import Loss, compared_loss, differentiate, exponentiate
from .record import GradientDescent
from .scores import score_cells
from .steps import descend_cells

# Part of the shares of lifetimes that each sample spreads evenly, and samples over which the mean
# loss is taken.
SPREAD = 1e-3
MEMORY = 1000.0

# Mean losses that divide a share by e: errors have heavier tails than a likelihood would allow for.
RATE_OF_SHARES = 0.125

# Largest exponent, so that no share vanishes.
LARGEST_LOSS = 50.0

# Least probabilities of which a logarithm is taken.
LEAST = 1e-300
LEAST_COMPLEMENT = 1e-16


@exact_inlined
def add_scores(learner: GradientDescent, share: float) -> None:
    """Add what a lifetime's scores stand for to the mixture: probabilities where there are any."""
    scores, mixed, n_scores = learner.scores, learner.mixed, learner.n_scores
    loss = learner.loss
    if loss == Loss.SOFTMAX:
        share /= exponentiate(scores, n_scores, scores)
    for c in range(n_scores):
        value = scores[c]
        if loss == Loss.LOG:
            value = 1.0 / (1.0 + math.exp(-value))
        mixed[c] += share * value


@exact_inlined
def score_lifetimes(learner: GradientDescent, value: float, cells: Int32s, n: int) -> None:
    """Write the scores of the mixture; each lifetime has `n` cells.

    Lifetimes whose share is less than what is spread evenly are left out.
    """
    scores, mixed, n_scores = learner.scores, learner.mixed, learner.n_scores
    for c in range(n_scores):
        mixed[c] = 0.0
    kept = 0.0
    for k in range(learner.n_lifetimes):
        share = learner.shares[k]
        if share >= SPREAD:
            kept += share
            score_cells(learner, value, cells.part(n * k, n), n)
            add_scores(learner, share)
    for c in range(n_scores):
        mean = mixed[c] / kept
        # The scores that have these probabilities.
        if learner.loss == Loss.SOFTMAX:
            mean = math.log(max(mean, LEAST))
        elif learner.loss == Loss.LOG:
            mean = math.log(max(mean, LEAST) / max(1.0 - mean, LEAST_COMPLEMENT))
        scores[c] = mean


@exact_inlined
def update_shares(learner: GradientDescent, weight: float) -> None:
    """Move the shares of lifetimes by their losses."""
    shares, losses, n_lifetimes = learner.shares, learner.losses, learner.n_lifetimes
    least, expected = losses[0], 0.0
    for k in range(n_lifetimes):
        least = min(least, losses[k])
        expected += shares[k] * losses[k]
    learner.n_losses = min(learner.n_losses + 1.0, MEMORY)
    mean = learner.mean_loss
    mean += (expected - mean) / learner.n_losses
    learner.mean_loss = mean
    rate = weight * RATE_OF_SHARES / mean if mean > 0.0 else 0.0
    total = 0.0
    for k in range(n_lifetimes):
        excess = min(rate * (losses[k] - least), LARGEST_LOSS)
        shares[k] *= math.exp(-excess)
        total += shares[k]
    for k in range(n_lifetimes):
        shares[k] = (1.0 - SPREAD) * shares[k] / total + SPREAD / n_lifetimes


@exact_inlined
def are_equal(first: Int32s, second: Int32s, n: int) -> bool:
    """Tell whether two arrays of cells are equal."""
    for i in range(n):
        if first[i] != second[i]:
            return False
    return True


@exact_inlined
def learn_lifetimes(
    learner: GradientDescent,
    value: float,
    cells: Int32s,
    n: int,
    target: float,
    weight: float,
    rate: float,
) -> None:
    """Learn a mapped sample at each lifetime."""
    for k in range(learner.n_lifetimes):
        own = cells.part(n * k, n)
        score_cells(learner, value, own, n)
        differentiate(learner, target, weight)
        descend_cells(learner, value, own, n, rate)


@exact_inlined
def learn_compared(
    learner: GradientDescent,
    value: float,
    before: Int32s,
    cells: Int32s,
    n: int,
    target: float,
    weight: float,
    rate: float,
) -> None:
    """Learn a mapped sample at each lifetime, and move the shares by how these predicted it.

    They did so by the cells that it had `before` its map learned it.
    """
    for k in range(learner.n_lifetimes):
        old, own = before.part(n * k, n), cells.part(n * k, n)
        score_cells(learner, value, old, n)
        learner.losses[k] = compared_loss(learner, target)
        if not are_equal(old, own, n):
            score_cells(learner, value, own, n)
        differentiate(learner, target, weight)
        descend_cells(learner, value, own, n, rate)
    update_shares(learner, weight)
