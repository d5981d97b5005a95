"""Accuracy, time and memory of anomaly detectors."""

from .costs import cost
from .ranking import adbench, ranking

PARTS = (ranking, adbench, cost)
