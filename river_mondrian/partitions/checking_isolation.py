"""Checks of restored isolation trees, and of those that are being grown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import check_array, check_ascending_rows, check_starts, check_types, refuse
from ..limits import FARTHEST


def check_cuts(owner: object, nodes: NDArray[np.int32], psi: int, n_features: int) -> None:
    """Refuse isolation trees in which a walk does not end in a cell of its tree.

    A child has a larger number than its parent, so that there are no cycles.

    Parameters
    ----------
    owner
        The map.
    nodes
        A row for each node, shape (trees, nodes, words): feature, cut, and what lies below and
        above; both children are 0 where no node has been made.
    psi
        Cells of a tree.
    n_features
        How many features there are.

    Raises
    ------
    ModelFormatError
        If a feature or a child is out of range.

    """
    n_trees, size = nodes.shape[:2]
    features, children = nodes[:, :, 0], nodes[:, :, 2:].astype(np.int64)
    check_array(owner, "the feature of nodes", features, np.int32, 0, n_features - 1)
    made = (children != 0).any(axis=2)
    first = (psi * np.arange(n_trees))[:, None, None]
    is_cell = (children < 0) & (~children >= first) & (~children < first + psi)
    is_node = (children > np.arange(size)[:, None]) & (children < size)
    below = np.where(is_node, children, 0)
    is_node &= np.take_along_axis(made, below.reshape(n_trees, -1), 1).reshape(below.shape)
    bad = made[:, :, None] & ~(is_cell | is_node)
    bad[:, :1] |= ~made[:, :1, None]
    if bad.any():
        t, j, side = np.argwhere(bad)[0].tolist()
        where = f"tree {t}, node {j}: child {side}"
        refuse(owner, where, int(children[t, j, side]), "which is neither a node nor a cell")


def check_growing(owner: Any) -> None:
    """Refuse points and draws from which the rest of the trees cannot be grown.

    Parameters
    ----------
    owner
        The map.

    Raises
    ------
    ModelFormatError
        If an array lacks, is of another shape, or holds what is out of range.

    """
    names = ("starts", "places", "values", "members", "draws")
    check_types(owner, dict.fromkeys(names, np.ndarray))
    n_points = len(owner.starts) - 1
    check_starts(owner, "starts", owner.starts, len(owner.places))
    check_array(owner, "places", owner.places, np.int32, 0, owner.n_inputs - 1)
    check_ascending_rows(owner, "places", owner.places, owner.starts)
    check_array(owner, "values", owner.values, np.float32, -2.0 * FARTHEST, 2.0 * FARTHEST)
    check_array(owner, "members", owner.members, np.int32, 0, n_points - 1)
    check_array(owner, "draws", owner.draws, np.float64, 0.0, 1.0)
    for name, shape in (
        ("values", owner.places.shape),
        ("members", (owner.psi, owner.n_out)),
        ("draws", (owner.n_out, 2 * owner.psi)),
    ):
        if getattr(owner, name).shape != shape:
            refuse(owner, f"the shape of {name}", getattr(owner, name).shape, f"but not {shape}")
