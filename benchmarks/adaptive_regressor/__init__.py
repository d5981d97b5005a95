"""Errors, distributions, speed and memory of the adaptive regressor and of other regressors.

Each part takes the data folder, a report and whether to be quick.
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
