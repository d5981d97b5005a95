"""From inputs to the values that trees cut: float32, scaled by the ranges of the features."""

from __future__ import annotations

from ...compiling.kernels import batch_kernel, inlined, kernel
from ...records import Float32s, Float64s
from .columns import first_too_large, makes_sets, scale_sets, scale_to
from .frames import column_of, home_of, put_among_moved, write_inputs, write_remainders
from .records import STEADY, F, Forest


@inlined
def scale(forest: Forest, target: Float32s, inputs: Float64s) -> int:
    """Write the values of inputs; returns DONE, or the first input that is too large.

    Scaled values end at `FARTHEST`. In dimensions for which there is only room is what a feature
    has that is yet to come: a missing value. Of two frames the other one's values are written
    where trees read them.
    """
    if makes_sets(forest):
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
def _scale_at_home(forest: Forest, p: int, inputs: Float64s) -> int:
    """Write the values of a point in the frame to which its remainders are added."""
    home = home_of(forest)
    return scale_to(forest, column_of(forest, forest.points.row(p), home), inputs, home)


@inlined
def has_missing(forest: Forest, values: Float32s) -> bool:
    """Tell whether a row of values has a missing one."""
    # With several sets of directions, each lacks what the first lacks.
    first = int(forest.trees[0].first_value)
    if forest.has_frames == 1:
        first = forest.dim_capacity * forest.frame
    for d in range(first, first + forest.n_dims):
        if values[d] != values[d]:
            return True
    return False


@inlined
def store_values(forest: Forest, inputs: Float64s, p: int) -> int:
    """Write the values of a learned sample's inputs as a point's; returns as `scale` does.

    While the warm-up lasts, the inputs themselves are kept, too.
    """
    if forest.raw_values:
        n_inputs = forest.n_inputs
        row = forest.raw_values.part(forest.input_capacity * p, forest.input_capacity)
        for d in range(n_inputs):
            row[d] = inputs[d]
    values = Float32s(forest.points.row(p), forest.values_word, forest.n_values)
    keeps_inputs = forest.keeps_inputs == 1
    has_remainders = forest.has_frames == 1 and not keeps_inputs
    bad = _scale_at_home(forest, p, inputs) if has_remainders else scale(forest, values, inputs)
    if bad < 0:
        # Values for the tree that is drawn anew are made of these.
        if has_remainders:
            write_remainders(forest, inputs, p)
        elif keeps_inputs:
            write_inputs(forest, inputs, p)
        if forest.phase != STEADY:
            put_among_moved(forest, p)
        if has_missing(forest, values):
            forest.has_missing = 1
        oblique = forest.oblique
        if oblique:
            # What is too large for one set of directions may be missing in that only.
            for d in range(forest.n_values):
                if values[d] != values[d]:
                    forest.has_missing = 1
            oblique.learn(oblique, inputs)
    return bad


@kernel
def find_too_large(forest: F, inputs: Float64s) -> int:
    """Return the first of a sample's inputs that single precision does not hold, or DONE."""
    return first_too_large(forest, inputs)


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
