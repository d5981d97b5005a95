"""Finding a stored sample by what it has."""

from __future__ import annotations

import math

from ...compiling.kernels import inlined, kernel, merged, separate
from ...records import Float32s, Int64s, room_of_words
from .forgetting import is_inner
from .records import NONE, F, Forest
from .scaling import has_missing, scale
from .stored import clear_point, forget_stored

# How far values are apart, relatively and absolutely, that have been rounded otherwise: by the last
# bit or two of single precision, and of the 48 to which inputs are known, near an end of the range.
NEAR = 2.0**-22
NEAR_ZERO = 2.0**-32

_room_of_found = room_of_words(Int64s, 2)


@inlined
def _is_near(a: float, b: float) -> bool:
    """Tell whether two values are the same, but for rounding where widths have been renewed."""
    if a != a or b != b:
        return a != a and b != b
    return abs(a - b) <= NEAR * max(abs(a), abs(b)) + NEAR_ZERO


@inlined
def _equals(forest: Forest, p: int, is_exact: bool) -> bool:
    """Tell whether a stored point has the values in the forest's `row`, and the rest of the next.

    Where there are frames the values are those of the current one, else those of all sets.
    """
    point, sample = forest.points.row(p), forest.points.row(forest.n_points)
    if not point.is_like(sample):
        return False
    n_dims = forest.n_dims
    for s in range(forest.n_sets):
        first = int(forest.trees[s].first_value)
        if forest.has_frames == 1:
            first = forest.dim_capacity * forest.frame
        known = Float32s(point, forest.values_word + first, n_dims)
        values = forest.row.part(first, n_dims)
        for d in range(n_dims):
            a, b = known[d], values[d]
            if a != b and (is_exact or not _is_near(a, b)) and (a == a or b == b):
                return False
    return True


@merged
def _count_in_leaf(forest: Forest, most: int, out: Int64s) -> None:
    """Count the points in the leaf of the sample in `row`, which lacks nothing, that equal it.

    Writes how many, `most` at most, and the last of them.
    """
    tree = forest.trees[0]
    x = forest.row.part(tree.first_value, forest.dim_capacity)
    ref = int(tree.root)
    while is_inner(tree, ref):
        node = tree.nodes.row(ref)
        ref = node.left if x[node.dim] <= node.cut else node.right
    p = ~ref
    if ref >= 0:
        p = tree.nodes.row(ref).first_point
    while p != NONE and out[0] < most:
        if _equals(forest, p, True):
            out[0] = out[0] + 1
            out[1] = p
        p = NONE if ref < 0 else int(forest.links_of(p)[tree.slot])


@merged
def _count_among_all(forest: Forest, most: int, is_exact: bool, out: Int64s) -> None:
    """Count the points that equal the sample in `row`, or nearly, as `_count_in_leaf` does."""
    out[0] = 0
    p = 0
    while p < forest.n_points and out[0] < most:
        if _equals(forest, p, is_exact):
            out[0] = out[0] + 1
            out[1] = p
        p += 1


@separate
def find_equal(forest: F, most: int, out: Int64s) -> None:
    """Count the stored points that equal the sample in `inputs`, `most` at most.

    What it has besides stands where the next point will be. Writes how many, and the last of them.
    They are looked for in the leaf of the sample, or among all points where it lacks a value, since
    it may have gone elsewhere. Where widths have been renewed a value may have been rounded
    otherwise: if need be, those that are nearly equal are looked for then.
    """
    out[0] = 0
    out[1] = NONE
    if scale(forest, forest.row, forest.inputs) >= 0:
        return
    if has_missing(forest, forest.row):
        _count_among_all(forest, most, True, out)
    else:
        _count_in_leaf(forest, most, out)
    has_remainders = forest.has_frames == 1 and forest.keeps_inputs == 0
    if out[0] < most and has_remainders and forest.renewed_at_sample > 0:
        _count_among_all(forest, most, False, out)


@kernel
def count_equal(forest: F, most: int) -> int:
    """Return how many stored points equal the sample in `inputs` (see `find_equal`)."""
    found = _room_of_found()
    find_equal(forest, most, found)
    return found[0]


@kernel
def forget_equal(forest: F) -> int:
    """Forget a stored point that equals the sample in `inputs`; returns how many: 1, or 0.

    See `find_equal`.
    """
    found = _room_of_found()
    find_equal(forest, 1, found)
    if found[0] > 0:
        # Where it was written to be compared.
        clear_point(forest, forest.n_points)
        forget_stored(forest, found[1])
        for i in range(forest.n_values):
            forest.row[i] = 0.0
        for d in range(forest.n_inputs):
            forest.inputs[d] = math.nan
    return found[0]
