"""Marks in the records of a Mondrian forest: references, sides, kinds of nodes, phases."""

# A reference to no node, and the end of a list of points.
EMPTY = -(2**31)
NONE = -1

# Sides of a cut.
LEFT = 0
RIGHT = 1

# `dim` of a leaf. A paused leaf has not been sampled (or its samples are hidden). A complete leaf
# has no cut inside its box within the lifetime. A mixed leaf is to be sampled next.
PAUSED = -1
COMPLETE = -2
MIXED = -3

# `dim` of a free row, whose point was forgotten.
FREE = -4

# Limit of cuts and of boxes' sides: scaled values rounded to single precision.
FARTHEST_CUT = 1.000001e30

# `walk_ref` of a walk that has not begun.
START = -(2**62)

# `max_splits` of trees with unlimited cuts.
UNLIMITED = 2**62

# Version of a forest during a change.
CLOSED = 0

# Phases of a renewal of widths: no renewal; trees are redrawn; all trees are redrawn, and points
# are rebased.
STEADY = 0
DRAWING = 1
REBASING = 2

# `next_look` of a forest whose widths do not change.
NEVER = 2**62
