"""What learners on a feature map keep for its columns, as estimators see it."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ..features.base import CompiledMap


class Weights(abc.ABC):
    """What a learner has learned for the columns of one compiled map."""

    compiled: CompiledMap

    @abc.abstractmethod
    def learn(self, x: int, target: float, weight: float) -> int:
        """Learn the sample at an address; returns DONE, or the place of a bad input.

        The address is 0 where the map holds the outputs of the sample.
        """

    @abc.abstractmethod
    def learn_rows(
        self, out: NDArray[Any], targets: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> None:
        """Learn mapped samples."""

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """Bytes held, without the map."""
