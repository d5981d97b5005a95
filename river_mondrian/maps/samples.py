"""How maps read samples: what is refused, and values in single precision."""

from __future__ import annotations

import math

import numpy as np

from ..compiling.kernels import exact_inlined
from ..limits import FARTHEST, LARGEST
from ..records import Float32s, Float64s
from ..status import DONE
from .record import MapRecord, Sample


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
