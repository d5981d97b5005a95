"""Exact online Bayesian ridge regression on feature maps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from river.utils.dataframe import to_native_frame, to_native_series

from ..arguments import check_flag, check_integer, check_positive, check_seed
from ..features.base import FeatureMap
from ..features.isolation import IsolationFeatures
from ..learners.ridge.posterior import Posterior
from ..maps.compiled import CompiledMap
from ..model import locked
from ..posteriors.gaussian_mixture import gaussian
from ..status import DONE
from .feature_learner import TargetLearner


class RidgeRegressor(TargetLearner[Posterior]):
    """Exact online Bayesian ridge regression on a feature map.

    A linear model on the outputs of `features` with a normal prior on its weights, whose posterior
    is exact after each sample[^1]: predictions equal those of ridge regression on all samples so
    far, in any order. Columns that appear while samples come are taken in. The variance of the
    noise has a posterior of its own (normal-inverse-gamma[^2]), so that a model of targets in
    cents predicts 100 times what it predicts in euros.

    Parameters
    ----------
    features
        A feature map of this package. It is copied, and the copy learns along. None stands for
        `IsolationFeatures(n_partitions=50, n_cells=16)`.
    delta2
        The ridge: variance of the noise divided by the prior variance of a weight.
    noise_variance
        Variance of the noise, in squared units of the target. None has it learned, from the prior
        1 / variance.
    fit_intercept
        Whether to add an intercept, with a flat prior.
    max_columns
        Most columns of the map that are kept. Columns that differ from 0 for the first time when
        there are as many are left out of the model for good, which stays exact on those it has.
    seed
        Random seed of the default features. Features that are given have their own.

    Notes
    -----
    With C columns kept, a sample takes O(C^2) time to learn, and so does the first prediction after
    it. A further mean takes time proportional to the number of outputs, a distribution O(C^2).
    Memory is 4 C^2 bytes, up to half as much again while C grows: 16 MB at the default limit.
    Columns count from when they first differ from 0.

    A weight divides the variance of its sample's noise.

    Where a map is built anew while samples come (see `IsolationFeatures`), the stored samples are
    learned once more, 32 in each call; predictions come from the map before until then.

    The kernel form of the model is a Gaussian process with a kernel of k(x, y) / delta2 times the
    variance of the noise.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from river_mondrian import RidgeRegressor

    >>> model = preprocessing.StandardScaler() | RidgeRegressor(seed=42)
    >>> dataset = list(datasets.TrumpApproval().take(500))
    >>> metric = evaluate.progressive_val_score(dataset, model, metrics.MAE())
    >>> metric.get() < 1.2
    True

    >>> x, y = next(iter(dataset))
    >>> prediction = model.predict_one(x, with_dist=True)
    >>> abs(prediction.mu - y) < 3 * prediction.sigma
    True

    References
    ----------
    [^1]: Balog, M., Lakshminarayanan, B., Ghahramani, Z., Roy, D. M. and Teh, Y. W. (2016). The
    Mondrian Kernel. Uncertainty in Artificial Intelligence 32. Sections 4.2.1 and 5, Supplement C.
    [^2]: Gelman, A. et al. (2013). Bayesian Data Analysis, third edition. CRC Press. Section 14.2.

    """

    def __init__(
        self,
        features: FeatureMap | None = None,
        delta2: float = 1e-2,
        noise_variance: float | None = None,
        fit_intercept: bool = True,
        max_columns: int = 2000,
        seed: int | None = None,
    ) -> None:
        check_positive("delta2", delta2)
        if noise_variance is not None:
            check_positive("noise_variance", noise_variance)
        check_flag("fit_intercept", fit_intercept)
        check_integer("max_columns", max_columns, 1)
        check_seed(seed)
        super().__init__(features, lambda: IsolationFeatures(50, 16, seed=seed))
        self.delta2 = delta2
        self.noise_variance = noise_variance
        self.fit_intercept = fit_intercept
        self.max_columns = max_columns
        self.seed = seed

    def _make_weights(self, compiled: CompiledMap) -> Posterior:
        return Posterior(compiled, self.delta2, bool(self.fit_intercept), self.max_columns)

    # What has been learned.

    @property
    @locked
    def n_columns(self) -> int:
        """Columns of the map that are in the model."""
        return 0 if self._current is None else self._current.n_rows - bool(self.fit_intercept)

    @property
    @locked
    def log_marginal_likelihood(self) -> float:
        """Log density of the targets that the present map has learned.

        The weights are integrated out, and so is the noise's variance where it is learned. With an
        intercept it is the density of the targets given the first of them, whichever that is
        called; 0 before there are targets that count.
        """
        if self._current is None:
            return 0.0
        return self._current.log_likelihood(self.noise_variance)

    @property
    @locked
    def noise_posterior(self) -> Any:
        """Posterior of the noise's variance, a frozen inverse gamma distribution of SciPy's.

        Raises
        ------
        RuntimeError
            Before there are two samples (one without an intercept), or where the variance is given.

        """
        if self.noise_variance is not None:
            raise RuntimeError("the variance of the noise is given")
        if self._current is None or self._current.freedom == 0:
            raise RuntimeError("RidgeRegressor has to learn more samples first")
        half = 0.5 * self._current.freedom
        # It takes long to import.
        from scipy import stats

        return stats.invgamma(half, scale=0.5 * self._current.residual)

    # Predicting.

    def _scale(self) -> float:
        """Return the variance of a prediction, in units of its variance at known noise 1."""
        posterior = self._current
        if self.noise_variance is not None:
            return float(self.noise_variance)
        if posterior is None or posterior.freedom <= 2:
            return math.inf
        return posterior.residual / (posterior.freedom - 2)

    @locked
    def predict_one(self, x: Mapping[Any, Any], with_dist: bool = False) -> Any:
        """Predict the target of a sample.

        Parameters
        ----------
        x
            A mapping from feature to number; unknown features are ignored.
        with_dist
            Whether to return a normal distribution with the mean and the variance of the
            predictive one, which is a Student t where the noise's variance is learned. The variance
            is infinite up to two degrees of freedom: samples, but one for the intercept.

        Returns
        -------
        The mean of the prediction, 0 before any learning; or a `river.proba.Gaussian`.

        """
        posterior = self._current
        mean, variance = 0.0, math.inf
        if posterior is not None:
            features = self._features
            status, mean, variance = posterior.predict(
                features._locate(x, posterior.compiled), with_dist
            )
            if status != DONE:
                raise features._bad_input(status, x, posterior.compiled)
        if not with_dist:
            return mean
        n = 1 if posterior is None else max(1, posterior.n_samples)
        return gaussian(n, mean, self._scale() * variance)

    @locked
    def predict_many(self, X: Any, with_dist: bool = False) -> Any:
        """Predict the targets of the rows of a frame.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of numbers.
        with_dist
            Whether to return a frame with the columns "mean" and "variance".

        Returns
        -------
        A series of means of the same kind (and pandas index), or the frame.

        """
        frame, names, columns = self._features._read_frame(X)
        moments = np.full((len(columns), 2), math.inf)
        moments[:, 0] = 0.0
        if self._current is not None:
            for part, out in self._blocks(names, columns, self._current.compiled):
                moments[part] = self._current.predict_rows(out, with_dist)
        if not with_dist:
            return to_native_series(moments[:, 0], name=None, like=frame)
        variances = self._scale() * moments[:, 1]
        return to_native_frame({"mean": moments[:, 0], "variance": variances}, like=frame)
