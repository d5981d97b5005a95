"""The Mondrian forest regressor: errors, distributions and speed, compared with other libraries.

Each part takes the data folder, a report and whether to be quick.
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
