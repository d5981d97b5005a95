"""Building trees anew while the ranges of inputs change: one kernel, which nothing interrupts."""

from __future__ import annotations

from ...compiling.kernels import inlined, kernel
from ...records import Float64s
from .extension import count_walked
from .records import F, Forest
from .sampling import build
from .scaling import store_rows


@inlined
def rescale(forest: Forest, scaling: Float64s, n: int) -> None:
    """Scale the first `n` samples anew, by offsets and factors: shape (2, input_capacity)."""
    capacity = forest.input_capacity
    for d in range(forest.n_inputs):
        forest.offsets(forest.frame)[d] = scaling[d]
        forest.factors(forest.frame)[d] = scaling[capacity + d]
    store_rows(forest, forest.raw_values, n, 0)


@kernel
def rebuild(forest: F, scaling: Float64s, n: int) -> None:
    """Sample the trees afresh from the first `n` samples, scaled anew.

    What the points have besides values is stored, and the last of them is counted by this. There
    is room for the points, and for rows as `sampling.build` needs it.
    """
    rescale(forest, scaling, n)
    build(forest, 0, forest.n_trees, n)
    forest.first_walking = n - 1
    forest.n_walking = 1
    count_walked(forest)
