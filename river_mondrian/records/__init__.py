"""Named, typed memory for kernels, so that kernels need no addresses or bytes.

A *record* is a class whose annotations are its fields in memory order (`record`). Kernels read and
write the fields by name. `numba_types` and `numba_fields` compile these accesses. If numba's
compiler is disabled, kernels run as plain Python over the same memory. `arrays` defines arrays of
words, arrays of records, and growing tables of records. `memory` defines the Python objects that
own records and arrays.
"""

from . import trial
from .arrays import Array, Float32s, Float64s, Floats, Int32s, Int64s, Ints, Packed, Singles, Table
from .layout import RowLayout, Section, words_of
from .memory import ChunkedRows, Memory, OwnsArrays, TableState, check_shapes, owned, state_words
from .numba_types import array_buffer, copy_record, new_array, prefetch, release, words_buffer
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
    number_of,
    sized,
    stored,
    transient,
)
