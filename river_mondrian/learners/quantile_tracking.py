"""Thresholds of intervals and sets of classes, which follow the quantiles of errors online.

A threshold moves up after a target beyond it, and down after one within it, in proportions that
balance if it holds as often as asked (Gibbs and Candès 2021). Thresholds are values: a function
returns new ones, so that predictions that wait for their target keep those of their time.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

Thresholds = tuple[float, ...]

# Coverages whose thresholds are tracked. Others lie between them, or beyond the last one.
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
MIDDLE = len(LEVELS)
# Quantiles of the lower ends from the widest interval on, the median, and those of the upper ends.
QUANTILES = (
    *((1.0 - level) / 2.0 for level in reversed(LEVELS)),
    0.5,
    *((1.0 + level) / 2.0 for level in LEVELS),
)
# Number of labels before predictions are judged, and over which steps keep most of their size.
N_FIRST = 20


class Steering(NamedTuple):
    """How thresholds move: the size of the first steps, for scores within +-`bound`."""

    first: float
    bound: float


# For errors in units of their size, and for the log-odds of classes.
INTERVALS = Steering(0.1, 20.0)
SETS = Steering(0.3, 8.0)
# Steps shrink to this part of the first ones.
LAST = 0.1
# If labels come late, the steps until the effect of one is seen add up to this at most, so that
# thresholds do not overshoot.
UNSEEN = 0.75


def step(steering: Steering, n: int, delay: int) -> float:
    """Return the size of a step after `n` labels, for a label that is `delay` late."""
    usual = steering.first * max(LAST, math.sqrt(N_FIRST / (N_FIRST + n)))
    return min(usual, UNSEEN / (delay + 1.0))


def moves(p: float) -> tuple[float, float]:
    """Return how far the threshold of a quantile moves after a score within it, and beyond it.

    These are subgradients of the pinball loss over their standard deviation, so that thresholds of
    large coverages move as fast as others. In the middle, moves are -1 and 1.
    """
    deviation = math.sqrt(p * (1.0 - p))
    return (p - 1.0) / deviation, p / deviation


WITHIN, BEYOND = zip(*map(moves, QUANTILES), strict=True)
WITHIN_LEVELS, BEYOND_LEVELS = zip(*map(moves, LEVELS), strict=True)


def log_odds(p: float) -> float:
    """Return the log-odds of a probability between 0 and 1."""
    return math.log(p / (1.0 - p))


# Places of the levels on the line on which thresholds are interpolated; a coverage of 0 is at 0.
PLACES = tuple(map(log_odds, QUANTILES[MIDDLE:]))


@functools.lru_cache
def place_of(coverage: float) -> tuple[int, float]:
    """Return the number i of a level, and the place of a coverage from level i - 1 (0) to i (1)."""
    place = log_odds((1.0 + coverage) / 2.0)
    i = min(bisect_right(PLACES, place), len(LEVELS))
    return i, (place - PLACES[i - 1]) / (PLACES[i] - PLACES[i - 1])


def at(thresholds: Sequence[float], coverage: float) -> float:
    """Return the threshold of a coverage; `thresholds` are those of 0 and of `LEVELS`.

    Thresholds are tracked separately and may cross, so each counts as at least all before it.
    """
    i, part = place_of(coverage)
    below = max(thresholds[:i])
    return below + part * max(thresholds[i] - below, 0.0)


# Intervals.


@dataclass
class Interval:
    """A prediction of a target, and the thresholds at that time.

    `remembered` is passed to the model when the target comes, unless it is None.
    """

    n_learned: int
    centre: float
    scale: float
    thresholds: Thresholds
    remembered: bytes | None


@dataclass
class Errors:
    """Number of targets, mean size of their errors, thresholds from the lowest up."""

    n: int
    size: float
    thresholds: Thresholds


# Quantiles of the logistic distribution, in units of its mean size.
NO_ERRORS = Errors(0, 0.0, tuple(log_odds(p) / math.log(4.0) for p in QUANTILES))


def judge(errors: Errors, predicted: Interval, y: float, delay: int) -> Errors:
    """Return the thresholds after the target of a predicted interval has come."""
    error, bound = y - predicted.centre, INTERVALS.bound
    n, size, thresholds = errors.n, errors.size, errors.thresholds
    if not math.isfinite(error):
        # The model has predicted no number; its interval is infinite.
        return errors
    # The first predictions say little about the later ones.
    if predicted.n_learned >= N_FIRST:
        if predicted.scale > 0.0:
            z = min(max(error / predicted.scale, -bound), bound)
        else:
            z = math.copysign(bound, error) if error else 0.0
        eta = step(INTERVALS, n, delay)
        # Both ends belong to the interval.
        thresholds = tuple(
            [
                h + eta * (within if (z < old if p < 0.5 else z <= old) else beyond)
                for p, within, beyond, h, old in zip(
                    QUANTILES, WITHIN, BEYOND, thresholds, predicted.thresholds, strict=True
                )
            ]
        )
    # A wild error counts as 20 usual ones.
    away = min(abs(error), 20.0 * size) if size > 0.0 else abs(error)
    return Errors(n + 1, size + (away - size) / min(n + 1.0, 300.0), thresholds)


def ends_of(predicted: Interval, coverage: float) -> tuple[float, float]:
    """Return the ends of the interval of a coverage."""
    thresholds, centre, scale = predicted.thresholds, predicted.centre, predicted.scale
    low = at([-h for h in thresholds[MIDDLE::-1]], coverage)
    high = at(thresholds[MIDDLE:], coverage)
    return (
        centre - scale * low if low < INTERVALS.bound else -math.inf,
        centre + scale * high if high < INTERVALS.bound else math.inf,
    )


# Sets of classes.


@dataclass
class Odds:
    """Number of labels, thresholds of sets that are never empty, and of exact ones."""

    n: int
    never_empty: Thresholds
    exact: Thresholds


NO_ODDS = Odds(0, (0.0,) * len(LEVELS), (0.0,) * len(LEVELS))


@dataclass
class Classes:
    """A prediction of a label, and the thresholds at that time by class."""

    n_learned: int
    probabilities: Mapping[Hashable, float]
    odds: Mapping[Hashable, Odds]


def likeliest(probabilities: Mapping[Hashable, float]) -> Hashable:
    """Return the most probable class; among equal ones, the first."""
    return max(probabilities, key=probabilities.__getitem__)


def score_of(probability: float) -> float:
    """Return minus the log-odds of a class, within the bound."""
    if not 0.0 < probability < 1.0:
        return -SETS.bound if probability >= 1.0 else SETS.bound
    return min(max(-log_odds(probability), -SETS.bound), SETS.bound)


def _moved(thresholds: Thresholds, old: Thresholds, score: float, eta: float) -> Thresholds:
    """Return thresholds of sets moved after a score; the set was made with `old`."""
    moved = zip(WITHIN_LEVELS, BEYOND_LEVELS, thresholds, old, strict=True)
    return tuple(
        [h + eta * (within if score <= then else beyond) for within, beyond, h, then in moved]
    )


def judge_label(
    tracked: Mapping[Hashable, Odds], predicted: Classes, y: Hashable, by_class: bool, delay: int
) -> Mapping[Hashable, Odds]:
    """Return the thresholds, by class or of all (None), after a label has come."""
    probabilities = predicted.probabilities
    # No set could have held a label that the model did not know.
    if y not in probabilities:
        return tracked
    name = y if by_class else None
    now, old = tracked.get(name, NO_ODDS), predicted.odds.get(name, NO_ODDS)
    # The first predictions say little about the later ones.
    if predicted.n_learned < N_FIRST:
        return {**tracked, name: replace(now, n=now.n + 1)}
    if by_class:
        # The thresholds of a class move at its labels only.
        delay = now.n - old.n
    eta, score = step(SETS, now.n, delay), score_of(probabilities[y])
    # The most probable class is in each set that is never empty.
    is_first = y == likeliest(probabilities)
    never_empty = _moved(now.never_empty, old.never_empty, -math.inf if is_first else score, eta)
    exact = _moved(now.exact, old.exact, score, eta)
    never_empty = tuple([max(h, -SETS.bound) for h in never_empty])
    return {**tracked, name: Odds(now.n + 1, never_empty, exact)}


def least_of(odds: Odds, coverage: float, exact: bool) -> float:
    """Return the least probability of a class in a set."""
    end = at((-SETS.bound, *(odds.exact if exact else odds.never_empty)), coverage)
    return 1.0 / (1.0 + math.exp(end)) if end < SETS.bound else 0.0


def set_of(predicted: Classes, coverage: float, by_class: bool, exact: bool) -> set[Hashable]:
    """Return the set of classes of a coverage, never empty unless it is exact."""
    probabilities, odds = predicted.probabilities, predicted.odds
    names = probabilities if by_class else (None,)
    leasts = {name: least_of(odds.get(name, NO_ODDS), coverage, exact) for name in names}
    found = {k for k, p in probabilities.items() if p >= leasts[k if by_class else None]}
    if not exact and probabilities:
        found.add(likeliest(probabilities))
    return found
