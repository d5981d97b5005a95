"""Rows of a frame that a regressor learns, and its lifetimes after them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import is_real
from ..frames import Frame, read_targets, read_weights


class TargetRows:
    """The checked rows of a frame, with their targets and weights.

    Parameters
    ----------
    frame
        The frame, read.
    y
        The targets of its rows.
    w
        A weight for all rows, or one for each.

    """

    def __init__(self, frame: Frame, y: Any, w: Any) -> None:
        like, self.names, self.columns = frame
        self.targets = read_targets(y, len(self.columns), like)
        self.weights = read_weights(w, len(self.columns), like)
        self.places = {name: place for place, name in enumerate(self.names)}
        # The lifetimes after each row, where they change, if so many samples come before the first.
        self.n_before = 0
        self.horizons: list[float] | None = None

    def __len__(self) -> int:
        return len(self.columns)

    def value(self, row: int, name: Hashable) -> float:
        """Return a row's value of a feature."""
        return float(self.columns[row, self.places[name]])

    def of_targets(self, start: int, stop: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return copies of the targets and weights of some rows."""
        return self.targets[start:stop].copy(), self.weights[start:stop].copy()


def lifetimes_after(lifetime: Callable[[int], Any], n: int, more: int, last: float) -> list[float]:
    """Return lifetimes, which are a function, after each of `more` samples.

    Before them there are `n` samples, with the last lifetime; none may be less than one before.
    """
    found = []
    for i in range(n + 1, n + more + 1):
        before, last = last, lifetime(i)
        if not (is_real(last) and last >= 0.0):
            raise ValueError(f"lifetime({i}) must be a number >= 0, got {last!r}")
        if last < before:
            raise ValueError(f"lifetime must not fall, got {last!r} after {before!r} at n = {i}")
        found.append(float(last))
    return found
