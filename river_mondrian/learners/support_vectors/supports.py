"""What a learner asks of its support vectors."""

from __future__ import annotations

import abc
from collections.abc import Hashable, Mapping
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

    @property
    def is_final(self) -> bool:
        """Whether the kernel learns nothing more."""
        return True

    def parts(self) -> list[Any]:
        """Return the objects that `observe` and `add` change; these replace, or extend, what is."""
        return [self]

    @abc.abstractmethod
    def check(self, x: Mapping[Any, Any]) -> dict[Hashable, float]:
        """Check a mapping's values, and return those that count."""

    def observe(self, values: Mapping[Hashable, float]) -> None:
        """Let the kernel learn from a checked sample."""

    @abc.abstractmethod
    def sample(self, values: dict[Hashable, float]) -> S:
        """Turn a checked sample into what is kept."""

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
