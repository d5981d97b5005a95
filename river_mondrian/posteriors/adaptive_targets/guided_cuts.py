"""Cuts that are chosen by targets: of several the one that lowers their variance most.

Half of the candidates have the law of Mondrian cuts but for the weights of dimensions. Of the other
half the dimension has, and the cut lies between the values that two points have there.
"""

from __future__ import annotations

from ...compiling.kernels import inlined, merged, separate
from ...partitions.mondrian.draws import uniform, uniform_cut
from ...partitions.mondrian.records import NONE
from ..rebuilt.candidates import GAIN_SAMPLE, draw_candidates, sum_sides
from ..rebuilt.records import Candidate
from .records import AdaptiveTargetForest, SidesOfCut, TargetsNode, TargetsTree

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
