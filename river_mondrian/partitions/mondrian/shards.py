"""Shards of a forest: groups of trees that learn separately and are then joined.

After the warm-up a tree depends only on the samples and its own random state. So a tree's nodes are
the same in a shard as in the whole forest. The data that all trees share (points, scaling,
features, classes) depend only on the samples, so every shard has the same data. Every shard has the
same schedule of redraws. A shard stores the number of trees in the whole forest, and the index of
its first tree in the whole forest. The spare tree belongs to the shard whose tree it will replace.

Two draws are made for all trees together. Keys for places of levels (`transforms`) are drawn with
the first category. Coefficients of random directions are drawn with each new feature. So the whole
forest learns a sample that needs such a draw, and is divided afterwards.
"""

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...records import Memory
from ...records.memory import PackedRows
from .constants import EMPTY, NONE
from .tree_store import TABLES, TreeStore

Trees = TypeVar("Trees", bound=TreeStore[Any])

# For each table, the field of `Tree` that refers to the first free row.
FREE_ROWS = {"nodes": "free_row", "boxes": "free_box", "side_rows": "free_side_row"}


class _Rows(NamedTuple):
    """The data of some of a forest's trees: records, tables, and parts of the points' rows."""

    records: NDArray[np.uint8]
    # The rows of each tree in each table.
    tables: dict[str, list[NDArray[np.int32]]]
    # Parts of the points' rows: the subclass's fields, these trees' columns of values, the inputs,
    # and a link for each tree.
    points: NDArray[np.int32]
    columns: NDArray[np.int32]
    inputs: NDArray[np.int32]
    links: NDArray[np.int32]


def _read(trees: TreeStore[Any], start: int, stop: int) -> _Rows:
    """Return the data of the trees `start` to `stop` - 1. Spare trees are the last trees."""
    forest, counts, size = trees.forest, trees._n_rows(), trees._TREE.SIZE
    slots = trees.trees.words["slot"][start:stop].tolist()
    tables = {
        name: [trees.__dict__[name].rows(slot, counts[name][slot]) for slot in slots]
        for name in TABLES
    }
    rows = trees.points.rows(0, trees.n_points)
    ends = [int(word) for word in (forest.columns_word, forest.inputs_word, forest.links_word)]
    points, columns, inputs, links = np.split(rows, ends, axis=1)
    if trees._has_own_columns:
        firsts = trees.trees.words["first_value"][start:stop]
        columns = columns[:, (firsts[:, None] + np.arange(forest.dim_capacity)).ravel()]
    # `__getstate__` is used, because the state of a `Memory` excludes addresses.
    records = trees.trees.__getstate__()["bytes"][size * start : size * stop]
    return _Rows(records, tables, points, columns, inputs, links[:, slots])


def _read_spare(trees: TreeStore[Any]) -> list[_Rows]:
    """Return the data of the spare trees, if there are any."""
    n, n_slots = trees.n_trees, len(trees.trees)
    return [_read(trees, n, n_slots)] if n_slots > n else []


def _made(like: Trees, first_tree: int, rows: Sequence[_Rows], **transform: Any) -> Trees:
    """Return trees with the given rows and a copy of all other data of `like`.

    The first tree has the index `first_tree` in the whole forest. The last trees are spare trees,
    as many as in `like`.
    """
    records = np.concatenate([group.records for group in rows])
    memory = Memory(like._TREE, len(records) // like._TREE.SIZE)
    memory.bytes[:] = records
    memory.words["slot"] = np.arange(len(memory))
    n = len(memory) - (len(like.trees) - like.n_trees)
    if like._has_own_columns:
        memory.words["first_value"] = int(like.forest.dim_capacity) * np.arange(len(memory))
    shared = copy.deepcopy(like.shared)
    shared[0].n_trees, shared[0].first_tree = n, first_tree
    tables = {name: [table for group in rows for table in group.tables[name]] for name in TABLES}
    if not shared[0].is_redrawing():
        # A spare tree has rows only during a redraw.
        memory.words["root"][n:] = EMPTY
        for name in TABLES:
            memory.words[f"{name}.n_rows"][n:] = 0
            memory.words[FREE_ROWS[name]][n:] = NONE
            tables[name][n:] = [table[:0] for table in tables[name][n:]]
    columns = [group.columns for group in rows] if like._has_own_columns else [rows[0].columns]
    links = [group.links for group in rows]
    tables["points"] = [np.concatenate([rows[0].points, *columns, rows[0].inputs, *links], axis=1)]
    attributes = {name: PackedRows(table) for name, table in tables.items()}
    attributes |= transform | {"trees": memory, "shared": shared}
    rest = {name: value for name, value in like.__getstate__().items() if name not in attributes}
    copied = copy.deepcopy(rest)
    trees = type(like).__new__(type(like))
    # The attributes keep their order, because the bytes of a saved file depend on the order.
    state = {name: copied.get(name, attributes.get(name)) for name in like.__getstate__()}
    trees._restore(state)
    return trees


def shard_of(trees: Trees, start: int, stop: int) -> Trees:
    """Return copies of the trees `start` to `stop` - 1 as a shard.

    The trees must have learned the samples that set ranges and hyperparameters (`splits_at`).
    """
    transform: dict[str, Any] = {}
    if trees._has_own_columns:
        name = "categories" if trees.directions is None else "directions"
        transform[name] = trees.__dict__[name].part(start, stop)
    rows = [_read(trees, start, stop), *_read_spare(trees)]
    return _made(trees, int(trees.forest.first_tree) + start, rows, **transform)


def joined(shards: Sequence[Trees]) -> Trees:
    """Join the trees of consecutive shards in order. The shards have learned the same samples."""
    first = shards[0]
    n = int(first.forest.first_tree)
    for shard in shards:
        if (shard.n_samples, shard.n_inputs) != (first.n_samples, first.n_inputs):
            raise ValueError(
                f"shards have learned {first.n_samples} and {shard.n_samples} samples of "
                f"{first.n_inputs} and {shard.n_inputs} features"
            )
        if shard.forest.first_tree != n:
            raise ValueError(f"tree {n} is to follow, but got tree {shard.forest.first_tree}")
        n += shard.n_trees
    transform: dict[str, Any] = {}
    if first._has_own_columns:
        name = "categories" if first.directions is None else "directions"
        transform[name] = type(first.__dict__[name]).joined([s.__dict__[name] for s in shards])
    rows = [_read(shard, 0, shard.n_trees) for shard in shards]
    # The spare tree comes from the shard whose tree is being redrawn.
    drawing = next((shard for shard in shards if shard.forest.is_redrawing()), first)
    return _made(first, int(first.forest.first_tree), [*rows, *_read_spare(drawing)], **transform)
