"""The rows and targets of a sweep over lifetimes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...frames import read_frame, read_targets
from .result import SETS

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sets:
    """The training, validation and test rows, and their targets.

    Parameters
    ----------
    rows
        The rows of all sets, in that order.
    stops
        Number of rows up to the end of each set, by its name.
    targets
        Targets of each set that has any, by its name.

    """

    rows: Array
    stops: dict[str, int]
    targets: dict[str, Array]

    def part(self, name: str) -> slice:
        """Return the places of a set's rows."""
        place = SETS.index(name)
        return slice(0 if place == 0 else self.stops[SETS[place - 1]], self.stops[name])


def read_rows(X: Any, what: str, names: Sequence[Hashable] | None) -> tuple[list[Hashable], Array]:
    """Read an array or a frame; columns of frames are brought into the order of `names`."""
    _, found, values = read_frame(X)
    if names is not None:
        if set(found) != set(names):
            raise ValueError(f"the columns of {what} must be those of X, got {found!r}")
        values = values[:, [found.index(name) for name in names]]
        found = list(names)
    if not np.isfinite(values).all():
        row, place = np.argwhere(~np.isfinite(values))[0]
        raise ValueError(
            f"feature {found[place]!r} of {what} must be finite, got {float(values[row, place])!r} "
            f"in row {row}"
        )
    return found, values


def read_sets(X: Any, y: Any, X_val: Any, y_val: Any, X_test: Any, y_test: Any) -> Sets:
    """Read all rows and targets; columns of frames are brought into the order of X's.

    Raises
    ------
    TypeError
        If a value or a target is no number.
    ValueError
        If a value is missing or not finite, or sets do not fit.

    """
    names, first = read_rows(X, "X", None)
    parts, targets = [first], [read_targets(y, len(first))]
    if not len(first):
        raise ValueError("X has no rows")
    for what, rows, values in (("X_val", X_val, y_val), ("X_test", X_test, y_test)):
        if rows is None and values is not None:
            raise ValueError(f"there are targets but {what} is None")
        parts.append(np.empty((0, len(names))) if rows is None else read_rows(rows, what, names)[1])
        known = values is not None
        targets.append(read_targets(values, len(parts[-1])) if known else np.empty(0))
    if X_val is not None and y_val is None:
        raise ValueError("X_val needs y_val")
    stops = np.cumsum([len(part) for part in parts]).tolist()
    return Sets(
        np.ascontiguousarray(np.concatenate(parts)),
        dict(zip(SETS, stops, strict=True)),
        {name: values for name, values in zip(SETS, targets, strict=True) if len(values)},
    )
