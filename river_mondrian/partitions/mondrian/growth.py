"""New features in the memory of a forest's trees: wider rows, and values of each tree."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from ...limits import LEAST_LEVEL
from ...records import ChunkedRows, Float64s, Int64s
from ..ranges import robust_ranges, scaling_of
from . import inputs as frames
from .changes import AnyForest
from .records import FREE, NONE
from .transforms import Categories
from .tree_memory import TreeMemory, light_size_for

NAN_BITS = 0x7FC00000

# What tells which nodes are light.
_KNOWN = ("dim", "n_samples")

# How many interquartile ranges beyond the quartiles a value may be that sets its feature's range:
# many, since long tails are common, and trees do worse where these are outside of the range.
FENCE = 100.0


class GrowingTrees(TreeMemory[AnyForest]):
    """The memory of trees to which features can be added."""

    def add_inputs(self, names: Sequence[Hashable], first_values: NDArray[np.float64]) -> None:
        """Add features, each with the first value that was seen of it: of categories, a level."""
        forest = self.forest
        old = int(forest.input_capacity)
        n_inputs = self.n_inputs
        wanted = n_inputs + len(names)
        capacity = old
        if wanted > old:
            # The first sample's features get exact room; later ones some to spare.
            capacity = wanted if n_inputs == 0 else max(wanted, old + old // 8)
        columns = list(range(self._n_columns))
        if self.directions is not None:
            self.directions = self.directions.copied()
            self.directions.add_inputs(names, capacity)
        else:
            columns = self._sort_out(first_values >= LEAST_LEVEL)
        self._relay(capacity, columns)
        if capacity > old:
            self._add_input_capacity(old, capacity)
        else:
            # What there was stays, in case that this is undone.
            self.frames = self.frames.copy()
        ends = [self.known_ranges.get(name, (math.nan, math.nan)) for name in names]
        self.given = np.hstack([self.given, np.array(ends, dtype=np.float64).T])
        if self.scale or self.directions is not None:
            # With directions, a feature that is unknown counts as its first value.
            self.frames[:, 0, n_inputs:wanted] = first_values if self._lacks_unknown else 0.0
        forest.n_inputs = wanted
        if self.directions is None:
            forest.n_dims = wanted
            if self.n_samples > 0 and self._lacks_unknown:
                forest.has_missing = 1
        self._finish()
        if self.scale:
            fitted = self._scaling_by(first_values, first_values, n_inputs)
            if self.n_samples > 0 and not self._lacks_unknown:
                # Samples so far have a 0, as they have where there is only room.
                fitted[0] = 0.0
            fitted[:, first_values >= LEAST_LEVEL] = [[0.0], [1.0]]
            self.frames[:, :, n_inputs:wanted] = fitted

    def _fitted_scaling(self, n: int) -> Float64s:
        """Return the scaling by the robust ranges of the first `n` samples of the warm-up."""
        assert self.warm_up is not None
        rows = self.warm_up[:n, : self.n_inputs]
        if not self._lacks_unknown:
            rows = np.nan_to_num(rows)
        found = self.scaling.copy()
        found[:, : self.n_inputs] = self._scaling_by(*robust_ranges(rows, FENCE))
        # Levels have places in [0, 1].
        found[:, self.category_places] = [[0.0], [1.0]]
        return Float64s.of(found)

    def _scaling_by(
        self, low: NDArray[np.float64], high: NDArray[np.float64], first: int = 0
    ) -> NDArray[np.float64]:
        """Return the scaling by ranges of the inputs from the `first` on, but for given ones."""
        given = self.given[:, first:]
        is_given = ~np.isnan(given[0])
        return scaling_of(np.where(is_given, given[0], low), np.where(is_given, given[1], high))

    def _add_input_capacity(self, old: int, new: int) -> None:
        """Make room for more inputs in what is kept of each."""
        frames = np.zeros((2, 2, new))
        frames[:, 1] = 1.0
        frames[:, :, :old] = self.frames
        self.frames = frames
        if self.warm_up is not None:
            rows = np.full((len(self.warm_up), new), np.nan)
            rows[:, :old] = self.warm_up
            self.warm_up = rows

    def _sort_out(self, are_categories: NDArray[np.bool_]) -> list[int]:
        """Note which of the inputs to come are categories; returns the columns that are to be.

        These are named by the present ones. With the first category each tree gets its own.
        """
        if self.categories is not None:
            self.categories = self.categories.with_inputs(are_categories)
        elif are_categories.any():
            words, capacity = self.trees.words, int(self.forest.dim_capacity)
            columns: list[int] = (words["first_value"] // capacity).tolist()
            made = Categories(words["random_state"][: self.n_trees])
            known = np.zeros(self.n_inputs, dtype=np.bool_)
            self.categories = made.with_inputs(known).with_inputs(are_categories)
            self.keeps_inputs = self.renews
            words["first_value"] = capacity * np.arange(len(self.trees))
            return columns[: self._n_columns]
        return list(range(self._n_columns))

    def _relay(self, capacity: int, columns: list[int]) -> None:
        """Make room for so many inputs, and let points have other columns of values.

        `columns` names these by those that there are.
        """
        forest, n_slots = self.forest, len(self.trees)
        old, n_old = int(forest.dim_capacity), int(forest.input_capacity)
        known = list(range(forest.n_values // old))
        had_inputs = forest.keeps_inputs == 1
        if capacity == n_old and columns == known and self.keeps_inputs == had_inputs:
            return
        inputs = np.zeros((0, 0))
        if self.keeps_inputs and not had_inputs:
            inputs = self._inputs_at(np.arange(self.n_points), self.n_points)
        box, values = int(forest.box_word), int(forest.values_word)
        kept, links = int(forest.inputs_word), int(forest.links_word)
        new = capacity if self.directions is None else old
        forest.dim_capacity, forest.input_capacity = new, capacity
        self._set_words()
        # Samples so far have what is missing of features that are yet to come.
        fill = NAN_BITS if self._lacks_unknown else 0
        if new > old and forest.light_size > 0:
            moves = [(0, 0, old), (old, new, old)]
            self.boxes = self.boxes.relaid(self._box_layout().words, moves, fill)
        elif new > old:
            moves = [(0, 0, box + old), (box + old, box + new, old)]
            self.nodes = self.nodes.relaid(self._node_layout().words, moves, fill)
            if self._may_have_light and light_size_for(new) > 0:
                self._part_boxes(light_size_for(new))
        moves = [(values + old * s, values + new * i, old) for i, s in enumerate(columns)]
        moves += [(0, 0, values), (links, int(forest.links_word), n_slots)]
        if had_inputs:
            moves.append((kept, int(forest.inputs_word), 2 * n_old))
        points = self.points.relaid(self._point_layout().words, moves, fill)
        # An interrupted call may have asked for room for points to come: there is none of it here.
        points.trim(0, self.n_points)
        self.points = points
        if self.keeps_inputs:
            self._put_inputs(inputs, n_old if had_inputs else 0)
        words = self.trees.words
        words["first_value"] = words["first_value"] // old * new
        if self._has_remainders:
            self.remainders = self.remainders.relaid(new, [(0, 0, old)], fill)
        else:
            self.remainders = ChunkedRows(1, 0, False)

    def _part_boxes(self, light_size: int) -> None:
        """Give boxes rows of their own, and light nodes none, now that boxes have become wide."""
        forest, words, counts = self.forest, self.trees.words, self._n_rows()["nodes"]
        rows = [self.nodes.rows(slot, n) for slot, n in enumerate(counts)]
        columns = {column.name: column for column in self._node_layout().columns}
        box, width = int(forest.box_word), self.nodes.row_bytes
        forest.light_size = light_size
        self._set_words()
        self._new_rows_of_nodes()
        slots = words["slot"].tolist()
        for slot, old in enumerate(rows):
            dims, n_samples = (columns[name].over(old, len(old), width) for name in _KNOWN)
            has_box = (dims != FREE) & (n_samples > light_size)
            new = np.zeros((len(old), self.nodes.width), dtype=np.int32)
            new[:, :box] = old[:, :box]
            new[:, box] = np.where(has_box, np.cumsum(has_box) - 1, NONE)
            self.nodes.extend(slot, 0, new)
            self.boxes.extend(slot, 0, np.ascontiguousarray(old[has_box, box:]))
            words["boxes.n_rows"][slots.index(slot)] = np.count_nonzero(has_box)

    def _put_inputs(self, inputs: NDArray[np.float64], first: int) -> None:
        """Write inputs of the points, shape (points, inputs); from the `first` on others lack."""
        column = next(c for c in self._point_layout().columns if c.name == "inputs")
        start = 0
        for chunk in self.points.chunks[0]:
            own = column.over(chunk, len(chunk), self.points.row_bytes)
            part = inputs[start : start + len(chunk)]
            own[:, first:] = math.nan
            own[: len(part), : part.shape[1]] = part
            start += len(chunk)

    def _inputs_at(self, places: NDArray[np.int64], n_rows: int) -> NDArray[np.float64]:
        """Return the inputs of stored samples, a row for each place, and NaN for lacking ones."""
        rows = np.full((n_rows, self.n_inputs), math.nan)
        frames.read_inputs.of(self._FOREST)(
            self.forest, Int64s.of(places), len(places), Float64s.of(rows.reshape(-1))
        )
        return rows
