"""Splitting the leaves of trees over targets: which wait, and what their children know."""

from __future__ import annotations

from ...compiling.kernels import inlined, merged, separate
from ...partitions.mondrian.records import NONE, PAUSED
from ...partitions.mondrian.sampling import part_leaf
from ..rebuilt.splitting import push, time_of_cut
from .guided_cuts import draw_guided
from .records import KEPT, AdaptiveTargetForest, TargetsNode, TargetsTree

# Samples of a block that is split, at least; and samples of a tree for which it has one more.
SMALLEST_BLOCK = 2
SAMPLES_OF_ONE = 2048


@merged
def _is_newest_first(forest: AdaptiveTargetForest, t: int, node: TargetsNode) -> bool:
    """Tell in which order of age a leaf's list is: each split turns it round."""
    window, now = forest.window_capacity, forest.n_samples
    p = node.first_point
    q = forest.links_of(p)[t]
    return q == NONE or (now - p) % window < (now - q) % window


@separate
def make_means(forest: AdaptiveTargetForest, t: int, j: int) -> bool:
    """Make the means of a leaf's row from its points; tells whether its targets differ.

    The late mean takes the points in the order of the list.
    """
    tree = forest.trees[t]
    node, k = tree.nodes.row(j), tree.learns
    p = node.first_point
    if p == NONE:
        return False
    newest_first = _is_newest_first(forest, t, node)
    start = forest.targets_of(p)[k]
    weight, moved, late_weight, late_moved, unit = 0.0, 0.0, 0.0, 0.0, 1.0
    differs = False
    while p != NONE:
        point = forest.points.row(p)
        own, gap = point.weight, point.targets[k] - start
        differs = differs or gap != 0.0
        weight += own
        moved += own * gap
        if newest_first:
            late_weight += unit * own
            late_moved += unit * own * gap
            unit *= KEPT
        else:
            late_weight = KEPT * late_weight + own
            late_moved = KEPT * late_moved + own * gap
        p = forest.links_of(p)[t]
    node.weight = weight
    node.mean = start + moved / weight
    node.late_weight = late_weight
    node.late_mean = start + late_moved / late_weight
    return differs


@inlined
def may_wait(tree: TargetsTree, node: TargetsNode) -> bool:
    """Tell whether a row is a leaf that may be put into the queue: it is not too small.

    In a tree of so many samples that leaves of a few have hardly anything to say, they are not
    split: that would take most of the memory.
    """
    n = tree.nodes.row(tree.root).n_samples
    is_large = node.n_samples >= SMALLEST_BLOCK + n // SAMPLES_OF_ONE
    return is_large and node.dim == PAUSED and node.next_waiting == NONE


@separate
def enqueue_differing(forest: AdaptiveTargetForest, t: int, ref: int) -> None:
    """Make the means of what is at a reference; a leaf whose targets differ waits for its split."""
    tree = forest.trees[t]
    if ref >= 0 and make_means(forest, t, ref) and may_wait(tree, tree.nodes.row(ref)):
        push(tree, ref)


@separate
def split(forest: AdaptiveTargetForest, t: int, j: int) -> None:
    """Cut a leaf's block by a guided cut, and let its children wait for theirs."""
    tree = forest.trees[t]
    node = tree.nodes.row(j)
    time = time_of_cut(forest, tree, node)
    if time == 0.0:
        return
    chosen = draw_guided(forest, t, j)
    weight, mean, late_weight, late_mean = (
        node.weight,
        node.mean,
        node.late_weight,
        node.late_mean,
    )
    part_leaf(forest, tree, t, j, chosen.dim, chosen.cut, time, 0.0)
    node.weight = weight
    node.mean = mean
    node.late_weight = late_weight
    node.late_mean = late_mean
    for side in range(2):
        enqueue_differing(forest, t, node.child(side))
