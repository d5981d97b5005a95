"""How kernels use a feature map of which they know nothing but its record.

A map is a kernel over a record, whose address is in the record. So a learner's kernel maps,
predicts and updates in one call from Python, and neither is compiled for the other.
"""

from __future__ import annotations

from collections.abc import Callable

from ..records import Float64, Float64s, Int32s, Int64, Record, entry, transient


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
