"""Cells by the distances of all points, and batches by a matrix product."""

from __future__ import annotations

from ...compiling.kernels import exact_batch_kernel, exact_inlined, exact_separate
from ...maps.record import MapRecord, Outputs, Sample
from ...maps.samples import read_vector
from ...records import Float32s, Float64s, Int32s, room_of_array
from ...status import DONE
from .distance import squared_distance
from .nearest import filter_nearest, find_nearest
from .records import DenseVoronoi

_room_for_sample = room_of_array(Sample, 1)


@exact_inlined
def scan_row(record: DenseVoronoi, cells: Int32s) -> None:
    """Map the row by its distances from all points."""
    row, points, width = record.row, record.points, record.width
    distances = record.distances
    for p in range(record.n_points):
        distances[p] = squared_distance(row, points.part(width * p, width), width)
    find_nearest(record, cells)


@exact_separate
def scan(record: MapRecord, sample: Sample, outputs: Outputs) -> int:
    """Map a vector by its distances from all points."""
    voronoi = DenseVoronoi(record)
    bad = read_vector(voronoi, sample, voronoi.factors, voronoi.row)
    if bad < 0:
        scan_row(voronoi, outputs.cells)
    return bad


@exact_batch_kernel
def read_rows(record: DenseVoronoi, values: Float64s, width: int, n: int, rows: Float32s) -> int:
    """Write `n` vectors of `width` values to padded rows, scaled.

    Returns DONE, or row * `n_inputs` + place of the first bad input.
    """
    samples, room = _room_for_sample(), record.width
    sample = samples[0]
    for row in range(n):
        sample.values = values.part(width * row, width)
        bad = read_vector(record, sample, record.factors, rows.part(room * row, room))
        if bad >= 0:
            return row * record.n_inputs + bad
    return DONE


@exact_batch_kernel
def filter_rows(
    record: DenseVoronoi,
    rows: Float32s,
    products: Float32s,
    norms: Float64s,
    n: int,
    error: float,
    least: float,
    cells: Int32s,
) -> None:
    """Map scaled rows by their dot products with all points.

    Parameters
    ----------
    record
        The map.
    rows
        Padded rows.
    products
        The dot products of the centred rows with the centred points, a row per row.
    norms
        Squared norms of the centred rows, then those of the centred points.
    n
        Number of rows.
    error, least
        How far distances are off by the products (`bounds.product_error`).
    cells
        Where the cells go.

    """
    n_points, t, width = record.n_points, record.n_out, record.width
    distances, point_norms = record.distances, norms.part(n, n_points)
    largest = 0.0
    for p in range(n_points):
        largest = max(largest, point_norms[p])
    home = record.row
    for r in range(n):
        norm, own = norms[r], products.part(n_points * r, n_points)
        for p in range(n_points):
            distances[p] = norm + point_norms[p] - 2.0 * own[p]
        record.row = rows.part(width * r, width)
        filter_nearest(record, error * (norm + largest) + least, cells.part(t * r, t))
    record.row = home
