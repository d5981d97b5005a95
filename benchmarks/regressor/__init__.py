"""Errors, distributions and speed of the exact regressor, compared with other libraries.

Each part of the suite is a function of the data folder, the report, and a flag for quick runs.
"""

from __future__ import annotations

from collections.abc import Callable

from ..data import DataFolder
from ..report import Report
from .holdout import holdout
from .speed import speed
from .streams import choice, streams

PARTS: dict[str, Callable[[DataFolder, Report, bool], None]] = {
    "streams": streams,
    "choice": choice,
    "holdout": holdout,
    "speed": speed,
}
