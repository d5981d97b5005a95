"""Forests in several processes by Ray, many models by key, and the example service.

Each part of the suite is a function of the data folder, the report, and a flag for quick runs.
"""

from __future__ import annotations

from collections.abc import Callable

from ..data import DataFolder
from ..report import Report
from .keys import keys
from .service import service
from .sharding import sharding

PARTS: dict[str, Callable[[DataFolder, Report, bool], bool | None]] = {
    "sharding": sharding,
    "keys": keys,
    "service": service,
}
