"""What the kernels of adaptive trees return."""

from __future__ import annotations

# Of learning a sample: how it would have been predicted; or, where nothing has been learned, a
# tree that needs room for rows (>= 0), that the point needs room, or `TOO_LARGE - i` where the i-th
# input is too large.
RIGHT_CLASS = -1
WRONG_CLASS = -2
NEEDS_POINT_ROOM = -3
TOO_LARGE = -4

# Of going on with building a tree: the budget is spent; the tree needs room for rows, of some
# splits or paths, or of one path of the largest length; it is complete.
BUDGET_SPENT = 0
NEEDS_ROOM = 1
NEEDS_PATH_ROOM = 2
BUILT = 3
