"""Reading what is stored of samples."""

from __future__ import annotations

from ...compiling.kernels import batch_kernel
from ...records import Float64s
from .records import T


@batch_kernel
def read_targets(forest: T, k: int, n: int, step: int, out: Float64s) -> None:
    """Write the k-th targets of `n` stored points, every `step`-th."""
    for i in range(n):
        out[i] = forest.targets_of(i * step)[k]
