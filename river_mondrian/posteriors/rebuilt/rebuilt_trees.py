"""The owner of trees that are built anew from a window of the stream (see `building`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...checks import check_array, check_number, check_types, refuse
from ...learners.drift import NOBODY, DriftWatch
from ...limits import BUDGET_SPENT, DONE, NO_POINT_ROOM, NO_ROOM, TOO_LARGE, WAITS
from ...partitions.mondrian import widths
from ...partitions.mondrian.constants import CLOSED, DRAWING, NONE, REBASING, STEADY
from ...partitions.mondrian.tree_memory import WARM_UP, Partitions
from ...partitions.mondrian.trees import AnyView, ExplainedTrees
from ...records import CHUNK_ROWS, Float64s, Memory, Record
from ...restored import Followed, Rows, check_references
from . import building
from . import forest as rebuilt
from .building import GROWTH, ROOM, SPLIT_ROWS
from .forest import BUILT, GATHERING, IDLE, LONG, PATH_LENGTH, R
from .schedule import BUILD_EVERY, RECENT_SAMPLES, STORED, Schedule

# What a call may spend, in points, on building trees anew, for each of them.
BUILD_BUDGET = 80

# Points that are brought to other widths for each that a call may spend on building.
MOVED = 64

# Roles of a tree that is being built.
UNFINISHED = (GATHERING, rebuilt.SPLITTING, rebuilt.REPLAYING, BUILT)

# How often bytes are counted, what trees may grow by while they are built anew, and the number of
# samples that are kept at any rate.
WEIGH_EVERY = 64
GROWING = 1.3
LEAST_WINDOW = 512

# How far the dimensions of candidates follow the gains of the trees before.
GAIN_SHARE = 0.7

# Rows that a kernel predicts at once, beside other threads: in between Ctrl-C gets through.
ROWS_PREDICTED = 64

# Samples that have to be stored of those by which widths were found, to compare spreads with.
LEAST_TELLING = 64


Array = NDArray[np.float64]
Predict = Callable[[R, Float64s, int, Float64s], None]


def room_for(kind: type[Record], n: int) -> NDArray[np.uint8]:
    """Return memory for so many records, which nothing need be in."""
    return np.empty(n * kind.SIZE, dtype=np.uint8)


class RebuiltTrees(ExplainedTrees[R, AnyView]):
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
    watch
        The errors by which drifts are detected; None where none are.

    """

    _DERIVED: ClassVar[frozenset[str]] = ExplainedTrees._DERIVED | {"schedule", "version_now"}
    _RENEWS: ClassVar[bool] = True
    _LOOKS_AT_ONCE: ClassVar[bool] = False
    # One of those that there are is always spare.
    _N_SPARE: ClassVar[int] = 0
    # Samples of the recent trees.
    _RECENT_SAMPLES: ClassVar[int] = RECENT_SAMPLES
    # The entries of paths.
    _ENTRY: ClassVar[type[Record]]

    schedule: Schedule

    def __init__(
        self,
        partitions: Partitions,
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
        # After how many samples there were drifts, and how many of these were kept.
        self.drifts: tuple[tuple[int, int], ...] = ()
        self.gains = np.zeros((partitions.n_trees, 0))
        self.dim_weights = np.ones(0)
        super().__init__(partitions)

    def _set_up(self) -> None:
        self.forest.n_candidates = self.n_candidates
        self.trees.words["queue"] = NONE

    def _finish(self) -> None:
        super()._finish()
        # The record's version, for what reads it in each call.
        self.version_now = self.shared.word("version")
        forest, own = self.forest, self.shared.own
        forest.errors = self.watch.record
        n_trees, n_dims = len(self.trees), int(forest.n_dims)
        self._own_prediction(self.shared)
        own("side_sums", np.zeros(n_dims))
        own("candidates", room_for(rebuilt.Candidate, self.n_candidates))
        if self.gains.shape[1] < n_dims:
            gains = np.zeros((n_trees, n_dims))
            gains[:, : self.gains.shape[1]] = self.gains
            self.gains = gains
            self.dim_weights = np.append(self.dim_weights, np.ones(n_dims - len(self.dim_weights)))
        own("gains", self.gains.ravel())
        own("dim_weights", self.dim_weights)
        forest.side_room, forest.split_room = self._side_room
        forest.granted = BUILD_EVERY * BUILD_BUDGET * (n_trees - 1)
        self._show_schedule()

    @property
    def _side_room(self) -> tuple[int, int]:
        """Rows beside the nodes that a call may need in a tree, and that a split may need."""
        return ROOM, SPLIT_ROWS

    def _own_prediction(self, shared: Memory[R]) -> None:
        """Give a forest's record the memory that the prediction of a sample is written to."""
        n_trees = len(self.trees)
        shared.own("paths", room_for(self._ENTRY, n_trees * PATH_LENGTH))
        shared.own("walking", np.zeros(n_trees, dtype=np.int64))
        shared.own("last_inputs", np.zeros(self.inputs.shape[1]))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return super()._shapes() | {"gains": (len(self.trees), len(self.dim_weights))}

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | self.schedule.stored()

    def _restore(self, state: dict[str, Any]) -> None:
        stored = {name: state[name] for name in STORED}
        for name in stored:
            # They have been checked as attributes.
            self.__dict__.pop(name, None)
        roles = state["trees"].words["role"].tolist()
        self.schedule = Schedule.restored(stored, roles, self._RECENT_SAMPLES)
        super()._restore({name: own for name, own in state.items() if name not in stored})

    def _held_by(self, t: int) -> tuple[int, int] | None:
        role = int(self.trees[t].role)
        if role == IDLE:
            return None
        end = self.forest.cursor if role == GATHERING else self.n_samples
        # A leaf has none before it is given some.
        return int(end) - self.schedule.starts[t], int(role != GATHERING)

    def _check_kind(self) -> None:
        check_types(self, {"watch": DriftWatch, "drifts": tuple})
        if any(
            type(drift) is not tuple or [*map(type, drift)] != [int, int] for drift in self.drifts
        ):
            refuse(self, "drifts", self.drifts, "but it should be pairs of numbers of samples")
        stored = {name: self.__dict__[name] for name in STORED}
        roles = self.trees.words["role"].tolist()
        forest, n_dims = self.forest, len(self.dim_weights)
        Schedule.restored(stored, roles, self._RECENT_SAMPLES).check(forest, roles)
        check_number(self, "n_dims", forest.n_dims, 0, n_dims)
        check_number(self, "n_candidates", forest.n_candidates, *[self.n_candidates] * 2)
        check_array(self, "gains", self.gains, np.float64, 0.0, 1e100)
        check_array(self, "dim_weights", self.dim_weights, np.float64, 1e-3, 1e100)

    def _check_tree(self, t: int, tables: dict[str, Rows], found: Followed) -> None:
        # No point of the tree is that of another sample.
        start, capacity = self.schedule.starts[t], int(self.forest.window_capacity)
        late = np.flatnonzero(found.met("points"))
        held, _ = self._held_by(t) or (0, 0)
        if ((late - start) % capacity >= held).any():
            refuse(f"tree {t}", "starts", start, "a point is not among the samples that it holds")
        part = {name: tables[name] for name in ("tree", "nodes")}
        check_references(f"tree {t}", part, chain="queue")

    def _forget_predicted(self) -> None:
        """Let no sample count as predicted, since the trees have changed."""
        self.forest.is_predicted = 0

    # Learning.

    def error(self, y: float, is_new: bool = False) -> float:
        """Return the error of the sample in `inputs`, or `TOO_LARGE - i` if that is too large."""
        self.forest.take(y, 1.0, is_new)
        return building.error_of.of(self._FOREST)(self.forest)

    def learn(self, y: float, weight: float = 1.0, is_new: bool = False, found: int = 0) -> int:
        """Learn the sample in `inputs` with a label, which may be new, or with a target.

        `found` is how many samples a detector outside would keep, 0 unless it has detected a drift.
        Returns DONE, or the input whose value is too large; then nothing has changed.
        """
        learn_one = self._learn_one
        if learn_one is None:
            learn_one = self._learn_one = building.learn.of(self._FOREST)
        status: int = learn_one(self.forest, y, weight, is_new, found)
        if status <= TOO_LARGE:
            return TOO_LARGE - status
        if status == WAITS:
            self._take_steps()
            if self.forest.is_plan_due:
                self._build_on()
            self._follow_drift()
            self.open()
        return DONE

    # What kernels have begun. Each step ends with a kernel or an assignment that both has its
    # effect and tells that it is done, so that it may be interrupted, and is taken again then.

    def _complete(self) -> None:
        self._show_schedule()
        self._take_steps()
        self._build_on()
        self._follow_drift()

    def _follow_drift(self) -> None:
        """Let the trees be built of the samples since a drift, if the last error has shown one."""
        forest, n = self.forest, self.n_samples
        kept = int(forest.kept)
        if kept > 0:
            if (n, kept) not in self.drifts[-1:]:
                self.drifts = (*self.drifts, (n, kept))
            self.forget_before(kept)
            forest.kept = 0

    def _take_steps(self) -> None:
        """Do what is to be done before anything is planned."""
        forest = self.forest
        while forest.stage != rebuilt.LEARNED or self.schedule.at_once:
            schedule, n = self.schedule, self.n_samples
            if forest.stage == rebuilt.RESCALED:
                self._follow(schedule.built_anew(n))
                forest.stage = rebuilt.LEARNED
            elif schedule.at_once:
                self._build(schedule.at_once[0], False)
                self._follow(schedule._replace(at_once=schedule.at_once[1:]))
            elif forest.stage == rebuilt.MIXED_IN:
                assert self.warm_up is not None
                self.warm_up[n] = self.vector
                self._reserve_points(n + 1)
                building.rescale(forest, self._fitted_scaling(n + 1))
                self._reserve_warm_up(n + 1)
            elif n - schedule.capacity >= forest.oldest:
                # The point is overwritten.
                self._follow(schedule.without(n - schedule.capacity))
            else:
                assert forest.stage == rebuilt.ACCEPTED
                self._learn_accepted()
        if self.warm_up is not None:
            self._end_warm_up()
            self._show_quiet()

    def _learn_accepted(self) -> None:
        """Learn the sample that has been accepted, with room for it."""
        learn_accepted = building.learn_accepted.of(self._FOREST)
        while (needy := learn_accepted(self.forest)) != DONE:
            if needy == NO_POINT_ROOM:
                tables: tuple[Any, ...] = (self.forest.points,)
            else:
                tables = self.trees[needy].nodes, self.trees[needy].side_rows
            if min(table.capacity for table in tables) < CHUNK_ROWS:
                # Rows of a first chunk may move, which a prediction has noted.
                self._forget_predicted()
            if needy == NO_POINT_ROOM:
                self._reserve_points(self.n_samples % self.schedule.capacity + 1)
            else:
                self._reserve_rows(needy, GROWTH, max(GROWTH, int(self.forest.side_room)))

    def _follow(self, schedule: Schedule) -> None:
        """Let another schedule be the trees'."""
        self.schedule = schedule
        self._show_schedule()

    def _show_schedule(self) -> None:
        """Tell kernels what they need of the schedule."""
        schedule, forest = self.schedule, self.forest
        forest.window_capacity = schedule.capacity
        forest.oldest = min(schedule.starts)
        being_built = schedule.being_built
        for t, (tree, role) in enumerate(zip(self.trees, schedule.roles, strict=True)):
            if t != being_built or tree.role not in UNFINISHED:
                tree.role = role
        self._forget_predicted()
        self._show_quiet()

    def _show_quiet(self) -> None:
        """Tell kernels when there is something to plan; bytes are weighed now and then."""
        forest, n = self.forest, self.n_samples
        is_busy = bool(self.max_bytes) or forest.phase != STEADY
        quiet_until = n if is_busy else self.schedule.quiet_until(n)
        forest.quiet_until = min(quiet_until, forest.next_look)

    # Building anew.

    def build(self) -> None:
        """Build the trees of all samples anew at once."""
        self.settle()
        self.close()
        self.forest.stage = rebuilt.RESCALED
        self.settle()

    def forget_before(self, n: int) -> None:
        """Keep the latest `n` samples, and build all trees of these; the trees are closed.

        Trees of recent samples that hold earlier ones are given up.
        """
        self._follow(self.schedule.forgetting(self.n_samples, n))

    def _build_on(self) -> None:
        """Plan what is to be built, where it is time to, and go on with it."""
        forest, n = self.forest, self.n_samples
        if forest.is_plan_due:
            fitted = self.schedule if self.max_bytes is None else self._fitted(self.max_bytes)
            planned = fitted.planned(n)
            if planned is not self.schedule:
                self._follow(planned)
            self._plan_kind(n)
            if self.warm_up is None:
                self.look_at_widths()
            is_steady = forest.phase == STEADY
            forest.owed = 0 if is_steady else MOVED * int(forest.budget) // BUILD_BUDGET
            forest.is_plan_due = 0
        if forest.owed > 0:
            self._renew_widths(int(forest.owed))
        while forest.budget > 0 or self.trees[self.schedule.slot].role == BUILT:
            if self.schedule.role == IDLE:
                if not self.schedule.jobs:
                    break
                self._follow(self.schedule.next_job(n))
            if not self._build(self.schedule.slot, True):
                break
            self._put_in_place()
        # The next call has its own.
        forest.budget = 0
        if self.schedule.role == IDLE:
            self._show_quiet()

    # Widths.

    def _n_held(self) -> int:
        return self.n_samples - self.schedule.first

    def _places_to_look_at(self, n_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        held = min(self._n_held(), self.n_points)
        first = self.n_samples - held
        n = (int(self.forest.renewed_at_sample) or WARM_UP) - first
        # Too few of those samples are stored still.
        then = np.empty(0, np.int64) if n < LEAST_TELLING else self._recent_places(n, n_rows)
        places = self._recent_places(held, n_rows)
        capacity = self.schedule.capacity
        return (first + places) % capacity, (first + then) % capacity

    def _begin_renewal(self, scaling: NDArray[np.float64]) -> None:
        super()._begin_renewal(scaling)
        self._forget_predicted()

    def _renew_widths(self, most: int) -> None:
        """Go on with bringing points, then trees to other widths: so many points at most.

        Nothing is owed then. A step that is interrupted before may be taken again.
        """
        forest = self.forest
        if forest.phase == REBASING or forest.n_moved < forest.n_points:
            held = (widths.RENEWAL_RATIO - 1.0) * self._n_held()
            next_look = max(self.n_samples, int(forest.renewed_at_sample + held))
            widths.bring_some.of(self._FOREST)(forest, most, next_look)
        elif forest.renewed == 0:
            # Trees that are begun from now on are cut under the other widths.
            self._follow(self.schedule.renewed(self.n_samples))
            forest.renewed = 1
            forest.owed = 0
        else:
            words = self.trees.words
            in_use = words["frame"][words["role"] != IDLE]
            if (in_use != forest.frame).all():
                widths.begin_rebasing.of(self._FOREST)(forest)
            forest.owed = 0

    def _frames_of_trees(self) -> list[list[int]]:
        forest = self.shared[0]
        any_frame = [0, 1]
        is_mixed = forest.phase == DRAWING and forest.n_moved == forest.n_points
        own = any_frame if is_mixed else [int(forest.frame)]
        return [any_frame if tree.role == IDLE else own for tree in self.trees]

    def _plan_kind(self, n: int) -> None:
        """Do what a kind does now and then, after `n` samples; it may be done twice."""

    def _fitted(self, limit: int) -> Schedule:
        """Return a window that ends here where larger trees would take more bytes than that."""
        schedule, n = self.schedule, self.n_samples
        kept = n - schedule.first
        if n % WEIGH_EVERY > 0 or kept < LEAST_WINDOW:
            return schedule
        if min(schedule.starts[t] for t in schedule.of_role(LONG)) < schedule.first:
            # Trees that are going to be smaller have not been built anew yet.
            return schedule
        # Twice the window is stored, and points cannot move.
        capacity = min(max(2 * kept, self.n_points), schedule.capacity)
        trees = self.nodes.nbytes + self.side_rows.nbytes
        of_each, of_all = self._bytes_of_points
        rest = self.nbytes - trees - of_all
        if capacity * of_each + GROWING * trees + rest <= limit:
            return schedule
        stored = capacity if n <= capacity else schedule.capacity
        return schedule._replace(max_samples=kept, capacity=stored)

    @property
    def _bytes_of_points(self) -> tuple[int, int]:
        """Bytes that each stored sample takes, and that all room for samples takes."""
        return self.points.row_bytes, self.points.nbytes

    def _build(self, t: int, may_stop: bool) -> bool:
        """Go on with building a tree, until its budget is spent where it `may_stop`.

        Tells whether it is done.
        """
        forest, tree, go_on = self.forest, self.trees[t], building.go_on.of(self._FOREST)
        if tree.role not in UNFINISHED:
            self._begin(t)
        while (status := go_on(forest, t, may_stop)) != DONE:
            if status == NO_ROOM:
                needed = int(forest.rows_needed)
                self._reserve_rows(t, needed, max(needed, int(forest.side_room)))
            elif status == BUDGET_SPENT and may_stop:
                return False
        return True

    def _begin(self, t: int) -> None:
        """Begin to build a tree."""
        tree = self.trees[t]
        self.nodes.grow(t, tree.nodes, GROWTH)
        self.side_rows.grow(t, tree.side_rows, GROWTH)
        gains = self.gains[[u for u in self._similar(t) if u != t]].sum(axis=0)
        weights = self.dim_weights.copy()
        # A single candidate has the law of the exact forest.
        if self.n_candidates > 1 and gains.sum() > 0.0:
            own = gains * (len(gains) / gains.sum())
            weights[:] = (1.0 - GAIN_SHARE) + GAIN_SHARE * own
        building.begin(self.forest, t, self.schedule.starts[t], Float64s.of(weights))

    def _similar(self, t: int) -> Sequence[int]:
        """Return the trees whose gains tell where a tree that is to be built is cut."""
        return self.schedule.of_role(LONG)

    def _put_in_place(self) -> None:
        """Let the tree that has been built take the place of the oldest of its role."""
        slot = self.schedule.slot
        # A larger tree may have been there before.
        tree = self.trees[slot]
        for rows, table in ((self.nodes, tree.nodes), (self.side_rows, tree.side_rows)):
            rows.trim(slot, table.n_rows + GROWTH)
            rows.show(slot, table)
        self._reserve_rows(slot, GROWTH, GROWTH)
        self._follow(self.schedule.placed(self.n_samples))

    # Batches.

    def _reader(self) -> list[Memory[Any]]:
        """Return a copy of the forest's record by which a thread predicts beside others.

        It refers to the same rows and points, but what a prediction is written to is its own. What
        it refers to besides comes behind it, to be kept as long.
        """
        shared = self.shared.copied()
        shared.own("trees", self.trees.bytes.copy())
        shared.own("row", np.empty_like(self.row))
        self._own_prediction(shared)
        return [shared]

    def _predict_rows_by(
        self, predict: Predict[R], inputs: Array, width: int, n_jobs: int
    ) -> Array:
        """Predict rows of checked inputs; returns an array, shape (n, width).

        `predict(forest, rows, n, out)` predicts `n` rows by the forest's record, or a copy of it.
        """
        out = np.empty((len(inputs), width))

        def part(first: int, last: int) -> None:
            # Each thread has a copy of its own, which goes with it. One may have the forest's own
            # record, which no other thread writes to while the forest is closed.
            is_free = first == 0 and self.forest.version == CLOSED
            copies = [self.shared] if is_free else self._reader()
            for block in range(first, last):
                if self._jobs_end:
                    return
                rows = slice(ROWS_PREDICTED * block, ROWS_PREDICTED * (block + 1))
                given, found = inputs[rows], out[rows]
                predict(copies[0][0], Float64s.of(given), len(given), Float64s.of(found))

        # Blocks are shared out whole: few rows take less time than a thread does to begin.
        self._share(part, -(-len(inputs) // ROWS_PREDICTED), n_jobs)
        return out

    # Inspection.

    def read(self, t: int, hidden: bool = False) -> list[AnyView]:
        """Read the nodes of a tree of all samples in preorder."""
        return super().read(self._slot(t), hidden)

    def _importance_trees(self) -> Sequence[int]:
        return self.schedule.of_role(LONG)

    def _slot(self, t: int) -> int:
        return self.schedule.of_role(LONG)[t]
