"""The owner of trees that are rebuilt from a window of the stream (see `building`)."""

import abc
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from ...checks import check_array, check_number, check_types, refuse
from ...learners.drift import NOBODY, DriftWatch
from ...learners.neighbors import MOST_VALUES, VALUES_SHARE, WINDOWS, Neighbors
from ...limits import DONE, NO_POINT_ROOM, TOO_LARGE, WAITS
from ...partitions.mondrian import tree_store, widths
from ...partitions.mondrian.constants import CLOSED, NONE
from ...partitions.mondrian.readers import Explainer
from ...partitions.mondrian.scaling import find_too_large
from ...partitions.mondrian.trees import MondrianTrees
from ...records import Float64s, Floats, Ints, Memory
from ...records.arrays import CHUNK_ROWS
from ...restored import Followed, Rows, check_references
from . import building, sample
from . import forest as rebuilt
from .building import GROWTH, PART
from .forest import BUILT, GATHERING, IDLE, LONG, PATH_LENGTH, R
from .sample import ROWS_OF_CALL
from .schedule import BUILD_EVERY, LEAST_WINDOW, RECENT_SAMPLES, STORED, Schedule
from .splits import ROWS_OF_SPLIT

# Budget of a call for rebuilding, in points per sample and tree.
BUILD_BUDGET = 80

# Roles of a tree that is being built.
UNFINISHED = (GATHERING, rebuilt.SPLITTING, rebuilt.REPLAYING, BUILT)

# Number of samples between checks of the memory's size, and assumed growth factor of trees during a
# rebuild.
WEIGH_EVERY = 64
GROWING = 1.3

# Fraction of a dimension's weight that the gains in earlier trees determine.
GAIN_SHARE = 0.7

# Number of rows that a kernel call predicts. The number is small, since Ctrl-C can interrupt a
# batch only between kernel calls.
ROWS_PREDICTED = 64

# Interquartile ranges are compared with the ranges before the last fit only if at least this many
# samples from before this fit are still stored.
LEAST_TELLING = 64


Predict = Callable[[R, Float64s, int, Float64s], None]


def orders_of(n: int, n_orders: int) -> Ints:
    """Return random orders of `n` features and the reversed orders, shape (2 `n_orders`, n)."""
    orders = np.random.default_rng(n).permuted(np.tile(np.arange(n), (n_orders, 1)), axis=1)
    return np.concatenate([orders, orders[:, ::-1]])


class RebuiltReader(Explainer):
    """A reader of `RebuiltTrees`. The trees of all samples have the numbers 0, 1, ..."""

    # Number of random orders of the features for explanations.
    N_ORDERS: ClassVar[int]

    def slot_of(self, t: int) -> int:
        """Return the slot of the tree of all samples with the number `t`."""
        return int(self.store.schedule.of_role(LONG)[t])

    def importance_slots(self) -> Sequence[int]:
        """Return the slots of the trees of all samples."""
        slots: list[int] = self.store.schedule.of_role(LONG)
        return slots

    @abc.abstractmethod
    def predictions_of(self, rows: Floats) -> Floats:
        """Return the predictions of rows of inputs, shape (rows, outputs)."""

    def _rows(self, n: int) -> Floats:
        """Return `n` rows of inputs without values."""
        rows = np.full((n, self.store.inputs.shape[1]), np.nan)
        rows[:, : len(self.absent)] = self.absent
        return rows

    def root_prediction(self) -> Floats:
        """Return the prediction of a sample without values."""
        prediction: Floats = self.predictions_of(self._rows(1))[0]
        return prediction

    def explain(self, inputs: Floats) -> tuple[int, Floats]:
        """Return DONE and each feature's contribution to the prediction of a sample.

        At first, no feature has a value. Features then get their values one at a time, in random
        orders and in the reversed orders. A feature's contribution is the mean change in the
        prediction when the feature gets its value (Strumbelj and Kononenko 2014). If an input is
        too large, the first result is the index of this input.
        """
        bad: int = find_too_large.of(type(self.forest))(self.forest, Float64s.of(inputs))
        if bad >= 0:
            return bad, np.empty((0, 0))
        # Only features with a value contribute. A feature without a value is NaN, or has its absent
        # value.
        used = np.flatnonzero((inputs != self.absent) & ~np.isnan(inputs))
        orders = used[orders_of(len(used), self.N_ORDERS)]
        ends = self._rows(2)
        ends[1, : len(inputs)] = inputs
        none, every = self.predictions_of(ends)
        contributions = np.zeros((len(inputs), len(every)))
        for order in orders:
            rows = self._rows(max(len(order) - 1, 0))
            for i, index in enumerate(order[:-1].tolist()):
                rows[i:, index] = inputs[index]
            steps = self.predictions_of(rows)
            contributions[order] += np.diff(steps, axis=0, prepend=[none], append=[every])
        return DONE, contributions / len(orders)


class RebuiltTrees(MondrianTrees[R]):
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
    watch
        The model's errors and the drift detector. None disables drift detection.

    """

    _DERIVED: ClassVar[frozenset[str]] = MondrianTrees._DERIVED | {"schedule"}
    _RENEWS: ClassVar[bool] = True
    # No tree is added, since one of the existing trees is always the spare tree.
    _N_SPARE: ClassVar[int] = 0
    # Number of samples of the recent trees.
    _RECENT_SAMPLES: ClassVar[int] = RECENT_SAMPLES

    schedule: Schedule

    def __init__(
        self,
        partitions: tree_store.Partitions,
        n_long: int,
        n_candidates: int,
        max_samples: int,
        max_bytes: int | None,
        watch: DriftWatch | None = None,
    ) -> None:
        n_recent = partitions.n_trees - 1 - n_long
        self.schedule = Schedule.at_first(n_long, n_recent, max_samples, self._RECENT_SAMPLES)
        self.n_candidates = n_candidates
        self.max_bytes = max_bytes
        self.watch = watch or DriftWatch(NOBODY)
        most = MOST_VALUES if max_bytes is None else min(MOST_VALUES, max_bytes // VALUES_SHARE)
        self.neighbors = Neighbors(min(WINDOWS[-1], max_samples), most)
        # For each drift: the number of samples at the detection, and the number of samples kept.
        self.drifts: tuple[tuple[int, int], ...] = ()
        self.gains = np.zeros((partitions.n_trees, 0))
        self.dim_weights = np.ones(0)
        super().__init__(partitions)

    def _set_up(self) -> None:
        self.forest.cuts.n_candidates = self.n_candidates
        self.trees.words["queue"] = NONE

    def _finish(self) -> None:
        super()._finish()
        forest, own = self.forest, self.shared.own
        forest.errors = self.watch.record
        n_trees, n_dims = len(self.trees), int(forest.n_dims)
        self._own_prediction(self.shared)
        own("cuts.side_sums", np.zeros(n_dims))
        self.shared.own_records("cuts.candidates", self.n_candidates)
        if self.gains.shape[1] < n_dims:
            gains = np.zeros((n_trees, n_dims))
            gains[:, : self.gains.shape[1]] = self.gains
            self.gains = gains
            self.dim_weights = np.append(self.dim_weights, np.ones(n_dims - len(self.dim_weights)))
        own("cuts.gains", self.gains.ravel())
        own("cuts.dim_weights", self.dim_weights)
        forest.build.side_rows_of_call, forest.build.side_rows_of_split = self._side_rows_needed
        forest.build.budget_of_call = BUILD_EVERY * BUILD_BUDGET * (n_trees - 1)
        self._write_schedule()

    @property
    def _side_rows_needed(self) -> tuple[int, int]:
        """Numbers of side rows that a call may need in a tree, and that a split may need."""
        return ROWS_OF_CALL, ROWS_OF_SPLIT

    def _own_prediction(self, shared: Memory[R]) -> None:
        """Allocate the buffers of a forest's record for predictions."""
        n_trees = len(self.trees)
        shared.own_records("predicted.paths", n_trees * PATH_LENGTH)
        shared.own("predicted.walking", np.zeros(n_trees, dtype=np.int64))
        shared.own("predicted.inputs", np.zeros(self.inputs.shape[1]))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return super()._shapes() | {"gains": (len(self.trees), len(self.dim_weights))}

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | self.schedule.stored()

    def _restore(self, state: dict[str, Any]) -> None:
        stored = {name: state[name] for name in STORED}
        for name in stored:
            # `_check_kind` has already checked these attributes.
            self.__dict__.pop(name, None)
        roles = state["trees"].words["role"].tolist()
        self.schedule = Schedule.restored(stored, roles, self._RECENT_SAMPLES)
        super()._restore({name: value for name, value in state.items() if name not in stored})

    def _held_by(self, t: int) -> tuple[int, int] | None:
        role = int(self.trees[t].role)
        if role == IDLE:
            return None
        end = self.forest.build.cursor if role == GATHERING else self.n_samples
        # While a build gathers points, the root may be a leaf without points.
        return int(end) - self.schedule.starts[t], int(role != GATHERING)

    def _check_kind(self) -> None:
        check_types(self, {"watch": DriftWatch, "drifts": tuple, "neighbors": Neighbors})
        self.neighbors.check(int(self.forest.n_inputs), self._n_classes)
        if any(
            type(drift) is not tuple or [*map(type, drift)] != [int, int] for drift in self.drifts
        ):
            refuse(self, "drifts", self.drifts, "but it should be pairs of numbers of samples")
        stored = {name: self.__dict__[name] for name in STORED}
        roles = self.trees.words["role"].tolist()
        forest, n_dims = self.forest, len(self.dim_weights)
        Schedule.restored(stored, roles, self._RECENT_SAMPLES).check(forest, roles)
        check_number(self, "n_dims", forest.n_dims, 0, n_dims)
        check_number(self, "n_candidates", forest.cuts.n_candidates, *[self.n_candidates] * 2)
        check_array(self, "gains", self.gains, np.float64, 0.0, 1e300)
        check_array(self, "dim_weights", self.dim_weights, np.float64, 1e-3, 1e100)

    def _check_tree(self, t: int, tables: dict[str, Rows], found: Followed) -> None:
        # All points of the tree must belong to samples that the tree contains.
        start, capacity = self.schedule.starts[t], int(self.forest.window_capacity)
        late = np.flatnonzero(found.met("points"))
        held, _ = self._held_by(t) or (0, 0)
        if ((late - start) % capacity >= held).any():
            refuse(f"tree {t}", "starts", start, "but a point is not among the tree's samples")
        part = {name: tables[name] for name in ("tree", "nodes")}
        check_references(f"tree {t}", part, chain="queue")

    def _forget_predicted(self) -> None:
        """Discard the last prediction, since the trees have changed."""
        self.forest.predicted.is_current = 0

    # Nearest neighbours.

    @property
    def _n_classes(self) -> int:
        """Number of classes, 0 if samples have targets."""
        return 0

    def _refresh_neighbors(self) -> None:
        """Set the forest's reference to the current `neighbors`."""
        self.forest.neighbors = self.neighbors.record
        self._forget_predicted()

    def _reserve_points(self, n: int) -> None:
        # The neighbors get as much room as points, up to their bounds, since kernels check only the
        # points' room.
        self.neighbors = self.neighbors.fitting(self.points.reserve(0, n))
        self._refresh_neighbors()
        super()._reserve_points(n)

    def add_inputs(
        self, names: Sequence[Hashable], first_values: Floats, gaps: Floats | float = math.nan
    ) -> None:
        """Add features (see `TreeStore.add_inputs`)."""
        super().add_inputs(names, first_values, gaps)
        values = np.broadcast_to(gaps, len(names))
        self.neighbors = self.neighbors.fitting(0, first_values, values)
        self._refresh_neighbors()

    # Learning.

    def error(self, y: float, is_new: bool = False) -> float:
        """Return the prediction error for the sample in `inputs`.

        If input i is too large, return `TOO_LARGE - i`.
        """
        self.forest.take(y, 1.0, is_new)
        return sample.error_of.of(self._FOREST)(self.forest)

    def learn(self, y: float, weight: float = 1.0, is_new: bool = False, n_to_keep: int = 0) -> int:
        """Learn the sample in `inputs` with a label, which may be new, or with a target.

        If an external detector has detected a drift, `n_to_keep` is the number of samples that the
        detector would keep, otherwise 0. Returns DONE, or the index of an input that is too large.
        If an input is too large, nothing changes.
        """
        learn_one = sample.learn.of(self._FOREST)
        status = learn_one(self.forest, y, weight, is_new, n_to_keep)
        if status <= TOO_LARGE:
            return TOO_LARGE - status
        if status == WAITS:
            self._finish_sample()
            if self.forest.pending.is_planning_due:
                self._continue_builds()
            self._adapt_to_drift()
            self.open()
        return DONE

    # Completion of calls that kernels have begun. The last operation of each step is a single
    # kernel call or assignment, which also marks the step as done. So an interrupted step can be
    # repeated.

    def _complete(self) -> None:
        self._write_schedule()
        self._finish_sample()
        self._continue_builds()
        self._adapt_to_drift()

    def _adapt_to_drift(self) -> None:
        """Schedule a rebuild of the trees from the samples since a drift, if there was a drift."""
        forest, n = self.forest, self.n_samples
        n_to_keep = int(forest.pending.n_to_keep)
        if n_to_keep > 0:
            if (n, n_to_keep) not in self.drifts[-1:]:
                self.drifts = (*self.drifts, (n, n_to_keep))
            self.forget_before(n_to_keep)
            forest.pending.n_to_keep = 0

    def _finish_sample(self) -> None:
        """Finish learning the accepted sample, and build the trees in `schedule.at_once`."""
        forest = self.forest
        while forest.pending.stage != rebuilt.LEARNED or self.schedule.at_once:
            schedule, n = self.schedule, self.n_samples
            if forest.pending.stage == rebuilt.REBUILD_DUE:
                self._set_schedule(schedule.rebuilding_long_now(n))
                forest.pending.stage = rebuilt.LEARNED
            elif schedule.at_once:
                while not self._build(schedule.at_once[0], PART):
                    pass
                self._set_schedule(schedule._replace(at_once=schedule.at_once[1:]))
            elif forest.pending.stage == rebuilt.MIXED_IN:
                self._reserve_points(n + 1)
                sample.fit(forest, self._fitted_scaling(), self._following_fit(n + 1))
            elif n - schedule.capacity >= forest.oldest:
                # The next sample overwrites a point that trees contain, so these trees are rebuilt
                # or dropped first.
                self._set_schedule(schedule.without(n - schedule.capacity))
            else:
                assert forest.pending.stage == rebuilt.ACCEPTED
                self._learn_accepted()
        if self.is_warming_up:
            self._end_warm_up()
            self._write_plan_from()

    def _learn_accepted(self) -> None:
        """Learn the accepted sample, and allocate the memory that the sample needs."""
        learn_accepted = sample.learn_accepted.of(self._FOREST)
        while (needy := learn_accepted(self.forest)) != DONE:
            if needy == NO_POINT_ROOM:
                tables: tuple[Any, ...] = (self.forest.points,)
            else:
                tables = self.trees[needy].nodes, self.trees[needy].side_rows
            if min(table.capacity for table in tables) < CHUNK_ROWS:
                # Rows of a first chunk may move, so the last prediction, which refers to these
                # rows, is discarded.
                self._forget_predicted()
            if needy == NO_POINT_ROOM:
                self._reserve_points(self.n_samples % self.schedule.capacity + 1)
            else:
                self._reserve_rows(
                    needy, GROWTH, max(GROWTH, int(self.forest.build.side_rows_of_call))
                )

    def _set_schedule(self, schedule: Schedule) -> None:
        """Replace the schedule."""
        self.schedule = schedule
        self._write_schedule()

    def _write_schedule(self) -> None:
        """Write the schedule to the records that kernels read."""
        schedule, forest = self.schedule, self.forest
        forest.window_capacity = schedule.capacity
        forest.oldest = min(schedule.starts)
        being_built = schedule.being_built
        for t, (tree, role) in enumerate(zip(self.trees, schedule.roles, strict=True)):
            if t != being_built or tree.role not in UNFINISHED:
                tree.role = role
        self._forget_predicted()
        self._write_plan_from()

    def _write_plan_from(self) -> None:
        """Set the number of samples from which kernels request planning."""
        forest, n = self.forest, self.n_samples
        is_busy = bool(self.max_bytes) or forest.renewal.is_running == 1
        plan_from = n if is_busy else self.schedule.plan_from(n)
        forest.pending.plan_from = min(plan_from, forest.renewal.next_check)

    # Rebuilding.

    def build(self) -> None:
        """Rebuild the trees of all samples before the call returns."""
        self.settle()
        self.close()
        self.forest.pending.stage = rebuilt.REBUILD_DUE
        self.settle()

    def forget_before(self, n: int) -> None:
        """Keep the latest `n` samples, and schedule a rebuild of all LONG trees from these samples.

        The forest's version must be CLOSED. Recent trees that contain earlier samples are dropped.
        """
        self.neighbors.forget_before(n)
        self._set_schedule(self.schedule.forgetting(self.n_samples, n))

    def _continue_builds(self) -> None:
        """Plan the builds of trees if planning is due, and continue to build."""
        forest, n = self.forest, self.n_samples
        if forest.pending.is_planning_due:
            fitted = self.schedule if self.max_bytes is None else self._fitted(self.max_bytes)
            planned = fitted.planned(n)
            if planned is not self.schedule:
                self._set_schedule(planned)
            self._plan_kind(n)
            if not self.is_warming_up:
                self.check_widths()
            if forest.renewal.is_running:
                self._continue_renewal()
            forest.pending.is_planning_due = 0
        while forest.build.budget > 0 or self.trees[self.schedule.slot].role == BUILT:
            if self.schedule.role == IDLE:
                if not self.schedule.jobs:
                    break
                self._set_schedule(self.schedule.next_job(n))
            if not self._build(self.schedule.slot, int(forest.build.budget)):
                break
            self._put_in_place()
        # The next call has its own budget.
        forest.build.budget = 0
        if self.schedule.role == IDLE:
            self._write_plan_from()

    # Widths.

    def _n_held(self) -> int:
        return self.n_samples - self.schedule.first

    def _points_to_check(self, n_rows: int) -> tuple[Ints, Ints]:
        held = min(self._n_held(), self.n_points)
        first = self.n_samples - held
        n = (int(self.forest.renewal.began_at) or tree_store.WARM_UP) - first
        # If too few samples from before the last fit are still stored, interquartile ranges are not
        # compared.
        then = np.empty(0, np.int64) if n < LEAST_TELLING else widths.mostly_recent(n, n_rows)
        points = widths.mostly_recent(held, n_rows)
        capacity = self.schedule.capacity
        return (first + points) % capacity, (first + then) % capacity

    def _compile_renewal(self) -> None:
        """Do nothing, since trees are rebuilt on a schedule, not while kernels learn samples."""

    def _begin_renewal(self, scaling: Floats) -> None:
        super()._begin_renewal(scaling)
        self._forget_predicted()

    def _continue_renewal(self) -> None:
        """Schedule a rebuild of all trees in the first call of a renewal.

        In later calls, end the renewal if no tree in use has the old widths. Builds set the new
        widths (`building.begin`). An interrupted call may be repeated.
        """
        forest = self.forest
        if forest.renewal.is_scheduled == 0:
            self._set_schedule(self.schedule.rebuilding_in_turn(self.n_samples))
            forest.renewal.is_scheduled = 1
            return
        words = self.trees.words
        in_use = words["scaling"][words["role"] != IDLE]
        if (in_use != forest.scaling).all():
            held = (widths.RENEWAL_RATIO - 1.0) * self._n_held()
            next_check = max(self.n_samples, int(forest.renewal.began_at + held))
            widths.end_renewal.of(self._FOREST)(forest, next_check)

    def _scalings_of_trees(self) -> list[list[int]]:
        forest = self.shared[0]
        of_all = [0, 1]
        scalings = of_all if forest.renewal.is_running else [int(forest.scaling)]
        return [of_all if tree.role == IDLE else scalings for tree in self.trees]

    def _plan_kind(self, n: int) -> None:
        """Do the periodic work of a subclass after `n` samples.

        A repeated call must have no further effect.
        """

    def _fitted(self, limit: int) -> Schedule:
        """Return a schedule whose window stops growing if the model may exceed `limit` bytes."""
        schedule, n = self.schedule, self.n_samples
        kept = min(n - schedule.first, schedule.max_samples)
        if n % WEIGH_EVERY > 0 or kept < LEAST_WINDOW:
            return schedule
        if min(schedule.starts[t] for t in schedule.of_role(LONG)) < schedule.first:
            # Some trees contain samples from before the window. These trees will be smaller after
            # their rebuild, so the size is not checked yet.
            return schedule
        # The capacity is twice the window, or the number of stored points if larger, since points
        # cannot move.
        capacity = min(max(2 * kept, self.n_points), schedule.capacity)
        of_trees = (GROWING - 1.0) * (self.nodes.nbytes + self.side_rows.nbytes)
        if self.nbytes + of_trees + self._growth_for(capacity) <= limit:
            return schedule
        stored = capacity if n <= capacity else schedule.capacity
        return schedule._replace(max_samples=kept, capacity=stored)

    def _growth_for(self, n: int) -> int:
        """Return the additional bytes that room for `n` samples needs."""
        return n * self.points.row_bytes - self.points.nbytes + self.neighbors.growth_for(n)

    def _build(self, t: int, budget: int) -> bool:
        """Continue to build a tree within a budget, and return whether the tree is built."""
        forest, tree, build_part = self.forest, self.trees[t], building.build_part.of(self._FOREST)
        if tree.role not in UNFINISHED:
            self._begin(t)
        while tree.role != BUILT and budget > 0:
            budget = build_part(forest, t, budget)
            if tree.role != BUILT and budget > 0:
                needed = int(forest.build.rows_needed)
                self._reserve_rows(t, needed, max(needed, int(forest.build.side_rows_of_call)))
        return bool(tree.role == BUILT)

    def _begin(self, t: int) -> None:
        """Begin to build a tree, and set the weights of dimensions from gains in similar trees."""
        tree = self.trees[t]
        self.nodes.grow(t, tree.nodes, GROWTH)
        self.side_rows.grow(t, tree.side_rows, GROWTH)
        gains = self.gains[[u for u in self._similar(t) if u != t]].sum(axis=0)
        weights = self.dim_weights.copy()
        # With a single candidate, cuts have the same distribution as in the exact forest.
        if self.n_candidates > 1 and gains.sum() > 0.0:
            relative = gains * (len(gains) / gains.sum())
            weights[:] = (1.0 - GAIN_SHARE) + GAIN_SHARE * relative
        building.begin(self.forest, t, self.schedule.starts[t], Float64s.of(weights))

    def _similar(self, t: int) -> Sequence[int]:
        """Return the trees whose gains determine the weights of dimensions for a new tree."""
        return self.schedule.of_role(LONG)

    def _put_in_place(self) -> None:
        """Put the new tree in place (see `Schedule.placed`), and free the tree's unused rows."""
        slot = self.schedule.slot
        # The tables may still have the size of an earlier, larger tree.
        tree = self.trees[slot]
        for rows, table in ((self.nodes, tree.nodes), (self.side_rows, tree.side_rows)):
            rows.trim(slot, table.n_rows + GROWTH)
            rows.show(slot, table)
        self._reserve_rows(slot, GROWTH, GROWTH)
        self._set_schedule(self.schedule.placed(self.n_samples))

    # Batches.

    def _records_for_thread(self) -> list[Memory[Any]]:
        """Return a list that begins with a copy of the forest's record, for a thread that predicts.

        The copy refers to the same rows and points, but has separate buffers for predictions.
        Subclasses append other memories to which the copy refers, because these would otherwise be
        freed.
        """
        shared = self.shared.copied()
        shared.own("trees", self.trees.bytes.copy())
        shared.own("row", np.empty_like(self.row))
        self._own_prediction(shared)
        return [shared]

    def _predict_rows_by(
        self, predict: Predict[R], inputs: Floats, width: int, n_jobs: int
    ) -> Floats:
        """Predict rows of checked inputs, and return an array of shape (n, width).

        `predict(forest, rows, n, out)` predicts `n` rows with the forest's record or with a copy.
        """
        out = np.empty((len(inputs), width))

        def part(first: int, last: int) -> None:
            # Each thread has its own copy. Only the first thread may use the forest's record, if
            # the forest is CLOSED, because no other thread then writes to the record.
            is_free = first == 0 and self.forest.version == CLOSED
            copies = [self.shared] if is_free else self._records_for_thread()
            for block in range(first, last):
                if self._jobs_end:
                    return
                rows = slice(ROWS_PREDICTED * block, ROWS_PREDICTED * (block + 1))
                block_inputs, block_out = inputs[rows], out[rows]
                n = len(block_inputs)
                predict(copies[0][0], Float64s.of(block_inputs), n, Float64s.of(block_out))

        # A block of rows is not divided, since the start of a thread takes longer than the
        # prediction of a few rows.
        self._share(part, -(-len(inputs) // ROWS_PREDICTED), n_jobs)
        return out
