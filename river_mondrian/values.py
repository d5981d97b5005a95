"""Readers of single values: numbers, missing values, and levels of categories."""

from __future__ import annotations

import datetime
import decimal
import enum
import functools
import hashlib
import math
import numbers
import operator
import struct
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from .limits import LEAST_LEVEL

# Largest number of cached codes of levels, and largest size of a cached level in bytes. Other
# levels are hashed at each use.
MOST_CACHED, LARGEST_CACHED = 1 << 14, 256

_CODES = 2**52

# Attoseconds per unit of NumPy's times. Years and months are absent, because they have no fixed
# length.
_SECOND = 10**18
_UNITS = {unit: 1000**k for k, unit in enumerate(("as", "fs", "ps", "ns", "us", "ms", "s"))}
_UNITS |= {"m": 60 * _SECOND, "h": 3600 * _SECOND, "D": 86_400 * _SECOND, "W": 604_800 * _SECOND}
_EPOCH = datetime.datetime(1970, 1, 1)
# Largest exponent of a `Decimal` that is a level, because a `Decimal` is converted to a fraction of
# integers, which must fit into memory.
_LARGEST_EXPONENT = 10_000


def number_of(value: Any) -> float | None:
    """Return a value as a float: NaN if it is missing, None if it is not a number."""
    if is_missing(value):
        return math.nan
    # NumPy would convert some time spans to integers, and some arrays to numbers, so both are
    # excluded.
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if getattr(value, "ndim", 0) != 0 or kind in ("M", "m"):
        return None
    try:
        # `struct.pack` is used because `float` would also parse text.
        (number,) = struct.unpack("d", struct.pack("d", value))
    except (struct.error, OverflowError, TypeError, ValueError):
        # A real number that cannot be packed is too large for a float.
        return math.inf if isinstance(value, numbers.Real) else None
    return float(number)


def are_numbers(values: Iterable[Any]) -> bool:
    """Return whether packed values are numbers, because packing converts some times to integers.

    A sum of numbers and such times is a time, or raises a TypeError. The sum begins with NaN, so
    that sums in half precision do not overflow.
    """
    total = sum(values, math.nan)
    return type(total) is float or isinstance(total, np.floating)


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or a missing value of NumPy or pandas."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if value is None or (isinstance(value, (float, np.floating)) and value != value):
        return True
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    pandas = sys.modules.get("pandas")
    return pandas is not None and (value is pandas.NA or value is pandas.NaT)


# Infinite and tiny numbers are valid, even if a program sets other error handling by
# `numpy.seterr`.
quiet = np.errstate(all="ignore")


class Typed:
    """A value of a column with a categorical type, which is a level in every mapping.

    The type marks the value, because pipelines put values into new mappings. The result of a
    computation with the value has no mark.
    """

    __slots__ = ()

    @property
    def plain(self) -> Any:
        """The value as text or a number of the plain type."""
        return type(self).__bases__[1](self)


class TypedText(Typed, str):
    """Text of a column with a categorical type."""

    __slots__ = ()


class TypedInteger(Typed, int):
    """An integer of a column with a categorical type."""

    __slots__ = ()


class TypedFloat(Typed, float):
    """A float of a column with a categorical type."""

    __slots__ = ()


class TypedDecimal(Typed, decimal.Decimal):
    """A decimal number of a column with a categorical type."""

    __slots__ = ()


TYPED = {str: TypedText, int: TypedInteger, float: TypedFloat, decimal.Decimal: TypedDecimal}

# Codes of levels are cached only for these common types.
CACHED = frozenset({str, bool, int, float, TypedText, TypedInteger, TypedFloat})


class Level(float):
    """Code of a category's level: `LEAST_LEVEL` times (1 + h), with a hash h in [0, 1).

    Values of numeric features are smaller, so codes can be recognized by size, even in arrays.
    Codes are hashes, so no table of levels is needed, and the number of levels is not limited.
    Among 100,000 levels, two levels share a code with probability 1e-6.
    """

    __slots__ = ("level",)

    level: Any

    def __new__(cls, code: float, level: Any) -> Level:
        """Return a level with its code and the value that the user gave."""
        number = super().__new__(cls, code)
        number.level = level
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        return Level, (float(self), self.level)


def level_of(value: Any) -> float:
    """Return the level of a category's value; a missing value becomes NaN.

    A level is text, a number, a date, a time, a span, a period, an interval, a member of an enum,
    or a tuple of these. Equal numbers of all types are one level, as are equal times.

    Raises
    ------
    TypeError
        If the value has another type.

    """
    kind = type(value)
    if kind in CACHED:
        if value != value:
            return math.nan
        if sys.getsizeof(value) <= LARGEST_CACHED:
            return _cached_level(value)
    elif kind is Level:
        return value
    elif is_missing(value):
        return math.nan
    return _level(value)


def _level(value: Any) -> Level:
    digest = hashlib.blake2b(_encoded(value), digest_size=8).digest()
    fraction = int.from_bytes(digest, "little") % _CODES / _CODES
    return Level(LEAST_LEVEL * (1.0 + fraction), value)


_cached_level = functools.lru_cache(MOST_CACHED, typed=True)(_level)


def _encoded(value: Any) -> bytes:
    """Return a level as bytes that do not depend on the platform or the process."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    pandas = sys.modules.get("pandas")
    if isinstance(value, str):
        # A member of a string enum and its string are the same level, so the string's own encoding
        # is used.
        return b"str " + str.__str__(value).encode(errors="surrogatepass")
    if isinstance(value, tuple):
        kind, members = "tuple", value
    elif pandas is not None and isinstance(value, pandas.Interval):
        kind, members = f"interval {value.closed}", (value.left, value.right)
    elif pandas is not None and isinstance(value, pandas.Period):
        kind, members = "period", (value.freqstr, value.ordinal)
    elif (text := _time(value)) is not None:
        return text.encode()
    elif isinstance(value, enum.Enum) and not isinstance(value, numbers.Number):
        kind, members = "enum", (type(value).__name__, str(value.name))
    else:
        return _number(value).encode()
    items = [_encoded(member) for member in members]
    return b" ".join([kind.encode(), *(b"%d %b" % (len(item), item) for item in items)])


def _time(value: Any) -> str | None:
    """Return the text of a date, a time or a span; None for other values.

    A date is the beginning of its day. Times with a time zone are converted to UTC.
    """
    if isinstance(value, (np.datetime64, np.timedelta64)):
        kind = "date" if isinstance(value, np.datetime64) else "span"
        unit, step = np.datetime_data(value.dtype)
        if kind == "date" and unit in ("Y", "M"):
            value, unit, step = value.astype("datetime64[D]"), "D", 1
        if unit not in _UNITS:
            raise TypeError(f"{value!r} has no fixed length")
        return f"{kind} {int(value.astype(np.int64)) * step * _UNITS[unit]}"
    if isinstance(value, datetime.timedelta):
        return f"span {_attoseconds(value)}"
    if isinstance(value, datetime.time):
        kind, value = "time", datetime.datetime.combine(_EPOCH, value)
    elif isinstance(value, datetime.date):
        kind = "date"
        if not isinstance(value, datetime.datetime):
            value = datetime.datetime.combine(value, datetime.time())
    else:
        return None
    offset, since = value.utcoffset(), _attoseconds(value.replace(tzinfo=None) - _EPOCH)
    return f"{kind} {since}" if offset is None else f"{kind} UTC {since - _attoseconds(offset)}"


def _attoseconds(span: datetime.timedelta) -> int:
    microseconds = (span.days * 86_400 + span.seconds) * 10**6 + span.microseconds
    # Time spans of pandas have nanoseconds, in addition to the attributes of Python's time spans.
    return (microseconds * 1000 + getattr(span, "nanoseconds", 0)) * _UNITS["ns"]


def _number(value: Any) -> str:
    """Return a number as text, a fraction of two integers; raise TypeError for other values."""
    if isinstance(value, decimal.Decimal) and value and abs(value.adjusted()) > _LARGEST_EXPONENT:
        raise TypeError(f"the exponent of {value!r} is too large")
    try:
        return f"number {operator.index(value):x}/1"
    except TypeError:
        if not hasattr(value, "as_integer_ratio"):
            value = number_of(value)
    try:
        return "number {:x}/{:x}".format(*value.as_integer_ratio())
    except OverflowError:
        return f"number {float(value)}"
    except (AttributeError, ValueError):
        raise TypeError(f"{value!r} is not a level") from None
