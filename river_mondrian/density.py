"""Density estimation with Mondrian forests on the whole space."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from river import base
from river.utils.dataframe import to_native_series

from .arena import Arena
from .arguments import (
    DIRECTION_DRAWS,
    check_integer,
    check_lifetime,
    draw_lifetimes,
    is_distribution,
    is_real,
)
from .directions import check_directions, coefficients, sphere_directions
from .features.by_feature import draw_seed
from .inputs import FeatureIndex, check_value, ordered, read_frame, too_large
from .kernels import density as kernels
from .kernels.memory import CHUNK_ROWS

ESTIMATORS = {"forest": kernels.FOREST, "laplace": kernels.LAPLACE, "kernel": kernels.KERNEL}
# The least and the largest lifetime, so that cells have finite volumes above 0.
LEAST_LIFETIME, LARGEST_LIFETIME = 1e-100, 1e100
# The largest coefficient of a direction, so that samples along it are finite.
LARGEST_COEFFICIENT = 1e100
# Dimensions in which volumes of oblique cells are computed.
MOST_OBLIQUE = 3
# The logarithm of the least positive float of full precision.
LEAST_LOG = math.log(sys.float_info.min)
# How far from a cell's faces, by its width, the point must be from which its volume is computed.
CLEARANCE = 1e-7


class DensityTrees:
    """The trees of a density forest, and the record by which kernels reach them.

    Parameters
    ----------
    lifetimes
        The trees' lifetimes, one each.
    seed
        Seed of the trees' keys.
    n_inputs
        Number of features.
    directions
        Matrices of cut directions, shape (trees, directions, features), or (1, ...) where all
        trees have the same; None for the axes.
    stores
        Whether samples are stored, which a growing lifetime needs.
    estimator
        Number of the estimator, as `kernels.density` has them.

    """

    _ADDRESSES: ClassVar[list[int]] = [
        kernels.DIRECTIONS,
        kernels.LIFTED,
        kernels.MEANS,
        kernels.TREES,
        kernels.NODES,
        kernels.NODE_CAPACITY,
        kernels.POINTS,
        kernels.POINT_CAPACITY,
        kernels.CELL,
    ]

    def __init__(
        self,
        lifetimes: NDArray[np.float64],
        seed: int,
        n_inputs: int,
        directions: NDArray[np.float64] | None,
        stores: bool,
        estimator: int,
    ) -> None:
        n_trees = len(lifetimes)
        dims = n_inputs if directions is None else directions.shape[1]
        self.directions = directions
        self.record = np.zeros(kernels.WORDS, dtype=np.int64)
        self.record[kernels.N_TREES] = n_trees
        self.record[kernels.N_DIMS] = dims
        self.record[kernels.N_INPUTS] = n_inputs
        self.record[kernels.STORES] = stores
        self.record[kernels.ESTIMATOR] = estimator
        self.trees = np.zeros((n_trees, kernels.CORNERS + 2 * dims), dtype=np.int64)
        keys = np.random.default_rng(seed).integers(1 << 64, size=n_trees, dtype=np.uint64)
        self.trees[:, kernels.ROOT] = kernels.NONE
        self.trees[:, kernels.KEY_ABOVE] = keys.view(np.int64)
        self.trees.view(np.float64)[:, kernels.LIFETIME] = lifetimes
        self.means = np.zeros(2 * n_inputs)
        self.nodes = Arena(1, 2 * kernels.NODE_WORDS)
        self.points = Arena(1, 2 * n_inputs + n_trees)
        self._finish()

    def _finish(self) -> None:
        """Make the buffers and write the addresses of all arrays to the record."""
        n_dims = int(self.record[kernels.N_DIMS])
        self.vector = np.full(int(self.record[kernels.N_INPUTS]), np.nan)
        self.lifted, self.cell = np.zeros(2 * n_dims), np.zeros(2 * n_dims)
        self.parts, self.out = np.zeros((len(self.trees), 2)), np.zeros(1)
        self.address = int(self.record.ctypes.data)
        self.vector_address = int(self.vector.ctypes.data)
        self.out_address = int(self.out.ctypes.data)
        self.parts_address = int(self.parts.ctypes.data)
        record = self.record
        if self.directions is not None:
            record[kernels.DIRECTIONS] = self.directions.ctypes.data
            shared = len(self.directions) == 1
            record[kernels.SET_BYTES] = 0 if shared else self.directions[0].nbytes
        record[kernels.LIFTED] = self.lifted.ctypes.data
        record[kernels.CELL] = self.cell.ctypes.data
        record[kernels.MEANS] = self.means.ctypes.data
        record[kernels.TREES] = self.trees.ctypes.data
        self._reserve(0)

    def _reserve(self, n_nodes: int) -> None:
        """Make room for more nodes, and for another sample."""
        record = self.record
        self.nodes.reserve(0, int(record[kernels.N_NODES]) + n_nodes)
        record[kernels.NODES] = self.nodes.addresses[0]
        record[kernels.NODE_CAPACITY] = self.nodes.capacities[0]
        if record[kernels.STORES]:
            self.points.reserve(0, int(record[kernels.N_POINTS]) + 1)
            record[kernels.POINTS] = self.points.addresses[0]
            record[kernels.POINT_CAPACITY] = self.points.capacities[0]

    @property
    def n_samples(self) -> int:
        """Number of samples learned."""
        return int(self.record[kernels.N_SAMPLES])

    @property
    def lifetime(self) -> float:
        """Lifetime of the first tree, and of all where it is not random."""
        return float(self.trees.view(np.float64)[0, kernels.LIFETIME])

    def learn(self, x: int, n: int, lifetimes: int) -> int:
        """Learn rows as `kernels.density.learn_rows` has them, all of them.

        Returns -1, or the place of a bad input.
        """
        if self.directions is not None and n > 1:
            for i in range(n):
                row = x + 8 * i * self.directions.shape[2]
                self.learn(row, 1, lifetimes and lifetimes + 8 * i)
            return -1
        width = 8 * int(self.record[kernels.N_INPUTS])
        while True:
            done = kernels.learn_rows(self.address, x, n, lifetimes)
            if done < 0:
                return int(-1 - done)
            if done == n:
                if self.directions is not None:
                    self._keep_volumes(x)
                return -1
            n -= done
            x += done * width
            lifetimes += done * 8 if lifetimes else 0
            self._reserve(CHUNK_ROWS)

    def add_input(self, value: float) -> None:
        """Add a feature that all samples so far have with one value."""
        sides = np.zeros((len(self.trees), 2))
        for t in range(len(self.trees)):
            address = int(sides[t].ctypes.data)
            self._reserve(kernels.add_dim(self.address, t, value, address, False))
            kernels.add_dim(self.address, t, value, address, True)
        record = self.record
        dims, n_samples = int(record[kernels.N_DIMS]), self.n_samples
        corners, words = kernels.CORNERS, sides.view(np.int64)
        lower, upper = self.trees[:, corners : corners + dims], self.trees[:, corners + dims :]
        self.trees = np.ascontiguousarray(
            np.hstack([self.trees[:, :corners], lower, words[:, :1], upper, words[:, 1:]])
        )
        self.means = np.concatenate(
            [self.means[:dims], [value], self.means[dims:], [float(n_samples)]]
        )
        n_trees = len(self.trees)
        moves = [(0, 0, 2 * dims), (2 * dims, 2 * dims + 2, n_trees)]
        self.points.relayout(2 * dims + 2 + n_trees, moves)
        for chunk in self.points.chunks[0]:
            chunk[:, 2 * dims : 2 * dims + 2] = np.array([value]).view(np.int32)
        record[kernels.N_DIMS] = record[kernels.N_INPUTS] = dims + 1
        self._finish()

    # Reading.

    def log_densities(self, x: int, n: int, out: NDArray[np.float64], floored: bool) -> int:
        """Write the logs of the density at rows of values, whose gaps are filled.

        Where it is 0 and to be `floored`, each tree's last cell that holds samples counts as if
        it held one. Returns -1, or the place of a bad input.
        """
        parts = self.parts_address
        if self.directions is None:
            address = int(out.ctypes.data)
            return int(kernels.log_densities(self.address, x, n, floored, parts, address))
        for i in range(n):
            row = x + 8 * i * self.directions.shape[2]
            for t, _ in self._unknown_volumes(row):
                self.parts[t, 1] = self._log_volume(t)
            out[i] = kernels.combine(self.address, parts)
            if floored and out[i] == -math.inf:
                for t in range(len(self.trees)):
                    kernels.last_held(self.address, t, kernels.lift_one(self.address, t, row))
                    self.parts[t] = 1.0, self._log_volume(t)
                out[i] = kernels.combine(self.address, parts)
        return -1

    def _keep_volumes(self, x: int) -> None:
        """Store the volumes of the oblique cells of a sample that has been learned."""
        for t, z in self._unknown_volumes(x):
            kernels.keep_volume(self.address, t, z, self._log_volume(t))

    def _unknown_volumes(self, x: int) -> Iterator[tuple[int, int]]:
        """Look at each tree; stop at those whose cell, which `cell` holds then, has no volume.

        Yields the number of the tree, and the address of the sample's values along its directions.
        """
        for t in range(len(self.trees)):
            z = int(kernels.lift_one(self.address, t, x))
            kernels.look_one(self.address, t, z, self.parts_address + 16 * t)
            if math.isnan(self.parts[t, 1]):
                yield t, z

    def _log_volume(self, t: int) -> float:
        assert self.directions is not None
        directions = self.directions[min(t, len(self.directions) - 1)]
        n_dims = len(directions)
        lower, upper = self.cell[:n_dims], self.cell[n_dims:]
        return log_polytope_volume(directions, lower, upper, self.lifted[:n_dims])

    def __getstate__(self) -> dict[str, Any]:
        record = self.record.copy()
        record[self._ADDRESSES] = 0
        return {
            "record": record,
            "directions": self.directions,
            "trees": self.trees,
            "means": self.means,
            "nodes": self.nodes.pack([int(record[kernels.N_NODES])]),
            "points": self.points.pack([int(record[kernels.N_POINTS])]),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.record, self.directions = state["record"], state["directions"]
        self.trees, self.means = state["trees"], state["means"]
        self.nodes = Arena.unpack(state["nodes"])
        self.points = Arena.unpack(state["points"])
        self._finish()

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = [value for value in self.__dict__.values() if isinstance(value, np.ndarray)]
        size = sys.getsizeof(self) + sys.getsizeof(self.__dict__)
        size += sum(sys.getsizeof(array) for array in arrays)
        return size + self.nodes.nbytes + self.points.nbytes


def log_polytope_volume(
    directions: NDArray[np.float64],
    lower: NDArray[np.float64],
    upper: NDArray[np.float64],
    inside: NDArray[np.float64],
) -> float:
    """Return the log of the volume of a cell {y: lower <= U y <= upper} in up to 3 dimensions.

    Parameters
    ----------
    directions
        The matrix U, whose rank is its number of columns.
    lower, upper
        Bounds along the directions, a number each.
    inside
        U y for a y in the cell.

    Returns
    -------
    The logarithm, that of the least positive float where the volume is too small to be computed.

    """
    from scipy.spatial import ConvexHull, HalfspaceIntersection, QhullError

    dims = directions.shape[1]
    widths = upper - lower
    if not (widths > 0.0).all():
        return LEAST_LOG
    # In the coordinates R y, from that y on, the cell is about as wide everywhere: with the sides
    # as units, U = Q R and Q's columns are orthonormal.
    normals, stretch = np.linalg.qr(directions / widths[:, None])
    log_unit = -float(np.log(np.abs(np.diag(stretch))).sum())
    faces = np.vstack([normals, -normals])
    reach = np.concatenate([(upper - inside) / widths, (inside - lower) / widths])
    if dims == 1:
        ends, ahead = reach / np.abs(faces[:, 0]), faces[:, 0] > 0.0
        length = ends[ahead].min() + ends[~ahead].min()
        return math.log(length) + log_unit if length > 0.0 else LEAST_LOG
    if reach.min() < CLEARANCE:
        center, radius = _largest_ball(faces, reach)
        if radius < CLEARANCE**2:
            return LEAST_LOG
        reach, log_unit = (reach - faces @ center) / radius, log_unit + dims * math.log(radius)
    halfspaces = np.column_stack([faces, -reach])
    for options in ("", "QJ"):  # joggled where the corners are too flat
        try:
            found = HalfspaceIntersection(halfspaces, np.zeros(dims), qhull_options=options or None)
            hull = ConvexHull(found.intersections, qhull_options=options or None)
        except QhullError:
            continue
        if hull.volume > 0.0:
            return math.log(hull.volume) + log_unit
    return LEAST_LOG


def _largest_ball(
    faces: NDArray[np.float64], reach: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return the center and the radius of the largest ball in {y: faces y <= reach}."""
    from scipy.optimize import linprog

    dims = faces.shape[1]
    norms = np.linalg.norm(faces, axis=1)
    found = linprog(
        np.append(np.zeros(dims), -1.0),
        A_ub=np.column_stack([faces, norms]),
        b_ub=reach,
        bounds=[(None, None)] * dims + [(0.0, None)],
    )
    if not found.success:
        return np.zeros(dims), 0.0
    best = np.asarray(found.x)
    return best[:-1], float(best[-1])


class DensityForest(base.AnomalyDetector):
    """Mondrian forest for density estimation and anomaly detection.

    Each tree is a Mondrian process of the whole space: a random partition into cells, the boxes
    that are left when everything is cut at a rate of its linear dimension up to a lifetime. The
    density is the mean over trees of the share of the samples in a point's cell by the cell's
    volume[^1] (Equation 13). It integrates to 1, and, with more and more trees, tends to
    `exact_density`.

    A cell is revealed when a sample first falls into it, from keys that the seed gives: the
    partition depends on the seed and the first sample alone. It has no boundary. Predictions
    change nothing.

    Parameters
    ----------
    n_estimators
        Number of trees.
    lifetime
        Rate at which cells are cut, per unit of the features: two samples are in one cell with
        probability exp(-lifetime |x - y|_1), and a cell is 2 / lifetime wide on average. It is a
        number above 0; a frozen `scipy.stats` distribution, from which each tree draws its own; a
        function of the number of samples, which must not fall; or None for n^(1 / (d + 2)), d the
        number of features, with which the estimator is consistent (Corollary 5.2). Trees run on
        where it grows; they store the samples then.
    directions
        None for cuts along the axes; mappings from feature to coefficient, of which each gives a
        direction in which to cut, at a rate of its norm, and which have to span the space of the
        features that they name; or a number of random directions of each tree, uniform and scaled
        so that the probability of one cell tends to exp(-lifetime |x - y|_2), for the features of
        the first sample. Oblique cells need at most 3 features, and some milliseconds each.
    estimator
        "forest"; "laplace", the mean count over the mean volume, which estimates the Laplace
        kernel's density estimate (Section 5); or "kernel", the mean of counts over the volumes'
        expectations (2 / lifetime)^d, which does the same without the noise of volumes, and so
        suits many features, but only cuts along the axes.
    seed
        Random seed for reproducibility.

    Notes
    -----
    The paper's lifetime of a Mondrian is d times ours, whose formulas are those of Theorem 5.1.

    Scale the features to comparable ranges first: nothing is scaled within.

    The default number of trees is where the seed has ceased to matter much: on River's Shuttle
    stream, scaled to [0, 1], with lifetime 3 and estimator "kernel", the area under the ROC curve
    of three seeds is .86 to .97 with 10 trees and .96 to .97 with 100. The default lifetime is for
    the density of few features; to find anomalies among many, choose these.

    A feature may appear at any time (without `directions`): samples before it count as having its
    first value. A missing value counts as the feature's mean so far, or 0 before its first value.
    Features that are not known are ignored in a prediction.

    Memory grows with the cells, by 64 bytes for each node of a tree. A lifetime that grows stores
    8 d + 4 `n_estimators` bytes per sample besides.

    Examples
    --------

    >>> import random
    >>> from river_mondrian import DensityForest

    >>> rng = random.Random(42)
    >>> forest = DensityForest(n_estimators=100, lifetime=2.0, seed=42)
    >>> for _ in range(2000):
    ...     forest.learn_one({"a": rng.gauss(0.0, 1.0), "b": rng.gauss(0.0, 1.0)})
    >>> round(forest.density_one({"a": 0.0, "b": 0.0}), 1)  # 1 / (2 pi), smoothed
    0.1
    >>> forest.score_one({"a": 4.0, "b": 4.0}) > forest.score_one({"a": 1.0, "b": 0.0})
    True

    As an anomaly detector:

    >>> from river import datasets, preprocessing
    >>> from sklearn import metrics

    >>> forest = DensityForest(30, lifetime=3.0, estimator="kernel", seed=42)
    >>> detector = preprocessing.MinMaxScaler() | forest
    >>> scores, labels = [], []
    >>> for x, y in datasets.Shuttle().take(5000):
    ...     scores.append(detector.score_one(x))
    ...     detector.learn_one(x)
    ...     labels.append(y)
    >>> metrics.roc_auc_score(labels, scores) > 0.9
    True

    References
    ----------
    [^1]: O'Reilly, E. and Tran, N. M. (2022). Stochastic Geometry to Generalize the Mondrian
    Process. SIAM Journal on Mathematics of Data Science 4(2). Sections 3 and 5.

    """

    def __init__(
        self,
        n_estimators: int = 100,
        lifetime: Any = None,
        directions: Any = None,
        estimator: str = "forest",
        seed: int | None = None,
    ) -> None:
        check_integer("n_estimators", n_estimators, 1)
        if is_distribution(lifetime) or not (lifetime is None or callable(lifetime)):
            check_lifetime(lifetime)
            if is_real(lifetime):
                _check_lifetime_size(lifetime)
        check_directions(directions)
        if estimator not in ESTIMATORS:
            raise ValueError(f"estimator must be one of {[*ESTIMATORS]}, got {estimator!r}")
        if estimator == "kernel" and directions is not None:
            raise ValueError('estimator "kernel" needs cuts along the axes, got directions')
        self.n_estimators = n_estimators
        self.lifetime = lifetime
        self.directions = directions
        self.estimator = estimator
        self.seed = seed
        self._features = FeatureIndex()
        self._trees: DensityTrees | None = None
        self._grows = lifetime is None or (callable(lifetime) and not is_distribution(lifetime))
        if isinstance(directions, Sequence):
            names = {name for direction in directions for name in direction}
            self._check_directions(_given(directions, names))
            self._features.add(ordered(names))

    # Learning.

    @property
    def features(self) -> list[Any]:
        """The features known so far, in the order in which the trees keep them."""
        return list(self._features.names)

    @property
    def n_samples(self) -> int:
        """Number of samples learned."""
        return 0 if self._trees is None else self._trees.n_samples

    def _check_directions(self, matrix: NDArray[np.float64]) -> None:
        """Refuse cut directions whose cells have no finite volume, or none that we compute."""
        d = matrix.shape[1]
        if d > MOST_OBLIQUE:
            raise ValueError(
                f"volumes of oblique cells are computed in up to {MOST_OBLIQUE} dimensions; the "
                f"directions have {d} features"
            )
        if np.abs(matrix).max() > LARGEST_COEFFICIENT:
            raise ValueError(f"coefficients of directions must be at most {LARGEST_COEFFICIENT:g}")
        rank = np.linalg.matrix_rank(matrix)
        if rank < d:
            raise ValueError(
                f"directions must span the space of their {d} features, got {len(matrix)} of "
                f"rank {rank}"
            )

    def _lifetime_at(self, n: int, d: int, last: float) -> float:
        """Return the lifetime with `n` samples of `d` features, after another lifetime."""
        if self.lifetime is None:
            return max(last, math.pow(n, 1.0 / (d + 2)))
        lifetime = self.lifetime(n)
        _check_lifetime_size(lifetime, f" for {n} samples")
        if lifetime < last:
            raise ValueError(
                f"lifetime must not fall, got {lifetime!r} for {n} samples after {last!r}"
            )
        return float(lifetime)

    def _begin(self, names: list[Hashable]) -> DensityTrees:
        """Return trees that have learned nothing; `names` are the first sample's features."""
        seed = draw_seed(self.seed)
        lifetimes = np.full(self.n_estimators, LEAST_LIFETIME)
        if not self._grows:
            lifetimes = draw_lifetimes(self.lifetime, self.n_estimators, seed)
            for lifetime in lifetimes.tolist():
                _check_lifetime_size(lifetime)
        matrix = None
        if isinstance(self.directions, Sequence):
            matrix = _given(self.directions, self._features.names)[None]
        elif self.directions is not None:
            d = len(names)
            if d == 0:
                raise ValueError("random directions need a feature in the first sample, got none")
            stream = np.random.SeedSequence(seed, spawn_key=(DIRECTION_DRAWS,))
            generator, n = np.random.default_rng(stream), int(self.directions)
            drawn = [sphere_directions(n, d, generator) for _ in range(self.n_estimators)]
            for one in drawn:
                self._check_directions(one)
            matrix = np.array(drawn)
        n_inputs = len(self._features) if matrix is None else matrix.shape[2]
        number = ESTIMATORS[self.estimator]
        return DensityTrees(lifetimes, seed, n_inputs, matrix, self._grows, number)

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Learn a sample.

        Parameters
        ----------
        x
            A mapping from feature to number. NaN is the same as an absent key.

        Raises
        ------
        TypeError
            If a value is no number.
        ValueError
            If a value is infinite or too large for single precision, the lifetime falls, or random
            directions have more than 3 features. The forest has not changed then.

        """
        trees = self._trees
        if trees is None or not self._features.read_known(x, trees.vector):
            values = self._features.read(x)
            names = ordered(values)
            self._learn_rows(names, np.array([[values[name] for name in names]]))
            return
        lifetimes = 0
        if self._grows:
            n = trees.n_samples + 1
            trees.out[0] = self._lifetime_at(n, len(self._features), trees.lifetime)
            lifetimes = trees.out_address
        bad = trees.learn(trees.vector_address, 1, lifetimes)
        if bad >= 0:
            raise self._too_large(bad, x)

    def learn_many(self, X: Any) -> None:
        """Learn the rows of a frame; the result is that of `learn_one` on each row.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of numbers; nulls and NaN are missing.

        Raises
        ------
        TypeError
            If a column holds something that is no number.
        ValueError
            If a value is infinite or too large, a column is doubled, or as for `learn_one`. The
            forest has not changed then.

        """
        _, names, columns = read_frame(X)
        if len(columns) > 0:
            self._learn_rows(names, columns)

    def _learn_rows(self, names: Sequence[Hashable], columns: NDArray[np.float64]) -> None:
        """Learn checked rows, whose features may be new."""
        index, last, n_samples = self._features, 0.0, 0
        first: dict[Hashable, int] = {}
        if self._trees is not None:
            last, n_samples = self._trees.lifetime, self._trees.n_samples
        if self.directions is None:
            first = index.first_rows(names, columns)
        elif self._trees is None and not isinstance(self.directions, Sequence):
            first = index.first_rows(names, columns[:1])
        lifetimes = np.empty(len(columns) if self._grows else 0)
        for i in range(len(lifetimes)):
            d = len(index) + sum(row <= i for row in first.values())
            lifetimes[i] = last = self._lifetime_at(n_samples + i + 1, d, last)
        if self._trees is None:
            self._trees = self._begin(list(first))
            if self.directions is not None:
                index.add(first)
                first = {}
        trees = self._trees
        starts = sorted({0, *first.values()})
        for start, stop in zip(starts, [*starts[1:], len(columns)], strict=True):
            for name in [name for name, row in first.items() if row == start]:
                trees.add_input(float(columns[start, names.index(name)]))
                index.add([name])
            rows = index.arrange(names, columns[start:stop], len(index))
            address = int(lifetimes[start:].ctypes.data) if self._grows else 0
            trees.learn(int(rows.ctypes.data), len(rows), address)

    def _too_large(self, place: int, x: Mapping[Any, Any]) -> ValueError:
        name = self._features.names[place]
        return too_large(name, x[name])

    # Prediction.

    def log_density_one(self, x: Mapping[Any, Any]) -> float:
        """Return the logarithm of the density at a sample.

        Parameters
        ----------
        x
            A mapping from feature to number.

        Returns
        -------
        The logarithm, minus infinity where the density is 0, as it is before any learning. It
        may be finite where the density itself is too small or large for a float.

        Raises
        ------
        TypeError
            If a value is no number.
        ValueError
            If a value is infinite or too large for single precision.

        """
        return self._log_density(x, False)

    def _log_density(self, x: Mapping[Any, Any], floored: bool) -> float:
        trees = self._trees
        if trees is None:
            self._features.read(x)
            return -math.inf
        self._features.read_into(x, trees.vector)
        bad = trees.log_densities(trees.vector_address, 1, trees.out, floored)
        if bad >= 0:
            raise self._too_large(bad, x)
        return float(trees.out[0])

    def density_one(self, x: Mapping[Any, Any]) -> float:
        """Return the density at a sample, per unit of volume of the features.

        Parameters and errors are those of `log_density_one`. It is 0 before any learning.
        """
        return _exp(self.log_density_one(x))

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return an anomaly score: minus the logarithm of the density.

        Parameters and errors are those of `log_density_one`.

        Returns
        -------
        The score, the higher the rarer the sample, in nats. Where the density is 0, as no tree has
        a sample in its cell, each tree's cell counts that was the last, before it was cut, to hold
        a sample, as if it held one: the further from all samples, the larger. So a score is always
        finite. It is 0 before any learning.

        """
        return 0.0 if self._trees is None else -self._log_density(x, True)

    def _log_densities(self, X: Any) -> tuple[Any, NDArray[np.float64]]:
        frame, names, columns = read_frame(X)
        out = np.full(len(columns), -math.inf)
        if self._trees is not None:
            rows = self._features.arrange(names, columns, len(self._features))
            self._trees.log_densities(int(rows.ctypes.data), len(rows), out, False)
        return frame, out

    def log_density_many(self, X: Any) -> Any:
        """Return the logarithm of the density at each row of a frame.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of numbers; nulls and NaN are missing.

        Returns
        -------
        A series of the same kind (and pandas index), with what `log_density_one` says of each row.

        Raises
        ------
        TypeError
            If a column holds something that is no number.
        ValueError
            If a value is infinite or too large, or a column is doubled.

        """
        frame, out = self._log_densities(X)
        return to_native_series(out, name="log_density", like=frame)

    def density_many(self, X: Any) -> Any:
        """Return the density at each row of a frame.

        Parameters, result and errors are as for `log_density_many`.
        """
        frame, out = self._log_densities(X)
        values = np.array([_exp(value) for value in out.tolist()])
        return to_native_series(values, name="density", like=frame)

    @property
    def _raw_memory_usage(self) -> int:
        size = sys.getsizeof(self) + sys.getsizeof(self.__dict__) + self._features.nbytes
        return size + (0 if self._trees is None else self._trees.nbytes)


def _exp(value: float) -> float:
    return math.exp(value) if value < 709.0 else float(np.exp(np.float64(min(value, 800.0))))


def _given(directions: Sequence[Mapping[Any, float]], names: Any) -> NDArray[np.float64]:
    return coefficients(directions, ordered(names))


def _check_lifetime_size(lifetime: Any, when: str = "") -> None:
    if not is_real(lifetime) or not LEAST_LIFETIME <= lifetime <= LARGEST_LIFETIME:
        raise ValueError(
            f"lifetime must be a number from {LEAST_LIFETIME:g} to {LARGEST_LIFETIME:g}, got "
            f"{lifetime!r}{when}"
        )


def exact_density(X: Any, x: Any, lifetime: float) -> float | NDArray[np.float64]:
    """Return the density that infinitely many Mondrian trees estimate from samples.

    The closed form of Theorem 5.1[^1]: a kernel density estimate whose kernel is, in each
    dimension, lifetime E_2(lifetime |x - X_i|), where E_2(t) = exp(-t) - t E_1(t) is a generalized
    exponential integral.

    Parameters
    ----------
    X
        The samples: a pandas, polars or pyarrow frame, or an array of shape (n, d).
    x
        Where: a mapping from the frame's columns to numbers, a vector of d numbers in the order of
        the columns, or several, as a frame with the same columns or an array of shape (k, d).
    lifetime
        Lifetime of the trees, as for `DensityForest`, whose density tends to this one.

    Returns
    -------
    The density, a float, or an array of k where there are several.

    Raises
    ------
    TypeError
        If a value is no number.
    ValueError
        If there are no samples, values are missing or infinite, features do not match, or the
        lifetime is not a positive number.

    Examples
    --------

    >>> import numpy as np
    >>> from river_mondrian import exact_density

    >>> round(exact_density(np.array([[0.0], [1.0]]), [0.0], lifetime=2.0), 4)
    1.0375

    References
    ----------
    [^1]: O'Reilly, E. and Tran, N. M. (2022). Stochastic Geometry to Generalize the Mondrian
    Process. SIAM Journal on Mathematics of Data Science 4(2). Theorem 5.1.

    """
    from scipy.special import expn

    _check_lifetime_size(lifetime)
    names, samples = _matrix("X", X, None)
    if len(samples) == 0:
        raise ValueError("X must have a row")
    one = isinstance(x, Mapping)
    if one:
        if names is None:
            raise ValueError("x may be a mapping only where X is a frame")
        if set(x) != set(names):
            raise ValueError(f"x must have the features {names!r}, got {list(x)!r}")
        x = [check_value(name, x[name]) for name in names]
    elif not hasattr(x, "columns") or names is None:
        one = np.ndim(x) == 1
    queries = _matrix("x", np.reshape(x, (1, -1)) if one else x, names)[1]
    if queries.shape[1] != samples.shape[1]:
        raise ValueError(f"x must have {samples.shape[1]} features like X, got {queries.shape[1]}")
    found = np.empty(len(queries))
    for i, query in enumerate(queries):
        with np.errstate(divide="ignore"):
            logs = np.log(expn(2, lifetime * np.abs(samples - query))) + math.log(lifetime)
        found[i] = np.exp(logs.sum(axis=1)).mean()
    return float(found[0]) if one else found


def _matrix(
    what: str, values: Any, names: list[Hashable] | None
) -> tuple[list[Hashable] | None, NDArray[np.float64]]:
    """Read a frame, whose columns are to be `names` if given, or an array, which has none."""
    if hasattr(values, "columns"):
        _, found, matrix = read_frame(values)
        if names is not None:
            if set(found) != set(names):
                raise ValueError(f"{what} must have the features {names!r}, got {found!r}")
            matrix = matrix[:, [found.index(name) for name in names]]
            found = names
    else:
        found, matrix = None, np.asarray(values, dtype=np.float64)
        if matrix.ndim != 2:
            raise ValueError(f"{what} must have two dimensions, got {matrix.ndim}")
    if not np.isfinite(matrix).all():
        row, place = np.argwhere(~np.isfinite(matrix))[0]
        name, value = place if found is None else found[place], float(matrix[row, place])
        raise ValueError(f"{what} must be finite, got {value} for feature {name!r} in row {row}")
    return found, matrix
