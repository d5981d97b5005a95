"""Learning the targets of a sample: ridges, mixtures and the law, then the means of the trees."""

from __future__ import annotations

from ...compiling.kernels import inlined, separate
from ...learners.regression import error_law, lags, mixing, ridges
from ...partitions.mondrian.boxes import hold
from ...partitions.mondrian.leaves import side_of
from ...partitions.mondrian.records import EMPTY, LEFT, NONE, RIGHT, START
from ..rebuilt.paths import path_to
from ..rebuilt.splitting import push
from .records import (
    ERROR,
    RESIDUAL,
    RESIDUAL_OF,
    TARGET,
    AdaptiveTargetForest,
    TargetsNode,
    TargetsTree,
)
from .splitting import may_wait

# Fading of how many targets of late have been beyond the fences, and how many are too many.
FADING = 0.9
MOST_BEYOND = 3.0

# Least weight of the latest error in the mean size of errors.
LEAST_RATE = 0.001


@inlined
def fenced(forest: AdaptiveTargetForest, target: float) -> float:
    """Return a target within the fences, which open where many targets are beyond them."""
    low, high = forest.low_fence, forest.high_fence
    is_beyond = target < low or target > high
    forest.beyond = FADING * forest.beyond + (1.0 if is_beyond else 0.0)
    if forest.beyond > MOST_BEYOND:
        return target
    return min(max(target, low), high)


@separate
def score(forest: AdaptiveTargetForest) -> None:
    """Let ridges, mixtures and the law learn the accepted sample, which was predicted last."""
    weight, accepted = forest.accepted_weight, forest.accepted
    target = fenced(forest, accepted[TARGET])
    accepted[TARGET] = target
    # Nothing could have foreseen the first target.
    is_first = forest.n_samples == 0
    accepted[RESIDUAL] = 0.0 if is_first else target - forest.first.predicted[RESIDUAL_OF]
    accepted[ERROR] = 0.0 if is_first else target - forest.first_point
    mixing.learn(forest.first, target, weight)
    mixing.learn(forest.second, target, weight)
    size, late_size = forest.ridges.size, forest.ridges.late_size
    found = error_law.learn(
        forest.law, forest.point, forest.spread, size, late_size, target, weight
    )
    ridges.learn(forest.ridges, forest.inputs, target, weight, found)
    if forest.lags:
        lags.learn(forest.lags, target, weight)
    rate = max(1.0 / (1.0 + forest.n_samples), LEAST_RATE)
    forest.error_size += rate * (abs(target - forest.point) - forest.error_size)


@separate
def walk_down(forest: AdaptiveTargetForest, t: int, p: int) -> None:
    """Let a sample pass to its leaf from wherever it is; the tree is extended there by its walk.

    The path is that of the prediction, or found anew where the tree does not predict.
    """
    tree, path = forest.trees[t], forest.path_of(t)
    n = tree.path_length
    point = forest.points.row(p)
    if n == 0:
        n = path_to(forest, tree, forest.values_in(tree, point), path)
    tree.walk_parent = NONE
    tree.walk_time = 0.0
    for i in range(n - 1):
        ref = path[i].ref
        node = tree.nodes.row(ref)
        node.n_samples = node.n_samples + 1
        word = forest.values_word + tree.first_value
        hold(point, word, node.lower(forest, tree), node.upper(forest, tree), forest.n_dims)
        tree.walk_time = node.end_time(tree.walk_time)
        tree.walk_parent = ref
        tree.walk_side = LEFT if node.left == path[i + 1].ref else RIGHT
    tree.walk_ref = path[n - 1].ref


@inlined
def begin_walk(forest: AdaptiveTargetForest, t: int, p: int) -> None:
    """Let a tree take a point from its root, or where it is not extended from the point's leaf."""
    tree = forest.trees[t]
    tree.walk_ref = START
    if tree.extends == 0 and tree.walk_end > p and tree.root != EMPTY:
        walk_down(forest, t, p)


@inlined
def ensure_means(
    forest: AdaptiveTargetForest, tree: TargetsTree, t: int, node: TargetsNode, p: int
) -> None:
    """Let a row that is new on the path of point `p` know the samples before it."""
    if node.weight > 0.0:
        return
    k = tree.learns
    if node.dim < 0:
        # A leaf's row of two points.
        q = node.first_point
        while q != NONE:
            if q != p:
                node.add(forest.targets_of(q)[k], forest.points.row(q).weight)
            q = forest.links_of(q)[t]
        return
    other = node.right if node.left == ~p else node.left
    if other < 0:
        node.add(forest.targets_of(~other)[k], forest.points.row(~other).weight)
    else:
        node.copy_means(tree.nodes.row(other))


@separate
def update_tree(forest: AdaptiveTargetForest, t: int, p: int, n: int) -> None:
    """Add a point by which a tree has been extended to the means on its path of `n` entries.

    A leaf whose targets differ waits for its split.
    """
    tree, path = forest.trees[t], forest.path_of(t)
    point = forest.points.row(p)
    target, weight = point.targets[tree.learns], point.weight
    for i in range(n):
        ref = path[i].ref
        if ref < 0:
            return
        node = tree.nodes.row(ref)
        ensure_means(forest, tree, t, node, p)
        differs = target != node.mean
        node.add(target, weight)
        if differs and may_wait(tree, node):
            push(tree, ref)


@separate
def catch_up(forest: AdaptiveTargetForest, t: int, p: int) -> None:
    """Add a point to the means of a tree that is being split; leaves that wait make theirs then."""
    tree = forest.trees[t]
    x = forest.values_of(tree, p)
    point = forest.points.row(p)
    target, weight = point.targets[tree.learns], point.weight
    ref = tree.root
    while ref >= 0:
        node = tree.nodes.row(ref)
        ensure_means(forest, tree, t, node, p)
        differs = target != node.mean
        node.add(target, weight)
        if node.dim < 0:
            if differs and may_wait(tree, node):
                push(tree, ref)
            return
        ref = node.child(side_of(forest, tree, node, x))
