"""Walks to a sample's region: to add, remove or count it, and to reveal its cell.

`walk` changes or reads the counts on the way, `reveal` finds the cell from the cuts on all sides of
the pivots on the way, and `add_regions` adds the counts of trees with the same keys.
"""

from __future__ import annotations

import math

from ..compiling.kernels import exact_inlined, exact_separate
from ..records import Float64s, Int64, Record, new_array, prefetch, release
from .cuts import beyond, find_cut, first_block, go_beyond, nearest_cut, place_of_cut
from .regions import (
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


@exact_separate
def cut_back(
    partition: P, key: int, began: float, until: float, around: Float64s, horizon: float
) -> None:
    """Cut the cell on the way as that of a region's pivot is cut until a time."""
    lower, upper, rates = partition.cell.lower, partition.cell.upper, partition.rates
    block = first_block(horizon, began)
    for j in range(partition.n_dims):
        rate, value = rates[j], around[j]
        if rate > 0.0:
            below = (value - lower[j]) * rate
            found = nearest_cut(key, 2 * j, began, block, until, below)
            if found < below:
                lower[j] = -beyond(-value, found / rate)
            above = (upper[j] - value) * rate
            found = nearest_cut(key, 2 * j + 1, began, block, until, above)
            if found < above:
                upper[j] = beyond(value, found / rate)


@exact_inlined
def follow_back(partition: P, t: int, n_steps: int) -> None:
    """Cut the cell on the way by the steps of the path, the last one first.

    It is the same in any order; the last ones leave least for those before.
    """
    horizon = partition.trees[t].horizon
    for i in range(n_steps - 1, -1, -1):
        step = partition.path[i]
        around = stored_pivot(partition, t, step.pivot)
        cut_back(partition, step.key, step.began, step.until, around, horizon)


@exact_inlined
def keep_beyond(partition: P, around: Float64s) -> None:
    """Let the cell on the way end at the cut on the way, beyond which the point is."""
    cut, cell = partition.cut, partition.cell
    if partition.rates[cut.dim] == 0.0:
        return
    place = place_of_cut(partition, around)
    if cut.is_above:
        cell.lower[cut.dim] = max(cell.lower[cut.dim], place)
    else:
        cell.upper[cut.dim] = min(cell.upper[cut.dim], place)


@exact_inlined
def reveal_by_origin(partition: P, t: int, z: Float64s, lifetime: float) -> int:
    """Reveal the cell of a point in a tree from an origin; returns its count.

    The way goes on where no sample has been, so that the cell is a function of the tree's key.
    """
    tree, cut, around = partition.trees[t], partition.cut, partition.around
    start_at_origin(partition, t)
    row, key, began = tree.root, tree.key, 0.0
    while True:
        block = first_block(tree.horizon, began)
        find_cut(partition, key, began, block, around, z, lifetime)
        cut_back(partition, key, began, cut.time, around, tree.horizon)
        count, row = child_of_cut(partition, row)
        if not cut.exists:
            return count
        keep_beyond(partition, around)
        key, began = cut.key, cut.time
        go_beyond(partition)


@exact_inlined
def reveal_by_samples(partition: P, t: int, z: Float64s, lifetime: float) -> int:
    """Reveal the cell of a point in a tree whose pivots are samples; returns its count."""
    tree, cut = partition.trees[t], partition.cut
    count, row, n_steps = 0, tree.root, 0
    while row != NONE:
        region = partition.regions.row(row)
        around = stored_pivot(partition, t, region.pivot)
        block = first_block(tree.horizon, region.time)
        find_cut(partition, region.key, region.time, block, around, z, lifetime)
        if cut.exists:
            keep_beyond(partition, around)
        if n_steps == partition.n_path:
            follow_back(partition, t, n_steps)
            n_steps = 0
        step = partition.path[n_steps]
        n_steps += 1
        step.key = region.key
        step.pivot = region.pivot
        step.began = region.time
        step.until = cut.time
        count, row = child_of_cut(partition, row)
        if cut.exists and row == NONE:
            # No sample has been there: the cell is as that of the region which the point begins.
            count = 0
            cut_back(partition, cut.key, cut.time, lifetime, z, tree.horizon)
    follow_back(partition, t, n_steps)
    return count


@exact_separate
def reveal(partition: P, t: int, x: Float64s, lifetime: float) -> int:
    """Let the cell on the way be that of a point in a tree at a lifetime; returns its count.

    Dimensions that are not cut have no ends.
    """
    z, cell = lift(partition, t, x, partition.along), partition.cell
    for j in range(partition.n_dims):
        cell.lower[j] = -math.inf
        cell.upper[j] = math.inf
    if partition.origin:
        return reveal_by_origin(partition, t, z, lifetime)
    return reveal_by_samples(partition, t, z, lifetime)
