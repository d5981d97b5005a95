"""Building trees anew while the ranges of inputs change: one kernel, which nothing interrupts."""

from __future__ import annotations

from ...compiling.kernels import kernel
from .extension import count_walked
from .records import F
from .sampling import build
from .scaling import fit_ranges, store_rows


@kernel
def rebuild(forest: F, n: int) -> None:
    """Scale the first `n` samples by their ranges and sample the trees afresh from them.

    What the points have besides values is stored, and the last of them is counted by this. There
    is room for the points, and for rows as `sampling.build` needs it.
    """
    fit_ranges(forest, forest.raw_values, n, 0)
    store_rows(forest, forest.raw_values, n, 0)
    build(forest, 0, forest.n_trees, n)
    forest.n_walking = 1
    count_walked(forest)
