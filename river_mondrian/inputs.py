"""Read mappings into vectors, and check labels, targets and weights."""

from __future__ import annotations

import datetime
import functools
import hashlib
import math
import numbers
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

# Values of features, targets or weights.
Floats: TypeAlias = NDArray[np.float64]

# Types of levels that `FeatureIndex.read_known` reads (see `coded`).
PLAIN = frozenset({str, bool})

# Number of levels whose codes are cached; other levels are hashed again.
MOST_CACHED = 1 << 16

_CODES = 2**52


class Level(float):
    """Code of a category's level: `LEAST_LEVEL` times (1 + h), with a hash h in [0, 1).

    Values of numeric features are smaller, so a code is recognized by its size, even in arrays.
    Since codes are hashes, no table of levels is needed, and the number of levels is not limited.
    Among 100,000 levels, two levels share a code with probability 1e-6.
    """

    __slots__ = ("level",)

    level: Any

    def __new__(cls, code: float, level: Any) -> Level:
        """Return a level with its code and the value that the user gave."""
        made = super().__new__(cls, code)
        made.level = level
        return made


@functools.lru_cache(MOST_CACHED, typed=True)
def level_of(value: Any) -> Level:
    """Return the level for a string, a truth value or a number."""
    # Equal values of NumPy and Python are one level. A member of a string enum and its string are
    # one level.
    value = value.item() if isinstance(value, np.generic) else value
    text = str.__str__(value) if isinstance(value, str) else repr(value)
    kind = "str" if isinstance(value, str) else type(value).__name__
    tagged = f"{kind} {text}".encode(errors="surrogatepass")
    digest = hashlib.blake2b(tagged, digest_size=8).digest()
    fraction = int.from_bytes(digest, "little") % _CODES / _CODES
    return Level(LEAST_LEVEL * (1.0 + fraction), value)


# `TRUTH_VALUES` maps the codes of False and True to 0 and 1. `TRUTH_LEVELS` maps 0 and 1 to these
# codes.
TRUTH_VALUES = {float(level_of(value)): float(value) for value in (False, True)}
TRUTH_LEVELS = {float(value): level_of(value) for value in (False, True)}


# After MANY_GROWTHS samples with new features, a sample that has a smaller share of the known
# features than FEW_KNOWN is considered a bag of words.
MANY_GROWTHS, FEW_KNOWN = 50, 0.2

# Number of classes at which `warn_of_numbers` checks whether they are fractions.
MANY_LABELS = 50


def ordered(names: Iterable[Hashable]) -> list[Any]:
    """Return names of any types, sorted, so that the order of a mapping's keys does not matter."""
    names = list(names)
    try:
        return sorted(names)
    except (TypeError, ValueError):
        # Comparing a NumPy scalar with a tuple raises a ValueError.
        return sorted(names, key=lambda name: (type(name).__name__, repr(name)))


def check_value(name: Hashable, value: Any) -> float:
    """Return a feature's value as a float; None becomes NaN, a missing value.

    Raises
    ------
    TypeError
        If the value is not a number.
    ValueError
        If the value is infinite or larger than single precision holds.

    """
    # Most values are floats, and tests against abstract classes are slow.
    number = value if type(value) is float else number_of(value)
    if number is None:
        remedies = [how for kind, how in _AS_NUMBERS.items() if isinstance(value, kind)]
        remedy = f": give a number, such as {remedies[0]}" if remedies else ""
        raise TypeError(f"feature {name!r} must be a number, got {told(value)}{remedy}")
    if abs(number) > LARGEST:
        raise too_large(name, value)
    return number


def number_of(value: Any) -> float | None:
    """Return a value as a float: NaN if it is missing, None if it is not a number."""
    if is_missing(value):
        return math.nan
    # NumPy converts some time spans to integers, and some arrays to numbers.
    has_axes = getattr(value, "ndim", 0) != 0
    if has_axes or isinstance(value, (np.datetime64, np.timedelta64)):
        return None
    try:
        # Unlike `float`, packing does not parse text.
        (number,) = struct.unpack("d", struct.pack("d", value))
    except (struct.error, OverflowError, TypeError, ValueError):
        # A real number that cannot be packed is too large.
        return math.inf if isinstance(value, numbers.Real) else None
    return float(number)


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN or a missing value of NumPy or pandas."""
    if value is None or (isinstance(value, float) and value != value):
        return True
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    pandas = sys.modules.get("pandas")
    return pandas is not None and (value is pandas.NA or value is pandas.NaT)


# Code that turns times into numbers, for error messages.
_AS_NUMBERS = {
    datetime.datetime: "value.timestamp()",
    datetime.date: "value.month or value.toordinal()",
    datetime.time: "value.hour + value.minute / 60",
    datetime.timedelta: "value.total_seconds()",
    np.datetime64: "value.astype('datetime64[s]').astype(float)",
    np.timedelta64: "value / np.timedelta64(1, 's')",
}


def as_dict(x: Any) -> dict[Any, Any]:
    """Return a sample as a dict; a look-up in another mapping could insert an absent key.

    Raises
    ------
    TypeError
        If the sample is not a mapping.

    """
    if type(x) is dict:
        return x
    if not hasattr(x, "keys"):
        raise TypeError(f"a sample must be a mapping of features, got {told(x)}")
    return dict(x)


def check_names(names: Iterable[Hashable]) -> None:
    """Refuse missing feature names such as NaN, which a look-up may not find again."""
    for name in names:
        if type(name) is not str and not _equals_itself(name):
            raise ValueError(f"the name of a feature must not be missing, got {name!r}")


def _equals_itself(key: Hashable) -> bool:
    try:
        return bool(key == key)
    except (TypeError, ValueError):
        # The comparison of pandas.NA with itself is neither True nor False.
        return False


def too_large(name: Hashable, value: Any, where: str = "") -> ValueError:
    """Return the error for a feature's value that is not finite in single precision."""
    return ValueError(f"feature {name!r} must be finite in single precision, got {value!r}{where}")


def check_value_or_level(name: Hashable, value: Any) -> float:
    """Return a feature's value as `check_value` does; text and truth values become levels."""
    if type(value) is Level:
        return value
    if isinstance(value, (str, bool, np.bool_)):
        return level_of(value)
    return check_value(name, value)


def read_values(x: Mapping[Any, Any], levels: bool = False) -> dict[Hashable, float]:
    """Return a mapping's checked values that are not missing; refuse levels unless `levels`."""
    check = check_value_or_level if levels else check_value
    x = as_dict(x)
    check_names(x)
    values = {name: check(name, value) for name, value in x.items()}
    return {name: value for name, value in values.items() if value == value}


def _warn(text: str) -> None:
    """Warn at the user's line of code, the innermost line outside this package and River."""
    level, frame, packages = 1, sys._getframe(), ("river_mondrian", "river")
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in packages:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def warn_of_text(name: Hashable, text: Any) -> None:
    """Warn if the first value of a feature is text that reads as a number or a date."""
    if not isinstance(text, str):
        return
    for what, parse in (("number", float), ("date", datetime.datetime.fromisoformat)):
        try:
            parse(text)
        except ValueError:
            continue
        _warn(
            f"feature {name!r} begins with the text {text!r}, so it is a category. If it is a "
            f"{what}, convert it, such as by river.stream.iter_csv(converters={{{name!r}: ...}}) "
            "or, in a frame, by pandas.to_numeric or to_datetime. If it is a category, ignore this "
            "warning"
        )
        return


def warn_of_numbers(labels: Mapping[Hashable, int]) -> None:
    """Warn if all of the first `MANY_LABELS` classes are fractions."""
    if len(labels) == MANY_LABELS and all(
        isinstance(label, (float, np.floating)) and not label.is_integer() for label in labels
    ):
        _warn(
            f"the first {MANY_LABELS} classes are all fractions, such as {next(iter(labels))!r}: "
            "use a regressor if they are numbers to be predicted"
        )


def warn_of_words(features: FeatureIndex, n_given: int) -> None:
    """Count a sample with new features; warn once if the sample seems to be a bag of words."""
    features.n_growths += 1
    if features.n_growths >= MANY_GROWTHS and n_given < FEW_KNOWN * len(features):
        features.n_growths = -sys.maxsize
        _warn(
            f"{MANY_GROWTHS} samples had new features, and this one lacks most of the "
            f'{len(features)} known features. Use missing="zero" if an absent feature means 0, as '
            'in bags of words. Use a mapping such as missing={"word_": "zero"} if this holds only '
            "for names with this prefix"
        )


def check_level(name: Hashable, value: Any) -> Level:
    """Return the level of a category for a string, a truth value or a number.

    Raises
    ------
    TypeError
        If the value has another type.

    """
    if not isinstance(value, (str, bool, np.bool_, numbers.Real)):
        raise TypeError(f"a level of feature {name!r} must be text or a number, got {value!r}")
    return level_of(value)  # type: ignore[arg-type]


def of_kind(name: Hashable, value: float, is_category: bool, where: str = "") -> float:
    """Return a checked value as a level if its feature is a category, else as a number.

    For a category, truth values and the numbers 0 and 1 are levels. For other features, truth
    values, 0 and 1 are numbers. `where` is the end of the error message.

    Raises
    ------
    TypeError
        If the value is a number but the feature is a category, or the reverse.

    """
    if (value >= LEAST_LEVEL) is is_category or value != value:
        return value
    found = TRUTH_LEVELS.get(value) if is_category else TRUTH_VALUES.get(value)
    if found is not None:
        return found
    kind = "a level of a category, as before" if is_category else "a number"
    given = value.level if isinstance(value, Level) else value
    # The rows of frames hold the codes of levels, but not the levels.
    shown = "a level of a category" if given is None else told(given)
    raise TypeError(f"feature {name!r} must be {kind}, got {shown}{where}")


def agreed(
    values: dict[Hashable, float], known: Container[Hashable], categories: Container[Hashable]
) -> dict[Hashable, float]:
    """Return checked values; `of_kind` converts the values of features in `known`."""
    if not categories and max(values.values(), default=0.0) < LEAST_LEVEL:
        return values
    return {
        name: of_kind(name, value, name in categories) if name in known else value
        for name, value in values.items()
    }


def coded(values: Iterable[Any], places: Sequence[int]) -> list[Any] | None:
    """Return values with levels at `places` as codes; None if a level's type is not in `PLAIN`."""
    found = list(values)
    for place in places:
        value = found[place]
        if type(value) not in PLAIN:
            return None
        found[place] = level_of(value)
    return found


def gap_of(name: Hashable, missing: Any) -> float:
    """Return the value of an absent feature: 0, or NaN if the value is unknown.

    If `missing` is a mapping, the longest key that is a prefix of the feature's name decides. If
    the name is a tuple that is not a key, the first item of the tuple decides.
    """
    if isinstance(missing, str):
        return 0.0 if missing == "zero" else math.nan
    if name not in missing and isinstance(name, tuple) and name:
        return gap_of(name[0], missing)
    text = name if isinstance(name, str) else ""
    beginnings = (name, *(text[:n] for n in range(len(text), -1, -1)))
    return gap_of(name, next((missing[key] for key in beginnings if key in missing), "unknown"))


class FeatureIndex:
    """The known features, and the place of each feature in a vector.

    A feature becomes known with its first value that is not missing. The feature is a category if
    this value is a level. New features of one sample are ordered by name.

    Parameters
    ----------
    missing
        Meaning of absent features, as in the forests' parameter of this name.

    """

    # Number of samples with new features (see `warn_of_words`); pickles and deep copies start at 0.
    n_growths = 0

    def __init__(self, missing: Any = "unknown") -> None:
        self.missing = missing if isinstance(missing, str) else dict(missing)
        self.names: list[Hashable] = []
        self.places: dict[Hashable, int] = {}
        # Each change assigns a new set, because other threads may be reading the old set.
        self.categories: frozenset[Hashable] = frozenset()
        # The value that each feature has in samples without the feature: 0 or NaN. Each change
        # assigns a new array.
        self.gaps = np.empty(0)
        self._refresh()

    def __len__(self) -> int:
        return len(self.names)

    def _refresh(self) -> None:
        names = self.names
        # The `itemgetter` of a single name does not return a tuple.
        self._n_fast = len(names) if len(names) > 1 else -1
        self._has_zeros = not np.isnan(self.gaps).all()
        self._get: Callable[[Any], Any] = operator.itemgetter(*names) if names else len
        self._levels_at = self.category_places
        self._bind(None)

    def _bind(self, vector: Any) -> None:
        """Set `_put`, which writes all features' values to the beginning of a vector."""
        if vector is not None:
            pack_into = struct.Struct(f"{len(self.names)}d").pack_into
            # Bound arguments and a `memoryview` of the vector halve the time of a call.
            self._put: Callable[..., None] = functools.partial(pack_into, memoryview(vector), 0)
        # `_vector` is set last, so that the next call binds again after an interruption.
        self._vector = vector

    @property
    def category_places(self) -> list[int]:
        """Places of the categories in a vector, in ascending order."""
        return sorted(self.places[name] for name in self.categories)

    def __getstate__(self) -> Any:
        # The state is never empty, because older pickle protocols omit empty states.
        known = self.names, self.category_places
        return known if self.missing == "unknown" else (*known, self.missing)

    def __setstate__(self, state: Any) -> None:
        names, places, *rest = state
        missing = rest[0] if rest else "unknown"
        if not isinstance(missing, (str, dict)):
            refuse(self, "missing", missing, "but it should be a word or a mapping")
        self.missing = missing
        if type(names) is not list:
            refuse(self, "names", names, "but it should be a list")
        self.names = names
        self.places = {name: place for place, name in enumerate(names)}
        if len(self.places) != len(names):
            refuse(self, "names", names, "but each should occur once")
        are_places = type(places) is list and all(type(place) is int for place in places)
        if not are_places or not set(places) <= set(range(len(names))):
            refuse(self, "categories", places, f"but there are {len(names)} features")
        self.categories = frozenset(names[place] for place in places)
        self.gaps = np.array([gap_of(name, missing) for name in names])
        self._refresh()

    def with_more(self, names: Iterable[Hashable]) -> FeatureIndex:
        """Return a copy with more features (see `add`)."""
        made = FeatureIndex(self.missing)
        made.names, made.places, made.gaps = self.names.copy(), self.places.copy(), self.gaps
        made.categories, made.n_growths = self.categories, self.n_growths
        made.add(names)
        return made

    def add(self, names: Iterable[Hashable]) -> None:
        """Add features at the next places; first values, if given, determine the categories."""
        if isinstance(names, Mapping):
            for name, value in names.items():
                if type(value) is Level:
                    warn_of_text(name, value.level)
        gaps = [gap_of(name, self.missing) for name in names]
        for name in names:
            self.names.append(name)
            self.places[name] = len(self.names) - 1
        self.gaps = np.append(self.gaps, gaps)
        if isinstance(names, Mapping):
            categories = {name for name, value in names.items() if value >= LEAST_LEVEL}
            self.categories = self.categories.union(categories)
        self._refresh()

    def new_of(self, values: Mapping[Hashable, float]) -> dict[Hashable, float]:
        """Return a checked sample's new features, in the order of their names."""
        return {name: values[name] for name in ordered(values.keys() - self.places.keys())}

    def keep_first(self, n: int) -> None:
        """Remove all features but the first `n`, even after an interrupted `add`."""
        if n < len(self.names):
            for name in self.names[n:]:
                self.places.pop(name, None)
            self.categories = self.categories.intersection(self.names[:n])
            del self.names[n:]
            self.gaps = self.gaps[:n]
            self._refresh()

    def read_known(self, x: Mapping[Any, Any], vector: Any) -> bool:
        """Write a mapping to a vector by `pack_into`; return False if this is not possible."""
        if type(x) is not dict:
            x = as_dict(x)
        if len(x) != self._n_fast:
            return False
        if vector is not self._vector:
            self._bind(vector)
        try:
            values = self._get(x)
            if self._levels_at:
                values = coded(values, self._levels_at)
                if values is None:
                    return False
            if self._has_zeros and math.isnan(sum(values)):
                # A missing value may have to be written as 0.
                return False
            self._put(*values)
        except (KeyError, TypeError, struct.error, OverflowError):
            return False
        return True

    def read(self, x: Mapping[Any, Any], levels: bool = False) -> dict[Hashable, float]:
        """Return a mapping's values that are not missing, checked and converted by `agreed`."""
        return self.agreed(read_values(x, levels))

    def agreed(self, values: dict[Hashable, float]) -> dict[Hashable, float]:
        """Return checked values; `of_kind` converts the values of known features."""
        return agreed(values, self.places, self.categories)

    def agree(self, names: Sequence[Hashable], columns: Floats, first_row: int = 0) -> None:
        """Convert a frame's columns in place to their features' kinds (see `of_kind`).

        Error messages count rows from `first_row`, the row of the frame at which `columns` begin.
        """
        for place, name in enumerate(names):
            column = columns[:, place]
            is_category = name in self.categories
            if name in self.places and (is_category or (column >= LEAST_LEVEL).any()):
                others = ((column >= LEAST_LEVEL) != is_category) & ~np.isnan(column)
                for row in np.flatnonzero(others).tolist():
                    value = float(column[row])
                    level = Level(value, None) if value >= LEAST_LEVEL else value
                    where = f" in row {first_row + row}"
                    columns[row, place] = of_kind(name, level, is_category, where)

    def write(self, values: Mapping[Hashable, float], vector: Floats) -> None:
        """Write the checked values of known features to a vector."""
        vector[: len(self.gaps)] = self.gaps
        vector[len(self.gaps) :] = np.nan
        for name, value in values.items():
            place = self.places.get(name)
            if place is not None:
                vector[place] = value

    def read_into(self, x: Mapping[Any, Any], vector: Floats, levels: bool = False) -> None:
        """Check a mapping's values, and write the values of known features to a vector."""
        if not self.read_known(x, vector):
            self.write(self.read(x, levels), vector)

    def first_rows(self, names: Sequence[Hashable], columns: Floats) -> dict[Hashable, int]:
        """Return a frame's new features, each with the row of its first value.

        Features are in the order in which reading row by row would add them.
        """
        known = zip(names, ~np.isnan(columns.T), strict=True)
        new = [(name, rows) for name, rows in known if name not in self.places]
        first = {name: int(rows.argmax()) for name, rows in new if rows.any()}
        return {name: first[name] for name in sorted(ordered(first), key=first.__getitem__)}

    def first_values(self, names: Sequence[Hashable], columns: Floats) -> dict[Hashable, float]:
        """Return a frame's new features, each with its first value; see `first_rows`."""
        places = {name: place for place, name in enumerate(names)}
        rows = self.first_rows(names, columns)
        return {name: float(columns[row, places[name]]) for name, row in rows.items()}

    def arrange(self, names: Sequence[Hashable], columns: Floats, width: int) -> Floats:
        """Return a frame's columns in the features' order, shape (n, `width`).

        Missing values of known features are replaced by `gaps`, which are 0 or NaN.
        """
        values = np.full((len(columns), width), np.nan)
        for source, name in enumerate(names):
            target = self.places.get(name)
            if target is not None:
                values[:, target] = columns[:, source]
        known = values[:, : len(self.gaps)]
        np.copyto(known, self.gaps, where=np.isnan(known))
        return values

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        size = self.gaps.nbytes + sum(map(sys.getsizeof, (self.names, self.places, *self.names)))
        # All empty frozensets are one object, which is not counted.
        return size + (sys.getsizeof(self.categories) if self.categories else 0)


def _check_finite(what: str, value: Any) -> float:
    if type(value) is float and math.isfinite(value):
        # Most values are floats, and tests against abstract classes are slow.
        return value
    number = None if value is None else number_of(value)
    if number is None:
        raise TypeError(f"the {what} must be a number, got {told(value)}")
    if not math.isfinite(number):
        raise ValueError(f"the {what} must be finite, got {value!r}")
    return number


def check_label(label: Any) -> Any:
    """Return a label; refuse unhashable labels, None and NaN."""
    try:
        hash(label)
    except TypeError:
        raise TypeError(f"the label must be hashable, got {label!r}") from None
    if label is None or not _equals_itself(label):
        raise ValueError(f"the label must not be missing, got {label!r}")
    return label


def check_target(target: Any) -> float:
    """Return a target as a float; refuse anything but numbers up to 1e120 in size."""
    number = _check_finite("target", target)
    if abs(number) > LARGEST_TARGET:
        raise ValueError(f"the target must be at most {LARGEST_TARGET:g} in size, got {target!r}")
    return number


def check_weight(weight: Any) -> float:
    """Return a sample's weight as a float; refuse anything but numbers from 0 to 1e30."""
    number = _check_finite("weight", weight)
    if not 0.0 <= number <= LARGEST_WEIGHT:
        raise ValueError(f"the weight must be >= 0 and <= {LARGEST_WEIGHT:g}, got {weight!r}")
    return number
