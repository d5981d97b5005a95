"""Trees that are built anew from a window of samples, a part at a time (see `kernels.adaptive`)."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .arena import address_of
from .kernels import adaptive, mondrian, statistics
from .kernels import layout as at
from .kernels.hnsp import put_label
from .learners.discriminants import LinearDiscriminants
from .learners.experts import Mixture
from .trees import WARM_UP, Carried, ClassTrees, Node, Partitions

# Samples of the recent trees.
RECENT_SAMPLES = 1000

# What a call may spend, in points, on building trees anew, for each of them.
BUILD_BUDGET = 80
# How many calls there are to one that plans and goes on with building.
BUILD_EVERY = 4

# Rows for which room is made at once where a tree is being built.
GROWTH = 4 * adaptive.ROOM

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


@dataclass
class AdaptiveNode(Node):
    """A node with the classes that it has seen."""

    counts: NDArray[np.int64]


class AdaptiveTrees(ClassTrees[AdaptiveNode]):
    """Trees of all samples in a window, trees of recent ones, and a spare that is being built.

    Parameters
    ----------
    partitions
        What all kinds of trees are told; the last tree is the spare one.
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

    _NODE = AdaptiveNode
    _POINT_WORDS: ClassVar[int] = 1
    _ZEROED_COUNTS: ClassVar[bool] = False
    # Blocks are split from outside.
    _CALLED: ClassVar[dict[int, Callable[..., int]]] = {
        at.ARRIVE: mondrian.arrive,
        at.EXTEND: mondrian.extend,
        at.SPLIT_ALL: adaptive.split_all,
        at.PREDICT_ANEW: adaptive.predict_anew,
    }
    _DERIVED: ClassVar[frozenset[str]] = ClassTrees._DERIVED | {
        "scratch",
        "out",
    }

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
        self.ring = 2 * max_samples
        self.root_forgets = root_forgets
        # Number of the first sample of the window, and of all when the trees were last built anew.
        self.first = 0
        self.built_at = 0
        # The roles of trees that are to be built.
        self.jobs: deque[int] = deque()
        # The tree that is being built, and for which role.
        self.slot = partitions.n_trees - 1
        self.role = adaptive.IDLE
        # When each tree was built, and from which sample on.
        self.ages = np.zeros(partitions.n_trees, dtype=np.int64)
        self.starts = np.zeros(partitions.n_trees, dtype=np.int64)
        self.gains = np.zeros((partitions.n_trees, 0))
        self.dim_weights = np.ones(0)
        self.mixture = Mixture(adaptive.N_EXPERTS)
        self.discriminants = LinearDiscriminants()
        super().__init__(partitions)

    def _set_up(self) -> None:
        self.shared[at.N_WORDS] = at.ADAPTIVE
        self.shared[at.HIDE_LIMIT] = 2**62
        self.shared[at.N_CANDIDATES] = self.n_candidates
        self.reals[at.GAMMA] = 1.0
        self.shared[at.ROOT_FORGETS] = self.root_forgets
        self.shared[at.RING] = self.ring
        self._set_classes(statistics.BLOCK)
        self.trees[:, at.QUEUE] = at.NONE
        self.trees[: self.n_long, at.ROLE] = adaptive.LONG

    def _set_classes(self, capacity: int) -> None:
        self.shared[at.CLASS_CAPACITY] = capacity
        self.shared[at.COUNT_WIDTH] = statistics.width_of(capacity)

    def _carried_words(self) -> int:
        return at.STATS_WORDS

    def _finish(self) -> None:
        super()._finish()
        shared = self.shared
        n_trees, capacity = len(self.trees), int(shared[at.CLASS_CAPACITY])
        self.scratch: dict[int, NDArray[Any]] = {
            at.PATHS: np.empty((n_trees, adaptive.PATH_WORDS)),
            at.LENGTHS: np.zeros((2, n_trees)),
            at.STEPS: np.empty((adaptive.DEEPEST + 1, adaptive.STEP_WORDS)),
            at.SUMS: np.zeros((adaptive.N_TREE_EXPERTS, capacity), dtype=np.float32),
            at.LAST_VALUES: np.zeros(self.values.shape[1]),
            at.CANDIDATES: np.zeros(
                adaptive.scratch_words(int(shared[at.N_DIMS]), capacity, self.n_candidates)
            ),
        }
        for word, array in self.scratch.items():
            shared[word] = array.ctypes.data
        self._link()
        mixture, n_classes = self.mixture, int(shared[at.N_CLASSES])
        mixture.reserve(capacity)
        mixture.record.n_classes = n_classes
        self.out = mixture.mixed[:n_classes]
        shared[at.STATE] = int(mixture.record)
        shared[at.FOUND], shared[at.OUT] = map(address_of, (mixture.predicted, mixture.mixed))
        by_lines = mixture.predicted[adaptive.N_TREE_EXPERTS :]
        self.discriminants.reserve(capacity, self.values.shape[1], by_lines)
        self.discriminants.record.n_classes = n_classes
        self.discriminants.record.n_inputs = int(shared[at.N_INPUTS])
        shared[at.DISCRIMINANTS] = int(self.discriminants.record)
        self._forget_predicted()
        n_dims = int(self.shared[at.N_DIMS])
        if self.gains.shape[1] < n_dims:
            gains = np.zeros((len(self.trees), n_dims))
            gains[:, : self.gains.shape[1]] = self.gains
            self.gains = gains
            self.dim_weights = np.append(self.dim_weights, np.ones(n_dims - len(self.dim_weights)))
        shared[at.GAINS] = self.gains.ctypes.data
        shared[at.DIM_WEIGHTS] = self.dim_weights.ctypes.data

    def _forget_predicted(self) -> None:
        """Let no sample count as predicted, since the trees have changed."""
        self.shared[at.PREDICTED] = 0

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        derived = [at.GAINS, at.DIM_WEIGHTS, at.STATE, at.DISCRIMINANTS, at.PREDICTED]
        derived += [at.FOUND, at.OUT]
        state["shared"][[*derived, *self.scratch]] = 0
        return state

    @property
    def nbytes(self) -> int:
        """Bytes held by arrays."""
        arrays: list[NDArray[Any]] = [*self.scratch.values()]
        arrays += [self.ages, self.starts, self.gains, self.dim_weights]
        size = super().nbytes + sys.getsizeof(self.jobs)
        size += self.mixture.nbytes + self.discriminants.nbytes
        return size + sum(array.nbytes + 128 for array in arrays)

    def add_inputs(self, names: Sequence[Hashable], first_values: NDArray[np.float64]) -> None:
        """Add features, each with the first value that was seen of it."""
        super().add_inputs(names, first_values)
        self.discriminants.record.n_inputs = self.n_inputs
        if self.n_samples < WARM_UP:
            self.reals[at.GAMMA] = 10.0 * self.n_inputs

    def add_class(self) -> int:
        """Add a class; returns its number."""
        label = int(self.shared[at.N_CLASSES])
        self.shared[at.N_CLASSES] = label + 1
        old = int(self.shared[at.CLASS_CAPACITY])
        if label >= old:
            width = int(self.shared[at.COUNT_WIDTH])
            self._set_classes(-(-5 * old // (4 * statistics.BLOCK)) * statistics.BLOCK)
            self.counts.relayout(int(self.shared[at.COUNT_WIDTH]), [(0, 0, width)])
        self._finish()
        return label

    # Learning.

    def learn(self, label: int, is_new: bool = False) -> int:
        """Learn the sample in `values` with a class, which has or has not been seen before.

        Returns `adaptive.RIGHT_CLASS` or `WRONG_CLASS`, as it would have been predicted, or the
        dimension whose value is too large; then nothing has changed.
        """
        n, ring = self.n_samples, self.ring
        rebuilds = False
        if self.warm_up is not None or n >= ring:
            # What comes before the kernel changes something: not for a sample that is refused.
            best = self.predict()
            if best < 0:
                return -2 - best
            rebuilds = self.warm_up is not None and self._doubles()
            if n >= ring:
                self._let_go(n - ring)
        point = n % ring
        if point >= self.point_capacity:
            self._reserve_points(point + 1)
        stored = at.NONE if rebuilds else point
        address, values, row = self.address, self.values_address, self.row_address
        said: int
        while (said := adaptive.learn(address, values, row, label, is_new, stored, n)) >= 0:
            self._reserve_rows(said, GROWTH, GROWTH)
            self._forget_predicted()
        if said <= adaptive.TOO_LARGE:
            return adaptive.TOO_LARGE - said
        if rebuilds:
            put_label(self.address, label, point)
            self._learn_by_rebuilding()
            return said
        self.n_samples = n + 1
        if point >= self.n_points:
            self.n_points = point + 1
        if self.n_samples % BUILD_EVERY == 0:
            self._plan()
            self._advance(BUILD_EVERY * BUILD_BUDGET * (len(self.trees) - 1))
        return said

    # Building anew.

    def build(self) -> None:
        """Build the trees of all samples anew at once."""
        self._forget_predicted()
        self.jobs.clear()
        self._stop()
        self.built_at = self.n_samples
        for t in self._of_role(adaptive.LONG).tolist():
            self._build_at_once(t)

    def _build_at_once(self, t: int) -> None:
        self._begin(t, self.first)
        self._go_on(t, 1 << 40)
        self.trees[t, at.ROLE] = adaptive.LONG

    def _of_role(self, role: int) -> NDArray[np.int64]:
        """Return the trees of a role."""
        return np.flatnonzero(self.trees[:, at.ROLE] == role)

    def _let_go(self, last: int) -> None:
        """Let no tree hold the sample of this number or earlier ones: they are overwritten."""
        if last < self.starts.min():
            return
        self._forget_predicted()
        if self.role != adaptive.IDLE:
            # Only one tree can be built at a time.
            self.jobs.appendleft(self.role)
            self._stop()
        for t in np.flatnonzero(self.starts <= last).tolist():
            if self.trees[t, at.ROLE] == adaptive.LONG:
                self._build_at_once(t)
            else:
                self.trees[t, at.ROLE] = adaptive.IDLE
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
        recent = self._of_role(adaptive.RECENT)
        self.trees[recent[self.starts[recent] < self.first], at.ROLE] = adaptive.IDLE
        self.jobs.extend([adaptive.LONG] * self.n_long)

    def _plan(self) -> None:
        """Let trees be built anew where the window has doubled, is full, or new ones are recent."""
        n, kept = self.n_samples, self.n_samples - self.first
        if self.max_bytes is not None and n % WEIGH_EVERY == 0 and kept >= LEAST_WINDOW:
            self._fit_into(self.max_bytes)
        if kept >= self.max_samples:
            self.forget_before(self.max_samples // 2)
        elif kept >= 2 * max(self.built_at - self.first, WARM_UP // 2):
            self.built_at = n
            self.jobs.extend([adaptive.LONG] * self.n_long)
        # Recent trees are built anew in turn, each as often.
        since = n * self.n_recent % RECENT_SAMPLES
        due = since < BUILD_EVERY * self.n_recent and kept > RECENT_SAMPLES
        if due and adaptive.RECENT not in self.jobs:
            # It is small, and is not recent any more where it waits for large ones.
            self.jobs.appendleft(adaptive.RECENT)

    def _fit_into(self, limit: int) -> None:
        """End the window here where trees of more samples would take more bytes than the limit."""
        kept = self.n_samples - self.first
        if self.starts[self._of_role(adaptive.LONG)].min() < self.first:
            # Trees that are going to be smaller have not been built anew yet.
            return
        # Twice the window is stored, and points cannot move.
        ring = min(max(2 * kept, self.n_points), self.ring)
        points = 4 * ring * int(self.shared[at.POINT_WIDTH])
        trees = self.nodes.nbytes + self.counts.nbytes
        rest = self.nbytes - trees - self.points.nbytes
        if points + GROWING * trees + rest > limit:
            self.max_samples = kept
            if self.n_samples <= ring:
                self.ring = self.shared[at.RING] = ring

    def _stop(self) -> None:
        """Give up the tree that is being built."""
        self.trees[self.slot, at.ROLE] = self.role = adaptive.IDLE

    def _begin(self, t: int, first: int) -> None:
        self.starts[t] = self.shared[at.CURSOR] = self.shared[at.BUILT_FROM] = first
        self.trees[t, [at.N_ROWS, at.N_COUNTS]] = 0
        self._reserve_rows(t, GROWTH, GROWTH)
        adaptive.begin(self.address, t)
        gains = self.gains[self._of_role(adaptive.LONG)].sum(axis=0)
        # A single candidate has the law of the exact forest.
        if self.n_candidates > 1 and gains.sum() > 0.0:
            own = gains * (len(gains) / gains.sum())
            self.dim_weights[:] = (1.0 - GAIN_SHARE) + GAIN_SHARE * own

    def _advance(self, budget: int) -> None:
        """Go on with the trees that are to be built."""
        while budget > 0:
            if self.role == adaptive.IDLE:
                if not self.jobs:
                    return
                self.role = self.jobs.popleft()
                first = self.first
                if self.role == adaptive.RECENT:
                    first = max(first, self.n_samples - RECENT_SAMPLES)
                self._begin(self.slot, first)
            if not self._go_on(self.slot, budget):
                return
            self._put_in_place()
            budget = int(self.shared[at.BUDGET])

    def _go_on(self, t: int, budget: int) -> bool:
        """Spend a budget on building a tree; tells whether it is done, which may leave some."""
        self.shared[at.BUDGET] = budget
        said, room = adaptive.NEEDS_ROOM, GROWTH
        while said in (adaptive.NEEDS_ROOM, adaptive.NEEDS_MORE):
            self._reserve_rows(t, room, room)
            said = adaptive.go_on(self.address, t, self.n_samples)
            room = adaptive.DEEPEST if said == adaptive.NEEDS_MORE else GROWTH
        return bool(said == adaptive.BUILT)

    def _put_in_place(self) -> None:
        """Let the tree that has been built take the place of the oldest of its role."""
        roles = self.trees[:, at.ROLE]
        same = self._of_role(self.role)
        roles[self.slot] = self.role
        self.ages[self.slot] = self.n_samples
        # A larger tree may have been there before.
        self.nodes.trim(self.slot, int(self.trees[self.slot, at.N_ROWS]) + GROWTH)
        self.counts.trim(self.slot, int(self.trees[self.slot, at.N_COUNTS]) + GROWTH)
        self._reserve_rows(self.slot, GROWTH, GROWTH)
        if len(same) < (self.n_long if self.role == adaptive.LONG else self.n_recent):
            self.slot = int(self._of_role(adaptive.IDLE)[0])
        else:
            self.slot = int(same[np.argmin(self.ages[same])])
        self._stop()

    # Prediction.

    def predict(self) -> int:
        """Predict the sample in `values` into `out`, as `ClassTrees` tells."""
        said: int = adaptive.predict(self.address, self.values_address, self.row_address)
        return said

    # Reading.

    @property
    def importances(self) -> NDArray[np.float64]:
        """Share of each dimension in the gains of the trees of all samples."""
        gains: NDArray[np.float64] = self.gains[self._of_role(adaptive.LONG)].sum(axis=0)
        return gains / gains.sum() if gains.sum() > 0.0 else np.zeros_like(gains)

    def read(self, t: int, hidden: bool = False) -> list[AdaptiveNode]:
        """Read the nodes of a tree of all samples in preorder."""
        return super().read(int(self._of_role(adaptive.LONG)[t]), hidden)

    def _carried(self, t: int, points: NDArray[np.int32], hidden: bool) -> Carried:
        shared = self.shared
        n_classes, label_at = int(shared[at.N_CLASSES]), int(shared[at.N_VALUES])
        rows = self.counts.rows(t, int(self.trees[t, at.N_COUNTS]))
        seen = statistics.counts_in(rows, n_classes)

        def carried(
            ref: int, row: NDArray[np.int32]
        ) -> tuple[bool, bool, tuple[NDArray[np.int64]]]:
            counts = np.zeros(n_classes, dtype=np.int64)
            if ref < 0:
                counts[row[label_at]] = 1
                return True, True, (counts,)
            if row[at.STATS] > 0:
                counts[:] = seen[row[at.STATS] - 1]
            return bool(row[at.DIM] < 0), bool((counts > 0).sum() == 1), (counts,)

        return carried
