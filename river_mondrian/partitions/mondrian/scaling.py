"""Conversion of inputs to the values that trees cut, and storage of inputs in points.

A *scaling* is an offset and a factor for each input. A point stores its inputs once, in float64. A
value is (input - offset) * factor, rounded to float32 when it is read. So a tree that is redrawn
with another scaling reads other values of the same inputs.

With directions or categories, a value is a projection or the place of a level, which takes longer
to compute. Such values are computed once and stored in *columns* of the point's row: one column for
each scaling if all trees share given directions, otherwise one column for each tree. The kernels of
columns are called through addresses in the forest's record.

`GrowingTrees` adds features, and widens the rows of nodes and points accordingly.
"""

import copy
import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from ...compiling.kernels import (
    always_inline,
    batch_kernel,
    cold,
    helper,
    kernel,
    link_by_name,
    set_entries,
)
from ...limits import DONE, LARGEST, LEAST_LEVEL, LEAST_ORIGIN
from ...records import Float32s, Float64s, Floats, Int64s, Ints
from ..ranges import scaling_of
from .boxes import light_size_for
from .constants import FREE, NONE
from .records import F, Forest, Point, Tree
from .transforms import Categories, scaled
from .tree_memory import AnyForest, TreeMemory

NAN_BITS = 0x7FC00000


@kernel
def find_too_large(forest: F, inputs: Float64s) -> int:
    """Return the index of the first input that is too large for single precision, or DONE."""
    levels = forest.levels
    for d in range(forest.n_inputs):
        if abs(inputs[d]) > LARGEST:
            # Codes of levels exceed this limit.
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
    capacity, oblique, own = forest.dim_capacity, forest.oblique, forest.scaling
    if oblique:
        oblique.prepare(oblique, inputs, own, 0)
        if forest.renewal.is_running == 1:
            oblique.prepare(oblique, inputs, 1 - own, 0)
    if forest.has_own_columns == 0:
        oblique.project(oblique, target.part(capacity * own, capacity), inputs, 0, own)
        if forest.renewal.is_running == 1:
            other = 1 - own
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
    """Compute a stored point's column of tree `t`, which has a column of its own."""
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
    """Compute the columns of all stored points, after features were added to trees with levels."""
    for p in range(forest.n_points):
        for t in range(forest.n_trees):
            write_column(forest, forest.trees[t], t, forest.points.row(p))
        forest.write_spare_column(forest, p)


@link_by_name
@cold
def write_spare_column(forest: F, p: int) -> int:
    """Compute a point's column of the spare tree, if this part has the spare tree. Return DONE.

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
    elif forest.draws():
        write_column(forest, forest.trees[forest.n_trees], forest.turn(), forest.points.row(p))
    return DONE


@always_inline
def write_scaled(forest: Forest, row: Float32s, inputs: Float64s) -> None:
    """Write the values of a sample in each scaling that is in use."""
    capacity, own = forest.dim_capacity, forest.scaling
    scale_to(forest, row.part(capacity * own, capacity), inputs, own)
    if forest.renewal.is_running == 1:
        scale_to(forest, row.part(capacity * (1 - own), capacity), inputs, 1 - own)


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
        # In a window, the point has the number of an older point, which is in the spare tree.
        forest.write_spare_column(forest, p)
    if has_missing(forest, row):
        forest.has_missing = 1
    if oblique:
        # A value that is too large for one set of directions may be missing in this set only.
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
        kept, own = forest.inputs_in(forest.points.row(points[i])), out.part(n * i, n)
        for d in range(n):
            own[d] = kept[d] if abs(kept[d]) <= LARGEST else math.nan


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


class GrowingTrees(TreeMemory[AnyForest]):
    """The memory of trees to which features can be added."""

    def _show_scaling(self) -> None:
        if self._has_columns:
            set_entries(self.forest, write_columns, write_spare_column)
        super()._show_scaling()

    def add_inputs(
        self, names: Sequence[Hashable], first_values: Floats, gaps: Floats | float = math.nan
    ) -> None:
        """Add features.

        Parameters
        ----------
        names
            Names of the features.
        first_values
            The first value of each feature; for categories, the code of a level.
        gaps
            Value of each feature in past samples: NaN, or 0 if `absent` is 0.

        """
        forest = self.forest
        old = int(forest.input_capacity)
        n_inputs = self.n_inputs
        wanted = n_inputs + len(names)
        are_zero = np.broadcast_to(np.isfinite(gaps), len(names))
        unknown = np.zeros(0, dtype=np.int64)
        if not self._absent_is_unknown and self.n_samples > 0:
            unknown = n_inputs + np.flatnonzero(~are_zero)
        # The capacity is exact for the features of the first sample. Later the capacity grows by at
        # least an eighth.
        spare = 0 if n_inputs == 0 else old // 8
        capacity = old if wanted <= old else max(wanted, old + spare)
        if self.directions is not None:
            self.directions = copy.deepcopy(self.directions)
            self.directions.add_inputs(names, capacity)
        else:
            self._note_categories(first_values >= LEAST_LEVEL)
        is_resized = self._resize_rows(capacity, unknown)
        if capacity > old:
            self._add_input_capacity(old, capacity)
        else:
            # The old scalings are kept, so that the change can be undone.
            self.scalings = self.scalings.copy()
        ends = [self.known_ranges.get(name, (math.nan, math.nan)) for name in names]
        self.given = np.hstack([self.given, np.array(ends, dtype=np.float64).T])
        if self.scale or self.directions is not None:
            # With directions, the first value replaces missing values of a new feature.
            self.scalings[:, 0, n_inputs:wanted] = np.where(are_zero, 0.0, first_values)
        else:
            are_far = (np.abs(first_values) >= LEAST_ORIGIN) & (first_values < LEAST_LEVEL)
            are_far &= ~are_zero | (n_inputs == 0)
            self.scalings[:, 0, n_inputs:wanted] = np.where(are_far, first_values, 0.0)
        forest.n_inputs = wanted
        if self.directions is None:
            forest.n_dims = wanted
            if self.n_samples > 0 and not are_zero.all():
                forest.has_missing = 1
        self._finish()
        if self.scale:
            fitted = self._scaling_by(first_values, first_values, n_inputs)
            if self.n_samples > 0:
                fitted[0, are_zero] = 0.0
            fitted[:, first_values >= LEAST_LEVEL] = [[0.0], [1.0]]
            self.scalings[:, :, n_inputs:wanted] = fitted
        if is_resized and self.categories is not None:
            write_all_columns.of(self._FOREST)(self.forest)

    def _scaling_by(self, low: Floats, high: Floats, first: int = 0) -> Floats:
        """Return the scaling of inputs from `first` on: by given ranges, or by `low` and `high`."""
        given = self.given[:, first:]
        is_given = ~np.isnan(given[0])
        return scaling_of(np.where(is_given, given[0], low), np.where(is_given, given[1], high))

    def _add_input_capacity(self, old: int, new: int) -> None:
        """Increase the scalings' capacity for inputs from `old` to `new`."""
        scalings = np.zeros((2, 2, new))
        scalings[:, 1] = 1.0
        scalings[:, :, :old] = self.scalings
        self.scalings = scalings

    def _note_categories(self, are_categories: NDArray[np.bool_]) -> None:
        """Store which new inputs are categories. With the first, each tree gets a column."""
        if self.categories is not None:
            self.categories = self.categories.with_inputs(are_categories)
        elif are_categories.any():
            words = self.trees.words
            made = Categories(words["random_state"][: self.n_trees])
            known = np.zeros(self.n_inputs, dtype=np.bool_)
            self.categories = made.with_inputs(known).with_inputs(are_categories)
            words["first_value"] = int(self.forest.dim_capacity) * np.arange(len(self.trees))

    def _resize_rows(self, capacity: int, unknown: Ints) -> bool:
        """Reserve room for `capacity` inputs in rows; return whether rows were copied.

        In past samples, the new inputs in `unknown` are NaN, and other new inputs have the value
        `absent`. Columns of trees with categories must then be computed again.
        """
        forest, n_slots = self.forest, len(self.trees)
        old, n_old = int(forest.dim_capacity), int(forest.input_capacity)
        is_same = capacity == n_old and self._has_columns == bool(forest.has_columns)
        if is_same and len(unknown) == 0:
            return False
        box, columns = int(forest.box_word), int(forest.columns_word)
        inputs, links = int(forest.inputs_word), int(forest.links_word)
        new = capacity if self.directions is None else old
        forest.dim_capacity, forest.input_capacity = new, capacity
        self._set_words()
        # Past samples get this value for new features.
        fill = NAN_BITS if self._absent_is_unknown else 0
        dims = unknown if self.directions is None else unknown[:0]
        # Boxes are in separate rows, or in the rows of nodes.
        if (new > old or len(dims)) and forest.light_size > 0:
            moves = [(0, 0, old), (old, new, old)]
            self.boxes = self.boxes.resized(self._layouts()["boxes"].words, moves, fill)
            self.boxes.fill([0, new], dims, NAN_BITS)
        elif new > old or len(dims):
            moves = [(0, 0, box + old), (box + old, box + new, old)]
            self.nodes = self.nodes.resized(self._node_layout().words, moves, fill)
            self.nodes.fill([box, box + new], dims, NAN_BITS)
            if self._may_have_light and light_size_for(new) > 0:
                self._part_boxes(light_size_for(new))
        # Move the projections, the inputs and the links of points.
        n_fixed = columns if self.directions is None else inputs
        moves = [(0, 0, n_fixed), (inputs, int(forest.inputs_word), 2 * n_old)]
        moves.append((links, int(forest.links_word), n_slots))
        points = self.points.resized(self._point_layout().words, moves, 0)
        # An interrupted call may have reserved room for more points, which is freed here.
        points.trim(0, self.n_points)
        self.points = points
        self._put_absent(n_old, unknown)
        words = self.trees.words
        words["first_value"] = words["first_value"] // old * new
        return True

    def _part_boxes(self, light_size: int) -> None:
        """Move boxes to separate rows, and remove the boxes of light nodes."""
        forest, words, counts = self.forest, self.trees.words, self._n_rows()["nodes"]
        rows = [self.nodes.rows(slot, n) for slot, n in enumerate(counts)]
        columns = {column.name: column for column in self._node_layout().columns}
        box, width = int(forest.box_word), self.nodes.row_bytes
        forest.light_size = light_size
        self._set_words()
        self._new_rows_of_nodes()
        slots = words["slot"].tolist()
        for slot, old in enumerate(rows):
            dims = columns["dim"].over(old, len(old), width)
            n_samples = columns["n_samples"].over(old, len(old), width)
            has_box = (dims != FREE) & (n_samples > light_size)
            new = np.zeros((len(old), self.nodes.width), dtype=np.int32)
            new[:, :box] = old[:, :box]
            new[:, box] = np.where(has_box, np.cumsum(has_box) - 1, NONE)
            self.nodes.extend(slot, 0, new)
            self.boxes.extend(slot, 0, np.ascontiguousarray(old[has_box, box:]))
            words["boxes.n_rows"][slots.index(slot)] = np.count_nonzero(has_box)

    def _put_absent(self, first: int, unknown: Ints) -> None:
        """Set points' inputs from `first` on to `absent`, and the inputs in `unknown` to NaN."""
        column = next(c for c in self._point_layout().columns if c.name == "inputs")
        for chunk in self.points.chunks[0]:
            own = column.over(chunk, len(chunk), self.points.row_bytes)
            own[:, first:] = self.forest.absent
            own[:, unknown] = math.nan

    def _inputs_at(self, points: Ints, n_rows: int) -> Floats:
        """Return the inputs of some points, shape (n_rows, inputs), padded with rows of NaN."""
        rows = np.full((n_rows, self.n_inputs), math.nan)
        given = Int64s.of(points), len(points), Float64s.of(rows.reshape(-1))
        read_inputs.of(self._FOREST)(self.forest, *given)
        return rows
