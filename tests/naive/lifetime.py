"""Mondrian features at a lifetime (Balog et al., 2016, sections 3 and 6), by dense matrices.

A partition is given by its cuts, in the form of `LifetimePath.cuts`.
"""

import math

import numpy as np
from scipy import stats


def cells_of(x, cuts, n_partitions):
    """Return the cell of a point in each partition, after all `cuts`."""
    cells = list(range(n_partitions))
    for number, (m, cell, feature, place) in enumerate(cuts):
        if cells[m] == cell and x[feature] > place:
            cells[m] = n_partitions + number
    return cells


def features(X, cuts, n_partitions):
    """Return the features of points: 1 / sqrt(M) in the columns of their cells (equation 2)."""
    Phi = np.zeros((len(X), n_partitions + len(cuts)))
    for row, x in zip(Phi, X, strict=True):
        row[cells_of(x, cuts, n_partitions)] = 1.0 / math.sqrt(n_partitions)
    return Phi


def ridge(Phi, y, delta2):
    """Return the weights that minimise equation (3)."""
    return np.linalg.solve(Phi.T @ Phi + delta2 * np.eye(Phi.shape[1]), Phi.T @ y)


def forest(Phi, y, delta2):
    """Return the weights that minimise equation (4), cell by cell."""
    n_partitions = round(1.0 / Phi.max() ** 2)
    inside = Phi > 0.0
    means = [y[rows].sum() / (rows.sum() + delta2) for rows in inside.T]
    return np.array(means) / math.sqrt(n_partitions)


def log_density(Phi, y, delta2, noise):
    """Return the log density of targets; weights have the prior variance `noise` / delta2."""
    K = noise * (np.eye(len(y)) + Phi @ Phi.T / delta2)
    return stats.multivariate_normal(cov=K).logpdf(y)


def descend(Phi, y, delta2, weights, visits, rate):
    """Return weights after gradient descent on equation (3), at a rate that decreases to 0.

    The ridge of a cell is divided among its points (section 4.2.2).
    """
    weights = weights.copy()
    inside = Phi > 0.0
    for k, i in enumerate(visits):
        slope = Phi[i] * (y[i] - Phi[i] @ weights)
        slope -= delta2 * np.where(inside[i], weights / inside.sum(axis=0), 0.0)
        weights += rate * (1.0 - k / len(visits)) * slope
    return weights
