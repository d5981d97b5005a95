"""Anomaly detectors: how well they rank on streams, and what samples cost in time and memory."""

from __future__ import annotations

from collections.abc import Callable

from ..data import DataFolder
from ..report import Report
from .adbench import adbench
from .cost import cost
from .cuts import cuts
from .ranking import ranking

PARTS: dict[str, Callable[[DataFolder, Report, bool], None]] = {
    "ranking": ranking,
    "adbench": adbench,
    "cost": cost,
    "cuts": cuts,
}
