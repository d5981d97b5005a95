"""Compare the packages of a commit and of the working tree: predictions and speed.

Each package runs in a separate process. Both get the same tasks in turn, never at the same time.
They use only public names, because private names differ between versions.

Each part takes the data folder, a report, whether to be quick, and the commit to compare with.
"""

from .digests import digests
from .first_call import first_call
from .memory import memory
from .speed import speed

PARTS = {"digests": digests, "speed": speed, "first_call": first_call, "memory": memory}
