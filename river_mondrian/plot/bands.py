"""Prediction intervals over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arguments import is_real, told
from . import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# How dark the widest and the narrowest interval are.
LIGHTEST, DARKEST = 0.35, 0.7


def intervals(
    targets: Iterable[float],
    laws: Iterable[Any],
    times: Sequence[Any] | None = None,
    levels: Sequence[float] = (0.5, 0.9),
    ax: Axes | None = None,
) -> Axes:
    """Draw targets, what was predicted of them, and the intervals that they should lie in.

    Parameters
    ----------
    targets
        The targets, in the order of the stream.
    laws
        What was predicted of each before it was learned: a law, as `predict_one(x, with_dist=True)`
        and `predict_mixture_one` return, or None where there was none yet.
    times
        When each target was, as numbers or dates. None stands for 1, 2, 3, ...
    levels
        Probabilities of the central intervals, between 0 and 1.
    ax
        Axes of matplotlib to draw on; None stands for those of a new figure.

    Returns
    -------
    The axes. The legend tells what part of the targets is inside of each interval.

    Raises
    ------
    TypeError
        If something is no law, a target no number, or `levels` a number instead of a list.
    ValueError
        If a level is not between 0 and 1, or lengths differ.

    Examples
    --------

    >>> from river import datasets
    >>> from river_mondrian import MondrianForestRegressor, plot

    >>> model = MondrianForestRegressor(seed=42)
    >>> targets, laws = [], []
    >>> for x, y in datasets.TrumpApproval().take(300):
    ...     targets.append(y)
    ...     laws.append(model.predict_mixture_one(x) if model.n_samples else None)
    ...     model.learn_one(x, y)
    >>> ax = plot.intervals(targets, laws, levels=[0.9])
    >>> [line.get_label() for line in ax.lines]
    ['target', 'predicted']

    """
    ys, said = canvas.numbers("targets", targets), list(canvas.iterated("laws", laws))
    when = range(1, len(ys) + 1) if times is None else list(canvas.iterated("times", times))
    levels = list(canvas.iterated("levels", levels))
    if not len(ys) == len(said) == len(when):
        raise ValueError(
            f"there are {len(ys)} targets, {len(said)} laws and {len(when)} times: "
            "there must be as many of each"
        )
    for level in levels:
        if not (is_real(level) and 0.0 < level < 1.0):
            raise ValueError(f"levels must be between 0 and 1, got {level!r}")
    bands = {
        level: np.array([_interval(law, level) for law in said]).reshape(-1, 2)
        for level in sorted(levels, reverse=True)
    }
    centres = [math.nan if law is None else _centre(law) for law in said]
    ax = canvas.axes_for(ax)
    for place, (level, band) in enumerate(bands.items()):
        low, high = band.T
        known = ~np.isnan(low)
        inside = np.mean((low <= ys)[known] & (ys <= high)[known]) if known.any() else math.nan
        ax.fill_between(
            when,
            low,
            high,
            color=canvas.COLORS[4],
            alpha=LIGHTEST + (DARKEST - LIGHTEST) * place / max(len(bands) - 1, 1),
            linewidth=0,
            label=f"{level:.0%} interval, {inside:.1%} inside",
        )
    ax.plot(when, ys, color=canvas.text_color(), linewidth=0.9, label="target")
    ax.plot(when, centres, color=canvas.COLORS[1], linewidth=0.9, label="predicted")
    canvas.name_lines(ax, *ax.get_legend_handles_labels())
    ax.set_xlabel("samples" if times is None else "time")
    ax.set_ylabel("target")
    return ax


def _interval(law: Any, level: float) -> tuple[float, float]:
    """Return the central interval of a law."""
    if law is None:
        return math.nan, math.nan
    if hasattr(law, "interval"):
        low, high = law.interval(level)
        return low, high
    from scipy import special

    # River's normal law has no quantiles.
    half = float(special.ndtri(0.5 + level / 2.0)) * law.sigma if _is_normal(law) else math.nan
    return law.mu - half, law.mu + half


def _centre(law: Any) -> float:
    """Return the mean of a law."""
    return float(law.mean if hasattr(law, "interval") else law.mu)


def _is_normal(law: Any) -> bool:
    """Tell whether this is a normal law of River's."""
    if not (hasattr(law, "mu") and hasattr(law, "sigma")):
        raise TypeError(
            f"laws must have quantiles, as those of predict_one(x, with_dist=True), got {told(law)}"
        )
    return True
