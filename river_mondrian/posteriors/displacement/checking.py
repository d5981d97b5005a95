"""Checks of restored random cut trees, before their tables are read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...checks import check_array, check_number
from ...partitions.mondrian.records import NEVER
from .ranks import KEPT


def check_cuts(trees: Any) -> None:
    """Refuse restored random cut trees whose scores are none.

    Parameters
    ----------
    trees
        `CutTrees` whose records are there, with arrays of the right shapes.

    Raises
    ------
    ModelFormatError
        If a score is out of its range, or a number does not fit how many there are.

    """
    forest = trees.forest
    n = forest.n_scores
    check_number(trees, "entering", float(forest.entering), 0.0, 1.0)
    check_number(trees, "n_passed", int(forest.n_passed), 0, NEVER)
    check_number(trees, "n_scores", n, 0, min(KEPT, int(forest.n_samples + forest.n_passed)))
    least, most = (0, KEPT - 1) if n == KEPT else (n, n)
    check_number(trees, "next_score", forest.next_score, least, most)
    check_array(trees, "scores", trees.scores, np.float64, 0.0, math.inf)
    check_number(trees, "horizon", float(forest.horizon), math.inf, math.inf)
