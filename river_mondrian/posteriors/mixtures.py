"""River distributions that regressors report: mixtures of normals, and of Student's t."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ..arguments import is_real
from ..compiling.kernels import batch_kernel, inlined
from ..records import Float64s

Array = NDArray[np.float64]

# Nodes in one half of the line, on which the score of a mixture is summed up.
N_NODES = 64
# Beyond so many times the largest scale a law counts as ended.
FARTHEST = 1e4


@dataclass(frozen=True)
class StudentMixture:
    """A mixture of Student and normal laws with one centre, which is its median and its mean.

    Parameters
    ----------
    centre
        The centre.
    weights
        Weights of the components, shape (n,); they add up to 1.
    scales
        Their scales, above 0, shape (n,).
    freedoms
        Their degrees of freedom, shape (n,); infinite ones are those of normal laws.

    Examples
    --------

    >>> import numpy as np
    >>> from river_mondrian.posteriors.mixtures import StudentMixture

    >>> law = StudentMixture(
    ...     2.0, np.array([0.5, 0.5]), np.array([1.0, 3.0]), np.array([np.inf, 3.0])
    ... )
    >>> law.mean, law.median, law.variance
    (2.0, 2.0, 14.0)
    >>> low, high = law.interval(0.9)
    >>> round(law.cdf(high) - law.cdf(low), 6)
    0.9
    >>> round(law.crps(2.5), 4)
    0.4992

    """

    centre: float
    weights: Array
    scales: Array
    freedoms: Array

    @property
    def mean(self) -> float:
        """Mean of the mixture, which is its centre."""
        return self.centre

    @property
    def median(self) -> float:
        """Median of the mixture, which is its centre."""
        return self.centre

    @property
    def mode(self) -> float:
        """The most likely value, which is the centre."""
        return self.centre

    @property
    def variance(self) -> float:
        """Variance of the mixture; infinite where a component's is, at 2 degrees of freedom."""
        with np.errstate(divide="ignore", invalid="ignore"):
            factors = np.where(self.freedoms > 2.0, self.freedoms / (self.freedoms - 2.0), np.inf)
        factors = np.where(np.isinf(self.freedoms), 1.0, factors)
        used = self.weights > 0.0
        return float(self.weights[used] @ (self.scales[used] ** 2 * factors[used]))

    def __call__(self, y: float) -> float:
        """Return the density at `y`."""
        return math.exp(self.log_pdf(y))

    def pdf(self, y: float) -> float:
        """Return the density at a value.

        Parameters
        ----------
        y
            A value, in units of the target.

        Returns
        -------
        The density, per unit of the target; the law itself, called, gives the same.

        """
        return self(y)

    def log_pdf(self, y: float) -> float:
        """Return the logarithm of the density at a value.

        Parameters
        ----------
        y
            A value, in units of the target.

        Returns
        -------
        The logarithm, finite wherever the value is.

        """
        z = (y - self.centre) / self.scales
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            v = self.freedoms
            few, which = np.unique(v, return_inverse=True)
            at_0 = scipy.special.gammaln((few + 1.0) / 2.0) - scipy.special.gammaln(few / 2.0)
            of_student = at_0[which]
            # Squares of far ones would overflow.
            tails = (v + 1.0) * np.log(np.hypot(1.0, z / np.sqrt(v)))
            of_student -= 0.5 * np.log(v * math.pi) + tails
            of_normal = -0.5 * z * z - 0.5 * math.log(2.0 * math.pi)
            logs = np.where(np.isinf(v), of_normal, of_student)
            logs += np.log(self.weights) - np.log(self.scales)
        return float(scipy.special.logsumexp(logs))

    def _beyond(self, distances: Array) -> Array:
        """Return the probability of more than the centre plus each distance, none negative."""
        z = distances[:, None] / self.scales
        tails = np.where(
            np.isinf(self.freedoms),
            scipy.special.ndtr(-z),
            scipy.special.stdtr(np.minimum(self.freedoms, 1e9), -z),
        )
        found: Array = tails @ self.weights
        return found

    def cdf(self, y: float) -> float:
        """Return the probability of at most a value.

        Parameters
        ----------
        y
            A value, in units of the target.

        Returns
        -------
        The probability.

        """
        beyond = float(self._beyond(np.array([abs(y - self.centre)]))[0])
        return beyond if y < self.centre else 1.0 - beyond

    def quantile(self, probability: float) -> float:
        """Return the value that is exceeded with probability 1 - `probability`.

        Parameters
        ----------
        probability
            A probability between 0 and 1, both excluded.

        Returns
        -------
        The value, in units of the target.

        Raises
        ------
        ValueError
            If the probability is not between 0 and 1.

        """
        if not (is_real(probability) and 0.0 < probability < 1.0):
            raise ValueError(f"probability must be between 0 and 1, got {probability!r}")
        tail = min(probability, 1.0 - probability)
        if tail == 0.5:
            return self.centre
        used = self.weights > 0.0
        # Inverse functions take long: few laws have many degrees of freedom.
        freedoms, which = np.unique(self.freedoms, return_inverse=True)
        of_student = -scipy.special.stdtrit(np.minimum(freedoms, 1e9), tail)
        z = np.where(np.isinf(freedoms), -scipy.special.ndtri(tail), of_student)[which]
        # The mixture's quantile lies between those of its components.
        ends = (z * self.scales)[used]
        low, high = float(ends.min()), float(ends.max())
        if low < high:
            # It takes long to import.
            from scipy import optimize

            def excess(distance: float) -> float:
                return float(self._beyond(np.array([distance]))[0]) - tail

            if excess(low) > 0.0 > excess(high):
                close = 1e-12 * high
                low = float(optimize.brentq(excess, low, high, xtol=close, rtol=1e-12))
        return self.centre + (low if probability > 0.5 else -low)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the central interval of a given probability.

        Parameters
        ----------
        level
            The probability that a value is inside, between 0 and 1, both excluded.

        Returns
        -------
        The lower and the upper end, in units of the target.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1.

        """
        if not (is_real(level) and 0.0 < level < 1.0):
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        return self.quantile(0.5 - level / 2.0), self.quantile(0.5 + level / 2.0)

    def crps(self, y: float) -> float:
        """Return the continuous ranked probability score of a value; less is better.

        It is the integral of (F(x) - 1{x >= y})^2. With the tail G(u) = 1 - F(centre + u) and the
        distance a of `y` from the centre that is, by symmetry, the integral of 2 G(u)^2 over u > 0
        plus that of 1 - 2 G(u) from 0 to a; both by Gauss and Legendre, in steps that grow.

        Parameters
        ----------
        y
            The value that has come, in units of the target.

        Returns
        -------
        The score, in units of the target.

        """
        away = abs(y - self.centre)
        scale = float(self.scales[self.weights > 1e-12].max())
        least = float(self.scales.min())
        nodes, weights = _NODES
        # Distances are least * sinh(t).
        end = math.asinh(FARTHEST * scale / least)
        t = end * nodes
        tails = self._beyond(least * np.sinh(t))
        total = 2.0 * float((weights * least * np.cosh(t)) @ tails**2) * end
        if away > 0.0:
            end = math.asinh(away / least)
            t = end * nodes
            tails = self._beyond(least * np.sinh(t))
            inside = float((weights * least * np.cosh(t)) @ tails) * end
            total += away - 2.0 * inside
        return total

    def sample(self, rng: np.random.Generator) -> float:
        """Draw a value.

        Parameters
        ----------
        rng
            What draws it.

        Returns
        -------
        The value, in units of the target.

        """
        k = rng.choice(len(self.weights), p=self.weights / self.weights.sum())
        if math.isinf(self.freedoms[k]):
            return self.centre + float(self.scales[k] * rng.normal())
        return self.centre + float(self.scales[k] * rng.standard_t(self.freedoms[k]))


def _gauss_legendre() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(N_NODES)
    return (nodes + 1.0) / 2.0, weights / 2.0


_NODES = _gauss_legendre()


# What the mean absolute value of a normal with mean z and variance 1 exceeds z by,
# 2 (phi(z) - z Phi(-z)), at knots from 0 to where it ends, and its slope -2 Phi(-z) per knot.
# Cubics between them are right to 2e-9; exponentials would take most of the time.
KNOTS_PER_UNIT = 32
N_KNOTS = 8 * KNOTS_PER_UNIT
_Z = [k / KNOTS_PER_UNIT for k in range(N_KNOTS + 1)]
_BEYOND = [math.erfc(z / math.sqrt(2.0)) / 2.0 for z in _Z]
_PHI = [math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) for z in _Z]
EXCESS = np.array([2.0 * (p - z * b) for z, p, b in zip(_Z, _PHI, _BEYOND, strict=True)])
SLOPE = np.array([-2.0 * b / KNOTS_PER_UNIT for b in _BEYOND])


@inlined
def mean_absolute(mean: float, variance: float) -> float:
    """Return the mean absolute value of a normal distribution.

    With z = |mean| / s it is s (2 phi(z) + z (1 - 2 Phi(-z))) = |mean| + 2 s (phi(z) - z Phi(-z)).
    """
    size = abs(mean)
    if not variance > 0.0:
        return size
    spread = math.sqrt(variance)
    at = size / spread * KNOTS_PER_UNIT
    if not at < N_KNOTS:
        return size
    k = int(at)
    # Hermite's cubic between two knots, a unit apart.
    u = at - k
    v = 1.0 - u
    excess = v * v * ((1.0 + 2.0 * u) * EXCESS[k] + u * SLOPE[k])
    excess += u * u * ((1.0 + 2.0 * v) * EXCESS[k + 1] - v * SLOPE[k + 1])
    return size + spread * float(excess)


@batch_kernel
def crps(mixture: Float64s, n: int, y: float) -> float:
    """Return E|Y - y| - E|Y - Y'| / 2 for independent Y and Y' from a mixture.

    It has `n` components: first come their weights, then their means, then their variances.
    """
    weights, means = mixture.part(0, n), mixture.part(n, n)
    variances = mixture.part(2 * n, n)
    away, apart = 0.0, 0.0
    for i in range(n):
        # The difference of two independent normals is normal; its variance is the sum of theirs.
        away += weights[i] * mean_absolute(means[i] - y, variances[i])
        # A pair and its reverse count together, a component with itself once.
        among = 0.5 * weights[i] * mean_absolute(0.0, 2.0 * variances[i])
        for j in range(i):
            gap = mean_absolute(means[i] - means[j], variances[i] + variances[j])
            among += weights[j] * gap
        apart += weights[i] * among
    return away - apart


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
    >>> from river_mondrian.posteriors.mixtures import GaussianMixture

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
