"""Accuracy, time and memory of anomaly detectors, and alarms."""

from __future__ import annotations

from collections.abc import Callable

from ..data import DataFolder
from ..report import Report
from .adbench import adbench
from .alarms import answers, drift, equal, metrics, nab
from .cost import cost
from .cuts import cuts
from .memory import memory
from .ranking import ranking

PARTS: dict[str, Callable[[DataFolder, Report, bool], None]] = {
    "ranking": ranking,
    "adbench": adbench,
    "nab": nab,
    "metrics": metrics,
    "answers": answers,
    "drift": drift,
    "equal": equal,
    "cost": cost,
    "cuts": cuts,
    "memory": memory,
}
