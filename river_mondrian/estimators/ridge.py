"""Exact online Bayesian ridge regression on feature maps."""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import arguments, checks, frames, inputs, limits
from ..features import base, kinds
from ..learners.ridge.posterior import Posterior
from ..maps.record import CompiledMap
from ..model import locked
from ..predictive import PredictiveDistribution, unknown
from ..progress import pieces
from .feature_learner import REPLAY, TargetLearner


@dataclass(eq=False, repr=False)
class RidgeRegressor(TargetLearner):
    """Exact online Bayesian ridge regression on a feature map.

    The model is linear in the outputs of `features`, and its weights have a normal prior. The
    posterior is exact after each sample[^1]: on a given map, predictions equal the predictions of
    ridge regression on all learned samples, or on the samples of the `window`. The order of samples
    does not matter, unless the map has more than `max_columns` columns. New columns of the map are
    added to the model. Unless `noise_variance` is given, the variance of the noise has its own
    posterior (normal-inverse-gamma[^2]), so targets need no scaling.

    Parameters
    ----------
    features
        A feature map of this package. A copy of the map learns with the model. None means
        `IsolationFeatures(n_partitions=50, n_cells=16)`.
    l2
        The ridge penalty: variance of the noise divided by the prior variance of a weight.
    noise_variance
        Variance of the noise, in squared units of the target. None means a learned variance, with a
        prior density proportional to 1 / variance.
    fit_intercept
        Whether to add an intercept, with a flat prior.
    max_columns
        Largest number of columns of the map in the model. Further columns are ignored, and the
        posterior stays exact for the columns in the model.
    window
        Number of the latest samples of positive weight in the posterior. Once the window is full,
        each new sample replaces the oldest sample, which is removed exactly, up to rounding. With a
        window, samples are stored, so `forget_one` can remove any of these samples. None keeps all
        samples in the posterior, but does not store the samples.
    seed
        Random seed of the default features. Other feature maps have their own seed.

    Notes
    -----
    With C columns, learning a sample and the next prediction take O(C^2) time each. Further
    predictions take time proportional to the number of outputs for a mean, and O(C^2) for a
    distribution. Memory is 4 C^2 bytes, 16 MB at the default limit. While C grows, room for a
    quarter more columns takes about 60 % more memory. A column counts towards C once its value has
    differed from 0 in a sample.

    The noise variance of a sample is divided by the sample's weight.

    When a map is rebuilt (see `IsolationFeatures`), the stored samples are learned again, 32 in
    each call. Meanwhile, predictions use the previous map. With a window, only the samples of the
    window are learned again, without removed samples.

    With a full window, learning a sample takes about twice as long as without a window[^3].
    Rounding errors of removals are estimated. If an error may reach 1e-9 times a squared diagonal
    element of the Cholesky factor, or 1e-9 times the sum of squared residuals, the window is
    learned again in one call. This rarely happens, unless a removed sample has a much larger weight
    or target than other samples. A stored sample takes 28 bytes, plus 4 bytes for each of its
    cells, or plus 8 bytes for each output of a dense map. Columns are kept even if they are 0 for
    all samples of the window. Predictions and the marginal likelihood do not depend on these
    columns, unless `max_columns` is reached.

    In kernel form, the model is a Gaussian process, with the noise variance times k(x, y) / `l2` as
    kernel, where k is the kernel of the map.

    Examples
    --------

    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from river_mondrian import RandomFourierFeatures, RidgeRegressor

    >>> model = preprocessing.StandardScaler() | RidgeRegressor(seed=42)
    >>> dataset = list(datasets.TrumpApproval().take(500))
    >>> metric = evaluate.progressive_val_score(dataset, model, metrics.MAE())
    >>> metric.get() < 1.2
    True

    >>> x, y = next(iter(dataset))
    >>> prediction = model.predict_one(x, with_dist=True)
    >>> abs(prediction.mean - y) < 3 * prediction.var**0.5
    True

    >>> latest = RidgeRegressor(RandomFourierFeatures(50, seed=1), window=100)
    >>> for x, y in dataset:
    ...     latest.learn_one(x, y)
    >>> latest.noise_posterior.args  # (samples - 1) / 2, with an intercept
    (49.5,)

    References
    ----------
    [^1]: Balog, M., Lakshminarayanan, B., Ghahramani, Z., Roy, D. M. and Teh, Y. W. (2016). The
    Mondrian Kernel. Uncertainty in Artificial Intelligence 32. Sections 4.2.1 and 5, Supplement C.
    [^2]: Gelman, A. et al. (2013). Bayesian Data Analysis, third edition. CRC Press. Section 14.2.
    [^3]: Bojanczyk, A. W., Brent, R. P., van Dooren, P. and de Hoog, F. R. (1987). A Note on
    Downdating the Cholesky Factorization. SIAM Journal on Scientific and Statistical Computing 8.
    Section 3.

    """

    features: base.FeatureMap | None = None
    l2: float = 1e-2
    noise_variance: float | None = None
    fit_intercept: bool = True
    max_columns: int = 2000
    window: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.noise_variance is not None:
            arguments.check_positive("noise_variance", self.noise_variance)
        super().__post_init__()

    _DEFAULTS: ClassVar[Mapping[str, Any]] = {"n_partitions": 50, "n_cells": 16}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for posterior in (self._current, self._next):
            if posterior is not None and posterior.window != self.window:
                checks.refuse(self, "window", self.window, f"but it holds {posterior.window}")

    def _make_weights(self, compiled: CompiledMap) -> Posterior:
        intercept = bool(self.fit_intercept)
        return Posterior(compiled, self.l2, intercept, self.max_columns, self.window)

    # With a window, samples are learned in order of arrival, so that the oldest sample is known.

    @property
    def _steady(self) -> bool:
        return self.window is None and super()._steady

    @property
    def _stores(self) -> bool:
        return super()._stores or (self.window is not None and self._next is not None)

    # Forgetting.

    @locked
    def forget_one(self, x: Mapping[Any, Any], y: Any, w: float = 1.0) -> None:
        """Remove a stored sample from the posterior.

        The result is the posterior of the other samples, up to rounding. The map and its columns do
        not change: they still depend on all samples from which the map was built.

        Parameters
        ----------
        x
            A mapping from feature to value, as it was learned. Values are compared in single
            precision, by a 64-bit hash. The value 0 equals a missing value, and features that the
            map does not read are ignored.
        y
            The target, as it was learned.
        w
            The weight, as it was learned.

        Raises
        ------
        KeyError
            If no stored sample equals this sample. Then nothing changes.
        TypeError
            If the map does not accept the type of a value, or the target or the weight is not a
            number.
        ValueError
            If a value, the target or the weight is infinite or out of range. The same error is
            raised if there is no `window`, because samples are not stored without a window.

        Examples
        --------

        >>> from river_mondrian import RandomFourierFeatures, RidgeRegressor

        >>> model = RidgeRegressor(RandomFourierFeatures(20, seed=1), window=1000)
        >>> for i in range(10):
        ...     model.learn_one({"a": i / 10}, i)
        >>> model.forget_one({"a": 0.3}, 3)
        >>> model.forget_one({"a": 0.3}, 3)
        Traceback (most recent call last):
        KeyError: "no stored sample equals {'a': 0.3} with y = 3, weight 1.0"

        """
        self._check_holds()
        values = self._features._read_values(x)
        target, weight = inputs.check_target(y), inputs.check_weight(w)
        self._catch_up()
        positions = self._positions_of(values, target, weight)
        if not positions:
            text = f"no stored sample equals {dict(x)!r} with y = {y!r}, weight {weight!r}"
            raise KeyError(text)
        self._take_out(positions[0])

    @locked
    def forget_many(self, X: Any, y: Any, w: Any = 1.0, *, progress: bool = False) -> None:
        """Remove the rows of a frame from the posterior, like `forget_one`.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...
            Values are numbers, or levels if the map accepts levels; nulls and NaN are missing
            values.
        y
            The targets of the rows, by position.
        w
            The weight of all rows, or one weight per row.
        progress
            Whether to show the number of removed rows on stderr, with tqdm if it is installed, else
            as text. The result does not depend on `progress`. After Ctrl-C, each row has been
            removed completely or not at all.

        Raises
        ------
        KeyError
            If rows contain a sample more often than it is stored. The error names the row, and
            nothing changes.
        TypeError, ValueError
            As for `forget_one`, or if a column occurs twice or lengths differ.

        """
        self._check_holds()
        rows = frames.read_block(self._features._read_frame(X), y, w)
        self._catch_up()
        gone: set[int] = set()
        for i, (target, weight) in enumerate(zip(rows.y.tolist(), rows.w.tolist(), strict=True)):
            values = self._features._read_values(rows.mapping(i))
            # Equal rows have the same positions, so each position is removed only once.
            left = [k for k in self._positions_of(values, target, weight) if k not in gone]
            if not left:
                text = f"row {i} with y = {target!r}, weight {weight!r}"
                raise KeyError(f"{text} is not stored, or not as often as in the rows")
            gone.add(left[0])
        latest_first = sorted(gone, reverse=True)
        for piece in pieces(len(latest_first), progress):
            for k in latest_first[piece]:
                self._take_out(k)

    def _check_holds(self) -> None:
        """Raise an error if there is no window, because samples are then not stored."""
        if self.window is None:
            raise ValueError("samples are stored only with window=, got window=None")

    def _catch_up(self) -> None:
        """Update a new map's weights until the weights have learned all stored samples."""
        while self._next is not None:
            n_stored = len(self._targets)
            stop = min(self._position + REPLAY, n_stored)
            end = self._after_replay(self._next, stop, n_stored)
            replay = partial(self._replay, self._next, self._position, stop, self._next.n_learned)
            self._run_steps([replay, *(partial(setattr, self, *kv) for kv in end.items())])

    def _stored_in_window(self) -> NDArray[np.int64]:
        """Return the positions of the window's samples among the stored samples.

        Removed samples have weight 0.
        """
        assert self.window is not None
        return np.flatnonzero(np.array(self._weights) > 0.0)[-self.window :]

    def _positions_of(
        self, values: Mapping[Hashable, float], target: float, weight: float
    ) -> list[int]:
        """Return the positions of equal samples in the window, oldest first."""
        features, posterior, pool = self._features, self._current, self._features._pool
        known = features._reader.index.index_of
        is_new = any(value != 0.0 and name not in known for name, value in values.items())
        # No stored sample has a feature that the map does not know. But a final map ignores new
        # features, so samples are then compared without new features.
        if is_new and (pool is not None or not isinstance(features, kinds.Pooled)):
            return []
        if pool is None:
            if posterior is None:
                return []
            sample = features._locate(values, posterior.compiled)
            return posterior.positions_of(sample, target, weight)
        entries, positions = features._reader.entries(values), []
        for k, i in enumerate(self._stored_in_window().tolist()):
            if self._targets[i] == target and self._weights[i] == weight:
                stored = pool.csr(self._first + i, self._first + i + 1)
                if all(map(np.array_equal, entries, stored[:2])):
                    positions.append(k)
        return positions

    def _take_out(self, k: int) -> None:
        """Remove sample k of the window, counted from the oldest."""
        posterior, steps = self._current, []
        if self._features._pool is not None:
            rows, weights = self._stored_in_window(), np.zeros(len(self._weights))
            weights[rows] = np.array(self._weights)[rows]
            weights[rows[k]] = 0.0
            steps.append(partial(setattr, self, "_weights", array("d", weights.tolist())))
        if posterior is not None:
            steps.append(partial(posterior.forget, k, posterior.n_samples))
        self._run_steps(steps)

    # Learned state.

    @property
    @locked
    def n_columns(self) -> int:
        """Number of columns of the map in the model, at most `max_columns`."""
        return 0 if self._current is None else self._current.n_rows - bool(self.fit_intercept)

    @property
    @locked
    def log_marginal_likelihood(self) -> float:
        """Log marginal likelihood of the targets that were learned with the current map.

        The weights are integrated out. A learned noise variance is integrated out, too. With an
        intercept, the density is conditional on one target; the value is the same for each choice
        of this target. The log density is 0 before the first target, or, with an intercept, before
        the second target.
        """
        if self._current is None:
            return 0.0
        return self._current.log_likelihood(self.noise_variance)

    @property
    @locked
    def noise_posterior(self) -> Any:
        """Posterior of the noise variance, as a frozen inverse gamma distribution of SciPy.

        The value is None before the second sample (without an intercept, before the first sample),
        or if the variance is given.
        """
        if self.noise_variance is not None or self._current is None or not self._current.freedom:
            return None
        half = 0.5 * self._current.freedom
        # The import is slow, so the module is imported when it is first needed.
        from scipy import stats

        return stats.invgamma(half, scale=0.5 * self._current.residual)

    # Predicting.

    def _scale(self) -> float:
        """Return the noise variance, a factor of all variances of predictions."""
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
            A mapping from feature to number, or to a level if the map accepts levels; unknown
            features are ignored.
        with_dist
            Whether to return the distribution of the target, a `PredictiveDistribution`: normal if
            `noise_variance` is given, else a Student's t distribution. The degrees of freedom are
            the number of samples, minus one with an intercept. With two or fewer degrees of
            freedom, the variance is infinite.

        Returns
        -------
        The mean of the prediction, or the distribution of the target if `with_dist` is true. The
        mean is 0 before the first sample.

        """
        posterior = self._current
        mean, variance = 0.0, math.inf
        if posterior is not None:
            features = self._features
            sample = features._locate(x, posterior.compiled)
            status, mean, variance = posterior.predict(sample, with_dist)
            if status != limits.DONE:
                raise features._bad_input(status, x)
        if not with_dist:
            return mean
        if posterior is None:
            return unknown()
        n, freedom, noise = posterior.n_samples, None, self.noise_variance
        if noise is None:
            freedom = posterior.freedom
            if freedom == 0:
                return unknown(mean, n)
            noise = posterior.residual / freedom
        scale = np.array([math.sqrt(noise * variance)])
        freedoms = None if freedom is None else np.array([float(freedom)])
        return PredictiveDistribution(np.ones(1), np.array([mean]), scale, freedoms, n)

    @locked
    def predict_many(self, X: Any, with_dist: bool = False, *, progress: bool = False) -> Any:
        """Predict the targets of the rows of a frame.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...
            Values are numbers, or levels if the map accepts levels.
        with_dist
            Whether to return a frame with the columns "mean" and "variance".
        progress
            Whether to show the number of predicted rows on stderr, with tqdm if it is installed,
            else as text. The result does not depend on `progress`.

        Returns
        -------
        The means: a series of the same library as `X`, or an array if `X` is an array. A pandas
        series has the index of `X`. With `with_dist`, a frame with the columns "mean" and
        "variance" is returned.

        """
        frame, names, columns = self._features._read_frame(X)
        moments = np.full((len(columns), 2), math.inf)
        moments[:, 0] = 0.0
        if self._current is not None:
            for piece, out in self._blocks(names, columns, progress):
                moments[piece] = self._current.predict_rows(out, with_dist)
        if with_dist:
            moments[:, 1] *= self._scale()
        return frames.native_moments(moments, with_dist, like=frame)
