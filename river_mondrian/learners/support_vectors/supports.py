"""What a learner asks of its support vectors."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

S = TypeVar("S")


class SupportVectors(abc.ABC, Generic[S]):
    """A growing list of samples under a kernel; `S` is a sample as it is kept."""

    # Number of support vectors.
    n = 0

    def __len__(self) -> int:
        return self.n

    @abc.abstractmethod
    def observe(self, x: Mapping[Any, Any]) -> None:
        """Let the kernel learn from a sample."""

    @abc.abstractmethod
    def read(self, x: Mapping[Any, Any]) -> S:
        """Check a sample, and turn it into what is kept."""

    @abc.abstractmethod
    def add(self, sample: S) -> None:
        """Append a sample."""

    @abc.abstractmethod
    def weighted_sums(self, sample: S, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of coefficient times kernel over the support vectors, for each column.

        It is f(x) of Algorithm 1 (Ting et al. 2021), line 3, with alpha c for the coefficients.
        """

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """Bytes held."""
