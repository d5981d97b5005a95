"""From results back to what the caller has given: frames, series or arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .frames import Native


def native_frame(columns: Mapping[Any, Any], like: Native) -> Any:
    """Return columns as a frame like the one read, or as an array of shape (n, columns)."""
    if isinstance(like, np.ndarray):
        found = np.empty((len(like), len(columns)))
        for place, column in enumerate(columns.values()):
            found[:, place] = column
        return found
    from river.utils import dataframe

    if not like.implementation.is_pandas_like():
        _check_texts(columns)
    return dataframe.to_native_frame(columns, like=like)


def _check_texts(names: Iterable[Any]) -> None:
    """Refuse names that are the same text, which is what frames other than pandas' have."""
    seen: dict[str, Any] = {}
    for name in names:
        other = seen.setdefault(str(name), name)
        if other is not name:
            raise ValueError(
                f"{other!r} and {name!r} would be the same column: columns of this frame are "
                "named by text; those of pandas keep both apart"
            )


def native_series(values: Sequence[Any] | NDArray[Any], name: str | None, like: Native) -> Any:
    """Return values as a series like the frame read, or as an array of shape (n,).

    Labels that an array would change, as it makes strings of numbers beside strings, are objects in
    it.
    """
    if not isinstance(like, np.ndarray):
        from river.utils import dataframe

        return dataframe.to_native_series(values, name=name, like=like)
    if isinstance(values, np.ndarray):
        return values
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        made = np.array(values)
        # Of integers that none of NumPy's holds it makes floats, and of a string it drops zeros.
        if all(type(label) in kinds for label in made.tolist()) and made.tolist() == list(values):
            return made
    return np.fromiter(values, dtype=object, count=len(values))
