"""Marks in the records of a Mondrian forest: references, sides, kinds of nodes, phases."""

# A reference to nothing, and the end of a list of points.
EMPTY = -(2**31)
NONE = -1

# Sides of a cut.
LEFT = 0
RIGHT = 1

# `dim` of a leaf. A paused one has not been sampled (or its samples are hidden). A complete one is
# known to have no cut inside its box within the lifetime. A mixed one is about to be sampled.
PAUSED = -1
COMPLETE = -2
MIXED = -3

# `dim` of a row that is free: a point that was forgotten has left it.
FREE = -4

# Limit of cuts and of sides of boxes: scaled values, rounded to single precision.
FARTHEST_CUT = 1.000001e30

# `walk_ref` of a walk that has not begun.
START = -(2**62)

# `max_splits` of trees that are cut without limit.
UNLIMITED = 2**62

# A forest's version while a change is not finished.
CLOSED = 0

# Phases of a renewal of widths: none; trees are being redrawn; all have been redrawn, and points
# are being rebased.
STEADY = 0
DRAWING = 1
REBASING = 2

# `next_look` of a forest whose widths stay.
NEVER = 2**62
