"""Fences beyond which a target counts as at them, so that wild ones cost a few samples only.

The fences follow the stored targets, four times while the number of samples doubles: `FENCE` times
the robust range of the targets beyond either of its ends (see `partitions.ranges`). Where several
of the latest targets have been beyond, they open (`learning.fenced`), until they follow.
"""

from __future__ import annotations

import math

import numpy as np

from ...limits import LARGEST_TARGET
from ...partitions.ranges import robust_ranges
from ...records import Float64s
from ..targets.moments import FENCE, LEAST_FENCED, renewal, strided
from .records import TARGET, AdaptiveTargetForest
from .storage import read_targets

__all__ = ["LEAST_FENCED", "find_fences", "next_renewal", "renewal"]


def next_renewal(n: int) -> int:
    """Return the first number of samples after `n` at which fences are renewed."""
    if n < LEAST_FENCED:
        return LEAST_FENCED
    return renewal(n) + (1 << (n.bit_length() - 3))


def find_fences(forest: AdaptiveTargetForest) -> tuple[float, float]:
    """Return the fences by the targets that are stored; infinite where all are the same."""
    n, step = strided(forest.n_points)
    targets = np.empty(n)
    read_targets(forest, TARGET, n, step, Float64s.of(targets))
    # Of a damaged model they may be any numbers.
    targets = np.where(np.abs(targets) <= LARGEST_TARGET, targets, math.nan)
    low, high = (float(end[0]) for end in robust_ranges(targets[:, None]))
    reach = FENCE * (high - low)
    return (low - reach, high + reach) if reach > 0.0 else (-math.inf, math.inf)
