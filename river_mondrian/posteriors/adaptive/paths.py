"""Paths of samples down adaptive trees: which nodes they pass, and where these have statistics."""

from __future__ import annotations

from ...compiling.kernels import inlined, merged, separate
from ...partitions.mondrian.leaves import side_of
from ...partitions.mondrian.records import EMPTY, NONE
from ...records import Array, Float32s, prefetch
from .records import (
    DEEPEST,
    LONG,
    PATH_LENGTH,
    RECENT,
    AdaptiveForest,
    AdaptiveTree,
    PathEntry,
)


@inlined
def _enter(forest: AdaptiveForest, tree: AdaptiveTree, entry: PathEntry, ref: int) -> None:
    """Note a reference and its row."""
    entry.ref = ref
    if ref >= 0:
        entry.place = tree.nodes.row(ref)
    else:
        entry.place = forest.points.row(~ref)


@inlined
def _note_statistics(tree: AdaptiveTree, entry: PathEntry) -> None:
    """Note the statistics of the node that an entry has come to."""
    entry.statistics = tree.side_rows.none()
    if entry.ref >= 0:
        entry.statistics = tree.nodes.known(entry.place).statistics(tree)


@inlined
def _goes_on(tree: AdaptiveTree, entry: PathEntry, n: int) -> bool:
    """Tell whether a path of `n` entries goes on behind the last."""
    return entry.ref >= 0 and n < DEEPEST and tree.nodes.known(entry.place).dim >= 0


@inlined
def _child(forest: AdaptiveForest, tree: AdaptiveTree, entry: PathEntry, x: Float32s) -> int:
    """Return the reference to which a sample goes on."""
    node = tree.nodes.known(entry.place)
    return node.child(side_of(forest, tree, node, x))


@separate
def path_from(
    forest: AdaptiveForest,
    tree: AdaptiveTree,
    x: Float32s,
    path: Array[PathEntry],
    n: int,
    ref: int,
) -> int:
    """Write a sample's path down a tree from a reference on, behind `n` entries.

    Returns how many entries there are then.
    """
    while True:
        entry = path[n]
        _enter(forest, tree, entry, ref)
        _note_statistics(tree, entry)
        n += 1
        if not _goes_on(tree, entry, n):
            return n
        ref = _child(forest, tree, entry, x)


@inlined
def path_to(forest: AdaptiveForest, tree: AdaptiveTree, x: Float32s, path: Array[PathEntry]) -> int:
    """Write a sample's path down a tree; returns how many entries it has."""
    return path_from(forest, tree, x, path, 0, tree.root)


@separate
def walk_all(forest: AdaptiveForest) -> None:
    """Write the paths of the sample in the forest's `row` down all trees that predict.

    The trees are walked in lock-step, so that one tree's cache misses overlap another's. Paths of
    trees that do not predict have the length 0.
    """
    walking, paths = forest.walking, forest.paths
    n_words = forest.statistics_words
    n_walking = 0
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        tree.path_length = 0
        if tree.role in (LONG, RECENT) and tree.root != EMPTY:
            _enter(forest, tree, paths[PATH_LENGTH * t], tree.root)
            walking[n_walking] = t
            n_walking += 1
    depth = 0
    while n_walking > 0:
        still = 0
        for i in range(n_walking):
            t = walking[i]
            tree = forest.trees[t]
            entry = paths[PATH_LENGTH * t + depth]
            _note_statistics(tree, entry)
            tree.path_length = depth + 1
            if entry.statistics:
                prefetch(entry.statistics, n_words)
            if _goes_on(tree, entry, depth + 1):
                x = forest.row.part(tree.first_value, forest.dim_capacity)
                child = _child(forest, tree, entry, x)
                below = paths[PATH_LENGTH * t + depth + 1]
                _enter(forest, tree, below, child)
                prefetch(below.place, forest.node_words if child >= 0 else forest.links_word)
                walking[still] = t
                still += 1
        n_walking = still
        depth += 1


@merged
def path_of_grown(
    forest: AdaptiveForest, tree: AdaptiveTree, x: Float32s, path: Array[PathEntry], n: int
) -> int:
    """Write the path of a point by which a tree has just grown; returns how many entries it has.

    `n` entries are of its path before: down to where the walk ended they are so still.
    """
    parent = tree.walk_parent
    while parent != NONE and n > 0:
        entry = path[n - 1]
        if entry.ref == parent:
            child = tree.nodes.known(entry.place).child(tree.walk_side)
            return path_from(forest, tree, x, path, n, child)
        n -= 1
    return path_to(forest, tree, x, path)
