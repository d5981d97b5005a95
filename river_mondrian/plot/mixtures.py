"""The weights of what is mixed, over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from . import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Groups of the experts of the adaptive classifier, by how their names end or what they are.
_OF_CLASSES = {
    "all": "trees of all samples",
    "both": "trees of all and of recent samples",
    "softmax, small steps": "lines",
    "softmax, large steps": "lines",
    "naive Bayes": "lines",
}
# Groups of those of the adaptive regressor.
_OF_TARGETS = {
    "linear": "lines",
    "late linear": "lines",
    "latest linear": "lines",
    "additive": "bends",
    "late additive": "bends",
    "waves": "waves",
    "late waves": "waves",
    "waves of logarithms": "waves",
    "late waves of logarithms": "waves",
    "trees, not extended": "trees",
    "trees, extended": "trees",
    "trees of residuals, not extended": "trees of residuals",
    "trees of residuals, extended": "trees of residuals",
    "trees of errors": "trees of errors",
    "recent trees of errors": "trees of errors",
    "first mixture": "first mixture",
    "targets and errors of late": "series",
    "latest targets and errors": "series",
    "last target": "series",
}


def weights(
    history: Iterable[tuple[float, Mapping[str, float]]],
    groups: Mapping[str, str | None] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the weights that an adaptive forest gives to what it mixes, over time.

    Parameters
    ----------
    history
        Pairs (number of samples, `model.weights`), taken now and then while the model learns. What
        was taken before any learning is left out.
    groups
        A mapping from expert to the group with which its weight is added up, None to leave it out.
        Others are by themselves. Without it they are added up by kind: trees, lines, ...
    ax
        Axes of matplotlib to draw on; None stands for those of a new figure.

    Returns
    -------
    The axes, with an area for each group. Where weights are negative, as exponents of the
    classifier and regressions in the mixture of the regressor may be, they are lines.

    Raises
    ------
    TypeError
        If the history holds no pairs of a number and weights.

    Examples
    --------

    >>> from river.datasets import synth
    >>> from river_mondrian import AdaptiveMondrianForestClassifier, plot

    >>> model = AdaptiveMondrianForestClassifier(seed=42)
    >>> history = []
    >>> for i, (x, y) in enumerate(synth.Sine(seed=1).take(400)):
    ...     model.learn_one(x, y)
    ...     if i % 50 == 0:
    ...         history.append((model.n_samples, model.weights))
    >>> ax = plot.weights(history)
    >>> [area.get_label() for area in ax.collections]
    ['trees of all samples', 'trees of all and of recent samples', 'lines']

    """
    numbers: list[float] = []
    rows: list[dict[str, float]] = []
    for item in canvas.iterated("history", history):
        try:
            n, at = item
            found = dict(at.items())
            numbers_of = float(n)
        except (AttributeError, TypeError, ValueError):
            raise TypeError(
                f"history must hold pairs (number of samples, model.weights), got {item!r}"
            ) from None
        if found:
            numbers.append(numbers_of)
            rows.append(_added_up(found, groups))
    names = list(dict.fromkeys(name for row in rows for name in row))
    areas = np.array([[row.get(name, 0.0) for row in rows] for name in names])
    ax = canvas.axes_for(ax)
    if len(areas):
        if (areas >= 0.0).all():
            ax.stackplot(
                numbers,
                areas,
                labels=[canvas.text(name) for name in names],
                colors=[canvas.color(k) for k in range(len(names))],
                hatch=[canvas.hatch(k) for k in range(len(names))],
                alpha=0.8,
            )
            ax.set_ylim(bottom=0.0)
        else:
            for k, (name, line) in enumerate(zip(names, areas, strict=True)):
                ax.plot(
                    numbers, line, canvas.style(k), color=canvas.color(k), label=canvas.text(name)
                )
            ax.axhline(0.0, color=canvas.NEUTRAL, linewidth=0.8)
        ax.set_xlim(numbers[0], max(numbers[-1], numbers[0] + 1.0))
    canvas.name_lines(ax, *ax.get_legend_handles_labels())
    ax.set_xlabel("samples")
    ax.set_ylabel("weight")
    return ax


def _added_up(
    found: Mapping[str, float], groups: Mapping[str, str | None] | None
) -> dict[str, float]:
    """Add weights up by their groups."""
    sums: dict[str, float] = {}
    for name, weight in found.items():
        group = _group_of(name) if groups is None else groups.get(name, name)
        if group is not None:
            sums[group] = sums.get(group, 0.0) + float(weight)
    return sums


def _group_of(name: str) -> str | None:
    """Return the group of an expert of ours; what is unknown is by itself."""
    of_classes = name if name in _OF_CLASSES else name.rpartition(", ")[2]
    if of_classes in _OF_CLASSES:
        return _OF_CLASSES[of_classes]
    return _OF_TARGETS.get(name.partition(":")[0], name)
