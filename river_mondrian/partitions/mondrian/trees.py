"""The trees of a forest: their memory, growth, scaling and pickling, over the kernels.

What the trees say of labels or targets is the business of `posteriors`, what the kinds of trees
have in common with the features of a stream that of `estimators`.
"""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...arguments import draw_lifetimes
from ...directions import Directions
from ...records import Float32s, Float64s, Memory
from ...records.chunked_rows import ChunkedRows
from . import extension, sampling, scaling
from .cut_directions import CutDirections
from .inspection import Kept, NodeView, read_tree
from .records import EMPTY, UNLIMITED, Forest, Node, Point, Tree

NAN_BITS = 0x7FC00000

# The ranges and gamma are fixed after this many samples.
WARM_UP = 256

# Rows that are predicted at once.
PREDICTED_ROWS = 8192

# Rows that are learned at once.
LEARNED_ROWS = 1024

# Trees that a batch walks in lock-step: few, so that they stay in the cache.
BATCH_LANES = 4


@dataclass(frozen=True)
class Partitions:
    """What Mondrian trees of all kinds are told.

    Parameters
    ----------
    n_trees
        Number of trees.
    lifetime
        Time at which the trees stop being cut, or a distribution from which each draws its own.
    directions
        Cut directions; None for the axes.
    max_nodes
        Nodes (leaves and internal ones) at which a tree stops being cut.
    scale
        Whether inputs are divided by their range over the warm-up.
    seed
        Seed of the random numbers.

    """

    n_trees: int
    lifetime: Any
    directions: Directions = None
    max_nodes: int | None = None
    scale: bool = False
    seed: int | None = None


AnyForest = TypeVar("AnyForest", bound=Forest)
AnyView = TypeVar("AnyView", bound=NodeView)


class MondrianTrees(abc.ABC, Generic[AnyForest, AnyView]):
    """Mondrian trees over one store of points.

    A kind of trees names its records, and what it makes of a node that is read.
    """

    # What `_finish` makes from the rest, and what is found at first use.
    _DERIVED: ClassVar[frozenset[str]] = frozenset(
        {"inputs", "vector", "row", "forest", "_learn_one", "_predict_one", "_extend_kernel"}
    )
    # The records of the kind: its forest's, its trees', its nodes' and its points'.
    _FOREST: type[AnyForest]
    _TREE: ClassVar[type[Tree]] = Tree
    _NODE: ClassVar[type[Node]] = Node
    _POINT: ClassVar[type[Point]] = Point
    # The kind of node that `read` gives.
    _VIEW: Any = NodeView
    # Whether new rows beside the nodes are zero.
    _ZEROED_SIDE_ROWS: ClassVar[bool] = True

    def __init__(self, partitions: Partitions) -> None:
        n_trees, max_nodes, seed = partitions.n_trees, partitions.max_nodes, partitions.seed
        self.scale = partitions.scale
        self.full = False
        self.bounded = max_nodes is not None
        directions = partitions.directions
        self.directions = None if directions is None else CutDirections(directions, n_trees, seed)
        self.trees: Memory[Any] = Memory(self._TREE, n_trees)
        self.shared = Memory(self._FOREST)
        self.forest = self.shared[0]
        words = self.trees.words
        words["root"] = EMPTY
        states = np.random.SeedSequence(seed).generate_state(n_trees, dtype=np.uint64)
        words["random_state"] = states.view(np.int64)
        words["lifetime"] = draw_lifetimes(partitions.lifetime, n_trees, seed)
        forest = self.forest
        forest.n_trees = n_trees
        forest.input_capacity = forest.dim_capacity = 1
        if self.directions is not None:
            forest.n_dims = forest.dim_capacity = self.directions.n_dims
            if self.directions.n_sets > 1:
                words["first_value"] = self.directions.n_dims * np.arange(n_trees)
        forest.max_splits = UNLIMITED if max_nodes is None else (max_nodes - 1) // 2
        forest.horizon = math.inf
        forest.hide_limit = UNLIMITED
        self._set_up()
        # What is subtracted from each input, and what that is multiplied with.
        self.scaling = np.array([[0.0], [1.0]])
        # The inputs of the samples so far, while the ranges may change.
        self.warm_up: NDArray[np.float64] | None = np.zeros((0, 1)) if self.scale else None
        self._set_words()
        self.nodes = ChunkedRows(n_trees, self._node_words(), zeroed=False)
        self.points = ChunkedRows(1, self._point_words())
        self.side_rows = ChunkedRows(n_trees, self._side_words(), zeroed=self._ZEROED_SIDE_ROWS)
        self._finish()

    def _set_up(self) -> None:
        """Write what the kind of trees adds to the forest's record."""

    def _set_words(self) -> None:
        """Write where the parts of nodes' and points' rows begin."""
        forest = self.forest
        forest.box_word = self._NODE.SIZE // 4 + self._kept_words()
        n_sets = 1 if self.directions is None else self.directions.n_sets
        forest.n_values = n_sets * forest.dim_capacity
        forest.values_word = self._POINT.SIZE // 4
        forest.links_word = forest.values_word + forest.n_values

    def _kept_words(self) -> int:
        """Return how many words a node's row has between its record and its box."""
        return 0

    def _side_words(self) -> int:
        """Return how many words a row beside the nodes has."""
        return 1

    def _node_words(self) -> int:
        return int(self.forest.box_word + 2 * self.forest.dim_capacity)

    def _point_words(self) -> int:
        return int(self.forest.links_word) + len(self.trees)

    def _finish(self) -> None:
        """Make what is derived from the rest and not pickled."""
        self.forest = forest = self.shared[0]
        self.inputs = np.full((1, int(forest.input_capacity)), np.nan)
        self.vector = self.inputs[0]
        self.row = np.empty(int(forest.n_values), dtype=np.float32)
        forest.trees = self.trees.array
        forest.inputs = Float64s.of(self.inputs)
        forest.row = Float32s.of(self.row)
        offsets, factors = self.scaling
        forest.offsets, forest.factors = Float64s.of(offsets), Float64s.of(factors)
        if self.directions is not None:
            forest.oblique = self.directions.finish(offsets, factors)
        self._reserve_warm_up(self.n_samples)
        self._reserve_points(self.n_points)
        self._reserve_all(0)

    def _reserve_warm_up(self, n: int) -> None:
        """Make room for inputs until the number of samples, which is `n`, has doubled."""
        if self.warm_up is None:
            self.forest.raw_values = Float64s(0, 0, 0)
            return
        n_rows = min(1 << n.bit_length(), WARM_UP)
        if n_rows > len(self.warm_up):
            more = np.full((n_rows, self.inputs.shape[1]), np.nan)
            more[: len(self.warm_up)] = self.warm_up
            self.warm_up = more
        self.forest.raw_values = Float64s.of(self.warm_up)

    def _reserve_points(self, n: int) -> None:
        self.points.reserve(0, n)
        self.points.show(0, self.forest.points)

    def _reserve_rows(self, t: int, n: int, n_side: int = 1) -> None:
        """Make room in a tree for `n` more rows, and for `n_side` of those beside them."""
        tree = self.trees[t]
        self.nodes.reserve(t, tree.nodes.n_rows + n)
        self.side_rows.reserve(t, tree.side_rows.n_rows + n_side)
        self.nodes.show(t, tree.nodes)
        self.side_rows.show(t, tree.side_rows)

    def _reserve_all(self, n: int) -> None:
        """Make room for `n` rows in all, and for one more of those beside, in every tree."""
        words = self.trees.words
        for t, n_side in enumerate(words["side_rows.n_rows"].tolist()):
            self.nodes.reserve(t, n)
            self.side_rows.reserve(t, n_side + 1)
        for name, rows in (("nodes", self.nodes), ("side_rows", self.side_rows)):
            words[f"{name}.chunks"] = rows.addresses
            words[f"{name}.capacity"] = rows.capacities
            words[f"{name}.row_bytes"] = 4 * rows.width

    # Pickling.

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in self._DERIVED}
        if self.warm_up is not None:
            state["warm_up"] = self.warm_up[: self.n_samples].copy()
        words = self.trees.words
        state["nodes"] = self.nodes.pack(words["nodes.n_rows"].tolist())
        state["side_rows"] = self.side_rows.pack(words["side_rows.n_rows"].tolist())
        state["points"] = self.points.pack([self.n_points])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in ("nodes", "side_rows", "points"):
            setattr(self, name, ChunkedRows.unpack(state[name]))
        self._finish()

    @property
    def nbytes(self) -> int:
        """Bytes held by arrays."""
        arrays = (self.scaling, self.inputs, self.row)
        size = sum(array.nbytes + 128 for array in arrays)
        size += self.trees.nbytes + self.shared.nbytes
        if self.warm_up is not None:
            size += self.warm_up.nbytes
        if self.directions is not None:
            size += self.directions.nbytes
        return size + self.nodes.nbytes + self.points.nbytes + self.side_rows.nbytes

    # What has been learned. Kernels count.

    @property
    def n_samples(self) -> int:
        """Number of samples learned."""
        return self.forest.n_samples

    @n_samples.setter
    def n_samples(self, n: int) -> None:
        self.forest.n_samples = n

    @property
    def n_points(self) -> int:
        """Number of samples stored."""
        return self.forest.n_points

    @n_points.setter
    def n_points(self, n: int) -> None:
        self.forest.n_points = n

    @property
    def n_inputs(self) -> int:
        """Number of features in use."""
        return self.forest.n_inputs

    # Growth.

    def add_inputs(self, names: Sequence[Hashable], first_values: NDArray[np.float64]) -> None:
        """Add features, each with the first value that was seen of it."""
        forest = self.forest
        old = int(forest.input_capacity)
        n_inputs = self.n_inputs
        wanted = n_inputs + len(names)
        capacity = old
        if wanted > old:
            # The first sample's features get exact room; later ones some to spare.
            capacity = wanted if n_inputs == 0 else max(wanted, old + old // 8)
        if self.directions is not None:
            self.directions.add_inputs(names, capacity)
        elif capacity > old:
            self._add_dims(old, capacity)
        if capacity > old:
            self._add_input_capacity(old, capacity)
        if self.scale or self.directions is not None:
            # With directions, a feature counts as its first value before it appears.
            self.scaling[0, n_inputs:wanted] = first_values
        forest.n_inputs = wanted
        if self.directions is None:
            forest.n_dims = wanted
            if self.n_samples > 0:
                forest.has_missing = 1
        self._finish()
        if self.scale:
            self.inputs[0, n_inputs:wanted] = first_values
            scaling.fit_ranges(self.forest, Float64s.of(self.inputs), 1, n_inputs)

    def _add_input_capacity(self, old: int, new: int) -> None:
        """Make room for more inputs in what is kept of each."""
        self.forest.input_capacity = new
        scales = np.vstack([np.zeros(new), np.ones(new)])
        scales[:, :old] = self.scaling
        self.scaling = scales
        if self.warm_up is not None:
            rows = np.full((len(self.warm_up), new), np.nan)
            rows[:, :old] = self.warm_up
            self.warm_up = rows

    def _add_dims(self, old: int, new: int) -> None:
        """Make room for more dimensions."""
        forest = self.forest
        box, values = int(forest.box_word), int(forest.values_word)
        forest.dim_capacity = new
        self._set_words()
        self.nodes.relayout(
            self._node_words(), [(0, 0, box + old), (box + old, box + new, old)], NAN_BITS
        )
        self.points.relayout(
            self._point_words(),
            [(0, 0, values + old), (values + old, values + new, len(self.trees))],
            NAN_BITS,
        )

    # Learning.

    @cached_property
    def _extend_kernel(self) -> Callable[[Any, int, int, int], int]:
        return extension.extend.of(self._FOREST)

    def _make_room(self) -> bool:
        """Make room for a point; tell whether the trees are to be built anew with it."""
        n = self.n_points
        if n >= self.forest.points.capacity:
            self._reserve_points(n + 1)
        return self.warm_up is not None and self._doubles()

    def _complete(self, status: int) -> int:
        """Complete what a kernel that learns a sample has begun.

        Returns -1, or the input whose value is too large; then nothing has changed.
        """
        if status <= extension.TOO_LARGE:
            return extension.TOO_LARGE - status
        if status >= 0:
            self._reserve_rows(status, self.trees[status].rows_needed)
            self._extend(0, len(self.trees), extension.LANES)
        self._count(1)
        return -1

    def _count(self, n: int) -> None:
        """Count samples, and stop storing them once every tree is full.

        While the ranges may change, the samples are needed for the next rebuild.
        """
        self.n_samples += n
        if not self.full:
            self.n_points += n
            if self.bounded and self.warm_up is None:
                splits = self.trees.words["n_splits"]
                self.full = bool((splits >= self.forest.max_splits).all())

    def _extend(self, first: int, last: int, lanes: int) -> None:
        while (needy := self._extend_kernel(self.forest, first, last, lanes)) >= 0:
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
        return -1

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
            _ = self._extend_kernel
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
        return read_tree(self, t, self._VIEW, self._kept(t, hidden))

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

        Returns the most probable class, or `-2 - i` where the i-th input is too large.
        """
