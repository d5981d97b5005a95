"""Values along cut directions: an axis-aligned partition of U x is an oblique one of x.

See O'Reilly and Tran, Theorem 3.1. A missing input that is unknown counts as the mean of those
learned so far then, and a direction is missing where all of its inputs are. Where trees are drawn
anew under other widths, inputs of stored samples that are missing count as the means of when that
began. What is here is compiled only where there are directions: a forest's record holds the
addresses of these kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...compiling.kernels import inlined, merged, separate
from ...limits import FARTHEST
from ...records import Array, Float32s, Float64, Float64s, Int64, Record, entry
from ...status import DONE


class Moments(Record):
    """The scaled values that an input has had so far, in the frame that trees are in."""

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
    # What missing inputs of stored samples count as while trees are drawn anew.
    means: Float64s
    # Offsets and factors of two frames, and in which of them the moments are.
    frames: Float64s
    frame: Int64
    # Room for a sample's inputs as either frame scales them, and for a set's values; and whether a
    # direction may be missing.
    inputs: Float64s
    projected: Float64s
    lacks: Int64
    prepare: Callable[[ObliqueTransform, Float64s, int, int], int] = entry()
    project: Callable[[ObliqueTransform, Float32s, Float64s, int, int], int] = entry()
    learn: Callable[[ObliqueTransform, Float64s], int] = entry()
    keep_means: Callable[[ObliqueTransform], int] = entry()
    change_frame: Callable[[ObliqueTransform], int] = entry()

    def offsets(self, frame: int) -> Float64s:
        """Return what is subtracted from inputs in a frame."""
        return self.frames.part(2 * frame * self.input_capacity, self.input_capacity)

    def factors(self, frame: int) -> Float64s:
        """Return what differences are multiplied with in a frame."""
        return self.frames.part((2 * frame + 1) * self.input_capacity, self.input_capacity)

    def scaled(self, frame: int) -> Float64s:
        """Return the room for inputs as a frame scales them."""
        return self.inputs.part(frame * self.input_capacity, self.input_capacity)


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


@inlined
def _raw(oblique: ObliqueTransform, d: int, v: float) -> float:
    """Return the input of a scaled value in the frame of the moments."""
    frame = oblique.frame
    return v / oblique.factors(frame)[d] + oblique.offsets(frame)[d]


@separate
def prepare_inputs(oblique: ObliqueTransform, inputs: Float64s, frame: int, is_stored: int) -> int:
    """Scale inputs by a frame, those of a stored sample with `is_stored` 1; returns DONE."""
    scaled, offsets, factors = oblique.scaled(frame), oblique.offsets(frame), oblique.factors(frame)
    lacks = oblique.is_whole == 0 and oblique.absent != oblique.absent
    for d in range(oblique.n_inputs):
        raw = inputs[d] if inputs[d] == inputs[d] else oblique.absent
        v = (raw - offsets[d]) * factors[d]
        if v != v:
            lacks = True
            v = oblique.moments[d].mean
            if is_stored == 1:
                v = (oblique.means[d] - offsets[d]) * factors[d]
            elif frame != oblique.frame:
                v = (_raw(oblique, d, v) - offsets[d]) * factors[d]
        scaled[d] = v
    oblique.lacks = 1 if lacks else 0
    return DONE


@separate
def project_inputs(
    oblique: ObliqueTransform, target: Float32s, inputs: Float64s, s: int, frame: int
) -> int:
    """Write the values along a set of directions of inputs that have been scaled; returns DONE."""
    scaled, projected = oblique.scaled(frame), oblique.projected
    n_inputs, n = oblique.n_inputs, oblique.n_directions
    set_size = n * oblique.input_capacity
    coefficients = oblique.coefficients.part(set_size * s, set_size)
    for r in range(n):
        projected[r] = 0.0
    for d in range(n_inputs):
        v = scaled[d]
        own = coefficients.part(n * d, n)
        for r in range(n):
            projected[r] = projected[r] + own[r] * v
    lacks = oblique.lacks == 1
    for r in range(n):
        v = projected[r]
        if lacks and not _has_input(coefficients, inputs, n_inputs, n, r):
            v = math.nan
        target[r] = clipped(v)
    return DONE


@separate
def learn_moments(oblique: ObliqueTransform, inputs: Float64s) -> int:
    """Add a learned sample's inputs, just scaled, to the moments; returns DONE."""
    scaled = oblique.scaled(oblique.frame)
    for d in range(oblique.n_inputs):
        if inputs[d] == inputs[d] or oblique.absent == oblique.absent:
            v = scaled[d]
            own = oblique.moments[d]
            n = own.n + 1.0
            own.n = n
            own.mean = own.mean + (v - own.mean) / n
            own.least = v if n == 1.0 else min(own.least, v)
            own.largest = v if n == 1.0 else max(own.largest, v)
    return DONE


@separate
def keep_means(oblique: ObliqueTransform) -> int:
    """Note the means of all inputs, before trees are drawn anew; returns DONE."""
    for d in range(oblique.n_inputs):
        oblique.means[d] = _raw(oblique, d, oblique.moments[d].mean)
    return DONE


@separate
def change_frame(oblique: ObliqueTransform) -> int:
    """Bring the moments to the other frame, in which all trees are now; returns DONE."""
    frame = 1 - oblique.frame
    offsets, factors = oblique.offsets(frame), oblique.factors(frame)
    for d in range(oblique.n_inputs):
        own = oblique.moments[d]
        if own.n > 0.0:
            own.mean = (_raw(oblique, d, own.mean) - offsets[d]) * factors[d]
            own.least = (_raw(oblique, d, own.least) - offsets[d]) * factors[d]
            own.largest = (_raw(oblique, d, own.largest) - offsets[d]) * factors[d]
    oblique.frame = frame
    return DONE
