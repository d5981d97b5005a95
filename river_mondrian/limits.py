"""The largest numbers that are taken."""

from __future__ import annotations

import numpy as np

# Largest raw value that is taken, single precision's own, and largest scaled one.
LARGEST = float(np.finfo(np.float32).max)
FARTHEST = 1e30
