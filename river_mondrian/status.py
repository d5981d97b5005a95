"""What kernels return besides an answer: one enumeration for all of them.

An answer is 0 or more, and the kernel's docstring says what it is: a class, the place of a bad
input, the number of a tree that needs room for more rows.
"""

from __future__ import annotations

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
