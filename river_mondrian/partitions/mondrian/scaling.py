"""Conversion of inputs to the values that trees cut: float32 numbers, scaled by one of two frames.

A *frame* is an offset and a factor for each input. Without directions and categories, a column of a
point's values has scaled inputs. With directions or categories, there are *sets* of values: one set
for all trees if directions are given, otherwise one set for each tree. If widths are renewed,
points with sets also store their inputs, so that a column can be computed again. The kernels of
sets are called through addresses in the forest's record.

`GrowingTrees` adds features, and widens the rows of nodes and points accordingly.
"""

import copy
import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from ...compiling.kernels import batch_kernel, inlined, kernel, rare, separate, set_entries
from ...limits import DONE, FAR, LARGEST, LEAST_LEVEL
from ...records import ChunkedRows, Float32s, Float64s, Floats, Int64s, Ints
from ..ranges import scaling_of
from .boxes import light_size_for
from .constants import DRAWING, FREE, NONE, REBASING, STEADY
from .records import F, Forest, Point
from .transforms import Categories, clipped
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


@inlined
def scale_to(forest: Forest, target: Float32s, inputs: Float64s, frame: int) -> int:
    """Scale inputs by a frame; return the index of the first input that is too large, or DONE."""
    bad = -1
    n_dims = forest.n_dims
    offsets, factors = forest.offsets(frame), forest.factors(frame)
    for d in range(n_dims):
        raw = inputs[d]
        if abs(raw) > LARGEST and bad < 0:
            bad = d
        target[d] = clipped((raw - offsets[d]) * factors[d])
    for d in range(n_dims, forest.dim_capacity):
        target[d] = forest.absent
    return bad


@separate
def scale_sets(forest: F, target: Float32s, inputs: Float64s) -> int:
    """Write the values of inputs in each set; return the result of `find_too_large`."""
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
        return find_too_large(forest, inputs)
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
            levels.place_levels(levels, own, inputs, s)
    return find_too_large(forest, inputs)


@inlined
def write_column(forest: Forest, own: Float32s, inputs: Float64s, s: int, frame: int) -> None:
    """Compute a stored point's values in set `s`, scaled by a frame, from the point's inputs."""
    oblique, levels = forest.oblique, forest.levels
    if oblique:
        oblique.prepare(oblique, inputs, frame, 1)
        oblique.project(oblique, own, inputs, s, frame)
    else:
        scale_to(forest, own, inputs, frame)
        levels.place_levels(levels, own, inputs, s)


# While widths are renewed, points have values in two frames.
#
# A point has a column of values in each frame, c = float32((x - offset) * factor). While all trees
# use one frame, the other column has the *remainders* (x - offset) * factor - c instead. A value
# and its remainder determine the input to about 48 bits, and thereby the value in any other frame.
# Before, during and after a redraw, the columns contain:
#
#     steady     values in the frame, remainders
#     moved      values in the frame, values in the other frame; remainders in a separate row
#     rebased    remainders in the other frame, values in the other frame, now the current one
#
# The frame of the remainders is called *home*. Remainders need four bytes per value, and redraws
# need four more.
#
# With directions or categories, points have their inputs instead of remainders. Projections do not
# determine the inputs. If each tree has a column, no column is left for remainders. With given
# directions, all trees share a column, so there is one column for each frame. Otherwise each tree
# and the spare tree have a column. A moved point already has values for the tree that is being
# redrawn. When the spare tree replaces a tree, the two trees also exchange their columns. Then all
# points are moved again for the next tree.


@inlined
def home_of(forest: Forest) -> int:
    """Return the frame of the remainders."""
    return 1 - forest.frame if forest.phase == REBASING else forest.frame


@inlined
def column_of(forest: Forest, point: Point, frame: int) -> Float32s:
    """Return a point's values in the column of a frame."""
    capacity = forest.dim_capacity
    return Float32s(point, forest.values_word + capacity * frame, capacity)


@inlined
def remainders_of(forest: Forest, p: int) -> Float32s:
    """Return the row of a moved point's remainders."""
    return Float32s(forest.remainders.row(p), 0, forest.dim_capacity)


@inlined
def _scaled(forest: Forest, raw: float, d: int, frame: int) -> float:
    return (raw - forest.offsets(frame)[d]) * forest.factors(frame)[d]


@inlined
def _raw(forest: Forest, value: float, remainder: float, d: int, frame: int) -> float:
    """Return the input for a value and its remainder."""
    return (value + remainder) / forest.factors(frame)[d] + forest.offsets(frame)[d]


@separate
@rare
def move(forest: F, p: int) -> None:
    """Write a point's values for the tree that is being redrawn.

    These values replace the point's remainders, if any, which move to a separate row.
    """
    forest.n_moved = max(forest.n_moved, p + 1)
    point = forest.points.row(p)
    if forest.keeps_inputs == 1:
        frame, inputs = 1 - forest.frame, forest.inputs_in(point)
        if forest.has_frames == 1:
            if forest.phase == DRAWING:
                write_column(forest, column_of(forest, point, frame), inputs, 0, frame)
        # Without a spare tree in this part, points have no column for the redrawn tree.
        elif forest.draws() and forest.n_slots > forest.n_trees:
            own = forest.values_in(forest.trees[forest.n_trees], point)
            write_column(forest, own, inputs, forest.turn(), frame)
        return
    home = home_of(forest)
    values, others = column_of(forest, point, home), column_of(forest, point, 1 - home)
    kept = remainders_of(forest, p)
    for d in range(forest.dim_capacity):
        remainder = others[d]
        kept[d] = remainder
        raw = _raw(forest, values[d], remainder, d, home)
        others[d] = clipped(_scaled(forest, raw, d, 1 - home))


@separate
@rare
def rebase(forest: F, p: int) -> None:
    """Write a moved point's remainders in the current frame to the column of the other frame."""
    if forest.keeps_inputs == 1:
        return
    home, frame = 1 - forest.frame, forest.frame
    point = forest.points.row(p)
    old, values = column_of(forest, point, home), column_of(forest, point, frame)
    kept = remainders_of(forest, p)
    for d in range(forest.dim_capacity):
        raw = _raw(forest, old[d], kept[d], d, home)
        old[d] = clipped(_scaled(forest, raw, d, frame) - values[d])


@separate
@rare
def bring(forest: F, p: int) -> int:
    """Call `move` for a new point during a renewal, and `rebase` if necessary. Return 0."""
    if p <= forest.n_moved:
        move(forest, p)
        # In a window, the point may have the number of an older, rebased point.
        if forest.phase == REBASING and p < forest.taken:
            rebase(forest, p)
    return 0


@batch_kernel
def read_inputs(forest: F, places: Int64s, n_places: int, out: Float64s) -> None:
    """Write the `n_inputs` inputs of each point whose number is in `places`; levels become NaN."""
    n = forest.n_inputs
    for i in range(n_places):
        p, own = places[i], out.part(n * i, n)
        point = forest.points.row(p)
        if forest.keeps_inputs == 1:
            kept = forest.inputs_in(point)
            for d in range(n):
                own[d] = kept[d] if abs(kept[d]) <= LARGEST else math.nan
            continue
        is_rebased = forest.phase == REBASING and p < forest.taken
        home = 1 - home_of(forest) if is_rebased else home_of(forest)
        values, remainders = column_of(forest, point, home), column_of(forest, point, 1 - home)
        if forest.phase != STEADY and p < forest.n_moved and not is_rebased:
            remainders = remainders_of(forest, p)
        for d in range(n):
            own[d] = _raw(forest, values[d], remainders[d], d, home)


@inlined
def scale(forest: Forest, target: Float32s, inputs: Float64s) -> int:
    """Write the values of inputs; return the result of `find_too_large`.

    Scaled values are clipped at `FARTHEST`. Dimensions without a feature get the value `absent`.
    During a renewal of widths, values in the other frame are also written.
    """
    if forest.oblique or forest.levels:
        return forest.scale_sets(forest, target, inputs)
    frame, capacity = forest.frame, forest.dim_capacity
    if forest.has_frames == 0:
        return scale_to(forest, target, inputs, frame)
    bad = scale_to(forest, target.part(capacity * frame, capacity), inputs, frame)
    if forest.phase != STEADY:
        other = 1 - frame
        scale_to(forest, target.part(capacity * other, capacity), inputs, other)
    return bad


@inlined
def has_missing(forest: Forest, values: Float32s) -> bool:
    """Return whether a row of values has a missing value."""
    # Only the first set is checked, since a missing input has the same effect in all sets.
    first = int(forest.trees[0].first_value)
    if forest.has_frames == 1:
        first = forest.dim_capacity * forest.frame
    for d in range(first, first + forest.n_dims):
        if values[d] != values[d]:
            return True
    return False


@inlined
def store_values(forest: Forest, inputs: Float64s, p: int) -> int:
    """Write the values of a learned sample's inputs to a point, and return the result of `scale`.

    During the warm-up, the inputs are also stored.
    """
    if forest.raw_values:
        n_inputs = forest.n_inputs
        row = forest.raw_values.part(forest.input_capacity * p, forest.input_capacity)
        for d in range(n_inputs):
            row[d] = inputs[d]
    point = forest.points.row(p)
    values = Float32s(point, forest.values_word, forest.n_values)
    has_remainders = forest.has_frames == 1 and forest.keeps_inputs == 0
    if has_remainders:
        home = home_of(forest)
        own, remainders = column_of(forest, point, home), column_of(forest, point, 1 - home)
        bad = scale_to(forest, own, inputs, home)
    else:
        bad = scale(forest, values, inputs)
    if bad < 0:
        # Values for the redrawn tree are computed from the remainders or inputs.
        if has_remainders:
            for d in range(forest.n_dims):
                remainders[d] = clipped(_scaled(forest, inputs[d], d, home) - own[d])
        elif forest.keeps_inputs == 1:
            kept = forest.inputs_in(point)
            for d in range(forest.input_capacity):
                kept[d] = inputs[d] if d < forest.n_inputs else forest.absent
        if forest.phase != STEADY:
            forest.bring(forest, p)
        if has_missing(forest, values):
            forest.has_missing = 1
        oblique = forest.oblique
        if oblique:
            # A value that is too large for one set of directions may be missing in this set only.
            for d in range(forest.n_values):
                if values[d] != values[d]:
                    forest.has_missing = 1
            oblique.learn_moments(oblique, inputs)
    return bad


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


class GrowingTrees(TreeMemory[AnyForest]):
    """The memory of trees to which features can be added."""

    def _show_scaling(self) -> None:
        if self.directions is not None or self.categories is not None:
            set_entries(self.forest, scale_sets)
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
            columns = list(range(self._n_columns))
            self.directions = copy.deepcopy(self.directions)
            self.directions.add_inputs(names, capacity)
        else:
            columns = self._note_categories(first_values >= LEAST_LEVEL)
        self._resize_rows(capacity, columns, unknown)
        if capacity > old:
            self._add_input_capacity(old, capacity)
        else:
            # The old frames are kept, so that the change can be undone.
            self.frames = self.frames.copy()
        ends = [self.known_ranges.get(name, (math.nan, math.nan)) for name in names]
        self.given = np.hstack([self.given, np.array(ends, dtype=np.float64).T])
        if self.scale or self.directions is not None:
            # With directions, the first value replaces missing values of a new feature.
            self.frames[:, 0, n_inputs:wanted] = np.where(are_zero, 0.0, first_values)
        else:
            are_far = (np.abs(first_values) >= FAR) & (first_values < LEAST_LEVEL)
            are_far &= ~are_zero | (n_inputs == 0)
            self.frames[:, 0, n_inputs:wanted] = np.where(are_far, first_values, 0.0)
        forest.n_inputs = wanted
        if self.directions is None:
            forest.n_dims = wanted
            if self.n_samples > 0 and not are_zero.all():
                forest.has_missing = 1
        if self.warm_up is not None and are_zero.any():
            self.warm_up = self.warm_up.copy()
            self.warm_up[:, n_inputs:wanted] = gaps
        self._finish()
        if self.scale:
            fitted = self._scaling_by(first_values, first_values, n_inputs)
            if self.n_samples > 0:
                fitted[0, are_zero] = 0.0
            fitted[:, first_values >= LEAST_LEVEL] = [[0.0], [1.0]]
            self.frames[:, :, n_inputs:wanted] = fitted

    def _scaling_by(self, low: Floats, high: Floats, first: int = 0) -> Floats:
        """Return the scaling of inputs from `first` on: by given ranges, or by `low` and `high`."""
        given = self.given[:, first:]
        is_given = ~np.isnan(given[0])
        return scaling_of(np.where(is_given, given[0], low), np.where(is_given, given[1], high))

    def _add_input_capacity(self, old: int, new: int) -> None:
        """Increase the capacity for inputs of the frames and of the warm-up from `old` to `new`."""
        frames = np.zeros((2, 2, new))
        frames[:, 1] = 1.0
        frames[:, :, :old] = self.frames
        self.frames = frames
        if self.warm_up is not None:
            self.warm_up = np.pad(self.warm_up, ((0, 0), (0, new - old)), constant_values=np.nan)

    def _note_categories(self, are_categories: NDArray[np.bool_]) -> list[int]:
        """Store which new inputs are categories, and return the old column for each new column.

        With the first category, each tree gets a separate column.
        """
        if self.categories is not None:
            self.categories = self.categories.with_inputs(are_categories)
        elif are_categories.any():
            words, capacity = self.trees.words, int(self.forest.dim_capacity)
            columns: list[int] = (words["first_value"] // capacity).tolist()
            made = Categories(words["random_state"][: self.n_trees])
            known = np.zeros(self.n_inputs, dtype=np.bool_)
            self.categories = made.with_inputs(known).with_inputs(are_categories)
            words["first_value"] = capacity * np.arange(len(self.trees))
            return columns[: self._n_columns]
        return list(range(self._n_columns))

    def _resize_rows(self, capacity: int, columns: list[int], unknown: Ints) -> None:
        """Reserve room for `capacity` inputs, and rearrange the columns of points' values.

        `columns` has the old column for each new column. In past samples, the new inputs in
        `unknown` are NaN, and other new inputs have the value `absent`.
        """
        forest, n_slots = self.forest, len(self.trees)
        old, n_old = int(forest.dim_capacity), int(forest.input_capacity)
        known = list(range(forest.n_values // old))
        had_inputs = forest.keeps_inputs == 1
        is_same = capacity == n_old and columns == known and self.keeps_inputs == had_inputs
        if is_same and len(unknown) == 0:
            return
        inputs = np.zeros((0, 0))
        if self.keeps_inputs and not had_inputs:
            inputs = self._inputs_at(np.arange(self.n_points), self.n_points)
        box, values = int(forest.box_word), int(forest.values_word)
        kept, links = int(forest.inputs_word), int(forest.links_word)
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
        # Move the values, links and inputs of points.
        moves = [(values + old * s, values + new * i, old) for i, s in enumerate(columns)]
        moves += [(0, 0, values), (links, int(forest.links_word), n_slots)]
        if had_inputs:
            moves.append((kept, int(forest.inputs_word), 2 * n_old))
        points = self.points.resized(self._point_layout().words, moves, fill)
        points.fill([values + new * i for i in range(len(columns))], dims, NAN_BITS)
        # An interrupted call may have reserved room for more points, which is freed here.
        points.trim(0, self.n_points)
        self.points = points
        if self.keeps_inputs:
            self._put_inputs(inputs, n_old if had_inputs else 0, unknown)
        words = self.trees.words
        words["first_value"] = words["first_value"] // old * new
        if self._has_remainders:
            # The remainder of a missing value is never used.
            self.remainders = self.remainders.resized(new, [(0, 0, old)])
        else:
            self.remainders = ChunkedRows(1, 0, False)

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

    def _put_inputs(self, inputs: Floats, first: int, unknown: Ints) -> None:
        """Set inputs from `first` on to `absent`, then write `inputs`, shape (points, inputs)."""
        column = next(c for c in self._point_layout().columns if c.name == "inputs")
        start = 0
        for chunk in self.points.chunks[0]:
            own = column.over(chunk, len(chunk), self.points.row_bytes)
            part = inputs[start : start + len(chunk)]
            own[:, first:] = self.forest.absent
            own[:, unknown] = math.nan
            own[: len(part), : part.shape[1]] = part
            start += len(chunk)

    def _inputs_at(self, places: Ints, n_rows: int) -> Floats:
        """Return the inputs of some points, shape (n_rows, inputs), padded with rows of NaN."""
        rows = np.full((n_rows, self.n_inputs), math.nan)
        given = Int64s.of(places), len(places), Float64s.of(rows.reshape(-1))
        read_inputs.of(self._FOREST)(self.forest, *given)
        return rows
