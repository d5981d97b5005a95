"""The Python side of records: memory for some of them, and the arrays to which they refer."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..checks import check_plain
from ..errors import ModelFormatError
from .arrays import Array, address_of
from .layout import check_stamp, stamp_of
from .record import Record, Role
from .row_layout import columns_of

R = TypeVar("R", bound=Record)


def _keep(record: Record, memory: NDArray[np.uint8]) -> None:
    """Let a record, and those that lie within it, keep their memory and read it directly."""
    kept = record.__dict__
    kept["bytes"] = memory
    if len(memory) % 8 == 0:
        kept["int64s"] = memory.data.cast("q")
    for field in record.WITHIN:
        inner = getattr(record, field.name)
        _keep(inner, memory[field.offset : field.offset + field.size])
        kept[field.name] = inner


def owned(state: dict[str, Any]) -> dict[str, Any]:
    """Return what a pickle holds with arrays that may be written to.

    An unpickled array may lie in memory that is shared with other processes, or read-only.
    """
    return {
        name: _own(check_plain(value)) if isinstance(value, np.ndarray) else value
        for name, value in state.items()
    }


def _own(array: NDArray[Any]) -> NDArray[Any]:
    # A copy of a memory map is an array like any other.
    return array if array.flags.owndata else np.array(array)


def check_shapes(owner: object, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a stored object whose arrays do not fit the rest of it.

    Raises
    ------
    ModelFormatError
        If an attribute has not its shape.

    """
    for name, shape in shapes.items():
        found = getattr(owner.__dict__.get(name), "shape", None)
        if found != shape:
            raise ModelFormatError(
                f"{name} of {type(owner).__name__} has the shape {found} instead of {shape}"
            )


class OwnsArrays:
    """An owner of arrays and of memory: its state and its size follow from its attributes.

    After unpickling the arrays are its own (see `owned`).
    """

    # Attributes that follow from the others: they are no state.
    _DERIVED: ClassVar[frozenset[str]] = frozenset()

    def __getstate__(self) -> dict[str, Any]:
        return {name: one for name, one in self.__dict__.items() if name not in self._DERIVED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(owned(state))

    @property
    def nbytes(self) -> int:
        """Bytes held: by the object itself, its arrays, and its memory with the arrays of that."""
        held: dict[int, NDArray[Any]] = {}
        for one in self.__dict__.values():
            if isinstance(one, np.ndarray):
                held[id(one)] = one
            elif isinstance(one, Memory):
                held |= {id(array): array for array in (one.bytes, *one.arrays.values())}
        return sys.getsizeof(self) + sum(array.nbytes for array in held.values())


class Memory(Generic[R]):
    """Records of one kind side by side, which this object owns, with arrays for their fields.

    Parameters
    ----------
    kind
        The class of the records.
    n
        How many there are.

    """

    # What `own` is doing.
    _owning: tuple[str, str, int, NDArray[Any]] | None = None

    def __init__(self, kind: type[R], n: int = 1) -> None:
        self.kind = kind
        self.bytes = np.zeros(n * kind.SIZE, np.uint8)
        self.arrays: dict[str, NDArray[Any]] = {}
        self._place()

    def _place(self) -> None:
        start = address_of(self.bytes)
        n = len(self.bytes) // self.kind.SIZE
        self.records = [self.kind(start + self.kind.SIZE * i) for i in range(n)]
        for i, record in enumerate(self.records):
            _keep(record, self.bytes[self.kind.SIZE * i : self.kind.SIZE * (i + 1)])
        # The words of all records by name, as NumPy arrays over the same memory.
        self.words = self.bytes.view(self.kind.dtype())

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, i: int) -> R:
        return self.records[i]

    def __iter__(self) -> Iterator[R]:
        return iter(self.records)

    @property
    def array(self) -> Array[R]:
        """The records, for a field of another one to refer to."""
        start = self.records[0] if self.records else 0
        found: Array[R] = Array(start, 0, len(self.records), self)
        found.record = self.kind
        return found

    def word(self, name: str) -> memoryview:
        """Return the first record's field, an int64, for an owner that reads it in each call.

        Reading that takes a fifth as long as reading the field.
        """
        place = self.kind.FIELDS[name].offset // 8
        return self.bytes[: self.kind.SIZE].data.cast("q")[place : place + 1]

    def own(self, name: str, array: NDArray[Any], i: int = 0) -> None:
        """Let a record's field refer to an array, and keep that.

        What the field refers to is kept at any moment. Where this is interrupted, `settle` tells by
        the field which array counts.
        """
        self.settle()
        key = name if len(self.records) == 1 else f"{name}[{i}]"
        self._owning = key, name, i, array
        setattr(self.records[i], name, array)
        self.arrays[key] = array
        self._owning = None

    def settle(self) -> None:
        """Keep the arrays that fields refer to, where `own` was interrupted."""
        if self._owning is not None:
            key, name, i, array = self._owning
            if getattr(self.records[i], name).address == address_of(array):
                setattr(self.records[i], name, array)
                self.arrays[key] = array
            self._owning = None

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.bytes.nbytes + sum(array.nbytes + 128 for array in self.arrays.values())

    def copied(self) -> Self:
        """Return a copy of the records, whose fields refer to the same arrays, which it keeps."""
        made = type(self)(self.kind, len(self))
        made.bytes[:] = self.bytes
        made.arrays = self.arrays.copy()
        return made

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the numbers that are state, by name, over the same memory."""
        n, size = len(self.records), self.kind.SIZE
        return {c.name: c.over(self.bytes, n, size) for c in columns_of(self.kind)}

    def __getstate__(self) -> dict[str, Any]:
        state = _state_of(self.bytes, self.kind)
        return {"kind": self.kind, "bytes": state, "stamp": stamp_of(self.kind)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.kind = state["kind"]
        if not (isinstance(self.kind, type) and issubclass(self.kind, Record)):
            raise ModelFormatError(f"{self.kind!r} is stored as a kind of records")
        check_stamp(state.get("stamp"), self.kind)
        stored = check_plain(state["bytes"])
        if stored.dtype != np.uint8 or stored.ndim != 1 or stored.size % self.kind.SIZE:
            raise ModelFormatError(
                f"{stored.size} of {stored.dtype} are stored as records of {self.kind.SIZE} bytes"
            )
        self.bytes = _state_of(stored, self.kind)
        self.arrays = {}
        self._place()


def _state_of(memory: NDArray[np.uint8], kind: type[Record]) -> NDArray[np.uint8]:
    """Return a copy of records' memory in which all that is no state is 0, as addresses are."""
    found = np.zeros(len(memory), np.uint8)
    old, new = np.ascontiguousarray(memory).view(kind.dtype()), found.view(kind.dtype())
    for field in state_words(kind):
        new[field] = old[field]
    return found


def state_words(kind: type[Record]) -> list[str]:
    """Return the names of the words of a record that are state."""
    return [f.name for f in kind.words() if f.role is Role.STATE]
