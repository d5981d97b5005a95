"""Bayesian ridge regression (Balog et al., 2016, 4.2.1), by dense matrices of all samples.

A sample is a mapping from columns to values.
"""

import math

import numpy as np
from scipy import stats


class Ridge:
    """The posterior of the weights given samples.

    Parameters
    ----------
    delta2
        The noise variance divided by the prior variance of a weight.
    intercept
        Whether there is an intercept, with a flat prior.
    limit
        The largest number of columns; later columns are left out.
    before
        Removed samples, whose columns remain.

    """

    def __init__(self, rows, y, weights, delta2, intercept, limit=10**9, before=()):
        kept = [i for i, w in enumerate(weights) if w > 0.0]
        self.columns = []
        for row in [*before, *(rows[i] for i in kept)]:
            for column, value in row.items():
                if value != 0.0 and column not in self.columns and len(self.columns) < limit:
                    self.columns.append(column)
        self.full = len(self.columns) == limit
        self.delta2, self.intercept = delta2, intercept
        self.Phi = np.array([self.vector(rows[i]) for i in kept]).reshape(len(kept), -1)
        self.y = np.array([y[i] for i in kept])
        self.noise = np.diag([1.0 / weights[i] for i in kept])

    def vector(self, x):
        return [1.0] * self.intercept + [x.get(column, 0.0) for column in self.columns]

    @property
    def _precision(self):
        prior = np.full(self.Phi.shape[1], self.delta2)
        prior[: self.intercept] = 0.0
        return self.Phi.T @ np.linalg.inv(self.noise) @ self.Phi + np.diag(prior)

    def mean(self, x):
        moments = self.Phi.T @ np.linalg.inv(self.noise) @ self.y
        return float(self.vector(x) @ np.linalg.solve(self._precision, moments))

    def variance(self, x):
        """Return the variance of a target divided by the noise variance."""
        v = np.array(self.vector(x))
        known = 1.0 + v @ np.linalg.solve(self._precision, v)
        new = [value for column, value in x.items() if column not in self.columns]
        return known + (0.0 if self.full else sum(value**2 for value in new) / self.delta2)

    def log_density(self, noise_variance):
        """Return the log density of the targets, given the first if there is an intercept."""
        cells = self.Phi[:, self.intercept :]
        K, y = noise_variance * (self.noise + cells @ cells.T / self.delta2), self.y
        if self.intercept:
            # Differences from the first target do not depend on the intercept.
            D = np.hstack([-np.ones((len(y) - 1, 1)), np.eye(len(y) - 1)])
            K, y = D @ K @ D.T, D @ y
        return stats.multivariate_normal(cov=K).logpdf(y) if len(y) else 0.0

    def marginal(self):
        """Return the log of the density, integrated over the log noise variance."""
        grid = np.linspace(-30.0, 30.0, 20_001)
        logs = np.array([self.log_density(math.exp(t)) for t in grid[::100]])
        # Densities are slow, so they are interpolated by a formula in the variance.
        n = len(self.y) - self.intercept
        quadratic = 2.0 * (self.log_density(2.0) - self.log_density(1.0)) + n * math.log(2.0)
        fine = self.log_density(1.0) + quadratic - 0.5 * n * grid - quadratic * np.exp(-grid)
        np.testing.assert_allclose(fine[::100], logs, rtol=1e-6, atol=1e-6)
        top = fine.max()
        return float(top + math.log(np.exp(fine - top).sum() * (grid[1] - grid[0])))
