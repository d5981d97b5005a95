"""The trees of a forest, with methods that learn, predict and read by calling kernels.

`posteriors` handles labels and targets. `estimators` handles the features of a stream.
"""

import abc
import copy
import functools
import math
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ... import threads
from ...arguments import n_threads_of
from ...limits import DONE, TOO_LARGE, WAITS
from ...records import ChunkedRows, Float32s, Float64s, Floats, Memory, Record
from . import constants, extension, forgetting, sampling, scaling, transforms, widths
from .reading import Kept, NodeView, Path, TreeTable, contributions, make_table, read_tree, traced
from .tree_memory import TABLES, WARM_UP, AnyForest

# Largest number of rows that are predicted at once.
PREDICTED_ROWS = 8192

# Largest number of values that the walks of one kernel call read. The walk of a row down a tree
# counts as the row's values plus `VALUES_OF_WALK` values.
KERNEL_VALUES = 1 << 23
VALUES_OF_WALK = 64

# Number of rows that are learned at once, per thread.
LEARNED_ROWS = 1024

# If a tree gets more rows, all trees with fewer than SOON free rows get more rows, too.
SOON = 64

# Number of trees in lock-step while a batch is learned: few, so that the trees stay in the cache.
BATCH_LANES = 4


AnyView = TypeVar("AnyView", bound=NodeView)

# Arguments of `_learn_rows`.
PutRows = Callable[[int, int, int], None]
Learn = Callable[[int], None]


class MondrianTrees(widths.FollowingTrees[AnyForest], Generic[AnyForest, AnyView]):
    """Mondrian trees over shared points.

    Each subclass sets the classes of its records and of its views of nodes.
    """

    # The class of the nodes that `read` returns.
    _VIEW: Any = NodeView
    # Kernels for one sample, set at their first use. A cached property would read `__dict__`, which
    # slows down each access to an attribute.
    _learn_one: Any
    _predict_one: Any

    def _finish(self) -> None:
        super()._finish()
        self._learn_one = self._predict_one = None

    # Learning.

    def learn_next(self, learn: Callable[[], int], put: Callable[[int], None]) -> int:
        """Learn a sample that may need room, new widths or a rebuild, while the trees are closed.

        Parameters
        ----------
        learn
            Function that calls the kernel that learns the sample in `inputs` as the next point.
        put
            Function that writes the sample, except its inputs, to the point with the passed number.

        Returns
        -------
        DONE, or the index of an input whose value is too large. If a value is too large, the trees
        are unchanged.

        """
        if self.doubles:
            bad = scaling.find_too_large(self.forest, self.forest.inputs)
            if bad < 0:
                self._learn_by_rebuilding(put)
            return bad
        self.look_at_widths()
        n = min(self.n_points + 1, int(self.forest.window))
        if n > self.forest.points.capacity:
            self._reserve_points(n)
        return self.complete(learn())

    def learn_rest(self, status: int, learn: Callable[[], int], put: Callable[[int], None]) -> int:
        """Finish learning a sample whose kernel returned `status`; return `learn_next`'s result."""
        if status == WAITS:
            self.close()
            bad = self.learn_next(learn, put)
        else:
            bad = self.complete(status)
        self.open()
        return bad

    def complete(self, status: int) -> int:
        """Finish learning a sample that a kernel has begun; return `learn_next`'s result."""
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
                # Trees with few free rows also get more rows, so that kernels stop less often.
                while (needy := lacks_rows(self.forest, SOON)) >= 0:
                    self._reserve_rows(needy, SOON)
        self._do_owed()
        self._end_warm_up()

    def _extend(self, first: int, last: int, lanes: int) -> None:
        extend = extension.extend.of(self._FOREST)
        while (needy := extend(self.forest, first, last, lanes)) >= 0:
            self._reserve_rows(needy, self.trees[needy].rows_needed)

    @property
    def splits_at(self) -> int:
        """Number of samples after which the forest may be split into parts (see `parts`)."""
        return WARM_UP

    @property
    def doubles(self) -> bool:
        """Whether the ranges of features are refreshed when the next sample is learned."""
        return self.n_points + 1 == self.forest.next_fit

    def _learn_by_rebuilding(self, put: Callable[[int], None]) -> None:
        """Refresh the ranges, and rebuild the trees from the stored samples and the new sample."""
        n = self.n_points + 1
        if self.directions is not None and self._before is None:
            # The directions change before the kernel runs, and a failure must undo the change.
            self.begin_change()
        assert self.warm_up is not None
        # Kernels have stored the inputs of the earlier samples.
        self.warm_up[n - 1] = self.vector
        self._reserve_points(n)
        put(n - 1)
        if self.directions is not None:
            self.directions = copy.deepcopy(self.directions)
            self.directions.redraw()
            # The kernel that rescales all samples computes the moments again.
            self.directions.moments[:] = 0.0
            self._show_scaling()
        lacks_value = self.forest.has_missing or np.isnan(self.vector[: self.n_inputs]).any()
        # The number of points doubles before the next rebuild. A leaf with a row has at least two
        # points, unless values are missing. So a tree has fewer rows than points.
        n_rows = (2 * n if n < self._warm_up_end else n) * (1 + bool(lacks_value))
        for t in range(self.n_trees):
            tree = self.trees[t]
            # The new trees begin at row 0 of nodes and of boxes.
            self.nodes.grow(tree.slot, tree.nodes, n_rows)
            self.boxes.grow(tree.slot, tree.boxes, n_rows if self.forest.light_size > 0 else 0)
        self._rebuild(n, self._fitted_scaling(n))
        self._complete()
        self._reserve_warm_up(self.n_points)

    def _rebuild(self, n: int, scaling: Float64s) -> None:
        """Build the trees from the first `n` samples, and count the last sample as learned.

        The samples are scaled by `scaling`, shape (2, input_capacity).
        """
        extension.rebuild(self.forest, scaling, n)

    def _end_warm_up(self) -> None:
        """Free the memory of the warm-up after it has ended, and schedule the check of widths."""
        if self.warm_up is None or self.n_points < self._warm_up_end:
            return
        self._reserve_warm_up(self.n_points)
        for name, table in (("nodes", self.nodes), ("boxes", self.boxes)):
            for tree, n_rows in zip(self.trees, self.trees.words[f"{name}.n_rows"], strict=True):
                table.trim(tree.slot, int(n_rows))
        self._reserve_all(0)
        extension.count(self.forest)
        if self.renews:
            more = (widths.LOOK_RATIO - 1.0) * self.n_points
            self.forest.next_look = self.n_samples + math.ceil(more)
        self.warm_up = None

    # Forgetting.

    def key(self) -> bytes:
        """Return the scaled values of the sample in `inputs` as bytes.

        Equal samples have equal bytes.
        """
        forest = self.forest
        scaling.scale_rows(forest, forest.row, forest.inputs, 1)
        columns = self.trees.words["first_value"][: forest.n_sets]
        if self._has_frames:
            columns = np.array([forest.dim_capacity * forest.frame])
        values = self.row[columns[:, None] + np.arange(forest.n_dims)]
        # Zeros of both signs become the same bytes.
        return (values + np.float32(0.0)).tobytes()

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
        if self.forest.phase == constants.STEADY and self.remainders.capacities[0] > 0:
            # The memory of the last redraw is still allocated.
            self._drop_spare()
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
        # The new trees change the links of points, so the points are copied. If the call is
        # interrupted, the old points and nodes are used again.
        self.points = self.points.copied()
        self._new_rows()
        self._reserve_all(self.n_points * (1 + int(self.forest.has_missing)))
        self._show()
        widths.begin_again.of(self._FOREST)(self.forest)
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
                # In a full window, each sample replaces a forgotten sample, so rows are learned
                # singly.
                self.vector[:] = rows[start]
                learn(start)
                start += 1
                continue
            self.look_at_widths()
            n = min(self._block(n_jobs), len(rows) - start)
            part = Float64s.of(np.ascontiguousarray(rows[start : start + n]))
            # If the forest is full, the next block overwrites these points.
            first = self.n_points
            self._reserve_points(first + n)
            put(start, n, first)
            self._reserve_for(n)
            # Compile the kernel once, before several threads call it.
            extension.extend.of(self._FOREST)
            extension.begin_rows(self.forest, part, n, first)
            self._share(lambda a, b: self._extend(a, b, BATCH_LANES), self.n_trees, n_jobs)
            self._count_rows()
            self._do_owed()
            self._learned_rows(n_jobs)
            start += n
        self.points.trim(0, self.n_points)
        self._reserve_points(self.n_points)

    def learned_at_once(self, n_jobs: int) -> int:
        """Return the number of rows that `n_jobs` threads learn before other calls may run."""
        return LEARNED_ROWS * max(1, min(n_threads_of(n_jobs), self.n_trees))

    def _reserve_for(self, n: int) -> None:
        """Reserve room for the rows of `n` more points, estimated from the rows per stored point.

        Kernels then rarely stop for more rows, and threads do not wait for each other.
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
        # With `max_nodes`, rows are learned singly, since no row is stored after the row that fills
        # the last tree.
        if self.bounded and not self.forest.is_full:
            return 1
        room = int(self.forest.window) - self.n_points
        return min(self._rows_at_once(self.learned_at_once(n_jobs)), self._samples_to_event(), room)

    def _rows_at_once(self, most: int) -> int:
        """Return the number of rows for a kernel call. Ctrl-C has an effect only between calls."""
        values = self.n_trees * (int(self.forest.n_dims) + VALUES_OF_WALK)
        return max(1, min(most, KERNEL_VALUES // values))

    def _count_rows(self) -> None:
        """Count a block of rows as learned after the block has extended the trees."""
        extension.count(self.forest)

    def _learned_rows(self, n_jobs: int) -> None:
        """Update the subclass's data after a block of rows has extended the trees."""
        # Classes and cells have been counted during the walks.

    def _share(self, work: Callable[[int, int], None], n: int, n_jobs: int) -> None:
        """Call `work(first, last)` on parts of range(n) in `n_jobs` threads; -1 means all cores."""
        n_threads = max(1, min(n_threads_of(n_jobs), n))
        bounds = np.linspace(0, n, n_threads + 1).astype(int).tolist()
        # The calling thread works on the last part, since a thread that only waits may lose its
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

            def part(start: int, stop: int, rows: Float32s = rows, own: Float64s = results) -> None:
                n, prediction = stop - start, Memory(kind)
                setattr(prediction[0], field, own.part(width * start, width * n))
                predict(self.forest, rows.part(n_values * start, n_values * n), n, prediction[0])

            self._share(part, n, n_jobs if n >= 2 * n_jobs else 1)
        return out

    # Inspection.

    def end_of(self, t: int) -> float:
        """Return the time before which predictions use the cuts of a tree."""
        return float(min(self.trees[t].lifetime, self.forest.horizon))

    def cut_of(self, t: int, dim: int, cut: float) -> tuple[Floats, float]:
        """Return a tree's cut in terms of inputs: coefficients of the features, and a threshold.

        A sample is on the left if the scalar product of its inputs and the coefficients is at most
        the threshold.
        """
        offsets, factors = self._scaling_of(t)
        if self.directions is None:
            one = np.zeros(self.n_inputs)
            one[dim] = 1.0
            return one, float(cut / factors[dim] + offsets[dim])
        raw = self.directions.of_tree(t)[dim] * factors
        return raw, float(cut + raw @ offsets)

    def directions_of(self, t: int, names: Sequence[Hashable]) -> list[dict[Any, float]]:
        """Return the directions that a tree cuts along, as mappings from feature to coefficient."""
        if not 0 <= t < self.n_trees:
            raise ValueError(f"there are trees 0 to {self.n_trees - 1}, got {t!r}")
        if self.directions is None:
            return [{name: 1.0} for name in names]
        rows = self.directions.of_tree(t) * self._scaling_of(t)[1]
        return [{n: v for n, v in zip(names, row, strict=True) if v} for row in rows.tolist()]

    def ranges(self) -> tuple[Floats, Floats]:
        """Return the lowest and the highest value of each feature, each as an array."""
        if self.directions is None:
            root = self.read(0)[0]
            low, high = root.lower, root.upper
            offsets, factors = self._scaling_of(0)
        else:
            low, high = self.directions.ranges()
            offsets, factors = self.scaling[:, : self.n_inputs]
        return low / factors + offsets, high / factors + offsets

    def values_of_row(self, t: int) -> Floats:
        """Return the values of the last predicted sample in the column that a tree cuts."""
        first = self.trees[self._slot(t)].first_value
        return self.row[first : first + self.forest.n_dims].astype(np.float64)

    def _scaling_of(self, t: int) -> Floats:
        """Return the scaling of a tree's inputs: offsets and factors, shape (2, n_inputs)."""
        found: Floats = self.frames[self.trees[self._slot(t)].frame]
        return found[:, : self.n_inputs]

    def tree_widths(self, t: int) -> Floats:
        """Return the widths by which a tree divides its inputs."""
        return 1.0 / self._scaling_of(t)[1]

    def _slot(self, t: int) -> int:
        """Return the index in `trees` of the tree with the number `t`."""
        return t

    def level_place(self, t: int, dim: int, code: float) -> float:
        """Return the place of a category's level in a tree."""
        assert self.categories is not None
        return transforms.place_of(self.categories.memory[0], self._slot(t), dim, code)

    def read(self, t: int, hidden: bool = False) -> list[AnyView]:
        """Return views of a tree's nodes in preorder.

        Parameters
        ----------
        t
            Number of the tree.
        hidden
            Whether to include hidden nodes, which have already been sampled below paused leaves.

        """
        return read_tree(self.forest, t, self.end_of(t), self._VIEW, self._kept(t, hidden))

    def _kept(self, t: int, hidden: bool) -> Kept:
        """Return a function that describes a node, given the node's reference and record.

        The function returns whether the node is a leaf, whether the leaf is paused, and the
        subclass's fields.
        """
        return lambda ref, record: (ref < 0 or record.dim < 0, False, ())


class ExplainedTrees(MondrianTrees[AnyForest, AnyView]):
    """Trees that explain predictions and estimate feature importances.

    Each subclass defines the prediction at a node: class probabilities or a mean.
    """

    # Importances.

    def column(self, table: str, name: str, t: int = 0) -> NDArray[Any]:
        """Return a copy of a column of a tree's "nodes" or "side_rows", or of the "points"."""
        column = next(c for c in self._layouts()[table].columns if c.name == name)
        rows: ChunkedRows = self.__dict__[table]
        place = 0 if table == "points" else self.trees[t].slot
        return rows.column(place, self._n_rows()[table][place], column)

    def table(self, t: int) -> TreeTable:
        """Return the table of a tree's nodes, including hidden nodes."""
        left, right, dims = (self.column("nodes", name, t) for name in ("left", "right", "dim"))
        return make_table(int(self.trees[t].root), left, right, dims < 0)

    @abc.abstractmethod
    def cut_gains(self, t: int) -> tuple[TreeTable, Floats, float]:
        """Return a tree's table, the gain of each of its cuts, and the weight of all samples."""

    def _importance_trees(self) -> Sequence[int]:
        """Return the indices of the trees whose importances are averaged."""
        return range(self.n_trees)

    @property
    def importances(self) -> Floats:
        """The total gain of each feature's cuts per unit of sample weight, averaged over trees."""
        found = np.zeros(self.n_inputs)
        numbers = self._importance_trees()
        for t in numbers:
            table, gains, weight = self.cut_gains(t)
            dims = self.column("nodes", "dim", t)[table.refs[table.inner]]
            by_dim = np.zeros(int(self.forest.n_dims))
            np.add.at(by_dim, dims, gains)
            if weight > 0.0:
                found += self.by_feature(t, by_dim) / (weight * len(numbers))
        return found

    def by_feature(self, t: int, values: Floats) -> Floats:
        """Return values per feature from a tree's `values` per dimension.

        The value of a direction is divided among its features in proportion to the absolute value
        of each coefficient times the feature's range.
        """
        if self.directions is None:
            return values
        low, high = self.directions.ranges()
        # The sides are in the units of the tree's scaling.
        sides = (high - low) * (self._scaling_of(t)[1] / self.scaling[1, : self.n_inputs])
        extents = np.abs(self.directions.of_tree(t)) * sides
        total = extents.sum(axis=1, keepdims=True)
        return (extents / np.where(total > 0.0, total, 1.0)).T @ values

    # Explanations.

    @abc.abstractmethod
    def root_prediction(self) -> Floats:
        """Return the prediction at the roots, averaged over trees."""

    def _predictions_on(self, path: Path) -> tuple[Floats, Floats]:
        """Return the predictions at a path's nodes, and the expected changes due to branching off.

        Both arrays have a row for each step. An expected change is the change times the probability
        of branching off.
        """
        raise NotImplementedError

    def explain(self, inputs: Floats) -> tuple[int, Floats]:
        """Return the contribution of each feature to the prediction for these inputs.

        The prediction and the contributions are means over trees.

        Returns
        -------
        DONE or the index of an input whose value is too large, and an array with a row for each
        feature.

        """
        bad, paths, values = traced(self.forest, inputs)
        found = np.zeros((self.n_inputs, 1))
        for path in paths:
            tree = self.trees[path.tree]
            x = values[int(tree.first_value) :][: int(self.forest.n_dims)]
            parts = contributions(self.forest, tree, path, x, *self._predictions_on(path))
            found = found + self.by_feature(path.tree, parts)
        return bad, found / self.n_trees


class ClassTrees(ExplainedTrees[AnyForest, AnyView]):
    """Mondrian trees that predict classes."""

    @abc.abstractmethod
    def add_class(self) -> int:
        """Add a class, and return its number."""

    # The kernel that predicts a sample, and the kernel that predicts samples for which the first
    # kernel returns WAITS.
    _PREDICT: ClassVar[Any]
    _PREDICT_ANY: ClassVar[Any] = None

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
