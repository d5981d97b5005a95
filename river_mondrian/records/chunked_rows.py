"""Growable storage: rows of 32-bit words in chunks that never move, and arrays that double."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import check_plain
from ..errors import ModelFormatError
from .arrays import CHUNK_ROWS, Table, address_of
from .record import WORD_BYTES
from .row_layout import Column, RowLayout

_SMALLEST = 8


def grown(array: NDArray[Any], n: int) -> NDArray[Any]:
    """Return an array of at least `n` rows with the same beginning, twice as long if it grows."""
    if n <= len(array):
        return array
    longer = np.zeros((max(n, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


# A table's chunks; their addresses, with room for more; and the address of that, which is what
# kernels get.
_Table = tuple[list[NDArray[np.int32]], NDArray[np.int64], int]


def _capacity(chunks: list[NDArray[np.int32]]) -> int:
    """Return for how many rows there is room in a table's chunks."""
    return len(chunks[0]) + CHUNK_ROWS * (len(chunks) - 1) if chunks else 0


def _table_of(chunks: list[NDArray[np.int32]]) -> _Table:
    """Return a table of chunks."""
    places = np.zeros(max(2, 1 << len(chunks).bit_length()), np.int64)
    for i, chunk in enumerate(chunks):
        places[i] = address_of(chunk)
    return chunks, places, address_of(places)


# What grows gets a table of its own.
_EMPTY = _table_of([])


class ChunkedRows:
    """Rows of 32-bit words, one growing sequence of rows per table.

    Growth adds a chunk, so nothing is copied, no call pays for the whole and at most one chunk
    per table is slack. Only a table's first chunk starts small and grows by copying.

    Kernels read where the chunks are from records of tables (`show`). An owner whose change was
    interrupted shows them all again before a kernel runs. Each growth counts by its last assignment
    or `append`.

    Parameters
    ----------
    n_tables
        Number of sequences (one per tree, or one in all).
    width
        Words per row.
    zeroed
        Whether new rows are zero. Memory that is not touched costs nothing.

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
        """The chunks of each table. All but the first have `CHUNK_ROWS` rows."""
        return [chunks for chunks, _, _ in self._tables]

    def holder(self, table: int) -> object:
        """Return what holds a table's memory, to be kept as long as kernels may refer to it."""
        return self._tables[table]

    def show(self, table: int, record: Table[Any]) -> None:
        """Tell kernels where a table's rows are, and for how many there is room."""
        chunks, _, address = self._tables[table]
        record.chunks = address
        record.row_bytes = self.row_bytes
        record.capacity = _capacity(chunks)

    def show_all(self, name: str, words: NDArray[Any], tables: Sequence[int]) -> None:
        """Tell it of all tables, by the words of the records that have one of this name each.

        `tables` has the number of each record's table.
        """
        capacities = self.capacities
        words[f"{name}.chunks"] = [self._tables[table][2] for table in tables]
        words[f"{name}.capacity"] = [capacities[table] for table in tables]
        words[f"{name}.row_bytes"] = self.row_bytes

    def grow(self, table: int, record: Table[Any], n_rows: int) -> None:
        """Make room for `n_rows` rows in a table, and let its record refer to it."""
        if n_rows > record.capacity:
            record.capacity = self.reserve(table, n_rows)
            record.chunks = self._tables[table][2]

    def reserve(self, table: int, n_rows: int) -> int:
        """Make room for `n_rows` rows in a table; returns for how many there is room then."""
        chunks, places, _ = self._tables[table]
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
            self._tables[table] = chunks, places, _ = _table_of([first])
            capacity = rows
        while capacity < n_rows:
            chunk = self._new(CHUNK_ROWS)
            if len(chunks) == len(places):
                places = np.append(places, np.zeros_like(places))
                self._tables[table] = chunks, places, address_of(places)
            # Nobody looks there before the next line.
            places[len(chunks)] = address_of(chunk)
            chunks.append(chunk)
            capacity += CHUNK_ROWS
        return capacity

    def _new(self, n_rows: int) -> NDArray[np.int32]:
        make = np.zeros if self.zeroed else np.empty
        return make((n_rows, self.width), dtype=np.int32)

    def rows(self, table: int, n_rows: int) -> NDArray[np.int32]:
        """Copy the first `n_rows` rows of a table into one array, shape (n_rows, width)."""
        chunks, _, _ = self._tables[table]
        if not chunks:
            return np.zeros((0, self.width), dtype=np.int32)
        return np.concatenate(chunks)[:n_rows]

    def column(self, table: int, n_rows: int, column: Column) -> NDArray[Any]:
        """Copy the numbers of a column in the first `n_rows` rows of a table."""
        parts = [column.over(chunk, len(chunk), self.row_bytes) for chunk in self.chunks[table]]
        parts.append(np.empty((0, *column.shape), column.dtype))
        found: NDArray[Any] = np.concatenate(parts)[:n_rows]
        return found

    def extend(self, table: int, n_rows: int, rows: NDArray[np.int32]) -> None:
        """Copy rows behind the first `n_rows` of a table, which fill whole chunks."""
        self.reserve(table, n_rows + len(rows))
        start = 0
        for chunk in self.chunks[table][n_rows // CHUNK_ROWS :]:
            part = rows[start : start + len(chunk)]
            chunk[: len(part)] = part
            start += len(chunk)

    def trim(self, table: int, n_rows: int) -> None:
        """Give back the chunks behind the first `n_rows` rows."""
        chunks, _, _ = self._tables[table]
        n = len(chunks)
        while n > 1 and _capacity(chunks[:n]) - CHUNK_ROWS >= n_rows:
            n -= 1
        if n < len(chunks):
            self._tables[table] = _table_of(chunks[:n])

    def clear(self, table: int) -> None:
        """Give back all memory of a table."""
        self._tables[table] = _EMPTY

    def relaid(self, width: int, moves: list[tuple[int, int, int]], fill: int = 0) -> ChunkedRows:
        """Return the same rows with another width.

        Parameters
        ----------
        width
            New number of words per row.
        moves
            Triples (old start, new start, length) of the words to keep.
        fill
            Bits of the words that no move fills.

        """
        made = ChunkedRows(len(self._tables), width, self.zeroed)
        for table, (chunks, _, _) in enumerate(self._tables):
            relaid = []
            for old in chunks:
                new = np.full((len(old), width), fill, dtype=np.int32)
                for source, target, length in moves:
                    new[:, target : target + length] = old[:, source : source + length]
                relaid.append(new)
            if relaid:
                made._tables[table] = _table_of(relaid)
        return made

    def copied(self) -> ChunkedRows:
        """Return a copy."""
        return self.relaid(self.width, [(0, 0, self.width)])

    @property
    def nbytes(self) -> int:
        """Bytes held, with the lists and array headers."""
        size = sys.getsizeof(self._tables)
        for table in self._tables:
            size += sys.getsizeof(table) + sum(map(sys.getsizeof, table))
            size += sum(map(sys.getsizeof, table[0]))
        return size


class PackedRows:
    """The rows of tables, an array for each, as pickles have them."""

    def __init__(self, rows: list[NDArray[np.int32]]) -> None:
        self.rows = rows

    @property
    def counts(self) -> list[int]:
        """Number of rows of each table."""
        return [len(rows) for rows in self.rows]

    def restored(self, layout: RowLayout, zeroed: bool = True) -> ChunkedRows:
        """Return tables that hold the rows; `zeroed` is as for `ChunkedRows`.

        Raises
        ------
        ModelFormatError
            If the rows are not those of the layout.

        """
        for rows in self.rows:
            shape = check_plain(rows).shape
            if rows.dtype != np.int32 or len(shape) != 2 or shape[1] != layout.words:
                raise ModelFormatError(
                    f"rows of {layout.kind.__name__} have {layout.words} words, but "
                    f"{rows.dtype} of the shape {shape} are stored"
                )
        found = ChunkedRows(len(self.rows), layout.words, zeroed)
        for table, rows in enumerate(self.rows):
            found.extend(table, 0, rows)
        return found


class TableState:
    """The rows of tables that are in use, to be pickled or saved.

    Parameters
    ----------
    tables
        The tables.
    counts
        Number of rows of each that are in use.
    layout
        What a row is.

    """

    def __init__(self, tables: ChunkedRows, counts: list[int], layout: RowLayout) -> None:
        self.tables = tables
        self.counts = counts
        self.layout = layout

    @property
    def rows(self) -> list[NDArray[np.int32]]:
        """Copies of the rows of each table."""
        return [self.tables.rows(table, n) for table, n in enumerate(self.counts)]

    def __reduce__(self) -> Any:
        return PackedRows, (self.rows,)
