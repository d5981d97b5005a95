"""Text and tables of trees, and data for pictures of trees and scores."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from river import base

from .. import arguments, checks
from ..frames import Frame, native_series
from ..inputs import FeatureIndex, Floats, as_dict, check_level
from ..model import Model, locked
from ..partitions.mondrian import reading
from ..progress import pieces

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def _distance(node: reading.NodeView, values: Any) -> float:
    """Return the L1 distance of values to a node's box; missing values are ignored."""
    outside = np.fmax(node.lower - values, values - node.upper)
    return float(np.nansum(np.fmax(outside, 0.0)))


class InspectableForest(Model, abc.ABC):
    """Base class of the forests whose trees can be inspected."""

    n_estimators: int
    _features: FeatureIndex
    # Whether features may be categories.
    _takes_levels = True
    # None before the first sample; `_grown` creates the trees.
    _trees: Any
    _grown: Callable[[], Any]

    @property
    @locked
    def feature_names(self) -> list[Any]:
        """Names of the known features, in the order of the trees' inputs."""
        return list(self._features.names)

    @property
    def _n_readable(self) -> int:
        """Number of trees that can be inspected."""
        return self.n_estimators

    def _nodes(self, tree: int) -> list[Any]:
        """Return a tree's nodes in preorder."""
        arguments.check_index("tree", tree, self._n_readable)
        return [] if self._trees is None else self._trees.reader.read(tree)

    def _name(self, dim: int) -> Any:
        """Return the name of a tree's dimension."""
        return self.feature_names[dim] if self._takes_levels else f"direction {dim}"

    # Descriptions of nodes, which subclasses define.

    def _columns(self, nodes: list[Any]) -> dict[str, list[Any]]:
        """Return the columns that `to_dataframe` adds for this class of forests."""
        return {}

    def _leaf_text(self, node: Any) -> str:
        """Return the description of a leaf in `debug_one`."""
        return ""

    @abc.abstractmethod
    def _summary(self, x: Mapping[Any, Any]) -> list[str]:
        """Return the lines that describe the forest's prediction in `debug_one`."""

    def _shades(self, nodes: list[Any]) -> reading.Shades | None:
        """Return the values that colour nodes; None if all nodes have the same colour."""
        return None

    @locked
    def debug_one(self, x: Mapping[Any, Any], tree: int = 0) -> str:
        """Return a text that describes how one tree predicts a sample.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category.
        tree
            Number of the tree, from 0 on.

        Returns
        -------
        A text with a line per node on the path of `x`, and the forest's prediction. A line shows
        the node's cut, time and number of samples, and the probability that `x` branches off the
        tree at or above the node.

        """
        x = as_dict(x)
        nodes = self._nodes(tree)
        if not nodes:
            return "nothing has been learned yet"
        summary = self._summary(x)
        reader = self._grown().reader
        row = reader.values_of_row(tree)
        lines = [f"tree {tree} of {self._n_readable}"]
        number = 0
        stays = 1.0
        while True:
            node = nodes[number]
            values = row[: len(node.lower)]
            eta = _distance(node, values)
            if eta > 0.0:
                stays *= math.exp(-eta * node.delta)
            said = f"time {node.time:.4g}, {node.n_samples} samples, branched off {1.0 - stays:.3f}"
            indent = "  " * (node.depth + 1)
            if node.is_leaf:
                text = self._leaf_text(node)
                lines.append(f"{indent}leaf{' (paused)' if node.paused else ''} {text} ({said})")
                break
            name = self._name(node.dim)
            value = values[node.dim]
            at = f" at {value:.6g}" if name in self._features.categories and value == value else ""
            threshold = reader.cut_of(tree, node.dim, node.cut)[1]
            if math.isnan(value):
                left, right = nodes[node.left], nodes[node.right]
                near, far = _distance(left, values), _distance(right, values)
                goes_left = near < far or (near == far and left.mass >= right.mass)
                sign = "is missing, cut at"
            else:
                goes_left = value <= node.cut
                sign = "<=" if goes_left else ">"
            lines.append(f"{indent}{name!r}{at} {sign} {threshold:.6g} ({said})")
            number = node.left if goes_left else node.right
        lines.append("forest")
        lines.extend(f"  {line}" for line in summary)
        return "\n".join(lines)

    @locked
    def to_dataframe(self, tree: int = 0) -> pd.DataFrame:
        """Return the nodes of a tree in preorder.

        Parameters
        ----------
        tree
            Number of the tree, from 0 on.

        Returns
        -------
        A frame with a row per node. The columns parent, left and right are node numbers, or -1 if
        there is no such node. The other columns are depth, is_leaf, paused, time, feature,
        threshold (in the feature's own units) and n_samples. With `directions`, the feature is
        "direction K", and the threshold applies to the weighted sum of element K of
        `cut_directions`, counted from 0. The threshold of a category separates the places of its
        levels (`level_places`). A classifier adds the columns count_LABEL: the counts of classes in
        its posterior. In `MondrianForestClassifier`, an inner node counts a class at most once for
        each child (Kneser-Ney smoothing), and a leaf counts all its samples.
        `MondrianForestRegressor` adds the columns mean and variance: the posterior of the node's
        mean. `AdaptiveMondrianForestRegressor` adds mean and late_mean: the means of all targets
        and of the latest targets.

        """
        pd = checks.require("pandas", "pandas", "to_dataframe")
        nodes = self._nodes(tree)
        reader = self._grown().reader
        names = ("parent", "left", "right", "depth", "is_leaf", "paused", "time")
        columns: dict[str, list[Any]] = {name: [getattr(n, name) for n in nodes] for name in names}
        columns["feature"] = [None if n.is_leaf else self._name(n.dim) for n in nodes]
        columns["threshold"] = [
            math.nan if n.is_leaf else reader.cut_of(tree, n.dim, n.cut)[1] for n in nodes
        ]
        columns["n_samples"] = [n.n_samples for n in nodes]
        index = pd.RangeIndex(len(nodes), name="node")
        return pd.DataFrame(columns | self._columns(nodes), index)

    @locked
    def _tree_view(self, tree: int) -> reading.TreeView:
        """Return the data for a picture of a tree."""
        nodes, reader = self._learned_nodes(tree), self._grown().reader
        cuts = [""] * len(nodes)
        for i, node in enumerate(nodes):
            if not node.is_leaf:
                threshold = reader.cut_of(tree, node.dim, node.cut)[1]
                cuts[i] = f"{self._name(node.dim)} <= {threshold:.3g}"
        return reading.TreeView(nodes, cuts, self._shades(nodes), float(reader.end_of(tree)))

    @locked
    def _plane(self, tree: int, time: float) -> reading.Plane:
        """Return a tree's partition of the plane of two features, at the given time."""
        nodes, reader = self._learned_nodes(tree), self._grown().reader
        reading.check_plane(self.feature_names)
        # With these margins, a box without width is visible as a line.
        widths = 1e-6 * (nodes[0].upper - nodes[0].lower)
        cells = reading.cells_of_plane(reader, tree, nodes, time)
        boxes = [reading.box_in(reader, tree, nodes[i], cell, widths) for i, cell in cells.items()]
        shades = self._shades(nodes)
        if shades is not None:
            shades = shades._replace(values=shades.values[list(cells)])
        return reading.Plane(list(cells.values()), boxes, shades, self.feature_names)

    def _learned_nodes(self, tree: int) -> list[Any]:
        """Return a tree's nodes; raise an error if the forest has no samples."""
        nodes = self._nodes(tree)
        if not nodes:
            raise RuntimeError(f"{type(self).__name__} has to learn a sample first")
        return nodes

    def draw(self, tree: int = 0, ax: Axes | None = None, max_depth: int | None = None) -> Axes:
        """Draw a tree on its time axis; see `river_mondrian.plot.tree`.

        Parameters
        ----------
        tree
            Number of the tree, from 0 on.
        ax
            Axes of matplotlib to draw on; None for the axes of a new figure.
        max_depth
            Number of levels of the tree that are shown; None shows all.

        Returns
        -------
        The axes.

        """
        from ..plot.planes import tree as draw_tree

        return draw_tree(self, tree, max_depth, ax)

    def draw_partition(self, tree: int = 0, ax: Axes | None = None) -> Axes:
        """Draw a tree's partition of the plane; see `river_mondrian.plot.partition`.

        Parameters
        ----------
        tree
            Number of the tree, from 0 on.
        ax
            Axes of matplotlib to draw on; None for the axes of a new figure.

        Returns
        -------
        The axes.

        Raises
        ------
        RuntimeError
            If no sample has been learned.
        ValueError
            If the forest does not have exactly two features.

        """
        from ..plot.planes import partition

        return partition(self, tree, ax=ax)

    @locked
    def level_places(
        self, feature: Hashable, levels: Iterable[Any], tree: int = 0
    ) -> dict[Any, float]:
        """Return the place in [0, 1] of each level of a category in a tree.

        Thresholds of cuts separate these places.

        Parameters
        ----------
        feature
            A feature that is a category.
        levels
            Levels, learned or not.
        tree
            Number of the tree, from 0 on.

        Returns
        -------
        A mapping from level to its place in [0, 1].

        Raises
        ------
        TypeError
            If a level is missing, or its type is not allowed for levels.
        ValueError
            If the feature is not a category.

        """
        if feature not in self._features.categories:
            raise ValueError(f"feature {feature!r} is not a learned category")
        arguments.check_index("tree", tree, self._n_readable)
        reader, dim = self._grown().reader, self.feature_names.index(feature)
        codes = {raw: check_level(feature, raw) for raw in levels}
        for raw, code in codes.items():
            if code != code:
                raise TypeError(f"a level of feature {feature!r} must not be missing, got {raw!r}")
        return {raw: reader.level_place(tree, dim, code) for raw, code in codes.items()}

    @locked
    def cut_directions(self, tree: int = 0) -> list[dict[Any, float]]:
        """Return the directions in which a tree cuts.

        Parameters
        ----------
        tree
            Number of the tree, from 0 on.

        Returns
        -------
        For each direction, a mapping from feature to coefficient, in the features' own units. A cut
        separates samples by the weighted sum of their values. Without `directions`, each feature
        has its own direction. The list is empty before the first sample.

        """
        arguments.check_index("tree", tree, self._n_readable)
        if self._trees is None:
            return []
        return self._trees.reader.directions_of(tree, self.feature_names)


class ScoringDetector(Model, base.AnomalyDetector):
    """Base class of detectors that keep the raw scores of the latest samples."""

    # Name of the raw score in pictures.
    _SCORE: ClassVar[str]
    # Reads a frame, and checks that its columns have the types of their features.
    _read_frame: Callable[[Any], Frame]
    # `_learn_rows` learns rows. `_score_rows` returns the scores of rows, shape (rows,).
    _learn_rows: Callable[[list[Hashable], Floats], None]
    _score_rows: Callable[[list[Hashable], Floats, bool], Floats]

    @property
    @abc.abstractmethod
    def recent_scores(self) -> list[float]:
        """Raw scores of the latest samples, oldest first."""

    def learn_many(self, X: Any, *, progress: bool = False) -> None:
        """Learn the rows of a frame, in order, with the same result as `learn_one` on each row.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...
            Values are numbers or categories (strings, truth values, categoricals, enums). Nulls and
            NaN are missing values.
        progress
            Whether to show the number of learned rows on stderr, with tqdm if it is installed, else
            as text. The result does not depend on `progress`. After Ctrl-C, each row has been
            learned completely or not at all.

        Raises
        ------
        TypeError, ValueError
            As for `learn_one`, or if a column occurs twice. Then nothing has been learned.

        """
        _, names, columns = self._read_frame(X)
        for piece in pieces(len(columns), progress):
            self._learn_rows(names, columns[piece])

    @locked
    def score_many(self, X: Any, *, progress: bool = False) -> Any:
        """Return `score_one` of each row of a frame.

        With a `shingle` above 1, the rows count as successive mappings after the last learned
        mapping.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...;
            nulls and NaN are missing values.
        progress
            Whether to show the number of scored rows on stderr, with tqdm if it is installed, else
            as text. The result does not depend on `progress`.

        Returns
        -------
        The scores: a series of the same library as `X`, or an array if `X` is an array. A pandas
        series has the index of `X`.

        Raises
        ------
        TypeError, ValueError
            As for `score_one`, or if a column occurs twice.

        """
        frame, names, columns = self._read_frame(X)
        return native_series(self._score_rows(names, columns, progress), name="score", like=frame)

    @property
    def _n_mappings(self) -> int:
        """Number of mappings learned, including mappings before the first full shingle."""
        return self.n_samples  # type: ignore[attr-defined]

    def draw_scores(self, threshold: float = 0.99, ax: Axes | None = None) -> Axes:
        """Draw the scores of the latest samples; see `river_mondrian.plot.scores`.

        Parameters
        ----------
        threshold
            A quantile level from 0 to 1. Samples whose scores exceed this quantile of the drawn
            scores are marked.
        ax
            Axes of matplotlib to draw on; None for the axes of a new figure.

        Returns
        -------
        The axes. The horizontal axis shows the number of each sample, counted from 1. Numbers
        label the first samples of runs of marked samples. At most 20 labels are drawn, the highest
        scores first, and labels that would overlap are omitted.

        Raises
        ------
        ValueError
            If the threshold is not within [0, 1].

        """
        from ..plot.over_time import scores

        return scores(self, threshold, ax=ax)

    @locked
    def _recent(self) -> tuple[NDArray[np.int64], Floats]:
        """Return the numbers of the latest samples, and their scores."""
        scores = np.array(self.recent_scores, dtype=np.float64)
        return self._n_mappings + 1 - len(scores) + np.arange(len(scores)), scores
