"""The cells of a tree over two features, as polygons."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .reading import Shades
from .trees import MondrianTrees

Polygon = NDArray[np.float64]


class Plane(NamedTuple):
    """The cells of a tree over two features.

    Attributes
    ----------
    cells
        The cells, each with its corners, shape (corners, 2).
    boxes
        What of each cell its samples lie in; empty where that is not known.
    shades
        What the cells are coloured by, if anything.
    names
        Names of the features.

    """

    cells: list[Polygon]
    boxes: list[Polygon]
    shades: Shades | None
    names: list[Any]


def clip(polygon: Polygon, normal: NDArray[np.float64], threshold: float) -> Polygon:
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
) -> dict[int, Polygon]:
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


def check_plane(names: list[Any]) -> None:
    """Check that there are two features."""
    if len(names) != 2:
        raise ValueError(f"a partition is drawn for two features, there are {len(names)}")


def box_in(
    trees: MondrianTrees[Any, Any], tree: int, node: Any, cell: Polygon, widths: NDArray[np.float64]
) -> Polygon:
    """Return the part of a cell within a node's box, which is at least so wide."""
    for dim in range(len(node.lower)):
        for sign, bound in ((1.0, node.upper[dim]), (-1.0, node.lower[dim])):
            normal, threshold = trees.cut_of(tree, dim, bound + sign * widths[dim])
            cell = clip(cell, sign * normal, sign * threshold)
    return cell
