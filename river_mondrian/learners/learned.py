"""The memory of a learner: its record, and the arrays that it has learned."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..checks import check_arrays, check_types, refuse
from ..records import Memory, OwnsArrays, Record, owned
from ..restored import Rows, check_numbers

R = TypeVar("R", bound=Record)
Array = NDArray[np.float64]
Numbers = tuple[Any, ...]

# Where predictions go that have a place of their own.
NOWHERE = np.zeros(0)


class Learned(OwnsArrays, abc.ABC, Generic[R]):
    """The memory of a record whose state is `learned`; its other arrays hold the last sample.

    Numbers of the record are checked by their declarations when the memory is restored.
    """

    # The record.
    _KIND: ClassVar[type[Record]]
    # The type of most arrays, and their least and largest number if they hold no NaN.
    _OTHERS: ClassVar[Numbers] = (np.float64, -math.inf, math.inf)

    def __init__(self) -> None:
        self.memory: Memory[R] = Memory(self._KIND)  # type: ignore[arg-type]
        self.learned: dict[str, NDArray[Any]] = {}

    def _begin(self) -> None:
        """Make the arrays, of zeros."""
        for name, shape in self._shapes().items():
            self.learned[name] = np.zeros(shape, self._numbers_of(name)[0])

    @property
    def record(self) -> R:
        """The record, for kernels."""
        return self.memory[0]

    @abc.abstractmethod
    def _shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of the arrays."""

    def _numbers(self) -> Mapping[str, Numbers]:
        """Return the type and the least and largest number of arrays that differ from most."""
        return {}

    def _numbers_of(self, name: str) -> Numbers:
        return self._numbers().get(name.partition("[")[0], self._OTHERS)

    def _own(self, lengths: Mapping[str, int]) -> None:
        """Let the record refer to what has been learned, and to new arrays of these lengths."""
        for name, array in self.learned.items():
            self.memory.own(name, array.ravel())
        for name, length in lengths.items():
            self.memory.own(name, np.zeros(length))

    def _show(self) -> None:
        """Let the record refer to its arrays."""
        self._own({})
        self._own_prediction(self.memory)

    def _own_prediction(self, memory: Memory[R], predicted: Array = NOWHERE) -> None:
        """Give a record the memory that the prediction of a sample is written to."""

    def reader(self, predicted: Array = NOWHERE) -> Memory[R]:
        """Return a copy of the record for another thread, with memory of its own to predict."""
        copy = self.memory.copied()
        self._own_prediction(copy, predicted)
        return copy

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.memory.nbytes

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        check_types(self, {"memory": Memory, "learned": dict})
        if self.memory.kind is not self._KIND or len(self.memory) != 1:
            refuse(self, "memory", self.memory.kind, f"but it should be of {self._KIND.__name__}")
        check_numbers(type(self).__name__, Rows.of_memory(self.memory))
        self._check()
        shapes = self._shapes()
        if self.learned.keys() != shapes.keys():
            refuse(self, "learned", list(self.learned), "but other arrays were stored")
        arrays: dict[str, Numbers] = {}
        for name, shape in shapes.items():
            dtype, *bounds = self._numbers_of(name)
            arrays[name] = (dtype, shape, *bounds)
        check_arrays(self, arrays, self.learned)
        self.learned = owned(self.learned)
        self._show()

    def _check(self) -> None:
        """Refuse a restored record whose numbers do not fit each other."""
