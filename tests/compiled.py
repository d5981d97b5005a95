"""The kernels' helpers, which have no way in from Python, for tests to call."""

from __future__ import annotations

import numba


def from_python(helper):
    """Compile a function that only calls a helper."""
    return numba.njit(lambda *arguments: helper(*arguments))
