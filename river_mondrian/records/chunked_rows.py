"""Growable storage: rows of 32-bit words in chunks that never move, and arrays that double."""

from __future__ import annotations

import sys
from ctypes import addressof, c_char
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import CHUNK_ROWS, Table
from .record import WORD_BYTES
from .row_layout import RowLayout

_SMALLEST = 8


def address_of(array: NDArray[Any]) -> int:
    """Return the address of an owned array's items, several times as fast as `ctypes.data`."""
    return addressof(c_char.from_buffer(array.data)) if array.size else 0


def grown(array: NDArray[Any], n: int) -> NDArray[Any]:
    """Return an array of at least `n` rows with the same beginning, twice as long if it grows."""
    if n <= len(array):
        return array
    longer = np.zeros((max(n, 2 * len(array)), *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


class ChunkedRows:
    """Rows of 32-bit words, one growing sequence of rows per table.

    Growth adds a chunk, so nothing is copied, no call pays for the whole and at most one chunk
    per table is slack. Only a table's first chunk starts small and grows by copying.

    Parameters
    ----------
    n_tables
        Number of sequences (one per tree, or one in all).
    width
        Words per row.
    zeroed
        Whether new rows are zero. Memory that is not touched costs nothing.

    Attributes
    ----------
    tables
        Addresses of the chunks, an array per table.
    addresses
        Addresses of these arrays, an integer per table: what the kernels get. Growth may change
        them.
    capacities
        Number of rows that each table can hold without growing.

    """

    def __init__(self, n_tables: int, width: int, zeroed: bool = True) -> None:
        self.width = width
        self.zeroed = zeroed
        self.chunks: list[list[NDArray[np.int32]]] = [[] for _ in range(n_tables)]
        self.tables: list[NDArray[np.int64]] = [np.zeros(2, np.int64) for _ in range(n_tables)]
        self.addresses = [address_of(table) for table in self.tables]
        self.capacities = [0] * n_tables

    @property
    def row_bytes(self) -> int:
        """Number of bytes of a row."""
        return WORD_BYTES * self.width

    def show(self, table: int, record: Table[Any]) -> None:
        """Tell kernels where a table's rows are, and for how many there is room."""
        record.chunks = self.addresses[table]
        record.row_bytes = self.row_bytes
        record.capacity = self.capacities[table]

    def grow(self, table: int, record: Table[Any], n_rows: int) -> None:
        """Make room for `n_rows` rows in a table, and let its record refer to it."""
        if n_rows > self.capacities[table]:
            self.reserve(table, n_rows)
            record.chunks = self.addresses[table]
            record.capacity = self.capacities[table]

    def reserve(self, table: int, n_rows: int) -> None:
        """Make room for `n_rows` rows in a table."""
        if n_rows <= self.capacities[table]:
            return
        chunks = self.chunks[table]
        if len(chunks) <= 1:
            rows = _SMALLEST
            while rows < min(n_rows, CHUNK_ROWS):
                rows *= 4
            if not chunks or rows > len(chunks[0]):
                first = self._new(rows)
                if chunks:
                    old = self._pop(table)
                    first[: len(old)] = old
                self._append(table, first)
        while n_rows > self.capacities[table]:
            self._append(table, self._new(CHUNK_ROWS))

    def _new(self, n_rows: int) -> NDArray[np.int32]:
        make = np.zeros if self.zeroed else np.empty
        return make((n_rows, self.width), dtype=np.int32)

    def _append(self, table: int, chunk: NDArray[np.int32]) -> None:
        chunks = self.chunks[table]
        if len(chunks) == len(self.tables[table]):
            self.tables[table] = np.concatenate([self.tables[table], self.tables[table]])
            self.addresses[table] = address_of(self.tables[table])
        self.tables[table][len(chunks)] = address_of(chunk)
        chunks.append(chunk)
        self.capacities[table] += len(chunk)

    def _pop(self, table: int) -> NDArray[np.int32]:
        chunk = self.chunks[table].pop()
        self.capacities[table] -= len(chunk)
        return chunk

    def rows(self, table: int, n_rows: int) -> NDArray[np.int32]:
        """Copy the first `n_rows` rows of a table into one array, shape (n_rows, width)."""
        chunks = self.chunks[table]
        if not chunks:
            return np.zeros((0, self.width), dtype=np.int32)
        return np.concatenate(chunks)[:n_rows]

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
        while len(self.chunks[table]) > 1 and self.capacities[table] - CHUNK_ROWS >= n_rows:
            self._pop(table)

    def relayout(self, width: int, moves: list[tuple[int, int, int]], fill: int = 0) -> None:
        """Change the width of all rows.

        Parameters
        ----------
        width
            New number of words per row.
        moves
            Triples (old start, new start, length) of the words to keep.
        fill
            Bits of the words that no move fills.

        """
        self.width = width
        for table, chunks in enumerate(self.chunks):
            for c, old in enumerate(chunks):
                new = np.full((len(old), width), fill, dtype=np.int32)
                for source, target, length in moves:
                    new[:, target : target + length] = old[:, source : source + length]
                chunks[c] = new
                self.tables[table][c] = address_of(new)

    @property
    def nbytes(self) -> int:
        """Bytes held, with the lists and array headers."""
        size = sys.getsizeof(self.chunks) + sum(sys.getsizeof(table) for table in self.tables)
        for numbers in (self.addresses, self.capacities):
            size += sys.getsizeof(numbers) + sum(sys.getsizeof(number) for number in numbers)
        for chunks in self.chunks:
            size += sys.getsizeof(chunks)
            size += sum(sys.getsizeof(chunk) for chunk in chunks)
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
        """Return tables that hold the rows; `zeroed` is as for `ChunkedRows`."""
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
