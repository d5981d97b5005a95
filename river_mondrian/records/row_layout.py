"""What the bytes of records and of rows are: columns of numbers, by the names of fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from .record import WORD_BYTES, Record, Role, Word

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Column:
    """Numbers that each of some records has, and where.

    Parameters
    ----------
    name
        Names of fields, outer ones first.
    dtype
        NumPy's name of their type.
    offset
        Bytes of a record before the first of them.
    shape
        How many a record has; empty for a single one.
    strides
        Bytes from one to the next.

    """

    name: str
    dtype: str
    offset: int
    shape: Shape
    strides: Shape

    def over(self, memory: NDArray[Any], n: int, stride: int) -> NDArray[Any]:
        """Return the numbers of `n` records that lie `stride` bytes apart, where they are."""
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

    Neither addresses are among them, nor what is derived or transient. Of fields that have the same
    place, the first is.
    """
    if isinstance(kind, Word):
        return [Column(name, kind.name, offset, shape, strides)]
    found: list[Column] = []
    places: set[int] = set()
    for field in kind.FIELDS.values():
        if field.role is not Role.STATE or field.offset in places:
            continue
        places.add(field.offset)
        path = f"{name}.{field.name}" if name else field.name
        base, place = get_origin(field.kind) or field.kind, offset + field.offset
        if isinstance(base, Word):
            found += columns_of(base, path, place, shape, strides)
        elif field.length:
            arguments = get_args(field.kind)
            element = arguments[0] if arguments else base.WORD
            many = (*shape, field.length), (*strides, base.element_size(field.kind))
            found += columns_of(element, path, place, *many)
        elif field.embedded:
            found += columns_of(base, path, place, shape, strides)
    return found


class Part(NamedTuple):
    """Numbers or records of one kind that a row has behind its record, or behind another part."""

    name: str
    kind: Word | type[Record]
    length: int

    @property
    def size(self) -> int:
        """Bytes of one of them."""
        return self.kind.size if isinstance(self.kind, Word) else self.kind.SIZE


@dataclass(frozen=True)
class RowLayout:
    """What a table's rows are: a record, and the parts that follow it."""

    kind: type[Record]
    parts: Sequence[Part] = ()

    @property
    def words(self) -> int:
        """Words of a row."""
        return self.kind.WORDS + words_of(self.parts)

    @property
    def columns(self) -> list[Column]:
        """The columns of a table."""
        found, offset = columns_of(self.kind), self.kind.SIZE
        for part in self.parts:
            found += columns_of(part.kind, part.name, offset, (part.length,), (part.size,))
            offset += part.length * part.size
        return found


def words_of(parts: Sequence[Part]) -> int:
    """Return how many words parts have."""
    return sum(part.length * part.size for part in parts) // WORD_BYTES
