"""The largest numbers that are taken."""

from __future__ import annotations

import numpy as np

# Largest raw value that is taken, single precision's own, and largest scaled one.
LARGEST = float(np.finfo(np.float32).max)
FARTHEST = 1e30

# From here on a feature's value is the code of a category's level, up to twice this.
LEAST_LEVEL = 2.0**200

# Largest target and weight of a sample: sums of squared targets times weights stay finite.
LARGEST_TARGET = 1e120
LARGEST_WEIGHT = 1e30

# Weight as which smaller ones count where sums of weights are in single precision.
LEAST_WEIGHT = 1e-30

# Most samples that a window holds: points and rows of as many have numbers that kernels of trees
# hold (see `partitions.mondrian.records.UP`).
LARGEST_WINDOW = 1 << 28
