"""What the maps share that put a sample into one cell of each partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.compiled import Array
from ..model import locked
from .base import FeatureMap


class CellFeatures(FeatureMap):
    """Base of the maps of cells."""

    def _cells(self, columns: Array) -> Array:
        """Turn columns into what numbers the cells of each partition."""
        return columns.astype(np.int64)

    @locked
    def kernel(self, x: Mapping[Any, Any], y: Mapping[Any, Any]) -> float:
        """Return the share of partitions in which two samples fall into the same cell.

        Parameters
        ----------
        x, y
            Mappings from feature to number.

        Returns
        -------
        The share, from 0 to 1: the kernel of the samples.

        Raises
        ------
        RuntimeError
            If the map cannot map yet.

        """
        # Equation 2 of the isolation kernel's paper; here for any partitions.
        return float((self._codes(x) == self._codes(y)).mean())

    def _codes(self, x: Mapping[Any, Any]) -> Array:
        """Return what tells a sample's cells from others."""
        return self._output(x).copy()

    @locked
    def cells_one(self, x: Mapping[Any, Any]) -> NDArray[np.int64]:
        """Return the cell of each partition in which a sample falls.

        Parameters
        ----------
        x
            A mapping from feature to number, or to a level where the map takes such.

        Returns
        -------
        The numbers of the cells, shape (n_partitions,).

        Raises
        ------
        RuntimeError
            If the map cannot map yet.

        """
        return self._cells(self._output(x))

    @locked
    def cells_many(self, X: Any, *, progress: bool = False) -> NDArray[np.int64]:
        """Return the cells in which the rows of a frame fall.

        Parameters
        ----------
        X
            A frame (pandas, polars, pyarrow), or an array of the features 0, 1, ..., with numbers.
        progress
            Whether to show on stderr how many rows have been mapped, by tqdm or, without it, as
            lines of text. The result is the same, bit for bit.

        Returns
        -------
        The numbers of the cells, shape (n_rows, n_partitions).

        Raises
        ------
        RuntimeError
            If the map cannot map yet.

        """
        return self._cells(self._read(X, progress)[1])
