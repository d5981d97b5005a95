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
    check_types(trees, {"gamma": (type(None), int, float), "split_pure": bool})
    forest = trees.forest
    check_number(trees, "n_classes", forest.n_classes, 0, MOST_CLASSES)
    least = max(1, int(forest.n_classes))
    check_number(trees, "n_set_words", forest.n_set_words, -(-least // 32), MOST_CLASSES)
    check_number(trees, "count_width", forest.count_width, least, MOST_CLASSES)
    if forest.weight_capacity != 0:
        check_number(trees, "weight_capacity", forest.weight_capacity, least, MOST_CLASSES)
    check_number(trees, "splits_pure", forest.splits_pure, trees.split_pure, trees.split_pure)
    if not 0.0 < forest.gamma < math.inf:
        refuse(trees, "gamma", float(forest.gamma), "but it is finite and > 0")
    # A walk that ended above a leaf would find no counts there.
    check_number(trees, "horizon", float(forest.horizon), math.inf, math.inf)
