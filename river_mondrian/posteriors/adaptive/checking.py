"""Checks of restored adaptive trees, before their tables are read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...checks import check_number, check_types, refuse
from ...learners.discriminants import LinearDiscriminants
from ...learners.experts import Mixture
from ..rebuilt.checking import check_rebuilt
from .statistics import BLOCK
from .tables import is_sound

# More classes than any forest has.
MOST_CLASSES = 1 << 24


def check_seen(trees: Any) -> None:
    """Refuse restored trees whose rows of statistics have other classes or links than they may.

    Parameters
    ----------
    trees
        `AdaptiveTrees` of many classes, whose nodes refer to rows that there are.

    Raises
    ------
    ModelFormatError
        If kernels could not read them.

    """
    n_classes = int(trees.forest.n_classes)
    for t, tree in enumerate(trees.trees):
        if tree.is_used():
            numbers = trees.column("nodes", "statistics_row", t)
            rows = trees.side_rows.rows(tree.slot, tree.side_rows.n_rows)
            if not is_sound(rows, numbers[numbers > 0] - 1, n_classes):
                refuse(trees, "side_rows", len(rows), f"of tree {t}, with wrong links or classes")


def check_adaptive(trees: Any) -> None:
    """Refuse restored adaptive trees whose sizes, roles or schedule do not fit each other.

    Parameters
    ----------
    trees
        `AdaptiveTrees` whose records are there, with arrays of the right shapes.

    Raises
    ------
    ModelFormatError
        If one of them is out of its range.

    """
    check_types(
        trees,
        {
            "root_forgets": (bool, np.bool_),
            "mixture": Mixture,
            "discriminants": LinearDiscriminants,
        },
    )
    check_rebuilt(trees)
    forest = trees.forest
    for name, value, least, most in (
        ("root_forgets", forest.root_forgets, trees.root_forgets, trees.root_forgets),
        ("is_weighted", forest.is_weighted, 0, 1),
        ("n_classes", forest.n_classes, 0, MOST_CLASSES),
        ("class_capacity", forest.class_capacity, max(BLOCK, forest.n_classes), 2 * MOST_CLASSES),
    ):
        check_number(trees, name, value, least, most)
    if forest.class_capacity % BLOCK:
        refuse(trees, "class_capacity", forest.class_capacity, f"but it is in blocks of {BLOCK}")
    if not 0.0 < forest.gamma < math.inf:
        refuse(trees, "gamma", float(forest.gamma), "but it is finite and > 0")
