"""Walks to a sample's region: to count it, to take it out again, or only to tell the counts."""

from __future__ import annotations

import math

from ...compiling.kernels import exact_inlined, exact_separate
from ...records import Float64s, prefetch
from .cuts import find_cut, first_block
from .records import (
    NONE,
    P,
    PivotTree,
    Region,
    let_region_go,
    let_sample_go,
    take_region,
)

REGION_WORDS = Region.WORDS

# What a walk does.
ASK = 0
ADD = 1
REMOVE = -1


@exact_inlined
def begin_region(partition: P, key: int, time: float, pivot: int, following: int) -> int:
    """Store a region with one sample, its pivot; returns its row. There has to be room."""
    row = take_region(partition)
    region = partition.regions.row(row)
    region.key = key
    region.time = time
    region.pivot = pivot
    region.n_samples = 1
    region.first = NONE
    region.next = following
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
def walk(partition: P, t: int, z: Float64s, stored: int, change: int) -> None:
    """Go to a sample's region in a tree.

    The counts on the way are those of the sample's cells, each at its share of the lifetime, before
    any change.

    Parameters
    ----------
    partition
        The partition. There has to be room for a region where a sample is added.
    t
        Number of the tree.
    z
        The sample.
    stored
        Its row, where it is added.
    change
        One of `ASK`, `ADD` and `REMOVE`: what happens to the numbers of samples. Only a sample that
        was added may be removed.

    """
    tree, cut = partition.trees[t], partition.cut
    until = tree.lifetime if change == ASK else tree.horizon
    g = 0
    partition.parted = 0.0
    row, parent, before = tree.root, NONE, NONE
    if row == NONE and change == ADD:
        tree.root = begin_region(partition, tree.key, 0.0, stored, NONE)
    alive = True
    while row != NONE:
        region = partition.regions.row(row)
        began = region.time
        if region.first != NONE:
            # It is there once the cut is found.
            prefetch(partition.regions.row(region.first), REGION_WORDS)
        around = partition.samples.row(region.pivot).values(partition)
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
            last, child = child, other.next
        g = tell_counts(partition, tree, g, parted, count)
        partition.parted = parted
        is_there = child != NONE and cut.exists and partition.regions.row(child).key == cut.key
        if change == ADD and cut.exists and not is_there:
            made = begin_region(partition, cut.key, parted, stored, child)
            if last == NONE:
                region.first = made
            else:
                partition.regions.row(last).next = made
        if region.n_samples == 0:
            # Of what is left below it, one region at most, the way goes on there.
            if alive:
                unlink(partition, tree, row, parent, before)
            alive = False
            let_region_go(partition, row)
        parent, before = row, last
        row = child if is_there else NONE
    tell_counts(partition, tree, g, math.inf, 0)


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
