"""New features in the memory of a forest's trees: wider rows, and values of each tree."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from ...limits import LEAST_LEVEL
from ...records import ChunkedRows, Float64s
from ..ranges import robust_ranges, scaling_of
from .categories import Categories
from .changes import AnyForest
from .records import NEVER
from .tree_memory import TreeMemory

NAN_BITS = 0x7FC00000

# How many interquartile ranges beyond the quartiles a value may be that sets its feature's range.
# Where ranges are not renewed it may be more, since later values may show a tail to be no outlier.
FENCE = 10.0
FENCE_OF_FIXED = 100.0


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
        if self.directions is not None:
            self.directions = self.directions.copied()
            self.directions.add_inputs(names, capacity)
        else:
            self._add_dims(old, capacity, first_values >= LEAST_LEVEL)
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
        found[:, : self.n_inputs] = self._scaling_by(*robust_ranges(rows, self._fence))
        # Levels have places in [0, 1].
        found[:, self.category_places] = [[0.0], [1.0]]
        return Float64s.of(found)

    @property
    def _fence(self) -> float:
        return FENCE if self._has_frames else FENCE_OF_FIXED

    def _scaling_by(
        self, low: NDArray[np.float64], high: NDArray[np.float64], first: int = 0
    ) -> NDArray[np.float64]:
        """Return the scaling by ranges of the inputs from the `first` on, but for given ones."""
        given = self.given[:, first:]
        is_given = ~np.isnan(given[0])
        return scaling_of(np.where(is_given, given[0], low), np.where(is_given, given[1], high))

    def _add_input_capacity(self, old: int, new: int) -> None:
        """Make room for more inputs in what is kept of each."""
        self.forest.input_capacity = new
        frames = np.zeros((2, 2, new))
        frames[:, 1] = 1.0
        frames[:, :, :old] = self.frames
        self.frames = frames
        if self.warm_up is not None:
            rows = np.full((len(self.warm_up), new), np.nan)
            rows[:, :old] = self.warm_up
            self.warm_up = rows

    def _add_dims(self, old: int, new: int, are_categories: NDArray[np.bool_]) -> None:
        """Make room for more dimensions, and for values of each tree where there are categories."""
        forest, known_sets, frame = self.forest, self._n_sets, self.forest.frame
        had_frames = self._has_frames
        if self.categories is not None:
            self.categories = self.categories.with_inputs(are_categories)
        elif are_categories.any():
            made = Categories(self.trees.words["random_state"][: self.n_trees])
            known = np.zeros(self.n_inputs, dtype=np.bool_)
            self.categories = made.with_inputs(known).with_inputs(are_categories)
        n_sets = self._n_sets
        if new == old and n_sets == known_sets and self._has_frames == had_frames:
            return
        box, values = int(forest.box_word), int(forest.values_word)
        forest.dim_capacity = new
        self._set_words()
        # Samples so far have what is missing of features that are yet to come.
        fill = NAN_BITS if self._lacks_unknown else 0
        if new > old:
            moves = [(0, 0, box + old), (box + old, box + new, old)]
            self.nodes = self.nodes.relaid(self._node_layout().words, moves, fill)
        sources = [s % known_sets for s in range(n_sets)]
        words = self.trees.words
        if self._has_frames:
            words["first_value"] = words["first_value"] // old * new
            self.remainders = self.remainders.relaid(new, [(0, 0, old)], fill)
        elif had_frames:
            # All trees are in the current frame.
            sources = [frame] * n_sets
            self.remainders = ChunkedRows(1, 0, False)
        sets = [(values + old * s, values + new * i, old) for i, s in enumerate(sources)]
        links = (values + old * known_sets, values + new * n_sets, len(self.trees))
        moves = [(0, 0, values), *sets, links]
        self.points = self.points.relaid(self._point_layout().words, moves, fill)
        if self.categories is not None:
            words["first_value"][:n_sets] = new * np.arange(n_sets)
            forest.next_look = NEVER
