"""Forests in several processes by Ray: cost, and results after kills.

A part is a function of the data folder, the report, and whether the run is quick.
"""

from __future__ import annotations

from collections.abc import Callable

from ..data import DataFolder
from ..report import Report
from .keys import keys
from .kills import kills
from .machines import machines
from .service import service
from .sharding import sharding

PARTS: dict[str, Callable[[DataFolder, Report, bool], bool | None]] = {
    "sharding": sharding,
    "machines": machines,
    "kills": kills,
    "keys": keys,
    "service": service,
}
