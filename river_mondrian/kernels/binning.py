"""Random binning: the cell of a sample in a random grid, and the table of cells met so far.

A cell is a bin in each feature. Since 0 is always in bin 0, a cell is known by its features that
are in another bin, whatever the number of features; it is told apart by two independent 64-bit
sums over them. The table is open-addressed: two words of code and the column, 0 for none.
"""

from __future__ import annotations

import numpy as np

from .maps import ENTRIES, N_COLUMNS, N_OUT, OWN, bad_entry, entry, put_row
from .memory import exact_inlined, exact_kernel, f64, i64, put_i32, put_i64

# Words of the record: the address of each feature's grids (pitch and shift of each partition, then
# the two words of the feature's own code), of the table, and the number of its slots less one.
GRIDS = OWN
TABLE = OWN + 1
MASK = OWN + 2
N_WORDS = 3

SLOT_BYTES = 24

# The column of all cells that have not been met.
UNKNOWN = 0
# The table has no room for the cells of one more sample.
SHORT = -2


@exact_inlined
def mix(z: np.uint64) -> np.uint64:
    """Scramble a word (the finalizer of splitmix64)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@exact_inlined
def code(record: int, x: int, partition: int) -> tuple[np.uint64, np.uint64]:
    """Return the two words that tell a sample's cell apart; its values have to be checked."""
    t = i64(record, N_OUT)
    first, second = np.uint64(0), np.uint64(0)
    for j in range(i64(x, ENTRIES)):
        place, value = entry(record, x, j)
        if value == 0.0:
            continue
        row = i64(record, GRIDS) + 16 * (t + 1) * place
        pitch = f64(row, 2 * partition)
        position = np.floor((value + f64(row, 2 * partition + 1)) / pitch)
        if position == 0.0:
            continue
        where = np.uint64(np.int64(min(max(position, -9e18), 9e18)))
        first += mix(np.uint64(i64(row, 2 * t)) + where * np.uint64(0x9E3779B97F4A7C15))
        second += mix(np.uint64(i64(row, 2 * t + 1)) + where * np.uint64(0xD1B54A32D192ED03))
    return mix(first + np.uint64(partition + 1) * np.uint64(0x9E3779B97F4A7C15)), second


@exact_inlined
def slot_of(table: int, mask: int, first: np.uint64, second: np.uint64) -> int:
    """Return the address of a cell's slot, or of the empty one where it belongs."""
    slot = np.int64(first) & mask
    while True:
        address = table + SLOT_BYTES * slot
        same = i64(address, 0) == np.int64(first) and i64(address, 1) == np.int64(second)
        if same or i64(address, 2) == UNKNOWN:
            return address
        slot = (slot + 1) & mask


def bin_sample(record: int, x: int, out: int) -> int:
    """Map a sample to the columns of its cells, `UNKNOWN` for those that have not been met."""
    bad = bad_entry(record, x)
    if bad >= 0:
        return bad
    for partition in range(i64(record, N_OUT)):
        first, second = code(record, x, partition)
        address = slot_of(i64(record, TABLE), i64(record, MASK), first, second)
        put_i32(out, partition, i64(address, 2))
    return -1


@exact_kernel
def codes(record: int, x: int, out: int) -> int:
    """Write a word for each of a sample's cells, met or not; returns -1 or a bad input's place."""
    bad = bad_entry(record, x)
    if bad >= 0:
        return bad
    for partition in range(i64(record, N_OUT)):
        first, second = code(record, x, partition)
        put_i64(out, partition, np.int64(first + mix(second)))
    return -1


@exact_kernel
def codes_of_rows(
    record: int, sample: int, places: int, values: int, starts: int, n: int, out: int
) -> None:
    """Write the words of `codes` for the checked rows of a CSR matrix.

    `sample` is room for the three words of a sparse sample.
    """
    for row in range(n):
        put_row(sample, places, values, starts, row)
        codes(record, sample, out)
        out += 8 * i64(record, N_OUT)


@exact_kernel
def meet(record: int, x: int) -> int:
    """Give the cells of a sample that are new their columns.

    Returns -1, `SHORT` where the table has to grow first, or a bad input's place.
    """
    bad = bad_entry(record, x)
    if bad >= 0:
        return bad
    t, mask = i64(record, N_OUT), i64(record, MASK)
    if 2 * (i64(record, N_COLUMNS) + t) > mask:
        return SHORT
    for partition in range(t):
        first, second = code(record, x, partition)
        address = slot_of(i64(record, TABLE), mask, first, second)
        if i64(address, 2) == UNKNOWN:
            put_i64(address, 0, np.int64(first))
            put_i64(address, 1, np.int64(second))
            put_i64(address, 2, i64(record, N_COLUMNS))
            put_i64(record, N_COLUMNS, i64(record, N_COLUMNS) + 1)
    return -1


@exact_kernel
def meet_rows(
    record: int, sample: int, places: int, values: int, starts: int, row: int, n: int
) -> int:
    """Let the checked rows of a CSR matrix from one on be met.

    `sample` is room for the three words of a sparse sample. Returns the row for which room was
    short, or `n`.
    """
    while row < n:
        put_row(sample, places, values, starts, row)
        if meet(record, sample) == SHORT:
            return row
        row += 1
    return n


@exact_kernel
def move_cells(old: int, n_slots: int, table: int, mask: int) -> None:
    """Copy the cells of a table to a larger one."""
    for slot in range(n_slots):
        source = old + SLOT_BYTES * slot
        if i64(source, 2) != UNKNOWN:
            first, second = np.uint64(i64(source, 0)), np.uint64(i64(source, 1))
            target = slot_of(table, mask, first, second)
            for word in range(3):
                put_i64(target, word, i64(source, word))
