"""Reading a forest: text, tables and drawings of its trees."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .kernels.layout import HORIZON, LIFETIME
from .trees import MondrianTrees, Node

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from .forest import MondrianForest


def _nodes(model: MondrianForest[Any], tree: int) -> list[Any]:
    if not 0 <= tree < model.n_estimators:
        raise ValueError(f"tree must be in 0..{model.n_estimators - 1}, got {tree!r}")
    return [] if model._trees is None else model._trees.read(tree)


def _raw(trees: MondrianTrees[Any], dim: int, value: float) -> float:
    """Return a scaled value in the feature's own units."""
    return float(value / trees.scaling[1, dim] + trees.scaling[0, dim])


def _distance(node: Node, values: Any) -> float:
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
    row = trees.rows[0].astype(np.float64)
    lines = [f"tree {tree} of {model.n_estimators}"]
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
        name = model.features[node.dim]
        value = values[node.dim]
        threshold = _raw(trees, node.dim, node.cut)
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
    features = model.features
    frame = pd.DataFrame(
        {
            "parent": [node.parent for node in nodes],
            "left": [node.left for node in nodes],
            "right": [node.right for node in nodes],
            "depth": [node.depth for node in nodes],
            "is_leaf": [node.is_leaf for node in nodes],
            "paused": [node.paused for node in nodes],
            "time": [node.time for node in nodes],
            "feature": [None if node.is_leaf else features[node.dim] for node in nodes],
            "threshold": [
                math.nan if node.is_leaf else _raw(trees, node.dim, node.cut) for node in nodes
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
    end = min(float(model._grown().reals[[LIFETIME, HORIZON]].min()), 1.1 * latest)
    colors = model._colors(nodes)

    def height(node: Node) -> float:
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


def draw_partition(model: MondrianForest[Any], tree: int, ax: Axes | None) -> Axes:
    """Draw the cells of a tree over two features, and the boxes of their samples."""
    from matplotlib.patches import Rectangle

    features = model.features
    if len(features) != 2:
        raise ValueError(f"a partition is drawn for two features, there are {len(features)}")
    ax = _axes(ax)
    nodes = _nodes(model, tree)
    trees = model._grown()
    colors = model._colors(nodes)
    root = nodes[0]
    margin = 0.02 * np.maximum(root.upper - root.lower, 1e-9)
    cells = {0: (root.lower - margin, root.upper + margin)}

    def corners(lower: Any, upper: Any) -> tuple[tuple[float, float], float, float]:
        left, bottom = (_raw(trees, d, lower[d]) for d in range(2))
        right, top = (_raw(trees, d, upper[d]) for d in range(2))
        return (left, bottom), right - left, top - bottom

    for i, node in enumerate(nodes):
        lower, upper = cells.pop(i)
        if node.is_leaf:
            color = colors[i]
            ax.add_patch(Rectangle(*corners(lower, upper), facecolor=color, alpha=0.25))
            ax.add_patch(Rectangle(*corners(lower, upper), fill=False, edgecolor="0.4", lw=0.5))
            ax.add_patch(
                Rectangle(*corners(node.lower, node.upper), facecolor=color, edgecolor=color)
            )
            continue
        below, above = upper.copy(), lower.copy()
        below[node.dim] = above[node.dim] = node.cut
        cells[node.left] = (lower, below)
        cells[node.right] = (above, upper)
    ax.autoscale_view()
    ax.set_xlabel(str(features[0]))
    ax.set_ylabel(str(features[1]))
    ax.set_title(f"partition of tree {tree}")
    return ax
