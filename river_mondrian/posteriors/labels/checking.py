"""Checks of restored trees over classes, before their tables are read."""

from __future__ import annotations

import math
from typing import Any

from ...checks import check_number, check_types, refuse

# More classes than any forest has.
MOST_CLASSES = 1 << 24


def check_labels(trees: Any) -> None:
    """Refuse restored trees over classes whose sizes do not fit each other.

    Parameters
    ----------
    trees
        `LabelTrees` whose records are there.

    Raises
    ------
    ModelFormatError
        If a size or a rate is out of its range.

    """
    forest = trees.forest
    _check_classes(trees)
    n_words = (forest.n_classes + 31) // 32
    check_number(trees, "n_set_words", forest.n_set_words, max(1, n_words), MOST_CLASSES)
    check_number(trees, "count_width", forest.count_width, max(1, forest.n_classes), MOST_CLASSES)


def check_weighted(trees: Any) -> None:
    """Refuse restored trees of weighted samples as `check_labels` does others."""
    forest = trees.forest
    _check_classes(trees)
    least = max(1, forest.n_classes)
    check_number(trees, "class_capacity", forest.class_capacity, least, MOST_CLASSES)


def _check_classes(trees: Any) -> None:
    check_types(trees, {"gamma": (type(None), int, float), "split_pure": bool})
    forest = trees.forest
    check_number(trees, "n_classes", forest.n_classes, 0, MOST_CLASSES)
    check_number(trees, "splits_pure", forest.splits_pure, trees.split_pure, trees.split_pure)
    if not 0.0 < forest.gamma < math.inf:
        refuse(trees, "gamma", float(forest.gamma), "but it is finite and > 0")
    # A walk that ended above a leaf would find no counts there.
    check_number(trees, "horizon", float(forest.horizon), math.inf, math.inf)
