"""Trees that are built anew from a window of samples, a part at a time (see `kernels.adaptive`)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .kernels import adaptive, experts
from .kernels import layout as at
from .kernels.hnsp import put_label
from .trees import WARM_UP, Carried, MondrianTrees, Node, Partitions

# Samples of the recent trees, and how often these are built anew.
RECENT = 1000
RECENT_EVERY = 500

# What a call may spend on splits of one tree and on building another, in points; showing a point
# to a tree costs as much as so many.
SPLIT_BUDGET = 400
BUILD_BUDGET = 600
REPLAY_COST = 12


@dataclass
class AdaptiveNode(Node):
    """A node with the classes that it has seen."""

    counts: NDArray[np.int64]


class AdaptiveTrees(MondrianTrees[AdaptiveNode]):
    """Trees for all samples, trees for recent ones, and a spare one that is being built."""

    _NODE = AdaptiveNode
    _POINT_WORDS: ClassVar[int] = 1
    _DERIVED: ClassVar[frozenset[str]] = MondrianTrees._DERIVED | {"logs", "pools", "out", "found"}

    def __init__(
        self,
        partitions: Partitions,
        n_long: int,
        n_candidates: int,
        max_samples: int,
        root_forgets: bool,
    ) -> None:
        self.n_candidates = n_candidates
        self.root_forgets = root_forgets
        self.n_long = n_long
        self.max_samples = max_samples
        # Number of the first sample that the trees may hold, and of all samples.
        self.first = 0
        self.n_seen = 0
        self.built_at = 0
        self.jobs: deque[tuple[int, int]] = deque()
        self.slot = partitions.n_trees - 1
        self.target = -1
        self.start = self.cursor = 0
        self.ages = np.zeros(partitions.n_trees, dtype=np.int64)
        self.state = experts.new_state(2 * adaptive.N_POSTERIORS)
        super().__init__(partitions)

    def _set_up(self) -> None:
        self.shared[at.N_WORDS] = at.ADAPTIVE
        self.shared[at.HIDE_LIMIT] = 2**62
        self.shared[at.N_CANDIDATES] = self.n_candidates
        self.shared[at.ROOT_FORGETS] = self.root_forgets
        self.shared[at.RING] = 2 * self.max_samples
        self._set_classes(4)
        self.trees[:, at.QUEUE] = at.NONE
        self.trees[: self.n_long, at.ROLE] = adaptive.LONG

    def _set_classes(self, capacity: int) -> None:
        self.shared[at.CLASS_CAPACITY] = capacity
        self.shared[at.COUNT_WIDTH] = adaptive.STATS_HEAD + (adaptive.N_MEMORIES + 1) * capacity

    def _carried_words(self) -> int:
        return at.STATS_WORDS

    def _finish(self) -> None:
        super()._finish()
        k = max(1, int(self.shared[at.N_CLASSES]))
        n = 2 * adaptive.N_POSTERIORS
        self.found = np.zeros((2, adaptive.N_POSTERIORS, k))
        self.logs = np.zeros((n + 1, k))
        self.pools = np.zeros((experts.N_LAST, k))
        self.out = np.zeros(k)

    def add_inputs(self, names: Any, first_values: NDArray[np.float64]) -> None:
        super().add_inputs(names, first_values)
        if self.n_samples < WARM_UP:
            self.reals[at.GAMMA] = 10.0 * self.n_inputs

    def add_class(self) -> int:
        """Add a class; returns its number."""
        label = int(self.shared[at.N_CLASSES])
        self.shared[at.N_CLASSES] = label + 1
        old = int(self.shared[at.CLASS_CAPACITY])
        if label >= old:
            self._set_classes(2 * old)
            head = adaptive.STATS_HEAD
            moves = [(0, 0, head)]
            moves += [(head + m * old, head + 2 * m * old, old) for m in range(4)]
            self.counts.relayout(int(self.shared[at.COUNT_WIDTH]), moves)
        self._finish()
        return label

    # Learning.

    def learn(self, label: int) -> int:
        if self._make_room_for_sample():
            put_label(self.address, label, self.n_points)
            said = self._learn_by_rebuilding()
            if said == -1:
                self.n_seen += 1
            return said
        while (t := adaptive.needs_room(self.address)) >= 0:
            self._reserve(t, 4 * adaptive.ROOM)
        point = self.n_seen % int(self.shared[at.RING])
        bad: int = adaptive.learn_one(self.address, self.values_address, label, point, SPLIT_BUDGET)
        if bad >= 0:
            return bad
        self.n_seen += 1
        self.n_samples += 1
        self.n_points = max(self.n_points, point + 1)
        if self.warm_up is not None and self.n_samples >= WARM_UP:
            self.warm_up = None
        self._plan()
        self._advance(BUILD_BUDGET)
        return -1

    def _make_room_for_sample(self) -> bool:
        point = self.n_seen % int(self.shared[at.RING])
        if point >= self.point_capacity:
            self._reserve_points(point + 1)
        return self.warm_up is not None and self._doubles()

    def _reserve(self, t: int, n: int) -> None:
        tree = self.trees[t]
        self.nodes.reserve(t, int(tree[at.N_ROWS]) + n)
        self.counts.reserve(t, int(tree[at.N_COUNTS]) + n)
        tree[at.ROW_CAPACITY] = self.nodes.capacities[t]
        tree[at.COUNT_CAPACITY] = self.counts.capacities[t]
        tree[at.NODES] = self.nodes.addresses[t]
        tree[at.COUNTS] = self.counts.addresses[t]

    def build(self) -> None:
        """Build the trees of all samples anew at once."""
        n = self.n_points
        for t in range(self.n_long):
            self._reserve(t, 2 * n + adaptive.ROOM)
            adaptive.begin(self.address, t)
            adaptive.gather(self.address, t, 0, n)
            adaptive.wait(self.address, t, int(self.trees[t, at.ROOT]))
            while self.trees[t, at.QUEUE] != at.NONE:
                adaptive.split_all(self.address, t, 1 << 40)
            done = 0
            while done < n:
                self._reserve(t, adaptive.DEEPEST)
                done = adaptive.replay(self.address, t, done, n)
            self.trees[t, at.ROLE] = adaptive.LONG

    # Building a part at a time.

    def forget_before(self, n: int) -> None:
        """Drop all but the latest `n` samples, and build all trees of these."""
        self.first = max(self.first, self.n_seen - n)
        self.built_at = self.n_seen
        self.jobs.clear()
        if self.target >= 0 and self.start < self.first:
            self.trees[self.slot, at.ROLE] = adaptive.IDLE
            self.target = -1
        self.jobs.extend([(adaptive.LONG, self.first)] * self.n_long)

    def _plan(self) -> None:
        n = self.n_seen
        if n - self.first >= self.max_samples:
            self.forget_before(self.max_samples // 2)
        elif n > WARM_UP and n - self.first >= 2 * max(self.built_at - self.first, WARM_UP // 2):
            self.built_at = n
            self.jobs.extend([(adaptive.LONG, self.first)] * self.n_long)
        n_recent = len(self.trees) - 1 - self.n_long
        if n % RECENT_EVERY == 0 and n - self.first > RECENT and n_recent:
            waiting = sum(role == adaptive.RECENT for role, _ in self.jobs)
            self.jobs.extend([(adaptive.RECENT, n - RECENT)] * max(0, n_recent - waiting))

    def _advance(self, budget: int) -> None:
        while budget > 0:
            if self.target < 0:
                if not self.jobs:
                    return
                self.target, first = self.jobs.popleft()
                self.start = self.cursor = max(first, self.first)
                self._reserve(self.slot, adaptive.ROOM)
                adaptive.begin(self.address, self.slot)
            role = self.trees[self.slot, at.ROLE]
            if role == adaptive.GATHERS:
                stop = min(self.n_seen, self.cursor + budget)
                adaptive.gather(self.address, self.slot, self.cursor, stop)
                budget -= stop - self.cursor
                self.cursor = stop
                if stop == self.n_seen:
                    adaptive.wait(self.address, self.slot, int(self.trees[self.slot, at.ROOT]))
                    self.trees[self.slot, at.ROLE] = adaptive.SPLITS
            elif role == adaptive.SPLITS:
                self._reserve(self.slot, 4 * adaptive.ROOM)
                budget = adaptive.split_all(self.address, self.slot, budget)
                if self.trees[self.slot, at.QUEUE] == at.NONE:
                    self.trees[self.slot, at.ROLE] = adaptive.REPLAYS
                    self.cursor = self.start
            else:
                stop = min(self.n_seen, self.cursor + budget // REPLAY_COST + 1)
                self._reserve(self.slot, adaptive.ROOM)
                done = adaptive.replay(self.address, self.slot, self.cursor, stop)
                if done < stop:
                    self._reserve(self.slot, adaptive.DEEPEST)
                budget -= REPLAY_COST * (done - self.cursor) + 1
                self.cursor = done
                if done == self.n_seen:
                    self._replace()

    def _replace(self) -> None:
        """Let the tree that has been built take the place of one of its role."""
        roles = self.trees[:, at.ROLE]
        same = np.flatnonzero(roles == self.target)
        roles[self.slot] = self.target
        self.ages[self.slot] = self.n_seen
        wanted = self.n_long if self.target == adaptive.LONG else len(roles) - 1 - self.n_long
        if len(same) < wanted:
            self.slot = int(np.flatnonzero(roles == adaptive.IDLE)[0])
        else:
            # Those are replaced in turn.
            self.slot = int(same[np.argmin(self.ages[same])])
            roles[self.slot] = adaptive.IDLE
        self.target = -1

    # Prediction.

    def predict(self) -> int:
        bad: int = adaptive.predict(self.address, self.values_address, self.row_address, self.found)
        if bad < 0:
            flat = self.found.reshape(-1, self.found.shape[2])
            experts.combine(flat, self.state, self.logs, self.pools, self.out)
        return bad

    def score(self, label: int) -> None:
        flat = self.found.reshape(-1, self.found.shape[2])
        experts.learn(flat, self.state, self.logs, self.pools, label)

    def _learned_rows(self, n_jobs: int) -> None:
        pass

    def _carried(self, t: int, points: NDArray[np.int32], hidden: bool) -> Carried:
        raise NotImplementedError
