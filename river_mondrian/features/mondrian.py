"""Mondrian features of the Laplace kernel."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import arguments, frames
from ..arguments import Directions
from ..checks import check_types, refuse
from ..inputs import Floats
from ..limits import LARGEST, LEAST_LEVEL
from ..maps.record import Array, Pool, Sample
from ..model import locked
from ..partitions.mondrian.reading import Plane, cells_of_plane, check_plane
from ..partitions.mondrian.tree_store import Partitions
from ..posteriors.cells import CellView, MondrianMap
from ..records import Float64s, Memory
from . import base, kinds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# For lifetime "auto": number of lifetimes, and the smallest and largest lifetime, in units of 1 /
# (median distance of two samples). The median is computed from the first MEDIAN_SAMPLES samples.
GRID_SIZE = 16
GRID_ENDS = (0.125, 128.0)
MEDIAN_SAMPLES = 256

# Mean distance of two uniform numbers in [0, 1].
MEAN_GAP = 1.0 / 3.0


class _Start(Pool):
    """Pool of the first samples of a stream, which determine the scale of the lifetimes."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Floats] = []

    def __len__(self) -> int:
        return len(self.rows)

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"rows": self.rows}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        check_types(self, {"rows": list})
        for i, row in enumerate(self.rows):
            # Missing values are NaN, which every comparison below ignores.
            if not isinstance(row, np.ndarray) or row.dtype != np.float64:
                refuse(self, f"row {i}", row, "but it should be of float64")
            is_level = (row >= LEAST_LEVEL) & (row < 2.0 * LEAST_LEVEL)
            if (np.abs(row[~is_level]) > LARGEST).any():
                refuse(self, f"row {i}", row.tolist(), "but it should be within single precision")

    def check(self, n_features: int) -> None:
        """Raise an error if a stored sample has more than `n_features` features."""
        super().check(n_features)
        for i, row in enumerate(self.rows):
            if row.ndim != 1 or len(row) > n_features:
                refuse(self, f"row {i}", row.shape, f"but {n_features} features are known")

    def lifetimes(self, directions: Directions, names: Sequence[Hashable]) -> list[float]:
        """Return a geometric grid of lifetimes around 1 / (median distance of two samples).

        Only pairs of different samples that are at most three samples apart count.
        """
        rows = np.full((len(self.rows), max(map(len, self.rows))), np.nan)
        for row, values in zip(rows, self.rows, strict=True):
            row[: len(values)] = values
        gaps = [_gaps(rows[k:], rows[:-k]) for k in (1, 2, 3) if k < len(rows)]
        distances = arguments.distances(directions, names, np.concatenate([rows[:0], *gaps]))
        distances = distances[distances > 0.0]
        median = float(np.median(distances)) if len(distances) else 1.0
        return (np.geomspace(*GRID_ENDS, GRID_SIZE) / median).tolist()


def _gaps(first: Floats, second: Floats) -> Floats:
    """Return the differences of samples; different levels of a category differ by `MEAN_GAP`."""
    gaps = first - second
    gaps[(first >= LEAST_LEVEL) & (gaps != 0.0) & ~np.isnan(gaps)] = MEAN_GAP
    return gaps


@dataclass(eq=False, repr=False)
class MondrianFeatures(kinds.CellFeatures):
    """Mondrian features of the Laplace kernel.

    Each partition is a Mondrian process on the smallest box around the samples, up to the time
    `lifetime`. A box is cut at a rate equal to the sum of its side lengths. The cut's feature is
    chosen in proportion to the side lengths, and the cut's position on this side is uniform. Both
    parts of the box are cut in the same way[^1]. The kernel of two samples x and y is the share of
    partitions in which both fall into the same cell, and 1 for a sample with itself. For learned
    samples of numbers without missing values, with the default `directions` and a number as
    `lifetime`, the kernel is an unbiased estimate of exp(-lifetime |x - y|_1)[^2].

    `learn_one` extends the partitions by the conditional Mondrian process. If no values are
    missing, the partitions always have the same distribution as partitions drawn from all samples
    at once. Each sample has one cell per partition, with the value 1 / sqrt(n_partitions). A new
    cell is a new column, `"mondrian_{partition}_{cell}"`. The columns of a learned sample without
    missing values do not change, unless `lifetime` is "auto".

    Features are not rescaled, so the lifetime depends on the units of the features.

    Parameters
    ----------
    n_partitions
        Number of partitions. The kernel's standard error is at most 0.5 / sqrt(n_partitions).
    lifetime
        Time at which cutting stops, and the kernel's decay rate per unit of the features. A frozen
        distribution of `scipy.stats` is sampled once for each partition. With "auto", an
        `OGDClassifier` or `OGDRegressor` weights several lifetimes by its loss (see the notes).
    directions
        Directions in which to cut: None for the axes, a number of random directions for each
        partition, or a sequence of mappings from feature to coefficient. See the notes.
    seed
        Random seed for reproducibility.

    Notes
    -----
    `transform_one` does not change the map. For a new sample, `transform_one` returns the cell at
    the end of the sample's path in each partition. Learning the sample might separate it from this
    cell, and the cell's value ignores this probability. Otherwise, the kernel of a new sample with
    itself would not be 1.

    With lifetime "auto", the partitions grow to the largest of 16 lifetimes. One path from the root
    passes through the cells of all lifetimes. The lifetimes are 1/8 to 128 times the inverse of the
    median distance of two of the first 256 samples. `OGDClassifier` and `OGDRegressor` keep weights
    for each lifetime and mix the predictions. The mixture has exponential weights, computed from
    the errors of predictions that are made before each sample is learned. The learners' attribute
    `lifetimes` contains these weights; predictions ignore weights below .001. The transformer alone
    has no loss, so it cannot choose a lifetime.

    A feature that is absent or NaN is missing, and is ignored in distances. At a cut on a missing
    feature, the path takes the child that is nearer in the other features. If both children are
    equally near, the path takes the child with more samples. Therefore, `kernel` estimates the
    Laplace kernel only for samples without missing values.

    With `directions`, the partitions are STIT processes[^3], which cut weighted sums of features
    instead of features. If `directions` are mappings, they are the rows of a matrix U, the same for
    all partitions. The kernel's limit for many partitions is exp(-lifetime |U (x - y)|_1). A
    direction with a larger norm thus has a larger weight in the distance. Random directions are
    uniformly distributed in the space of the first sample's d features. The norm of a direction is
    d kappa_d / (2 kappa_(d-1) n), where kappa_d is the volume of the unit ball in d dimensions.
    With this norm, the limit tends to exp(-lifetime |x - y|_2) as the number n of directions grows.
    A feature that appears later gets normally distributed coefficients with the mean absolute value
    1 / n. A missing value counts as the mean of the learned values. In samples before a feature's
    first value, the feature counts as this first value. A direction is missing if all its features
    are missing.

    In each partition, a hash maps each level of a category to a number in [0, 1], and cuts separate
    these numbers. At lifetime l, two levels are in the same cell with probability 2 (l - 1 +
    exp(-l)) / l^2.

    If the lifetime is a distribution, the kernel is a mixture. At distance h, the kernel is (rate /
    (rate + h))^shape for a gamma distribution. For a uniform distribution on [a, b], the kernel is
    (exp(-a h) - exp(-b h)) / (h (b - a)). `limit_kernel` returns the mixture.

    The time per sample is proportional to the number of partitions and to their depth. Memory grows
    only with new cells, by 50 to 100 bytes per cell, and by 8 to 12 bytes per cell and feature. A
    sample with new cells in only a few of many partitions needs 4 more bytes per partition.

    Examples
    --------

    >>> from river import datasets, evaluate, linear_model, metrics, optim, preprocessing
    >>> from river_mondrian import MondrianFeatures

    >>> model = (
    ...     preprocessing.StandardScaler()
    ...     | MondrianFeatures(lifetime=1.0, seed=42)
    ...     | linear_model.LogisticRegression(optim.SGD(1.0))
    ... )
    >>> dataset = datasets.Bananas().take(2000)
    >>> metric = evaluate.progressive_val_score(dataset, model, metrics.Accuracy())
    >>> metric.get() > 0.8
    True

    >>> features = MondrianFeatures(n_partitions=1000, lifetime=2.0, seed=42)
    >>> features.learn_one({"a": 0.1, "b": 0.0})
    >>> features.learn_one({"a": 0.0, "b": 0.1})
    >>> round(features.kernel({"a": 0.1, "b": 0.0}, {"a": 0.0, "b": 0.1}), 1)  # exp(-0.4)
    0.7
    >>> round(features.limit_kernel({"a": 0.1, "b": 0.0}, {"a": 0.0, "b": 0.1}), 4)
    0.6703

    >>> oblique = MondrianFeatures(directions=[{"a": 1.0, "b": 1.0}, {"a": 1.0, "b": -1.0}])
    >>> round(oblique.limit_kernel({"a": 0.1, "b": 0.0}, {"a": 0.0, "b": 0.1}), 4)  # exp(-0.2)
    0.8187

    References
    ----------
    [^1]: Lakshminarayanan, B., Roy, D. M. and Teh, Y. W. (2014). Mondrian Forests: Efficient Online
    Random Forests. Advances in Neural Information Processing Systems 27. Algorithms 1 to 4.
    [^2]: Balog, M., Lakshminarayanan, B., Ghahramani, Z., Roy, D. M. and Teh, Y. W. (2016). The
    Mondrian Kernel. Uncertainty in Artificial Intelligence 32. Sections 3 and 5, Proposition 1.
    [^3]: O'Reilly, E. and Tran, N. M. (2022). Stochastic Geometry to Generalize the Mondrian
    Process. SIAM Journal on Mathematics of Data Science 4. Theorems 3.1, 4.1 and 4.2, Corollary
    4.2, Equations 9 and 10. The lifetime in Equation 9 is ours times d kappa_d / (2 kappa_(d-1)),
    and in Equation 10 ours times n.

    """

    n_partitions: int = 50
    lifetime: Any = 1.0
    directions: Directions = None
    seed: int | None = None

    def __post_init__(self) -> None:
        self._auto = isinstance(self.lifetime, str) and self.lifetime == "auto"
        if arguments.is_distribution(self.lifetime):
            arguments.check_lifetime(self.lifetime)
        elif not self._auto:
            arguments.check_positive("lifetime", self.lifetime)
        super().__post_init__()
        self._mixes = False

    _MAPS = (MondrianMap,)
    _grows = True

    @property
    def _takes_levels(self) -> bool:  # type: ignore[override]
        # Directions are weighted sums, so features must be numbers.
        return self.directions is None

    def _own_copy(self, mixes: bool = False) -> base.FeatureMap:
        features = copy.deepcopy(self)
        if self._auto:
            features._mixes, features._pool = mixes, _Start()
            features._check_alone()
        return features

    def _begin(self) -> MondrianMap:
        """Return a new map that has learned the stored samples."""
        names = self._reader.index.names
        # The infinite lifetime is a placeholder, which the map replaces by the largest of its
        # lifetimes.
        partitions = Partitions(self.n_partitions, math.inf, self.directions, seed=self.seed)
        compiled = MondrianMap(partitions, self._pool.lifetimes(self.directions, names))
        for values in self._pool.rows:
            old = compiled.n_inputs
            if len(values) > old:
                compiled.add_inputs(names[old : len(values)], values[old:])
                compiled.complete()
            self._reader.vector.fill(np.nan)
            self._reader.vector[: len(values)] = values
            compiled.learn(self._reader.whole)
        compiled.forget_before()
        return compiled

    def _changing(self) -> list[Any]:
        trees = [] if self._map is None else [self._map.trees]
        return [*super()._changing(), *trees]

    def _knows(self, x: Mapping[Any, Any]) -> bool:
        return self._map is not None and self._pool is None and self._reader.knows(x)

    def _observe(self, values: Mapping[Hashable, float]) -> list[Callable[[], object]]:
        self._reader.add(values)
        if self._pool is not None and self._store(values):
            return []
        compiled = self._with_features(values)
        return [partial(self._learn_observed, compiled, compiled.trees.n_samples, values)]

    def _store(self, values: Mapping[Hashable, float]) -> bool:
        """Store one of the first samples; return whether the map has been rebuilt."""
        row = np.full(len(self._reader.index), np.nan)
        for name, value in values.items():
            row[self._reader.index.index_of[name]] = value
        self._pool.rows = [*self._pool.rows, row]
        n = len(self._pool)
        if n & (n - 1):
            return False
        if self._map is not None:
            # A learner may still use the old map for predictions, but data for learning are no
            # longer needed.
            self._map.forget_before()
        self._map = self._begin()
        if n == MEDIAN_SAMPLES:
            self._pool = None
        return True

    def _with_features(self, values: Mapping[Hashable, float]) -> MondrianMap:
        """Create the map if there is none, add the reader's new features, and return the map."""
        if self._map is None:
            options = self.n_partitions, self.lifetime, self.directions
            self._map = MondrianMap(Partitions(*options, seed=self.seed))
        new = self._reader.index.names[self._map.n_inputs :]
        if new:
            self._map.add_inputs(new, np.array([values[name] for name in new]))
        return self._map

    def _learn_observed(
        self, compiled: MondrianMap, n_before: int, values: Mapping[Hashable, float]
    ) -> None:
        """Learn a checked sample, unless the map has already learned it."""
        compiled.complete()
        if compiled.trees.n_samples == n_before:
            compiled.learn(self._reader.read(values, self._takes_levels))

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Extend the partitions by a sample.

        Parameters
        ----------
        x
            A mapping from feature to number or, without `directions`, to a level of a category: a
            string or truth value. NaN and None are the same as an absent key.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or does not have its feature's type.
        ValueError
            If a value is infinite or too large for single precision.

        """
        with self._lock:
            self._settle()
            if not self._knows(x):
                self._check_alone()
                self._learn_new(self._read_values(x))
                return
            bad = self._learn_known(self._locate(x, self._map))
            if bad >= 0:
                raise self._bad_input(bad, x)

    def _learn_known(self, sample: Sample) -> int:
        """Extend the partitions by a sample; return DONE or the index of an invalid input."""
        compiled = self._map
        self._pending = compiled
        bad = compiled.learn(sample)
        self._pending = None
        return bad

    def _check_alone(self) -> None:
        if self._auto and not self._mixes:
            raise ValueError(
                'lifetime="auto" is chosen by a loss: use it in OGDClassifier or OGDRegressor'
            )

    def _rows(self, names: Sequence[Hashable], columns: Floats) -> Iterator[Sample] | None:
        # Each row is mapped before the next row is learned, because later samples may change the
        # cell of a sample with missing values.
        return _samples(self._reader.arrange(names, columns))

    def _learn_rows(self, names: Sequence[Hashable], columns: Floats) -> None:
        self._check_alone()
        new = {*self._new_rows(names, columns), *([0] if self._map is None else [])}
        for start, stop in itertools.pairwise([*sorted({0, *new}), len(columns)]):
            first = start
            if start in new:
                self._learn_new(frames.mapping_of(names, columns[start]))
                first += 1
            for sample in _samples(self._reader.arrange(names, columns[first:stop])):
                self._learn_known(sample)

    def _cells(self, columns: Array) -> Array:
        compiled = self._map
        return compiled.trees.owners[columns, 1].astype(np.int64)

    @locked
    def limit_kernel(self, x: Mapping[Any, Any], y: Mapping[Any, Any]) -> float:
        """Return the limit of the kernel as the number of partitions grows.

        The limit is the mean of exp(-lifetime h) over the lifetimes. The distance h is |x - y|_1
        for cuts along the axes, and |U (x - y)|_1 for given directions. For random directions, h is
        |x - y|_2, the limit for infinitely many directions. If levels of a category differ, the
        mean is also over the random places of the levels.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level of a category.
        y
            Another sample. A feature that is missing in one of the samples is ignored.

        Returns
        -------
        The limit kernel, in closed form for a fixed lifetime. If no levels of categories differ,
        gamma, exponential and uniform distributions have a closed form, too. In other cases, the
        limit is integrated numerically.

        Raises
        ------
        TypeError
            If a value is neither a number nor a level, or does not have its feature's type.
        ValueError
            If a value is infinite or too large for single precision, or the lifetime is "auto".

        """
        if self._auto:
            raise ValueError(
                'limit_kernel needs a given lifetime, got "auto", which a loss chooses'
            )
        first, index = self._read_values(x), self._reader.index
        # If the map does not know a feature, the first sample's value fixes the type for both
        # samples.
        plain = {name: float(value) for name, value in index.new_of(first).items()}
        second = index.with_more(plain).read(y, self._takes_levels)
        names = [name for name in first if name in second]
        levels = [name for name in names if first[name] >= LEAST_LEVEL]
        names = [name for name in names if name not in levels]
        gaps = np.array([[first[name] - second[name] for name in names]])
        n_levels = sum(first[name] != second[name] for name in levels)
        h = float(arguments.distances(self.directions, names, gaps)[0])
        return arguments.laplace_transform(self.lifetime, h, n_levels)

    @locked
    def cut_directions(self, partition: int = 0) -> list[dict[Any, float]]:
        """Return the directions in which a partition is cut.

        Parameters
        ----------
        partition
            Number of the partition.

        Returns
        -------
        For each direction, a mapping from feature to coefficient; without `directions`, a mapping
        for each feature. The list is empty before the first sample.

        """
        arguments.check_index("partition", partition, self.n_partitions)
        trees = None if self._map is None else self._map.trees
        return [] if trees is None else trees.reader.directions_of(partition, self.feature_names)

    @property
    @locked
    def n_samples(self) -> int:
        """Number of learned samples."""
        return 0 if self._map is None else self._map.trees.n_samples

    @property
    def feature_names(self) -> list[Any]:
        """Names of the known features, in order of appearance."""
        return list(self._reader.index.names)

    @locked
    def nodes(self, partition: int) -> list[CellView]:
        """Return the nodes of a partition's tree in preorder, with boxes, cuts and times.

        Parameters
        ----------
        partition
            Number of the partition.

        Returns
        -------
        The nodes, with features in order of appearance. The `cell` of a leaf is the index of the
        cell's column in `to_csr`. With `directions`, `dim` is the number of a direction, a box has
        a side for each direction, and values are relative to the first sample. The list is empty
        before the first sample.

        """
        arguments.check_index("partition", partition, self.n_partitions)
        return [] if self._map is None else self._map.trees.reader.read(partition)

    def draw_partition(
        self, partition: int = 0, time: float = math.inf, ax: Axes | None = None
    ) -> Axes:
        """Draw the cells of a partition at a given time; see `river_mondrian.plot.partition`.

        Parameters
        ----------
        partition
            Number of the partition.
        time
            Time of the Mondrian process; later cuts are omitted.
        ax
            Axes of matplotlib to draw on; None for the axes of a new figure.

        Returns
        -------
        The axes.

        Raises
        ------
        RuntimeError
            If no sample has been learned.
        ValueError
            If there are not exactly two features.

        """
        from ..plot.planes import partition as draw

        return draw(self, partition, time, ax)

    @locked
    def _plane(self, partition: int, time: float) -> Plane:
        """Return the cells of a partition at a given time of the Mondrian process."""
        if self._map is None:
            raise RuntimeError("MondrianFeatures has to learn samples first")
        arguments.check_index("partition", partition, self.n_partitions)
        check_plane(self.feature_names)
        reader = self._map.trees.reader
        cells = cells_of_plane(reader, partition, reader.read(partition), time)
        return Plane(list(cells.values()), [], None, self.feature_names)


def _samples(rows: Floats) -> Iterator[Sample]:
    """Yield an array's rows as samples; each sample is valid until the next sample is yielded."""
    memory = Memory(Sample)
    sample, values, width = memory[0], Float64s.of(np.ascontiguousarray(rows)), rows.shape[1]
    for start in range(0, rows.size, width):
        sample.values = values.part(start, width)
        yield sample
