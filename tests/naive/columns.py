"""The values that trees cut: scaled numbers, positions of levels, sums along directions."""

import math

import numpy as np

from .levels import place
from .stit import lift


def scaled(value, offset, factor):
    """Return a scaled number, clipped to [-1e30, 1e30]; NaN stays NaN."""
    return math.nan if math.isnan(value) else max(-1e30, min(1e30, (value - offset) * factor))


def with_levels(sample, scaling, key):
    """Return the values of a sample in a tree; a string is a level.

    `scaling` has an offset and a factor for each input, and `key` is the key of the tree.
    """
    return [
        place(key, d, value) if isinstance(value, str) else scaled(value, *scaling[d])
        for d, value in enumerate(sample)
    ]


def along(sample, scaling, means, directions):
    """Return sums along directions; a direction has a coefficient for each input.

    A missing value is replaced by its mean in `means`. A direction whose inputs are all missing is
    missing.
    """
    offsets, factors = np.transpose(scaling)
    known, usual = ((np.array(values) - offsets) * factors for values in (sample, means))
    return np.clip(lift(directions, known, usual), -1e30, 1e30)
