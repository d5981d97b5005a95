"""Leaves of trees that wait for their split, in a queue of each tree."""

from __future__ import annotations

from ...compiling.kernels import inlined, merged, separate
from ...partitions.mondrian.boxes import linear_dimension
from ...partitions.mondrian.records import COMPLETE, NONE, Tree
from ...partitions.mondrian.sampling import exponential, uniform, uniform_cut
from ...records import Array, Float32s, Float64s
from .records import LAST, LONG, RECENT, Candidate, R, RebuiltForest, RebuiltNode, RebuiltTree

# Cuts among which a guided one is chosen: from the Mondrian law, with weights of dimensions.
#
# The law of a cut in a block is that of Algorithm 2, lines 5 and 6: a dimension by the sides of
# the box, uniform within the side. Sides may be weighted by how much cuts in their dimension have
# gained before.


# Points of a block on which candidates are compared.
GAIN_SAMPLE = 256


@merged
def sum_sides(
    lower: Float32s, upper: Float32s, n_dims: int, weights: Float64s, sums: Float64s
) -> None:
    """Write the sums of a box's sides times weights up to each dimension."""
    total = 0.0
    for d in range(n_dims):
        side = upper[d] - lower[d]
        # A side without values is NaN.
        total += weights[d] * (side if side > 0.0 else 0.0)
        sums[d] = total


@merged
def draw_candidates(
    tree: Tree,
    lower: Float32s,
    upper: Float32s,
    sums: Float64s,
    n_dims: int,
    candidates: Array[Candidate],
    m: int,
) -> None:
    """Draw `m` cuts, each of which has the Mondrian law of sides with these sums.

    Dimensions are drawn by systematic sampling: one whose sides are a part of all gets as large a
    part of the cuts, rounded up or down. Where the cuts begin is drawn, too, since of several that
    are as good the first is kept.
    """
    step = sums[n_dims - 1] / m
    threshold = uniform(tree) * step
    place = int(uniform(tree) * m)
    d = 0
    for _ in range(m):
        while d < n_dims - 1 and sums[d] <= threshold:
            d += 1
        # Rounding may have reached the end, where sides can be empty.
        while not upper[d] > lower[d]:
            d -= 1
        place = place + 1 if place + 1 < m else 0
        candidate = candidates[place]
        candidate.dim = d
        candidate.cut = uniform_cut(tree, lower[d], upper[d])
        threshold += step


# Rows of either kind that a split may need; kinds may need more beside the nodes.
SPLIT_ROWS = 4


@inlined
def push(tree: RebuiltTree, j: int) -> None:
    """Put a leaf into the tree's queue."""
    first = tree.queue
    tree.nodes.row(j).next_waiting = LAST if first == NONE else first
    tree.queue = j


@inlined
def pop(tree: RebuiltTree) -> int:
    """Take the first leaf out of the tree's queue, which is not empty."""
    j = tree.queue
    node = tree.nodes.row(j)
    following = node.next_waiting
    tree.queue = NONE if following == LAST else following
    node.next_waiting = NONE
    return j


@inlined
def time_of_cut(forest: RebuiltForest, tree: RebuiltTree, node: RebuiltNode) -> float:
    """Draw when a leaf's block is cut, since its parent; 0 where it has no extent.

    Then it is complete.
    """
    rate = linear_dimension(node.lower(forest, tree), node.upper(forest, tree), forest.n_dims)
    if not rate > 0.0:
        node.dim = COMPLETE
        return 0.0
    return exponential(tree, rate)


@separate
def split_queued(forest: R, t: int, budget: int, last: int) -> int:
    """Split leaves that wait in a tree; returns what is left of the budget.

    A split costs its number of points. `last` is the latest of all points, or NONE for a tree that
    is being built.
    """
    tree = forest.trees[t]
    while budget > 0 and tree.queue != NONE:
        if tree.nodes.n_rows + SPLIT_ROWS > tree.nodes.capacity:
            return budget
        if tree.side_rows.n_rows + forest.split_room > tree.side_rows.capacity:
            return budget
        j = pop(tree)
        budget -= tree.nodes.row(j).n_samples
        forest.split(t, j, last)
    return budget


@merged
def split_all(forest: RebuiltForest, last: int) -> None:
    """Split leaves that wait in the trees that predict, each tree by a budget of its own."""
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        if tree.queue != NONE and tree.role in (LONG, RECENT):
            split_queued(forest, t, forest.split_budget(), last)
