"""Memory that Python owns: records with their arrays, and growing tables of rows."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..checks import ModelFormatError, check_plain
from .arrays import CHUNK_ROWS, Array, Table, address_of
from .layout import Column, RowLayout, check_stamp, columns_of, stamp_of
from .record import WORD_BYTES, Record, Role

R = TypeVar("R", bound=Record)


def _keep(record: Record, memory: NDArray[np.uint8]) -> None:
    """Make a record and its embedded records keep `memory` alive, and read int64 by views."""
    attributes = record.__dict__
    attributes["bytes"] = memory
    if len(memory) % 8 == 0:
        attributes["int64s"] = memory.data.cast("q")
    for field in record.WITHIN:
        inner = getattr(record, field.name)
        _keep(inner, memory[field.offset : field.offset + field.size])
        attributes[field.name] = inner


def owned(state: dict[str, Any]) -> dict[str, Any]:
    """Return an unpickled state with writable arrays.

    An unpickled array may be read-only, or may be in memory that other processes share.
    """
    copied = dict(state)
    for name, value in state.items():
        if isinstance(value, np.ndarray) and not check_plain(value).flags.owndata:
            # `np.array` is used, because it copies a memory map to an ordinary array.
            copied[name] = np.array(value)
    return copied


def check_shapes(owner: object, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise an error if the arrays of a stored object have other shapes than expected.

    Raises
    ------
    ModelFormatError
        If the shape of an attribute is wrong.

    """
    for name, shape in shapes.items():
        stored = getattr(owner.__dict__.get(name), "shape", None)
        if stored != shape:
            raise ModelFormatError(
                f"{name} of {type(owner).__name__} has the shape {stored} instead of {shape}"
            )


class OwnsArrays:
    """Base class of objects that own arrays: attributes are pickled, and counted in `nbytes`.

    After unpickling, the object owns its arrays (see `owned`).
    """

    # Attributes that are not state, because they are derived from other attributes.
    _DERIVED: ClassVar[frozenset[str]] = frozenset()
    # Attributes that do not count in the size, because other objects own them.
    _BORROWED: ClassVar[frozenset[str]] = frozenset()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in self._DERIVED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(owned(state))

    @property
    def nbytes(self) -> int:
        """Memory of the object and of the arrays and tables that it owns, in bytes."""
        held: dict[int, int] = {}
        _hold(self, held)
        return sum(held.values())


def _hold(value: Any, held: dict[int, int]) -> None:
    """Write the size of each part of an object to `held`, by the part's id."""
    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        held[id(value)] = value.nbytes
    elif isinstance(value, Memory):
        _hold([value.bytes, *value.arrays.values()], held)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _hold(item, held)
    elif isinstance(value, OwnsArrays):
        held[id(value)] = sys.getsizeof(value)
        _hold([item for name, item in vars(value).items() if name not in value._BORROWED], held)
    elif hasattr(type(value), "nbytes") and not isinstance(value, np.generic):
        held[id(value)] = value.nbytes


class Memory(Generic[R]):
    """The owner of adjacent records of one class, and of arrays for their fields.

    Parameters
    ----------
    kind
        The class of the records.
    n
        Number of records.

    """

    # An assignment that `own` has started, for `settle` to complete after an interruption.
    _owning: tuple[str, str, int, NDArray[Any]] | None = None

    def __init__(self, kind: type[R], n: int = 1) -> None:
        self.kind = kind
        self.bytes = np.zeros(n * kind.SIZE, np.uint8)
        self.arrays: dict[str, NDArray[Any]] = {}
        self._find_records()

    def _find_records(self) -> None:
        start = address_of(self.bytes)
        n = len(self.bytes) // self.kind.SIZE
        self.records = [self.kind(start + self.kind.SIZE * i) for i in range(n)]
        for i, record in enumerate(self.records):
            _keep(record, self.bytes[self.kind.SIZE * i : self.kind.SIZE * (i + 1)])
        # The numeric fields of all records, as a structured NumPy array over the same memory.
        self.words = self.bytes.view(self.kind.dtype())

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, i: int) -> R:
        return self.records[i]

    def __iter__(self) -> Iterator[R]:
        return iter(self.records)

    @property
    def array(self) -> Array[R]:
        """The records as an array that a field of another record can refer to."""
        return Array(self.kind, self.records[0] if self.records else 0, len(self.records), self)

    def word(self, name: str) -> memoryview:
        """Return a view of an int64 field of the first record, for a field that each call reads.

        Reading the field takes five times as long as reading the view.
        """
        i = self.kind.FIELDS[name].offset // 8
        return self.bytes[: self.kind.SIZE].data.cast("q")[i : i + 1]

    def own(self, name: str, array: NDArray[Any], i: int = 0) -> None:
        """Make a record's field refer to an array, and keep the array alive.

        The field may be in an embedded record, with a name like `outer.inner`. The field's array
        stays alive, even if the call is interrupted (see `settle`).
        """
        self.settle()
        key = name if len(self.records) == 1 else f"{name}[{i}]"
        self._owning = key, name, i, array
        self._assign(key, name, i, array)

    def own_records(self, name: str, n: int) -> None:
        """Make a field of the first record refer to `n` new records, which are uninitialised."""
        kind = operator.attrgetter(name)(self.records[0]).record
        self.own(name, np.empty(n * kind.SIZE, np.uint8))

    def refer(self, owner: object, *names: str) -> None:
        """Make fields of the first record refer to an owner's arrays of the same names."""
        for name in names:
            setattr(self.records[0], name, getattr(owner, name))

    def settle(self) -> None:
        """Complete an interrupted call of `own` that has set the field."""
        if self._owning is not None:
            key, name, i, array = self._owning
            if operator.attrgetter(name)(self.records[i]).address == address_of(array):
                self._assign(key, name, i, array)
            self._owning = None

    def _assign(self, key: str, name: str, i: int, array: NDArray[Any]) -> None:
        *outer, field = name.split(".")
        setattr(functools.reduce(getattr, outer, self.records[i]), field, array)
        self.arrays[key] = array
        self._owning = None

    @property
    def nbytes(self) -> int:
        """Memory of the records and their arrays, in bytes."""
        return self.bytes.nbytes + sum(array.nbytes + 128 for array in self.arrays.values())

    def copied(self) -> Self:
        """Return a copy of the records that refers to the same arrays, and keeps them alive."""
        copied = type(self)(self.kind, len(self))
        copied.bytes[:] = self.bytes
        copied.arrays = self.arrays.copy()
        return copied

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns of the state by name, as arrays over the same memory."""
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
        self._find_records()


def _state_of(memory: NDArray[np.uint8], kind: type[Record]) -> NDArray[np.uint8]:
    """Return a copy of records' memory, with 0 in place of everything but the state."""
    copied = np.zeros(len(memory), np.uint8)
    old, new = np.ascontiguousarray(memory).view(kind.dtype()), copied.view(kind.dtype())
    for field in state_words(kind):
        new[field] = old[field]
    return copied


def state_words(kind: type[Record]) -> list[str]:
    """Return the names of a record's numeric fields that are stored."""
    return [f.name for f in kind.words() if f.role is Role.STATE]


_SMALLEST = 8


def grown(array: NDArray[Any], n: int) -> NDArray[Any]:
    """Return the array if it has at least `n` rows, otherwise a longer copy padded with 0."""
    if n <= len(array):
        return array
    longer = np.zeros((max(n, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


# A table: its chunks, an array of the chunks' addresses with room for more, and this array's
# address for kernels.
_Table = tuple[list[NDArray[np.int32]], NDArray[np.int64], int]


def _capacity(chunks: list[NDArray[np.int32]]) -> int:
    """Return the number of rows that a table's chunks can hold."""
    return len(chunks[0]) + CHUNK_ROWS * (len(chunks) - 1) if chunks else 0


def _table_of(chunks: list[NDArray[np.int32]]) -> _Table:
    """Return chunks as a `_Table`."""
    addresses = np.zeros(max(2, 1 << len(chunks).bit_length()), np.int64)
    for i, chunk in enumerate(chunks):
        addresses[i] = address_of(chunk)
    return chunks, addresses, address_of(addresses)


# Empty tables can share this tuple, because growth assigns a new tuple.
_EMPTY = _table_of([])


class ChunkedRows:
    """Growing tables whose rows consist of 32-bit words.

    Growth adds a chunk and copies no row, so the time of a call does not depend on the size of the
    table. The exception is a table's first chunk, which starts small and grows by copying. Less
    than one chunk is allocated in addition to the reserved rows.

    Kernels read the chunks' addresses from records of tables (`show`). After an interrupted change,
    the owner writes all addresses again before a kernel runs. A single assignment or `append` adds
    a chunk, so tables stay valid if growth is interrupted.

    Parameters
    ----------
    n_tables
        Number of tables: a table for each tree, or a single table for all trees.
    width
        Number of words of a row.
    zeroed
        Whether new rows are zero.

    """

    def __init__(self, n_tables: int, width: int, zeroed: bool = True) -> None:
        self.width = width
        self.zeroed = zeroed
        self._tables = [_EMPTY] * n_tables

    @property
    def row_bytes(self) -> int:
        """Number of bytes of a row."""
        return WORD_BYTES * self.width

    @property
    def capacities(self) -> list[int]:
        """Number of rows that each table can hold without growing."""
        return [_capacity(chunks) for chunks, _, _ in self._tables]

    @property
    def chunks(self) -> list[list[NDArray[np.int32]]]:
        """The chunks of each table. All chunks but the first have `CHUNK_ROWS` rows."""
        return [chunks for chunks, _, _ in self._tables]

    def holder(self, table: int) -> object:
        """Return the object that must stay alive as long as kernels may read a table."""
        return self._tables[table]

    def show(self, table: int, record: Table[Any]) -> None:
        """Write the address and the capacity of a table's rows to the record that kernels read."""
        chunks, _, address = self._tables[table]
        record.chunks = address
        record.row_bytes = self.row_bytes
        record.capacity = _capacity(chunks)

    def show_all(self, name: str, words: NDArray[Any], tables: Sequence[int]) -> None:
        """Write the addresses and capacities of tables to many records, as `show` does.

        `words` are the records' numeric fields, `name` is the field with the table, and `tables`
        has the number of each record's table.
        """
        capacities = self.capacities
        words[f"{name}.chunks"] = [self._tables[table][2] for table in tables]
        words[f"{name}.capacity"] = [capacities[table] for table in tables]
        words[f"{name}.row_bytes"] = self.row_bytes

    def grow(self, table: int, record: Table[Any], n_rows: int) -> None:
        """Allocate memory for `n_rows` rows of a table, and update the table's record."""
        if n_rows > record.capacity:
            record.capacity = self.reserve(table, n_rows)
            record.chunks = self._tables[table][2]

    def reserve(self, table: int, n_rows: int) -> int:
        """Allocate memory for `n_rows` rows of a table, and return the table's new capacity."""
        chunks, addresses, _ = self._tables[table]
        capacity = _capacity(chunks)
        if n_rows <= capacity:
            return capacity
        if len(chunks) <= 1 and capacity < min(n_rows, CHUNK_ROWS):
            rows = _SMALLEST
            while rows < min(n_rows, CHUNK_ROWS):
                rows *= 4
            first = self._new(rows)
            if chunks:
                first[:capacity] = chunks[0]
            self._tables[table] = chunks, addresses, _ = _table_of([first])
            capacity = rows
        while capacity < n_rows:
            chunk = self._new(CHUNK_ROWS)
            if len(chunks) == len(addresses):
                addresses = np.append(addresses, np.zeros_like(addresses))
                self._tables[table] = chunks, addresses, address_of(addresses)
            # The write is safe, because kernels read this address only after the capacity in the
            # table's record has grown.
            addresses[len(chunks)] = address_of(chunk)
            chunks.append(chunk)
            capacity += CHUNK_ROWS
        return capacity

    def _new(self, n_rows: int) -> NDArray[np.int32]:
        return (np.zeros if self.zeroed else np.empty)((n_rows, self.width), dtype=np.int32)

    def rows(self, table: int, n_rows: int) -> NDArray[np.int32]:
        """Return a copy of the first `n_rows` rows of a table, shape (n_rows, width)."""
        chunks, _, _ = self._tables[table]
        if not chunks:
            return np.zeros((0, self.width), dtype=np.int32)
        return np.concatenate(chunks)[:n_rows]

    def column(self, table: int, n_rows: int, column: Column) -> NDArray[Any]:
        """Return a copy of a column in the first `n_rows` rows of a table."""
        pieces = [column.over(chunk, len(chunk), self.row_bytes) for chunk in self.chunks[table]]
        pieces.append(np.empty((0, *column.shape), column.dtype))
        return np.concatenate(pieces)[:n_rows]

    def extend(self, table: int, n_rows: int, rows: NDArray[np.int32]) -> None:
        """Copy rows to a table after the first `n_rows` rows; `n_rows` must fill whole chunks."""
        self.reserve(table, n_rows + len(rows))
        start = 0
        for chunk in self.chunks[table][n_rows // CHUNK_ROWS :]:
            new = rows[start : start + len(chunk)]
            chunk[: len(new)] = new
            start += len(chunk)

    def trim(self, table: int, n_rows: int) -> None:
        """Free the chunks after the first `n_rows` rows, but not the first chunk."""
        chunks, _, _ = self._tables[table]
        n = len(chunks)
        while n > 1 and _capacity(chunks[:n]) - CHUNK_ROWS >= n_rows:
            n -= 1
        if n < len(chunks):
            self._tables[table] = _table_of(chunks[:n])

    def clear(self, table: int) -> None:
        """Free all memory of a table."""
        self._tables[table] = _EMPTY

    def resized(self, width: int, moves: list[tuple[int, int, int]], fill: int = 0) -> ChunkedRows:
        """Return a copy of the tables with rows of another width.

        Parameters
        ----------
        width
            New number of words per row.
        moves
            Triples (old start, new start, length) of the words to keep.
        fill
            Value of the other words, as an int32.

        """
        resized = ChunkedRows(len(self._tables), width, self.zeroed)
        for table, (chunks, _, _) in enumerate(self._tables):
            new_chunks = []
            for old in chunks:
                new = np.full((len(old), width), fill, dtype=np.int32)
                for source, target, length in moves:
                    new[:, target : target + length] = old[:, source : source + length]
                new_chunks.append(new)
            if new_chunks:
                resized._tables[table] = _table_of(new_chunks)
        return resized

    def fill(self, starts: Sequence[int], words: NDArray[np.int64], bits: int) -> None:
        """Write `bits` to word `start + word` of all rows, for each start and word."""
        numbers = np.add.outer(np.array(starts, dtype=np.int64), words).reshape(-1)
        for chunks, _, _ in self._tables if len(numbers) else ():
            for chunk in chunks:
                chunk[:, numbers] = bits

    def copied(self) -> ChunkedRows:
        """Return an independent copy of the tables."""
        return self.resized(self.width, [(0, 0, self.width)])

    @property
    def nbytes(self) -> int:
        """Memory of the tables in bytes, including lists and array headers."""
        size = sys.getsizeof(self._tables)
        for table in self._tables:
            size += sys.getsizeof(table) + sum(map(sys.getsizeof, table))
            size += sum(map(sys.getsizeof, table[0]))
        return size


class PackedRows:
    """The rows of tables in a pickle: an array for each table."""

    def __init__(self, rows: list[NDArray[np.int32]]) -> None:
        self.rows = rows

    @property
    def counts(self) -> list[int]:
        """Number of rows of each table."""
        return [len(rows) for rows in self.rows]

    def restored(self, layout: RowLayout, zeroed: bool = True) -> ChunkedRows:
        """Return tables with the rows (for `zeroed`, see `ChunkedRows`).

        Raises
        ------
        ModelFormatError
            If the rows do not match the layout.

        """
        for rows in self.rows:
            shape = check_plain(rows).shape
            if rows.dtype != np.int32 or len(shape) != 2 or shape[1] != layout.words:
                raise ModelFormatError(
                    f"rows of {layout.kind.__name__} have {layout.words} words, but "
                    f"{rows.dtype} of the shape {shape} are stored"
                )
        tables = ChunkedRows(len(self.rows), layout.words, zeroed)
        for table, rows in enumerate(self.rows):
            tables.extend(table, 0, rows)
        return tables


class TableState:
    """The used rows of tables, for a pickle or a file.

    Parameters
    ----------
    tables
        The tables.
    counts
        Number of used rows of each table.
    layout
        The layout of a row.

    """

    def __init__(self, tables: ChunkedRows, counts: list[int], layout: RowLayout) -> None:
        self.tables = tables
        self.counts = counts
        self.layout = layout

    @property
    def rows(self) -> list[NDArray[np.int32]]:
        """A copy of the used rows of each table."""
        return [self.tables.rows(table, n) for table, n in enumerate(self.counts)]

    def __reduce__(self) -> Any:
        return PackedRows, (self.rows,)
