"""The values that trees cut: scaled numbers, places of levels, sums along directions."""

import math

import numpy as np

from .levels import place
from .stit import lift


def scaled(value, offset, factor):
    """Return a scaled number, clipped to the range of single precision; NaN stays NaN."""
    return math.nan if math.isnan(value) else max(-1e30, min(1e30, (value - offset) * factor))


def with_levels(sample, scaling, key):
    """Return the values of a sample in a tree; a string is a level.

    `scaling` has an offset and a factor for each input, `key` is the tree's key.
    """
    return [
        place(key, d, value) if isinstance(value, str) else scaled(value, *scaling[d])
        for d, value in enumerate(sample)
    ]


def along(sample, scaling, means, directions):
    """Return sums along directions; a direction has a coefficient for each input.

    A missing value counts as its mean of `means`. A direction without any input is missing.
    """
    offsets, factors = np.transpose(scaling)
    known, usual = ((np.array(values) - offsets) * factors for values in (sample, means))
    return np.clip(lift(directions, known, usual), -1e30, 1e30)
