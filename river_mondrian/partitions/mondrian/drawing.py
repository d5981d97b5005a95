"""Drawing the cells of a tree over two features."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .trees import MondrianTrees

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axes_for(ax: Axes | None) -> Axes:
    """Return where to draw: a new figure for None."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    _, new = plt.subplots()
    return new


def clip(
    polygon: NDArray[np.float64], normal: NDArray[np.float64], threshold: float
) -> NDArray[np.float64]:
    """Return the part of a convex polygon, shape (corners, 2), where <normal, x> <= threshold."""
    heights = polygon @ normal - threshold
    corners = []
    for i, height in enumerate(heights):
        if height <= 0.0:
            corners.append(polygon[i])
        following = (i + 1) % len(polygon)
        if (height < 0.0) != (heights[following] < 0.0) and height != heights[following]:
            share = height / (height - heights[following])
            corners.append(polygon[i] + share * (polygon[following] - polygon[i]))
    return np.array(corners).reshape(-1, 2)


def cells_of_plane(
    trees: MondrianTrees[Any, Any], tree: int, nodes: list[Any], time: float = math.inf
) -> dict[int, NDArray[np.float64]]:
    """Return the cells of a tree over two features at a time, within the range of the samples.

    They are polygons, shape (corners, 2), by the number of the node.
    """
    low, high = trees.ranges()
    margin = 0.02 * np.maximum(high - low, 1e-9)
    low, high = low - margin, high + margin
    cells = {0: np.array([low, [high[0], low[1]], high, [low[0], high[1]]])}
    for i, node in enumerate(nodes):
        if i not in cells or node.is_leaf or node.time > time:
            continue
        cell = cells.pop(i)
        normal, threshold = trees.cut_of(tree, node.dim, node.cut)
        cells[node.left] = clip(cell, normal, threshold)
        cells[node.right] = clip(cell, -normal, -threshold)
    return cells


def name_axes(ax: Axes, names: list[Any], title: str) -> None:
    """Write the names of two features along the axes, and a title."""
    ax.autoscale_view()
    ax.set_xlabel(str(names[0]))
    ax.set_ylabel(str(names[1]))
    ax.set_title(title)


def check_plane(names: list[Any]) -> None:
    """Check that there are two features."""
    if len(names) != 2:
        raise ValueError(f"a partition is drawn for two features, there are {len(names)}")


def draw_cells(
    trees: MondrianTrees[Any, Any], tree: int, names: list[Any], time: float, ax: Axes | None
) -> Axes:
    """Draw the cells of a tree over two features at a time."""
    from matplotlib.patches import Polygon

    check_plane(names)
    ax = axes_for(ax)
    cells = cells_of_plane(trees, tree, trees.read(tree), time)
    for cell in cells.values():
        ax.add_patch(Polygon(cell, fill=False, edgecolor="0.2", lw=0.8))
    name_axes(ax, names, f"partition {tree}: {len(cells)} cells")
    return ax
