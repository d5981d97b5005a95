"""Paths of samples down trees: which nodes they pass, and what a kind notes of these."""

from __future__ import annotations

from ...compiling.kernels import inlined, merged, separate
from ...partitions.mondrian.records import EMPTY, NONE
from ...partitions.mondrian.sampling import side_of
from ...records import Array, Float32s, Float64s, prefetch
from .records import DEEPEST, LONG, PATH_LENGTH, RECENT, PathEntry, R, RebuiltForest, RebuiltTree


@inlined
def _enter(forest: RebuiltForest, tree: RebuiltTree, entry: PathEntry, ref: int) -> None:
    """Note a reference and its row."""
    entry.ref = ref
    if ref >= 0:
        entry.place = tree.nodes.row(ref)
    else:
        entry.place = forest.points.row(~ref)


@inlined
def _goes_on(tree: RebuiltTree, entry: PathEntry, n: int) -> bool:
    """Tell whether a path of `n` entries goes on behind the last."""
    return entry.ref >= 0 and n < DEEPEST and tree.nodes.known(entry.place).dim >= 0


@inlined
def _child(forest: RebuiltForest, tree: RebuiltTree, entry: PathEntry, x: Float32s) -> int:
    """Return the reference to which a sample goes on."""
    node = tree.nodes.known(entry.place)
    return node.child(side_of(forest, tree, node, x))


@separate
def path_from(
    forest: RebuiltForest,
    tree: RebuiltTree,
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
        entry.note(forest, tree)
        n += 1
        if not _goes_on(tree, entry, n):
            return n
        ref = _child(forest, tree, entry, x)


@inlined
def path_to(forest: RebuiltForest, tree: RebuiltTree, x: Float32s, path: Array[PathEntry]) -> int:
    """Write a sample's path down a tree; returns how many entries it has."""
    return path_from(forest, tree, x, path, 0, tree.root)


@separate
def walk_all(forest: R) -> None:
    """Write the paths of the sample in the forest's `row` down all trees that predict.

    The trees are walked in lock-step, so that one tree's cache misses overlap another's. Paths of
    trees that do not predict have the length 0.
    """
    walking, paths = forest.walking, forest.paths
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
            entry.note(forest, tree)
            tree.path_length = depth + 1
            entry.fetch(forest)
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
    forest: RebuiltForest, tree: RebuiltTree, x: Float32s, path: Array[PathEntry], n: int
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


# The sample predicted last.


@inlined
def note_predicted(forest: RebuiltForest, inputs: Float64s) -> None:
    """Note that the last prediction is of these inputs."""
    for i in range(forest.n_inputs):
        forest.last_inputs[i] = inputs[i]
    forest.is_predicted = 1


@merged
def is_predicted(forest: RebuiltForest, inputs: Float64s) -> bool:
    """Tell whether the last prediction is of these inputs, by the trees as they are."""
    if forest.is_predicted == 0:
        return False
    last = forest.last_inputs
    for i in range(forest.n_inputs):
        # A missing value is the same as another one.
        if last[i] != inputs[i] and (last[i] == last[i] or inputs[i] == inputs[i]):
            return False
    return True
