"""Views of a forest's parts, by the addresses that its integers hold (see `layout`)."""

from __future__ import annotations

import numpy as np

from .layout import (
    BOX,
    COUNT,
    COUNT_WIDTH,
    COUNTS,
    DIM_CAPACITY,
    EMPTY,
    N_DIMS,
    NODE_WIDTH,
    NODES,
    POINT_WIDTH,
    POINTS,
    SELF,
    TREE_WIDTH,
    TREES,
)
from .memory import (
    float32_view,
    float64_view,
    inlined,
    int32_view,
    int64_view,
    prefetch,
    row_address,
)


@inlined
def real(forest: np.ndarray, at: int) -> float:
    """Read a float64 among the forest's integers."""
    return float64_view(forest[SELF] + 8 * at, 1)[0]


@inlined
def tree_at(forest: np.ndarray, t: int) -> np.ndarray:
    """View a tree's integers."""
    return int64_view(forest[TREES] + 8 * TREE_WIDTH * t, TREE_WIDTH)


@inlined
def tree_reals(forest: np.ndarray, t: int) -> np.ndarray:
    """View a tree's integers as float64."""
    return float64_view(forest[TREES] + 8 * TREE_WIDTH * t, TREE_WIDTH)


@inlined
def node_at(forest: np.ndarray, tree: np.ndarray, j: int) -> int:
    """Return the address of a node's row."""
    return row_address(tree[NODES], j, forest[NODE_WIDTH])


@inlined
def head_of(forest: np.ndarray, node: int) -> np.ndarray:
    """View a node's header and sets of classes."""
    return int32_view(node, forest[BOX])


@inlined
def head_reals(forest: np.ndarray, node: int) -> np.ndarray:
    """View a node's header as float32."""
    return float32_view(node, forest[BOX])


@inlined
def lower_of(forest: np.ndarray, node: int) -> np.ndarray:
    """View the lower corner of a node's box."""
    return float32_view(node + 4 * forest[BOX], forest[N_DIMS])


@inlined
def upper_of(forest: np.ndarray, node: int) -> np.ndarray:
    """View the upper corner of a node's box."""
    return float32_view(node + 4 * (forest[BOX] + forest[DIM_CAPACITY]), forest[N_DIMS])


@inlined
def point_at(forest: np.ndarray, p: int) -> int:
    """Return the address of a stored point's row."""
    return row_address(forest[POINTS], p, forest[POINT_WIDTH])


@inlined
def values_of(forest: np.ndarray, p: int) -> np.ndarray:
    """View a stored point's values."""
    return float32_view(point_at(forest, p), forest[N_DIMS])


@inlined
def label_of(forest: np.ndarray, p: int) -> int:
    """Return the class of a stored point."""
    return int32_view(point_at(forest, p) + 4 * forest[DIM_CAPACITY], 1)[0]


@inlined
def link_of(forest: np.ndarray, p: int, t: int) -> np.ndarray:
    """View the one integer that names the next point in a point's leaf of tree `t`."""
    return int32_view(point_at(forest, p) + 4 * (forest[DIM_CAPACITY] + 1 + t), 1)


@inlined
def counts_at(forest: np.ndarray, tree: np.ndarray, row: int) -> np.ndarray:
    """View a row of class counts."""
    width = forest[COUNT_WIDTH]
    return int32_view(row_address(tree[COUNTS], row, width), width)


@inlined
def count_of(forest: np.ndarray, tree: np.ndarray, ref: int) -> int:
    """Return the number of samples below a reference."""
    if ref < 0:
        return 1
    return head_of(forest, node_at(forest, tree, ref))[COUNT]


@inlined
def prefetch_ref(forest: np.ndarray, tree: np.ndarray, ref: int) -> None:
    """Bring close what a reference names."""
    if ref >= 0:
        prefetch(node_at(forest, tree, ref), 4 * forest[NODE_WIDTH])
    elif ref != EMPTY:
        prefetch(point_at(forest, ~ref), 4 * (forest[DIM_CAPACITY] + 1))
