"""The isolation kernel: the paper's figures and tables, many classes, text, speed, and the GPU.

The paper is Ting et al. (2021).

Each part of the suite is a function of the data folder, the report, and a flag for quick runs.
Without a data folder, the sets are from River and scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable

from .accuracy import classes, online, table5, targets
from .counting import counting
from .machines import table7, table8
from .parameters import figure4, figure5
from .speed import cells, crossover, speed
from .supports import dual
from .text import text

PARTS: dict[str, Callable[..., None]] = {
    "online": online,
    "table5": table5,
    "targets": targets,
    "classes": classes,
    "figure4": figure4,
    "figure5": figure5,
    "table7": table7,
    "table8": table8,
    "dual": dual,
    "text": text,
    "speed": speed,
    "cells": cells,
    "counting": counting,
    "crossover": crossover,
}
