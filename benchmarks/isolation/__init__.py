"""The isolation kernel: the paper's figures and tables, accuracy after one pass, and speed.

The paper is Ting et al. (2021).

Each part of the suite is a function of the data folder, the report, and a flag for quick runs.
Without a data folder, the set is scikit-learn's digits.
"""

from __future__ import annotations

from collections.abc import Callable

from .accuracy import figure5, one_pass, online, table5, table7, table8
from .speed import crossover, dual, figure4, speed

PARTS: dict[str, Callable[..., None]] = {
    "online": online,
    "figure4": figure4,
    "figure5": figure5,
    "dual": dual,
    "table5": table5,
    "table7": table7,
    "table8": table8,
    "one_pass": one_pass,
    "speed": speed,
    "crossover": crossover,
}
