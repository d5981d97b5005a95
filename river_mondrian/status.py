"""What kernels return where there is something to tell besides that all is done."""

from __future__ import annotations

# The call is complete.
DONE = -1
# Memory is short: the owner is to make room and to call again, which goes on from where it was.
NO_ROOM = -2
