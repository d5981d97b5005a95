"""From frames, and the series beside them, to arrays."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from river.utils.dataframe import into_frame

from .inputs import (
    FeatureIndex,
    check_label,
    check_target,
    check_value,
    check_weight,
    other_kind,
    read_value,
    too_large,
)
from .levels import Level, level_of
from .limits import LARGEST


class Rows(NamedTuple):
    """The checked rows of a frame.

    Attributes
    ----------
    frame
        The frame, as a narwhals one.
    names
        Names of its columns.
    values
        Shape (n, columns), with NaN for nulls; levels are codes.
    levels
        The levels of each column of these.

    """

    frame: nw.DataFrame[Any]
    names: list[Hashable]
    values: NDArray[np.float64]
    levels: dict[Hashable, list[Any]]

    def mapping(self, row: int) -> dict[Hashable, float]:
        """Return a row as a mapping without its missing values."""
        found = mapping_of(self.names, self.values[row])
        for name, levels in self.levels.items():
            if name in found:
                found[name] = level_of(levels[row])
        return found

    def part(self, start: int, stop: int) -> Rows:
        """Return some of the rows; `frame` stays whole."""
        levels = {name: found[start:stop] for name, found in self.levels.items()}
        return self._replace(values=self.values[start:stop], levels=levels)

    def taken(self, places: list[int]) -> Rows:
        """Return the rows at these places; `frame` stays whole."""
        levels = {name: [found[i] for i in places] for name, found in self.levels.items()}
        return self._replace(values=self.values[places], levels=levels)

    def agree_with(self, features: FeatureIndex, are_numbers: bool = False) -> None:
        """Let each column be of its feature's kind: truth values may have to be numbers.

        Parameters
        ----------
        features
            The features, of which those that are known have a kind.
        are_numbers
            Whether features that are not known have to be numbers, too.

        Raises
        ------
        TypeError
            If another column is of the wrong kind.

        """
        for place, name in enumerate(self.names):
            is_category = name in features.categories
            is_known = are_numbers or name in features.places
            if not is_known or is_category == (name in self.levels):
                continue
            column = self.values[:, place]
            there = np.flatnonzero(~np.isnan(column))
            if is_category:
                if len(there):
                    row = int(there[0])
                    raise other_kind(name, True, float(column[row]), f" in row {row}")
                continue
            levels = self.levels[name]
            for row in there.tolist():
                if not isinstance(levels[row], (bool, np.bool_)):
                    raise other_kind(name, False, levels[row], f" in row {row}")
                column[row] = float(levels[row])
            del self.levels[name]


def read_rows(X: Any, levels: bool = False) -> Rows:
    """Read a pandas, polars or pyarrow frame, whose columns may have to be numbers.

    Raises
    ------
    TypeError
        If a column holds something that is no number and, where there may be `levels`, no level of
        a category; or both of these.
    ValueError
        If a column name occurs twice, or a value is infinite or too large.

    """
    columns = getattr(X, "columns", None)
    if columns is not None and not callable(columns):
        seen: set[Hashable] = set()
        for name in getattr(X, "column_names", columns):
            if isinstance(name, Hashable) and name in seen:
                raise ValueError(f"column {name!r} occurs more than once")
            if isinstance(name, Hashable):
                seen.add(name)
    frame = into_frame(X)
    names: list[Hashable] = list(frame.columns)
    values = np.empty((len(frame), len(names)))
    categories = {}
    for place, name in enumerate(names):
        values[:, place], found = _read_column(frame, name, levels)
        if found is not None:
            categories[name] = found
    with np.errstate(invalid="ignore"):
        bad = np.abs(values) > LARGEST
    if bad.any():
        row, place = np.argwhere(bad)[0]
        raise too_large(names[place], float(values[row, place]), f" in row {row}")
    return Rows(frame, names, values, categories)


def read_frame(X: Any) -> tuple[nw.DataFrame[Any], list[Hashable], NDArray[np.float64]]:
    """Read a frame of numbers: the frame, names of columns and values, as `read_rows` does."""
    return read_rows(X)[:3]


def mapping_of(names: Sequence[Hashable], row: NDArray[np.float64]) -> dict[Hashable, float]:
    """Return a row of a frame as a mapping without its missing values."""
    return {name: value for name, value in zip(names, row.tolist(), strict=True) if value == value}


def _read_column(
    frame: nw.DataFrame[Any], name: Any, levels: bool
) -> tuple[NDArray[np.float64], list[Any] | None]:
    """Return a column's values and, where it is a category, its levels."""
    column = frame.get_column(name)
    dtype = column.dtype
    is_category = dtype in (nw.Boolean, nw.Categorical, nw.Enum, nw.String)
    if not (levels and is_category) and (dtype.is_numeric() or dtype == nw.Boolean):
        if column.null_count() > 0:
            column = column.cast(nw.Float64)
        array = column.to_numpy()
        if array.dtype != object:
            return array.astype(np.float64), None
    given = column.to_list()
    read = _level_in_column if levels and is_category else read_value if levels else check_value
    found = [math.nan if value is None else read(name, value) for value in given]
    kinds = {type(value) is Level for value in found if value == value}
    if len(kinds) > 1:
        first = type(next(value for value in found if value == value)) is Level
        row = next(i for i, v in enumerate(found) if v == v and (type(v) is Level) is not first)
        raise other_kind(name, first, given[row], f" in row {row}")
    return np.array(found, dtype=np.float64), given if True in kinds else None


def _level_in_column(name: Hashable, value: Any) -> float:
    """Return a value of a column of levels, which may be numbers; NaN is missing."""
    return level_of(value) if value == value else math.nan


def _listed(values: Any, n: int, what: str) -> list[Any]:
    """Turn a series, an array or a sequence of `n` values into a list."""
    found: list[Any] | None = list(values) if isinstance(values, Sequence) else None
    for method in ("tolist", "to_list", "to_pylist"):
        if found is None and hasattr(values, method):
            found = list(getattr(values, method)())
    if found is None:
        found = list(values)
    if len(found) != n:
        raise ValueError(f"X has {n} rows but there are {len(found)} {what}")
    return found


def read_labels(y: Any, n: int) -> list[Hashable]:
    """Read the labels of `n` rows from a series, an array or a sequence.

    Raises
    ------
    TypeError
        If a label is not hashable.
    ValueError
        If there are not `n` labels, or one is None or NaN.

    """
    labels = _listed(y, n, "labels")
    for label in labels:
        check_label(label)
    return labels


def read_targets(y: Any, n: int) -> NDArray[np.float64]:
    """Read the targets of `n` rows from a series, an array or a sequence.

    Raises
    ------
    TypeError
        If a target is no number.
    ValueError
        If there are not `n` targets, or one is not finite or larger than 1e120 in size.

    """
    return np.array([check_target(target) for target in _listed(y, n, "targets")], dtype=float)


def read_weights(w: Any, n: int) -> NDArray[np.float64]:
    """Read the weights of `n` rows, or the one of all of them.

    Raises
    ------
    TypeError
        If a weight is no number.
    ValueError
        If there are not `n` weights, or one is negative or not finite.

    """
    # What is no sequence is a weight, or none.
    if isinstance(w, (numbers.Real, np.bool_, str)) or not hasattr(w, "__iter__"):
        return np.full(n, check_weight(w))
    return np.array([check_weight(weight) for weight in _listed(w, n, "weights")], dtype=float)
