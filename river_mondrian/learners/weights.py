"""What learners on a feature map keep for its columns, as estimators see it."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..maps.record import CompiledMap, Pool, Sample


class Weights(abc.ABC):
    """What a learner has learned for the columns of one compiled map."""

    compiled: CompiledMap

    @property
    @abc.abstractmethod
    def n_learned(self) -> int:
        """Samples learned; kernels count them as they learn."""

    @abc.abstractmethod
    def learn(self, sample: Sample, target: float, weight: float, is_mapped: bool = False) -> int:
        """Learn a sample; returns DONE, or the place of a bad input.

        Where it `is_mapped` the map holds its outputs.
        """

    @abc.abstractmethod
    def learn_rows(
        self, out: NDArray[Any], targets: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> None:
        """Learn mapped samples."""

    def learn_stored(
        self,
        pool: Pool,
        start: int,
        targets: NDArray[np.float64],
        weights: NDArray[np.float64],
    ) -> None:
        """Learn samples of a pool from `start` on."""
        out = self.compiled.transform_stored(pool, start, start + len(targets))
        self.learn_rows(out, targets, weights)

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """Bytes held, without the map."""
