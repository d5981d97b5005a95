"""The trees of a forest: their storage, growth, scaling and pickling, over the kernels.

What the trees say of labels or targets is the business of `labels.LabelTrees` and
`targets.TargetTrees`.
"""

from __future__ import annotations

import abc
import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from .arena import Arena, address_of
from .arguments import draw_lifetimes
from .directions import Directions
from .kernels import layout as at
from .kernels import mondrian, scaling
from .kernels.memory import address_of as kernel_address
from .lift import Lift

NAN_BITS = 0x7FC00000

# The ranges and gamma are fixed after this many samples.
WARM_UP = 256

# Addresses, room, and what a walk that has come to its end has left behind.
_NOT_PICKLED = [at.NODES, at.COUNTS, at.ROW_CAPACITY, at.COUNT_CAPACITY, at.NEED_ROWS]
_NOT_PICKLED += [at.WALK_REF, at.WALK_PARENT, at.WALK_SIDE, at.WALK_TAU, at.WALK_POINT, at.WALK_END]

# The same among the integers that all trees share.
_NOT_SHARED = [at.SCALING, at.LIFT, at.TREES, at.POINTS, at.POINT_CAPACITY, at.WARM_UP]
_NOT_SHARED += [at.VALUES, at.ROW, at.OUT, at.SAMPLE_BLOCK, at.ARRIVE, at.EXTEND]
_NOT_SHARED += [at.PREDICT_ROWS, at.COLLECT, at.COLLECT_DENSITIES, at.FIND_DENSITIES]
_NOT_SHARED += [at.LEARN_SCALES, at.TAILS, at.TOLD, at.SPLIT_ALL, at.PREDICT_ANEW]

# Rows that are predicted at once.
PREDICTED_ROWS = 8192

# Trees that a batch walks in lock-step: few, so that they stay in the cache.
BATCH_LANES = 4


Carried = Callable[[int, NDArray[np.int32]], tuple[bool, bool, tuple[Any, ...]]]


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


@dataclass
class Node:
    """One node of a tree, read from its storage."""

    parent: int
    depth: int
    is_leaf: bool
    paused: bool
    time: float
    delta: float
    dim: int
    cut: float
    n_samples: int
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    left: int = field(default=-1, kw_only=True)
    right: int = field(default=-1, kw_only=True)


AnyNode = TypeVar("AnyNode", bound=Node)


class MondrianTrees(abc.ABC, Generic[AnyNode]):
    """Mondrian trees over one store of points."""

    # What `_finish` makes from the rest.
    _DERIVED: ClassVar[frozenset[str]] = frozenset(
        {
            "values",
            "vector",
            "rows",
            "reals",
            "point_capacity",
            "address",
            "values_address",
            "row_address",
        }
    )
    # Kind of node that `read` gives.
    _NODE: type[AnyNode]
    # Words of a point besides its values and links.
    _POINT_WORDS: ClassVar[int]
    # Whether kernels count on it that a new row of counts is zero.
    _ZEROED_COUNTS: ClassVar[bool] = True
    # Kernels that others call by address, by where that is kept.
    _CALLED: ClassVar[dict[int, Callable[..., int]]] = {
        at.SAMPLE_BLOCK: mondrian.sample_block,
        at.ARRIVE: mondrian.arrive,
        at.EXTEND: mondrian.extend,
    }

    def __init__(self, partitions: Partitions) -> None:
        n_trees, max_nodes, seed = partitions.n_trees, partitions.max_nodes, partitions.seed
        self.scale = partitions.scale
        self.full = False
        self.bounded = max_nodes is not None
        directions = partitions.directions
        self.lift = None if directions is None else Lift(directions, n_trees, seed)
        self.trees = np.zeros((n_trees, at.TREE_WIDTH), dtype=np.int64)
        self.trees[:, at.ROOT] = at.EMPTY
        states = np.random.SeedSequence(seed).generate_state(n_trees, dtype=np.uint64)
        self.trees[:, at.RNG] = states.view(np.int64)
        lifetimes = draw_lifetimes(partitions.lifetime, n_trees, seed)
        self.trees.view(np.float64)[:, at.LIFETIME] = lifetimes
        self.shared = np.zeros(at.FOREST_WIDTH, dtype=np.int64)
        self.shared[at.N_TREES] = n_trees
        self.n_points = 0
        self.n_samples = 0
        self.shared[at.INPUT_CAPACITY] = self.shared[at.DIM_CAPACITY] = 1
        if self.lift is not None:
            self.shared[at.N_DIMS] = self.shared[at.DIM_CAPACITY] = self.lift.n_dims
            if self.lift.n_sets > 1:
                self.trees[:, at.OFFSET] = 4 * self.lift.n_dims * np.arange(n_trees)
        self.shared[at.COUNT_WIDTH] = 4
        self.shared[at.MAX_SPLITS] = at.UNLIMITED if max_nodes is None else (max_nodes - 1) // 2
        self.reals = self.shared.view(np.float64)
        self.reals[at.HORIZON] = math.inf
        self._set_up()
        self.scaling = np.array([[0.0], [1.0]])
        # The raw values of the samples so far, while the ranges may change.
        self.warm_up: NDArray[np.float64] | None = np.zeros((0, 1)) if self.scale else None
        self._set_widths()
        self.nodes = Arena(n_trees, int(self.shared[at.NODE_WIDTH]), zeroed=False)
        self.points = Arena(1, int(self.shared[at.POINT_WIDTH]))
        width = int(self.shared[at.COUNT_WIDTH])
        self.counts = Arena(n_trees, width, zeroed=self._ZEROED_COUNTS)
        self._finish()

    @abc.abstractmethod
    def _set_up(self) -> None:
        """Write what the kind of trees adds to the forest's integers."""

    @abc.abstractmethod
    def _carried_words(self) -> int:
        """Return how many words of a row hold what its sides carry."""

    def _set_widths(self) -> None:
        shared = self.shared
        shared[at.BOX] = at.CLASSES + self._carried_words()
        shared[at.NODE_WIDTH] = shared[at.BOX] + 2 * shared[at.DIM_CAPACITY]
        n_sets = 1 if self.lift is None else self.lift.n_sets
        shared[at.N_VALUES] = n_sets * shared[at.DIM_CAPACITY]
        shared[at.LINKS] = shared[at.N_VALUES] + self._POINT_WORDS
        shared[at.POINT_WIDTH] = shared[at.LINKS] + len(self.trees)

    def _finish(self) -> None:
        """Make what is derived from the rest and not pickled."""
        self.values = np.full((1, int(self.shared[at.INPUT_CAPACITY])), np.nan)
        self.vector = self.values[0]
        self.rows = np.empty((1, int(self.shared[at.N_VALUES])), dtype=np.float32)
        self.reals = self.shared.view(np.float64)
        # The kernels get addresses: of the forest's integers here, of the rest among them.
        self.address = address_of(self.shared)
        self.shared[at.TREES] = address_of(self.trees)
        self.shared[at.SCALING] = address_of(self.scaling)
        self.shared[at.LIFT] = 0 if self.lift is None else self.lift.finish()
        self.values_address = address_of(self.values)
        self.row_address = address_of(self.rows)
        self._reserve_warm_up(self.n_samples)
        self._reserve_points(self.n_points)
        self._reserve_all(0)

    def _reserve_warm_up(self, n: int) -> None:
        """Make room for raw values until the number of samples, which is `n`, has doubled."""
        if self.warm_up is None:
            self.shared[at.WARM_UP] = 0
            return
        n_rows = min(1 << n.bit_length(), WARM_UP)
        if n_rows > len(self.warm_up):
            more = np.full((n_rows, self.values.shape[1]), np.nan)
            more[: len(self.warm_up)] = self.warm_up
            self.warm_up = more
        self.shared[at.WARM_UP] = address_of(self.warm_up)

    def _reserve_points(self, n: int) -> None:
        self.points.reserve(0, n)
        self.point_capacity = self.points.capacities[0]
        self.shared[at.POINT_CAPACITY] = self.point_capacity
        self.shared[at.POINTS] = self.points.addresses[0]

    def _link(self) -> None:
        """Give the kernels that extend trees the addresses of those that they call.

        That is done when the first tree is extended, since it is when they are compiled.
        """
        if self.shared[at.EXTEND] == 0:
            for place, kernel in self._CALLED.items():
                self.shared[place] = kernel_address(kernel)

    def _reserve_rows(self, t: int, n: int, n_counts: int = 1) -> None:
        """Make room for `n` more rows, and for `n_counts` of counts, in a tree."""
        tree = self.trees[t]
        self.nodes.reserve(t, int(tree[at.N_ROWS]) + n)
        self.counts.reserve(t, int(tree[at.N_COUNTS]) + n_counts)
        tree[at.ROW_CAPACITY] = self.nodes.capacities[t]
        tree[at.COUNT_CAPACITY] = self.counts.capacities[t]
        tree[at.NODES] = self.nodes.addresses[t]
        tree[at.COUNTS] = self.counts.addresses[t]

    def _reserve_all(self, n: int) -> None:
        """Make room for `n` rows in all, and for one more of counts, in every tree."""
        for t, n_counts in enumerate(self.trees[:, at.N_COUNTS].tolist()):
            self.nodes.reserve(t, n)
            self.counts.reserve(t, n_counts + 1)
        self.trees[:, at.ROW_CAPACITY] = self.nodes.capacities
        self.trees[:, at.COUNT_CAPACITY] = self.counts.capacities
        self.trees[:, at.NODES] = self.nodes.addresses
        self.trees[:, at.COUNTS] = self.counts.addresses

    # Pickling.

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in self._DERIVED}
        # Addresses and room are no part of what the trees are.
        state["trees"] = self.trees.copy()
        state["trees"][:, _NOT_PICKLED] = 0
        state["shared"] = self.shared.copy()
        state["shared"][_NOT_SHARED] = 0
        if self.warm_up is not None:
            state["warm_up"] = self.warm_up[: self.n_samples].copy()
        state["nodes"] = self.nodes.pack(self.trees[:, at.N_ROWS].tolist())
        state["counts"] = self.counts.pack(self.trees[:, at.N_COUNTS].tolist())
        state["points"] = self.points.pack([self.n_points])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.trees, self.shared = self.trees.copy(), self.shared.copy()
        for name in ("nodes", "counts", "points"):
            setattr(self, name, Arena.unpack(state[name]))
        self._finish()
        if self.n_samples:
            self._link()

    @property
    def nbytes(self) -> int:
        """Bytes held by arrays."""
        arrays = (self.trees, self.shared, self.scaling, self.values, self.rows)
        size = sum(array.nbytes + 128 for array in arrays)
        if self.warm_up is not None:
            size += self.warm_up.nbytes
        if self.lift is not None:
            size += self.lift.nbytes
        return size + self.nodes.nbytes + self.points.nbytes + self.counts.nbytes

    # Growth.

    @property
    def n_inputs(self) -> int:
        """Number of features in use."""
        return int(self.shared[at.N_INPUTS])

    def add_inputs(self, names: Sequence[Hashable], first_values: NDArray[np.float64]) -> None:
        """Add features, each with the first value that was seen of it."""
        old = int(self.shared[at.INPUT_CAPACITY])
        n_inputs = self.n_inputs
        wanted = n_inputs + len(names)
        capacity = old
        if wanted > old:
            # The first sample's features get exact room; later ones some to spare.
            capacity = wanted if n_inputs == 0 else max(wanted, old + old // 8)
        if self.lift is not None:
            self.lift.add_inputs(names, capacity)
        elif capacity > old:
            self._add_dims(old, capacity)
        if capacity > old:
            self.shared[at.INPUT_CAPACITY] = capacity
            scales = np.vstack([np.zeros(capacity), np.ones(capacity)])
            scales[:, :old] = self.scaling
            self.scaling = scales
            if self.warm_up is not None:
                rows = np.full((len(self.warm_up), capacity), np.nan)
                rows[:, :old] = self.warm_up
                self.warm_up = rows
        if self.scale or self.lift is not None:
            # With directions, a feature counts as its first value before it appears.
            self.scaling[0, n_inputs:wanted] = first_values
        self.shared[at.N_INPUTS] = wanted
        if self.lift is None:
            self.shared[at.N_DIMS] = wanted
            if self.n_samples > 0:
                self.shared[at.HAS_MISSING] = 1
        self._finish()
        if self.scale:
            self.values[0, n_inputs:wanted] = first_values
            scaling.fit(self.address, self.values_address, 1, n_inputs)

    def _add_dims(self, old: int, new: int) -> None:
        """Make room for more dimensions."""
        box = int(self.shared[at.BOX])
        self.shared[at.DIM_CAPACITY] = new
        self._set_widths()
        self.nodes.relayout(
            int(self.shared[at.NODE_WIDTH]),
            [(0, 0, box + old), (box + old, box + new, old)],
            NAN_BITS,
        )
        self.points.relayout(
            int(self.shared[at.POINT_WIDTH]),
            [(0, 0, old), (old, new, self._POINT_WORDS + len(self.trees))],
            NAN_BITS,
        )

    # Learning.

    def _make_room(self) -> bool:
        """Make room for a point; tell whether the trees are to be built anew with it."""
        if self.n_points >= self.point_capacity:
            self._reserve_points(self.n_points + 1)
        rebuilds = self.warm_up is not None and self._doubles()
        if not rebuilds:
            self._link()
        return rebuilds

    def _complete(self, said: int) -> int:
        """Complete what a kernel that learns a sample has begun.

        Returns -1, or the dimension whose value is too large; then nothing has changed.
        """
        if said >= 0:
            self._reserve_rows(said, int(self.trees[said, at.NEED_ROWS]))
            self._extend(0, len(self.trees), mondrian.LANES)
        elif said < -1:
            return int(-2 - said)
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
                splits = self.trees[:, at.N_SPLITS]
                self.full = bool((splits >= self.shared[at.MAX_SPLITS]).all())

    def _extend(self, first: int, last: int, lanes: int) -> None:
        said = mondrian.extend(self.address, first, last, lanes)
        while said >= 0:
            self._reserve_rows(said, int(self.trees[said, at.NEED_ROWS]))
            said = mondrian.extend(self.address, first, last, lanes)

    def _doubles(self) -> bool:
        """Tell whether the next sample doubles the number of samples."""
        n = self.n_samples + 1
        return n & (n - 1) == 0

    def _learn_by_rebuilding(self) -> int:
        """Refresh the ranges and build the trees anew, the sample among their points.

        Returns as `_complete` does.
        """
        bad = scaling.too_large(self.address, self.values_address)
        if bad >= 0:
            return int(bad)
        n = self.n_samples + 1
        self._reserve_warm_up(n)
        assert self.warm_up is not None
        # Kernels keep the values of the samples between.
        self.warm_up[n - 1] = self.vector
        raw = address_of(self.warm_up)
        scaling.fit(self.address, raw, n, 0)
        if self.lift is not None:
            self.lift.redraw()
            self.lift.forget()
        scaling.store(self.address, raw, n, 0)
        self._count(1)
        if n == WARM_UP:
            self.warm_up = None
            self.shared[at.WARM_UP] = 0
        self.build()
        self._count(0)
        return -1

    def build(self) -> None:
        """Sample all trees afresh from the stored points (Algorithms 1, 2, 9)."""
        # A leaf's row holds two points, but for those that wait for one with a missing value.
        room = self.n_points * (1 + int(self.shared[at.HAS_MISSING]))
        # During the warm-up as many points will come before the next rebuild.
        self._reserve_all(room if self.warm_up is None else 2 * room)
        self.shared[at.SAMPLE_BLOCK] = kernel_address(mondrian.sample_block)
        mondrian.build(self.address, self.n_points)
        # The warm-up's last rebuild gives back what is left.
        if self.warm_up is None:
            for t, n_rows in enumerate(self.trees[:, at.N_ROWS].tolist()):
                self.nodes.trim(t, n_rows)
            self._reserve_all(0)

    def _learn_rows(
        self, values: NDArray[np.float64], put: Callable[[int, int, int], None], n_jobs: int
    ) -> None:
        """Learn rows of checked values, shape (n, dimensions), after the warm-up.

        `put(start, n, first)` writes what `n` rows from `start` on have besides their values as
        points from `first` on.
        """
        start = 0
        self._link()
        while start < len(values):
            n = min(self._block(), len(values) - start)
            part = np.ascontiguousarray(values[start : start + n])
            # The points stay in the store unless the forest is full.
            self._reserve_points(self.n_points + n)
            scaling.store(self.address, part.ctypes.data, n, self.n_points)
            put(start, n, self.n_points)
            mondrian.set_walks(self.address, self.n_points, self.n_points + n)
            self._share(lambda a, b: self._extend(a, b, BATCH_LANES), len(self.trees), n_jobs)
            self._count(n)
            self._learned_rows(n_jobs)
            start += n
        self.points.trim(0, self.n_points)
        self._reserve_points(self.n_points)

    def _block(self) -> int:
        """Return how many rows may be learned at once."""
        # The row that fills the last tree is the last one that is stored.
        return 1 if self.bounded and not self.full else 1024

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
        predict: Callable[[int, int, int], None],
        values: NDArray[np.float64],
        width: int,
        n_jobs: int,
    ) -> NDArray[np.float64]:
        """Predict rows of checked values; returns an array, shape (n, width).

        `predict(rows, n, out)` predicts `n` scaled rows from address to address.
        """
        out = np.empty((len(values), width))
        for first in range(0, len(values), PREDICTED_ROWS):
            block = np.ascontiguousarray(values[first : first + PREDICTED_ROWS])
            n = len(block)
            rows = np.empty((n, self.rows.shape[1]), dtype=np.float32)
            scaling.scale_rows(self.address, rows.ctypes.data, block.ctypes.data, n)
            results = out[first:]

            def part(
                start: int, stop: int, rows: Any = rows, results: NDArray[np.float64] = results
            ) -> None:
                row = rows.ctypes.data + start * rows.strides[0]
                result = results.ctypes.data + start * results.strides[0]
                predict(row, stop - start, result)

            self._share(part, n, n_jobs if n >= 2 * n_jobs else 1)
        return out

    # Reading.

    def end_of(self, t: int) -> float:
        """Return the time at which a tree ends, as it is read now."""
        return float(min(self.trees.view(np.float64)[t, at.LIFETIME], self.reals[at.HORIZON]))

    def cut_of(self, t: int, dim: int, cut: float) -> tuple[NDArray[np.float64], float]:
        """Return what a tree's cut says of raw values: coefficients of the features, a threshold.

        Samples whose coefficients times values add up to no more than the threshold go left.
        """
        offsets, factors = self.scaling[:, : self.n_inputs]
        if self.lift is None:
            one = np.zeros(self.n_inputs)
            one[dim] = 1.0
            return one, float(cut / factors[dim] + offsets[dim])
        raw = self.lift.of_tree(t)[dim] * factors
        return raw, float(cut + raw @ offsets)

    def directions(self, t: int, names: Sequence[Hashable]) -> list[dict[Any, float]]:
        """Return the directions that a tree cuts, as mappings from feature to coefficient."""
        if not 0 <= t < len(self.trees):
            raise ValueError(f"there are trees 0 to {len(self.trees) - 1}, got {t!r}")
        if self.lift is None:
            return [{name: 1.0} for name in names]
        rows = self.lift.of_tree(t) * self.scaling[1, : self.n_inputs]
        return [{n: v for n, v in zip(names, row, strict=True) if v} for row in rows.tolist()]

    def ranges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the lowest and highest value of each feature that any sample has had."""
        if self.lift is None:
            root = self.read(0)[0]
            low, high = root.lower, root.upper
        else:
            low, high = self.lift.ranges()
        offsets, factors = self.scaling[:, : self.n_inputs]
        return low / factors + offsets, high / factors + offsets

    def read(self, t: int, hidden: bool = False) -> list[AnyNode]:
        """Read a tree's nodes in preorder.

        Parameters
        ----------
        t
            Number of the tree.
        hidden
            Whether to read what is already sampled below paused leaves.

        """
        shared = self.shared
        n_dims, capacity, box = (int(shared[i]) for i in (at.N_DIMS, at.DIM_CAPACITY, at.BOX))
        end = self.end_of(t)
        first = int(self.trees[t, at.OFFSET]) // 4
        heads = self.nodes.rows(t, int(self.trees[t, at.N_ROWS]))
        boxes = heads.view(np.float32)
        points = self.points.rows(0, self.n_points)
        point_values = points.view(np.float32)
        carried = self._carried(t, points, hidden)

        nodes: list[AnyNode] = []
        waiting = [(int(self.trees[t, at.ROOT]), -1, "", 0.0, 0)]
        if waiting[0][0] == at.EMPTY:
            return []
        while waiting:
            ref, parent, side, tau, depth = waiting.pop()
            number = len(nodes)
            if parent >= 0:
                setattr(nodes[parent], side, number)
            if ref < 0:
                lower = upper = point_values[~ref, first : first + n_dims].astype(np.float64)
                n_samples = 1
                is_leaf, paused, extra = carried(ref, points[~ref])
            else:
                head = heads[ref]
                lower = boxes[ref, box : box + n_dims].astype(np.float64)
                upper = boxes[ref, box + capacity : box + capacity + n_dims].astype(np.float64)
                n_samples = int(head[at.COUNT])
                is_leaf, paused, extra = carried(ref, head)
            delta = end - tau if is_leaf else float(boxes[ref, at.DELTA])
            node = self._NODE(
                parent,
                depth,
                is_leaf,
                paused,
                end if is_leaf else tau + delta,
                delta,
                -1 if is_leaf else int(head[at.DIM]),
                math.nan if is_leaf else float(boxes[ref, at.CUT]),
                n_samples,
                lower,
                upper,
                *extra,
            )
            nodes.append(node)
            if not is_leaf:
                waiting.append((int(head[at.RIGHT]), number, "right", tau + delta, depth + 1))
                waiting.append((int(head[at.LEFT]), number, "left", tau + delta, depth + 1))
        return nodes

    @abc.abstractmethod
    def _carried(self, t: int, points: NDArray[np.int32], hidden: bool) -> Carried:
        """Return a function of a tree's references and their rows.

        It tells whether that is a leaf, whether it pauses, and what the kind of node adds.
        """


class ClassTrees(MondrianTrees[AnyNode]):
    """Mondrian trees that predict classes."""

    # Probabilities of the classes that were predicted last.
    out: NDArray[np.float64] | memoryview[float]

    @abc.abstractmethod
    def predict(self) -> int:
        """Predict the sample in `values` into `out`.

        Returns the most probable class, or `-2 - dimension` where a value is too large.
        """
