"""The trees of a forest: their storage, growth, scaling and pickling, over the kernels."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arena import Arena
from .kernels import hnsp, mondrian
from .kernels import layout as at
from .kernels.memory import LARGEST

NAN_BITS = 0x7FC00000

# The ranges and gamma are fixed after this many samples.
WARM_UP = 256

_DERIVED = {
    "values",
    "vector",
    "rows",
    "out",
    "reals",
    "point_capacity",
    "address",
    "values_address",
    "row_address",
    "out_address",
}
_NOT_PICKLED = [at.NODES, at.COUNTS, at.ROW_CAPACITY, at.COUNT_CAPACITY, at.NEED_ROWS]

# Trees that a batch walks in lock-step: few, so that they stay in the cache.
BATCH_LANES = 4


@dataclass(frozen=True)
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
    counts: NDArray[np.int64]
    left: int = -1
    right: int = -1


class MondrianTrees:
    """Mondrian trees over one store of points.

    Parameters
    ----------
    n_trees
        Number of trees.
    lifetime
        Time at which the trees stop being cut.
    gamma
        Rate of the discount; None means ten times the number of dimensions known when the
        warm-up ended.
    split_pure
        Whether blocks of one class are cut, too.
    max_nodes
        Nodes (leaves and internal ones) at which a tree stops being cut.
    scale
        Whether dimensions are divided by their range over the warm-up.
    seed
        Seed of the trees' random numbers.

    """

    def __init__(
        self,
        n_trees: int,
        lifetime: float,
        gamma: float | None,
        split_pure: bool,
        max_nodes: int | None,
        scale: bool,
        seed: int | None,
    ) -> None:
        self.n_points = 0
        self.n_samples = 0
        self.gamma = gamma
        self.scale = scale
        self.full = False
        self.bounded = max_nodes is not None
        self.trees = np.zeros((n_trees, at.TREE_WIDTH), dtype=np.int64)
        self.trees[:, at.ROOT] = at.EMPTY
        states = np.random.SeedSequence(seed).generate_state(n_trees, dtype=np.uint64)
        self.trees[:, at.RNG] = states.view(np.int64)
        self.shared = np.zeros(at.FOREST_WIDTH, dtype=np.int64)
        self.shared[at.N_TREES] = n_trees
        self.shared[at.DIM_CAPACITY] = 1
        self.shared[at.N_WORDS] = 1
        self.shared[at.COUNT_WIDTH] = 4
        self.shared[at.SPLIT_PURE] = split_pure
        self.shared[at.MAX_SPLITS] = 2**62 if max_nodes is None else (max_nodes - 1) // 2
        self.reals = self.shared.view(np.float64)
        self.reals[at.LIFETIME] = lifetime
        self.reals[at.GAMMA] = 1.0 if gamma is None else gamma
        self.scaling = np.array([[0.0], [1.0]])
        self.warm_up: NDArray[np.float64] | None = np.zeros((0, 1))
        self._set_widths()
        self.nodes = Arena(n_trees, int(self.shared[at.NODE_WIDTH]))
        self.points = Arena(1, int(self.shared[at.POINT_WIDTH]))
        self.counts = Arena(n_trees, int(self.shared[at.COUNT_WIDTH]))
        self._finish()

    def _set_widths(self) -> None:
        shared = self.shared
        shared[at.BOX] = at.CLASSES + 2 * shared[at.N_WORDS]
        shared[at.NODE_WIDTH] = shared[at.BOX] + 2 * shared[at.DIM_CAPACITY]
        shared[at.POINT_WIDTH] = shared[at.DIM_CAPACITY] + 1 + len(self.trees)

    def _finish(self) -> None:
        """Make what is derived from the rest and not pickled."""
        capacity = int(self.shared[at.DIM_CAPACITY])
        self.values = np.full((1, capacity), np.nan)
        self.vector = self.values[0]
        self.rows = np.empty((1, capacity), dtype=np.float32)
        self.reals = self.shared.view(np.float64)
        # The kernels get addresses: of the forest's integers here, of the rest among them.
        self.address = int(self.shared.ctypes.data)
        self.shared[at.TREES] = self.trees.ctypes.data
        self.shared[at.SCALING] = self.scaling.ctypes.data
        self.values_address = int(self.values.ctypes.data)
        self.row_address = int(self.rows.ctypes.data)
        self._make_out()
        self._reserve_points(self.n_points)
        for t in range(len(self.trees)):
            self._reserve_rows(t, 0)

    def _make_out(self) -> None:
        self.out = np.empty((1, int(self.shared[at.N_CLASSES])))
        self.out_address = int(self.out.ctypes.data)

    def _reserve_points(self, n: int) -> None:
        self.points.reserve(0, n)
        self.point_capacity = self.points.capacity(0)
        self.shared[at.POINT_CAPACITY] = self.point_capacity
        self.shared[at.POINTS] = self.points.address(0)

    def _reserve_rows(self, t: int, n: int) -> None:
        """Make room for `n` more rows, and for one of counts, in a tree."""
        tree = self.trees[t]
        self.nodes.reserve(t, int(tree[at.N_ROWS]) + n)
        self.counts.reserve(t, int(tree[at.N_COUNTS]) + 1)
        tree[at.ROW_CAPACITY] = self.nodes.capacity(t)
        tree[at.COUNT_CAPACITY] = self.counts.capacity(t)
        tree[at.NODES] = self.nodes.address(t)
        tree[at.COUNTS] = self.counts.address(t)

    # Pickling.

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in _DERIVED}
        # Addresses and room are no part of what the trees are.
        state["trees"] = self.trees.copy()
        state["trees"][:, _NOT_PICKLED] = 0
        state["shared"] = self.shared.copy()
        state["shared"][[at.SCALING, at.TREES, at.POINTS, at.POINT_CAPACITY]] = 0
        if self.warm_up is not None and self.scale:
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

    @property
    def nbytes(self) -> int:
        """Bytes held by arrays."""
        arrays = (
            self.trees,
            self.shared,
            self.scaling,
            self.values,
            self.rows,
            self.out,
        )
        size = sum(array.nbytes + 128 for array in arrays)
        if self.warm_up is not None:
            size += self.warm_up.nbytes
        return size + self.nodes.nbytes + self.points.nbytes + self.counts.nbytes

    # Growth.

    @property
    def n_dims(self) -> int:
        """Number of dimensions in use."""
        return int(self.shared[at.N_DIMS])

    def add_dims(self, first_values: NDArray[np.float64]) -> None:
        """Add dimensions, each with the first value that was seen in it."""
        old = int(self.shared[at.DIM_CAPACITY])
        n_dims = self.n_dims
        wanted = n_dims + len(first_values)
        if wanted > old:
            # The first sample's features get exact room; later ones some to spare.
            new = wanted if n_dims == 0 else max(wanted, old + old // 8)
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
                [(0, 0, old), (old, new, 1 + len(self.trees))],
                NAN_BITS,
            )
            scaling = np.vstack([np.zeros(new), np.ones(new)])
            scaling[:, :old] = self.scaling
            self.scaling = scaling
            if self.warm_up is not None:
                rows = np.full((len(self.warm_up), new), np.nan)
                rows[:, :old] = self.warm_up
                self.warm_up = rows
            self._finish()
        if self.n_samples > 0:
            self.shared[at.HAS_MISSING] = 1
        if self.scale:
            magnitudes = np.abs(first_values)
            self.scaling[0, n_dims:wanted] = first_values
            self.scaling[1, n_dims:wanted] = _factors(np.zeros(len(first_values)), magnitudes)
        self.shared[at.N_DIMS] = wanted
        if self.n_samples < WARM_UP and self.gamma is None:
            self.reals[at.GAMMA] = 10.0 * wanted

    def add_class(self) -> int:
        """Add a class; returns its number."""
        shared = self.shared
        label = int(shared[at.N_CLASSES])
        shared[at.N_CLASSES] = label + 1
        old = int(shared[at.N_WORDS])
        if label >= 32 * old:
            new = old + max(1, old // 2)
            capacity = int(shared[at.DIM_CAPACITY])
            box = int(shared[at.BOX])
            shared[at.N_WORDS] = new
            self._set_widths()
            right = at.CLASSES + old
            self.nodes.relayout(
                int(shared[at.NODE_WIDTH]),
                [
                    (0, 0, right),
                    (right, at.CLASSES + new, old),
                    (box, int(shared[at.BOX]), 2 * capacity),
                ],
            )
        width = int(shared[at.COUNT_WIDTH])
        if label >= width:
            shared[at.COUNT_WIDTH] = 2 * width
            self.counts.relayout(2 * width, [(0, 0, width)])
        self._make_out()
        return label

    # Learning.

    def learn(self, label: int) -> int:
        """Learn the sample in `values` with a class.

        Returns -1, or the dimension whose value is too large; then nothing has changed.
        """
        point = self.n_points
        if point >= self.point_capacity:
            self._reserve_points(point + 1)
        if self.warm_up is not None and self._doubles():
            return self._learn_by_rebuilding(label)
        said = mondrian.learn(self.address, self.values_address, label, point)
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
            if self.bounded and not (self.scale and self.warm_up is not None):
                splits = self.trees[:, at.N_SPLITS]
                self.full = bool((splits >= self.shared[at.MAX_SPLITS]).all())

    def _extend(self, first: int, last: int, lanes: int) -> None:
        said = mondrian.extend(self.address, first, last, lanes)
        while said >= 0:
            self._reserve_rows(said, int(self.trees[said, at.NEED_ROWS]))
            said = mondrian.extend(self.address, first, last, lanes)

    def _doubles(self) -> bool:
        """Keep a sample's raw values; tell whether the number of samples has doubled with it."""
        n = self.n_samples + 1
        if not self.scale:
            if n >= WARM_UP:
                self.warm_up = None
            return False
        assert self.warm_up is not None
        if n > len(self.warm_up):
            more = np.full((min(2 * n, WARM_UP), self.values.shape[1]), np.nan)
            more[: len(self.warm_up)] = self.warm_up
            self.warm_up = more
        self.warm_up[n - 1] = self.vector
        return n & (n - 1) == 0

    def _learn_by_rebuilding(self, label: int) -> int:
        """Refresh the ranges and build the trees anew, the sample among their points.

        Returns as `learn` does.
        """
        assert self.warm_up is not None
        magnitudes = np.abs(self.vector)
        if np.fmax.reduce(magnitudes, initial=0.0) > LARGEST:
            return int(np.nanargmax(magnitudes))
        n = self.n_samples + 1
        self._fit_scaling(self.warm_up[:n, : self.n_dims])
        labels = np.append(self._labels()[: n - 1], label)
        mondrian.store(self.address, self.warm_up.ctypes.data, labels.ctypes.data, n, 0)
        self._count(1)
        if n == WARM_UP:
            self.warm_up = None
        self.build()
        self._count(0)
        return -1

    def _labels(self) -> NDArray[np.int64]:
        """Return the classes of the stored points."""
        points = self.points.rows(0, self.n_points)
        return points[:, self.shared[at.DIM_CAPACITY]].astype(np.int64)

    def _fit_scaling(self, values: NDArray[np.float64]) -> None:
        known = ~np.isnan(values)
        low = np.where(known, values, np.inf).min(axis=0, initial=np.inf)
        high = np.where(known, values, -np.inf).max(axis=0, initial=-np.inf)
        seen = low <= high
        low = np.where(seen, low, 0.0)
        high = np.where(seen, high, 0.0)
        n_dims = values.shape[1]
        self.scaling[0, :n_dims] = low
        self.scaling[1, :n_dims] = _factors(high - low, np.abs(low))

    def build(self) -> None:
        """Sample all trees afresh from the stored points (Algorithms 1, 2, 9)."""
        self.trees[:, at.N_ROWS] = 0
        if (self.trees[:, at.ROW_CAPACITY] < 2 * self.n_points).any():
            for t in range(len(self.trees)):
                self._reserve_rows(t, 2 * self.n_points)
        mondrian.build(self.address, self.n_points)
        # The warm-up's next rebuild needs more room, its last one gives back what is left.
        if self.warm_up is None:
            for t, tree in enumerate(self.trees):
                self.nodes.trim(t, int(tree[at.N_ROWS]))
                self._reserve_rows(t, 0)

    def learn_rows(
        self, values: NDArray[np.float64], labels: NDArray[np.int64], n_jobs: int
    ) -> None:
        """Learn rows of checked values, shape (n, dimensions), after the warm-up."""
        # Rows of a block; their points stay in the store unless the forest is full.
        block = 1024
        for start in range(0, len(values), block):
            part = np.ascontiguousarray(values[start : start + block])
            n = len(part)
            self._reserve_points(self.n_points + n)
            mondrian.store(
                self.address,
                part.ctypes.data,
                labels[start : start + n].ctypes.data,
                n,
                self.n_points,
            )
            mondrian.set_walks(self.address, self.n_points, self.n_points + n)
            n_trees = len(self.trees)
            if n_jobs == 1 or n_trees == 1:
                self._extend(0, n_trees, BATCH_LANES)
            else:
                bounds = np.linspace(0, n_trees, min(n_jobs, n_trees) + 1).astype(int)
                with ThreadPoolExecutor(len(bounds) - 1) as pool:
                    jobs = [
                        pool.submit(self._extend, int(a), int(b), BATCH_LANES)
                        for a, b in itertools.pairwise(bounds)
                    ]
                    for job in jobs:
                        job.result()
            self._count(n)
        self.points.trim(0, self.n_points)
        self._reserve_points(self.n_points)

    # Prediction.

    def predict(self) -> int:
        """Predict the sample in `values` into `out`; returns as the kernel `predict` does."""
        said: int = hnsp.predict(
            self.address, self.values_address, self.row_address, self.out_address
        )
        return said

    def predict_rows(self, values: NDArray[np.float64], n_jobs: int) -> NDArray[np.float64]:
        """Predict rows of checked values; returns probabilities, shape (n, classes)."""
        n = len(values)
        out = np.empty((n, self.out.shape[1]))
        rows = np.empty((n, self.rows.shape[1]), dtype=np.float32)
        mondrian.scale_rows(self.address, rows.ctypes.data, values.ctypes.data, n)

        def part(start: int, stop: int) -> None:
            row = rows.ctypes.data + start * rows.strides[0]
            result = out.ctypes.data + start * out.strides[0]
            hnsp.predict_rows(self.address, row, stop - start, result)

        if n_jobs == 1 or n < 2 * n_jobs:
            part(0, n)
        else:
            bounds = np.linspace(0, n, n_jobs + 1).astype(int)
            with ThreadPoolExecutor(n_jobs) as pool:
                jobs = [pool.submit(part, int(a), int(b)) for a, b in itertools.pairwise(bounds)]
                for job in jobs:
                    job.result()
        return out

    # Reading.

    def read(self, t: int, hidden: bool = False) -> list[Node]:
        """Read a tree's nodes in preorder.

        Parameters
        ----------
        t
            Number of the tree.
        hidden
            Whether to read what is already sampled below paused leaves.

        """
        shared = self.shared
        n_dims, capacity, words, box = (
            int(shared[i]) for i in (at.N_DIMS, at.DIM_CAPACITY, at.N_WORDS, at.BOX)
        )
        n_classes = int(shared[at.N_CLASSES])
        lifetime = float(self.reals[at.LIFETIME])
        heads = self.nodes.rows(t, int(self.trees[t, at.N_ROWS]))
        boxes = heads.view(np.float32)
        points = self.points.rows(0, self.n_points)
        point_values = points.view(np.float32)
        tables = self.counts.rows(t, int(self.trees[t, at.N_COUNTS]))
        pauses = shared[at.SPLIT_PURE] == 0

        def bits(head: NDArray[np.int32], start: int) -> NDArray[np.int64]:
            parts = head[start : start + words].astype(np.uint32)
            one = (parts[:, None] >> np.arange(32, dtype=np.uint32)) & 1
            return one.reshape(-1)[:n_classes].astype(np.int64)

        nodes: list[Node] = []
        links: list[dict[str, int]] = []
        waiting = [(int(self.trees[t, at.ROOT]), -1, "", 0.0, 0)]
        if waiting[0][0] == at.EMPTY:
            return []
        while waiting:
            ref, parent, side, tau, depth = waiting.pop()
            number = len(nodes)
            links.append({})
            if parent >= 0:
                links[parent][side] = number
            counts = np.zeros(n_classes, dtype=np.int64)
            leaf: dict[str, Any] = {
                "parent": parent,
                "depth": depth,
                "is_leaf": True,
                "time": lifetime,
                "delta": lifetime - tau,
                "dim": -1,
                "cut": math.nan,
            }
            if ref < 0:
                values = point_values[~ref, :n_dims].astype(np.float64)
                counts[points[~ref, capacity]] = 1
                node = Node(
                    **leaf, paused=pauses, n_samples=1, lower=values, upper=values, counts=counts
                )
                nodes.append(node)
                continue
            head = heads[ref]
            lower = boxes[ref, box : box + n_dims].astype(np.float64)
            upper = boxes[ref, box + capacity : box + capacity + n_dims].astype(np.float64)
            n_samples = int(head[at.COUNT])
            left = bits(head, at.CLASSES)
            right = bits(head, at.CLASSES + words)
            pure = int((left | right).sum()) == 1
            if head[at.DIM] < 0 or (pure and pauses and not hidden):
                if pure:
                    counts[np.argmax(left | right)] = n_samples
                elif head[at.RIGHT] >= 0:
                    counts[:] = tables[head[at.RIGHT], :n_classes]
                else:
                    p = int(head[at.LEFT])
                    while p >= 0:
                        counts[points[p, capacity]] += 1
                        p = int(points[p, capacity + 1 + t])
                node = Node(
                    **leaf,
                    paused=pure and pauses,
                    n_samples=n_samples,
                    lower=lower,
                    upper=upper,
                    counts=counts,
                )
                nodes.append(node)
                continue
            delta = float(boxes[ref, at.DELTA])
            nodes.append(
                Node(
                    parent=parent,
                    depth=depth,
                    is_leaf=False,
                    paused=False,
                    time=tau + delta,
                    delta=delta,
                    dim=int(head[at.DIM]),
                    cut=float(boxes[ref, at.CUT]),
                    n_samples=n_samples,
                    lower=lower,
                    upper=upper,
                    counts=left + right,
                )
            )
            waiting.append((int(head[at.RIGHT]), number, "right", tau + delta, depth + 1))
            waiting.append((int(head[at.LEFT]), number, "left", tau + delta, depth + 1))
        return [Node(**{**node.__dict__, **link}) for node, link in zip(nodes, links, strict=True)]


def _factors(ranges: NDArray[np.float64], magnitudes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what dimensions are multiplied by.

    A dimension that has not varied yet has no range: its magnitude stands in, or 1 where that
    is 0.
    """
    with np.errstate(divide="ignore", over="ignore"):
        by_range = 1.0 / ranges
        by_magnitude = 1.0 / magnitudes
    by_magnitude = np.where(np.isfinite(by_magnitude), by_magnitude, 1.0)
    factors: NDArray[np.float64] = np.where(np.isfinite(by_range), by_range, by_magnitude)
    return factors
