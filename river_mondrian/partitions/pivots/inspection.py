"""Cells of points, found from the cuts on all sides of the pivots on the way."""

from __future__ import annotations

import math

from ...compiling.kernels import exact_inlined, exact_separate
from ...records import Float64s
from ..unbounded.cells import beyond
from .cuts import find_cut, first_block, nearest_cut
from .records import NONE, P, PathStep


@exact_separate
def cut_back(partition: P, step: PathStep, around: Float64s, horizon: float) -> None:
    """Cut the cell on the way as a pivot's is cut while it is on the way."""
    lower, upper, rates = partition.cell.lower, partition.cell.upper, partition.rates
    key, began, until = step.key, step.began, step.until
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
def follow_back(partition: P, n_steps: int, horizon: float) -> None:
    """Cut the cell on the way by the steps of the path, the last one first.

    It is the same in any order; the last ones leave least for those before.
    """
    for i in range(n_steps - 1, -1, -1):
        step = partition.path[i]
        around = partition.samples.row(step.pivot).values(partition)
        cut_back(partition, step, around, horizon)


@exact_inlined
def keep_beyond(partition: P, around: Float64s) -> None:
    """Let the cell on the way end at the cut on the way, beyond which the point is."""
    cut, cell = partition.cut, partition.cell
    dim, rate = cut.dim, partition.rates[cut.dim]
    if rate > 0.0 and cut.is_above:
        cell.lower[dim] = max(cell.lower[dim], beyond(around[dim], cut.reach / rate))
    elif rate > 0.0:
        cell.upper[dim] = min(cell.upper[dim], -beyond(-around[dim], cut.reach / rate))


@exact_separate
def reveal(partition: P, t: int, z: Float64s, lifetime: float) -> int:
    """Let the cell on the way be that of a point in a tree at a lifetime; returns its count.

    Dimensions that are not cut have no ends.
    """
    tree, cut, cell = partition.trees[t], partition.cut, partition.cell
    for j in range(partition.n_dims):
        cell.lower[j] = -math.inf
        cell.upper[j] = math.inf
    count, row, n_steps = 0, tree.root, 0
    while row != NONE:
        region = partition.regions.row(row)
        around = partition.samples.row(region.pivot).values(partition)
        block = first_block(tree.horizon, region.time)
        find_cut(partition, region.key, region.time, block, around, z, lifetime)
        if n_steps == partition.n_path:
            follow_back(partition, n_steps, tree.horizon)
            n_steps = 0
        step = partition.path[n_steps]
        n_steps += 1
        step.key = region.key
        step.pivot = region.pivot
        step.began = region.time
        step.until = cut.time
        count = region.n_samples
        child = region.first
        while child != NONE:
            other = partition.regions.row(child)
            if other.time > cut.time or (cut.exists and other.key == cut.key):
                break
            count -= other.n_samples
            child = other.next
        if not cut.exists:
            break
        keep_beyond(partition, around)
        if child == NONE or partition.regions.row(child).key != cut.key:
            # No sample has been there: the cell is as that of the region which the point begins.
            count = 0
            last = partition.last_step
            last.key = cut.key
            last.began = cut.time
            last.until = lifetime
            cut_back(partition, last, z, tree.horizon)
            break
        row = child
    follow_back(partition, n_steps, tree.horizon)
    return count
