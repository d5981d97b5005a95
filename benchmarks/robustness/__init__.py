"""Accuracy with wrong values, changes of units and streams that start in a corner.

Each part is a function of the data folder, the report, a flag for quick runs, and the sizes of a
run.
"""

from __future__ import annotations

from collections.abc import Callable

from ..data import DataFolder
from ..report import Report
from .changes import changes
from .corner import corner
from .cost import cost
from .order import order
from .outliers import outliers
from .runs import Limits
from .xor import xor

PARTS: dict[str, Callable[[DataFolder, Report, bool, Limits], None]] = {
    "xor": xor,
    "outliers": outliers,
    "corner": corner,
    "changes": changes,
    "order": order,
    "cost": cost,
}
