"""The closed form of the density that infinitely many Mondrian trees estimate."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arguments import is_real
from ..frames import read_frame
from ..inputs import check_value

# The least and the largest lifetime, so that cells have finite volumes above 0.
LEAST_LIFETIME, LARGEST_LIFETIME = 1e-100, 1e100


def check_lifetime_size(lifetime: Any, when: str = "") -> None:
    """Refuse a lifetime that is no number, or with which cells may have no finite volume."""
    if not is_real(lifetime) or not LEAST_LIFETIME <= lifetime <= LARGEST_LIFETIME:
        raise ValueError(
            f"lifetime must be a number from {LEAST_LIFETIME:g} to {LARGEST_LIFETIME:g}, got "
            f"{lifetime!r}{when}"
        )


def exact_density(X: Any, x: Any, lifetime: float) -> float | NDArray[np.float64]:
    """Return the density that infinitely many Mondrian trees estimate from samples.

    The closed form of Theorem 5.1[^1]: a kernel density estimate whose kernel is, in each
    dimension, lifetime E_2(lifetime |x - X_i|), where E_2(t) = exp(-t) - t E_1(t) is a generalized
    exponential integral.

    Parameters
    ----------
    X
        The samples: a pandas, polars or pyarrow frame, or an array of shape (n, d).
    x
        Where: a mapping from the frame's columns to numbers, a vector of d numbers in the order of
        the columns, or several, as a frame with the same columns or an array of shape (k, d).
    lifetime
        Lifetime of the trees, as for `DensityForest`, whose density tends to this one.

    Returns
    -------
    The density, a float, or an array of k where there are several.

    Raises
    ------
    TypeError
        If a value is no number.
    ValueError
        If there are no samples, values are missing or infinite, features do not match, or the
        lifetime is not a positive number.

    Examples
    --------

    >>> import numpy as np
    >>> from river_mondrian import exact_density

    >>> round(exact_density(np.array([[0.0], [1.0]]), [0.0], lifetime=2.0), 4)
    1.0375

    References
    ----------
    [^1]: O'Reilly, E. and Tran, N. M. (2022). Stochastic Geometry to Generalize the Mondrian
    Process. SIAM Journal on Mathematics of Data Science 4(2). Theorem 5.1.

    """
    from scipy.special import expn

    check_lifetime_size(lifetime)
    names, samples = _matrix("X", X, None)
    if len(samples) == 0:
        raise ValueError("X must have a row")
    one = isinstance(x, Mapping)
    if one:
        if names is None:
            raise ValueError("x may be a mapping only where X is a frame")
        if set(x) != set(names):
            raise ValueError(f"x must have the features {names!r}, got {list(x)!r}")
        x = [check_value(name, x[name]) for name in names]
    elif not hasattr(x, "columns") or names is None:
        one = np.ndim(x) == 1
    queries = _matrix("x", np.reshape(x, (1, -1)) if one else x, names)[1]
    if queries.shape[1] != samples.shape[1]:
        raise ValueError(f"x must have {samples.shape[1]} features like X, got {queries.shape[1]}")
    found = np.empty(len(queries))
    for i, query in enumerate(queries):
        # Theorem 5.1. In each dimension its kernel, Equation 15, is exp(-t) h(t) with h(t) =
        # 1 - t exp(t) E_1(t), which is E_2(t), at t = lifetime |x - X_i|.
        with np.errstate(divide="ignore"):
            logs = np.log(expn(2, lifetime * np.abs(samples - query))) + math.log(lifetime)
        found[i] = np.exp(logs.sum(axis=1)).mean()
    return float(found[0]) if one else found


def _matrix(
    what: str, values: Any, names: list[Hashable] | None
) -> tuple[list[Hashable] | None, NDArray[np.float64]]:
    """Read a frame, whose columns are to be `names` if given, or an array, which has none."""
    if hasattr(values, "columns"):
        _, found, matrix = read_frame(values)
        if names is not None:
            if set(found) != set(names):
                raise ValueError(f"{what} must have the features {names!r}, got {found!r}")
            places = {name: place for place, name in enumerate(found)}
            matrix = matrix[:, [places[name] for name in names]]
            found = names
    else:
        found, matrix = None, np.asarray(values, dtype=np.float64)
        if matrix.ndim != 2:
            raise ValueError(f"{what} must have two dimensions, got {matrix.ndim}")
    if not np.isfinite(matrix).all():
        row, place = np.argwhere(~np.isfinite(matrix))[0]
        name, value = place if found is None else found[place], float(matrix[row, place])
        raise ValueError(f"{what} must be finite, got {value} for feature {name!r} in row {row}")
    return found, matrix
