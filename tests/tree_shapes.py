"""What is compared of trees that have one law: roots, sizes and depths."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Shape(NamedTuple):
    """Of a tree the root's time, its dimension and cut, the number of nodes and the mean depth."""

    time: float
    dim: int
    cut: float
    n_nodes: int
    depth: float


def shape_of(trees, t):
    """Return the shape of a tree whose root has a cut, with all that is hidden."""
    table = trees.table(t)
    root = table.refs[0]
    time, dim, cut = (trees.column("nodes", name, t)[root] for name in ("delta", "dim", "cut"))
    assert dim >= 0
    depths = np.zeros(len(table))
    for inner, left in table.levels:
        depths[left] = depths[left + 1] = depths[inner] + 1
    return Shape(float(time), int(dim), float(cut), len(table), float(depths[table.leaves].mean()))
