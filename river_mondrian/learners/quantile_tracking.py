"""Thresholds of intervals and of sets of classes, which track quantiles of errors online.

A threshold moves up if the score of a label is above the threshold, and down otherwise. Scores are
scaled errors of targets, or negated log-odds of classes. The moves balance if the coverage is the
requested coverage (Gibbs and Candès 2021). The first predictions (`N_NEEDED`) move no threshold.
Thresholds are immutable: each update returns new thresholds. So a prediction that waits for its
target keeps the thresholds that it used.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

Thresholds = tuple[float, ...]

# Coverages with tracked thresholds, called levels. `at` interpolates thresholds of other coverages,
# and extrapolates above 0.99.
COVERAGES = (0.5, 0.8, 0.9, 0.95, 0.99)
MIDDLE = len(COVERAGES)
# Quantiles in ascending order: lower ends (the widest interval first), median, upper ends.
QUANTILES = (
    *((1.0 - level) / 2.0 for level in reversed(COVERAGES)),
    0.5,
    *((1.0 + level) / 2.0 for level in COVERAGES),
)
# A prediction moves thresholds only if the model had learned at least this number of labels. The
# number also sets how fast steps shrink (`step`).
N_NEEDED = 20


class Steering(NamedTuple):
    """Size of the first steps of thresholds, and bound on scores (scaled errors or log-odds)."""

    first: float
    bound: float


# Scores of intervals are scaled errors, and scores of sets are negated log-odds of classes.
INTERVAL_STEERING = Steering(0.1, 20.0)
SET_STEERING = Steering(0.3, 8.0)
# Steps shrink to this fraction of the first steps.
LEAST_STEP = 0.1
# If labels are late, thresholds take several steps before the first step affects a judged
# prediction. These steps add up to at most UNSEEN, because otherwise thresholds would overshoot.
UNSEEN = 0.75


def step(steering: Steering, n: int, delay: int) -> float:
    """Return the size of a step after `n` labels, for a label that is `delay` labels late."""
    usual = steering.first * max(LEAST_STEP, math.sqrt(N_NEEDED / (N_NEEDED + n)))
    return min(usual, UNSEEN / (delay + 1.0))


def moves(p: float) -> tuple[float, float]:
    """Return a threshold's moves after scores within and beyond the threshold.

    The moves are negative subgradients of the pinball loss, divided by their standard deviation. So
    thresholds of large coverages move as fast as other thresholds. For the median, moves are -1 and
    1.
    """
    deviation = math.sqrt(p * (1.0 - p))
    return (p - 1.0) / deviation, p / deviation


WITHIN, BEYOND = zip(*map(moves, QUANTILES), strict=True)
WITHIN_LEVELS, BEYOND_LEVELS = zip(*map(moves, COVERAGES), strict=True)


def log_odds(p: float) -> float:
    """Return the log-odds of a probability between 0 and 1."""
    return math.log(p / (1.0 - p))


def upper_log_odds(coverage: float) -> float:
    """Return the log-odds of a coverage's upper quantile, even if the quantile rounds to 1."""
    return math.log((1.0 + coverage) / (1.0 - coverage))


# Log-odds of the upper quantiles of coverage 0 and of each level. Between levels, thresholds are
# linear in the log-odds.
LOG_ODDS = tuple(map(upper_log_odds, (0.0, *COVERAGES)))


@functools.lru_cache
def position_of(coverage: float) -> tuple[int, float]:
    """Return a level's number i, and the position of a coverage between levels i - 1 and i.

    The position is 0 at level i - 1, and 1 at level i. Level 0 has the coverage 0. Above the last
    level, i is its number and the position exceeds 1.
    """
    log_odds = upper_log_odds(coverage)
    i = min(bisect_right(LOG_ODDS, log_odds), len(COVERAGES))
    return i, (log_odds - LOG_ODDS[i - 1]) / (LOG_ODDS[i] - LOG_ODDS[i - 1])


def at(thresholds: Sequence[float], coverage: float) -> float:
    """Return a coverage's threshold, given the thresholds of coverage 0 and of each level.

    Thresholds are tracked separately and may cross. So each threshold is raised to the largest
    threshold of the smaller coverages.
    """
    i, position = position_of(coverage)
    below = max(thresholds[:i])
    return below + position * max(thresholds[i] - below, 0.0)


# Intervals.


@dataclass
class Interval:
    """A prediction of a target, and the thresholds at the time of the prediction.

    The model gets `remembered` when the target arrives, unless `remembered` is None.
    """

    n_learned: int
    centre: float
    scale: float
    thresholds: Thresholds
    remembered: bytes | None


@dataclass
class Errors:
    """Number of targets, mean size of errors, and thresholds in ascending order of quantiles."""

    n: int
    size: float
    thresholds: Thresholds


# The first thresholds are quantiles of the logistic distribution, divided by its mean absolute
# value.
NO_ERRORS = Errors(0, 0.0, tuple(log_odds(p) / math.log(4.0) for p in QUANTILES))


def judge(errors: Errors, predicted: Interval, y: float, delay: int) -> Errors:
    """Return the errors and thresholds updated with the target of a predicted interval."""
    error, bound = y - predicted.centre, INTERVAL_STEERING.bound
    n, size, thresholds = errors.n, errors.size, errors.thresholds
    if not math.isfinite(error):
        # The prediction is not finite, so its interval is infinite and contains any target.
        return errors
    # The first predictions are much less accurate than later predictions, so they move no
    # threshold.
    if predicted.n_learned >= N_NEEDED:
        if predicted.scale > 0.0:
            z = min(max(error / predicted.scale, -bound), bound)
        else:
            z = math.copysign(bound, error) if error else 0.0
        eta = step(INTERVAL_STEERING, n, delay)
        # Both ends belong to the interval. So an error equal to a lower threshold is not below it,
        # and an error equal to another threshold is not above it.
        thresholds = tuple(
            [
                h + eta * (within if (z < old if p < 0.5 else z <= old) else beyond)
                for p, within, beyond, h, old in zip(
                    QUANTILES, WITHIN, BEYOND, thresholds, predicted.thresholds, strict=True
                )
            ]
        )
    # Errors are clipped at 20 mean sizes, because an outlier must have a bounded effect.
    away = min(abs(error), 20.0 * size) if size > 0.0 else abs(error)
    return Errors(n + 1, size + (away - size) / min(n + 1.0, 300.0), thresholds)


def ends_of(predicted: Interval, coverage: float) -> tuple[float, float]:
    """Return the ends of the predicted interval with a given coverage."""
    thresholds, centre, scale = predicted.thresholds, predicted.centre, predicted.scale
    low = at([-h for h in thresholds[MIDDLE::-1]], coverage)
    high = at(thresholds[MIDDLE:], coverage)
    return (
        centre - scale * low if low < INTERVAL_STEERING.bound else -math.inf,
        centre + scale * high if high < INTERVAL_STEERING.bound else math.inf,
    )


# Sets of classes.


@dataclass
class Odds:
    """Number of labels, and the thresholds of never-empty sets and of exact sets."""

    n: int
    never_empty: Thresholds
    exact: Thresholds


NO_ODDS = Odds(0, (0.0,) * len(COVERAGES), (0.0,) * len(COVERAGES))


@dataclass
class Classes:
    """A prediction of a label, and the thresholds by class at the time of the prediction."""

    n_learned: int
    probabilities: Mapping[Hashable, float]
    odds: Mapping[Hashable, Odds]


def likeliest(probabilities: Mapping[Hashable, float]) -> Hashable:
    """Return the most probable class; of equally probable classes, the first."""
    return max(probabilities, key=probabilities.__getitem__)


def score_of(probability: float) -> float:
    """Return minus the log-odds of a class, within the bound of `SET_STEERING`."""
    if not 0.0 < probability < 1.0:
        return -SET_STEERING.bound if probability >= 1.0 else SET_STEERING.bound
    return min(max(-log_odds(probability), -SET_STEERING.bound), SET_STEERING.bound)


def _moved(thresholds: Thresholds, old: Thresholds, score: float, eta: float) -> Thresholds:
    """Return the thresholds after a score, judged by the thresholds `old` of the predicted set."""
    moved = zip(WITHIN_LEVELS, BEYOND_LEVELS, thresholds, old, strict=True)
    return tuple(
        [h + eta * (within if score <= then else beyond) for within, beyond, h, then in moved]
    )


def judge_label(
    tracked: Mapping[Hashable, Odds], predicted: Classes, y: Hashable, by_class: bool, delay: int
) -> Mapping[Hashable, Odds]:
    """Return the thresholds by class, or by None for all classes, updated with a label."""
    probabilities = predicted.probabilities
    # A label that the model did not know is in no set, so it moves no threshold.
    if y not in probabilities:
        return tracked
    name = y if by_class else None
    now, old = tracked.get(name, NO_ODDS), predicted.odds.get(name, NO_ODDS)
    # The first predictions are much less accurate than later predictions, so they move no
    # threshold.
    if predicted.n_learned < N_NEEDED:
        return {**tracked, name: replace(now, n=now.n + 1)}
    if by_class:
        # The delay counts labels of this class, because only they move its thresholds.
        delay = now.n - old.n
    eta, score = step(SET_STEERING, now.n, delay), score_of(probabilities[y])
    # Without `exact`, a set always contains the most probable class, whose score is then -inf.
    is_first = y == likeliest(probabilities)
    never_empty = _moved(now.never_empty, old.never_empty, -math.inf if is_first else score, eta)
    exact = _moved(now.exact, old.exact, score, eta)
    never_empty = tuple([max(h, -SET_STEERING.bound) for h in never_empty])
    return {**tracked, name: Odds(now.n + 1, never_empty, exact)}


def least_of(odds: Odds, coverage: float, exact: bool) -> float:
    """Return the smallest probability with which a class belongs to a set."""
    end = at((-SET_STEERING.bound, *(odds.exact if exact else odds.never_empty)), coverage)
    return 1.0 / (1.0 + math.exp(end)) if end < SET_STEERING.bound else 0.0


def set_of(predicted: Classes, coverage: float, by_class: bool, exact: bool) -> set[Hashable]:
    """Return the set of classes for a coverage.

    If the model knows at least one class, only an exact set may be empty.
    """
    probabilities, odds = predicted.probabilities, predicted.odds
    names = probabilities if by_class else (None,)
    leasts = {name: least_of(odds.get(name, NO_ODDS), coverage, exact) for name in names}
    classes = {k for k, p in probabilities.items() if p >= leasts[k if by_class else None]}
    if not exact and probabilities:
        classes.add(likeliest(probabilities))
    return classes
