"""Random binning: the cell of a sample in a random grid, and the table of known cells.

A cell combines one bin of each feature. The value 0 is always in bin 0. So the features with values
outside bin 0 determine the cell, and a new feature does not change the cells of earlier samples.
Two independent 64-bit sums over these features form the code that identifies the cell. The table
uses open addressing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import checks
from ..compiling.kernels import batch_kernel, helper, kernel, link_by_name
from ..limits import DONE, NO_ROOM
from ..records import Array, Float64s, Int32s, Int64, Int64s, Record, UInt64, array_buffer, derived
from . import record as maps
from .record import Indices, MapRecord, Outputs, RowPerFeature, Sample, Starts, Values

# The compiler must not reorder sums, because batches and single samples must have equal results.
ORDERED_SUMS = True

# The column of all cells that are not in the table.
UNKNOWN_COLUMN = 0

# Bin numbers are clipped to this size, because they must fit into 64-bit integers.
FARTHEST_BIN = 9e18

# Initial number of slots of a table.
NEW_TABLE_SLOTS = 256

# Bound on the cells that one call of `learn_rows` computes, because signals wait until the call
# returns. A call computes the cells of at least one row.
CELLS = 200_000


class Code(Record):
    """The code that identifies a feature or a cell."""

    first: UInt64
    second: UInt64


class Slot(Record):
    """A slot of the table of cells."""

    code_first: UInt64
    code_second: UInt64
    # The cell's column, or UNKNOWN_COLUMN if the slot is empty.
    column: Int64


class BinningRecord(MapRecord):
    """Random grids and the known cells in them."""

    # A row for each input: the pitch and the shift of each partition's grid, then the feature's
    # code.
    grids: Float64s
    # Slots of cells; their number is a power of two.
    table: Array[Slot]
    n_slots: Int64 = derived()


_buffer_of_code = array_buffer(Code, 1)
_buffer_of_sample = array_buffer(Sample, 1)


@helper
def mix(z: np.uint64) -> np.uint64:
    """Return a hash of a word (the finalizer of splitmix64)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@helper
def find_code(record: BinningRecord, sample: Sample, partition: int, code: Code) -> None:
    """Write the code of a sample's cell in a partition; the values must be finite."""
    grids, width = record.grids, 2 * (record.n_out + 1)
    first, second = np.uint64(0), np.uint64(0)
    for j in range(sample.n_entries):
        index, value = maps.read_entry(record, sample, j)
        if value == 0.0:
            continue
        row = grids.part(width * index, width)
        # The number of the bin (Algorithm 2 of Rahimi and Recht, 2007).
        position = np.floor((value + row[2 * partition + 1]) / row[2 * partition])
        if position == 0.0:
            continue
        where = np.uint64(np.int64(min(max(position, -FARTHEST_BIN), FARTHEST_BIN)))
        shifts = Code(row, 4 * record.n_out)
        first += mix(np.uint64(shifts.first) + where * np.uint64(0x9E3779B97F4A7C15))
        second += mix(np.uint64(shifts.second) + where * np.uint64(0xD1B54A32D192ED03))
    code.first = int(mix(first + np.uint64(partition + 1) * np.uint64(0x9E3779B97F4A7C15)))
    code.second = int(second)


@helper
def slot_of(table: Array[Slot], n_slots: int, code: Code) -> Slot:
    """Return a cell's slot, or the empty slot where the cell belongs."""
    mask = np.uint64(n_slots - 1)
    number = int(np.int64(np.uint64(code.first) & mask))
    while True:
        slot = table[number]
        same = slot.code_first == code.first and slot.code_second == code.second
        if same or slot.column == UNKNOWN_COLUMN:
            return slot
        number = (number + 1) & (n_slots - 1)


@helper
def column_of(record: BinningRecord, code: Code) -> int:
    """Return a cell's column, which is the next column for a new cell; the table must have room."""
    slot = slot_of(record.table, record.n_slots, code)
    if slot.column == UNKNOWN_COLUMN:
        slot.code_first, slot.code_second = code.first, code.second
        slot.column = record.n_columns
        record.n_columns += 1
    return slot.column


@link_by_name
def bin_sample(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a sample to the columns of its cells, `UNKNOWN_COLUMN` for new cells."""
    binning = BinningRecord(record)
    bad = maps.bad_entry(binning, sample)
    if bad >= 0:
        return bad
    code, cells = _buffer_of_code()[0], outputs.cells
    for partition in range(binning.n_out):
        find_code(binning, sample, partition, code)
        cells[partition] = slot_of(binning.table, binning.n_slots, code).column
    return DONE


@batch_kernel
def write_codes(record: BinningRecord, sample: Sample, codes: Int64s) -> int:
    """Write a 64-bit code for each of a sample's cells; return DONE or an invalid input's index."""
    bad = maps.bad_entry(record, sample)
    if bad >= 0:
        return bad
    code = _buffer_of_code()[0]
    for partition in range(record.n_out):
        find_code(record, sample, partition, code)
        word = np.uint64(code.first) + mix(np.uint64(code.second))
        codes[partition] = int(np.int64(word))
    return DONE


@batch_kernel
def write_codes_of_rows(
    record: BinningRecord, indices: Int32s, entries: Float64s, starts: Int64s, codes: Int64s, n: int
) -> None:
    """Write the codes of `n` checked rows of a CSR matrix."""
    sample, n_out = _buffer_of_sample()[0], record.n_out
    for row in range(n):
        maps.move_entries(sample, indices, entries, starts, row)
        write_codes(record, sample, codes.part(n_out * row, n_out))


@kernel
def learn_one(record: BinningRecord, sample: Sample) -> int:
    """Assign columns to the new cells of a sample.

    Return DONE, NO_ROOM if the table has to grow first, or the index of an invalid input.
    """
    bad = maps.bad_entry(record, sample)
    if bad >= 0:
        return bad
    n_out = record.n_out
    if 2 * (record.n_columns + n_out) >= record.n_slots:
        return NO_ROOM
    code = _buffer_of_code()[0]
    for partition in range(n_out):
        find_code(record, sample, partition, code)
        column_of(record, code)
    record.is_ahead = 1
    return DONE


@batch_kernel
def learn_rows(
    record: BinningRecord, indices: Int32s, entries: Float64s, starts: Int64s, row: int, n: int
) -> int:
    """Assign columns to the new cells in checked rows of a CSR matrix, from `row` on.

    Return the first row without room, or `n`.
    """
    sample = _buffer_of_sample()[0]
    while row < n:
        maps.move_entries(sample, indices, entries, starts, row)
        if learn_one(record, sample) == NO_ROOM:
            return row
        row += 1
    return n


@batch_kernel
def add_known(record: BinningRecord, cells: Array[Slot], i: int, n: int, columns: Int64s) -> int:
    """Assign columns to the cells `i` to `n` - 1 of another table, and write the columns.

    Return the first cell without room, or `n`.
    """
    while i < n and 2 * (record.n_columns + 1) < record.n_slots:
        # A slot can be read as a code, because it begins with its cell's code.
        columns[i] = column_of(record, Code(cells[i]))
        i += 1
    return i


@batch_kernel
def move_cells(record: BinningRecord, table: Array[Slot], n_slots: int) -> None:
    """Copy the cells to a larger table, which becomes the record's table."""
    for number in range(record.n_slots):
        source = record.table[number]
        if source.column != UNKNOWN_COLUMN:
            target = slot_of(table, n_slots, Code(source))
            target.code_first, target.code_second = source.code_first, source.code_second
            target.column = source.column
    record.table = table
    record.n_slots = n_slots


class BinningMap(RowPerFeature):
    """Random grids and the known cells in them.

    Parameters
    ----------
    seed
        Seed of all grids.
    n_partitions
        Number of grids.
    lifetime
        Rate of the Laplace kernel.

    """

    KIND = BinningRecord
    _DERIVED: ClassVar[frozenset[str]] = RowPerFeature._DERIVED | {"_next_table"}
    record: BinningRecord
    # The larger table to which `_grow` copies the cells, because `_grow` may be interrupted.
    _next_table: NDArray[np.int64] | None = None

    def __init__(self, seed: int, n_partitions: int, lifetime: float) -> None:
        super().__init__(seed, n_partitions, 1, False)
        self.lifetime = float(lifetime)
        self.table = np.zeros((NEW_TABLE_SLOTS, Slot.SIZE // 8), dtype=np.int64)

    @staticmethod
    def _width(n_out: int) -> int:
        return 2 * (n_out + 1)

    def _check(self) -> None:
        super()._check()
        checks.check_types(self, {"lifetime": float, "table": np.ndarray})
        largest = checks.LARGEST_FINITE
        checks.check_number(self, "lifetime", self.lifetime, checks.LEAST_POSITIVE, largest)
        checks.check_number(self, "n_columns", self.n_columns, 1, maps.MOST_OUT)
        n = len(self.table)
        if n < NEW_TABLE_SLOTS or n & (n - 1):
            checks.refuse(self, "the length of the table", n, "but it should be a power of two")
        checks.check_arrays(self, {"table": (np.int64, (n, Slot.SIZE // 8))})
        columns = self.table[:, -1]
        checks.check_array(self, "table", columns, np.int64, 0, self.n_columns - 1)
        # A search for an unknown cell ends only at an empty slot. Valid tables use at most half of
        # the slots.
        n_used = int(np.count_nonzero(columns))
        checks.check_number(self, "the number of used slots", n_used, 0, n // 2)
        checks.check_equal(self, self.record, is_dense=0, n_columns=n_used + 1)

    def _transform(self) -> maps.Transform:
        return bin_sample

    def _bind(self) -> None:
        self.record.grids = Float64s.of(self.rows)
        self._end_growth()
        self.record.table = _slots(self.table)
        self.record.n_slots = len(self.table)

    def _draw(self, rng: np.random.Generator, row: NDArray[np.float64]) -> None:
        t = self.n_out
        pitches = rng.gamma(2.0, 1.0 / self.lifetime, t)
        row[: 2 * t : 2] = pitches
        row[1 : 2 * t : 2] = pitches * rng.random(t)
        row.view(np.uint64)[2 * t :] = rng.integers(1 << 64, size=2, dtype=np.uint64)

    def _grow(self) -> None:
        """Double the length of the table of cells."""
        self._end_growth()
        n_slots, width = self.table.shape
        table = self._next_table = np.zeros((2 * n_slots, width), dtype=np.int64)
        move_cells(self.record, _slots(table), len(table))
        self._end_growth()

    def _end_growth(self) -> None:
        """Keep the larger table if kernels already use it, otherwise the old table."""
        table = self._next_table
        if table is not None and self.record.n_slots == len(table):
            self.table = table
        self._next_table = None

    def __getstate__(self) -> dict[str, Any]:
        self._end_growth()
        return super().__getstate__()

    def learn(self, sample: Sample) -> int:
        """Assign columns to the new cells of a sample; return DONE or an invalid input's index.

        The call may be repeated after an interruption.
        """
        while (bad := learn_one(self.record, sample)) == NO_ROOM:
            self._grow()
        return bad

    def learn_csr(self, indices: Indices, values: Values, starts: Starts) -> None:
        """Assign columns to the new cells in rows of a CSR matrix, whose values must be finite.

        The call may be repeated after an interruption.
        """
        matrix = Int32s.of(indices), Float64s.of(values), Int64s.of(starts)
        row, n, n_at_once = 0, len(starts) - 1, max(1, CELLS // self.n_out)
        while row < n:
            stop = min(n, row + n_at_once)
            row = learn_rows(self.record, *matrix, row, stop)
            if row < stop:
                self._grow()

    def add_cells_of(self, other: BinningMap) -> NDArray[np.int64]:
        """Assign columns to the known cells of another map of the same grids.

        Return this map's columns, indexed by the other map's columns.
        """
        cells = other.table[other.table[:, -1] != UNKNOWN_COLUMN]
        cells = np.ascontiguousarray(cells[np.argsort(cells[:, -1])])
        columns, start = np.zeros(len(cells), dtype=np.int64), 0
        while start < len(cells):
            numbers = Int64s.of(columns)
            start = add_known(self.record, _slots(cells), start, len(cells), numbers)
            if start < len(cells):
                self._grow()
        return np.append(UNKNOWN_COLUMN, columns)

    def codes(self, sample: Sample) -> tuple[NDArray[np.int64], int]:
        """Return the codes of a sample's cells, and DONE or an invalid input's index."""
        codes = np.empty(self.n_out, dtype=np.int64)
        return codes, write_codes(self.record, sample, Int64s.of(codes))

    def codes_csr(self, indices: Indices, values: Values, starts: Starts) -> NDArray[np.int64]:
        """Return the codes of cells in checked rows, shape (rows, partitions)."""
        codes = np.empty((len(starts) - 1, self.n_out), dtype=np.int64)
        matrix = Int32s.of(indices), Float64s.of(values), Int64s.of(starts)
        write_codes_of_rows(self.record, *matrix, Int64s.of(codes), len(codes))
        return codes

    def names(self, columns: Sequence[int]) -> list[str]:
        """Return the names of columns."""
        return [f"binning_{column - 1}" for column in columns]


def _slots(table: NDArray[np.int64]) -> Array[Slot]:
    """Return the rows of an array as slots."""
    return Array.of_kind(Array[Slot], table.ctypes.data, len(table))
