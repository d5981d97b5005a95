"""The trees of a forest: how they learn, predict and are read, over the kernels.

What the trees say of labels or targets is the business of `posteriors`, what the kinds of trees
have in common with the features of a stream that of `estimators`.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...records import Float32s, Float64s
from ...status import DONE, TOO_LARGE
from . import extension, sampling, scaling
from .inspection import Kept, NodeView, read_tree
from .tree_memory import WARM_UP, AnyForest, TreeMemory

# Rows that are predicted at once.
PREDICTED_ROWS = 8192

# Rows that are learned at once.
LEARNED_ROWS = 1024

# Trees that a batch walks in lock-step: few, so that they stay in the cache.
BATCH_LANES = 4

AnyView = TypeVar("AnyView", bound=NodeView)


class MondrianTrees(TreeMemory[AnyForest], Generic[AnyForest, AnyView]):
    """Mondrian trees over one store of points.

    A kind of trees names its records, and what it makes of a node that is read.
    """

    # The kind of node that `read` gives.
    _VIEW: Any = NodeView
    # Kernels that are called for each sample, from their first use on. A cached property would make
    # Python's access to all attributes of the object slower, since it looks into its `__dict__`.
    _learn_one: Any
    _predict_one: Any

    def _finish(self) -> None:
        super()._finish()
        self._learn_one = self._predict_one = None

    # Learning.

    def _make_room(self) -> bool:
        """Make room for a point; tell whether the trees are to be built anew with it."""
        n = self.n_points
        if n >= self.forest.points.capacity:
            self._reserve_points(n + 1)
        return self.warm_up is not None and self._doubles()

    def _complete(self, status: int) -> int:
        """Complete what a kernel that learns a sample has begun.

        Returns DONE, or the input whose value is too large; then nothing has changed.
        """
        if status <= TOO_LARGE:
            return TOO_LARGE - status
        if status >= 0:
            self._reserve_rows(status, self.trees[status].rows_needed)
            self._extend(0, len(self.trees), extension.LANES)
        self._count(1)
        return DONE

    def _count(self, n: int) -> None:
        """Count samples, and stop storing them once every tree is full.

        While the ranges may change, the samples are needed for the next rebuild.
        """
        forest = self.forest
        forest.n_samples += n
        if not self.full:
            forest.n_points += n
            if self.bounded and self.warm_up is None:
                splits = self.trees.words["n_splits"]
                self.full = bool((splits >= forest.max_splits).all())

    def _extend(self, first: int, last: int, lanes: int) -> None:
        extend = extension.extend.of(self._FOREST)
        while (needy := extend(self.forest, first, last, lanes)) >= 0:
            self._reserve_rows(needy, self.trees[needy].rows_needed)

    def _doubles(self) -> bool:
        """Tell whether the next sample doubles the number of samples."""
        n = self.n_samples + 1
        return n & (n - 1) == 0

    def _learn_by_rebuilding(self) -> int:
        """Refresh the ranges and build the trees anew, the sample among their points.

        Returns as `_complete` does.
        """
        bad = scaling.find_too_large(self.forest, self.forest.inputs)
        if bad >= 0:
            return bad
        n = self.n_samples + 1
        self._reserve_warm_up(n)
        assert self.warm_up is not None
        # Kernels keep the inputs of the samples between.
        self.warm_up[n - 1] = self.vector
        raw = self.forest.raw_values
        scaling.fit_ranges(self.forest, raw, n, 0)
        if self.directions is not None:
            self.directions.redraw()
            self.directions.forget()
        scaling.store_rows(self.forest, raw, n, 0)
        self._count(1)
        if n == WARM_UP:
            self.warm_up = None
            self._reserve_warm_up(n)
        self.build()
        self._count(0)
        return DONE

    def build(self) -> None:
        """Sample all trees afresh from the stored points (Algorithms 1, 2, 9)."""
        # A leaf's row holds two points, but for those that wait for one with a missing value.
        room = self.n_points * (1 + self.forest.has_missing)
        # During the warm-up as many points will come before the next rebuild.
        self._reserve_all(room if self.warm_up is None else 2 * room)
        sampling.build(self.forest, self.n_points)
        # The warm-up's last rebuild gives back what is left.
        if self.warm_up is None:
            for t, n_rows in enumerate(self.trees.words["nodes.n_rows"].tolist()):
                self.nodes.trim(t, n_rows)
            self._reserve_all(0)

    def _learn_rows(
        self, rows: NDArray[np.float64], put: Callable[[int, int, int], None], n_jobs: int
    ) -> None:
        """Learn rows of checked inputs, shape (n, inputs), after the warm-up.

        `put(start, n, first)` writes what `n` rows from `start` on have besides their values as
        points from `first` on.
        """
        start = 0
        while start < len(rows):
            n = min(self._block(), len(rows) - start)
            part = Float64s.of(np.ascontiguousarray(rows[start : start + n]))
            # The points stay in the store unless the forest is full.
            first = self.n_points
            self._reserve_points(first + n)
            scaling.store_rows(self.forest, part, n, first)
            put(start, n, first)
            extension.begin_walks(self.forest, first, first + n)
            # Compiled before threads ask for it.
            extension.extend.of(self._FOREST)
            self._share(lambda a, b: self._extend(a, b, BATCH_LANES), len(self.trees), n_jobs)
            self._count(n)
            self._learned_rows(n_jobs)
            start += n
        self.points.trim(0, self.n_points)
        self._reserve_points(self.n_points)

    def _block(self) -> int:
        """Return how many rows may be learned at once."""
        # The row that fills the last tree is the last one that is stored.
        return 1 if self.bounded and not self.full else LEARNED_ROWS

    def _learned_rows(self, n_jobs: int) -> None:
        """Do what is left to do once the trees have been extended by a block of rows."""
        # Classes and cells are counted on the way.

    @staticmethod
    def _share(work: Callable[[int, int], None], n: int, n_jobs: int) -> None:
        """Call `work` on parts of 0..n, in threads where there are several jobs."""
        n_jobs = min(n_jobs, n)
        if n_jobs <= 1:
            work(0, n)
            return
        bounds = np.linspace(0, n, n_jobs + 1).astype(int).tolist()
        with ThreadPoolExecutor(n_jobs) as pool:
            for job in [pool.submit(work, a, b) for a, b in itertools.pairwise(bounds)]:
                job.result()

    # Prediction.

    def _predict_rows(
        self,
        predict: Callable[[Float32s, int, Float64s], None],
        inputs: NDArray[np.float64],
        width: int,
        n_jobs: int,
    ) -> NDArray[np.float64]:
        """Predict rows of checked inputs; returns an array, shape (n, width).

        `predict(rows, n, out)` predicts `n` rows of values.
        """
        out = np.empty((len(inputs), width))
        n_values = int(self.forest.n_values)
        for first in range(0, len(inputs), PREDICTED_ROWS):
            block = np.ascontiguousarray(inputs[first : first + PREDICTED_ROWS])
            n = len(block)
            rows = Float32s.of(np.empty((n, n_values), dtype=np.float32))
            scaling.scale_rows(self.forest, rows, Float64s.of(block), n)
            results = Float64s.of(out[first : first + n])

            def part(
                start: int, stop: int, rows: Float32s = rows, results: Float64s = results
            ) -> None:
                size = stop - start
                predict(
                    rows.part(n_values * start, n_values * size),
                    size,
                    results.part(width * start, width * size),
                )

            self._share(part, n, n_jobs if n >= 2 * n_jobs else 1)
        return out

    # Inspection.

    def end_of(self, t: int) -> float:
        """Return the time at which a tree ends, as it is read now."""
        return float(min(self.trees[t].lifetime, self.forest.horizon))

    def cut_of(self, t: int, dim: int, cut: float) -> tuple[NDArray[np.float64], float]:
        """Return what a tree's cut says of inputs: coefficients of the features, a threshold.

        Samples whose coefficients times inputs add up to no more than the threshold go left.
        """
        offsets, factors = self.scaling[:, : self.n_inputs]
        if self.directions is None:
            one = np.zeros(self.n_inputs)
            one[dim] = 1.0
            return one, float(cut / factors[dim] + offsets[dim])
        raw = self.directions.of_tree(t)[dim] * factors
        return raw, float(cut + raw @ offsets)

    def directions_of(self, t: int, names: Sequence[Hashable]) -> list[dict[Any, float]]:
        """Return the directions that a tree cuts, as mappings from feature to coefficient."""
        if not 0 <= t < len(self.trees):
            raise ValueError(f"there are trees 0 to {len(self.trees) - 1}, got {t!r}")
        if self.directions is None:
            return [{name: 1.0} for name in names]
        rows = self.directions.of_tree(t) * self.scaling[1, : self.n_inputs]
        return [{n: v for n, v in zip(names, row, strict=True) if v} for row in rows.tolist()]

    def ranges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lowest and highest value of each feature that any sample has had."""
        if self.directions is None:
            root = self.read(0)[0]
            low, high = root.lower, root.upper
        else:
            low, high = self.directions.ranges()
        offsets, factors = self.scaling[:, : self.n_inputs]
        return low / factors + offsets, high / factors + offsets

    def values_of_row(self, t: int) -> NDArray[np.float64]:
        """Return the values that a tree cuts of the sample that was predicted last."""
        first = self.trees[t].first_value
        return self.row[first:].astype(np.float64)

    def read(self, t: int, hidden: bool = False) -> list[AnyView]:
        """Read a tree's nodes in preorder.

        Parameters
        ----------
        t
            Number of the tree.
        hidden
            Whether to read what is already sampled below paused leaves.

        """
        end = self.end_of(t)
        return read_tree(self.forest, self.trees[t], end, self._VIEW, self._kept(t, hidden))

    def _kept(self, t: int, hidden: bool) -> Kept:
        """Return a function of a tree's references and their records.

        It tells whether that is a leaf, whether it pauses, and what the kind of node adds.
        """
        return lambda ref, record: (ref < 0 or record.dim < 0, False, ())


class ClassTrees(MondrianTrees[AnyForest, AnyView]):
    """Mondrian trees that predict classes."""

    # Probabilities of the classes that were predicted last.
    out: NDArray[np.float64] | memoryview[float]

    @abc.abstractmethod
    def predict(self) -> int:
        """Predict the sample in `inputs` into `out`.

        Returns the most probable class, or `TOO_LARGE - i` where the i-th input is.
        """
