"""Readers of frames, arrays and series, which check all values.

Functions of River and narwhals are imported when the first frame is read. The import takes as long
as loading all kernels from disk, and is not needed for single samples.
"""

from __future__ import annotations

import datetime
import math
import numbers
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import inputs
from .arguments import told
from .inputs import FeatureIndex, Floats, Row, check_names, read_value, too_large
from .limits import LARGEST, LARGEST_TARGET, LARGEST_WEIGHT, LEAST_LEVEL
from .values import TYPED, Level, is_missing

# A typed column of polars or pyarrow can store values of one of these types.
_TYPED = {str, bool, int, float, bytes, datetime.date, datetime.datetime, datetime.timedelta}

# `Native` is an array or a narwhals frame. `Frame` is the result of `read_frame`.
Native: TypeAlias = Any
Frame: TypeAlias = tuple[Native, list[Hashable], Floats]


def read_frame(X: Any, features: FeatureIndex | None = None) -> Frame:
    """Return the names and checked values of a frame, or of an array with the columns 0, 1, ...

    Parameters
    ----------
    X
        A pandas, polars or pyarrow frame, or an array.
    features
        The known features, if columns may contain levels; else None. Columns of known categories
        must contain levels. Columns of other known features must contain numbers.

    Returns
    -------
    The narwhals frame or the array itself, the column names, and the values, shape (n, columns).
    Nulls become NaN, and levels become codes.

    Raises
    ------
    TypeError
        If `X` is not a frame or an array, a value is neither a number nor a level, or a new column
        begins with a number and contains text. The same error is raised if a column contains
        levels, but `features` is None or knows the column as numeric.
    ValueError
        If a column name occurs twice, a value is infinite or too large, or an array is not
        two-dimensional.

    """
    frame, names = _named(X)
    kinds = () if isinstance(frame, np.ndarray) else set(frame.schema.values())
    if all(kind.is_numeric() and not _lacks_numpy_type(kind) for kind in kinds) and len(kinds) < 2:
        array = frame if isinstance(frame, np.ndarray) else frame.to_numpy()
        at_once = _numbers(array, names, features)
        if at_once is not None:
            return frame, names, at_once
    values = np.empty((len(frame), len(names)))
    for i, name in enumerate(names):
        is_array = isinstance(frame, np.ndarray)
        column = frame[:, i] if is_array else frame.get_column(name)
        values[:, i] = _read_column(column, name, features)
    _check_sizes(names, values)
    return frame, names, values


def _named(X: Any) -> tuple[Native, list[Hashable]]:
    """Return a narwhals frame or the array itself, and the names of the columns."""
    if isinstance(X, np.ndarray):
        if X.ndim != 2:
            raise ValueError(f"an array must have the shape (samples, features), got {X.shape}")
        # Columns of an `np.matrix` have two dimensions, so the matrix is converted to an array.
        return np.asarray(X) if isinstance(X, np.matrix) else X, list(range(X.shape[1]))
    _check_frame(X)
    from river.utils.dataframe import into_frame

    columns = getattr(X, "columns", None)
    if columns is not None and not callable(columns):
        listed = getattr(X, "column_names", columns)
        for name, n in Counter(name for name in listed if isinstance(name, Hashable)).items():
            if n > 1:
                raise ValueError(f"column {name!r} occurs more than once")
    frame = into_frame(X)
    check_names(frame.columns)
    return frame, list(frame.columns)


def _lacks_numpy_type(kind: Any) -> bool:
    """Return whether a column must be cast to floats, because NumPy lacks the column's type."""
    import narwhals.stable.v2 as nw

    return kind in (nw.Int128, nw.UInt128, nw.Decimal)


def _numbers(
    array: NDArray[Any], names: list[Hashable], features: FeatureIndex | None
) -> Floats | None:
    """Return an array's numbers, with NaN for masked numbers.

    Return None if a number may be invalid or columns may contain levels. Then the caller reads the
    columns one by one.
    """
    has_categories = features is not None and not features.categories.isdisjoint(names)
    if array.dtype.kind not in "iuf" or has_categories:
        return None
    values: Floats = np.ma.filled(array.astype(np.float64, order="C"), math.nan)
    if values.size == 0:
        return values
    low, high = np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None)
    # If all values are NaN, both comparisons are false, so the columns are read one by one.
    return values if low >= -LARGEST and high <= LARGEST else None


def rows_of(X: Any) -> tuple[Native, list[dict[Any, Any]]]:
    """Return a narwhals frame or the array itself, and the rows with the user's values.

    Missing values are omitted. If columns have a type for levels, the rows are `Row`s, and the
    texts and numbers in these columns are `Typed`.
    """
    frame, names = _named(X)
    if isinstance(frame, np.ndarray):
        rows: Iterable[Any] = (dict(enumerate(_items(row))) for row in frame)
        typed: list[Hashable] = []
    else:
        rows = frame.iter_rows(named=True)
        typed = [name for name in names if _has_levels(frame.schema[name])]
    read = [
        Row((k, _typed(v) if k in typed else v) for k, v in x.items() if not is_missing(v))
        for x in rows
    ]
    for row in read:
        row.categories = typed
    return frame, [*read] if typed else [*map(dict, read)]


def _typed(value: Any) -> Any:
    kind = TYPED.get(type(value))
    return value if kind is None else kind(value)


def _items(array: NDArray[Any]) -> list[Any]:
    """Return an array's elements, without turning times in nanoseconds into integers."""
    return list(array) if array.dtype.kind in "mM" else array.tolist()


def _has_levels(dtype: Any) -> bool:
    """Return whether a column has a type for levels: truth values, categoricals or enums."""
    import narwhals.stable.v2 as nw

    return dtype in (nw.Boolean, nw.Categorical, nw.Enum)


def _check_frame(X: Any) -> None:
    """Raise an error unless `X` is an eager frame; the error names a remedy if one is known."""
    import narwhals.stable.v2 as nw

    if nw.dependencies.is_into_dataframe(X):
        return
    name = type(X).__name__
    wanted = f"must be a pandas, polars or pyarrow frame, or an array, got {name}"
    if isinstance(nw.from_native(X, pass_through=True, allow_series=True), nw.LazyFrame):
        raise TypeError(f"X is a lazy frame, which has no rows yet: give X{_eager(X)} ({name})")
    if nw.dependencies.is_into_series(X):
        raise TypeError(f"X {wanted}, which is one column: give X.to_frame()")
    if isinstance(X, (list, tuple)) and all(isinstance(row, Mapping) for row in X):
        raise TypeError(f"X {wanted}: give pandas.DataFrame(X), or use learn_one and predict_one")
    raise TypeError(f"X {wanted}")


def _eager(frame: Any) -> str:
    """Return the call that makes a lazy frame of pyspark, duckdb, dask, ibis or polars eager."""
    names = ("toPandas", "df", "compute", "collect", "execute")
    return next((f".{name}()" for name in names if hasattr(type(frame), name)), "")


def _check_sizes(names: Sequence[Hashable], values: Floats) -> None:
    """Raise an error if a number is not finite in single precision; accept codes of levels."""
    with np.errstate(invalid="ignore"):
        bad = (np.abs(values) > LARGEST) & ~(values >= LEAST_LEVEL)
    if bad.any():
        row, i = np.argwhere(bad)[0]
        raise too_large(names[i], float(values[row, i]), f" in row {row}")


def mapping_of(names: Sequence[Hashable], row: Floats) -> dict[Hashable, float]:
    """Return a frame's row as a mapping without missing values."""
    return {
        name: Level(value, None) if value >= LEAST_LEVEL else value
        for name, value in zip(names, row.tolist(), strict=True)
        if value == value
    }


def _read_column(column: Any, name: Hashable, features: FeatureIndex | None) -> Floats:
    """Return the checked values of a column."""
    import narwhals.stable.v2 as nw

    is_array, dtype = isinstance(column, np.ndarray), column.dtype
    is_typed = dtype.kind == "b" if is_array else _has_levels(dtype)
    if features is None:
        is_category: bool | None = False
    else:
        # If the column has no type for levels, the feature's first value determines its type.
        is_category = name in features.categories if name in features.index_of else is_typed or None
    are_numbers = dtype.kind in "biuf" if is_array else dtype.is_numeric() or dtype == nw.Boolean
    if are_numbers and not is_category:
        if not is_array and (column.null_count() > 0 or _lacks_numpy_type(dtype)):
            column = column.cast(nw.Float64)
        array = column if is_array else column.to_numpy()
        if array.dtype != object:
            return _plain(name, np.ma.filled(array.astype(np.float64), math.nan))
    if is_array:
        return _one_by_one(name, _items(column), is_category)
    pairs = zip(column.to_list(), column.is_null().to_list(), strict=True)
    return _one_by_one(name, [None if is_null else v for v, is_null in pairs], is_category)


def _plain(name: Hashable, values: Floats) -> Floats:
    """Return a column of numbers after checking that no number could be read as a level's code."""
    for row in np.flatnonzero(values >= LEAST_LEVEL).tolist():
        raise too_large(name, float(values[row]), f" in row {row}")
    return values


def _one_by_one(name: Hashable, items: list[Any], is_category: bool | None) -> Floats:
    """Return a column's checked values, all numbers or all levels; None becomes NaN."""
    values = np.full(len(items), math.nan)
    for row, item in enumerate(items):
        try:
            value = read_value(name, item, is_category)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error} in row {row}") from None
        if value == value:
            if is_category is None:
                is_category = type(value) is Level
                inputs.warn_of_text(name, item)
            values[row] = value
    return values


def list_values(values: Any, n: int, what: str, like: Any = None) -> list[Any]:
    """Return a series, an array or a sequence of `n` values as a list.

    `like` is the frame of the rows, or None if the frame is unknown.
    """
    _check_list(values, what)
    _check_order(values, what, like)
    items: list[Any] | None = list(values) if isinstance(values, Sequence) else None
    if isinstance(values, np.ndarray):
        items = _items(values)
    for method in ("tolist", "to_list", "to_pylist"):
        if items is None and hasattr(values, method):
            items = list(getattr(values, method)())
    if items is None:
        items = list(values)
    if len(items) != n:
        raise ValueError(f"X has {n} rows but there are {len(items)} {what}")
    return items


def _check_list(values: Any, what: str) -> None:
    """Raise an error unless values are an ordered, one-dimensional collection."""
    said = f"{what} must be a series, a list or an array of one dimension"
    name = type(values).__name__
    if _eager(values):
        raise TypeError(f"{said}, got a {name}: give one column of y{_eager(values)}")
    names = getattr(values, "columns", None)
    if names is not None and not callable(names):
        listed = [str(name) for name in getattr(values, "column_names", names)]
        raise TypeError(f"{said}, got a {name} with the columns {listed}: give one of these")
    shape = getattr(values, "shape", (0,))
    if len(shape) != 1:
        raise TypeError(f"{said}, got one of the shape {tuple(shape)}")
    is_listing = hasattr(values, "__iter__") and not isinstance(values, (str, bytes, Mapping, Set))
    if not is_listing:
        raise TypeError(f"{said}, got {values!r} ({name})")


def _check_order(values: Any, what: str, like: Any) -> None:
    """Raise an error if a pandas series has the index of the rows in another order.

    Rows and values are matched by position, as in River. An index with other labels, such as a
    reset index, is accepted.
    """
    import narwhals.stable.v2 as nw

    ours = getattr(values, "index", None)
    rows = getattr(nw.to_native(like, pass_through=True), "index", None)
    if ours is None or rows is None or callable(ours) or callable(rows) or len(ours) != len(rows):
        return
    if not ours.equals(rows) and ours.is_unique and ours.isin(rows).all():
        raise ValueError(
            f"the {what} have the labels of the index of X in another order, but are matched by "
            "position: give .loc[X.index] to match labels, or .to_numpy() to match positions"
        )


def _checked(values: list[Any], check: Callable[[Any], Any]) -> list[Any]:
    """Return the checked value of each row; an error names the row."""
    checked: list[Any] = []
    try:
        for value in values:
            checked.append(check(value))
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error} in row {len(checked)}") from None
    return checked


def _checked_numbers(
    values: list[Any], check: Callable[[Any], float], least: float, most: float
) -> Floats:
    """Return the numbers of the rows after checking that they are from `least` to `most`."""
    # Usually all values are floats, which are checked together, because single checks are slow.
    if set(map(type, values)) == {float}:
        numbers = np.array(values)
        if ((numbers >= least) & (numbers <= most)).all():
            return numbers
    return np.array(_checked(values, check), dtype=np.float64)


def read_labels(y: Any, n: int, like: Any = None) -> list[Hashable]:
    """Return the checked labels of `n` rows of the frame `like`, from a series, array or sequence.

    Raises
    ------
    TypeError
        If a label is not hashable.
    ValueError
        If there are not `n` labels, or a label is None or NaN.

    """
    labels = list_values(y, n, "labels", like)
    try:
        # Each distinct label is checked once, because usually there are many rows and few labels.
        for label in set(labels):
            inputs.check_label(label)
    except (TypeError, ValueError):
        _checked(labels, inputs.check_label)
    return labels


def read_targets(y: Any, n: int, like: Any = None) -> Floats:
    """Return the checked targets of `n` rows of the frame `like`, from a series, array or sequence.

    Raises
    ------
    TypeError
        If a target is not a number.
    ValueError
        If there are not `n` targets, or a target is not finite or exceeds 1e120 in absolute value.

    """
    targets = list_values(y, n, "targets", like)
    return _checked_numbers(targets, inputs.check_target, -LARGEST_TARGET, LARGEST_TARGET)


def read_weights(w: Any, n: int, like: Any = None) -> Floats:
    """Return the checked weights of `n` rows of the frame `like`, given as one or `n` weights.

    Raises
    ------
    TypeError
        If a weight is not a number.
    ValueError
        If there are not `n` weights, or a weight is not from 0 to 1e30.

    """
    # A value that is not iterable is one weight for all rows, or invalid.
    if isinstance(w, (numbers.Real, np.bool_, str)) or not hasattr(w, "__iter__"):
        return np.full(n, inputs.check_weight(w))
    listed = list_values(w, n, "weights", like)
    return _checked_numbers(listed, inputs.check_weight, 0.0, LARGEST_WEIGHT)


def native_frame(columns: Mapping[Any, Any], like: Native) -> Any:
    """Return columns as a frame like `like`, or as an array of shape (n, columns)."""
    if isinstance(like, np.ndarray):
        rows = np.empty((len(like), len(columns)))
        for i, column in enumerate(columns.values()):
            rows[:, i] = column
        return rows
    from river.utils import dataframe

    if not like.implementation.is_pandas_like():
        _check_texts(columns)
    return dataframe.to_native_frame(columns, like=like)


def _check_texts(names: Iterable[Any]) -> None:
    """Raise an error if two names have the same text: some frames have only strings as names."""
    seen: dict[str, Any] = {}
    for name in names:
        first = seen.setdefault(str(name), name)
        if first is not name:
            raise ValueError(
                f"{first!r} and {name!r} would be the same column: this frame names columns "
                "by text; use a pandas frame"
            )


def native_moments(moments: Floats, with_dist: bool, like: Native) -> Any:
    """Return means and variances as a frame, or only the means as a series."""
    means, variances = moments.T
    if with_dist:
        return native_frame({"mean": means, "variance": variances}, like)
    return native_series(means, None, like)


def native_series(values: Sequence[Any] | NDArray[Any], name: str | None, like: Native) -> Any:
    """Return values as a series like the frame `like`, or as an array of shape (n,).

    A sequence becomes an array of type object, unless all its values have one of the types str,
    int, float and bool, and NumPy stores them unchanged.
    """
    if not isinstance(like, np.ndarray):
        from river.utils import dataframe

        check_labels(values, like)
        if like.implementation.is_polars() and _are_objects(values):
            import polars

            # If the first value were a member of an enum, polars would store the values of members,
            # so an empty tuple comes first.
            return polars.Series(name, [(), *values], dtype=polars.Object)[1:]
        return dataframe.to_native_series(values, name=name, like=like)
    if isinstance(values, np.ndarray):
        return values
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        array = np.array(values)
        # NumPy may turn large integers into floats, and drops trailing null characters of strings,
        # so the array is compared with the values.
        if all(type(label) in kinds for label in array.tolist()) and array.tolist() == list(values):
            return array
    return np.fromiter(values, dtype=object, count=len(values))


def _are_objects(values: Any) -> bool:
    """Return whether a typed column of polars or pyarrow could not store the values unchanged."""
    if isinstance(values, np.ndarray):
        return False
    # NumPy's times are not converted, because `item` may return integers or less precise times.
    items = [
        value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mM" else value
        for value in values
        if value is not None
    ]
    kinds = set(map(type, items))
    # A column of times has only one time zone.
    zones = {item.tzinfo for item in items if isinstance(item, datetime.datetime)}
    is_large = any(isinstance(value, int) and abs(value) >= 2**63 for value in items)
    return max(len(kinds), len(zones)) > 1 or is_large or not kinds <= _TYPED


def check_labels(labels: Any, X: Any) -> None:
    """Raise an error if `X` is a pyarrow table, and no pyarrow column can store the labels."""
    import narwhals.stable.v2 as nw

    table = nw.to_native(X, pass_through=True)
    if nw.dependencies.is_pyarrow_table(table) and _are_objects(labels):
        shown = told([*dict.fromkeys(labels)][:3])
        raise TypeError(
            f"a column of pyarrow cannot hold the labels {shown}: give a frame of pandas or "
            "polars, or an array"
        )


@dataclass(frozen=True)
class Block:
    """Rows, with NaN for missing values. Rows for learning also have a y and a weight each."""

    names: list[Hashable]
    columns: Floats
    y: Any = None
    w: Any = None

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def ys(self) -> list[Any]:
        """The labels, or the targets as Python's floats."""
        return self.y if isinstance(self.y, list) else self.y.tolist()

    def part(self, start: int, stop: int) -> Block:
        """Return the rows from `start` to `stop`."""
        part = slice(start, stop)
        return Block(self.names, self.columns[part], self.y[part], self.w[part])

    def weighing(self) -> Block:
        """Return the rows whose weights are not 0, with their labels as a list."""
        if self.w.all():
            return self
        weighted = np.flatnonzero(self.w)
        labels = [self.y[i] for i in weighted.tolist()]
        return Block(self.names, self.columns[weighted], labels, self.w[weighted])

    def mapping(self, row: int) -> dict[Hashable, float]:
        """Return a row as a mapping without missing values."""
        return mapping_of(self.names, self.columns[row])


def read_block(
    frame: Frame, y: Any, w: Any, read_y: Callable[[Any, int, Any], Any] = read_targets
) -> Block:
    """Return the rows of a frame from `read_frame`, with checked labels or targets and weights."""
    like, names, columns = frame
    n = len(columns)
    return Block(names, columns, read_y(y, n, like), read_weights(w, n, like))
