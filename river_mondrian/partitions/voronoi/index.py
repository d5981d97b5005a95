"""Cells of sparse points by an index from features to points."""

from __future__ import annotations

import math

from ...compiling.kernels import exact_inlined, exact_separate
from ...limits import LARGEST
from ...maps.record import MapRecord, Outputs, Sample
from ...maps.samples import bad_entry, scaled
from ...records import Int32s
from ...status import DONE
from .bounds import LARGEST_WHOLE
from .nearest import filter_nearest, find_nearest
from .records import IndexedVoronoi


@exact_inlined
def add_entry(record: IndexedVoronoi, place: int, value: float) -> None:
    """Append an entry to the sample, unless it is zero or missing."""
    value = scaled(value, record.factors[place]) if value == value else 0.0
    if value != 0.0:
        n = record.n_entries
        record.x_places[n] = place
        record.x_values[n] = value
        record.n_entries = n + 1


@exact_inlined
def sort_entries(record: IndexedVoronoi) -> None:
    """Sort the sample's entries by place (Shell's method with Ciura's gaps)."""
    places, values, n = record.x_places, record.x_values, record.n_entries
    for gap in (8929, 3905, 1750, 701, 301, 132, 57, 23, 10, 4, 1):
        for a in range(gap, n):
            place, value = places[a], values[a]
            b = a
            while b >= gap and places[b - gap] > place:
                places[b] = places[b - gap]
                values[b] = values[b - gap]
                b -= gap
            places[b] = place
            values[b] = value


@exact_inlined
def map_by_index(record: IndexedVoronoi, cells: Int32s) -> None:
    """Map the sample's entries: |x - p|^2 = |x|^2 + |p|^2 - 2 x . p for all points at once."""
    distances, norms = record.distances, record.norms
    x_places, x_values, n_entries = record.x_places, record.x_values, record.n_entries
    starts, points = record.feature_starts, record.feature_points
    values = record.feature_values
    norm, whole = 0.0, record.whole != 0
    for e in range(n_entries):
        value = x_values[e]
        norm += value * value
        whole = whole and math.fabs(value) <= LARGEST_WHOLE and value == math.floor(value)
    for p in range(record.n_points):
        distances[p] = norm + norms[p]
    for e in range(n_entries):
        place, twice = x_places[e], 2.0 * x_values[e]
        for q in range(starts[place], starts[place + 1]):
            p = points[q]
            distances[p] = distances[p] - twice * values[q]
    if whole:
        find_nearest(record, cells)
    else:
        sort_entries(record)
        filter_nearest(record, record.error * (norm + record.largest_norm), cells)


@exact_separate
def index_vector(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a vector to cells of sparse points."""
    voronoi, values = IndexedVoronoi(record), sample.values
    voronoi.n_entries = 0
    for place in range(voronoi.n_inputs):
        value = values[place]
        if math.fabs(value) > LARGEST:
            return place
        if value != 0.0:
            add_entry(voronoi, place, value)
    map_by_index(voronoi, outputs.cells)
    return DONE


@exact_separate
def index_entries(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a sparse sample to cells of sparse points."""
    voronoi = IndexedVoronoi(record)
    bad = bad_entry(voronoi, sample)
    if bad >= 0:
        return bad
    voronoi.n_entries = 0
    places, entries = sample.places, sample.entries
    for e in range(sample.n_entries):
        if 0 <= places[e] < voronoi.n_inputs:
            add_entry(voronoi, places[e], entries[e])
    map_by_index(voronoi, outputs.cells)
    return DONE
