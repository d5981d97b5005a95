"""What kernels return where there is something to tell besides that all is done."""

from __future__ import annotations

# The call is complete.
DONE = -1
# Memory is short: the owner is to make room and to call again, which goes on from where it was.
NO_ROOM = -2
# Nothing has been learned: the owner is to make room for a point, or to refresh the ranges, and to
# call again. It is less than any code that names an input.
WAITS = -(2**31)
