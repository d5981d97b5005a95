"""Errors, distributions, speed and memory of the adaptive regressor, compared with peers.

Each part of the suite is a function of the data folder, the report, and a flag for quick runs.
"""

from __future__ import annotations

from collections.abc import Callable

from .comparing import memory, speed, streams

PARTS: dict[str, Callable[..., None]] = {"streams": streams, "speed": speed, "memory": memory}
