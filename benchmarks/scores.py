"""Progressive scores: each sample is predicted before it is learned."""

import math
from typing import Any, NamedTuple

import numpy as np

from .data import Array, Stream

FLOOR = 1e-3  # Smallest probability in the log loss.


class ClassScores(NamedTuple):
    """Accuracy, log loss and Brier score."""

    accuracy: float
    log_loss: float
    brier: float


def class_scores(model: Any, samples: Stream) -> ClassScores:
    """Return the progressive scores of a classifier."""
    right, loss, brier = 0, 0.0, 0.0
    for x, y in samples:
        p = model.predict_proba_one(x)
        right += bool(p) and max(p, key=p.__getitem__) == y
        own = p.get(y, 0.0)
        loss -= math.log(max(own, FLOOR))
        brier += 1.0 - 2.0 * own + sum(q * q for q in p.values())
        model.learn_one(x, y)
    n = len(samples)
    return ClassScores(right / n, loss / n, brier / n)


def misses(model: Any, samples: Stream) -> Array:
    """Return 1 for each wrong class and 0 otherwise."""
    found = np.empty(len(samples))
    for i, (x, y) in enumerate(samples):
        p = model.predict_proba_one(x)
        found[i] = not (bool(p) and max(p, key=p.__getitem__) == y)
        model.learn_one(x, y)
    return found


def deviations(model: Any, samples: Stream) -> Array:
    """Return the absolute error of each sample."""
    found = np.empty(len(samples))
    for i, (x, y) in enumerate(samples):
        # River's AMF returns None before the first sample.
        found[i] = abs((model.predict_one(x) or 0.0) - y)
        model.learn_one(x, y)
    return found
