"""Cuts among which a guided one is chosen: from the Mondrian law, with weights of dimensions.

The law of a cut in a block is that of Algorithm 2, lines 5 and 6: a dimension by the sides of the
box, uniform within the side. Sides may be weighted by how much cuts in their dimension have gained
before.
"""

from __future__ import annotations

from ...compiling.kernels import merged
from ...partitions.mondrian.draws import uniform, uniform_cut
from ...partitions.mondrian.records import Tree
from ...records import Array, Float32s, Float64s
from .records import Candidate

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
