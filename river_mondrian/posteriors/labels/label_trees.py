"""Trees over classes: hierarchical label posteriors (see `hnsp`)."""

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from ...checks import check_number, refuse
from ...limits import MOST_CLASSES
from ...partitions.mondrian import constants, tree_store, trees
from ...partitions.mondrian.records import IN_USE
from ...records import FLOAT64, INT32, ChunkedRows, Float64s, Floats, Int32s, Int64s, Ints, Ref
from ...records.layout import RowLayout, Section, words_of
from ...restored import Edges, Followed, Rows
from . import hnsp
from .label_reader import LabelReader
from .records import CountRow, LabelForest

# Hidden cuts are sampled in paused leaves with more points than this number (see
# `partitions.mondrian.sampling`).
PAUSE_LIMIT = 32

# Initial capacity of a row of counts, in classes.
FIRST_COUNTS = 4
# Initial capacity of a row for class weights, in classes.
FIRST_WEIGHTS = 2


class LabelTrees(trees.ClassTrees[LabelForest]):
    """Mondrian trees with a hierarchical label posterior.

    Parameters
    ----------
    partitions
        Number, lifetime and other arguments of the trees (`tree_store.Partitions`).
    gamma
        Rate of the discount. None means ten times the number of features at the end of the warm-up.
    split_pure
        Whether leaves of one class are cut instead of being paused.

    """

    _READER = LabelReader
    _RENEWS: ClassVar[bool] = True
    _PREDICT: ClassVar[Any] = hnsp.predict_one
    _PREDICT_ANY: ClassVar[Any] = hnsp.predict_any
    _FOREST = LabelForest

    def __init__(
        self,
        partitions: tree_store.Partitions,
        gamma: float | None = None,
        split_pure: bool = False,
    ) -> None:
        self.gamma = gamma
        self.split_pure = split_pure
        super().__init__(partitions)

    def _set_up(self) -> None:
        forest = self.forest
        forest.splits_pure = int(self.split_pure)
        forest.hide_limit = PAUSE_LIMIT
        forest.gamma = 1.0 if self.gamma is None else self.gamma
        forest.n_set_words = 1
        forest.count_width = FIRST_COUNTS

    def _kept_sections(self) -> tuple[Section, ...]:
        # The classes below each child, and the weights of these classes.
        n_words, n_weights = self.forest.n_set_words, self.forest.weight_capacity
        sets = Section("classes_left", INT32, n_words), Section("classes_right", INT32, n_words)
        if n_weights == 0:
            return sets
        left, right = (Section(f"weights_{side}", FLOAT64, n_weights) for side in ("left", "right"))
        return *sets, left, right

    def _side_layout(self) -> RowLayout:
        return RowLayout(CountRow, (Section("counts", INT32, self.forest.count_width),))

    def _check_kind(self) -> None:
        forest, n = self.forest, int(self.forest.n_classes)
        check_number(self, "n_set_words", forest.n_set_words, max(1, -(-n // 32)), MOST_CLASSES)
        check_number(self, "count_width", forest.count_width, max(1, n), MOST_CLASSES)
        if forest.weight_capacity != 0:
            check_number(self, "weight_capacity", forest.weight_capacity, n, MOST_CLASSES)

    def _edges(self, slot: int, tables: dict[str, Rows]) -> list[Edges]:
        # In a free row, a link to the next free row replaces the counts.
        following = Edges("side_rows", "next_free", Ref("side_rows"), tables["side_rows"].word(0))
        return [*super()._edges(slot, tables), following]

    def _check_tree(self, t: int, tables: dict[str, Rows], followed: Followed) -> None:
        words = np.arange(32 * self.forest.n_set_words) < self.forest.n_classes
        known = np.packbits(words, bitorder="little").view("<u4")
        for name in ("classes_left", "classes_right"):
            sets = tables["nodes"].column(name)[tables["nodes"].which(IN_USE)]
            if (sets.view(np.uint32) & ~known).any():
                refuse(f"tree {t}", name, "wrong", f"but there are {self.forest.n_classes} classes")

    def add_class(self) -> int:
        """Add a class, and return its number."""
        forest = self.forest
        label = forest.n_classes
        forest.n_classes = label + 1
        words, weights = int(forest.n_set_words), int(forest.weight_capacity)
        lacks_words, lacks_weights = label >= 32 * words, 0 < weights <= label
        if lacks_words or lacks_weights:
            n_words = words + max(1, words // 2) if lacks_words else words
            self._relay_sides(n_words, 2 * weights if lacks_weights else weights)
        width = forest.count_width
        if label >= width:
            forest.count_width = 2 * width
            self.side_rows = self.side_rows.resized(2 * width, [(0, 0, width)])
            self._reserve_all(0)
        return label

    def _relay_sides(self, n_words: int, n_weights: int) -> None:
        """Copy all rows to rows with `n_words` words per set and `n_weights` weights per side."""
        forest, known, box = self.forest, self._kept_sections(), int(self.forest.box_word)
        forest.n_set_words, forest.weight_capacity = n_words, n_weights
        self._set_words()
        source = target = self._NODE.WORDS
        moves = [(0, 0, source)]
        for old, new in zip(known, self._kept_sections(), strict=False):
            moves.append((source, target, words_of([old])))
            source, target = source + words_of([old]), target + words_of([new])
        moves.append((box, forest.box_word, forest.node_words - forest.box_word))
        self.nodes = self.nodes.resized(self._node_layout().words, moves)
        self._reserve_all(0)

    @property
    def has_weights(self) -> bool:
        """Whether nodes store weights, because a sample had a weight other than 1."""
        return bool(self.forest.weight_capacity > 0)

    def weigh(self) -> None:
        """Add weights to all nodes, if nodes have none. The caller must have begun a change."""
        forest = self.forest
        if self.has_weights:
            return
        self._relay_sides(int(forest.n_set_words), max(FIRST_WEIGHTS, int(forest.n_classes)))
        for t in range(self.n_with_nodes):
            order = Int32s.of(np.empty(self.trees[t].nodes.n_rows, dtype=np.int32))
            hnsp.fill_weights(forest, t, order)
        self.trees.words["side_rows.n_rows"] = 0
        self.trees.words["free_side_row"] = constants.NONE
        self.side_rows = ChunkedRows(len(self.trees), self._side_layout().words)
        self._reserve_all(0)

    def add_inputs(
        self, names: Sequence[Hashable], first_values: Floats, gaps: Floats | float = math.nan
    ) -> None:
        """Add features (see `TreeStore.add_inputs`)."""
        super().add_inputs(names, first_values, gaps)
        if self.n_samples < tree_store.WARM_UP and self.gamma is None:
            self.forest.gamma = 10.0 * self.n_inputs

    def learner(self, version: int | None = None) -> Callable[[bytes, int, float], int]:
        """Return a function that learns a sample, given packed inputs, a class and a weight.

        The function returns the result of `hnsp.learn_one` for the trees' version `version`, by
        default the current version.
        """
        kernel = hnsp.learn_in_window if self.has_window else hnsp.learn_one
        now = self.version if version is None else version
        return functools.partial(kernel.of(self._FOREST), self.forest, now)

    def reserve_next(self) -> bool:
        """Reserve memory for the next sample's point; return False if more steps are needed."""
        if self.is_changing or self.fits_ranges:
            return False
        self.close()
        if self.forest.n_walking > 0:
            return False
        self._reserve_points(self.n_points + 1)
        self.open()
        return True

    def learn(self, label: int, weight: float) -> int:
        """Learn the sample in `inputs` with a class, and allocate memory if necessary.

        Returns DONE, or the index of an input that is too large. If an input is too large, nothing
        changes.
        """
        inputs = self.vector[: self.n_inputs].tobytes()
        return self.learn_closed(
            lambda: self.learner(self.forest.version)(inputs, label, weight),
            lambda p: self.put(np.array([label]), np.array([weight]), p),
        )

    def learn_rows(self, inputs: Floats, labels: Ints, weights: Floats, n_jobs: int) -> None:
        """Learn rows of checked inputs, shape (n, inputs), with classes, after the warm-up."""

        def put(start: int, n: int, first: int) -> None:
            self.put(labels[start : start + n], weights[start : start + n], first)

        def learn(i: int) -> None:
            self.learn(int(labels[i]), float(weights[i]))

        self._learn_rows(inputs, put, learn, n_jobs)

    def put(self, labels: Ints, weights: Floats, first: int) -> None:
        """Write the classes and the weights of the points from `first` on."""
        numbers = Int64s.of(labels), Float64s.of(weights)
        hnsp.put_samples(self.forest, *numbers, len(labels), first)

    # Prediction.

    def predict_rows(self, inputs: Floats, n_jobs: int) -> Floats:
        """Predict rows of checked inputs, and return probabilities, shape (n, classes)."""
        kernel, kind, n_classes = hnsp.predict_many, hnsp.LabelPrediction, self.forest.n_classes
        return self._predict_rows(kernel, kind, "probabilities", inputs, n_classes, n_jobs)
