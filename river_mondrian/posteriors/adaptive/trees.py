"""Adaptive trees over classes, the lines beside them, and the mixture of both."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...checks import check_number, refuse
from ...learners.discriminants import N_DISCRIMINANTS, LinearDiscriminants
from ...learners.drift import DriftWatch
from ...learners.experts import Mixture
from ...limits import DONE, TOO_LARGE
from ...partitions.mondrian.reading import Kept, NodeView, TreeTable
from ...partitions.mondrian.records import Node, Point, Tree
from ...partitions.mondrian.tree_memory import WARM_UP, Partitions
from ...partitions.mondrian.trees import ClassTrees
from ...records import INT32, Memory, Part, RowLayout
from ...restored import Followed, Rows
from ..gains import gains_of_classes
from ..rebuilt.forest import DEEPEST, LONG, PATH_LENGTH
from ..rebuilt.trees import RebuiltTrees, room_for
from . import prediction
from .explanation import Explanation, class_weights
from .learning import ClassForest, error_of, learn
from .seen import counts_in, is_sound, put_seen, seen_counts, seen_in
from .statistics import (
    BLOCK,
    CLASSES_OF_WORD,
    MOST_CLASSES,
    N_FIRST,
    N_LINKS,
    N_POSTERIORS,
    N_TOGETHER,
    AdaptiveNode,
    AdaptivePoint,
    AdaptiveTree,
    ClassBlock,
    ClassSides,
    FoundRow,
    SeenClass,
    Statistics,
    StatisticsEntry,
    Step,
    most_rows,
)

# More classes than these are many (see `seen`). Of fewer, places for all take less time.
MOST_DENSE = 128

# What follows the statistics of a row then. Rows that others are linked to have more classes in
# place of the statistics.
SEEN_PARTS = (Part("seen", SeenClass, N_FIRST), Part("links", INT32, N_LINKS))

POSTERIORS = (
    "hierarchical posterior",
    "average over prunings",
    "average over prunings with forgetting",
)
DISCRIMINANTS = ("softmax, small steps", "softmax, large steps", "naive Bayes")
EXPERTS = (
    *(f"{name}, {of}" for of in ("trees of all samples", "all trees") for name in POSTERIORS),
    *DISCRIMINANTS,
)
# Experts that are posteriors of trees: of all samples, and of both kinds of trees.
N_TREE_EXPERTS = 2 * N_POSTERIORS
N_EXPERTS = N_TREE_EXPERTS + N_DISCRIMINANTS


@dataclass
class AdaptiveView(NodeView):
    """A node with the weights of the classes that it has seen: numbers where samples weigh 1."""

    counts: NDArray[Any]


class AdaptiveTrees(RebuiltTrees[ClassForest, AdaptiveView], ClassTrees[ClassForest, AdaptiveView]):
    """Trees of all samples in a window, trees of recent ones, and a spare that is being built.

    Parameters
    ----------
    partitions
        Arguments of trees of all kinds; the last tree is the spare one.
    n_long
        Number of trees of all samples.
    n_candidates
        Number of cuts among which one is chosen.
    max_samples
        Number of samples at which the window is halved.
    max_bytes
        Bytes that the trees may take, for which the window is halved earlier; None for no limit.
    root_forgets
        Whether the memories of the roots forget, too.
    watch
        The errors by which drifts are detected; None where none are.

    """

    _FOREST = ClassForest
    _TREE: ClassVar[type[Tree]] = AdaptiveTree
    _NODE: ClassVar[type[Node]] = AdaptiveNode
    _POINT: ClassVar[type[Point]] = AdaptivePoint
    _VIEW = AdaptiveView
    _learn_one: Callable[[ClassForest, int, float, bool, int], int] | None
    _ZEROED_SIDE_ROWS: ClassVar[bool] = False
    _DERIVED: ClassVar[frozenset[str]] = RebuiltTrees._DERIVED | {"out"}
    _ENTRY = StatisticsEntry

    def __init__(
        self,
        partitions: Partitions,
        n_long: int,
        n_candidates: int,
        max_samples: int,
        max_bytes: int | None,
        root_forgets: bool,
        watch: DriftWatch | None = None,
    ) -> None:
        self.root_forgets = root_forgets
        self.mixture = Mixture(N_EXPERTS)
        self.discriminants = LinearDiscriminants()
        super().__init__(partitions, n_long, n_candidates, max_samples, max_bytes, watch)

    def _check_kind(self) -> None:
        super()._check_kind()
        n, capacity = self.forest.n_classes, self.forest.class_capacity
        check_number(self, "class_capacity", capacity, max(BLOCK, n), 2 * MOST_CLASSES)
        if capacity % BLOCK:
            refuse(self, "class_capacity", capacity, f"but it is in blocks of {BLOCK}")

    def _check_tree(self, t: int, tables: dict[str, Rows], found: Followed) -> None:
        super()._check_tree(t, tables, found)
        if self.forest.is_sparse:
            numbers, n = tables["nodes"].column("statistics_row"), int(self.forest.n_classes)
            rows = self.side_rows.rows(self.trees[t].slot, tables["side_rows"].n)
            if not is_sound(rows, numbers[numbers > 0] - 1, n):
                refuse(self, "side_rows", len(rows), f"of tree {t}, with wrong links or classes")

    def _set_up(self) -> None:
        super()._set_up()
        self.forest.gamma = 1.0
        self.forest.root_forgets = int(self.root_forgets)
        self.forest.class_capacity = BLOCK

    def _set_words(self) -> None:
        super()._set_words()
        self.forest.statistics_words = self._side_layout().words

    def _side_layout(self) -> RowLayout:
        if self.forest.is_sparse:
            return RowLayout(Statistics, SEEN_PARTS)
        return self._dense_layout

    @property
    def _dense_layout(self) -> RowLayout:
        """What a row of statistics is where there are few classes."""
        capacity = self.forest.class_capacity
        blocks = Part("blocks", ClassBlock, capacity // BLOCK)
        sides = Part("sides", INT32, -(-capacity // CLASSES_OF_WORD))
        return RowLayout(Statistics, (blocks, sides))

    @property
    def _side_room(self) -> tuple[int, int]:
        of_call, of_split = super()._side_room
        if not self.forest.is_sparse:
            return of_call, of_split
        # What two new nodes have seen; and every node on a path may see a class for the first time.
        more = 2 * most_rows(int(self.forest.class_capacity))
        return of_call + DEEPEST + more, of_split + more

    def _finish_kind(self) -> None:
        forest, own = self.forest, self.shared.own
        capacity = int(forest.class_capacity)
        own("nothing", np.zeros(SeenClass.SIZE, dtype=np.uint8))
        own("class_sides", room_for(ClassSides, self.n_candidates * capacity))
        own("block_classes", np.zeros(capacity, dtype=np.int64))
        own("class_numbers", np.zeros(capacity, dtype=np.int64))
        own("ages", np.empty(self.points.capacities[0], dtype=np.int32))
        mixture, discriminants = self.mixture, self.discriminants
        mixture.reserve(capacity)
        of_discriminants = mixture.predicted[N_TREE_EXPERTS:]
        discriminants.record.n_inputs = self.n_inputs
        discriminants.reserve(
            capacity,
            self.inputs.shape[1],
            of_discriminants,
            self.category_places,
        )
        forest.experts, forest.discriminants = mixture.record, discriminants.record
        self._show_classes()

    def _own_prediction(self, shared: Memory[ClassForest]) -> None:
        super()._own_prediction(shared)
        own, capacity = shared.own, int(shared[0].class_capacity)
        own("steps", room_for(Step, PATH_LENGTH))
        own("posterior_sums", np.zeros(2 * shared[0].n_sums(), dtype=np.float32))
        own("found", room_for(FoundRow, N_TOGETHER * most_rows(capacity)))
        own("seen_labels", np.zeros(capacity, dtype=np.int64))
        own("node_c", np.zeros(capacity, dtype=np.float32))
        own("below", np.zeros(capacity, dtype=np.float32))

    def _reader(self) -> list[Memory[Any]]:
        experts = self.mixture.reader()
        of_trees = N_TREE_EXPERTS * int(experts[0].width)
        discriminants = self.discriminants.reader(experts.arrays["predicted"][of_trees:])
        shared, *rest = super()._reader()
        shared[0].experts, shared[0].discriminants = experts[0], discriminants[0]
        return [shared, *rest, experts, discriminants]

    def _reserve_points(self, n: int) -> None:
        # Kernels hear of more points once there is room for the ages of as many.
        capacity = self.points.reserve(0, n)
        if capacity > self.forest.ages.length:
            self.shared.own("ages", np.empty(capacity, dtype=np.int32))
        super()._reserve_points(n)

    def _show_classes(self) -> None:
        """Tell the mixture how many classes there are."""
        n_classes = int(self.forest.n_classes)
        self.mixture.record.n_classes = self.discriminants.record.n_classes = n_classes
        self.out = self.mixture.mixed[:n_classes]
        self._forget_predicted()

    @property
    def _bytes_of_point(self) -> int:
        return super()._bytes_of_point + self.shared.arrays["ages"].itemsize

    @property
    def _bytes_of_points(self) -> int:
        return super()._bytes_of_points + self.shared.arrays["ages"].nbytes

    def add_inputs(
        self,
        names: Sequence[Hashable],
        first_values: NDArray[np.float64],
        gaps: NDArray[np.float64] | float = math.nan,
    ) -> None:
        """Add features (see `.add_inputs`)."""
        super().add_inputs(names, first_values, gaps)
        new = (self.n_inputs - len(names) + np.flatnonzero(np.isfinite(gaps))).tolist()
        self.discriminants.begin_at_zero([i for i in new if i not in self.category_places])
        if self.n_samples < WARM_UP:
            self.forest.gamma = 10.0 * self.n_inputs

    def add_class(self) -> int:
        """Add a class; returns its number."""
        forest = self.forest
        label = int(forest.n_classes)
        forest.n_classes = label + 1
        if label >= MOST_DENSE and not forest.is_sparse:
            self._keep_seen()
        old = int(forest.class_capacity)
        if label >= old:
            known = forest.statistics_words, self._side_layout().parts[-1].length
            forest.class_capacity = -(-5 * old // (4 * BLOCK)) * BLOCK
            if not forest.is_sparse:
                self._widen_statistics(*known)
            self._finish()
        self._show_classes()
        return label

    def _widen_statistics(self, known: int, n_sides: int) -> None:
        """Give rows of statistics room for more classes; they had so many words, and of sides."""
        self._set_words()
        words, new = self.forest.statistics_words, self._side_layout().parts[-1].length
        moves = [(0, 0, known - n_sides), (known - n_sides, words - new, n_sides)]
        self.side_rows = self.side_rows.relaid(words, moves)

    def _keep_seen(self) -> None:
        """Let rows of statistics have the classes that they have seen, instead of all."""
        forest, known, n_classes = self.forest, self.side_rows, int(self.forest.n_classes)
        capacity = int(forest.class_capacity)
        forest.is_sparse = 1
        self._set_words()
        kept = [(0, 0, Statistics.WORDS)]
        self.side_rows = known.relaid(forest.statistics_words, kept)
        for t, tree in enumerate(self.trees):
            rows = known.rows(tree.slot, tree.side_rows.n_rows)
            seen = seen_in(rows, min(n_classes, capacity), capacity)
            self.side_rows.show(tree.slot, tree.side_rows)
            self.side_rows.grow(tree.slot, tree.side_rows, tree.side_rows.n_rows + len(seen.rows))
            put_seen.of()(forest, t, *seen.arguments())
        self._finish()

    def _restore(self, state: dict[str, Any]) -> None:
        forest = state["shared"][0]
        forest.is_sparse = int(forest.n_classes > MOST_DENSE)
        super()._restore(state)

    # Learning.

    def learn(self, label: int, weight: float = 1.0, is_new: bool = False, found: int = 0) -> int:
        """Learn the sample in `inputs` with a class, which has or has not been seen before.

        `found` is how many samples a detector outside would keep, 0 unless it has detected a drift.
        Returns DONE, or the input whose value is too large; then nothing has changed.
        """
        learn_one = self._learn_one
        if learn_one is None:
            learn_one = self._learn_one = learn.of()
        return self._learned(learn_one(self.forest, label, weight, is_new, found))

    def error(self, label: int, is_new: bool) -> float:
        """Return the error of the sample in `inputs`, or `TOO_LARGE - i` if that is too large."""
        return error_of.of()(self.forest, label, is_new)

    def forget_before(self, n: int) -> None:
        """Keep the latest `n` samples as other trees do, and let lines and mixture follow."""
        self.discriminants.follow_drift()
        self.mixture.follow_drift()
        super().forget_before(n)

    # Prediction.

    def predictor(self) -> Callable[[bytes, bytearray], int]:
        """Return the kernel that predicts a sample."""
        return functools.partial(prediction.predict_one.of(self._FOREST), self.forest, self.version)

    def predict(self, inputs: bytes, out: bytearray) -> int:
        """Predict a sample as a predictor does."""
        call: Callable[..., int] = prediction.predict_one.of(self._FOREST)
        return call(self.forest, self.forest.version, inputs, out)

    def predict_rows(self, inputs: NDArray[np.float64], n_jobs: int) -> NDArray[np.float64]:
        """Predict rows of checked inputs; returns probabilities, shape (n, classes)."""
        predict = prediction.predict_rows.of(self._FOREST)
        return self._predict_rows_by(predict, inputs, int(self.forest.n_classes), n_jobs)

    # Inspection.

    def counts(self, t: int) -> NDArray[np.float32]:
        """Return the classes' weights in a tree's rows of statistics, shape (rows, classes)."""
        rows = self.side_rows.rows(t, self.trees[t].side_rows.n_rows)
        read = seen_counts if self.forest.is_sparse else counts_in
        found: NDArray[np.float32] = read(rows, int(self.forest.n_classes))
        return found

    def _kept(self, t: int, hidden: bool) -> Kept:
        n_classes = int(self.forest.n_classes)
        seen = self.counts(t)

        # Numbers of samples are whole.
        kind = np.float64 if self.forest.is_weighted else np.int64

        def kept(ref: int, record: Any) -> tuple[bool, bool, tuple[NDArray[Any]]]:
            counts = np.zeros(n_classes, dtype=kind)
            if ref < 0:
                counts[record.label] = record.weight
                return True, True, (counts,)
            if record.statistics_row > 0:
                counts[:] = seen[record.statistics_row - 1]
            return record.dim < 0, bool((counts > 0).sum() == 1), (counts,)

        return kept

    def cut_gains(self, t: int) -> tuple[TreeTable, NDArray[np.float64], float]:
        """Return a tree's table, the gain of each cut there, and the weight of all samples."""
        table = self.table(t)
        weights = class_weights(self, t, table)
        return table, gains_of_classes(table, weights), float(weights[:1].sum())

    def _importance_trees(self) -> Sequence[int]:
        return self.schedule.of_role(LONG)

    def root_prediction(self) -> NDArray[np.float64]:
        """Return what the mixture predicts by the roots and by lines without a feature."""
        inputs = np.full(self.n_inputs, np.nan)
        self.predict(inputs.tobytes(), bytearray(self.out.nbytes))
        return Explanation(self, inputs).baseline

    def explain(self, inputs: NDArray[np.float64]) -> tuple[int, NDArray[np.float64]]:
        """Return what each feature adds to the prediction of a sample of these inputs."""
        best = self.predict(inputs.tobytes(), bytearray(self.out.nbytes))
        if best <= TOO_LARGE:
            return TOO_LARGE - best, np.empty((0, 0))
        return DONE, Explanation(self, inputs).contributions
