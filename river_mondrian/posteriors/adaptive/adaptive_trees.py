"""Adaptive trees over classes, linear discriminants, and the mixture of both."""

import math
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from ... import checks, restored
from ...compiling.kernels import set_entries
from ...learners import drift, experts
from ...learners.discriminants import LinearDiscriminants
from ...learners.neighbors import WINDOWS
from ...limits import MOST_CLASSES
from ...partitions.mondrian.tree_store import WARM_UP, Partitions
from ...partitions.mondrian.trees import ClassTrees
from ...records import INT32, Floats, Memory, RowLayout, Section
from ..rebuilt.forest import DEEPEST, PATH_LENGTH
from ..rebuilt.rebuilt_trees import RebuiltTrees
from . import nodes, prediction, seen, weighting
from .adaptive_reader import AdaptiveReader
from .class_forest import ClassForest
from .nodes import N_EXPERTS, N_MODEL_EXPERTS, N_TREE_EXPERTS, SeenClass, Statistics

# With at most this many classes, a row of statistics stores all classes, which is faster. With more
# classes, a row stores only the node's seen classes (see `seen`).
MOST_DENSE = 128

# With many classes, these parts follow the statistics in a node's own row. In linked rows, further
# classes replace the statistics (see `seen`).
SEEN_SECTIONS = (Section("seen", SeenClass, nodes.N_FIRST), Section("links", INT32, nodes.N_LINKS))

POSTERIORS = (
    "hierarchical posterior",
    "average over prunings",
    "average over prunings with forgetting",
)
DISCRIMINANTS = ("softmax, small steps", "softmax, large steps", "naive Bayes")
EXPERTS = (
    *(f"{name}, {of}" for of in ("trees of all samples", "all trees") for name in POSTERIORS),
    *DISCRIMINANTS,
    *(f"nearest of the latest {n:,} samples" for n in WINDOWS),
    "fixed share of the others",
)


class AdaptiveTrees(RebuiltTrees[ClassForest], ClassTrees[ClassForest]):
    """Trees of all samples in a window, trees of recent samples, and a spare tree for builds.

    Parameters
    ----------
    partitions
        Number, lifetime and other arguments of the trees. Initially, the last tree is the spare
        tree.
    n_long
        Number of trees of all samples.
    n_candidates
        Number of cuts from which the best cut is chosen.
    max_samples
        Number of samples at which the window is halved.
    max_bytes
        Largest size of the trees in bytes. The window is halved earlier to stay below this size.
        None sets no limit.
    root_forgets
        Whether class counts are discounted at the roots too, not only at other nodes.
    watch
        The model's errors and the drift detector. None disables drift detection.

    """

    _FOREST = ClassForest
    _READER = AdaptiveReader
    _PREDICT: ClassVar[Any] = prediction.predict_one
    _ZEROED_SIDE_ROWS: ClassVar[bool] = False
    _DERIVED: ClassVar[frozenset[str]] = RebuiltTrees._DERIVED | {"out"}

    def __init__(
        self,
        partitions: Partitions,
        n_long: int,
        n_candidates: int,
        max_samples: int,
        max_bytes: int | None,
        root_forgets: bool,
        watch: drift.DriftWatch | None = None,
    ) -> None:
        self.root_forgets = root_forgets
        self.mixture = experts.Mixture(N_EXPERTS)
        self.discriminants = LinearDiscriminants()
        super().__init__(partitions, n_long, n_candidates, max_samples, max_bytes, watch)

    def _check_kind(self) -> None:
        super()._check_kind()
        checks.check_equal(self, self.mixture.record, n_experts=N_EXPERTS + 1)
        n, capacity = self.forest.n_classes, self.forest.class_capacity
        checks.check_number(self, "class_capacity", capacity, max(nodes.BLOCK, n), 2 * MOST_CLASSES)
        if capacity % nodes.BLOCK:
            checks.refuse(self, "class_capacity", capacity, f"but not a multiple of {nodes.BLOCK}")

    def _check_tree(
        self, t: int, tables: dict[str, restored.Rows], followed: restored.Followed
    ) -> None:
        super()._check_tree(t, tables, followed)
        if self.forest.is_sparse:
            numbers, n = tables["nodes"].column("statistics_row"), int(self.forest.n_classes)
            rows = self.side_rows.rows(self.trees[t].slot, tables["side_rows"].n)
            if not seen.is_sound(rows, numbers[numbers > 0] - 1, n):
                checks.refuse(
                    self, "side_rows", len(rows), f"of tree {t}, with wrong links or classes"
                )

    def _set_up(self) -> None:
        super()._set_up()
        self.forest.gamma = 1.0
        self.forest.root_forgets = int(self.root_forgets)
        self.forest.class_capacity = nodes.BLOCK

    def _set_words(self) -> None:
        super()._set_words()
        self.forest.statistics_words = self._side_layout().words

    def _side_layout(self) -> RowLayout:
        if self.forest.is_sparse:
            return RowLayout(Statistics, SEEN_SECTIONS)
        capacity = self.forest.class_capacity
        blocks = Section("blocks", nodes.ClassBlock, capacity // nodes.BLOCK)
        sides = Section("sides", INT32, -(-capacity // nodes.CLASSES_OF_WORD))
        return RowLayout(Statistics, (blocks, sides))

    @property
    def _side_rows_needed(self) -> tuple[int, int]:
        of_call, of_split = super()._side_rows_needed
        if not self.forest.is_sparse:
            return of_call, of_split
        # Two new nodes need side rows (rows of statistics). Each node on a path may need one more
        # row, for a class that the node has not seen.
        of_nodes = 2 * nodes.most_rows(int(self.forest.class_capacity))
        return of_call + DEEPEST + of_nodes, of_split + of_nodes

    def _finish(self) -> None:
        super()._finish()
        forest, own = self.forest, self.shared.own
        capacity = int(forest.class_capacity)
        own("seen.nothing", np.zeros(SeenClass.SIZE, dtype=np.uint8))
        self.shared.own_records("leaf.sides", self.n_candidates * capacity)
        own("leaf.classes", np.zeros(capacity, dtype=np.int64))
        own("leaf.numbers", np.zeros(capacity, dtype=np.int64))
        own("leaf.ages", np.empty(self.points.capacities[0], dtype=np.int32))
        mixture, discriminants = self.mixture, self.discriminants
        mixture.reserve(capacity)
        discriminants.record.n_inputs = self.n_inputs
        predicted, categories = (
            mixture.predicted[N_TREE_EXPERTS:N_MODEL_EXPERTS],
            self.category_indices,
        )
        discriminants.reserve(capacity, self.inputs.shape[1], predicted, categories)
        forest.experts, forest.discriminants = mixture.record, discriminants.record
        self._refresh_neighbors()
        if forest.is_sparse:
            of_many = seen.find, seen.list_many, weighting.add_seen, prediction.average_many
            set_entries(forest, *of_many)
        if forest.is_weighted:
            self._refresh_weighted()
        self._refresh_classes()

    def _refresh_weighted(self) -> None:
        """Compile the kernels for weights other than 1, and store the kernels' addresses."""
        of_weights = prediction.clear_below, prediction.count_tables, weighting.update_by_logs
        set_entries(self.forest, *of_weights)

    def _own_prediction(self, shared: Memory[ClassForest]) -> None:
        super()._own_prediction(shared)
        own, capacity = shared.own, int(shared[0].class_capacity)
        shared.own_records("posterior.steps", PATH_LENGTH)
        own("posterior.sums", np.zeros(2 * shared[0].n_sums(), dtype=np.float32))
        shared.own_records("seen.rows", nodes.N_TOGETHER * nodes.most_rows(capacity))
        own("seen.labels", np.zeros(capacity, dtype=np.int64))
        own("posterior.node_c", np.zeros(capacity, dtype=np.float32))
        own("posterior.below", np.zeros(capacity, dtype=np.float32))

    def _records_for_thread(self) -> list[Memory[Any]]:
        mixture = self.mixture.reader()
        of_trees = N_TREE_EXPERTS * int(mixture[0].width)
        discriminants = self.discriminants.reader(mixture.arrays["predicted"][of_trees:])
        of_models = N_MODEL_EXPERTS * int(mixture[0].width)
        neighbors = self.neighbors.reader(mixture.arrays["predicted"][of_models:])
        shared, *rest = super()._records_for_thread()
        shared[0].experts, shared[0].discriminants = mixture[0], discriminants[0]
        shared[0].neighbors = neighbors[0]
        return [shared, *rest, mixture, discriminants, neighbors]

    @property
    def _n_classes(self) -> int:
        return int(self.forest.n_classes)

    def _refresh_neighbors(self) -> None:
        # The neighbors write predictions directly to rows of the mixture.
        self.neighbors.record.width = self.forest.class_capacity
        self.neighbors.show(self.mixture.predicted[N_MODEL_EXPERTS:N_EXPERTS])
        self.neighbors.record.n_classes = self.forest.n_classes
        super()._refresh_neighbors()

    def _reserve_points(self, n: int) -> None:
        # Enlarge the buffer for ages first, since kernels may use new capacity for points
        # immediately.
        capacity = self.points.reserve(0, n)
        if capacity > self.forest.leaf.ages.length:
            self.shared.own("leaf.ages", np.empty(capacity, dtype=np.int32))
        super()._reserve_points(n)

    def _refresh_classes(self) -> None:
        """Set the number of classes of the mixture and the discriminants."""
        n_classes = int(self.forest.n_classes)
        self.mixture.record.n_classes = self.discriminants.record.n_classes = n_classes
        self.neighbors.record.n_classes = n_classes
        self.out = self.mixture.memory.arrays["mixed"][:n_classes]
        self._forget_predicted()

    def _growth_for(self, n: int) -> int:
        ages = self.shared.arrays["leaf.ages"]
        return super()._growth_for(n) + n * ages.itemsize - ages.nbytes

    def add_inputs(
        self, names: Sequence[Hashable], first_values: Floats, gaps: Floats | float = math.nan
    ) -> None:
        """Add features (see `TreeStore.add_inputs`)."""
        super().add_inputs(names, first_values, gaps)
        new = (self.n_inputs - len(names) + np.flatnonzero(np.isfinite(gaps))).tolist()
        self.discriminants.begin_at_zero([i for i in new if i not in self.category_indices])
        if self.n_samples < WARM_UP:
            self.forest.gamma = 10.0 * self.n_inputs

    def add_class(self) -> int:
        """Add a class, and return its number."""
        forest = self.forest
        label = int(forest.n_classes)
        forest.n_classes = label + 1
        if label >= MOST_DENSE and not forest.is_sparse:
            self._keep_seen()
        old = int(forest.class_capacity)
        if label >= old:
            known, n_sides = forest.statistics_words, self._side_layout().sections[-1].length
            forest.class_capacity = -(-5 * old // (4 * nodes.BLOCK)) * nodes.BLOCK
            if not forest.is_sparse:
                self._set_words()
                words, new = forest.statistics_words, self._side_layout().sections[-1].length
                moves = [(0, 0, known - n_sides), (known - n_sides, words - new, n_sides)]
                self.side_rows = self.side_rows.resized(words, moves)
            self._finish()
        self._refresh_classes()
        return label

    def _keep_seen(self) -> None:
        """Convert rows of all classes to rows of the seen classes."""
        forest, known, n_classes = self.forest, self.side_rows, int(self.forest.n_classes)
        capacity = int(forest.class_capacity)
        forest.is_sparse = 1
        self._set_words()
        self.side_rows = known.resized(forest.statistics_words, [(0, 0, Statistics.WORDS)])
        for t, tree in enumerate(self.trees):
            rows = known.rows(tree.slot, tree.side_rows.n_rows)
            classes, numbers, n = seen.seen_in(rows, min(n_classes, capacity), capacity)
            self.side_rows.show(tree.slot, tree.side_rows)
            self.side_rows.grow(tree.slot, tree.side_rows, tree.side_rows.n_rows + n)
            seen.put_seen.of()(forest, t, classes, numbers, n)
        self._finish()

    def _restore(self, state: dict[str, Any]) -> None:
        forest = state["shared"][0]
        forest.is_sparse = int(forest.n_classes > MOST_DENSE)
        super()._restore(state)

    # Learning.

    def learn(self, y: float, weight: float = 1.0, is_new: bool = False, n_to_keep: int = 0) -> int:
        """Learn a sample (see `RebuiltTrees.learn`)."""
        if weight != 1.0 and not self.forest.is_weighted:
            self._refresh_weighted()
        return super().learn(y, weight, is_new, n_to_keep)

    def forget_before(self, n: int) -> None:
        """Keep the latest `n` samples, and adapt the discriminants and the mixture to a drift."""
        self.discriminants.follow_drift()
        self.mixture.follow_drift()
        super().forget_before(n)

    # Prediction.

    def predict_rows(self, inputs: Floats, n_jobs: int) -> Floats:
        """Predict rows of checked inputs, and return probabilities, shape (n, classes)."""
        predict = prediction.predict_rows.of(self._FOREST)
        return self._predict_rows_by(predict, inputs, int(self.forest.n_classes), n_jobs)
