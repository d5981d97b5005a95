"""Checks of the stored points of restored trees: what they have, and their order of arrival."""

from __future__ import annotations

from ...compiling.kernels import inlined, separate
from ...limits import LARGEST, LEAST_LEVEL
from ...records import Float32s, Float64s, Int32s, Int64, Int64s, Record
from . import faults
from .faults import FINE
from .records import NONE, STEADY, F, Forest

# Scaled values end there, rounded to single precision.
FARTHEST = 1.000001e30


class Check(Record):
    """Where a check has come to, and what it has met."""

    tree: Int64
    # The row of a node, or a point.
    row: Int64
    # By row, and by point: one more than the last tree in which something has referred to it.
    rows: Int32s
    points: Int32s
    # The same by row of a box.
    boxes: Int32s
    # By tree, its first sample where trees hold the latest only.
    starts: Int64s
    # Room for the box of a leaf's points, and for those of two children.
    box: Float32s
    left: Float32s
    right: Float32s


@inlined
def _fault_of_values(forest: Forest, values: Float32s, n_values: int, n: int) -> int:
    """Return what is wrong with columns of values, in each of which the first `n` are in use."""
    is_right, is_known = True, True
    for d in range(n_values):
        v = values[d]
        is_known = is_known and (v == v or d % forest.dim_capacity >= n)
        is_right = is_right and not abs(v) > FARTHEST
    if not is_right:
        return faults.VALUES
    return FINE if is_known or forest.has_missing == 1 else faults.MISSING


@inlined
def _fault_of_inputs(forest: Forest, inputs: Float64s) -> int:
    """Return what is wrong with a point's inputs: numbers, codes of levels, or missing ones."""
    levels = forest.levels
    for d in range(forest.input_capacity):
        v = inputs[d]
        least, most = -LARGEST, LARGEST
        if levels and d < forest.n_inputs and levels.is_category[d] == 1:
            least, most = LEAST_LEVEL, 2.0 * LEAST_LEVEL
        if v == v and (d >= forest.n_inputs or not least <= v <= most):
            return faults.INPUTS
    return FINE


@separate
def fault_of_points(forest: F, check: Check) -> int:
    """Return what is wrong with the stored points."""
    # In dimensions for which there is only room all are missing.
    n = forest.n_dims
    for p in range(forest.n_points):
        check.row = p
        point = forest.points.row(p)
        fault = point.fault(forest)
        if fault != FINE:
            return fault
        values = Float32s(point, forest.values_word, forest.n_values)
        fault = _fault_of_values(forest, values, forest.n_values, n)
        if fault == FINE and forest.keeps_inputs == 1:
            fault = _fault_of_inputs(forest, forest.inputs_in(point))
        elif fault == FINE and forest.phase != STEADY and p < forest.n_moved:
            remainders = Float32s(forest.remainders.row(p), 0, forest.dim_capacity)
            fault = _fault_of_values(forest, remainders, forest.dim_capacity, n)
        if fault != FINE:
            return fault
    return FINE


@inlined
def is_in_order(forest: Forest, check: Check) -> bool:
    """Tell whether the order of arrival has each point once."""
    n, before, p = 0, NONE, forest.first_arrival
    while p != NONE:
        check.row = p
        if not 0 <= p < forest.n_points or forest.arrivals.row(p).older != before:
            return False
        n += 1
        before, p = p, int(forest.arrivals.row(p).newer)
    return n == forest.n_points and before == forest.last_arrival
