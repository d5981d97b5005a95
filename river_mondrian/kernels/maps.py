"""Feature maps as the kernels see them that work on addresses (see `maps.record`)."""

from __future__ import annotations

from ..maps.record import MapRecord, Outputs, Sample
from ..records import Float64s, Int32s, room_of_array
from .memory import exact_kernel, i64

# Words of a map's record.
N_OUT = 1
N_COLUMNS = 2
DENSE = 3
VALUE = 4
N_INPUTS = 5
SPARSE = 6
BEFORE = 7

_room_for_outputs = room_of_array(Outputs, 1)


@exact_kernel
def map_one(record: int, x: int, out: int) -> int:
    """Map a sample, by the addresses of the records and of the outputs."""
    outputs = _room_for_outputs()[0]
    outputs.cells = Int32s(out, 0, i64(record, N_OUT))
    outputs.values = Float64s(out, 0, i64(record, N_OUT))
    return MapRecord(record).transform(MapRecord(record), Sample(x), outputs)
