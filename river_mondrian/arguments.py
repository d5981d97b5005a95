"""Checks of the arguments of estimators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def is_real(value: Any) -> bool:
    """Tell whether an argument is a real number and no truth value."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def check_integer(name: str, value: Any, least: int) -> None:
    """Refuse an argument that is no integer, or one below `least`."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")


def check_positive(name: str, value: Any) -> None:
    """Refuse an argument that is no finite number above 0."""
    if not is_real(value) or not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be a finite number > 0, got {value!r}")


def check_kernel(kernel: Any, lifetime: Any, gamma: Any) -> None:
    """Refuse what is no kernel, or no rate of one."""
    if kernel not in ("laplace", "gaussian"):
        raise ValueError(f'kernel must be "laplace" or "gaussian", got {kernel!r}')
    check_positive("lifetime", lifetime)
    check_positive("gamma", gamma)
