"""Records: classes whose annotations are the fields of a block of memory.

    class Node(Record):
        left: Int32  # reference to the left child
        right: Int32
        cut: Float32  # in scaled units

In compiled kernels and in Python, `node.cut` reads the float32 in memory as a float64, and
`node.cut = v` writes a float32. A subclass begins with the fields of its base class, and may narrow
a field's type. Methods are compiled for the type of the calling record. So a kernel for a subclass
uses the methods of the subclass, without dynamic dispatch.

`Ref` declares that a field refers to a row of a table:

    left: Int32 = stored(Ref("nodes"))

`Bounds` declares the range of a field. Stored records are checked against these declarations (see
`restored`).

A field is *state* unless it is marked. `transient()` marks data of one call. `derived()` marks data
that the record's owner computes from other fields. Addresses are never state. Pickles contain only
the state (see `memory.Memory`).
"""

import ctypes
import enum
import functools
import inspect
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

# Whether kernels check each access to a record or an array.
CHECKS = bool(os.environ.get("RIVER_MONDRIAN_CHECKS"))

# Numbers of bytes of a word and of an address. Fields are aligned to words, and positions in rows
# are counted in words.
WORD_BYTES = 4
ADDRESS_BYTES = 8


@dataclass(frozen=True)
class Word:
    """A type of numbers in memory.

    Parameters
    ----------
    name
        Name of the type in NumPy and numba.
    c_type
        The type in ctypes.
    read
        Function that converts a number for Python. Floats become NumPy's float64, because a
        division by zero must behave as in a kernel.

    """

    name: str
    c_type: type[Any]
    read: Callable[[Any], Any]

    @property
    def size(self) -> int:
        """Number of bytes of a number."""
        return ctypes.sizeof(self.c_type)


INT32 = Word("int32", ctypes.c_int32, int)
INT64 = Word("int64", ctypes.c_int64, int)
UINT64 = Word("uint64", ctypes.c_uint64, np.uint64)
FLOAT32 = Word("float32", ctypes.c_float, np.float64)
FLOAT64 = Word("float64", ctypes.c_double, np.float64)

# The annotations are Python's types, because kernels widen all numbers to int64, uint64 or float64.
Int32 = Annotated[int, INT32]
Int64 = Annotated[int, INT64]
UInt64 = Annotated[int, UINT64]
Float32 = Annotated[float, FLOAT32]
Float64 = Annotated[float, FLOAT64]


class Role(enum.Enum):
    """The role of a field for its owner."""

    STATE = "state"
    TRANSIENT = "transient"
    DERIVED = "derived"


@dataclass(frozen=True)
class Case:
    """A condition on rows: an integer field is between `least` and `most`."""

    field: str
    least: int
    most: int


@dataclass(frozen=True)
class Bounds:
    """The range of a stored field; NaN is out of range.

    Parameters
    ----------
    least, most
        The inclusive bounds.
    below
        Name of a field or method of the record that all rows share. The value of this field or
        method is an exclusive upper bound.
    when
        The rows with these bounds; None for all.

    """

    least: float
    most: float = math.inf
    below: str = ""
    when: Case | None = None


@dataclass(frozen=True)
class Ref:
    """The target of a stored reference. A row is the target of at most one reference of a chain.

    Parameters
    ----------
    to
        Name of the table with the row.
    other
        Name of the table for negative numbers: `~i` refers to row `i` of this table, whose
        references are not followed.
    none
        The number that means no row, or None if each number refers to a row.
    first
        The number of the first row.
    when
        The rows whose field is a reference; None for all.
    finds
        The rows of `to` that the field may refer to; None for all.
    ends
        Whether the references of the target row are not followed.
    chain
        Name of the field's chain: the fields whose references are followed together. Fields of
        different chains may refer to the same row.

    """

    to: str
    other: str = ""
    none: int | None = -1
    first: int = 0
    when: Case | None = None
    finds: Case | None = None
    ends: bool = False
    chain: str = ""


@dataclass(frozen=True)
class Option:
    """Options of a field: the value after the `=` in the class."""

    role: Role = Role.STATE
    length: int = 0
    is_entry: bool = False
    instead_of: str = ""
    bounds: Bounds | None = None
    ref: Ref | None = None
    shape: tuple[int | str, ...] = ()


def transient(*shape: int | str) -> Any:
    """Mark a field that is used during one call, and is not pickled.

    For the shape of an array, see `sized`.
    """
    return Option(Role.TRANSIENT, shape=shape)


def sized(*shape: int | str, bounds: Bounds | None = None) -> Any:
    """Declare the shape of an array, which the owner ensures, and the bounds of its numbers.

    Each dimension is a number, or the name of the record's field or method with this value.
    """
    return Option(shape=shape, bounds=bounds)


def derived() -> Any:
    """Mark a field that the owner computes from other fields, and that is not pickled."""
    return Option(Role.DERIVED)


def inline(length: int) -> Any:
    """Mark an array of `length` elements as a part of the record."""
    return Option(length=length)


def entry() -> Any:
    """Mark a field, annotated as a Callable, that stores the address of a compiled function."""
    return Option(Role.DERIVED, is_entry=True)


def instead_of(name: str, declared: Bounds | Ref | None = None) -> Any:
    """Mark a field that shares the memory of the field `name`; each row uses only one of them."""
    return Option(instead_of=name, **_declared(declared))


def stored(declared: Bounds | Ref) -> Any:
    """Declare the bounds or the target of a stored field (see `restored`)."""
    return Option(**_declared(declared))


def _declared(declared: Bounds | Ref | None) -> dict[str, Any]:
    if declared is None:
        return {}
    return {"ref" if isinstance(declared, Ref) else "bounds": declared}


@dataclass(frozen=True, kw_only=True)
class Field(Option):
    """A field of a record: its options, its position and its type."""

    name: str
    offset: int
    size: int
    # A Word, a class of arrays, a class of records or, for an entry, a Callable. An array or a
    # record is part of this record if `embedded`. Otherwise this record stores the address, and the
    # length of an array.
    kind: Any
    embedded: bool = False

    @property
    def word(self) -> int:
        """Number of 4-byte words before the field."""
        return self.offset // WORD_BYTES


R = TypeVar("R", bound="Record")

# Functions to call with each new class of records.
_OBSERVERS: list[Callable[[Any], None]] = []


def observe(observer: Callable[[Any], None]) -> None:
    """Register a function to call with each new class of records."""
    _OBSERVERS.append(observer)


class Record(int):
    """A record in memory: the integer is the record's address, and 0 means no record."""

    FIELDS: ClassVar[dict[str, Field]] = {}
    # Size in bytes, and in words of 4 bytes.
    SIZE: ClassVar[int] = 0
    WORDS: ClassVar[int] = 0
    # The fields that are embedded records.
    WITHIN: ClassVar[list[Field]] = []
    # Whether a field of this type is part of the outer record.
    EMBEDDED: ClassVar[bool] = False
    # The record's memory as int64, or None. `Memory` sets this view if the size is a multiple of 8
    # bytes, because reading at an address takes twice as long.
    int64s: ClassVar[Any] = None

    def __new__(cls, base: Any, word: int = 0) -> Self:
        """Return the record at an address, or `word` 4-byte words after a record's start."""
        return super().__new__(cls, int(base) + WORD_BYTES * word)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.FIELDS = dict(cls.FIELDS)
        hints = get_type_hints(cls, localns={cls.__name__: cls}, include_extras=True)
        for name in inspect.get_annotations(cls):
            if get_origin(hints[name]) is ClassVar:
                continue
            option = cls.__dict__.get(name, Option())
            before = cls.FIELDS.get(option.instead_of) or cls.FIELDS.get(name)
            offset = cls.SIZE if before is None else before.offset
            field = _make_field(name, offset, hints[name], option)
            if before is None:
                cls.SIZE += field.size
            elif before.size != field.size:
                raise TypeError(f"{cls.__name__}.{name} has another size than {before.name}")
            cls.FIELDS[name] = field
            setattr(cls, name, property(_getter(field), _setter(field)))
        cls.WORDS = cls.SIZE // WORD_BYTES
        cls.WITHIN = [field for field in cls.FIELDS.values() if _is_record_within(field)]
        for observer in _OBSERVERS:
            observer(cls)

    @classmethod
    def class_of(cls, kind: Any) -> type[Any]:
        """Return the class of an embedded record for its annotation."""
        return cls

    @classmethod
    @functools.cache
    def dtype(cls, n_bytes: int | None = None) -> np.dtype[Any]:
        """Return NumPy's type of the numeric fields of a record, or of a row of `n_bytes` bytes."""
        words = cls.words()
        return np.dtype(
            {
                "names": [f.name for f in words],
                "formats": [f.kind.name for f in words],
                "offsets": [f.offset for f in words],
                "itemsize": cls.SIZE if n_bytes is None else n_bytes,
            }
        )

    @classmethod
    def words(cls) -> list[Field]:
        """Return the numeric fields, and those of embedded records (`outer.inner`)."""
        fields: list[Field] = []
        for field in cls.FIELDS.values():
            if isinstance(field.kind, Word):
                fields.append(field)
            elif _is_record_within(field):
                base = get_origin(field.kind) or field.kind
                for f in base.words():
                    name, offset = f"{field.name}.{f.name}", field.offset + f.offset
                    fields.append(replace(f, name=name, offset=offset))
        return fields


def _is_record_within(field: Field) -> bool:
    base = get_origin(field.kind) or field.kind
    return field.embedded and isinstance(base, type) and issubclass(base, Record)


def _make_field(name: str, offset: int, hint: Any, option: Option) -> Field:
    known: dict[str, Any] = {**vars(option), "name": name, "offset": offset, "kind": hint}
    if get_origin(hint) is Annotated:
        word = get_args(hint)[1]
        return Field(**known | {"kind": word}, size=word.size)
    if option.is_entry:
        return Field(**known, size=ADDRESS_BYTES)
    base = get_origin(hint) or hint
    # The method `of_kind` identifies classes of arrays, which this module cannot import.
    if not isinstance(base, type) or not (issubclass(base, Record) or hasattr(base, "of_kind")):
        raise TypeError(f"{name} has no type that a record can hold: {hint!r}")
    if option.length:
        size = option.length * base.element_size(hint)  # type: ignore[attr-defined]
        return Field(**known, size=size, embedded=True)
    if not issubclass(base, Record):
        return Field(**known, size=2 * ADDRESS_BYTES)
    if base.EMBEDDED:
        return Field(**known, size=base.SIZE, embedded=True)
    role = Role.DERIVED if option.role is Role.STATE else option.role
    return Field(**known | {"role": role}, size=ADDRESS_BYTES)


def number_of(record: Record, what: int | str) -> int:
    """Return `what` if it is a number, otherwise the value of the field or method `what`."""
    value = getattr(record, what) if isinstance(what, str) else what
    return int(value() if callable(value) else value)


def read_address(address: int) -> int:
    """Return the address stored at an address."""
    return ctypes.c_int64.from_address(address).value


def write_address(address: int, value: int) -> None:
    """Store the address `value` at another address."""
    ctypes.c_int64.from_address(address).value = value


def check_record(address: int, name: str) -> None:
    """Raise an IndexError if a record's address is 0, which means no record."""
    if address == 0:
        raise IndexError(f"{name} of no record")


def _getter(field: Field) -> Callable[[Record], Any]:
    kind, offset = field.kind, field.offset
    if isinstance(kind, Word):
        if kind is INT64 and offset % kind.size == 0:
            return _int64_getter(field)
        from_address, read = kind.c_type.from_address, kind.read

        def get_word(self: Record) -> Any:
            if not self:
                check_record(0, field.name)
            return read(from_address(self + offset).value)

        return get_word
    if field.is_entry:
        return lambda self: _ENTRIES[read_address(int(self) + offset)]
    base = get_origin(kind) or kind
    if issubclass(base, Record):
        if field.embedded:
            return _embedded_getter(base, field)
        return lambda self: base(read_address(int(self) + offset))

    def get_array(self: Record) -> Any:
        check_record(int(self), field.name)
        start = int(self) + offset
        if field.embedded:
            return base.of_kind(kind, start, field.length)
        return base.of_kind(kind, read_address(start), read_address(start + ADDRESS_BYTES))

    return get_array


def _int64_getter(field: Field) -> Callable[[Record], Any]:
    word, from_address = field.offset // ADDRESS_BYTES, ctypes.c_int64.from_address

    def get_int64(self: Record) -> Any:
        words = self.int64s
        if words is not None:
            return words[word]
        if not self:
            check_record(0, field.name)
        return from_address(self + field.offset).value

    return get_int64


def _int64_setter(field: Field) -> Callable[[Record, Any], None]:
    word, from_address = field.offset // ADDRESS_BYTES, ctypes.c_int64.from_address

    def set_int64(self: Record, value: Any) -> None:
        words = self.int64s
        if words is not None:
            words[word] = value
            return
        if not self:
            check_record(0, field.name)
        from_address(self + field.offset).value = value

    return set_int64


def _embedded_getter(base: Any, field: Field) -> Callable[[Record], Any]:
    # The class is found at first use, because an annotation may name a class that is defined later.
    classes: list[Any] = []

    def get_embedded(self: Record) -> Any:
        inner = self.__dict__.get(field.name)
        if inner is not None:
            return inner
        if not classes:
            classes.append(base.class_of(field.kind))
        return classes[0](self + field.offset)

    return get_embedded


def _setter(field: Field) -> Callable[[Record, Any], None]:
    kind, offset = field.kind, field.offset
    if isinstance(kind, Word):
        if kind is INT64 and offset % kind.size == 0:
            return _int64_setter(field)
        from_address = kind.c_type.from_address

        def set_word(self: Record, value: Any) -> None:
            if not self:
                check_record(0, field.name)
            from_address(self + offset).value = value

        return set_word
    if field.is_entry:

        def set_entry(self: Record, value: Any) -> None:
            # If nothing is compiled, the value is a Python function, which is found by its id.
            address = value if isinstance(value, int) else id(value)
            if address is not value:
                _ENTRIES[address] = value
            write_address(int(self) + offset, address)

        return set_entry
    if field.embedded:

        def refuse(self: Record, value: Any) -> None:
            raise AttributeError(f"{field.name} is part of its record, so it cannot be set")

        return refuse
    base = get_origin(kind) or kind
    if issubclass(base, Record):

        def set_record(self: Record, value: Any) -> None:
            if not isinstance(value, base) and int(value):
                raise TypeError(f"{field.name} is a {base.__name__}, not {type(value).__name__}")
            write_address(int(self) + offset, int(value))

        return set_record

    def set_array(self: Record, value: Any) -> None:
        check_record(int(self), field.name)
        array = base.of_array(kind, value) if isinstance(value, np.ndarray) else value
        write_address(int(self) + offset, array.address)
        write_address(int(self) + offset + ADDRESS_BYTES, array.length)

    return set_array


# Functions of entry fields, by the values of the fields. The dict is used if nothing is compiled.
_ENTRIES: dict[int, Callable[..., Any]] = {}
