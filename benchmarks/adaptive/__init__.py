"""Accuracy, speed, drift and memory of the adaptive classifier, compared with River's models.

Each part of the suite is a function of the data folder, the report, and a flag for quick runs.
"""

from __future__ import annotations

from collections.abc import Callable

from .comparing import memory, sizes, speed, streams
from .jumps import jumps
from .weights import weights

PARTS: dict[str, Callable[..., None]] = {
    "streams": streams,
    "sizes": sizes,
    "jumps": jumps,
    "weights": weights,
    "speed": speed,
    "memory": memory,
}
