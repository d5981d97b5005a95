"""What trees cut of a sample: scaled numbers, places of levels, sums along directions."""

import math

import numpy as np

from .levels import place
from .stit import lift


def scaled(value, offset, factor):
    """Return a scaled number, which is within what single precision holds; NaN stays."""
    return math.nan if math.isnan(value) else max(-1e30, min(1e30, (value - offset) * factor))


def with_levels(sample, scaling, key):
    """Return a tree's values of a sample: numbers, or strings, which are levels.

    `scaling` has an offset and a factor for each input, `key` is the tree's.
    """
    return [
        place(key, d, value) if isinstance(value, str) else scaled(value, *scaling[d])
        for d, value in enumerate(sample)
    ]


def along(sample, scaling, means, directions):
    """Return sums along directions, of which each has a coefficient for each input.

    What is missing counts as one of the `means`; a direction without any input is missing.
    """
    offsets, factors = np.transpose(scaling)
    known, usual = ((np.array(values) - offsets) * factors for values in (sample, means))
    return np.clip(lift(directions, known, usual), -1e30, 1e30)
