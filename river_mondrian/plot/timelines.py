"""Scores of detectors over time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arguments import is_real, told
from . import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More numbers would hide each other.
MOST_NUMBERS = 20


def scores(
    scores: Any,
    threshold: float = 0.99,
    anomalies: Iterable[bool] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the scores of a detector over time, and mark what stood out.

    Parameters
    ----------
    scores
        What `score_one` of any detector returned for each sample, in the order of the stream; or a
        `RandomCutForest`, whose `recent_scores` are drawn.
    threshold
        Samples whose rank among those drawn is above it are marked, from 0 to 1.
    anomalies
        Which samples are known to be unusual, if that is known. They are marked below.
    ax
        Axes of matplotlib to draw on; None stands for those of a new figure.

    Returns
    -------
    The axes. From left to right are the numbers of the samples, 1 for the first one; of those
    marked in a row the first has its number beside it, but for no more than 20 of them.

    Raises
    ------
    TypeError
        If these are neither scores nor a `RandomCutForest`.
    ValueError
        If the threshold is not within [0, 1], or there are not as many scores as `anomalies`.

    Examples
    --------

    >>> from river import datasets
    >>> from river_mondrian import DensityForest, plot

    >>> detector = DensityForest(10, seed=42)
    >>> found, odd = [], []
    >>> for x, y in datasets.Shuttle().take(300):
    ...     found.append(detector.score_one(x))
    ...     odd.append(y)
    ...     detector.learn_one(x)
    >>> ax = plot.scores(found, threshold=0.95, anomalies=odd)
    >>> ax.get_title()
    'samples above 0.95 of the latest 300'

    """
    if not (is_real(threshold) and 0.0 <= threshold <= 1.0):
        raise ValueError(f"threshold must be from 0 to 1, got {threshold!r}")
    if hasattr(scores, "_recent"):
        numbers, found = scores._recent()
        name = "log(1 + displacement) / log(1 + n)"
    else:
        try:
            found = np.array(list(scores), dtype=np.float64)
        except (TypeError, ValueError):
            found = np.zeros((0, 0))
        if found.ndim != 1:
            raise TypeError(f"scores must be numbers or a RandomCutForest, got {told(scores)}")
        numbers, name = np.arange(1, len(found) + 1), "score"
    known = None if anomalies is None else np.array(list(anomalies), dtype=bool)
    if known is not None and len(known) != len(found):
        raise ValueError(f"there are {len(found)} scores but {len(known)} anomalies")
    ax = canvas.axes_for(ax)
    ax.plot(numbers, found, color=canvas.NEUTRAL, linewidth=0.8)
    if len(found):
        limit = float(np.nanquantile(found, threshold))
        odd = found > limit
        ax.axhline(limit, color=canvas.NEUTRAL, linestyle="--", linewidth=0.8)
        ax.plot(numbers[odd], found[odd], "o", color=canvas.ODD, markersize=4, label="stands out")
        # Of several in a row the first one is named.
        firsts = odd & ~np.roll(odd, 1)
        firsts[0] = odd[0]
        named = np.flatnonzero(firsts)
        named = np.sort(named[np.argsort(-found[named], kind="stable")[:MOST_NUMBERS]])
        for number, score in zip(numbers[named].tolist(), found[named].tolist(), strict=True):
            ax.annotate(
                str(number), (number, score), (3, 3), textcoords="offset points", fontsize="x-small"
            )
    if known is not None:
        # At the foot of the axes, whatever the scores are.
        across = ax.get_xaxis_transform()
        foot = np.full(int(known.sum()), 0.02)
        ax.plot(
            numbers[known],
            foot,
            "|",
            color=canvas.COLORS[0],
            markersize=10,
            transform=across,
            label="known as unusual",
        )
        canvas.name_lines(ax, *ax.get_legend_handles_labels(), beside=True)
    ax.set_xlabel("sample")
    ax.set_ylabel(canvas.text(name))
    ax.set_title(f"samples above {threshold:g} of the latest {len(found)}")
    return ax
