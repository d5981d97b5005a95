"""The law of targets where parts of a forest's trees learn apart: from what all of them tell.

The law is learned from the densities that a target has under all trees, each with the trees before
it. These are sums over trees, which parts can tell one another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...compiling.kernels import batch_kernel
from ...records import Array, Memory
from .scale_mixture import N_SCALES, ScaleMixture, TargetDensity, learn_scales


def told_by(densities: Memory[TargetDensity], n_trees: int) -> NDArray[np.float64]:
    """Return what trees say of the targets that are used, shape (targets, 1 + scales).

    That is the target, NaN where nothing is to be learned from it, and the sums over the trees of
    its densities at each scale. What several parts tell adds up, but for the target.
    """
    columns = densities.columns()
    targets = columns["target"].reshape(-1, n_trees)[:, :1]
    sums = columns["densities"].reshape(-1, n_trees, N_SCALES).sum(axis=1)
    return np.concatenate([targets, sums], axis=1)


@batch_kernel
def _learn_all(mixture: ScaleMixture, densities: Array[TargetDensity], n: int) -> None:
    """Learn from targets one after the other, each with the densities under all trees together."""
    for i in range(n):
        learn_scales(mixture, densities.part(i, 1), 1)


def learn_law(law: NDArray[np.float64], told: NDArray[np.float64]) -> None:
    """Let the numbers of a law learn from the sums of what all parts have told."""
    rows = Memory(TargetDensity, len(told))
    columns = rows.columns()
    columns["target"][:], columns["densities"][:] = told[:, 0], told[:, 1:]
    _learn_all(Array.over(ScaleMixture, law)[0], rows.array, len(told))
