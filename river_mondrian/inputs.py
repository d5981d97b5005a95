"""From mappings, frames and labels to vectors and class numbers."""

from __future__ import annotations

import math
import numbers
import operator
import struct
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from river.utils.dataframe import into_frame

from .kernels.memory import LARGEST


def ordered(names: Iterable[Hashable]) -> list[Any]:
    """Sort names whatever their types, so that the order of a mapping's keys does not matter."""
    names = list(names)
    try:
        return sorted(names)
    except TypeError:
        return sorted(names, key=lambda name: (type(name).__name__, repr(name)))


def check_value(name: Hashable, value: Any) -> float:
    """Return a feature's value as a float, NaN where it is missing.

    Raises
    ------
    TypeError
        If the value is no number.
    ValueError
        If the value is infinite or larger than single precision holds.

    """
    if not isinstance(value, (numbers.Real, np.bool_)):
        try:
            value = struct.unpack("d", struct.pack("d", value))[0]
        except (struct.error, OverflowError):
            raise TypeError(
                f"feature {name!r} must be a number, got {value!r} ({type(value).__name__})"
            ) from None
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if abs(number) > LARGEST:
        raise ValueError(f"feature {name!r} must be finite in single precision, got {value!r}")
    return number


class FeatureIndex:
    """The features known so far, each at a place of a vector.

    A feature is known from its first value that is not missing. Those first met in one sample
    are ordered by name.
    """

    def __init__(self) -> None:
        self.names: list[Hashable] = []
        self.places: dict[Hashable, int] = {}
        self._refresh()

    def __len__(self) -> int:
        return len(self.names)

    def _refresh(self) -> None:
        n = len(self.names)
        self._get: Callable[[Any], Any] | None = operator.itemgetter(*self.names) if n > 1 else None
        self._pack = struct.Struct(f"{n}d").pack_into

    def __getstate__(self) -> list[Hashable]:
        return self.names

    def __setstate__(self, names: list[Hashable]) -> None:
        self.names = names
        self.places = {name: place for place, name in enumerate(names)}
        self._refresh()

    def add(self, names: Iterable[Hashable]) -> None:
        """Give new features the next places."""
        for name in names:
            self.places[name] = len(self.names)
            self.names.append(name)
        self._refresh()

    def read_known(self, x: Mapping[Any, Any], vector: Any) -> bool:
        """Write a mapping to a vector the fast way; False where the keys or values forbid it."""
        if self._get is None or len(x) != len(self.names):
            return False
        try:
            self._pack(vector, 0, *self._get(x))
        except (KeyError, struct.error, OverflowError):
            return False
        return True

    def read(self, x: Mapping[Any, Any]) -> dict[Hashable, float]:
        """Check a mapping's values; returns those that are not missing."""
        values = {name: check_value(name, value) for name, value in x.items()}
        return {name: value for name, value in values.items() if value == value}

    def write(self, values: Mapping[Hashable, float], vector: NDArray[np.float64]) -> None:
        """Write checked values to a vector; features that are not known are left out."""
        vector[:] = np.nan
        for name, value in values.items():
            place = self.places.get(name)
            if place is not None:
                vector[place] = value

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return (
            sys.getsizeof(self.names)
            + sys.getsizeof(self.places)
            + sum(sys.getsizeof(name) for name in self.names)
        )


def read_frame(X: Any) -> tuple[nw.DataFrame[Any], list[Hashable], NDArray[np.float64]]:
    """Read a pandas, polars or pyarrow frame.

    Returns
    -------
    The frame as a narwhals one, its column names, and its values, shape (n, columns), with NaN
    for nulls.

    Raises
    ------
    TypeError
        If a column holds something that is no number.
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
    for place, name in enumerate(names):
        values[:, place] = _read_column(frame, name)
    with np.errstate(invalid="ignore"):
        bad = np.abs(values) > LARGEST
    if bad.any():
        row, place = np.argwhere(bad)[0]
        raise ValueError(
            f"feature {names[place]!r} must be finite in single precision, "
            f"got {values[row, place]!r} in row {row}"
        )
    return frame, names, values


def _read_column(frame: nw.DataFrame[Any], name: Any) -> NDArray[np.float64]:
    column = frame.get_column(name)
    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        if column.null_count() > 0:
            column = column.cast(nw.Float64)
        array = column.to_numpy()
        if array.dtype != object:
            return array.astype(np.float64)
    return np.array(
        [np.nan if value is None else check_value(name, value) for value in column.to_list()],
        dtype=np.float64,
    )


def _as_list(y: Any, n: int, what: str) -> list[Any]:
    """Turn a series, an array or a sequence of `n` values into a list."""
    if isinstance(y, Sequence):
        values = list(y)
    elif hasattr(y, "tolist"):
        values = y.tolist()
    elif hasattr(y, "to_list"):
        values = y.to_list()
    elif hasattr(y, "to_pylist"):
        values = y.to_pylist()
    else:
        values = list(y)
    if len(values) != n:
        raise ValueError(f"X has {n} rows but there are {len(values)} {what}")
    return values


def read_labels(y: Any, n: int) -> list[Hashable]:
    """Read the labels of `n` rows from a series, an array or a sequence.

    Raises
    ------
    TypeError
        If a label is not hashable.
    ValueError
        If there are not `n` labels, or one is None or NaN.

    """
    labels = _as_list(y, n, "labels")
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
        If there are not `n` targets, or one is not finite.

    """
    return np.array([check_target(value) for value in _as_list(y, n, "targets")], dtype=float)


def read_weights(w: Any, n: int) -> NDArray[np.float64]:
    """Read the weights of `n` rows, or one for all; raises as `read_targets` does."""
    if isinstance(w, (numbers.Real, np.bool_)):
        return np.full(n, check_target(w, "weight", least=0.0))
    weights = _as_list(w, n, "weights")
    return np.array([check_target(value, "weight", least=0.0) for value in weights], dtype=float)


def check_target(value: Any, what: str = "target", least: float = -math.inf) -> float:
    """Return a target or a weight as a float.

    Raises
    ------
    TypeError
        If it is no number.
    ValueError
        If it is not finite, or less than `least`.

    """
    if not isinstance(value, float):
        if not isinstance(value, (numbers.Real, np.bool_)):
            raise TypeError(f"the {what} must be a number, got {value!r} ({type(value).__name__})")
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
    if not (math.isfinite(value) and value >= least):
        bound = f" >= {least:g}" if least > -math.inf else ""
        raise ValueError(f"the {what} must be a finite number{bound}, got {value!r}")
    return float(value)


def check_label(label: Any) -> None:
    """Refuse what can be no class: something unhashable, None or NaN."""
    try:
        hash(label)
    except TypeError:
        raise TypeError(f"the label must be hashable, got {label!r}") from None
    if label is None or label != label:
        raise ValueError(f"the label must not be missing, got {label!r}")


def is_real(value: Any) -> bool:
    """Tell whether an argument is a real number and no truth value."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def check_integer(name: str, value: Any, least: int) -> None:
    """Refuse an argument that is no integer, or one below `least`."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
