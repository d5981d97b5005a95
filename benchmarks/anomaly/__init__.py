"""Accuracy, time and memory of anomaly detectors."""

from __future__ import annotations

from collections.abc import Callable

from ..data import DataFolder
from ..report import Report
from . import alarms
from .costs import cost, cuts, memory
from .ranking import adbench, ranking

PARTS: dict[str, Callable[[DataFolder, Report, bool], None]] = {
    "ranking": ranking,
    "adbench": adbench,
    "cost": cost,
    "cuts": cuts,
    "memory": memory,
}
# The parts of the suite `alarms`.
ALARMS: dict[str, Callable[[DataFolder, Report, bool], None]] = {
    "nab": alarms.nab,
    "metrics": alarms.metrics,
    "answers": alarms.answers,
    "drift": alarms.drift,
    "equal": alarms.equal,
}
