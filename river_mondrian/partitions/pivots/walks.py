"""Walks to a sample's region: to count it, to take it out again, or only to tell the counts."""

from __future__ import annotations

import math

from ...compiling.kernels import exact_inlined, exact_separate
from ...records import Float64s, Int64, Record, new_array, prefetch, release
from .cuts import find_cut, first_block, go_beyond
from .records import (
    NONE,
    P,
    PivotTree,
    Region,
    let_region_go,
    let_sample_go,
    lift,
    start_at_origin,
    stored_pivot,
    take_region,
)

REGION_WORDS = Region.WORDS


class Pair(Record):
    """A region of one partition, and that of another one with its key."""

    row: Int64
    other: Int64


# What a walk does.
ASK = 0
ADD = 1
REMOVE = -1


@exact_inlined
def begin_region(partition: P, key: int, time: float, pivot: int, following: int) -> int:
    """Store a region and return its row; there has to be room.

    It has one sample, its pivot, or none, if there is no such sample.
    """
    row = take_region(partition)
    region = partition.regions.row(row)
    region.key = key
    region.time = time
    region.pivot = pivot
    region.n_samples = 0 if pivot == NONE else 1
    region.first = NONE
    region.next = following
    if pivot != NONE:
        partition.samples.row(pivot).links(partition)[0] += 1
    return row


@exact_inlined
def tell_counts(partition: P, tree: PivotTree, g: int, before: float, count: int) -> int:
    """Write the count of the cells at times before one, from the g-th on; returns the next."""
    counts, shares = partition.counts, partition.shares
    while g < partition.n_shares and tree.lifetime * shares[g] < before:
        counts[g] = float(count)
        g += 1
    return g


@exact_inlined
def unlink(partition: P, tree: PivotTree, row: int, parent: int, before: int) -> None:
    """Take a region off the list of those that were cut off its parent, or off the tree."""
    following = partition.regions.row(row).next
    if before != NONE:
        partition.regions.row(before).next = following
    elif parent != NONE:
        partition.regions.row(parent).first = following
    else:
        tree.root = NONE


@exact_separate
def walk(partition: P, t: int, x: Float64s, stored: int, change: int) -> None:
    """Go to a sample's region in a tree.

    The counts on the way are those of the sample's cells, each at its share of the lifetime, before
    any change.

    Parameters
    ----------
    partition
        The partition. Where a sample is added there has to be room for a region, or for those that
        `count_missing` counts.
    t
        Number of the tree.
    x
        The sample.
    stored
        Its row, where it is added, and pivots are samples.
    change
        One of `ASK`, `ADD` and `REMOVE`: what happens to the numbers of samples. Only a sample that
        was added may be removed.

    """
    tree, cut = partition.trees[t], partition.cut
    z = lift(partition, t, x, partition.along)
    until = tree.lifetime if change == ASK else tree.horizon
    from_origin = bool(partition.origin)
    g = 0
    partition.parted = 0.0
    row, parent, before = tree.root, NONE, NONE
    if row == NONE and change == ADD:
        tree.root = begin_region(partition, tree.key, 0.0, stored, NONE)
        row = tree.root if from_origin else NONE
    start_at_origin(partition, t)
    alive = True
    while row != NONE:
        region = partition.regions.row(row)
        began = region.time
        if region.first != NONE:
            # It is there once the cut is found.
            prefetch(partition.regions.row(region.first), REGION_WORDS)
        around = partition.around if from_origin else stored_pivot(partition, t, region.pivot)
        block = first_block(tree.horizon, began)
        find_cut(partition, region.key, began, block, around, z, until)
        parted = cut.time if cut.exists else math.inf
        count = region.n_samples
        region.n_samples = count + change
        last, child = NONE, region.first
        while child != NONE:
            other = partition.regions.row(child)
            if other.time > parted or (cut.exists and other.key == cut.key):
                break
            g = tell_counts(partition, tree, g, other.time, count)
            count -= other.n_samples
            if count == 0:
                partition.parted = other.time
            last, child = child, other.next
        g = tell_counts(partition, tree, g, parted, count)
        if count > 0:
            partition.parted = parted
        is_there = child != NONE and cut.exists and partition.regions.row(child).key == cut.key
        if change == ADD and cut.exists and not is_there:
            made = begin_region(partition, cut.key, parted, stored, child)
            if last == NONE:
                region.first = made
            else:
                partition.regions.row(last).next = made
            if from_origin:
                is_there, child = True, made
        if region.n_samples == 0:
            # Of what is left below it, one region at most, the way goes on there.
            if alive:
                unlink(partition, tree, row, parent, before)
            alive = False
            let_region_go(partition, row)
        parent, before = row, last
        row = child if is_there else NONE
        go_beyond(partition)
    tell_counts(partition, tree, g, math.inf, 0)


@exact_inlined
def child_of_cut(partition: P, row: int) -> tuple[int, int]:
    """Return how many samples are in the cell of a region's pivot when the cut on the way comes.

    The second one is the region beyond that cut, or `NONE`.
    """
    cut = partition.cut
    count, child = 0, NONE
    if row != NONE:
        region = partition.regions.row(row)
        count, child = region.n_samples, region.first
    while child != NONE:
        other = partition.regions.row(child)
        if cut.exists and other.key == cut.key:
            break
        if other.time > cut.time:
            child = NONE
            break
        count -= other.n_samples
        child = other.next
    return count, child


@exact_separate
def count_missing(partition: P, t: int, x: Float64s) -> int:
    """Return how many regions a tree from an origin lacks on the way to a sample."""
    tree, cut = partition.trees[t], partition.cut
    z = lift(partition, t, x, partition.along)
    start_at_origin(partition, t)
    row, key, began, n = tree.root, tree.key, 0.0, 0
    while True:
        n += 1 if row == NONE else 0
        block = first_block(tree.horizon, began)
        find_cut(partition, key, began, block, partition.around, z, tree.horizon)
        if not cut.exists:
            return n
        _, row = child_of_cut(partition, row)
        key, began = cut.key, cut.time
        go_beyond(partition)


@exact_separate
def add_regions(partition: P, other: P) -> None:
    """Add the samples of another partition with the same keys and origin; there has to be room.

    A region is known by its key, and with it its pivot and its cuts.
    """
    pairs = new_array(Pair, other.regions.n_rows + 1)
    for t in range(partition.n_trees):
        its = other.trees[t].root
        if its == NONE:
            continue
        tree = partition.trees[t]
        if tree.root == NONE:
            tree.root = begin_region(partition, tree.key, 0.0, NONE, NONE)
        pairs[0].row, pairs[0].other = tree.root, its
        n = 1
        while n > 0:
            n -= 1
            region, its_region = (
                partition.regions.row(pairs[n].row),
                other.regions.row(pairs[n].other),
            )
            region.n_samples += its_region.n_samples
            # Both lists are by time.
            last, child, its = NONE, region.first, its_region.first
            while its != NONE:
                source = other.regions.row(its)
                while child != NONE and partition.regions.row(child).time < source.time:
                    last, child = child, partition.regions.row(child).next
                if child == NONE or partition.regions.row(child).key != source.key:
                    child = begin_region(partition, source.key, source.time, NONE, child)
                    if last == NONE:
                        region.first = child
                    else:
                        partition.regions.row(last).next = child
                pairs[n].row, pairs[n].other = child, its
                n += 1
                its = source.next
    release(pairs)


@exact_separate
def remove_oldest(partition: P) -> None:
    """Take the sample out of the trees that has been in the queue longest."""
    row = partition.oldest
    sample = partition.samples.row(row)
    values = sample.values(partition)
    for t in range(partition.n_trees):
        walk(partition, t, values, row, REMOVE)
    partition.oldest = sample.links(partition)[1]
    if partition.oldest == NONE:
        partition.newest = NONE
    partition.n_queued -= 1
    let_sample_go(partition, row)


@exact_inlined
def enqueue(partition: P, row: int) -> None:
    """Put a stored sample at the end of the queue."""
    partition.samples.row(row).links(partition)[0] += 1
    if partition.newest == NONE:
        partition.oldest = row
    else:
        partition.samples.row(partition.newest).links(partition)[1] = row
    partition.newest = row
    partition.n_queued += 1
