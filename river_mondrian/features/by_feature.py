"""Feature maps with random numbers that belong to a feature by its name."""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..changes import Snapshot
from ..maps.compiled import CompiledMap
from ..maps.record import Sample
from ..maps.row_per_feature import RowPerFeature
from .base import FeatureMap


def draw_seed(seed: int | None) -> int:
    """Return a seed, a fresh one for None."""
    if seed is not None:
        return int(seed)
    drawn = np.random.SeedSequence().entropy
    assert isinstance(drawn, int)
    return drawn


class ByFeature(FeatureMap):
    """A map that learns which features there are: each has random numbers of its own."""

    seed: int | None
    _map: RowPerFeature | None

    @abc.abstractmethod
    def _make(self, seed: int) -> RowPerFeature:
        """Return the map without any feature."""

    def _know(self) -> RowPerFeature:
        """Return the map with all features that the reader knows, made at first use."""
        if self._map is None:
            self._map = self._make(draw_seed(self.seed))
            self._map._finish()
        if self._map.n_inputs < len(self._reader.index):
            self._map.add(self._reader.index.names)
        return self._map

    def _locate(self, x: Mapping[Any, Any], compiled: CompiledMap) -> Sample:
        return self._reader.read_ordered(x)

    def _knows(self, x: Mapping[Any, Any]) -> bool:
        return self._map is not None and self._reader.knows(x)

    def _observe(self, values: Mapping[Hashable, float]) -> list[Callable[[], object]]:
        self._reader.add(values)
        self._know()
        return []

    def _new_rows(self, names: Sequence[Hashable], columns: NDArray[np.float64]) -> Collection[int]:
        return set(self._reader.index.first_rows(names, columns).values())

    def _learn_rows(self, names: Sequence[Hashable], columns: NDArray[np.float64]) -> None:
        self._pending = Snapshot(self._changing())
        self._reader.add_columns(names, columns)
        self._know()
        self._pending = None

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Draw the random numbers of features that are new.

        Parameters
        ----------
        x
            A mapping from feature to number. NaN is the same as an absent key.

        Raises
        ------
        TypeError
            If a value is no number.
        ValueError
            If a value is infinite or too large for single precision.

        """
        with self._lock:
            if self._pending is not None:
                self._settle()
            values = self._reader.index.read(x)
            if not self._knows(values):
                self._learn_new(values)
