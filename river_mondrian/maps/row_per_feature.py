"""Maps with random numbers that belong to a feature by its name, whenever it appears."""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import check_number, check_types
from ..records.chunked_rows import grown
from .compiled import CompiledMap


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
    n_out, n_columns, dense
        As for `CompiledMap`.
    width
        Numbers per row.

    """

    def __init__(self, seed: int, n_out: int, n_columns: int, dense: bool, width: int) -> None:
        super().__init__(0, n_out, n_columns, 0, dense, sparse=True)
        self.seed = seed
        self.rows = np.zeros((1, width))

    def __getstate__(self) -> dict[str, Any]:
        # Without the room for features to come.
        return super().__getstate__() | {"rows": self.rows[: self.n_inputs].copy()}

    def _check(self) -> None:
        check_types(self, {"seed": int, "rows": np.ndarray})
        check_number(self, "is_sparse", self.record.is_sparse, 1, 1)
        check_number(self, "n_out", self.n_out, 1, 2 * self.rows.size)

    @abc.abstractmethod
    def _draw(self, rng: np.random.Generator, row: NDArray[np.float64]) -> None:
        """Draw the row of a feature."""

    def add(self, names: Sequence[Hashable]) -> None:
        """Draw the rows of the features that have none yet, behind those in use."""
        n = self.n_inputs
        self.rows = grown(self.rows, len(names))
        for place in range(n, len(names)):
            self._draw(generator_of(self.seed, names[place]), self.rows[place])
        self.record.n_inputs = len(names)
        self._bind()
