"""The record of a feature map, and how kernels map samples by it.

A map is a kernel over a record, whose address is in the record. So a learner's kernel maps,
predicts and updates in one call from Python, and neither is compiled for the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..compiling.kernels import exact_batch_kernel, exact_inlined, exact_kernel
from ..limits import FARTHEST, LARGEST
from ..records import (
    Float32s,
    Float64,
    Float64s,
    Int32s,
    Int64,
    Int64s,
    Record,
    entry,
    room_of_array,
    transient,
)
from ..status import DONE


class Sample(Record):
    """A sample as maps read it: a vector, or the entries of a sparse one.

    Infinite values, and those that are too large for single precision, are for maps to refuse. An
    entry that is NaN counts as none.
    """

    # A vector of `n_inputs` values, NaN where they are missing; not there for a sparse sample.
    values: Float64s
    # Number of a sparse sample's entries, which may be fewer than there is room for.
    n_entries: Int64
    # Inputs of the entries, in any order, each once; negative and unknown ones are ignored.
    places: Int32s
    # Values of the entries.
    entries: Float64s


class Outputs(Record):
    """The outputs of a map for a sample: cells, or the values of all columns."""

    # Of a cell map: the column of the sample's cell in each of `n_out` partitions.
    cells: Int32s
    # Of a dense map: the value of each of `n_out` columns.
    values: Float64s


class MapRecord(Record):
    """A feature map; those of one kind add fields of their own.

    `transform` maps a sample. It returns DONE, or the first input that is not finite in single
    precision, in which case the outputs mean nothing. It changes nothing else that lasts, so that
    it is safe to call for predictions.
    """

    transform: Callable[[MapRecord, Sample, Outputs], int] = entry()
    # Outputs of a sample: partitions of a cell map, times lifetimes; columns of a dense map.
    n_out: Int64
    # Columns so far.
    n_columns: Int64
    # Whether outputs are values rather than cells.
    is_dense: Int64
    # The value of the column of a sample's cell.
    value: Float64
    # Inputs that are known, from 0 on.
    n_inputs: Int64
    # Whether samples are read by their entries rather than as vectors.
    is_sparse: Int64
    # Where there are several lifetimes: the cells of the sample that was learned last, from before
    # it was learned; not there where no sample has just been learned.
    before: Int32s = transient()
    # Whether the map has learned a sample that its learner has not learned yet.
    is_ahead: Int64 = transient()


@exact_inlined
def read_entry(record: MapRecord, sample: Sample, j: int) -> tuple[int, float]:
    """Return the input and the value of a sparse sample's j-th entry, 0 if it does not count."""
    place, value = sample.places[j], sample.entries[j]
    if place < 0 or place >= record.n_inputs or math.isnan(value):
        value = 0.0
    return place, value


@exact_inlined
def bad_entry(record: MapRecord, sample: Sample) -> int:
    """Return the first input whose entry is not finite in single precision, or DONE."""
    places, entries = sample.places, sample.entries
    for e in range(sample.n_entries):
        if 0 <= places[e] < record.n_inputs and math.fabs(entries[e]) > LARGEST:
            return places[e]
    return DONE


@exact_inlined
def scaled(value: float, factor: float) -> float:
    """Round a value to single precision before and after scaling, and end it at `FARTHEST`."""
    value = np.float64(np.float32(value)) * factor
    return np.float64(np.float32(min(max(value, -FARTHEST), FARTHEST)))


@exact_inlined
def read_vector(record: MapRecord, sample: Sample, factors: Float64s, row: Float32s) -> int:
    """Write a vector to a row, scaled, with 0 for what is missing; returns like a map."""
    values = sample.values
    for place in range(record.n_inputs):
        value = values[place]
        if math.fabs(value) > LARGEST:
            return place
        row[place] = scaled(value, factors[place]) if value == value else 0.0
    return DONE


_room_for_sample = room_of_array(Sample, 1)
_room_for_outputs = room_of_array(Outputs, 1)


@exact_kernel
def map_one(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a sample; returns DONE, or the first input that is not finite in single precision."""
    return record.transform(record, sample, outputs)


@exact_inlined
def move_outputs(record: MapRecord, outputs: Outputs, row: int, found: Outputs) -> None:
    """Let `found` be the outputs of a row, among those of all rows."""
    n = record.n_out
    if record.is_dense:
        found.values = outputs.values.part(n * row, n)
    else:
        found.cells = outputs.cells.part(n * row, n)


@exact_inlined
def move_entries(
    sample: Sample, places: Int32s, entries: Float64s, starts: Int64s, row: int
) -> None:
    """Let a sparse sample be a row of a CSR matrix."""
    start = starts[row]
    n = starts[row + 1] - start
    sample.n_entries = n
    sample.places = places.part(start, n)
    sample.entries = entries.part(start, n)


@exact_batch_kernel
def map_rows(record: MapRecord, values: Float64s, width: int, n: int, outputs: Outputs) -> int:
    """Map `n` rows of `width` values each.

    Returns DONE, or row * `n_inputs` + place of the first bad input.
    """
    samples, rooms = _room_for_sample(), _room_for_outputs()
    sample, found = samples[0], rooms[0]
    for row in range(n):
        sample.values = values.part(width * row, width)
        move_outputs(record, outputs, row, found)
        bad = record.transform(record, sample, found)
        if bad >= 0:
            return row * record.n_inputs + bad
    return DONE


@exact_batch_kernel
def map_sparse_rows(
    record: MapRecord, places: Int32s, entries: Float64s, starts: Int64s, n: int, outputs: Outputs
) -> int:
    """Map `n` rows of a CSR matrix; returns like `map_rows`."""
    samples, rooms = _room_for_sample(), _room_for_outputs()
    sample, found = samples[0], rooms[0]
    for row in range(n):
        move_entries(sample, places, entries, starts, row)
        move_outputs(record, outputs, row, found)
        bad = record.transform(record, sample, found)
        if bad >= 0:
            return row * record.n_inputs + bad
    return DONE
