"""The walk to a sample's cell in each isolation tree."""

from __future__ import annotations

from ...compiling.kernels import exact_inlined, exact_separate
from ...maps.record import MapRecord, Outputs, Sample
from ...maps.samples import bad_entry, read_vector, scaled
from ...records import Int32s
from ...status import DONE
from .records import ABOVE, BELOW, IsolationTrees


@exact_inlined
def walk(record: IsolationTrees, cells: Int32s) -> None:
    """Walk the row down every tree."""
    row, nodes, stride = record.row, record.nodes, max(1, record.n_cells - 1)
    for i in range(record.n_out):
        number = 0
        while number >= 0:
            node = nodes[stride * i + number]
            side = BELOW if row[node.feature] <= node.cut else ABOVE
            number = node.children[side]
        cells[i] = ~number


@exact_separate
def walk_vector(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a vector."""
    trees = IsolationTrees(record)
    bad = read_vector(trees, sample, trees.factors, trees.row)
    if bad < 0:
        walk(trees, outputs.cells)
    return bad


@exact_separate
def walk_entries(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a sparse sample; the row of all features is zero before and after."""
    trees = IsolationTrees(record)
    bad = bad_entry(trees, sample)
    if bad >= 0:
        return bad
    row, factors, n = trees.row, trees.factors, trees.n_inputs
    places, entries = sample.places, sample.entries
    for e in range(sample.n_entries):
        place, value = places[e], entries[e]
        if 0 <= place < n and value == value:
            row[place] = scaled(value, factors[place])
    walk(trees, outputs.cells)
    for e in range(sample.n_entries):
        if 0 <= places[e] < n:
            row[places[e]] = 0.0
    return DONE
