"""Functions for several parts: forests, losses of models on a stream, and sizes of runs."""

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
from ..report import Report, pyplot

# Lines of a picture: a name, whether the excesses are of absolute errors, and the excesses.
Excesses = list[tuple[str, bool, list[float]]]

# Constructors with the argument `seed` and other arguments.
CLASSIFIERS: dict[str, Callable[..., Any]] = {
    "exact": MondrianForestClassifier,
    "adaptive": AdaptiveMondrianForestClassifier,
}
REGRESSORS: dict[str, Callable[..., Any]] = {
    "gaussian": MondrianForestRegressor,
    "mean": lambda **kwargs: MondrianForestRegressor(posterior="mean", **kwargs),
}


class Limits(NamedTuple):
    """Sizes of a run; 0 selects the default of the part."""

    samples: int = 0
    seeds: int = 0
    placements: int = 0

    def over(self, own: Limits) -> Limits:
        """Return these sizes, with the sizes `own` of the part in place of 0."""
        return Limits(*(given or size for given, size in zip(self, own, strict=True)))


def hit(model: Any, x: Any, y: Any) -> bool:
    """Return whether the most probable class is the label."""
    p = model.predict_proba_one(x)
    return bool(p) and max(p, key=p.__getitem__) == y


def misses(model: Any, samples: Stream) -> Array:
    """Return 1 for each wrong class and 0 otherwise; a sample is predicted before it is learned."""
    found = np.empty(len(samples))
    for i, (x, y) in enumerate(samples):
        found[i] = not hit(model, x, y)
        model.learn_one(x, y)
    return found


def deviations(model: Any, samples: Stream) -> Array:
    """Return the absolute errors; a sample is predicted before it is learned."""
    found = np.empty(len(samples))
    for i, (x, y) in enumerate(samples):
        # River's AMF returns None before the first sample.
        found[i] = abs((model.predict_one(x) or 0.0) - y)
        model.learn_one(x, y)
    return found


def excess(loss: float, least: float, regression: bool) -> float:
    """Return the excess: a difference of error rates, or percent of the absolute error."""
    return 100.0 * (loss / least - 1.0) if regression else loss - least


def written(value: float, regression: bool) -> str:
    """Return an excess as text."""
    return f"{value:+.1f} %" if regression else f"{value:+.4f}"


def scored(loss: float, regression: bool) -> str:
    """Return a loss as text: the accuracy for an error rate, or the absolute error."""
    return f"{loss:.4g}" if regression else f"{1.0 - loss:.4f}"


def plot_excesses(
    report: Report,
    excesses: Excesses,
    labels: dict[bool, str],
    size: tuple[float, float],
    linear: dict[bool, float] | None = None,
) -> None:
    """Draw excesses of error rates on the left and of absolute errors on the right.

    If `linear` is given, larger excesses are on a logarithmic scale.
    """
    plt = pyplot()
    if plt is None or not excesses:
        return
    figure, axes = plt.subplots(1, 2, figsize=size)
    for axis, regression in zip(axes, (False, True), strict=True):
        shown = [(name, found) for name, is_one, found in excesses if is_one == regression]
        for i, (_, found) in enumerate(shown):
            axis.plot(found, np.full(len(found), i), "o", alpha=0.5)
        if linear:
            axis.set_xscale("symlog", linthresh=linear[regression])
        names = [name for name, _ in shown]
        axis.set(yticks=range(len(shown)), yticklabels=names, xlabel=labels[regression])
    figure.tight_layout()
    report.figure(figure, "")
    plt.close(figure)
