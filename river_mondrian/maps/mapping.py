"""Mapping one sample, the rows of a matrix, or those of a CSR matrix, by any map."""

from __future__ import annotations

from ..compiling.kernels import exact_batch_kernel, exact_inlined, exact_kernel
from ..records import Float64s, Int32s, Int64s, room_of_array
from ..status import DONE
from .record import MapRecord, Outputs, Sample

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
