"""From mappings, frames and labels to vectors and class numbers."""

from __future__ import annotations

import functools
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

from .checks import refuse
from .limits import LARGEST, LARGEST_TARGET, LARGEST_WEIGHT


def ordered(names: Iterable[Hashable]) -> list[Any]:
    """Sort names whatever their types, so that the order of a mapping's keys does not matter."""
    names = list(names)
    try:
        return sorted(names)
    except (TypeError, ValueError):
        # A NumPy scalar is compared with each item of a tuple.
        return sorted(names, key=lambda name: (type(name).__name__, repr(name)))


def check_value(name: Hashable, value: Any) -> float:
    """Return a feature's value as a float; None is missing, as NaN is.

    Raises
    ------
    TypeError
        If the value is no number.
    ValueError
        If the value is infinite or larger than single precision holds.

    """
    # What is usual takes no test against abstract classes.
    number = value if type(value) is float else _number(name, value)
    if abs(number) > LARGEST:
        raise too_large(name, value)
    return number


def _number(name: Hashable, value: Any) -> float:
    """Return what is no float as one."""
    if value is None:
        return math.nan
    if not isinstance(value, (numbers.Real, np.bool_)):
        try:
            value = struct.unpack("d", struct.pack("d", value))[0]
        except (struct.error, OverflowError):
            raise TypeError(
                f"feature {name!r} must be a number, got {value!r} ({type(value).__name__})"
            ) from None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_mapping(x: Any) -> None:
    """Refuse a sample that is no mapping."""
    if not hasattr(x, "keys"):
        raise TypeError(
            f"a sample must be a mapping from feature to number, got {x!r} ({type(x).__name__})"
        )


def too_large(name: Hashable, value: Any, where: str = "") -> ValueError:
    """Return the error for a feature's value that is not finite in single precision."""
    return ValueError(f"feature {name!r} must be finite in single precision, got {value!r}{where}")


def read_values(x: Mapping[Any, Any]) -> dict[Hashable, float]:
    """Check a mapping's values; returns those that are not missing."""
    check_mapping(x)
    values = {name: check_value(name, value) for name, value in x.items()}
    return {name: value for name, value in values.items() if value == value}


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
        names = self.names
        # A getter of one item gives it bare.
        self._n_fast = len(names) if len(names) > 1 else -1
        self._get: Callable[[Any], Any] = operator.itemgetter(*names) if names else len
        self._bind(None)

    def _bind(self, vector: Any) -> None:
        """Let `_put` write all features' values to the beginning of a vector."""
        if vector is not None:
            pack_into = struct.Struct(f"{len(self.names)}d").pack_into
            # Binding what does not change, and a plain view, halve the time of a call.
            self._put: Callable[..., None] = functools.partial(pack_into, memoryview(vector), 0)
        # Last: a call that is interrupted binds again.
        self._vector = vector

    def __getstate__(self) -> list[Hashable]:
        return self.names

    def __setstate__(self, names: list[Hashable]) -> None:
        self.names = names
        if type(names) is not list:
            refuse(self, "names", names, "but it is a list")
        self.places = {name: place for place, name in enumerate(names)}
        if len(self.places) != len(names):
            refuse(self, "names", names, "but each is there once")
        self._refresh()

    def with_more(self, names: Iterable[Hashable]) -> FeatureIndex:
        """Return these features and more; this one stays as it is."""
        made = FeatureIndex()
        made.names, made.places = self.names.copy(), self.places.copy()
        made.add(names)
        return made

    def add(self, names: Iterable[Hashable]) -> None:
        """Give new features the next places."""
        for name in names:
            self.names.append(name)
            self.places[name] = len(self.names) - 1
        self._refresh()

    def keep_first(self, n: int) -> None:
        """Forget all features but the first `n`, also where `add` was interrupted."""
        if n < len(self.names):
            for name in self.names[n:]:
                self.places.pop(name, None)
            del self.names[n:]
            self._refresh()

    def read_known(self, x: Mapping[Any, Any], vector: Any) -> bool:
        """Write a mapping to a vector the fast way; False where the keys or values forbid it."""
        if (type(x) is not dict and not hasattr(x, "keys")) or len(x) != self._n_fast:
            return False
        if vector is not self._vector:
            self._bind(vector)
        try:
            self._put(*self._get(x))
        except (KeyError, struct.error, OverflowError):
            return False
        return True

    def read(self, x: Mapping[Any, Any]) -> dict[Hashable, float]:
        """Check a mapping's values; returns those that are not missing."""
        return read_values(x)

    def write(self, values: Mapping[Hashable, float], vector: NDArray[np.float64]) -> None:
        """Write checked values to a vector; features that are not known are left out."""
        vector[:] = np.nan
        for name, value in values.items():
            place = self.places.get(name)
            if place is not None:
                vector[place] = value

    def read_into(self, x: Mapping[Any, Any], vector: NDArray[np.float64]) -> None:
        """Write a mapping to a vector, checked; features that are not known are left out."""
        if not self.read_known(x, vector):
            self.write(self.read(x), vector)

    def first_rows(
        self, names: Sequence[Hashable], columns: NDArray[np.float64]
    ) -> dict[Hashable, int]:
        """Return a frame's new features, each with the row of its first value.

        They are in the order in which adding row by row would meet them.
        """
        known = ~np.isnan(columns)
        first = {
            name: int(rows.argmax())
            for name, rows in zip(names, known.T, strict=True)
            if name not in self.places and rows.any()
        }
        return {name: first[name] for name in sorted(ordered(first), key=first.__getitem__)}

    def arrange(
        self, names: Sequence[Hashable], columns: NDArray[np.float64], width: int
    ) -> NDArray[np.float64]:
        """Bring a frame's columns into the features' order, NaN for those it lacks."""
        values = np.full((len(columns), width), np.nan)
        for source, name in enumerate(names):
            target = self.places.get(name)
            if target is not None:
                values[:, target] = columns[:, source]
        return values

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return (
            sys.getsizeof(self.names)
            + sys.getsizeof(self.places)
            + sum(sys.getsizeof(name) for name in self.names)
        )


class Packer:
    """Packs mappings into bytes, as kernels take them, by the features known when it is made.

    It is of no use any more when features have been added: what it packs then is for nobody.

    Parameters
    ----------
    features
        The features.

    """

    __slots__ = ("_get", "_n", "_pack", "_places")

    def __init__(self, features: FeatureIndex) -> None:
        names = features.names
        # A getter of one item gives it bare. What is packed twice is read once.
        taken = names * 2 if len(names) == 1 else names
        self._n = len(names) or -1
        self._get: Callable[[Any], Any] = operator.itemgetter(*taken) if names else len
        self._pack = struct.Struct(f"{len(taken)}d").pack
        # Others may add features meanwhile.
        self._places = features.places.copy()

    def pack(self, x: Mapping[Any, Any]) -> bytes | None:
        """Pack a mapping the fast way; None where the keys or values forbid it."""
        if (type(x) is not dict and not hasattr(x, "keys")) or len(x) != self._n:
            return None
        try:
            return self._pack(*self._get(x))
        except (KeyError, struct.error, OverflowError):
            return None

    def knows(self, values: Mapping[Hashable, float]) -> bool:
        """Tell whether all keys of a mapping are known features."""
        return values.keys() <= self._places.keys()

    def pack_values(self, values: Mapping[Hashable, float]) -> bytes:
        """Pack checked values; features that are not known are left out."""
        row = np.full(len(self._places), np.nan)
        for name, value in values.items():
            place = self._places.get(name)
            if place is not None:
                row[place] = value
        return row.tobytes()


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
        raise too_large(names[place], float(values[row, place]), f" in row {row}")
    return frame, names, values


def mapping_of(names: Sequence[Hashable], row: NDArray[np.float64]) -> dict[Hashable, float]:
    """Return a row of a frame as a mapping without its missing values."""
    return {name: value for name, value in zip(names, row.tolist(), strict=True) if value == value}


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


def _check_finite(what: str, value: Any) -> float:
    if type(value) is float and math.isfinite(value):
        # What is usual takes no test against abstract classes.
        return value
    if not isinstance(value, (numbers.Real, np.bool_)):
        raise TypeError(f"the {what} must be a number, got {value!r} ({type(value).__name__})")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"the {what} must be finite, got {number!r}")
    return number


def check_label(label: Any) -> None:
    """Refuse what can be no class: something unhashable, None or NaN."""
    try:
        hash(label)
    except TypeError:
        raise TypeError(f"the label must be hashable, got {label!r}") from None
    if label is None or label != label:
        raise ValueError(f"the label must not be missing, got {label!r}")


def check_target(target: Any) -> float:
    """Return a target as a float; refuse one that is no number or larger than 1e120 in size."""
    number = _check_finite("target", target)
    if abs(number) > LARGEST_TARGET:
        raise ValueError(f"the target must be at most {LARGEST_TARGET:g} in size, got {target!r}")
    return number


def check_weight(weight: Any) -> float:
    """Return a sample's weight as a float; refuse a negative one and one that is not finite."""
    number = _check_finite("weight", weight)
    if not 0.0 <= number <= LARGEST_WEIGHT:
        raise ValueError(f"the weight must be >= 0 and <= {LARGEST_WEIGHT:g}, got {weight!r}")
    return number
