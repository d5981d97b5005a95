"""Tables of rows as columns, and columns as tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelFormatError
from ..records import ChunkedRows, RowLayout, TableState
from ..records.arrays import CHUNK_ROWS
from ..records.layout import Column

# Bytes of rows that are turned into columns at a time: they stay in the cache.
BLOCK_BYTES = 1 << 18


def _chunks_of_block(row_bytes: int) -> int:
    return max(1, BLOCK_BYTES // max(1, CHUNK_ROWS * row_bytes))


def columns_of_tables(state: TableState) -> dict[str, NDArray[Any]]:
    """Return the columns of all tables, one table after the other."""
    tables, columns = state.tables, state.layout.columns
    total = sum(state.counts)
    found = {c.name: np.empty((total, *c.shape), c.dtype) for c in columns}
    step = _chunks_of_block(tables.row_bytes)
    end = 0
    for chunks, count in zip(tables.chunks, state.counts, strict=True):
        start, end = end, end + count
        for first in range(0, -(-count // CHUNK_ROWS), step):
            block = np.concatenate(chunks[first : first + step])
            n = min(len(block), end - start)
            for column in columns:
                found[column.name][start : start + n] = column.over(block, n, tables.row_bytes)
            start += n
    return found


class TableColumns:
    """Tables as a file has them.

    Parameters
    ----------
    counts
        Number of rows of each table.
    columns
        Columns of all tables, by name.

    """

    def __init__(self, counts: list[int], columns: dict[str, NDArray[Any]]) -> None:
        self.counts = counts
        self.columns = columns

    def restored(self, layout: RowLayout, zeroed: bool = True) -> ChunkedRows:
        """Return tables that hold the rows; `zeroed` is as for `ChunkedRows`.

        Raises
        ------
        ModelFormatError
            If the columns are not those of the layout.

        """
        columns = layout.columns
        check_columns(self.columns, columns, sum(self.counts), layout.kind.__name__)
        found = ChunkedRows(len(self.counts), layout.words, zeroed)
        n_rows = _chunks_of_block(found.row_bytes) * CHUNK_ROWS
        end = 0
        for table, count in enumerate(self.counts):
            start, end = end, end + count
            found.reserve(table, count)
            for first in range(0, count, n_rows):
                n = min(n_rows, count - first)
                block = np.empty((n, layout.words), dtype=np.int32)
                for column in columns:
                    place = slice(start + first, start + first + n)
                    column.over(block, n, found.row_bytes)[:] = self.columns[column.name][place]
                found.extend(table, first, block)
        return found


def check_columns(
    stored: dict[str, NDArray[Any]], columns: list[Column], n: int, kind: str
) -> None:
    """Refuse columns that are not those of `n` records of a kind.

    Raises
    ------
    ModelFormatError
        If a name, a type or a shape differs.

    """
    expected = {c.name: (c.dtype, (n, *c.shape)) for c in columns}
    found = {name: (array.dtype.name, array.shape) for name, array in stored.items()}
    for name in expected.keys() | found.keys():
        if expected.get(name) != found.get(name):
            raise ModelFormatError(
                f"{kind} has the column {name!r} of {expected.get(name)}, "
                f"but {found.get(name)} is stored"
            )
