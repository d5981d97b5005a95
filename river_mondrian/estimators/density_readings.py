"""Densities, surprises and scores of density forests."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from .. import arguments, limits
from ..density.mixture import FLOORED, LOG_DENSITY, SCORE
from ..density.trees import PivotTrees
from ..frames import native_series, read_frame
from ..inputs import FeatureIndex, Floats, check_value, too_large
from ..model import Model, locked
from ..progress import pieces


class DensityReadings(Model):
    """Base class of models whose trees estimate densities."""

    _features: FeatureIndex
    _trees: PivotTrees | None

    def _too_large(self, i: int, x: Mapping[Any, Any]) -> ValueError:
        name = self._features.names[i]
        return too_large(name, x[name])

    # Prediction.

    def log_density_one(self, x: Mapping[Any, Any]) -> float:
        """Return the logarithm of the density at a sample.

        Parameters
        ----------
        x
            A mapping from feature to number; unknown features are ignored.

        Returns
        -------
        The logarithm; minus infinity if the density is 0, and before the first sample. The
        logarithm may be finite even if the density is too small or too large for a float.

        Raises
        ------
        TypeError
            If a value is not a number.
        ValueError
            If a value is infinite or too large for single precision.

        """
        return self._read(x, LOG_DENSITY, -math.inf)

    def _read(self, x: Mapping[Any, Any], reading: int, before: float) -> float:
        """Return an output of the trees for a sample, or `before` if no sample has been learned."""
        with self._lock:
            trees = self._trees
            if trees is None:
                self._features.read(x)
                return before
            if trees.is_unfinished[0]:
                self._settle()
            self._features.read_into(x, trees.vector)
            output = trees.read(reading)
            if math.isnan(output):
                raise self._too_large(int(np.argmax(np.abs(trees.vector) > limits.LARGEST)), x)
            return output

    def density_one(self, x: Mapping[Any, Any]) -> float:
        """Return the density at a sample, per unit of volume of the features.

        Raises the same errors as `log_density_one`.

        Parameters
        ----------
        x
            A mapping from feature to number; unknown features are ignored.

        Returns
        -------
        The density; 0 before the first sample.

        """
        return _exp(self.log_density_one(x))

    def surprise_one(self, x: Mapping[Any, Any]) -> float:
        """Return minus the logarithm of the density, with a lower bound on the density.

        Raises the same errors as `log_density_one`.

        Parameters
        ----------
        x
            A mapping from feature to number; unknown features are ignored.

        Returns
        -------
        The surprise in nats, higher for rarer samples; 0 before the first sample. Without a mixture
        over lifetimes, the density is 0 if no tree has a sample in the point's cell. Then each tree
        uses the last cell with samples on the point's path, as if the cell held one sample. On
        average, this cell is larger if the point is farther from all samples.

        """
        return -self._read(x, FLOORED, -0.0)

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return an anomaly score within [0, 1].

        Unless there is an `origin` and a fixed lifetime, the score is defined as follows. Let e be
        the sample's surprise minus the median surprise of the learned samples. The rarity r is e
        divided by the mean deviation of the learned samples' surprises from the median. The
        surprise of a sample is computed before the sample is learned. The score is (1 + r / (1 +
        |r|)) / 2, which increases with the surprise. The score is 1/2 at the median, 3/4 at one
        mean deviation above the median, and .95 at nine mean deviations. The median and the mean
        deviation are running estimates over about the latest 512 samples. With one lifetime and a
        method that needs volumes, only every eighth sample updates the estimates, so they cover
        about the latest 4,096 samples.

        With lifetime "auto", r is the maximum over all lifetimes at which a sample's cells contain
        1/256 to 1/4 of all samples on average. So single rare samples, and groups of similar
        samples far from the others, get high scores.

        With an `origin` and a fixed lifetime, the score is 1 / (1 + n f(x) v), for n samples of d
        features, density f(x), and the mean volume v = (2 / lifetime)^d of the cell that contains
        x. This score does not depend on the order of samples.

        Raises the same errors as `log_density_one`.

        Parameters
        ----------
        x
            A mapping from feature to number; unknown features are ignored.

        Returns
        -------
        The score; 0 before the first sample.

        """
        return self._read(x, SCORE, 0.0)

    def _read_many(self, X: Any, reading: int, before: float, progress: bool) -> tuple[Any, Floats]:
        frame, names, columns = read_frame(X)
        out = np.full(len(columns), before)
        if self._trees is not None:
            rows = self._features.arrange(names, columns, len(self._features))
            for piece in pieces(len(rows), progress):
                self._trees.read_many(rows[piece], out[piece], reading)
        return frame, out

    @locked
    def log_density_many(self, X: Any, *, progress: bool = False) -> Any:
        """Return the logarithm of the density at each row of a frame.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...
            Values are numbers; nulls and NaN are missing values.
        progress
            Whether to show the number of completed rows on stderr, with tqdm if it is installed,
            else as text. The result does not depend on `progress`.

        Returns
        -------
        `log_density_one` of each row: a series of the same library as `X`, or an array if `X` is an
        array. A pandas series has the index of `X`.

        Raises
        ------
        TypeError
            If a column contains a value that is not a number.
        ValueError
            If a value is infinite or too large, or a column occurs twice.

        """
        frame, out = self._read_many(X, LOG_DENSITY, -math.inf, progress)
        return native_series(out, name="log_density", like=frame)

    @locked
    def density_many(self, X: Any, *, progress: bool = False) -> Any:
        """Return the density at each row of a frame.

        Raises the same errors as `log_density_many`.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...
            Values are numbers; nulls and NaN are missing values.
        progress
            Whether to show the number of completed rows on stderr, with tqdm if it is installed,
            else as text. The result does not depend on `progress`.

        Returns
        -------
        `density_one` of each row: a series of the same library as `X`, or an array if `X` is an
        array. A pandas series has the index of `X`.

        """
        frame, out = self._read_many(X, LOG_DENSITY, -math.inf, progress)
        values = np.array([_exp(value) for value in out.tolist()])
        return native_series(values, name="density", like=frame)

    @locked
    def surprise_many(self, X: Any, *, progress: bool = False) -> Any:
        """Return `surprise_one` of each row of a frame.

        Raises the same errors as `log_density_many`.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...
            Values are numbers; nulls and NaN are missing values.
        progress
            Whether to show the number of completed rows on stderr, with tqdm if it is installed,
            else as text. The result does not depend on `progress`.

        Returns
        -------
        `surprise_one` of each row: a series of the same library as `X`, or an array if `X` is an
        array. A pandas series has the index of `X`.

        """
        frame, out = self._read_many(X, FLOORED, -0.0, progress)
        return native_series(-out, name="surprise", like=frame)

    @locked
    def score_many(self, X: Any, *, progress: bool = False) -> Any:
        """Return `score_one` of each row of a frame.

        Raises the same errors as `log_density_many`.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array whose columns are the features 0, 1, ...
            Values are numbers; nulls and NaN are missing values.
        progress
            Whether to show the number of completed rows on stderr, with tqdm if it is installed,
            else as text. The result does not depend on `progress`.

        Returns
        -------
        `score_one` of each row: a series of the same library as `X`, or an array if `X` is an
        array. A pandas series has the index of `X`.

        """
        frame, out = self._read_many(X, SCORE, 0.0, progress)
        return native_series(out, name="score", like=frame)


def _exp(value: float) -> float:
    return math.exp(value) if value < 709.0 else float(np.exp(np.float64(min(value, 800.0))))


# Volumes of cells are finite and above 0 at lifetimes within these bounds.
SHORTEST_LIFETIME, LONGEST_LIFETIME = 1e-100, 1e100


def check_lifetime_size(lifetime: Any, when: str = "") -> None:
    """Raise an error unless a lifetime is a number within `SHORTEST_` and `LONGEST_LIFETIME`."""
    if not arguments.is_real(lifetime) or not SHORTEST_LIFETIME <= lifetime <= LONGEST_LIFETIME:
        ends = f"{SHORTEST_LIFETIME:g} to {LONGEST_LIFETIME:g}"
        raise ValueError(f"lifetime must be a number from {ends}, got {lifetime!r}{when}")


def exact_density(X: Any, x: Any, lifetime: float) -> float | Floats:
    """Return the limit of the density of a forest as the number of Mondrian trees grows.

    The limit holds for `DensityForest` with one lifetime, `method="forest"` and cuts along the
    axes. It is the kernel density estimate of Theorem 5.1 in [^1]. The kernel in each dimension is
    lifetime E_2(lifetime |x - X_i|), where E_2(t) = exp(-t) - t E_1(t) is a generalized exponential
    integral.

    Parameters
    ----------
    X
        The samples: a pandas, polars or pyarrow frame, or an array of shape (n, d).
    x
        A point: a mapping from the frame's columns to numbers, or a vector of d numbers in the
        order of the columns. For k points, `x` is a frame with the same columns, or an array of
        shape (k, d).
    lifetime
        Lifetime of the trees, for features in their own units, as in `DensityForest`.

    Returns
    -------
    The density, a float; or an array of shape (k,) for k points.

    Raises
    ------
    TypeError
        If a value is not a number.
    ValueError
        If there are no samples, values are missing or infinite, or `X` and `x` have different
        features. The same error is raised if the lifetime is not from 1e-100 to 1e100.

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
        raise ValueError("X must have at least one row")
    is_single = isinstance(x, Mapping)
    if is_single:
        if names is None:
            raise ValueError("x may be a mapping only if X is a frame")
        if set(x) != set(names):
            raise ValueError(f"x must have the features {names!r}, got {list(x)!r}")
        x = [check_value(name, x[name]) for name in names]
    elif not hasattr(x, "columns") or names is None:
        is_single = np.ndim(x) == 1
    queries = _matrix("x", np.reshape(x, (1, -1)) if is_single else x, names)[1]
    if queries.shape[1] != samples.shape[1]:
        raise ValueError(f"x must have {samples.shape[1]} features like X, got {queries.shape[1]}")
    densities = np.empty(len(queries))
    for i, query in enumerate(queries):
        # Theorem 5.1 of O'Reilly and Tran (2022): in each dimension, the kernel is lifetime E_2(t)
        # with t = lifetime |x - X_i|. Their Equation 15 has the factors of E_2(t) = exp(-t) h(t),
        # where h(t) = 1 - t exp(t) E_1(t).
        with np.errstate(divide="ignore"):
            logs = np.log(expn(2, lifetime * np.abs(samples - query))) + math.log(lifetime)
        densities[i] = np.exp(logs.sum(axis=1)).mean()
    return float(densities[0]) if is_single else densities


def _matrix(
    what: str, values: Any, names: list[Hashable] | None
) -> tuple[list[Hashable] | None, Floats]:
    """Return the names and values of a frame or array, with columns in the order of `names`."""
    if hasattr(values, "columns"):
        _, columns, matrix = read_frame(values)
        if names is not None:
            if set(columns) != set(names):
                raise ValueError(f"{what} must have the features {names!r}, got {columns!r}")
            index_of = {name: i for i, name in enumerate(columns)}
            matrix = matrix[:, [index_of[name] for name in names]]
            columns = names
    else:
        columns, matrix = None, np.asarray(values, dtype=np.float64)
        if matrix.ndim != 2:
            raise ValueError(f"{what} must have two dimensions, got {matrix.ndim}")
    if not np.isfinite(matrix).all():
        row, i = np.argwhere(~np.isfinite(matrix))[0]
        name, value = i if columns is None else columns[i], float(matrix[row, i])
        raise ValueError(f"{what} must be finite, got {value} for feature {name!r} in row {row}")
    return columns, matrix
