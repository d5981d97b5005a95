"""Trees that are built anew from a window of samples, a part at a time (see `rebuilding`)."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...learners.discriminants import N_DISCRIMINANTS, LinearDiscriminants
from ...learners.experts import Mixture
from ...partitions.mondrian.inspection import Kept, NodeView
from ...partitions.mondrian.records import NONE, Node, Point, Tree
from ...partitions.mondrian.tree_memory import WARM_UP, Partitions
from ...partitions.mondrian.trees import ClassTrees
from ...records import Part, Record, RowLayout
from ...status import (
    BUILDING_DUE,
    DONE,
    NO_PATH_ROOM,
    NO_POINT_ROOM,
    NO_ROOM,
    RIGHT_CLASS,
    TOO_LARGE,
    WRONG_CLASS,
)
from . import learning, prediction, rebuilding
from .records import (
    DEEPEST,
    IDLE,
    LONG,
    PATH_LENGTH,
    RECENT,
    AdaptiveForest,
    AdaptiveNode,
    AdaptivePoint,
    AdaptiveTree,
    Candidate,
    ClassSides,
    PathEntry,
    Step,
)
from .statistics import BLOCK, N_POSTERIORS, ClassBlock, Statistics, counts_in

# Samples of the recent trees.
RECENT_SAMPLES = 1000

# What a call may spend, in points, on building trees anew, for each of them.
BUILD_BUDGET = 80
# What is enough for any tree.
NO_LIMIT = 1 << 40

# Rows for which room is made at once where a tree is being built.
GROWTH = 4 * learning.ROOM

# How often bytes are counted, what trees may grow by while they are built anew, and the number of
# samples that are kept at any rate.
WEIGH_EVERY = 64
GROWING = 1.3
LEAST_WINDOW = 512

# Start of a tree that holds no sample.
NEVER = 2**62

# How far the dimensions of candidates follow the gains of the trees before.
GAIN_SHARE = 0.7

POSTERIORS = ("HNSP", "CTW, noisy", "CTW", "CTW with memories")
DISCRIMINANTS = ("softmax, small steps", "softmax, large steps", "naive Bayes")
EXPERTS = (
    *(f"{name}, {of}" for of in ("all", "recent", "both") for name in POSTERIORS),
    *DISCRIMINANTS,
)
# Experts that are posteriors of trees: of all samples, of recent ones, and of both.
N_TREE_EXPERTS = 3 * N_POSTERIORS
N_EXPERTS = N_TREE_EXPERTS + N_DISCRIMINANTS


@dataclass
class AdaptiveView(NodeView):
    """A node with the classes that it has seen."""

    counts: NDArray[np.int64]


def _room_for(kind: type[Record], n: int) -> NDArray[np.uint8]:
    """Return memory for so many records, which nothing need be in."""
    return np.empty(n * kind.SIZE, dtype=np.uint8)


class AdaptiveTrees(ClassTrees[AdaptiveForest, AdaptiveView]):
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

    """

    _FOREST = AdaptiveForest
    _TREE: ClassVar[type[Tree]] = AdaptiveTree
    _NODE: ClassVar[type[Node]] = AdaptiveNode
    _POINT: ClassVar[type[Point]] = AdaptivePoint
    _VIEW = AdaptiveView
    _learn_one: Callable[[AdaptiveForest, int, bool], int] | None
    _predict_one: Callable[[AdaptiveForest], int] | None
    _ZEROED_SIDE_ROWS: ClassVar[bool] = False
    _DERIVED: ClassVar[frozenset[str]] = ClassTrees._DERIVED | {"out"}

    def __init__(
        self,
        partitions: Partitions,
        n_long: int,
        n_candidates: int,
        max_samples: int,
        max_bytes: int | None,
        root_forgets: bool,
    ) -> None:
        self.n_long = n_long
        self.n_recent = partitions.n_trees - 1 - n_long
        self.n_candidates = n_candidates
        self.max_samples = max_samples
        self.max_bytes = max_bytes
        # Old samples are needed until all trees are built without them.
        self.capacity = 2 * max_samples
        self.root_forgets = root_forgets
        # Number of the first sample of the window, and of all when the trees were last built anew.
        self.first = 0
        self.built_at = 0
        # The roles of trees that are to be built.
        self.jobs: deque[int] = deque()
        # The tree that is being built, and for which role.
        self.slot = partitions.n_trees - 1
        self.role = IDLE
        # When each tree was built, and from which sample on.
        self.ages = np.zeros(partitions.n_trees, dtype=np.int64)
        self.starts = np.zeros(partitions.n_trees, dtype=np.int64)
        self.gains = np.zeros((partitions.n_trees, 0))
        self.dim_weights = np.ones(0)
        self.mixture = Mixture(N_EXPERTS)
        self.discriminants = LinearDiscriminants()
        super().__init__(partitions)

    def _set_up(self) -> None:
        forest = self.forest
        forest.n_candidates = self.n_candidates
        forest.gamma = 1.0
        forest.root_forgets = int(self.root_forgets)
        forest.window_capacity = self.capacity
        forest.class_capacity = BLOCK
        words = self.trees.words
        words["queue"] = NONE
        words["role"][: self.n_long] = LONG

    def _set_words(self) -> None:
        super()._set_words()
        self.forest.statistics_words = self._side_layout().words

    def _side_layout(self) -> RowLayout:
        n_blocks = self.forest.class_capacity // BLOCK
        return RowLayout(Statistics, (Part("blocks", ClassBlock, n_blocks),))

    def _finish(self) -> None:
        super()._finish()
        forest, own = self.forest, self.shared.own
        n_trees, n_inputs, n_dims = len(self.trees), self.inputs.shape[1], int(forest.n_dims)
        capacity = int(forest.class_capacity)
        own("paths", _room_for(PathEntry, n_trees * PATH_LENGTH))
        own("walking", np.zeros(n_trees, dtype=np.int64))
        own("steps", _room_for(Step, PATH_LENGTH))
        own("posterior_sums", np.zeros(2 * N_POSTERIORS * capacity, dtype=np.float32))
        own("last_inputs", np.zeros(n_inputs))
        own("side_sums", np.zeros(n_dims))
        own("candidates", _room_for(Candidate, self.n_candidates))
        own("class_sides", _room_for(ClassSides, self.n_candidates * capacity))
        own("block_classes", np.zeros(capacity, dtype=np.int64))
        own("class_numbers", np.zeros(capacity, dtype=np.int64))
        mixture, discriminants = self.mixture, self.discriminants
        mixture.reserve(capacity)
        discriminants.reserve(capacity, n_inputs, mixture.predicted[N_TREE_EXPERTS:])
        discriminants.record.n_inputs = self.n_inputs
        forest.experts, forest.discriminants = mixture.record, discriminants.record
        self._show_classes()
        if self.gains.shape[1] < n_dims:
            gains = np.zeros((n_trees, n_dims))
            gains[:, : self.gains.shape[1]] = self.gains
            self.gains = gains
            self.dim_weights = np.append(self.dim_weights, np.ones(n_dims - len(self.dim_weights)))
        own("gains", self.gains.ravel())
        own("dim_weights", self.dim_weights)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        one_each = (len(self.trees),)
        gains = (*one_each, len(self.dim_weights))
        return super()._shapes() | {"ages": one_each, "starts": one_each, "gains": gains}

    def _show_classes(self) -> None:
        """Tell the mixture how many classes there are."""
        n_classes = int(self.forest.n_classes)
        self.mixture.record.n_classes = self.discriminants.record.n_classes = n_classes
        self.out = self.mixture.mixed[:n_classes]
        self._forget_predicted()

    def _forget_predicted(self) -> None:
        """Let no sample count as predicted, since the trees have changed."""
        self.forest.is_predicted = 0

    @property
    def nbytes(self) -> int:
        """Bytes held by arrays."""
        size = super().nbytes + sys.getsizeof(self.jobs)
        size += sum(array.nbytes + 128 for array in (self.ages, self.starts))
        return size + self.mixture.nbytes + self.discriminants.nbytes

    def add_inputs(self, names: Sequence[Hashable], first_values: NDArray[np.float64]) -> None:
        """Add features, each with the first value that was seen of it."""
        super().add_inputs(names, first_values)
        if self.n_samples < WARM_UP:
            self.forest.gamma = 10.0 * self.n_inputs

    def add_class(self) -> int:
        """Add a class; returns its number."""
        forest = self.forest
        label = int(forest.n_classes)
        forest.n_classes = label + 1
        old = int(forest.class_capacity)
        if label >= old:
            known = forest.statistics_words
            forest.class_capacity = -(-5 * old // (4 * BLOCK)) * BLOCK
            self._set_words()
            self.side_rows.relayout(forest.statistics_words, [(0, 0, known)])
            self._finish()
        self._show_classes()
        return label

    # Learning.

    def learn(self, label: int, is_new: bool = False) -> int:
        """Learn the sample in `inputs` with a class, which has or has not been seen before.

        Returns `status.RIGHT_CLASS` or `WRONG_CLASS`, as it would have been predicted, or the input
        whose value is too large; then nothing has changed.
        """
        learn_one = self._learn_one
        if learn_one is None:
            learn_one = self._learn_one = learning.learn.of()
        status = learn_one(self.forest, label, is_new)
        if not WRONG_CLASS + BUILDING_DUE <= status <= RIGHT_CLASS:
            status = self._learn_prepared(label, is_new)
            if status >= 0:
                return status
        if status < WRONG_CLASS:
            status -= BUILDING_DUE
            self._plan()
            self._advance(learning.BUILD_EVERY * BUILD_BUDGET * (len(self.trees) - 1))
        return status

    def _learn_prepared(self, label: int, is_new: bool) -> int:
        """Learn as `learn` does, where that needs room or more; BUILDING_DUE may be added."""
        forest, n = self.forest, self.n_samples
        rebuilds = False
        if self.warm_up is not None or n >= self.capacity:
            # What comes before the kernel changes something: not for a sample that is refused.
            best = self.predict()
            if best < 0:
                return TOO_LARGE - best
            rebuilds = self.warm_up is not None and self._make_room()
            if n >= self.capacity:
                self._let_go(n - self.capacity)
        status = learning.learn_prepared(forest, label, is_new, not rebuilds)
        while status >= 0 or status == NO_POINT_ROOM:
            if status >= 0:
                self._reserve_rows(status, GROWTH, GROWTH)
                self._forget_predicted()
            else:
                self._reserve_points(n % self.capacity + 1)
            status = learning.learn_prepared(forest, label, is_new, not rebuilds)
        if status <= TOO_LARGE:
            return TOO_LARGE - status
        if rebuilds:
            forest.points.row(n).label = label
            self._learn_by_rebuilding()
        return status

    # Building anew.

    def build(self) -> None:
        """Build the trees of all samples anew at once."""
        self._forget_predicted()
        self.jobs.clear()
        self._stop()
        self.built_at = self.n_samples
        for t in self._of_role(LONG).tolist():
            self._build_at_once(t)

    def _build_at_once(self, t: int) -> None:
        self._begin(t, self.first)
        self._go_on(t, NO_LIMIT)
        self.trees[t].role = LONG

    def _of_role(self, role: int) -> NDArray[np.int64]:
        """Return the trees of a role."""
        return np.flatnonzero(self.trees.words["role"] == role)

    def _let_go(self, last: int) -> None:
        """Let no tree hold the sample of this number or earlier ones: they are overwritten."""
        if last < self.starts.min():
            return
        self._forget_predicted()
        if self.role != IDLE:
            # Only one tree can be built at a time.
            self.jobs.appendleft(self.role)
            self._stop()
        for t in np.flatnonzero(self.starts <= last).tolist():
            if self.trees[t].role == LONG:
                self._build_at_once(t)
            else:
                self.trees[t].role = IDLE
                # It holds nothing.
                self.starts[t] = NEVER

    def forget_before(self, n: int) -> None:
        """Keep the latest `n` samples, and build all trees of these.

        Trees of recent samples that hold earlier ones are given up.
        """
        self.first = max(self.first, self.n_samples - n)
        self.built_at = self.n_samples
        self.jobs.clear()
        if self.starts[self.slot] < self.first:
            self._stop()
        recent = self._of_role(RECENT)
        self.trees.words["role"][recent[self.starts[recent] < self.first]] = IDLE
        self.jobs.extend([LONG] * self.n_long)

    def _plan(self) -> None:
        """Let trees be built anew where the window has doubled, is full, or new ones are recent."""
        n = self.n_samples
        kept = n - self.first
        if self.max_bytes is not None and n % WEIGH_EVERY == 0 and kept >= LEAST_WINDOW:
            self._fit_into(self.max_bytes)
        if kept >= self.max_samples:
            self.forget_before(self.max_samples // 2)
        elif kept >= 2 * max(self.built_at - self.first, WARM_UP // 2):
            self.built_at = n
            self.jobs.extend([LONG] * self.n_long)
        # Recent trees are built anew in turn, each as often.
        since = n * self.n_recent % RECENT_SAMPLES
        due = since < learning.BUILD_EVERY * self.n_recent and kept > RECENT_SAMPLES
        if due and RECENT not in self.jobs:
            # It is small, and is not recent any more where it waits for large ones.
            self.jobs.appendleft(RECENT)

    def _fit_into(self, limit: int) -> None:
        """End the window here where trees of more samples would take more bytes than the limit."""
        kept = self.n_samples - self.first
        if self.starts[self._of_role(LONG)].min() < self.first:
            # Trees that are going to be smaller have not been built anew yet.
            return
        # Twice the window is stored, and points cannot move.
        capacity = min(max(2 * kept, self.n_points), self.capacity)
        points = capacity * self.points.row_bytes
        trees = self.nodes.nbytes + self.side_rows.nbytes
        rest = self.nbytes - trees - self.points.nbytes
        if points + GROWING * trees + rest > limit:
            self.max_samples = kept
            if self.n_samples <= capacity:
                self.capacity = self.forest.window_capacity = capacity

    def _stop(self) -> None:
        """Give up the tree that is being built."""
        self.trees[self.slot].role = self.role = IDLE

    def _begin(self, t: int, first: int) -> None:
        self.starts[t] = self.forest.cursor = self.forest.built_from = first
        words = self.trees.words
        words["nodes.n_rows"][t] = words["side_rows.n_rows"][t] = 0
        self._reserve_rows(t, GROWTH, GROWTH)
        rebuilding.begin(self.forest, t)
        gains = self.gains[self._of_role(LONG)].sum(axis=0)
        # A single candidate has the law of the exact forest.
        if self.n_candidates > 1 and gains.sum() > 0.0:
            own = gains * (len(gains) / gains.sum())
            self.dim_weights[:] = (1.0 - GAIN_SHARE) + GAIN_SHARE * own

    def _advance(self, budget: int) -> None:
        """Go on with the trees that are to be built."""
        while budget > 0:
            if self.role == IDLE:
                if not self.jobs:
                    return
                self.role = self.jobs.popleft()
                first = self.first
                if self.role == RECENT:
                    first = max(first, self.n_samples - RECENT_SAMPLES)
                self._begin(self.slot, first)
            if not self._go_on(self.slot, budget):
                return
            self._put_in_place()
            budget = int(self.forest.budget)

    def _go_on(self, t: int, budget: int) -> bool:
        """Spend a budget on building a tree; tells whether it is done, which may leave some."""
        forest = self.forest
        status = rebuilding.go_on(forest, t, budget, GROWTH)
        while status in (NO_ROOM, NO_PATH_ROOM):
            room = DEEPEST if status == NO_PATH_ROOM else GROWTH
            self._reserve_rows(t, room, room)
            status = rebuilding.go_on(forest, t, forest.budget, GROWTH)
        return status == DONE

    def _put_in_place(self) -> None:
        """Let the tree that has been built take the place of the oldest of its role."""
        roles = self.trees.words["role"]
        same = self._of_role(self.role)
        roles[self.slot] = self.role
        self.ages[self.slot] = self.n_samples
        # A larger tree may have been there before.
        tree = self.trees[self.slot]
        for rows, table in ((self.nodes, tree.nodes), (self.side_rows, tree.side_rows)):
            rows.trim(self.slot, table.n_rows + GROWTH)
            rows.show(self.slot, table)
        self._reserve_rows(self.slot, GROWTH, GROWTH)
        if len(same) < (self.n_long if self.role == LONG else self.n_recent):
            self.slot = int(self._of_role(IDLE)[0])
        else:
            self.slot = int(same[np.argmin(self.ages[same])])
        self._stop()

    # Prediction.

    def predict(self) -> int:
        """Predict the sample in `inputs` into `out`, as `ClassTrees` tells."""
        predict_one = self._predict_one
        if predict_one is None:
            predict_one = self._predict_one = prediction.predict.of()
        return predict_one(self.forest)

    # Inspection.

    @property
    def importances(self) -> NDArray[np.float64]:
        """Share of each dimension in the gains of the trees of all samples."""
        gains: NDArray[np.float64] = self.gains[self._of_role(LONG)].sum(axis=0)
        return gains / gains.sum() if gains.sum() > 0.0 else np.zeros_like(gains)

    def read(self, t: int, hidden: bool = False) -> list[AdaptiveView]:
        """Read the nodes of a tree of all samples in preorder."""
        return super().read(int(self._of_role(LONG)[t]), hidden)

    def _kept(self, t: int, hidden: bool) -> Kept:
        n_classes = int(self.forest.n_classes)
        rows = self.side_rows.rows(t, self.trees[t].side_rows.n_rows)
        seen = counts_in(rows, n_classes)

        def kept(ref: int, record: Any) -> tuple[bool, bool, tuple[NDArray[np.int64]]]:
            counts = np.zeros(n_classes, dtype=np.int64)
            if ref < 0:
                counts[record.label] = 1
                return True, True, (counts,)
            if record.statistics_row > 0:
                counts[:] = seen[record.statistics_row - 1]
            return record.dim < 0, bool((counts > 0).sum() == 1), (counts,)

        return kept
