"""Random binning: the cell of a sample in a random grid, and the table of cells met so far.

A cell is a bin in each feature. Since 0 is always in bin 0, a cell is known by its features that
are in another bin, whatever the number of features; it is told apart by two independent 64-bit
sums over them, its code. The table is open-addressed.
"""

from __future__ import annotations

import numpy as np

from ..compiling.kernels import exact_batch_kernel, exact_inlined, exact_kernel, exact_separate
from ..records import (
    Array,
    Float64s,
    Int32s,
    Int64,
    Int64s,
    Record,
    UInt64,
    derived,
    room_of_array,
)
from ..status import DONE, NO_ROOM
from .mapping import move_entries
from .record import MapRecord, Outputs, Sample
from .samples import bad_entry, read_entry

# The column of all cells that have not been met.
UNKNOWN = 0

# Bins end where their numbers still fit integers of 64 bits.
FARTHEST_BIN = 9e18


class Code(Record):
    """What tells a feature, or a cell, from others."""

    first: UInt64
    second: UInt64


class Slot(Record):
    """A place of the table of cells."""

    code_first: UInt64
    code_second: UInt64
    # The cell's column, or UNKNOWN where the slot is empty.
    column: Int64


class BinningRecord(MapRecord):
    """Random grids and the cells in them that have been met."""

    # A row for each input: pitch and shift of each partition, then the feature's own code.
    grids: Float64s
    # Slots of cells, of which there are a power of two.
    table: Array[Slot]
    n_slots: Int64 = derived()

    def grid_width(self) -> int:
        """Return the length of a row of grids."""
        return 2 * (self.n_out + 1)


_room_for_code = room_of_array(Code, 1)
_room_for_sample = room_of_array(Sample, 1)


@exact_inlined
def mix(z: np.uint64) -> np.uint64:
    """Scramble a word (the finalizer of splitmix64)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@exact_inlined
def find_code(record: BinningRecord, sample: Sample, partition: int, code: Code) -> None:
    """Write what tells a sample's cell apart; its values have to be checked."""
    grids, width = record.grids, record.grid_width()
    first, second = np.uint64(0), np.uint64(0)
    for j in range(sample.n_entries):
        place, value = read_entry(record, sample, j)
        if value == 0.0:
            continue
        row = grids.part(width * place, width)
        # The bin (Algorithm 2).
        position = np.floor((value + row[2 * partition + 1]) / row[2 * partition])
        if position == 0.0:
            continue
        where = np.uint64(np.int64(min(max(position, -FARTHEST_BIN), FARTHEST_BIN)))
        own = Code(row, 4 * record.n_out)
        first += mix(np.uint64(own.first) + where * np.uint64(0x9E3779B97F4A7C15))
        second += mix(np.uint64(own.second) + where * np.uint64(0xD1B54A32D192ED03))
    code.first = int(mix(first + np.uint64(partition + 1) * np.uint64(0x9E3779B97F4A7C15)))
    code.second = int(second)


@exact_inlined
def slot_of(table: Array[Slot], n_slots: int, code: Code) -> Slot:
    """Return a cell's slot, or the empty one where it belongs."""
    mask = np.uint64(n_slots - 1)
    place = int(np.int64(np.uint64(code.first) & mask))
    while True:
        slot = table[place]
        same = slot.code_first == code.first and slot.code_second == code.second
        if same or slot.column == UNKNOWN:
            return slot
        place = (place + 1) & (n_slots - 1)


@exact_separate
def bin_sample(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a sample to the columns of its cells, `UNKNOWN` for those that have not been met."""
    binning = BinningRecord(record)
    bad = bad_entry(binning, sample)
    if bad >= 0:
        return bad
    rooms = _room_for_code()
    code, cells = rooms[0], outputs.cells
    for partition in range(binning.n_out):
        find_code(binning, sample, partition, code)
        cells[partition] = slot_of(binning.table, binning.n_slots, code).column
    return DONE


@exact_inlined
def write_codes(record: BinningRecord, sample: Sample, codes: Int64s) -> int:
    """Write a word for each of a sample's cells, met or not; returns DONE or a bad input."""
    bad = bad_entry(record, sample)
    if bad >= 0:
        return bad
    rooms = _room_for_code()
    code = rooms[0]
    for partition in range(record.n_out):
        find_code(record, sample, partition, code)
        word = np.uint64(code.first) + mix(np.uint64(code.second))
        codes[partition] = int(np.int64(word))
    return DONE


@exact_kernel
def codes_of_one(record: BinningRecord, sample: Sample, codes: Int64s) -> int:
    """Write a word for each of a sample's cells, met or not; returns DONE or a bad input."""
    return write_codes(record, sample, codes)


@exact_batch_kernel
def codes_of_rows(
    record: BinningRecord,
    places: Int32s,
    entries: Float64s,
    starts: Int64s,
    n: int,
    codes: Int64s,
) -> None:
    """Write the words of `codes_of_one` for the checked rows of a CSR matrix."""
    samples, n_out = _room_for_sample(), record.n_out
    sample = samples[0]
    for row in range(n):
        move_entries(sample, places, entries, starts, row)
        write_codes(record, sample, codes.part(n_out * row, n_out))


@exact_inlined
def add_cells(record: BinningRecord, sample: Sample) -> int:
    """Give the cells of a sample that are new their columns; returns like `learn_one`."""
    bad = bad_entry(record, sample)
    if bad >= 0:
        return bad
    n_out, n_slots, table = record.n_out, record.n_slots, record.table
    if 2 * (record.n_columns + n_out) >= n_slots:
        return NO_ROOM
    rooms = _room_for_code()
    code = rooms[0]
    for partition in range(n_out):
        find_code(record, sample, partition, code)
        slot = slot_of(table, n_slots, code)
        if slot.column == UNKNOWN:
            slot.code_first, slot.code_second = code.first, code.second
            slot.column = record.n_columns
            record.n_columns += 1
    record.is_ahead = 1
    return DONE


@exact_kernel
def learn_one(record: BinningRecord, sample: Sample) -> int:
    """Give the cells of a sample that are new their columns.

    Returns DONE, NO_ROOM where the table has to grow first, or a bad input.
    """
    return add_cells(record, sample)


@exact_batch_kernel
def learn_rows(
    record: BinningRecord, places: Int32s, entries: Float64s, starts: Int64s, row: int, n: int
) -> int:
    """Give the new cells of the checked rows of a CSR matrix from one on their columns.

    Returns the row for which room was short, or `n`.
    """
    samples = _room_for_sample()
    sample = samples[0]
    while row < n:
        move_entries(sample, places, entries, starts, row)
        if add_cells(record, sample) == NO_ROOM:
            return row
        row += 1
    return n


@exact_batch_kernel
def add_known(record: BinningRecord, cells: Array[Slot], i: int, n: int, columns: Int64s) -> int:
    """Give `n` cells of another table, from the i-th on, columns, and write these.

    Returns the cell for which room was short, or `n`.
    """
    while i < n and 2 * (record.n_columns + 1) < record.n_slots:
        source = cells[i]
        slot = slot_of(record.table, record.n_slots, Code(source))
        if slot.column == UNKNOWN:
            slot.code_first, slot.code_second = source.code_first, source.code_second
            slot.column = record.n_columns
            record.n_columns += 1
        columns[i] = slot.column
        i += 1
    return i


@exact_batch_kernel
def move_cells(record: BinningRecord, table: Array[Slot], n_slots: int) -> None:
    """Copy the cells to a larger table, which is the record's from then on."""
    for place in range(record.n_slots):
        source = record.table[place]
        if source.column != UNKNOWN:
            # A slot begins with its cell's code.
            target = slot_of(table, n_slots, Code(source))
            target.code_first, target.code_second = source.code_first, source.code_second
            target.column = source.column
    record.table = table
    record.n_slots = n_slots
