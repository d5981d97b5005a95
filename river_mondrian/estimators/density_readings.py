"""What density forests tell: densities, surprises and scores."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..density.mixture import FLOORED, LOG_DENSITY, SCORE
from ..density.trees import PivotTrees
from ..frames import native_series, read_frame
from ..inputs import FeatureIndex, too_large
from ..limits import LARGEST
from ..model import Model, locked
from ..progress import pieces


class DensityReadings(Model):
    """A model over trees with densities."""

    _features: FeatureIndex
    _trees: PivotTrees | None

    @abc.abstractmethod
    def _settle(self) -> None:
        """Finish what an interrupted call has begun."""

    def _too_large(self, place: int, x: Mapping[Any, Any]) -> ValueError:
        name = self._features.names[place]
        return too_large(name, x[name])

    # Prediction.

    def log_density_one(self, x: Mapping[Any, Any]) -> float:
        """Return the logarithm of the density at a sample.

        Parameters
        ----------
        x
            A mapping from feature to number.

        Returns
        -------
        The logarithm, minus infinity where the density is 0, as it is before any learning. It
        may be finite where the density itself is too small or large for a float.

        Raises
        ------
        TypeError
            If a value is no number.
        ValueError
            If a value is infinite or too large for single precision.

        """
        return self._read(x, LOG_DENSITY, -math.inf)

    def _read(self, x: Mapping[Any, Any], reading: int, before: float) -> float:
        """Return what trees tell of a sample, or another number before any learning."""
        with self._lock:
            trees = self._trees
            if trees is None:
                self._features.read(x)
                return before
            if trees.is_unfinished[0]:
                self._settle()
            self._features.read_into(x, trees.vector)
            found = trees.read(reading)
            if math.isnan(found):
                raise self._too_large(int(np.argmax(np.abs(trees.vector) > LARGEST)), x)
            return found

    def density_one(self, x: Mapping[Any, Any]) -> float:
        """Return the density at a sample, per unit of volume of the features.

        Errors are those of `log_density_one`.

        Parameters
        ----------
        x
            A mapping from feature to number; unknown features are ignored.

        Returns
        -------
        The density; 0 before any learning.

        """
        return _exp(self.log_density_one(x))

    def surprise_one(self, x: Mapping[Any, Any]) -> float:
        """Return minus the logarithm of the density, or of its floor.

        Errors are those of `log_density_one`.

        Parameters
        ----------
        x
            A mapping from feature to number; unknown features are ignored.

        Returns
        -------
        The surprise in nats, the higher the rarer the sample. Where the density is 0, as no tree
        has a sample in its cell, each tree's cell counts that was the last, before it was cut, to
        hold a sample, as if it held one: the further from all samples, the larger. So a surprise is
        always finite. It is 0 before any learning.

        """
        return -self._read(x, FLOORED, -0.0)

    def score_one(self, x: Mapping[Any, Any]) -> float:
        """Return an anomaly score within [0, 1].

        It tells the sample's rarity r: how far its surprise is above the median surprise of the
        samples learned, each before it was learned, in units of their mean deviation from that.
        The score is (1 + r / (1 + |r|)) / 2: 1/2 for the median, 3/4 one mean deviation above it,
        .95 nine. So it increases with the surprise, and what is usual follows the latest 512
        samples or so.

        With lifetime "auto" r is the largest of those by each lifetime at which a sample shares its
        cells with 1/256 to 1/4 of all samples: what is rare in the large, as samples apart from the
        others that resemble each other, is told as well as what is rare in detail.

        With an `origin` and a lifetime that does not grow, where nothing depends on the order of
        samples, the score is 1 / (1 + m), with m the number of samples that the density gives to
        the mean volume of a cell, (2 / lifetime)^d.

        Errors are those of `log_density_one`.

        Parameters
        ----------
        x
            A mapping from feature to number; unknown features are ignored.

        Returns
        -------
        The score; 0 before any learning.

        """
        return self._read(x, SCORE, 0.0)

    def _read_many(
        self, X: Any, reading: int, before: float, progress: bool
    ) -> tuple[Any, NDArray[np.float64]]:
        frame, names, columns = read_frame(X)
        out = np.full(len(columns), before)
        if self._trees is not None:
            rows = self._features.arrange(names, columns, len(self._features))
            for part in pieces(len(rows), progress):
                self._trees.read_many(rows[part], out[part], reading)
        return frame, out

    @locked
    def log_density_many(self, X: Any, *, progress: bool = False) -> Any:
        """Return the logarithm of the density at each row of a frame.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ..., with numbers;
            nulls and NaN are missing.
        progress
            Whether to show on stderr how many rows have been read, by tqdm or, without it, as
            lines of text. The result is the same, bit for bit.

        Returns
        -------
        A series or array like `X` (and with its pandas index), with `log_density_one` of each row.

        Raises
        ------
        TypeError
            If a column holds something that is no number.
        ValueError
            If a value is infinite or too large, or a column is doubled.

        """
        frame, out = self._read_many(X, LOG_DENSITY, -math.inf, progress)
        return native_series(out, name="log_density", like=frame)

    @locked
    def density_many(self, X: Any, *, progress: bool = False) -> Any:
        """Return the density at each row of a frame.

        Errors are those of `log_density_many`.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ..., with numbers;
            nulls and NaN are missing.
        progress
            Whether to show on stderr how many rows have been read, by tqdm or, without it, as
            lines of text. The result is the same, bit for bit.

        Returns
        -------
        A series or array like `X` (and with its pandas index), with `density_one` of each row.

        """
        frame, out = self._read_many(X, LOG_DENSITY, -math.inf, progress)
        values = np.array([_exp(value) for value in out.tolist()])
        return native_series(values, name="density", like=frame)

    @locked
    def surprise_many(self, X: Any, *, progress: bool = False) -> Any:
        """Return `surprise_one` of each row of a frame.

        Errors are those of `log_density_many`.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ..., with numbers;
            nulls and NaN are missing.
        progress
            Whether to show on stderr how many rows have been read, by tqdm or, without it, as
            lines of text. The result is the same, bit for bit.

        Returns
        -------
        A series or array like `X` (and with its pandas index), with `surprise_one` of each row.

        """
        frame, out = self._read_many(X, FLOORED, -0.0, progress)
        return native_series(-out, name="surprise", like=frame)

    @locked
    def score_many(self, X: Any, *, progress: bool = False) -> Any:
        """Return `score_one` of each row of a frame.

        Errors are those of `log_density_many`.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ..., with numbers;
            nulls and NaN are missing.
        progress
            Whether to show on stderr how many rows have been read, by tqdm or, without it, as
            lines of text. The result is the same, bit for bit.

        Returns
        -------
        A series or array like `X` (and with its pandas index), with `score_one` of each row.

        """
        frame, out = self._read_many(X, SCORE, 0.0, progress)
        return native_series(out, name="score", like=frame)


def _exp(value: float) -> float:
    return math.exp(value) if value < 709.0 else float(np.exp(np.float64(min(value, 800.0))))
