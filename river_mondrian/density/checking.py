"""Checks of restored trees of regions.

Kernels follow links between regions and between samples, and look for cuts until a time has passed
or a place is passed: so links are such that each row is met once, and numbers such that this ends.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..checks import LARGEST_SIZE, check_array, check_number, check_types, refuse
from ..compiling.kernels import exact_batch_kernel
from ..errors import ModelFormatError
from ..limits import LARGEST
from ..records import Int32s, Int64, Memory, Record
from .mixture import PivotForest
from .regions import NONE, PivotTree

# What may be wrong, in the order of `_TEXTS`.
FINE = -1
ROOT = 0
LINK = 1
TIME = 2
PIVOT = 3
COUNT = 4
UNUSED = 5
QUEUE = 6
USES = 7

_TEXTS = (
    "root of tree {tree} is no region, or one that is at another place",
    "region {row} links to no region, or to one that is at another place",
    "region {row} was not cut off after the region that it is in and the one before it",
    "pivot of region {row} is no stored sample, or is one though there is an origin",
    "n_samples of region {row} are not those of a part of its region",
    "unused rows are not those that nothing links to",
    "the queue is not one of stored samples, each once",
    "a stored sample is in use more or less often than it says",
)


class Check(Record):
    """Where a check has come to, and what it has met."""

    tree: Int64
    row: Int64
    # By region: whether something has referred to it; and regions that wait.
    met: Int32s
    waiting: Int32s
    # By sample: how often it is in use.
    uses: Int32s


@exact_batch_kernel
def fault_of_trees(forest: PivotForest, check: Check) -> int:
    """Return what is wrong with the regions in use, FINE if nothing is; the check says where."""
    regions, n_regions = forest.regions, forest.regions.n_rows
    met, waiting = check.met, check.waiting
    for t in range(forest.n_trees):
        check.tree = t
        root = forest.trees[t].root
        if root == NONE:
            if forest.n_samples > 0:
                return ROOT
            continue
        if not 0 <= root < n_regions or met[root] == 1:
            return ROOT
        if regions.row(root).next != NONE or regions.row(root).n_samples != forest.n_samples:
            return ROOT
        met[root] = 1
        waiting[0] = root
        n_waiting = 1
        while n_waiting > 0:
            n_waiting -= 1
            row = waiting[n_waiting]
            check.row = row
            region = regions.row(row)
            if forest.origin:
                if region.pivot != NONE:
                    return PIVOT
            elif 0 <= region.pivot < forest.samples.n_rows:
                check.uses[region.pivot] += 1
            else:
                return PIVOT
            time, left, child = region.time, region.n_samples, region.first
            if not (left >= 1 and 0.0 <= time < math.inf and (time > 0.0) == (row != root)):
                return TIME
            while child != NONE:
                if not 0 <= child < n_regions or met[child] == 1:
                    return LINK
                other = regions.row(child)
                if not other.time >= time:
                    return TIME
                time = other.time
                left -= other.n_samples
                if other.n_samples < 1 or left < 0:
                    return COUNT
                met[child] = 1
                waiting[n_waiting] = child
                n_waiting += 1
                child = other.next
    return FINE


@exact_batch_kernel
def fault_of_rows(forest: PivotForest, check: Check) -> int:
    """Return what is wrong with the rows that are not in use and the queue, FINE if nothing is."""
    row, n = forest.unused_region, 0
    while row != NONE:
        if not 0 <= row < forest.regions.n_rows or check.met[row] == 1:
            return UNUSED
        check.met[row] = 1
        n += 1
        row = forest.regions.row(row).next
    for i in range(forest.regions.n_rows):
        if check.met[i] == 0:
            return UNUSED
    if n != forest.n_unused_regions:
        return UNUSED
    row, n, last = forest.oldest, 0, NONE
    while row != NONE:
        if not 0 <= row < forest.samples.n_rows or n > forest.samples.n_rows:
            return QUEUE
        check.uses[row] += 1
        n += 1
        last = row
        row = forest.samples.row(row).links(forest)[1]
    if n != forest.n_queued or last != forest.newest:
        return QUEUE
    if n != (forest.n_samples if forest.queues == 1 else 0):
        return QUEUE
    row, n = forest.unused_sample, 0
    while row != NONE:
        if not 0 <= row < forest.samples.n_rows or check.uses[row] != 0:
            return UNUSED
        check.uses[row] = -1
        n += 1
        row = forest.samples.row(row).links(forest)[1]
    if n != forest.n_unused_samples:
        return UNUSED
    for i in range(forest.samples.n_rows):
        links = forest.samples.row(i).links(forest)
        if check.uses[i] == 0 or max(check.uses[i], 0) != links[0]:
            return USES
    return FINE


def check_records(owner: Any) -> None:
    """Refuse restored trees by the kinds and sizes of their records.

    Parameters
    ----------
    owner
        The trees, a `PivotTrees`, whose attributes are there.

    Raises
    ------
    ModelFormatError
        If one of them is damaged.

    """
    levels = ("log_weights", "parts", "medians", "spreads")
    names = ("means", "n_values", "constants", "rates", *levels)
    check_types(owner, dict.fromkeys(names, np.ndarray) | {"memory": Memory, "trees": Memory})
    check_types(owner, dict.fromkeys(("directions", "origin"), (type(None), np.ndarray)))
    if owner.memory.kind is not PivotForest or owner.trees.kind is not PivotTree:
        refuse(owner, "trees", owner.trees.kind.__name__, "but they are of another kind")
    if len(owner.memory) != 1 or len(owner.trees) == 0:
        refuse(owner, "n_trees", len(owner.trees), "but there is one at least")
    forest, n_trees = owner.memory[0], len(owner.trees)
    for name, least, most in (
        ("n_trees", n_trees, n_trees),
        ("n_inputs", len(owner.means), len(owner.means)),
        ("n_dims", len(owner.rates), len(owner.rates)),
        ("estimator", 0, 2),
        ("adapts", 0, 1),
        ("queues", 0, 1),
        ("renews_at", 0, LARGEST_SIZE),
        ("window", 0, LARGEST_SIZE),
        ("max_nodes", 0, LARGEST_SIZE),
        ("n_samples", 0, LARGEST_SIZE),
        ("n_learned", int(forest.n_samples), LARGEST_SIZE),
        ("n_usual", 0, LARGEST_SIZE),
        ("n_queued", 0, LARGEST_SIZE),
        ("n_unused_regions", 0, LARGEST_SIZE),
        ("n_unused_samples", 0, LARGEST_SIZE),
    ):
        check_number(owner, name, getattr(forest, name), least, most)


def check_numbers(owner: Any) -> None:
    """Refuse restored trees by the numbers in their arrays, which have the right shapes.

    Parameters
    ----------
    owner
        As for `check_records`.

    Raises
    ------
    ModelFormatError
        If one of them is out of its range.

    """
    words, most = owner.trees.words, 1.001 * LARGEST
    least = np.finfo(np.float64).tiny
    check_array(owner, "lifetime", words["lifetime"], np.float64, least, 1e300)
    check_array(owner, "horizon", words["horizon"], np.float64, least, math.inf)
    for name in ("means", "constants"):
        check_array(owner, name, getattr(owner, name), np.float64, -most, most)
    if owner.origin is not None:
        check_array(owner, "origin", owner.origin, np.float64, -most, most)
    if owner.directions is not None:
        check_array(owner, "directions", owner.directions, np.float64, -1e100, 1e100)
    elif len(owner.rates) != len(owner.means):
        refuse(owner, "n_dims", len(owner.rates), f"but there are {len(owner.means)} features")
    check_array(owner, "n_values", owner.n_values, np.float64, 0.0, 1e300)
    check_array(owner, "rates", owner.rates, np.float64, 0.0, 1.001e100)
    for name in ("log_weights", "medians"):
        check_array(owner, name, getattr(owner, name), np.float64, -1e300, 1e300)
    for name in ("parts", "spreads"):
        check_array(owner, name, getattr(owner, name), np.float64, 0.0, 1e300)


def check_regions(owner: Any) -> None:
    """Refuse restored trees whose regions or samples are damaged, once kernels may read them.

    Parameters
    ----------
    owner
        As for `check_records`.

    Raises
    ------
    ModelFormatError
        If a link, a count or a number is wrong; the message names the place.

    """
    forest = owner.forest
    n_regions, n_stored = int(forest.regions.n_rows), int(forest.samples.n_rows)
    rows = owner.samples.rows(0, n_stored)
    values = np.ascontiguousarray(rows[:, : 2 * forest.n_inputs]).view(np.float64)
    check_array(owner, "values of samples", values, np.float64, -1.001 * LARGEST, 1.001 * LARGEST)
    memory = Memory(Check)
    check = memory[0]
    memory.own("met", np.zeros(n_regions, np.int32))
    memory.own("waiting", np.zeros(n_regions + 1, np.int32))
    memory.own("uses", np.zeros(n_stored, np.int32))
    fault = fault_of_trees(forest, check)
    if fault == FINE:
        fault = fault_of_rows(forest, check)
    if fault != FINE:
        where = _TEXTS[fault].format(tree=int(check.tree), row=int(check.row))
        raise ModelFormatError(f"PivotTrees is damaged: {where}")
