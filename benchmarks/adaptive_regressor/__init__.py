"""Errors, distributions, speed and memory of the adaptive regressor and of other regressors.

Each part of the suite is a function of the data folder, the report, and a flag for quick runs.
"""

from __future__ import annotations

from collections.abc import Callable

from .comparing import streams
from .pictures import pictures
from .speed import memory, speed

PARTS: dict[str, Callable[..., None]] = {
    "streams": streams,
    "speed": speed,
    "memory": memory,
    "pictures": pictures,
}
