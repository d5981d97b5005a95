"""Records of trees of regions, and the random cuts of a region."""

from __future__ import annotations

import math
import sys
from typing import TypeVar

from .. import records as rec
from ..compiling.kernels import helper, link_by_name
from ..elementary import mixed, state_after, uniform_of

# Kernels of this module compute each sum in the order of the source, because LLVM's order would
# depend on the processor.
ORDERED_SUMS = True

# Row number that means no region or no sample.
NONE = -1

# Smallest lifetime: the smallest normal float, because lifetimes must be above 0.
LEAST_LIFETIME = sys.float_info.min


class Cell(rec.Record):
    """A box: the points z with lower < z <= upper in every dimension."""

    EMBEDDED = True

    lower: rec.Float64s
    upper: rec.Float64s


class Region(rec.Record):
    """The whole space, or a region that a cut separated from the cell of the parent's pivot."""

    # Key of the cut, or of the tree for the whole space; all draws of the region are functions of
    # this key.
    key: rec.Int64
    # Time of the cut, 0 for the whole space.
    time: rec.Float64
    # Row of the stored sample that is the pivot; `NONE` if the pivot is computed from the origin
    # and the cuts.
    pivot: rec.Int32
    # Number of samples in the region, including its child regions.
    n_samples: rec.Int32
    # `first`: the first child region, which a cut separated from this region. `next`: the next
    # child region of the same parent, or the next unused row.
    first: rec.Int32 = rec.stored(rec.Ref("regions"))
    next: rec.Int32 = rec.stored(rec.Ref("regions"))


class PivotTree(rec.Record):
    """A tree of regions with its key and lifetime."""

    key: rec.Int64
    # Row of the region of the whole space, or `NONE`.
    root: rec.Int64 = rec.stored(rec.Ref("regions"))
    # Lifetime at which densities are estimated; the largest lifetime of a mixture.
    lifetime: rec.Float64 = rec.stored(rec.Bounds(LEAST_LIFETIME, 1e300))
    # Samples are separated until this time: the lifetime, or infinity if the lifetime grows.
    horizon: rec.Float64 = rec.stored(rec.Bounds(LEAST_LIFETIME))


class StoredSample(rec.Record):
    """A stored sample with its values, its number of uses, and a link to another sample."""

    def values(self, partition: PivotPartition) -> rec.Float64s:
        """Return the sample's values."""
        return rec.Float64s(self, 0, partition.n_inputs)

    def links(self, partition: PivotPartition) -> rec.Int32s:
        """Return the sample's number of uses, and the row of the next queued or unused sample.

        A region uses the sample that is its pivot. The queue uses each of its samples.
        """
        return rec.Int32s(self, 2 * partition.n_inputs, 2)


class Cut(rec.Record):
    """The first cut between a pivot and a sample."""

    EMBEDDED = True

    # Time of the cut; if there is no cut, the end of the search.
    time: rec.Float64 = rec.transient()
    key: rec.Int64 = rec.transient()
    dim: rec.Int64 = rec.transient()
    # Whether the cut is above the pivot, and the distance from pivot to cut in units of 1 / rate.
    is_above: rec.Int64 = rec.transient()
    reach: rec.Float64 = rec.transient()
    exists: rec.Int64 = rec.transient()


class PathStep(rec.Record):
    """A region on a point's path, and the time until which the point is in the pivot's cell."""

    key: rec.Int64
    pivot: rec.Int64
    began: rec.Float64
    until: rec.Float64


class PivotPartition(rec.Record):
    """Trees of regions, and the state of a descent in one tree."""

    n_trees: rec.Int64
    # Number of features, and number of dimensions of cells: the features or the cut directions.
    n_inputs: rec.Int64
    n_dims: rec.Int64
    # `directions`: the trees' matrices of cut directions, one direction per row; empty for the
    # axes. `directions_step`: the offset from one tree's matrix to the next; 0 if all trees share a
    # matrix.
    directions: rec.Float64s
    directions_step: rec.Int64 = rec.derived()
    # Values of the features at the origin, the pivot of the whole space. Empty if pivots are
    # samples.
    origin: rec.Float64s
    # The current sample and the current region's pivot, as values along a tree's directions.
    along: rec.Float64s = rec.transient()
    around: rec.Float64s = rec.transient()
    trees: rec.Array[PivotTree]
    regions: rec.Table[Region]
    samples: rec.Table[StoredSample]
    # The first unused row of each table, and the number of unused rows.
    unused_region: rec.Int64 = rec.stored(rec.Ref("regions"))
    n_unused_regions: rec.Int64
    unused_sample: rec.Int64 = rec.stored(rec.Ref("samples", chain="unused"))
    n_unused_samples: rec.Int64
    # The queue of samples that can be removed, oldest first, and whether learned samples enter the
    # queue.
    oldest: rec.Int64 = rec.stored(rec.Ref("samples", chain="queue"))
    newest: rec.Int64
    n_queued: rec.Int64
    queues: rec.Int64 = rec.stored(rec.Bounds(0, 1))
    # Rate of the cuts in each dimension, per unit of length. At rate 0, the distance between any
    # two different values is 1.
    rates: rec.Float64s
    # `counts`: the number of samples in the current sample's cell at each share of the lifetime.
    cut: Cut = rec.transient()
    cell: Cell = rec.transient()
    n_shares: rec.Int64
    shares: rec.Float64s
    counts: rec.Float64s = rec.transient()
    # The time until which the current sample shares a cell with other samples; infinity if no cut
    # separates them.
    shared_until: rec.Float64 = rec.transient()


P = TypeVar("P", bound=PivotPartition)


@helper
def lift(partition: P, t: int, x: rec.Float64s, out: rec.Float64s) -> rec.Float64s:
    """Return a sample's values along a tree's directions, which are written to `out`.

    Without directions, return the sample itself, and do not write to `out`. An axis-aligned
    partition of U x is an oblique partition of x (Theorem 3.1 of O'Reilly and Tran 2022).
    """
    if not partition.directions:
        return x
    n_inputs, n_dims = partition.n_inputs, partition.n_dims
    matrix = partition.directions.part(t * partition.directions_step, n_dims * n_inputs)
    for j in range(n_dims):
        total = 0.0
        for k in range(n_inputs):
            total += matrix[j * n_inputs + k] * x[k]
        out[j] = total
    return out


@helper
def stored_pivot(partition: P, t: int, row: int) -> rec.Float64s:
    """Return a stored pivot's values along a tree's directions."""
    values = partition.samples.row(row).values(partition)
    return lift(partition, t, values, partition.around)


@helper
def start_at_origin(partition: P, t: int) -> None:
    """Set the current pivot to the origin, if the trees have an origin."""
    if partition.origin:
        around = partition.around
        lifted = lift(partition, t, partition.origin, around)
        for j in range(partition.n_dims):
            around[j] = lifted[j]


@helper
def has_room(partition: P, n_regions: int) -> bool:
    """Return whether there is room for a sample and `n_regions` regions."""
    regions, samples = partition.regions, partition.samples
    if n_regions - partition.n_unused_regions > regions.capacity - regions.n_rows:
        return False
    return partition.n_unused_samples > 0 or samples.n_rows < samples.capacity


@helper
def take_sample(partition: P, x: rec.Float64s) -> int:
    """Store a sample, in the queue if `queues` is set; return its row. There must be room."""
    row = partition.unused_sample
    if row == NONE:
        row = partition.samples.n_rows
        partition.samples.n_rows = row + 1
    else:
        partition.unused_sample = partition.samples.row(row).links(partition)[1]
        partition.n_unused_samples -= 1
    sample = partition.samples.row(row)
    values, links = sample.values(partition), sample.links(partition)
    for j in range(partition.n_inputs):
        values[j] = x[j]
    links[0] = partition.queues
    links[1] = NONE
    if partition.queues:
        if partition.newest == NONE:
            partition.oldest = row
        else:
            partition.samples.row(partition.newest).links(partition)[1] = row
        partition.newest = row
        partition.n_queued += 1
    return row


@helper
def release_sample(partition: P, row: int) -> None:
    """Remove one use of a stored sample, if any; free the row if no use is left."""
    sample = partition.samples.row(row)
    links = sample.links(partition)
    if links[0] > 0:
        links[0] -= 1
    if links[0] == 0:
        # The values are set to 0, because otherwise files would still contain removed samples.
        values = sample.values(partition)
        for j in range(partition.n_inputs):
            values[j] = 0.0
        links[1] = partition.unused_sample
        partition.unused_sample = row
        partition.n_unused_samples += 1


@helper
def free_region(partition: P, row: int) -> None:
    """Free a region's row, and the row of its pivot if the pivot has no other use."""
    region = partition.regions.row(row)
    if region.pivot != NONE:
        release_sample(partition, region.pivot)
    region.key = 0
    region.time = 0.0
    region.pivot = NONE
    region.first = NONE
    region.next = partition.unused_region
    partition.unused_region = row
    partition.n_unused_regions += 1


# The cuts on the sides of a pivot, as functions of its region's key.
#
# Each cut on a side has a distance from the pivot and a time after the region's beginning. These
# distances and times form a Poisson process of rate 1. This process is drawn in intervals of
# distances, called blocks. The first block is [0, b), and each further block is as long as all
# blocks before it. In a block, a cut matters only if it is nearer to the pivot than all earlier
# cuts. Therefore, only these cuts are drawn, with exponential times and uniform distances. The
# processes of different blocks and sides are independent.


# Indices of a key's draws: key of the next block, time and distance of a cut, key of the next cut
# in the block. The keys of the sides begin at `PER_SIDE`.
NEXT_BLOCK = 0
CUT_TIME = 3
CUT_PLACE = 5
NEXT_KEY = 7
PER_SIDE = 8

# Product of the first block's length and the time at which the region began. Most samples of a
# region are several times farther from the pivot than this length. With longer blocks, more cuts
# are drawn that are farther from the pivot than a sample. With shorter blocks, more blocks without
# cuts are drawn.
FIRST_BLOCK = 0.2

_PRECISION = 2.0**-52


@helper
def key_of(key: int, i: int) -> int:
    """Return the i-th output of splitmix64 seeded with a key."""
    return mixed(state_after(key, i + 1))


@helper
def uniform(key: int, i: int) -> float:
    """Return a key's i-th uniform number in the open interval (0, 1)."""
    return uniform_of(key_of(key, i))


@helper
def first_block(horizon: float, began: float) -> float:
    """Return the length of the first block, the same on each side of a pivot."""
    if began > 0.0:
        return FIRST_BLOCK / began
    return 1.0 / horizon if horizon < math.inf else 1.0


@helper
def beyond(value: float, step: float) -> float:
    """Return the value plus a positive step; the result exceeds the value even after rounding."""
    return max(value + step, value + math.fabs(value) * _PRECISION)


@link_by_name
def find_cut(
    partition: P,
    key: int,
    began: float,
    horizon: float,
    around: rec.Float64s,
    z: rec.Float64s,
    until: float,
) -> None:
    """Set the current cut to the first cut between a pivot and a point.

    The pivot's region has the key `key` and began at the time `began`. If there is no cut before
    `until`, the time of the current cut is `until`.
    """
    cut, rates, n_dims = partition.cut, partition.rates, partition.n_dims
    block = first_block(horizon, began)
    cut.exists = 0
    best = until
    # With an origin, no cut may separate a pivot and a point that differ only by rounding errors.
    slack = _PRECISION if partition.origin else 0.0
    # The dimension in which the pivot and the point differ most is searched first. The cut in this
    # dimension is probably early, so fewer later cuts are drawn.
    first, widest = 0, -1.0
    for j in range(n_dims):
        gap = math.fabs(z[j] - around[j]) * rates[j]
        if gap > widest:
            first, widest = j, gap
    for i in range(n_dims):
        # `first` is searched in place of dimension 0, and dimension 0 in place of `first`.
        j = first if i == 0 else (0 if i == first else i)
        difference = z[j] - around[j]
        if math.fabs(difference) <= slack * math.fabs(around[j]):
            continue
        is_above = 1 if difference > 0.0 else 0
        gap = math.fabs(difference) * rates[j] if rates[j] > 0.0 else 1.0
        cut_key = block_key = key_of(key, PER_SIDE + 2 * j + is_above)
        share = uniform(cut_key, CUT_TIME)
        lower, end = 0.0, block
        while True:
            # Each cut of a block is nearer to the pivot and later than the previous cut.
            top, time = end, began
            # -log(share) >= 1 - share, so most iterations need no logarithm.
            while share > 1.0 - (top - lower) * (best - time):
                time -= math.log(share) / (top - lower)
                if time >= best:
                    break
                top = lower + uniform(cut_key, CUT_PLACE) * (top - lower)
                if top < gap:
                    best = time
                    cut.exists = 1
                    cut.key = cut_key
                    cut.dim = j
                    cut.is_above = is_above
                    cut.reach = top
                    break
                cut_key = key_of(cut_key, NEXT_KEY)
                share = uniform(cut_key, CUT_TIME)
            if gap <= end:
                break
            cut_key = block_key = key_of(block_key, NEXT_BLOCK)
            share = uniform(cut_key, CUT_TIME)
            lower, end = end, 2.0 * end
    cut.time = best


@helper
def place_of_cut(partition: P, around: rec.Float64s) -> float:
    """Return the coordinate of the current cut in its dimension."""
    cut = partition.cut
    step = cut.reach / partition.rates[cut.dim]
    value = around[cut.dim]
    return beyond(value, step) if cut.is_above else -beyond(-value, step)


@helper
def go_beyond(partition: P) -> None:
    """Project the current pivot onto the current cut, if the trees have an origin.

    The new pivot is a function of earlier draws, and lies in the closure of the new region.
    """
    if partition.origin:
        partition.around[partition.cut.dim] = place_of_cut(partition, partition.around)


@helper
def nearest_cut(
    key: int, side: int, began: float, block: float, until: float, bound: float
) -> float:
    """Return the distance to a pivot's nearest cut before `until` on a side, at most `bound`.

    In dimension j, side 2 j is below the pivot, and side 2 j + 1 is above the pivot.
    """
    cut_key = block_key = key_of(key, PER_SIDE + side)
    share = uniform(cut_key, CUT_TIME)
    lower, end = 0.0, block
    while True:
        top, time = end, began
        while share > 1.0 - (top - lower) * (until - time):
            time -= math.log(share) / (top - lower)
            if time >= until:
                break
            top = lower + uniform(cut_key, CUT_PLACE) * (top - lower)
            cut_key = key_of(cut_key, NEXT_KEY)
            share = uniform(cut_key, CUT_TIME)
        if top < end or end >= bound:
            return min(top, bound)
        cut_key = block_key = key_of(block_key, NEXT_BLOCK)
        share = uniform(cut_key, CUT_TIME)
        lower, end = end, 2.0 * end
