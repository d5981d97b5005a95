"""Accuracy, speed, drift and memory of the adaptive forest, compared with River's models.

Each part of the suite is a function of the data folder, the report, and a flag for quick runs.
"""

from __future__ import annotations

from collections.abc import Callable

from .batches import batches
from .comparing import long, sizes, streams
from .jumps import jumps
from .pictures import pictures
from .speed import memory, speed
from .weights import weights

PARTS: dict[str, Callable[..., None]] = {
    "streams": streams,
    "long": long,
    "sizes": sizes,
    "jumps": jumps,
    "speed": speed,
    "batches": batches,
    "memory": memory,
    "weights": weights,
    "pictures": pictures,
}
