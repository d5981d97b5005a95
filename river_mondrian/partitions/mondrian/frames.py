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
"""

from __future__ import annotations

from ...compiling.kernels import batch_kernel, inlined, separate
from ...records import Float32s, Float64s, Int64s
from .oblique import clipped
from .records import SETTLING, F, Forest, Point


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
def copy_remainders(forest: Forest, p: int, other: int) -> None:
    """Copy the row of a moved point's remainders to another point's."""
    known, copied = _remainders(forest, p), _remainders(forest, other)
    for d in range(forest.dim_capacity):
        copied[d] = known[d]


@inlined
def clear_remainders(forest: Forest, p: int) -> None:
    """Overwrite a point's row of remainders."""
    kept = _remainders(forest, p)
    for d in range(forest.dim_capacity):
        kept[d] = 0.0


@separate
def move(forest: F, p: int) -> None:
    """Give a point values in the frame that is not home; its remainders get a row of their own."""
    home = home_of(forest)
    point = forest.points.row(p)
    values, others = column_of(forest, point, home), column_of(forest, point, 1 - home)
    kept = _remainders(forest, p)
    for d in range(forest.dim_capacity):
        remainder = others[d]
        kept[d] = remainder
        raw = _raw(forest, values[d], remainder, d, home)
        others[d] = clipped(_scaled(forest, raw, d, 1 - home))
    forest.n_moved = max(forest.n_moved, p + 1)


@separate
def settle(forest: F, p: int) -> None:
    """Let a moved point have its remainders in the current frame, in the column of the last one."""
    home, frame = 1 - forest.frame, forest.frame
    point = forest.points.row(p)
    old, values = column_of(forest, point, home), column_of(forest, point, frame)
    kept = _remainders(forest, p)
    for d in range(forest.dim_capacity):
        raw = _raw(forest, old[d], kept[d], d, home)
        old[d] = clipped(_scaled(forest, raw, d, frame) - values[d])


@inlined
def put_among_moved(forest: Forest, p: int) -> None:
    """Bring a point whose remainders have just been written to where others around it are."""
    if p <= forest.n_moved:
        move(forest, p)
        # In a window it may be in place of an older one.
        if forest.phase == SETTLING and p < forest.taken:
            settle(forest, p)


@batch_kernel
def read_inputs(forest: F, places: Int64s, n_places: int, out: Float64s) -> None:
    """Write the inputs of `n_places` points, `n_inputs` each, while all trees are in one frame."""
    frame, n = forest.frame, forest.n_inputs
    for i in range(n_places):
        point = forest.points.row(places[i])
        values, remainders = column_of(forest, point, frame), column_of(forest, point, 1 - frame)
        for d in range(n):
            out[n * i + d] = _raw(forest, values[d], remainders[d], d, frame)
