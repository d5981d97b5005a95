"""Splits of leaves: candidates for the cut of a leaf, and the queue of splits.

Candidates are drawn from the Mondrian distribution. The dimension of a cut is drawn in proportion
to the box's sides (Lakshminarayanan, Roy and Teh 2014, Algorithm 2, lines 6 and 7). The position is
then uniform within the side. The sides may be weighted by the gains of earlier cuts in the same
dimension.
"""

from ...compiling.kernels import always_inline, inline_in_source, link_by_name
from ...partitions.mondrian import boxes, sampling
from ...partitions.mondrian.constants import COMPLETE, NONE
from ...partitions.mondrian.records import Tree
from ...records import Array, Float32s, Float64s
from .forest import LAST, Candidate, R, RebuiltTree

# Approximate size of the subset of a leaf's points on which candidates are compared.
GAIN_SAMPLE = 256


@inline_in_source
def draw_candidates(
    tree: Tree,
    lower: Float32s,
    upper: Float32s,
    weights: Float64s,
    sums: Float64s,
    n_dims: int,
    candidates: Array[Candidate],
    m: int,
) -> None:
    """Draw `m` cuts, each from the Mondrian distribution of a box with weighted sides.

    Dimensions are drawn by systematic sampling: each dimension's number of cuts is proportional to
    the dimension's weighted side, rounded up or down. The index of the first cut in `candidates` is
    random, since the first of equally good cuts is kept. `sums` is a buffer with an element for
    each dimension.
    """
    total = 0.0
    for d in range(n_dims):
        side = upper[d] - lower[d]
        # A side without values is NaN, and has the weight 0.
        total += weights[d] * (side if side > 0.0 else 0.0)
        sums[d] = total
    step = total / m
    threshold = sampling.uniform(tree) * step
    k = int(sampling.uniform(tree) * m)
    d = 0
    for _ in range(m):
        while d < n_dims - 1 and sums[d] <= threshold:
            d += 1
        # Rounding may lead to a last dimension with an empty side, so an earlier dimension is
        # chosen.
        while not upper[d] > lower[d]:
            d -= 1
        k = k + 1 if k + 1 < m else 0
        candidate = candidates[k]
        candidate.dim = d
        candidate.cut = sampling.uniform_cut(tree, lower[d], upper[d])
        threshold += step


@link_by_name
def draw_guided(forest: R, t: int, j: int) -> Candidate:
    """Draw candidates for the cut of a leaf, and return the candidate with the largest gain.

    The gain is added to the gains of the candidate's dimension.
    """
    tree = forest.trees[t]
    node, n_dims, candidates = tree.nodes.row(j), forest.n_dims, forest.cuts.candidates
    # Few points need few candidates: two points can be separated in only one way.
    m = min(forest.cuts.n_candidates, 3 * node.n_samples - 5)
    lower, upper = node.lower(forest, tree), node.upper(forest, tree)
    weights, sums = forest.cuts.dim_weights, forest.cuts.side_sums
    draw_candidates(tree, lower, upper, weights, sums, n_dims, candidates, m)
    n, factor = forest.weigh_cuts(t, j, m)
    best, most = candidates[0], -1.0
    for c in range(m):
        gain = forest.gain_of(c, node.n_samples, n)
        if gain > most:
            best, most = candidates[c], gain
    gains = forest.cuts.gains.part(n_dims * t, n_dims)
    # Scale the gain from the subset of points to all points.
    gains[best.dim] = gains[best.dim] + max(most, 0.0) * factor
    return best


# Largest number of node rows that a split needs, and the default for side rows (rows of
# statistics).
ROWS_OF_SPLIT = 4
# Budget of a call for the splits of one tree, in points.
SPLIT_BUDGET = 400


@always_inline
def push(tree: RebuiltTree, j: int) -> None:
    """Add a leaf to the front of the tree's queue."""
    first = tree.queue
    tree.nodes.row(j).next_waiting = LAST if first == NONE else first
    tree.queue = j


@link_by_name
def split_queued(forest: R, t: int, budget: int, last: int) -> int:
    """Split leaves in a tree's queue while the budget is positive; return the remaining budget.

    The cost of a split is the leaf's number of points. If the tree lacks rows, the splits stop
    early. `last` is the latest stored point, or NONE for a tree that is being built.
    """
    tree = forest.trees[t]
    while budget > 0 and tree.queue != NONE:
        if tree.lacks_rows(ROWS_OF_SPLIT, forest.build.side_rows_of_split):
            return budget
        j = tree.queue
        node = tree.nodes.row(j)
        following = node.next_waiting
        tree.queue = NONE if following == LAST else following
        node.next_waiting = NONE
        budget -= node.n_samples
        rate = boxes.linear_dimension(
            node.lower(forest, tree), node.upper(forest, tree), forest.n_dims
        )
        if rate > 0.0:
            time = sampling.exponential(tree, rate)
            forest.split(t, j, draw_guided(forest, t, j), time, last)
        else:
            # All sides of the leaf's box are empty, so the leaf is never cut.
            node.dim = COMPLETE
    return budget
