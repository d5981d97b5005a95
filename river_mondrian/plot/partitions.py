"""Partitions of the plane."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..arguments import is_real
from . import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def partition(model: Any, tree: int = 0, time: float = math.inf, ax: Axes | None = None) -> Axes:
    """Draw the cells into which a tree cuts the plane of two features.

    Of a forest the boxes that the samples of each cell lie in are drawn darker. A classifier's
    cells have the colour of the most frequent class, a regressor's that of the mean.

    Parameters
    ----------
    model
        A forest, or `MondrianFeatures`, that has learned samples of two features.
    tree
        Number of the tree or partition.
    time
        Cuts after it are left out.
    ax
        Axes of matplotlib to draw on; None stands for those of a new figure.

    Returns
    -------
    The axes.

    Raises
    ------
    RuntimeError
        If the model has not learned anything.
    TypeError
        If the model has no partitions that can be drawn.
    ValueError
        If there are not exactly two features, or no such tree.

    Examples
    --------

    >>> from river import datasets
    >>> from river_mondrian import MondrianForestClassifier, plot

    >>> model = MondrianForestClassifier(lifetime=4.0, seed=42)
    >>> for x, y in datasets.Bananas().take(300):
    ...     model.learn_one(x, y)
    >>> ax = plot.partition(model, time=2.0)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('1', '2')

    """
    if not hasattr(model, "_plane"):
        raise TypeError(
            "model must be MondrianFeatures or a forest whose partitions can be drawn, "
            f"got {type(model).__name__}"
        )
    if not is_real(time) or not time >= 0.0:
        raise ValueError(f"time must be a number >= 0, got {time!r}")
    plane = model._plane(tree, float(time))
    ax = canvas.axes_for(ax)
    from matplotlib.patches import Polygon

    shades = plane.shades
    colors = canvas.node_colors(shades, len(plane.cells))
    hatches = [""] * len(plane.cells)
    if shades is not None and shades.classes is not None:
        hatches = [canvas.hatch(int(k)) for k in shades.values]
    if plane.boxes:
        for cell, box, color, hatch in zip(plane.cells, plane.boxes, colors, hatches, strict=True):
            ax.add_patch(Polygon(cell, facecolor=color, alpha=0.25, hatch=hatch))
            ax.add_patch(Polygon(cell, fill=False, edgecolor=canvas.NEUTRAL, lw=0.5))
            ax.add_patch(Polygon(box, facecolor=color, edgecolor=color))
    else:
        for cell in plane.cells:
            ax.add_patch(Polygon(cell, fill=False, edgecolor=canvas.NEUTRAL, lw=0.8))
    ax.autoscale_view()
    canvas.explain_colors(ax, shades, areas=True)
    ax.set_xlabel(canvas.text(plane.names[0]))
    ax.set_ylabel(canvas.text(plane.names[1]))
    n = len(plane.cells)
    ax.set_title(f"partition {tree}: {n} cell{'' if n == 1 else 's'}")
    return ax
