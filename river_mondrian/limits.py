"""The largest numbers that are accepted, and what kernels return besides an answer."""

from __future__ import annotations

import numpy as np

# Largest raw value that is taken, single precision's own, and largest scaled one.
LARGEST = float(np.finfo(np.float32).max)
FARTHEST = 1e30

# Size of a feature's first value from which on it is the origin of a feature that is not scaled: it
# is subtracted from all values before these are rounded to single precision.
FAR = 1024.0

# Number of features from which on samples may be sparse.
MANY_FEATURES = 256

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


# What kernels return besides an answer: one enumeration for all of them.
#
# An answer is 0 or more, and the kernel's docstring says what it is: a class, the place of a bad
# input, the number of a tree that needs room for more rows.


# The call is complete.
DONE = -1
# Memory is short: the owner is to make room and to call again, which goes on from where it was.
NO_ROOM = -2
# The same for a stored point.
NO_POINT_ROOM = -4
# There is something for the owner to do, to make room for a point or to refresh the ranges: before
# it calls again, or so that the call is complete.
WAITS = -5
# The budget has been spent before the work was done.
BUDGET_SPENT = -7
# `TOO_LARGE - i`: the i-th input is larger than single precision holds. Nothing has changed.
TOO_LARGE = -16
