"""Columns of values: what a tree, or all trees in a frame, cut of a sample.

Without directions and categories a column has scaled inputs. With them there are *sets* of values:
given directions make one for all trees, random directions and places of levels make one for each.
Points then keep their inputs, so that a column can be written anew under other widths. What sets
need is called by the addresses that a forest's record holds.
"""

from __future__ import annotations

from ...compiling.kernels import inlined, separate
from ...limits import LARGEST
from ...records import Float32s, Float64s
from ...status import DONE
from .oblique import clipped
from .records import STEADY, F, Forest


@inlined
def first_too_large(forest: Forest, inputs: Float64s) -> int:
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
def makes_sets(forest: Forest) -> bool:
    """Tell whether values are more than scaled inputs."""
    if forest.oblique:
        return True
    return bool(forest.levels)


@inlined
def scale_to(forest: Forest, target: Float32s, inputs: Float64s, frame: int) -> int:
    """Write scaled inputs in a frame; returns DONE, or the first one that is too large."""
    bad = -1
    n_dims = forest.n_dims
    offsets, factors, absent = forest.offsets(frame), forest.factors(frame), forest.absent
    for d in range(n_dims):
        raw = inputs[d] if inputs[d] == inputs[d] else absent
        if abs(raw) > LARGEST and bad < 0:
            bad = d
        target[d] = clipped((raw - offsets[d]) * factors[d])
    for d in range(n_dims, forest.dim_capacity):
        target[d] = absent
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
        return first_too_large(forest, inputs)
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
    return first_too_large(forest, inputs)


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
