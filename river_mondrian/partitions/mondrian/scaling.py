"""Conversion of inputs to the values that trees cut, and storage of inputs in points.

A *scaling* is an offset and a factor for each input. A point stores its inputs once, in float64.
When a tree reads an input, it computes the value (input - offset) * factor, clipped at `FARTHEST`
and rounded to float32. So a tree that is redrawn with another scaling reads other values of the
same inputs.

With directions or categories, a value is a projection or the place of a level, which takes longer
to compute. Such values are computed once and stored in *columns* of the point's row. If all trees
share given directions, there is one column for each scaling, otherwise one column for each tree.
The kernels that compute columns are called through addresses in the forest's record.

`TreeStore.add_inputs` adds features, and widens the rows of nodes and points accordingly.
"""

import math

import numpy as np

from ...compiling.kernels import always_inline, batch_kernel, cold, helper, kernel, link_by_name
from ...limits import DONE, LARGEST
from ...records import Float32s, Float64s, Floats, Int64s
from ..ranges import scaling_of
from .records import F, Forest, Point, Tree
from .transforms import scaled

NAN_BITS = 0x7FC00000


@kernel
def find_too_large(forest: F, inputs: Float64s) -> int:
    """Return the index of the first input that is too large for single precision, or DONE."""
    levels = forest.levels
    for d in range(forest.n_inputs):
        if abs(inputs[d]) > LARGEST:
            # Codes of levels exceed LARGEST, but are valid.
            if levels and levels.is_category[d] == 1:
                continue
            return d
    return DONE


@always_inline
def scale_to(forest: Forest, target: Float32s, inputs: Float64s, scaling: int) -> None:
    """Write inputs in a scaling, clipped at `FARTHEST`.

    Dimensions without a feature get the value `absent`.
    """
    n_dims = forest.n_dims
    offsets, factors = forest.offsets(scaling), forest.factors(scaling)
    for d in range(n_dims):
        target[d] = scaled(inputs[d], offsets[d], factors[d])
    for d in range(n_dims, forest.dim_capacity):
        target[d] = forest.absent


@link_by_name
def write_columns(forest: F, target: Float32s, inputs: Float64s) -> int:
    """Write the columns of a sample's values: projections, or places of levels. Return DONE."""
    capacity, oblique, current = forest.dim_capacity, forest.oblique, forest.scaling
    if oblique:
        oblique.prepare(oblique, inputs, current, 0)
        if forest.renewal.is_running == 1:
            oblique.prepare(oblique, inputs, 1 - current, 0)
    if forest.has_own_columns == 0:
        oblique.project(oblique, target.part(capacity * current, capacity), inputs, 0, current)
        if forest.renewal.is_running == 1:
            other = 1 - current
            oblique.project(oblique, target.part(capacity * other, capacity), inputs, 0, other)
        return DONE
    for t in range(forest.n_trees):
        tree = forest.trees[t]
        column = target.part(tree.first_value, capacity)
        if oblique:
            oblique.project(oblique, column, inputs, t, tree.scaling)
        else:
            levels = forest.levels
            before = forest.trees[max(t - 1, 0)]
            if t == 0 or before.scaling != tree.scaling:
                scale_to(forest, column, inputs, tree.scaling)
            else:
                known = target.part(before.first_value, capacity)
                for d in range(capacity):
                    column[d] = known[d]
            levels.place_levels(levels, column, inputs, t)
    return DONE


@always_inline
def write_column(forest: Forest, tree: Tree, t: int, point: Point) -> None:
    """Compute a stored point's column for tree `t`, if each tree has its own column."""
    column, inputs = forest.column_in(tree, point), forest.inputs_in(point)
    oblique, levels = forest.oblique, forest.levels
    if oblique:
        oblique.prepare(oblique, inputs, tree.scaling, 1)
        oblique.project(oblique, column, inputs, t, tree.scaling)
    else:
        scale_to(forest, column, inputs, tree.scaling)
        levels.place_levels(levels, column, inputs, t)


@batch_kernel
@cold
def write_all_columns(forest: F) -> None:
    """Compute all stored points' columns, after features were added to a forest with categories."""
    for p in range(forest.n_points):
        for t in range(forest.n_trees):
            write_column(forest, forest.trees[t], t, forest.points.row(p))
        forest.write_spare_column(forest, p)


@link_by_name
@cold
def write_spare_column(forest: F, p: int) -> int:
    """Compute a point's column for the spare tree, if this shard redraws a tree. Return DONE.

    A column that all trees share is computed for the first redrawn tree.
    """
    if forest.has_own_columns == 0:
        if forest.renewal.tree == 0:
            other = 1 - forest.scaling
            point, capacity, oblique = forest.points.row(p), forest.dim_capacity, forest.oblique
            inputs = forest.inputs_in(point)
            column = forest.columns_in(point).part(capacity * other, capacity)
            oblique.prepare(oblique, inputs, other, 1)
            oblique.project(oblique, column, inputs, 0, other)
    elif forest.is_redrawing():
        write_column(forest, forest.spare(), forest.redrawn_tree(), forest.points.row(p))
    return DONE


@always_inline
def write_scaled(forest: Forest, row: Float32s, inputs: Float64s) -> None:
    """Write the values of a sample in each scaling that is in use."""
    capacity, current = forest.dim_capacity, forest.scaling
    scale_to(forest, row.part(capacity * current, capacity), inputs, current)
    if forest.renewal.is_running == 1:
        scale_to(forest, row.part(capacity * (1 - current), capacity), inputs, 1 - current)


@always_inline
def scale(forest: Forest, row: Float32s, inputs: Float64s) -> int:
    """Write the row of a sample's values (see `Forest.row`); return `find_too_large`'s result."""
    if forest.has_columns == 1:
        forest.write_columns(forest, row, inputs)
    else:
        write_scaled(forest, row, inputs)
    return find_too_large(forest, inputs)


@always_inline
def has_missing(forest: Forest, row: Float32s) -> bool:
    """Return whether a row of values has a missing value."""
    # Only one column is checked, since a missing input has the same effect in all columns.
    first = int(forest.trees[0].first_value)
    for d in range(first, first + forest.n_dims):
        if row[d] != row[d]:
            return True
    return False


@always_inline
def store_inputs(forest: Forest, inputs: Float64s, p: int) -> None:
    """Write a learned sample's checked inputs, and its columns of values, to a point."""
    point = forest.points.row(p)
    kept, n_inputs, lacks = forest.inputs_in(point), forest.n_inputs, False
    for d in range(n_inputs):
        v = inputs[d]
        kept[d] = v
        lacks = lacks or v != v
    for d in range(n_inputs, forest.input_capacity):
        kept[d] = forest.absent
    if forest.has_columns == 1:
        _store_columns(forest, inputs, p)
    elif lacks:
        forest.has_missing = 1


@helper
def _store_columns(forest: Forest, inputs: Float64s, p: int) -> None:
    """Write the columns of a learned sample's values to a point."""
    row, oblique = forest.columns_in(forest.points.row(p)), forest.oblique
    forest.write_columns(forest, row, inputs)
    if forest.renewal.is_running == 1 and p < forest.renewal.n_spare_points:
        # In a window, the point replaces an older point that the spare tree contained.
        forest.write_spare_column(forest, p)
    if has_missing(forest, row):
        forest.has_missing = 1
    if oblique:
        # `has_missing` checks only one set of directions. In another set, a projection may overflow
        # to NaN, so all sets are checked.
        for d in range(forest.n_values):
            if row[d] != row[d]:
                forest.has_missing = 1
        oblique.learn_moments(oblique, inputs)


@always_inline
def set_scaling(forest: Forest, scaling: Float64s, n: int) -> None:
    """Replace the current scaling, shape (2, input_capacity), for the first `n` points."""
    capacity = forest.input_capacity
    for d in range(forest.n_inputs):
        forest.offsets(forest.scaling)[d] = scaling[d]
        forest.factors(forest.scaling)[d] = scaling[capacity + d]
    if forest.has_columns == 1:
        for p in range(n):
            _store_columns(forest, forest.inputs_in(forest.points.row(p)), p)


@batch_kernel
@cold
def read_inputs(forest: F, points: Int64s, n_points: int, out: Float64s) -> None:
    """Write the `n_inputs` inputs of each point whose number is in `points`; levels become NaN."""
    n = forest.n_inputs
    for i in range(n_points):
        inputs, row = forest.inputs_in(forest.points.row(points[i])), out.part(n * i, n)
        for d in range(n):
            row[d] = inputs[d] if abs(inputs[d]) <= LARGEST else math.nan


@batch_kernel
def store_rows(forest: F, rows: Float64s, n: int, first: int) -> None:
    """Write `n` rows of checked inputs as points `first`, `first + 1`, ..."""
    for i in range(n):
        capacity = forest.input_capacity
        store_inputs(forest, rows.part(capacity * i, capacity), first + i)


@batch_kernel
def scale_rows(forest: F, targets: Float32s, rows: Float64s, n: int) -> None:
    """Write the values of `n` rows of checked inputs."""
    for i in range(n):
        target = targets.part(forest.n_values * i, forest.n_values)
        capacity = forest.input_capacity
        scale(forest, target, rows.part(capacity * i, capacity))


def scaling_by(given: Floats, low: Floats, high: Floats) -> Floats:
    """Return the scaling of inputs by given ranges, or by `low` and `high` if a range is NaN."""
    is_given = ~np.isnan(given[0])
    return scaling_of(np.where(is_given, given[0], low), np.where(is_given, given[1], high))
