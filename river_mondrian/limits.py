"""The largest numbers that are accepted, and the codes that kernels return."""

import numpy as np

# Largest raw value and time between cuts (the largest of single precision); largest scaled value.
LARGEST = float(np.finfo(np.float32).max)
FARTHEST = 1e30

# If an unscaled feature's first value is at least this in size, it is the feature's origin. The
# origin is subtracted from all values before they are rounded to single precision.
FAR = 1024.0

# From this number of features on, samples may be sparse.
MANY_FEATURES = 256

# Values from this to twice this are codes of levels of categories.
LEAST_LEVEL = 2.0**200

# Largest target and weight of a sample: sums of squared targets times weights stay finite.
LARGEST_TARGET = 1e120
LARGEST_WEIGHT = 1e30

# Smaller weights are raised to this where sums of weights are in single precision.
LEAST_WEIGHT = 1e-30

# Largest window: the numbers of its points and rows fit the kernels of trees (see
# `partitions.mondrian.forgetting.UP`).
LARGEST_WINDOW = 1 << 28


# Codes that kernels return instead of an answer, the same in all kernels.
#
# An answer is 0 or more. The kernel's docstring says whether it is a class, the place of a bad
# input, or the number of a tree that needs room.


# The call is complete.
DONE = -1
# Memory is short: the owner makes room and calls again, and the kernel continues.
NO_ROOM = -2
# There is no room for a stored point: the owner makes room and calls again.
NO_POINT_ROOM = -4
# The owner has work to do, such as making room for a point or refreshing ranges, before it calls
# again or completes the call.
WAITS = -5
# The budget was spent before the work was done.
BUDGET_SPENT = -7
# `TOO_LARGE - i`: the i-th input is larger than single precision holds. Nothing has changed.
TOO_LARGE = -16
