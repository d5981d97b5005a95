"""What the parts share: forests, their losses on a stream, and how long a run is to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from river_mondrian import (
    AdaptiveMondrianForestClassifier,
    MondrianForestClassifier,
    MondrianForestRegressor,
)

from ..data import Array, Stream

# Constructors, which take a seed and other arguments.
CLASSIFIERS: dict[str, Callable[..., Any]] = {
    "exact": MondrianForestClassifier,
    "adaptive": AdaptiveMondrianForestClassifier,
}
REGRESSORS: dict[str, Callable[..., Any]] = {
    "gaussian": MondrianForestRegressor,
    "mean": lambda **kwargs: MondrianForestRegressor(posterior="mean", **kwargs),
}


class Limits(NamedTuple):
    """Sizes of a run; 0 leaves the part's own."""

    samples: int = 0
    seeds: int = 0
    placements: int = 0

    def over(self, own: Limits) -> Limits:
        """Return these sizes, and those of the part where there is none."""
        return Limits(*(given or size for given, size in zip(self, own, strict=True)))


def hit(model: Any, x: Any, y: Any) -> bool:
    """Return whether the likeliest class is the label."""
    p = model.predict_proba_one(x)
    return bool(p) and max(p, key=p.__getitem__) == y


def misses(model: Any, samples: Stream) -> Array:
    """Predict each sample, then learn it; returns 1 for each wrong class."""
    found = np.empty(len(samples))
    for i, (x, y) in enumerate(samples):
        found[i] = not hit(model, x, y)
        model.learn_one(x, y)
    return found


def deviations(model: Any, samples: Stream) -> Array:
    """Predict each sample, then learn it; returns the absolute errors."""
    found = np.empty(len(samples))
    for i, (x, y) in enumerate(samples):
        # River's AMF predicts nothing at first.
        found[i] = abs((model.predict_one(x) or 0.0) - y)
        model.learn_one(x, y)
    return found


def excess(loss: float, least: float, regression: bool) -> float:
    """Return how much larger a loss is: of errors in percent, of misses as a difference."""
    return 100.0 * (loss / least - 1.0) if regression else loss - least


def written(value: float, regression: bool) -> str:
    """Write an excess."""
    return f"{value:+.1f} %" if regression else f"{value:+.4f}"


def scored(loss: float, regression: bool) -> str:
    """Write a loss: an error as it is, misses as an accuracy."""
    return f"{loss:.4g}" if regression else f"{1.0 - loss:.4f}"
