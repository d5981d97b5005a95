"""Trees that are built anew from a window of samples, a part at a time (see `rebuilding`)."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...learners.discriminants import N_DISCRIMINANTS, LinearDiscriminants
from ...learners.experts import Mixture
from ...partitions.mondrian import renewal
from ...partitions.mondrian.inspection import Kept, NodeView
from ...partitions.mondrian.records import DRAWING, NONE, SETTLING, STEADY, Node, Point, Tree
from ...partitions.mondrian.tree_memory import WARM_UP, Partitions
from ...partitions.mondrian.trees import ClassTrees
from ...records import CHUNK_ROWS, INT32, Float64s, Part, Record, RowLayout
from ...status import BUDGET_SPENT, DONE, NO_POINT_ROOM, NO_ROOM, TOO_LARGE, WAITS
from . import learning, prediction, rebuilding
from .checking import check_adaptive
from .explanation import ExplainedAdaptiveTrees
from .rebuilding import GROWTH
from .records import (
    ACCEPTED,
    BUILT,
    GATHERING,
    IDLE,
    LEARNED,
    LONG,
    MIXED_IN,
    PATH_LENGTH,
    REPLAYING,
    RESCALED,
    SPLITTING,
    AdaptiveForest,
    AdaptiveNode,
    AdaptivePoint,
    AdaptiveTree,
    Candidate,
    ClassSides,
    PathEntry,
    Step,
)
from .schedule import BUILD_EVERY, Schedule
from .statistics import (
    BLOCK,
    CLASSES_OF_WORD,
    N_POSTERIORS,
    ClassBlock,
    Statistics,
    counts_in,
)

# What a call may spend, in points, on building trees anew, for each of them.
BUILD_BUDGET = 80

# Points that are brought to other widths for each that a call may spend on building.
MOVED = 64

# Roles of a tree that is being built.
UNFINISHED = (GATHERING, SPLITTING, REPLAYING, BUILT)

# How often bytes are counted, what trees may grow by while they are built anew, and the number of
# samples that are kept at any rate.
WEIGH_EVERY = 64
GROWING = 1.3
LEAST_WINDOW = 512

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
    """A node with the weights of the classes that it has seen: numbers where samples weigh 1."""

    counts: NDArray[Any]


def _room_for(kind: type[Record], n: int) -> NDArray[np.uint8]:
    """Return memory for so many records, which nothing need be in."""
    return np.empty(n * kind.SIZE, dtype=np.uint8)


class AdaptiveTrees(ExplainedAdaptiveTrees[AdaptiveView]):
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
    _learn_one: Callable[[AdaptiveForest, int, float, bool], int] | None
    _predict_one: Callable[[AdaptiveForest], int] | None
    _ZEROED_SIDE_ROWS: ClassVar[bool] = False
    _RENEWS: ClassVar[bool] = True
    # One of those that there are is always spare.
    _N_SPARE: ClassVar[int] = 0
    _DERIVED: ClassVar[frozenset[str]] = ClassTrees._DERIVED | {
        "out",
        "schedule",
        "version_now",
        "n_now",
    }

    # What is stored of the schedule.
    _STORED: ClassVar[tuple[str, ...]] = Schedule._fields[:-2]

    def __init__(
        self,
        partitions: Partitions,
        n_long: int,
        n_candidates: int,
        max_samples: int,
        max_bytes: int | None,
        root_forgets: bool,
    ) -> None:
        n_recent = partitions.n_trees - 1 - n_long
        self.schedule = Schedule.at_first(n_long, n_recent, max_samples)
        self.n_candidates = n_candidates
        self.max_bytes = max_bytes
        self.root_forgets = root_forgets
        self.gains = np.zeros((partitions.n_trees, 0))
        self.dim_weights = np.ones(0)
        self.mixture = Mixture(N_EXPERTS)
        self.discriminants = LinearDiscriminants()
        super().__init__(partitions)

    def _check_kind(self) -> None:
        check_adaptive(self)

    def _set_up(self) -> None:
        forest = self.forest
        forest.n_candidates = self.n_candidates
        forest.gamma = 1.0
        forest.root_forgets = int(self.root_forgets)
        forest.class_capacity = BLOCK
        self.trees.words["queue"] = NONE

    def _set_words(self) -> None:
        super()._set_words()
        self.forest.statistics_words = self._side_layout().words

    def _side_layout(self) -> RowLayout:
        capacity = self.forest.class_capacity
        blocks = Part("blocks", ClassBlock, capacity // BLOCK)
        sides = Part("sides", INT32, -(-capacity // CLASSES_OF_WORD))
        return RowLayout(Statistics, (blocks, sides))

    def _finish(self) -> None:
        super()._finish()
        # The record's version and number of samples, for what reads them in each call.
        self.version_now, self.n_now = self.shared.word("version"), self.shared.word("n_samples")
        forest, own = self.forest, self.shared.own
        n_trees, n_inputs, n_dims = len(self.trees), self.inputs.shape[1], int(forest.n_dims)
        capacity = int(forest.class_capacity)
        own("paths", _room_for(PathEntry, n_trees * PATH_LENGTH))
        own("walking", np.zeros(n_trees, dtype=np.int64))
        own("steps", _room_for(Step, PATH_LENGTH))
        own("posterior_sums", np.zeros(2 * N_POSTERIORS * capacity, dtype=np.float32))
        own("node_c", np.zeros(capacity, dtype=np.float32))
        own("below", np.zeros(capacity, dtype=np.float32))
        own("last_inputs", np.zeros(n_inputs))
        own("side_sums", np.zeros(n_dims))
        own("candidates", _room_for(Candidate, self.n_candidates))
        own("class_sides", _room_for(ClassSides, self.n_candidates * capacity))
        own("block_classes", np.zeros(capacity, dtype=np.int64))
        own("class_numbers", np.zeros(capacity, dtype=np.int64))
        own("ages", np.empty(self.points.capacities[0], dtype=np.int32))
        mixture, discriminants = self.mixture, self.discriminants
        mixture.reserve(capacity)
        of_discriminants = mixture.predicted[N_TREE_EXPERTS:]
        discriminants.record.n_inputs = self.n_inputs
        discriminants.reserve(
            capacity, n_inputs, of_discriminants, self.category_places, forest.absent
        )
        forest.experts, forest.discriminants = mixture.record, discriminants.record
        self._show_classes()
        if self.gains.shape[1] < n_dims:
            gains = np.zeros((n_trees, n_dims))
            gains[:, : self.gains.shape[1]] = self.gains
            self.gains = gains
            self.dim_weights = np.append(self.dim_weights, np.ones(n_dims - len(self.dim_weights)))
        own("gains", self.gains.ravel())
        own("dim_weights", self.dim_weights)
        forest.granted = BUILD_EVERY * BUILD_BUDGET * (n_trees - 1)
        self._show_schedule()

    def _reserve_points(self, n: int) -> None:
        # Kernels hear of more points once there is room for the ages of as many.
        capacity = self.points.reserve(0, n)
        if capacity > self.forest.ages.length:
            self.shared.own("ages", np.empty(capacity, dtype=np.int32))
        super()._reserve_points(n)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return super()._shapes() | {"gains": (len(self.trees), len(self.dim_weights))}

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | self.schedule.stored()

    def _restore(self, state: dict[str, Any]) -> None:
        rest = dict(state)
        stored = {name: rest.pop(name) for name in self._STORED}
        for name in stored:
            # They have been checked as attributes.
            self.__dict__.pop(name, None)
        self.schedule = Schedule.restored(stored, rest["trees"].words["role"].tolist())
        super()._restore(rest)

    def _starts(self) -> NDArray[np.int64]:
        return np.array(self.schedule.starts, dtype=np.int64)

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
        size = super().nbytes + sys.getsizeof(self.schedule)
        size += sum(sys.getsizeof(part) for part in self.schedule if isinstance(part, tuple))
        return size + self.mixture.nbytes + self.discriminants.nbytes

    def add_inputs(self, names: Sequence[Hashable], first_values: NDArray[np.float64]) -> None:
        """Add features, each with the first value that was seen of it."""
        super().add_inputs(names, first_values)
        if not self._lacks_unknown:
            new = range(self.n_inputs - len(names), self.n_inputs)
            self.discriminants.begin_at_zero([i for i in new if i not in self.category_places])
        if self.n_samples < WARM_UP:
            self.forest.gamma = 10.0 * self.n_inputs

    def add_class(self) -> int:
        """Add a class; returns its number."""
        forest = self.forest
        label = int(forest.n_classes)
        forest.n_classes = label + 1
        old = int(forest.class_capacity)
        if label >= old:
            known, n_sides = forest.statistics_words, self._side_layout().parts[-1].length
            forest.class_capacity = -(-5 * old // (4 * BLOCK)) * BLOCK
            self._set_words()
            words = forest.statistics_words
            moves = [(0, 0, known - n_sides)]
            moves.append((known - n_sides, words - self._side_layout().parts[-1].length, n_sides))
            self.side_rows = self.side_rows.relaid(words, moves)
            self._finish()
        self._show_classes()
        return label

    # Learning.

    def learn(self, label: int, weight: float = 1.0, is_new: bool = False, kept: int = 0) -> int:
        """Learn the sample in `inputs` with a class, which has or has not been seen before.

        Then only the latest `kept` samples are kept; 0 stands for all. Returns DONE, or the input
        whose value is too large; then nothing has changed.
        """
        if kept:
            # Nobody predicts by trees that have learned but not forgotten.
            self.close()
        learn_one = self._learn_one
        if learn_one is None:
            learn_one = self._learn_one = learning.learn.of()
        status = learn_one(self.forest, label, weight, is_new)
        if status <= TOO_LARGE:
            return TOO_LARGE - status
        if status == WAITS:
            self._take_steps()
            if self.forest.is_plan_due:
                self._build_on()
            if kept:
                self.forget_before(kept)
            self.open()
        return DONE

    # What kernels have begun. Each step ends with a kernel or an assignment that both has its
    # effect and tells that it is done, so that it may be interrupted, and is taken again then.

    def _complete(self) -> None:
        self._show_schedule()
        self._take_steps()
        self._build_on()

    def _take_steps(self) -> None:
        """Do what is to be done before anything is planned."""
        while self.forest.stage != LEARNED or self.schedule.at_once:
            self._take_step()
        if self.warm_up is not None:
            self._end_warm_up()
            self._show_quiet()

    def _take_step(self) -> None:
        """Do the next of what is to be done before anything else happens."""
        forest, schedule, n = self.forest, self.schedule, self.n_samples
        if forest.stage == RESCALED:
            self._follow(schedule.built_anew(n))
            forest.stage = LEARNED
        elif schedule.at_once:
            self._build(schedule.at_once[0], rebuilding.go_on_at_once)
            self._follow(schedule._replace(at_once=schedule.at_once[1:]))
        elif forest.stage == MIXED_IN:
            assert self.warm_up is not None
            self.warm_up[n] = self.vector
            self._reserve_points(n + 1)
            rebuilding.rescale(forest, self._fitted_scaling(n + 1))
            self._reserve_warm_up(n + 1)
        elif n - schedule.capacity >= forest.oldest:
            # The point is overwritten.
            self._follow(schedule.without(n - schedule.capacity))
        else:
            assert forest.stage == ACCEPTED
            self._learn_accepted()

    def _learn_accepted(self) -> None:
        """Learn the sample that has been accepted, with room for it."""
        while (needy := learning.learn_accepted(self.forest)) != DONE:
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
                self._reserve_rows(needy, GROWTH, GROWTH)

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
        n = self.n_samples
        forest = self.forest
        is_busy = bool(self.max_bytes) or forest.phase != STEADY
        quiet_until = n if is_busy else self.schedule.quiet_until(n)
        forest.quiet_until = min(quiet_until, forest.next_look)

    # Building anew.

    def build(self) -> None:
        """Build the trees of all samples anew at once."""
        self.settle()
        self.close()
        self.forest.stage = RESCALED
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
            if self.warm_up is None:
                self.look_at_widths()
            forest.is_plan_due = 0
        if forest.phase != STEADY:
            self._renew_widths(MOVED * forest.budget // BUILD_BUDGET)
        while forest.budget > 0 or self.trees[self.schedule.slot].role == BUILT:
            if self.schedule.role == IDLE:
                if not self.schedule.jobs:
                    break
                self._follow(self.schedule.next_job(n))
            if not self._build(self.schedule.slot, rebuilding.go_on):
                break
            self._put_in_place()
        # The next call has its own.
        forest.budget = 0
        if self.schedule.role == IDLE:
            self._show_quiet()

    # Widths.

    def _n_held(self) -> int:
        return self.n_samples - self.schedule.first

    def _places_to_look_at(self) -> NDArray[np.int64]:
        first = self.n_samples - min(self._n_held(), self.n_points)
        found: NDArray[np.int64] = first + super()._places_to_look_at() % (self.n_samples - first)
        return found % self.schedule.capacity

    def _begin_renewal(self, scaling: NDArray[np.float64]) -> None:
        super()._begin_renewal(scaling)
        self._forget_predicted()

    def _renew_widths(self, most: int) -> None:
        """Go on with bringing points and trees to other widths, by so many points at most.

        Each step may be taken again if it is interrupted.
        """
        forest, schedule = self.forest, self.schedule
        if forest.phase == SETTLING:
            held = (renewal.RENEWAL_RATIO - 1.0) * self._n_held()
            next_look = max(self.n_samples, int(forest.renewed_at_sample + held))
            renewal.settle_some.of(self._FOREST)(forest, most, next_look)
        elif forest.n_moved < forest.n_points:
            renewal.move_some.of(self._FOREST)(forest, most)
        elif forest.renewed == 0:
            self._follow(schedule.renewed(self.n_samples))
            forest.renewed = 1
        else:
            words = self.trees.words
            in_use = words["first_value"][words["role"] != IDLE]
            if (in_use != forest.frame * forest.dim_capacity).all():
                renewal.begin_settling.of(self._FOREST)(forest)

    def finish_renewal(self) -> None:
        """Build all trees anew at once, where they are on their way to other widths."""
        while self.forest.phase != STEADY:
            if self.forest.phase == DRAWING and self.forest.renewed == 1:
                self._follow(self.schedule.only_long(self.n_samples))
                self._take_steps()
            self._renew_widths(self.n_points)

    def _columns_of_trees(self) -> list[list[int]]:
        forest = self.shared[0]
        any_frame = [0, 1]
        is_mixed = forest.phase == DRAWING and forest.n_moved == forest.n_points
        own = any_frame if is_mixed else [int(forest.frame)]
        return [any_frame if tree.role == IDLE else own for tree in self.trees]

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
        ages = self.shared.arrays["ages"]
        points = capacity * (self.points.row_bytes + ages.itemsize)
        trees = self.nodes.nbytes + self.side_rows.nbytes
        rest = self.nbytes - trees - self.points.nbytes - ages.nbytes
        if points + GROWING * trees + rest <= limit:
            return schedule
        stored = capacity if n <= capacity else schedule.capacity
        return schedule._replace(max_samples=kept, capacity=stored)

    def _build(self, t: int, go_on: Callable[[AdaptiveForest, int], int]) -> bool:
        """Go on with building a tree; tells whether it is done."""
        forest, tree = self.forest, self.trees[t]
        if tree.role not in UNFINISHED:
            self._begin(t)
        while (status := go_on(forest, t)) != DONE:
            if status == NO_ROOM:
                self._reserve_rows(t, forest.rows_needed, forest.rows_needed)
            elif status == BUDGET_SPENT and go_on is rebuilding.go_on:
                return False
        return True

    def _begin(self, t: int) -> None:
        """Begin to build a tree."""
        tree = self.trees[t]
        self.nodes.grow(t, tree.nodes, GROWTH)
        self.side_rows.grow(t, tree.side_rows, GROWTH)
        gains = self.gains[[u for u in self.schedule.of_role(LONG) if u != t]].sum(axis=0)
        weights = self.dim_weights.copy()
        # A single candidate has the law of the exact forest.
        if self.n_candidates > 1 and gains.sum() > 0.0:
            own = gains * (len(gains) / gains.sum())
            weights[:] = (1.0 - GAIN_SHARE) + GAIN_SHARE * own
        rebuilding.begin(self.forest, t, self.schedule.starts[t], Float64s.of(weights))

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

    # Prediction.

    def foretell(self) -> int:
        """Predict the sample in `inputs` into `out`, ahead of learning it.

        Returns the most probable class, or `TOO_LARGE - i` where the i-th input is.
        """
        predict_one = self._predict_one
        if predict_one is None:
            predict_one = self._predict_one = prediction.predict.of()
        return predict_one(self.forest)

    def predictor(self) -> Callable[[bytes, bytearray], int]:
        """Return the kernel that predicts a sample."""
        return functools.partial(prediction.predict_one.of(), self.forest, self.version)

    def predict(self, inputs: bytes, out: bytearray) -> int:
        """Predict a sample as a predictor does."""
        call: Callable[..., int] = prediction.predict_one.of()
        return call(self.forest, self.forest.version, inputs, out)

    # Inspection.

    def read(self, t: int, hidden: bool = False) -> list[AdaptiveView]:
        """Read the nodes of a tree of all samples in preorder."""
        return super().read(self._slot(t), hidden)

    def _slot(self, t: int) -> int:
        return self.schedule.of_role(LONG)[t]

    def _kept(self, t: int, hidden: bool) -> Kept:
        n_classes = int(self.forest.n_classes)
        rows = self.side_rows.rows(t, self.trees[t].side_rows.n_rows)
        seen = counts_in(rows, n_classes)

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
