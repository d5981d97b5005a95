"""The exact classifier: the paper's Figure 3 and Table 1, missing values, speed and memory.

Each part of the suite is a function of the data folder, the report, and a flag for quick runs.
"""

from __future__ import annotations

from collections.abc import Callable

from ..data import DataFolder
from ..report import Report
from .paper import figure3, table1
from .resources import latency, memory
from .speed import batch, speed
from .streams import missing

PARTS: dict[str, Callable[[DataFolder, Report, bool], None]] = {
    "speed": speed,
    "batch": batch,
    "memory": memory,
    "latency": latency,
    "figure3": figure3,
    "table1": table1,
    "missing": missing,
}
