"""Reading the nodes of a tree from its memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...records import Float32s
from . import light
from .records import EMPTY, Node, Point


@dataclass
class NodeView:
    """One node of a tree, read from its memory."""

    parent: int
    depth: int
    is_leaf: bool
    paused: bool
    time: float
    delta: float
    dim: int
    cut: float
    n_samples: int
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    left: int = field(default=-1, kw_only=True)
    right: int = field(default=-1, kw_only=True)

    @property
    def mass(self) -> float:
        """What the samples below count for where the larger of two blocks is asked for."""
        return self.n_samples


class Shades(NamedTuple):
    """What nodes are coloured by: the numbers of classes, which have names, or numbers.

    Attributes
    ----------
    values
        A number for each node.
    classes
        The classes, where the values are their numbers; None else.
    name
        What the values are.

    """

    values: NDArray[np.float64]
    classes: list[Any] | None
    name: str


class TreeView(NamedTuple):
    """A tree as it is drawn.

    Attributes
    ----------
    nodes
        Its nodes in preorder.
    cuts
        What the cut of each node says, "" for leaves.
    shades
        What the nodes are coloured by, if anything.
    end
        When cutting ends.

    """

    nodes: list[Any]
    cuts: list[str]
    shades: Shades | None
    end: float


V = TypeVar("V", bound=NodeView)

# What a kind of trees says of a reference and its record, a node's or a point's.
Kept = Callable[[int, Any], tuple[bool, bool, tuple[Any, ...]]]


def box_at(forest: Any, t: int, ref: int) -> NDArray[np.float32]:
    """Return both corners of the box of a tree's node: shape (2, dimensions)."""
    box = np.empty((2, int(forest.dim_capacity)), dtype=np.float32)
    light.read_box.of(type(forest))(forest, t, ref, Float32s.of(box.reshape(-1)))
    return box


def read_tree(forest: Any, t: int, end: float, view: type[V], kept: Kept) -> list[V]:
    """Read a tree's nodes in preorder; its leaves last until its end."""
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
        if ref < 0:
            point: Point = forest.points.row(~ref)
            low = high = forest.values_in(tree, point).view()
            n_samples, dim, delta, cut, left, right = 1, -1, 0.0, math.nan, EMPTY, EMPTY
            is_leaf, paused, extra = kept(ref, point)
        else:
            row: Node = tree.nodes.row(ref)
            low, high = box_at(forest, t, ref)
            n_samples, dim, left, right = row.n_samples, row.dim, row.left, row.right
            delta, cut = float(row.delta), float(row.cut)
            is_leaf, paused, extra = kept(ref, row)
        if is_leaf:
            delta, dim, cut = end - tau, -1, math.nan
        node = view(
            parent,
            depth,
            is_leaf,
            paused,
            end if is_leaf else tau + delta,
            delta,
            dim,
            cut,
            n_samples,
            low[:n_dims].astype(np.float64),
            high[:n_dims].astype(np.float64),
            *extra,
        )
        nodes.append(node)
        if not is_leaf:
            waiting.append((right, number, "right", tau + delta, depth + 1))
            waiting.append((left, number, "left", tau + delta, depth + 1))
    return nodes
