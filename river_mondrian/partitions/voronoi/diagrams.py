"""The map of samples to Voronoi cells, and the choice of the search for the nearest centres."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy

from ...checks import check_array, check_arrays, check_number, check_starts, check_types, refuse
from ...limits import DONE, FARTHEST
from ...maps.record import MOST_OUT, Array, Pool, Sample, Transform
from ...records import Float32s, Float64s, Floats, Int32s, Int64s, Memory, Singles
from ...records.memory import state_words
from ..isolation import PointPartitions, parts_of
from . import cuda, nearest
from .distances import VECTOR, Basis, find_axes, padded
from .nearest import FARTHEST_SQUARE, DenseVoronoi, IndexedVoronoi, PointTreeRecord, Voronoi
from .tree import PointTree, search

# Least number of points for which a tree may be faster than a scan.
TREE_LEAST = 512

# Number of multiplications (about 3 ms) above which `advance` projects points in a second call, so
# that no call takes too long.
PROJECTION = 5_000_000

# Least number of rows at which a matrix product may be faster than a search for each row. A product
# of more than PRODUCT_LEAST rows has at most PRODUCT_SIZE elements.
PRODUCT_LEAST = 64
PRODUCT_SIZE = 1 << 23

# Number of rows in a block that is scaled for a device. The number is small, so that the block
# stays in the cache.
DEVICE_BLOCK = 256

# Number of samples of the pool on which costs of searches are measured.
TRIALS = 32

# Costs of the operations of searches in nanoseconds, measured on the data sets letter, covertype,
# a9a and mnist with pools of 1,024 to 100,000 points.
CENTRE = 0.9
INDEX_ENTRY = 1.3
SCAN_VALUE = 0.23
TREE_AXIS, TREE_VALUE, TREE_LEAF, TREE_POINT, TREE_OWNER = 0.5, 0.15, 100.0, 25.0, 5.0
PRODUCT_VALUE, PRODUCT_POINT, PRODUCT_FEATURE = 0.025, 1.5, 20.0


class VoronoiMap(PointPartitions):
    """The map of samples to the cells of Voronoi diagrams.

    See Ting, Wells and Washio (2021), section 4.2.
    """

    METHOD = "anne"
    # For sparse points, the record is an `IndexedVoronoi`.
    KIND = DenseVoronoi
    record: Voronoi

    points: scipy.sparse.csr_matrix | None
    basis: Basis | None
    trials: Floats | None
    rows: Singles
    tree: PointTree | None

    @property
    def ready(self) -> bool:
        """Whether the search has been chosen."""
        return self.points is None

    def advance(self) -> bool:
        """Grow a tree and choose the search in one or two calls; return whether both are done."""
        points = self.points
        if points is None:
            return True
        if self.basis is None:
            self.basis = find_axes(self.rows[:, : self.n_inputs])
            if self.basis[1].size * len(self.rows) > PROJECTION:
                return False
        # Put the points into the order of the tree's leaves.
        order = np.arange(len(self.rows))
        self.tree = PointTree(self.rows, self.members, self.basis, order)
        self.rows = self.rows[order]
        self.members = np.argsort(order).astype(np.int32)[self.members]
        self._finish()
        self._choose(points[order])
        # Only the build needs these attributes, so their memory is freed.
        self.points = self.basis = self.trials = None
        self._finish()
        return True

    def _lay_out(self, points: scipy.sparse.csr_matrix, pool: Pool) -> None:
        self._arrange(points)
        if self.ready:
            self._finish()
        else:
            chosen = np.linspace(0, len(pool) - 1, TRIALS).astype(int).tolist()
            self.trials = np.vstack([pool.dense(i, i + 1, self.n_inputs) for i in chosen])

    def _arrange(self, points: scipy.sparse.csr_matrix) -> None:
        """Store the points as rows or in an index, or begin to grow a tree of the points."""
        n_points, width = points.shape[0], padded(self.n_inputs)
        self.record.n_cells, self.record.n_points = self.psi, n_points
        self.points = points
        self.basis = self.trials = self.tree = None
        self.centred: Singles | None = None
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

    def _index(self, points: scipy.sparse.csr_matrix) -> None:
        """Store the entries of the points, by point and by feature, instead of rows."""
        self.tree = None
        # The new record gets the fields that both classes of records have.
        old = self.memory.words
        self.memory = Memory(IndexedVoronoi)
        for name in state_words(Voronoi):
            self.memory.words[name] = old[name]
        self._set_record()
        values, record = points.data, self.record
        assert isinstance(record, IndexedVoronoi)
        small = (values == np.floor(values)) & (np.abs(values) <= nearest.LARGEST_WHOLE)
        record.whole = bool(small.all())
        record.error = nearest.index_error(self.n_inputs)
        self.squared = np.asarray(points.astype(np.float64).power(2).sum(axis=1)).ravel()
        record.largest_norm = self.squared.max(initial=0.0)
        self.starts, self.indices, self.values = parts_of(points)
        self.by_feature = parts_of(points.tocsc())
        self.rows = np.empty((0, 0), dtype=np.float32)

    @property
    def indexed(self) -> bool:
        """Whether the search uses an index from features to points."""
        return self.memory.kind is IndexedVoronoi

    def _index_cost(self, points: scipy.sparse.csr_matrix) -> float:
        """Return the estimated mean cost in ns of a search in the index for samples of the pool."""
        per_feature = np.bincount(points.indices, minlength=self.n_inputs)
        met = float((per_feature.astype(np.float64) ** 2).sum()) / points.shape[0]
        return INDEX_ENTRY * met + CENTRE * self.members.size + points.shape[0]

    def _scan_cost(self) -> float:
        return SCAN_VALUE * self.rows.size + CENTRE * self.members.size

    def _tree_cost(self, tree: PointTree) -> float:
        """Return the estimated mean cost in ns of a search in the tree for the trial samples."""
        leaves, points = (visited / TRIALS for visited in tree.visited)
        owners = self.members.size / len(self.rows)
        each = SCAN_VALUE * self.rows.shape[1] + TREE_POINT + TREE_OWNER * owners
        per_leaf = TREE_VALUE * tree.coordinates[0].size + TREE_LEAF
        return float(TREE_AXIS * tree.axes.size + per_leaf * leaves + each * points)

    def _product_cost(self) -> float:
        error = nearest.product_error(self.n_inputs)
        if (self.rows == np.floor(self.rows)).all() or math.inf in error:
            # Whole numbers cause many ties. Each tie needs exact distances, so a product would not
            # be faster.
            return math.inf
        n, width = self.rows.shape
        per_row = PRODUCT_VALUE * width + PRODUCT_POINT
        return per_row * n + PRODUCT_FEATURE * width + CENTRE * self.members.size

    def _choose(self, points: scipy.sparse.csr_matrix) -> None:
        """Choose the searches for single samples and for batches by their estimated costs."""
        assert self.tree is not None and self.trials is not None
        samples = Memory(Sample)
        for trial in self.trials:
            samples[0].values = Float64s.of(trial)
            self.transform(samples[0])
        costs = self._tree_cost(self.tree), self._index_cost(points), self._scan_cost()
        if self._product_cost() < min(costs):
            self.mean = self.rows.mean(axis=0, dtype=np.float64).astype(np.float32)
            self.centred = self.rows - self.mean
            self.norms = _squares(self.centred)
        elif costs[1] < min(costs[0], costs[2]):
            self._index(points)
        if costs[2] < costs[0]:
            self.tree = None

    def transform_rows(self, values: Floats) -> tuple[Array, int]:
        """Return the cells of rows, by matrix products if `_choose` has chosen products.

        Products need at least `PRODUCT_LEAST` rows. For the result, see `CompiledMap`.
        """
        if self.centred is None or len(values) < PRODUCT_LEAST:
            return super().transform_rows(values)
        values = np.ascontiguousarray(values)
        out = np.empty((len(values), self.n_out), dtype=self.dtype)
        n_rows = min(256, max(PRODUCT_LEAST, PRODUCT_SIZE // len(self.rows)))
        for start in range(0, len(values), n_rows):
            block = values[start : start + n_rows]
            bad = self._multiply(block, out[start : start + n_rows])
            if bad >= 0:
                return out, start * self.n_inputs + bad
        return out, DONE

    def _multiply(self, values: Floats, out: Array) -> int:
        """Write the cells of rows to `out`. A matrix product gives approximate distances.

        Returns the result of `read_rows`.
        """
        assert self.centred is not None and isinstance(self.record, DenseVoronoi)
        n, width = values.shape
        rows = np.zeros((n, self.rows.shape[1]), dtype=np.float32)
        scaled = Float32s.of(rows)
        bad = nearest.read_rows(self.record, Float64s.of(values), width, n, scaled)
        if bad >= 0:
            return bad
        centred = rows - self.mean
        norms = np.concatenate([_squares(centred), self.norms])
        if norms.max() > FARTHEST_SQUARE:
            out[:] = super().transform_rows(values)[0]
            return DONE
        products = centred @ self.centred.T
        known = scaled, Float32s.of(products), Float64s.of(norms)
        error = nearest.product_error(self.n_inputs)
        nearest.filter_rows(self.record, *known, n, *error, Int32s.of(out))
        return DONE

    def _kinds(self) -> tuple[type[Any], ...]:
        return DenseVoronoi, IndexedVoronoi

    def _check(self) -> None:
        super()._check()
        none, n, d = type(None), self.record.n_points, self.n_inputs
        kinds = {"basis": (none, tuple), "trials": (none, np.ndarray), "tree": (none, PointTree)}
        matrix = scipy.sparse.csr_matrix
        check_types(self, kinds | {"points": (none, matrix), "centred": (none, np.ndarray)})
        check_number(self, "n_points", n, 1, MOST_OUT)
        check_arrays(self, {"members": (np.int32, (self.psi, self.n_out), 0, n - 1)})
        if self.indexed:
            self._check_index()
        else:
            check_number(self, "is_sparse", self.record.is_sparse, 0, 0)
            width = padded(d)
            rows = np.float32, (n, width)
            arrays: dict[str, Any] = {"rows": rows}
            if self.centred is not None:
                arrays |= {"centred": rows, "mean": (np.float32, (width,))}
                arrays |= {"norms": (np.float64, (n,))}
            check_arrays(self, arrays)
        if self.indexed and (self.tree is not None or self.centred is not None):
            refuse(self, "tree", self.tree, "but points have an index")
        if self.tree is not None:
            self.tree.check(n, d, self.n_out, self.psi)
        if self.points is not None:
            if self.points.shape != (n, d):
                refuse(self, "points", self.points.shape, f"but they have the shape {(n, d)}")
            self.points.check_format(full_check=True)
            check_arrays(self, {"trials": (np.float64, (TRIALS, d))})
            if self.basis is not None:
                mean, axes = self.basis
                if mean.shape != (d,) or axes.ndim != 2 or len(axes) != d:
                    refuse(self, "basis", mean.shape, f"but there are {d} features")

    def _check_index(self) -> None:
        """Check that the entries of points, by point and by feature, are in range."""
        n, d = self.record.n_points, self.n_inputs
        check_types(self, {"values": np.ndarray})
        n_entries = self.values.size
        arrays: dict[str, Any] = {"starts": (np.int64, (n + 1,)), "squared": (np.float64, (n,))}
        arrays["indices"] = np.int32, (n_entries,), 0, d - 1
        arrays["values"] = np.float32, (n_entries,)
        check_arrays(self, arrays)
        check_starts(self, "starts", self.starts, n_entries)
        check_types(self, {"by_feature": tuple})
        if len(self.by_feature) != 3 or not all(isinstance(a, np.ndarray) for a in self.by_feature):
            refuse(self, "by_feature", self.by_feature, "but it is three arrays")
        starts, points, values = self.by_feature
        check_starts(self, "by_feature[0]", starts, len(points))
        check_array(self, "by_feature[1]", points, np.int32, 0, n - 1)
        check_number(self, "the length of by_feature[0]", len(starts), d + 1, d + 1)
        if values.shape != points.shape or values.dtype != np.float32:
            refuse(self, "by_feature[2]", values.shape, f"but it has the shape {points.shape}")

    def _transform(self) -> Transform:
        if self.tree is not None:
            return search
        if not self.indexed:
            return nearest.scan
        return nearest.index_entries if self.sparse else nearest.index_vector

    def _bind(self) -> None:
        record, own = self.record, self.memory.own
        self.memory.refer(self, "factors", "members")
        own("distances", np.empty(record.n_points))
        own("nearest", np.empty(self.n_out))
        own("second", np.empty(self.n_out))
        if isinstance(record, DenseVoronoi):
            record.width = self.rows.shape[1]
            record.points = Float32s.of(self.rows)
            record.tree = PointTreeRecord(0) if self.tree is None else self.tree.record
            own("row", np.zeros(self.rows.shape[1], dtype=np.float32))
            return
        assert isinstance(record, IndexedVoronoi)
        self.memory.refer(self, "starts", "indices", "values")
        record.feature_starts = Int64s.of(self.by_feature[0])
        record.feature_points = Int32s.of(self.by_feature[1])
        record.feature_values = Float32s.of(self.by_feature[2])
        record.norms = Float64s.of(self.squared)
        own("x_indices", np.empty(max(1, self.n_inputs), dtype=np.int32))
        own("x_values", np.empty(max(1, self.n_inputs), dtype=np.float32))
        own("lane_sums", np.empty(VECTOR))

    def transform_on(self, values: Floats, xp: Any) -> Array:
        """Return the cells of checked rows, computed on the device of an array namespace."""
        rows = np.empty((len(values), self.n_inputs), dtype=np.float32)
        for start in range(0, len(rows), DEVICE_BLOCK):
            block = slice(start, start + DEVICE_BLOCK)
            known = values[block, : self.n_inputs].astype(np.float32)
            scaled = known * self.factors[: self.n_inputs]
            np.clip(scaled, -FARTHEST, FARTHEST, out=scaled)
            np.copyto(scaled, 0.0, where=np.isnan(scaled))
            rows[block] = scaled
        cells = cuda.nearest_cells(rows, self._points, self.members, xp)
        return cells + self.psi * np.arange(self.n_out, dtype=np.int32)

    def _points(self) -> Singles:
        """Return the centres of all partitions, shape (points, features)."""
        if not self.indexed:
            return self.rows[:, : self.n_inputs]
        shape = (len(self.squared), self.n_inputs)
        return scipy.sparse.csr_matrix((self.values, self.indices, self.starts), shape).toarray()

    @property
    def nbytes(self) -> int:
        """Number of bytes in memory."""
        size = super().nbytes
        if self.points is not None:
            size += sum(getattr(self.points, name).nbytes for name in ("data", "indices", "indptr"))
        return size


def _squares(rows: Singles) -> Floats:
    """Return the squared norm of each row."""
    return np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
