"""Bounds of accepted numbers, and the codes that kernels return."""

import numpy as np

# `LARGEST`, the largest number of single precision, bounds raw values and times between cuts.
# `FARTHEST` bounds scaled values.
LARGEST = float(np.finfo(np.float32).max)
FARTHEST = 1e30

# If the first value of an unscaled feature has at least this absolute value, the value is the
# feature's origin. The origin is subtracted from all values before they are rounded to single
# precision.
LEAST_ORIGIN = 1024.0

# Smallest number of features at which samples may be sparse.
MANY_FEATURES = 256

# Codes of levels are from this number to twice this number.
LEAST_LEVEL = 2.0**200

# Largest target and weight of a sample. With these bounds, weighted sums of squared targets stay
# finite.
LARGEST_TARGET = 1e120
LARGEST_WEIGHT = 1e30

# Largest number of classes.
MOST_CLASSES = 1 << 24

# Smallest weight of a sample in sums of single precision. Smaller weights are raised to this
# weight.
LEAST_WEIGHT = 1e-30

# Largest window, so that numbers of points and rows stay below the limits of the trees' kernels
# (see `partitions.mondrian.forgetting.UP`).
LARGEST_WINDOW = 1 << 28


# Codes that kernels return instead of an answer, the same in all kernels.
#
# An answer is at least 0. The kernel's docstring defines the meaning of the answer: a class, the
# index of an invalid input, or the number of a tree that needs memory.


# The call is complete.
DONE = -1
# The kernel needs more memory. The caller allocates memory and calls again, and the kernel
# continues.
NO_ROOM = -2
# The kernel needs memory for a stored point. The caller allocates memory and calls again.
NO_POINT_ROOM = -4
# The kernel cannot complete the call. For example, the caller must first allocate memory for a
# point or update the ranges of features. Then the caller calls again, or completes the call itself.
WAITS = -5
# `TOO_LARGE - i`: input i is too large for single precision. The kernel has changed nothing.
TOO_LARGE = -16
