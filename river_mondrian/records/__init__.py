"""Named, typed memory for kernels: the only place that knows addresses and bytes.

A *record* is a class whose annotations are its fields in memory order (`record`). Kernels read
and write the fields by name; they run compiled (`compiled`), and as plain Python over the same
memory where numba's compiler is switched off. Arrays of words and of records, and growing tables
of records, are in `arrays`. Memory that a kernel needs for one call is in `rooms`, and the Python
side that owns a record and its arrays in `memory`.
"""

from .arrays import CHUNK_ROWS, Array, Float32s, Float64s, Int32s, Int64s, Packed, Room, Table
from .chunked_rows import ChunkedRows, TableState
from .memory import Memory, OwnsArrays, check_shapes, owned, state_words
from .record import (
    FLOAT32,
    FLOAT64,
    INT32,
    Bounds,
    Case,
    Float32,
    Float64,
    Int32,
    Int64,
    Record,
    Ref,
    UInt64,
    derived,
    entry,
    inline,
    instead_of,
    stored,
    transient,
)
from .rooms import (
    copy_record,
    lowest_bit,
    new_array,
    new_int64s,
    popcount,
    prefetch,
    release,
    room_of_array,
    room_of_words,
)
from .row_layout import Part, RowLayout, words_of

__all__ = [
    "CHUNK_ROWS",
    "FLOAT32",
    "FLOAT64",
    "INT32",
    "Array",
    "Bounds",
    "Case",
    "ChunkedRows",
    "Float32",
    "Float32s",
    "Float64",
    "Float64s",
    "Int32",
    "Int32s",
    "Int64",
    "Int64s",
    "Memory",
    "OwnsArrays",
    "Packed",
    "Part",
    "Record",
    "Ref",
    "Room",
    "RowLayout",
    "Table",
    "TableState",
    "UInt64",
    "check_shapes",
    "copy_record",
    "derived",
    "entry",
    "inline",
    "instead_of",
    "lowest_bit",
    "new_array",
    "new_int64s",
    "owned",
    "popcount",
    "prefetch",
    "release",
    "room_of_array",
    "room_of_words",
    "state_words",
    "stored",
    "transient",
    "words_of",
]
