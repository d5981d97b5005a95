"""Arrays of words and of records at an address, and growing tables of records."""

from __future__ import annotations

import ctypes
import functools
from typing import Any, ClassVar, Generic, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from .record import (
    ADDRESS_BYTES,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    WORD_BYTES,
    Int64,
    Record,
    Word,
    derived,
    read_address,
)

# `R` is covariant, because an array of a subclass's records is also an array of the base class.
R = TypeVar("R", bound=Record, covariant=True)
Q = TypeVar("Q", bound=Record)
N = TypeVar("N", int, float)

# NumPy arrays, for annotations.
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Singles = NDArray[np.float32]

# A chunk of a table holds 2**CHUNK_BITS rows, except the first chunk, which may be smaller.
CHUNK_BITS = 7
CHUNK_ROWS = 1 << CHUNK_BITS
CHUNK_MASK = CHUNK_ROWS - 1


def address_of(array: NDArray[Any]) -> int:
    """Return the address of a contiguous array's items, or 0 if the array is empty."""
    if array.size == 0:
        return 0
    if array.flags.writeable:
        # `array.ctypes.data` is not used, because it takes twice as long.
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
    return array.ctypes.data


class Span:
    """Adjacent elements: the address of the first element, and the number of elements.

    In compiled kernels, arrays have a length only if accesses are checked (`CHECKS`).
    """

    __slots__ = ("address", "length", "owner")

    address: int
    length: int
    owner: object

    def __init__(self, base: Any, word: int = 0, length: int = 0, owner: object = None) -> None:
        """Create a span of `length` elements that begins `word` words after a record's start."""
        self.address, self.length = int(base) + WORD_BYTES * int(word), int(length)
        self.owner = owner

    def __bool__(self) -> bool:
        return self.address != 0

    def __int__(self) -> int:
        return self.address

    def _check(self, i: int) -> None:
        if not 0 <= i < self.length:
            raise IndexError(f"element {i} of {self.length}")


class Words(Span, Generic[N]):
    """An array of numbers of one type."""

    __slots__ = ()

    WORD: ClassVar[Word]

    @classmethod
    def of_kind(cls, kind: Any, address: int, length: int) -> Self:
        """Return the array of `length` numbers at an address."""
        return cls(address, 0, length)

    @classmethod
    def of_array(cls, kind: Any, array: NDArray[Any]) -> Self:
        """Return an array over the elements of a NumPy array; ignore `kind`."""
        return cls.of(array)

    @classmethod
    def element_size(cls, kind: Any) -> int:
        """Return the number of bytes of an element."""
        return cls.WORD.size

    @classmethod
    def of(cls, array: NDArray[Any]) -> Self:
        """Return an array over the elements of a contiguous NumPy array of the same type."""
        if array.dtype != cls.WORD.name or not array.flags.c_contiguous:
            raise TypeError(f"expected a contiguous array of {cls.WORD.name}, got {array.dtype}")
        return cls(address_of(array), 0, array.size, array)

    def part(self, start: int, length: int) -> Self:
        """Return the array of `length` elements from `start` on."""
        if start < 0 or length < 0 or start + length > self.length:
            raise IndexError(f"elements {start} to {start + length} of {self.length}")
        return type(self)(self.address + self.WORD.size * int(start), 0, length, self.owner)

    def view(self) -> NDArray[Any]:
        """Return the elements as a NumPy array over the same memory."""
        words = (self.WORD.c_type * self.length).from_address(self.address)
        return np.ctypeslib.as_array(words)

    def __getitem__(self, i: int) -> N:
        self._check(i)
        word = self.WORD
        return word.read(word.c_type.from_address(self.address + word.size * int(i)).value)

    def __setitem__(self, i: int, value: N) -> None:
        self._check(i)
        word = self.WORD
        word.c_type.from_address(self.address + word.size * int(i)).value = value


class Int32s(Words[int]):
    """An array of int32, which kernels read as int64."""

    __slots__ = ()
    WORD = INT32


class Int64s(Words[int]):
    """An array of int64."""

    __slots__ = ()
    WORD = INT64


class Float32s(Words[float]):
    """An array of float32, which kernels read as float64."""

    __slots__ = ()
    WORD = FLOAT32


class Float64s(Words[float]):
    """An array of float64."""

    __slots__ = ()
    WORD = FLOAT64


class Packed(Record):
    """The `bytes` that Python passes to a kernel, to be read during the call."""


class Writable(Record):
    """The `bytearray` that Python passes to a kernel, to be written during the call."""


def record_of(value: Any) -> Any:
    """Return the record in the memory of `bytes` or a `bytearray`, and other objects unchanged."""
    if isinstance(value, bytes):
        return Packed(ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p).value or 0)
    if isinstance(value, bytearray):
        return Writable(ctypes.addressof(ctypes.c_char.from_buffer(value)) if value else 0)
    return value


class Array(Span, Generic[R]):
    """An array of records of one class."""

    __slots__ = ("record",)

    record: type[R]

    def __init__(self, record: type[R], base: int, length: int, owner: object = None) -> None:
        """Create an array of `length` records at an address."""
        super().__init__(base, 0, length, owner)
        self.record = record

    @classmethod
    def over(cls, record: type[Q], array: NDArray[Any]) -> Array[Q]:
        """Return an array of the records in a contiguous NumPy array's memory."""
        if not array.flags.c_contiguous or array.nbytes % record.SIZE:
            raise TypeError(f"expected whole records of {record.SIZE} bytes side by side")
        return Array(record, address_of(array), array.nbytes // record.SIZE, array)

    @classmethod
    def of_kind(cls, kind: Any, address: int, length: int) -> Array[Any]:
        """Return the array of `length` records at an address; `kind` is `Array[Kind]`."""
        return cls(get_args(kind)[0], address, length)

    @classmethod
    def of_array(cls, kind: Any, array: NDArray[Any]) -> Array[Any]:
        """Return the array of the records in a NumPy array's memory; `kind` is `Array[Kind]`."""
        return cls.over(get_args(kind)[0], array)

    @classmethod
    def element_size(cls, kind: Any) -> int:
        """Return the number of bytes of an element."""
        return get_args(kind)[0].SIZE

    def part(self, start: int, length: int) -> Array[R]:
        """Return the array of `length` records from `start` on."""
        if start < 0 or length < 0 or start + length > self.length:
            raise IndexError(f"records {start} to {start + length} of {self.length}")
        return Array(self.record, self.address + self.record.SIZE * start, length, self.owner)

    def cast(self, record: Record) -> R:
        """Return a record of this array from its address."""
        return self.record(record)

    def __getitem__(self, i: int) -> R:
        self._check(i)
        element = self.record(self.address + self.record.SIZE * int(i))
        if self.owner is not None:
            # The record keeps the memory alive, because the record may outlive the array.
            element.__dict__["owner"] = self.owner
        return element


class Table(Record, Generic[R]):
    """A growing table. A row begins with a record, and the rows are stored in chunks.

    A table is part of another record. `chunks` is the address of an array of the chunks' addresses.
    """

    EMBEDDED = True
    # The class of the record at the beginning of each row (see `class_of`).
    ROW: ClassVar[Any]

    chunks: Int64 = derived()
    row_bytes: Int64 = derived()
    n_rows: Int64
    capacity: Int64 = derived()

    @classmethod
    def class_of(cls, kind: Any) -> type[Table[Any]]:
        """Return the class of tables for an annotation `Table[Kind]`."""
        return _table_of(get_args(kind)[0])

    def row(self, j: int) -> R:
        """Return the j-th row."""
        if not 0 <= j < self.capacity:
            raise IndexError(f"row {j} of {self.capacity}")
        chunk = read_address(self.chunks + ADDRESS_BYTES * (int(j) >> CHUNK_BITS))
        return self.ROW(chunk + (int(j) & CHUNK_MASK) * self.row_bytes)

    def cast(self, record: Record) -> R:
        """Return a row of this table from its address."""
        return self.ROW(record)

    def none(self) -> R:
        """Return the record at address 0, which stands for no row."""
        return self.ROW(0)


@functools.cache
def _table_of(record: type[Record]) -> type[Table[Any]]:
    return type(f"Table[{record.__name__}]", (Table,), {"ROW": record})
