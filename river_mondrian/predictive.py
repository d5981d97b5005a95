"""Predictive distributions of the regressors.

A prediction is a mixture of normal and Student's t distributions. For mixtures of normal
distributions, `crps` computes the continuous ranked probability score in closed form.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NoReturn

import numpy as np
import scipy
from numpy.polynomial.legendre import leggauss

from .arguments import is_real
from .compiling.kernels import always_inline, batch_kernel
from .records import Float64s, Floats
from .values import quiet

# Number of quadrature nodes per integral, for the CRPS of Student's t distributions.
N_NODES = 64
# Tails are integrated up to this distance, in units of the largest scale.
FARTHEST_TAIL = 1e4
# Largest number of steps towards a mode.
MOST_MODE_STEPS = 1000

# `EXCESS` is E|Z| - z for a normal Z with mean z and variance 1, at knots z from 0 to 8. The
# difference equals 2 (phi(z) - z Phi(-z)), with the normal density phi and distribution function
# Phi. `SLOPE` is the derivative of `EXCESS`, -2 Phi(-z), times the distance between two knots.
# Cubics between the knots have an error of at most 2e-9, and are much faster than exponentials.
KNOTS_PER_UNIT = 32
N_KNOTS = 8 * KNOTS_PER_UNIT
_Z = [k / KNOTS_PER_UNIT for k in range(N_KNOTS + 1)]
_BEYOND = [math.erfc(z / math.sqrt(2.0)) / 2.0 for z in _Z]
_PHI = [math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) for z in _Z]
EXCESS = np.array([2.0 * (p - z * b) for z, p, b in zip(_Z, _PHI, _BEYOND, strict=True)])
SLOPE = np.array([-2.0 * b / KNOTS_PER_UNIT for b in _BEYOND])


@always_inline
def mean_absolute(mean: float, variance: float) -> float:
    """Return the mean absolute value of a normal distribution.

    Let s be the standard deviation, and z = |mean| / s. The result is s (2 phi(z) + z (1 - 2
    Phi(-z))) = |mean| + 2 s (phi(z) - z Phi(-z)).
    """
    size = abs(mean)
    if not variance > 0.0:
        return size
    spread = math.sqrt(variance)
    at = size / spread * KNOTS_PER_UNIT
    if not at < N_KNOTS:
        return size
    k = int(at)
    # Cubic Hermite interpolation between two knots that are 1 apart.
    u = at - k
    v = 1.0 - u
    excess = v * v * ((1.0 + 2.0 * u) * EXCESS[k] + u * SLOPE[k])
    excess += u * u * ((1.0 + 2.0 * v) * EXCESS[k + 1] - v * SLOPE[k + 1])
    return size + spread * float(excess)


@batch_kernel
def crps(mixture: Float64s, n: int, y: float) -> float:
    """Return E|Y - y| - E|Y - Y'| / 2 for independent Y and Y' from a mixture.

    `mixture` contains the weights, then the means, then the variances of `n` components.
    """
    weights, means = mixture.part(0, n), mixture.part(n, n)
    variances = mixture.part(2 * n, n)
    away, apart = 0.0, 0.0
    for i in range(n):
        # The difference of two independent normal variables is normal, and its variance is the sum
        # of both variances.
        away += weights[i] * mean_absolute(means[i] - y, variances[i])
        # E|Y - Y'| has the factor 1/2, so each unordered pair of different components counts once.
        # The pair of a component with itself counts half.
        among = 0.5 * weights[i] * mean_absolute(0.0, 2.0 * variances[i])
        for j in range(i):
            gap = mean_absolute(means[i] - means[j], variances[i] + variances[j])
            among += weights[j] * gap
        apart += weights[i] * among
    return away - apart


class PredictiveDistribution:
    """A predicted distribution of a target: a mixture of normal and Student's t distributions.

    The forests for targets and `RidgeRegressor` return a `PredictiveDistribution` from
    `predict_one(x, with_dist=True)`. If the program has imported `river.proba`, this class is
    registered as a `ContinuousDistribution` of River. But a predicted distribution cannot be
    updated.

    Parameters
    ----------
    weights
        Weights of the components, shape (n,). The weights sum to 1.
    centres
        Centres of the components, shape (n,). If a component is a Student's t distribution, all
        centres must be equal.
    scales
        Scales of the components, shape (n,). A component of scale 0 is a point mass. An infinite
        scale means that the target is unknown.
    freedoms
        Degrees of freedom of the components, shape (n,), infinite for normal distributions. None
        means that all components are normal.
    n_samples
        Number of samples that the model had learned before the prediction.

    Examples
    --------

    >>> import numpy as np
    >>> from river_mondrian import PredictiveDistribution

    >>> half = np.array([0.5, 0.5])
    >>> predicted = PredictiveDistribution(half, np.array([-1.0, 1.0]), np.ones(2))
    >>> predicted
    PredictiveDistribution(mean=0, var=2)
    >>> low, high = predicted.interval(0.9)
    >>> round(predicted.cdf(high) - predicted.cdf(low), 6)
    0.9
    >>> round(predicted.crps(2.5), 4)
    1.7221

    """

    def __init__(
        self,
        weights: Floats,
        centres: Floats,
        scales: Floats,
        freedoms: Floats | None = None,
        n_samples: int = 0,
    ) -> None:
        self.weights, self.centres, self.scales = weights, centres, scales
        self.freedoms = np.full(len(weights), np.inf) if freedoms is None else freedoms
        self.n_samples = n_samples
        # The class is registered only if the program has imported `river.proba`, because the import
        # takes most of a second.
        proba = sys.modules.get("river.proba.base")
        if proba is not None and not issubclass(
            PredictiveDistribution, proba.ContinuousDistribution
        ):
            proba.ContinuousDistribution.register(PredictiveDistribution)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mean={self.mean:.6g}, var={self.var:.6g})"

    @property
    @quiet
    def mean(self) -> float:
        """Mean of the distribution, or the centre if the mean does not exist."""
        return float(self.weights @ self.centres)

    @property
    def median(self) -> float:
        """Median: the quantile at 0.5."""
        return self.quantile(0.5)

    @property
    @quiet
    def var(self) -> float:
        """Variance of the distribution.

        The variance is infinite if a component of positive weight has an infinite scale, or a
        positive scale and at most 2 degrees of freedom.
        """
        used = self.weights > 0.0
        factors = np.where(self.freedoms > 2.0, 1.0 + 2.0 / (self.freedoms - 2.0), np.inf)
        variances = np.where(self.scales > 0.0, self.scales**2 * factors, 0.0)
        gaps = self.centres - self.mean
        return float(self.weights[used] @ (variances + gaps * gaps)[used])

    @property
    @quiet
    def mode(self) -> float:
        """Mode: the local maximum of the density that is reached from the most likely centre.

        If components of scale 0 have positive weight, the mode is the centre of the component with
        the largest weight among them. If all centres are equal, the mode is this centre.
        """
        if (self.centres == self.centres[0]).all():
            return float(self.centres[0])
        at = self.scales == 0.0
        if (self.weights[at] > 0.0).any():
            return float(self.centres[at][self.weights[at].argmax()])
        y: float = max(dict.fromkeys(self.centres.tolist()), key=self.log_pdf)
        # Each step moves to a weighted mean of the centres, which increases the density.
        used = self.weights > 0.0
        for _ in range(MOST_MODE_STEPS):
            logs = (self._log_terms(y) - 2.0 * np.log(self.scales))[used]
            shares = np.exp(logs - logs.max())
            before, y = y, float(shares @ self.centres[used] / shares.sum())
            if abs(y - before) <= 1e-12 * abs(y - self.centres).max():
                break
        return y

    def _log_terms(self, y: float) -> Floats:
        """Return the logarithm of each component's density times its weight."""
        v = self.freedoms
        z = np.where(self.centres == y, 0.0, (y - self.centres) / self.scales)
        logs = -0.5 * z * z - 0.5 * math.log(2.0 * math.pi)
        if not np.isinf(v).all():
            few, which = np.unique(v, return_inverse=True)
            at_0 = scipy.special.gammaln((few + 1.0) / 2.0) - scipy.special.gammaln(few / 2.0)
            # `hypot` is used, because the square of a large z would overflow.
            tails = (v + 1.0) * np.log(np.hypot(1.0, z / np.sqrt(v)))
            of_student = at_0[which] - 0.5 * np.log(v * math.pi) - tails
            logs = np.where(np.isinf(v), logs, of_student)
        terms: Floats = logs + np.log(self.weights) - np.log(self.scales)
        # The formulas are undefined for components of scale 0, whose density outside the centre is
        # 0, and of weight 0, whose density is 0 everywhere.
        nothing = (self.weights == 0.0) | ((self.scales == 0.0) & (self.centres != y))
        return np.where(nothing, -np.inf, terms)

    @quiet
    def log_pdf(self, y: float) -> float:
        """Return the logarithm of the density at a value.

        Parameters
        ----------
        y
            A value of the target.

        Returns
        -------
        The logarithm of the density: infinity at the centre of a component with scale 0 and
        positive weight, and -infinity where the density is 0.

        """
        return float(scipy.special.logsumexp(self._log_terms(y)))

    @quiet
    def pdf(self, y: float) -> float:
        """Return the density at a value.

        Parameters
        ----------
        y
            A value of the target.

        Returns
        -------
        The density, per unit of the target.

        """
        return float(np.exp(self.log_pdf(y)))

    __call__ = pdf

    def _tails(self, y: Floats, sign: float) -> Floats:
        """Return P(Y <= y) for each value y, or P(Y > y) if the sign is negative."""
        z = (y[:, None] - self.centres) / self.scales
        # A point mass at y counts as at most y; its z is 0 / 0, which is NaN.
        z = sign * np.where(np.isnan(z), np.inf, z)
        tails = scipy.special.ndtr(z)
        if not np.isinf(self.freedoms).all():
            of_student = scipy.special.stdtr(np.minimum(self.freedoms, 1e9), z)
            tails = np.where(np.isinf(self.freedoms), tails, of_student)
        return tails @ self.weights

    @quiet
    def cdf(self, y: float) -> float:
        """Return the cumulative distribution function at a value.

        Parameters
        ----------
        y
            A value of the target.

        Returns
        -------
        The probability that the target is at most `y`.

        """
        return float(self._tails(np.array([y]), 1.0)[0])

    @quiet
    def quantile(self, probability: float) -> float:
        """Return the quantile at a probability.

        Parameters
        ----------
        probability
            The probability, between 0 and 1, that the target is at most the quantile.

        Returns
        -------
        The quantile, in units of the target.

        Raises
        ------
        ValueError
            If the probability is not strictly between 0 and 1.

        """
        if not (is_real(probability) and 0.0 < probability < 1.0):
            raise ValueError(f"probability must be between 0 and 1, got {probability!r}")
        # The smaller tail is used, because 1 minus a small probability would lose digits.
        sign = 1.0 if probability <= 0.5 else -1.0
        tail = min(probability, 1.0 - probability)
        # Inverse distribution functions are slow, so they are called once for each number of
        # degrees of freedom.
        few, which = np.unique(self.freedoms, return_inverse=True)
        z = sign * _inverse_tail(few, tail)[which]
        # The mixture's quantile is between the smallest and the largest quantile of the components.
        used = self.weights > 0.0
        at_centre = (z == 0.0) | (self.scales == 0.0)
        ends = (self.centres + np.where(at_centre, 0.0, z * self.scales))[used]
        low, high = float(ends.min()), float(ends.max())

        def excess(y: float) -> float:
            return sign * (float(self._tails(np.array([y]), sign)[0]) - tail)

        if low == high or excess(low) >= 0.0:
            return low
        if excess(high) <= 0.0:
            return high
        # `scipy.optimize` is imported only here, because the import is slow.
        from scipy import optimize

        close = 1e-12 * (high - low)
        return float(optimize.brentq(excess, low, high, xtol=close, rtol=1e-15))

    @quiet
    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the central interval with a given probability.

        Parameters
        ----------
        level
            The probability of the interval, between 0 and 1.

        Returns
        -------
        The ends (low, high) of the interval: the quantiles at (1 - level) / 2 and (1 + level) / 2.

        Raises
        ------
        ValueError
            If the level is not strictly between 0 and 1.

        """
        if not (is_real(level) and 0.0 < level < 1.0):
            raise ValueError(f"level must be between 0 and 1, got {level!r}")
        tail = 0.5 - level / 2.0
        low = self.quantile(tail)
        centre = float(self.centres[0])
        if (self.centres == centre).all():
            return low, centre + (centre - low)
        # The sum 0.5 + level / 2 could round to 1, so the other end is a quantile of the mirrored
        # distribution.
        mirrored = self.weights, -self.centres, self.scales, self.freedoms
        return low, -PredictiveDistribution(*mirrored).quantile(tail)

    @quiet
    def crps(self, y: float) -> float:
        """Return the continuous ranked probability score of a value; lower is better.

        Parameters
        ----------
        y
            A value of the target.

        Returns
        -------
        The integral of (F(x) - 1{x >= y})^2 over x, with the distribution function F, in units of
        the target. The score is infinite if a scale is infinite.

        Notes
        -----
        For mixtures of normal distributions, the score has a closed form. The time to compute the
        score grows with the square of the number of components. If a component is a Student's t
        distribution, all components have the same centre c. Let G(u) = P(Y > c + u). The score is
        then the sum of two integrals. The first is the integral of 2 G(u)^2 over u > 0. The second
        is the integral of 1 - 2 G(u) over 0 < u < |y - c|. Both integrals are computed by
        Gauss-Legendre quadrature with growing steps.

        """
        if np.isinf(self.scales).any():
            return math.inf
        if np.isinf(self.freedoms).all():
            mixture = np.concatenate((self.weights, self.centres, self.scales**2), dtype=float)
            return crps.of()(Float64s.of(mixture), len(self.weights), float(y))
        centre = float(self.centres[0])
        away = abs(y - centre)
        scale = float(self.scales[self.weights > 1e-12].max())
        if scale == 0.0:
            return away
        # Components of scale 0 do not affect the smallest step, because their tails are 0 beyond
        # the centre.
        least = max(float(self.scales[self.scales > 0.0].min()), 1e-200 * max(scale, away))

        def integral(end: float, power: int) -> float:
            """Return the integral of P(Y > c + u)^power over u from 0 to least * sinh(end)."""
            nodes, weights = _NODES
            t = end * nodes
            tails = self._tails(centre + least * np.sinh(t), -1.0)
            return float((weights * least * np.cosh(t)) @ tails**power) * end

        total = 2.0 * integral(math.asinh(FARTHEST_TAIL * scale / least), 2)
        return total + away - 2.0 * integral(math.asinh(away / least), 1)

    @quiet
    def sample(self, seed: int | np.random.Generator | None = None) -> float:
        """Draw a random value of the target.

        Parameters
        ----------
        seed
            A NumPy generator, or a seed for a generator.

        Returns
        -------
        The drawn value, in units of the target.

        """
        rng = np.random.default_rng(seed)
        k = rng.choice(len(self.weights), p=self.weights / self.weights.sum())
        v = self.freedoms[k]
        drawn = rng.normal() if math.isinf(v) else rng.standard_t(v)
        return float(self.centres[k] + self.scales[k] * drawn)

    def update(self, *_: Any) -> NoReturn:
        """Raise an error, because a predicted distribution cannot be updated.

        Parameters
        ----------
        *_
            Ignored arguments.

        Raises
        ------
        TypeError
            Always.

        """
        raise TypeError("a predicted distribution cannot be updated: the model learns")

    revert = update


def _inverse_tail(freedoms: Floats, tail: float) -> Floats:
    """Return the quantile at a probability of at most 0.5, for each number of degrees of freedom.

    In extreme tails, SciPy's function returns infinity, so the first term of a series is used.
    With w = v / (v + z^2), the tail is a series in w, whose first term is w^(v/2) / (v B(v/2,
    1/2)).
    """
    if tail == 0.5:
        return np.zeros(len(freedoms))
    v = np.minimum(freedoms, 1e9)
    quantiles = scipy.special.stdtrit(v, tail)
    far = np.exp(-(np.log(v) + scipy.special.betaln(v / 2.0, 0.5) + math.log(tail)) / v)
    # The square of `far`, 1 / w, could overflow, so 1 / w - 1 is factored.
    expanded = -np.sqrt(v) * np.sqrt(far - 1.0) * np.sqrt(far + 1.0)
    quantiles = np.where(np.isfinite(quantiles), quantiles, expanded)
    return np.where(np.isinf(freedoms), scipy.special.ndtri(tail), quantiles)


def unknown(mean: float = 0.0, n_samples: int = 0) -> PredictiveDistribution:
    """Return a distribution with infinite scale, for an unknown target with a guessed mean."""
    ones = np.ones(1)
    return PredictiveDistribution(ones, mean * ones, math.inf * ones, None, n_samples)


# Gauss-Legendre nodes between 0 and 1, and their weights.
_NODES = [(ends + shift) / 2.0 for ends, shift in zip(leggauss(N_NODES), (1.0, 0.0), strict=True)]
