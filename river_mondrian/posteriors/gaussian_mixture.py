"""Mixtures of normal distributions: what a forest predicts of a target."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ..arguments import is_real
from ..records import Float64s
from .crps import crps


@dataclass(frozen=True)
class GaussianMixture:
    """A mixture of normal distributions.

    Parameters
    ----------
    weights
        Weights of the components, shape (n,); they add up to 1.
    means
        Their means, shape (n,).
    variances
        Their variances, shape (n,); a component without one is a point.

    Examples
    --------

    >>> import numpy as np
    >>> from river_mondrian.posteriors.gaussian_mixture import GaussianMixture

    >>> mixture = GaussianMixture(np.array([0.5, 0.5]), np.array([-1.0, 1.0]), np.array([1.0, 1.0]))
    >>> mixture.mean, mixture.variance
    (0.0, 2.0)
    >>> round(mixture.quantile(0.5), 9)
    0.0
    >>> low, high = mixture.interval(0.9)
    >>> round(mixture.cdf(high) - mixture.cdf(low), 6)
    0.9

    """

    weights: NDArray[np.float64]
    means: NDArray[np.float64]
    variances: NDArray[np.float64]

    @property
    def mean(self) -> float:
        """Mean of the mixture."""
        return float(self.weights @ self.means)

    @property
    def variance(self) -> float:
        """Variance of the mixture."""
        gaps = self.means - self.mean
        return float(self.weights @ (self.variances + gaps * gaps))

    def _standardized(self, y: float) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            z = (y - self.means) / np.sqrt(self.variances)
        # A point at y itself has been passed.
        return np.where(np.isnan(z), np.inf, z)

    def cdf(self, y: float) -> float:
        """Return the probability of at most `y`."""
        return float(self.weights @ scipy.special.ndtr(self._standardized(y)))

    def log_pdf(self, y: float) -> float:
        """Return the log density at `y`; infinite at a point with a weight."""
        with np.errstate(divide="ignore", invalid="ignore"):
            gaps = np.where(self.means == y, 0.0, (y - self.means) ** 2 / self.variances)
            logs = np.log(self.weights) - 0.5 * (gaps + np.log(2.0 * math.pi * self.variances))
        # Away from y a point has no density, and without a weight there is no component.
        nothing = (self.weights == 0.0) | ((self.variances == 0.0) & (self.means != y))
        logs = np.where(nothing, -np.inf, logs)
        return float(scipy.special.logsumexp(logs))

    def quantile(self, probability: float) -> float:
        """Return the value that is exceeded with probability 1 - `probability`.

        Raises
        ------
        ValueError
            If the probability is not between 0 and 1, both excluded.

        """
        if not (is_real(probability) and 0.0 < probability < 1.0):
            raise ValueError(f"probability must be between 0 and 1, got {probability!r}")
        # The mixture's quantile lies between those of its components.
        quantiles = self.means + np.sqrt(self.variances) * scipy.special.ndtri(probability)
        low, high = float(quantiles.min()), float(quantiles.max())
        if low == high or self.cdf(low) >= probability:
            return low
        if self.cdf(high) <= probability:
            return high
        # It takes long to import.
        from scipy import optimize

        close = 1e-12 * (high - low)
        return float(optimize.brentq(lambda y: self.cdf(y) - probability, low, high, xtol=close))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the central interval that has a probability of `level`."""
        if not (is_real(level) and 0.0 < level < 1.0):
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        return self.quantile(0.5 - level / 2.0), self.quantile(0.5 + level / 2.0)

    def crps(self, y: float) -> float:
        """Return the continuous ranked probability score of `y`, in its units; less is better.

        It is E|Y - y| - E|Y - Y'| / 2 for independent Y and Y' from the mixture. The time it takes
        grows with the square of the number of components.
        """
        parts = np.concatenate((self.weights, self.means, self.variances), dtype=float)
        return crps.of()(Float64s.of(parts), len(self.weights), float(y))


def gaussian(n: int, mean: float, variance: float) -> Any:
    """Return River's normal distribution with the moments of `n` samples."""
    # It takes long to import.
    from river import proba

    return proba.Gaussian._from_state(n, mean, variance, 0)  # type: ignore[no-untyped-call]
