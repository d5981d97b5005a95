"""The memory of trees of regions: regions, trees, stored samples."""

from __future__ import annotations

from typing import TypeVar

from ...compiling.kernels import exact_inlined
from ...records import (
    Array,
    Float64,
    Float64s,
    Int32,
    Int32s,
    Int64,
    Record,
    Table,
    transient,
)
from ..unbounded.cells import Cell

# No region, no sample.
NONE = -1


class Region(Record):
    """What a cut has parted from the cell of another pivot, with a pivot of its own."""

    # Of the cut; the draws of the region are functions of it.
    key: Int64
    # Of the cut, 0 for the whole space.
    time: Float64
    # Row of the stored sample.
    pivot: Int32
    # Samples in it, those of the regions cut off it included.
    n_samples: Int32
    # The first region that was cut off this one, and the next that was cut off the same one as
    # this. An unused row links to the next one.
    first: Int32
    next: Int32


class PivotTree(Record):
    """A tree of regions."""

    key: Int64
    # Row of the whole space, or `NONE`.
    root: Int64
    # At which densities are told, the largest of several.
    lifetime: Float64
    # Until which samples are parted: the lifetime, or infinity where that grows.
    horizon: Float64


class StoredSample(Record):
    """A stored sample: its values, and two links."""

    def values(self, partition: PivotPartition) -> Float64s:
        """Return the values of its features."""
        return Float64s(self, 0, partition.n_dims)

    def links(self, partition: PivotPartition) -> Int32s:
        """Return how often it is in use, and the next sample in the queue or unused row.

        Each region whose pivot it is uses it, and the queue.
        """
        return Int32s(self, 2 * partition.n_dims, 2)


class Cut(Record):
    """The first cut between a pivot and a sample."""

    EMBEDDED = True

    # Infinity, or the time until which there is none.
    time: Float64 = transient()
    key: Int64 = transient()
    dim: Int64 = transient()
    # Whether it is above the pivot, and how far from it, in units of the rate.
    is_above: Int64 = transient()
    reach: Float64 = transient()
    exists: Int64 = transient()


class PathStep(Record):
    """A region on the way to a point, and until when the point is in its pivot's cell."""

    EMBEDDED = True

    key: Int64 = transient()
    pivot: Int64 = transient()
    began: Float64 = transient()
    until: Float64 = transient()


class PivotPartition(Record):
    """Trees of regions, and room for what is on the way in one of them."""

    n_trees: Int64
    n_dims: Int64
    trees: Array[PivotTree]
    regions: Table[Region]
    samples: Table[StoredSample]
    # Rows that are not in use: the first of them, and how many.
    unused_region: Int64
    n_unused_regions: Int64
    unused_sample: Int64
    n_unused_samples: Int64
    # Samples that can be taken out, from the oldest on; whether each that is learned will be.
    oldest: Int64
    newest: Int64
    n_queued: Int64
    queues: Int64
    # Cuts of each dimension by unit of length. 0: any two values that differ are 1 apart.
    rates: Float64s
    # The first cut on the way, the cell on the way, and the counts of the sample on the way, in the
    # cells of the shares of the lifetime.
    cut: Cut = transient()
    cell: Cell = transient()
    n_shares: Int64
    shares: Float64s
    counts: Float64s = transient()
    # Regions on the way to a cell, as many as there is room for, and one that is not stored.
    n_path: Int64 = transient()
    path: Array[PathStep] = transient()
    last_step: PathStep = transient()
    # Until when the sample on the way is in a region with others, infinity where it stays there.
    parted: Float64 = transient()


P = TypeVar("P", bound=PivotPartition)


@exact_inlined
def regions_in_use(partition: P) -> int:
    """Return how many regions there are."""
    return partition.regions.n_rows - partition.n_unused_regions


@exact_inlined
def has_room(partition: P) -> bool:
    """Tell whether there is room for a sample that is the first of a region in each tree."""
    regions, samples = partition.regions, partition.samples
    new = partition.n_trees - partition.n_unused_regions
    if new > regions.capacity - regions.n_rows:
        return False
    return partition.n_unused_samples > 0 or samples.n_rows < samples.capacity


@exact_inlined
def take_region(partition: P) -> int:
    """Return an unused row for a region; there has to be room."""
    row = partition.unused_region
    if row == NONE:
        row = partition.regions.n_rows
        partition.regions.n_rows = row + 1
        return row
    partition.unused_region = partition.regions.row(row).next
    partition.n_unused_regions -= 1
    return row


@exact_inlined
def take_sample(partition: P, x: Float64s) -> int:
    """Store a sample, which nothing uses yet; returns its row. There has to be room."""
    row = partition.unused_sample
    if row == NONE:
        row = partition.samples.n_rows
        partition.samples.n_rows = row + 1
    else:
        partition.unused_sample = partition.samples.row(row).links(partition)[1]
        partition.n_unused_samples -= 1
    sample = partition.samples.row(row)
    values, links = sample.values(partition), sample.links(partition)
    for j in range(partition.n_dims):
        values[j] = x[j]
    links[0] = 0
    links[1] = NONE
    return row


@exact_inlined
def let_sample_go(partition: P, row: int) -> None:
    """Note that something uses a stored sample no more, or that nothing does."""
    sample = partition.samples.row(row)
    links = sample.links(partition)
    if links[0] > 0:
        links[0] -= 1
    if links[0] == 0:
        # No later file has what was forgotten.
        values = sample.values(partition)
        for j in range(partition.n_dims):
            values[j] = 0.0
        links[1] = partition.unused_sample
        partition.unused_sample = row
        partition.n_unused_samples += 1


@exact_inlined
def let_region_go(partition: P, row: int) -> None:
    """Let a region's row be unused, and its pivot if nothing else uses that."""
    region = partition.regions.row(row)
    let_sample_go(partition, region.pivot)
    region.key = 0
    region.time = 0.0
    region.pivot = NONE
    region.first = NONE
    region.next = partition.unused_region
    partition.unused_region = row
    partition.n_unused_regions += 1
