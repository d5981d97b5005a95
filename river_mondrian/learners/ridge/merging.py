"""The posterior given the samples of two posteriors.

Both have the same prior, whose precision delta2 I counts once. With A = T' T and T w = z as in
`kernels`, A = A1 + A2 - delta2 I, and what the targets say adds up. The sum of squares that is left
at the joint mean w is that of either part and |T1 w - z1|^2 + |T2 w - z2|^2 - delta2 |w|^2, of
which no large numbers cancel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from .posterior import Posterior

Matrix = NDArray[np.float64]


class _Part(NamedTuple):
    """A posterior by the rows of the joint one: T, z, and the prior's diagonal of its columns."""

    triangle: Matrix
    moments: Matrix
    prior: Matrix


def _part(posterior: Posterior, rows: NDArray[np.int64], n: int) -> _Part:
    """Return a posterior whose rows are some of `n`."""
    record, arrays = posterior.record, posterior.memory.arrays
    size = record.n_rows
    triangle = np.zeros((size, size))
    triangle[np.tril_indices(size)] = arrays["factor"][: size * (size + 1) // 2]
    found = np.zeros((size, n))
    found[:, rows] = triangle
    prior = np.zeros(n)
    prior[rows] = record.delta2
    if record.has_intercept:
        prior[0] = 0.0
    return _Part(found, arrays["moments"][:size].copy(), prior)


def _may_lack(posterior: Posterior) -> bool:
    """Tell whether a posterior may have left out columns that its samples have."""
    record = posterior.record
    kept = record.n_rows - record.has_intercept
    return record.n_rows == record.limit and kept < posterior.compiled.n_columns


def _factor(matrix: Matrix) -> Matrix:
    """Return the lower triangle T with T' T = A."""
    upper = scipy.linalg.cholesky(matrix[::-1, ::-1], lower=True)
    found: Matrix = upper.T[::-1, ::-1]
    return found


def merge_posteriors(posterior: Posterior, other: Posterior, columns: NDArray[np.int64]) -> None:
    """Let a posterior learn all that another one has learned.

    Parameters
    ----------
    posterior
        The one that learns; its map has the columns of both.
    other
        The other one, of the same prior.
    columns
        By column of the other one's map: its column in the map of the first.

    Raises
    ------
    ValueError
        If the joint posterior has more columns than are kept.

    """
    while posterior.compiled.n_columns > posterior.record.n_columns:
        posterior._make_room()
    record, its = posterior.record, other.record
    slots, its_slots = posterior.memory.arrays["slots"], other.memory.arrays["slots"]
    rows = np.zeros(its.n_rows, np.int64)
    n = record.n_rows
    slots = slots.copy()
    used = np.flatnonzero(its_slots[: len(columns)] >= 0)
    for column in used[np.argsort(its_slots[used])].tolist():
        here = int(columns[column])
        if slots[here] < 0:
            slots[here] = n
            n += 1
        rows[its_slots[column]] = slots[here]
    if n > record.limit or _may_lack(posterior) or _may_lack(other):
        most = record.limit - record.has_intercept
        raise ValueError(
            f"the samples have, or may have, more than max_columns={most} columns: which of them "
            "are kept depends on the order"
        )
    own, theirs = _part(posterior, np.arange(record.n_rows), n), _part(other, rows, n)
    # Their targets by our shift.
    moved = theirs.moments
    if record.has_intercept:
        moved = moved + (its.shift - record.shift) * theirs.triangle[:, 0]
    joint = own.triangle.T @ own.triangle + theirs.triangle.T @ theirs.triangle
    # Where a column is in one only, there is the prior of that one.
    joint[np.diag_indices(n)] -= np.minimum(own.prior, theirs.prior)
    factor = _factor(joint)
    said = own.triangle.T @ own.moments + theirs.triangle.T @ moved
    moments = scipy.linalg.solve_triangular(factor, said, trans="T", lower=True)
    weights = scipy.linalg.solve_triangular(factor, moments, lower=True)
    left = float(record.residual) + float(its.residual)
    left += float(np.sum((own.triangle @ weights - own.moments) ** 2))
    left += float(np.sum((theirs.triangle @ weights - moved) ** 2))
    left -= float(np.minimum(own.prior, theirs.prior) @ weights**2)
    posterior._bind(factor[np.tril_indices(n)], moments, slots)
    record.n_rows = n
    record.residual = max(left, 0.0)
    record.n_samples += its.n_samples
    record.n_learned += its.n_learned
    record.log_weights = float(record.log_weights) + float(its.log_weights)
