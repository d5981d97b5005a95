"""Special values of fields in the records of a Mondrian forest."""

# EMPTY is a reference to no node. NONE means no row or no point.
EMPTY = -(2**31)
NONE = -1

# Sides of a cut. Sums over both sides use MISSING for samples whose value is missing.
LEFT = 0
RIGHT = 1
MISSING = 2

# `dim` of a leaf. The cuts of a paused leaf have not been sampled yet. A complete leaf has no cut
# within the tree's lifetime, or the tree has `max_splits` cuts. The cuts of a mixed leaf are
# sampled next.
PAUSED = -1
COMPLETE = -2
MIXED = -3

# `dim` of a free row, whose node was removed.
FREE = -4

# Largest absolute value of cuts and of box corners, which are scaled values in single precision.
FARTHEST_CUT = 1.000001e30

# `walk_ref` of a walk that has not reached the root yet.
START = -(2**62)

# `max_splits` of trees with unlimited cuts.
UNLIMITED = 2**62

# `version` of a forest during a change that needs several kernel calls.
CLOSED = 0

# `Renewal.next_check` of a forest whose widths are not checked, and `next_fit` after the warm-up.
NEVER = 2**62
