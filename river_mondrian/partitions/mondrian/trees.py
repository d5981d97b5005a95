"""The trees of a forest, with methods that learn and predict by calling kernels.

`posteriors` handles labels and targets. `estimators` handles the features of a stream.
"""

import abc
import copy
import functools
import math
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ClassVar

import numpy as np

from ... import threads
from ...arguments import n_threads_of
from ...compiling.kernels import set_entries
from ...limits import DONE, TOO_LARGE, WAITS
from ...records import Float32s, Float64s, Floats, Ints, Memory, Record
from ...values import quiet
from ..ranges import robust_ranges
from . import constants, extension, forgetting, sampling, scaling, widths
from .readers import TreeReader
from .tree_store import TABLES, WARM_UP, AnyForest, TreeStore

# Largest number of rows in a block of predictions.
PREDICTED_ROWS = 8192

# Largest number of values that one kernel call reads, so that Ctrl-C is not delayed too long. For
# each row and tree, the row's values plus `VALUES_OF_WALK` values are counted.
KERNEL_VALUES = 1 << 23
VALUES_OF_WALK = 64

# Number of rows per thread that are learned before other calls may run.
LEARNED_ROWS = 1024

# If memory is reserved for a tree, all trees that lack room for SOON rows (`extension.lacks_rows`)
# get more rows, so that kernels stop less often.
SOON = 64

# Number of trees in lock-step while a batch is learned. The number is small, so that the trees stay
# in the cache.
BATCH_LANES = 4


# Arguments of `_learn_rows`.
PutRows = Callable[[int, int, int], None]
Learn = Callable[[int], None]


class MondrianTrees(TreeStore[AnyForest]):
    """Mondrian trees over shared points.

    Each subclass sets the classes of its records and of its reader.
    """

    # The class of `reader`.
    _READER: ClassVar[type[TreeReader]] = TreeReader

    def _finish(self) -> None:
        super()._finish()
        if self.forest.renewal.is_running == 1:
            self._compile_renewal()

    # Learning.

    def learn_closed(self, learn: Callable[[], int], put: Callable[[int], None]) -> int:
        """Learn a sample that may need memory, new widths or a rebuild, while the trees are closed.

        Parameters
        ----------
        learn
            Function that calls the kernel that learns the sample in `inputs` as the next point.
        put
            Function that writes the sample, except its inputs, to the point with the passed number.

        Returns
        -------
        DONE, or the index of an input whose value is too large. If a value is too large, no tree
        learns the sample.

        """
        if self.fits_ranges:
            bad = scaling.find_too_large(self.forest, self.forest.inputs)
            if bad < 0:
                self._learn_by_rebuilding(put)
            return bad
        self.check_widths()
        n = min(self.n_points + 1, int(self.forest.window))
        if n > self.forest.points.capacity:
            self._reserve_points(n)
        return self.complete(learn())

    def learn_rest(self, status: int, learn: Callable[[], int], put: Callable[[int], None]) -> int:
        """Finish learning a sample after its kernel; return `learn_closed`'s result."""
        if status == WAITS:
            self.close()
            bad = self.learn_closed(learn, put)
        else:
            bad = self.complete(status)
        self.open()
        return bad

    def complete(self, status: int) -> int:
        """Finish learning a sample that a kernel has begun; return `learn_closed`'s result."""
        if status <= TOO_LARGE:
            return TOO_LARGE - status
        if self.forest.version == constants.CLOSED:
            self._complete()
        return DONE

    def _complete(self) -> None:
        if self.forest.n_walking > 0:
            finish = extension.finish.of(self._FOREST)
            lacks_rows = extension.lacks_rows.of(self._FOREST)
            while (needy := finish(self.forest)) >= 0:
                self._reserve_rows(needy, self.trees[needy].rows_needed)
                while (needy := lacks_rows(self.forest, SOON)) >= 0:
                    self._reserve_rows(needy, SOON)
        self._continue_renewal()
        self._end_warm_up()

    def _extend(self, first: int, last: int, lanes: int) -> None:
        extend = extension.extend.of(self._FOREST)
        while (needy := extend(self.forest, first, last, lanes)) >= 0:
            self._reserve_rows(needy, self.trees[needy].rows_needed)

    @property
    def splits_at(self) -> int:
        """Number of samples after which the forest may be split into shards (see `shards`)."""
        return WARM_UP

    @property
    def fits_ranges(self) -> bool:
        """Whether the ranges of features are refreshed when the next sample is learned."""
        return self.n_points + 1 == self.forest.next_fit

    def _learn_by_rebuilding(self, put: Callable[[int], None]) -> None:
        """Refresh the ranges, and rebuild the trees from the stored samples and the new sample."""
        n = self.n_points + 1
        if self.directions is not None and self._before is None:
            # The directions change before the kernel runs, so a failure must undo this change.
            self.begin_change()
        self._reserve_points(n)
        put(n - 1)
        if self.directions is not None:
            self.directions = copy.deepcopy(self.directions)
            self.directions.redraw()
            # Set the moments to 0, because the kernel that rescales all samples adds all samples
            # again.
            self.directions.moments[:] = 0.0
            self._refresh_scaling()
        lacks_value = self.forest.has_missing or np.isnan(self.vector[: self.n_inputs]).any()
        # Reserve enough rows until the next rebuild, at `_following_fit` samples. A leaf with a row
        # has at least two points, unless values are missing. So a tree has fewer rows than points.
        n_rows = self._following_fit(n) * (1 + bool(lacks_value))
        for t in range(self.n_trees):
            tree = self.trees[t]
            # The capacity includes rows in use, because the new trees begin at row 0.
            self.nodes.grow(tree.slot, tree.nodes, n_rows)
            self.boxes.grow(tree.slot, tree.boxes, n_rows if self.forest.light_size > 0 else 0)
        self._rebuild(n, self._fitted_scaling())
        self._complete()

    def _following_fit(self, n: int) -> int:
        """Return the number of samples at the fit of ranges after the fit at `n` samples.

        At the end of the warm-up, the result is `n`.
        """
        return min(1 << n.bit_length(), self._warm_up_end)

    def _rebuild(self, n: int, scaling: Float64s) -> None:
        """Build the trees from the first `n` samples, and count the last sample as learned.

        The samples have the scaling `scaling`, shape (2, input_capacity).
        """
        extension.rebuild(self.forest, scaling, n, self._following_fit(n))

    def _end_warm_up(self) -> None:
        """Free unused memory after the warm-up, and schedule the check of widths."""
        forest = self.forest
        if self.n_points < forest.next_fit:
            return
        for name, table in (("nodes", self.nodes), ("boxes", self.boxes)):
            for tree, n_rows in zip(self.trees, self.trees.words[f"{name}.n_rows"], strict=True):
                table.trim(tree.slot, int(n_rows))
        self._reserve_all(0)
        more = math.ceil((widths.CHECK_RATIO - 1.0) * self.n_points)
        extension.end_warm_up(forest, self.n_samples + more if self.renews else constants.NEVER)

    # Widths.

    def check_widths(self) -> None:
        """Begin to redraw the trees if a check of widths is due and finds invalid widths.

        The decision depends only on inputs and numbers of samples, so each tree keeps the
        distribution of a tree sampled with its widths.
        """
        forest, n = self.forest, self.n_samples
        if n < forest.renewal.next_check:
            return
        if forest.renewal.is_running == 0:
            self._clear_spare()
        if forest.is_full:
            # A full forest stores no more samples, so widths are not checked again.
            forest.renewal.next_check = constants.NEVER
            return
        renewed = self.current_scaling
        if self._measured(widths.N_CHECKED).are_over.any():
            measured, renewed = self._measured(widths.N_MEASURED), renewed.copy()
            # All trees are redrawn anyway. So widths that are less than 1 / FACTOR of the measured
            # width are renewed, too.
            are_wider = widths.FACTOR * measured.scaling[1] < renewed[1, : self.n_inputs]
            inputs = np.flatnonzero(measured.are_over | (measured.are_known & are_wider))
            renewed[:, inputs] = measured.scaling[:, inputs]
        if (renewed != self.current_scaling).any():
            self._begin_renewal(renewed)
        else:
            more = math.ceil((widths.CHECK_RATIO - 1.0) * self._n_held())
            forest.renewal.next_check = n + more

    def _n_held(self) -> int:
        """Return the number of samples in the trees."""
        return self.forest.n_held()

    def _measured(self, n_rows: int) -> widths.Measured:
        """Return the widths measured on `n_rows` stored samples."""
        points, points_then = self._points_to_check(n_rows)
        rows, rows_then = (self._inputs_at(chosen, n_rows) for chosen in (points, points_then))
        factors = self.current_scaling[1, : self.n_inputs]
        return widths.measure(rows, rows_then, len(points), self.given, factors)

    def _points_to_check(self, n_rows: int) -> tuple[Ints, Ints]:
        """Return indices of mostly recent samples, and of samples before the last renewal.

        Before the first renewal, the second array has indices of samples of the warm-up. If samples
        have been forgotten, stored samples are not in order of arrival. The first array then has
        evenly spaced, distinct indices, and the second array is empty.
        """
        n, forest = self.n_points, self.forest
        if forest.n_forgotten > 0:
            return n * np.arange(min(n_rows, n)) // max(n, 1), np.zeros(0, np.int64)
        then = int(forest.renewal.began_at) or WARM_UP
        return widths.mostly_recent(n, n_rows), widths.mostly_recent(then, n_rows)

    def _begin_renewal(self, scaling: Floats) -> None:
        """Begin to redraw all trees with another scaling."""
        self._compile_renewal()
        begin = widths.begin_renewal.of(self._FOREST)
        begin(self.forest, Float64s.of(scaling.reshape(-1)))

    def _compile_renewal(self) -> None:
        """Compile the kernel that learning calls while trees are redrawn."""
        set_entries(self.forest, widths.continue_renewal)

    def _clear_spare(self) -> None:
        """Free the memory that redraws of trees use."""
        for t in range(self.n_trees, len(self.trees)):
            spare = self.trees[t]
            spare.free_row = spare.free_box = spare.free_side_row = constants.NONE
            for name in TABLES:
                table, record = self.__dict__[name], getattr(spare, name)
                record.n_rows = 0
                table.clear(spare.slot)
                table.show(spare.slot, record)

    def _continue_renewal(self) -> None:
        """Continue the renewal for `Renewal.n_owed` samples, and reserve memory if necessary."""
        if self.forest.renewal.n_owed == 0:
            return
        continue_owed = widths.continue_owed.of(self._FOREST)
        while (needy := continue_owed(self.forest)) >= 0:
            self._reserve_rows(needy, self.trees[needy].rows_needed)

    def _samples_to_event(self) -> int:
        """Return the number of samples until a tree is redrawn or widths are checked."""
        forest, n = self.forest, self.n_samples
        if forest.renewal.is_running == 0:
            return int(forest.renewal.next_check) - n
        pace = widths.POINTS_PER_SAMPLE_AND_TREE * forest.n_all_trees
        return max(1, -(-(self.n_points - int(forest.renewal.n_spare_points)) // (pace - 1)))

    def _scalings_of_trees(self) -> list[list[int]]:
        """Return, for each tree with nodes, the indices of its possible scalings."""
        forest = self.shared[0]
        current, n_renewed = int(forest.scaling), 0
        if forest.renewal.is_running == 1:
            n_renewed = min(max(int(forest.redrawn_tree()), 0), self.n_trees)
        scalings = [[1 - current]] * n_renewed + [[current]] * (self.n_trees - n_renewed)
        return scalings + [[1 - current]] * (self.n_with_nodes - self.n_trees)

    @quiet
    def _fitted_scaling(self) -> Float64s:
        """Return the scaling from the robust ranges of the stored samples and of `inputs`."""
        n = self.n_points
        rows = self._inputs_at(np.arange(n), n + 1)
        rows[n] = self.vector[: self.n_inputs]
        rows[n, self.category_indices] = math.nan
        fitted = self.current_scaling.copy()
        ranges = robust_ranges(rows, widths.FENCE)
        fitted[:, : self.n_inputs] = scaling.scaling_by(self.given, *ranges)
        # Places of levels are in (0, 1), so they need no scaling.
        fitted[:, self.category_indices] = [[0.0], [1.0]]
        return Float64s.of(fitted)

    # Forgetting.

    def key(self) -> bytes:
        """Return the sample in `inputs` as bytes. Equal samples have equal bytes."""
        inputs = self.vector[: self.n_inputs]
        # Adding 0 turns -0 into 0, and missing values become the same NaN, so that equal samples
        # have equal bytes.
        return np.where(np.isnan(inputs), np.nan, inputs + 0.0).tobytes()

    def n_equal(self, put: Callable[[int], None], most: int = 1) -> int:
        """Count at most `most` stored samples that equal the sample in `inputs`.

        `put` is a function that writes the sample, except its inputs, to the point with the passed
        number.
        """
        self._reserve_points(self.n_points + 1)
        put(self.n_points)
        return forgetting.count_equal.of(self._FOREST)(self.forest, most)

    def forget(self, put: Callable[[int], None]) -> bool:
        """Forget a stored sample that equals the sample in `inputs`, while the trees are closed.

        `put` is the same as for `n_equal`. Returns whether an equal sample was found.
        """
        self._reserve_points(self.n_points + 1)
        put(self.n_points)
        if forgetting.forget_equal.of(self._FOREST)(self.forest) == 0:
            return False
        self._forgotten()
        return True

    def _forgotten(self) -> None:
        """Update the subclass's data after a sample was forgotten."""

    def build(self) -> None:
        """Sample all trees again from the stored points (see `sampling`)."""
        self.begin_change()
        # The new trees change the links of points, so the points are copied. After an
        # interruption, the next call restores the old points and nodes.
        self.points = self.points.copied()
        self._new_rows()
        self._reserve_all(self.n_points * (1 + int(self.forest.has_missing)))
        self._refresh()
        widths.restart_redraw.of(self._FOREST)(self.forest)
        build = sampling.build.of(self._FOREST)
        n_points = self.n_points

        def work(first: int, last: int) -> None:
            for t in range(first, last):
                if not self._jobs_end:
                    build(self.forest, t, t + 1, n_points)

        # A kernel may need seconds for many points. In another thread, the kernel does not delay an
        # interrupt, and `settle` waits for at most one tree.
        self._begin_jobs(work, [0, self.n_trees])
        self._end_jobs()
        self._built()
        self.end_change()

    def _built(self) -> None:
        """Update the subclass's data after the trees were rebuilt."""

    def _learn_rows(self, rows: Floats, put: PutRows, learn: Learn, n_jobs: int) -> None:
        """Learn rows of checked inputs, shape (n, inputs), after the warm-up.

        `put(start, n, first)` writes `n` rows from `start` on, except their inputs, to the points
        from `first` on. `learn(i)` learns only row `i`, whose inputs are in `inputs`.
        """
        start = 0
        while start < len(rows):
            if self.n_points == self.forest.window:
                # In a full window, each sample replaces a forgotten sample, so rows are learned one
                # by one.
                self.vector[:] = rows[start]
                learn(start)
                start += 1
                continue
            self.check_widths()
            n = min(self._block(n_jobs), len(rows) - start)
            part = Float64s.of(np.ascontiguousarray(rows[start : start + n]))
            # A full forest stores no more samples, so the next block overwrites these points.
            first = self.n_points
            self._reserve_points(first + n)
            put(start, n, first)
            self._reserve_for(n)
            # Compile the kernel here. Otherwise several threads might compile it.
            extension.extend.of(self._FOREST)
            extension.begin_rows(self.forest, part, n, first)
            self._share(lambda a, b: self._extend(a, b, BATCH_LANES), self.n_trees, n_jobs)
            self._count_rows()
            self._continue_renewal()
            self._learned_rows(n_jobs)
            start += n
        self.points.trim(0, self.n_points)
        self._reserve_points(self.n_points)

    def learned_at_once(self, n_jobs: int) -> int:
        """Return the number of rows that `n_jobs` threads learn before other calls may run."""
        return LEARNED_ROWS * max(1, min(n_threads_of(n_jobs), self.n_trees))

    def _reserve_for(self, n: int) -> None:
        """Reserve memory for the rows of `n` more points, estimated from the rows per stored point.

        Kernels then rarely stop for more rows, and threads rarely wait for each other.
        """
        if self.forest.is_full:
            return
        for t in range(self.n_trees):
            tree = self.trees[t]
            for name in TABLES if self.forest.light_size > 0 else ("nodes", "side_rows"):
                table, rows = getattr(tree, name), self.__dict__[name]
                more = SOON + n * table.n_rows // self.n_points
                rows.grow(tree.slot, table, table.n_rows + more)

    def _block(self, n_jobs: int) -> int:
        """Return the number of rows that may be learned as one block."""
        # With `max_nodes`, rows are learned one by one, because the forest stores no row after the
        # row that fills the last tree.
        if self.bounded and not self.forest.is_full:
            return 1
        room = int(self.forest.window) - self.n_points
        return min(self._rows_at_once(self.learned_at_once(n_jobs)), self._samples_to_event(), room)

    def _rows_at_once(self, most: int) -> int:
        """Return the number of rows of a kernel call, which limits the delay of Ctrl-C."""
        values = self.n_trees * (int(self.forest.n_dims) + VALUES_OF_WALK)
        return max(1, min(most, KERNEL_VALUES // values))

    def _count_rows(self) -> None:
        """Count a block of rows as learned after the block has extended the trees."""
        extension.count(self.forest)

    def _learned_rows(self, n_jobs: int) -> None:
        """Update the subclass's data after a block of rows has extended the trees."""
        # Nothing remains to be done, because classes and cells were counted during the walks.

    def _share(self, work: Callable[[int, int], None], n: int, n_jobs: int) -> None:
        """Call `work(first, last)` on parts of range(n) in `n_jobs` threads; -1 means all cores."""
        n_threads = max(1, min(n_threads_of(n_jobs), n))
        bounds = np.linspace(0, n, n_threads + 1).astype(int).tolist()
        # The calling thread works on the last part, because a thread that only waits may lose its
        # processor.
        self._begin_jobs(work, bounds[:-1])
        work(*bounds[-2:])
        self._end_jobs()

    def _begin_jobs(self, work: Callable[[int, int], None], bounds: list[int]) -> None:
        """Call `work` on each part between consecutive bounds in a separate thread."""
        # All jobs are stored before the first job starts, so that `enter` can wait for them after
        # an interrupt.
        self._jobs = [Future() for _ in bounds[1:]]
        threads.begin(self._jobs, work, bounds)

    def _end_jobs(self) -> None:
        """Wait until all jobs are done."""
        for job in self._jobs:
            job.result()
        self._jobs = []

    # Prediction.

    def _predict_rows(
        self,
        predict: Callable[..., None],
        kind: type[Record],
        field: str,
        inputs: Floats,
        width: int,
        n_jobs: int,
    ) -> Floats:
        """Predict rows of checked inputs, and return an array, shape (n, width).

        `predict(forest, rows, n, prediction)` is a kernel that predicts `n` rows of values. The
        kernel writes to the field `field` of `prediction`, a record of class `kind`.
        """
        out = np.empty((len(inputs), width))
        n_values = int(self.forest.n_values)
        n_rows = self._rows_at_once(PREDICTED_ROWS)
        for first in range(0, len(inputs), n_rows):
            block = np.ascontiguousarray(inputs[first : first + n_rows])
            n = len(block)
            rows = Float32s.of(np.empty((n, n_values), dtype=np.float32))
            scaling.scale_rows(self.forest, rows, Float64s.of(block), n)
            results = Float64s.of(out[first : first + n])

            def part(
                start: int, stop: int, rows: Float32s = rows, part_results: Float64s = results
            ) -> None:
                n, prediction = stop - start, Memory(kind)
                setattr(prediction[0], field, part_results.part(width * start, width * n))
                predict(self.forest, rows.part(n_values * start, n_values * n), n, prediction[0])

            self._share(part, n, n_jobs if n >= 2 * n_jobs else 1)
        return out

    # Inspection.

    @property
    def reader(self) -> Any:
        """A reader of the trees, which returns views of nodes, importances and explanations."""
        return self._READER(self)

    def scaling_of(self, slot: int) -> Floats:
        """Return the scaling of a tree's inputs: offsets and factors, shape (2, n_inputs)."""
        scaling: Floats = self.scalings[self.trees[slot].scaling]
        return scaling[:, : self.n_inputs]


class ClassTrees(MondrianTrees[AnyForest]):
    """Mondrian trees that predict classes."""

    @abc.abstractmethod
    def add_class(self) -> int:
        """Add a class, and return its number."""

    # The kernel that predicts a sample, and the kernel that predicts a sample after the first
    # kernel has returned WAITS.
    _PREDICT: ClassVar[Any]
    _PREDICT_ANY: ClassVar[Any] = None
    # The second kernel, or None if no sample has needed the second kernel yet.
    _predict_one: Any = None

    def predictor(self, version: int | None = None) -> Callable[[bytes, bytearray], int]:
        """Return the kernel that writes a sample's class probabilities to a buffer.

        The kernel returns the most probable class, or `TOO_LARGE - i` if packed input i is too
        large. The kernel returns WAITS if the trees' version differs from `version` (by default the
        current version). The kernel also returns WAITS if the sample needs another kernel (see
        `predict`).
        """
        kernel = self._predict_one or self._PREDICT.of(self._FOREST)
        return functools.partial(kernel, self.forest, self.version if version is None else version)

    def predict(self, inputs: bytes, out: bytearray) -> int:
        """Predict a sample with the kernel of `predictor`, for any version of the trees.

        The first sample that needs another kernel causes the compilation of this kernel. All later
        samples use this kernel.
        """
        best = self.predictor(self.forest.version)(inputs, out)
        if best == WAITS:
            self._predict_one = self._PREDICT_ANY.of(self._FOREST)
            best = self.predictor(self.forest.version)(inputs, out)
        return best
