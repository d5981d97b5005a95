"""Compare the packages of a commit and of the working tree: predictions and speed.

Each package runs in a separate process. The processes get the same tasks in turns, never at the
same time. Tasks use only public names, because private names differ between versions. The parts
have one more argument: the commit.
"""

from .comparing import digests, speed

PARTS = (digests, speed)
