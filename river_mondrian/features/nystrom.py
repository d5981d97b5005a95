"""Nystrom features of the Laplace and the Gaussian kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arguments import check_integer, check_kernel, check_seed, new_entropy
from ..maps.compiled import CompiledMap, Pool
from ..maps.nystrom import NystromMap
from ..maps.record import Sample
from .kinds import Pooled


class NystromFeatures(Pooled):
    """Nystrom features of the Laplace or the Gaussian kernel.

    The kernel is approximated from its values with some samples, the landmarks[^1]: with K the
    landmarks' kernel matrix, whose largest eigenvalues are D and their eigenvectors V, a sample is
    mapped to D^(-1/2) V' k(x), where k(x) are its kernels with the landmarks. With as many
    components as landmarks the dot products of the landmarks are their kernels, and those of other
    samples at most the kernels. Under `OGDClassifier` this is NOGD[^2].

    The landmarks are the first samples learned, or a random part of the first `pool_size`. Before
    there are as many, the map is built anew whenever their number has doubled, from 2 on; then it
    is final.

    Parameters
    ----------
    n_landmarks
        Number of landmarks, b or the budget in the papers.
    n_components
        Number of features made, at most `n_landmarks`: the rank of the approximation. There are
        fewer where the landmarks' kernel matrix has a smaller rank. By default a fifth of
        `n_landmarks`, as in the papers.
    kernel
        "laplace" for exp(-lifetime |x - y|_1) or "gaussian" for exp(-gamma |x - y|_2^2).
    lifetime
        Rate of the Laplace kernel, per unit of the features.
    gamma
        Rate of the Gaussian kernel, per squared unit of the features.
    pool_size
        Number of first samples among which landmarks are drawn, at least `n_landmarks`: where a
        stream begins with what is not like the rest, more are better. None for `n_landmarks`.
    seed
        Random seed for reproducibility. There is nothing random without a `pool_size`.

    Notes
    -----
    A feature of the input that is absent or NaN is 0. Features that no landmark has are ignored.
    The time of a map is proportional to the landmarks' values that are not 0, plus `n_landmarks`
    times `n_components`.

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

    SAVED = (*Pooled.SAVED, "_entropy")

    def __init__(
        self,
        n_landmarks: int = 100,
        n_components: int | None = None,
        kernel: str = "laplace",
        lifetime: float = 1.0,
        gamma: float = 1.0,
        pool_size: int | None = None,
        seed: int | None = None,
    ) -> None:
        check_integer("n_landmarks", n_landmarks, 2)
        if n_components is not None:
            check_integer("n_components", n_components, 1)
            if n_components > n_landmarks:
                raise ValueError(
                    f"n_components must be at most n_landmarks = {n_landmarks}, "
                    f"got {n_components!r}"
                )
        check_kernel(kernel, lifetime, gamma)
        if pool_size is not None:
            check_integer("pool_size", pool_size, 2)
            if pool_size < n_landmarks:
                raise ValueError(
                    f"pool_size must be at least n_landmarks = {n_landmarks}, got {pool_size!r}"
                )
        check_seed(seed)
        self.n_landmarks = n_landmarks
        self.n_components = n_components
        self.kernel = kernel
        self.lifetime = lifetime
        self.gamma = gamma
        self.pool_size = pool_size
        self.seed = seed
        self._entropy: int | None = seed
        super().__init__()

    @property
    def _n_pooled(self) -> int:
        return self.n_landmarks if self.pool_size is None else self.pool_size

    def _locate(self, x: Mapping[Any, Any], compiled: CompiledMap) -> Sample:
        return self._reader.read_ordered(x)

    def _begin(self, number: int, pool: Pool) -> CompiledMap:
        if len(pool) > self.n_landmarks:
            if self._entropy is None:
                self._entropy = new_entropy()
            sequence = np.random.SeedSequence(self._entropy, spawn_key=(number,))
            drawn = np.random.default_rng(sequence).choice(
                len(pool), self.n_landmarks, replace=False
            )
            pool = pool.taken(np.sort(drawn).tolist())
        rank = self.n_components or max(1, self.n_landmarks // 5)
        rate = self.lifetime if self.kernel == "laplace" else self.gamma
        return NystromMap(number, pool, len(self._reader.index), rank, self.kernel, rate)
