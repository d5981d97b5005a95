"""Density estimation with Mondrian forests on the whole space."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from river import base

from .. import arguments, checks, frames, model
from ..density.trees import ESTIMATORS, PivotTrees
from ..density.walks import check_oblique
from ..inputs import FeatureIndex, Floats, check_value, ordered
from ..limits import DONE, WAITS
from ..progress import PIECE, Progress
from .density_readings import SHORTEST_LIFETIME, DensityReadings, check_lifetime_size

# Largest number of features. The bound limits the time of a call, because each tree processes each
# feature, and one call may redraw the trees from 256 samples.
MOST_DENSITY_DIMS = 2048


def drawn_matrices(n: int, d: int, n_trees: int, seed: int) -> Floats:
    """Draw `n` random directions of `d` features for each tree, shape (trees, n, d).

    Raises
    ------
    ValueError
        If `d` is above 3, or there are fewer directions than features.

    """
    sequence = np.random.SeedSequence(seed, spawn_key=(arguments.DIRECTION_DRAWS,))
    generator = np.random.default_rng(sequence)
    drawn = [arguments.sphere_directions(n, d, generator) for _ in range(n_trees)]
    for matrix in drawn:
        check_oblique(matrix)
    return np.array(drawn)


def declared(directions: Any, origin: Any) -> tuple[list[Any], list[float] | None]:
    """Check the origin and directions, and return the features and their values at the origin.

    Returns
    -------
    The names of the features, and their values at the origin. The values are None without an
    origin.

    """
    names: list[Any] = []
    if isinstance(directions, Sequence):
        names = ordered({name for direction in directions for name in direction})
        check_oblique(arguments.coefficients(directions, names))
    if origin is None:
        return names, None
    if not isinstance(origin, Mapping) or not origin:
        raise ValueError(f"origin must be a mapping from feature to number, got {origin!r}")
    if names and set(names) != set(origin):
        raise ValueError(f"directions name the features {names}, but the origin {[*origin]}")
    values = {name: check_value(name, origin[name]) for name in ordered(origin)}
    for name, value in values.items():
        if value != value:
            raise ValueError(f"feature {name!r} must be finite at the origin, got {origin[name]!r}")
    return [*values], [*values.values()]


# The value of `lifetime` for a mixture of lifetimes.
AUTO = "auto"


@dataclass(eq=False, repr=False)
class DensityForest(DensityReadings, base.AnomalyDetector):
    """Mondrian forest for density estimation and anomaly detection.

    Each tree is a Mondrian process on the whole space: a random partition into cells. Without
    `directions`, cells are boxes. A box is cut at a rate equal to the sum of its side lengths,
    until the time reaches the lifetime. With `method="forest"`, a tree's density at a point is the
    share of samples in the point's cell, divided by the cell's volume (Equation 13 of [^1]). The
    forest's density is then the mean over the trees, and integrates to 1. Without `directions` and
    with one lifetime, it tends to `exact_density` as the number of trees grows. By default, the
    density is instead a mixture over lifetimes, computed with `method="kernel"`, and integrates to
    1 only approximately.

    A tree does not store cells, but only the regions that separate samples. A region takes 32 bytes
    with any number of features. Volumes of cells are computed when they are needed. Predictions do
    not change the model.

    Parameters
    ----------
    n_estimators
        Number of trees.
    lifetime
        Time at which cutting stops. At this time, two samples x and y are in one cell with
        probability exp(-lifetime |x - y|_1). In each feature, the cell of a sample is 2 / lifetime
        wide on average. With "auto", features are divided by their widths, and the density is a
        mixture over the lifetimes 64, 32, 16, ... The weight of a lifetime depends on the densities
        of the learned samples at this lifetime. A number above 0 is the lifetime for features in
        their own units. A frozen `scipy.stats` distribution is sampled once for each tree. A
        function maps the number of samples to the lifetime, which must not decrease. None means
        n^(1 / (d + 2)) for n samples of d features, which makes the estimator consistent (Corollary
        5.2 of [^1]). With `directions` or an `origin`, "auto" is the same as None.
    method
        "forest" is the mean over trees of share / volume (see above). "laplace" is the mean share
        divided by the mean volume. This method approximates the kernel density estimate with the
        Laplace kernel (Section 5 of [^1]). "kernel" is the mean share divided by the expected
        volume, (2 / lifetime)^d. This method approximates the same estimate without the noise of
        volumes. "kernel" suits data with many features, but needs cuts along the axes. None means
        "kernel" if lifetimes are mixed, else "forest". Methods that need volumes use the lifetime
        with the largest weight instead of a mixture.
    window
        Number of the latest samples in the trees; older samples are removed. None keeps all
        samples. `window` and `max_nodes` cannot be combined with an `origin`.
    max_nodes
        Largest number of regions in all trees together. If another sample could need more regions,
        the oldest samples are removed first. At most `max_nodes` / `n_estimators` samples are
        stored. None sets no limit.
    directions
        None for cuts along the axes; mappings from feature to coefficient; or a number of random
        directions per tree. Each mapping is a direction in which to cut, at a rate equal to its
        norm. The mappings must span the space of their features. Random directions are uniform on
        the unit sphere, in the space of the first sample's features. Random directions are scaled
        so that, with many directions, two samples x and y are in one cell with probability
        exp(-lifetime |x - y|_2). With `directions`, at most 3 features are allowed, and computing a
        cell takes several microseconds.
    origin
        A mapping from each feature to a number: the starting point of the trees, instead of the
        first sample. Other features are ignored. Unless the lifetime grows, the partition then
        depends only on the arguments, not on the samples. Forests with the same arguments, seed
        included, can thus learn different samples and then be merged (`merge`). With None, trees
        start at the first sample, and new features may appear.
    seed
        Random seed for reproducibility.

    Notes
    -----
    With d features, the lifetime of a Mondrian process in [^1] is d times the lifetime here. The
    formulas here agree with Theorem 5.1 of [^1].

    For "auto", a feature's width is the distance between the .05 and .95 quantiles of its values in
    the first 256 samples. Widths are renewed and trees are redrawn after 16, 64 and 256 samples.
    Redrawing the trees takes as long as learning these samples. If the two quantiles are equal, the
    width is the mean distance from the median, over the values that differ from the median. If all
    values are equal, the width is the distance to the first later value that differs. With other
    lifetimes, features are not scaled: scale them to comparable ranges.

    Without an `origin`, the partition depends on the seed, the samples and their order. In a region
    without samples, the cell of a point is the cell that the point would have as the region's first
    sample.

    Without `directions` or an `origin`, a feature may appear at any time; its first value counts as
    its value in earlier samples. A missing value counts as the mean of the feature's earlier
    values. Before the feature's first value, a missing value counts as the value at the `origin` if
    the lifetime is fixed, and otherwise as 0. Predictions ignore unknown features.

    Regions take at most 32 bytes per sample and tree. A sample takes 8 d + 8 more bytes if it can
    be removed or is the first sample of a region. A region whose first sample was removed is kept
    while it has other samples. Learning or scoring a sample takes time proportional to d times the
    depth of the trees. With an `origin` and a fixed lifetime, memory is 32 bytes for each region on
    the path to a sample's cell, and samples are not stored.

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

    >>> from river import datasets, metrics

    >>> detector = DensityForest(30, seed=42)
    >>> metric = metrics.ROCAUC()
    >>> for x, y in datasets.Shuttle().take(3000):
    ...     metric.update(y, detector.score_one(x))
    ...     detector.learn_one(x)
    >>> float(metric.get()) > 0.9
    True

    References
    ----------
    [^1]: O'Reilly, E. and Tran, N. M. (2022). Stochastic Geometry to Generalize the Mondrian
    Process. SIAM Journal on Mathematics of Data Science 4(2). Sections 3 and 5.

    """

    n_estimators: int = 100
    lifetime: Any = "auto"
    method: str | None = None
    window: int | None = None
    max_nodes: int | None = None
    directions: Any = None
    origin: Mapping[Any, float] | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        lifetime, origin, directions = self.lifetime, self.origin, self.directions
        is_auto = isinstance(lifetime, str) and lifetime == AUTO
        is_function = callable(lifetime) and not arguments.is_distribution(lifetime)
        if is_function:
            arguments.check_takes("lifetime", lifetime, "n")
        elif not (lifetime is None or is_auto):
            arguments.check_lifetime(lifetime)
            if arguments.is_real(lifetime):
                check_lifetime_size(lifetime)
        if self.method is not None and self.method not in [*ESTIMATORS]:
            raise ValueError(f"method must be one of {[*ESTIMATORS]} or None, got {self.method!r}")
        arguments.check_integer("max_nodes", self.max_nodes, self.n_estimators, None)
        if (self.window or self.max_nodes) and origin is not None:
            raise ValueError("window and max_nodes need trees without an origin")
        if self.method == "kernel" and directions is not None:
            raise ValueError('method "kernel" needs cuts along the axes, got directions')
        self._trees: PivotTrees | None = None
        self._grows = lifetime is None or is_function or (is_auto and not self._is_auto)
        self._features = FeatureIndex().with_more(declared(directions, origin)[0])

    _REHEARSED: ClassVar[Mapping[str, Any]] = {"n_estimators": 2}

    @property
    def _is_auto(self) -> bool:
        """Whether the density is a mixture over lifetimes, in units of the features' widths."""
        is_auto = isinstance(self.lifetime, str)
        return is_auto and self.directions is None and self.origin is None

    @property
    def _estimator(self) -> str:
        """The estimation method: `method`, or its default, which depends on the lifetime."""
        return self.method or ("kernel" if self._is_auto else "forest")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        checks.check_types(self, {"_trees": (type(None), PivotTrees)})
        trees = self._trees
        if trees is not None:
            forest = trees.forest
            for name, value, expected in (
                ("n_inputs", forest.n_inputs, len(self._features)),
                ("n_trees", len(trees.trees), self.n_estimators),
                ("adapts", forest.adapts == 1, self._is_auto),
                ("estimator", forest.estimator, ESTIMATORS[self._estimator]),
                ("window", forest.window, self.window or 0),
                ("max_nodes", forest.max_nodes, self.max_nodes or 0),
                ("directions", trees.directions is None, self.directions is None),
                ("origin", trees.origin is None, self.origin is None or self._grows),
            ):
                checks.check_number(self, name, value, expected, expected)

    # Interrupted calls.

    def _settle(self) -> None:
        """Complete an interrupted call, and remove features that the trees do not have."""
        trees = self._trees
        if trees is None:
            n_declared = len(declared(self.directions, self.origin)[0])
            self._features = self._features.first(n_declared)
        elif trees.is_unfinished[0]:
            self._features = self._features.first(trees.n_inputs)
            trees.settle()

    # Learning.

    @property
    @model.locked
    def feature_names(self) -> list[Any]:
        """The known features, in the order of the trees' inputs."""
        return list(self._features.names)

    @property
    def n_samples(self) -> int:
        """Number of learned samples."""
        return 0 if self._trees is None else self._trees.n_samples

    def _lifetime_at(self, n: int, d: int, last: float) -> float:
        """Return the lifetime for `n` samples of `d` features, at least `last`.

        Raises
        ------
        ValueError
            If a user's function returns a lifetime below `last`, or an invalid lifetime.

        """
        if self.lifetime is None or isinstance(self.lifetime, str):
            return max(last, math.pow(n, 1.0 / (d + 2)))
        lifetime = self.lifetime(n)
        check_lifetime_size(lifetime, f" for {n} samples")
        if lifetime < last:
            raise ValueError(f"lifetime must not fall, got {lifetime!r} at n = {n} after {last!r}")
        return float(lifetime)

    def _begin(self, names: list[Hashable]) -> PivotTrees:
        """Return trees without samples; `names` are the first sample's features."""
        seed = arguments.draw_seed(self.seed)
        lifetimes = matrix = None
        if self._grows:
            lifetimes = np.full(self.n_estimators, SHORTEST_LIFETIME)
        elif not self._is_auto:
            lifetimes = arguments.draw_lifetimes(self.lifetime, self.n_estimators, seed)
            for lifetime in lifetimes.tolist():
                check_lifetime_size(lifetime)
        if isinstance(self.directions, Sequence):
            matrix = arguments.coefficients(self.directions, self._features.names)[None]
        elif self.directions is not None:
            d = len(self._features) or len(names)
            matrix = drawn_matrices(int(self.directions), d, self.n_estimators, seed)
        n_inputs = len(self._features) if matrix is None else matrix.shape[2]
        # If the lifetime grows, the partition depends on the samples even with an `origin`, so
        # trees start at the first sample.
        origin = None if self._grows else declared(self.directions, self.origin)[1]
        limits = self._grows, self._estimator, self.window, self.max_nodes
        return PivotTrees(lifetimes, self.n_estimators, seed, n_inputs, *limits, matrix, origin)

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Learn a sample.

        Parameters
        ----------
        x
            A mapping from feature to number. NaN is the same as an absent key.

        Raises
        ------
        TypeError
            If a value is not a number.
        ValueError
            If a value is infinite or too large for single precision, the lifetime decreases, or
            there are more than 2,048 features. The same error is raised if there are random
            directions for more than 3 features, or fewer random directions than features. In all
            these cases, the forest has not changed.

        """
        with self._lock:
            trees = self._trees
            if trees is not None:
                if trees.is_unfinished[0]:
                    self._settle()
                lifetime = math.nan
                if self._grows:
                    n = trees.n_samples + 1
                    lifetime = self._lifetime_at(n, len(self._features), trees.lifetime)
                if self._features.read_known(x, trees.vector):
                    bad = trees.learn(lifetime)
                    if bad == DONE:
                        return
                    if bad != WAITS:
                        raise self._too_large(bad, x)
            values = self._features.read(x)
            names = ordered(values)
            self._learn_rows(names, np.array([[values[name] for name in names]]))

    def learn_many(self, X: Any, *, progress: bool = False) -> None:
        """Learn the rows of a frame, in order, with the same result as `learn_one` on each row.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...
            Values are numbers; nulls and NaN are missing values.
        progress
            Whether to show the number of learned rows on stderr, with tqdm if it is installed, else
            as text. The result does not depend on `progress`. After Ctrl-C, each row has been
            learned completely or not at all.

        Raises
        ------
        TypeError
            If a column contains a value that is not a number.
        ValueError
            As for `learn_one`, or if a column occurs twice. Then the forest has not changed.

        """
        _, names, columns = frames.read_frame(X)
        if len(columns) > 0:
            self._learn_rows(names, columns, progress)

    def _new_features(self, names: Sequence[Hashable], columns: Floats) -> dict[Hashable, int]:
        """Return the features that rows add, each with the row of its first value."""
        if self.origin is not None:
            return {}
        if self.directions is not None:
            if self._trees is not None or isinstance(self.directions, Sequence):
                return {}
            columns = columns[:1]
        return self._features.first_rows(names, columns)

    def _lifetimes(self, names: Sequence[Hashable], columns: Floats) -> Floats | None:
        """Return the lifetime after each row, shape (rows,); None if the lifetime is fixed."""
        if not self._grows:
            return None
        trees, n = self._trees, self.n_samples
        last = 0.0 if trees is None else trees.lifetime
        added = np.zeros(len(columns), dtype=int)
        for row in self._new_features(names, columns).values():
            added[row] += 1
        n_features = (len(self._features) + np.cumsum(added)).tolist()
        lifetimes = np.empty(len(columns))
        for i, d in enumerate(n_features):
            lifetimes[i] = last = self._lifetime_at(n + i + 1, d, last)
        return lifetimes

    def _learn_rows(
        self, names: Sequence[Hashable], columns: Floats, progress: bool = False
    ) -> None:
        """Learn checked rows, which may have new features."""
        with self._lock:
            self._settle()
            n = len(self._features) + len(self._new_features(names, columns))
            if n > MOST_DENSITY_DIMS:
                raise ValueError(
                    f"densities are estimated for at most {MOST_DENSITY_DIMS} features, got {n}: "
                    "select features, or use a RandomCutForest"
                )
            n_before, lifetimes = self.n_samples, self._lifetimes(names, columns)
        start = 0
        with Progress(progress, len(columns)) as shown:
            while start < len(columns):
                # The lock is taken for each block of rows, so that other threads can call between
                # blocks.
                with self._lock:
                    self._settle()
                    limit = 1 if self._trees is None else max(1, self._trees.rows_at_once)
                    stop = start + (min(limit, PIECE) if progress else limit)
                    ends = None if lifetimes is None else lifetimes[start:stop]
                    if ends is not None and self.n_samples != n_before + start:
                        # Another thread has learned samples, so the row numbers, on which lifetimes
                        # depend, have changed.
                        ends = self._lifetimes(names, columns[start:stop])
                    start += self._learn_part(names, columns[start:stop], ends)
                shown.reach(start)

    def _learn_part(
        self, names: Sequence[Hashable], columns: Floats, lifetimes: Floats | None
    ) -> int:
        """Learn the rows before the next new feature, or one row with a new feature.

        Return the number of learned rows.
        """
        trees, index = self._trees, self._features
        first = self._new_features(names, columns)
        new = [name for name, row in first.items() if row == 0]
        renews = trees is not None and trees.rows_until_renewal == 0
        if trees is not None and not new and not renews:
            stop = min([len(columns), *first.values()])
            rows = index.arrange(names, columns[:stop], len(index))
            trees.learn_many(rows, None if lifetimes is None else lifetimes[:stop])
            return stop
        # New or copied trees learn the row and then replace the trees, so that an interrupted call
        # changes nothing.
        if trees is None and not new and isinstance(self.directions, int):
            # Random directions are drawn for the features of the first sample with values, so a
            # sample without values is skipped.
            return 1
        if trees is None:
            renewed = self._begin(new)
        else:
            renewed = trees.renewed() if renews else trees.copied()
            trees.close()
        self._features = index = index.with_more(new)
        if self.directions is None:
            values = frames.mapping_of(names, columns[0])
            renewed.add_inputs(np.array([values[name] for name in new], dtype=np.float64))
        rows = index.arrange(names, columns[:1], len(index))
        renewed.learn_many(rows, None if lifetimes is None else lifetimes[:1])
        self._trees = renewed
        return 1
