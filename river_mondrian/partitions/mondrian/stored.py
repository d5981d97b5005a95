"""Stored samples: their numbers, their order of arrival, and how they are forgotten.

Points have the numbers 0, 1, ... without gaps. The last one takes the number of one that is
forgotten, and in a full window the new sample takes that of the oldest. A sample that is to be
forgotten is found by its values (`find_equal`).
"""

import math

from ...compiling.kernels import helper, inlined, kernel, merged, separate
from ...limits import TOO_LARGE
from ...records import Float32s, Float64s, Int32s, Int64s, room_of_words
from .constants import NONE, STEADY, UNLIMITED
from .forgetting import LANES, find_in_trees, is_inner, rename_point, room_of_descents, take_out
from .inputs import has_missing, remainders_of, scale
from .records import F, Forest


@inlined
def clear_point(forest: Forest, p: int) -> None:
    """Zero the row of a point that no tree holds any more, and its inputs in the warm-up."""
    n_words = forest.links_word + forest.n_slots
    words = Int32s(forest.points.row(p), 0, n_words)
    for i in range(n_words):
        words[i] = 0
    if forest.raw_values:
        inputs = forest.raw_values.part(forest.input_capacity * p, forest.input_capacity)
        for d in range(forest.input_capacity):
            inputs[d] = math.nan


@inlined
def let_follow(forest: Forest, older: int, newer: int) -> None:
    """Link two points in the order of arrival; NONE stands before the first and after the last."""
    if older == NONE:
        forest.first_arrival = newer
    else:
        forest.arrivals.row(older).newer = newer
    if newer == NONE:
        forest.last_arrival = older
    else:
        forest.arrivals.row(newer).older = older


@helper
def _move_to(forest: F, p: int, hole: int) -> None:
    """Move a point to the number of a forgotten one."""
    if p == hole:
        return
    n_words = forest.links_word + forest.n_slots
    words = Int32s(forest.points.row(p), 0, n_words)
    others = Int32s(forest.points.row(hole), 0, n_words)
    for i in range(n_words):
        others[i] = words[i]
    if forest.phase != STEADY and p < forest.n_moved and forest.keeps_inputs == 0:
        known, copied = remainders_of(forest, p), remainders_of(forest, hole)
        for d in range(forest.dim_capacity):
            copied[d] = known[d]
    if forest.raw_values:
        capacity = forest.input_capacity
        row = forest.raw_values.part(capacity * p, capacity)
        other = forest.raw_values.part(capacity * hole, capacity)
        for d in range(capacity):
            other[d] = row[d]
    if forest.window != UNLIMITED:
        own = forest.arrivals.row(p)
        older, newer = int(own.older), int(own.newer)
        let_follow(forest, older, hole)
        let_follow(forest, hole, newer)
    for t in range(forest.n_holding(p)):
        rename_point(forest, t, p, hole)


@separate
def forget_in_trees(forest: F, p: int) -> None:
    """Remove a stored point from all trees that hold it, and from the order of arrival."""
    descents = room_of_descents()
    n = forest.n_holding(p)
    for first in range(0, n, LANES):
        last = min(first + LANES, n)
        find_in_trees(forest, first, last, p, descents)
        for t in range(first, last):
            take_out(forest, t, p, descents[t - first].ref, descents[t - first].above)
    forest.forget_sample(p)
    if forest.window != UNLIMITED:
        own = forest.arrivals.row(p)
        let_follow(forest, own.older, own.newer)
    forest.n_forgotten = forest.n_forgotten + 1


@inlined
def next_point(forest: F, inputs: Float64s) -> int:
    """Return the number of the point at which a sample of checked size will be stored.

    It is the next number; in a full window it is that of the oldest sample, which this call
    forgets. Returns `TOO_LARGE - i` if the i-th input is too large; then nothing has changed.
    """
    if forest.n_points < forest.window:
        return forest.n_points
    bad = scale(forest, forest.row, inputs)
    if bad >= 0:
        return TOO_LARGE - bad
    p = int(forest.first_arrival)
    forget_in_trees(forest, p)
    forest.n_points = forest.n_points - 1
    return p


# Relative and absolute tolerances for values that have been rounded differently: by the last bit or
# two of single precision or, near an end of the range, of the 48 bits to which inputs are known.
NEAR = 2.0**-22
NEAR_ZERO = 2.0**-32

_room_of_found = room_of_words(Int64s, 2)


@inlined
def _equals(forest: Forest, p: int, is_exact: bool) -> bool:
    """Return whether a stored point equals the sample, whose fields are at the next point.

    The values in the forest's `row` are compared: in the current frame if there are frames,
    otherwise in all sets.
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
            is_same = a == b or (a != a and b != b)
            if not is_same and not is_exact:
                # Equal up to rounding, after a renewal of widths.
                is_same = abs(a - b) <= NEAR * max(abs(a), abs(b)) + NEAR_ZERO
            if not is_same:
                return False
    return True


@merged
def _count_among_all(forest: Forest, most: int, is_exact: bool, out: Int64s) -> None:
    """Count the points that equal the sample in `row`, or nearly; `out` is as for `find_equal`."""
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

    The sample's other fields are at the next point. Writes the count, and the last of these points.
    They are searched in the leaf of the sample, or among all points if it lacks a value, since it
    may have gone elsewhere. After a renewal of widths a value may have been rounded differently: if
    need be, nearly equal points are then searched.
    """
    out[0] = 0
    out[1] = NONE
    if scale(forest, forest.row, forest.inputs) >= 0:
        return
    if has_missing(forest, forest.row):
        _count_among_all(forest, most, True, out)
    else:
        tree = forest.trees[0]
        x = forest.row.part(tree.first_value, forest.dim_capacity)
        ref = int(tree.root)
        while is_inner(tree, ref):
            node = tree.nodes.row(ref)
            ref = node.left if x[node.dim] <= node.cut else node.right
        p = tree.nodes.row(ref).first_point if ref >= 0 else ~ref
        while p != NONE and out[0] < most:
            if _equals(forest, p, True):
                out[0] = out[0] + 1
                out[1] = p
            p = NONE if ref < 0 else int(forest.links_of(p)[tree.slot])
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

    See `find_equal`. Another point takes its number, so that numbers have no gaps. While trees are
    redrawn, points that the spare tree has taken come first, then those that have been moved. The
    last one of each group takes the free number, and its own number becomes free.
    """
    found = _room_of_found()
    find_equal(forest, 1, found)
    if found[0] == 0:
        return 0
    # The sample was written there to be compared.
    clear_point(forest, forest.n_points)
    hole = found[1]
    forget_in_trees(forest, hole)
    if forest.phase != STEADY:
        if hole < forest.taken:
            last = forest.taken - 1
            _move_to(forest, last, hole)
            forest.taken = last
            hole = last
        if hole < forest.n_moved:
            last = forest.n_moved - 1
            _move_to(forest, last, hole)
            if forest.keeps_inputs == 0:
                kept = remainders_of(forest, last)
                for d in range(forest.dim_capacity):
                    kept[d] = 0.0
            forest.n_moved = last
            hole = last
    last = forest.n_points - 1
    _move_to(forest, last, hole)
    clear_point(forest, last)
    forest.n_points = last
    # After a renewal `n_moved` keeps its last value.
    forest.n_moved = min(forest.n_moved, last)
    for i in range(forest.n_values):
        forest.row[i] = 0.0
    for d in range(forest.n_inputs):
        forest.inputs[d] = math.nan
    return 1
