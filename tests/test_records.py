"""Tests of records: fields in Python, owners, growing tables, and checks of accesses."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest
from common import raises, run
from hypothesis import given
from hypothesis import strategies as st
from test_warmup import PATHS

from river_mondrian import records as rec
from river_mondrian.records.layout import RowLayout
from river_mondrian.records.memory import ChunkedRows, TableState


class Part(rec.Record):
    """A record inside another record."""

    count: rec.Int64
    share: rec.Float64


class Whole(rec.Record):
    """A record with a field of each kind."""

    small: rec.Int32
    other: rec.Int32
    large: rec.Int64
    bits: rec.UInt64
    single: rec.Float32
    # This field shifts the next field to an address that is not a multiple of 8.
    odd: rec.Int32
    real: rec.Float64
    misplaced: rec.Int32
    after: rec.Int64
    unlike: rec.Int64 = rec.derived()
    passing: rec.Int64 = rec.transient()
    alias: rec.Int32 = rec.instead_of("small")
    parts: rec.Array[Part] = rec.inline(2)
    numbers: rec.Float64s
    next: Whole


class Larger(Whole):
    """A subclass with one more field."""

    extra: rec.Int64

    def twice(self) -> int:
        """Return twice the field of the subclass."""
        return 2 * self.extra


class Holder(rec.Record):
    """The owner of a table."""

    n: rec.Int64
    rows: rec.Table[Part]


def make_whole() -> tuple[rec.Memory[Whole], Whole]:
    memory = rec.Memory(Whole, 3)
    record = memory[1]
    memory.own("numbers", np.array([1.5, 2.5]), 1)
    return memory, record


INT32S = st.integers(-(2**31), 2**31 - 1)
INT64S = st.integers(-(2**63), 2**63 - 1)


@given(INT32S, INT64S, st.integers(0, 2**64 - 1), st.floats(width=32), st.floats())
def test_fields_keep_what_is_written(small, large, bits, single, real):
    memory, record = make_whole()
    record.small, record.large, record.bits, record.single = small, large, bits, single
    record.real, record.misplaced, record.after, record.parts[1].count = real, small, large, large
    # The owner's record uses a view, and a second record uses the same address.
    for seen in (record, Whole(int(record))):
        found = (seen.small, seen.alias, seen.large, seen.misplaced, seen.after)
        assert found == (small, small, large, small, large)
        assert seen.bits == bits and seen.parts[1].count == large
        np.testing.assert_array_equal([seen.single, seen.real], [single, real])
    for neighbour in (memory[0], memory[2]):
        assert not any(rec.Int32s(neighbour, 0, Whole.SIZE // 4).view())


def test_divisions_are_those_of_kernels():
    _, record = make_whole()
    with np.errstate(all="ignore"):
        assert record.real / record.single != record.real / record.single
        assert 1.0 / record.real == np.inf


def test_no_record():
    assert not Whole(0)
    for read in (lambda: Whole(0).large, lambda: Whole(0).small, lambda: Whole(0).numbers):
        raises(IndexError, "of no record", read)
    with pytest.raises(IndexError, match="large of no record"):
        Whole(0).large = 1
    _, record = make_whole()
    assert not record.next
    record.next = record
    assert record.next == record and record.next.next.large == 0


def test_a_kind_has_the_fields_of_its_base_first():
    assert all(Larger.FIELDS[name].offset == field.offset for name, field in Whole.FIELDS.items())
    assert Larger.FIELDS["extra"].offset == Whole.SIZE
    memory = rec.Memory(Larger)
    memory[0].extra = 21
    assert memory[0].twice() == 42


def test_fields_that_no_record_can_have():
    with pytest.raises(TypeError, match="another size"):

        class Narrow(Whole):
            large: rec.Int32

    with pytest.raises(TypeError, match="no type that a record can hold"):

        class Strange(rec.Record):
            what: int | None


def test_a_record_keeps_its_memory():
    record = make_whole()[1]
    gc.collect()
    noise = [np.full(Whole.SIZE * 3, 255, np.uint8) for _ in range(100)]
    assert record.large == 0 and record.parts[0].count == 0
    assert len(noise) == 100


def test_arrays_know_their_lengths():
    _, record = make_whole()
    for read in (
        lambda: record.numbers[-1],
        lambda: record.numbers[2],
        lambda: record.parts[-1],
        lambda: record.parts[2],
        lambda: record.numbers.part(1, 2),
    ):
        raises(IndexError, None, read)
    with pytest.raises(TypeError, match="contiguous array of float64"):
        rec.Float64s.of(np.zeros(4, np.float32))


def shown(rows: ChunkedRows) -> rec.Table[Part]:
    """Return a table of rows."""
    table = rec.Memory(Holder)[0].rows
    rows.show(0, table)
    return table


def grow(rows: ChunkedRows, table: rec.Table[Part], n: int) -> None:
    """Add rows to a table, and number the new rows."""
    first = table.n_rows
    rows.grow(0, table, n)
    table.n_rows = n
    for j in range(first, n):
        table.row(j).count = j


def counts(table: rec.Table[Part], n: int) -> list[int]:
    return [table.row(j).count for j in range(n)]


@given(st.lists(st.integers(1, 300), max_size=6))
def test_rows_never_lose_what_they_hold(steps):
    rows, n = ChunkedRows(1, Part.SIZE // 4), 0
    table = shown(rows)
    for step in steps:
        n += step
        grow(rows, table, n)
        assert table.capacity == rows.capacities[0] >= n
        assert counts(table, n) == list(range(n))
    raises(IndexError, None, lambda: table.row(table.capacity))
    state = TableState(rows, [n], RowLayout(Part))
    again = pickle.loads(pickle.dumps(state)).restored(state.layout)
    assert counts(shown(again), n) == list(range(n))
    again.trim(0, n // 2)
    assert counts(shown(again), n // 2) == list(range(n // 2))


def test_the_checked_mode_refuses_wrong_places(tmp_path):
    code = """
import test_records
from river_mondrian.compiling.kernels import kernel
from test_records import Whole

def number(record: Whole) -> float:
    return record.numbers[2]

def part(record: Whole) -> float:
    return record.parts[2].count

def after(record: Whole) -> float:
    return record.next.large

memory, record = test_records.make_whole()
for read in (number, part, after):
    try:
        kernel(read)(record)
    except IndexError:
        print("refused")
"""
    modes = {"RIVER_MONDRIAN_CHECKS": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    assert run("-c", code, PYTHONPATH=PATHS, **modes)[0].split() == ["refused"] * 3
