"""Checks of restored adaptive trees over targets, before their tables are read."""

from __future__ import annotations

import math
from typing import Any

from ...checks import check_number, check_types
from ...learners.regression.error_law import ErrorLaws
from ...learners.regression.lags import LaggedTargets
from ...learners.regression.mixing import TargetMixtures
from ...learners.regression.ridges import RidgeExperts
from ..rebuilt.checking import check_rebuilt


def check_adaptive_targets(trees: Any) -> None:
    """Refuse restored adaptive trees over targets whose parts do not fit each other.

    Parameters
    ----------
    trees
        `AdaptiveTargetTrees` whose records are there, with arrays of the right shapes.

    Raises
    ------
    ModelFormatError
        If one of them is out of its range.

    """
    check_types(
        trees,
        {
            "ridges": RidgeExperts,
            "first_mixture": TargetMixtures,
            "mixture": TargetMixtures,
            "laws": ErrorLaws,
            "lags": (type(None), LaggedTargets),
        },
    )
    check_rebuilt(trees)
    forest = trees.forest
    check_number(trees, "low_fence", float(forest.low_fence), -math.inf, math.inf)
    check_number(trees, "high_fence", float(forest.high_fence), forest.low_fence, math.inf)
    check_number(trees, "error_size", float(forest.error_size), 0.0, math.inf)
    check_number(trees, "beyond", float(forest.beyond), 0.0, 1e3)
