"""Functions that read trees: the table of a tree's nodes, views of nodes, and a sample's paths.

`make_table` returns all nodes of a tree as arrays. `read_tree` returns views of the nodes in
preorder. `traced` returns the paths of a sample, with all steps. `contributions` returns the
contribution of each dimension to a prediction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...compiling.kernels import kernel
from ...records import Array, Float32s, Float64s, Floats, Int64, Ints, Memory, Singles, copy_record
from ...records.layout import columns_of
from . import boxes
from .constants import EMPTY
from .records import F, Forest, Node, Tree
from .scaling import scale
from .walks import Prediction, Step, Walk, predict_rows


@dataclass
class TreeTable:
    """The nodes of a tree, numbered depth by depth from the root, with siblings in sequence.

    Parameters
    ----------
    refs
        References to the nodes, in the order of their numbers; empty if the tree is empty.
    by_depth
        For each depth, the numbers of the internal nodes, and the numbers of their left children.
        The number of a right child is the left child's number plus 1.

    """

    refs: Ints
    by_depth: list[tuple[Ints, Ints]]

    def __len__(self) -> int:
        return len(self.refs)

    @cached_property
    def inner(self) -> Ints:
        """The numbers of all internal nodes."""
        return np.concatenate([np.empty(0, np.int64), *(inner for inner, _ in self.by_depth)])

    @cached_property
    def lefts(self) -> Ints:
        """The numbers of the left children of internal nodes."""
        return np.concatenate([np.empty(0, np.int64), *(left for _, left in self.by_depth)])

    @cached_property
    def leaves(self) -> Ints:
        """The numbers of all leaves."""
        is_leaf = np.ones(len(self), dtype=bool)
        is_leaf[self.inner] = False
        return np.flatnonzero(is_leaf)

    def ending_at(self, ends: NDArray[np.bool_]) -> TreeTable:
        """Return the table without the cuts at and below the nodes in the mask `ends`."""
        hidden = ends.copy()
        by_depth: list[tuple[Ints, Ints]] = []
        for inner, left in self.by_depth:
            hidden[left] |= hidden[inner]
            hidden[left + 1] |= hidden[inner]
            shown = ~hidden[inner]
            by_depth.append((inner[shown], left[shown]))
        return TreeTable(self.refs, by_depth)

    def at_leaves(self, of_points: NDArray[Any], of_rows: NDArray[Any]) -> Floats:
        """Return a value per node: the value of a leaf's point or row, or 0 for internal nodes."""
        values, refs = np.zeros(len(self)), self.refs[self.leaves]
        values[self.leaves[refs < 0]] = of_points[~refs[refs < 0]]
        values[self.leaves[refs >= 0]] = of_rows[refs[refs >= 0]]
        return values

    def add_up(self, values: NDArray[Any]) -> None:
        """Set the value of each internal node to the sum of its children's values."""
        for inner, left in reversed(self.by_depth):
            values[inner] = values[left] + values[left + 1]


def make_table(
    root: int, left: NDArray[np.int32], right: NDArray[np.int32], is_leaf: NDArray[np.bool_]
) -> TreeTable:
    """Return the table of a tree's nodes.

    Parameters
    ----------
    root
        Reference to the root.
    left, right
        For each row, the reference to the left child, and to the right child.
    is_leaf
        A mask of the rows that are leaves.

    """
    at_depth = np.array([root] if root != EMPTY else [], dtype=np.int64)
    refs, n = [at_depth], 0
    by_depth: list[tuple[Ints, Ints]] = []
    while True:
        inner = np.flatnonzero(at_depth >= 0)
        inner = inner[~is_leaf[at_depth[inner]]]
        if not len(inner):
            return TreeTable(np.concatenate(refs), by_depth)
        rows = at_depth[inner]
        by_depth.append((n + inner, n + len(at_depth) + 2 * np.arange(len(inner))))
        n += len(at_depth)
        at_depth = np.stack([left[rows], right[rows]], axis=1).reshape(-1).astype(np.int64)
        refs.append(at_depth)


@dataclass
class NodeView:
    """One node of a tree, read from the tree's memory."""

    parent: int
    depth: int
    is_leaf: bool
    paused: bool
    time: float
    delta: float
    dim: int
    cut: float
    n_samples: int
    lower: Floats
    upper: Floats
    left: int = field(default=-1, kw_only=True)
    right: int = field(default=-1, kw_only=True)

    @property
    def mass(self) -> float:
        """The total weight of the samples below the node."""
        return self.n_samples


class Shades(NamedTuple):
    """Indices of classes, or other values, that determine the colours of nodes.

    Attributes
    ----------
    values
        A value for each node.
    classes
        The classes, if the values are indices of classes; otherwise None.
    name
        The name of the values.

    """

    values: Floats
    classes: list[Any] | None
    name: str


class TreeView(NamedTuple):
    """The data for a drawing of a tree.

    Attributes
    ----------
    nodes
        The tree's nodes in preorder.
    cuts
        The text of each node's cut; "" for leaves.
    shades
        The colours of the nodes, or None.
    end
        Time at which leaves end.

    """

    nodes: list[Any]
    cuts: list[str]
    shades: Shades | None
    end: float


V = TypeVar("V", bound=NodeView)

# Function of a reference and the record of its node or point (see `TreeReader.description`).
Description = Callable[[int, Any], tuple[bool, bool, tuple[Any, ...]]]


def box_at(forest: Any, t: int, ref: int) -> Singles:
    """Return both corners of the box of a node or point: shape (2, dim_capacity)."""
    box = np.empty((2, int(forest.dim_capacity)), dtype=np.float32)
    boxes.read_box.of(type(forest))(forest, t, ref, Float32s.of(box.reshape(-1)))
    return box


def read_tree(forest: Any, t: int, end: float, view: type[V], describe: Description) -> list[V]:
    """Return views of a tree's nodes in preorder. Leaves end at the time `end`."""
    n_dims, tree = forest.n_dims, forest.trees[t]
    nodes: list[V] = []
    waiting = [(tree.root, -1, "", 0.0, 0)]
    if tree.root == EMPTY:
        return []
    while waiting:
        ref, parent, side, tau, depth = waiting.pop()
        number = len(nodes)
        if parent >= 0:
            setattr(nodes[parent], side, number)
        record = record_at(forest, tree, ref)
        is_leaf, paused, extra = describe(ref, record)
        if is_leaf:
            time, delta, dim, cut = end, end - tau, -1, math.nan
        else:
            delta, dim, cut = float(record.delta), record.dim, float(record.cut)
            time = tau + delta
            waiting.append((record.right, number, "right", time, depth + 1))
            waiting.append((record.left, number, "left", time, depth + 1))
        n_samples = 1 if ref < 0 else record.n_samples
        box = (side[:n_dims].astype(np.float64) for side in box_at(forest, t, ref))
        cut_and_box = dim, cut, n_samples, *box
        nodes.append(view(parent, depth, is_leaf, paused, time, delta, *cut_and_box, *extra))
    return nodes


# Initial capacity of a trace, in steps per tree.
FIRST_STEPS = 64


class TracedStep(Step):
    """A step of a walk, with the index of the tree and the number of earlier steps on the path."""

    tree: Int64
    depth: Int64


class Trace(Prediction):
    """The steps of a sample's walks. The first `capacity` of the `n` steps are stored."""

    n: Int64
    capacity: Int64
    steps: Array[TracedStep]
    # The values of the sample, in all columns that trees cut.
    values: Float32s

    def add_walk(self, forest: Forest, t: int, walk: Walk, row: int) -> None:
        """Append the steps of a walk."""
        for i in range(1, walk.depth + 1):
            if self.n < self.capacity:
                step = self.steps[self.n]
                copy_record(walk.path[i], step)
                step.tree = t
                step.depth = i - 1
                if not step.eta > 0.0:
                    step.stays = 1.0
            self.n = self.n + 1


@kernel
def trace(forest: F, inputs: Float64s, traced: Trace) -> int:
    """Write the steps of a sample's walks to `traced`.

    Returns DONE, or the index of an input whose value is too large.
    """
    bad = scale(forest, traced.values, inputs)
    if bad < 0:
        traced.n = 0
        predict_rows(forest, traced.values, 1, traced)
    return bad


class Path(NamedTuple):
    """The path of a walk down a tree. Each array has an element for each step.

    If a value is missing, a sample may have several paths in a tree. A later path begins with steps
    whose `reach` is 0, since an earlier path has counted these steps.
    """

    tree: int
    refs: Ints
    # Distance from the node's box. Time from the parent's cut to the node's cut or, at a leaf, to
    # the tree's lifetime or the horizon.
    etas: Floats
    spans: Floats
    # Probability of not branching off above the node, and probability of not branching off at the
    # node.
    reach: Floats
    stays: Floats

    @property
    def leaves(self) -> Floats:
        """The probabilities of branching off at the nodes."""
        return self.reach * (1.0 - self.stays)


def traced(forest: Any, inputs: Floats) -> tuple[int, list[Path], Singles]:
    """Return the status of `trace`, and the paths and values of a sample with these inputs."""
    values = np.empty(int(forest.n_values), dtype=np.float32)
    room = FIRST_STEPS * int(forest.n_trees)
    while True:
        memory = np.empty(room * TracedStep.SIZE, dtype=np.uint8)
        trace_memory = Memory(Trace)
        record = trace_memory[0]
        record.capacity = room
        record.steps = Array.over(TracedStep, memory)
        record.values = Float32s.of(values)
        bad, n = trace(forest, Float64s.of(inputs), record), int(record.n)
        if bad >= 0:
            return bad, [], values
        if n <= room:
            return bad, _paths(memory, n), values
        room = n


def _paths(memory: NDArray[np.uint8], n: int) -> list[Path]:
    """Return the paths that consist of the first `n` steps in `memory`."""
    steps = {c.name: c.over(memory, n, TracedStep.SIZE) for c in columns_of(TracedStep)}
    starts = np.flatnonzero(steps["depth"] == 0).tolist()
    paths = []
    for start, stop in zip(starts, [*starts[1:], n], strict=True):
        columns = (steps[name][start:stop] for name in ("ref", "eta", "span", "reach", "stays"))
        paths.append(Path(int(steps["tree"][start]), *columns))
    return paths


def record_at(forest: Forest, tree: Tree, ref: int) -> Any:
    """Return the record of the node or point that a reference names."""
    return tree.nodes.row(ref) if ref >= 0 else forest.points.row(~ref)


def gaps_from(forest: Forest, t: int, ref: int, x: Singles) -> Floats:
    """Return the distance of a sample from the box of a node, in each dimension."""
    lower, upper = box_at(forest, t, ref)[:, : len(x)]
    # Missing values and unknown bounds are NaN, and add no distance.
    return np.nan_to_num(np.fmax(lower - x, x - upper).astype(np.float64)).clip(0.0)


def contributions(
    forest: Forest, tree: Tree, path: Path, x: Singles, here: Floats, branches: Floats
) -> Floats:
    """Return the contribution of each dimension to a tree's prediction on a path.

    Let w_j be the probability of branching off at node j of the path, and w the probability of not
    branching off. Let G_j be the prediction at node j, and B_j the prediction after branching off
    at node j. A tree predicts sum_j w_j B_j + w G_leaf. The prediction equals G_root + sum_j M_j
    (G_j - G_parent) + sum_j w_j (B_j - G_j). M_j = w + sum_(i >= j) w_i is the probability of
    reaching node j. Term j of the first sum is attributed to the dimension of the parent's cut. The
    dimensions in which the sample is outside the box of node j share term j of the second sum in
    proportion to the distances. These distances are the rates of cuts in each dimension between the
    sample and the box.

    Parameters
    ----------
    forest, tree, path
        The forest, the tree and the path.
    x
        The values of the sample in the column that the tree cuts.
    here, branches
        G_j and w_j (B_j - G_j), with a row for each step.

    """
    parts = np.zeros((len(x), here.shape[1]))
    leaves = path.leaves
    for i, ref in enumerate(path.refs.tolist()):
        if i > 0:
            cut: Node = tree.nodes.row(int(path.refs[i - 1]))
            parts[cut.dim] += path.reach[i] * (here[i] - here[i - 1])
        if leaves[i] > 0.0:
            gaps = gaps_from(forest, path.tree, ref, x)
            parts += np.outer(gaps / gaps.sum(), branches[i])
    return parts


Polygon = Floats


class Plane(NamedTuple):
    """The cells of a tree over two features.

    Attributes
    ----------
    cells
        The cells, each with its corners, shape (corners, 2).
    boxes
        The part of each cell within the box of its samples; an empty list if unknown.
    shades
        The colours of the cells, or None.
    names
        Names of the features.

    """

    cells: list[Polygon]
    boxes: list[Polygon]
    shades: Shades | None
    names: list[Any]


def clip(polygon: Polygon, normal: Floats, threshold: float) -> Polygon:
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
    reader: Any, tree: int, nodes: list[Any], time: float = math.inf
) -> dict[int, Polygon]:
    """Return the cells of a tree over two features at the given time.

    The cells cover the samples' range and a margin of 2 %. The keys are indices into `nodes`, and
    the values are polygons, shape (corners, 2).
    """
    low, high = reader.ranges()
    margin = 0.02 * np.maximum(high - low, 1e-9)
    low, high = low - margin, high + margin
    cells = {0: np.array([low, [high[0], low[1]], high, [low[0], high[1]]])}
    for i, node in enumerate(nodes):
        if i not in cells or node.is_leaf or node.time > time:
            continue
        cell = cells.pop(i)
        normal, threshold = reader.cut_of(tree, node.dim, node.cut)
        cells[node.left] = clip(cell, normal, threshold)
        cells[node.right] = clip(cell, -normal, -threshold)
    return cells


def check_plane(names: list[Any]) -> None:
    """Raise ValueError unless there are two features."""
    if len(names) != 2:
        raise ValueError(f"a partition is drawn for two features, got {len(names)}")


def box_in(reader: Any, tree: int, node: Any, cell: Polygon, widths: Floats) -> Polygon:
    """Return the part of a cell within `widths` of a node's box in each dimension."""
    for dim in range(len(node.lower)):
        for sign, bound in ((1.0, node.upper[dim]), (-1.0, node.lower[dim])):
            normal, threshold = reader.cut_of(tree, dim, bound + sign * widths[dim])
            cell = clip(cell, sign * normal, sign * threshold)
    return cell
