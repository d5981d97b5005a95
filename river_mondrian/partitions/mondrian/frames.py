"""Two frames: values of points under other widths, next to those that trees cut now.

A *frame* is an offset and a factor for each input. A point has a column of values in either frame,
c = float32((x - offset) * factor). While all trees are in one frame, the other column has the
*remainders* instead, (x - offset) * factor - c: with those an input is known to about 48 bits,
so that another frame's values are those of the input itself. When trees are drawn anew in the other
frame:

    steady     values in the frame, remainders
    moved      values in the frame, values in the other one; remainders in a row of their own
    settled    remainders in the other frame, values in it, which is the current one now

The frame that remainders belong to is their *home*. So a value costs four bytes more than without,
and four more while trees are drawn anew.

With directions or categories points have their inputs instead of remainders (`columns`), since sums
do not tell them, and since a column for each tree leaves none for remainders. Where all trees share
a column, that of given directions, there are two of these, too. Else each tree has a column, and so
has the spare tree: a moved point has its values for the tree that is being drawn anew. The spare
tree takes the place of another one with its column, and goes on with that one's, for which all
points are moved again.
"""

from __future__ import annotations

import math

from ...compiling.kernels import batch_kernel, inlined, separate
from ...limits import LARGEST
from ...records import Float32s, Float64s, Int64s
from .columns import write_column
from .oblique import clipped
from .records import DRAWING, SETTLING, STEADY, F, Forest, Point


@inlined
def home_of(forest: Forest) -> int:
    """Return the frame that remainders belong to; trees still are in it."""
    return 1 - forest.frame if forest.phase == SETTLING else forest.frame


@inlined
def column_of(forest: Forest, point: Point, frame: int) -> Float32s:
    """Return a point's column of a frame."""
    capacity = forest.dim_capacity
    return Float32s(point, forest.values_word + capacity * frame, capacity)


@inlined
def _remainders(forest: Forest, p: int) -> Float32s:
    """Return the row of a moved point's remainders."""
    return Float32s(forest.remainders.row(p), 0, forest.dim_capacity)


@inlined
def _scaled(forest: Forest, raw: float, d: int, frame: int) -> float:
    return (raw - forest.offsets(frame)[d]) * forest.factors(frame)[d]


@inlined
def _raw(forest: Forest, value: float, remainder: float, d: int, frame: int) -> float:
    """Return an input of which a value and its remainder are known."""
    return (value + remainder) / forest.factors(frame)[d] + forest.offsets(frame)[d]


@inlined
def write_remainders(forest: Forest, inputs: Float64s, p: int) -> None:
    """Write the remainders of a point whose values at home have just been written."""
    home, absent = home_of(forest), forest.absent
    point = forest.points.row(p)
    values, remainders = column_of(forest, point, home), column_of(forest, point, 1 - home)
    for d in range(forest.n_dims):
        raw = inputs[d] if inputs[d] == inputs[d] else absent
        remainders[d] = clipped(_scaled(forest, raw, d, home) - values[d])


@inlined
def write_inputs(forest: Forest, inputs: Float64s, p: int) -> None:
    """Write the inputs of a point; what there is only room for is missing."""
    kept = forest.inputs_in(forest.points.row(p))
    for d in range(forest.input_capacity):
        kept[d] = inputs[d] if d < forest.n_inputs else math.nan


@inlined
def copy_remainders(forest: Forest, p: int, other: int) -> None:
    """Copy the row of a moved point's remainders to another point's, where it has one."""
    if forest.keeps_inputs == 1:
        return
    known, copied = _remainders(forest, p), _remainders(forest, other)
    for d in range(forest.dim_capacity):
        copied[d] = known[d]


@inlined
def clear_remainders(forest: Forest, p: int) -> None:
    """Overwrite a point's row of remainders, where it has one."""
    if forest.keeps_inputs == 1:
        return
    kept = _remainders(forest, p)
    for d in range(forest.dim_capacity):
        kept[d] = 0.0


@inlined
def _write_drawn(forest: Forest, p: int) -> None:
    """Write the values of a point that the tree which is drawn anew cuts.

    Those that only this tree has are left out where it is another part's, or has no spare tree.
    """
    point, frame = forest.points.row(p), 1 - forest.frame
    inputs = forest.inputs_in(point)
    if forest.has_frames == 1:
        if forest.phase == DRAWING:
            write_column(forest, column_of(forest, point, frame), inputs, 0, frame)
    elif forest.draws() and forest.n_slots > forest.n_trees:
        own = forest.values_in(forest.trees[forest.n_trees], point)
        write_column(forest, own, inputs, forest.turn(), frame)


@separate
def move(forest: F, p: int) -> None:
    """Give a point values for the tree that is drawn anew.

    Where there are frames these are all of the one that is not home, and remainders get a row of
    their own.
    """
    forest.n_moved = max(forest.n_moved, p + 1)
    if forest.keeps_inputs == 1:
        _write_drawn(forest, p)
        return
    home = home_of(forest)
    point = forest.points.row(p)
    values, others = column_of(forest, point, home), column_of(forest, point, 1 - home)
    kept = _remainders(forest, p)
    for d in range(forest.dim_capacity):
        remainder = others[d]
        kept[d] = remainder
        raw = _raw(forest, values[d], remainder, d, home)
        others[d] = clipped(_scaled(forest, raw, d, 1 - home))


@separate
def settle(forest: F, p: int) -> None:
    """Let a moved point have its remainders in the current frame, in the column of the last one."""
    if forest.keeps_inputs == 1:
        return
    home, frame = 1 - forest.frame, forest.frame
    point = forest.points.row(p)
    old, values = column_of(forest, point, home), column_of(forest, point, frame)
    kept = _remainders(forest, p)
    for d in range(forest.dim_capacity):
        raw = _raw(forest, old[d], kept[d], d, home)
        old[d] = clipped(_scaled(forest, raw, d, frame) - values[d])


@inlined
def put_among_moved(forest: Forest, p: int) -> None:
    """Bring a point whose values have just been written to where others around it are."""
    if p <= forest.n_moved:
        move(forest, p)
        # In a window it may be in place of an older one.
        if forest.phase == SETTLING and p < forest.taken:
            settle(forest, p)


@inlined
def _unscaled(forest: Forest, p: int, d: int) -> float:
    """Return an input of a point that has remainders, wherever these are."""
    home = home_of(forest)
    point = forest.points.row(p)
    if forest.phase == SETTLING and p < forest.taken:
        home = 1 - home
    elif forest.phase != STEADY and p < forest.n_moved:
        value = column_of(forest, point, home)[d]
        return _raw(forest, value, _remainders(forest, p)[d], d, home)
    value, remainder = column_of(forest, point, home)[d], column_of(forest, point, 1 - home)[d]
    return _raw(forest, value, remainder, d, home)


@batch_kernel
def read_inputs(forest: F, places: Int64s, n_places: int, out: Float64s) -> None:
    """Write the inputs of `n_places` points, `n_inputs` each; levels are left out."""
    n = forest.n_inputs
    for i in range(n_places):
        kept = forest.inputs_in(forest.points.row(places[i]))
        for d in range(n):
            if forest.keeps_inputs == 0:
                raw = _unscaled(forest, places[i], d)
            elif kept[d] == kept[d]:
                raw = kept[d] if abs(kept[d]) <= LARGEST else math.nan
            else:
                raw = forest.absent
            out[n * i + d] = raw
