"""Values along cut directions: an axis-aligned partition of U x is an oblique one of x.

See O'Reilly and Tran, Theorem 3.1. A missing input that is unknown counts as the mean of those
learned so far then, and a direction is missing where all of its inputs are. What is here is
compiled only where there are directions: a forest's record holds the addresses of these kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...compiling.kernels import inlined, merged, separate
from ...limits import FARTHEST, LARGEST
from ...records import Array, Float32s, Float64, Float64s, Int64, Record, entry
from ...status import DONE


class Moments(Record):
    """The scaled values that an input has had so far."""

    n: Float64
    mean: Float64
    least: Float64
    largest: Float64


class ObliqueTransform(Record):
    """The cut directions of a forest, and what it takes to apply them to a sample."""

    # Sets of directions: one for all trees, or one for each.
    n_sets: Int64
    # Whether each direction has an input at all.
    is_whole: Int64
    n_inputs: Int64
    input_capacity: Int64
    n_directions: Int64
    # What a missing input counts as (see `Forest`).
    absent: Float64
    # Shape (sets, room for inputs, directions).
    coefficients: Float64s
    moments: Array[Moments]
    offsets: Float64s
    factors: Float64s
    # Room for a sample's scaled inputs, and for a set's values.
    inputs: Float64s
    projected: Float64s
    apply: Callable[[ObliqueTransform, Float32s, Float64s], int] = entry()
    learn: Callable[[ObliqueTransform, Float64s], int] = entry()


@inlined
def clipped(v: float) -> float:
    """Return a value that float32 holds; NaN stays."""
    # Comparisons that NaN passes through.
    v = FARTHEST if v > FARTHEST else v
    return -FARTHEST if v < -FARTHEST else v


@merged
def _has_input(coefficients: Float64s, inputs: Float64s, n_inputs: int, n: int, r: int) -> bool:
    """Tell whether the r-th of `n` directions has an input that is there."""
    for d in range(n_inputs):
        v = inputs[d]
        if v == v and coefficients[d * n + r] != 0.0:
            return True
    return False


@separate
def apply_directions(oblique: ObliqueTransform, target: Float32s, inputs: Float64s) -> int:
    """Scale inputs and write their values along all directions.

    Returns DONE, or the first input that is too large.
    """
    scaled, projected = oblique.inputs, oblique.projected
    n_inputs, n = oblique.n_inputs, oblique.n_directions
    bad = -1
    lacks = oblique.is_whole == 0 and oblique.absent != oblique.absent
    for d in range(n_inputs):
        raw = inputs[d] if inputs[d] == inputs[d] else oblique.absent
        if abs(raw) > LARGEST and bad < 0:
            bad = d
        v = (raw - oblique.offsets[d]) * oblique.factors[d]
        if v != v:
            lacks = True
            v = oblique.moments[d].mean
        scaled[d] = v
    set_size = n * oblique.input_capacity
    for s in range(oblique.n_sets):
        coefficients = oblique.coefficients.part(set_size * s, set_size)
        for r in range(n):
            projected[r] = 0.0
        for d in range(n_inputs):
            v = scaled[d]
            own = coefficients.part(n * d, n)
            for r in range(n):
                projected[r] = projected[r] + own[r] * v
        for r in range(n):
            v = projected[r]
            if lacks and not _has_input(coefficients, inputs, n_inputs, n, r):
                v = math.nan
            target[s * n + r] = clipped(v)
    return bad


@separate
def learn_moments(oblique: ObliqueTransform, inputs: Float64s) -> int:
    """Add a learned sample's inputs, just scaled, to the moments; returns DONE."""
    for d in range(oblique.n_inputs):
        if inputs[d] == inputs[d] or oblique.absent == oblique.absent:
            v = oblique.inputs[d]
            own = oblique.moments[d]
            n = own.n + 1.0
            own.n = n
            own.mean = own.mean + (v - own.mean) / n
            own.least = v if n == 1.0 else min(own.least, v)
            own.largest = v if n == 1.0 else max(own.largest, v)
    return DONE
