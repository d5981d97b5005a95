"""Isolation kernel feature maps."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..arguments import check_integer
from ..cuda import device_namespace, nearest_cells
from ..kernels import isolation, maps, tree, voronoi
from ..kernels.distance import LANES, padded
from ..kernels.memory import FARTHEST
from ..kernels.tree import FARTHEST_SQUARE
from .base import Array, CellFeatures, CompiledMap, Pooled
from .pool import Pool
from .tree import Frame, PointTree, find_axes

# Entries that one call looks at while it grows isolation trees, about 5 ms.
GROWTH = 1_000_000

# Samples are read by their entries where features are many and fewer than this share of a sample's
# are not zero.
MANY_FEATURES = 256
DENSE_SHARE = 0.1

# Points from which on a tree may be worth its walk.
TREE_LEAST = 512

# Multiplications from which on the points are projected to axes in a call of its own, about 3 ms.
PROJECTION = 5_000_000

# Rows from which on a batch may be worth a matrix product, and how large the product may be.
PRODUCT_LEAST = 64
PRODUCT_SIZE = 1 << 23

# How far the difference of two squared distances may be off by single precision's rounding, in
# units of the squared norms' sum and per feature.
PRODUCT_ERROR = 1.2e-7

# Samples of the pool by which the ways to search are compared.
TRIALS = 32

# What they cost in nanoseconds, measured on letter, covertype, a9a and mnist with pools of 1,024 to
# 100,000 points: per centre of a diagram, entry met in the index from features to points, value of
# a point that is compared, and so on.
CENTRE = 0.9
INDEX_ENTRY = 1.3
SCAN_VALUE = 0.23
TREE_AXIS, TREE_VALUE, TREE_LEAF, TREE_POINT, TREE_OWNER = 0.5, 0.15, 100.0, 25.0, 5.0
PRODUCT_VALUE, PRODUCT_POINT, PRODUCT_FEATURE = 0.025, 1.5, 20.0


class IsolationFeatures(Pooled, CellFeatures):
    """Isolation kernel feature map.

    The isolation kernel[^1] of two samples is the share of random partitions in which both fall
    into the same cell. Each partition isolates `n_cells` points drawn without replacement from a
    pool of samples: cells are small where data are dense and large where they are sparse, so that
    the kernel adapts to the data, without labels. Its feature map is exact and finite. A sample
    has one cell per partition, whatever the number of cells, so that linear models on the map
    (see `OGDClassifier`) predict and learn in time proportional to `n_partitions`.

    With `method="anne"` a partition is the Voronoi diagram of its points, by Euclidean distance.
    Where two are equally near, the one earlier in the pool wins, whose order is random. With
    `method="iforest"` it is an isolation tree, cut at random parallel to the axes until each of
    its points is alone. Points that coincide share the cell of the first of them.

    Samples are learned until there are `pool_size`; then the map is final. Before, it is built
    anew whenever the number of samples has doubled, from 2 on, with a quarter as many points per
    partition as there are samples, and at most `n_cells`. Building takes place within calls of
    `learn_one`. It is spread over them where it takes long, except for Voronoi diagrams of very
    large pools: about a second with 100,000 samples.

    Parameters
    ----------
    n_partitions
        Number of partitions, t in the paper. The kernel's standard error is at most
        0.5 / sqrt(n_partitions).
    n_cells
        Number of points that a partition isolates, psi in the paper: how sharp the kernel is. It
        is what to tune; powers of two from 4 to 4096 cover most data. Never more than a quarter
        of the pool are used.
    method
        "anne" for Voronoi diagrams, the more accurate, or "iforest" for isolation trees, the
        faster.
    pool_size
        Number of samples from which the final map is built.
    scale
        Whether to divide each feature by its range over the pool. By default values are used as
        they are, and features should have comparable units. Scaled values end at 1e30.
    device
        Where `learn_many`, `transform_many`, `cells_many` and the like find Voronoi cells: "cpu",
        or "cuda" for a GPU through CuPy, which has to be usable when the map is made. Distances
        are in single precision there, so that a sample that is about as near to two points may
        fall into the other's cell. Text, isolation trees and single samples stay on the CPU.
    seed
        Random seed for reproducibility.

    Notes
    -----
    A feature that is absent from a mapping, NaN, or null in a frame is 0, as in text. Features
    that no sample of the pool has are ignored, which changes no cell. Mappings with few out of very
    many features are never made dense: time and memory are proportional to their entries.

    Voronoi cells are found by comparing a sample with each point of the pool at most once, for all
    partitions together: by a scan, a tree over principal axes, an index from features to points,
    or, for batches, a matrix product that rules out most points. The map takes what costs least by
    its size and by some trials, and all give the same cells.

    The names of columns carry the number of the build (`anne7_12_34` is cell 34 of partition 12 of
    the eighth build), so that a linear model downstream does not mistake one for another.

    Examples
    --------

    >>> from river import datasets
    >>> from river_mondrian import IsolationFeatures

    >>> features = IsolationFeatures(n_partitions=200, n_cells=16, pool_size=256, seed=1)
    >>> for x, _ in datasets.Phishing().take(300):
    ...     features.learn_one(x)

    >>> len(features.transform_one(x))
    200
    >>> features.kernel(x, x)
    1.0
    >>> features.cells_one(x).shape
    (200,)

    References
    ----------
    [^1]: Ting, K. M., Wells, J. R. and Washio, T. (2021). Isolation Kernel: The X Factor in
    Efficient and Effective Large Scale Online Kernel Learning. Data Mining and Knowledge
    Discovery 35. Sections 4 and 5, Equations 1 and 2.

    """

    def __init__(
        self,
        n_partitions: int = 100,
        n_cells: int = 64,
        method: str = "anne",
        pool_size: int = 1024,
        scale: bool = False,
        device: str = "cpu",
        seed: int | None = None,
    ) -> None:
        check_integer("n_partitions", n_partitions, 1)
        check_integer("n_cells", n_cells, 1)
        check_integer("pool_size", pool_size, 2)
        if method not in ("anne", "iforest"):
            raise ValueError(f'method must be "anne" or "iforest", got {method!r}')
        device_namespace(device)
        self.n_partitions = n_partitions
        self.n_cells = n_cells
        self.method = method
        self.pool_size = pool_size
        self.scale = scale
        self.device = device
        self.seed = seed
        self._entropy: int | None = seed
        super().__init__()

    def _begin(self, number: int, pool: Pool) -> CompiledMap:
        if self._entropy is None:
            self._entropy = int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
        n = len(pool)
        psi = max(1, min(self.n_cells, n // 4))
        rng = np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=(number,)))
        kind = VoronoiMap if self.method == "anne" else IsolationTreesMap
        return kind(number, self.n_partitions, psi, pool, len(self._reader.index), self.scale, rng)

    def _outputs(
        self, names: Sequence[Hashable], columns: NDArray[np.float64], compiled: CompiledMap
    ) -> Array:
        # Text would be as wide as its vocabulary there.
        if self.device == "cpu" or not isinstance(compiled, VoronoiMap) or compiled.sparse:
            return super()._outputs(names, columns, compiled)
        xp = device_namespace(self.device)
        return compiled.transform_on(self._reader.arrange(names, columns), xp)

    def _cells(self, columns: Array) -> Array:
        compiled = self._ready()
        psi = compiled.n_columns // compiled.n_out
        return columns.astype(np.int64) - psi * np.arange(compiled.n_out)


class _Partitions(CompiledMap):
    """Partitions that each isolate `psi` points of a pool."""

    _METHOD: ClassVar[str]
    _N_WORDS: ClassVar[int]

    def __init__(
        self,
        number: int,
        n_partitions: int,
        psi: int,
        pool: Pool,
        n_inputs: int,
        scale: bool,
        rng: np.random.Generator,
    ) -> None:
        places, values, starts = pool.csr(0, len(pool))
        few = len(places) < DENSE_SHARE * len(pool) * n_inputs and n_inputs >= MANY_FEATURES
        super().__init__(
            number,
            n_out=n_partitions,
            n_columns=n_partitions * psi,
            n_inputs=n_inputs,
            dense=False,
            sparse=few,
            n_words=self._N_WORDS,
        )
        self.psi = psi
        # The pool's order is random: in it ties are broken, and it is the same for each partition.
        order = rng.permutation(len(pool))
        members = np.stack(
            [np.sort(rng.choice(len(pool), psi, replace=False)) for _ in range(n_partitions)]
        )
        used, members = np.unique(members, return_inverse=True)
        self.members = np.ascontiguousarray(members.reshape(n_partitions, psi).T, dtype=np.int32)
        points = sparse.csr_matrix((values, places, starts), shape=(len(pool), n_inputs))
        self.factors = _factors(points, scale)
        points = points[order[used]]
        scaled = points.data.astype(np.float64) * self.factors[points.indices]
        points.data = np.clip(scaled, -FARTHEST, FARTHEST).astype(np.float32)
        points.eliminate_zeros()
        self._lay_out(points)

    @abc.abstractmethod
    def _lay_out(self, points: sparse.csr_matrix) -> None:
        """Keep what is needed of the points that partitions use."""

    def _point_to(self, arrays: dict[int, Array]) -> None:
        """Write the addresses of arrays to words of the record."""
        for word, array in arrays.items():
            self.record[word] = array.ctypes.data

    def names(self, columns: Sequence[int]) -> list[str]:
        """Return the names of columns: method, build, partition and cell."""
        start = f"{self._METHOD}{self.number}_"
        return [f"{start}{c // self.psi}_{c % self.psi}" for c in columns]


class VoronoiMap(_Partitions):
    """Voronoi diagrams (section 4.2)."""

    points: sparse.csr_matrix | None
    frame: Frame | None
    trials: NDArray[np.float64] | None

    _METHOD = "anne"
    _N_WORDS = voronoi.N_WORDS
    _ADDRESSES = (
        voronoi.FACTORS,
        voronoi.MEMBERS,
        voronoi.DISTANCES,
        voronoi.NEAREST,
        voronoi.SECOND,
        voronoi.ROW,
        voronoi.POINTS,
        voronoi.STARTS,
        voronoi.ENTRY_PLACES,
        voronoi.ENTRY_VALUES,
        voronoi.FEATURE_STARTS,
        voronoi.FEATURE_POINTS,
        voronoi.FEATURE_VALUES,
        voronoi.NORMS,
        voronoi.X_PLACES,
        voronoi.X_VALUES,
        voronoi.X_ENTRIES,
        voronoi.LANE_SUMS,
        voronoi.TREE,
    )
    _DERIVED = _Partitions._DERIVED | {
        "row",
        "distances",
        "nearest",
        "second",
        "x_places",
        "x_values",
        "lane_sums",
    }

    def __init__(
        self,
        number: int,
        n_partitions: int,
        psi: int,
        pool: Pool,
        n_inputs: int,
        scale: bool,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(number, n_partitions, psi, pool, n_inputs, scale, rng)
        if self.ready:
            self._finish()
        else:
            chosen = np.linspace(0, len(pool) - 1, TRIALS).astype(int).tolist()
            self.trials = np.vstack([pool.dense(i, i + 1, n_inputs) for i in chosen])

    @property
    def ready(self) -> bool:
        """Whether the way to search has been chosen."""
        return self.points is None

    def advance(self) -> bool:
        """Grow a tree, in two calls where that takes long, and see what it is worth."""
        points = self.points
        if points is None:
            return True
        if self.frame is None:
            self.frame = find_axes(self.rows[:, : self.n_inputs])
            if self.frame[1].size * len(self.rows) > PROJECTION:
                return False
        points = self._plant(points, self.frame)
        self._finish()
        self._choose(points)
        # What only building needs.
        self.points, self.frame, self.trials = None, None, None
        self._finish()
        return True

    def _lay_out(self, points: sparse.csr_matrix) -> None:
        n_points, width = points.shape[0], padded(self.n_inputs)
        self.record[voronoi.N_CELLS] = self.psi
        self.record[voronoi.N_POINTS] = n_points
        self.record[voronoi.WIDTH] = width
        self.points = points
        self.frame = None
        self.trials = None
        self.tree: PointTree | None = None
        self.centred: NDArray[np.float32] | None = None
        self.indexed = self.sparse
        if self.sparse:
            self._index(points)
            self.points = None
            return
        self.rows = np.zeros((n_points, width), dtype=np.float32)
        self.rows[:, : self.n_inputs] = points.toarray()
        largest = float(np.abs(self.rows).max(initial=0.0))
        fits = 4.0 * width * largest**2 <= FARTHEST_SQUARE
        if n_points >= TREE_LEAST and self.n_inputs > 0 and fits:
            return
        if self._index_cost(points) < self._scan_cost():
            self._index(points)
        self.points = None

    def _index(self, points: sparse.csr_matrix) -> None:
        """Keep the entries of the points, by point and by feature, instead of rows."""
        self.indexed, self.tree = True, None
        values = points.data
        small = (values == np.floor(values)) & (np.abs(values) <= voronoi.LARGEST_WHOLE)
        self.record[voronoi.WHOLE] = bool(small.all())
        self.squared = np.asarray(points.astype(np.float64).power(2).sum(axis=1)).ravel()
        largest = self.squared.max(initial=0.0)
        self.record.view(np.float64)[voronoi.LARGEST_NORM] = largest
        self.starts, self.places, self.values = _parts(points)
        self.by_feature = _parts(points.tocsc())
        self.rows = np.empty((0, 0), dtype=np.float32)
        self.record[[voronoi.ROW, voronoi.POINTS, voronoi.TREE]] = 0

    def _plant(self, points: sparse.csr_matrix, frame: Frame) -> sparse.csr_matrix:
        """Make a tree of the points; returns them in the order of its leaves."""
        order = np.arange(len(self.rows))
        self.tree = PointTree(self.rows, self.members, frame, order)
        self.rows = self.rows[order]
        self.members = np.argsort(order).astype(np.int32)[self.members]
        return points[order]

    def _index_cost(self, points: sparse.csr_matrix) -> float:
        """Return what a sample like the pool's costs by the index."""
        per_feature = np.bincount(points.indices, minlength=self.n_inputs)
        met = float((per_feature.astype(np.float64) ** 2).sum()) / points.shape[0]
        return INDEX_ENTRY * met + CENTRE * self.members.size + points.shape[0]

    def _scan_cost(self) -> float:
        return SCAN_VALUE * self.rows.size + CENTRE * self.members.size

    def _tree_cost(self, tree: PointTree) -> float:
        """Return what the trials have cost, each."""
        leaves, points = (seen / TRIALS for seen in tree.seen)
        owners = self.members.size / len(self.rows)
        each = SCAN_VALUE * self.rows.shape[1] + TREE_POINT + TREE_OWNER * owners
        per_leaf = TREE_VALUE * tree.coordinates[0].size + TREE_LEAF
        return float(TREE_AXIS * tree.axes.size + per_leaf * leaves + each * points)

    def _product_cost(self) -> float:
        if (self.rows == np.floor(self.rows)).all():
            # Between so few values ties are common, and each is settled by exact distances.
            return math.inf
        return (
            PRODUCT_VALUE * self.rows.size
            + PRODUCT_POINT * len(self.rows)
            + PRODUCT_FEATURE * self.rows.shape[1]
            + CENTRE * self.members.size
        )

    def _choose(self, points: sparse.csr_matrix) -> None:
        """Choose the ways that cost least, for single samples and for batches."""
        assert self.tree is not None and self.trials is not None
        for trial in self.trials:
            maps.map_one(self.address, trial.ctypes.data, self.out_address)
        costs = (self._tree_cost(self.tree), self._index_cost(points), self._scan_cost())
        if self._product_cost() < min(costs):
            self.mean = self.rows.mean(axis=0, dtype=np.float64).astype(np.float32)
            self.centred = self.rows - self.mean
            self.norms = _squares(self.centred)
        elif costs[1] < min(costs[0], costs[2]):
            self._index(points)
        if costs[2] < costs[0]:
            self.tree = None

    def transform_rows(self, values: NDArray[np.float64]) -> tuple[Array, int]:
        """Map rows; see `CompiledMap`."""
        if self.centred is None or len(values) < PRODUCT_LEAST:
            return super().transform_rows(values)
        values = np.ascontiguousarray(values)
        out = np.empty((len(values), self.n_out), dtype=self.dtype)
        block = min(256, max(PRODUCT_LEAST, PRODUCT_SIZE // len(self.rows)))
        for start in range(0, len(values), block):
            part = values[start : start + block]
            bad = self._multiply(part, out[start : start + block])
            if bad >= 0:
                return out, start * self.n_inputs + bad
        return out, -1

    def _multiply(self, values: NDArray[np.float64], out: Array) -> int:
        """Map rows by a matrix product, which rules out most points; returns like a map."""
        assert self.centred is not None
        rows = np.zeros((len(values), self.rows.shape[1]), dtype=np.float32)
        bad: int = voronoi.read_rows(
            self.address, values.ctypes.data, values.shape[1], len(values), rows.ctypes.data
        )
        if bad >= 0:
            return bad
        centred = rows - self.mean
        norms = np.concatenate([_squares(centred), self.norms])
        if norms.max() > FARTHEST_SQUARE:
            out[:] = super().transform_rows(values)[0]
            return -1
        products = centred @ self.centred.T
        voronoi.filter_rows(
            self.address,
            rows.ctypes.data,
            products.ctypes.data,
            norms.ctypes.data,
            len(rows),
            PRODUCT_ERROR * (self.n_inputs + 16),
            out.ctypes.data,
        )
        return -1

    def _function(self) -> Callable[..., int]:
        if self.tree is not None:
            return tree.search
        if not self.indexed:
            return voronoi.scan
        return voronoi.look_up_entries if self.sparse else voronoi.look_up_vector

    def _bind(self) -> None:
        self.distances = np.empty(int(self.record[voronoi.N_POINTS]))
        self.nearest, self.second = np.empty(self.n_out), np.empty(self.n_out)
        self._point_to(
            {
                voronoi.FACTORS: self.factors,
                voronoi.MEMBERS: self.members,
                voronoi.DISTANCES: self.distances,
                voronoi.NEAREST: self.nearest,
                voronoi.SECOND: self.second,
            }
        )
        if not self.indexed:
            self.row = np.zeros(self.rows.shape[1], dtype=np.float32)
            self._point_to({voronoi.ROW: self.row, voronoi.POINTS: self.rows})
            if self.tree is not None:
                self.record[voronoi.TREE] = self.tree.address
            return
        self.x_places = np.empty(max(1, self.n_inputs), dtype=np.int32)
        self.x_values = np.empty(max(1, self.n_inputs), dtype=np.float32)
        self.lane_sums = np.empty(LANES)
        self._point_to(
            {
                voronoi.STARTS: self.starts,
                voronoi.ENTRY_PLACES: self.places,
                voronoi.ENTRY_VALUES: self.values,
                voronoi.FEATURE_STARTS: self.by_feature[0],
                voronoi.FEATURE_POINTS: self.by_feature[1],
                voronoi.FEATURE_VALUES: self.by_feature[2],
                voronoi.NORMS: self.squared,
                voronoi.X_PLACES: self.x_places,
                voronoi.X_VALUES: self.x_values,
                voronoi.LANE_SUMS: self.lane_sums,
            }
        )

    def transform_on(self, values: NDArray[np.float64], xp: Any) -> Array:
        """Map checked rows by the arrays of another namespace."""
        known = np.nan_to_num(values[:, : self.n_inputs]).astype(np.float32)
        scaled = np.clip(known * self.factors[: self.n_inputs], -FARTHEST, FARTHEST)
        cells = nearest_cells(scaled.astype(np.float32), self._points, self.members, xp)
        return cells + self.psi * np.arange(self.n_out, dtype=np.int32)

    def _points(self) -> NDArray[np.float32]:
        """Return the points that partitions use."""
        if not self.indexed:
            return self.rows[:, : self.n_inputs]
        shape = (len(self.squared), self.n_inputs)
        return sparse.csr_matrix((self.values, self.places, self.starts), shape).toarray()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        index = self.by_feature if self.indexed else ()
        size = super().nbytes + sum(array.nbytes for array in index)
        if self.points is not None:
            parts = (self.points.data, self.points.indices, self.points.indptr)
            size += sum(part.nbytes for part in (*parts, *(self.frame or ())))
        return size + (0 if self.tree is None else self.tree.nbytes)


class IsolationTreesMap(_Partitions):
    """Isolation trees (section 4.1)."""

    _METHOD = "iforest"
    _N_WORDS = isolation.N_WORDS
    _ADDRESSES = (isolation.FACTORS, isolation.ROW, isolation.NODES)
    _DERIVED = _Partitions._DERIVED | {"row"}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.record[isolation.N_CELLS] = self.psi
        self.draws = args[-1].random((self.n_out, 2 * self.psi))
        self.n_grown = 0

    def _lay_out(self, points: sparse.csr_matrix) -> None:
        self.starts, self.places, self.values = _parts(points)
        shape = (self.n_out, max(1, self.psi - 1), isolation.NODE_WIDTH)
        self.nodes = np.zeros(shape, dtype=np.int32)

    @property
    def ready(self) -> bool:
        """Whether all trees have been grown."""
        return self.n_grown == self.n_out

    def advance(self) -> bool:
        """Grow some trees; True once all of them are there."""
        low, high = np.empty((2, max(1, self.n_inputs)), dtype=np.float32)
        count = np.zeros(max(1, self.n_inputs), dtype=np.int64)
        looks = 0
        while self.n_grown < self.n_out and looks < GROWTH:
            i = self.n_grown
            nodes = self.nodes[i].ravel()
            looks += self.psi + isolation.grow(
                self.starts,
                self.places,
                self.values,
                self.members[:, i].astype(np.int64),
                self.draws[i],
                nodes,
                nodes.view(np.float32),
                low,
                high,
                count,
                i * self.psi,
            )
            self.n_grown += 1
        if not self.ready:
            return False
        # What only growing needs.
        del self.starts, self.places, self.values, self.members, self.draws
        self._finish()
        return True

    def _function(self) -> Callable[..., int]:
        return isolation.walk_entries if self.sparse else isolation.walk_vector

    def _bind(self) -> None:
        self.row = np.zeros(max(1, self.n_inputs), dtype=np.float32)
        self._point_to(
            {
                isolation.FACTORS: self.factors,
                isolation.ROW: self.row,
                isolation.NODES: self.nodes,
            }
        )


def _factors(points: sparse.csr_matrix, scale: bool) -> NDArray[np.float64]:
    """Return what to multiply each feature by; one that does not vary in the pool gets 0."""
    if not scale or points.shape[1] == 0:
        return np.ones(max(1, points.shape[1]))
    low = points.min(axis=0).toarray().ravel().astype(np.float64)
    reach = points.max(axis=0).toarray().ravel() - low
    return np.divide(1.0, reach, out=np.zeros_like(reach), where=reach > 0.0)


def _squares(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the squared norm of each row."""
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return squares


def _parts(matrix: Any) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Return the starts, indices and values of a CSR or CSC matrix."""
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data
