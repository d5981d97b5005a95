"""Checks of restored trees of cells, before their tables are read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...checks import LARGEST_SIZE, check_array, check_number, refuse


def check_cells(trees: Any) -> None:
    """Refuse restored trees of cells whose lifetimes or columns are damaged.

    Parameters
    ----------
    trees
        `CellTrees` whose records are there, with arrays of the right shapes.

    Raises
    ------
    ModelFormatError
        If lifetimes do not ascend, or a column belongs to no tree.

    """
    forest, lifetimes = trees.forest, trees.lifetimes
    check_number(trees, "n_lifetimes", forest.n_lifetimes, 1, LARGEST_SIZE)
    check_array(trees, "lifetimes", lifetimes, np.float64, 0.0, math.inf)
    if not (lifetimes[:, 1:] > lifetimes[:, :-1]).all():
        refuse(trees, "lifetimes", lifetimes.tolist(), "but they ascend")
    if (trees.trees.words["lifetime"] != lifetimes[:, -1]).any():
        refuse(trees, "lifetime", trees.trees.words["lifetime"].tolist(), "but the last ones end")
    check_number(trees, "horizon", float(forest.horizon), math.inf, math.inf)
    check_array(trees, "owners", trees.owners, np.int32, 0, (1 << 31) - 1)
    check_array(trees, "owners", trees.owners[:, 0], np.int32, 0, forest.n_trees - 1)
