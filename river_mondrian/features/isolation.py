"""Isolation kernel feature maps."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..arguments import check_flag, check_integer, check_seed, new_entropy
from ..maps.record import Array, CompiledMap, Pool
from ..partitions.isolation import IsolationTreesMap
from ..partitions.voronoi.cuda import device_namespace
from ..partitions.voronoi.diagrams import VoronoiMap
from .kinds import CellFeatures, Pooled


class IsolationFeatures(Pooled, CellFeatures):
    """Isolation kernel feature map.

    The isolation kernel[^1] of two samples is the share of random partitions in which both fall
    into the same cell. Each partition isolates `n_cells` points drawn without replacement from a
    pool of samples. Cells are small where data are dense and large where they are sparse, so the
    kernel adapts to the data, without labels. Its feature map is exact and finite. A sample has one
    cell per partition, for any number of cells. So linear models on the map (see `OGDClassifier`)
    predict and learn in time proportional to `n_partitions`.

    With `method="anne"` a partition is the Voronoi diagram of its points, by Euclidean distance or,
    on texts, by cosine. If two are equally near, the one earlier in the pool wins; the pool's order
    is random. With `method="iforest"` it is an isolation tree, whose random cuts are parallel to
    the axes, until each of its points is alone. Points that coincide share the cell of the first of
    them.

    Samples are learned until there are `pool_size`; then the map is final. Before, it is rebuilt
    each time the number of samples has doubled, from 2 on. A partition then has a quarter as many
    points as there are samples, and at most `n_cells`. Calls of `learn_one` build the map. Long
    builds are spread over several calls, except for Voronoi diagrams of very large pools: about a
    second with 100,000 samples.

    Parameters
    ----------
    n_partitions
        Number of partitions, t in the paper. The kernel's standard error is at most
        0.5 / sqrt(n_partitions).
    n_cells
        Number of points that a partition isolates, psi in the paper: how sharp the kernel is. This
        is the parameter to tune; powers of two from 4 to 4096 cover most data. At most a quarter of
        the pool is used.
    method
        "anne" for Voronoi diagrams, the more accurate, or "iforest" for isolation trees, the
        faster.
    pool_size
        Number of samples from which the final map is built.
    scale
        Whether to divide each feature by its range over the pool: that of its values within 3
        interquartile ranges of the quartiles, so wild values do not count. For a feature that is
        mostly one value, such as the words of texts, it is the range of the other values within
        their own fences, and of that value. By default values are not scaled, and features should
        have comparable units. Scaled values end at 1e30.
    metric
        Distance of Voronoi diagrams: "euclidean", or "cosine", the angle between a sample and a
        point. Angles are computed in single precision: among points at nearly the same angle any
        may be the nearest, and samples should have lengths from 1e-5 to 1e5. Samples of zeros are
        no points. "auto" stands for "cosine" if samples have few of many features (fewer than a
        tenth of 256 or more), like texts, and for "euclidean" otherwise. Isolation trees use no
        distance.
    device
        Where `learn_many`, `transform_many` and `cells_many` find Voronoi cells: "cpu", or "cuda"
        for a GPU through CuPy, which must be usable when the map is made. The cells are the same.
        Text, isolation trees and single samples stay on the CPU. Experimental: no GPU has run it so
        far, and tests run its kernels on the processor.
    seed
        Random seed for reproducibility.

    Notes
    -----
    A feature that is absent from a mapping, NaN, or null in a frame is 0, as in text. Features
    that no sample of the pool has are ignored, which changes no cell. Mappings with few out of very
    many features are never made dense: time and memory are proportional to their entries.

    To find Voronoi cells, a sample is compared with each point of the pool at most once, for all
    partitions together: by a scan, a tree over principal axes, an index from features to points,
    or, for batches, a matrix product that excludes most points. The map chooses the fastest of
    these by its size and by some trials. All give the same cells.

    The names of columns carry the number of the build (`anne7_12_34` is cell 34 of partition 12 of
    the eighth build), so a linear model does not confuse them.

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

    _SAVED = (*Pooled._SAVED, "_entropy")

    # Enough points for a search in a tree.
    _REHEARSED: ClassVar[Mapping[str, Any]] = {"pool_size": 512}

    def __init__(
        self,
        n_partitions: int = 100,
        n_cells: int = 64,
        method: str = "anne",
        pool_size: int = 1024,
        scale: bool = False,
        metric: str = "auto",
        device: str = "cpu",
        seed: int | None = None,
    ) -> None:
        check_integer("n_partitions", n_partitions, 1)
        check_integer("n_cells", n_cells, 1)
        check_integer("pool_size", pool_size, 2)
        check_flag("scale", scale)
        check_seed(seed)
        if method not in ("anne", "iforest"):
            raise ValueError(f'method must be "anne" or "iforest", got {method!r}')
        metrics = ("auto", "euclidean", "cosine")
        if metric not in metrics:
            raise ValueError(f"metric must be one of {metrics}, got {metric!r}")
        if method == "iforest" and metric == "cosine":
            raise ValueError(
                'metric="cosine" takes method="anne": isolation trees know no distance'
            )
        device_namespace(device)
        self.n_partitions = n_partitions
        self.n_cells = n_cells
        self.method = method
        self.pool_size = pool_size
        self.scale = scale
        self.metric = metric
        self.device = device
        self.seed = seed
        self._entropy: int | None = seed
        super().__init__()

    def _begin(self, number: int, pool: Pool) -> CompiledMap:
        if self._entropy is None:
            self._entropy = new_entropy()
        n = len(pool)
        psi = max(1, min(self.n_cells, n // 4))
        rng = np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=(number,)))
        n_inputs = len(self._reader.index)
        known = number, self.n_partitions, psi, pool, n_inputs, self.scale, rng
        return (
            VoronoiMap(*known, self.metric) if self.method == "anne" else IsolationTreesMap(*known)
        )

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
