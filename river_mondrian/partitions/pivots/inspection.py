"""Cells of points, found from the cuts on all sides of the pivots on the way."""

from __future__ import annotations

import math

from ...compiling.kernels import exact_inlined, exact_separate
from ...records import Float64s
from .cuts import beyond, find_cut, first_block, go_beyond, nearest_cut, place_of_cut
from .records import NONE, P, lift, start_at_origin, stored_pivot
from .walks import child_of_cut


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
