"""Accuracy, time and memory of anomaly detectors."""

from .costs import cost, memory
from .ranking import adbench, ranking

PARTS = (ranking, adbench, cost, memory)
