"""The one routine for distances, so that every search for a nearest point gives the same one.

Ties are common (on binary data in half of the searches), and a tie that rounding breaks one way in
one search and another way in the next makes the cells depend on how they were found. So the sum is
fixed to the last bit: differences in single precision, whose squares are exact in double precision
(whether or not the processor fuses multiplication and addition); eight partial sums, the j-th
square added to the one of number j modulo 8 in ascending order; and those summed as a tree. A term
of zero changes nothing, so that a sparse sum over the others is the same number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...records import Float32s
from ...records.compiled import lowered, pointer_to
from .vectors import DOUBLES, LANES, SINGLES, groups_of, load, loop, sum_as_tree, sum_lanes, zero


def _squared_distance(context: Any, builder: Any, a: Any, b: Any, width: Any) -> Any:
    first, second = (pointer_to(builder, row, SINGLES) for row in (a, b))

    def add(i: Any, total: Any) -> list[Any]:
        difference = builder.fsub(load(builder, first, i), load(builder, second, i))
        gap = builder.fpext(difference, DOUBLES)
        return [builder.fadd(total, builder.fmul(gap, gap))]

    (sums,) = loop(builder, groups_of(builder, width), [zero(DOUBLES)], add)
    return sum_lanes(builder, sums)


@lowered(_squared_distance)
def squared_distance(a: Float32s, b: Float32s, width: int) -> float:
    """Return the squared Euclidean distance of two rows, padded to a multiple of `LANES`."""
    sums = [0.0] * LANES
    for j in range(width):
        gap = np.float64(np.float32(a[j]) - np.float32(b[j]))
        sums[j % LANES] += gap * gap
    return sum_as_tree(sums)
