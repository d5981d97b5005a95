"""Splitting the leaves of trees over targets: which wait, and what their children know."""

from __future__ import annotations

from ...compiling.kernels import inlined, merged, separate
from ...partitions.mondrian.records import NONE, PAUSED
from ...partitions.mondrian.sampling import part_leaf, uniform, uniform_cut
from ..rebuilt.records import Candidate
from ..rebuilt.splitting import GAIN_SAMPLE, draw_candidates, push, sum_sides, time_of_cut
from .records import KEPT, AdaptiveTargetForest, SidesOfCut, TargetsNode, TargetsTree

# Cuts that are chosen by targets: of several the one that lowers their variance most.
#
# Half of the candidates have the law of Mondrian cuts but for the weights of dimensions. Of the
# other half the dimension has, and the cut lies between the values that two points have there.


# Sides of a candidate: LEFT, RIGHT, and this for a missing value.
MISSING = 2


@merged
def _sample_block(forest: AdaptiveTargetForest, t: int, node: TargetsNode) -> int:
    """Write a sample of a block's points, evenly strided, to `block`; returns how many."""
    block = forest.block
    step = -(-node.n_samples // GAIN_SAMPLE)
    p = node.first_point
    i, n = 0, 0
    while p != NONE:
        if i % step == 0:
            block[n] = p
            n += 1
        i += 1
        p = forest.links_of(p)[t]
    return n


@merged
def _draw_between(forest: AdaptiveTargetForest, tree: TargetsTree, n: int, m: int) -> None:
    """Put every other candidate's cut between the values of two of the sampled points."""
    block, candidates = forest.block, forest.candidates
    for c in range(1, m, 2):
        candidate = candidates[c]
        p, q = block[int(uniform(tree) * n)], block[int(uniform(tree) * n)]
        a = forest.values_of(tree, p)[candidate.dim]
        b = forest.values_of(tree, q)[candidate.dim]
        if a < b:
            candidate.cut = uniform_cut(tree, a, b)
        elif b < a:
            candidate.cut = uniform_cut(tree, b, a)


@merged
def _add_up(forest: AdaptiveTargetForest, tree: TargetsTree, mean: float, n: int, m: int) -> None:
    """Add up how candidates part the sampled points, whose targets are taken from a mean."""
    candidates, sides, block = forest.candidates, forest.sides, forest.block
    for c in range(m):
        own = sides[c]
        for k in range(3):
            own.weights[k] = 0.0
            own.sums[k] = 0.0
    for i in range(n):
        point = forest.points.row(block[i])
        x = forest.values_in(tree, point)
        weight = point.weight
        moved = weight * (point.targets[tree.learns] - mean)
        for c in range(m):
            candidate, own = candidates[c], sides[c]
            v = x[candidate.dim]
            # Without a branch: no one could foresee it.
            k = int(v > candidate.cut) + MISSING * int(v != v)
            own.weights[k] = own.weights[k] + weight
            own.sums[k] = own.sums[k] + moved


@inlined
def gain_of(sides: SidesOfCut) -> float:
    """Return by how much a cut lowers the sum of squared deviations from the mean."""
    left, right = sides.weights[0], sides.weights[1]
    if left == 0.0 or right == 0.0:
        return 0.0
    a, b = sides.sums[0], sides.sums[1]
    # S_l^2 / n_l + S_r^2 / n_r - (S_l + S_r)^2 / (n_l + n_r).
    gap = a / left - b / right
    return gap * gap * (left * right / (left + right))


@separate
def draw_guided(forest: AdaptiveTargetForest, t: int, j: int) -> Candidate:
    """Draw candidates of a block's first cut; returns the one with the largest gain.

    The gain is added to those of its dimension.
    """
    tree = forest.trees[t]
    node = tree.nodes.row(j)
    n_dims, n_points = forest.n_dims, node.n_samples
    # Few points can be parted in few ways; two in one.
    m = min(forest.n_candidates, 3 * n_points - 5)
    lower, upper, sums = node.lower(forest, tree), node.upper(forest, tree), forest.side_sums
    candidates, sides = forest.candidates, forest.sides
    sum_sides(lower, upper, n_dims, forest.dim_weights, sums)
    draw_candidates(tree, lower, upper, sums, n_dims, candidates, m)
    n = _sample_block(forest, t, node)
    _draw_between(forest, tree, n, m)
    _add_up(forest, tree, node.mean, n, m)
    best, most = candidates[0], -1.0
    for c in range(m):
        gain = gain_of(sides[c])
        if gain > most:
            best, most = candidates[c], gain
    gains = forest.gains.part(n_dims * t, n_dims)
    # All points count as much as those in the sample.
    gains[best.dim] = gains[best.dim] + max(most, 0.0) * (n_points / n)
    return best


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
