"""What kernels return where there is something to tell besides that all is done."""

from __future__ import annotations

# The call is complete.
DONE = -1
