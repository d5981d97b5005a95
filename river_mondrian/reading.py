"""Reading a forest: text, tables and drawings of its trees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .partitions.mondrian.inspection import NodeView
from .partitions.mondrian.trees import MondrianTrees

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from .forest import MondrianForest


def _nodes(model: MondrianForest[Any], tree: int) -> list[Any]:
    if not 0 <= tree < model._n_readable:
        raise ValueError(f"tree must be in 0..{model._n_readable - 1}, got {tree!r}")
    return [] if model._trees is None else model._trees.read(tree)


def _name(model: MondrianForest[Any], dim: int) -> Any:
    """Return what a tree's dimension is called."""
    return model.features[dim] if model.directions is None else f"direction {dim}"


def _distance(node: NodeView, values: Any) -> float:
    """Return how far values lie outside a node's box, missing ones aside."""
    outside = np.fmax(node.lower - values, values - node.upper)
    return float(np.nansum(np.fmax(outside, 0.0)))


def describe(model: MondrianForest[Any], x: Mapping[Any, Any], tree: int) -> str:
    """Describe how a tree predicts a sample."""
    nodes = _nodes(model, tree)
    if not nodes:
        return "nothing has been learned yet"
    summary = model._summary(x)
    trees = model._grown()
    row = trees.values_of_row(tree)
    lines = [f"tree {tree} of {model._n_readable}"]
    number = 0
    stays = 1.0
    while True:
        node = nodes[number]
        values = row[: len(node.lower)]
        eta = _distance(node, values)
        if eta > 0.0:
            stays *= math.exp(-eta * node.delta)
        about = f"time {node.time:.4g}, {node.n_samples} samples, branched off {1.0 - stays:.3f}"
        indent = "  " * (node.depth + 1)
        if node.is_leaf:
            text = model._leaf_text(node)
            lines.append(f"{indent}leaf{' (paused)' if node.paused else ''} {text} ({about})")
            break
        name = _name(model, node.dim)
        value = values[node.dim]
        threshold = trees.cut_of(tree, node.dim, node.cut)[1]
        if math.isnan(value):
            left, right = nodes[node.left], nodes[node.right]
            near, far = _distance(left, values), _distance(right, values)
            goes_left = near < far or (near == far and left.n_samples >= right.n_samples)
            sign = "is missing, cut at"
        else:
            goes_left = value <= node.cut
            sign = "<=" if goes_left else ">"
        lines.append(f"{indent}{name!r} {sign} {threshold:.6g} ({about})")
        number = node.left if goes_left else node.right
    lines.append("forest")
    lines.extend(f"  {line}" for line in summary)
    return "\n".join(lines)


def to_dataframe(model: MondrianForest[Any], tree: int) -> pd.DataFrame:
    """Return the nodes of a tree as a frame."""
    import pandas as pd

    nodes = _nodes(model, tree)
    trees = model._grown()
    frame = pd.DataFrame(
        {
            "parent": [node.parent for node in nodes],
            "left": [node.left for node in nodes],
            "right": [node.right for node in nodes],
            "depth": [node.depth for node in nodes],
            "is_leaf": [node.is_leaf for node in nodes],
            "paused": [node.paused for node in nodes],
            "time": [node.time for node in nodes],
            "feature": [None if node.is_leaf else _name(model, node.dim) for node in nodes],
            "threshold": [
                math.nan if node.is_leaf else trees.cut_of(tree, node.dim, node.cut)[1]
                for node in nodes
            ],
            "n_samples": [node.n_samples for node in nodes],
            **model._columns(nodes),
        }
    )
    frame.index.name = "node"
    return frame


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    _, new = plt.subplots()
    return new


def draw(model: MondrianForest[Any], tree: int, ax: Axes | None) -> Axes:
    """Draw a tree with time running down."""
    ax = _axes(ax)
    nodes = _nodes(model, tree)
    leaves = [i for i, node in enumerate(nodes) if node.is_leaf]
    across = {leaf: float(place) for place, leaf in enumerate(leaves)}
    for i in range(len(nodes) - 1, -1, -1):
        if not nodes[i].is_leaf:
            across[i] = (across[nodes[i].left] + across[nodes[i].right]) / 2.0
    times = [node.time for node in nodes if not node.is_leaf]
    latest = max(times, default=1.0)
    end = float(min(model._grown().end_of(tree), 1.1 * latest))
    colors = model._colors(nodes)

    def height(node: NodeView) -> float:
        return min(node.time, end)

    for i, node in enumerate(nodes):
        top = 0.0 if node.parent < 0 else height(nodes[node.parent])
        ax.plot([across[i], across[i]], [top, height(node)], color="0.5", linewidth=0.8)
        if node.is_leaf:
            ax.plot(across[i], end, marker="o", markersize=4, color=colors[i], linestyle="none")
        else:
            ends = [across[node.left], across[node.right]]
            ax.plot(ends, [node.time, node.time], color="0.5", linewidth=0.8)
    legend = model._legend()
    for label, color in legend.items():
        ax.plot([], [], marker="o", linestyle="none", color=color, label=label)
    if legend:
        ax.legend(fontsize="small")
    ax.invert_yaxis()
    ax.set_xticks([])
    ax.set_ylabel("time")
    ax.set_title(f"tree {tree}: {len(leaves)} leaves")
    return ax


def _clip(
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
        cells[node.left] = _clip(cell, normal, threshold)
        cells[node.right] = _clip(cell, -normal, -threshold)
    return cells


def _name_axes(ax: Axes, names: list[Any], title: str) -> None:
    ax.autoscale_view()
    ax.set_xlabel(str(names[0]))
    ax.set_ylabel(str(names[1]))
    ax.set_title(title)


def _check_plane(names: list[Any]) -> None:
    if len(names) != 2:
        raise ValueError(f"a partition is drawn for two features, there are {len(names)}")


def draw_partition(model: MondrianForest[Any], tree: int, ax: Axes | None) -> Axes:
    """Draw the cells of a tree over two features, and the boxes of their samples."""
    from matplotlib.patches import Polygon

    _check_plane(model.features)
    ax = _axes(ax)
    nodes = _nodes(model, tree)
    trees = model._grown()
    colors = model._colors(nodes)
    # A box without width is drawn as a line.
    widths = 1e-6 * (nodes[0].upper - nodes[0].lower)
    for i, cell in cells_of_plane(trees, tree, nodes).items():
        ax.add_patch(Polygon(cell, facecolor=colors[i], alpha=0.25))
        ax.add_patch(Polygon(cell, fill=False, edgecolor="0.4", lw=0.5))
        held = cell
        for dim in range(len(nodes[i].lower)):
            for sign, bound in ((1.0, nodes[i].upper[dim]), (-1.0, nodes[i].lower[dim])):
                normal, threshold = trees.cut_of(tree, dim, bound + sign * widths[dim])
                held = _clip(held, sign * normal, sign * threshold)
        ax.add_patch(Polygon(held, facecolor=colors[i], edgecolor=colors[i]))
    _name_axes(ax, model.features, f"partition of tree {tree}")
    return ax


def draw_cells(
    trees: MondrianTrees[Any, Any], tree: int, names: list[Any], time: float, ax: Axes | None
) -> Axes:
    """Draw the cells of a tree over two features at a time."""
    from matplotlib.patches import Polygon

    _check_plane(names)
    ax = _axes(ax)
    cells = cells_of_plane(trees, tree, trees.read(tree), time)
    for cell in cells.values():
        ax.add_patch(Polygon(cell, fill=False, edgecolor="0.2", lw=0.8))
    _name_axes(ax, names, f"partition {tree}: {len(cells)} cells")
    return ax
