"""Pictures of trees on a time axis, and of partitions, densities and scores in the plane."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arguments import check_integer, check_ranges, is_real, told
from ..partitions.mondrian.reading import NodeView, TreeView
from . import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Branch ends have text if there are at most MOST_TEXTS, and horizontal text if there are at most
# MOST_IN_LINE, because more texts would overlap.
MOST_TEXTS, MOST_IN_LINE = 40, 6
# Width of a letter, and height of a line, as multiples of the font size.
LETTER, LINE = 0.6, 1.3
# Time drawn after the last cut, as a share of the last cut's time.
AFTER = 0.1
# Margin above and below the tree, as a share of the drawn time.
TREE_MARGIN = 0.05


def tree(model: Any, tree: int = 0, max_depth: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw a tree on its time axis.

    Time runs downwards from 0. Each branch is a node. A branch begins when a cut separates the
    node's samples from other samples, and forks when a cut splits the node's samples. A dot is a
    leaf, and a triangle is an omitted subtree. With at most 40 dots and triangles, the text below a
    triangle shows the subtree's numbers of leaves and samples. The colour of dots and triangles
    shows a classifier's most frequent class, or a regressor's mean.

    Parameters
    ----------
    model
        A forest that has learned.
    tree
        Number of the tree.
    max_depth
        Number of levels of cuts that are shown; None shows all levels. If `max_depth` is given,
        each fork has the condition of its cut above it, where there is space. Samples that satisfy
        a condition go left.
    ax
        Axes of matplotlib to draw on; None for the axes of a new figure.

    Returns
    -------
    The axes.

    Raises
    ------
    RuntimeError
        If the forest has no samples.
    TypeError
        If the model has no trees that can be drawn.
    ValueError
        If there is no tree with this number, or `max_depth` is negative.

    Examples
    --------

    >>> from river import datasets
    >>> from river_mondrian import MondrianForestClassifier, plot

    >>> model = MondrianForestClassifier(seed=42)
    >>> for x, y in datasets.Phishing().take(300):
    ...     model.learn_one(x, y)
    >>> ax = plot.tree(model, max_depth=3)
    >>> ax.get_ylabel()
    'time'

    """
    if not hasattr(model, "_tree_view"):
        raise TypeError(f"model must be a forest whose trees can be drawn, got {told(model)}")
    if max_depth is not None:
        check_integer("max_depth", max_depth, 0)
    view = model._tree_view(tree)
    ax = canvas.axes_for(ax)
    nodes = view.nodes
    shown = [i for i, node in enumerate(nodes) if max_depth is None or node.depth <= max_depth]
    ends = [i for i in shown if nodes[i].is_leaf or nodes[i].depth == max_depth]
    forks = sorted({*shown} - {*ends})
    # Ends of branches are side by side, and each fork is halfway between its children, so branches
    # do not cross.
    across = {end: float(x) for x, end in enumerate(ends)}
    for i in reversed(forks):
        across[i] = (across[nodes[i].left] + across[nodes[i].right]) / 2.0
    latest = max((nodes[i].time for i in forks), default=0.0)
    bottom = min(view.end, (1.0 + AFTER) * latest or 1.0) or 1.0
    _draw_branches(ax, nodes, across, forks, bottom)
    _draw_ends(ax, view, across, ends, bottom)
    ax.set(xlim=(-0.7, len(ends) - 0.3), ylim=((1.0 + TREE_MARGIN) * bottom, -TREE_MARGIN * bottom))
    if max_depth is not None:
        _write_cuts(ax, view, across, forks)
    canvas.explain_colors(ax, view.shades)
    leaves, deepest = sum(node.is_leaf for node in nodes), max(node.depth for node in nodes)
    note = "" if len(shown) == len(nodes) else f", {max_depth} of {deepest} levels shown"
    title = f"tree {tree}: {leaves} lea{'f' if leaves == 1 else 'ves'}{note}"
    ax.set(xticks=[], ylabel="time", title=title)
    return ax


def _draw_branches(
    ax: Axes, nodes: Sequence[NodeView], across: dict[int, float], forks: list[int], bottom: float
) -> None:
    """Draw the branches: a vertical line for each node, and a horizontal line for each fork."""
    from matplotlib.collections import LineCollection

    lines = []
    for i in across:
        node = nodes[i]
        top = 0.0 if node.parent < 0 else nodes[node.parent].time
        # The triangle of an omitted subtree begins at the top of its branch, so the line has no
        # length.
        end = node.time if i in forks else (bottom if node.is_leaf else top)
        lines.append([(across[i], top), (across[i], end)])
        if i in forks:
            lines.append([(across[node.left], end), (across[node.right], end)])
    width = 0.8 if len(across) - len(forks) <= 100 else 0.4
    ax.add_collection(LineCollection(lines, colors=canvas.NEUTRAL, linewidths=width))


def _draw_ends(
    ax: Axes, view: TreeView, across: dict[int, float], ends: list[int], bottom: float
) -> None:
    """Draw a dot for each leaf, and a triangle with numbers for each omitted subtree."""
    from matplotlib.patches import Polygon

    nodes = view.nodes
    colors = canvas.node_colors(view.shades, len(nodes))
    leaves = [i for i in ends if nodes[i].is_leaf]
    kinds = [0] * len(leaves)
    if view.shades is not None and view.shades.classes is not None:
        kinds = view.shades.values[leaves].astype(int).tolist()
    size = 16.0 if len(leaves) <= 100 else 6.0
    for k in sorted(set(kinds)):
        of_kind = [i for i, kind in zip(leaves, kinds, strict=True) if kind == k]
        xs, shades = [across[i] for i in of_kind], [colors[i] for i in of_kind]
        look: dict[str, Any] = {"marker": canvas.marker(k), "zorder": 3, "clip_on": False}
        ax.scatter(xs, [bottom] * len(xs), size, shades, **look)
    below = np.array([int(node.is_leaf) for node in nodes])
    # Nodes are in preorder. In reverse order, the children of a node are added to the node before
    # the node is added to its parent.
    for i in range(len(nodes) - 1, 0, -1):
        below[nodes[i].parent] += below[i]
    for i in ends:
        if nodes[i].is_leaf:
            continue
        top = 0.0 if nodes[i].parent < 0 else nodes[nodes[i].parent].time
        corners = [(across[i], top), (across[i] - 0.35, bottom), (across[i] + 0.35, bottom)]
        ax.add_patch(Polygon(corners, fc=colors[i], ec=canvas.NEUTRAL, alpha=0.6, lw=0.8))
        if len(ends) <= MOST_TEXTS:
            in_line = len(ends) <= MOST_IN_LINE
            shown = f"{below[i]} leaves,{chr(10) if in_line else ' '}{nodes[i].n_samples} samples"
            look = {"ha": "center", "va": "top", "rotation": 0 if in_line else 90}
            look["fontsize"] = "small" if len(ends) <= MOST_TEXTS // 2 else "x-small"
            look["xycoords"] = ax.get_xaxis_transform()
            canvas.write(ax, shown, (across[i], 0.0), (0, -4), **look)


def _write_cuts(ax: Axes, view: TreeView, across: dict[int, float], forks: list[int]) -> None:
    """Write each cut above its fork, upper cuts first; omit a text that would hide another text."""
    size = 8.0
    # Letters are measured in typographic points, so the size of the axes is converted to points.
    extent, scale = ax.get_window_extent(), 72.0 / ax.figure.dpi
    width, height = scale * extent.width, scale * extent.height
    left, right = ax.get_xlim()
    late, early = ax.get_ylim()
    taken: list[tuple[float, float, float]] = []
    for i in sorted(forks, key=lambda i: view.nodes[i].depth):
        x = (across[i] - left) / (right - left) * width
        y = (view.nodes[i].time - early) / (late - early) * height
        half = 0.5 * LETTER * size * len(view.cuts[i])
        is_free = all(
            abs(x - its_x) >= half + its_half or abs(y - its_y) >= LINE * size
            for its_x, its_y, its_half in taken
        )
        if is_free:
            taken.append((x, y, half))
            point = across[i], view.nodes[i].time
            canvas.write(ax, canvas.text(view.cuts[i]), point, (0, 2), ha="center", fontsize=size)


def partition(model: Any, tree: int = 0, time: float = math.inf, ax: Axes | None = None) -> Axes:
    """Draw a tree's partition of the plane of two features into cells.

    For a forest, the bounding box of the samples in each cell is drawn darker. The colour of a cell
    shows a classifier's most frequent class, or a regressor's mean.

    Parameters
    ----------
    model
        A forest, or `MondrianFeatures`, that has learned samples of two features.
    tree
        Number of the tree or partition.
    time
        Cuts after this time are omitted.
    ax
        Axes of matplotlib to draw on; None for the axes of a new figure.

    Returns
    -------
    The axes.

    Raises
    ------
    RuntimeError
        If the model has no samples.
    TypeError
        If the model has no partitions that can be drawn.
    ValueError
        If there are not exactly two features, there is no tree with this number, or `time` is not a
        number >= 0.

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
        raise TypeError(f"model must have partitions that can be drawn, got {told(model)}")
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
    n = len(plane.cells)
    title = f"partition {tree}: {n} cell{'' if n == 1 else 's'}"
    ax.set(xlabel=canvas.text(plane.names[0]), ylabel=canvas.text(plane.names[1]), title=title)
    return ax


def density_map(
    model: Any,
    ranges: Mapping[Any, tuple[float, float]],
    at: Mapping[Any, Any] | None = None,
    n: int = 80,
    ax: Axes | None = None,
) -> Axes:
    """Draw the density over two features as a map of colours.

    Parameters
    ----------
    model
        A `DensityForest`, or another object with `density_one`.
    ranges
        The two features, each with its lowest and highest value, (low, high).
    at
        Values of the other features; None if all other features are missing.
    n
        Number of grid points along each feature.
    ax
        Axes of matplotlib to draw on; None for the axes of a new figure.

    Returns
    -------
    The axes, with a colour bar.

    Raises
    ------
    TypeError
        If the model has no `density_one`, or `at` is not a mapping.
    ValueError
        If there are not two features, a range is invalid, or `n` is less than 2.

    Examples
    --------

    >>> import random
    >>> from river_mondrian import DensityForest, plot

    >>> rng = random.Random(42)
    >>> forest = DensityForest(10, seed=42)
    >>> for _ in range(500):
    ...     forest.learn_one({"a": rng.gauss(0.0, 1.0), "b": rng.gauss(0.0, 1.0)})
    >>> ax = plot.density_map(forest, {"a": (-3.0, 3.0), "b": (-3.0, 3.0)}, n=20)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('a', 'b')

    """
    return _map(model, "density", ranges, at, n, ax)


def score_map(
    model: Any,
    ranges: Mapping[Any, tuple[float, float]],
    at: Mapping[Any, Any] | None = None,
    n: int = 80,
    ax: Axes | None = None,
) -> Axes:
    """Draw a detector's score over two features as a map of colours.

    Parameters
    ----------
    model
        A detector with `score_one`, of this package or of River.
    ranges
        The two features, each with its lowest and highest value, (low, high).
    at
        Values of the other features; None if all other features are missing.
    n
        Number of grid points along each feature.
    ax
        Axes of matplotlib to draw on; None for the axes of a new figure.

    Returns
    -------
    The axes, with a colour bar.

    Raises
    ------
    TypeError
        If the model has no `score_one`, or `at` is not a mapping.
    ValueError
        If there are not two features, a range is invalid, or `n` is less than 2.

    Examples
    --------

    >>> import random
    >>> from river_mondrian import RandomCutForest, plot

    >>> rng = random.Random(42)
    >>> detector = RandomCutForest(10, seed=42)
    >>> for _ in range(500):
    ...     detector.learn_one({"a": rng.gauss(0.0, 1.0), "b": rng.gauss(0.0, 1.0)})
    >>> ax = plot.score_map(detector, {"a": (-5.0, 5.0), "b": (-5.0, 5.0)}, n=20)

    """
    return _map(model, "score", ranges, at, n, ax)


def _map(
    model: Any, name: str, ranges: Mapping[Any, tuple[float, float]], at: Any, n: int, ax: Any
) -> Axes:
    """Draw the results of a model's method on a grid of points in the plane."""
    reading = getattr(model, f"{name}_one", None)
    if not callable(reading):
        raise TypeError(f"model must have {name}_one, got {told(model)}")
    check_integer("n", n, 2)
    if not isinstance(ranges, Mapping) or len(ranges) != 2:
        raise ValueError(f"ranges must map two features to (low, high), got {ranges!r}")
    check_ranges(ranges, True)
    if at is not None and not isinstance(at, Mapping):
        raise TypeError(f"at must be a mapping from feature to value, got {at!r}")
    (first, across), (second, upwards) = ranges.items()
    xs, ys = np.linspace(*across, n), np.linspace(*upwards, n)
    rest = dict(at or {})
    values = [[reading({**rest, first: x, second: y}) for x in xs.tolist()] for y in ys.tolist()]
    ax = canvas.axes_for(ax)
    mesh = ax.pcolormesh(xs, ys, np.array(values), cmap=canvas.COLORMAP, rasterized=True)
    ax.figure.colorbar(mesh, ax=ax, label=canvas.text(name))
    ax.set(xlabel=canvas.text(first), ylabel=canvas.text(second))
    return ax
