"""Maps with random numbers that belong to a feature by its name, whenever it appears."""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arena import grown
from ..kernels import maps
from .base import CompiledMap, FeatureMap


def draw_seed(seed: int | None) -> int:
    """Return a seed, a fresh one for None."""
    if seed is not None:
        return int(seed)
    drawn = np.random.SeedSequence().entropy
    assert isinstance(drawn, int)
    return drawn


def generator_of(seed: int, name: Hashable) -> np.random.Generator:
    """Return the generator of a feature, the same whatever other features there are."""
    text = f"{seed} {'str' if isinstance(name, str) else 'other'} {name}"
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


class RowPerFeature(CompiledMap):
    """A map with a row of random numbers for each feature, drawn by the feature's name.

    Parameters
    ----------
    seed
        Seed of all rows.
    n_out, n_columns, dense, n_words
        As for `CompiledMap`.
    width
        Numbers per row.

    """

    def __init__(
        self, seed: int, n_out: int, n_columns: int, dense: bool, n_words: int, width: int
    ) -> None:
        super().__init__(0, n_out, n_columns, 0, dense, sparse=True, n_words=n_words)
        self.seed = seed
        self.rows = np.zeros((1, width))

    @abc.abstractmethod
    def _draw(self, rng: np.random.Generator, row: NDArray[np.float64]) -> None:
        """Draw the row of a feature."""

    def add(self, names: Sequence[Hashable]) -> None:
        """Draw the rows of the features that have none yet."""
        n = self.n_inputs
        self.rows = grown(self.rows, len(names))
        for place in range(n, len(names)):
            self._draw(generator_of(self.seed, names[place]), self.rows[place])
        self.record[maps.N_INPUTS] = len(names)
        self._bind()


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

    def _locate(self, x: Mapping[Any, Any], compiled: CompiledMap) -> int:
        return self._reader.read_ordered(x)

    def _observe(self, x: Mapping[Any, Any]) -> None:
        if self._map is None or not self._reader.knows(x):
            self.learn_one(x)

    def _observe_rows(self, names: Sequence[Hashable], columns: NDArray[np.float64]) -> None:
        self._reader.add_columns(names, columns)
        self._know()

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
        self._reader.add(self._reader.index.read(x))
        self._know()
