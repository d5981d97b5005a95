"""Checks of restored trees of regions.

Kernels follow links between regions and between samples, and look for cuts until a time has passed
or a place is passed: so links are such that each row is met once, and numbers such that this ends.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..checks import LARGEST_SIZE, check_array, check_number, refuse
from ..limits import LARGEST
from ..records import Ref, RowLayout
from ..restored import Edges, Rows, check_numbers, check_references
from .mixture import PivotForest
from .regions import NONE, PivotTree, Region

# Bounds of the arrays' numbers.
_MOST = 1.001 * LARGEST
_BOUNDS = {
    "means": (-_MOST, _MOST),
    "constants": (-_MOST, _MOST),
    "origin": (-_MOST, _MOST),
    "directions": (-1e100, 1e100),
    "n_values": (0.0, 1e300),
    "rates": (0.0, 1.001e100),
    "log_weights": (-1e300, 1e300),
    "medians": (-1e300, 1e300),
    "parts": (0.0, 1e300),
    "spreads": (0.0, 1e300),
}


def check_records(owner: Any) -> None:
    """Refuse restored trees by their records and the numbers in their arrays.

    Parameters
    ----------
    owner
        The trees, a `PivotTrees`, whose attributes are there.

    Raises
    ------
    ModelFormatError
        If one of them is damaged.

    """
    if owner.memory.kind is not PivotForest or owner.trees.kind is not PivotTree:
        refuse(owner, "trees", owner.trees.kind.__name__, "but they are of another kind")
    if len(owner.memory) != 1 or len(owner.trees) == 0:
        refuse(owner, "n_trees", len(owner.trees), "but there is one at least")
    for name, (least, most) in _BOUNDS.items():
        if getattr(owner, name) is not None:
            check_array(owner, name, getattr(owner, name), np.float64, least, most)
    if owner.directions is None and len(owner.rates) != len(owner.means):
        refuse(owner, "n_dims", len(owner.rates), f"but there are {len(owner.means)} features")
    forest = owner.memory[0]
    sizes = {"n_trees": owner.trees, "n_inputs": owner.means, "n_dims": owner.rates}
    for name, array in sizes.items():
        check_number(owner, name, getattr(forest, name), len(array), len(array))
    check_numbers("forest", Rows.of_memory(owner.memory))
    check_numbers("tree", Rows.of_memory(owner.trees))
    if forest.renews_at:
        # Learning waits for a renewal, which is at that very number, with the samples in the queue.
        check_number(owner, "renews_at", forest.renews_at, forest.n_learned, LARGEST_SIZE)
        if not (forest.adapts and forest.queues):
            refuse(owner, "renews_at", forest.renews_at, "but trees like these are never renewed")


def check_regions(owner: Any) -> None:
    """Refuse restored trees whose regions or samples are damaged, once their rows are there.

    Parameters
    ----------
    owner
        As for `check_records`.

    Raises
    ------
    ModelFormatError
        If a link, a count or a number is wrong; the message names the place.

    """
    forest, n_trees = owner.forest, len(owner.trees)
    n_regions, n_stored = int(forest.regions.n_rows), int(forest.samples.n_rows)
    regions = Rows.of_table(RowLayout(Region), n_regions, owner.regions)
    samples = Rows.of_table(owner._sample_layout(), n_stored, owner.samples)
    check_array(owner, "values", samples.column("values"), np.float64, -_MOST, _MOST)
    rows = {"trees": Rows.of_memory(owner.trees), "regions": regions}
    found = check_references("forest", rows)
    rows = {"forest": Rows.of_memory(owner.memory), "regions": regions}
    unused = check_references("forest", rows).met("regions")
    used = found.met("regions")
    if (used == unused).any() or unused.sum() != forest.n_unused_regions:
        refuse(owner, "n_unused_regions", forest.n_unused_regions, "but other rows are not in use")
    # Trees are the first rows of both tables together.
    above = found.parents["regions"] - n_trees
    names = ("time", "n_samples", "pivot", "next")
    times, sizes, pivots, following = (regions.column(name) for name in names)
    roots = owner.trees.words["root"]
    roots = roots[roots != NONE]
    n = int(forest.n_samples)
    if (n > 0 and len(roots) < n_trees) or (sizes[roots] != n).any():
        refuse(owner, "n_samples", n, "but those of the regions of the whole space are others")
    if (following[roots] != NONE).any() or (times[roots] != 0.0).any():
        refuse(owner, "roots", roots.tolist(), "but regions of the whole space were never cut off")
    cut_off = used & (above >= 0)
    before = times[np.maximum(above, 0)] if n_regions else times
    is_later = (times > 0.0) & (times >= before) & (times < math.inf)
    if (cut_off & ~is_later).any() or (used & (sizes < 1)).any():
        refuse(owner, "regions", "wrong", "since one was cut off too early, or has no samples")
    _check_samples(owner, samples, pivots[used])


def _check_samples(owner: Any, samples: Rows, pivots: Any) -> None:
    """Refuse stored samples that are in use more or less often than they say."""
    forest, links = owner.forest, samples.column("links")
    if owner.origin is not None:
        check_array(owner, "pivots", pivots, np.int32, NONE, NONE)
        pivots = pivots[:0]
    check_array(owner, "pivots", pivots, np.int32, 0, samples.n - 1)
    rows = {"forest": Rows.of_memory(owner.memory), "samples": samples}
    edges = [Edges("samples", "link", Ref("samples"), links[:, 1])]
    queued, unused = (
        check_references("forest", rows, edges, chain=chain).met("samples")
        for chain in ("queue", "unused")
    )
    uses = np.bincount(pivots, minlength=samples.n) + queued
    n = int(forest.n_samples) if forest.queues else 0
    numbers = queued.sum(), forest.n_queued, unused.sum()
    if numbers != (n, n, forest.n_unused_samples) or (unused == (uses > 0)).any():
        refuse(owner, "n_queued", forest.n_queued, "or other samples are not in use")
    if (links[:, 0] != uses).any():
        refuse(owner, "a stored sample", "wrong", "since it is in use more or less often")
    last = queued & (links[:, 1] == NONE)
    if np.flatnonzero(last).tolist() != ([] if forest.newest == NONE else [forest.newest]):
        refuse(owner, "newest", forest.newest, "but it is not the last one in the queue")
