"""Changes of hyperparameters: step by step to where the latest samples are predicted best.

In a large forest a change is spread over the samples that follow, so that none of them waits for
the whole of it: each asks some trees for the densities under one candidate, or lets some trees take
over what has been chosen. Nothing but the trees that have taken it over shows that it is under way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import check_array, check_number, check_types, refuse

# Powers of 2 on the reference's gamma2, and of `NOISE_STEP` on its noise.
Choice = tuple[int, int]

# The noise, over gamma1, is the reference's times a power of this, from 0 to the last, and each
# step away from it has to gain so much log likelihood per sample.
NOISE_STEP = 5.0
LAST_NOISE = 4
LEAST_GAIN = 0.03

# Steps that a choice may go, and candidates that it scores at most: those around each.
MOST_MOVES = 5
MOST_CANDIDATES = 5 * MOST_MOVES

# Targets that are predicted: those of the latest half of the samples, at most so many.
CHOICE_SAMPLES = 128

# More steps than any choice of hyperparameters is away from the reference.
MOST_STEPS = 100


def n_targets(n: int) -> int:
    """Return how many targets are predicted where there are so many samples."""
    return min(n // 2, CHOICE_SAMPLES)


def chosen(
    start: Choice, scores: Mapping[Choice, float], moves_gamma2: bool, moves_noise: bool
) -> tuple[Choice, Choice | None]:
    """Return where steps from a choice lead by the scores, and the candidate that lacks one.

    Without such a candidate the steps have ended.
    """

    def score(one: Choice) -> float:
        return scores[one] - LEAST_GAIN * one[1]

    reached = start
    for _ in range(MOST_MOVES):
        power, step = reached
        near = [reached]
        if moves_gamma2:
            near += [(power - 1, step), (power + 1, step)]
        if moves_noise:
            near += [(power, s) for s in (step - 1, step + 1) if 0 <= s <= LAST_NOISE]
        if len(near) == 1:
            break
        for one in near:
            if one not in scores:
                return reached, one
        best = max(near, key=score)
        if best == reached:
            break
        reached = best
    return reached, None


@dataclass(frozen=True)
class Change:
    """A change of hyperparameters that is under way.

    Parameters
    ----------
    n
        Number of samples at which it began.
    at
        Number of samples at which its last step was made.
    extent
        Sum of the sides of the root's box at its beginning.
    variance
        Variance of the targets then.
    frame
        The frame that `extent` is in.
    n_forgotten
        How many samples had been forgotten.
    choice
        Where it has begun; what has been chosen, once that is known.
    is_chosen
        Whether it is known, so that trees take it over.
    scores
        The progressive likelihoods of candidates so far.
    n_done
        How many trees have been asked for the present candidate, or have taken over the choice.
    densities
        What `choice.add_densities` has made of them; None before.

    """

    n: int
    at: int
    extent: float
    variance: float
    frame: int
    n_forgotten: int
    choice: Choice
    is_chosen: bool
    scores: dict[Choice, float] = field(default_factory=dict)
    n_done: int = 0
    densities: NDArray[np.float64] | None = None

    @property
    def n_targets(self) -> int:
        """Number of targets that are predicted: of the latest half of the samples at most."""
        return n_targets(self.n)

    def scored(self, candidate: Choice, score: float) -> Change:
        """Return the change after the last step for a candidate."""
        return replace(self, scores=self.scores | {candidate: score}, n_done=0, densities=None)


def _is_choice(value: Any) -> bool:
    return (
        type(value) is tuple
        and len(value) == 2
        and all(type(step) is int and abs(step) <= MOST_STEPS for step in value)
    )


def check_choice(owner: object, choice: Any) -> None:
    """Refuse a stored choice that is none."""
    if not _is_choice(choice):
        refuse(owner, "choice", choice, f"but it is two integers within {MOST_STEPS}")


def check_change(owner: Any, state: Any) -> None:
    """Refuse the stored state of a change of an owner's trees that could not be under way."""
    if type(state) is not dict or set(state) != set(Change.__dataclass_fields__):
        refuse(owner, "change", state, "but it has other parts")
    change = Change(**state)
    whole = dict.fromkeys(("n", "at", "frame", "n_forgotten", "n_done"), int)
    real = dict.fromkeys(("extent", "variance"), float)
    check_types(change, whole | real | {"is_chosen": bool, "choice": tuple, "scores": dict})
    forest = owner.forest
    check_number(change, "n", change.n, 1, forest.n_samples)
    check_number(change, "at", change.at, change.n, forest.n_samples)
    check_number(change, "frame", change.frame, 0, 1)
    check_number(change, "n_forgotten", change.n_forgotten, 0, forest.n_forgotten)
    check_number(change, "n_done", change.n_done, 0, forest.n_trees)
    check_number(change, "extent", change.extent, 0.0, math.inf)
    check_number(change, "variance", change.variance, 0.0, math.inf)
    for choice in (change.choice, *change.scores):
        check_choice(change, choice)
    for score in change.scores.values():
        if type(score) is not float:
            refuse(change, "a score", score, "but it should be of float")
    found = change.densities
    if found is not None:
        check_array(change, "densities", np.nan_to_num(found), np.float64, 0.0, math.inf)
        if found.shape != (change.n_targets, 2):
            refuse(change, "the shape of densities", found.shape, "but others have been asked for")
