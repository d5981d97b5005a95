"""What kernels return where there is something to tell besides that all is done."""

from __future__ import annotations

# The call is complete.
DONE = -1
# The arrays of a learner have no room for what a sample adds: its owner makes some and calls again.
NO_ROOM = -2
