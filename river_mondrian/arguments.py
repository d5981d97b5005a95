"""Checks of the arguments that the feature maps and the learners on them share."""

from __future__ import annotations

import math
from typing import Any

from .inputs import is_real


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
