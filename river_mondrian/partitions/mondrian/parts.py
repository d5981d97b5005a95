"""Parts of a forest's trees, which learn apart and are put together again, node by node.

Past its beginning a tree depends on the samples and its own random numbers alone, so that a part
with some of the trees learns what these would have learned among all. What all trees share is then
a function of the samples, and the same in every part: points, scaling, features, classes. Two
draws are made for all trees together: the places of levels at the first category of a forest, and
coefficients of random directions at a new feature. A whole forest has to learn these samples.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...records import Memory
from ...records.chunked_rows import PackedRows
from .tree_memory import TreeMemory

Trees = TypeVar("Trees", bound=TreeMemory[Any])


def _has_sets(trees: TreeMemory[Any]) -> bool:
    """Tell whether a point has values for each tree."""
    if trees.directions is not None:
        return trees.directions.given is None
    return trees.categories is not None


def _made(
    like: Trees, records: list[NDArray[np.uint8]], tables: dict[str, PackedRows], **own: Any
) -> Trees:
    """Return trees of these records and tables, which share the rest with others of their kind."""
    kept = np.concatenate(records)
    memory = Memory(like._TREE, len(kept) // like._TREE.SIZE)
    memory.bytes[:] = kept
    n = len(memory)
    step = int(like.forest.dim_capacity) if _has_sets(like) and n > 1 else 0
    memory.words["first_value"] = step * np.arange(n)
    memory.words["slot"] = np.arange(n)
    given = {**tables, **own, "trees": memory}
    rest = {name: value for name, value in like.__getstate__().items() if name not in given}
    copied = copy.deepcopy(rest)
    copied["shared"][0].n_trees = n
    made = type(like).__new__(type(like))
    # In the same order, as files have them.
    state = {name: copied.get(name, given.get(name)) for name in like.__getstate__()}
    made._restore(state)
    return made


def _records(trees: TreeMemory[Any]) -> NDArray[np.uint8]:
    """Return the records of trees without addresses."""
    found: NDArray[np.uint8] = trees.trees.__getstate__()["bytes"]
    return found


def _points(trees: TreeMemory[Any]) -> list[NDArray[np.int32]]:
    """Return what the rows of points consist of: records, values, and links."""
    forest = trees.forest
    rows = trees.points.rows(0, trees.n_points)
    ends = [int(forest.values_word), int(forest.links_word)]
    return np.split(rows, ends, axis=1)


def part_of(trees: Trees, start: int, stop: int) -> Trees:
    """Return trees of which each is a copy of one of the trees `start` to `stop`.

    They need the samples with which ranges and hyperparameters are chosen (`splits_at`).
    """
    counts = trees._n_rows()
    record, values, links = _points(trees)
    own: dict[str, Any] = {}
    if _has_sets(trees):
        width = int(trees.forest.dim_capacity)
        values = values[:, width * start : width * stop]
        name = "categories" if trees.directions is None else "directions"
        own[name] = trees.__dict__[name].part(start, stop)
    rows = np.concatenate([record, values, links[:, start:stop]], axis=1)
    tables = {"points": PackedRows([rows])}
    for name in ("nodes", "side_rows"):
        table = trees.__dict__[name]
        rows_of = [table.rows(t, counts[name][t]) for t in range(start, stop)]
        tables[name] = PackedRows(rows_of)
    size = trees._TREE.SIZE
    return _made(trees, [_records(trees)[size * start : size * stop]], tables, **own)


def joined(parts: Sequence[Trees]) -> Trees:
    """Return the trees of all parts of a forest, which have learned the same samples."""
    first = parts[0]
    for part in parts:
        if (part.n_samples, part.n_inputs) != (first.n_samples, first.n_inputs):
            raise ValueError(
                f"parts have learned {first.n_samples} and {part.n_samples} samples of "
                f"{first.n_inputs} and {part.n_inputs} features"
            )
    points = [_points(part) for part in parts]
    values = [of_part[1] for of_part in points]
    own: dict[str, Any] = {}
    if _has_sets(first):
        name = "categories" if first.directions is None else "directions"
        own[name] = type(first.__dict__[name]).joined([part.__dict__[name] for part in parts])
    else:
        values = values[:1]
    rows = np.concatenate([points[0][0], *values, *(of_part[2] for of_part in points)], axis=1)
    tables = {"points": PackedRows([rows])}
    for name in ("nodes", "side_rows"):
        counts = [part._n_rows()[name] for part in parts]
        tables[name] = PackedRows(
            [
                part.__dict__[name].rows(t, n)
                for part, ns in zip(parts, counts, strict=True)
                for t, n in enumerate(ns)
            ]
        )
    return _made(first, [_records(part) for part in parts], tables, **own)
