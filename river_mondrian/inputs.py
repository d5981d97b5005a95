"""Readers of mappings, and checks of labels, targets and weights."""

from __future__ import annotations

import datetime
import functools
import math
import operator
import struct
import sys
import warnings
from collections.abc import Callable, Container, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .arguments import told
from .checks import refuse
from .limits import LARGEST, LARGEST_TARGET, LARGEST_WEIGHT, LEAST_LEVEL
from .values import Level, Typed, level_of, number_of

# Values of features, targets or weights.
Floats: TypeAlias = NDArray[np.float64]

# Maps the codes of False and True to 0 and 1, because truth values of numeric features count as 0
# and 1.
_TRUTHS = {float(level_of(value)): float(value) for value in (False, True)}

# A feature is a category if its first value has one of these types.
_LEVELS = (str, bool, np.bool_, Typed)

# After MANY_GROWTHS samples with new features, a sample seems to be a bag of words if its share of
# the known features is below FEW_KNOWN.
MANY_GROWTHS, FEW_KNOWN = 50, 0.2

# Number of classes at which `warn_of_numbers` checks whether all classes are fractions.
MANY_LABELS = 50


def ordered(names: Iterable[Hashable]) -> list[Any]:
    """Return sorted names of any types, so that the order of a mapping's keys is irrelevant."""
    names = list(names)
    try:
        return sorted(names)
    except (TypeError, ValueError):
        # Names of different types are sorted by type and text. Comparing a NumPy scalar with a
        # tuple raises a ValueError instead of a TypeError.
        return sorted(names, key=lambda name: (type(name).__name__, repr(name)))


def check_value(name: Hashable, value: Any) -> float:
    """Return a feature's value as a float; None becomes NaN.

    Raises
    ------
    TypeError
        If the value is not a number.
    ValueError
        If the value is infinite or too large for single precision.

    """
    # Most values are floats, and tests against abstract classes are slow, so floats come first.
    number = value if type(value) is float else number_of(value)
    if number is None:
        remedies = [how for kind, how in _AS_NUMBERS.items() if isinstance(value, kind)]
        remedy = f": give a number, such as {remedies[0]}" if remedies else ""
        raise TypeError(f"feature {name!r} must be a number, got {told(value)}{remedy}")
    if abs(number) > LARGEST:
        raise too_large(name, value)
    return number


# Code that converts times to numbers, for error messages.
_AS_NUMBERS = {
    datetime.datetime: "value.timestamp()",
    datetime.date: "value.month or value.toordinal()",
    datetime.time: "value.hour + value.minute / 60",
    datetime.timedelta: "value.total_seconds()",
    np.datetime64: "value.astype('datetime64[s]').astype(float)",
    np.timedelta64: "value / np.timedelta64(1, 's')",
}


def as_dict(x: Any) -> dict[Any, Any]:
    """Return a sample as a dict, because looking up a key in another mapping could insert the key.

    Raises
    ------
    TypeError
        If the sample is not a mapping.

    """
    if type(x) is dict or type(x) is Row:
        return x
    if not hasattr(x, "keys"):
        raise TypeError(f"a sample must be a mapping of features, got {told(x)}")
    return dict(x)


def check_names(names: Iterable[Hashable]) -> None:
    """Raise an error if a name is a missing value, such as NaN, which a dict may not find."""
    for name in names:
        if type(name) is not str and not _equals_itself(name):
            raise ValueError(f"the name of a feature must not be missing, got {name!r}")


def _equals_itself(key: Hashable) -> bool:
    try:
        return bool(key == key)
    except (TypeError, ValueError):
        # The comparison of pandas.NA with itself is NA, whose truth value raises a TypeError.
        return False


def too_large(name: Hashable, value: Any, where: str = "") -> ValueError:
    """Return the error for a feature's value that is not finite in single precision."""
    return ValueError(f"feature {name!r} must be finite in single precision, got {value!r}{where}")


def check_level(name: Hashable, value: Any) -> float:
    """Return the level of a category's value, or NaN if the value is missing.

    Raises
    ------
    TypeError
        If the type of the value is not allowed for levels (see `level_of`).

    """
    try:
        return level_of(value)
    except TypeError:
        raise TypeError(
            f"feature {name!r} must be a level of a category (text, a number, a date, a time, an "
            f"interval, or a tuple of these), got {told(value)}"
        ) from None


def read_value(name: Hashable, value: Any, is_category: bool | None) -> float:
    """Return a feature's value as a float: a number, the code of a level, or NaN if missing.

    Mappings and frames are both read by this function, so their values have the same meaning.
    `is_category` is None if the feature is unknown. Then text, truth values and values of columns
    with a categorical type are levels, and other values are numbers.

    Raises
    ------
    TypeError
        If the value is neither a number nor a level, or does not have the feature's type.
    ValueError
        If a number is infinite or too large for single precision.

    """
    if type(value) is Level:
        return value if is_category is None else of_kind(name, value, is_category)
    if is_category or (is_category is None and isinstance(value, _LEVELS)):
        return check_level(name, value)
    return check_value(name, value)


def warn_user(text: str) -> None:
    """Show a warning at the innermost line of code outside this package and River."""
    level, frame, packages = 1, sys._getframe(), ("river_mondrian", "river")
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in packages:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def warn_of_text(name: Hashable, text: Any) -> None:
    """Show a warning if a feature's first value is text that could be a number or a date."""
    if not isinstance(text, str) or isinstance(text, Typed):
        return
    for what, parse in (("number", float), ("date", datetime.datetime.fromisoformat)):
        try:
            parse(text)
        except ValueError:
            continue
        warn_user(
            f"feature {name!r} begins with the text {text!r}, so it is a category. If it is a "
            f"{what}, convert it, such as by river.stream.iter_csv(converters={{{name!r}: ...}}) "
            "or, in a frame, by pandas.to_numeric or to_datetime. If it is a category, ignore this "
            "warning"
        )
        return


def warn_of_numbers(labels: Mapping[Hashable, int]) -> None:
    """Show a warning if all of the first `MANY_LABELS` classes are fractions."""
    if len(labels) == MANY_LABELS and all(
        isinstance(label, (float, np.floating)) and not label.is_integer() for label in labels
    ):
        warn_user(
            f"the first {MANY_LABELS} classes are all fractions, such as {next(iter(labels))!r}: "
            "use a regressor if they are numbers to be predicted"
        )


def warn_of_words(features: FeatureIndex, n_given: int) -> None:
    """Count a sample with new features; warn once if samples seem to be bags of words."""
    features.n_growths += 1
    if features.n_growths >= MANY_GROWTHS and n_given < FEW_KNOWN * len(features):
        features.n_growths = -sys.maxsize
        warn_user(
            f"{MANY_GROWTHS} samples had new features, and this one lacks most of the "
            f'{len(features)} known features. Use missing="zero" if an absent feature means 0, as '
            'in bags of words. Use a mapping such as missing={"word_": "zero"} if this holds only '
            "for names with this prefix"
        )


def of_kind(name: Hashable, value: float, is_category: bool, where: str = "") -> float:
    """Convert a value to its feature's type. The value was read before the feature was known.

    A number becomes a level if the feature is a category. The levels False and True become 0 and 1
    if the feature is numeric. `where` is the end of the error message.

    Raises
    ------
    TypeError
        If the value is another level, but the feature is not a category.

    """
    if (value >= LEAST_LEVEL) is is_category or value != value:
        return value
    if is_category:
        return level_of(value)
    if value in _TRUTHS:
        return _TRUTHS[value]
    level = value.level if isinstance(value, Level) else None
    # Rows of frames contain only codes of levels, so the message cannot show the level.
    shown = "a level of a category" if level is None else told(level)
    raise TypeError(f"feature {name!r} must be a number, got {shown}{where}")


def gap_of(name: Hashable, missing: Any) -> float:
    """Return the value of an absent feature: 0, or NaN if the value is unknown.

    If `missing` is a mapping, the longest key that is a prefix of the feature's name applies. If
    the name is a tuple that is not a key, its first item replaces the name.
    """
    if isinstance(missing, str):
        return 0.0 if missing == "zero" else math.nan
    if name not in missing and isinstance(name, tuple) and name:
        return gap_of(name[0], missing)
    text = name if isinstance(name, str) else ""
    beginnings = (name, *(text[:n] for n in range(len(text), -1, -1)))
    return gap_of(name, next((missing[key] for key in beginnings if key in missing), "unknown"))


class Row(dict[Any, Any]):
    """A frame's row as a mapping, with the names of the columns that have a categorical type."""

    __slots__ = ("categories",)

    categories: Container[Hashable]


class FeatureIndex:
    """The known features, each with its index in a vector.

    A feature becomes known with its first value that is not missing. The feature is a category if
    this value is a level. New features of one sample are ordered by name. The features of an index
    do not change, because threads may share the index: `with_more` returns a new index.

    Parameters
    ----------
    missing
        Meaning of absent features, as in the forests' parameter of this name.

    """

    # Number of samples with new features (see `warn_of_words`). Pickles and deep copies start at 0.
    n_growths = 0

    def __init__(
        self,
        missing: Any = "unknown",
        names: Sequence[Hashable] = (),
        gaps: Floats | None = None,
        categories: frozenset[Hashable] = frozenset(),
    ) -> None:
        self.missing = missing if isinstance(missing, str) else dict(missing)
        self.names, self.categories = list(names), categories
        self.index_of: dict[Hashable, int] = {name: i for i, name in enumerate(names)}
        # Value of each feature in samples without the feature: 0 or NaN.
        self.gaps = np.array([gap_of(name, missing) for name in names]) if gaps is None else gaps
        numbers = struct.Struct(f"{len(names)}d")
        # Function that packs a mapping with all features into bytes, or returns False if the values
        # must be checked first.
        self.pack: Callable[[Any], Any] = self._filler(numbers.pack)
        self._pack_into = numbers.pack_into
        self._vector: Any = None

    def __len__(self) -> int:
        return len(self.names)

    def _filler(self, put: Callable[..., Any]) -> Callable[[Any], Any]:
        """Return a function that calls `put` with a mapping's values, in the order of features.

        The function returns False if the mapping's values must be checked first. The function runs
        for each sample, so all variables are local, which is fast.
        """
        names, levels_at = self.names, self.category_indices
        nan, is_nan, ne = math.nan, math.isnan, operator.ne
        n = len(names) or -1
        has_zeros = not np.isnan(self.gaps).all()
        # The `itemgetter` of a single name does not return a tuple, so one feature needs its own
        # function.
        get = operator.itemgetter(*names) if n > 1 else lambda x: (x[names[0]],)

        def fill(x: Any) -> Any:
            if type(x) is not dict:
                x = as_dict(x)
            if len(x) != n:
                return False
            try:
                values = get(x)
                if levels_at:
                    values = list(values)
                    for i in levels_at:
                        values[i] = level_of(values[i])
                # The lines of `are_numbers` are repeated here, because a call would take longer.
                total = sum(values, nan)
                is_float = type(total) is float
                if not is_float and not isinstance(total, np.floating):
                    return False
                # If a missing value counts as 0, packing NaN would be wrong, so the values are
                # checked first.
                if has_zeros and (
                    is_nan(sum(values, 0.0)) if is_float else any(map(ne, values, values))
                ):
                    return False
                return put(*values)
            except (ArithmeticError, KeyError, TypeError, struct.error):
                return False

        return fill

    @property
    def category_indices(self) -> list[int]:
        """Indices of all categories in a vector, in ascending order."""
        return sorted(self.index_of[name] for name in self.categories)

    def __getstate__(self) -> Any:
        # The state is never empty, because older pickle protocols omit empty states.
        known = self.names, self.category_indices
        return known if self.missing == "unknown" else (*known, self.missing)

    def __setstate__(self, state: Any) -> None:
        names, indices, *rest = state
        missing = rest[0] if rest else "unknown"
        if not isinstance(missing, (str, dict)):
            refuse(self, "missing", missing, "but it should be a word or a mapping")
        if type(names) is not list:
            refuse(self, "names", names, "but it should be a list")
        if len(set(names)) != len(names):
            refuse(self, "names", names, "but each should occur once")
        are_indices = type(indices) is list and all(type(i) is int for i in indices)
        if not are_indices or not set(indices) <= set(range(len(names))):
            refuse(self, "categories", indices, f"but there are {len(names)} features")
        FeatureIndex.__init__(self, missing, names, None, frozenset(names[i] for i in indices))

    def with_more(self, names: Iterable[Hashable]) -> FeatureIndex:
        """Return an index with more features; first values, if given, determine categories."""
        first = names if isinstance(names, Mapping) else dict.fromkeys(names, 0.0)
        for name, value in first.items():
            if type(value) is Level:
                warn_of_text(name, value.level)
        gaps = np.append(self.gaps, [gap_of(name, self.missing) for name in first])
        categories = {name for name, value in first.items() if value >= LEAST_LEVEL}
        return self._with([*self.names, *first], gaps, self.categories | categories)

    def first(self, n: int) -> FeatureIndex:
        """Return an index of the first `n` features."""
        names = self.names[:n]
        known = self.categories.intersection(names)
        return self if n >= len(self) else self._with(names, self.gaps[:n], known)

    def _with(
        self, names: list[Hashable], gaps: Floats, categories: frozenset[Hashable]
    ) -> FeatureIndex:
        index = FeatureIndex(self.missing, names, gaps, categories)
        index.n_growths = self.n_growths
        return index

    def new_of(self, values: Mapping[Hashable, float]) -> dict[Hashable, float]:
        """Return a checked sample's new features, in the order of their names."""
        return {name: values[name] for name in ordered(values.keys() - self.index_of.keys())}

    def read_known(self, x: Mapping[Any, Any], vector: Any) -> bool:
        """Write a mapping's values to a vector; return False if values must be checked first."""
        if vector is not self._vector:
            # Bound arguments and a `memoryview` of the vector halve the time of a call. `_vector`
            # is set last, so that the next call binds again after an interruption.
            put = functools.partial(self._pack_into, memoryview(vector), 0)
            self._put, self._vector = self._filler(put), vector
        return self._put(x) is not False

    def read(self, x: Mapping[Any, Any], levels: bool = False) -> dict[Hashable, float]:
        """Return a mapping's checked values that are not missing. Levels need `levels=True`."""
        x = as_dict(x)
        check_names(x)
        if not levels:
            values = {name: check_value(name, value) for name, value in x.items()}
        else:
            values, typed = {}, x.categories if type(x) is Row else ()
            for name, value in x.items():
                known = name in self.categories if name in self.index_of else name in typed or None
                values[name] = read_value(name, value, known)
        return {name: value for name, value in values.items() if value == value}

    def agree(self, names: Sequence[Hashable], columns: Floats, first_row: int = 0) -> None:
        """Convert a frame's columns in place to their features' types (see `of_kind`).

        `columns` begin at row `first_row` of the frame; error messages count the frame's rows.
        """
        for i, name in enumerate(names):
            column = columns[:, i]
            is_category = name in self.categories
            if name in self.index_of and (is_category or (column >= LEAST_LEVEL).any()):
                others = ((column >= LEAST_LEVEL) != is_category) & ~np.isnan(column)
                for row in np.flatnonzero(others).tolist():
                    value = float(column[row])
                    level = Level(value, None) if value >= LEAST_LEVEL else value
                    where = f" in row {first_row + row}"
                    columns[row, i] = of_kind(name, level, is_category, where)

    def write(self, values: Mapping[Hashable, float], vector: Floats) -> None:
        """Write the checked values of known features to a vector."""
        vector[: len(self.gaps)] = self.gaps
        vector[len(self.gaps) :] = np.nan
        for name, value in values.items():
            index = self.index_of.get(name)
            if index is not None:
                vector[index] = value

    def check_input(self, bad: int, vector: Floats) -> None:
        """Raise an error for the input at index `bad`, which is too large, unless `bad` < 0."""
        if bad >= 0:
            raise too_large(self.names[bad], float(vector[bad]))

    def read_into(self, x: Mapping[Any, Any], vector: Floats, levels: bool = False) -> None:
        """Check a mapping's values, and write the values of known features to a vector."""
        if not self.read_known(x, vector):
            self.write(self.read(x, levels), vector)

    def first_rows(self, names: Sequence[Hashable], columns: Floats) -> dict[Hashable, int]:
        """Return a frame's new features, each with the row of its first value.

        Features are in the order in which reading row by row would add them.
        """
        known = zip(names, ~np.isnan(columns.T), strict=True)
        new = [(name, rows) for name, rows in known if name not in self.index_of]
        first = {name: int(rows.argmax()) for name, rows in new if rows.any()}
        return {name: first[name] for name in sorted(ordered(first), key=first.__getitem__)}

    def first_values(self, names: Sequence[Hashable], columns: Floats) -> dict[Hashable, float]:
        """Return a frame's new features, each with its first value; see `first_rows`."""
        index_of = {name: i for i, name in enumerate(names)}
        rows = self.first_rows(names, columns)
        return {name: float(columns[row, index_of[name]]) for name, row in rows.items()}

    def arrange(self, names: Sequence[Hashable], columns: Floats, width: int) -> Floats:
        """Return a frame's columns in the features' order, shape (n, `width`).

        Missing values of known features are replaced by `gaps`, which are 0 or NaN.
        """
        values = np.full((len(columns), width), np.nan)
        for source, name in enumerate(names):
            target = self.index_of.get(name)
            if target is not None:
                values[:, target] = columns[:, source]
        known = values[:, : len(self.gaps)]
        np.copyto(known, self.gaps, where=np.isnan(known))
        return values

    @property
    def nbytes(self) -> int:
        """Memory in bytes."""
        size = self.gaps.nbytes + sum(map(sys.getsizeof, (self.names, self.index_of, *self.names)))
        # All empty frozensets are one shared object, so its size is not counted.
        return size + (sys.getsizeof(self.categories) if self.categories else 0)


def _check_finite(what: str, value: Any) -> float:
    if type(value) is float and math.isfinite(value):
        # Most values are floats, and tests against abstract classes are slow, so floats come first.
        return value
    number = None if value is None else number_of(value)
    if number is None:
        raise TypeError(f"the {what} must be a number, got {told(value)}")
    if not math.isfinite(number):
        raise ValueError(f"the {what} must be finite, got {value!r}")
    return number


def check_label(label: Any) -> Any:
    """Return a label after checking that it is hashable, and neither None nor NaN."""
    try:
        hash(label)
    except TypeError:
        raise TypeError(f"the label must be hashable, got {label!r}") from None
    if label is None or not _equals_itself(label):
        raise ValueError(f"the label must not be missing, got {label!r}")
    return label


def check_target(target: Any) -> float:
    """Return a target as a float after checking that it is a number from -1e120 to 1e120."""
    number = _check_finite("target", target)
    if abs(number) > LARGEST_TARGET:
        raise ValueError(f"the target must be at most {LARGEST_TARGET:g} in size, got {target!r}")
    return number


def check_weight(weight: Any) -> float:
    """Return a weight as a float after checking that it is a number from 0 to 1e30."""
    number = _check_finite("weight", weight)
    if not 0.0 <= number <= LARGEST_WEIGHT:
        raise ValueError(f"the weight must be >= 0 and <= {LARGEST_WEIGHT:g}, got {weight!r}")
    return number
