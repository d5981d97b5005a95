"""What residuals add to the log marginal likelihood of a linear model."""

from __future__ import annotations

import math

import scipy


def log_of_residual(residual: float, freedom: int, noise_variance: float | None) -> float:
    """Return what a log marginal likelihood takes from residuals.

    Parameters
    ----------
    residual
        Sum of squared, standardised residuals.
    freedom
        Their number.
    noise_variance
        Variance of the noise; None integrates it out under the prior 1 / variance.

    """
    if noise_variance is not None:
        return -0.5 * (freedom * math.log(2.0 * math.pi * noise_variance)) - 0.5 * (
            residual / noise_variance
        )
    if residual <= 0.0:
        return math.inf
    half = 0.5 * freedom
    return float(scipy.special.gammaln(half)) - half * (math.log(math.pi) + math.log(residual))
