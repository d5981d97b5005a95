"""The layout of records and rows: their columns, and the digest of the layout in pickles."""

import functools
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from .._version import __version__
from ..checks import ModelFormatError
from .record import WORD_BYTES, Record, Role, Word


class Stamp(NamedTuple):
    """The origin of a pickle: version of the package, byte order, and digest of the layout."""

    version: str
    byte_order: str
    digest: str


@functools.cache
def layout_digest(kind: Any) -> str:
    """Return a digest of the layouts of a record and all records that it refers to."""
    lines: list[str] = []
    waiting: list[type[Record]] = [kind]
    seen: set[Any] = {kind}
    while waiting:
        record = waiting.pop()
        lines.append(f"{record.__name__} {record.SIZE}")
        for field in record.FIELDS.values():
            kind, what, kinds = field.kind, "entry", []
            if isinstance(kind, Word):
                what = kind.name
            elif not field.is_entry:
                kinds = [get_origin(kind) or kind, *get_args(kind)]
                what = " ".join(referred.__name__ for referred in kinds)
            where = f"{field.name} {field.offset} {field.size}"
            lines.append(f"{where} {field.role.value} {field.length} {what}")
            for inner in kinds:
                if isinstance(inner, type) and issubclass(inner, Record) and inner not in seen:
                    seen.add(inner)
                    waiting.append(inner)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def stamp_of(kind: Any) -> Stamp:
    """Return the stamp for a pickle of records of a class."""
    return Stamp(__version__, sys.byteorder, layout_digest(kind))


def check_stamp(stamp: Any, kind: type[Record]) -> None:
    """Raise an error if this version would misread the bytes of a pickle of records.

    Raises
    ------
    ModelFormatError
        If the stamp is missing or has another layout or byte order.

    """
    expected = stamp_of(kind)
    if isinstance(stamp, Stamp) and stamp[1:] == expected[1:]:
        return
    if isinstance(stamp, Stamp):
        wrote = f"{stamp.version} ({stamp.byte_order}-endian, layout {stamp.digest})"
        where = f"river_mondrian {stamp.version} on a {stamp.byte_order}-endian machine"
    else:
        wrote, where = "of an earlier version, without a stamp", "the version that wrote it"
    raise ModelFormatError(
        f"this model was pickled by river_mondrian {wrote}, but this is {expected.version} "
        f"({expected.byte_order}-endian, layout {expected.digest}): pickles are for one version. "
        f"Load it with {where}, or train the model again"
    )


Shape = tuple[int, ...]


@dataclass(frozen=True)
class Column:
    """A column of an array of records: the numbers at one position in each record.

    Parameters
    ----------
    name
        Names of nested fields, joined by dots, the outer field first.
    dtype
        NumPy's name of the type of the numbers.
    offset
        Number of bytes of a record before the first number.
    shape
        Shape of the numbers in one record; empty for a single number.
    strides
        Number of bytes from one number to the next, in each dimension of `shape`.

    """

    name: str
    dtype: str
    offset: int
    shape: Shape
    strides: Shape

    def over(self, memory: NDArray[Any], n: int, stride: int) -> NDArray[Any]:
        """Return a view of the column in `n` records that are `stride` bytes apart in `memory`."""
        if n == 0:
            return np.empty((0, *self.shape), self.dtype)
        shape, strides = (n, *self.shape), (stride, *self.strides)
        return np.ndarray(shape, self.dtype, memory.data, self.offset, strides)


def columns_of(
    kind: Word | type[Record],
    name: str = "",
    offset: int = 0,
    shape: Shape = (),
    strides: Shape = (),
) -> list[Column]:
    """Return the columns of a number or of a record's state.

    Addresses, derived fields and transient fields have no column. Of fields that share memory, only
    the first has a column.
    """
    if isinstance(kind, Word):
        return [Column(name, kind.name, offset, shape, strides)]
    columns: list[Column] = []
    offsets: set[int] = set()
    for field in kind.FIELDS.values():
        if field.role is not Role.STATE or field.offset in offsets:
            continue
        offsets.add(field.offset)
        path = f"{name}.{field.name}" if name else field.name
        base, start = get_origin(field.kind) or field.kind, offset + field.offset
        if isinstance(base, Word):
            columns += columns_of(base, path, start, shape, strides)
        elif field.length:
            arguments = get_args(field.kind)
            element = arguments[0] if arguments else base.WORD
            many = (*shape, field.length), (*strides, base.element_size(field.kind))
            columns += columns_of(element, path, start, *many)
        elif field.embedded:
            columns += columns_of(base, path, start, shape, strides)
    return columns


class Section(NamedTuple):
    """A section of a row after the row's record: numbers of one type, or records of one class."""

    name: str
    kind: Word | type[Record]
    length: int

    @property
    def size(self) -> int:
        """Number of bytes of an element."""
        return self.kind.size if isinstance(self.kind, Word) else self.kind.SIZE


@dataclass(frozen=True)
class RowLayout:
    """The layout of a table's rows: a record, and the sections that follow the record."""

    kind: type[Record]
    sections: Sequence[Section] = ()

    @property
    def words(self) -> int:
        """Number of words of a row."""
        return self.kind.WORDS + words_of(self.sections)

    @property
    def columns(self) -> list[Column]:
        """The columns of a table."""
        columns, offset = columns_of(self.kind), self.kind.SIZE
        for s in self.sections:
            columns += columns_of(s.kind, s.name, offset, (s.length,), (s.size,))
            offset += s.length * s.size
        return columns


def words_of(sections: Sequence[Section]) -> int:
    """Return the number of words of some sections."""
    return sum(s.length * s.size for s in sections) // WORD_BYTES
