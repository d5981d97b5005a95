"""Cells of points, found from the cuts on all sides of the pivots on the way."""

from __future__ import annotations

import math

from ...compiling.kernels import exact_inlined, exact_separate
from ...records import Float64s
from ..unbounded.cells import beyond
from .cuts import find_cut, first_block, nearest_cut
from .records import NONE, P


@exact_inlined
def cut_back(
    partition: P, key: int, began: float, block: float, around: Float64s, until: float
) -> None:
    """Cut the cell on the way as the cell of a region's pivot is cut until a time."""
    lower, upper, rates = partition.cell.lower, partition.cell.upper, partition.rates
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


@exact_separate
def reveal(partition: P, t: int, z: Float64s, lifetime: float) -> int:
    """Let the cell on the way be that of a point in a tree at a lifetime; returns its count.

    Dimensions that are not cut have no ends.
    """
    tree, cut, cell = partition.trees[t], partition.cut, partition.cell
    for j in range(partition.n_dims):
        cell.lower[j] = -math.inf
        cell.upper[j] = math.inf
    row = tree.root
    count = 0
    while row != NONE:
        region = partition.regions.row(row)
        around = partition.samples.row(region.pivot).values(partition)
        block = first_block(tree.horizon, region.time)
        find_cut(partition, region.key, region.time, block, around, z, lifetime)
        until = cut.time
        cut_back(partition, region.key, region.time, block, around, until)
        count = region.n_samples
        child = region.first
        while child != NONE:
            other = partition.regions.row(child)
            if other.time > until or (cut.exists and other.key == cut.key):
                break
            count -= other.n_samples
            child = other.next
        if not cut.exists:
            break
        # The point is beyond a cut, which is an end of its cell. Where no sample has been there,
        # the cell goes on as that of the region which the point would begin.
        rate, value = partition.rates[cut.dim], around[cut.dim]
        if rate > 0.0 and cut.is_above:
            cell.lower[cut.dim] = beyond(value, cut.reach / rate)
        elif rate > 0.0:
            cell.upper[cut.dim] = -beyond(-value, cut.reach / rate)
        if child == NONE or partition.regions.row(child).key != cut.key:
            block = first_block(tree.horizon, until)
            cut_back(partition, cut.key, until, block, z, lifetime)
            return 0
        row = child
    return count
