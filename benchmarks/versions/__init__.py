"""A commit's package against the one of the working tree: what both predict, and how fast.

Each of the two runs in a process of its own and gets the same tasks in turn, never at the same
time. Both use public names only, since what is behind these differs between versions.

Each part takes the data folder, a report, whether to be quick, and what to compare with.
"""

from .digests import digests
from .first_call import first_call
from .memory import memory
from .speed import speed

PARTS = {"digests": digests, "speed": speed, "first_call": first_call, "memory": memory}
