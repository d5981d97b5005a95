"""A commit's package against that of the working tree: predictions of both, and their speed.

Each of the two runs in a process of its own and gets the same tasks in turn, never at the same
time. Both use only public names, since private ones differ between versions.

Each part takes the data folder, a report, whether to be quick, and the commit to compare with.
"""

from .digests import digests
from .first_call import first_call
from .memory import memory
from .speed import speed

PARTS = {"digests": digests, "speed": speed, "first_call": first_call, "memory": memory}
