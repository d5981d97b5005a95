"""Feature maps of kernels: isolation, random Fourier, random binning and Nyström features."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy

from .. import frames, limits, model, samples
from ..arguments import check_integer, check_kernel, check_positive, draw_seed
from ..inputs import Floats
from ..maps.binning import UNKNOWN_COLUMN, BinningMap
from ..maps.binning import learn_one as learn_in_room
from ..maps.dense import FourierMap, NystromMap
from ..maps.record import Array, CompiledMap, Pool, Sample
from ..partitions.isolation import IsolationTreesMap
from ..partitions.voronoi import cuda, diagrams
from .base import share_of_equals
from .kinds import ByFeature, CellFeatures, Pooled


@dataclass(eq=False, repr=False)
class RandomFourierFeatures(ByFeature):
    """Random Fourier features of the Gaussian or the Laplace kernel.

    The kernel of two samples x and y is the mean of cos(w . (x - y)) over random frequencies w. The
    distribution of w is the kernel's Fourier transform[^1]: normal for the Gaussian kernel, and
    Cauchy in each feature for the Laplace kernel. Each frequency has two features, the cosine and
    the sine of w . x. The dot product of two samples' features is an unbiased estimate of the
    kernel, and 1 for a sample with itself. A common alternative has one feature for each frequency:
    the cosine of w . x plus a random phase. Then the dot product of a sample with itself is 1 only
    on average, and the estimate for close samples has a larger variance[^2].

    An input feature that is absent or NaN counts as 0. A feature may appear at any time. The name
    of a feature and the seed determine the feature's frequencies, so the order and the time of
    appearance do not matter. River's `RBFSampler` instead maps each feature separately, so its
    kernel is additive.

    Parameters
    ----------
    n_components
        Number of output features, an even number: two for each frequency. The kernel's standard
        error is at most 1 / sqrt(n_components).
    kernel
        "gaussian" for exp(-gamma |x - y|_2^2) or "laplace" for exp(-lifetime |x - y|_1).
    lifetime
        Rate of the Laplace kernel, per unit of the features.
    gamma
        Rate of the Gaussian kernel, per squared unit of the features.
    seed
        Random seed for reproducibility.

    Notes
    -----
    Memory grows by 4 `n_components` bytes per input feature, so texts need much memory.

    Examples
    --------

    >>> from river import datasets, evaluate, linear_model, metrics, optim, preprocessing
    >>> from river_mondrian import RandomFourierFeatures

    >>> model = (
    ...     preprocessing.StandardScaler()
    ...     | RandomFourierFeatures(gamma=1.0, seed=42)
    ...     | linear_model.LogisticRegression(optim.SGD(1.0))
    ... )
    >>> dataset = datasets.Bananas().take(2000)
    >>> metric = evaluate.progressive_val_score(dataset, model, metrics.Accuracy())
    >>> metric.get() > 0.8
    True

    >>> import pandas as pd
    >>> features = RandomFourierFeatures(n_components=2000, kernel="laplace", seed=42)
    >>> frame = pd.DataFrame({"a": [0.1, 0.0], "b": [0.0, 0.1]})
    >>> features.learn_many(frame)
    >>> features.gram(frame).round(1)[0, 1]  # exp(-0.2)
    np.float64(0.8)

    References
    ----------
    [^1]: Rahimi, A. and Recht, B. (2007). Random Features for Large-Scale Kernel Machines.
    Advances in Neural Information Processing Systems 20. Algorithm 1.
    [^2]: Sutherland, D. J. and Schneider, J. (2015). On the Error of Random Fourier Features.
    Uncertainty in Artificial Intelligence 31. Section 2.

    """

    n_components: int = 100
    kernel: str = "gaussian"
    lifetime: float = 1.0
    gamma: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        check_integer("n_components", self.n_components, 2)
        if self.n_components % 2:
            raise ValueError(f"n_components must be even, got {self.n_components!r}")
        check_kernel(self.kernel, self.lifetime, self.gamma)
        super().__post_init__()

    _MAPS = (FourierMap,)

    def _make(self, seed: int) -> FourierMap:
        rate = self.lifetime if self.kernel == "laplace" else self.gamma
        return FourierMap(seed, self.n_components, self.kernel, rate)


@dataclass(eq=False, repr=False)
class RandomBinningFeatures(ByFeature, CellFeatures):
    """Random binning features of the Laplace kernel.

    A partition is a grid of random pitch and random shift in each feature[^1]. The share of
    partitions in which two samples x and y fall into the same cell is an unbiased estimate of
    exp(-lifetime |x - y|_1). For a sample with itself, the share is 1. The grids do not depend on
    the data.

    A cell gets a column when the map learns the first sample in the cell. Cells without a column
    have no output feature, because no model can have learned their weights. `cells_one` and
    `cells_many` return -1 for these cells, but `kernel` and `gram` distinguish all cells.

    An input feature that is absent or NaN counts as 0. A feature may appear at any time. The name
    of a feature and the seed determine the feature's grids, so the order and the time of appearance
    do not matter. In every grid, the value 0 is in bin 0, so a new feature does not change the
    cells of earlier samples.

    Parameters
    ----------
    n_partitions
        Number of grids. The kernel's standard error is at most 0.5 / sqrt(n_partitions).
    lifetime
        Decay rate of the kernel, per unit of the features. The mean pitch is 2 / lifetime.
    seed
        Random seed for reproducibility.

    Notes
    -----
    A 128-bit code identifies a cell, or a 64-bit code in `kernel` and `gram`. Two cells have the
    same code with a probability below 1e-19. Memory grows by 50 to 100 bytes per cell, and by 16
    `n_partitions` bytes per input feature.

    Examples
    --------

    >>> from river import datasets, evaluate, linear_model, metrics, optim, preprocessing
    >>> from river_mondrian import RandomBinningFeatures

    >>> model = (
    ...     preprocessing.StandardScaler()
    ...     | RandomBinningFeatures(lifetime=1.0, seed=42)
    ...     | linear_model.LogisticRegression(optim.SGD(1.0))
    ... )
    >>> dataset = datasets.Bananas().take(2000)
    >>> metric = evaluate.progressive_val_score(dataset, model, metrics.Accuracy())
    >>> metric.get() > 0.8
    True

    >>> features = RandomBinningFeatures(n_partitions=1000, lifetime=2.0, seed=42)
    >>> features.learn_one({"a": 0.0, "b": 0.0})
    >>> round(features.kernel({"a": 0.1}, {"b": 0.1}), 1)  # exp(-0.4)
    0.7

    References
    ----------
    [^1]: Rahimi, A. and Recht, B. (2007). Random Features for Large-Scale Kernel Machines.
    Advances in Neural Information Processing Systems 20. Algorithm 2.

    """

    n_partitions: int = 100
    lifetime: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        check_positive("lifetime", self.lifetime)
        super().__post_init__()

    _MAPS = (BinningMap,)
    _grows = True

    def _make(self, seed: int) -> BinningMap:
        return BinningMap(seed, self.n_partitions, self.lifetime)

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Draw the grids of new features, and assign columns to the sample's new cells.

        Parameters
        ----------
        x
            A mapping from feature to number. NaN is the same as an absent key.

        Raises
        ------
        TypeError
            If a value is not a number.
        ValueError
            If a value is infinite or too large for single precision.

        """
        with self._lock:
            self._settle()
            if not self._knows(x):
                self._learn_new(self._reader.index.read(x))
                return
            sample = self._locate(x, self._map)
            bad = learn_in_room(self._map.record, sample)
            if bad == limits.NO_ROOM:
                self._pending = model.Steps([partial(self._map.learn, sample)])
                self._settle()
            elif bad >= 0:
                raise self._bad_input(bad, x)

    def _observe(self, values: Mapping[Hashable, float]) -> list[Callable[[], object]]:
        super()._observe(values)
        return [lambda: self._map.learn(self._locate(values, self._map))]

    def _learn_rows(self, names: Sequence[Hashable], columns: Floats) -> None:
        self._pending = model.Snapshot(self._changing())
        self._reader.add_columns(names, columns)
        self._know()
        self._pending = model.Steps(
            [partial(self._map.learn_csr, *self._reader.csr(names, columns))]
        )
        self._settle()

    def _observe_rows(self, names: Sequence[Hashable], columns: Floats) -> None:
        self._map.learn_csr(*self._reader.csr(names, columns))

    def _known(self, out: Array) -> Array:
        return out[out != UNKNOWN_COLUMN]

    def _cells(self, columns: Array) -> Array:
        # `UNKNOWN_COLUMN` is 0, so cells without a column become -1, and other cells are numbered
        # from 0.
        return super()._cells(columns) - 1

    def _csr(self, out: Array) -> scipy.sparse.csr_matrix:
        matrix = super()._csr(out)
        matrix.data[matrix.indices == UNKNOWN_COLUMN] = 0.0
        matrix.eliminate_zeros()
        return matrix

    def _codes(self, x: Mapping[Any, Any]) -> Array:
        self._ready()
        codes, bad = self._map.codes(self._locate(x, self._map))
        if bad >= 0:
            raise self._bad_input(bad, x)
        return codes

    def _codes_many(self, X: Any) -> Array:
        self._ready()
        _, names, columns = frames.read_frame(X)
        return self._map.codes_csr(*self._reader.csr(names, columns))

    def _gram(self, first: Array, second: Array) -> Floats:
        rows = np.concatenate([first, second])
        cells, numbers = np.unique(rows, return_inverse=True)
        numbers = numbers.reshape(rows.shape)
        return share_of_equals(numbers[: len(first)], numbers[len(first) :], len(cells))


@dataclass(eq=False, repr=False)
class NystromFeatures(Pooled):
    """Nyström features of the Laplace or the Gaussian kernel.

    The map approximates the kernel with some samples, called landmarks[^1]. Let D be the diagonal
    matrix of the largest eigenvalues of the landmarks' kernel matrix, and V the matrix of their
    eigenvectors. A sample x is mapped to D^(-1/2) V' k(x), where k(x) is the vector of kernels of x
    with each landmark. With as many components as landmarks, the dot product of two mapped
    landmarks is their kernel. The dot product of any other mapped sample with itself is at most 1,
    the kernel of the sample with itself. `OGDClassifier` on this map is NOGD[^2].

    The landmarks are the first samples learned, or random samples of the first `pool_size` samples.
    The map is rebuilt each time the number of samples has doubled, from 2 on. After `pool_size`
    samples, the map is final.

    Parameters
    ----------
    n_landmarks
        Number of landmarks: the budget of NOGD.
    n_components
        Number of output features, at most `n_landmarks`: the rank of the approximation. The number
        is smaller if the landmarks' kernel matrix has a smaller rank. By default, a fifth of
        `n_landmarks`, as in NOGD, but at least 1.
    kernel
        "laplace" for exp(-lifetime |x - y|_1) or "gaussian" for exp(-gamma |x - y|_2^2).
    lifetime
        Rate of the Laplace kernel, per unit of the features.
    gamma
        Rate of the Gaussian kernel, per squared unit of the features.
    pool_size
        Number of samples at the start of the stream from which landmarks are drawn, at least
        `n_landmarks`. Use more samples if the start of a stream differs from later samples. None
        means `n_landmarks`.
    seed
        Random seed for reproducibility. If `pool_size` is None, nothing is random.

    Notes
    -----
    An input feature that is absent or NaN counts as 0. Features that are in no sample of the pool
    are ignored. The time per sample is proportional to the number of non-zero values in the
    landmarks, plus `n_landmarks` times `n_components`.

    Examples
    --------

    >>> from river import datasets, evaluate, linear_model, metrics, optim, preprocessing
    >>> from river_mondrian import NystromFeatures

    >>> model = (
    ...     preprocessing.StandardScaler()
    ...     | NystromFeatures(kernel="gaussian", gamma=1.0)
    ...     | linear_model.LogisticRegression(optim.SGD(1.0))
    ... )
    >>> dataset = datasets.Bananas().take(2000)
    >>> metric = evaluate.progressive_val_score(dataset, model, metrics.Accuracy())
    >>> metric.get() > 0.8
    True

    >>> len(model["NystromFeatures"].transform_one({"1": 0.5, "2": -0.5}))
    20

    References
    ----------
    [^1]: Williams, C. K. I. and Seeger, M. (2000). Using the Nystrom Method to Speed Up Kernel
    Machines. Advances in Neural Information Processing Systems 13.
    [^2]: Lu, J., Hoi, S. C. H., Wang, J., Zhao, P. and Liu, Z.-Y. (2016). Large Scale Online Kernel
    Learning. Journal of Machine Learning Research 17. Algorithm 2.

    """

    n_landmarks: int = 100
    n_components: int | None = None
    kernel: str = "laplace"
    lifetime: float = 1.0
    gamma: float = 1.0
    pool_size: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        n = self.n_landmarks
        check_integer("n_landmarks", n, 2)
        rank = self.n_components
        check_integer("n_components", rank, 1, None)
        if rank is not None and rank > n:
            raise ValueError(f"n_components must be at most n_landmarks = {n}, got {rank!r}")
        check_kernel(self.kernel, self.lifetime, self.gamma)
        check_integer("pool_size", self.pool_size, n, None)
        super().__post_init__()

    _MAPS = (NystromMap,)

    @property
    def _n_pooled(self) -> int:
        return self.n_landmarks if self.pool_size is None else self.pool_size

    def _locate(self, x: Mapping[Any, Any], compiled: CompiledMap) -> Sample:
        return self._reader.read_ordered(x)

    def _begin(self, number: int, pool: Pool) -> CompiledMap:
        if len(pool) > self.n_landmarks:
            self._entropy = draw_seed(self._entropy)
            sequence = np.random.SeedSequence(self._entropy, spawn_key=(number,))
            rng = np.random.default_rng(sequence)
            drawn = rng.choice(len(pool), self.n_landmarks, replace=False)
            pool = pool.taken(np.sort(drawn).tolist())
        rank = self.n_components or max(1, self.n_landmarks // 5)
        rate = self.lifetime if self.kernel == "laplace" else self.gamma
        return NystromMap(number, pool, len(self._reader.index), rank, self.kernel, rate)


@dataclass(eq=False, repr=False)
class IsolationFeatures(Pooled, CellFeatures):
    """Feature map of the isolation kernel.

    The isolation kernel[^1] of two samples is the share of random partitions in which both fall
    into the same cell. Each partition isolates up to `n_cells` points drawn without replacement
    from a pool of samples. Cells are small where data are dense and large where data are sparse, so
    the kernel adapts to the data, without labels. The kernel's feature map is exact and has a
    finite number of dimensions. A sample has one cell per partition, so the time of linear models
    on the map (see `OGDClassifier`) is proportional to `n_partitions`, and independent of the
    number of cells.

    With `method="anne"`, a partition is the Voronoi diagram of its points, by Euclidean distance
    or, for texts, by cosine distance. If several points are equally near, the first of them in a
    random order of the pool is chosen. This order is the same for all partitions. With
    `method="iforest"`, a partition is an isolation tree: random axis-parallel cuts separate its
    points until each point is alone. Points that coincide share the first point's cell.

    The map is rebuilt each time the number of samples has doubled, from 2 on. The map that is built
    from the first `pool_size` samples is final. A partition isolates at most a quarter of the
    samples, but at least one sample. Calls of `learn_one` build the map, and a long build is spread
    over several calls. Only a call that builds Voronoi diagrams from a very large pool takes long:
    about a second for 100,000 samples.

    Parameters
    ----------
    n_partitions
        Number of partitions, t in the paper. The kernel's standard error is at most
        0.5 / sqrt(n_partitions).
    n_cells
        Number of points that a partition isolates, psi in the paper. With more points, the kernel
        is sharper. Tune this parameter: powers of two from 4 to 4096 cover most data. A partition
        isolates at most a quarter of the pool, but at least one point.
    method
        "anne" for Voronoi diagrams, or "iforest" for isolation trees. Isolation trees are usually
        faster than Voronoi diagrams, and were more accurate on most of the tested data sets.
    pool_size
        Number of samples that build the final map.
    scale
        Whether to divide each feature by its range over the pool. The range excludes outliers:
        values more than 3 interquartile ranges beyond the quartiles. If most values of a feature
        are equal, as in bags of words, only the other values determine the outliers. By default,
        values are not scaled, and features should have comparable units. In both cases, values are
        then clipped to the range from -1e30 to 1e30.
    metric
        Distance of Voronoi diagrams: "euclidean", or "cosine", the angle between a sample and a
        point. Angles are computed in single precision, so samples should have Euclidean norms from
        1e-5 to 1e5. If several points have nearly the same angle, any of them may count as the
        nearest. Samples whose values are all 0 have no angle, so they become points only if the
        pool has no other samples. With "auto", the distance is "cosine" if there are at least 256
        features, and samples have fewer than a tenth of these features on average. Otherwise, the
        distance is "euclidean". Isolation trees use no distance.
    device
        Device on which `learn_many`, `transform_many` and `cells_many` find Voronoi cells: "cpu",
        or "cuda" for a GPU through CuPy. CuPy must be usable when the map is created. Both devices
        find the same cells. Text, isolation trees and single samples stay on the CPU. The device
        "cuda" is experimental: tests run its kernels on the CPU, and the kernels have never run on
        a GPU.
    seed
        Random seed for reproducibility.

    Notes
    -----
    A feature that is absent from a mapping, NaN, or null in a frame counts as 0, as in text.
    Features that are in no sample of the pool are ignored, because they would not change any cell.
    Mappings with only a few of very many features stay sparse, so time and memory are proportional
    to the number of a mapping's values.

    To find Voronoi cells, a sample is compared with each point of the pool at most once for all
    partitions. The search is a scan, a tree over principal axes, an index from features to points,
    or, for batches, a matrix product. The map's size and the times of trial searches determine the
    choice. All searches find the same cells.

    Names of columns contain the number of the build, so that a linear model does not confuse
    columns of different builds. For example, `anne7_12_34` is cell 34 of partition 12 in build 7.

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

    n_partitions: int = 100
    n_cells: int = 64
    method: str = "anne"
    pool_size: int = 1024
    scale: bool = False
    metric: str = "auto"
    device: str = "cpu"
    seed: int | None = None

    def __post_init__(self) -> None:
        check_integer("pool_size", self.pool_size, 2)
        if self.method not in ("anne", "iforest"):
            raise ValueError(f'method must be "anne" or "iforest", got {self.method!r}')
        metrics = ("auto", "euclidean", "cosine")
        if self.metric not in metrics:
            raise ValueError(f"metric must be one of {metrics}, got {self.metric!r}")
        if self.method == "iforest" and self.metric == "cosine":
            raise ValueError('metric "cosine" needs "anne": isolation trees use no distance')
        cuda.device_namespace(self.device)
        super().__post_init__()
        self._reader = samples.SampleReader(shifts=self.metric != "cosine")

    _MAPS = (diagrams.VoronoiMap, IsolationTreesMap)
    # With a pool of this size, `warmup` also compiles the search in a tree.
    _REHEARSED: ClassVar[Mapping[str, Any]] = {"pool_size": 512}

    def _begin(self, number: int, pool: Pool) -> CompiledMap:
        self._entropy = draw_seed(self._entropy)
        n = len(pool)
        psi = max(1, min(self.n_cells, n // 4))
        rng = np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=(number,)))
        n_inputs = len(self._reader.index)
        known = number, self.n_partitions, psi, pool, n_inputs, self.scale, rng
        return (
            diagrams.VoronoiMap(*known, self.metric)
            if self.method == "anne"
            else IsolationTreesMap(*known)
        )

    def _outputs(self, names: Sequence[Hashable], columns: Floats, compiled: CompiledMap) -> Array:
        # Texts stay on the CPU, because a GPU would need a dense array as wide as the vocabulary.
        if self.device == "cpu" or not isinstance(compiled, diagrams.VoronoiMap) or compiled.sparse:
            return super()._outputs(names, columns, compiled)
        xp = cuda.device_namespace(self.device)
        return compiled.transform_on(self._reader.arrange(names, columns), xp)

    def _cells(self, columns: Array) -> Array:
        compiled = self._ready()
        psi = compiled.n_columns // compiled.n_out
        return columns.astype(np.int64) - psi * np.arange(compiled.n_out)
