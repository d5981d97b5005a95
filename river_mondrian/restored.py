"""Checks of the numbers and row references in restored tables, as declared for each field.

Each reference must be in range, and no row may be the target of two references. Then the rows that
are reached from the roots form no cycle, so kernels that follow references terminate, and read only
existing rows. One kernel visits all reached rows of all record classes, in linear time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .checks import refuse
from .compiling.kernels import batch_kernel
from .records import Case, ChunkedRows, Int64, Int64s, Memory, Record, Ref, RowLayout, number_of
from .records.layout import Column
from .records.record import WORD_BYTES

# Values in `Walk.edges` instead of a row's number: no reference, and a wrong reference.
NO_TARGET = -1
WRONG = -2

# Value in `Walk.parents` for a row that has not been reached.
UNMET = -1


class Rows:
    """Stored rows of one record class, read as columns.

    Parameters
    ----------
    layout
        Layout of a row.
    n
        Number of rows.
    memory, stride
        Memory of the rows, and number of bytes from one row to the next.

    """

    def __init__(self, layout: RowLayout, n: int, memory: NDArray[Any], stride: int) -> None:
        self.layout = layout
        self.kind = layout.kind
        self.n = n
        self._memory, self._stride = memory, stride
        self._known: dict[str, NDArray[Any]] = {}
        self._which: dict[Case | None, NDArray[np.bool_]] = {}

    @classmethod
    def of_table(cls, layout: RowLayout, n: int, tables: ChunkedRows, table: int = 0) -> Rows:
        """Return a copy of the first `n` rows of a table."""
        return cls(layout, n, tables.rows(table, n), tables.row_bytes)

    @classmethod
    def of_memory(cls, memory: Memory[Any], start: int = 0, n: int | None = None) -> Rows:
        """Return the `n` records from `start` on."""
        kind, n = memory.kind, len(memory) if n is None else n
        return cls(RowLayout(kind), n, memory.bytes[kind.SIZE * start :], kind.SIZE)

    def column(self, name: str) -> NDArray[Any]:
        """Return the column of a field, or another column of the layout."""
        if name not in self._known:
            field = self.kind.FIELDS.get(name)
            if field is None:
                column = next(c for c in self.layout.columns if c.name == name)
            else:
                column = Column(name, field.kind.name, field.offset, (), ())
            self._known[name] = self._read(column)
        return self._known[name]

    def word(self, number: int) -> NDArray[np.int32]:
        """Return a word of each row, given the word's number."""
        return self._read(Column("", "int32", WORD_BYTES * number, (), ()))

    def _read(self, column: Column) -> NDArray[Any]:
        return column.over(self._memory, self.n, self._stride)

    def which(self, case: Case | None) -> NDArray[np.bool_]:
        """Return a mask of the rows in a `records.record.Case`; None means all rows."""
        if case not in self._which:
            mask = np.ones(self.n, np.bool_)
            if case is not None:
                numbers = self.column(case.field)
                mask = np.asarray((case.least <= numbers) & (numbers <= case.most), np.bool_)
            self._which[case] = mask
        return self._which[case]


def check_numbers(where: str, rows: Rows, shared: Record | None = None) -> None:
    """Raise an error if a number of restored rows is not within its declared bounds.

    Parameters
    ----------
    where
        Name of a row in the error message.
    rows
        The rows.
    shared
        The record that the rows share, whose fields may be bounds.

    Raises
    ------
    ModelFormatError
        If a number is out of bounds, or NaN.

    """
    for field in rows.kind.words():
        name, bounds = field.name, field.bounds
        if bounds is None or rows.n == 0:
            continue
        array, most = rows.column(name), bounds.most
        # Numbers are compared in double precision, because NumPy would otherwise round the bounds.
        array = array.astype(np.float64) if array.dtype.kind == "f" else array
        if bounds.below:
            assert shared is not None
            most = number_of(shared, bounds.below) - 1
        bad = np.flatnonzero(rows.which(bounds.when) & ~((bounds.least <= array) & (array <= most)))
        if len(bad):
            i = int(bad[0])
            refuse(f"{where} {i}", name, array[i].item(), f"not from {bounds.least} to {most}")


class Edges(NamedTuple):
    """References of a table's rows, one number per row."""

    table: str
    name: str
    ref: Ref
    numbers: NDArray[Any]
    # The rows in which the field is a reference; None for all rows.
    where: NDArray[np.bool_] | None = None


class Walk(Record):
    """Rows of several tables, numbered consecutively, with references and reached rows."""

    n_rows: Int64
    # `edges`: the `n_edges` references of each row. A reference is NO_TARGET, WRONG or its target's
    # number, plus `n_rows` if the target's references are not followed.
    n_edges: Int64
    edges: Int64s
    # `order`: the reached rows in order of the visit; the first `n_roots` are the roots. `parents`:
    # the row that refers to each row, 0 for roots, or UNMET. `sizes`: for each row, the number of
    # rows of the counted table among the row and its descendants.
    n_roots: Int64
    order: Int64s
    parents: Int64s
    sizes: Int64s


@batch_kernel
def follow(walk: Walk) -> int:
    """Visit all rows reached from the roots; return -1, or the index of a wrong reference."""
    edges, order, parents, sizes = walk.edges, walk.order, walk.parents, walk.sizes
    n_rows, n_edges = walk.n_rows, walk.n_edges
    i, n = 0, walk.n_roots
    while i < n:
        row = order[i]
        i += 1
        for k in range(n_edges):
            target = edges[n_edges * row + k]
            if target == NO_TARGET:
                continue
            is_end = target >= n_rows
            if is_end:
                target -= n_rows
            if target < 0 or parents[target] != UNMET:
                return n_edges * row + k
            parents[target] = row
            if is_end:
                sizes[row] = sizes[row] + sizes[target]
            else:
                order[n] = target
                n += 1
    while n > walk.n_roots:
        n -= 1
        row = order[n]
        parent = parents[row]
        sizes[parent] = sizes[parent] + sizes[row]
    return -1


class Followed(NamedTuple):
    """Parents and sizes that were found by following references, in dicts by the name of a table.

    For each row, `parents` contains the number (see `Walk`) of the parent, the row with a reference
    to the row. The number is 0 for a root, and UNMET for a row that has not been reached. `sizes`
    contains the number of rows of the counted table among the row and its descendants.
    """

    parents: dict[str, NDArray[np.int64]]
    sizes: dict[str, NDArray[np.int64]]

    def met(self, table: str) -> NDArray[np.bool_]:
        """Return a mask of a table's rows that references have reached."""
        return np.asarray(self.parents[table] != UNMET, np.bool_)


def check_references(
    where: str,
    tables: Mapping[str, Rows],
    extra: Sequence[Edges] = (),
    *,
    chain: str = "",
    counted: str = "",
) -> Followed:
    """Raise an error if a reference leads to no row, or several references lead to one row.

    Parameters
    ----------
    where
        Name of the tables' owner in the error message.
    tables
        The rows of each table, by the name that references use. The rows of the first table are the
        roots.
    extra
        References that are not fields of a record.
    chain
        The chain of the references that are followed (see `Ref`).
    counted
        The table whose rows are counted.

    Raises
    ------
    ModelFormatError
        If a reference is wrong.

    """
    edges = list(extra)
    for name, rows in tables.items():
        for field in rows.kind.FIELDS.values():
            if field.ref is not None and field.ref.chain == chain and rows.n:
                edges.append(Edges(name, field.name, field.ref, rows.column(field.name)))
    # One kernel follows references between all tables, so rows are numbered across tables.
    ends = np.cumsum([rows.n for rows in tables.values()]).tolist()
    starts = dict(zip(tables, [0, *ends[:-1]], strict=True))
    total = ends[-1]
    of_tables = {name: [edge for edge in edges if edge.table == name] for name in tables}
    # Each row of `targets` contains the references of one row.
    n_edges = max(1, *map(len, of_tables.values()))
    targets = np.full((total, n_edges), NO_TARGET, np.int64)
    for name, of_table in of_tables.items():
        for k, edge in enumerate(of_table):
            numbers = targets[starts[name] : starts[name] + tables[name].n, k]
            numbers[:] = _targets(edge, tables, starts, total)
    memory = Memory(Walk)
    walk, n_roots = memory[0], next(iter(tables.values())).n
    walk.n_rows, walk.n_edges, walk.n_roots = total, n_edges, n_roots
    sizes, parents = np.zeros(total, np.int64), np.full(total, UNMET, np.int64)
    order = np.zeros(total, np.int64)
    order[:n_roots] = np.arange(n_roots)
    parents[:n_roots] = 0
    if counted:
        sizes[starts[counted] : starts[counted] + tables[counted].n] = 1
    arrays = {"edges": targets.reshape(-1), "order": order, "parents": parents, "sizes": sizes}
    for name, array in arrays.items():
        memory.own(name, array)
    bad = int(follow(walk))
    if bad >= 0:
        row, k = divmod(bad, n_edges)
        name = next(name for name in reversed(list(tables)) if starts[name] <= row)
        edge, i = of_tables[name][k], row - starts[name]
        why = f"which is no row of {edge.ref.to}, or one that is referred to from elsewhere"
        refuse(f"{where}, {name} {i}", edge.name, int(edge.numbers[i]), why)
    slices = [(name, slice(start, start + tables[name].n)) for name, start in starts.items()]
    return Followed({k: parents[p] for k, p in slices}, {k: sizes[p] for k, p in slices})


def _targets(
    edges: Edges, tables: Mapping[str, Rows], starts: Mapping[str, int], total: int
) -> NDArray[np.int64]:
    """Return the targets of references as numbers of rows (see `Walk.edges`)."""
    ref, rows = edges.ref, tables[edges.ref.to]
    numbers = edges.numbers.astype(np.int64)
    targets = np.full(len(numbers), WRONG, np.int64)
    shifted = numbers - ref.first
    is_row = (shifted >= 0) & (shifted < rows.n)
    if ref.finds is not None:
        is_row[is_row] = rows.which(ref.finds)[shifted[is_row]]
    targets[is_row] = starts[ref.to] + shifted[is_row] + (total if ref.ends else 0)
    if ref.other:
        is_other = (numbers < 0) & (~numbers < tables[ref.other].n)
        targets[is_other] = total + starts[ref.other] + ~numbers[is_other]
    if ref.none is not None:
        targets[numbers == ref.none] = NO_TARGET
    is_reference = tables[edges.table].which(ref.when)
    if edges.where is not None:
        is_reference = is_reference & edges.where
    targets[~is_reference] = NO_TARGET
    return targets
