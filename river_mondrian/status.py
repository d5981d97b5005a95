"""What kernels return besides an answer: one enumeration for all of them.

An answer is 0 or more, and the kernel's docstring says what it is: a class, the place of a bad
input, the number of a tree that needs room for more rows.
"""

from __future__ import annotations

# The call is complete.
DONE = -1
# Memory is short: the owner is to make room and to call again, which goes on from where it was.
NO_ROOM = -2
# The same for a way down a tree, and for a stored point.
NO_PATH_ROOM = -3
NO_POINT_ROOM = -4
# Nothing has been learned: the owner is to make room for a point, to refresh the ranges or to
# forget a point, and to call again.
WAITS = -5
# The call is complete, and there are new cells.
NEW_CELLS = -6
# The budget has been spent before the work was done.
BUDGET_SPENT = -7
# The call is complete, and this is how the class would have been predicted; BUILDING_DUE is added
# where the owner is to go on with building trees.
RIGHT_CLASS = -8
WRONG_CLASS = -9
BUILDING_DUE = -2
# `TOO_LARGE - i`: the i-th input is larger than single precision holds. Nothing has changed.
TOO_LARGE = -16
