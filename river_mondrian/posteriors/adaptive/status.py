"""What the kernels of adaptive trees return."""

from __future__ import annotations

# Of learning a sample: how it would have been predicted, plus BUILDING_DUE where the owner is to go
# on with building trees.
RIGHT_CLASS = -1
WRONG_CLASS = -2
BUILDING_DUE = -2
# Where nothing has been learned: that the owner is to prepare it, or that the point needs room; a
# tree that needs room for rows is told by its number. `TOO_LARGE - i` says that the i-th input is
# too large.
NEEDS_OWNER = -5
NEEDS_POINT_ROOM = -6
TOO_LARGE = -7

# Of going on with building a tree: the budget is spent; the tree needs room for rows, of some
# splits or paths, or of one path of the largest length; it is complete.
BUDGET_SPENT = 0
NEEDS_ROOM = 1
NEEDS_PATH_ROOM = 2
BUILT = 3
