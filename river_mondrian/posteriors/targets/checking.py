"""Checks of restored trees over targets, before their tables are read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...checks import check_array, check_number, check_types
from .choosing import check_change, check_choice


def check_targets(trees: Any) -> None:
    """Refuse restored trees over targets whose numbers do not fit each other.

    Parameters
    ----------
    trees
        `TargetTrees` whose records are there.

    Raises
    ------
    ModelFormatError
        If an argument, the choice, a change of it or a weight of the targets' law is out of its
        range.

    """
    number = (type(None), int, float)
    arguments = dict.fromkeys(("gamma1", "gamma2", "noise_variance"), number)
    kinds = {"plain_means": bool, "min_samples_split": int, "choice": tuple}
    law = {"law_numbers": (type(None), np.ndarray)}
    check_types(trees, arguments | kinds | law)
    forest = trees.forest
    least = trees.min_samples_split
    check_number(trees, "min_split", forest.min_split, max(2, least), max(2, least))
    plain = int(trees.plain_means)
    check_number(trees, "plain_means", forest.plain_means, plain, plain)
    for name in ("gamma1", "noise_variance"):
        value = float(getattr(forest, name))
        check_number(trees, name, value, trees.__dict__[name] or 0.0, trees.__dict__[name] or 0.0)
    check_number(trees, "horizon", float(forest.horizon), 0.0, math.inf)
    check_choice(trees, trees.choice)
    if trees.__dict__.get("change") is not None:
        check_change(trees, trees.change)
    if trees.law_numbers is not None:
        check_array(trees, "law_numbers", trees.law_numbers, np.float64, -math.inf, math.inf)
