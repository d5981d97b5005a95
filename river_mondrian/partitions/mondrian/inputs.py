"""From inputs to the values that trees cut: float32, scaled, in columns and in two frames.

Without directions and categories a column has scaled inputs. With them there are *sets* of values:
given directions make one for all trees, random directions and places of levels make one for each.
Points then keep their inputs, so that a column can be rewritten under other widths. The kernels of
sets are called by addresses in the forest's record.
"""

from __future__ import annotations

import math

from ...compiling.kernels import batch_kernel, inlined, kernel, rare, separate
from ...limits import DONE, LARGEST
from ...records import Float32s, Float64s, Int64s
from .constants import DRAWING, REBASING, STEADY
from .records import F, Forest, Point
from .transforms import clipped


@kernel
def find_too_large(forest: F, inputs: Float64s) -> int:
    """Return the first of a sample's inputs that single precision does not hold, or DONE."""
    levels = forest.levels
    for d in range(forest.n_inputs):
        if abs(inputs[d]) > LARGEST:
            # Codes of levels are larger.
            if levels and levels.is_category[d] == 1:
                continue
            return d
    return DONE


@inlined
def scale_to(forest: Forest, target: Float32s, inputs: Float64s, frame: int) -> int:
    """Write inputs scaled by a frame; returns DONE, or the first input that is too large."""
    bad = -1
    n_dims = forest.n_dims
    offsets, factors = forest.offsets(frame), forest.factors(frame)
    for d in range(n_dims):
        raw = inputs[d]
        if abs(raw) > LARGEST and bad < 0:
            bad = d
        target[d] = clipped((raw - offsets[d]) * factors[d])
    for d in range(n_dims, forest.dim_capacity):
        target[d] = forest.absent
    return bad


@separate
def scale_sets(forest: F, target: Float32s, inputs: Float64s) -> int:
    """Write the values of inputs for each tree that predicts; returns as `scale_to` does."""
    capacity, frame, oblique = forest.dim_capacity, forest.frame, forest.oblique
    if oblique:
        oblique.prepare(oblique, inputs, frame, 0)
        if forest.phase != STEADY:
            oblique.prepare(oblique, inputs, 1 - frame, 0)
    if forest.has_frames == 1:
        oblique.project(oblique, target.part(capacity * frame, capacity), inputs, 0, frame)
        if forest.phase != STEADY:
            other = 1 - frame
            oblique.project(oblique, target.part(capacity * other, capacity), inputs, 0, other)
        return find_too_large(forest, inputs)
    for s in range(forest.n_sets):
        tree = forest.trees[s]
        own = target.part(tree.first_value, capacity)
        if oblique:
            oblique.project(oblique, own, inputs, s, tree.frame)
        else:
            levels = forest.levels
            before = forest.trees[max(s - 1, 0)]
            if s == 0 or before.frame != tree.frame:
                scale_to(forest, own, inputs, tree.frame)
            else:
                known = target.part(before.first_value, capacity)
                for d in range(capacity):
                    own[d] = known[d]
            levels.place(levels, own, inputs, s)
    return find_too_large(forest, inputs)


@inlined
def write_column(forest: Forest, own: Float32s, inputs: Float64s, s: int, frame: int) -> None:
    """Write a set of a stored point's values in a frame, from its inputs."""
    oblique, levels = forest.oblique, forest.levels
    if oblique:
        oblique.prepare(oblique, inputs, frame, 1)
        oblique.project(oblique, own, inputs, s, frame)
    else:
        scale_to(forest, own, inputs, frame)
        levels.place(levels, own, inputs, s)


# Two frames: values of points under other widths, next to those that trees cut now.
#
# A *frame* is an offset and a factor for each input. A point has a column of values in either
# frame, c = float32((x - offset) * factor). While all trees are in one frame, the other column
# has the *remainders* instead, (x - offset) * factor - c: with those an input is known to about
# 48 bits, so that another frame's values are those of the input itself. When trees are redrawn in
# the other frame:
#
#     steady     values in the frame, remainders
#     moved      values in the frame, values in the other one; remainders in a row of their own
#     rebased    remainders in the other frame, values in it, which is the current one now
#
# The frame that remainders belong to is their *home*. A value thus costs four extra bytes, and
# four more while trees are redrawn.
#
# With directions or categories points have their inputs instead of remainders, since sums do not
# determine them, and a column for each tree leaves none for remainders. If all trees share a column
# (given directions), there are two columns, too. Otherwise each tree has a column, and so has the
# spare tree: a moved point has its values for the tree that is being redrawn. The spare tree
# replaces another tree together with its column. It then gets the other tree's column, for which
# all points are moved again.


@inlined
def home_of(forest: Forest) -> int:
    """Return the frame that remainders belong to; trees still are in it."""
    return 1 - forest.frame if forest.phase == REBASING else forest.frame


@inlined
def column_of(forest: Forest, point: Point, frame: int) -> Float32s:
    """Return a point's column of a frame."""
    capacity = forest.dim_capacity
    return Float32s(point, forest.values_word + capacity * frame, capacity)


@inlined
def remainders_of(forest: Forest, p: int) -> Float32s:
    """Return the row of a moved point's remainders."""
    return Float32s(forest.remainders.row(p), 0, forest.dim_capacity)


@inlined
def _scaled(forest: Forest, raw: float, d: int, frame: int) -> float:
    return (raw - forest.offsets(frame)[d]) * forest.factors(frame)[d]


@inlined
def _raw(forest: Forest, value: float, remainder: float, d: int, frame: int) -> float:
    """Return the input for a value and its remainder."""
    return (value + remainder) / forest.factors(frame)[d] + forest.offsets(frame)[d]


@separate
@rare
def move(forest: F, p: int) -> None:
    """Write a point's values for the tree that is redrawn.

    If there are frames, this is the column of the frame that is not home, and remainders get a row
    of their own.
    """
    forest.n_moved = max(forest.n_moved, p + 1)
    point = forest.points.row(p)
    if forest.keeps_inputs == 1:
        frame, inputs = 1 - forest.frame, forest.inputs_in(point)
        if forest.has_frames == 1:
            if forest.phase == DRAWING:
                write_column(forest, column_of(forest, point, frame), inputs, 0, frame)
        # Another part's tree, or a window's, has no values of its own here.
        elif forest.draws() and forest.n_slots > forest.n_trees:
            own = forest.values_in(forest.trees[forest.n_trees], point)
            write_column(forest, own, inputs, forest.turn(), frame)
        return
    home = home_of(forest)
    values, others = column_of(forest, point, home), column_of(forest, point, 1 - home)
    kept = remainders_of(forest, p)
    for d in range(forest.dim_capacity):
        remainder = others[d]
        kept[d] = remainder
        raw = _raw(forest, values[d], remainder, d, home)
        others[d] = clipped(_scaled(forest, raw, d, 1 - home))


@separate
@rare
def rebase(forest: F, p: int) -> None:
    """Write a moved point's remainders in the current frame to the column of the last frame."""
    if forest.keeps_inputs == 1:
        return
    home, frame = 1 - forest.frame, forest.frame
    point = forest.points.row(p)
    old, values = column_of(forest, point, home), column_of(forest, point, frame)
    kept = remainders_of(forest, p)
    for d in range(forest.dim_capacity):
        raw = _raw(forest, old[d], kept[d], d, home)
        old[d] = clipped(_scaled(forest, raw, d, frame) - values[d])


@batch_kernel
def read_inputs(forest: F, places: Int64s, n_places: int, out: Float64s) -> None:
    """Write the inputs of `n_places` points, `n_inputs` each; levels are left out."""
    n = forest.n_inputs
    for i in range(n_places):
        p, own = places[i], out.part(n * i, n)
        point = forest.points.row(p)
        if forest.keeps_inputs == 1:
            kept = forest.inputs_in(point)
            for d in range(n):
                own[d] = kept[d] if abs(kept[d]) <= LARGEST else math.nan
            continue
        is_rebased = forest.phase == REBASING and p < forest.taken
        home = 1 - home_of(forest) if is_rebased else home_of(forest)
        values, remainders = column_of(forest, point, home), column_of(forest, point, 1 - home)
        if forest.phase != STEADY and p < forest.n_moved and not is_rebased:
            remainders = remainders_of(forest, p)
        for d in range(n):
            own[d] = _raw(forest, values[d], remainders[d], d, home)


@inlined
def scale(forest: Forest, target: Float32s, inputs: Float64s) -> int:
    """Write the values of inputs; returns DONE, or the first input that is too large.

    Scaled values end at `FARTHEST`. Dimensions beyond the features in use get the value of a
    feature that is yet to come. With two frames, values in the other frame are written, too, while
    trees read them.
    """
    if forest.oblique or forest.levels:
        return scale_sets(forest, target, inputs)
    frame, capacity = forest.frame, forest.dim_capacity
    if forest.has_frames == 0:
        return scale_to(forest, target, inputs, frame)
    bad = scale_to(forest, target.part(capacity * frame, capacity), inputs, frame)
    if forest.phase != STEADY:
        other = 1 - frame
        scale_to(forest, target.part(capacity * other, capacity), inputs, other)
    return bad


@inlined
def has_missing(forest: Forest, values: Float32s) -> bool:
    """Return whether a row of values has a missing one."""
    # With several sets of directions, each lacks the values that the first one lacks.
    first = int(forest.trees[0].first_value)
    if forest.has_frames == 1:
        first = forest.dim_capacity * forest.frame
    for d in range(first, first + forest.n_dims):
        if values[d] != values[d]:
            return True
    return False


@inlined
def store_values(forest: Forest, inputs: Float64s, p: int) -> int:
    """Write the values of a learned sample's inputs to a point; returns as `scale` does.

    While the warm-up lasts, the inputs themselves are kept, too.
    """
    if forest.raw_values:
        n_inputs = forest.n_inputs
        row = forest.raw_values.part(forest.input_capacity * p, forest.input_capacity)
        for d in range(n_inputs):
            row[d] = inputs[d]
    point = forest.points.row(p)
    values = Float32s(point, forest.values_word, forest.n_values)
    has_remainders = forest.has_frames == 1 and forest.keeps_inputs == 0
    if has_remainders:
        home = home_of(forest)
        own, remainders = column_of(forest, point, home), column_of(forest, point, 1 - home)
        bad = scale_to(forest, own, inputs, home)
    else:
        bad = scale(forest, values, inputs)
    if bad < 0:
        # Values for the tree that is redrawn are computed from these.
        if has_remainders:
            for d in range(forest.n_dims):
                remainders[d] = clipped(_scaled(forest, inputs[d], d, home) - own[d])
        elif forest.keeps_inputs == 1:
            kept = forest.inputs_in(point)
            for d in range(forest.input_capacity):
                kept[d] = inputs[d] if d < forest.n_inputs else forest.absent
        if forest.phase != STEADY and p <= forest.n_moved:
            move(forest, p)
            # In a window the point may replace an older one.
            if forest.phase == REBASING and p < forest.taken:
                rebase(forest, p)
        if has_missing(forest, values):
            forest.has_missing = 1
        oblique = forest.oblique
        if oblique:
            # A value too large for one set of directions may be missing in that set only.
            for d in range(forest.n_values):
                if values[d] != values[d]:
                    forest.has_missing = 1
            oblique.learn(oblique, inputs)
    return bad


@batch_kernel
def store_rows(forest: F, rows: Float64s, n: int, first: int) -> None:
    """Write `n` rows of checked inputs as points `first`, `first + 1`, ..."""
    for i in range(n):
        capacity = forest.input_capacity
        store_values(forest, rows.part(capacity * i, capacity), first + i)


@batch_kernel
def scale_rows(forest: F, targets: Float32s, rows: Float64s, n: int) -> None:
    """Write the values of `n` rows of checked inputs."""
    for i in range(n):
        target = targets.part(forest.n_values * i, forest.n_values)
        capacity = forest.input_capacity
        scale(forest, target, rows.part(capacity * i, capacity))
