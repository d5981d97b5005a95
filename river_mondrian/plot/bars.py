"""Importances of features, and what features add to a prediction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..arguments import check_integer, is_real, told
from . import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def importances(model: Any, most: int = 20, ax: Axes | None = None) -> Axes:
    """Draw the importances of features, or what they add to one prediction, as bars.

    Parameters
    ----------
    model
        A forest with `feature_importances`; or a mapping from feature to number, such as
        `explain_one` returns (of a classifier, what it returns for one of the labels).
    most
        Number of features that have a bar: those with the largest numbers in size. The others share
        one, which is what they add up to.
    ax
        Axes of matplotlib to draw on; None stands for those of a new figure.

    Returns
    -------
    The axes, with the largest bar on top. Bars to the left, below 0, have another colour.

    Raises
    ------
    TypeError
        If there are no importances.
    ValueError
        If `most` is less than 1.

    Examples
    --------

    >>> from river import datasets
    >>> from river_mondrian import MondrianForestClassifier, plot

    >>> model = MondrianForestClassifier(seed=42)
    >>> for x, y in datasets.Phishing().take(300):
    ...     model.learn_one(x, y)
    >>> ax = plot.importances(model, most=5)
    >>> len(ax.patches)
    6
    >>> ax = plot.importances(model.explain_one(x)[True])

    """
    check_integer("most", most, 1)
    found = model if isinstance(model, Mapping) else getattr(model, "feature_importances", None)
    if not isinstance(found, Mapping):
        raise TypeError(
            "importances need a forest with feature_importances or a mapping from feature to "
            f"number, got {told(model)}"
        )
    for name, value in found.items():
        if isinstance(value, Mapping):
            raise TypeError(
                f"there is a mapping for each label: choose one, such as explain_one(x)[{name!r}]"
            )
        if not is_real(value):
            raise TypeError(f"what feature {name!r} tells must be a number, got {value!r}")
    ranked = sorted(found.items(), key=lambda item: -abs(item[1]))
    bars = [(canvas.text(name), float(value)) for name, value in ranked[:most]]
    if rest := ranked[most:]:
        n = len(rest)
        bars.append((f"{n} other{'' if n == 1 else 's'}", float(sum(v for _, v in rest))))
    ax = canvas.axes_for(ax)
    names, values = [name for name, _ in bars], [value for _, value in bars]
    colors = [canvas.COLORS[0] if value >= 0.0 else canvas.COLORS[1] for value in values]
    # Two features may have names that read alike.
    ax.barh(range(len(bars)), values, color=colors)
    ax.set_yticks(range(len(bars)), names)
    ax.invert_yaxis()
    ax.axvline(0.0, color=canvas.NEUTRAL, linewidth=0.8)
    ax.set_xlabel("adds to the prediction" if found is model else "importance")
    return ax
